# SPDX-License-Identifier: Apache-2.0
"""Hostile control flow and functions: wild counts, states and types."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hostile_parts import I64, ONE, B, F, Made, constant, node
from hostile_values import FLOATS, integer
from onnx import helper
from small_models import model_proto, tensor, untyped


def changing_state(rng: random.Random) -> Made:
    """A loop whose state or collected results have other sizes, ranks or types in every turn."""
    steps: list[tuple[str, list[str], dict[str, Any]]] = [
        ("Expand", ["s", "n1"], {}),
        ("Concat", ["s", "x"], {"axis": 0}),
        ("Unsqueeze", ["s", "axes"], {}),
        ("Slice", ["s", "one", "far"], {}),
        ("Slice", ["s", "n1", "far"], {}),
        ("Tile", ["s", "grow"], {}),
        ("Transpose", ["s"], {}),
        ("Gather", ["s", "i"], {"axis": 0}),
        ("Pad", ["s", "pads"], {}),
        ("Compress", ["s", "keep"], {}),
        ("ReduceSum", ["s"], {"keepdims": 0}),
        ("Shape", ["s"], {}),
    ]
    op, operands, attributes = rng.choice(steps)
    nodes = [
        node("Reshape", ["i", "flat"], ["i1"]),
        node("Add", ["i1", "offset"], ["n1"]),
        node(op, operands, ["t"], **attributes),
        node(rng.choice(["Identity", "Neg"]), ["t"], ["so"]),
        node(rng.choice(["Identity", "Shape", "ReduceMax"]), ["t"], ["r"]),
        node("Identity", ["c"], ["co"]),
    ]
    shape: Any = rng.choice([None, [2, 3], ["a", "b"], ["a", 3]])
    body = helper.make_graph(
        nodes,
        "body",
        [tensor("i", I64, []), tensor("c", B, []), tensor("s", F, shape)],
        [tensor("co", B, []), untyped("so"), untyped("r")][: rng.choice([2, 3, 3])],
    )
    outputs = ["y", "z"][: len(body.output) - 1]
    fixed = [
        constant("flat", [1]),
        constant("offset", [rng.choice([0, 1, -1, 2**31, 2**62, 2**63 - 2])]),
        constant("one", [1]),
        constant("far", [2**63 - 1]),
        constant("axes", [rng.choice([0, -1, 5])]),
        constant("grow", rng.choice([[2, 1], [1, 0], [2**31, 1]])),
        constant("pads", rng.choice([[0, 1, 0, 1], [0, -1, 0, 0], [0, 0, 2**40, 0]])),
        constant("keep", [True, False], np.bool_),
    ]
    model = model_proto(
        [node("Loop", ["m", "k", "x"], outputs, body=body)],
        [
            tensor("x", F, rng.choice([[2, 3], ["p", "q"]])),
            tensor("m", I64, []),
            tensor("k", B, []),
        ],
        [untyped(name) for name in outputs],
        fixed,
    )
    turns = [0, 1, 2, 5, 40, -1, 2**40, 2**63 - 1]
    return model, [
        {"x": ONE, "m": np.array(rng.choice(turns)), "k": np.array(rng.random() < 0.9)}
        for _ in range(3)
    ]


def wild_counts(rng: random.Random) -> Made:
    """Loops whose count or condition is computed: of floats that are none, of sums that wrap."""
    way = rng.randrange(4)
    before = [
        [node("Cast", ["f"], ["m"], to=I64)],
        [node("Cast", ["f"], ["g"], to=I64), node("Mul", ["g", "big"], ["m"])],
        [node("Size", ["x"], ["g"]), node("Mul", ["g", "big"], ["m"])],
        [node("Cast", ["f"], ["g"], to=I64), node("Add", ["g", "big"], ["m"])],
    ][way]
    body = helper.make_graph(
        [
            node("Sub", ["s", "step"], ["so"]),
            node("ReduceMax", ["so"], ["top"], keepdims=0),
            node("Greater", ["top", "end"], ["co"]),
        ],
        "body",
        [tensor("i", I64, []), tensor("c", B, []), tensor("s", F, None)],
        [tensor("co", B, []), untyped("so")],
    )
    fixed = [
        constant("big", rng.choice([2, 2**31, 2**62, -(2**63)])),
        constant("step", rng.choice([0.0, 0.5, 1e-30, float("nan")]), np.float32),
        constant("end", rng.choice([-3.0, float("-inf"), float("nan")]), np.float32),
    ]
    model = model_proto(
        [*before, node("Loop", ["m", rng.choice(["", "k"]), "x"], ["y"], body=body)],
        [tensor("x", F, ["a", "b"]), tensor("f", F, []), tensor("k", B, [])],
        [untyped("y")],
        fixed,
    )
    feeds = [rng.choice([3.0, 0.0, 1e30, -1e30, *FLOATS]) for _ in range(3)]
    return model, [{"x": ONE, "f": np.array(v, np.float32), "k": np.array(True)} for v in feeds]


def scans(rng: random.Random) -> Made:
    """Scans over axes that are not there, over lists of unequal lengths, over nothing."""
    count = rng.choice([1, 2, 3])
    body = helper.make_graph(
        [
            node("Add", ["s", "e0"], ["so"]),
            node(rng.choice(["Identity", "Shape", "NonZero"]), ["so"], ["r"]),
        ],
        "scan",
        [tensor("s", F, None), *[tensor(f"e{at}", F, None) for at in range(count)]],
        [untyped("so"), untyped("r")],
    )
    lists = {}
    for name, sound in [
        ("scan_input_axes", [0] * count),
        ("scan_input_directions", [0] * count),
        ("scan_output_axes", [0]),
        ("scan_output_directions", [1]),
    ]:
        if rng.random() < 0.5:
            lists[name] = [integer(rng) if rng.random() < 0.3 else value for value in sound]
    scan = node(
        "Scan",
        ["b", *[f"x{at}" for at in range(count)]],
        ["y", "z"],
        body=body,
        num_scan_inputs=count if rng.random() < 0.8 else integer(rng),
        **lists,
    )
    inputs = [tensor("b", F, None)]
    inputs += [tensor(f"x{at}", F, rng.choice([None, ["n", 3]])) for at in range(count)]
    model = model_proto([scan], inputs, [untyped("y"), untyped("z")])
    runs = []
    for _ in range(3):
        feeds: dict[str, Any] = {"b": np.ones(rng.choice([3, 1, 2]), np.float32)}
        for at in range(count):
            shape = rng.choice([(4, 3), (4, 3), (0, 3), (5, 3), (4, 0), (4,), ()])
            feeds[f"x{at}"] = np.ones(shape, np.float32)
        runs.append(feeds)
    return model, runs


def recursive(rng: random.Random) -> Made:
    """Functions that come back to themselves through a branch or a loop, or in long rows."""
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    length = rng.choice([1, 2, 5, 400])
    is_closed = rng.random() < 0.5
    made = []
    for at in range(length):
        last = at == length - 1
        callee = ("F0" if is_closed else "Neg") if last else f"F{at + 1}"
        call = node(callee, ["a"], ["r"], domain="" if callee == "Neg" else "own")
        way = rng.randrange(3)
        if way == 0:
            body = [node(callee, ["a"], ["b"], domain=call.domain)]
        elif way == 1:
            branch = helper.make_graph([call], "branch", [], [untyped("r")])
            body = [
                node("ReduceMax", ["a"], ["top"], keepdims=0),
                node("Cast", ["top"], ["c"], to=B),
                node("If", ["c"], ["b"], then_branch=branch, else_branch=branch),
            ]
        else:
            turn = helper.make_graph(
                [node("Identity", ["k"], ["ko"]), node(callee, ["s"], ["so"], domain=call.domain)],
                "turn",
                [tensor("i", I64, []), tensor("k", B, []), tensor("s", F, None)],
                [tensor("ko", B, []), untyped("so")],
            )
            body = [
                node("Constant", [], ["m"], value=constant("m", rng.choice([1, 2]))),
                node("Loop", ["m", "", "a"], ["b"], body=turn),
            ]
        made.append(helper.make_function("own", f"F{at}", ["a"], ["b"], body, imports))
    rng.shuffle(made)
    model = model_proto(
        [node("F0", ["x"], ["y"], domain="own")],
        [tensor("x", F, [2, 3])],
        [untyped("y")],
        domains={"own": 1},
        functions=made,
    )
    return model, [{"x": ONE}]


def growing_sizes(rng: random.Random) -> Made:
    """Open sizes whose sums and products grow with every node, and wrap."""
    op = rng.choice(["Concat", "Tile", "Pad", "Reshape", "Mul", "Slice"])
    count = rng.choice([3, 20, 63, 200])
    nodes, fixed = [], [constant("two", [2, 2]), constant("pads", [2**60, 0, 0, 0])]
    fixed += [constant("minus", [-1, 1]), constant("big", [2**31, 1]), constant("end", [2**62])]
    for at in range(count):
        before, after = f"v{at}" if at else "x", f"v{at + 1}"
        if op == "Concat":
            nodes.append(node("Concat", [before, before], [after], axis=at % 2))
        elif op == "Tile":
            nodes.append(node("Tile", [before, "two"], [after]))
        elif op == "Pad":
            nodes.append(node("Pad", [before, "pads"], [after]))
        elif op == "Reshape":
            nodes.append(node("Reshape", [before, "minus"], [after]))
        elif op == "Mul":
            nodes.append(node("Shape", [before], [f"s{at}"]))
            nodes.append(node("Mul", [f"s{at}", "big"], [f"t{at}"]))
            nodes.append(node("Expand", [before, f"t{at}"], [after]))
        else:
            nodes.append(node("Slice", [before, "minus", "end"], [after]))
    shape = node("Shape", [f"v{count}"], ["y"])
    is_shape = rng.random() < 0.5
    model = model_proto(
        [*nodes, shape] if is_shape else nodes,
        [tensor("x", F, rng.choice([["n", "m"], [2, 3], None]))],
        [untyped("y" if is_shape else f"v{count}")],
        fixed,
    )
    return model, [{"x": ONE}, {"x": ONE[:1, :1]}, {"x": ONE[:0]}]


def many_choices(rng: random.Random) -> Made:
    """Rows of branches whose results differ in size, rank or type, each on its own condition."""
    count = rng.choice([2, 20, 300])
    nodes = []
    for at in range(count):
        before = f"v{at}" if at else "x"
        branches = {}
        for key in ("then_branch", "else_branch"):
            op, extra = rng.choice(
                [
                    ("Transpose", {}),
                    ("Neg", {}),
                    ("Identity", {}),
                    ("Flatten", {"axis": 0}),
                    ("NonZero", {}),
                    ("Cast", {"to": rng.choice([F, F, I64])}),
                ]
            )
            inner = f"{key}{at}"
            branches[key] = helper.make_graph(
                [node(op, [before], [f"{inner}_r"], **extra)], inner, [], [untyped(f"{inner}_r")]
            )
        nodes.append(node("If", [f"c{at % 3}"], [f"w{at}"], **branches))
        nodes.append(node("Cast", [f"w{at}"], [f"v{at + 1}"], to=F))
    model = model_proto(
        nodes,
        [
            tensor("x", F, rng.choice([["n", "m"], [2, 3]])),
            *[tensor(f"c{k}", B, None) for k in range(3)],
        ],
        [untyped(f"v{count}")],
    )
    runs = []
    for _ in range(3):
        feeds: dict[str, Any] = {"x": ONE}
        for k in range(3):
            shape = rng.choice([(), (), (1,), (0,), (2,), (1, 1)])
            feeds[f"c{k}"] = np.full(shape, rng.random() < 0.5)
        runs.append(feeds)
    return model, runs
