# SPDX-License-Identifier: Apache-2.0
"""Builds small models with the onnx package; says which engines there are."""

from collections.abc import Sequence

import onnx
import openxrt
from onnx import helper

OPSET = 21


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Sequence[onnx.TensorProto] = (),
) -> bytes:
    """A serialised model."""
    graph = helper.make_graph(list(nodes), "test", list(inputs), list(outputs), list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return model.SerializeToString()


def tensor(name: str, dtype: int, shape: Sequence[int | str | None]) -> onnx.ValueInfoProto:
    """The type of a tensor value."""
    return helper.make_tensor_value_info(name, dtype, list(shape))


def identity_model(dtype: int, shape: Sequence[int | str | None]) -> bytes:
    """y = Identity(x)."""
    return make_model(
        [helper.make_node("Identity", ["x"], ["y"])],
        [tensor("x", dtype, shape)],
        [tensor("y", dtype, shape)],
    )


def usable(engine: str) -> bool:
    """Whether the engine loads here."""
    try:
        openxrt.engine_ops(engine)
    except openxrt.Error:
        return False
    return True
