# SPDX-License-Identifier: Apache-2.0
"""Reading and writing at positions given by tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..._core import Unsupported
from ..builder import Builder, Int, Number, Value
from ..registry import lowering, rewriting
from .pointwise import as_bool


@lowering("aten.embedding.default")
def embedding(b: Builder, weight: Value, indices: Value, *_: object, **__: object) -> Value:
    return b.op("Gather", weight, indices, axis=0, rank=indices.rank + 1)


@lowering("aten.index_select.default")
def index_select(b: Builder, x: Value, dim: int, index: Value) -> Value:
    if x.rank == 0:
        return x
    picked = index if index.rank == 1 else b.reshape(index, [1])
    return b.op("Gather", x, picked, axis=dim % x.rank, rank=x.rank)


def _indices(b: Builder, x: Value, indices: Sequence[Value | None]) -> list[Value | None]:
    """Masks as positions: PyTorch's indexing by a mask of rank r is indexing by r tensors."""
    result: list[Value | None] = []
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            result.append(index)
            continue
        positions = b.op("NonZero", as_bool(b, index), dtype=torch.int64, rank=2)
        for row in range(index.rank):
            result.append(b.op("Gather", positions, b.scalar(row, torch.int64), axis=0, rank=1))
    return result


def _stacked(b: Builder, indices: Sequence[Value]) -> Value:
    """Index tensors, broadcast to one shape, as the last axis of one int64 tensor."""
    rank = max(index.rank for index in indices)
    wide = [b.cast(index, torch.int64) for index in indices]
    if len(wide) > 1:
        total = wide[0]
        for index in wide[1:]:
            total = b.op("Add", total, index, rank=rank)
        size = b.op("Shape", total, dtype=torch.int64, rank=1)
        wide = [b.op("Expand", index, size, rank=rank) for index in wide]
    return b.op("Concat", *[b.unsqueeze(i, rank) for i in wide], axis=rank, rank=rank + 1)


def _to_front(x: Value, indexed: Sequence[int]) -> list[int]:
    return [*indexed, *[dim for dim in range(x.rank) if dim not in indexed]]


