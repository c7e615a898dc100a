# SPDX-License-Identifier: Apache-2.0
"""Odd declarations of inputs, outputs and values."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper

from .odd import FLOAT, INT64, Odd, X, case, info, plain, weight


def _declared(output: onnx.ValueInfoProto, *values: onnx.ValueInfoProto) -> ModelProto:
    model = plain(
        [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])],
        outputs=[output],
    )
    model.graph.value_info.extend(values)
    return model


@case
def output_declared_of_rank_0() -> ModelProto:
    return _declared(info("y", shape=[]))


@case
def output_declared_of_another_size() -> ModelProto:
    return _declared(info("y", shape=[2, 5]))


@case
def output_declared_of_higher_rank() -> ModelProto:
    return _declared(info("y", shape=[1, 2, 3]))


@case
def output_declared_of_another_element_type() -> ModelProto:
    return _declared(info("y", INT64))


@case
def output_without_a_type() -> ModelProto:
    return _declared(onnx.ValueInfoProto(name="y"))


@case
def output_without_a_shape() -> ModelProto:
    return _declared(info("y", shape=None))


@case
def output_without_an_element_type() -> ModelProto:
    model = _declared(info("y"))
    model.graph.output[0].type.tensor_type.elem_type = 0
    return model


@case
def value_declared_of_another_size() -> ModelProto:
    return _declared(info("y"), info("a", shape=[2, 5]))


@case
def value_declared_of_another_rank() -> ModelProto:
    return _declared(info("y"), info("a", shape=[]))


@case
def value_declared_of_another_element_type() -> ModelProto:
    return _declared(info("y"), info("a", INT64))


@case
def value_declared_twice() -> ModelProto:
    return _declared(info("y"), info("a"), info("a", shape=["n", 3]))


@case
def value_declared_that_does_not_exist() -> ModelProto:
    return _declared(info("y"), info("ghost", INT64, [7]))


@case
def value_of_a_body_declared_of_another_size() -> Odd:
    def body(name: str, op: str) -> onnx.GraphProto:
        return helper.make_graph(
            [helper.make_node(op, ["x"], [f"{name}_y"])], name, [], [info(f"{name}_y", shape=[9])]
        )

    model = plain(
        [
            helper.make_node(
                "If", ["c"], ["y"], then_branch=body("t", "Neg"), else_branch=body("e", "Abs")
            )
        ],
        inputs=[info("c", TensorProto.BOOL, []), info("x")],
        outputs=[info("y", shape=None)],
    )
    return Odd(model, {"c": np.array(False), "x": X})


@case
def input_of_a_body_declared_of_another_size() -> Odd:
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["more"]), helper.make_node("Neg", ["v"], ["w"])],
        "body",
        [info("i", INT64, []), info("go", TensorProto.BOOL, []), info("v", shape=[7, 7])],
        [info("more", TensorProto.BOOL, []), info("w", shape=[7, 7])],
    )
    count = weight("count", np.array(3, np.int64))
    model = plain(
        [helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)], initializers=(count,)
    )
    return Odd(model)


def _counted(number: object, go_on: object) -> ModelProto:
    """A loop whose body adds its number, and tells the shapes of that and of its condition."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["on"], ["still"]),
            helper.make_node("Cast", ["i"], ["number"], to=FLOAT),
            helper.make_node("Cast", ["on"], ["goes"], to=FLOAT),
            helper.make_node("Mul", ["number", "goes"], ["product"]),
            helper.make_node("Add", ["carried", "product"], ["next"]),
            helper.make_node("Shape", ["i"], ["sizes"]),
            helper.make_node("Shape", ["on"], ["others"]),
        ],
        "body",
        [
            info("i", INT64, number),
            info("on", TensorProto.BOOL, go_on),
            info("carried"),
        ],
        [
            info("still", TensorProto.BOOL, go_on),
            info("next"),
            info("sizes", INT64, None),
            info("others", INT64, None),
        ],
    )
    count = weight("count", np.array(3, np.int64))
    loop = helper.make_node("Loop", ["count", "", "x"], ["y", "shapes", "of_conditions"], body=body)
    outputs = [info("y"), info("shapes", INT64, None), info("of_conditions", INT64, None)]
    return plain([loop], outputs=outputs, initializers=(count,))


@case
def number_of_an_iteration_declared_a_list() -> ModelProto:
    return _counted([1], [])


@case
def number_of_an_iteration_declared_a_list_of_some_size() -> ModelProto:
    return _counted(["n"], [])


@case
def condition_of_a_body_declared_a_list() -> ModelProto:
    return _counted([], [1])


@case
def number_and_condition_declared_lists() -> ModelProto:
    return _counted([1], [1])


@case
def symbols_that_repeat() -> ModelProto:
    return plain(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        inputs=[info("x", shape=["n", "m"])],
        outputs=[info("y", shape=["n", "m"])],
    )


@case
def one_symbol_for_two_sizes_of_an_output() -> ModelProto:
    return plain(inputs=[info("x", shape=["n", 3])], outputs=[info("y", shape=["k", "k"])])


@case
def symbol_without_a_name() -> ModelProto:
    return plain(inputs=[info("x", shape=[None, 3])], outputs=[info("y", shape=[None, 3])])


@case
def input_with_a_negative_dimension() -> ModelProto:
    return plain(inputs=[info("x", shape=[-1, 3])], outputs=[info("y", shape=[-1, 3])])


@case
def input_without_a_shape() -> ModelProto:
    return plain(inputs=[info("x", shape=None)], outputs=[info("y", shape=None)])


@case
def input_without_a_reader() -> Odd:
    return Odd(plain(inputs=[info("x"), info("z")]), {"x": X, "z": X})


@case
def input_twice() -> ModelProto:
    return plain(inputs=[info("x"), info("x")])


@case
def output_is_an_input() -> ModelProto:
    return plain(outputs=[info("y"), info("x")])


@case
def output_is_an_initializer() -> ModelProto:
    return plain(outputs=[info("y"), info("w")], initializers=(weight(),))


@case
def output_twice() -> ModelProto:
    return plain(outputs=[info("y"), info("y")])


@case
def output_that_nobody_makes() -> ModelProto:
    return plain(outputs=[info("y"), info("ghost")])


@case
def no_nodes() -> ModelProto:
    return plain([], outputs=[info("x")])
