# SPDX-License-Identifier: Apache-2.0
"""Hostile models made from the schemas of ops alone: nodes that nobody wrote, nearly valid.

Every op of every domain that the onnx package knows, in its newest or an older version: operands of
any dtype that the schema allows (seldom of another), of ranks from 0 to 9 with sizes that mostly go
together, each an input with a fixed, an open or no shape, a constant, or computed in the model;
attributes from hostile numbers; sub-graphs whose types have nothing to do with the node. The node
stands in the main graph, in a branch, in a loop or in a function.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import onnx
from hostile_values import FLOATS, INTEGERS, attribute, within
from onnx import TensorProto, helper, numpy_helper
from onnx.defs import OpSchema
from small_models import tensor, untyped

Feeds = dict[str, Any]
OPSETS = {"ai.onnx.ml": 5, "ai.onnx.preview.training": 1, "ai.onnx.preview": 1}
FORMAL = OpSchema.FormalParameterOption
KINDS = onnx.AttributeProto
RANDOM_TEXTS = ["", "a", "é", "12", "NaN", "x" * 300, "a b c"]
DTYPES = {
    text: number
    for name, number in TensorProto.DataType.items()
    if number and (text := f"tensor({name.lower()})")
}


@cache
def schemas() -> list[OpSchema]:
    """The newest version of each op, by name."""
    newest = [s for s in onnx.defs.get_all_schemas() if not s.deprecated]
    return sorted(newest, key=lambda s: (s.domain, s.name))


@cache
def history() -> dict[tuple[str, str], list[OpSchema]]:
    """Every version of each op."""
    found: dict[tuple[str, str], list[OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name), []).append(schema)
    return found


def array_dtype(number: int) -> np.dtype:
    """That of arrays of a TensorProto's type."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(number))


def elements(rng: random.Random, dtype: np.dtype, shape: list[int], rank: int) -> np.ndarray:
    """Mostly small numbers, of which integers are often axes or indices; some hostile ones."""
    count = int(np.prod(shape, dtype=np.int64))
    hostile = rng.random() < 0.35
    if dtype.kind in "OUS":
        texts = [rng.choice(RANDOM_TEXTS) for _ in range(count)]
        return np.array(texts, object).reshape(shape)
    if dtype == np.bool_:
        return np.array([rng.random() < 0.6 for _ in range(count)], bool).reshape(shape)
    if dtype.kind in "iu":
        least = 0 if dtype.kind == "u" or rng.random() < 0.6 else -rank - 1
        numbers = [rng.randint(least, rng.choice([1, 2, rank + 1, 4])) for _ in range(count)]
        if hostile and count:
            numbers[rng.randrange(count)] = within(dtype, rng.choice(INTEGERS))
        return np.array(numbers, dtype).reshape(shape)
    values: list[Any] = [rng.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0]) for _ in range(count)]
    if hostile and count:
        values[rng.randrange(count)] = rng.choice(FLOATS)
    with np.errstate(all="ignore"):
        if dtype.kind == "c":
            return np.array(values, np.complex128).astype(dtype).reshape(shape)
        return np.array(values, np.float64).astype(dtype).reshape(shape)


