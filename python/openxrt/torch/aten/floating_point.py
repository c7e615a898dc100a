# SPDX-License-Identifier: Apache-2.0
"""Signs, NaN and neighbours of floating-point numbers."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..builder import Builder, Operand, Value
from ..registry import lowering, rewriting
from .bits import INTEGERS
from .pointwise import isinf


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
def copysign(b: Builder, x: Operand, y: Operand) -> Value:
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
    size = b.op("Mul", large, root, rank=rank)
    # Infinity by infinity is no number, and beside infinity NaN does not count.
    endless = b.op("Or", isinf(b, left), isinf(b, right), rank=rank)
    infinity = b.scalar(math.inf, size.dtype)
    return b.op("Where", endless, infinity, size, dtype=size.dtype, rank=rank)


@lowering("aten.atan2.default")
def atan2(b: Builder, y: Operand, x: Operand) -> Value:
    down, right = (b.to_float(v) for v in b.promote(y, x))
    dtype, rank = down.dtype, max(down.rank, right.rank)
    zero, one, pi = (b.scalar(number, dtype) for number in (0.0, 1.0, math.pi))

    def where(condition: Value, yes: Value, no: Value) -> Value:
        return b.op("Where", condition, yes, no, dtype=dtype, rank=rank)

    # Of two infinities only the signs count.
    endless = b.op("And", isinf(b, down), isinf(b, right), rank=rank)
    above = where(endless, b.op("Sign", down), down)
    below = where(endless, b.op("Sign", right), right)
    angle = b.op("Atan", b.op("Div", above, below, rank=rank))
    # Zeros have signs too, which are those of the side that they lie on.
    turn = b.op("Mul", copysign(b, one, down), pi)
    left_side = signbit(b, right)
    turned = where(left_side, b.op("Add", angle, turn, rank=rank), angle)
    # On the vertical axis the quotient is infinite, or 0/0 at the origin.
    vertical = b.op("Equal", right, zero, dtype=torch.bool)
    quarter = b.op("Mul", b.op("Sign", down), b.scalar(math.pi / 2, dtype))
    origin = where(left_side, turn, down)
    on_axis = where(b.op("Equal", down, zero, dtype=torch.bool), origin, quarter)
    return where(vertical, on_axis, turned)


@lowering("aten.angle.default")
def angle(b: Builder, x: Value) -> Value:
    real = b.to_float(x)
    turn = b.op("Less", real, b.scalar(0, real.dtype), dtype=torch.bool)
    values = b.op("Where", turn, b.scalar(torch.pi, real.dtype), b.scalar(0.0, real.dtype),
                  dtype=real.dtype, shape=x.shape)  # fmt: skip
    nan = b.op("IsNaN", real, dtype=torch.bool)
    return b.op("Where", nan, real, values, dtype=real.dtype, shape=x.shape)


@rewriting("aten.nextafter.default")
def nextafter(x: Tensor, y: Tensor) -> Tensor:
    x, y = torch.broadcast_tensors(x, y)
    kind = INTEGERS[x.dtype]
    away = (x < y) == (x > 0)
    bits = x.contiguous().view(kind)
    stepped = (bits + torch.where(away, 1, -1).to(kind)).view(x.dtype)
    smallest = torch.ones_like(bits).view(x.dtype)
    stepped = torch.where(x == 0, torch.where(y > 0, smallest, -smallest), stepped)
    stepped = torch.where(x == y, y, stepped)
    return torch.where(torch.isnan(x) | torch.isnan(y), math.nan, stepped)
