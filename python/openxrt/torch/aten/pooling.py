# SPDX-License-Identifier: Apache-2.0
"""Pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from ..._core import Unsupported
from ..builder import Builder, Value
from ..registry import lowering


def spread(numbers: Sequence[int] | int, spatial: int) -> list[int]:
    """One number stands for every spatial dimension."""
    values = [numbers] if isinstance(numbers, int) else list(numbers)
    return values * spatial if len(values) == 1 else values


def _batched(b: Builder, x: Value, spatial: int) -> tuple[Value, bool]:
    return (x, False) if x.rank == spatial + 2 else (b.unsqueeze(x, 0), True)


def _floating(b: Builder, x: Value) -> Value:
    """ONNX pools floating-point numbers only: integers as float64, which holds those below 2^53."""
    return x if x.dtype.is_floating_point else b.cast(x, torch.float64)


def _max_pool(
    b: Builder,
    spatial: int,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] | int = 0,
    dilation: Sequence[int] | int = 1,
    ceil_mode: bool = False,
) -> list[Value | None]:
    kernel = spread(kernel_size, spatial)
    pads = spread(padding, spatial)
    image, added = _batched(b, _floating(b, x), spatial)
    outputs = b.ops(
        "MaxPool",
        image,
        dtypes=[image.dtype, torch.int64] if 1 in b.used else [image.dtype],
        rank=spatial + 2,
        kernel_shape=kernel,
        strides=spread(stride, spatial) if stride else kernel,
        pads=[*pads, *pads],
        dilations=spread(dilation, spatial),
        ceil_mode=int(ceil_mode),
    )
    results: list[Value | None] = [b.cast(outputs[0], x.dtype), None]
    if 1 in b.used:
        # ONNX counts positions through the whole tensor, PyTorch within each plane.
        plane = b.product([b.dim_size(x, dim) for dim in range(-spatial, 0)])
        results[1] = b.op("Mod", outputs[1], b.operand(plane, torch.int64))
    if added:
        results = [None if value is None else b.squeeze(value, 0) for value in results]
    return results


@lowering("aten.max_pool2d_with_indices.default")
def max_pool2d(b: Builder, x: Value, *arguments: object) -> list[Value | None]:
    return _max_pool(b, 2, x, *arguments)  # type: ignore[arg-type]


@lowering("aten.max_pool3d_with_indices.default")
def max_pool3d(b: Builder, x: Value, *arguments: object) -> list[Value | None]:
    return _max_pool(b, 3, x, *arguments)  # type: ignore[arg-type]


def _average_pool(
    b: Builder,
    spatial: int,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] | int = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    kernel = spread(kernel_size, spatial)
    pads = spread(padding, spatial)
    image, added = _batched(b, _floating(b, x), spatial)
    if divisor_override is not None and ceil_mode:
        raise Unsupported("average pooling with ceil_mode and divisor_override")
    y = b.op(
        "AveragePool",
        image,
        rank=spatial + 2,
        kernel_shape=kernel,
        strides=spread(stride, spatial) if stride else kernel,
        pads=[*pads, *pads],
        ceil_mode=int(ceil_mode),
        count_include_pad=int(count_include_pad or divisor_override is not None),
    )
    if divisor_override is not None:
        y = b.op("Mul", y, b.scalar(math.prod(kernel) / divisor_override, y.dtype))
    y = b.cast(y, x.dtype)
    return b.squeeze(y, 0) if added else y


@lowering("aten.avg_pool1d.default")
def avg_pool1d(b: Builder, x: Value, *arguments: object) -> Value:
    return _average_pool(b, 1, x, *arguments)  # type: ignore[arg-type]


@lowering("aten.avg_pool2d.default")
def avg_pool2d(b: Builder, x: Value, *arguments: object) -> Value:
    return _average_pool(b, 2, x, *arguments)  # type: ignore[arg-type]


@lowering("aten.avg_pool3d.default")
def avg_pool3d(b: Builder, x: Value, *arguments: object) -> Value:
    return _average_pool(b, 3, x, *arguments)  # type: ignore[arg-type]


def _adaptive(b: Builder, spatial: int, x: Value, output_size: Sequence[int]) -> Value:
    if all(size == 1 for size in output_size):
        return b.reduce("ReduceMean", x, list(range(-spatial, 0)), True)
    sizes = x.static_shape("adaptive pooling", -spatial)
    if all(size % out == 0 for size, out in zip(sizes, output_size, strict=True)):
        kernel = [size // out for size, out in zip(sizes, output_size, strict=True)]
        return _average_pool(b, spatial, x, kernel, kernel)
    # Windows of unequal size: along each dimension a product with a matrix of 1/size entries.
    if x.dtype in (torch.float16, torch.bfloat16):
        return b.cast(_adaptive(b, spatial, b.cast(x, torch.float32), output_size), x.dtype)
    for i, (size, out) in enumerate(zip(sizes, output_size, strict=True)):
        dim = x.rank - spatial + i
        matrix = np.zeros((size, out))
        for o in range(out):
            begin, end = o * size // out, -(-(o + 1) * size // out)
            matrix[begin:end, o] = 1.0 / (end - begin)
        weights = b.tensor(torch.from_numpy(matrix).to(x.dtype), "windows")
        order = [d for d in range(x.rank) if d != dim] + [dim]
        moved = b.op("MatMul", b.transpose(x, order), weights, rank=x.rank)
        shape = None if x.shape is None else (*x.shape[:dim], out, *x.shape[dim + 1 :])
        back = b.transpose(moved, [order.index(d) for d in range(x.rank)])
        x = Value(back.id, back.dtype, shape, x.rank)
    return x


@lowering("aten._adaptive_avg_pool2d.default", "aten.adaptive_avg_pool2d.default")
def adaptive_avg_pool2d(b: Builder, x: Value, output_size: Sequence[int]) -> Value:
    return _adaptive(b, 2, x, output_size)


@lowering("aten._adaptive_avg_pool3d.default", "aten.adaptive_avg_pool3d.default")
def adaptive_avg_pool3d(b: Builder, x: Value, output_size: Sequence[int]) -> Value:
    return _adaptive(b, 3, x, output_size)


@lowering("aten.adaptive_avg_pool1d.default")
def adaptive_avg_pool1d(b: Builder, x: Value, output_size: Sequence[int]) -> Value:
    return _adaptive(b, 1, x, output_size)


@lowering("aten.adaptive_max_pool2d.default")
def adaptive_max_pool2d(b: Builder, x: Value, output_size: Sequence[int]) -> list[Value | None]:
    sizes = x.static_shape("adaptive pooling", -2)
    if any(size % out for size, out in zip(sizes, output_size, strict=True)):
        raise Unsupported("adaptive max pooling with windows of unequal size")
    kernel = [size // out for size, out in zip(sizes, output_size, strict=True)]
    return _max_pool(b, 2, x, kernel)
