# SPDX-License-Identifier: Apache-2.0
"""Hostile models that no mutation of a small one makes: deep, wide, endless, or asking for much."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from hostile_values import FLOATS, integer
from onnx import TensorProto, helper, numpy_helper
from small_models import model_proto, tensor, untyped

Made = tuple[onnx.ModelProto | bytes, list[dict[str, Any]]]
F, I64, B, S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
ONE = np.ones((2, 3), np.float32)


def constant(name: str, value: Any, dtype: Any = np.int64) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def head(number: int, size: int) -> bytes:
    """What stands before so many bytes of a field."""
    length = b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size])


def field(number: int, content: bytes) -> bytes:
    """A field of a message: the onnx package takes no messages as deep as files may be."""
    return head(number, len(content)) + content


def deep_ifs(rng: random.Random) -> Made:
    """Branches within branches."""
    depth = rng.choice([5, 20, 33, 100, 1000, 10_000])
    leaf = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["z"])], "leaf", [], [untyped("z")]
    )
    is_graph = b"\xa0\x01\x05"  # AttributeProto.type
    other = field(5, field(1, b"else_branch") + field(6, leaf.SerializeToString()) + is_graph)
    # What stands before the next branch inside and behind it: copying that at each level would take
    # time of the square of the depth.
    core = leaf.SerializeToString()
    before, behind, size = [], [], len(core)
    for level in range(depth):
        branch = field(1, b"then_branch") + head(6, size)
        node = field(1, b"c") + field(2, b"y%d" % level) + field(4, b"If")
        deep = head(5, len(branch) + size + len(is_graph)) + branch
        inside = len(node) + len(deep) + size + len(is_graph) + len(other)
        before.append(head(1, inside) + node + deep)
        tail = field(2, b"level") + field(12, field(1, b"y%d" % level))
        behind.append(is_graph + other + tail)
        size += len(before[-1]) + len(behind[-1])
    body = b"".join(before[::-1]) + core + b"".join(behind)
    inputs = [tensor("x", F, [2, 3]), tensor("c", B, [])]
    body += b"".join(field(11, value.SerializeToString()) for value in inputs)
    model = model_proto([], [], [])
    model.ClearField("graph")
    return model.SerializeToString() + field(7, body), [{"x": ONE, "c": np.array(True)}]


def deep_types(rng: random.Random) -> Made:
    """A sequence of sequences of sequences."""
    kind = helper.make_tensor_type_proto(F, [2])
    for _ in range(rng.choice([2, 20, 40])):
        wrap = helper.make_sequence_type_proto
        kind = (wrap if rng.random() < 0.7 else helper.make_optional_type_proto)(kind)
    value = helper.make_value_info("x", kind)
    node = helper.make_node("Identity", ["x"], ["y"])
    return model_proto([node], [value], [helper.make_value_info("y", kind)]), [{"x": []}]


def chain(rng: random.Random) -> Made:
    """One op after the other."""
    count = rng.choice([100, 2000, 20_000])
    op = rng.choice(["Identity", "Relu", "Neg", "Abs"])
    nodes = [helper.make_node(op, [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    model = model_proto(nodes, [tensor("v0", F, [2, 3])], [tensor(f"v{count}", F, [2, 3])])
    return model, [{"v0": ONE}]


def wide(rng: random.Random) -> Made:
    """Many operands of one node."""
    count = rng.choice([100, 2000, 20_000])
    op = rng.choice(["Concat", "Max", "Sum", "Mean"])
    extra = {"axis": rng.choice([0, 1, -1])} if op == "Concat" else {}
    node = helper.make_node(op, ["x"] * count, ["y"], **extra)
    return model_proto([node], [tensor("x", F, [2, 3])], [untyped("y")]), [{"x": ONE}]


def doubling(rng: random.Random) -> Made:
    """Functions, each of which calls the one before twice; or itself."""
    levels = rng.choice([4, 12, 30])
    itself = rng.random() < 0.2
    functions = []
    for level in range(levels):
        inner = ("Neg", "") if level == 0 else (f"f{level - 1}", "own")
        if itself and level == levels - 1:
            inner = (f"f{level}", "own")
        nodes = [
            helper.make_node(inner[0], ["a"], ["b"], domain=inner[1]),
            helper.make_node(inner[0], ["b"], ["c"], domain=inner[1]),
        ]
        imports = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
        functions.append(helper.make_function("own", f"f{level}", ["a"], ["c"], nodes, imports))
    node = helper.make_node(f"f{levels - 1}", ["x"], ["y"], domain="own")
    model = model_proto(
        [node],
        [tensor("x", F, [2, 3])],
        [untyped("y")],
        domains={"own": 1},
        functions=functions,
    )
    return model, [{"x": ONE}]


def loop(rng: random.Random) -> Made:
    """A loop whose count and condition are of any size, rank and value."""
    grows = rng.random() < 0.3
    step = ("Concat", ["s", "s"], {"axis": 0}) if grows else ("Add", ["s", "s"], {})
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["c_out"]),
            helper.make_node(step[0], step[1], ["s_out"], **step[2]),
        ],
        "body",
        [tensor("i", I64, []), tensor("c", B, []), tensor("s", F, None)],
        [tensor("c_out", B, []), tensor("s_out", F, None)],
    )
    shape = rng.choice([[], [1], [0], [2], [1, 1], [1, 1, 1]])
    count = rng.choice([0, 1, 3, 7, -1, -(2**63)] if grows else [0, 1, 50, 10**5, -1, -(2**63)])
    feeds: dict[str, Any] = {
        "m": np.full(shape, count, np.int64),
        "k": np.full(rng.choice([[], [1], [0], [2, 2]]), True),
        "x": ONE,
    }
    inputs = [tensor("m", I64, None), tensor("k", B, None), tensor("x", F, None)]
    fixed = []
    if rng.random() < 0.4:
        name = rng.choice(["m", "k"])
        fixed = [numpy_helper.from_array(feeds.pop(name), name)]
        inputs = [value for value in inputs if value.name != name]
    node = helper.make_node("Loop", ["m", "k", "x"], ["y"], body=body)
    return model_proto([node], inputs, [untyped("y")], fixed), [feeds]


def large_result(rng: random.Random) -> Made:
    """A file of bytes that asks for gigabytes."""
    size = rng.choice([2**20, 2**28, 2**31, 2**34, 2**40, 2**62])
    side = int(size**0.5)
    what = rng.randrange(7)
    if what == 0:
        parts = [("ConstantOfShape", ["a"], {})]
        fixed = [constant("a", [side, side])]
    elif what == 1:
        parts = [("Expand", ["x", "a"], {})]
        fixed = [constant("a", [side, side, 2, 3])]
    elif what == 2:
        parts = [("Range", ["a", "b", "d"], {})]
        fixed = [constant("a", 0), constant("b", size), constant("d", 1)]
    elif what == 3:
        parts = [("Tile", ["x", "a"], {})]
        fixed = [constant("a", [side, side])]
    elif what == 4:
        parts = [("Pad", ["x", "a"], {})]
        fixed = [constant("a", [0, side, 0, side])]
    elif what == 5:
        parts = [("OneHot", ["i", "b", "v"], {})]
        fixed = [constant("i", [0, 1]), constant("b", size), constant("v", [0, 1])]
    else:
        parts = [("RandomNormal", [], {"shape": [side, side]})]
        fixed = []
    op, operands, attributes = parts[0]
    model = model_proto(
        [
            helper.make_node(op, operands, ["t"], **attributes),
            helper.make_node("Shape", ["t"], ["y"]),
        ],
        [tensor("x", F, [2, 3])],
        [untyped("y"), untyped("t")] if rng.random() < 0.5 else [untyped("y")],
        fixed,
    )
    return model, [{"x": ONE}]


def regex(rng: random.Random) -> Made:
    """Patterns and texts that are deep, long or catastrophic."""
    depth = rng.choice([10, 1000, 30_000])
    pattern = rng.choice(
        [
            *["(" * depth + "a" + ")" * depth, "(a*)*b", "(a|aa)+$", "a{1000}{1000}", "["],
            *["(.*)" * 50, ".*", "(?i)é", "\\d+", "a{0,100000}", "\\pL+", "(?:a|b)*"],
        ]
    )
    text = rng.choice(["a" * 40, "a" * 300_000, "", "é" * 1000, "12"])
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)
    model = model_proto([node], [tensor("x", S, [1])], [tensor("y", B, [1])])
    return model, [{"x": np.array([text], object)}]


def growing_sequence(rng: random.Random) -> Made:
    """A loop that puts one more tensor into a sequence each time."""
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, None))
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["c_out"]),
            helper.make_node("SequenceInsert", ["s", "x"], ["s_out"]),
        ],
        "body",
        [tensor("i", I64, []), tensor("c", B, []), helper.make_value_info("s", kind)],
        [tensor("c_out", B, []), helper.make_value_info("s_out", kind)],
    )
    nodes = [
        helper.make_node("SequenceEmpty", [], ["s0"], dtype=F),
        helper.make_node("Loop", ["m", "", "s0"], ["s1"], body=body),
        helper.make_node("SequenceAt", ["s1", "at"], ["y"]),
    ]
    inputs = [tensor("x", F, [2, 3]), tensor("m", I64, []), tensor("at", I64, [])]
    feeds = {
        "x": ONE,
        "m": np.array(rng.choice([0, 1, 10, 2000])),
        "at": np.array(integer(rng)),
    }
    return model_proto(nodes, inputs, [untyped("y")]), [feeds]


def computed(rng: random.Random) -> Made:
    """What decides a shape or an address is computed from an input within the model."""
    ops: list[tuple[str, list[str], dict[str, Any], Any]] = [
        ("Gather", ["x", "v"], {"axis": rng.choice([0, 1])}, [0, 1]),
        ("GatherND", ["x", "v"], {}, [[0], [1]]),
        ("GatherElements", ["x", "v"], {}, [[0, 1, 0]]),
        ("ScatterND", ["x", "v", "u"], {}, [[0], [1]]),
        ("ScatterElements", ["x", "v", "x"], {}, [[0, 1, 0], [1, 0, 1]]),
        ("Expand", ["x", "v"], {}, [2, 3]),
        ("Tile", ["x", "v"], {}, [2, 2]),
        ("Pad", ["x", "v"], {"mode": rng.choice(["constant", "reflect", "edge"])}, [1, 1, 1, 1]),
        ("Reshape", ["x", "v"], {}, [3, 2]),
        ("Slice", ["x", "v", "w"], {}, [0, 0]),
        ("TopK", ["x", "k"], {}, [1]),
        ("ConstantOfShape", ["v"], {}, [2, 2]),
        ("OneHot", ["k", "k", "w2"], {}, [4]),
        ("Split", ["x", "v"], {"axis": 1}, [1, 2]),
        ("Trilu", ["x", "k0"], {}, [1]),
        ("CenterCropPad", ["x", "v"], {}, [2, 2]),
        ("Unsqueeze", ["x", "v"], {}, [0, 1]),
        ("Squeeze", ["x1", "v"], {}, [0, 1]),
        ("CumSum", ["x", "k0"], {}, [0]),
        ("ReduceSum", ["x", "v"], {}, [0, 1]),
        ("Range", ["z0", "k0", "o0"], {}, [5]),
        ("Resize", ["x", "", "", "v"], {}, [2, 3]),
        ("Upsample", ["x", "v"], {}, [2, 3]),
        ("ReverseSequence", ["x", "v"], {"time_axis": 1, "batch_axis": 0}, [1, 2]),
    ]
    op, operands, attributes, right = rng.choice(ops)
    sound = np.array(right, np.int64)
    nodes = [
        helper.make_node("Mul", ["p", "one"], ["v"]),
        helper.make_node("Add", ["p", "zero"], ["k"]),
        helper.make_node("Squeeze", ["k"], ["k0"]),
        helper.make_node("Unsqueeze", ["x", "axes"], ["x1"]),
    ]
    used = set(operands)
    if "k0" in used:
        used.add("k")
    nodes = [node for node in nodes if node.output[0] in used]
    nodes.append(
        helper.make_node(
            op, operands, ["y", "y1"][: 2 if op in ("TopK", "Split") else 1], **attributes
        )
    )
    fixed = {
        "one": constant("one", 1),
        "zero": constant("zero", 0),
        "w": constant("w", [9, 9]),
        "w2": constant("w2", [0, 1]),
        "u": constant("u", np.ones((2, 3)), np.float32),
        "axes": constant("axes", [0, 1]),
        "z0": constant("z0", 0),
        "o0": constant("o0", 1),
    }
    read = {name for node in nodes for name in node.input}
    shape: list[Any] = (
        list(sound.shape) if rng.random() < 0.7 else [f"p{i}" for i in range(sound.ndim)]
    )
    sizes: list[Any] = [2, 3] if rng.random() < 0.5 else ["a", "b"]
    model = model_proto(
        nodes,
        [tensor("x", F, sizes), tensor("p", I64, shape)],
        [untyped("y")],
        [value for name, value in fixed.items() if name in read],
    )
    feeds = [{"x": ONE, "p": sound}]
    for _ in range(4):
        spoiled = sound.copy()
        spoiled.reshape(-1)[rng.randrange(sound.size)] = integer(rng)
        feeds.append({"x": ONE, "p": spoiled})
    return model, feeds


def disagreeing(rng: random.Random) -> Made:
    """Open sizes that agree for some inputs only: two ways to a Concat, a sum or a product."""
    pads = rng.choice([[0, 0, 0, 0], [1, 1, 1, 1]])
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], kernel_shape=[3, 3], strides=[2, 2], pads=pads),
        helper.make_node("AveragePool", ["x"], ["b"], kernel_shape=[2, 2], strides=[2, 2]),
        rng.choice(
            [
                helper.make_node("Concat", ["a", "b"], ["y"], axis=1),
                helper.make_node("Add", ["a", "b"], ["y"]),
                helper.make_node("Sum", ["a", "b", "a"], ["y"]),
                helper.make_node("MatMul", ["a", "b"], ["y"]),
                helper.make_node("Where", ["c", "a", "b"], ["y"]),
            ]
        ),
    ]
    if nodes[-1].op_type == "Where":
        nodes.insert(2, helper.make_node("Greater", ["a", "z"], ["c"]))
    model = model_proto(
        nodes,
        [tensor("x", F, [1, 2, "h", "w"])],
        [untyped("y")],
        [constant("z", 0, np.float32)] if len(nodes) == 4 else [],
    )
    data = np.random.default_rng(1)
    sizes = [(8, 8), (9, 9), (10, 9), (7, 8), (3, 3), (2, 2), (1, 5), (0, 4)]
    feeds = [
        {"x": data.standard_normal((1, 2, *size), np.float32)} for size in rng.sample(sizes, 5)
    ]
    return model, feeds


def hostile_floats(rng: random.Random) -> Made:
    """Scales, boxes and bounds that are no numbers, or far too large."""
    one = np.array(rng.choice(FLOATS), np.float32)
    ops: list[tuple[list[onnx.NodeProto], list[onnx.ValueInfoProto], dict[str, Any]]] = [
        (
            [helper.make_node("Resize", ["x4", "", "s"], ["y"])],
            [tensor("x4", F, ["n", "c", "h", "w"]), tensor("s", F, [4])],
            {"x4": np.ones((1, 1, 2, 2), np.float32), "s": np.array([1, 1, 2, one], np.float32)},
        ),
        (
            [helper.make_node("Range", ["a", "b", "d"], ["y"])],
            [tensor(name, F, []) for name in "abd"],
            {"a": np.float32(0), "b": one, "d": np.array(rng.choice(FLOATS), np.float32)},
        ),
        (
            [
                helper.make_node(
                    "RoiAlign", ["x4", "r", "i"], ["y"], output_height=2, output_width=2
                )
            ],
            [tensor("x4", F, [1, 1, "h", "w"]), tensor("r", F, [1, 4]), tensor("i", I64, [1])],
            {
                "x4": np.ones((1, 1, 4, 4), np.float32),
                "r": np.array([[0, 0, one, 3]], np.float32),
                "i": np.array([rng.choice([0, 1, -1, 2**31, 2**62])]),
            },
        ),
        (
            [helper.make_node("GridSample", ["x4", "g"], ["y"])],
            [tensor("x4", F, [1, 1, "h", "w"]), tensor("g", F, [1, 1, 1, 2])],
            {"x4": np.ones((1, 1, 4, 4), np.float32), "g": np.full((1, 1, 1, 2), one)},
        ),
        (
            [
                helper.make_node("Cast", ["x4"], ["v"], to=I64),
                helper.make_node("Gather", ["t", "v"], ["y"]),
            ],
            [tensor("x4", F, ["n"]), tensor("t", F, [4, 2])],
            {"x4": np.array([0, one], np.float32), "t": np.ones((4, 2), np.float32)},
        ),
    ]
    nodes, inputs, feeds = rng.choice(ops)
    return model_proto(nodes, inputs, [untyped("y")]), [feeds]


SHAPES: list[Callable[[random.Random], Made]] = [
    computed,
    loop,
    disagreeing,
    computed,
    hostile_floats,
    large_result,
    computed,
    regex,
    deep_ifs,
    computed,
    deep_types,
    chain,
    wide,
    doubling,
    growing_sequence,
]


def make(rng: random.Random, index: int) -> tuple[str, bytes, list[dict[str, Any]]]:
    """The name of the shape, the model and what it is run with."""
    shape = SHAPES[index % len(SHAPES)]
    model, feeds = shape(rng)
    content = model if isinstance(model, bytes) else model.SerializeToString()
    return shape.__name__, content, feeds
