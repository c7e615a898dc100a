# SPDX-License-Identifier: Apache-2.0
"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..._core import Unsupported
from ..builder import Builder, Number, Value
from ..registry import lowering


@lowering("aten.mm.default", "aten.bmm.default", "aten.matmul.default")
def matmul(b: Builder, x: Value, y: Value) -> Value:
    rank = max(x.rank, y.rank) - (x.rank == 1 or y.rank == 1) - (x.rank == y.rank == 1)
    rank = max(rank, 0)
    return b.op("MatMul", x, y, rank=rank)


@lowering("aten.dot.default", "aten.mv.default")
def product(b: Builder, x: Value, y: Value) -> Value:
    return b.op("MatMul", x, y, rank=x.rank - 1)


def _plus_product(
    b: Builder, x: Value, first: Value, second: Value, beta: Number, alpha: Number
) -> Value:
    product = b.op("MatMul", first, second, rank=first.rank)
    if isinstance(alpha, Value) or alpha != 1:
        product = b.op("Mul", product, b.operand(alpha, product.dtype))
    if isinstance(beta, Value):
        x = b.op("Mul", x, b.cast(beta, x.dtype))
    elif beta == 0:
        return product
    elif beta != 1:
        x = b.op("Mul", x, b.scalar(beta, x.dtype))
    return b.op("Add", product, x, rank=first.rank)


@lowering("aten.addmm.default")
def addmm(
    b: Builder, x: Value, first: Value, second: Value, *, beta: Number = 1, alpha: Number = 1
) -> Value:
    known = not isinstance(alpha, Value) and not isinstance(beta, Value)
    if known and first.dtype.is_floating_point and beta != 0:
        return b.op("Gemm", first, second, x, rank=2, alpha=float(alpha), beta=float(beta))
    return _plus_product(b, x, first, second, beta, alpha)


@lowering("aten.baddbmm.default", "aten.addmv.default")
def baddbmm(
    b: Builder, x: Value, first: Value, second: Value, *, beta: Number = 1, alpha: Number = 1
) -> Value:
    return _plus_product(b, x, first, second, beta, alpha)


@lowering("aten.linear.default")
def linear(b: Builder, x: Value, weight: Value, bias: Value | None = None) -> Value:
    product = b.op("MatMul", x, b.transpose(weight, [1, 0]), rank=x.rank)
    return product if bias is None else b.op("Add", product, bias, rank=x.rank)


def _numbers(what: str, sizes: Sequence[object]) -> list[int]:
    if not all(isinstance(size, int) for size in sizes):
        raise Unsupported(f"convolution with a symbolic {what}")
    return [size for size in sizes if isinstance(size, int)]


@lowering("aten.convolution.default")
def convolution(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    spatial = weight.rank - 2
    # One number stands for every spatial dimension.
    strides, pads, dilations, extra = (
        list(n) * spatial if len(n) == 1 else list(n)
        for n in (
            _numbers("stride", stride),
            _numbers("padding", padding),
            _numbers("dilation", dilation),
            _numbers("output_padding", output_padding),
        )
    )
    image = x if x.rank == weight.rank else b.unsqueeze(x, 0)
    if not x.dtype.is_floating_point:  # ONNX convolves floating-point numbers only
        image, weight = b.cast(image, torch.float64), b.cast(weight, torch.float64)
        bias = None if bias is None else b.cast(bias, torch.float64)
    y = b.op(
        "ConvTranspose" if transposed else "Conv",
        image,
        weight,
        bias,
        rank=weight.rank,
        strides=strides,
        pads=[*pads, *pads],
        dilations=dilations,
        group=groups,
        output_padding=extra if transposed and any(extra) else None,
    )
    y = b.cast(y, x.dtype)
    return y if x.rank == weight.rank else b.squeeze(y, 0)
