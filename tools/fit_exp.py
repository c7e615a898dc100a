# SPDX-License-Identifier: Apache-2.0
"""Fits the polynomial by which the native engine computes e^x, and prints it.

    .venv/bin/python tools/fit_exp.py    # coefficients of ExpParts in functions.inc

The fit is of 1 + x + x^2 p(x) to e^x between -ln2 / 2 and ln2 / 2, with the relative error even
over the interval: least squares, whose weights grow where the error is large (Lawson's method).
"""

from __future__ import annotations

import numpy as np

POINTS, ROUNDS, DEGREE = 4000, 60, 4


def main() -> None:
    """Prints the coefficients, the highest first, and the largest relative error."""
    x = np.cos(np.linspace(0, np.pi, POINTS)) * np.log(2) / 2
    powers = np.stack([x ** (2 + k) for k in range(DEGREE + 1)], axis=1)
    exact = np.exp(x)
    weights = np.ones_like(x)
    found = np.zeros(DEGREE + 1)
    errors = weights
    for _ in range(ROUNDS):
        scale = weights / exact
        found, *_rest = np.linalg.lstsq(
            powers * scale[:, None], (exact - 1 - x) * scale, rcond=None
        )
        errors = np.abs((powers @ found + 1 + x) / exact - 1)
        weights *= (errors / errors.max() + 1e-3) ** 0.3
        weights /= weights.mean()
    for value in reversed(found):
        print(f"{np.float32(value):.7e}F")
    print(f"relative error {errors.max():.1e}")


if __name__ == "__main__":
    main()
