# SPDX-License-Identifier: Apache-2.0
"""Hostile files: what a message may hold that no writer would write.

Initialisers whose bytes are not theirs, external data that leads elsewhere, sparse tensors,
names that are doubled, missing or no text, types and versions that do not exist.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from hostile_bodies import circles, contradictory, functions
from hostile_values import INTEGERS, integer
from onnx import TensorProto, helper, numpy_helper
from small_models import model_proto, tensor, untyped

# Content of a file; a text is where a link leads, None a pipe that nobody writes to.
Files = dict[str, bytes | str | None]
Made = tuple[onnx.ModelProto | bytes, dict[str, Any], Files]
F, I64, B, S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
ONE = np.ones((2, 3), np.float32)
FEEDS = {"x": ONE}
NAMES = ["", "x", "y", "é" * 9, "\n", "a" * 100_000, "../x", "%s%n", "\x7f"]


def add_to(weight: onnx.TensorProto, op: str = "Add") -> onnx.ModelProto:
    """y = op(x, weight)."""
    weight.name = "w"
    node = helper.make_node(op, ["x", "w"], ["y"])
    return model_proto([node], [tensor("x", F, [2, 3])], [untyped("y")], [weight])


def hostile_dims(rng: random.Random) -> list[int]:
    """Sizes that are negative, too many, or too large together."""
    return rng.choice(
        [
            *[[2, 3], [-1], [-2, -3], [2**62], [2**32, 2**32], [2**21] * 3, [0, 2**62, 2**62]],
            *[[2**63 - 1], [-(2**63)], [1] * 1000, [], [0], [3, 2**61], [2**31, 2**31, 0]],
        ]
    )


def weights(rng: random.Random) -> Made:
    """An initialiser with wrong sizes, wrong bytes, or in the field of another type."""
    weight = onnx.TensorProto(data_type=F, dims=hostile_dims(rng))
    way = rng.randrange(7)
    if way == 0:
        weight.raw_data = bytes(rng.choice([0, 1, 3, 23, 24, 25, 4096]))
    elif way == 1:
        weight.int64_data.extend([1] * rng.choice([0, 5, 6, 7]))
    elif way == 2:
        weight.float_data.extend([1.0] * rng.choice([0, 1, 5, 6, 7]))
        weight.raw_data = bytes(24)
    elif way == 3:
        weight.data_type = rng.choice([0, -1, 8, 21, 22, 23, 24, 25, 26, 27, 28, 99, 2**31 - 1])
        weight.raw_data = bytes(rng.choice([0, 1, 3, 24]))
    elif way == 4:
        weight.data_type = S
        weight.string_data.extend([b"\xff\xfe", b"", b"x" * 1000][: rng.randint(0, 3)])
    elif way == 5:
        weight.data_type = rng.choice([2, 3, 4, 5, 6, 9, 10, 16, 17, 21, 22, 23])
        weight.int32_data.extend([integer(rng) % 2**31 for _ in range(rng.choice([0, 3, 6]))])
    else:
        weight.raw_data = bytes(24)
        weight.segment.begin, weight.segment.end = rng.choice([(0, 6), (-1, 2**62), (5, 1)])
    return add_to(weight, rng.choice(["Add", "Identity", "Gather", "MatMul"])), FEEDS, {}


def outside(rng: random.Random) -> Made:
    """External data: elsewhere, a link, a pipe, a folder, or beyond the end."""
    files: Files = {
        "data.bin": bytes(24),
        "short.bin": bytes(5),
        "link": "/etc/passwd",
        "round": "round",
        "zero": "/dev/zero",
        "pipe": None,
        "deep/data.bin": bytes(24),
    }
    weight = onnx.TensorProto(data_type=rng.choice([F, F, I64, S, 22]), dims=[2, 3])
    if rng.random() < 0.3:
        del weight.dims[:]
        weight.dims.extend(hostile_dims(rng))
    weight.data_location = TensorProto.EXTERNAL
    places = [*files, "../data.bin", "/etc/passwd", "/dev/zero", "/proc/self/mem", "deep", "."]
    places += ["", "data.bin/../../x", "deep/../data.bin", "data.bin\0x", "é", "a" * 5000, "~"]
    places += ["*/_ORT_MEM_ADDR_/*", "file:///etc/passwd", "model.onnx"]
    numbers = ["0", "24", "-1", "1", str(2**62), str(2**64), "", "0x10", "1e3", "9" * 40, " 0"]
    keys = {"location": rng.choice(places), "offset": rng.choice(numbers)}
    keys["length"] = rng.choice(["24", "24", *numbers])
    for key in rng.sample(sorted(keys), rng.randint(0, 3)):
        weight.external_data.add(key=key, value=keys[key])
    if rng.random() < 0.8 and not any(e.key == "location" for e in weight.external_data):
        weight.external_data.add(key="location", value=keys["location"])
    return add_to(weight), FEEDS, files


def sparse(rng: random.Random) -> Made:
    """A sparse initialiser with indices elsewhere."""
    count = rng.choice([0, 1, 2, 3])
    values = numpy_helper.from_array(np.ones(rng.choice([count, count + 1]), np.float32), "w")
    shape = rng.choice([[count], [count, 2], [count, 3], [], [0]])
    indices = np.array([integer(rng) for _ in range(int(np.prod(shape)))], np.int64).reshape(shape)
    if rng.random() < 0.4:
        indices = np.abs(indices) % 6
    if rng.random() < 0.1:
        indices = indices.astype(np.float32)
    made = helper.make_sparse_tensor(values, numpy_helper.from_array(indices), [2, 3])
    if rng.random() < 0.5:
        del made.dims[:]
        made.dims.extend(hostile_dims(rng))
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    model = model_proto(nodes, [tensor("x", F, [2, 3])], [untyped("y")])
    if rng.random() < 0.7:
        model.graph.sparse_initializer.append(made)
    else:
        kinds = onnx.AttributeProto
        node = helper.make_node("Constant", [], ["w"])
        node.attribute.add(name="sparse_value", type=kinds.SPARSE_TENSOR).sparse_tensor.CopyFrom(
            made
        )
        model.graph.node.insert(0, node)
    return model, FEEDS, {}


def names(rng: random.Random) -> Made:
    """Names that are doubled, missing, long, or no text."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="n"),
        helper.make_node("Add", ["a", "w"], ["y"], name="n"),
        helper.make_node("Neg", ["y"], ["z"], name="m"),
    ]
    weight = numpy_helper.from_array(ONE, "w")
    model = model_proto(nodes, [tensor("x", F, [2, 3])], [untyped("y"), untyped("z")], [weight])
    graph = model.graph
    for _ in range(rng.choice([1, 1, 2])):
        node = rng.choice(list(graph.node))
        way, name = rng.randrange(12), rng.choice(NAMES)
        if way == 0:
            node.output[0] = name
        elif way == 1:
            node.input[0] = name
        elif way == 2:
            graph.input[0].name = name
        elif way == 3:
            graph.output[0].name = name
        elif way == 4:
            graph.initializer[0].name = name
        elif way == 5:
            node.op_type = rng.choice(["", name, "relu", "Add" * 1000])
        elif way == 6:
            node.domain = rng.choice([name, "ai.onnx", "com.microsoft", "xrt", "no.such"])
        elif way == 7:
            graph.input.append(graph.input[0])
        elif way == 8:
            graph.output.append(graph.output[0])
        elif way == 9:
            graph.initializer.append(numpy_helper.from_array(ONE[0], "w"))
        elif way == 10:
            node.output.append(rng.choice(["x", "w", "a", ""]))
        else:
            graph.node.append(node)
    content = model.SerializeToString()
    if rng.random() < 0.2:  # what Python's strings cannot hold
        content = content.replace(b"x", rng.choice([b"\xff", b"\x00"]))
    return content, FEEDS, {}


