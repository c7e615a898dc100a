# SPDX-License-Identifier: Apache-2.0
"""ScatterElements of the native engine against ONNX Runtime: indices that are repeated along the
inner axes, and others, of every kind of update.
"""

from __future__ import annotations

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import model_proto, tensor

onnxruntime = pytest.importorskip("onnxruntime", reason="pip install onnxruntime: the peer")


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis", "count"),
    [((9, 5, 3), 0, 40), ((4, 7, 6), 1, 3), ((3, 8), 1, 8), ((6,), 0, 9)],
)
def test_updates_along_an_axis(
    shape: tuple[int, ...], axis: int, count: int, repeated: bool, reduction: str
) -> None:
    rng = np.random.default_rng(7)
    size = shape[axis]
    if reduction == "none":
        count = min(count, size)  # the last of several updates of one element is not defined
    dims = [*shape[:axis], count, *shape[axis + 1 :]]
    lead = [count if a == axis else 1 for a in range(len(shape))]
    order = rng.permutation(size)[:count] if count <= size else rng.integers(-size, size, count)
    places = np.broadcast_to(order.reshape(lead), dims)
    if not repeated and reduction != "none":
        places = rng.integers(-size, size, dims)
    x, updates = rng.standard_normal(shape), rng.standard_normal(dims)
    for kind in (np.float32, np.float64, np.int32):
        feeds = {
            "x": (x * 8).astype(kind),
            "i": np.ascontiguousarray(places, np.int64),
            "u": (updates * 8).astype(kind),
        }
        dtype = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        node = helper.make_node(
            "ScatterElements", ["x", "i", "u"], ["y"], axis=axis, reduction=reduction
        )
        model = model_proto(
            [node],
            [
                tensor("x", dtype, shape),
                tensor("i", TensorProto.INT64, dims),
                tensor("u", dtype, dims),
            ],
            [tensor("y", dtype, shape)],
            opset=18,
        ).SerializeToString()
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        (wanted,) = session.run(None, feeds)
        program = openxrt.load(model, engine="native", cache_dir="")
        (found,) = program.run(feeds).values()
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_an_index_outside_the_axis_is_an_error() -> None:
    model = model_proto(
        [helper.make_node("ScatterElements", ["x", "i", "x"], ["y"], axis=0, reduction="add")],
        [tensor("x", TensorProto.FLOAT, [2, 3]), tensor("i", TensorProto.INT64, [2, 3])],
        [tensor("y", TensorProto.FLOAT, [2, 3])],
    ).SerializeToString()
    program = openxrt.load(model, engine="native", cache_dir="")
    indices = np.array([[0, 0, 0], [1, 1, 2]])
    with pytest.raises(openxrt.Error, match="outside an axis of size 2"):
        program.run({"x": np.ones((2, 3), np.float32), "i": indices})