class Builder:
    """Nodes around one that is made from a schema, what they read, and what that is fed with."""

    def __init__(self, rng: random.Random, schema: OpSchema) -> None:
        self.rng = rng
        self.schema = schema
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.feeds: Feeds = {}
        rank = rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 5, 8, 9])
        sizes = [1, 2, 3, 4, 6] if rng.random() < 0.8 else [0, 1, 2]
        self.shape = [rng.choice(sizes) for _ in range(rank)]
        self.types: dict[str, str] = {}

    # --- operands -----------------------------------------------------------------------------

    def type_of(self, text: str) -> str:
        """The type of operands of one type variable: the same for all of them."""
        if text in self.types and self.rng.random() < 0.95:
            return self.types[text]
        allowed = next(
            (c.allowed_type_strs for c in self.schema.type_constraints if c.type_param_str == text),
            [text],
        )
        common = [t for t in allowed if t in ("tensor(float)", "tensor(int64)", "tensor(int32)")]
        way = self.rng.random()
        if way < 0.04:
            chosen = self.rng.choice(sorted(DTYPES))
        else:
            chosen = self.rng.choice(sorted(common if common and way < 0.55 else allowed))
        self.types[text] = chosen
        return chosen

    def operand_shape(self, position: int) -> list[int]:
        """One that has to do with that of the others."""
        rng, shape = self.rng, list(self.shape)
        way = rng.random()
        if way < 0.45 or (position == 0 and way < 0.85):
            return shape
        if way < 0.6:
            return [rng.choice([0, 1, 2, len(shape), 2 * len(shape), 4])]
        if way < 0.68:
            return []
        if way < 0.76:
            return [rng.choice([1, size]) for size in shape]
        if way < 0.84:
            return shape[rng.randint(0, len(shape)) :]
        if way < 0.92 and len(shape) > 1:
            return [shape[1], shape[1], *shape[2:]]
        return [rng.choice([0, 1, 2, 3]) for _ in range(rng.choice([1, 2, 3, 4, 8]))]

    def operand(self, position: int, text: str) -> str:
        """The name of a new value of the type variable, or of the type itself."""
        kind = self.type_of(text)
        name = f"x{len(self.inputs) + len(self.constants) + len(self.nodes)}_{position}"
        if kind not in DTYPES:
            return self.container(name, kind)
        number = DTYPES[kind]
        shape = self.operand_shape(position)
        array = elements(self.rng, array_dtype(number), shape, len(self.shape))
        way = self.rng.random()
        if way < 0.3:
            self.constants.append(numpy_helper.from_array(array, name))
            return name
        declared: Any = list(shape)
        if way > 0.9:
            declared = None
        elif way > 0.6:
            declared = [f"{name}_{i}" for i in range(len(shape))]
        self.inputs.append(tensor(name, number, declared))
        self.feeds[name] = array
        return self.computed(name, array.dtype) if 0.5 < way < 0.75 else name

    def computed(self, name: str, dtype: np.dtype) -> str:
        """The same elements as a node makes them."""
        made = f"{name}_made"
        if dtype.kind in "iuf" and dtype.itemsize > 1:
            self.constants.append(numpy_helper.from_array(np.ones((), dtype), f"{name}_one"))
            self.nodes.append(helper.make_node("Mul", [name, f"{name}_one"], [made]))
        else:
            self.nodes.append(helper.make_node("Identity", [name], [made]))
        return made

    def container(self, name: str, kind: str) -> str:
        """A sequence, an optional or a map as an input."""
        inner = kind[kind.index("(") + 1 : -1]
        depth = 0
        while inner.startswith(("seq(", "optional(")):
            inner, depth = inner[inner.index("(") + 1 : -1], depth + 1
        number = DTYPES.get(inner, TensorProto.FLOAT)
        element = helper.make_tensor_type_proto(number, None)
        if kind.startswith("map(") or inner.startswith("map("):
            element = onnx.TypeProto()
            element.map_type.key_type = TensorProto.INT64
            element.map_type.value_type.CopyFrom(helper.make_tensor_type_proto(1, None))
            if kind.startswith("map("):
                self.inputs.append(helper.make_value_info(name, element))
                self.feeds[name] = {1: 1.0}
                return name
        sequence = helper.make_sequence_type_proto(element)
        value: Any = [
            elements(self.rng, array_dtype(number), self.operand_shape(1), len(self.shape))
            for _ in range(self.rng.choice([0, 1, 2, 3]))
        ]
        if kind.startswith("optional("):
            within_it = sequence if depth else element
            declared = helper.make_optional_type_proto(within_it)
            if not depth:
                value = value[0] if value else None
        else:
            declared = sequence
        self.inputs.append(helper.make_value_info(name, declared))
        self.feeds[name] = value
        return name

    # --- attributes ---------------------------------------------------------------------------

    def sound_attribute(self, name: str, kind: int) -> onnx.AttributeProto | None:
        """One that goes with the operands, as far as names tell."""
        rng, rank = self.rng, len(self.shape)
        spatial = max(rank - 2, 1)
        lists = {
            "pads": [rng.choice([0, 0, 1, 2]) for _ in range(2 * spatial)],
            "perm": rng.sample(range(rank), rank),
            "axes": [rng.randrange(rank) for _ in range(min(rank, 1))],
        }
        if kind == KINDS.INT:
            value: Any = rng.choice([0, 0, 1, 1, 2, -1, rank - 1])
            if name in ("to", "dtype", "output_dtype", "keys_dtype"):
                value = rng.choice([1, 6, 7, 9, 10, 11, 16])
        elif kind == KINDS.INTS:
            value = lists.get(name, [rng.choice([1, 1, 2, 3]) for _ in range(spatial)])
            if not value:
                return KINDS(name=name, type=KINDS.INTS)
        elif kind == KINDS.FLOAT:
            value = rng.choice([0.0, 0.5, 1.0])
        elif kind == KINDS.FLOATS:
            value = [0.5] * rng.choice([1, rank + 1, 4])
        elif kind == KINDS.TENSOR:
            number = rng.choice([1, 6, 7, 9, 10, 11])
            array = elements(rng, array_dtype(number), rng.choice([[], [1], [2], [0]]), rank)
            value = numpy_helper.from_array(array)
        else:
            return attribute(rng, name, kind)
        return helper.make_attribute(name, value, attr_type=kind)

    def attributes(self) -> list[onnx.AttributeProto]:
        """Of the schema's; those that are wanted nearly always."""
        rng, made = self.rng, []
        for name, formal in sorted(self.schema.attributes.items()):
            kind = int(formal.type.value)
            if rng.random() > (0.97 if formal.required else 0.4):
                continue
            if kind in (KINDS.GRAPH, KINDS.GRAPHS):
                made.append(helper.make_attribute(name, self.body(name)))
                continue
            sound = rng.random() < 0.75
            one = self.sound_attribute(name, kind) if sound else attribute(rng, name, kind)
            if kind == KINDS.STRING and rng.random() < 0.6:
                known = formal.default_value.s if formal.default_value.name else b""
                one = helper.make_attribute(name, known or b"max")
            if one is not None:
                made.append(one)
        return made

    def body(self, name: str) -> onnx.GraphProto:
        """A sub-graph with any number of inputs and outputs of any type."""
        rng = self.rng
        counts = {"then_branch": [0], "else_branch": [0], "body": [1, 2, 2, 3, 3, 4]}
        count = rng.choice(counts.get(name, [0, 1])) if rng.random() < 0.9 else rng.randint(0, 9)
        kinds = [TensorProto.INT64, TensorProto.BOOL, *[TensorProto.FLOAT] * 8]
        inputs = [
            tensor(f"{name}_i{i}", kinds[i], rng.choice([None, None, [], [2]]))
            for i in range(count)
        ]
        nodes, outputs = [], []
        for i in range(rng.choice([1, 1, 2, 3, max(count - 1, 0)])):
            read = rng.choice([f"{name}_i{j}" for j in range(count)] or ["outer"])
            if read == "outer" and self.feeds:
                read = rng.choice(sorted(self.feeds))
            op = rng.choice(["Identity", "Identity", "Neg", "Not", "Shape", "Cast"])
            extra = {"to": rng.choice([1, 7, 9])} if op == "Cast" else {}
            nodes.append(helper.make_node(op, [read], [f"{name}_o{i}"], **extra))
            outputs.append(untyped(f"{name}_o{i}"))
        return helper.make_graph(nodes, name, inputs, outputs)

    # --- the node -----------------------------------------------------------------------------

    def build(self) -> list[str]:
        """Adds the node; the names of its outputs."""
        rng, schema = self.rng, self.schema
        names = []
        for position, formal in enumerate(schema.inputs):
            if formal.option == FORMAL.Variadic:
                count = rng.choice([formal.min_arity, 1, 2, 3]) if rng.random() < 0.95 else 40
                names += [self.operand(position, formal.type_str) for _ in range(count)]
            elif formal.option == FORMAL.Optional and rng.random() < 0.45:
                names.append("")
            else:
                names.append(self.operand(position, formal.type_str))
        while names and not names[-1]:
            names.pop()
        most = min(max(schema.max_output, 1), 4)
        least = min(max(schema.min_output, 1), most)
        outputs = [f"y{i}" for i in range(rng.randint(least, most))]
        node = helper.make_node(schema.name, names, outputs, domain=schema.domain)
        node.attribute.extend(self.attributes())
        self.nodes.append(node)
        return outputs

    def follow(self, outputs: list[str]) -> list[str]:
        """Nodes that read the outputs: what is wrong is to be seen there, too."""
        followed = []
        for name in outputs:
            if self.rng.random() < 0.7:
                followed.append(name)
                continue
            op = self.rng.choice(["Relu", "Shape", "Identity", "Cast", "Softmax", "Size"])
            extra = {"to": TensorProto.FLOAT} if op == "Cast" else {}
            self.nodes.append(helper.make_node(op, [name], [f"{name}_after"], **extra))
            followed.append(f"{name}_after")
        return followed