def versions(rng: random.Random) -> Made:
    """Opsets that do not exist, are doubled, or are missing."""
    op = rng.choice(["Relu", "Dropout", "Upsample", "BatchNormalization", "Softmax", "Squeeze"])
    inputs = {"BatchNormalization": ["x"] * 5}.get(op, ["x"])
    node = helper.make_node(op, inputs, ["y"])
    model = model_proto([node], [tensor("x", F, [2, 3])], [untyped("y")])
    del model.opset_import[:]
    for _ in range(rng.choice([0, 1, 1, 2, 100])):
        version = rng.choice([*range(-1, 30), *INTEGERS])
        domain = rng.choice(["", "", "", "ai.onnx", "ai.onnx.ml", "com.microsoft", "no.such", "é"])
        model.opset_import.add(domain=domain, version=version)
    if rng.random() < 0.3:
        model.ir_version = integer(rng)
    return model, FEEDS, {}


def types(rng: random.Random) -> Made:
    """Declared types that are no tensors, are empty, or contradict one another."""
    kind = onnx.TypeProto()
    way = rng.randrange(8)
    if way == 0:
        kind.tensor_type.elem_type = rng.choice([0, -1, 29, 2**31 - 1])
    elif way == 1:
        kind.sequence_type.SetInParent()
    elif way == 2:
        kind.map_type.key_type = rng.choice([1, 7, 8, 0])
        kind.map_type.value_type.tensor_type.elem_type = F
    elif way == 3:
        kind.optional_type.elem_type.optional_type.SetInParent()
    elif way == 4:
        kind.sparse_tensor_type.elem_type = F
    elif way == 5:
        kind.opaque_type.domain = "é"
    elif way == 6:
        kind.tensor_type.elem_type = F
        for _ in range(rng.choice([1, 2, 9])):
            dim = kind.tensor_type.shape.dim.add()
            if rng.random() < 0.6:
                dim.dim_value = integer(rng)
            else:
                dim.dim_param = rng.choice(["", "N", "N", "é", "a" * 10_000, "2*N", "-1", "x y"])
    value = onnx.ValueInfoProto(name="x", type=kind)
    op = rng.choice(["Identity", "Relu", "SequenceLength", "OptionalGetElement", "Shape"])
    node = helper.make_node(op, ["x"], ["y"])
    result = rng.choice([untyped("y"), onnx.ValueInfoProto(name="y", type=kind)])
    result.name = "y"
    model = model_proto([node], [value], [result])
    if rng.random() < 0.3:
        model.graph.value_info.append(onnx.ValueInfoProto(name=rng.choice("xyz"), type=kind))
    feed = rng.choice([ONE, [], [ONE, ONE], None, {"a": 1.0}, {1: 2.0}])
    return model, {"x": feed}, {}


