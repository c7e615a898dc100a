# SPDX-License-Identifier: Apache-2.0
"""Sizes that are known only when the program runs, as int64 scalars."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

import torch

from ..builder import Builder, Operand, Value
from ..registry import complex_lowering, lowering
from .pointwise import floor_divide, remainder


@lowering("aten.sym_size.int")
def sym_size(b: Builder, x: Value, dim: int) -> Value | int:
    return b.dim_size(x, dim)


@lowering("aten.sym_numel.default")
def sym_numel(b: Builder, x: Value) -> Value:
    return b.op("Size", x, dtype=torch.int64, rank=0)


def _arithmetic(name: str, op: str, function: Callable[..., int]) -> None:
    def lower(b: Builder, x: Operand, y: Operand) -> Operand:
        if not isinstance(x, Value) and not isinstance(y, Value):
            return function(x, y)
        left, right = b.promote(x, y)
        return b.op(op, left, right, rank=0)

    lowering(name)(lower)


_arithmetic("_operator.add", "Add", operator.add)
_arithmetic("_operator.sub", "Sub", operator.sub)
_arithmetic("_operator.mul", "Mul", operator.mul)
_arithmetic("torch.sym_max", "Max", max)
_arithmetic("torch.sym_min", "Min", min)


@lowering("_operator.floordiv")
def floordiv(b: Builder, x: Operand, y: Operand) -> Operand:
    if not isinstance(x, Value) and not isinstance(y, Value):
        return x // y
    return floor_divide(b, x, y)


@lowering("_operator.mod")
def mod(b: Builder, x: Operand, y: Operand) -> Operand:
    if not isinstance(x, Value) and not isinstance(y, Value):
        return x % y
    return remainder(b, x, y)


@lowering("_operator.truediv")
def truediv(b: Builder, x: Operand, y: Operand) -> Operand:
    if not isinstance(x, Value) and not isinstance(y, Value):
        return x / y
    return b.op(
        "Div", b.operand(x, torch.float64), b.operand(y, torch.float64), dtype=torch.float64, rank=0
    )


@lowering("_operator.pow")
def power(b: Builder, x: Operand, y: Operand) -> Operand:
    if not isinstance(x, Value) and not isinstance(y, Value):
        return x**y
    left, right = b.promote(x, y)
    return b.op("Pow", left, right, rank=0)


@lowering("_operator.neg")
def neg(b: Builder, x: Operand) -> Operand:
    return b.op("Neg", x, rank=0) if isinstance(x, Value) else -x


@lowering("torch.sym_float")
def sym_float(b: Builder, x: Operand) -> Operand:
    return b.cast(x, torch.float64) if isinstance(x, Value) else float(x)


@lowering("torch.sym_sqrt", "torch._sym_sqrt")  # its name, and what it calls itself
def sym_sqrt(b: Builder, x: Operand) -> Operand:
    if not isinstance(x, Value):
        return math.sqrt(x)
    return b.op("Sqrt", b.cast(x, torch.float64), rank=0)


@lowering("torch.sym_int", "math.trunc")
def sym_int(b: Builder, x: Operand) -> Operand:
    return b.cast(x, torch.int64) if isinstance(x, Value) else int(x)


@lowering("math.ceil")
def ceil(b: Builder, x: Operand) -> Operand:
    if not isinstance(x, Value):
        return math.ceil(x)
    return b.cast(b.op("Ceil", x, rank=0), torch.int64)


@lowering("math.floor")
def floor(b: Builder, x: Operand) -> Operand:
    if not isinstance(x, Value):
        return math.floor(x)
    return b.cast(b.op("Floor", x, rank=0), torch.int64)


def _comparison(name: str, op: str, negate: bool = False) -> None:
    function = getattr(operator, name)

    def lower(b: Builder, x: Operand, y: Operand) -> Operand:
        if not isinstance(x, Value) and not isinstance(y, Value):
            return function(x, y)
        left, right = b.promote(x, y)
        result = b.op(op, left, right, dtype=torch.bool, rank=0)
        return b.op("Not", result, rank=0) if negate else result

    lowering(f"_operator.{name}")(lower)


_comparison("eq", "Equal")
_comparison("ne", "Equal", negate=True)
_comparison("lt", "Less")
_comparison("le", "LessOrEqual")
_comparison("gt", "Greater")
_comparison("ge", "GreaterOrEqual")


@lowering("torch.sym_not")
def sym_not(b: Builder, x: Operand) -> object:
    return b.op("Not", x, dtype=torch.bool, rank=0) if isinstance(x, Value) else not x


@lowering("torch.sym_sum")
def sym_sum(b: Builder, numbers: Sequence[Operand]) -> Operand:
    total: Operand = 0
    for number in numbers:
        if isinstance(total, Value) or isinstance(number, Value):
            total = b.op("Add", *b.promote(total, number), rank=0)
        else:
            total += number
    return total


@lowering("torch.sym_ite")
def choose(b: Builder, condition: Operand, x: Operand, y: Operand) -> Operand:
    if not isinstance(condition, Value):
        return x if condition else y
    left, right = b.promote(x, y)
    return b.op("Where", condition, left, right, dtype=left.dtype, rank=0)


@complex_lowering("aten._assert_tensor_metadata.default")
@lowering(
    "aten._assert_scalar.default",
    "aten._assert_async.default",
    "aten._assert_async.msg",
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
)
def assertion(b: Builder, *_: object, **__: object) -> None:
    """What tracing assumed about sizes: a program checks its inputs against its symbols instead."""
