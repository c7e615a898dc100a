# SPDX-License-Identifier: Apache-2.0
"""Ops that read a tensor's memory: where its elements lie, and views by strides.

A value of the graph has no memory of PyTorch's: where elements lie is found from the strides that
tracing recorded of the tensor that owns the memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ..._core import Unsupported
from ..builder import Builder, Int, NeedsStaticShape, Value
from ..registry import lowering


@dataclass(frozen=True)
class _Owner:
    """The tensor that owns the memory of an operand, and how it lies there."""

    value: Value
    sample: torch.Tensor
    order: list[int]  # its dimensions from the outermost to the innermost, those of size 1 left out
    offset: Any  # of the operand in the memory, from the owner's first element


def _hint(n: Any) -> int | None:
    return n.node.hint if isinstance(n, torch.SymInt) else n


def _order(sample: torch.Tensor) -> list[int] | None:
    """The dimensions from the outermost to the innermost; None where the tensor is not dense."""
    dims = [d for d in range(sample.dim()) if not statically_known_true(sample.shape[d] == 1)]
    hints = {d: _hint(sample.stride(d)) for d in dims}
    if None in hints.values():
        return None
    order = sorted(dims, key=lambda d: (-hints[d], d))  # type: ignore[operator]
    if any(isinstance(n, int) and n == 0 for n in sample.shape):
        return order
    expected: Any = 1
    for d in reversed(order):
        if not statically_known_true(sample.stride(d) == expected):
            return None
        expected = expected * sample.shape[d]
    return order


def _owner(b: Builder, x: Value) -> _Owner:
    """Of the first operand of the node that is lowered."""
    if b.node is None or not isinstance(b.node.args[0], torch.fx.Node):
        raise Unsupported("how its input lies in memory is not known")
    first = b.node.args[0]
    node = _owning(first)
    sample, viewed = node.meta.get("val"), first.meta.get("val")
    value = x if node is first else b.values.get(node)
    if not isinstance(sample, torch.Tensor) or not isinstance(value, Value):
        raise Unsupported("its input is a view of what is no real tensor")
    order = _order(sample)
    if order is None:
        raise Unsupported(
            f"its input lies in memory with strides {tuple(sample.stride())} for the sizes "
            f"{tuple(sample.shape)}; call contiguous() first"
        )
    offset = viewed.storage_offset() - sample.storage_offset()
    return _Owner(value, sample, order, offset)


def _owning(node: torch.fx.Node) -> torch.fx.Node:
    while _is_view(node):
        node = node.args[0]  # type: ignore[assignment]
    return node


def read_by_strides(graph: torch.fx.Graph) -> set[str]:
    """The arguments of a graph for which it matters how they lie in memory."""
    aten = torch.ops.aten
    ops = (
        aten.as_strided.default,
        aten.sym_storage_offset.default,
        aten.sym_stride.int,
    )
    owners = [
        _owning(node.args[0])
        for node in graph.nodes
        if node.target in ops and isinstance(node.args[0], torch.fx.Node)
    ]
    return {node.name for node in owners if node.op == "placeholder"}


def _is_view(node: torch.fx.Node) -> bool:
    """Whether a node gives elements of its first operand, where these lie."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):
        return False
    source = node.args[0] if node.args else None
    if not target.is_view or not isinstance(source, torch.fx.Node):
        return False
    samples = node.meta.get("val"), source.meta.get("val")
    if not all(isinstance(sample, torch.Tensor) for sample in samples):
        return False
    return samples[0].dtype == samples[1].dtype


def _sample(n: Any) -> Any:
    """A size as tracing has it."""
    return n.meta["val"] if isinstance(n, torch.fx.Node) else n


def _expression(n: Any) -> Any:
    return n.node.expr if isinstance(n, torch.SymInt) else sympy.Integer(n)


def _surely_below(most: Any, total: Any) -> bool:
    """Whether a sum of products of sizes is below another for all sizes."""
    if isinstance(most, int) and isinstance(total, int):
        return most < total
    symbolic = most if isinstance(most, torch.SymInt) else total
    # a // n is a / n at most, and no factor of it is negative.
    upper = _expression(most).replace(
        lambda e: type(e).__name__ in ("FloorDiv", "CleanDiv"), lambda e: e.args[0] / e.args[1]
    )
    rest = sympy.expand(_expression(total) - 1 - upper)
    shape_env = symbolic.node.shape_env
    return bool(rest.is_nonnegative) or shape_env._maybe_evaluate_static(rest >= 0) == sympy.true


