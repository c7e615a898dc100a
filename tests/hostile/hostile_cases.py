# SPDX-License-Identifier: Apache-2.0
"""Hostile cases, each made from its number: a model and what it is run with.

A *model* case begins with one of the onnx package's tests of single ops, or of the tests of
contributed ops, which are valid, and spoils the model: attributes by the op's schema, declared
types, operands that are missing, doubled or constant, the bytes of the file; or it is one of the
shapes of grown models in hostile_grown.py. A *tensor* case leaves such a model whole but for its
declared sizes, which are open, and spoils what callers send. A *node* case is made from an op's
schema alone (hostile_nodes.py), a *costly* case asks for hours or gigabytes (hostile_costly.py), a
*limit* case brings hostile numbers to a sound node on long ways (hostile_limits.py), a *mixed* case
is wild control flow, sequences, texts, trees, functions or types (hostile_mixed.py), a
*contributed* case is a valid node of a contributed op with one thing changed
(hostile_contributed.py), a *file* case is what no writer would write (hostile_files.py), a *caller*
case a sound model with objects that are no plain arrays (hostile_callers.py).
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any, NamedTuple

import hostile_callers
import hostile_contributed
import hostile_costly
import hostile_files
import hostile_grown
import hostile_limits
import hostile_mixed
import hostile_nodes
import hostile_sizes
import numpy as np
import onnx
from contributed_cases import all_cases
from hostile_values import attribute, hostile_array, hostile_value, integer
from onnx import numpy_helper
from openxrt.conformance.onnx_tests import load_cases

MAX_BYTES = 40_000  # of a test's inputs: larger ones cost time and find nothing more


class HostileCase(NamedTuple):
    """What a worker does: load `model`, from a folder if there are other `files`, and run it with
    each of `runs`: inputs, and memory for outputs if any.
    """

    name: str
    model: bytes
    runs: list[tuple[Any, Any]]
    files: hostile_files.Files | None = None


class Seed(NamedTuple):
    """A valid model and its inputs."""

    name: str
    model: bytes
    feeds: dict[str, Any]


@cache
def seeds() -> list[Seed]:
    """The valid tests, ops in turn, so that each op comes as often as any other."""
    by_op: dict[str, list[Seed]] = {}
    for case in load_cases(["node"]):
        if sum(f.stat().st_size for f in case.folder.rglob("*.pb")) > MAX_BYTES:
            continue
        model = onnx.load_from_string(case.model_bytes())
        sets = case.data_sets(model)
        seed = Seed(case.name, case.model_bytes(), dict(sets[0][0]) if sets else {})
        by_op.setdefault(model.graph.node[-1].op_type, []).append(seed)
    for contributed in all_cases():
        content, feeds = contributed.model()
        if len(content) + sum(value.nbytes for value in feeds.values()) <= MAX_BYTES:
            seed = Seed(f"{contributed.domain}.{contributed.label}", content, feeds)
            by_op.setdefault(f"{contributed.domain}.{contributed.op}", []).append(seed)
    queues = [by_op[op] for op in sorted(by_op)]
    turns = max(len(queue) for queue in queues)
    return [queue[turn % len(queue)] for turn in range(turns) for queue in queues]


def make_case(kind: str, index: int, seed: int) -> HostileCase:
    """Case `index` of the kind; the same for the same numbers."""
    rng = random.Random(f"{seed}/{kind}/{index}")
    if kind == "file":
        return HostileCase(*hostile_files.make(rng, index))
    if kind == "caller":
        return HostileCase(*hostile_callers.make(rng))
    if kind == "contributed":
        name, content, several = hostile_contributed.make(index + 7919 * seed)
        return HostileCase(name, content, plain(several))
    if kind == "node":
        name, proto, feeds = hostile_nodes.make(rng, index)
        several = [feeds, *[spoiled_feeds(rng, feeds) for _ in range(2)]]
        return HostileCase(name, proto.SerializeToString(), plain(several))
    if kind == "costly":
        name, content, several = hostile_costly.make(rng, index)
        return HostileCase(name, content, plain(several))
    if kind == "limit":
        name, content, several = hostile_limits.make(rng, index)
        return HostileCase(name, content, plain(several))
    if kind == "mixed":
        name, content, several = hostile_mixed.make(rng, index)
        return HostileCase(name, content, plain(several))
    if index % 8 == 7 and kind == "model":
        name, content, several = hostile_grown.make(rng, index // 8)
        return HostileCase(name, content, plain(several))
    base = seeds()[(index + 7919 * seed) % len(seeds())]
    model = onnx.load_from_string(base.model)
    feeds = dict(base.feeds)
    if kind == "sizes":
        open_sizes(rng, model)
        several = hostile_sizes.make(rng, feeds)
        return HostileCase(base.name, model.SerializeToString(), plain(several))
    if kind == "tensor":
        open_sizes(rng, model)
        several = [feeds, *[spoiled_feeds(rng, feeds) for _ in range(3)]]
        return HostileCase(base.name, model.SerializeToString(), plain(several))
    for _ in range(rng.choice([1, 1, 2, 3])):
        rng.choice(SPOILERS)(rng, model, feeds)
    content = model.SerializeToString()
    if rng.random() < 0.05:
        content = spoiled_bytes(rng, content)
    several = [feeds] if rng.random() < 0.5 else [feeds, spoiled_feeds(rng, feeds)]
    return HostileCase(base.name, content, plain(several))


def plain(several: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """Runs without memory for outputs."""
    return [(feeds, None) for feeds in several]


def spoiled_feeds(rng: random.Random, feeds: dict[str, Any]) -> dict[str, Any]:
    """Feeds of which one or a few are hostile."""
    feeds = dict(feeds)
    for name in rng.sample(list(feeds), min(len(feeds), rng.choice([1, 1, 1, 2, 5]))):
        feeds[name] = hostile_value(rng, feeds[name])
    return feeds


def open_sizes(rng: random.Random, model: onnx.ModelProto) -> None:
    """Inputs have symbols for sizes, or no shape at all; what follows from them is forgotten."""
    way = rng.random()
    for value in model.graph.input:
        if not value.type.HasField("tensor_type"):
            continue
        tensor = value.type.tensor_type
        if way < 0.15:
            tensor.ClearField("shape")
        elif way < 0.85:
            for i, dim in enumerate(tensor.shape.dim):
                dim.dim_param = f"{value.name}_{i}"
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]


# --- what is done to a model ----------------------------------------------------------------------


def all_nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes, those of bodies included."""
    found: list[onnx.NodeProto] = []
    graphs = [model.graph]
    while graphs:
        for node in graphs.pop().node:
            found.append(node)
            graphs += [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    return found


def spoil_attribute(rng: random.Random, model: onnx.ModelProto, _: dict[str, Any]) -> None:
    """One of the attributes that the op's schema names."""
    node = rng.choice(all_nodes(model))
    version = next((o.version for o in model.opset_import if o.domain == node.domain), 21)
    if not 1 <= version <= onnx.defs.onnx_opset_version():
        return  # spoilt before
    try:
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return
    names = sorted(schema.attributes)
    if not names:
        names = ["axis"]
    name = rng.choice(names)
    kind = (
        int(schema.attributes[name].type.value)
        if name in schema.attributes
        else onnx.AttributeProto.INT
    )
    kept = [a for a in node.attribute if a.name != name]
    old = next((a for a in node.attribute if a.name == name), None)
    if old is not None and old.type == onnx.AttributeProto.INTS and old.ints and rng.random() < 0.5:
        old.ints[rng.randrange(len(old.ints))] = integer(rng)
        return
    if old is not None and old.type == onnx.AttributeProto.TENSOR:
        array = hostile_array(rng, numpy_helper.to_array(old.t))
        old.t.CopyFrom(numpy_helper.from_array(array, old.t.name))
        return
    if kind in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
        return
    made = attribute(rng, name, kind)
    del node.attribute[:]
    node.attribute.extend(kept + ([made] if made is not None else []))


def spoil_type(rng: random.Random, model: onnx.ModelProto, _: dict[str, Any]) -> None:
    """The declared type of an input or output."""
    values = list(model.graph.input) + list(model.graph.output)
    if not values:
        return
    value = rng.choice(values)
    if not value.type.HasField("tensor_type"):
        return
    tensor = value.type.tensor_type
    way = rng.random()
    if way < 0.2:
        tensor.elem_type = rng.choice([0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 14, 16, 17, 22, 23, 99])
    elif way < 0.6 and tensor.shape.dim:
        dim = tensor.shape.dim[rng.randrange(len(tensor.shape.dim))]
        dim.dim_value = rng.choice([0, 1, -1, 2, 3, 2**31, 2**40, 2**62, -(2**63)])
    elif way < 0.75:
        tensor.shape.dim.add(dim_value=rng.choice([0, 1, 2]))
    elif way < 0.9 and tensor.shape.dim:
        del tensor.shape.dim[-1]
    else:
        for _ in range(rng.choice([20, 1000])):
            tensor.shape.dim.add(dim_value=1)


def spoil_operands(rng: random.Random, model: onnx.ModelProto, _: dict[str, Any]) -> None:
    """Operands are dropped, swapped, doubled or many."""
    node = rng.choice(all_nodes(model))
    if not node.input:
        return
    at = rng.randrange(len(node.input))
    way = rng.random()
    if way < 0.3:
        node.input[at] = ""
    elif way < 0.5:
        node.input[at] = rng.choice(list(node.input))
    elif way < 0.65:
        del node.input[at:]
    elif way < 0.8:
        node.input.extend([node.input[at]] * rng.choice([1, 3, 200]))
    elif way < 0.9 and node.output:
        node.output.append("more")
    elif node.output:
        node.input[at] = node.output[0]


def has_onnx_elements(array: np.ndarray) -> bool:
    """Whether a constant may hold them: objects are to be texts."""
    return array.dtype != object or all(isinstance(item, str) for item in array.flat)


def fix_input(rng: random.Random, model: onnx.ModelProto, feeds: dict[str, Any]) -> None:
    """An input becomes a constant, often a hostile one."""
    names = [n for n, value in feeds.items() if isinstance(value, np.ndarray) and value.size < 4096]
    if not names:
        return
    name = rng.choice(sorted(names))
    array = feeds[name]
    if rng.random() < 0.8:
        array = hostile_array(rng, array)
    if not has_onnx_elements(array):
        return
    del feeds[name]
    model.graph.initializer.append(numpy_helper.from_array(array, name))
    kept = [value for value in model.graph.input if value.name != name]
    del model.graph.input[:]
    model.graph.input.extend(kept)


def change_op(rng: random.Random, model: onnx.ModelProto, _: dict[str, Any]) -> None:
    """Another op of the standard with the same operands and attributes."""
    node = rng.choice(all_nodes(model))
    names = sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == ""})
    node.op_type = rng.choice(names)


