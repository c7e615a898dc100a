# SPDX-License-Identifier: Apache-2.0
"""Sums, means, extrema, sorting."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..builder import Builder, Int, Number, Value
from ..registry import lowering
from .pointwise import as_bool


@lowering("aten.sum.dim_IntList", "aten.sum.default")
def sum(
    b: Builder,
    x: Value,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    if dtype is None and not (x.dtype.is_floating_point or x.dtype.is_complex):
        dtype = torch.int64
    return b.reduce("ReduceSum", b.cast(x, dtype) if dtype else x, dim, keepdim)


@lowering("aten.mean.dim", "aten.mean.default")
def mean(
    b: Builder,
    x: Value,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    return b.reduce("ReduceMean", b.cast(x, dtype) if dtype else x, dim, keepdim)


def _product(
    b: Builder, x: Value, dims: Sequence[int] | None, keepdim: bool, dtype: torch.dtype | None
) -> Value:
    if dtype == torch.bool:  # true where no element is 0
        return b.cast(b.reduce("ReduceMin", _as_bytes(b, x), dims, keepdim), torch.bool)
    return b.reduce("ReduceProd", b.cast(x, dtype) if dtype else x, dims, keepdim)


def _as_bytes(b: Builder, x: Value) -> Value:
    return b.cast(b.cast(x, torch.bool), torch.uint8)


@lowering("aten.prod.default")
def prod(b: Builder, x: Value, *, dtype: torch.dtype | None = None) -> Value:
    if dtype is None and not x.dtype.is_floating_point:
        dtype = torch.int64
    return _product(b, x, None, False, dtype)


@lowering("aten.prod.dim_int")
def prod_dim(
    b: Builder, x: Value, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Value:
    if dtype is None and not x.dtype.is_floating_point:
        dtype = torch.int64
    return _product(b, x, [dim], keepdim, dtype)


def _extremum(b: Builder, op: str, x: Value, dim: Sequence[int], keepdim: bool) -> Value:
    if x.dtype == torch.bool:
        return b.cast(b.reduce(op, b.cast(x, torch.uint8), dim, keepdim), torch.bool)
    return b.reduce(op, x, dim, keepdim)


@lowering("aten.amax.default")
def amax(b: Builder, x: Value, dim: Sequence[int] = (), keepdim: bool = False) -> Value:
    return _extremum(b, "ReduceMax", x, dim, keepdim)


@lowering("aten.amin.default")
def amin(b: Builder, x: Value, dim: Sequence[int] = (), keepdim: bool = False) -> Value:
    return _extremum(b, "ReduceMin", x, dim, keepdim)


@lowering("aten.max.default")
def max_all(b: Builder, x: Value) -> Value:
    return _extremum(b, "ReduceMax", x, [], False)


@lowering("aten.min.default")
def min_all(b: Builder, x: Value) -> Value:
    return _extremum(b, "ReduceMin", x, [], False)


def _arg(b: Builder, op: str, x: Value, dim: int | None, keepdim: bool) -> Value:
    if x.dtype == torch.bool:
        x = b.cast(x, torch.uint8)
    if dim is None:
        flat = b.reshape(x, [-1])
        index = b.op(op, flat, dtype=torch.int64, rank=0, axis=0, keepdims=0)
        return b.reshape(index, [1] * x.rank) if keepdim else index
    if x.rank == 0:
        return b.scalar(0, torch.int64)
    return b.op(
        op,
        x,
        dtype=torch.int64,
        rank=x.rank if keepdim else x.rank - 1,
        axis=dim % x.rank,
        keepdims=int(keepdim),
    )


@lowering("aten.argmax.default")
def argmax(b: Builder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return _arg(b, "ArgMax", x, dim, keepdim)


@lowering("aten.argmin.default")
def argmin(b: Builder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return _arg(b, "ArgMin", x, dim, keepdim)


def _extremum_with_index(
    b: Builder, reduce: str, arg: str, x: Value, dim: int, keepdim: bool
) -> list[Value | None]:
    if x.rank == 0:
        return [x, b.scalar(0, torch.int64)]
    values = _extremum(b, reduce, x, [dim], keepdim)
    return [values, _arg(b, arg, x, dim, keepdim) if 1 in b.used else None]


@lowering("aten.max.dim")
def max_dim(b: Builder, x: Value, dim: int, keepdim: bool = False) -> list[Value | None]:
    return _extremum_with_index(b, "ReduceMax", "ArgMax", x, dim, keepdim)


@lowering("aten.min.dim")
def min_dim(b: Builder, x: Value, dim: int, keepdim: bool = False) -> list[Value | None]:
    return _extremum_with_index(b, "ReduceMin", "ArgMin", x, dim, keepdim)


def _any(b: Builder, op: str, x: Value, dims: Sequence[int] | None, keepdim: bool) -> Value:
    numbers = b.cast(as_bool(b, x), torch.int32)
    # Of nothing ReduceMax gives the lowest number. Of bytes the answer is a byte.
    extreme = b.reduce(op, numbers, dims, keepdim)
    zero = b.scalar(0, torch.int32)
    result = b.op("Greater", extreme, zero, dtype=torch.bool, shape=extreme.shape)
    return b.cast(result, torch.uint8) if x.dtype == torch.uint8 else result


@lowering("aten.any.default", "aten._is_any_true.default")
def any_all(b: Builder, x: Value) -> Value:
    return _any(b, "ReduceMax", x, None, False)


@lowering("aten.any.dim")
def any_dim(b: Builder, x: Value, dim: int, keepdim: bool = False) -> Value:
    return _any(b, "ReduceMax", x, [dim], keepdim)


@lowering("aten.any.dims")
def any_dims(
    b: Builder, x: Value, dim: Sequence[int] | None = None, keepdim: bool = False
) -> Value:
    return _any(b, "ReduceMax", x, dim, keepdim)


@lowering("aten.all.default", "aten._is_all_true.default")
def all_all(b: Builder, x: Value) -> Value:
    return _any(b, "ReduceMin", x, None, False)


@lowering("aten.all.dim")
def all_dim(b: Builder, x: Value, dim: int, keepdim: bool = False) -> Value:
    return _any(b, "ReduceMin", x, [dim], keepdim)


def _count(b: Builder, x: Value, dims: Sequence[int] | None) -> Value | int:
    """Elements that one result of a reduction over `dims` is made of."""
    axes = [dim % x.rank for dim in dims] if dims else list(range(x.rank))
    sizes = [b.dim_size(x, axis) for axis in axes]
    total: Int = 1
    for size in sizes:
        if isinstance(total, int) and isinstance(size, int):
            total *= size
        else:
            left = b.scalar(total, torch.int64) if isinstance(total, int) else total
            right = b.scalar(size, torch.int64) if isinstance(size, int) else size
            total = b.op("Mul", left, right, rank=0)
    return total


def variance(
    b: Builder, x: Value, dims: Sequence[int] | None, correction: Number, keepdim: bool
) -> Value:
    centered = b.op("Sub", x, b.reduce("ReduceMean", x, dims, True), rank=x.rank, shape=x.shape)
    squares = b.op("Mul", centered, centered, rank=x.rank, shape=x.shape)
    if correction == 0:
        return b.reduce("ReduceMean", squares, dims, keepdim)
    total = b.reduce("ReduceSum", squares, dims, keepdim)
    count = _count(b, x, dims)
    if isinstance(count, int):
        divisor = b.scalar(float(max(count - correction, 0)), x.dtype)
    else:
        exact = b.op("Sub", b.cast(count, x.dtype), b.scalar(float(correction), x.dtype))
        divisor = b.op("Max", exact, b.scalar(0.0, x.dtype))
    return b.op("Div", total, divisor, rank=total.rank, shape=total.shape)


@lowering("aten.var.correction")
def var_correction(
    b: Builder,
    x: Value,
    dim: Sequence[int] | None = None,
    *,
    correction: Number | None = None,
    keepdim: bool = False,
) -> Value:
    return variance(b, x, dim, 1 if correction is None else correction, keepdim)


@lowering("aten.var.dim")
def var_dim(
    b: Builder,
    x: Value,
    dim: Sequence[int] | None,
    unbiased: bool = True,
    keepdim: bool = False,
) -> Value:
    return variance(b, x, dim, int(unbiased), keepdim)


@lowering("aten.var_mean.correction")
def var_mean(
    b: Builder,
    x: Value,
    dim: Sequence[int] | None = None,
    *,
    correction: Number | None = None,
    keepdim: bool = False,
) -> list[Value]:
    value = variance(b, x, dim, 1 if correction is None else correction, keepdim)
    return [value, b.reduce("ReduceMean", x, dim, keepdim)]


@lowering("aten.std.correction")
def std(
    b: Builder,
    x: Value,
    dim: Sequence[int] | None = None,
    *,
    correction: Number | None = None,
    keepdim: bool = False,
) -> Value:
    return b.op("Sqrt", variance(b, x, dim, 1 if correction is None else correction, keepdim))


@lowering("aten.linalg_vector_norm.default")
def vector_norm(
    b: Builder,
    x: Value,
    ord: Number = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Value:
    x = b.cast(x, dtype) if dtype else x
    if ord == 2:
        return b.reduce("ReduceL2", x, dim, keepdim)
    if ord == 1:
        return b.reduce("ReduceL1", x, dim, keepdim)
    size = b.op("Abs", x, shape=x.shape)
    if ord == float("inf"):
        return b.reduce("ReduceMax", size, dim, keepdim)
    if ord == float("-inf"):
        return b.reduce("ReduceMin", size, dim, keepdim)
    if ord == 0:
        return b.reduce("ReduceSum", b.cast(as_bool(b, x), x.dtype), dim, keepdim)
    powers = b.op("Pow", size, b.scalar(float(ord), x.dtype), shape=x.shape)
    return b.op("Pow", b.reduce("ReduceSum", powers, dim, keepdim), b.scalar(1.0 / ord, x.dtype))


@lowering("aten.logsumexp.default")
def logsumexp(b: Builder, x: Value, dim: Sequence[int], keepdim: bool = False) -> Value:
    return b.reduce("ReduceLogSumExp", b.to_float(x), dim, keepdim)


@lowering("aten._softmax.default")
def softmax(b: Builder, x: Value, dim: int, half_to_float: object = False) -> Value:
    return _softmax(b, "Softmax", x, dim)


@lowering("aten._log_softmax.default")
def log_softmax(b: Builder, x: Value, dim: int, half_to_float: bool = False) -> Value:
    return _softmax(b, "LogSoftmax", x, dim)


def _softmax(b: Builder, op: str, x: Value, dim: int) -> Value:
    if b.out and b.out[0] is not None:
        x = b.cast(x, b.out[0][0])
    if x.rank == 0:
        flat = b.op(op, b.reshape(x, [1]), axis=0)
        return b.reshape(flat, [])
    return b.op(op, x, shape=x.shape, axis=dim % x.rank)


@lowering("aten.cumsum.default")
def cumsum(b: Builder, x: Value, dim: int, *, dtype: torch.dtype | None = None) -> Value:
    if dtype is None and not x.dtype.is_floating_point:
        dtype = torch.int64
    x = b.cast(x, dtype) if dtype else x
    if x.rank == 0:
        return x
    return b.op("CumSum", x, b.scalar(dim % x.rank, torch.int64), shape=x.shape)


@lowering("aten.cumprod.default")
def cumprod(b: Builder, x: Value, dim: int, *, dtype: torch.dtype | None = None) -> Value:
    if dtype is None and not x.dtype.is_floating_point:
        dtype = torch.int64
    x = b.cast(x, dtype) if dtype else x
    if x.rank == 0:
        return x
    return b.op("CumProd", x, b.scalar(dim % x.rank, torch.int64), shape=x.shape)


@lowering("aten.topk.default")
def topk(
    b: Builder, x: Value, k: Int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> list[Value]:
    if x.rank == 0:
        return [x, b.scalar(0, torch.int64)]
    return b.ops(
        "TopK",
        x,
        b.vector([k]),
        dtypes=[x.dtype, torch.int64],
        axis=dim % x.rank,
        largest=int(largest),
        sorted=int(sorted),
    )


@lowering("aten.sort.default")
def sort(b: Builder, x: Value, dim: int = -1, descending: bool = False) -> list[Value]:
    if x.rank == 0:
        return [x, b.scalar(0, torch.int64)]
    if x.dtype == torch.bool:
        values, indices = topk(
            b, b.cast(x, torch.uint8), b.dim_size(x, dim), dim, largest=descending
        )
        return [b.cast(values, torch.bool), indices]
    return topk(b, x, b.dim_size(x, dim), dim, largest=descending)


@lowering("aten.sort.stable")
def sort_stable(
    b: Builder, x: Value, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> list[Value]:
    # TopK breaks ties by the lower index, which is what stable means.
    return sort(b, x, dim, descending)


@lowering("aten._cdist_forward.default")
def cdist(b: Builder, x: Value, y: Value, p: float, compute_mode: int | None) -> Value:
    difference = b.op(
        "Sub", b.unsqueeze(x, x.rank - 1), b.unsqueeze(y, y.rank - 2), rank=max(x.rank, y.rank) + 1
    )
    return vector_norm(b, difference, p, [-1])


@lowering("aten._pdist_forward.default")
def pdist(b: Builder, x: Value, p: float = 2.0) -> Value:
    rows = x.static_shape("pdist")[0]
    first, second = torch.triu_indices(rows, rows, 1)
    left = b.op("Gather", x, b.tensor(first), axis=0)
    right = b.op("Gather", x, b.tensor(second), axis=0)
    return vector_norm(b, b.op("Sub", left, right), p, [-1])