def enclosed(builder: Builder, outputs: list[str]) -> list[onnx.FunctionProto]:
    """Moves the nodes into a branch, a loop or a function."""
    rng, way = builder.rng, builder.rng.random()
    if way < 0.7:
        return []
    inner = helper.make_graph(builder.nodes, "inner", [], [untyped(name) for name in outputs])
    if way < 0.8:
        builder.inputs.append(tensor("choice", TensorProto.BOOL, rng.choice([[], [1], None])))
        builder.feeds["choice"] = np.array(rng.random() < 0.7)
        call = helper.make_node("If", ["choice"], outputs, then_branch=inner, else_branch=inner)
    elif way < 0.9:
        condition = helper.make_node("Identity", ["again"], ["again_out"])
        inner.node.append(condition)
        inner.output.insert(0, untyped("again_out"))
        inner.input.extend(
            [tensor("turn", TensorProto.INT64, []), tensor("again", TensorProto.BOOL, [])]
        )
        builder.constants.append(numpy_helper.from_array(np.array(2), "turns"))
        call = helper.make_node("Loop", ["turns", ""], outputs, body=inner)
    else:
        imports = [helper.make_opsetid(d, v) for d, v in {"": 25, **OPSETS}.items()]
        read = sorted(value.name for value in builder.inputs)
        read += sorted(value.name for value in builder.constants)
        function = helper.make_function("own", "F", read, outputs, builder.nodes, imports)
        builder.nodes = [helper.make_node("F", read, outputs, domain="own")]
        return [function]
    builder.nodes = [call]
    return []


def make(rng: random.Random, index: int) -> tuple[str, onnx.ModelProto, Feeds]:
    """The name of the op, the model and what it is run with."""
    schema = schemas()[index % len(schemas())]
    if rng.random() < 0.2:
        schema = rng.choice(history()[schema.domain, schema.name])
    builder = Builder(rng, schema)
    outputs = builder.follow(builder.build())
    functions = enclosed(builder, outputs)
    graph = helper.make_graph(
        builder.nodes, "g", builder.inputs, [untyped(o) for o in outputs], builder.constants
    )
    newest = onnx.defs.onnx_opset_version()
    standard = schema.since_version if schema.domain == "" else newest
    if schema is schemas()[index % len(schemas())]:
        standard = rng.choice([newest, newest, max(standard, 13)])
    versions = {"": standard, **OPSETS, "own": 1}
    if schema.domain:
        versions[schema.domain] = schema.since_version
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions)
    return schema.name, model, builder.feeds
