# SPDX-License-Identifier: Apache-2.0
"""Reductions, ArgMax, ArgMin, Softmax and CumSum of the native engine over every layout, against
NumPy in double precision: short and long rows, few and many columns, several axes at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import make_model, tensor, untyped

RNG = np.random.default_rng(5)
# Around the widths of vectors, where rows and columns are divided among threads, axes of 1.
SHAPES = [
    (37, 3),
    (5, 16),
    (9, 33),
    (6, 130),
    (70, 1, 7),
    (3, 300, 2),
    (11, 4, 3),
    (2, 5, 40),
    (2, 9, 2100),
    (1, 40000),
    (3, 70, 5, 9),
]
AXES = [(0,), (1,), (-1,), (0, -1), None]


def reduced(op: str, x: np.ndarray, axes: tuple[int, ...] | None, keep: bool) -> np.ndarray:
    """In double precision, integers wrapped."""
    wide = x.astype(np.float64) if x.dtype.kind == "f" else x.astype(np.int64)
    how = {"axis": axes, "keepdims": keep}
    count = x.size // max(np.sum(wide, **how).size, 1)
    formulas: dict[str, Callable[[], np.ndarray]] = {
        "ReduceSum": lambda: np.sum(wide, **how),
        "ReduceMean": lambda: (
            np.mean(wide, **how)
            if x.dtype.kind == "f"
            else np.trunc(np.sum(wide, **how) / count).astype(np.int64)
        ),
        "ReduceMax": lambda: np.max(wide, **how),
        "ReduceMin": lambda: np.min(wide, **how),
        "ReduceProd": lambda: np.prod(wide, **how),
        "ReduceL1": lambda: np.sum(np.abs(wide), **how),
        "ReduceL2": lambda: np.sqrt(np.sum(wide * wide, **how)),
        "ReduceSumSquare": lambda: np.sum(wide * wide, **how),
        "ReduceLogSum": lambda: np.log(np.sum(wide, **how)),
        "ReduceLogSumExp": lambda: np.log(np.sum(np.exp(wide), **how)),
    }
    return formulas[op]()


def run(
    op: str, x: np.ndarray, axes: Sequence[int] | None, opset: int = 18, **attributes: int
) -> np.ndarray:
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    constants = []
    if axes is not None:
        constants = [helper.make_tensor("axes", TensorProto.INT64, [len(axes)], list(axes))]
    node = helper.make_node(op, ["x", *(c.name for c in constants)], ["y"], **attributes)
    model = make_model([node], [tensor("x", kind, x.shape)], [untyped("y")], constants, opset=opset)
    return np.asarray(openxrt.load(model, engine="native", cache_dir="")(x))


def numbers(shape: tuple[int, ...], dtype: str, op: str) -> np.ndarray:
    if dtype.startswith("float"):
        x = RNG.standard_normal(shape)
        if op == "ReduceProd":
            x = 1 + x * 1e-3
        if op == "ReduceLogSum":
            x = np.abs(x)
        return x.astype(dtype)
    least, most = (0, 120) if dtype.startswith("u") else (-100, 100)
    if op == "ReduceProd":
        least, most = 1, 3
    return RNG.integers(least, most, shape).astype(dtype)


OPS = ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("op", OPS)
def test_floats_over_every_layout(op: str, shape: tuple[int, ...]) -> None:
    for dtype, axes, keep in itertools.product(["float32", "float64"], AXES, [False, True]):
        x = numbers(shape, dtype, f"Reduce{op}")
        wanted = reduced(f"Reduce{op}", x, axes, keep)
        found = run(f"Reduce{op}", x, axes, keepdims=int(keep))
        assert found.dtype == x.dtype
        assert found.shape == wanted.shape
        error = np.abs(found - wanted).max()
        scale = max(np.abs(wanted).max(), np.sqrt(x.size) if op in ("Sum", "Mean") else 1)
        rounding = 2e-8 if dtype == "float32" else 4e-17
        steps = x.size // wanted.size if op == "Prod" else 150
        assert error <= max(rounding * steps, 100 * rounding) * scale, (dtype, axes, keep)


INTEGERS = ["int32", "int64", "uint32", "uint64"]
INTEGER_CASES = [
    *itertools.product(["Sum", "Max", "Min", "Prod", "L1", "SumSquare", "Mean"], INTEGERS),
    *itertools.product(["Max", "Min"], ["int8", "uint8"]),
]


@pytest.mark.parametrize(("op", "dtype"), INTEGER_CASES)
def test_integers_over_every_layout(op: str, dtype: str) -> None:
    for shape, axes in itertools.product(SHAPES, AXES):
        x = numbers(shape, dtype, f"Reduce{op}")
        wanted = reduced(f"Reduce{op}", x, axes, False).astype(dtype)
        np.testing.assert_array_equal(run(f"Reduce{op}", x, axes, keepdims=0), wanted)


def test_axes_that_are_not_neighbours() -> None:
    x = RNG.standard_normal((4, 3, 5, 2, 7)).astype(np.float32)
    for count in range(1, 6):
        for axes in itertools.combinations(range(5), count):
            for op in ("ReduceSum", "ReduceMax", "ReduceL1", "ReduceL2", "ReduceLogSumExp"):
                found = run(op, x, axes, keepdims=0)
                np.testing.assert_allclose(
                    found, reduced(op, x, axes, False), rtol=1e-5, atol=1e-5, err_msg=f"{op} {axes}"
                )


@pytest.mark.parametrize("shape", [(40, 3), (7, 50), (3, 6, 40), (2, 400, 3)])
def test_a_nan_is_the_largest_and_the_smallest(shape: tuple[int, ...]) -> None:
    for axis in range(len(shape)):
        x = RNG.standard_normal(shape).astype(np.float32)
        x[RNG.random(shape) < 0.01] = np.nan
        for op, formula in (("ReduceMax", np.max), ("ReduceMin", np.min)):
            np.testing.assert_array_equal(run(op, x, [axis], keepdims=0), formula(x, axis=axis))
        for op, index in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
            found = run(op, x, None, axis=axis, keepdims=0)
            np.testing.assert_array_equal(found, index(x, axis=axis))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_first_or_last_of_equals(shape: tuple[int, ...], dtype: str) -> None:
    x = RNG.integers(0, 6, shape).astype(dtype)  # many are equal
    for axis in range(len(shape)):
        for op, index in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
            first = run(op, x, None, axis=axis, keepdims=0)
            np.testing.assert_array_equal(first, index(x, axis=axis))
            last = run(op, x, None, axis=axis, keepdims=0, select_last_index=1)
            wanted = shape[axis] - 1 - index(np.flip(x, axis), axis=axis)
            np.testing.assert_array_equal(last, wanted)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_over_every_layout(shape: tuple[int, ...], op: str) -> None:
    for axis in range(len(shape)):
        x = (RNG.standard_normal(shape) * 4).astype(np.float32)
        wide = x.astype(np.float64)
        shifted = wide - wide.max(axis, keepdims=True)
        logarithm = shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))
        wanted = logarithm if op == "LogSoftmax" else np.exp(logarithm)
        np.testing.assert_allclose(run(op, x, None, axis=axis), wanted, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(4, 3), (4, 40), (4, 3, 20), (4, 300, 20)])
def test_softmax_of_what_is_masked(shape: tuple[int, ...]) -> None:
    """Minus infinity becomes 0, rows of nothing else and rows with a NaN become NaN."""
    x = RNG.standard_normal(shape).astype(np.float32)
    x[0, 1] = -np.inf
    x[1] = -np.inf
    x[2, 2] = np.nan
    x[3, 0] = 200.0
    for op in ("Softmax", "LogSoftmax"):
        y = run(op, x, None, axis=1)
        assert (y[0, 1] == (0 if op == "Softmax" else -np.inf)).all()
        assert np.isfinite(np.delete(y[0], 1, axis=0)).all()
        assert np.isnan(y[1]).all()
        assert np.isnan(y[2]).all()
        assert np.isfinite(y[3]).all()


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("shape", [(7,), (300, 3), (3, 300), (2, 30, 130)])
def test_running_sums(shape: tuple[int, ...], exclusive: int, reverse: int) -> None:
    for axis, dtype in itertools.product(range(len(shape)), ["float32", "int32"]):
        x = RNG.integers(-9, 9, shape).astype(dtype)
        turned = np.flip(x, axis) if reverse else x
        wanted = np.cumsum(turned, axis, dtype=dtype) - (turned if exclusive else 0)
        node = helper.make_node("CumSum", ["x", "a"], ["y"], exclusive=exclusive, reverse=reverse)
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        place = helper.make_tensor("a", TensorProto.INT64, [], [axis])
        model = make_model([node], [tensor("x", kind, shape)], [tensor("y", kind, shape)], [place])
        found = np.asarray(openxrt.load(model, engine="native", cache_dir="")(x))
        np.testing.assert_array_equal(found, np.flip(wanted, axis) if reverse else wanted)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceL2", "ReduceLogSumExp"])
def test_results_do_not_depend_on_the_threads(op: str) -> None:
    for shape, axes in (((3, 50000), (1,)), ((40000, 3), (0,)), ((2, 9, 2100), (1,))):
        x = RNG.standard_normal(shape).astype(np.float32)
        node = helper.make_node(op, ["x", "axes"], ["y"])
        constants = [helper.make_tensor("axes", TensorProto.INT64, [len(axes)], axes)]
        model = make_model(
            [node], [tensor("x", TensorProto.FLOAT, shape)], [untyped("y")], constants, opset=18
        )
        results = [
            np.asarray(openxrt.load(model, engine="native", num_threads=n, cache_dir="")(x))
            for n in (1, 2)
        ]
        np.testing.assert_array_equal(results[0], results[1])
