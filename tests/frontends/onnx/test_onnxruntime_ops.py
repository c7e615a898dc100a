# SPDX-License-Identifier: Apache-2.0
"""Ops that ONNX Runtime's quantiser writes (com.microsoft), against ONNX Runtime itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, model_proto, tensor, untyped

onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray
BYTES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}


class Model:
    """One node of com.microsoft, its inputs random bytes or constants."""

    def __init__(self, seed: int, dtype: str) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.feeds: dict[str, Array] = {}

    def constant(self, array: Any, dtype: str) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def grid(self, scale: float) -> list[str]:
        info = np.iinfo(self.dtype)
        zero = self.rng.integers(info.min + 60, info.max - 60)
        return [self.constant(scale, "float32"), self.constant(zero, self.dtype.name)]

    def bytes(self, *shape: int, dtype: str | None = None) -> str:
        wanted = np.dtype(dtype) if dtype else self.dtype
        info = np.iinfo(wanted)
        return self.given(self.rng.integers(info.min, info.max + 1, shape).astype(wanted))

    def given(self, array: Array) -> str:
        name = f"x{len(self.inputs)}"
        self.feeds[name] = array
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.inputs.append(tensor(name, kind, array.shape))
        return name

    def outputs(self, op: str, inputs: list[str], **attributes: Any) -> tuple[Array, Array]:
        """Ours and ONNX Runtime's."""
        node = helper.make_node(op, inputs, ["y"], domain="com.microsoft", **attributes)
        model = model_proto(
            [node],
            self.inputs,
            [untyped("y")],
            self.constants,
            opset=17,
            domains={"com.microsoft": 1},
        )
        data = model.SerializeToString()
        (wanted,) = onnxruntime.InferenceSession(data).run(None, self.feeds)
        (found,) = openxrt.load(data, engine="native", strict=True).run(self.feeds).values()
        return found, wanted

    def check(self, op: str, inputs: list[str], **attributes: Any) -> None:
        found, wanted = self.outputs(op, inputs, **attributes)
        assert found.dtype == wanted.dtype == self.dtype
        assert found.shape == wanted.shape
        off = np.abs(found.astype(int) - wanted.astype(int))
        assert off.max() <= 1
        assert np.mean(off) < 0.1  # ties
        assert np.ptp(wanted.astype(int)) > 10


@pytest.fixture(params=["uint8", "int8"])
def model(request: pytest.FixtureRequest) -> Model:
    return Model(5, request.param)


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("shape", [(2, 8, 5, 5), (2, 8, 1, 1), (8, 1, 1), ()])
def test_binary(model: Model, op: str, shape: tuple[int, ...]) -> None:
    a = [model.bytes(2, 8, 5, 5), *model.grid(0.02)]
    b = [model.bytes(*shape), *model.grid(0.03)]
    model.check(op, [*a, *b, *model.grid(0.05)])


