# SPDX-License-Identifier: Apache-2.0
"""Whether outputs are what a test of the onnx package expects, by the package's own comparison."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from onnx.backend.test.runner import Runner


def mismatch(expected: list[Any], outputs: list[Any], rtol: float, atol: float) -> str | None:
    """None when the outputs agree; else where and how they differ, in one line.

    Tensors go through the onnx package's `Runner.assert_similar_outputs`: shape, dtype, values
    within its tolerances, strings equal. That function takes neither absent optionals nor sequences
    of scalars, so lists and None are walked here.
    """
    if len(outputs) != len(expected):
        return f"{len(outputs)} outputs, expected {len(expected)}"
    for index, (want, got) in enumerate(zip(expected, outputs, strict=True)):
        reason = _differs(want, got, rtol, atol)
        if reason:
            return f"output {index}: {reason}"
    return None


# Numbers beyond lose their digits in what is computed with them.
LARGEST_COMPARED = 1e4


def part_wrong(
    got: np.ndarray, want: np.ndarray, near: np.ndarray, tolerance: float
) -> float | str:
    """The part of the elements that differ by more than rounding, or why none is comparable.

    Args:
        got: what is judged.
        want: what is right.
        near: what is right for inputs nearby: where it differs, rounding may, too.
        tolerance: of the largest element.
    """
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{_kind(got)}, expected {_kind(want)}"
    if want.size == 0:
        return 0.0
    if want.dtype.kind != "f":
        return float(((got != want) & (want == near)).mean())
    g, w, n = (array.astype(np.float64) for array in (got, want, near))
    if not np.isfinite([w, n]).all() or np.abs(w).max() > LARGEST_COMPARED:
        return 0.0
    moved = np.abs(w - n)
    # What is left of larger numbers in a result near zero is no digit.
    bound = tolerance * max(np.abs(w).max(), 0.5) + 50 * moved + 20 * moved.max()
    return float((~(np.abs(g - w) <= bound)).mean())


def most_wrong(
    got: Iterable[np.ndarray],
    want: Iterable[np.ndarray],
    near: Iterable[np.ndarray],
    tolerance: float,
) -> float | str:
    """`part_wrong` of the output that is worst, of all outputs of a run."""
    parts = [part_wrong(*arrays, tolerance) for arrays in zip(got, want, near, strict=True)]
    return next((part for part in parts if isinstance(part, str)), None) or max(parts)


def _differs(want: Any, got: Any, rtol: float, atol: float) -> str | None:
    if want is None or got is None:
        return None if want is got else f"{_kind(got)}, expected {_kind(want)}"
    if isinstance(want, (list, tuple)) or isinstance(got, (list, tuple)):
        if not isinstance(got, (list, tuple)) or not isinstance(want, (list, tuple)):
            return f"{_kind(got)}, expected {_kind(want)}"
        if len(got) != len(want):
            return f"sequence of {len(got)}, expected {len(want)}"
        for index, (a, b) in enumerate(zip(want, got, strict=True)):
            reason = _differs(a, b, rtol, atol)
            if reason:
                return f"element {index}: {reason}"
        return None
    if isinstance(want, dict) and isinstance(got, dict):
        if list(got) != list(want):
            return f"keys {list(got)[:5]}, expected {list(want)[:5]}"
        return _differs(
            list(map(np.asarray, want.values())), list(map(np.asarray, got.values())), rtol, atol
        )
    if not isinstance(got, np.ndarray):
        return f"{_kind(got)}, expected {_kind(want)}"
    want = np.asarray(want)
    if got.shape != want.shape:
        return f"shape {list(got.shape)}, expected {list(want.shape)}"
    if want.dtype != object and got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
    if want.dtype.kind == "V":
        # NumPy compares in a common type, which older ml_dtypes do not name. float32 holds all. The
        # package takes two units in the last place of bfloat16.
        if want.dtype.name == "bfloat16":
            rtol = max(rtol, 2**-6)
        want, got = want.astype(np.float32), got.astype(np.float32)
    try:
        Runner.assert_similar_outputs([want], [got], rtol, atol)
    except AssertionError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        useful = [
            line for line in lines if line.startswith(("Mismatched", "Max absolute", "First"))
        ]
        return "values differ: " + "; ".join(useful or lines[:2])
    return None


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, (list, tuple)):
        return "a sequence"
    if isinstance(value, np.ndarray):
        return f"a tensor {value.dtype}{list(value.shape)}"
    return f"a {type(value).__name__}"


# The largest difference of floats over the range of the expected values that rounding explains: a
# sum of a few hundred terms in the dtype. Attributes of float64 ops are float32.
TOLERANCES = {
    "float64": 1e-6,
    "float32": 2e-5,
    "float16": 1e-2,
    "bfloat16": 4e-2,
    "float8_e4m3fn": 0.15,
    "float8_e4m3fnuz": 0.15,
    "float8_e5m2": 0.3,
    "float8_e5m2fnuz": 0.3,
    "complex64": 2e-5,
    "complex128": 1e-6,
}


def loosest_tolerance(arrays: Iterable[Any]) -> float:
    """What results may differ by that are computed of these arrays."""
    names = [array.dtype.name for array in arrays if isinstance(array, np.ndarray)]
    return max((TOLERANCES.get(name, 0.0) for name in names), default=0.0)


def difference(
    expected: list[Any], outputs: list[Any], tolerance: float | None = None
) -> str | None:
    """None where the outputs have the expected shapes, dtypes and values; else what differs first.

    Floats may differ by `tolerance` (TOLERANCES of the dtype) times the largest finite magnitude of
    the expected array; NaN and infinities have to be where they are expected, all else is equal.
    """
    if len(outputs) != len(expected):
        return f"{len(outputs)} outputs, expected {len(expected)}"
    for index, (want, got) in enumerate(zip(expected, outputs, strict=True)):
        reason = _array_differs(want, got, tolerance)
        if reason:
            return f"output {index}: {reason}"
    return None


def _array_differs(want: Any, got: Any, tolerance: float | None) -> str | None:
    if not isinstance(want, np.ndarray) or not isinstance(got, np.ndarray):
        return _differs(want, got, tolerance or 0.0, tolerance or 0.0)
    if got.shape != want.shape:
        return f"shape {list(got.shape)}, expected {list(want.shape)}"
    if want.dtype != object and got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
    bound = TOLERANCES.get(want.dtype.name)
    if bound is None:
        wrong = want != got
        if want.dtype.kind == "V":  # of a few bits, with NaN
            a, b = want.astype(np.float32), got.astype(np.float32)
            wrong &= ~(np.isnan(a) & np.isnan(b))
        text = "values differ"
    else:
        bound = bound if tolerance is None else tolerance
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        a, b = want.astype(wide), got.astype(wide)
        finite = np.isfinite(a)
        span = float(np.abs(a[finite]).max(initial=0.0))
        with np.errstate(invalid="ignore"):
            gap = np.abs(a - b)
            same = (a == b) | (np.isnan(a) & np.isnan(b))
        wrong = ~(same | (finite & (gap <= bound * span)))
        worst = float(gap[wrong].max(initial=0.0))
        text = f"values differ by {worst:.3g}, allowed {bound * span:.3g}"
    if not np.any(wrong):
        return None
    places = np.argwhere(wrong)
    first = tuple(int(i) for i in places[0])
    return (
        f"{text}: {len(places)} of {want.size} elements; at {list(first)} {got[first]!s}, "
        f"expected {want[first]!s}"
    )


def reason_class(reason: str) -> str:
    """A reason without what is particular to one test: numbers, quoted names and shapes."""
    reason = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "…", reason)
    reason = re.sub(r"\[[^\]]*\]", "[…]", reason)
    return re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?%?", "N", reason)[:140]