def spoil_version(rng: random.Random, model: onnx.ModelProto, _: dict[str, Any]) -> None:
    """The opset, or the version of the format."""
    if rng.random() < 0.7 and model.opset_import:
        model.opset_import[0].version = rng.choice([0, 1, 5, 7, 9, 11, 13, 17, 25, 99, -1, 2**62])
    else:
        model.ir_version = rng.choice([0, 1, 3, 4, 13, 99, -1, 2**40])


def open_types(rng: random.Random, model: onnx.ModelProto, _: dict[str, Any]) -> None:
    """Sizes become symbols, so that nothing is known before the run."""
    open_sizes(rng, model)


SPOILERS = [spoil_attribute] * 5 + [fix_input] * 4 + [spoil_type] * 2
SPOILERS += [spoil_operands] * 2 + [change_op, spoil_version, open_types]


def spoiled_bytes(rng: random.Random, content: bytes) -> bytes:
    """A file with some bytes changed, cut or repeated."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 2, 8])):
        at = rng.randrange(max(1, len(data)))
        way = rng.random()
        if way < 0.6 and data:
            data[at] = rng.randrange(256)
        elif way < 0.8:
            del data[at : at + rng.randrange(16)]
        else:
            data[at:at] = data[at : at + 16]
    return bytes(data)
