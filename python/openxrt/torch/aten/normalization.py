# SPDX-License-Identifier: Apache-2.0
"""Batch, layer, group and RMS normalisation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..builder import Builder, Int, Value, static_or_none
from ..registry import lowering
from .reductions import variance


def _filled(b: Builder, size: Int, number: float, dtype: torch.dtype) -> Value:
    if isinstance(size, int):
        return b.tensor(torch.full((size,), number, dtype=dtype), "filled")
    return b.op("Expand", b.scalar(number, dtype), b.vector([size]), rank=1)


def filled_channels(b: Builder, x: Value, number: float) -> Value:
    """One number per channel of `x`, of its dtype."""
    return _filled(b, b.dim_size(x, 1), number, x.dtype)


HALVES = (torch.float16, torch.bfloat16)


def is_uniform(*values: Value | None) -> bool:
    """Whether all of them (where given) are float32, or all float64."""
    dtypes = {value.dtype for value in values if value is not None}
    return dtypes in ({torch.float32}, {torch.float64})


def _per_channel(b: Builder, x: Value, like: Value) -> Value:
    return b.reshape(x, [-1] + [1] * (like.rank - 2)) if like.rank > 2 else x


def _affine(b: Builder, y: Value, weight: Value | None, bias: Value | None) -> Value:
    if weight is not None:
        y = b.op("Mul", y, _per_channel(b, weight, y), shape=y.shape, rank=y.rank)
    if bias is not None:
        y = b.op("Add", y, _per_channel(b, bias, y), shape=y.shape, rank=y.rank)
    return y


@lowering("aten._native_batch_norm_legit_no_training.default")
def batch_norm_inference(
    b: Builder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> list[Value | None]:
    channels = b.dim_size(x, 1)
    scale = weight if weight is not None else _filled(b, channels, 1.0, running_mean.dtype)
    shift = bias if bias is not None else _filled(b, channels, 0.0, running_mean.dtype)
    y = b.op(
        "BatchNormalization",
        x,
        scale,
        shift,
        running_mean,
        running_var,
        shape=x.shape,
        rank=x.rank,
        epsilon=float(eps),
    )
    # PyTorch saves nothing in inference: two empty tensors.
    empty = b.tensor(torch.empty(0, dtype=running_mean.dtype)) if b.used & {1, 2} else None
    return [y, empty, empty]


def _batch_statistics(
    b: Builder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    eps: float,
    is_whole: bool = True,
) -> tuple[Value, Value, Value, Value]:
    """The normalised tensor, mean, inverse standard deviation and (biased) variance.

    `is_whole` asks for BatchNormalization in training mode, which few engines for inference take.
    Statistics of 16-bit tensors are float32.
    """
    if x.dtype in HALVES:
        wide = widened(b, x, weight, bias)
        y, *statistics = _batch_statistics(b, wide[0], wide[1], wide[2], eps, is_whole)  # type: ignore[arg-type]
        return b.cast(y, x.dtype), *statistics  # type: ignore[return-value]
    if is_whole and is_uniform(x, weight, bias):
        zeros, ones = filled_channels(b, x, 0.0), filled_channels(b, x, 1.0)
        # With momentum 0 the new statistics are those of the batch alone.
        y, *flat = b.ops(
            "BatchNormalization",
            x,
            weight if weight is not None else ones,
            bias if bias is not None else zeros,
            zeros,
            ones,
            dtypes=[x.dtype] * 3,
            epsilon=float(eps),
            momentum=0.0,
            training_mode=1,
        )
        shape = None if x.shape is None else (x.shape[1],)
        mean, var = (Value(v.id, v.dtype, shape, 1) for v in flat)
        invstd = b.op("Reciprocal", b.op("Sqrt", b.op("Add", var, b.scalar(float(eps), x.dtype))))
        return Value(y.id, y.dtype, x.shape, x.rank), mean, invstd, var
    dims = [0, *range(2, x.rank)]
    mean = b.reduce("ReduceMean", x, dims, True)
    centered = b.op("Sub", x, mean, shape=x.shape, rank=x.rank)
    var = b.reduce("ReduceMean", b.op("Mul", centered, centered, rank=x.rank), dims, True)
    invstd = b.op("Reciprocal", b.op("Sqrt", b.op("Add", var, b.scalar(float(eps), x.dtype))))
    y = b.op("Mul", centered, invstd, shape=x.shape, rank=x.rank)
    flat = [b.reshape(s, [-1]) for s in (mean, invstd, var)]
    return _affine(b, y, weight, bias), flat[0], flat[1], flat[2]


def _bessel(b: Builder, x: Value, dtype: torch.dtype) -> Value:
    """n / (n - 1), where n is the number of elements per channel: all over the channels."""
    sizes = None if x.shape is None else static_or_none(x.shape)
    if sizes is not None:
        count = math.prod(sizes) // max(sizes[1], 1)
        return b.scalar(count / (count - 1) if count != 1 else math.inf, dtype)
    size = b.cast(b.op("Size", x, dtype=torch.int64, rank=0), dtype)
    channels = b.dim_size(x, 1)
    width = b.scalar(channels, dtype) if isinstance(channels, int) else b.cast(channels, dtype)
    number = b.op("Div", size, width, rank=0)
    return b.op("Div", number, b.op("Sub", number, b.scalar(1.0, dtype)), rank=0)


def _running(b: Builder, old: Value, new: Value, momentum: float) -> Value:
    kept = b.op("Mul", old, b.scalar(1.0 - momentum, old.dtype))
    return b.op("Add", kept, b.op("Mul", b.cast(new, old.dtype), b.scalar(momentum, old.dtype)))


def as_expected(b: Builder, results: Sequence[Value | None]) -> list[Value | None]:
    """In PyTorch's dtypes: statistics of 16-bit tensors are float32 or not, as weights are."""
    return [
        value if out is None or value is None else b.cast(value, out[0])
        for value, out in zip(results, b.out, strict=True)
    ]