@lowering("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(b: Builder, x: Value, indices: Sequence[Value | None]) -> Value:
    indices = _indices(b, x, indices)
    indexed = [dim for dim, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if not given:
        return x
    rank = max(index.rank for index in given)
    if len(given) == 1:
        return b.op(
            "Gather",
            x,
            b.cast(given[0], torch.int64),
            axis=indexed[0],
            rank=x.rank - 1 + given[0].rank,
        )
    moved = b.transpose(x, _to_front(x, indexed))
    picked = b.op(
        "GatherND", moved, _stacked(b, given), dtype=x.dtype, rank=rank + x.rank - len(indexed)
    )
    adjacent = indexed == list(range(indexed[0], indexed[0] + len(indexed)))
    if not adjacent or indexed[0] == 0:
        return picked
    # Adjacent indices leave their result where they stood.
    before = indexed[0]
    order = [
        *range(rank, rank + before),
        *range(rank),
        *range(rank + before, rank + x.rank - len(indexed)),
    ]
    return b.transpose(picked, order)


@lowering("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(
    b: Builder,
    x: Value,
    indices: Sequence[Value | None],
    values: Value,
    accumulate: bool = False,
) -> Value:
    if (
        len(indices) == 1
        and indices[0] is not None
        and indices[0].dtype == torch.bool
        and values.rank == 0
        and not accumulate
    ):
        mask = indices[0]
        wide = b.unsqueeze(mask, *range(mask.rank, x.rank)) if mask.rank < x.rank else mask
        filling = b.cast(values, x.dtype)
        return b.op("Where", wide, filling, x, dtype=x.dtype, shape=x.shape, rank=x.rank)
    indices = _indices(b, x, indices)
    indexed = [dim for dim, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    order = _to_front(x, indexed)
    moved = b.transpose(x, order)
    stacked = _stacked(b, given)
    rank = stacked.rank - 1
    # The values broadcast to what indexing would read.
    adjacent = indexed == list(range(indexed[0], indexed[0] + len(indexed)))
    rest = x.rank - len(indexed)
    before = indexed[0] if adjacent else 0
    updates = b.cast(values, x.dtype)
    if before:
        # Where the result of reading has its index dimensions in the middle, so have the values.
        full = rank + rest
        if updates.rank < full:
            updates = b.unsqueeze(updates, *range(full - updates.rank))
        updates = b.transpose(
            updates,
            [*range(before, before + rank), *range(before), *range(before + rank, full)],
        )
    lead = b.op("Shape", stacked, dtype=torch.int64, rank=1, start=0, end=rank)
    tail = b.op("Shape", moved, dtype=torch.int64, rank=1, start=len(indexed))
    size = b.op("Concat", lead, tail, axis=0, rank=1)
    updates = b.op("Expand", updates, size, rank=rank + rest)
    written = b.op(
        "ScatterND",
        moved,
        stacked,
        updates,
        rank=x.rank,
        reduction="add" if accumulate else None,
    )
    inverse = [order.index(dim) for dim in range(x.rank)]
    return b.transpose(written, inverse)


def _at_least_1d(b: Builder, *values: Value) -> list[Value]:
    return [b.reshape(value, [1]) if value.rank == 0 else value for value in values]


@lowering("aten.gather.default")
def gather(b: Builder, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    if 0 in (index.shape or ()):  # nothing is looked up, whatever the other dimensions are
        return b.tensor(torch.zeros(index.static_shape("gather"), dtype=x.dtype))
    data, picked = _at_least_1d(b, x, index)
    picked = b.cast(picked, torch.int64)
    result = b.op("GatherElements", data, picked, axis=dim % data.rank, rank=data.rank)
    return b.reshape(result, []) if index.rank == 0 else result


def _scatter(
    b: Builder, x: Value, dim: int, index: Value, updates: Value, reduction: str | None
) -> Value:
    if 0 in (index.shape or ()):
        return b.op("Identity", x, shape=x.shape)
    data, places, updates = _at_least_1d(b, x, index, updates)
    places = b.cast(places, torch.int64)
    if updates.shape != places.shape:
        # Only the part of the source that the index covers is read.
        axes = list(range(places.rank))
        ends = b.op("Shape", places, dtype=torch.int64, rank=1)
        updates = b.op("Slice", updates, b.ints([0] * len(axes)), ends, b.ints(axes))
    # Sums and products of bools are counted; any but 0 is true.
    counted = torch.int32 if x.dtype == torch.bool and reduction is not None else x.dtype
    result = b.op(
        "ScatterElements",
        b.cast(data, counted),
        places,
        b.cast(updates, counted),
        axis=dim % data.rank,
        reduction=reduction,
    )
    result = b.cast(result, x.dtype)
    return b.reshape(result, []) if x.rank == 0 else result


@lowering("aten.scatter.src")
def scatter(b: Builder, x: Value, dim: int, index: Value, src: Value) -> Value:
    return _scatter(b, x, dim, index, src, None)


_REDUCTIONS = {"add": "add", "multiply": "mul"}


@lowering("aten.scatter.reduce")
def scatter_with(b: Builder, x: Value, dim: int, index: Value, src: Value, *, reduce: str) -> Value:
    return _scatter(b, x, dim, index, src, _REDUCTIONS[reduce])


@lowering("aten.scatter.value_reduce")
def scatter_value_with(
    b: Builder, x: Value, dim: int, index: Value, value: Number, *, reduce: str
) -> Value:
    size = b.op("Shape", index, dtype=torch.int64, rank=1)
    updates = b.op("Expand", b.scalar(value, x.dtype), size, rank=index.rank, shape=index.shape)
    return _scatter(b, x, dim, index, updates, _REDUCTIONS[reduce])


@lowering("aten.scatter.value")
def scatter_value(b: Builder, x: Value, dim: int, index: Value, value: Number) -> Value:
    size = b.op("Shape", index, dtype=torch.int64, rank=1)
    updates = b.op("Expand", b.scalar(value, x.dtype), size, rank=index.rank, shape=index.shape)
    return _scatter(b, x, dim, index, updates, None)


@lowering("aten.scatter_add.default")
def scatter_add(b: Builder, x: Value, dim: int, index: Value, src: Value) -> Value:
    return _scatter(b, x, dim, index, src, "add")


@lowering("aten.scatter_reduce.two")
def scatter_reduce(
    b: Builder,
    x: Value,
    dim: int,
    index: Value,
    src: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    kinds = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
    if reduce not in kinds:
        raise Unsupported(f"scatter_reduce with reduce='{reduce}'")
    if x.dtype == torch.bool:
        x, src = b.cast(x, torch.int32), b.cast(src, torch.int32)
        made = scatter_reduce(b, x, dim, index, src, reduce, include_self=include_self)
        return b.cast(made, torch.bool)
    if not include_self:
        # What is written to starts from the neutral element.
        limit = torch.finfo(x.dtype) if x.dtype.is_floating_point else torch.iinfo(x.dtype)
        infinite = float("inf") if x.dtype.is_floating_point else None
        neutral: Number = {
            "sum": 0,
            "prod": 1,
            "amax": limit.min if infinite is None else -infinite,
            "amin": limit.max if infinite is None else infinite,
        }[reduce]
        x = scatter_value(b, x, dim, index, neutral)
    return _scatter(b, x, dim, index, src, kinds[reduce])


@lowering("aten.select_scatter.default")
def select_scatter(b: Builder, x: Value, src: Value, dim: int, index: Int) -> Value:
    size = b.dim_size(x, dim)
    dim %= x.rank
    position = index if not isinstance(index, int) else b.scalar(index, torch.int64)
    extent = b.scalar(size, torch.int64) if isinstance(size, int) else size
    place = b.op("Mod", position, extent, rank=0)
    along = b.op("Range", b.scalar(0, torch.int64), extent, b.scalar(1, torch.int64), rank=1)
    here = b.op("Equal", along, place, dtype=torch.bool, rank=1)
    mask = b.reshape(here, [-1] + [1] * (x.rank - 1 - dim))
    wide = b.unsqueeze(b.cast(src, x.dtype), dim)
    return b.op("Where", mask, wide, x, dtype=x.dtype, shape=x.shape, rank=x.rank)


@lowering("aten.slice_scatter.default")
def slice_scatter(
    b: Builder,
    x: Value,
    src: Value,
    dim: int = 0,
    start: Int | None = None,
    end: Int | None = None,
    step: int = 1,
) -> Value:
    dim %= x.rank
    size = b.dim_size(x, dim)
    extent = b.scalar(size, torch.int64) if isinstance(size, int) else size
    along = b.op("Range", b.scalar(0, torch.int64), extent, b.scalar(1, torch.int64), rank=1)
    places = b.slice(
        along, 0, 0 if start is None else start, 2**63 - 1 if end is None else end, step
    )
    index = b.unsqueeze(places, 1)
    order = _to_front(x, [dim])
    moved = b.transpose(x, order)
    updates = b.transpose(b.cast(src, x.dtype), order)
    written = b.op("ScatterND", moved, index, updates, rank=x.rank)
    return b.transpose(written, [order.index(d) for d in range(x.rank)])


@lowering("aten.masked_scatter.default")
def masked_scatter(b: Builder, x: Value, mask: Value, source: Value) -> Value:
    # The n-th true place reads the n-th element of the source. What lies before the first one reads
    # a zero in front of the source, which may be empty.
    if mask.rank > x.rank or mask.shape != x.shape:
        both = b.op(
            "Or",
            as_bool(b, mask),
            b.op("Equal", x, x, dtype=torch.bool),
            rank=max(mask.rank, x.rank),
        )
        whole = b.op("Shape", both, dtype=torch.int64, rank=1)
        x = b.op("Expand", x, whole, rank=both.rank)
    size = b.op("Shape", x, dtype=torch.int64, rank=1)
    wide = b.op("Expand", as_bool(b, mask), size, rank=x.rank)
    flat = b.cast(b.reshape(wide, [-1]), torch.int64)
    order = b.op("CumSum", flat, b.scalar(0, torch.int64))
    zero = b.reshape(b.scalar(0, source.dtype), [1])
    elements = b.op("Concat", zero, b.reshape(source, [-1]), axis=0, rank=1)
    picked = b.op("Gather", elements, order, axis=0, rank=1)
    values = b.op("Reshape", picked, size, rank=x.rank)
    return b.op("Where", wide, values, x, dtype=x.dtype, rank=x.rank)


@lowering("aten.nonzero.default")
def nonzero(b: Builder, x: Value) -> Value:
    found = b.op("NonZero", as_bool(b, x), dtype=torch.int64, rank=2)
    return b.transpose(found, [1, 0])


@rewriting("aten.take.default")
def take(x: Tensor, index: Tensor) -> Tensor:
    return torch.gather(x.reshape(-1), 0, index.reshape(-1)).reshape(index.shape)


@rewriting("aten._index_put_impl.default")
def index_put_of_either_kind(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False,
    unsafe: bool = False,
) -> Tensor:  # fmt: skip
    return torch.ops.aten.index_put(x, indices, values, accumulate)
