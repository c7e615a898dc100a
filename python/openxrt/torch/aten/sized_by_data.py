# SPDX-License-Identifier: Apache-2.0
"""Ops whose result's size depends on data; torch.export gives such a size a symbol."""

from __future__ import annotations

import torch
from torch import Tensor

from ..builder import Builder, Int, Value
from ..registry import lowering, rewriting
from .pointwise import as_bool


@lowering("aten.nonzero_static.default")
def nonzero_static(b: Builder, x: Value, *, size: Int, fill_value: int = -1) -> Value:
    found = b.op("NonZero", as_bool(b, x), dtype=torch.int64, rank=2)
    filling = b.op("Expand", b.scalar(fill_value, torch.int64), b.vector([x.rank, size]), rank=2)
    whole = b.op("Concat", found, filling, axis=1, rank=2)
    return b.transpose(b.slice(whole, 1, 0, size), [1, 0])


@lowering("aten.masked_select.default")
def masked_select(b: Builder, x: Value, mask: Value) -> Value:
    condition = as_bool(b, mask)
    if mask.shape != x.shape or not isinstance(mask.shape, tuple):
        rank = max(x.rank, mask.rank)
        true = b.op("Equal", x, x, dtype=torch.bool)
        every = b.op("Or", true, b.op("Not", true), rank=x.rank)
        condition = b.op("And", condition, every, rank=rank)
        size = b.op("Shape", condition, dtype=torch.int64, rank=1)
        x = b.op("Expand", x, size, rank=rank)
    flat, chosen = b.reshape(x, [-1]), b.reshape(condition, [-1])
    return b.op("Compress", flat, chosen, axis=0, rank=1)


@lowering("aten.bincount.default")
def bincount(b: Builder, x: Value, weights: Value | None = None, minlength: Int = 0) -> Value:
    places = b.cast(x, torch.int64)
    # Nothing at all has no largest number; one more element does no harm.
    some = b.op("Concat", places, b.ints([-1]), axis=0, rank=1)
    most = b.op("Add", b.reduce("ReduceMax", some, None, False), b.scalar(1, torch.int64), rank=0)
    length = b.op("Max", most, b.operand(minlength, torch.int64), rank=0)
    dtype = torch.int64 if weights is None else torch.float64
    if weights is not None and weights.dtype == torch.float32:
        dtype = torch.float32
    none = b.op("Expand", b.scalar(0, dtype), b.vector([length]), rank=1)
    if weights is None:
        size = b.op("Shape", places, dtype=torch.int64, rank=1)
        ones = b.op("Expand", b.scalar(1, dtype), size, rank=1)
    else:
        ones = b.cast(weights, dtype)
    return b.op("ScatterElements", none, places, ones, axis=0, reduction="add")


def _unique(
    b: Builder, x: Value, dim: int | None, inverse_like: Value | None
) -> list[Value | None]:
    """Sorted unique elements or slices, the inverse and the counts."""
    rank = 1 if dim is None else x.rank
    values, _, inverse, counts = b.ops(
        "Unique",
        x,
        dtypes=[x.dtype, torch.int64, torch.int64, torch.int64],
        rank=1,
        axis=dim,
        sorted=1,
    )
    unique = Value(values.id, values.dtype, None, rank)
    if inverse_like is not None:
        inverse = b.reshape_like(inverse, inverse_like)
    return [unique, inverse, counts]


@lowering("aten._unique2.default")
def unique(b: Builder, x: Value, *_: object) -> list[Value | None]:
    return _unique(b, x, None, x)


@lowering("aten.unique_dim.default")
def unique_dim(b: Builder, x: Value, dim: int, *_: object) -> list[Value | None]:
    return _unique(b, x, dim % x.rank, None)


@lowering("aten.unique_consecutive.default")
def unique_consecutive(
    b: Builder,
    x: Value,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> list[Value | None]:
    along = 0 if dim is None or x.rank == 0 else dim % x.rank
    whole = b.reshape(x, [-1]) if dim is None or x.rank == 0 else x
    order = [along, *[d for d in range(whole.rank) if d != along]]
    rows = b.op("Flatten", b.transpose(whole, order), axis=1, rank=2)
    new, old = b.slice(rows, 0, 1, 2**63 - 1), b.slice(rows, 0, 0, -1)
    same = b.cast(b.op("Equal", new, old, dtype=torch.bool, rank=2), torch.int32)
    differs = b.op(
        "Equal",
        b.reduce("ReduceMin", same, [1], False),
        b.scalar(0, torch.int32),
        dtype=torch.bool,
        rank=1,
    )
    # The first begins a group, if there is one.
    count = b.op("Shape", whole, dtype=torch.int64, rank=1, start=along, end=along + 1)
    one = b.op("Min", count, b.ints([1]), rank=1)
    first = b.op("Expand", b.scalar(True, torch.bool), one, rank=1)
    begins = b.op("Concat", first, differs, axis=0, rank=1)
    values = b.op("Compress", whole, begins, axis=along, rank=whole.rank)
    group = b.op("CumSum", b.cast(begins, torch.int64), b.scalar(0, torch.int64), rank=1)
    inverse = b.op("Sub", group, b.scalar(1, torch.int64), rank=1)
    counts = bincount(b, inverse) if return_counts else None
    return [values, b.reshape_like(inverse, x) if dim is None else inverse, counts]


@lowering("aten.repeat_interleave.Tensor")
def repeat_interleave(b: Builder, repeats: Value, *, output_size: Int | None = None) -> Value:
    """Each place as often as `repeats` says."""
    wide = b.cast(repeats, torch.int64)
    ends = b.op("CumSum", wide, b.scalar(0, torch.int64), rank=1)
    total = b.reduce("ReduceSum", wide, None, False)
    along = b.op("Range", b.scalar(0, torch.int64), total, b.scalar(1, torch.int64), rank=1)
    passed = b.op("GreaterOrEqual", b.unsqueeze(along, 1), ends, dtype=torch.bool, rank=2)
    return b.cast(b.reduce("ReduceSum", b.cast(passed, torch.int64), [1], False), repeats.dtype)


@rewriting("aten._unique.default")
def unique_values(
    x: Tensor, sorted: bool = True, return_inverse: bool = False
) -> tuple[Tensor, Tensor]:
    return torch.ops.aten._unique2(x, sorted, return_inverse)[:2]
