# SPDX-License-Identifier: Apache-2.0
"""Ops that compute each element by itself."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ..builder import Builder, Number, Operand, Value
from ..registry import lowering

# --- one operand ----------------------------------------------------------------------------------


def _unary(aten: str, op: str, *, floats: bool = True) -> None:
    """An ONNX op of the same meaning; with `floats`, integers become floating first."""

    def lower(b: Builder, x: Value) -> Value:
        x = b.to_float(x) if floats else x
        return b.op(op, x, shape=x.shape)

    lowering(f"aten.{aten}.default")(lower)


for _aten, _op in {
    "acos": "Acos",
    "acosh": "Acosh",
    "asin": "Asin",
    "asinh": "Asinh",
    "atan": "Atan",
    "atanh": "Atanh",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "exp": "Exp",
    "log": "Log",
    "sigmoid": "Sigmoid",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
    "reciprocal": "Reciprocal",
    "mish": "Mish",
}.items():
    _unary(_aten, _op)
for _aten, _op in {"neg": "Neg", "relu": "Relu", "abs": "Abs"}.items():
    _unary(_aten, _op, floats=False)


@lowering("aten.sign.default")
def sign(b: Builder, x: Value) -> Value:
    if x.dtype == torch.bool:
        return x
    result = b.op("Sign", x, shape=x.shape)
    if not x.dtype.is_floating_point:
        return result
    # PyTorch's sign of NaN is 0, ONNX's is NaN.
    nan = b.op("IsNaN", x, dtype=torch.bool, shape=x.shape)
    return b.op("Where", nan, b.scalar(0, x.dtype), result, dtype=x.dtype, shape=x.shape)


def _rounding(aten: str, op: str) -> None:
    def lower(b: Builder, x: Value) -> Value:
        return b.op(op, x, shape=x.shape) if x.dtype.is_floating_point else x

    lowering(f"aten.{aten}.default")(lower)


for _aten, _op in {"ceil": "Ceil", "floor": "Floor", "round": "Round"}.items():
    _rounding(_aten, _op)


@lowering("aten.round.decimals")
def round_decimals(b: Builder, x: Value, *, decimals: int = 0) -> Value:
    if not x.dtype.is_floating_point:
        return x
    factor = b.scalar(10.0 ** abs(decimals), x.dtype)
    forth, back = ("Mul", "Div") if decimals >= 0 else ("Div", "Mul")
    return b.op(back, b.op("Round", b.op(forth, x, factor)), factor, shape=x.shape)


@lowering("aten.trunc.default", "aten.fix.default")
def trunc(b: Builder, x: Value) -> Value:
    if not x.dtype.is_floating_point:
        return x
    return b.op("Mul", b.op("Sign", x), b.op("Floor", b.op("Abs", x)), shape=x.shape)


@lowering("aten.rsqrt.default")
def rsqrt(b: Builder, x: Value) -> Value:
    x = b.to_float(x)
    return b.op("Reciprocal", b.op("Sqrt", x), shape=x.shape)


@lowering("aten.expm1.default")
def expm1(b: Builder, x: Value) -> Value:
    # 2 sinh(x/2) exp(x/2) loses no digits near zero, where exp(x) − 1 does; far from zero it would
    # be a product of infinity and zero.
    x = b.to_float(x)
    half = b.op("Mul", x, b.scalar(0.5, x.dtype))
    product = b.op("Mul", b.op("Sinh", half), b.op("Exp", half))
    near = b.op("Add", product, product)
    far = b.op("Sub", b.op("Exp", x), b.scalar(1.0, x.dtype))
    is_near = b.op("Less", b.op("Abs", x), b.scalar(1.0, x.dtype), dtype=torch.bool)
    return b.op("Where", is_near, near, far, dtype=x.dtype, shape=x.shape)


@lowering("aten.log1p.default")
def log1p(b: Builder, x: Value) -> Value:
    # 2 atanh(x / (2 + x)) keeps the digits near zero.
    x = b.to_float(x)
    small = b.op("Div", x, b.op("Add", x, b.scalar(2.0, x.dtype)))
    near = b.op("Mul", b.op("Atanh", small), b.scalar(2.0, x.dtype))
    far = b.op("Log", b.op("Add", x, b.scalar(1.0, x.dtype)))
    is_near = b.op("Less", b.op("Abs", x), b.scalar(0.5, x.dtype), dtype=torch.bool)
    return b.op("Where", is_near, near, far, dtype=x.dtype, shape=x.shape)


def _log_base(aten: str, base: float) -> None:
    def lower(b: Builder, x: Value) -> Value:
        x = b.to_float(x)
        return b.op("Mul", b.op("Log", x), b.scalar(1.0 / math.log(base), x.dtype), shape=x.shape)

    lowering(f"aten.{aten}.default")(lower)


_log_base("log2", 2.0)
_log_base("log10", 10.0)


@lowering("aten.exp2.default")
def exp2(b: Builder, x: Value) -> Value:
    x = b.to_float(x)
    return b.op("Pow", b.scalar(2.0, x.dtype), x, shape=x.shape)


@lowering("aten.erfc.default")
def erfc(b: Builder, x: Value) -> Value:
    x = b.to_float(x)
    return b.op("Sub", b.scalar(1.0, x.dtype), b.op("Erf", x), shape=x.shape)


@lowering("aten.square.default")
def square(b: Builder, x: Value) -> Value:
    return b.op("Mul", x, x, shape=x.shape)


@lowering("aten.isnan.default")
def isnan(b: Builder, x: Value) -> Value:
    if not x.dtype.is_floating_point:
        return _constant_like(b, x, False)
    return b.op("IsNaN", x, dtype=torch.bool, shape=x.shape)


@lowering("aten.isinf.default")
def isinf(b: Builder, x: Value) -> Value:
    if not x.dtype.is_floating_point:
        return _constant_like(b, x, False)
    return b.op("IsInf", wide(b, x), dtype=torch.bool, shape=x.shape)


@lowering("aten.isfinite.default")
def isfinite(b: Builder, x: Value) -> Value:
    if not x.dtype.is_floating_point:
        return _constant_like(b, x, True)
    either = b.op("Or", isinf(b, x), isnan(b, x), dtype=torch.bool)
    return b.op("Not", either, shape=x.shape)


def wide(b: Builder, x: Value) -> Value:
    """float16 and bfloat16 as float32, for ops that ONNX defines for wider types only."""
    return b.cast(x, torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x


def _constant_like(b: Builder, x: Value, number: Number) -> Value:
    dtype = torch.bool if isinstance(number, bool) else x.dtype
    size = b.op("Shape", x, dtype=torch.int64, rank=1)
    return b.op("Expand", b.scalar(number, dtype), size, shape=x.shape, rank=x.rank)


# --- activations ----------------------------------------------------------------------------------


@lowering("aten.gelu.default")
def gelu(b: Builder, x: Value, *, approximate: str = "none") -> Value:
    return b.op("Gelu", x, shape=x.shape, approximate=approximate)


@lowering("aten.elu.default")
def elu(
    b: Builder, x: Value, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1
) -> Value:
    if input_scale == 1:
        y = b.op("Elu", x, shape=x.shape, alpha=float(alpha))
    else:
        scaled = b.op("Mul", x, b.scalar(input_scale, x.dtype))
        negative = b.op("Elu", scaled, alpha=float(alpha))
        positive = b.op("Greater", x, b.scalar(0, x.dtype), dtype=torch.bool)
        y = b.op("Where", positive, x, negative, dtype=x.dtype, shape=x.shape)
    return y if scale == 1 else b.op("Mul", y, b.scalar(scale, x.dtype), shape=x.shape)


@lowering("aten.leaky_relu.default")
def leaky_relu(b: Builder, x: Value, negative_slope: Number = 0.01) -> Value:
    return b.op("LeakyRelu", x, shape=x.shape, alpha=float(negative_slope))


@lowering("aten.prelu.default", "aten._prelu_kernel.default")
def prelu(b: Builder, x: Value, weight: Value) -> Value:
    if weight.rank == 1 and x.rank > 1:  # one slope per channel
        weight = b.reshape(weight, [-1] + [1] * (x.rank - 2))
    return b.op("PRelu", x, weight, shape=x.shape)


@lowering("aten.hardtanh.default")
def hardtanh(b: Builder, x: Value, min_val: Number = -1, max_val: Number = 1) -> Value:
    if not x.dtype.is_floating_point:  # whole bounds keep the dtype, whatever type they have
        min_val, max_val = int(min_val), int(max_val)
    return clamp(b, x, min_val, max_val)


@lowering("aten.relu6.default")
def relu6(b: Builder, x: Value) -> Value:
    return clamp(b, x, 0, 6)


@lowering("aten.hardsigmoid.default")
def hardsigmoid(b: Builder, x: Value) -> Value:
    return b.op("HardSigmoid", x, shape=x.shape, alpha=1.0 / 6.0, beta=0.5)


@lowering("aten.hardswish.default")
def hardswish(b: Builder, x: Value) -> Value:
    return b.op("HardSwish", x, shape=x.shape)


@lowering("aten.silu.default")
def silu(b: Builder, x: Value) -> Value:
    return b.op("Mul", x, b.op("Sigmoid", x), shape=x.shape)


@lowering("aten.softplus.default")
def softplus(b: Builder, x: Value, beta: Number = 1, threshold: Number = 20) -> Value:
    scaled = x if beta == 1 else b.op("Mul", x, b.scalar(beta, x.dtype))
    y = b.op("Softplus", scaled)
    if beta != 1:
        y = b.op("Div", y, b.scalar(beta, x.dtype))
    large = b.op("Greater", scaled, b.scalar(threshold, x.dtype), dtype=torch.bool)
    return b.op("Where", large, x, y, dtype=x.dtype, shape=x.shape)


@lowering("aten.log_sigmoid_forward.default")
def log_sigmoid(b: Builder, x: Value) -> list[Value | None]:
    y = b.op("Neg", b.op("Softplus", b.op("Neg", x)), shape=x.shape)
    return [y, b.scalar(0.0, x.dtype) if 1 in b.used else None]


@lowering("aten.threshold.default")
def threshold(b: Builder, x: Value, limit: Number, value: Number) -> Value:
    above = b.op("Greater", x, b.scalar(limit, x.dtype), dtype=torch.bool)
    return b.op("Where", above, x, b.scalar(value, x.dtype), dtype=x.dtype, shape=x.shape)


@lowering("aten.clamp.default", "aten.clip.default")
def clamp(b: Builder, x: Value, min: Number | None = None, max: Number | None = None) -> Value:
    operands: list[Operand] = [x, *[limit for limit in (min, max) if limit is not None]]
    dtype = b.result_type(*operands)
    x = b.cast(x, dtype)
    if any(limit is not None and math.isnan(limit) for limit in (min, max)):
        return _constant_like(b, x, math.nan)  # which engines' Clip does not give
    low = None if min is None else b.scalar(min, dtype)
    high = None if max is None else b.scalar(max, dtype)
    return b.op("Clip", x, low, high, shape=x.shape)


@lowering("aten.clamp.Tensor")
def clamp_tensor(b: Builder, x: Value, min: Value | None = None, max: Value | None = None) -> Value:
    if min is not None:
        x = maximum(b, x, min)
    return x if max is None else minimum(b, x, max)


@lowering("aten.clamp_min.default")
def clamp_min(b: Builder, x: Value, min: Number) -> Value:
    return clamp(b, x, min, None)


@lowering("aten.clamp_max.default")
def clamp_max(b: Builder, x: Value, max: Number) -> Value:
    return clamp(b, x, None, max)


# --- arithmetic of two operands -------------------------------------------------------------------


def _binary(b: Builder, op: str, x: Operand, y: Operand) -> Value:
    left, right = b.promote(x, y)
    return b.op(op, left, right, rank=max(left.rank, right.rank))


def _scaled(b: Builder, y: Operand, alpha: Number) -> Operand:
    if alpha == 1:
        return y
    if isinstance(y, Value) and y.dtype == torch.bool:
        return b.op("And", y, b.scalar(bool(alpha), torch.bool), rank=y.rank)
    return y * alpha if not isinstance(y, Value) else _binary(b, "Mul", y, alpha)


@lowering("aten.add.Tensor", "aten.add.Scalar")
def add(b: Builder, x: Operand, y: Operand, alpha: Number = 1) -> Value:
    left, right = b.promote(x, _scaled(b, y, alpha))
    op = "Or" if left.dtype == torch.bool else "Add"
    return b.op(op, left, right, rank=max(left.rank, right.rank))


@lowering("aten.sub.Tensor", "aten.sub.Scalar")
def sub(b: Builder, x: Operand, y: Operand, alpha: Number = 1) -> Value:
    return _binary(b, "Sub", x, _scaled(b, y, alpha))


@lowering("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(b: Builder, x: Operand, y: Operand, alpha: Number = 1) -> Value:
    return _binary(b, "Sub", y, _scaled(b, x, alpha))


@lowering("aten.mul.Tensor", "aten.mul.Scalar")
def mul(b: Builder, x: Operand, y: Operand) -> Value:
    left, right = b.promote(x, y)
    op = "And" if left.dtype == torch.bool else "Mul"
    return b.op(op, left, right, rank=max(left.rank, right.rank))


@lowering("aten.div.Tensor", "aten.div.Scalar")
def div(b: Builder, x: Operand, y: Operand) -> Value:
    left, right = b.promote(x, y)
    return _binary(b, "Div", b.to_float(left), b.to_float(right))


@lowering("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(b: Builder, x: Operand, y: Operand, *, rounding_mode: str | None) -> Value:
    if rounding_mode is None:
        return div(b, x, y)
    if rounding_mode == "floor":
        return floor_divide(b, x, y)
    left, right = b.promote(x, y)
    quotient = b.op("Div", left, right, rank=max(left.rank, right.rank))
    return trunc(b, quotient)  # on integers ONNX's Div truncates already


@lowering("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(b: Builder, x: Operand, y: Operand) -> Value:
    left, right = b.promote(x, y)
    rank = max(left.rank, right.rank)
    if left.dtype.is_floating_point:
        return _floor_divide_floats(b, left, right, rank)
    quotient = b.op("Div", left, right, rank=rank)
    if quotient.dtype == torch.uint8:
        return quotient
    # Truncated: one less where the division is inexact and the signs differ.
    zero = b.scalar(0, quotient.dtype)
    exact = b.op("Equal", b.op("Mul", quotient, right, rank=rank), left, dtype=torch.bool)
    signs_differ = b.op(
        "Xor",
        b.op("Less", left, zero, dtype=torch.bool),
        b.op("Less", right, zero, dtype=torch.bool),
        rank=rank,
    )
    lower = b.op("And", b.op("Not", exact), signs_differ)
    less = b.op("Sub", quotient, b.scalar(1, quotient.dtype))
    return b.op("Where", lower, less, quotient, dtype=quotient.dtype, rank=rank)


def _floor_divide_floats(b: Builder, left: Value, right: Value, rank: int) -> Value:
    """PyTorch's (and Python's) way: the remainder is exact, where a rounded quotient may reach the
    next whole number, as that of 1 by 0.1 does; infinity by a number is NaN."""
    dtype = left.dtype
    zero = b.scalar(0, dtype)

    def where(condition: Value, x: Value, y: Value) -> Value:
        return b.op("Where", condition, x, y, dtype=dtype, rank=rank)

    def less(x: Value, y: Value) -> Value:
        return b.op("Less", x, y, dtype=torch.bool, rank=rank)

    rest = b.op("Mod", left, right, rank=rank, fmod=1)
    whole = b.op("Div", b.op("Sub", left, rest, rank=rank), right, rank=rank)
    inexact = b.op("Not", b.op("Equal", rest, zero, dtype=torch.bool, rank=rank))
    signs_differ = b.op("Xor", less(rest, zero), less(right, zero), dtype=torch.bool, rank=rank)
    lower = b.op("And", inexact, signs_differ)
    whole = where(lower, b.op("Sub", whole, b.scalar(1, dtype)), whole)
    # What is left is a whole number but for rounding.
    down = b.op("Floor", whole)
    too_low = less(b.scalar(0.5, dtype), b.op("Sub", whole, down))
    result = where(too_low, b.op("Add", down, b.scalar(1, dtype)), down)
    by_zero = b.op("Equal", right, zero, dtype=torch.bool)
    return where(by_zero, b.op("Div", left, right, rank=rank), result)


@lowering("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(b: Builder, x: Operand, y: Operand) -> Value:
    left, right = b.promote(x, y)
    rank = max(left.rank, right.rank)
    if not left.dtype.is_floating_point:
        return b.op("Mod", left, right, rank=rank)
    # The remainder of C, moved to the divisor's sign: x − floor(x / y) y rounds differently.
    c = b.op("Mod", left, right, rank=rank, fmod=1)
    zero = b.scalar(0, c.dtype)
    nonzero = b.op("Not", b.op("Equal", c, zero, dtype=torch.bool))
    signs_differ = b.op(
        "Xor",
        b.op("Less", c, zero, dtype=torch.bool),
        b.op("Less", right, zero, dtype=torch.bool),
        rank=rank,
    )
    shift = b.op("And", nonzero, signs_differ)
    return b.op("Where", shift, b.op("Add", c, right), c, dtype=c.dtype, rank=rank)


@lowering("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(b: Builder, x: Operand, y: Operand) -> Value:
    left, right = b.promote(x, y)
    return b.op("Mod", left, right, rank=max(left.rank, right.rank), fmod=1)


@lowering("aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar")
def pow(b: Builder, x: Operand, y: Operand) -> Value:
    dtype = b.result_type(x, y)
    if isinstance(x, Value) and not isinstance(y, Value):
        x = b.cast(x, dtype)
        if y == 1:
            return x
        if y == 2:
            return b.op("Mul", x, x, shape=x.shape)
        if y == 3:
            return b.op("Mul", b.op("Mul", x, x), x, shape=x.shape)
        if dtype.is_floating_point and y == 0.5:
            return b.op("Sqrt", x, shape=x.shape)
        if dtype.is_floating_point and y == -0.5:
            return rsqrt(b, x)
        if dtype.is_floating_point and y == -1:
            return b.op("Reciprocal", x, shape=x.shape)
    left, right = b.operand(x, dtype), b.operand(y, dtype)
    return b.op("Pow", left, right, rank=max(left.rank, right.rank))


@lowering("aten.maximum.default")
def maximum(b: Builder, x: Operand, y: Operand) -> Value:
    return _extremum(b, "Max", "Or", x, y)


@lowering("aten.minimum.default")
def minimum(b: Builder, x: Operand, y: Operand) -> Value:
    return _extremum(b, "Min", "And", x, y)


def _extremum(b: Builder, op: str, of_bools: str, x: Operand, y: Operand) -> Value:
    left, right = b.promote(x, y)
    op = of_bools if left.dtype == torch.bool else op
    return b.op(op, left, right, rank=max(left.rank, right.rank))


@lowering("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(b: Builder, start: Value, end: Value, weight: Operand) -> Value:
    return add(b, start, mul(b, weight, sub(b, end, start)))


@lowering("aten.addcmul.default")
def addcmul(b: Builder, x: Value, first: Value, second: Value, *, value: Number = 1) -> Value:
    return add(b, x, mul(b, first, second), value)


@lowering("prims.fma.default")
def fma(b: Builder, x: Value, y: Value, z: Value) -> Value:
    return add(b, mul(b, x, y), z)


@lowering("aten.addcdiv.default")
def addcdiv(b: Builder, x: Value, first: Value, second: Value, *, value: Number = 1) -> Value:
    return add(b, x, div(b, first, second), value)


# --- comparison and logic -------------------------------------------------------------------------


def _comparison(aten: str, op: str, *, negate: bool = False) -> None:
    def lower(b: Builder, x: Operand, y: Operand) -> Value:
        left, right = b.promote(x, y)
        if left.dtype == torch.bool and op != "Equal":
            left, right = b.cast(left, torch.int32), b.cast(right, torch.int32)
        result = b.op(op, left, right, dtype=torch.bool, rank=max(left.rank, right.rank))
        return b.op("Not", result) if negate else result

    lowering(f"aten.{aten}.Tensor", f"aten.{aten}.Scalar")(lower)


_comparison("eq", "Equal")
_comparison("ne", "Equal", negate=True)
_comparison("lt", "Less")
_comparison("le", "LessOrEqual")
_comparison("gt", "Greater")
_comparison("ge", "GreaterOrEqual")


def as_bool(b: Builder, x: Value) -> Value:
    if x.dtype == torch.bool:
        return x
    zero = b.op("Equal", x, b.scalar(0, x.dtype), dtype=torch.bool, shape=x.shape)
    return b.op("Not", zero, shape=x.shape)


def _logical(aten: str, op: str) -> None:
    def lower(b: Builder, x: Value, y: Value) -> Value:
        left, right = as_bool(b, x), as_bool(b, y)
        return b.op(op, left, right, rank=max(left.rank, right.rank))

    lowering(f"aten.logical_{aten}.default")(lower)


_logical("and", "And")
_logical("or", "Or")
_logical("xor", "Xor")


@lowering("aten.logical_not.default")
def logical_not(b: Builder, x: Value) -> Value:
    return b.op("Not", as_bool(b, x), shape=x.shape)


def _bitwise(aten: str, logical: str, bitwise: str) -> Callable[..., Value]:
    def lower(b: Builder, x: Operand, y: Operand) -> Value:
        left, right = b.promote(x, y)
        op = logical if left.dtype == torch.bool else bitwise
        return b.op(op, left, right, rank=max(left.rank, right.rank))

    lowering(f"aten.bitwise_{aten}.Tensor", f"aten.bitwise_{aten}.Scalar")(lower)
    return lower


_bitwise("and", "And", "BitwiseAnd")
_bitwise("or", "Or", "BitwiseOr")
_bitwise("xor", "Xor", "BitwiseXor")


@lowering("aten.bitwise_not.default")
def bitwise_not(b: Builder, x: Value) -> Value:
    return b.op("Not" if x.dtype == torch.bool else "BitwiseNot", x, shape=x.shape)


def _shift(aten: str, direction: str) -> None:
    def lower(b: Builder, x: Operand, y: Operand) -> Value:
        left, right = b.promote(x, y)
        if left.dtype not in (torch.uint8, torch.uint16, torch.uint32, torch.uint64):
            # ONNX shifts unsigned integers only.
            power = b.op("Pow", b.scalar(2, left.dtype), right)
            if direction == "LEFT":
                return b.op("Mul", left, power, rank=max(left.rank, right.rank))
            return floor_divide(b, left, power)
        return b.op("BitShift", left, right, rank=max(left.rank, right.rank), direction=direction)

    lowering(f"aten.{aten}.Tensor", f"aten.{aten}.Tensor_Scalar", f"aten.{aten}.Scalar_Tensor")(
        lower
    )


_shift("bitwise_left_shift", "LEFT")
_shift("bitwise_right_shift", "RIGHT")


@lowering("aten.where.self")
def where(b: Builder, condition: Value, x: Operand, y: Operand) -> Value:
    left, right = b.promote(x, y)
    rank = max(condition.rank, left.rank, right.rank)
    return b.op("Where", as_bool(b, condition), left, right, dtype=left.dtype, rank=rank)


@lowering("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(b: Builder, x: Value, mask: Value, value: Operand) -> Value:
    filling = b.operand(value, x.dtype)
    return b.op("Where", mask, filling, x, dtype=x.dtype, rank=max(x.rank, mask.rank))


# --- conversions and copies -----------------------------------------------------------------------


@lowering("aten._to_copy.default")
def to_copy(b: Builder, x: Operand, *, dtype: torch.dtype | None = None, **_: object) -> Value:
    if not isinstance(x, Value):  # vmap() makes tensors of numbers so
        assert b.out[0] is not None
        return b.scalar(x, dtype or b.out[0][0])
    return _identity(b, x) if dtype is None or dtype == x.dtype else b.cast(x, dtype)


@lowering("aten.to.dtype")
def to_dtype(b: Builder, x: Value, dtype: torch.dtype, *_: object, **__: object) -> Value:
    return _identity(b, x) if dtype == x.dtype else b.cast(x, dtype)


@lowering("prims.convert_element_type.default")
def convert_element_type(b: Builder, x: Value, dtype: torch.dtype) -> Value:
    return _identity(b, x) if dtype == x.dtype else b.cast(x, dtype)


@lowering(
    "aten.alias.default",
    "aten.clone.default",
    "aten.detach.default",
    "aten.contiguous.default",
    "aten.lift_fresh_copy.default",
    "aten.lift_fresh.default",
    "prims.device_put.default",
)
def identity(b: Builder, x: Value, *_: object, **__: object) -> Value:
    return _identity(b, x)


def _identity(b: Builder, x: Value) -> Value:
    return x


@lowering("aten.copy.default")
def copy(b: Builder, x: Value, source: Value, non_blocking: bool = False) -> Value:
    size = b.op("Shape", x, dtype=torch.int64, rank=1)
    converted = b.cast(source, x.dtype)
    if converted.shape is not None and converted.shape == x.shape:
        return converted
    return b.op("Expand", converted, size, shape=x.shape, rank=x.rank)


@lowering("aten.fill.Scalar", "aten.fill.Tensor")
def fill(b: Builder, x: Value, value: Operand) -> Value:
    size = b.op("Shape", x, dtype=torch.int64, rank=1)
    return b.op("Expand", b.operand(value, x.dtype), size, shape=x.shape, rank=x.rank)


@lowering("aten._local_scalar_dense.default", "aten.item.default")
def local_scalar(b: Builder, x: Value) -> Value:
    """A number that is read from a tensor and goes into sizes and other numbers; where control
    flow depends on it, tracing has failed already."""
    wide = x.dtype
    if wide.is_floating_point:
        wide = torch.float64
    elif wide != torch.bool:
        wide = torch.int64
    return b.reshape(b.cast(x, wide), [])
