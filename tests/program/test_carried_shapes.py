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
LOSES_ITS_AXES = [helper.make_node("ReduceMax", ["s"], ["so"], keepdims=0)]


# How many rows it keeps, only a run knows.
KEEPS_SOME = [
    helper.make_node("Constant", [], ["zero"], value_ints=[0]),
    helper.make_node("Constant", [], ["far"], value_ints=[100]),
    helper.make_node("Unsqueeze", ["i", "zero"], ["first"]),
    helper.make_node("Slice", ["s", "first", "far"], ["so"]),
]


@pytest.mark.parametrize("engine", ["native", "openvino", "xla", "onnxruntime"])
@pytest.mark.parametrize("given", [[2, 3], ["p", "q"]])
@pytest.mark.parametrize(
    "state", [GROWS, LOSES_ITS_AXES, KEEPS_SOME], ids=["grows", "loses its axes", "keeps some"]
)
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
