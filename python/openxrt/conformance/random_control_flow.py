# SPDX-License-Identifier: Apache-2.0
"""Random valid ONNX models of branches and loops, each made from its number.

If, Loop and Scan stand in one another, capture values from around them, leave results out, carry
what they do not change, stop early and by what they compute, and declare their bodies' values by
sizes, by names or not at all. Every number is float32
of one shape, so that any value fits anywhere.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .models import make_model
from .random_graphs import TOLERANCE, RandomGraph

SHAPE = (2, 3)
DEEPEST = 3  # bodies in bodies
PLAIN = ("Add", "Sub", "Mul", "Neg", "Tanh", "Identity", "product")
MORE = ("Abs", "Relu", "Where", "turned twice", "row means", "If", "Loop", "Scan", "growing Loop")


class _Builder:
    """Makes nodes; every value that the lists of names hold is a float32 of SHAPE."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.names = 0
        self.made: set[str] = set()  # ops

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def some(self, values: Sequence[str]) -> str:
        return self.random.choice(values)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def node(
        self, nodes: list[onnx.NodeProto], op: str, inputs: Sequence[str], **attributes: object
    ) -> str:
        """Adds a node with one result, and says its name."""
        self.made.add(op)
        nodes.append(helper.make_node(op, inputs, [self.name()], **attributes))
        return str(nodes[-1].output[0])

    def constant(self, nodes: list[onnx.NodeProto], value: object, dtype: type = np.int64) -> str:
        array = numpy_helper.from_array(np.array(value, dtype))
        return self.node(nodes, "Constant", [], value=array)

    def declaration(self, name: str) -> onnx.ValueInfoProto:
        """A body's value, of which less is said than is known, or nothing."""
        sizes: tuple[int | str, ...] = SHAPE
        told = self.random.random()
        if told < 0.2:
            return onnx.ValueInfoProto(name=name)
        if told < 0.4:
            sizes = tuple(self.name() for _ in SHAPE)
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)

    def results(self, count: int) -> list[str]:
        """Names of a node's results, of which some are left out."""
        names = [self.name() if self.chance(0.85) else "" for _ in range(count)]
        return names if any(names) else [self.name(), *names[1:]]

    # --- bodies --------------------------------------------------------------------------------

    def steps(
        self, nodes: list[onnx.NodeProto], values: Sequence[str], count: int, depth: int
    ) -> list[str]:
        """Adds so many nodes or groups of them; the values that are there then."""
        known = list(values)
        for _ in range(count):
            op = self.pick(*PLAIN, *MORE) if depth < DEEPEST else self.pick(*PLAIN)
            a, b = self.some(known), self.some(known)
            if op in ("If", "Loop", "Scan", "growing Loop"):
                known += self.flow(nodes, op, known, depth + 1)
            elif op in ("Add", "Sub", "Mul"):
                known.append(self.node(nodes, op, [a, b]))
            elif op == "product":
                turned = self.node(nodes, "Transpose", [b], perm=[1, 0])
                product = self.node(nodes, "MatMul", [a, turned])
                known.append(self.node(nodes, "Tanh", [self.node(nodes, "MatMul", [product, b])]))
            elif op == "Where":
                condition = self.node(nodes, "Greater", [a, b])
                known.append(self.node(nodes, "Where", [condition, a, b]))
            elif op == "turned twice":
                turned = self.node(nodes, "Transpose", [a], perm=[1, 0])
                known.append(self.node(nodes, "Transpose", [turned], perm=[1, 0]))
            elif op == "row means":
                means = self.node(nodes, "ReduceMean", [a, self.constant(nodes, [1])])
                known.append(self.node(nodes, "Add", [b, means]))
            else:
                known.append(self.node(nodes, op, [a]))
        return known

    def body_result(
        self, nodes: list[onnx.NodeProto], values: Sequence[str], outputs: list
    ) -> None:
        """Adds a result of a body: one of its values by way of an op, or one just as it is."""
        value = self.some(values)
        made = {name for node in nodes for name in node.output}
        taken = {output.name for output in outputs}
        if value not in made or value in taken or self.chance(0.7):
            value = self.node(nodes, self.pick("Identity", "Tanh"), [value])
        outputs.append(self.declaration(value))

    def flow(
        self, nodes: list[onnx.NodeProto], op: str, values: Sequence[str], depth: int
    ) -> list[str]:
        """Adds a node with bodies, and what makes its stacked results SHAPE again."""
        makers = {
            "If": self.branch,
            "Loop": self.loop,
            "Scan": self.scan,
            "growing Loop": self.growing,
        }
        return makers[op](nodes, values, depth)

    def is_positive(self, nodes: list[onnx.NodeProto], value: str) -> str:
        mean = self.node(nodes, "ReduceMean", [value], keepdims=0)
        return self.node(nodes, "Greater", [mean, self.constant(nodes, 0, np.float32)])

    def branch(self, nodes: list[onnx.NodeProto], values: Sequence[str], depth: int) -> list[str]:
        condition = self.is_positive(nodes, self.some(values))
        results = self.results(self.random.randint(1, 3))
        bodies = []
        for _ in range(2):
            inner: list[onnx.NodeProto] = []
            known = self.steps(inner, values, self.random.randint(0, 4), depth)
            outputs: list[onnx.ValueInfoProto] = []
            for _ in results:
                self.body_result(inner, known, outputs)
            bodies.append(helper.make_graph(inner, self.name(), [], outputs))
        self.made.add("If")
        nodes.append(
            helper.make_node(
                "If", [condition], results, then_branch=bodies[0], else_branch=bodies[1]
            )
        )
        return [name for name in results if name]

    def trip_count(self, nodes: list[onnx.NodeProto]) -> str:
        """A constant, or one that the graph computes of the rows of the input."""
        if self.chance(0.6):
            return self.constant(nodes, self.random.randint(1, 5))
        shape = self.node(nodes, "Shape", ["a"])
        rows = self.node(nodes, "Gather", [shape, self.constant(nodes, 0)])
        return self.node(nodes, "Add", [rows, self.constant(nodes, self.random.randint(-1, 2))])

    def loop(self, nodes: list[onnx.NodeProto], values: Sequence[str], depth: int) -> list[str]:
        states = [self.name() for _ in range(self.random.randint(0, 3))]
        stacked = self.random.randint(0 if states else 1, 2)
        turn, going = self.name(), self.name()
        inner: list[onnx.NodeProto] = []
        known = [*states, *(values if self.chance(0.7) else [])]
        if not known:
            known = [self.constant(inner, np.full(SHAPE, 0.5), np.float32)]
        number = self.node(inner, "Cast", [turn], to=TensorProto.FLOAT)
        known.append(self.node(inner, "Add", [self.some(known), number]))
        known = self.steps(inner, known, self.random.randint(0, 4), depth)
        outputs: list[onnx.ValueInfoProto] = []
        for state in states:
            self.body_result(inner, [state] if self.chance(0.3) else known, outputs)
        for _ in range(stacked):
            self.body_result(inner, known, outputs)
        # The first turn always runs: without it the stacked results would have no elements.
        again = self.pick("always", "by number", "by value")
        if again == "always":
            go_on = self.node(inner, "Identity", [going])
        elif again == "by number":
            last = self.constant(inner, self.random.randint(0, 4))
            go_on = self.node(inner, "Less", [turn, last])
        else:
            go_on = self.is_positive(inner, self.some(known))
        body = helper.make_graph(
            inner,
            self.name(),
            [
                helper.make_tensor_value_info(turn, TensorProto.INT64, []),
                helper.make_tensor_value_info(going, TensorProto.BOOL, []),
                *(self.declaration(state) for state in states),
            ],
            [helper.make_tensor_value_info(go_on, TensorProto.BOOL, []), *outputs],
        )
        count = self.trip_count(nodes)
        condition = self.constant(nodes, True, np.bool_) if self.chance(0.3) else ""
        results = self.results(len(states) + stacked)
        first = [self.some(values) for _ in states]
        self.made.add("Loop")
        nodes.append(helper.make_node("Loop", [count, condition, *first], results, body=body))
        return [name for name in results[: len(states)] if name] + [
            self.node(nodes, "ReduceMean", [name, self.constant(nodes, [0])], keepdims=0)
            for name in results[len(states) :]
            if name
        ]

    def growing(self, nodes: list[onnx.NodeProto], values: Sequence[str], depth: int) -> list[str]:
        """A Loop that carries rows to which every turn adds some."""
        state, turn, going = self.name(), self.name(), self.name()
        inner: list[onnx.NodeProto] = []
        known = self.steps(inner, values, self.random.randint(0, 2), depth)
        grown = self.node(inner, "Concat", [state, self.some(known)], axis=0)
        go_on = self.node(inner, "Identity", [going])
        rows = [self.name(), SHAPE[1]]
        body = helper.make_graph(
            inner,
            self.name(),
            [
                helper.make_tensor_value_info(turn, TensorProto.INT64, []),
                helper.make_tensor_value_info(going, TensorProto.BOOL, []),
                helper.make_tensor_value_info(state, TensorProto.FLOAT, rows),
            ],
            [
                helper.make_tensor_value_info(go_on, TensorProto.BOOL, []),
                helper.make_tensor_value_info(grown, TensorProto.FLOAT, [self.name(), SHAPE[1]]),
            ],
        )
        count = self.trip_count(nodes)
        result = self.name()
        self.made.add("Loop")
        nodes.append(helper.make_node("Loop", [count, "", self.some(values)], [result], body=body))
        means = self.node(nodes, "ReduceMean", [result, self.constant(nodes, [0])])
        return [self.node(nodes, "Add", [self.some(values), means])]

    def scan(self, nodes: list[onnx.NodeProto], values: Sequence[str], depth: int) -> list[str]:
        states = [self.name() for _ in range(self.random.randint(0, 3))]
        slices = [self.name() for _ in range(self.random.randint(1, 2))]
        stacked = self.random.randint(1, 2)
        inner: list[onnx.NodeProto] = []
        known = states + slices[: self.random.randint(0, len(slices))]
        known += values if self.chance(0.6) else []
        known = self.steps(inner, known or slices, self.random.randint(0, 4), depth)
        outputs: list[onnx.ValueInfoProto] = []
        for state in states:
            self.body_result(inner, [state] if self.chance(0.3) else known, outputs)
        for _ in range(stacked):
            self.body_result(inner, known, outputs)
        body = helper.make_graph(
            inner, self.name(), [self.declaration(name) for name in states + slices], outputs
        )
        steps = self.random.randint(1, 4)
        axes = [self.random.randint(0, len(SHAPE)) for _ in slices]
        stacked_axes = [self.random.randint(0, len(SHAPE)) for _ in range(stacked)]
        scanned = []
        for axis in axes:
            parts = [
                self.node(nodes, "Unsqueeze", [self.some(values), self.constant(nodes, [axis])])
                for _ in range(steps)
            ]
            scanned.append(self.node(nodes, "Concat", parts, axis=axis))
        attributes: dict[str, list[int]] = {}
        if self.chance(0.5):
            attributes["scan_input_directions"] = [self.random.randint(0, 1) for _ in slices]
        if self.chance(0.5):
            attributes["scan_output_directions"] = [
                self.random.randint(0, 1) for _ in range(stacked)
            ]
        results = self.results(len(states) + stacked)
        first = [self.some(values) for _ in states]
        self.made.add("Scan")
        nodes.append(
            helper.make_node(
                "Scan",
                [*first, *scanned],
                results,
                body=body,
                num_scan_inputs=len(slices),
                scan_input_axes=axes,
                scan_output_axes=stacked_axes,
                **attributes,
            )
        )
        found = [name for name in results[: len(states)] if name]
        for name, axis in zip(results[len(states) :], stacked_axes, strict=True):
            if name:
                zero, whole = self.constant(nodes, 0), self.constant(nodes, [axis])
                found.append(self.node(nodes, "Gather", [name, zero], axis=axis))
                found.append(self.node(nodes, "ReduceMean", [name, whole], keepdims=0))
        return found


