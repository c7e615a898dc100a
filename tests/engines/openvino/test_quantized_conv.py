# SPDX-License-Identifier: Apache-2.0
"""QLinearConv whose weights have a scale for each output channel, beside ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, usable

pytestmark = pytest.mark.skipif(not usable("openvino"), reason="openvino is not there")

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 4, 7, 7), (6, 4, 3, 3), {}),
    "as many inputs as outputs": ((1, 4, 6, 6), (4, 4, 3, 3), {"pads": [1, 1, 1, 1]}),
    "strided": ((1, 3, 9, 9), (5, 3, 3, 3), {"strides": [2, 2], "pads": [1, 0, 0, 1]}),
    "dilated": ((1, 3, 9, 9), (5, 3, 3, 3), {"dilations": [2, 2]}),
    "grouped": ((1, 4, 6, 6), (6, 2, 3, 3), {"group": 2}),
    "depthwise": ((1, 6, 6, 6), (6, 1, 3, 3), {"group": 6, "pads": [1, 1, 1, 1]}),
    "same upper": ((1, 3, 8, 8), (5, 3, 4, 4), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "same lower": ((1, 3, 8, 8), (5, 3, 4, 4), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "along one axis": ((1, 3, 12), (5, 3, 3), {"pads": [1, 1]}),
}


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("weights", [np.int8, np.uint8])
@pytest.mark.parametrize("name", CASES)
def test_scales_of_output_channels(name: str, weights: type, has_bias: bool) -> None:
    size, window, attributes = CASES[name]
    rng = np.random.default_rng(0)
    channels = window[0]
    low, high = np.iinfo(weights).min, np.iinfo(weights).max + 1
    if weights is np.int8 and "vnni" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        low, high = -63, 64  # sums of two products of bytes saturate at 16 bits
    constants: dict[str, np.ndarray] = {
        "sx": np.float32(0.02),
        "zx": np.uint8(100),
        "w": rng.integers(low, high, window).astype(weights),
        "sw": rng.uniform(0.001, 0.01, channels).astype(np.float32),
        "zw": np.full(channels, 0 if weights is np.int8 else 128, weights),
        "sy": np.float32(0.05),
        "zy": np.uint8(120),
    }
    if has_bias:
        constants["b"] = rng.integers(-5000, 5000, channels).astype(np.int32)
    model = make_model(
        [helper.make_node("QLinearConv", ["x", *constants], ["y"], **attributes)],
        [tensor("x", TensorProto.UINT8, ["N", *size[1:]])],
        [tensor("y", TensorProto.UINT8, None)],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()],
        opset=13,
    )
    x = rng.integers(0, 256, size).astype(np.uint8)
    expected = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
    assert np.unique(expected).size > 20
    program = openxrt.load(model, engine="openvino", strict=True, cache_dir="")
    found = program(x)
    assert found.shape == expected.shape
    off = np.abs(found.astype(int) - expected.astype(int))
    assert off.max() <= 1
    assert (off > 0).mean() < 0.02


# What reads the convolution's result c, and gives y.
READERS: dict[str, list[tuple[str, list[str], str]]] = {
    "Relu and Add": [("Relu", ["c"], "r"), ("Add", ["c", "r"], "y")],
    "twice": [("Mul", ["c", "c"], "y")],
    "a twin": [("Elu", ["c"], "r"), ("Conv", ["d", "w", "bias"], "t"), ("Sub", ["r", "t"], "y")],
    "a gate": [
        ("GlobalAveragePool", ["c"], "m"),
        ("Sigmoid", ["m"], "g"),
        ("Mul", ["c", "g"], "y"),
    ],
    "SiLU": [("Sigmoid", ["c"], "g"), ("Mul", ["c", "g"], "y")],
    "SiLU and Elu": [
        ("Sigmoid", ["c"], "g"),
        ("Mul", ["c", "g"], "u"),
        ("Elu", ["c"], "e"),
        ("Add", ["u", "e"], "y"),
    ],
}


@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize("name", READERS)
def test_results_that_several_read(name: str, group: int) -> None:
    """The third size is the first that has no plan of its own."""
    rng = np.random.default_rng(0)
    quantize = [
        ("QuantizeLinear", ["x", "s", "z"], "q"),
        ("DequantizeLinear", ["q", "s", "z"], "d"),
    ]
    weights = [("DequantizeLinear", ["b", "sw"], "w")]
    nodes = [helper.make_node(op, reads, [to]) for op, reads, to in quantize + weights]
    for op, reads, to in [("Conv", ["d", "w"], "c"), *READERS[name]]:
        attributes = {"group": group} if op == "Conv" else {}
        nodes.append(helper.make_node(op, reads, [to], **attributes))
    constants = {
        "s": np.float32(0.025),
        "z": np.uint8(120),
        "b": rng.integers(-60, 60, (4, 4 // group, 1, 1)).astype(np.int8),
        "sw": np.float32(0.0014),
    }
    if name == "a twin":
        constants["bias"] = rng.standard_normal(4).astype(np.float32)
    model = make_model(
        nodes,
        [tensor("x", TensorProto.FLOAT, ["N", 4, "H", "W"])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()],
    )
    session = onnxruntime.InferenceSession(model)
    program = openxrt.load(model, engine=["openvino", "native"], check_results=False, cache_dir="")
    for batch in (1, 2, 3, 4, 1):
        x = rng.standard_normal((batch, 4, 8, 8)).astype(np.float32)
        expected = session.run(None, {"x": x})[0]
        np.testing.assert_allclose(program.run({"x": x})["y"], expected, rtol=1e-4, atol=1e-5)


def test_windows_of_padding_alone() -> None:
    """Of sizes in turn, in whose memory something lies from the run before."""
    rng = np.random.default_rng(0)
    constants = {
        "s": np.float32(0.05),
        "z": np.uint8(100),
        "b": rng.integers(-60, 60, (16, 1, 5, 1)).astype(np.int8),
    }
    model = make_model(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("DequantizeLinear", ["b", "s"], ["w"]),
            helper.make_node("Conv", ["d", "w"], ["c"], pads=[5, 0, 1, 0], strides=[2, 1]),
            helper.make_node("Relu", ["c"], ["y"]),
        ],
        [tensor("x", TensorProto.FLOAT, ["N", 1, "H", "W"])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()],
    )
    session = onnxruntime.InferenceSession(model)
    program = openxrt.load(model, engine=["openvino", "native"], check_results=False, cache_dir="")
    for size in ((1, 1, 8, 9), (2, 1, 10, 9), (1, 1, 19, 11), (3, 1, 12, 13)):
        x = rng.standard_normal(size).astype(np.float32)
        expected = session.run(None, {"x": x})[0]
        np.testing.assert_allclose(program.run({"x": x})["y"], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("op", ["Conv", "ConvInteger"])
def test_windows_of_padding_alone_by_weights_of_open_sizes(op: str) -> None:
    """The plugin wrote outside of its memory, and the process ended."""
    dtype = np.float32 if op == "Conv" else np.int8
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    zero = [numpy_helper.from_array(np.int8(127), "zero")] if op == "ConvInteger" else []
    model = make_model(
        [
            helper.make_node(
                op, ["x", "w", *(z.name for z in zero)], ["y"], pads=[1, 2, 2, 1], strides=[1, 2]
            )
        ],
        [tensor("x", kind, ["a", "b", "h", "v"]), tensor("w", kind, ["o", "b", "k", "l"])],
        [tensor("y", TensorProto.FLOAT if op == "Conv" else TensorProto.INT32, None)],
        zero,
    )
    rng = np.random.default_rng(0)
    session = onnxruntime.InferenceSession(model)
    program = openxrt.load(model, engine=["openvino", "native"], check_results=False, cache_dir="")
    w = rng.integers(-9, 9, (1, 1, 1, 1)).astype(dtype)
    for batch in (2, 3, 4):
        x = rng.integers(-9, 9, (batch, 1, 6 + batch, 5)).astype(dtype)
        expected = session.run(None, {"x": x, "w": w})[0]
        np.testing.assert_array_equal(program.run({"x": x, "w": w})["y"], expected)