@lowering("aten.as_strided.default")
def as_strided(
    b: Builder,
    x: Value,
    size: Sequence[Int],
    stride: Sequence[Int],
    storage_offset: Int | None = None,
) -> Value:
    """Elements picked from the memory of what `x` is, or is a view of."""
    assert b.node is not None
    arguments = [*b.node.args, *[b.node.kwargs.get("storage_offset")]]
    sizes, strides = ([_sample(n) for n in given] for given in arguments[1:3])
    owner = _owner(b, x)
    offset: Int | None = owner.offset
    if storage_offset is not None:
        begin = owner.sample.storage_offset()
        offset = storage_offset
        if isinstance(begin, int) and isinstance(offset, int):
            offset -= begin
        elif not isinstance(begin, int) or begin:
            offset = None
    if not isinstance(offset, int | Value):
        raise NeedsStaticShape("as_strided of a view that begins at a place which is symbolic")

    order, shape = owner.order, owner.sample.shape
    # Outer dimensions that are the owner's own stay as they are; what is picked lies within them.
    same = 0
    while same < min(len(sizes), len(order)) and (
        statically_known_true(sizes[same] == shape[order[same]])
        and statically_known_true(strides[same] == owner.sample.stride(order[same]))
    ):
        same += 1
    known = isinstance(offset, int)
    while same and not (
        known
        and offset >= 0
        and _surely_below(
            offset + sum((n - 1) * s for n, s in zip(sizes[same:], strides[same:], strict=True)),
            math.prod(shape[d] for d in order[same:]),
        )
    ):
        same -= 1
    ones = [d for d in range(len(shape)) if d not in order]
    moved = b.transpose(owner.value, [*ones, *order])
    outer: list[Int] = list(size[:same])
    total = math.prod(shape[d] for d in order[same:])
    if same == len(sizes) and isinstance(total, int) and total == 1:
        return b.reshape(moved, outer)
    inner: Int = total if isinstance(total, int) else -1
    if inner == -1 and any(isinstance(n, int) and n == 0 for n in outer):
        raise NeedsStaticShape("as_strided of no elements")
    flat = b.reshape(moved, [*outer, inner])
    positions = _positions(b, size[same:], stride[same:], offset)
    if isinstance(positions, np.ndarray):
        if positions.size and isinstance(total, int) and int(positions.max()) >= total:
            raise Unsupported("as_strided reads beyond the tensor that owns the memory")
        if positions.size and int(positions.min()) < 0:
            raise Unsupported("as_strided reads before the tensor that owns the memory")
        positions = b.array(positions)
    return b.op("Gather", flat, positions, axis=same, rank=len(size))


def _positions(
    b: Builder, size: Sequence[Int], stride: Sequence[Int], offset: Int
) -> np.ndarray | Value:
    """Of elements in memory, by a table where all is known."""
    rank = len(size)

    def along(axis: int, values: np.ndarray) -> np.ndarray:
        return values.reshape([-1 if i == axis else 1 for i in range(rank)])

    known = np.full([1] * rank, offset if isinstance(offset, int) else 0, dtype=np.int64)
    terms: list[Value] = [] if isinstance(offset, int) else [offset]
    for axis, (length, step) in enumerate(zip(size, stride, strict=True)):
        if isinstance(length, int) and isinstance(step, int):
            known = known + along(axis, np.arange(length, dtype=np.int64) * step)
            continue
        end = b.operand(length, torch.int64)
        places = b.op("Range", b.scalar(0, torch.int64), end, b.scalar(1, torch.int64), rank=1)
        scaled = b.op("Mul", places, b.operand(step, torch.int64), rank=1)
        others = [i for i in range(rank) if i != axis]
        terms.append(b.unsqueeze(scaled, *others) if others else scaled)
    if not terms:
        return np.array(np.broadcast_to(known, list(size)))  # type: ignore[arg-type]
    result = b.array(known)
    for term in terms:
        result = b.op("Add", result, term, rank=rank)
    return result


@lowering("aten.sym_storage_offset.default")
def sym_storage_offset(b: Builder, x: Value) -> int:
    assert b.node is not None
    offset = _sample(b.node.args[0]).storage_offset()
    if not isinstance(offset, int):
        raise NeedsStaticShape("a storage_offset() that is symbolic")
    return offset


@lowering("aten.sym_stride.int")
def sym_stride(b: Builder, x: Value, dim: int) -> Int:
    assert b.node is not None
    sample = _sample(b.node.args[0])
    wanted = sample.stride(dim)
    if isinstance(wanted, int):
        return wanted
    # The product of the sizes within.
    for order in (range(sample.dim()), _order(sample) or ()):
        inner = list(order)[list(order).index(dim % sample.dim()) + 1 :] if order else None
        if inner is not None and statically_known_true(
            math.prod(sample.shape[d] for d in inner) == wanted
        ):
            return b.product([b.dim_size(x, d) for d in inner])
    raise NeedsStaticShape("the stride of a tensor that is not dense")


@lowering("aten.unfold.default")
def unfold(b: Builder, x: Value, dimension: int, size: int, step: int) -> Value:
    """Windows of one dimension, which become the last one."""
    if x.rank == 0:
        return b.reshape(x, [size])
    dim = dimension % x.rank
    length = b.dim_size(x, dim)
    count: Int
    if isinstance(length, int):
        count = (length - size) // step + 1
    else:
        beyond = b.op("Sub", length, b.scalar(size, torch.int64), rank=0)
        count = b.op("Div", beyond, b.scalar(step, torch.int64), rank=0)
        count = b.op("Add", count, b.scalar(1, torch.int64), rank=0, shape=())
    if size == step:  # they lie side by side
        used = b.product([count, size])
        whole = isinstance(length, int) and length == used
        cut = x if whole else b.slice(x, dim, 0, used)
        sizes = [b.dim_size(x, d) for d in range(x.rank)]
        windows = b.reshape(cut, [*sizes[:dim], count, size, *sizes[dim + 1 :]])
    elif size == 1:
        windows = b.unsqueeze(b.slice(x, dim, 0, 2**63 - 1, step), dim + 1)
    else:
        positions = _positions(b, [count, size], [step, 1], 0)
        if isinstance(positions, np.ndarray):
            positions = b.array(positions)
        windows = b.op("Gather", x, positions, axis=dim, rank=x.rank + 1)
    others = [d for d in range(x.rank + 1) if d != dim + 1]
    return b.transpose(windows, [*others, dim + 1])
