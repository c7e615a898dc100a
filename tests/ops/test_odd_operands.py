# SPDX-License-Identifier: Apache-2.0
"""Operands that the standard says little of: the same numbers on every engine, those of ONNX
Runtime or NumPy."""

import numpy as np
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, usable

ENGINES = ["native", "openvino", "onnxruntime", "xla", "tvm"]


def load(model: bytes, engine: str) -> openxrt.Program:
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    engines = list(dict.fromkeys([engine, "native"]))
    return openxrt.load(model, engine=engines, check_results=False, cache_dir="")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("pads", [(-2, 1), (1, -3), (-1, 3), (3, -2), (-2, -2)])
def test_pads_that_cut(engine: str, mode: str, pads: tuple[int, int]) -> None:
    """What is cut off is not there to be repeated."""
    left = 5 + min(pads[0], 0) + min(pads[1], 0)
    if mode == "reflect" and max(pads) >= left:
        pytest.skip("ONNX Runtime reflects no more than there is")
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    model = make_model(
        [helper.make_node("Pad", ["x", "p"], ["y"], mode=mode)],
        [tensor("x", TensorProto.FLOAT, [2, 5])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([0, pads[0], 0, pads[1]]), "p")],
        opset=19,
    )
    expected = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
    np.testing.assert_array_equal(load(model, engine)(x), expected)


@pytest.mark.parametrize("sorts", [0, 1])
def test_unique_of_nan(sorts: int) -> None:
    """NaN is behind all others, and one element; ONNX Runtime takes all elements for NaN."""
    x = np.array([np.nan, 4, 2, np.nan, 1, 1, 2, 0], np.float32)
    names = ["y", "first", "places", "counts"]
    model = make_model(
        [helper.make_node("Unique", ["x"], names, sorted=sorts)],
        [tensor("x", TensorProto.FLOAT, [8])],
        [
            tensor(name, TensorProto.INT64 if i else TensorProto.FLOAT, None)
            for i, name in enumerate(names)
        ],
    )
    y, first, places, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    if not sorts:
        order = np.argsort(first)
        y, first, counts = y[order], first[order], counts[order]
        places = np.argsort(order)[places]
    found = load(model, "native").run({"x": x}).values()
    for ours, numpys in zip(found, (y, first, places, counts), strict=True):
        np.testing.assert_array_equal(ours, numpys)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceL2", "ArgMax"])
@pytest.mark.parametrize("keepdims", [2, -7])
def test_dimensions_are_kept_where_the_flag_is_one(engine: str, op: str, keepdims: int) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    more = {"axis": 1} if op == "ArgMax" else {}
    model = make_model(
        [helper.make_node(op, ["x"], ["y"], keepdims=keepdims, **more)],
        [tensor("x", TensorProto.FLOAT, [2, 3, 4])],
        [tensor("y", TensorProto.INT64 if more else TensorProto.FLOAT, None)],
    )
    expected = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
    found = load(model, engine)(x)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("start", [-9, -5, -4, 0, 3, 9])
@pytest.mark.parametrize("end", [-9, -5, -2, 2, 9])
@pytest.mark.parametrize("step", [1, -1, -3])
def test_slices_that_begin_before_the_first(engine: str, start: int, end: int, step: int) -> None:
    """They begin at the first, backwards too, where NumPy has an empty slice."""
    numbers = {"a": [start], "b": [end], "axes": [0], "steps": [step]}
    model = make_model(
        [helper.make_node("Slice", ["x", *numbers], ["y"])],
        [tensor("x", TensorProto.FLOAT, [4])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(value), name) for name, value in numbers.items()],
        opset=13,
    )
    x = np.arange(4, dtype=np.float32)
    expected = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
    np.testing.assert_array_equal(load(model, engine)(x), expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", ["Erf", "Gelu"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_from_zero(engine: str, op: str, dtype: type) -> None:
    """Erf is 1 there, to the last bit: Gelu multiplies what is missing by its operand."""
    x = np.array([-1e30, -1e6, -30, -6.5, 6.5, 30, 1e6, 1e30], dtype)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    model = make_model(
        [helper.make_node(op, ["x"], ["y"])],
        [tensor("x", kind, [8])],
        [tensor("y", kind, [8])],
        opset=20,
    )
    expected = np.sign(x) if op == "Erf" else np.maximum(x, 0)
    np.testing.assert_allclose(load(model, engine)(x), expected, rtol=1e-7, atol=1e-8)
