# SPDX-License-Identifier: Apache-2.0
"""Fits the quotients of polynomials by which the native engine computes tanh and erf in float32,
and prints them.

    .venv/bin/python tools/fit_rational.py    # for tanh_any() and erf_any() in functions.inc

Each is x p(x^2) / q(x^2) from 0 to where the function is 1 in float32, with the relative error even
over the interval: least squares on p - f q, whose weights grow where the error is large (Lawson's
method) and have the last round's q as their divisor.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np

POINTS, ROUNDS = 3000, 300


def fit(
    function: Callable[[float], float], end: float, above: int, below: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Coefficients of p and q in x^2, from the constant on, and the largest relative error."""
    x = end / 2 - end / 2 * np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)
    z = (x / end) ** 2  # the powers of x itself would differ too much in size
    values = np.array([function(each) for each in x])
    upper = x[:, None] * np.vander(z, above + 1, increasing=True)
    lower = np.vander(z, below + 1, increasing=True)[:, 1:]
    rows = np.concatenate([upper, -values[:, None] * lower], axis=1)
    lawson = np.full(POINTS, 1 / POINTS)
    divisor = np.ones(POINTS)
    best, least = np.zeros(above + below + 1), math.inf
    for _ in range(ROUNDS):
        scale = np.sqrt(lawson) / (values * divisor)
        found = np.linalg.lstsq(rows * scale[:, None], values * scale, rcond=None)[0]
        divisor = 1 + lower @ found[above + 1 :]
        errors = np.abs(upper @ found[: above + 1] / divisor / values - 1)
        if errors.max() < least:
            best, least = found, float(errors.max())
        lawson = lawson * (errors / errors.max() + 1e-4) ** 0.7
        lawson /= lawson.sum()
    p = best[: above + 1] / end ** (2.0 * np.arange(above + 1))
    q = np.concatenate([[1.0], best[above + 1 :]]) / end ** (2.0 * np.arange(below + 1))
    return p, q, least


def horner(name: str, coefficients: np.ndarray) -> list[str]:
    """Statements that evaluate the polynomial in z."""
    first, *others = reversed(coefficients)
    lines = [f"  float {name} = {first:.8e}F;"]
    lines += [f"  {name} = {name} * z + {each:.8e}F;" for each in others]
    return [line.replace("+ -", "- ") for line in lines]


def main() -> None:
    """Prints the statements, and the errors of the fits."""
    for name, function, end, above, below in (
        ("tanh", math.tanh, 9.0, 5, 4),
        ("erf", math.erf, 3.95, 6, 4),
    ):
        p, q, error = fit(function, end, above, below)
        print("\n".join([f"// {name}, |x| <= {end}", *horner("p", p), *horner("q", q)]))
        print(f"relative error of the fit of {name}: {error:.1e}", file=sys.stderr)


if __name__ == "__main__":
    main()
