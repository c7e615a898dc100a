# SPDX-License-Identifier: Apache-2.0
"""Values that a Loop carries: whose declared shape does not hold, and that never change. Against
ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
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


def loop_with_weights() -> onnx.ModelProto:
    """As PaddlePaddle's exporter writes one: the body captures nothing, all is carried. A body
    within the body carries the weights too."""
    inner = helper.make_graph(
        [
            helper.make_node("Identity", ["c2"], ["co2"]),
            helper.make_node("MatMul", ["s2", "w2"], ["p2"]),
            helper.make_node("Tanh", ["p2"], ["so2"]),
            helper.make_node("Identity", ["w2"], ["wo2"]),
        ],
        "inner",
        [tensor("i2", I64, []), tensor("c2", B, []), untyped("s2"), untyped("w2")],
        [tensor("co2", B, []), untyped("so2"), untyped("wo2")],
    )
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["co"]),
            helper.make_node("Loop", ["two", "", "s", "w"], ["t", "wi"], body=inner),
            helper.make_node("Add", ["t", "b"], ["so"]),
            helper.make_node("Identity", ["wi"], ["wo"]),
            helper.make_node("Identity", ["b"], ["bo"]),
            helper.make_node("ReduceSum", ["so"], ["all"], keepdims=0),
        ],
        "body",
        [tensor("i", I64, []), tensor("c", B, [])] + [untyped(name) for name in ("w", "s", "b")],
        [tensor("co", B, [])] + [untyped(name) for name in ("wo", "so", "bo", "all")],
    )
    return model_proto(
        [
            helper.make_node("Constant", [], ["two"], value_int=2),
            helper.make_node(
                "Loop", ["m", "", "w0", "x", "b0"], ["w1", "y", "b1", "sums"], body=body
            ),
        ],
        [tensor("m", I64, []), tensor("x", F, ["n", 3]), tensor("b0", F, [3])],
        [tensor("w1", F, [3, 3]), tensor("y", F, ["n", 3]), tensor("sums", F, ["m"])],
        [numpy_helper.from_array(np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3), "w0")],
    )


@pytest.mark.parametrize("engine", ["native", "openvino", "xla", "onnxruntime"])
def test_what_a_loop_carries_unchanged(engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    model = loop_with_weights().SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    engines = list(dict.fromkeys([engine, "native"]))
    program = openxrt.load(model, engine=engines)
    rng = np.random.default_rng(0)
    for turns in (0, 1, 5):
        feeds = {
            "m": np.array(turns),
            "x": rng.standard_normal((4, 3)).astype(np.float32),
            "b0": rng.standard_normal(3).astype(np.float32),
        }
        found = program.run(feeds)
        for name, value in zip(("w1", "y", "sums"), session.run(None, feeds), strict=True):
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)
