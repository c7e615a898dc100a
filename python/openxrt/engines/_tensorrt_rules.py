# SPDX-License-Identifier: Apache-2.0
"""Nodes that are not TensorRT's whatever its parser says, with the reasons."""

from __future__ import annotations

from .._core import NodeView

# What crosses the border of a function. Inside of it TensorRT knows float8, int4 and float4 too.
BORDER = frozenset({"float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"})
# Constants may also be of these.
CONSTANT = BORDER | {"float8_e4m3fn", "int4"}
RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)


def refusal(node: NodeView) -> str:
    """Why the node is not TensorRT's, or ""."""
    if node.domain:
        return f"it is not asked about the domain '{node.domain}'"
    if node.op in RANDOM:
        return "its random numbers are others for the same seed"
    constants = node.constants
    for i, kind in enumerate(node.input_types + node.output_types):
        if kind is None:
            continue
        if kind.kind != "tensor":
            return f"TensorRT has no values of type {kind}"
        if kind.dtype not in (CONSTANT if i in constants else BORDER):
            return f"values of type {kind} do not pass its border"
        if kind.shape is None:
            return "values of unknown rank"
    return ""
