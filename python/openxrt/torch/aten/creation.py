# SPDX-License-Identifier: Apache-2.0
"""Tensors made from numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..._core import Unsupported
from ..builder import Builder, Int, Number, Operand, Value, static_or_none
from ..registry import lowering


def filled(b: Builder, size: Sequence[Int], number: Operand, dtype: torch.dtype) -> Value:
    value = b.operand(number, dtype)
    return b.op("Expand", value, b.vector(size), rank=len(size), shape=static_or_none(size))


def _dtype(b: Builder, dtype: torch.dtype | None) -> torch.dtype:
    if dtype is not None:
        return dtype
    if b.out and b.out[0] is not None:
        return b.out[0][0]
    return torch.get_default_dtype()


@lowering("aten.full.default")
def full(
    b: Builder,
    size: Sequence[Int],
    fill_value: Operand,
    *,
    dtype: torch.dtype | None = None,
    **_: object,
) -> Value:
    return filled(b, size, fill_value, _dtype(b, dtype))


@lowering("aten.full_like.default")
def full_like(
    b: Builder, x: Value, fill_value: Operand, *, dtype: torch.dtype | None = None, **_: object
) -> Value:
    value = b.operand(fill_value, dtype or x.dtype)
    size = b.op("Shape", x, dtype=torch.int64, rank=1)
    return b.op("Expand", value, size, shape=x.shape, rank=x.rank)


def _constant_like(aten: str, number: Number) -> None:
    def like(b: Builder, x: Value, *, dtype: torch.dtype | None = None, **_: object) -> Value:
        return full_like(b, x, number, dtype=dtype)

    def new(
        b: Builder, size: Sequence[Int], *, dtype: torch.dtype | None = None, **_: object
    ) -> Value:
        return filled(b, size, number, _dtype(b, dtype))

    lowering(f"aten.{aten}_like.default")(like)
    lowering(f"aten.{aten}.default" if aten != "empty" else "aten.empty.memory_format")(new)


# The contents of an empty tensor are anything; zeros are something.
_constant_like("zeros", 0)
_constant_like("ones", 1)
_constant_like("empty", 0)


@lowering("aten.empty_strided.default")
def empty_strided(
    b: Builder,
    size: Sequence[Int],
    stride: Sequence[Int],
    *,
    dtype: torch.dtype | None = None,
    **_: object,
) -> Value:
    return filled(b, size, 0, _dtype(b, dtype))


@lowering("aten._efficientzerotensor.default")
def zeros_without_memory(
    b: Builder, size: Sequence[Int], *, dtype: torch.dtype | None = None, **_: object
) -> Value:
    return filled(b, size, 0, _dtype(b, dtype))


@lowering("aten.empty_permuted.default")
def empty_permuted(
    b: Builder,
    size: Sequence[Int],
    physical_layout: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    **_: object,
) -> Value:
    return filled(b, size, 0, _dtype(b, dtype))


@lowering("aten.new_zeros.default")
def new_zeros(
    b: Builder, x: Value, size: Sequence[Int], *, dtype: torch.dtype | None = None, **_: object
) -> Value:
    return filled(b, size, 0, dtype or x.dtype)


@lowering("aten.new_ones.default")
def new_ones(
    b: Builder, x: Value, size: Sequence[Int], *, dtype: torch.dtype | None = None, **_: object
) -> Value:
    return filled(b, size, 1, dtype or x.dtype)


@lowering("aten.new_full.default")
def new_full(
    b: Builder,
    x: Value,
    size: Sequence[Int],
    fill_value: Operand,
    *,
    dtype: torch.dtype | None = None,
    **_: object,
) -> Value:
    return filled(b, size, fill_value, dtype or x.dtype)


@lowering("aten.new_empty.default")
def new_empty(
    b: Builder, x: Value, size: Sequence[Int], *, dtype: torch.dtype | None = None, **_: object
) -> Value:
    return filled(b, size, 0, dtype or x.dtype)


@lowering("aten.scalar_tensor.default")
def scalar_tensor(
    b: Builder, s: Operand, *, dtype: torch.dtype | None = None, **_: object
) -> Value:
    return b.operand(s, _dtype(b, dtype))


@lowering("aten.arange.start_step")
def arange(
    b: Builder,
    start: Operand,
    end: Operand,
    step: Operand = 1,
    *,
    dtype: torch.dtype | None = None,
    **_: object,
) -> Value:
    wanted = _dtype(b, dtype)
    numbers = [n for n in (start, end, step) if not isinstance(n, Value)]
    if len(numbers) == 3:
        return b.tensor(torch.arange(*numbers, dtype=wanted), "arange")
    # Bounds that are computed are int64; a floating dtype is reached by a cast at the end.
    counted = torch.int64 if not any(isinstance(n, float) for n in numbers) else torch.float64
    bounds = [b.operand(n, counted) for n in (start, end, step)]
    return b.cast(b.op("Range", *bounds, rank=1), wanted)


@lowering("aten.arange.default", "aten.arange.start")
def arange_short(b: Builder, *bounds: Operand, **keywords: object) -> Value:
    start, end = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
    return arange(b, start, end, 1, **keywords)  # type: ignore[arg-type]


@lowering("aten.linspace.default")
def linspace(
    b: Builder,
    start: Operand,
    end: Operand,
    steps: int,
    *,
    dtype: torch.dtype | None = None,
    **_: object,
) -> Value:
    if isinstance(start, Value) or isinstance(end, Value):
        raise Unsupported("linspace with bounds that are computed")
    return b.tensor(torch.linspace(start, end, steps, dtype=_dtype(b, dtype)), "linspace")


@lowering("aten.eye.default", "aten.eye.m")
def eye(
    b: Builder, n: int, m: int | None = None, *, dtype: torch.dtype | None = None, **_: object
) -> Value:
    return b.tensor(torch.eye(n, n if m is None else m, dtype=_dtype(b, dtype)), "eye")


@lowering("prims.iota.default")
def iota(
    b: Builder, length: Int, *, start: Int = 0, step: Int = 1, dtype: torch.dtype, **_: object
) -> Value:
    if isinstance(length, int) and isinstance(start, int) and isinstance(step, int):
        return b.tensor(torch.arange(length, dtype=dtype) * step + start, "iota")
    first, pace = b.operand(start, torch.int64), b.operand(step, torch.int64)
    reach = b.op("Mul", b.operand(length, torch.int64), pace, rank=0)
    end = b.op("Add", first, reach, rank=0)
    return b.cast(b.op("Range", first, end, pace, rank=1), dtype)