def make_random_control_flow(seed: int, most_nodes: int = 24) -> RandomGraph:
    """The model of this number. Its main graph has up to about `most_nodes` / 4 nodes or groups of
    them, bodies aside."""
    b = _Builder(seed)
    nodes: list[onnx.NodeProto] = []
    weight = numpy_helper.from_array(b.numbers.standard_normal(SHAPE).astype(np.float32), "w")
    most = max(1, most_nodes // 8)
    values = b.steps(nodes, ["a", "b", "w"], b.random.randint(1, most), 1)
    made = b.flow(nodes, b.pick("If", "Loop", "Loop", "Scan", "Scan", "growing Loop"), values, 1)
    last = b.steps(nodes, [*values, *made], b.random.randint(0, most), 1)[-1]
    outputs = [b.node(nodes, "Identity", [value]) for value in dict.fromkeys([*made, last])]
    sizes: tuple[int | str, ...] = SHAPE if b.chance(0.6) else ("n", "k")
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name in "ab"]

    def numbers() -> np.ndarray:
        return (0.7 * b.numbers.standard_normal(SHAPE)).astype(np.float32)

    runs = [{name: numbers() for name in "ab"} for _ in range(2)]
    return RandomGraph(
        make_model(nodes, inputs, outputs, [weight]), tuple(sorted(b.made)), runs, TOLERANCE
    )
