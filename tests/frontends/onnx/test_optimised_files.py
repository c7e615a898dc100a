# SPDX-License-Identifier: Apache-2.0
"""Files that ONNX Runtime saves after its own optimisation run on every engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import model_proto, tensor, usable

onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray
BATCH, LENGTH, WIDTH, HEADS = 2, 8, 32, 4


class Net:
    """A graph that grows node by node; each method returns the name of its result."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def op(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def const(self, array: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def weight(self, *shape: int, scale: float = 0.2) -> str:
        return self.const(self.rng.normal(size=shape) * scale)

    def linear(self, x: str, inner: int, outer: int) -> str:
        product = self.op("MatMul", x, self.weight(inner, outer))
        return self.op("Add", product, self.weight(outer))

    def norm(self, x: str) -> str:
        scale = self.const(1 + 0.1 * self.rng.normal(size=WIDTH))
        return self.op("LayerNormalization", x, scale, self.weight(WIDTH), axis=-1, epsilon=1e-5)

    def heads(self, x: str, perm: list[int]) -> str:
        shape = self.const([0, 0, HEADS, WIDTH // HEADS], np.int64)
        return self.op("Transpose", self.op("Reshape", x, shape), perm=perm)

    def attention(self, x: str, mask: str) -> str:
        q, k, v = (self.linear(x, WIDTH, WIDTH) for _ in range(3))
        q = self.heads(q, [0, 2, 1, 3])
        k = self.heads(k, [0, 2, 3, 1])
        v = self.heads(v, [0, 2, 1, 3])
        scores = self.op("MatMul", q, k)
        scores = self.op("Div", scores, self.const(math.sqrt(WIDTH // HEADS)))
        scores = self.op("Add", scores, mask)
        joined = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        joined = self.op("Transpose", joined, perm=[0, 2, 1, 3])
        flat = self.op("Reshape", joined, self.const([0, 0, WIDTH], np.int64))
        return self.linear(flat, WIDTH, WIDTH)

    def gelu(self, x: str) -> str:
        erf = self.op("Erf", self.op("Div", x, self.const(math.sqrt(2))))
        return self.op(
            "Mul", self.op("Mul", x, self.op("Add", erf, self.const(1.0))), self.const(0.5)
        )

    def fast_gelu(self, x: str) -> str:
        cube = self.op("Mul", self.op("Pow", x, self.const(3.0)), self.const(0.044715))
        inner = self.op("Mul", self.op("Add", x, cube), self.const(math.sqrt(2 / math.pi)))
        one = self.op("Add", self.op("Tanh", inner), self.const(1.0))
        return self.op("Mul", self.op("Mul", x, self.const(0.5)), one)

    def model(self, inputs: list[onnx.ValueInfoProto], output: str, dims: list[Any]) -> bytes:
        made = tensor(output, TensorProto.FLOAT, dims)
        proto = model_proto(self.nodes, inputs, [made], self.constants, opset=17)
        return proto.SerializeToString()


def bert() -> tuple[bytes, dict[str, Array]]:
    net = Net(1)
    words = net.op("Gather", net.weight(40, WIDTH, scale=1.0), "ids")
    places = net.op("Gather", net.weight(16, WIDTH, scale=1.0), net.const(range(LENGTH), np.int64))
    kinds = net.op("Gather", net.weight(2, WIDTH, scale=1.0), "kinds")
    x = net.norm(net.op("Add", net.op("Add", words, kinds), places))
    wide = net.op("Unsqueeze", "mask", net.const([1, 2], np.int64))
    keep = net.op("Cast", wide, to=TensorProto.FLOAT)
    mask = net.op("Mul", net.op("Sub", net.const(1.0), keep), net.const(-10000.0))
    for _ in range(2):
        x = net.norm(net.op("Add", net.attention(x, mask), x))
        inner = net.gelu(net.linear(x, WIDTH, 64))
        x = net.norm(net.op("Add", net.linear(inner, 64, WIDTH), x))
    shape = ["batch", LENGTH]
    inputs = [tensor(name, TensorProto.INT64, shape) for name in ("ids", "kinds", "mask")]
    mask_fed = np.ones((BATCH, LENGTH), np.int64)
    mask_fed[1, 5:] = 0
    feeds = {
        "ids": net.rng.integers(0, 40, (BATCH, LENGTH)),
        "kinds": net.rng.integers(0, 2, (BATCH, LENGTH)),
        "mask": mask_fed,
    }
    return net.model(inputs, x, ["batch", LENGTH, WIDTH]), feeds


def gpt2() -> tuple[bytes, dict[str, Array]]:
    net = Net(2)
    words = net.op("Gather", net.weight(40, WIDTH, scale=1.0), "ids")
    places = net.weight(1, LENGTH, WIDTH, scale=1.0)
    x = net.op("Add", words, places)
    mask = net.const(np.triu(np.full((LENGTH, LENGTH), -10000.0), 1)[None, None])
    for _ in range(2):
        x = net.op("Add", net.attention(net.norm(x), mask), x)
        inner = net.fast_gelu(net.linear(net.norm(x), WIDTH, 64))
        x = net.op("Add", net.linear(inner, 64, WIDTH), x)
    x = net.op("MatMul", net.norm(x), net.weight(WIDTH, 40))
    ids = tensor("ids", TensorProto.INT64, ["batch", LENGTH])
    feeds = {"ids": net.rng.integers(0, 40, (BATCH, LENGTH))}
    return net.model([ids], x, ["batch", LENGTH, 40]), feeds


def resnet_body(net: Net) -> str:
    def conv(x: str, inner: int, outer: int, size: int, **attributes: Any) -> str:
        pads = [size // 2] * 4
        scale = 1 / math.sqrt(inner * size * size)
        weight = net.weight(outer, inner, size, size, scale=scale)
        return net.op("Conv", x, weight, net.weight(outer), pads=pads, **attributes)

    x = net.op("Relu", conv("x", 3, 32, 7, strides=[2, 2]))
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for _ in range(2):
        inner = net.op("Relu", conv(x, 32, 32, 3))
        x = net.op("Relu", net.op("Add", conv(inner, 32, 32, 3), x))
    x = net.op("LeakyRelu", conv(x, 32, 64, 1, strides=[2, 2]), alpha=0.1)
    x = net.op("Flatten", net.op("GlobalAveragePool", x))
    return net.op("Gemm", x, net.weight(64, 10), net.weight(10))


def picture(net: Net) -> tuple[list[onnx.ValueInfoProto], dict[str, Array]]:
    given = tensor("x", TensorProto.FLOAT, [1, 3, 32, 32])
    return [given], {"x": net.rng.normal(size=(1, 3, 32, 32)).astype(np.float32)}


def resnet() -> tuple[bytes, dict[str, Array]]:
    net = Net(3)
    y = resnet_body(net)
    inputs, feeds = picture(net)
    return net.model(inputs, y, [1, 10]), feeds


def quantised(form: str, folder: Path) -> tuple[bytes, dict[str, Array]]:
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    data, feeds = resnet()

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter([feeds])

        def get_next(self) -> dict[str, Array] | None:
            return next(self.left, None)

    (folder / "float.onnx").write_bytes(data)
    quantize_static(
        folder / "float.onnx",
        folder / "made.onnx",
        Reader(),
        quant_format=QuantFormat[form],
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )
    return (folder / "made.onnx").read_bytes(), feeds


MODELS: dict[str, Callable[[Path], tuple[bytes, dict[str, Array]]]] = {
    "bert": lambda folder: bert(),
    "gpt2": lambda folder: gpt2(),
    "resnet": lambda folder: resnet(),
    "qoperator": lambda folder: quantised("QOperator", folder),
    "qdq": lambda folder: quantised("QDQ", folder),
}


@pytest.mark.parametrize(
    "engine", ["native", "openvino,native", "xla,native", "onnxruntime,native"]
)
@pytest.mark.parametrize("level", ["ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"])
@pytest.mark.parametrize("name", list(MODELS))
def test_saved_file(name: str, level: str, engine: str, tmp_path: Path) -> None:
    if not usable(engine.split(",")[0]):
        pytest.skip(f"{engine} is not here")
    data, feeds = MODELS[name](tmp_path)
    saved = tmp_path / "saved.onnx"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.__members__[level]
    options.optimized_model_filepath = str(saved)
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, feeds)
    domains = {node.domain for node in onnx.load(saved).graph.node}
    assert domains - {""}, "nothing of ONNX Runtime's own is in the file"
    (found,) = openxrt.load(saved, engine=engine).run(feeds).values()
    # A rounding of the quantised forms that goes the other way is a step, and OpenVINO rounds less
    # often.
    near = 0.06 * np.ptp(wanted) if name.startswith("q") else 2e-4
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=near)


@pytest.mark.parametrize(
    "engine", ["native", "openvino,native", "xla,native", "onnxruntime,native"]
)
def test_a_norm_of_an_opset_that_has_none(engine: str, tmp_path: Path) -> None:
    """ONNX Runtime has had the op since opset 1, and writes it into files of any."""
    if not usable(engine.split(",")[0]):
        pytest.skip(f"{engine} is not here")
    net = Net(9)
    centred = net.op("Sub", "x", net.op("ReduceMean", "x", axes=[-1]))
    square = net.op("Pow", centred, net.const(2))
    variance = net.op("ReduceMean", square, axes=[-1])
    deviation = net.op("Sqrt", net.op("Add", variance, net.const(1e-5)))
    scaled = net.op("Mul", net.op("Div", centred, deviation), net.weight(WIDTH, scale=1))
    y = net.op("Add", scaled, net.weight(WIDTH))
    model = model_proto(
        net.nodes,
        [tensor("x", TensorProto.FLOAT, ["n", WIDTH])],
        [tensor(y, TensorProto.FLOAT, ["n", WIDTH])],
        net.constants,
        opset=15,
    )
    saved = tmp_path / "saved.onnx"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(saved)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    assert [n.op_type for n in onnx.load(saved).graph.node] == ["LayerNormalization"]
    feeds = {"x": net.rng.normal(size=(3, WIDTH)).astype(np.float32)}
    (wanted,) = session.run(None, feeds)
    (found,) = openxrt.load(saved, engine=engine).run(feeds).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


EARLY = {
    "layer": ("LayerNormalization", 16, {"axis": 1, "epsilon": 1e-3}, 3),
    "mean_variance": ("MeanVarianceNormalization", 8, {}, 1),
    "mean_variance_of_all": ("MeanVarianceNormalization", 1, {"across_channels": 1}, 1),
    "mean_alone": ("MeanVarianceNormalization", 7, {"normalize_variance": 0}, 1),
    "thresholded": ("ThresholdedRelu", 9, {"alpha": 0.3}, 1),
}


@pytest.mark.parametrize("name", EARLY)
def test_ops_that_the_standard_got_later(name: str) -> None:
    """All that ONNX Runtime has of them."""
    op, opset, attributes, count = EARLY[name]
    rng = np.random.default_rng(2)
    feeds = {
        "x": rng.normal(size=(2, 3, 4, 5)).astype(np.float32),
        "s": rng.normal(size=(3, 4, 5)).astype(np.float32),
        "b": rng.normal(size=(3, 4, 5)).astype(np.float32),
    }
    feeds = {key: feeds[key] for key in ("x", "s", "b")[:count]}
    model = model_proto(
        [helper.make_node(op, list(feeds), ["y"], **attributes)],
        [tensor(key, TensorProto.FLOAT, value.shape) for key, value in feeds.items()],
        [tensor("y", TensorProto.FLOAT, [2, 3, 4, 5])],
        opset=opset,
    ).SerializeToString()
    (wanted,) = onnxruntime.InferenceSession(model).run(None, feeds)
    found = openxrt.load(model, engine="native").run(feeds)["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ["native", "openvino,native", "xla,native"])
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_transformers_optimiser(name: str, engine: str, tmp_path: Path) -> None:
    from onnxruntime.transformers.optimizer import optimize_model

    if not usable(engine.split(",")[0]):
        pytest.skip(f"{engine} is not here")
    data, feeds = MODELS[name](tmp_path)
    given, made = tmp_path / "given.onnx", tmp_path / "made.onnx"
    given.write_bytes(data)
    optimised = optimize_model(
        str(given), model_type=name, num_heads=HEADS, hidden_size=WIDTH, opt_level=0
    )
    optimised.save_model_to_file(str(made))
    assert "com.microsoft" in {node.domain for node in onnx.load(made).graph.node}
    (wanted,) = onnxruntime.InferenceSession(made).run(None, feeds)
    (found,) = openxrt.load(made, engine=engine).run(feeds).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=2e-4)
