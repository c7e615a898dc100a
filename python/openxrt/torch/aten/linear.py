# SPDX-License-Identifier: Apache-2.0
"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..._core import Unsupported
from ..builder import Builder, Number, Value
from ..registry import lowering, rewriting
from .pointwise import add, mul

aten = torch.ops.aten


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


@rewriting("aten.mm.dtype", "aten.bmm.dtype")
def product_in(x: Tensor, y: Tensor, out_dtype: torch.dtype) -> Tensor:
    return x.to(out_dtype) @ y.to(out_dtype)


@rewriting("aten.addmm.dtype", "aten.baddbmm.dtype")
def sum_of_products_in(
    x: Tensor,
    first: Tensor,
    second: Tensor,
    out_dtype: torch.dtype,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> Tensor:
    product = alpha * (first.to(out_dtype) @ second.to(out_dtype))
    return product if beta == 0 else beta * x.to(out_dtype) + product


@rewriting("aten._int_mm.default")
def int_mm(x: Tensor, y: Tensor) -> Tensor:
    return x.to(torch.int32) @ y.to(torch.int32)


@rewriting("aten._weight_int8pack_mm.default")
def weight_int8pack_mm(x: Tensor, weight: Tensor, scales: Tensor) -> Tensor:
    return (x @ weight.to(x.dtype).t()) * scales


@rewriting("aten._add_relu.Tensor", "aten._add_relu.Scalar")
def add_relu(x: Tensor, y: Tensor | float, alpha: float = 1) -> Tensor:
    return torch.relu(torch.add(x, y, alpha=alpha))


@rewriting("aten._addmm_activation.default")
def addmm_activation(
    x: Tensor, first: Tensor, second: Tensor, *, beta: float = 1, alpha: float = 1,
    use_gelu: bool = False,
) -> Tensor:  # fmt: skip
    total = torch.addmm(x, first, second, beta=beta, alpha=alpha)
    return torch.nn.functional.gelu(total) if use_gelu else torch.relu(total)


@rewriting("aten.linear_backward.default")
def linear_backward(
    x: Tensor, gradient: Tensor, weight: Tensor, output_mask: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    rows, seeds = x.reshape(-1, x.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
    return (
        gradient @ weight if output_mask[0] else None,
        seeds.t() @ rows if output_mask[1] else None,
        seeds.sum(0) if output_mask[2] else None,
    )


@rewriting("aten._convolution.default")
def convolution_with_flags(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
    *flags: bool,
) -> Tensor:  # fmt: skip
    return aten.convolution(
        x, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )
