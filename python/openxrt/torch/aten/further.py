# SPDX-License-Identifier: Apache-2.0
"""Ops outside Core ATen that PyTorch does not take apart."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..builder import Builder, Int, Number, Operand, Value
from ..registry import lowering
from .creation import filled
from .pointwise import add, mul
from .random import draw
from .reductions import topk

# --- each element by itself -----------------------------------------------------------------------


def _extremum(aten: str, op: str) -> None:
    """A number wins over a NaN."""

    def lower(b: Builder, x: Operand, y: Operand) -> Value:
        left, right = b.promote(x, y)
        rank = max(left.rank, right.rank)
        if left.dtype == torch.bool:
            return b.op("Or" if op == "Max" else "And", left, right, rank=rank)
        both = b.op(op, left, right, rank=rank)
        if not left.dtype.is_floating_point:
            return both
        nan_left, nan_right = (b.op("IsNaN", v, dtype=torch.bool) for v in (left, right))
        some = b.op("Where", nan_right, left, both, dtype=left.dtype, rank=rank)
        return b.op("Where", nan_left, right, some, dtype=left.dtype, rank=rank)

    lowering(f"aten.{aten}.default", f"prims.{aten}.default")(lower)


_extremum("fmax", "Max")
_extremum("fmin", "Min")


@lowering("aten.signbit.default", "prims.signbit.default")
def signbit(b: Builder, x: Value) -> Value:
    if x.dtype == torch.bool:
        return b.op("Xor", x, x, shape=x.shape)
    zero = b.scalar(0, x.dtype)
    negative = b.op("Less", x, zero, dtype=torch.bool, shape=x.shape)
    if not x.dtype.is_floating_point:
        return negative
    # −0 is seen by its reciprocal.
    inverse = b.op("Less", b.op("Reciprocal", x), zero, dtype=torch.bool, shape=x.shape)
    return b.op("Or", negative, inverse, shape=x.shape)


@lowering("aten.copysign.Tensor", "aten.copysign.Scalar")
def copysign(b: Builder, x: Value, y: Operand) -> Value:
    left, right = (b.to_float(v) for v in b.promote(x, y))
    size = b.op("Abs", left)
    rank = max(left.rank, right.rank)
    minus = b.op("Neg", size)
    return b.op("Where", signbit(b, right), minus, size, dtype=left.dtype, rank=rank)


@lowering("aten.hypot.default", "prims.hypot.default")
def hypot(b: Builder, x: Value, y: Value) -> Value:
    # Scaled by the larger one, so that squares neither overflow nor vanish.
    left, right = (b.op("Abs", v) for v in b.promote(x, y))
    rank = max(left.rank, right.rank)
    large, small = b.op("Max", left, right, rank=rank), b.op("Min", left, right, rank=rank)
    one = b.scalar(1, large.dtype)
    is_zero = b.op("Equal", large, b.scalar(0, large.dtype), dtype=torch.bool)
    divisor = b.op("Where", is_zero, one, large, dtype=large.dtype, rank=rank)
    part = b.op("Div", small, divisor, rank=rank)
    root = b.op("Sqrt", b.op("Add", one, b.op("Mul", part, part, rank=rank), rank=rank))
    return b.op("Mul", large, root, rank=rank)


@lowering("aten.angle.default")
def angle(b: Builder, x: Value) -> Value:
    real = b.to_float(x)
    turn = b.op("Less", real, b.scalar(0, real.dtype), dtype=torch.bool)
    values = b.op("Where", turn, b.scalar(torch.pi, real.dtype), b.scalar(0.0, real.dtype),
                  dtype=real.dtype, shape=x.shape)  # fmt: skip
    nan = b.op("IsNaN", real, dtype=torch.bool)
    return b.op("Where", nan, real, values, dtype=real.dtype, shape=x.shape)


# --- sums of products -----------------------------------------------------------------------------


@lowering("aten.addbmm.default")
def addbmm(
    b: Builder, x: Value, first: Value, second: Value, *, beta: Number = 1, alpha: Number = 1
) -> Value:
    if x.dtype in (torch.float16, torch.bfloat16):  # a sum of sums is not rounded in between
        wide = [b.cast(v, torch.float32) for v in (x, first, second)]
        return b.cast(addbmm(b, *wide, beta=beta, alpha=alpha), x.dtype)
    total = b.reduce("ReduceSum", b.op("MatMul", first, second, rank=3), [0], False)
    # Factors are of the dtype of what they scale: of integers, their whole parts.
    total = total if alpha == 1 else mul(b, total, b.scalar(alpha, total.dtype))
    if beta == 0:
        return total
    return add(b, x if beta == 1 else mul(b, x, b.scalar(beta, x.dtype)), total)


# --- order ----------------------------------------------------------------------------------------


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


# --- places in a sorted list ----------------------------------------------------------------------


def _place(b: Builder, sorted_values: Value, x: Operand, int32: bool, right: bool) -> Value:
    """How many elements of the last axis are smaller than x (or, `right`, not larger)."""
    left, wanted = b.promote(sorted_values, x)
    row = b.unsqueeze(left, left.rank - 1)
    column = b.unsqueeze(wanted, wanted.rank)
    smaller = b.op("LessOrEqual" if right else "Less", row, column, dtype=torch.bool,
                   rank=max(row.rank, column.rank))  # fmt: skip
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


# --- random numbers -------------------------------------------------------------------------------


def _integers(b: Builder, like: Value, low: int, high: int, dtype: torch.dtype) -> Value:
    drawn = b.cast(draw(b, "RandomUniformLike", like, torch.float32), torch.float64)
    span = b.op("Mul", drawn, b.scalar(float(high - low), torch.float64))
    return b.cast(
        b.op("Add", b.op("Floor", span), b.scalar(float(low), torch.float64), shape=like.shape),
        dtype,
    )


@lowering("aten.randint.default")
def randint(
    b: Builder, high: int, size: Sequence[Int], *, dtype: torch.dtype | None = None, **_: object
) -> Value:
    like = filled(b, size, 0, torch.float32)
    return _integers(b, like, 0, high, dtype or torch.int64)


@lowering("aten.randint.low")
def randint_low(
    b: Builder,
    low: int,
    high: int,
    size: Sequence[Int],
    *,
    dtype: torch.dtype | None = None,
    **_: object,
) -> Value:
    like = filled(b, size, 0, torch.float32)
    return _integers(b, like, low, high, dtype or torch.int64)


@lowering("aten.randint_like.default")
def randint_like(
    b: Builder, x: Value, high: int, *, dtype: torch.dtype | None = None, **_: object
) -> Value:
    return _integers(b, x, 0, high, dtype or x.dtype)


@lowering("aten.randint_like.low_dtype")
def randint_like_low(
    b: Builder, x: Value, low: int, high: int, *, dtype: torch.dtype | None = None, **_: object
) -> Value:
    return _integers(b, x, low, high, dtype or x.dtype)


@lowering("aten.uniform.default")
def uniform(b: Builder, x: Value, begin: float = 0.0, end: float = 1.0, **_: object) -> Value:
    return add(b, mul(b, draw(b, "RandomUniformLike", x, x.dtype), end - begin), begin)


@lowering("aten.normal_functional.default")
def normal(b: Builder, x: Value, mean: float = 0.0, std: float = 1.0, **_: object) -> Value:
    return add(b, mul(b, draw(b, "RandomNormalLike", x, x.dtype), std), mean)


@lowering("aten.normal.Tensor_Tensor", "aten.normal.Tensor_float", "aten.normal.float_Tensor")
def normal_of(b: Builder, mean: Operand, std: Operand = 1.0, **_: object) -> Value:
    total = add(b, mean, std)  # has the shape of the result
    return add(b, mul(b, draw(b, "RandomNormalLike", total, total.dtype), std), mean)


@lowering("aten.exponential.default")
def exponential(b: Builder, x: Value, lambd: float = 1.0, **_: object) -> Value:
    drawn = draw(b, "RandomUniformLike", x, x.dtype)
    rest = b.op("Sub", b.scalar(1.0, x.dtype), drawn, shape=x.shape)
    return b.op("Div", b.op("Log", rest), b.scalar(-lambd, x.dtype), shape=x.shape)
