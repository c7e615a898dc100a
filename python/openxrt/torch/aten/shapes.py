# SPDX-License-Identifier: Apache-2.0
"""Views, slices, joins, padding and resizing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..._core import Unsupported
from ..builder import Builder, Int, Number, Value
from ..registry import lowering, rewriting

_END = 2**63 - 1


@lowering(
    "aten.view.default",
    "aten.reshape.default",
    "aten._unsafe_view.default",
    "aten._reshape_copy.default",
    "prims.view_of.default",
)
def view(b: Builder, x: Value, size: Sequence[Int] | None = None) -> Value:
    return x if size is None else b.reshape(x, size)


@lowering("aten.flatten.using_ints")
def flatten(b: Builder, x: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    if x.rank == 0:
        return b.reshape(x, [1])
    start, end = start_dim % x.rank, end_dim % x.rank
    sizes: list[Int] = [b.dim_size(x, dim) for dim in range(start)]
    sizes.append(-1)
    sizes += [b.dim_size(x, dim) for dim in range(end + 1, x.rank)]
    return b.reshape(x, sizes)


@lowering("aten.permute.default")
def permute(b: Builder, x: Value, dims: Sequence[int]) -> Value:
    return b.transpose(x, [dim % x.rank for dim in dims])


@lowering("aten.transpose.int")
def transpose(b: Builder, x: Value, dim0: int, dim1: int) -> Value:
    order = list(range(x.rank))
    if order:
        order[dim0 % x.rank], order[dim1 % x.rank] = dim1 % x.rank, dim0 % x.rank
    return b.transpose(x, order)


@lowering("aten.t.default")
def t(b: Builder, x: Value) -> Value:
    return b.transpose(x, [1, 0]) if x.rank == 2 else x


@lowering("aten.unsqueeze.default")
def unsqueeze(b: Builder, x: Value, dim: int) -> Value:
    return b.unsqueeze(x, dim % (x.rank + 1))


@lowering("aten.squeeze.dim")
def squeeze_dim(b: Builder, x: Value, dim: int) -> Value:
    return squeeze_dims(b, x, [dim])


@lowering("aten.squeeze.dims")
def squeeze_dims(b: Builder, x: Value, dims: Sequence[int]) -> Value:
    if x.rank == 0 or x.shape is None:
        return x
    # A dimension that is not 1 stays; one that is symbolic is not 1 (PyTorch specialises 0 and 1).
    ones = [dim % x.rank for dim in dims if _is_one(x.shape[dim % x.rank])]
    return b.squeeze(x, *ones) if ones else x


@lowering("aten.squeeze.default")
def squeeze(b: Builder, x: Value) -> Value:
    return squeeze_dims(b, x, list(range(x.rank)))


def _is_one(size: object) -> bool:
    return isinstance(size, int) and size == 1


@lowering("aten.expand.default")
def expand(b: Builder, x: Value, size: Sequence[Int], *, implicit: bool = False) -> Value:
    # −1 keeps a size, which is what 1 means to Expand.
    sizes: list[Int] = [1 if isinstance(s, int) and s == -1 else s for s in size]
    return b.op("Expand", x, b.vector(sizes), rank=len(sizes))


@lowering("aten.repeat.default")
def repeat(b: Builder, x: Value, repeats: Sequence[Int]) -> Value:
    added = len(repeats) - x.rank
    wide = b.unsqueeze(x, *range(added)) if added > 0 else x
    return b.op("Tile", wide, b.vector(repeats), rank=len(repeats))


@lowering("aten.cat.default")
def cat(b: Builder, tensors: Sequence[Value], dim: int = 0) -> Value:
    # A tensor of shape [0] is skipped whatever the others' rank: PyTorch's old way to start a list.
    parts = [x for x in tensors if not (x.rank == 1 and x.shape is not None and x.shape[0] == 0)]
    parts = parts or list(tensors)[:1]
    parts = b.promote(*parts) if len({x.dtype for x in tensors}) > 1 else parts
    if len(parts) == 1:
        return parts[0]
    return b.op("Concat", *parts, axis=dim % parts[0].rank, rank=parts[0].rank)


@lowering("aten.stack.default")
def stack(b: Builder, tensors: Sequence[Value], dim: int = 0) -> Value:
    dim %= tensors[0].rank + 1
    return cat(b, [b.unsqueeze(x, dim) for x in tensors], dim)


@lowering("aten.split_with_sizes.default")
def split_with_sizes(b: Builder, x: Value, sizes: Sequence[Int], dim: int = 0) -> list[Value]:
    if len(sizes) == 1:
        return [x]
    return b.ops(
        "Split", x, b.vector(sizes), dtypes=[x.dtype] * len(sizes), rank=x.rank, axis=dim % x.rank
    )


@lowering("aten.split.Tensor")
def split(b: Builder, x: Value, size: int, dim: int = 0) -> list[Value]:
    if x.shape is None or not isinstance(x.shape[dim], int):
        raise Unsupported("split of a dimension that is symbolic")
    total = x.shape[dim]
    sizes = [size] * (total // size) + ([total % size] if total % size else [])
    return split_with_sizes(b, x, sizes, dim)


@lowering("aten.chunk.default")
def chunk(b: Builder, x: Value, chunks: int, dim: int = 0) -> list[Value]:
    if x.shape is None or not isinstance(x.shape[dim], int):
        raise Unsupported("chunk of a dimension that is symbolic")
    return split(b, x, -(-x.shape[dim] // chunks), dim)


@lowering("aten.unbind.int")
def unbind(b: Builder, x: Value, dim: int = 0) -> list[Value]:
    count = x.static_shape("unbind")[dim]
    return [select(b, x, dim, i) for i in range(count)]


@lowering("aten.select.int")
def select(b: Builder, x: Value, dim: int, index: Int) -> Value:
    position = b.scalar(index, torch.int64) if isinstance(index, int) else index
    return b.op("Gather", x, position, axis=dim % x.rank, rank=x.rank - 1)


@lowering("aten.slice.Tensor")
def slice(
    b: Builder,
    x: Value,
    dim: int = 0,
    start: Int | None = None,
    end: Int | None = None,
    step: Int = 1,
) -> Value:
    start = 0 if start is None else start
    end = _END if end is None else end
    if start == 0 and isinstance(end, int) and end == _END and step == 1:
        return x
    return b.slice(x, dim % x.rank, start, end, step)


@lowering("aten.narrow.default")
def narrow(b: Builder, x: Value, dim: int, start: int, length: int) -> Value:
    return b.slice(x, dim % x.rank, start, start + length)


@lowering("aten.flip.default")
def flip(b: Builder, x: Value, dims: Sequence[int]) -> Value:
    if not dims or x.rank == 0:
        return x
    axes = [dim % x.rank for dim in dims]
    n = len(axes)
    return b.op(
        "Slice",
        x,
        b.ints([-1] * n),
        b.ints([-(2**63)] * n),
        b.ints(axes),
        b.ints([-1] * n),
        shape=x.shape,
    )


@lowering("aten.roll.default")
def roll(b: Builder, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    if not dims:
        flat = roll(b, b.reshape(x, [-1]), shifts, [0])
        return b.reshape(flat, [b.dim_size(x, dim) for dim in range(x.rank)])
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.static_size(dim, "roll")
        cut = -shift % size if size else 0
        if cut:
            parts = [b.slice(x, dim % x.rank, cut, _END), b.slice(x, dim % x.rank, 0, cut)]
            x = b.op("Concat", *parts, axis=dim % x.rank, shape=x.shape)
    return x


@lowering("aten.diagonal.default")
def diagonal(b: Builder, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    dim1, dim2 = dim1 % x.rank, dim2 % x.rank
    others = [dim for dim in range(x.rank) if dim not in (dim1, dim2)]
    moved = b.transpose(x, [dim1, dim2, *others])
    rows, columns = (x.static_size(dim, "a diagonal") for dim in (dim1, dim2))
    length = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    along = np.arange(length, dtype=np.int64)
    index = np.stack([along - min(offset, 0), along + max(offset, 0)], axis=-1)
    picked = b.op("GatherND", moved, b.array(index), rank=x.rank - 1)
    return b.transpose(picked, [*range(1, x.rank - 1), 0])


@lowering("aten.diagonal_scatter.default")
def diagonal_scatter(
    b: Builder, x: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    dim1, dim2 = dim1 % x.rank, dim2 % x.rank
    order = [dim1, dim2, *[dim for dim in range(x.rank) if dim not in (dim1, dim2)]]
    rows, columns = (x.static_size(dim, "a diagonal") for dim in (dim1, dim2))
    length = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    along = np.arange(length, dtype=np.int64)
    index = np.stack([along - min(offset, 0), along + max(offset, 0)], axis=-1)
    # The diagonal is the last dimension of what is written.
    updates = b.transpose(b.cast(src, x.dtype), [x.rank - 2, *range(x.rank - 2)])
    moved = b.transpose(x, order)
    written = b.op("ScatterND", moved, b.array(index), updates, rank=x.rank, shape=moved.shape)
    return b.transpose(written, [order.index(dim) for dim in range(x.rank)])


@lowering("aten.tril.default")
def tril(b: Builder, x: Value, diagonal: int = 0) -> Value:
    return b.op("Trilu", x, b.scalar(diagonal, torch.int64), shape=x.shape, upper=0)


@lowering("aten.triu.default")
def triu(b: Builder, x: Value, diagonal: int = 0) -> Value:
    return b.op("Trilu", x, b.scalar(diagonal, torch.int64), shape=x.shape, upper=1)


# --- padding --------------------------------------------------------------------------------------


def _pad(b: Builder, x: Value, pad: Sequence[Int], mode: str, value: Value | None = None) -> Value:
    """`pad` as PyTorch has it: (begin, end) pairs, the last dimension first."""
    begins: list[Int] = [0] * x.rank
    ends: list[Int] = [0] * x.rank
    for i in range(len(pad) // 2):
        begins[x.rank - 1 - i] = pad[2 * i]
        ends[x.rank - 1 - i] = pad[2 * i + 1]
    return b.op("Pad", x, b.vector(begins + ends), value, mode=mode)


@lowering("aten.constant_pad_nd.default")
def constant_pad(b: Builder, x: Value, pad: Sequence[Int], value: Number = 0) -> Value:
    return _pad(b, x, pad, "constant", b.scalar(value, x.dtype))


@lowering(
    "aten.reflection_pad1d.default",
    "aten.reflection_pad2d.default",
    "aten.reflection_pad3d.default",
)
def reflection_pad(b: Builder, x: Value, padding: Sequence[Int]) -> Value:
    return _pad(b, x, padding, "reflect")


@lowering(
    "aten.replication_pad1d.default",
    "aten.replication_pad2d.default",
    "aten.replication_pad3d.default",
)
def replication_pad(b: Builder, x: Value, padding: Sequence[Int]) -> Value:
    return _pad(b, x, padding, "edge")


# --- sampling -------------------------------------------------------------------------------------


def _with_border(b: Builder, x: Value, grid: Value, align_corners: bool) -> tuple[Value, Value]:
    """The image with three more elements around it, and the same places in it: PyTorch holds the
    neighbours of a place within the image, ONNX the place itself."""
    sizes = np.array(x.static_shape("grid_sampler with a border", 2)[::-1], np.float64)
    margin = 3
    wide = sizes + 2 * margin
    lost = 1 if align_corners else 0
    # place = (g + 1) * (size - lost) / 2 - (0 if align_corners else 0.5), 2 more on each side
    low = b.array(
        ((-2 + (0.5 - lost / 2)) * 2 / np.maximum(sizes - lost, 1) - 1).astype(np.float32)
    )
    high = b.array(
        ((sizes + 1 + (0.5 - lost / 2)) * 2 / np.maximum(sizes - lost, 1) - 1).astype(np.float32)
    )
    factor = b.array(((sizes - lost) / (wide - lost)).astype(np.float32))
    shift = b.array((((sizes - lost) + 2 * margin) / (wide - lost) - 1).astype(np.float32))
    low, high, factor, shift = (b.cast(v, grid.dtype) for v in (low, high, factor, shift))
    held = b.op("Min", b.op("Max", grid, low, rank=grid.rank), high, rank=grid.rank)
    moved = b.op("Add", b.op("Mul", held, factor, rank=grid.rank), shift, rank=grid.rank)
    pads = [0, 0, margin, margin] * 2
    return b.op("Pad", x, b.ints(pads), mode="edge", rank=x.rank), moved


@lowering("aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default")
def grid_sampler(
    b: Builder,
    x: Value,
    grid: Value,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Value:
    if interpolation_mode == 2 and padding_mode == 1:
        x, grid = _with_border(b, x, grid, align_corners)
        padding_mode = 0
    return b.op(
        "GridSample",
        x,
        grid,
        rank=x.rank,
        mode=["linear", "nearest", "cubic"][interpolation_mode],
        padding_mode=["zeros", "border", "reflection"][padding_mode],
        align_corners=int(align_corners),
    )


@lowering("aten.grid_sampler_2d_backward.default", "aten.grid_sampler_3d_backward.default")
def grid_sampler_backward(
    b: Builder,
    gradient: Value,
    x: Value,
    grid: Value,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> list[Value | None]:
    y = grid_sampler(b, x, grid, interpolation_mode, padding_mode, align_corners)
    b.graph.finish()  # the rule wants sizes
    wanted = [value for value, wants in zip((x, grid), output_mask, strict=True) if wants]
    made = iter(b.graph.gradients(y.id, [v.id for v in wanted], gradient.id, allow_unused=True))
    return [
        Value(next(made), value.dtype, value.shape) if wants else None
        for value, wants in zip((x, grid), output_mask, strict=True)
    ]


@lowering("aten.pixel_shuffle.default")
def pixel_shuffle(b: Builder, x: Value, upscale_factor: int) -> Value:
    if x.rank != 4:
        raise Unsupported("pixel_shuffle of a tensor that has not 4 dimensions")
    return b.op("DepthToSpace", x, blocksize=upscale_factor, mode="CRD")


@lowering("aten.col2im.default")
def col2im(
    b: Builder,
    x: Value,
    output_size: Sequence[Int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    batched = x if x.rank == 3 else b.unsqueeze(x, 0)
    image = b.op(
        "Col2Im",
        batched,
        b.vector(output_size),
        b.ints(kernel_size),
        rank=4,
        dilations=list(dilation),
        pads=[*padding, *padding],
        strides=list(stride),
    )
    return image if x.rank == 3 else b.squeeze(image, 0)


@lowering("aten.im2col.default")
def im2col(
    b: Builder,
    x: Value,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    shape = x.static_shape("im2col")
    batched = x if x.rank == 4 else b.unsqueeze(x, 0)
    channels, height, width = shape[-3:]
    padded = _pad(b, batched, [padding[1], padding[1], padding[0], padding[0]], "constant")
    padded_width = width + 2 * padding[1]

    def starts(size: int, axis: int) -> np.ndarray:
        reach = dilation[axis] * (kernel_size[axis] - 1) + 1
        return np.arange(0, size + 2 * padding[axis] - reach + 1, stride[axis], dtype=np.int64)

    rows = starts(height, 0)[None, :] + (np.arange(kernel_size[0]) * dilation[0])[:, None]
    columns = starts(width, 1)[None, :] + (np.arange(kernel_size[1]) * dilation[1])[:, None]
    # [kernel row, kernel column, row, column] → position within a plane
    flat = rows[:, None, :, None] * padded_width + columns[None, :, None, :]
    window, places = kernel_size[0] * kernel_size[1], rows.shape[1] * columns.shape[1]
    planes = b.reshape(padded, [b.dim_size(batched, 0), channels, -1])
    picked = b.op("Gather", planes, b.array(flat.reshape(window, places)), axis=2, rank=4)
    result = b.reshape(picked, [b.dim_size(batched, 0), channels * window, places])
    return result if x.rank == 4 else b.squeeze(result, 0)


@rewriting("aten.resize.default")
def resize(x: Tensor, size: Sequence[int], *, memory_format: object = None) -> Tensor:
    """What there is of a dense tensor, and zeros."""
    if not x.is_contiguous():
        return NotImplemented
    flat, count = x.reshape(-1), math.prod(size)
    if count > x.numel():
        flat = torch.cat([flat, flat.new_zeros(count - x.numel())])
    return flat[:count].reshape(size)


@rewriting("aten.lift.default", "aten._lazy_clone.default")
def lift(x: Tensor) -> Tensor:
    return x.clone()
