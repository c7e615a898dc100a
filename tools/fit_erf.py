# SPDX-License-Identifier: Apache-2.0
"""Fits the polynomials by which the native engine computes erf in float32, and prints them.

    .venv/bin/python tools/fit_erf.py    # statements of erf1() in vector_ops.inc

Below 1 the fit is of erf(x) / x - 1 in x^2, with the error relative to erf. From 1 to 4, where erf
in float32 becomes 1, it is of -log(erfc(x)) in x - 2.5, with the error weighted by erfc: that is
what an error of the exponent makes of 1 - exp(-q). Both are minimax fits by Lawson's method: least
squares, whose weights grow where the error is large, until the largest errors are even.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np

SPLIT, END, CENTRE = 1.0, 4.0, 2.5
POINTS, ROUNDS = 2000, 400


def fit(
    function: Callable[[float], float],
    weight: Callable[[float], float],
    begin: float,
    end: float,
    degree: int,
) -> tuple[np.ndarray, float]:
    """Coefficients from the constant on, and the largest weighted error."""
    t = (begin + end) / 2 - (end - begin) / 2 * np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)
    values = np.array([function(each) for each in t])
    scale = np.array([weight(each) for each in t])
    powers = np.vander(t, degree + 1, increasing=True)
    lawson = np.full(POINTS, 1 / POINTS)
    best, least = np.zeros(degree + 1), math.inf
    for _ in range(ROUNDS):
        rows = scale * np.sqrt(lawson)
        found = np.linalg.lstsq(powers * rows[:, None], values * rows, rcond=None)[0]
        errors = np.abs(powers @ found - values) * scale
        if errors.max() < least:
            best, least = found, float(errors.max())
        lawson = lawson * errors
        lawson /= lawson.sum()
    return best, least


def near(z: float) -> float:
    """erf(x) / x - 1 for z = x^2."""
    x = math.sqrt(z)
    return math.erf(x) / x - 1 if x > 0 else 2 / math.sqrt(math.pi) - 1


def near_weight(z: float) -> float:
    """Of an error of near() in the result, relative to it."""
    return 1 / (1 + near(z))


def far(s: float) -> float:
    """-log(erfc(x)) for s = x - CENTRE."""
    return -math.log(math.erfc(s + CENTRE))


def far_weight(s: float) -> float:
    """Of an error of far() in the result, relative to it."""
    return math.erfc(s + CENTRE) / math.erf(s + CENTRE)


def horner(name: str, variable: str, coefficients: np.ndarray) -> list[str]:
    """Statements that evaluate the polynomial."""
    first, *others = reversed(coefficients)
    lines = [f"  float {name} = {first:.8e}F;"]
    lines += [f"  {name} = {name} * {variable} + {each:.8e}F;" for each in others]
    return [line.replace("+ -", "- ") for line in lines]


def main() -> None:
    """Prints the statements, and the errors of the fits."""
    small, small_error = fit(near, near_weight, 0, SPLIT**2, 6)
    large, large_error = fit(far, far_weight, SPLIT - CENTRE, END - CENTRE, 6)
    lines = [*horner("p", "z", small), *horner("q", "s", large)]
    print("\n".join(lines))
    print(f"relative errors of the fits: {small_error:.1e}, {large_error:.1e}", file=sys.stderr)


if __name__ == "__main__":
    main()
