# SPDX-License-Identifier: Apache-2.0
"""Places in an order: the k-th value, places in sorted lists."""

from __future__ import annotations

import torch

from ..builder import Builder, Int, Operand, Value
from ..registry import lowering
from .reductions import topk


def _nth(b: Builder, x: Value, n: Int, dim: int, keepdim: bool) -> list[Value]:
    """The element that n others (the first is 0) come before, and its place."""
    ordered, places = topk(b, x, b.dim_size(x, dim), dim, largest=False)
    at = b.scalar(n, torch.int64) if isinstance(n, int) else n
    picked = [b.op("Gather", v, at, axis=dim % x.rank, rank=x.rank - 1) for v in (ordered, places)]
    return [b.unsqueeze(v, dim % x.rank) for v in picked] if keepdim else picked


@lowering("aten.kthvalue.default")
def kthvalue(b: Builder, x: Value, k: int, dim: int = -1, keepdim: bool = False) -> list[Value]:
    if x.rank == 0:
        return [x, b.scalar(0, torch.int64)]
    return _nth(b, x, k - 1, dim, keepdim)


def _place(b: Builder, sorted_values: Value, x: Operand, int32: bool, right: bool) -> Value:
    """How many elements of the last axis are smaller than x (or, `right`, not larger)."""
    left, wanted = b.promote(sorted_values, x)
    row = b.unsqueeze(left, left.rank - 1)
    column = b.unsqueeze(wanted, wanted.rank)
    # NaN comes after every number: it is not smaller, and no number is not smaller than it.
    larger = b.op("Greater" if right else "GreaterOrEqual", row, column, dtype=torch.bool,
                  rank=max(row.rank, column.rank))  # fmt: skip
    smaller = b.op("Not", larger)
    count = b.reduce("ReduceSum", b.cast(smaller, torch.int64), [-1], False)
    return b.cast(count, torch.int32 if int32 else torch.int64)


@lowering("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def searchsorted(
    b: Builder,
    sorted_sequence: Value,
    x: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    if sorter is not None:
        sorted_sequence = b.op("GatherElements", sorted_sequence, sorter, axis=-1)
    right = right or side == "right"
    if not isinstance(x, Value):
        x = b.scalar(x, torch.get_default_dtype() if isinstance(x, float) else torch.int64)
    if x.rank and sorted_sequence.rank == 1:
        flat = b.reshape(x, [-1])
        return b.reshape_like(_place(b, sorted_sequence, flat, out_int32, right), x)
    if x.rank == 0:
        one = _place(b, sorted_sequence, b.reshape(x, [1]), out_int32, right)
        return b.reshape(one, [])
    return _place(b, sorted_sequence, x, out_int32, right)


@lowering("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def bucketize(
    b: Builder, x: Operand, boundaries: Value, *, out_int32: bool = False, right: bool = False
) -> Value:
    return searchsorted(b, boundaries, x, out_int32=out_int32, right=right)