def widened(b: Builder, *values: Value | None) -> list[Value | None]:
    """As float32."""
    return [None if value is None else b.cast(value, torch.float32) for value in values]


@lowering("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    b: Builder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> list[Value | None]:
    # Also what instance normalisation is made of.
    return as_expected(b, _batch_statistics(b, x, weight, bias, eps, is_whole=False)[:3])


@lowering("aten._native_batch_norm_legit_functional.default")
def batch_norm_functional(
    b: Builder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> list[Value | None]:
    if not training:
        y, *_ = batch_norm_inference(b, x, weight, bias, running_mean, running_var, momentum, eps)
        out = b.out[1] if len(b.out) > 1 else None
        empty = b.tensor(torch.empty(0, dtype=x.dtype if out is None else out[0]))
        return as_expected(b, [y, empty, empty, running_mean, running_var])
    y, mean, invstd, var = _batch_statistics(b, x, weight, bias, eps)
    correction = _bessel(b, x, var.dtype)
    unbiased = b.op("Mul", var, correction, rank=1)
    new = [_running(b, running_mean, mean, momentum), _running(b, running_var, unbiased, momentum)]
    return as_expected(b, [y, mean, invstd, *new])


@lowering("aten.native_layer_norm.default")
def layer_norm(
    b: Builder,
    x: Value,
    normalized_shape: Sequence[Int],
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> list[Value | None]:
    if any(v is not None and v.dtype != x.dtype for v in (weight, bias)):  # of 16 bits, but for x
        x, weight, bias = widened(b, x, weight, bias)  # type: ignore[assignment]
        results = layer_norm(b, x, normalized_shape, weight, bias, eps)
        return as_expected(b, results)
    sizes = static_or_none(normalized_shape)
    axis = x.rank - len(normalized_shape)
    if weight is None:
        if sizes is not None:
            weight = b.tensor(torch.ones(sizes, dtype=x.dtype), "ones")
        else:
            weight = b.op("Expand", b.scalar(1.0, x.dtype), b.vector(normalized_shape))
    if x.dtype == torch.float64 and b.used & {1, 2}:  # ONNX's statistics are float32 at most
        axes = list(range(axis, x.rank))
        mean = b.reduce("ReduceMean", x, axes, True)
        centred = b.op("Sub", x, mean, rank=x.rank)
        var = b.reduce("ReduceMean", b.op("Mul", centred, centred), axes, True)
        spread = b.op("Sqrt", b.op("Add", var, b.scalar(float(eps), x.dtype)))
        rstd = b.op("Reciprocal", spread)
        y = b.op("Mul", b.op("Mul", centred, rstd, rank=x.rank), weight, rank=x.rank)
        return [y if bias is None else b.op("Add", y, bias, rank=x.rank), mean, rstd]
    stashed = torch.float32 if x.dtype in HALVES else x.dtype
    outputs: list[Value | None] = []
    outputs += b.ops(
        "LayerNormalization",
        x,
        weight,
        bias,
        dtypes=[x.dtype, stashed, stashed] if b.used & {1, 2} else [x.dtype],
        shape=x.shape,
        rank=x.rank,
        axis=axis,
        epsilon=float(eps),
    )
    outputs += [None] * (3 - len(outputs))
    for i in (1, 2):
        value = outputs[i]
        if value is not None and x.shape is not None:
            shape = (*x.shape[:axis], *([1] * (x.rank - axis)))
            outputs[i] = Value(value.id, value.dtype, shape)
    return as_expected(b, outputs)


@lowering("aten._fused_rms_norm.default")
def rms_norm(
    b: Builder,
    x: Value,
    normalized_shape: Sequence[int],
    weight: Value | None,
    eps: float | None,
) -> list[Value | None]:
    if x.dtype in HALVES:  # whose squares may be too large for 16 bits
        epsilon = torch.finfo(x.dtype).eps if eps is None else eps
        wide, scale = widened(b, x, weight)
        assert wide is not None
        return as_expected(b, rms_norm(b, wide, normalized_shape, scale, epsilon))
    axes = list(range(x.rank - len(normalized_shape), x.rank))
    epsilon = float(torch.finfo(x.dtype).eps if eps is None else eps)
    squares = b.reduce("ReduceMean", b.op("Mul", x, x, shape=x.shape), axes, True)
    rstd = b.op("Reciprocal", b.op("Sqrt", b.op("Add", squares, b.scalar(epsilon, x.dtype))))
    scale = weight if weight is not None else b.scalar(1.0, x.dtype)
    y = b.op("Mul", b.op("Mul", x, rstd, shape=x.shape), scale, shape=x.shape, rank=x.rank)
    return [y, rstd]


@lowering("aten.native_group_norm.default")
def group_norm(
    b: Builder,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    n: Int,
    c: Int,
    hxw: Int,
    group: int,
    eps: float,
) -> list[Value | None]:
    scale = weight if weight is not None else _filled(b, c, 1.0, x.dtype)
    shift = bias if bias is not None else _filled(b, c, 0.0, x.dtype)
    if 0 in (x.shape or ()):  # its body has a Reshape that cannot tell the sizes of nothing
        y = b.op("Identity", x, shape=x.shape)
    else:
        y = b.op(
            "GroupNormalization",
            x,
            scale,
            shift,
            shape=x.shape,
            rank=x.rank,
            num_groups=group,
            epsilon=float(eps),
        )
    if not b.used & {1, 2}:
        return [y, None, None]
    x = b.cast(x, torch.float32) if x.dtype in HALVES else x
    known = isinstance(c, int) and isinstance(hxw, int)
    grouped = b.reshape(x, [n, group, c // group * hxw if known else -1])
    mean = b.reduce("ReduceMean", grouped, [2], False)
    var = variance(b, grouped, [2], 0, False)
    rstd = b.op("Reciprocal", b.op("Sqrt", b.op("Add", var, b.scalar(float(eps), x.dtype))))
    return as_expected(b, [y, mean, rstd])
