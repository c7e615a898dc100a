# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear of the native engine, to the bit as in ONNX Runtime."""

from __future__ import annotations

import numpy as np
import openxrt
import pytest
from small_models import model_proto, tensor

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.mark.parametrize(
    ("dtype", "zero"),
    [(np.uint8, 120), (np.uint8, 0), (np.uint8, 255), (np.int8, -7), (np.int8, 0)],
)
@pytest.mark.parametrize("scale", [0.125, 0.0731])
@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_every_rounding(op: str, scale: float, dtype: type, zero: int) -> None:
    generator = np.random.default_rng(0)
    small = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    kinds = (onnx.TensorProto.FLOAT, small)
    if op == "QuantizeLinear":
        halves = (np.arange(-400, 400) + 0.5) * 0.125
        extremes = [1e30, -1e30, np.inf, -np.inf, 0.0, -0.0]
        x = np.concatenate([generator.normal(size=40000) * 20, halves, extremes])
        x = x.astype(np.float32)
    else:
        x = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype)
        kinds = kinds[::-1]
    model = model_proto(
        [onnx.helper.make_node(op, ["x", "s", "z"], ["y"])],
        [tensor("x", kinds[0], x.shape)],
        [tensor("y", kinds[1], None)],
        [
            onnx.helper.make_tensor("s", onnx.TensorProto.FLOAT, [], [scale]),
            onnx.helper.make_tensor("z", small, [], [zero]),
        ],
    )
    content = model.SerializeToString()
    (wanted,) = onnxruntime.InferenceSession(content).run(None, {"x": x})
    found = openxrt.load(content, engine="native")(x)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("axis", "rows"), [(0, 3), (1, 5), (-1, 4)])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32])
def test_constants_are_dequantised(kind: type, axis: int, rows: int) -> None:
    generator = np.random.default_rng(1)
    x = generator.integers(0, 120, (3, 5, 4)).astype(kind)
    scale = generator.uniform(0.1, 1, rows).astype(np.float32)
    graph = openxrt.Graph("constants")
    start = graph.add_input("y", "float32", [3, 5, 4])
    values = [graph.add_constant(x, x.dtype.name), graph.add_constant(scale, "float32")]
    (wide,) = graph.add_node("DequantizeLinear", values, ["wide"], {"axis": axis})
    (total,) = graph.add_node("Add", [start, wide], ["total"])
    graph.add_output(total)
    graph.finish()
    y = generator.normal(size=(3, 5, 4)).astype(np.float32)
    shape = [1, 1, 1]
    shape[axis] = rows
    found = openxrt.load(graph, engine="native")(y)
    np.testing.assert_allclose(found, y + x * scale.reshape(shape), rtol=1e-6, atol=1e-6)
