# SPDX-License-Identifier: Apache-2.0
"""Padding that a model leaves to the runtime, against ONNX Runtime: static and symbolic sizes."""

from __future__ import annotations

import itertools

import numpy as np
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper

WINDOWS = [
    # op, attributes, shape of the weights
    ("Conv", {"strides": [2, 3]}, (4, 3, 3, 4)),
    ("Conv", {"strides": [4, 4]}, (4, 3, 2, 1)),
    ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 2]}, None),
    ("AveragePool", {"kernel_shape": [3, 2], "strides": [2, 1]}, None),
    ("AveragePool", {"kernel_shape": [4, 4], "strides": [3, 3], "count_include_pad": 1}, None),
    ("LpPool", {"kernel_shape": [3, 3], "strides": [2, 2]}, None),
    ("ConvTranspose", {"strides": [2, 3]}, (3, 4, 4, 4)),
]
TRANSPOSED = [
    {"strides": [2, 2], "output_shape": [10, 13]},
    {"strides": [2, 2], "output_shape": [9, 12], "auto_pad": "SAME_UPPER"},
    {"strides": [3, 2], "output_shape": [16, 14]},
    {"strides": [3, 2], "output_shape": [16, 14], "output_padding": [1, 0]},
    {"strides": [3, 3], "auto_pad": "SAME_UPPER", "output_padding": [2, 1]},
    {"strides": [3, 2], "auto_pad": "SAME_LOWER", "output_padding": [2, 0]},
    {"strides": [3, 3], "auto_pad": "VALID", "output_padding": [2, 1]},
]


def model(op: str, attributes: dict, weights: tuple | None, sizes: tuple) -> bytes:
    """One node over an image of these sizes, which may be names."""
    rng = np.random.default_rng(1)
    inputs, constants = ["x"], []
    if weights is not None:
        inputs.append("w")
        w = rng.standard_normal(weights).astype(np.float32)
        constants.append(helper.make_tensor("w", TensorProto.FLOAT, weights, w.ravel()))
    graph = helper.make_graph(
        [helper.make_node(op, inputs, ["y"], "node", **attributes)],
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, *sizes))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        constants,
    )
    opsets = [helper.make_opsetid("", 19)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


def expected(content: bytes, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("engine", ["native", "xla", "openvino"])
@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_automatic_padding(mode: str, engine: str) -> None:
    rng = np.random.default_rng(0)
    for op, attributes, weights in WINDOWS:
        automatic = {**attributes, "auto_pad": mode}
        for size, symbolic in itertools.product([(8, 9), (7, 5)], [False, True]):
            content = model(op, automatic, weights, ("h", "w") if symbolic else size)
            x = rng.standard_normal((1, 3, *size)).astype(np.float32)
            program = openxrt.load(content, engine=list(dict.fromkeys([engine, "native"])))
            np.testing.assert_allclose(
                program(x), expected(content, x), rtol=1e-4, atol=1e-5, err_msg=f"{op} {size}"
            )


@pytest.mark.parametrize("engine", ["native", "xla", "openvino"])
@pytest.mark.parametrize("attributes", TRANSPOSED, ids=str)
def test_the_output_shape_of_a_transposed_convolution(attributes: dict, engine: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 5, 6)).astype(np.float32)
    for sizes in ((5, 6), ("h", "w")):
        content = model("ConvTranspose", attributes, (3, 4, 3, 3), sizes)
        program = openxrt.load(content, engine=list(dict.fromkeys([engine, "native"])))
        np.testing.assert_allclose(program(x), expected(content, x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ["native", "onnxruntime"])
@pytest.mark.parametrize("attributes", [{}, {"onesided": 1}, {"onesided": 0}], ids=str)
def test_a_default_is_the_standards(attributes: dict, engine: str) -> None:
    """Half of the spectrum, where nothing is said: that the library's rule for shapes has another
    default is no declaration of the model."""
    node = helper.make_node("STFT", ["x", "step", "", "length"], ["y"], "node", **attributes)
    graph = helper.make_graph(
        [node],
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 16, 1))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor(name, TensorProto.INT64, (), [4]) for name in ("step", "length")],
    )
    opsets = [helper.make_opsetid("", 17)]
    content = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    x = np.random.default_rng(0).standard_normal((1, 16, 1)).astype(np.float32)
    program = openxrt.load(content, engine=list(dict.fromkeys([engine, "native"])))
    np.testing.assert_allclose(program(x), expected(content, x), rtol=1e-4, atol=1e-5)
