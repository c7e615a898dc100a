# SPDX-License-Identifier: Apache-2.0
"""Hostile graphs: nodes and functions in circles, bodies that contradict their node."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from small_models import model_proto, tensor, untyped

Made = tuple[onnx.ModelProto | bytes, dict[str, Any], dict[str, Any]]
F, I64, B, S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
ONE = np.ones((2, 3), np.float32)
FEEDS = {"x": ONE}


def circles(rng: random.Random) -> Made:
    """Nodes that wait for one another, for themselves, or for nobody."""
    count = rng.choice([1, 2, 3, 50])
    nodes = [helper.make_node("Add", ["x", f"v{(i + 1) % count}"], [f"v{i}"]) for i in range(count)]
    rng.shuffle(nodes)
    if rng.random() < 0.3:
        nodes[0].input[1] = "nobody"
    if rng.random() < 0.5:
        return model_proto(nodes, [tensor("x", F, [2, 3])], [untyped("v0")]), FEEDS, {}
    body = helper.make_graph(nodes, "b", [], [untyped("v0")])
    outer = [helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)]
    inputs = [tensor("x", F, [2, 3]), tensor("c", B, [])]
    return model_proto(outer, inputs, [untyped("y")]), {**FEEDS, "c": np.array(True)}, {}


def functions(rng: random.Random) -> Made:
    """Functions in circles, doubled, without versions, or called with what they do not have."""
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    calls = rng.choice([["G", "F"], ["F", "F"], ["Neg", "F"], ["Neg", "Neg"], ["H", "G"]])
    made = []
    for name, call in zip("FG", calls, strict=True):
        domain = "" if call == "Neg" else "own"
        nodes = [helper.make_node(call, ["a"], ["b"], domain=domain)]
        attributes = ["alpha"] if rng.random() < 0.3 else []
        one = helper.make_function("own", name, ["a"], ["b"], nodes, imports, attributes)
        made.append(one)
    one = rng.choice(made)
    way = rng.randrange(9)
    if way == 0:
        del one.opset_import[:]
    elif way == 1:
        made.append(one)
    elif way == 2:
        reference = one.node[0].attribute.add(name="alpha", ref_attr_name="nobody")
        reference.type = rng.choice([1, 2, 5, 0])
    elif way == 3:
        one.output.append(rng.choice(["a", "nobody", "b"]))
    elif way == 4:
        one.input.extend([""] * rng.choice([1, 3]))
    elif way == 5:
        one.domain = rng.choice(["", "ai.onnx"])
        one.name = rng.choice(["Neg", "Relu", "If"])
    elif way == 6:
        one.overload = rng.choice(["1", "é"])
    elif way == 7:
        del one.node[:]
    call = helper.make_node("F", ["x"] * rng.choice([0, 1, 1, 1, 2, 50]), ["y"], domain="own")
    call.output.extend([f"y{i}" for i in range(rng.choice([0, 0, 1, 50]))])
    inputs = [tensor("x", F, [2, 3])]
    model = model_proto([call], inputs, [untyped("y")], domains={"own": 1}, functions=made)
    return model, FEEDS, {}


def contradictory(rng: random.Random) -> Made:
    """Branches and loops whose bodies do not fit the node, nor each other."""

    def branch(name: str) -> onnx.GraphProto:
        op, extra = rng.choice(
            [("Neg", {}), ("Shape", {}), ("Flatten", {}), ("Cast", {"to": S}), ("Size", {})]
        )
        outputs = [untyped("r")] * rng.choice([1, 1, 1, 0, 2])
        if rng.random() < 0.3:
            outputs = [tensor("r", rng.choice([F, I64, S]), rng.choice([[7], [], [2, 3]]))]
        extra_input = [tensor("i", I64, [])] if rng.random() < 0.1 else []
        return helper.make_graph(
            [helper.make_node(op, [rng.choice(["x", "x", "r", "i", "y"])], ["r"], **extra)],
            name,
            extra_input,
            outputs,
        )

    way = rng.randrange(3)
    if way == 0:
        node = helper.make_node(
            "If", ["c"], ["y"], then_branch=branch("t"), else_branch=branch("e")
        )
    elif way == 1:
        node = helper.make_node(
            "Loop", ["m", "c", "x"][: rng.choice([0, 1, 2, 3])], ["y"], body=branch("b")
        )
    else:
        numbers = [0, 1, -1, 2, 3, 2**40, -(2**63)]
        inputs = [tensor(n, F, None) for n in ["s", "e", "f"][: rng.randint(0, 3)]]
        outputs = [untyped(n) for n in ["so", "eo"][: rng.randint(0, 2)]]
        body = helper.make_graph(
            [helper.make_node("Identity", ["x"], ["so"]), helper.make_node("Neg", ["x"], ["eo"])],
            "scan",
            inputs,
            outputs,
        )
        lists = {
            name: [rng.choice(numbers) for _ in range(rng.choice([1, 1, 2]))]
            for name in ["scan_input_axes", "scan_input_directions", "scan_output_axes"]
            if rng.random() < 0.4
        }
        node = helper.make_node(
            "Scan",
            ["x"] * rng.choice([0, 1, 2, 3]),
            ["y", "z"][: rng.randint(1, 2)],
            body=body,
            num_scan_inputs=rng.choice(numbers),
            **lists,
        )
    inputs = [
        tensor("x", F, rng.choice([[2, 3], ["a", "b"], None])),
        tensor("c", B, None),
        tensor("m", I64, None),
    ]
    feeds = {**FEEDS, "c": np.array(rng.random() < 0.5), "m": np.array(rng.choice([0, 2, -1]))}
    return model_proto([node], inputs, [untyped("y")]), feeds, {}
