# SPDX-License-Identifier: Apache-2.0
"""Hostile models that are small, valid, and ask for hours of work or gigabytes of results."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from small_models import model_proto, tensor, untyped

Made = tuple[onnx.ModelProto, list[dict[str, Any]]]
F, I64, B, S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
LARGE = [2**20, 2**24, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1]


def node(op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, **attributes)


def number(name: str, value: Any, dtype: Any = np.int64) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def endless(rng: random.Random) -> Made:
    """Loops within loops whose counts nobody waits for."""
    count = rng.choice([10**6, 2**31, 2**62, 2**63 - 1])
    step = rng.choice(["Neg", "Identity", "Sqrt"])
    nodes = [node("Identity", ["c"], ["co"]), node(step, ["s"], ["so"])]
    body = helper.make_graph(
        nodes,
        "inner",
        [tensor("i", I64, []), tensor("c", B, []), tensor("s", F, None)],
        [tensor("co", B, []), tensor("so", F, None)],
    )
    for level in range(rng.choice([0, 0, 1, 3])):
        again = node("Loop", [f"m{level}", "", f"s{level}"], [f"so{level}"], body=body)
        body = helper.make_graph(
            [node("Identity", [f"c{level}"], [f"co{level}"]), again],
            f"level{level}",
            [
                tensor(f"i{level}", I64, []),
                tensor(f"c{level}", B, []),
                tensor(f"s{level}", F, None),
            ],
            [tensor(f"co{level}", B, []), tensor(f"so{level}", F, None)],
        )
    limit = rng.choice(["m", ""])
    fixed = [number("m", count), *[number(f"m{level}", count) for level in range(3)]]
    loop = node("Loop", [limit, rng.choice(["t", ""]) if limit else "t", "x"], ["y"], body=body)
    fixed.append(number("t", True, np.bool_))
    model = model_proto([loop], [tensor("x", F, [2])], [untyped("y")], fixed)
    return model, [{"x": np.ones(2, np.float32)}]


def doubling_text(rng: random.Random) -> Made:
    """A text, a list or a tensor that doubles in every turn."""
    op = rng.choice(["StringConcat", "Concat", "Tile"])
    dtype = S if op == "StringConcat" else F
    operands = {"Tile": ["s", "two"]}.get(op, ["s", "s"])
    extra = {"axis": 0} if op == "Concat" else {}
    body = helper.make_graph(
        [node("Identity", ["c"], ["co"]), node(op, operands, ["so"], **extra)],
        "inner",
        [tensor("i", I64, []), tensor("c", B, []), tensor("s", dtype, None)],
        [tensor("co", B, []), tensor("so", dtype, None)],
    )
    loop = node("Loop", ["m", "", "x"], ["y"], body=body)
    turns = number("m", rng.choice([20, 34, 64, 2**40]))
    size = ["n"]
    model = model_proto(
        [loop], [tensor("x", dtype, size)], [untyped("y")], [turns, number("two", [2])]
    )
    text = np.array(["abcdefgh"], object) if op == "StringConcat" else np.ones(1, np.float32)
    return model, [{"x": text}]


def collected(rng: random.Random) -> Made:
    """A loop or a scan that keeps the results of all turns."""
    size = rng.choice([1, 10**4, 10**6])
    body = helper.make_graph(
        [node("Identity", ["c"], ["co"]), node("Expand", ["x", "n"], ["r"])],
        "inner",
        [tensor("i", I64, []), tensor("c", B, [])],
        [tensor("co", B, []), untyped("r")],
    )
    loop = node("Loop", ["m", ""], ["y"], body=body)
    fixed = [number("m", rng.choice([10**4, 10**6, 2**40])), number("n", [size])]
    return model_proto([loop], [tensor("x", F, [1])], [untyped("y")], fixed), [
        {"x": np.ones(1, np.float32)}
    ]


def large_windows(rng: random.Random) -> Made:
    """Convolutions and pools whose windows are as large as what they move over."""
    side = rng.choice([64, 512, 4096])
    kernel = rng.choice([1, side // 2, side])
    x = np.ones((1, 1, side, side), np.float32)
    pads = [rng.choice([0, kernel - 1, 10**5, 2**31, 2**62])] * 4
    op = rng.choice(["MaxPool", "AveragePool", "LpPool", "Conv", "ConvTranspose"])
    common = {"kernel_shape": [kernel, kernel], "pads": pads}
    common["strides"] = [rng.choice([1, 1, 3, 2**31, 2**62])] * 2
    common["dilations"] = [rng.choice([1, 1, 2, 2**31, 2**62])] * 2
    fixed = []
    if op.startswith("Conv"):
        fixed = [numpy_helper.from_array(np.ones((1, 1, kernel, kernel), np.float32), "w")]
    inputs = ["x", "w"] if fixed else ["x"]
    model = model_proto(
        [node(op, inputs, ["y"], **common)],
        [tensor("x", F, [1, 1, "h", "w"])],
        [untyped("y")],
        fixed,
    )
    return model, [{"x": x}]


def large_numbers(rng: random.Random) -> Made:
    """Ops that make much from one number, which is a constant or given."""
    n = rng.choice(LARGE)
    small = rng.choice([1, 2, 8])
    ops: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        *[(f"{name}Window", {"n": np.int64(n)}, {}) for name in ["Hann", "Hamming", "Blackman"]],
        (
            "MelWeightMatrix",
            {
                "bins": np.int64(rng.choice([n, 8])),
                "length": np.int64(rng.choice([n, 16])),
                "rate": np.int64(rng.choice([n, 8192])),
                "low": np.float32(0),
                "high": np.float32(rng.choice([4096, -1, np.nan, 1e38])),
            },
            {},
        ),
        ("Range", {"a": np.int64(-n), "b": np.int64(n), "c": np.int64(1)}, {}),
        ("Range", {"a": np.float64(0), "b": np.float64(1), "c": np.float64(1e-300)}, {}),
        ("ConstantOfShape", {"s": np.array([n, small])}, {}),
        ("Expand", {"x": np.ones(1, np.float32), "s": np.array([n, small])}, {}),
        ("Tile", {"x": np.ones(small, np.float32), "s": np.array([n])}, {}),
        ("Pad", {"x": np.ones(small, np.float32), "s": np.array([n, 0])}, {"mode": "wrap"}),
        ("Pad", {"x": np.ones(small, np.float32), "s": np.array([n, n])}, {}),
        ("DFT", {"x": np.ones((1, 8, 1), np.float32), "n": np.int64(n)}, {}),
        ("STFT", {"x": np.ones((1, 64), np.float32), "n": np.int64(rng.choice([n, 1, 0, -1]))}, {}),
        ("OneHot", {"i": np.array([1]), "n": np.int64(n), "v": np.array([0, 1])}, {}),
        ("TopK", {"x": np.ones(8, np.float32), "n": np.array([n])}, {}),
        ("Multinomial", {"x": np.ones((1, 4), np.float32)}, {"sample_size": n}),
        ("DepthToSpace", {"x": np.ones((1, 4, 1, 1), np.float32)}, {"blocksize": n}),
        ("SpaceToDepth", {"x": np.ones((1, 4, 4, 4), np.float32)}, {"blocksize": n}),
        ("EyeLike", {"x": np.ones((2, 2), np.float32)}, {"k": n}),
        ("Trilu", {"x": np.ones((2, 2), np.float32), "k": np.int64(n)}, {}),
        ("LRN", {"x": np.ones((1, 4, 4, 4), np.float32)}, {"size": n}),
        ("Split", {"x": np.ones(8, np.float32)}, {"num_outputs": n}),
        (
            "SplitToSequence",
            {"x": np.ones(8, np.float32), "n": np.int64(rng.choice([n, 0, -1]))},
            {},
        ),
        (
            "NonMaxSuppression",
            {
                "b": np.ones((1, 600, 4), np.float32),
                "s": np.ones((1, 20, 600), np.float32),
                "n": np.int64(n),
            },
            {},
        ),
        (
            "Resize",
            {"x": np.ones((1, 1, 4, 4), np.float32), "r": np.zeros(0, np.float32)}
            | {"s": np.array([1, 1, 2, rng.choice([1e5, 1e9, 1e38])], np.float32)},
            {"mode": rng.choice(["nearest", "linear", "cubic"])},
        ),
        (
            "RoiAlign",
            {
                "x": np.ones((1, 1, 4, 4), np.float32),
                "r": np.array([[0, 0, rng.choice([1e9, 4]), 4]], np.float32),
                "i": np.zeros(1, np.int64),
            },
            {"output_height": rng.choice([n, 2]), "sampling_ratio": rng.choice([n, 0])},
        ),
        (
            "MaxRoiPool",
            {"x": np.ones((1, 1, 4, 4), np.float32), "r": np.ones((1, 5), np.float32)},
            {"pooled_shape": [n, 2]},
        ),
        ("AffineGrid", {"x": np.ones((1, 2, 3), np.float32), "s": np.array([1, 1, n, small])}, {}),
        ("CenterCropPad", {"x": np.ones((2, 2), np.float32), "s": np.array([n, 2])}, {}),
        (
            "Col2Im",
            {"x": np.ones((1, 4, 4), np.float32), "s": np.array([n, 3]), "b": np.array([2, 2])},
            {},
        ),
        (
            "BitShift",
            {"x": np.ones(2, np.uint32), "s": np.array([99, 32], np.uint32)},
            {"direction": "LEFT"},
        ),
        ("Mod", {"x": np.array([-(2**63), 1]), "s": np.array([-1, 0])}, {}),
        ("Div", {"x": np.array([-(2**63), 1]), "s": np.array([-1, 0])}, {}),
        ("Pow", {"x": np.array([-(2**63), 0]), "s": np.array([-1, 2**63 - 1])}, {}),
        (
            "TfIdfVectorizer",
            {"x": np.array([1, 2, 3])},
            {
                "max_gram_length": n,
                "min_gram_length": 1,
                "max_skip_count": n,
                "mode": "TF",
                "ngram_counts": [0, rng.choice([1, n, -1])],
                "ngram_indexes": [rng.choice([0, n, -1])],
                "pool_int64s": [1],
            },
        ),
    ]
    op, operands, attributes = rng.choice(ops)
    inputs, fixed, feeds = [], [], {}
    for name, value in operands.items():
        array = np.asarray(value)
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        if rng.random() < 0.4:
            fixed.append(numpy_helper.from_array(array, name))
        else:
            shape: Any = rng.choice([list(array.shape), [f"{name}{i}" for i in range(array.ndim)]])
            inputs.append(tensor(name, kind, shape))
            feeds[name] = array
    names = list(operands)
    if op == "Resize":
        names = ["x", "", "s"]
        inputs = [value for value in inputs if value.name != "r"]
        fixed = [value for value in fixed if value.name != "r"]
        feeds.pop("r", None)
    if op == "STFT":
        names = ["x", "n", "", "l"]
        fixed.append(number("l", rng.choice([4, 64, n])))
    made = [node(op, names, ["y"], **attributes)]
    if rng.random() < 0.3:
        made.append(node("Shape", ["y"], ["z"]))
    return model_proto(made, inputs, [untyped(made[-1].output[0])], fixed, opset=22), [feeds]


def long_sums(rng: random.Random) -> Made:
    """Einsums, products and recurrences with hours of work for little data."""
    way = rng.randrange(4)
    if way == 0:
        letters = "abcdefghijklmnopqrstuvwxyz"[: rng.choice([4, 12, 26])]
        side = rng.choice([2, 8])
        count = len(letters) - 1
        terms = [letters[i : i + 2] for i in range(count)]
        equation = ",".join(terms) + "->" + rng.choice(["", letters, letters[0]])
        names = [f"x{i}" for i in range(count)]
        made = node("Einsum", names, ["y"], equation=equation)
        feeds = {name: np.ones((side, side), np.float32) for name in names}
        return model_proto([made], [tensor(n, F, [side, side]) for n in names], [untyped("y")]), [
            feeds
        ]
    if way == 1:
        side = rng.choice([1024, 8192, 20_000])
        nodes = [node("Expand", ["x", "s"], ["a"])]
        nodes += [node("MatMul", [f"{'a' * (i + 1)}"] * 2, ["a" * (i + 2)]) for i in range(8)]
        nodes.append(node("ReduceSum", ["a" * 9], ["y"]))
        model = model_proto(
            nodes, [tensor("x", F, [1, 1])], [untyped("y")], [number("s", [side, side])]
        )
        return model, [{"x": np.ones((1, 1), np.float32)}]
    if way == 2:
        op = rng.choice(["LSTM", "GRU", "RNN"])
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
        hidden = rng.choice([1, 64])
        length = rng.choice([0, 10**5, 10**6])
        nodes = [
            node("Expand", ["x", "s"], ["long"]),
            node(op, ["long", "w", "r"], ["", "y"], hidden_size=rng.choice([hidden, 2**40, 0, -1])),
        ]
        fixed = [
            number("s", [length, rng.choice([1, 0]), 1]),
            number("w", np.ones((1, gates * hidden, 1)), np.float32),
            number("r", np.ones((1, gates * hidden, hidden)), np.float32),
        ]
        model = model_proto(nodes, [tensor("x", F, [1, 1, 1])], [untyped("y")], fixed)
        return model, [{"x": np.ones((1, 1, 1), np.float32)}]
    count = rng.choice([10**4, 10**7])
    op = rng.choice(["Unique", "TopK", "CumSum", "NonZero", "Hardmax", "ArgMax", "Det"])
    nodes = [node("Expand", ["x", "s"], ["a"])]
    second = {"TopK": ["k"], "CumSum": ["k0"]}.get(op, [])
    nodes.append(node(op, ["a", *second], ["y", "i"] if op == "TopK" else ["y"]))
    shape = [int(count**0.5)] * 2 if op == "Det" else [count]
    fixed = [number("s", shape), number("k", [count]), number("k0", 0)]
    model = model_proto(nodes, [tensor("x", F, [1])], [untyped("y")], fixed)
    return model, [{"x": np.ones(1, np.float32)}]


SHAPES: list[Callable[[random.Random], Made]] = [
    *[endless, large_numbers, doubling_text, large_numbers, collected, large_numbers],
    *[large_windows, large_numbers, long_sums, large_numbers],
]


def make(rng: random.Random, index: int) -> tuple[str, bytes, list[dict[str, Any]]]:
    """The name of the shape, the model and what it is run with."""
    shape = SHAPES[index % len(SHAPES)]
    model, feeds = shape(rng)
    return shape.__name__, model.SerializeToString(), feeds
