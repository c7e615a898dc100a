# SPDX-License-Identifier: Apache-2.0
"""Builds small models with the onnx package; says which engines there are."""

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import openxrt
from onnx import helper

OPSET = 21
IR_VERSION = 10


def model_proto(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Sequence[onnx.TensorProto] = (),
    *,
    opset: int = OPSET,
    domains: Mapping[str, int] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model of the opset, and of the further domains with their versions."""
    graph = helper.make_graph(list(nodes), "test", list(inputs), list(outputs), list(initializers))
    versions = {"": opset, **(domains or {})}
    return helper.make_model(
        graph,
        opset_imports=[
            helper.make_opsetid(domain, version) for domain, version in versions.items()
        ],
        ir_version=IR_VERSION,
        functions=list(functions),
    )


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Sequence[onnx.TensorProto] = (),
    **options: Any,
) -> bytes:
    """model_proto() as the content of a file."""
    return model_proto(nodes, inputs, outputs, initializers, **options).SerializeToString()


def tensor(name: str, dtype: int, shape: Sequence[int | str | None] | None) -> onnx.ValueInfoProto:
    """The type of a tensor value; without a shape, its rank is not known."""
    return helper.make_tensor_value_info(name, dtype, None if shape is None else list(shape))


def untyped(name: str) -> onnx.ValueInfoProto:
    """A value whose type is inferred."""
    return onnx.ValueInfoProto(name=name)


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
