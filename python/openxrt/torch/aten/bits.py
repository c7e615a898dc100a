# SPDX-License-Identifier: Apache-2.0
"""The bits of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..._core import Unsupported
from ..builder import DTYPE_NAMES, Builder, Value
from ..registry import lowering, rewriting

aten = torch.ops.aten
# Whole numbers as wide as floating-point ones.
INTEGERS = {torch.float64: torch.int64, torch.float32: torch.int32,
         torch.float16: torch.int16, torch.bfloat16: torch.int16}  # fmt: skip


@lowering("aten.view.dtype")
def view_as_dtype(b: Builder, x: Value, dtype: torch.dtype) -> Value:
    """The same bits, in elements of the same size."""
    if x.dtype == dtype:
        return x
    if dtype not in DTYPE_NAMES or dtype.itemsize != x.dtype.itemsize or torch.bool in (
        dtype, x.dtype
    ) or dtype.is_complex or x.dtype.is_complex:  # fmt: skip
        raise Unsupported(f"bits of {x.dtype} as {dtype}")
    return b.op("BitCast", x, dtype=dtype, shape=x.shape, to=b.onnx_dtype(dtype))


@rewriting("aten.view_copy.dtype")
def view_copy(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.view(dtype).clone()


@rewriting("aten.hash_tensor.default")
def hash_tensor(x: Tensor, dim: Sequence[int] = (), *, keepdim: bool = False, mode: int = 0
                ) -> Tensor:  # fmt: skip
    """The exclusive or of all elements, as float64 or int64."""
    if x.is_complex() or mode != 0:
        return NotImplemented
    bits = x.to(torch.float64).view(torch.int64) if x.is_floating_point() else x.to(torch.int64)
    dims = sorted({d % x.dim() for d in dim} if dim else range(x.dim())) if x.dim() else []
    for d in reversed(dims):
        while bits.shape[d] > 1:
            half = (bits.shape[d] + 1) // 2
            rest = bits.shape[d] - half
            both = bits.narrow(d, 0, rest) ^ bits.narrow(d, half, rest)
            bits = torch.cat([both, bits.narrow(d, rest, half - rest)], d)
        if bits.shape[d] == 0:
            bits = bits.sum(d, keepdim=True)
        bits = bits if keepdim else bits.squeeze(d)
    return bits.view(torch.uint64)


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