@pytest.mark.parametrize(
    ("op", "scale", "attributes"),
    [
        ("QLinearSigmoid", 1 / 256, {}),
        ("QLinearLeakyRelu", 0.05, {"alpha": 0.1}),
        ("QLinearGlobalAveragePool", 0.02, {"channels_last": 0}),
        ("QLinearAveragePool", 0.02, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        (
            "QLinearAveragePool",
            0.02,
            {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
        ),
    ],
)
def test_unary(model: Model, op: str, scale: float, attributes: dict[str, Any]) -> None:
    x = [model.bytes(2, 7, 9, 9), *model.grid(0.05)]
    model.check(op, [*x, *model.grid(scale)], **attributes)


@pytest.mark.parametrize(("opset", "axis"), [(12, 1), (12, 2), (13, -1), (13, 1)])
def test_softmax(opset: int, axis: int) -> None:
    model = Model(3, "uint8")
    x = [model.bytes(3, 6, 5), *model.grid(0.02)]
    y = [model.constant(1 / 256, "float32"), model.constant(0, "uint8")]
    model.check("QLinearSoftmax", [*x, *y], axis=axis, opset=opset)


@pytest.mark.parametrize("axis", [1, -1])
def test_concat(model: Model, axis: int) -> None:
    inputs = model.grid(0.03)
    for scale in (0.02, 0.03, 0.05):
        inputs += [model.bytes(2, 6, 6), *model.grid(scale)]
    model.check("QLinearConcat", inputs, axis=axis)


def test_where(model: Model) -> None:
    condition = model.given(model.rng.random((4, 9)) < 0.5)
    x = [model.bytes(4, 9), *model.grid(0.02)]
    y = [model.bytes(4, 9), *model.grid(0.03)]
    model.check("QLinearWhere", [condition, *x, *y, *model.grid(0.03)])


@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize("per_channel", [False, True])
def test_gemm(trans_b: int, alpha: float, floats: bool, per_channel: bool) -> None:
    model = Model(7, "uint8")
    a = [model.bytes(5, 40), *model.grid(0.02)]
    # Without VNNI, ONNX Runtime adds pairs of products in 16 bits, which saturate beyond 6 bits.
    w = model.rng.integers(-63, 64, (12, 40) if trans_b else (40, 12))
    scales = model.rng.uniform(0.005, 0.02, 12) if per_channel else 0.01
    b = [model.constant(w, "int8"), model.constant(scales, "float32")]
    b.append(model.constant(np.zeros(np.shape(scales)), "int8"))
    c = model.constant(model.rng.integers(-3000, 3000, 12), "int32")
    attributes = {"transB": trans_b, "alpha": alpha, "transA": 0}
    if not floats:
        return model.check("QGemm", [*a, *b, c, *model.grid(0.1)], **attributes)
    found, wanted = model.outputs("QGemm", [*a, *b, c], **attributes)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)
    return None


@pytest.mark.parametrize("op", ["DynamicQuantizeMatMul", "MatMulIntegerToFloat"])
@pytest.mark.parametrize("weights", ["uint8", "int8"])
@pytest.mark.parametrize("bias", [False, True])
def test_products(op: str, weights: str, bias: bool) -> None:
    model = Model(9, "uint8")
    info = np.iinfo(weights)
    # Without VNNI, ONNX Runtime adds pairs of products in 16 bits, which saturate beyond 6 bits.
    low, high = (-64, 64) if weights == "int8" else (info.min, info.max + 1)
    b = model.constant(model.rng.integers(low, high, (33, 20)), weights)
    b_scale = model.constant(model.rng.uniform(0.01, 0.02, 20), "float32")
    b_zero = model.constant(model.rng.integers(info.min + 90, info.max - 90, 20), weights)
    if op == "DynamicQuantizeMatMul":
        a = model.given(model.rng.normal(size=(2, 3, 33)).astype(np.float32))
        inputs = [a, b, b_scale, b_zero]
    else:
        inputs = [model.bytes(2, 3, 33), b, *model.grid(0.02)[:1], b_scale]
        inputs += [model.grid(0.02)[1], b_zero]
    if bias:
        inputs.append(model.constant(model.rng.normal(size=20), "float32"))
    found, wanted = model.outputs(op, inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)


def test_quantiser_in_operator_form(tmp_path: Path) -> None:
    """A network that ONNX Runtime quantised, all of it."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    rng = np.random.default_rng(1)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name)

    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("GlobalAveragePool", ["b"], ["p"]),
        node("Conv", ["p", "w1"], ["q"]),
        node("Sigmoid", ["q"], ["s"]),
        node("Mul", ["b", "s"], ["m"]),
        node("Conv", ["m", "w1"], ["n"]),
        node("Add", ["n", "b"], ["o"]),
        node("Concat", ["o", "m"], ["k"], axis=1),
        node("AveragePool", ["k"], ["v"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["v"], ["f"]),
        node("Gemm", ["f", "w2"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    given, made = tmp_path / "given.onnx", tmp_path / "made.onnx"
    onnx.save(
        model_proto(
            nodes,
            [value("x", TensorProto.FLOAT, [1, 3, 8, 8])],
            [value("y", TensorProto.FLOAT, [1, 10])],
            [weight("w0", 16, 3, 3, 3), weight("w1", 16, 16, 1, 1), weight("w2", 512, 10)],
            opset=13,
        ),
        given,
    )
    samples = [{"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)} for _ in range(8)]

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(samples)

        def get_next(self) -> dict[str, Array] | None:
            return next(self.left, None)

    quantize_static(
        given,
        made,
        Reader(),
        quant_format=QuantFormat.QOperator,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
    )
    assert "com.microsoft" in {n.domain for n in onnx.load(made).graph.node}
    wanted = onnxruntime.InferenceSession(made).run(None, samples[0])[0]
    found = openxrt.load(made, engine="native").run(samples[0])["y"]
    assert np.abs(found - wanted).max() < 0.02 * np.ptp(wanted)


def test_what_cannot_be_read() -> None:
    model = Model(1, "uint8")
    x = [model.bytes(2, 8, 5, 5), *model.grid(0.1)]
    data = make_model(
        [helper.make_node("QLinearAdd", [*x, *x[:2]], ["y"], domain="com.microsoft")],
        model.inputs,
        [untyped("y")],
        model.constants,
        opset=17,
        domains={"com.microsoft": 1},
    )
    with pytest.raises(openxrt.Error, match=r"its input 6 is missing"):
        openxrt.load(data, engine="native")
