# SPDX-License-Identifier: Apache-2.0
"""Overloads and internal ops of ATen that are another op with its arguments in other places."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..registry import rewriting

aten = torch.ops.aten


def _scalar_first(name: str) -> None:
    def rewrite(number: int, x: Tensor) -> Tensor:
        dtype = torch.result_type(number, x)
        first = torch.full([], number, dtype=dtype)
        return getattr(aten, name).Tensor(first, x.to(dtype))

    rewriting(f"aten.{name}.Scalar_Tensor")(rewrite)


for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    _scalar_first(_name)


def _shift(name: str, op: str) -> None:
    def rewrite(x: Tensor, count: Tensor | int) -> Tensor:
        if x.is_floating_point():
            return NotImplemented
        kind = "Tensor" if isinstance(count, Tensor) else "Tensor_Scalar"
        return getattr(getattr(aten, op), kind)(x, count)

    rewriting(f"aten.{name}.Tensor", f"aten.{name}.Scalar")(rewrite)


_shift("__lshift__", "bitwise_left_shift")
_shift("__rshift__", "bitwise_right_shift")


# --- products -------------------------------------------------------------------------------------


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


# --- layers ---------------------------------------------------------------------------------------


@rewriting("aten._convolution.default")
def convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
    *flags: bool,
) -> Tensor:  # fmt: skip
    return aten.convolution(
        x, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )


def _upsample(name: str) -> None:
    def rewrite(
        x: Tensor, output_size: Sequence[int], align_corners: bool, *scales: float | None
    ) -> Tensor:
        known = [s for s in scales if s is not None]
        if len(known) == len(output_size):
            return getattr(aten, name).vec(x, None, align_corners, known)
        return getattr(aten, name).vec(x, output_size, align_corners, None)

    rewriting(f"aten.{name}.default")(rewrite)


for _name in ("upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d"):
    _upsample(_name)


# --- others ---------------------------------------------------------------------------------------


def _zeta(place: str, apply: Callable[[object, object], Tensor]) -> None:
    rewriting(f"aten.special_zeta.{place}")(apply)


_zeta("other_scalar", lambda s, q: torch.special.zeta(s, torch.full([], q, dtype=s.dtype)))
_zeta("self_scalar", lambda s, q: torch.special.zeta(torch.full([], s, dtype=q.dtype), q))


@rewriting("aten.view_copy.dtype")
def view_copy(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.view(dtype).clone()


@rewriting("aten.lift.default", "aten._lazy_clone.default")
def lift(x: Tensor) -> Tensor:
    return x.clone()


@rewriting("aten._index_put_impl.default")
def index_put(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False,
    unsafe: bool = False,
) -> Tensor:  # fmt: skip
    return aten.index_put(x, indices, values, accumulate)


@rewriting("aten._unique.default")
def unique(x: Tensor, sorted: bool = True, return_inverse: bool = False) -> tuple[Tensor, Tensor]:
    return aten._unique2(x, sorted, return_inverse)[:2]
