# SPDX-License-Identifier: Apache-2.0
"""Graphs that PyTorch's tools have quantised (pt2e: the namespace quantized_decomposed) become
QuantizeLinear and DequantizeLinear, which engines compute in int8; fake quantisation, which
training uses, is arithmetic."""

from __future__ import annotations

import torch

from ..builder import Builder, Operand, Value
from ..registry import lowering

# What the standard quantises to; int32 it only dequantises.
_NARROW = (torch.int8, torch.uint8, torch.int16, torch.uint16)


def _number(b: Builder, x: Operand, dtype: torch.dtype, axis: int | None = 0) -> Value:
    """A scale or zero point; without an axis one number, which PyTorch also has as a vector."""
    if not isinstance(x, Value):
        return b.scalar(x, dtype)
    return b.cast(b.reshape(x, []) if axis is None and x.rank else x, dtype)


def _along(b: Builder, x: Value, axis: int, like: Value) -> Value:
    """A vector, one element per index of `axis`, to compute with `like`."""
    return b.reshape(x, [-1 if d == axis else 1 for d in range(like.rank)])


def _integers(
    b: Builder, x: Value, scale: Value, zero: Value, bounds: tuple[Operand, Operand]
) -> tuple[Value, Value]:
    """round(x / scale) + zero as a float, within the bounds and as it was before."""
    inverse = b.op("Reciprocal", scale)
    whole = b.op("Round", b.op("Mul", x, inverse, rank=x.rank))
    free = b.op("Add", whole, zero, shape=x.shape, rank=x.rank)
    low, high = (_number(b, bound, x.dtype) for bound in bounds)
    return b.op("Clip", free, low, high, shape=x.shape), free


def _quantize(
    b: Builder,
    x: Value,
    scale: Operand,
    zero: Operand,
    axis: int | None,
    bounds: tuple[Operand, Operand],
    dtype: torch.dtype,
) -> Value:
    wide = x if x.dtype == torch.float32 else b.cast(x, torch.float32)
    scales = _number(b, scale, torch.float32, axis)
    axis = None if axis is None else axis % x.rank
    info = torch.iinfo(dtype)
    if dtype not in _NARROW:
        zeros = _number(b, zero, torch.float32, axis)
        if axis is not None:
            scales, zeros = _along(b, scales, axis, x), _along(b, zeros, axis, x)
        return b.cast(_integers(b, wide, scales, zeros, bounds)[0], dtype)
    attributes = {} if axis is None else {"axis": axis}
    zeros = _number(b, zero, dtype, axis)
    q = b.op("QuantizeLinear", wide, scales, zeros, dtype=dtype, shape=x.shape, **attributes)
    if bounds != (info.min, info.max):  # a narrower range, -127 … 127 for example
        low, high = (_number(b, bound, dtype) for bound in bounds)
        q = b.op("Clip", q, low, high, shape=x.shape)
    return q


def _dequantize(
    b: Builder,
    x: Value,
    scale: Operand,
    zero: Operand | None,
    axis: int | None,
    out_dtype: torch.dtype | None,
) -> Value:
    scales = _number(b, scale, torch.float32, axis)
    attributes = {} if axis is None else {"axis": axis % x.rank}
    # Of int32 the standard's zero point is 0.
    narrow = x.dtype in _NARROW
    zeros = _number(b, zero, x.dtype, axis) if narrow and zero is not None else None
    if not narrow and zero is not None and not (isinstance(zero, int) and zero == 0):
        point = _number(b, zero, x.dtype, axis)
        if axis is not None:
            point = _along(b, point, axis % x.rank, x)
        x = b.op("Sub", x, point, shape=x.shape, rank=x.rank)
    y = b.op("DequantizeLinear", x, scales, zeros, dtype=torch.float32, shape=x.shape, **attributes)
    return b.cast(y, out_dtype) if out_dtype is not None else y


_QUANTIZED = "quantized_decomposed."


@lowering(*(f"{_QUANTIZED}quantize_per_tensor.{o}" for o in ("default", "tensor", "tensor2")))
def quantize_per_tensor(
    b: Builder,
    x: Value,
    scale: Operand,
    zero: Operand,
    low: Operand,
    high: Operand,
    dtype: torch.dtype,
) -> Value:
    return _quantize(b, x, scale, zero, None, (low, high), dtype)


@lowering(*(f"{_QUANTIZED}dequantize_per_tensor.{o}" for o in ("default", "tensor", "tensor2")))
def dequantize_per_tensor(
    b: Builder,
    x: Value,
    scale: Operand,
    zero: Operand,
    low: Operand,
    high: Operand,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Value:
    return _dequantize(b, x, scale, zero, None, out_dtype)


@lowering(f"{_QUANTIZED}quantize_per_channel.default")
def quantize_per_channel(
    b: Builder,
    x: Value,
    scales: Value,
    zeros: Value,
    axis: int,
    low: int,
    high: int,
    dtype: torch.dtype,
) -> Value:
    return _quantize(b, x, scales, zeros, axis, (low, high), dtype)


@lowering(f"{_QUANTIZED}dequantize_per_channel.default")
def dequantize_per_channel(
    b: Builder,
    x: Value,
    scales: Value,
    zeros: Value | None,
    axis: int,
    low: int,
    high: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Value:
    return _dequantize(b, x, scales, zeros, axis, out_dtype)


@lowering(f"{_QUANTIZED}choose_qparams.tensor")
def choose_qparams(
    b: Builder, x: Value, low: int, high: int, eps: float, dtype: torch.dtype
) -> list[Value]:
    """Scale and zero point of a tensor's own range, which includes 0: dynamic quantisation."""
    zero = b.scalar(0, torch.float32)
    wide = b.cast(x, torch.float32)
    least = b.op("Min", b.reduce("ReduceMin", wide, None, False), zero, rank=0)
    most = b.op("Max", b.reduce("ReduceMax", wide, None, False), zero, rank=0)
    width = b.op("Div", b.op("Sub", most, least), b.scalar(float(high - low), torch.float32))
    scale = b.op("Max", width, b.scalar(eps, torch.float32), rank=0)
    shift = b.op("Round", b.op("Div", least, scale))
    point = b.op("Sub", b.scalar(float(low), torch.float32), shift)
    bounds = (b.scalar(float(low), torch.float32), b.scalar(float(high), torch.float32))
    point = b.op("Clip", point, *bounds, rank=0)
    return [
        b.reshape(b.cast(scale, torch.float64), [1]),
        b.reshape(b.cast(point, torch.int64), [1]),
    ]


@lowering(f"{_QUANTIZED}convert_element_type.no_fuse")
def convert_element_type(b: Builder, x: Value, dtype: torch.dtype) -> Value:
    return b.cast(x, dtype)


def _fake(
    b: Builder,
    x: Value,
    scale: Operand,
    zero: Operand,
    axis: int | None,
    low: int,
    high: int,
) -> list[Value]:
    """What quantisation makes of the values, and where it does not cut them off."""
    scales, zeros = _number(b, scale, x.dtype, axis), _number(b, zero, x.dtype, axis)
    if axis is not None:
        axis %= x.rank
        scales, zeros = _along(b, scales, axis, x), _along(b, zeros, axis, x)
    cut, free = _integers(b, x, scales, zeros, (low, high))
    y = b.op("Mul", b.op("Sub", cut, zeros, rank=x.rank), scales, shape=x.shape, rank=x.rank)
    return [y, b.op("Equal", cut, free, dtype=torch.bool, shape=x.shape)]


@lowering("aten.fake_quantize_per_tensor_affine_cachemask.default")
def fake_quantize_tensor(
    b: Builder, x: Value, scale: float, zero: int, low: int, high: int
) -> list[Value]:
    return _fake(b, x, scale, zero, None, low, high)


@lowering("aten.fake_quantize_per_channel_affine_cachemask.default")
def fake_quantize_channels(
    b: Builder, x: Value, scales: Value, zeros: Value, axis: int, low: int, high: int
) -> list[Value]:
    return _fake(b, x, scales, zeros, axis, low, high)


@lowering("aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default")
def fake_quantize_tensors(
    b: Builder, x: Value, scale: Value, zero: Value, enabled: Value, low: int, high: int
) -> list[Value]:
    y, mask = _fake(b, x, scale, zero, None, low, high)
    on = b.op("Greater", b.cast(enabled, torch.int64), b.scalar(0, torch.int64), dtype=torch.bool)
    always = b.op("Or", mask, b.op("Not", on), dtype=torch.bool, rank=x.rank)
    return [b.op("Where", on, y, x, dtype=x.dtype, shape=x.shape), always]
