# SPDX-License-Identifier: Apache-2.0
"""Values that a Loop carries and whose declared shape does not hold, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import model_proto, tensor, untyped, usable

F, I64, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def loop(
    state: list[onnx.NodeProto], declared: list[int | str], given: list[int | str]
) -> onnx.ModelProto:
    """`state` makes "so" of "s", the carried value, and of "x", which it starts as."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["co"]), *state],
        "body",
        [tensor("i", I64, []), tensor("c", B, []), tensor("s", F, declared)],
        [tensor("co", B, []), untyped("so")],
    )
    return model_proto(
        [helper.make_node("Loop", ["m", "", "x"], ["y"], body=body)],
        [tensor("m", I64, []), tensor("x", F, given)],
        [untyped("y")],
    )


GROWS = [
    helper.make_node("Concat", ["s", "x"], ["t"], axis=0),
    helper.make_node("Neg", ["t"], ["so"]),
]
LOSES_AN_AXIS = [
    helper.make_node("ReduceMax", ["s"], ["so"], keepdims=0),
]


@pytest.mark.parametrize("engine", ["native", "openvino", "xla", "onnxruntime"])
@pytest.mark.parametrize("given", [[2, 3], ["p", "q"]])
@pytest.mark.parametrize("state", [GROWS, LOSES_AN_AXIS], ids=["grows", "loses an axis"])
def test_a_declared_shape_that_does_not_hold(
    state: list[onnx.NodeProto], given: list[int | str], engine: str
) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    model = loop(state, [2, 3], given).SerializeToString()
    session = onnxruntime.InferenceSession(model)
    program = openxrt.load(model, engine=list(dict.fromkeys([engine, "native"])))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for turns in (0, 1, 3):
        feeds = {"m": np.array(turns), "x": x}
        np.testing.assert_array_equal(program.run(feeds)["y"], session.run(None, feeds)[0])


def test_a_shape_that_only_a_run_can_refute() -> None:
    """Kernels rely on the declared sizes: the error names the value."""
    body = [
        helper.make_node("Constant", [], ["rows"], value_ints=[-1]),
        helper.make_node("Cast", ["s"], ["k"], to=B),
        helper.make_node("Reshape", ["k", "rows"], ["flat"]),
        helper.make_node("Compress", ["s", "flat"], ["so"], axis=0),
    ]
    program = openxrt.load(loop(body, [2, 1], [2, 1]).SerializeToString(), engine="native")
    x = np.array([[1], [0]], np.float32)
    assert program.run({"m": np.array(1), "x": x})["y"].shape == (1, 1)
    with pytest.raises(openxrt.Error, match=r"declared float32\[2,1\]"):
        program.run({"m": np.array(2), "x": x})
