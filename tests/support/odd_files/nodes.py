# SPDX-License-Identifier: Apache-2.0
"""Odd nodes, their order and their attributes."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from .odd import Odd, W, X, case, info, plain, weight


@case
def nodes_in_the_wrong_order() -> ModelProto:
    return plain(
        [
            helper.make_node("Add", ["a", "b"], ["y"]),
            helper.make_node("Neg", ["a"], ["b"]),
            helper.make_node("Relu", ["x"], ["a"]),
        ]
    )


@case
def nodes_in_the_wrong_order_around_a_body() -> Odd:
    def body(name: str, op: str) -> onnx.GraphProto:
        nodes = [
            helper.make_node(op, [f"{name}_t"], [f"{name}_y"]),
            helper.make_node("Add", ["late", "x"], [f"{name}_t"]),
        ]
        return helper.make_graph(nodes, name, [], [info(f"{name}_y")])

    model = plain(
        [
            helper.make_node(
                "If", ["c"], ["y"], then_branch=body("t", "Neg"), else_branch=body("e", "Abs")
            ),
            helper.make_node("Relu", ["x"], ["late"]),
        ],
        inputs=[info("c", TensorProto.BOOL, []), info("x")],
    )
    return Odd(model, {"c": np.array(True), "x": X})


@case
def nodes_in_a_cycle() -> ModelProto:
    return plain(
        [helper.make_node("Add", ["x", "b"], ["y"]), helper.make_node("Neg", ["y"], ["b"])]
    )


@case
def node_twice() -> ModelProto:
    return plain([helper.make_node("Relu", ["x"], ["y"])] * 2)


@case
def nodes_of_one_name() -> ModelProto:
    return plain(
        [
            helper.make_node("Relu", ["x"], ["a"], name="n"),
            helper.make_node("Neg", ["a"], ["y"], name="n"),
        ]
    )


@case
def nodes_without_names_and_graph_without_a_name() -> ModelProto:
    model = plain([helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])])
    model.graph.name = ""
    return model


@case
def node_reads_what_nobody_makes() -> ModelProto:
    return plain([helper.make_node("Add", ["x", "nothing"], ["y"])])


@case
def node_without_a_reader() -> ModelProto:
    return plain([helper.make_node("Neg", ["x"], ["dead"]), helper.make_node("Relu", ["x"], ["y"])])


@case
def optional_inputs_with_empty_names() -> Odd:
    top = weight("top", np.array(1.0, np.float32))
    return Odd(plain([helper.make_node("Clip", ["x", "", "top"], ["y"])], initializers=(top,)))


@case
def trailing_empty_names() -> ModelProto:
    return plain([helper.make_node("Clip", ["x", "", ""], ["y"])])


@case
def optional_output_with_an_empty_name() -> ModelProto:
    return plain([helper.make_node("Dropout", ["x"], ["y", ""])])


@case
def attribute_that_the_op_lacks() -> ModelProto:
    return plain([helper.make_node("Relu", ["x"], ["y"], consumed_inputs=[0])])


@case
def attribute_without_a_type() -> ModelProto:
    model = plain([helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.5)])
    model.graph.node[0].attribute[0].ClearField("type")
    return model


@case
def attribute_twice() -> ModelProto:
    model = plain([helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.5)])
    model.graph.node[0].attribute.append(helper.make_attribute("alpha", 0.25))
    return model


@case
def large_attribute() -> ModelProto:
    value = numpy_helper.from_array(np.tile(W, (1, 1))[None].repeat(1000, 0), "value")
    return plain(
        [
            helper.make_node("Constant", [], ["c"], value=value),
            helper.make_node("ReduceMean", ["c"], ["m"], axes=[0], keepdims=0),
            helper.make_node("Add", ["x", "m"], ["y"]),
        ]
    )
