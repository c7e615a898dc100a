# SPDX-License-Identifier: Apache-2.0
"""Integers that the plugin would round: other engines run what has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, usable

pytestmark = pytest.mark.skipif(not usable("openvino"), reason="openvino is not there")

# Constant operands behind x.
OPS: dict[str, dict[str, Any]] = {
    "Clip": {"least": np.int64(-5), "most": np.int64(1 << 23)},
    "Mul": {"factor": np.int64(200)},
    "CumSum": {"axis": np.int64(0)},
    "Relu": {},
    "ReverseSequence": {"lengths": np.array([2, 1])},
}


@pytest.mark.parametrize("op", OPS)
def test_what_float32_does_not_hold_is_refused(op: str) -> None:
    model = make_model(
        [helper.make_node(op, ["x", *OPS[op]], ["y"])],
        [tensor("x", TensorProto.INT64, [2, 2])],
        [tensor("y", TensorProto.INT64, [2, 2])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in OPS[op].items()],
        opset=18,
    )
    program = openxrt.load(model, engine="openvino", strict=True, check_results=False, cache_dir="")
    native = openxrt.load(model, engine="native", cache_dir="")
    few = np.array([[1, -7], [1 << 22, 3]])
    np.testing.assert_array_equal(program(few), native(few))
    with pytest.raises(openxrt.Error, match="'x'"):
        program(np.array([[(1 << 24) + 1, 0], [0, 0]]))


def behind(nodes: list[onnx.NodeProto], **constants: Any) -> bytes:
    """y, int64[2], of x and the constants."""
    return make_model(
        nodes,
        [tensor("x", TensorProto.INT64, [2])],
        [tensor("y", TensorProto.INT64, [2])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
        opset=18,
    )


CHOICES = [
    helper.make_node("Where", ["c", "x", "x"], ["w"]),
    helper.make_node("Mod", ["w", "two"], ["y"]),
]
FACTORS = [
    helper.make_node("Mul", ["x", "two"], ["w"]),
    helper.make_node("Add", ["w", "one"], ["y"]),
]


@pytest.mark.parametrize("nodes", [CHOICES, FACTORS])
def test_inputs_are_held_to_what_later_nodes_keep(nodes: list[onnx.NodeProto]) -> None:
    read = {name for node in nodes for name in node.input}
    given = {"c": np.array([True, False]), "two": np.int64(2), "one": np.int64(1)}
    model = behind(nodes, **{name: value for name, value in given.items() if name in read})
    program = openxrt.load(model, engine="openvino", strict=True, check_results=False, cache_dir="")
    x = np.array([7, -5])
    wanted = x % 2 if nodes is CHOICES else 2 * x + 1
    np.testing.assert_array_equal(program(x), wanted)
    with pytest.raises(openxrt.Error, match="'x'"):
        program(np.array([2**30 + 1, 0]))


@pytest.mark.parametrize("op", ["Abs", "Neg", "Relu"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_inputs_are_held_to_what_later_nodes_keep_of_a_sign(dtype: type, op: str) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = make_model(
        [
            helper.make_node(op, ["x"], ["h"]),
            helper.make_node("ReduceMax", ["h"], ["y"], axes=[0], keepdims=0),
        ],
        [tensor("x", kind, [1, 3])],
        [tensor("y", kind, [3])],
        opset=17,
    )
    x = np.array([[16777217, -16777219, 2147483646]], dtype)
    engines = ["openvino", "native"]
    program = openxrt.load(model, engine=engines, check_results=False, cache_dir="")
    wanted = {"Abs": np.abs(x), "Neg": -x, "Relu": np.maximum(x, 0)}[op]
    np.testing.assert_array_equal(program(x), wanted[0])


def test_remainders_of_products_are_exact() -> None:
    """Nobody sees a product that a function computes for itself."""
    nodes = [
        helper.make_node("Mul", ["x", "factor"], ["w"]),
        helper.make_node("Mod", ["w", "by"], ["y"]),
    ]
    model = behind(nodes, factor=np.int64(103), by=np.int64(101))
    program = openxrt.load(model, engine=["openvino", "native"], check_results=False, cache_dir="")
    x = np.array([1_000_000, -3])
    np.testing.assert_array_equal(program(x), x * 103 % 101)


def test_large_unsigned_constants_are_refused() -> None:
    """As int64 they look like small negative numbers."""
    largest = np.array([2**64 - 1, 1], np.uint64)
    model = make_model(
        [helper.make_node("Add", ["x", "c"], ["y"])],
        [tensor("x", TensorProto.UINT64, [2])],
        [tensor("y", TensorProto.UINT64, [2])],
        [numpy_helper.from_array(largest, "c")],
    )
    program = openxrt.load(model, engine=["openvino", "native"], check_results=False, cache_dir="")
    np.testing.assert_array_equal(program(np.zeros(2, np.uint64)), largest)


def test_large_integers_in_branches() -> None:
    """What a body computes in float32 bounds what it reads from around."""
    branches = {
        name: helper.make_graph(
            [helper.make_node("Div", ["x", "w"], [name])],
            name,
            [],
            [tensor(name, TensorProto.INT32, [2])],
        )
        for name in ("then_branch", "else_branch")
    }
    model = make_model(
        [helper.make_node("If", ["c"], ["y"], **branches)],
        [
            tensor("c", TensorProto.BOOL, []),
            tensor("x", TensorProto.INT32, [2]),
            tensor("w", TensorProto.INT32, [2]),
        ],
        [tensor("y", TensorProto.INT32, [2])],
    )
    program = openxrt.load(model, engine="openvino", strict=True)
    given = {"c": np.array(True), "w": np.array([-5, 1], np.int32)}
    y = program.run({"x": np.array([11, -7], np.int32), **given})["y"]
    np.testing.assert_array_equal(y, [-2, -7])
    with pytest.raises(openxrt.Unsupported, match=r"'x'.*16777216"):
        program.run({"x": np.array([2**31 - 1, 1], np.int32), **given})


FILLINGS = {
    "int64": (np.int64(2**53 + 1), []),
    "least int64": (np.int64(-(2**63)), []),
    "uint64": (np.uint64(2**63 + 5), []),
    "uint32": (np.uint32(2**32 - 5), []),
    "in float32": (np.int64(2**24 + 1), [helper.make_node("ReduceMax", ["c"], ["y"])]),
    "a sum": (np.int64(2**30), [helper.make_node("Add", ["c", "c"], ["y"])]),
    "small": (np.int64(2**24), [helper.make_node("ReduceMax", ["c"], ["y"])]),
}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("filling", FILLINGS)
def test_what_a_result_is_filled_with(filling: str, inside: bool) -> None:
    """It is no operand but an attribute."""
    value, behind_it = FILLINGS[filling]
    fill = helper.make_node(
        "ConstantOfShape",
        ["s"],
        ["c" if behind_it else "y"],
        value=numpy_helper.from_array(value[None]),
    )
    nodes = [fill, *behind_it]
    inputs = [tensor("s", TensorProto.INT64, [2])]
    if inside:
        bodies = {
            branch: helper.make_graph(
                [
                    helper.make_node(
                        node.op_type,
                        [f"{name}{branch}" if name != "s" else name for name in node.input],
                        [f"{name}{branch}" for name in node.output],
                        **{a.name: helper.get_attribute_value(a) for a in node.attribute},
                    )
                    for node in nodes
                ],
                branch,
                [],
                [onnx.ValueInfoProto(name=f"y{branch}")],
            )
            for branch in ("then_branch", "else_branch")
        }
        nodes = [helper.make_node("If", ["b"], ["y"], **bodies)]
        inputs.append(tensor("b", TensorProto.BOOL, []))
    model = make_model(nodes, inputs, [onnx.ValueInfoProto(name="y")], opset=21)
    feeds = {"s": np.array([2, 3])} | ({"b": np.array(True)} if inside else {})
    program = openxrt.load(model, engine=["openvino", "native"], check_results=False, cache_dir="")
    wanted = openxrt.load(model, engine="native", cache_dir="").run(feeds)["y"]
    np.testing.assert_array_equal(program.run(feeds)["y"], wanted)
    if filling == "small" and not inside:  # that may stay
        openxrt.load(model, engine="openvino", strict=True, cache_dir="")


@pytest.mark.parametrize("op", ["Abs", "Div", "Neg"])
def test_the_negative_of_the_least_byte(op: str) -> None:
    feeds = {"x": np.array([-128, 5], np.int8)}
    if op == "Div":
        feeds["by"] = np.array([-1, 2], np.int8)
    model = make_model(
        [helper.make_node(op, list(feeds), ["y"])],
        [tensor(name, TensorProto.INT8, [2]) for name in feeds],
        [tensor("y", TensorProto.INT8, [2])],
    )
    program = openxrt.load(model, engine=["openvino", "native"], check_results=False, cache_dir="")
    y = program.run(feeds)["y"]
    np.testing.assert_array_equal(y, {"Abs": [-128, 5], "Div": [-128, 2], "Neg": [-128, -5]}[op])


@pytest.mark.parametrize("op", ["Neg", "Abs"])
def test_the_negative_of_the_least_integer(op: str) -> None:
    model = make_model(
        [helper.make_node(op, ["x"], ["y"])],
        [tensor("x", TensorProto.INT64, [1])],
        [tensor("y", TensorProto.INT64, [1])],
    )
    program = openxrt.load(model, engine="openvino", strict=True)
    assert program(np.array([1 - 2**31])) == [2**31 - 1]
    with pytest.raises(openxrt.Unsupported, match=r"'x'.*2147483646"):
        program(np.array([-(2**31)]))