def attributes(rng: random.Random) -> Made:
    """Attributes whose type is another than what they hold, or that are there twice."""
    node = helper.make_node(
        rng.choice(["Constant", "Cast", "Transpose", "Concat", "If", "Loop", "LeakyRelu"]),
        [],
        ["y"],
    )
    for _ in range(rng.choice([1, 1, 2, 3])):
        one = node.attribute.add(type=rng.choice(range(15)))
        one.name = rng.choice(["value", "to", "perm", "axis", "then_branch", "body", "alpha", ""])
        way = rng.randrange(7)
        if way == 0:
            one.i = integer(rng)
        elif way == 1:
            one.ints.extend([integer(rng) for _ in range(rng.choice([0, 1, 3]))])
        elif way == 2:
            one.t.CopyFrom(
                onnx.TensorProto(data_type=rng.choice([0, 1, 8]), dims=hostile_dims(rng))
            )
        elif way == 3:
            one.s = rng.choice([b"", b"\xff", b"x" * 100_000])
        elif way == 4:
            one.g.SetInParent()
        elif way == 5:
            one.tp.SetInParent()
        else:
            one.ref_attr_name = "nobody"
    node.input.extend(["x"] * rng.choice([0, 1, 2]))
    return model_proto([node], [tensor("x", F, [2, 3])], [untyped("y")]), FEEDS, {}


def garbage(rng: random.Random) -> Made:
    """What is no model at all."""
    sound = model_proto(
        [helper.make_node("Relu", ["x"], ["y"])], [tensor("x", F, [2, 3])], [untyped("y")]
    ).SerializeToString()
    groups = rng.choice([10, 10_000])
    content = rng.choice(
        [
            *[b"", b"\0", b"\xff" * 20, sound[:-3], sound[: len(sound) // 2], sound * 2],
            *[
                b"\x3a\xff\xff\xff\xff\x0f" + sound,
                b"\x0b" * groups,
                b"{}",
                b"PK\x03\x04",
                b"graph",
            ],
            *[b"\x3a\x04" * groups, sound + b"\x82\x01\x00", rng.randbytes(200), b"\x08" * 1000],
        ]
    )
    return content, FEEDS, {}


KINDS: list[Callable[[random.Random], Made]] = [
    *[weights, outside, sparse, names, circles, functions, versions, types, attributes],
    *[contradictory, garbage, weights, outside, names],
]


def make(rng: random.Random, index: int) -> tuple[str, bytes, list[tuple[Any, Any]], Files]:
    """The name of the kind, the file, what it is run with, and the files beside it."""
    kind = KINDS[index % len(KINDS)]
    model, feeds, files = kind(rng)
    content = model if isinstance(model, bytes) else model.SerializeToString()
    return kind.__name__, content, [(feeds, None)], files
