# SPDX-License-Identifier: Apache-2.0
"""Whether outputs are what a test of the onnx package expects, by the package's own comparison."""

from __future__ import annotations

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
    if not isinstance(got, np.ndarray):
        return f"{_kind(got)}, expected {_kind(want)}"
    want = np.asarray(want)
    if got.shape != want.shape:
        return f"shape {list(got.shape)}, expected {list(want.shape)}"
    if want.dtype != object and got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
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
