# SPDX-License-Identifier: Apache-2.0
"""Functions of a model, each of which calls the one before twice."""

from __future__ import annotations

import onnx
from onnx import helper

OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]


def doubling_functions(depth: int) -> list[onnx.FunctionProto]:
    """F0 to F<depth - 1> of the domain "f"; the last one stands for 2^(depth - 1) nodes."""

    def function(name: str, nodes: list[onnx.NodeProto]) -> onnx.FunctionProto:
        return helper.make_function("f", name, ["a"], ["b"], nodes, OPSETS)

    functions = [function("F0", [helper.make_node("Neg", ["a"], ["b"])])]
    for i in range(1, depth):
        calls = [
            helper.make_node(f"F{i - 1}", ["a"], ["m"], domain="f"),
            helper.make_node(f"F{i - 1}", ["m"], ["b"], domain="f"),
        ]
        functions.append(function(f"F{i}", calls))
    return functions
