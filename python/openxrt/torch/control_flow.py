# SPDX-License-Identifier: Apache-2.0
"""Higher-order ops, whose arguments are graphs: cond, while_loop, scan and map.

Their bodies become sub-graphs of If, Loop and Scan. What a body reads of the graph around it is an
argument of the op in PyTorch and a capture here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from .._core import Graph, Unsupported
from .builder import DTYPE_NAMES, Builder, Operand, Value, dims_of
from .importer import inline
from .registry import lowering

_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64}


def _as_value(b: Builder, x: object) -> Value:
    """Numbers that a loop changes, and predicates that are known, are scalars."""
    if isinstance(x, Value):
        return x
    if type(x) not in _NUMBERS:
        raise Unsupported(f"a body gives {type(x).__name__}, which is no tensor and no number")
    return b.scalar(x, _NUMBERS[type(x)])  # type: ignore[arg-type, index]


class _Body:
    """A sub-graph under construction within the graph of `outer`."""

    def __init__(self, outer: Builder, name: str) -> None:
        self.outer = outer
        self.b = Builder(Graph(name))

    def capture(self, x: object) -> object:
        """A value of the graph around, in here."""
        if not isinstance(x, Value):
            return x
        dims = None if x.shape is None else dims_of(x.shape)
        if x.id not in self.outer.unmade:  # its type is inferred later, and compared before that
            self.outer.graph.set_type(x.id, DTYPE_NAMES[x.dtype], dims)
        name = self.outer.graph.name_of(x.id)
        key = self.b.graph.add_capture(x.id, name, DTYPE_NAMES[x.dtype], dims)
        self.b.unmade.add(key)
        return Value(key, x.dtype, x.shape, x.rank_hint)

    def input(self, name: str, like: Value, row: bool = False) -> Value:
        """A parameter of the type of `like`, or of one of its rows."""
        dtype, shape = like.dtype, like.shape
        rank = None if shape is not None else like.rank - row
        if row and shape is not None:
            shape = shape[1:]
        dims = None if shape is None else dims_of(shape)
        key = self.b.graph.add_input(name, DTYPE_NAMES[dtype], dims)
        self.b.unmade.add(key)
        return Value(key, dtype, shape, rank)

    def output(self, x: object) -> Value:
        """Makes `x` the next result. One that no node of the body makes gets a node."""
        value = _as_value(self.b, x)
        key = value.id
        if key in self.b.unmade:
            (key,) = self.b.graph.add_node("Identity", [key], ["result"])
        self.b.unmade.add(key)
        self.b.graph.add_output(key)
        return value


def _node(
    b: Builder,
    op: str,
    inputs: Sequence[Value | None],
    results: Sequence[Value],
    attributes: dict[str, object],
    first: str,
) -> list[Value]:
    """A node with a body; its outputs have the dtypes of `results`."""
    keys = b.graph.add_node(
        op,
        [None if x is None else x.id for x in inputs],
        [f"{first}_{op}_{i}" for i in range(len(results))],
        attributes,
        "",
        first,
    )
    return [Value(key, r.dtype, None, r.rank) for key, r in zip(keys, results, strict=True)]


@lowering("ops.higher_order.cond")
def cond(
    b: Builder,
    predicate: Operand,
    true_graph: torch.fx.GraphModule,
    false_graph: torch.fx.GraphModule,
    operands: Sequence[object] = (),
) -> list[Value]:
    name, made = b.name, {}
    results: list[Value] = []
    for key, graph in (("then_branch", true_graph), ("else_branch", false_graph)):
        body = _Body(b, f"{name}_{key}")
        results = [
            body.output(x) for x in inline(body.b, graph, [body.capture(x) for x in operands])
        ]
        made[key] = body.b.graph
    value = _as_value(b, predicate)
    if value.rank:  # PyTorch takes a tensor with one element
        value = b.reshape(value, [])
    return _node(b, "If", [value], results, made, name)


@lowering("ops.higher_order.while_loop")
def while_loop(
    b: Builder,
    cond_graph: torch.fx.GraphModule,
    body_graph: torch.fx.GraphModule,
    carried: Sequence[object],
    additional: Sequence[object] = (),
) -> list[Value]:
    name = b.name
    start = [_as_value(b, x) for x in carried]
    (condition,) = inline(b, cond_graph, [*start, *additional])
    body = _Body(b, f"{name}_body")
    body.input("iteration", b.scalar(0, torch.int64))
    body.input("condition", b.scalar(True, torch.bool))
    inside = [body.input(f"carried_{i}", x) for i, x in enumerate(start)]
    captured = [body.capture(x) for x in additional]
    changed = inline(body.b, body_graph, [*inside, *captured])
    (again,) = inline(body.b, cond_graph, [*changed, *captured])
    body.output(body.b.reshape(_as_value(body.b, again), []))
    results = [body.output(x) for x in changed]
    go = b.reshape(_as_value(b, condition), [])
    return _node(b, "Loop", [None, go, *start], results, {"body": body.b.graph}, name)


def _scan(
    b: Builder,
    states: Sequence[Value],
    rows: Sequence[Value],
    additional: Sequence[object],
    step: Callable[[_Body, list[object]], list[object]],
) -> list[Value]:
    """A Scan over the first dimension of `rows`: final states, then what each step gives."""
    name = b.name
    body = _Body(b, f"{name}_body")
    arguments: list[object] = [body.input(f"state_{i}", x) for i, x in enumerate(states)]
    arguments += [body.input(f"row_{i}", x, row=True) for i, x in enumerate(rows)]
    arguments += [body.capture(x) for x in additional]
    results = [body.output(x) for x in step(body, arguments)]
    typed = [
        r if i < len(states) else Value(r.id, r.dtype, None, r.rank + 1)
        for i, r in enumerate(results)
    ]
    attributes: dict[str, object] = {"body": body.b.graph, "num_scan_inputs": len(rows)}
    return _node(b, "Scan", [*states, *rows], typed, attributes, name)


@lowering("ops.higher_order.scan")
def scan(
    b: Builder,
    combine: torch.fx.GraphModule,
    init: Sequence[Value],
    xs: Sequence[Value],
    additional: Sequence[object] = (),
) -> list[Value]:
    return _scan(b, init, xs, additional, lambda body, args: inline(body.b, combine, args))


@lowering("ops.higher_order.map_impl")
def map_rows(
    b: Builder,
    function: torch.fx.GraphModule,
    xs: Sequence[Value],
    additional: Sequence[object] = (),
) -> list[Value]:
    return _scan(b, [], xs, additional, lambda body, args: inline(body.b, function, args))


@lowering("ops.higher_order.associative_scan")
def associative_scan(
    b: Builder,
    combine: torch.fx.GraphModule,
    xs: Sequence[Value],
    additional: Sequence[object] = (),
) -> list[Value]:
    """One row after the other, which is one of the orders that an associative function allows."""
    count = len(xs)
    first = [b.slice(x, 0, 0, 1) for x in xs]
    states = [b.squeeze(x, 0) for x in first]
    rest = [b.slice(x, 0, 1, 2**63 - 1) for x in xs]

    def step(body: _Body, arguments: list[object]) -> list[object]:
        changed = inline(body.b, combine, arguments)
        # A result has one place: the second use goes through a node of its own.
        copies = [body.b.op("Identity", x) for x in changed if isinstance(x, Value)]
        return [*changed, *copies]

    results = _scan(b, states, rest, additional, step)[count:]
    return [
        b.op("Concat", head, tail, axis=0, rank=head.rank)
        for head, tail in zip(first, results, strict=True)
    ]


@lowering("aten.gcd.default")
def gcd(b: Builder, x: Value, y: Value) -> Value:
    """Euclid's algorithm on all elements, until the last has come to its end."""
    name = b.name
    left, right = b.promote(x, y)
    dtype, rank = left.dtype, max(left.rank, right.rank)
    nothing = b.op("Mul", b.op("Sub", left, left), right, rank=rank)  # in the shape of both
    shape = torch.broadcast_shapes(x.shape, y.shape) if x.shape and y.shape else None
    start = [
        Value(b.op("Abs", b.op("Add", v, nothing, rank=rank)).id, dtype, shape, rank)
        for v in (left, right)
    ]

    def goes_on(c: Builder, divisor: Value) -> Value:
        rest = c.op("Not", c.op("Equal", divisor, c.scalar(0, dtype), dtype=torch.bool))
        # A sum, for that of no elements is 0.
        return c.cast(c.reduce("ReduceSum", c.cast(rest, torch.int64), None, False), torch.bool)

    body = _Body(b, f"{name}_body")
    body.input("iteration", b.scalar(0, torch.int64))
    body.input("condition", b.scalar(True, torch.bool))
    large, small = (body.input(f"carried_{i}", v) for i, v in enumerate(start))
    c = body.b
    done = c.op("Equal", small, c.scalar(0, dtype), dtype=torch.bool)
    divisor = c.op("Where", done, c.scalar(1, dtype), small, dtype=dtype, rank=rank)
    rest = c.op("Mod", large, divisor, rank=rank)
    results = [
        c.op("Where", done, large, small, dtype=dtype, rank=rank),
        c.op("Where", done, small, rest, dtype=dtype, rank=rank),
    ]
    body.output(goes_on(c, results[1]))
    for result in results:
        body.output(result)
    inputs = [None, goes_on(b, start[1]), *start]
    return _node(b, "Loop", inputs, results, {"body": c.graph}, name)[0]


@lowering("ops.higher_order.wrap_with_set_grad_enabled")
def with_gradients(
    b: Builder, enabled: bool, graph: torch.fx.GraphModule, *operands: object
) -> list[object]:
    return inline(b, graph, operands)


@lowering("ops.higher_order.invoke_subgraph")
def invoke_subgraph(
    b: Builder, graph: torch.fx.GraphModule, identifier: str, *operands: object
) -> list[object]:
    return inline(b, graph, operands)


@lowering("ops.higher_order.with_effects")
def with_effects(
    b: Builder, token: object, op: object, *arguments: object, **_: object
) -> list[object]:
    """An op in an order that counts: checks, which raise in PyTorch; a program goes on, with NaNs
    and infinities where it has divided by nothing."""
    if str(op) != "aten._linalg_check_errors.default":
        raise Unsupported(f"{op} has an effect beyond its result")
    return [token, None]
