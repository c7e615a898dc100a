# SPDX-License-Identifier: Apache-2.0
"""Sequences in loops and branches: values are never changed while something reads them, and what is
appended is not copied. ONNX Runtime judges."""

from __future__ import annotations

import time

import numpy as np
import onnx
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
SEQUENCE = helper.make_tensor_sequence_value_info


def ints(name: str, value: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value, np.int64), name)


def looped(
    nodes: list[onnx.NodeProto],
    carried: list[onnx.ValueInfoProto],
    made: list[onnx.ValueInfoProto],
    first: list[str],
    scanned: int = 0,
) -> onnx.NodeProto:
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["go"]), *nodes],
        "body",
        [tensor("i", INT64, []), tensor("c", BOOL, []), *carried],
        [tensor("go", BOOL, []), *made],
    )
    results = [f"r{k}" for k in range(len(carried) + scanned)]
    return helper.make_node("Loop", ["n", "", *first], results, body=body, name="loop")


def node(op: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def joined(sequence: str, output: str) -> onnx.NodeProto:
    return helper.make_node("ConcatFromSequence", [sequence], [output], axis=0, new_axis=1)


# A value of the turn, and an insertion of it.
VALUE = [node("Cast", "i", "f", to=FLOAT), node("Add", "x f", "v")]
START = [node("SequenceConstruct", "x", "s0")]
S, T = SEQUENCE("s", FLOAT, None), SEQUENCE("t", FLOAT, None)


def appended() -> list[onnx.NodeProto]:
    body = [*VALUE, node("SequenceInsert", "s v", "t")]
    return [*START, looped(body, [S], [T], ["s0"]), joined("r0", "y")]


def inserted_in_front() -> list[onnx.NodeProto]:
    body = [*VALUE, node("SequenceInsert", "s v zero", "t")]
    return [*START, looped(body, [S], [T], ["s0"]), joined("r0", "y")]


def old_one_read_again() -> list[onnx.NodeProto]:
    """In the turn that inserts: its items, and its length behind the insertion."""
    body = [
        *VALUE,
        node("SequenceInsert", "s v", "t"),
        node("SequenceLength", "t", "long"),
        node("SequenceLength", "s", "short"),
        joined("s", "all"),
        node("ReduceSum", "all", "sum", keepdims=0),
        node("Sub", "long short", "difference"),
        node("Cast", "difference", "d", to=FLOAT),
        node("Add", "sum d", "part"),
    ]
    parts = tensor("part", FLOAT, [])
    return [
        *START,
        looped(body, [S], [T, parts], ["s0"], scanned=1),
        joined("r0", "all_of_it"),
        node("ReduceSum", "all_of_it", "a", keepdims=0),
        node("Add", "a r1", "y"),
    ]


def old_one_carried() -> list[onnx.NodeProto]:
    """What the turn before had is carried beside the new one."""
    body = [*VALUE, node("SequenceInsert", "s v", "t"), node("Identity", "s", "kept")]
    before, kept = SEQUENCE("before", FLOAT, None), SEQUENCE("kept", FLOAT, None)
    return [
        *START,
        looped(body, [S, before], [T, kept], ["s0", "s0"]),
        joined("r0", "a"),
        joined("r1", "b"),
        node("ReduceSum", "b", "sum", keepdims=0),
        node("Add", "a sum", "y"),
    ]


def first_one_read_behind_the_loop() -> list[onnx.NodeProto]:
    body = [*VALUE, node("SequenceInsert", "s v", "t")]
    return [
        *START,
        looped(body, [S], [T], ["s0"]),
        joined("r0", "a"),
        joined("s0", "b"),
        node("Sub", "a b", "y"),
    ]


def erased() -> list[onnx.NodeProto]:
    body = [
        *VALUE,
        node("SequenceInsert", "s v", "u"),
        node("SequenceInsert", "u v zero", "w"),
        node("SequenceErase", "w one", "t"),
        node("SequenceAt", "u zero", "part"),
    ]
    parts = tensor("part", FLOAT, [3])
    return [
        *START,
        looped(body, [S], [T, parts], ["s0"], scanned=1),
        joined("r0", "a"),
        node("ReduceSum", "r1", "b", keepdims=0),
        node("Add", "a b", "y"),
    ]


def inserted_and_erased() -> list[onnx.NodeProto]:
    body = [
        *VALUE,
        node("SequenceInsert", "s x", "u"),
        node("SequenceInsert", "u v", "w"),
        node("SequenceErase", "w", "t"),
    ]
    return [*START, looped(body, [S], [T], ["s0"]), joined("r0", "y")]


def inserted_in_branches() -> list[onnx.NodeProto]:
    """Even turns insert, odd ones hand the sequence on."""
    then = helper.make_graph(
        [node("SequenceInsert", "s v", "a")], "then", [], [SEQUENCE("a", FLOAT, None)]
    )
    otherwise = helper.make_graph(
        [node("Identity", "s", "b")], "else", [], [SEQUENCE("b", FLOAT, None)]
    )
    body = [
        *VALUE,
        node("Mod", "i two", "odd"),
        node("Equal", "odd zero", "even"),
        helper.make_node("If", ["even"], ["t"], then_branch=then, else_branch=otherwise),
    ]
    return [*START, looped(body, [S], [T], ["s0"]), joined("r0", "y")]


def inserted_into_a_captured_one() -> list[onnx.NodeProto]:
    body = [
        *VALUE,
        node("SequenceInsert", "s0 v", "u"),
        node("SequenceAt", "u one", "w"),
        node("SequenceLength", "u", "count"),
        node("Cast", "count", "g", to=FLOAT),
        node("Mul", "w g", "p"),
        node("Add", "s p", "t"),
    ]
    state = [tensor("s", FLOAT, [3])], [tensor("t", FLOAT, [3])]
    return [*START, looped(body, *state, ["x"]), joined("s0", "b"), node("Add", "r0 b", "y")]


CASES = {
    case.__name__: case
    for case in (
        appended,
        inserted_in_front,
        old_one_read_again,
        old_one_carried,
        first_one_read_behind_the_loop,
        erased,
        inserted_and_erased,
        inserted_in_branches,
        inserted_into_a_captured_one,
    )
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_results_are_those_of_onnxruntime(case: str) -> None:
    constants = [ints("zero", 0), ints("one", 1), ints("two", 2)]
    model = make_model(
        CASES[case](),
        [tensor("n", INT64, []), tensor("x", FLOAT, [3])],
        [tensor("y", FLOAT, None)],
        constants,
        opset=17,
    )
    program = openxrt.load(model, engine="native", cache_dir="")
    judge = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    x = np.array([1, 2, 4], np.float32)
    for turns in (0, 1, 2, 7):
        feeds = {"n": np.array(turns), "x": x}
        if turns == 0 and case == "old_one_read_again":
            continue  # a scanned output without parts adds up to nothing
        for _ in range(2):
            np.testing.assert_array_equal(
                program.run(feeds)["y"], judge.run(None, feeds)[0], err_msg=f"{turns} turns"
            )
    np.testing.assert_array_equal(x, [1, 2, 4])


@pytest.mark.parametrize("case", ["appended", "inserted_and_erased", "inserted_in_branches"])
def test_time_grows_with_the_number_of_turns(case: str) -> None:
    constants = [ints("zero", 0), ints("one", 1), ints("two", 2)]
    nodes = CASES[case]()
    # Its items alone would be read at the end.
    last = [node("SequenceLength", "r0", "y")]
    model = make_model(
        [*nodes[:2], *last],
        [tensor("n", INT64, []), tensor("x", FLOAT, [3])],
        [tensor("y", INT64, [])],
        constants,
        opset=17,
    )
    program = openxrt.load(model, engine="native", cache_dir="", num_threads=1)

    def seconds(turns: int) -> float:
        feeds = {"n": np.array(turns), "x": np.ones(3, np.float32)}
        program.run(feeds)
        times = []
        for _ in range(3):
            start = time.process_time()
            program.run(feeds)
            times.append(time.process_time() - start)
        return min(times)

    few, many = seconds(1000), seconds(10_000)
    assert many < 40 * few, f"{many} s for ten times the turns of {few} s"
