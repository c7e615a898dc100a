# SPDX-License-Identifier: Apache-2.0
"""Ops outside Core ATen, written in PyTorch's own ops that have lowerings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..registry import rewriting

aten = torch.ops.aten

# --- along a dimension ----------------------------------------------------------------------------


@rewriting("aten.logcumsumexp.default")
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """Sums of 2, 4, 8, … neighbours."""
    if x.dim() == 0:
        return x.clone()
    size, step = x.shape[dim], 1
    while step < size:
        head = x.narrow(dim, 0, step)
        x = torch.cat(
            [head, torch.logaddexp(x.narrow(dim, step, size - step),
                                   x.narrow(dim, 0, size - step))], dim,
        )  # fmt: skip
        step *= 2
    return x


def _running(name: str, wins: Callable[[Tensor, Tensor], Tensor]) -> None:
    def rewrite(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
        if x.dim() == 0:
            return x.clone(), torch.zeros_like(x, dtype=torch.int64)
        size, step = x.shape[dim], 1
        shape = [1] * x.dim()
        shape[dim] = size
        places = torch.arange(size).reshape(shape).expand(x.shape)
        while step < size:
            rest = size - step
            new, old = x.narrow(dim, step, rest), x.narrow(dim, 0, rest)
            stays = wins(new, old)
            if x.is_floating_point():
                stays = stays | torch.isnan(new)
            chosen = torch.where(stays, places.narrow(dim, step, rest), places.narrow(dim, 0, rest))
            places = torch.cat([places.narrow(dim, 0, step), chosen], dim)
            x = torch.cat([x.narrow(dim, 0, step), torch.where(stays, new, old)], dim)
            step *= 2
        return x, places

    rewriting(f"aten.{name}.default")(rewrite)


_running("cummax", torch.ge)
_running("cummin", torch.le)


def _median(x: Tensor, dim: int, keepdim: bool, skip_nan: bool) -> tuple[Tensor, Tensor]:
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    size = x.shape[dim]
    if not x.is_floating_point():
        ordered, places = torch.sort(x, dim=dim, stable=True)
        middle = [t.narrow(dim, (size - 1) // 2, 1) for t in (ordered, places)]
        return tuple(t if keepdim else t.squeeze(dim) for t in middle)  # type: ignore[return-value]
    empty = torch.isnan(x)
    ordered, places = torch.sort(torch.where(empty, math.inf, x), dim=dim, stable=True)
    some = empty.any(dim, keepdim=True)
    if skip_nan:
        count = (~empty).to(torch.int64).sum(dim, keepdim=True)
        at = torch.div((count - 1).clamp(min=0), 2, rounding_mode="floor")
        some = count == 0
    else:
        at = torch.full_like(some, (size - 1) // 2, dtype=torch.int64)
    value, place = torch.gather(ordered, dim, at), torch.gather(places, dim, at)
    value = torch.where(some, math.nan, value)
    place = torch.where(some, empty.to(torch.int64).argmax(dim, keepdim=True), place)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


@rewriting("aten.median.dim")
def median_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return _median(x, dim, keepdim, False)


@rewriting("aten.nanmedian.dim")
def nanmedian_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return _median(x, dim, keepdim, True)


@rewriting("aten.median.default")
def median(x: Tensor) -> Tensor:
    return _median(x.reshape(-1), 0, False, False)[0]


@rewriting("aten.nanmedian.default")
def nanmedian(x: Tensor) -> Tensor:
    return _median(x.reshape(-1), 0, False, True)[0]


@rewriting("aten.mode.default")
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest of the most frequent values, and its last place."""
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    moved = x.movedim(dim, -1)
    counts = (moved.unsqueeze(-1) == moved.unsqueeze(-2)).to(torch.int64).sum(-1)
    most = counts == counts.amax(-1, keepdim=True)
    largest = math.inf if x.is_floating_point() else torch.iinfo(torch.int64).max
    wide = moved if x.is_floating_point() else moved.to(torch.int64)
    value = torch.where(most, wide, largest).amin(-1, keepdim=True).to(x.dtype)
    along = torch.arange(moved.shape[-1])
    place = torch.where(moved == value, along, -1).amax(-1, keepdim=True)
    results = [t.movedim(-1, dim) for t in (value, place)]
    return tuple(t if keepdim else t.squeeze(dim) for t in results)  # type: ignore[return-value]


# --- writing at places ----------------------------------------------------------------------------


@rewriting("aten.scatter_reduce.two")
def scatter_mean(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if reduce != "mean":
        return NotImplemented
    ones = torch.ones_like(index, dtype=x.dtype)
    if src.shape != index.shape:
        src = src[tuple(slice(0, size) for size in index.shape)]
    count = torch.zeros_like(x).scatter_add(dim, index, ones)
    if include_self:
        base, count = x, count + 1
    else:
        base, count = torch.where(count > 0, 0, x), count.clamp(min=1)
    total = base.scatter_add(dim, index, src)
    if x.is_floating_point():
        return total / count
    return torch.div(total, count, rounding_mode="floor")


@rewriting("aten.index_reduce.default")
def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if x.dim() == 0:
        x1, source = x.reshape(1), source.reshape(1)
        return index_reduce(x1, 0, index, source, reduce, include_self=include_self).reshape([])
    shape = [1] * x.dim()
    shape[dim] = -1
    places = index.to(torch.int64).reshape(shape).expand(source.shape)
    return x.scatter_reduce(dim, places, source, reduce, include_self=include_self)


@rewriting("aten.put.default")
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    flat = x.reshape(-1)
    written = flat.index_put((index.reshape(-1),), source.reshape(-1), accumulate)
    return written.reshape(x.shape)


@rewriting("aten.as_strided_scatter.default")
def as_strided_scatter(
    x: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    if not x.is_contiguous() or x.storage_offset():
        return NotImplemented
    places = torch.full([], storage_offset or 0, dtype=torch.int64)
    for length, step in zip(size, stride, strict=True):
        places = places.unsqueeze(-1) + torch.arange(length) * step
    written = x.reshape(-1).index_put((places.reshape(-1),), src.reshape(-1))
    return written.reshape(x.shape)


# --- counts ---------------------------------------------------------------------------------------


def _counted(x: Tensor, low: Tensor, high: Tensor, bins: int, weight: Tensor) -> Tensor:
    inside = (x >= low) & (x <= high)
    place = torch.floor((x - low) / (high - low) * bins).clamp(0, bins - 1)
    place = torch.where(inside, place, 0).to(torch.int64)
    counted = torch.where(inside, weight, 0)
    return torch.zeros(bins, dtype=weight.dtype).scatter_add(0, place, counted)


def _range(x: Tensor, low: float, high: float, margin: float = 1.0) -> tuple[Tensor, Tensor]:
    """The limits; those of the data where both are 0. They are `margin` apart at least."""
    if low != high:
        return torch.full([], low, dtype=x.dtype), torch.full([], high, dtype=x.dtype)
    if x.numel() == 0 or low != 0:
        first = last = torch.full([], low, dtype=x.dtype)
    else:
        first, last = x.amin(), x.amax()
    same = first == last
    return torch.where(same, first - margin, first), torch.where(same, last + margin, last)


@rewriting("aten.histc.default")
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    if not x.is_floating_point():
        return NotImplemented
    flat = x.reshape(-1)
    return _counted(flat, *_range(flat, min, max), bins, torch.ones_like(flat))


@rewriting("aten.histogram.bin_ct")
def histogram(
    x: Tensor,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    flat = x.reshape(-1)
    low, high = _range(flat, *(range or (0, 0)), margin=0.5)
    weights = torch.ones_like(flat) if weight is None else weight.reshape(-1).to(x.dtype)
    counts = _counted(flat, low, high, bins, weights)
    edges = low + (high - low) * (torch.arange(bins + 1, dtype=x.dtype) / bins)
    if density:
        counts = counts / (counts.sum() * (high - low) / bins)
    return counts, edges


@rewriting("aten.histogram.bins_tensor")
def histogram_of_edges(
    x: Tensor, bins: Tensor, *, weight: Tensor | None = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    flat, count = x.reshape(-1), bins.shape[0] - 1
    weights = torch.ones_like(flat) if weight is None else weight.reshape(-1).to(x.dtype)
    inside = (flat >= bins[0]) & (flat <= bins[-1])
    place = (torch.searchsorted(bins, flat, right=True) - 1).clamp(0, count - 1)
    counted = torch.where(inside, weights, 0)
    counts = torch.zeros(count, dtype=x.dtype).scatter_add(0, place, counted)
    if density:
        counts = counts / counts.sum() / (bins[1:] - bins[:-1])
    return counts, bins.clone()


# --- layers ---------------------------------------------------------------------------------------


@rewriting("aten._trilinear.default")
def trilinear(
    first: Tensor,
    second: Tensor,
    third: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    wide = []
    for tensor, dims in ((first, expand1), (second, expand2), (third, expand3)):
        for dim in sorted(dims):
            tensor = tensor.unsqueeze(dim)
        wide.append(tensor)
    product = wide[0] * wide[1] * wide[2]
    return product.sum(list(sumdim)) if sumdim else product


@rewriting("aten.rrelu_with_noise_functional.default")
def rrelu(
    x: Tensor,
    noise: Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: object = None,
) -> tuple[Tensor, Tensor]:
    if not training:
        return torch.where(x > 0, x, x * ((lower + upper) / 2)), noise.clone()
    slopes = torch.where(x > 0, 1.0, torch.rand_like(x) * (upper - lower) + lower)
    return x * slopes, slopes


@rewriting("aten.rrelu_with_noise_backward.default")
def rrelu_backward(
    gradient: Tensor,
    x: Tensor,
    noise: Tensor,
    lower: float,
    upper: float,
    training: bool,
    self_is_result: bool,
) -> Tensor:
    if training and upper - lower > 1e-6:
        return gradient * noise
    return torch.where(x > 0, gradient, gradient * ((lower + upper) / 2))


def _valid(indices: Tensor, padding_idx: int) -> Tensor | None:
    return None if padding_idx < 0 else (indices != padding_idx).unsqueeze(-1)


@rewriting("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The results, each row's bag, the sizes of the bags, and what won where the mode is max."""
    indices = indices.to(torch.int64)
    begins = (offsets[:-1] if include_last_offset else offsets).to(torch.int64)
    count, bags = indices.shape[0], begins.shape[0]
    places = torch.arange(count)
    # How many bags begin at or before a row, less one.
    bag = (places.unsqueeze(-1) >= begins).to(torch.int64).sum(-1) - 1
    rows = weight[indices]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    valid = _valid(indices, padding_idx)
    ones = torch.ones(count, dtype=torch.int64)
    if valid is not None:
        ones = valid.squeeze(-1).to(torch.int64)
    sizes = torch.zeros(bags, dtype=torch.int64).index_add(0, bag, ones)
    wide = bag.unsqueeze(-1).expand(rows.shape)
    if mode != 2:
        rows = rows if valid is None else torch.where(valid, rows, 0)
        total = rows.new_zeros(bags, rows.shape[1]).scatter_add(0, wide, rows)
        if mode == 1:
            total = total / sizes.clamp(min=1).unsqueeze(-1).to(total.dtype)
        return total, bag, sizes, sizes
    rows = rows if valid is None else torch.where(valid, rows, -math.inf)
    largest = rows.new_full((bags, rows.shape[1]), -math.inf)
    largest = largest.scatter_reduce(0, wide, rows, "amax")
    is_first = torch.where(rows == torch.gather(largest, 0, wide), places.unsqueeze(-1), count)
    first = torch.full((bags, rows.shape[1]), count, dtype=torch.int64)
    first = first.scatter_reduce(0, wide, is_first, "amin")
    some = (sizes > 0).unsqueeze(-1)
    won = torch.where(some, indices[first.clamp(max=max(count - 1, 0))], -1)
    return torch.where(some, largest, 0), bag, sizes, won


@rewriting("aten._embedding_bag_dense_backward.default")
def embedding_bag_backward(
    gradient: Tensor,
    indices: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    if scale_grad_by_freq:
        return NotImplemented
    none = gradient.new_zeros(num_weights, gradient.shape[1])
    if mode == 2:
        won = maximum_indices
        return none.scatter_add(0, won.clamp(min=0), torch.where(won >= 0, gradient, 0))
    if mode == 1:
        gradient = gradient / bag_size.clamp(min=1).unsqueeze(-1).to(gradient.dtype)
    rows = gradient[offset2bag]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    valid = _valid(indices, padding_idx)
    rows = rows if valid is None else torch.where(valid, rows, 0)
    return none.scatter_add(0, indices.to(torch.int64).unsqueeze(-1).expand(rows.shape), rows)


@rewriting("aten._embedding_bag_backward.default")
def embedding_bag_backward_of_either_kind(
    gradient: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    if sparse:
        return NotImplemented
    return embedding_bag_backward(
        gradient, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq,
        mode, per_sample_weights, padding_idx,
    )  # fmt: skip


@rewriting("aten._embedding_bag_per_sample_weights_backward.default")
def embedding_bag_weights_backward(
    gradient: Tensor,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    mode: int,
    padding_idx: int = -1,
) -> Tensor:
    products = (gradient[offset2bag] * weight[indices.to(torch.int64)]).sum(-1)
    valid = _valid(indices, padding_idx)
    return products if valid is None else torch.where(valid.squeeze(-1), products, 0)


@rewriting("aten.avg_pool2d.default")
def avg_pool2d(
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] | int = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Sums over windows that stick out, which ONNX divides by what is inside: the picture is made
    larger by zeros."""
    if not ceil_mode or divisor_override is None:
        return NotImplemented
    kernel = list(kernel_size) * (2 // len(kernel_size))
    pads = [padding] * 2 if isinstance(padding, int) else list(padding) * (2 // len(padding))
    steps = list(stride) * (2 // len(stride)) if stride else kernel
    margins: list[int] = []
    for size, k, step, pad in zip(x.shape[-2:], kernel, steps, pads, strict=True):
        out = -(-(size + 2 * pad - k) // step) + 1
        out -= int((out - 1) * step >= size + pad)  # no window begins in the padding behind
        margins = [pad, max((out - 1) * step + k - size - pad, 0), *margins]
    wide = torch.nn.functional.pad(x, margins)
    return aten.avg_pool2d(wide, kernel, steps, [0, 0], False, True, divisor_override)


@rewriting("aten.adaptive_max_pool2d.default")
def adaptive_max_pool2d(x: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Windows of unequal size: each is padded with its own last row or column."""
    sizes = x.shape[-2:]
    if all(size % out == 0 for size, out in zip(sizes, output_size, strict=True)):
        return NotImplemented
    tables = []
    for size, out in zip(sizes, output_size, strict=True):
        reach = max(-(-(o + 1) * size // out) - o * size // out for o in range(out))
        along = torch.arange(out)
        begins = torch.div(along * size, out, rounding_mode="floor")
        ends = torch.div(along * size + size + out - 1, out, rounding_mode="floor")
        windows = begins.unsqueeze(-1) + torch.arange(reach)
        tables.append(torch.minimum(windows, ends.unsqueeze(-1) - 1))
    rows, columns = tables
    positions = rows[:, None, :, None] * sizes[1] + columns[None, :, None, :]
    positions = positions.reshape(*output_size, -1)
    windows = x.flatten(-2)[..., positions]
    value, place = windows.max(-1)
    wide = positions.expand(*windows.shape)
    return value, torch.gather(wide, -1, place.unsqueeze(-1)).squeeze(-1)


def _scattered(gradient: Tensor, x: Tensor, indices: Tensor, spatial: int) -> Tensor:
    """What each window took goes back to its place."""
    zeros = torch.zeros_like(x).flatten(-spatial)
    return zeros.scatter_add(-1, indices.flatten(-spatial), gradient.flatten(-spatial)).reshape(
        x.shape
    )


@rewriting("aten.adaptive_max_pool2d_backward.default")
def adaptive_max_pool2d_backward(gradient: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    return _scattered(gradient, x, indices, 2)


@rewriting("aten.adaptive_max_pool3d_backward.default")
def adaptive_max_pool3d_backward(gradient: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    return _scattered(gradient, x, indices, 3)


@rewriting("aten.max_pool3d_with_indices_backward.default")
def max_pool3d_backward(
    gradient: Tensor,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    return _scattered(gradient, x, indices, 3)


@rewriting("aten.avg_pool3d_backward.default")
def avg_pool3d_backward(
    gradient: Tensor,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    """A transposed convolution with a kernel of equal weights."""
    kernel = list(kernel_size) * (3 // len(kernel_size))
    pads = list(padding) * (3 // len(padding))
    steps = list(stride) * (3 // len(stride)) if stride else kernel
    if ceil_mode or (any(pads) and not count_include_pad and divisor_override is None):
        return NotImplemented
    planes = gradient.reshape(-1, 1, *gradient.shape[-3:])
    weight = torch.full((1, 1, *kernel), 1 / (divisor_override or math.prod(kernel)), dtype=x.dtype)
    rest = [
        size - ((out - 1) * step - 2 * pad + k)
        for size, out, step, pad, k in zip(
            x.shape[-3:], gradient.shape[-3:], steps, pads, kernel, strict=True
        )
    ]
    spread = aten.convolution(planes, weight, None, steps, pads, [1] * 3, True, rest, 1)
    return spread.reshape(x.shape)


@rewriting("aten._adaptive_avg_pool3d_backward.default")
def adaptive_avg_pool3d_backward(gradient: Tensor, x: Tensor) -> Tensor:
    """Along each dimension a product with a matrix of each window's 1/size."""
    for dim in range(x.dim() - 3, x.dim()):
        size, out = x.shape[dim], gradient.shape[dim]
        window, place = torch.arange(out).unsqueeze(-1), torch.arange(size)
        begins = torch.div(window * size, out, rounding_mode="floor")
        ends = torch.div(window * size + size + out - 1, out, rounding_mode="floor")
        inside = (place >= begins) & (place < ends)
        weights = inside.to(x.dtype) / (ends - begins).to(x.dtype)
        gradient = (gradient.movedim(dim, -1) @ weights).movedim(-1, dim)
    return gradient


@rewriting(
    "aten.replication_pad1d_backward.default",
    "aten.replication_pad2d_backward.default",
    "aten.replication_pad3d_backward.default",
)
def replication_pad_backward(gradient: Tensor, x: Tensor, padding: Sequence[int]) -> Tensor:
    for i in range(len(padding) // 2):
        dim = x.dim() - 1 - i
        source = (torch.arange(gradient.shape[dim]) - padding[2 * i]).clamp(0, x.shape[dim] - 1)
        shape = list(gradient.shape)
        shape[dim] = x.shape[dim]
        gradient = gradient.new_zeros(shape).index_add(dim, source, gradient)
    return gradient


@rewriting("aten.masked_scatter_backward.default")
def masked_scatter_backward(gradient: Tensor, mask: Tensor, sizes: Sequence[int]) -> Tensor:
    count = math.prod(sizes)
    flat = mask.expand(gradient.shape).reshape(-1)
    place = torch.where(flat, torch.cumsum(flat.to(torch.int64), 0) - 1, count)
    taken = gradient.new_zeros(count + 1).scatter(0, place, gradient.reshape(-1))
    return taken[:count].reshape(sizes)


def _slopes(difference: Tensor, p: float, distance: Tensor) -> Tensor:
    """Of a distance in each coordinate's difference."""
    size = difference.abs()
    if p == 0:
        return torch.zeros_like(difference)
    if p == 1:
        return torch.sign(difference)
    if math.isinf(p):
        return torch.sign(difference) * (size == distance)
    slopes = torch.sign(difference) * (size / distance) ** (p - 1)
    slopes = torch.where(distance == 0, 0, slopes)
    return torch.where(size == 0, 0, slopes) if p < 1 else slopes


@rewriting("aten._cdist_backward.default")
def cdist_backward(
    gradient: Tensor, first: Tensor, second: Tensor, p: float, distance: Tensor
) -> Tensor:
    difference = first.unsqueeze(-2) - second.unsqueeze(-3)
    return (gradient.unsqueeze(-1) * _slopes(difference, p, distance.unsqueeze(-1))).sum(-2)


@rewriting("aten._pdist_backward.default")
def pdist_backward(gradient: Tensor, x: Tensor, p: float, distance: Tensor) -> Tensor:
    rows = torch.arange(x.shape[0])
    square = rows.unsqueeze(-1) - rows  # > 0 below the diagonal
    pairs = math.comb(x.shape[0], 2)
    if pairs == 0:
        return torch.zeros_like(x)
    # The number of a pair counts through the rows of the upper triangle.
    count = x.shape[0]
    low, high = torch.minimum(rows.unsqueeze(-1), rows), torch.maximum(rows.unsqueeze(-1), rows)
    number = low * (2 * count - low - 1) // 2 + high - low - 1
    number = number.clamp(0, pairs - 1)
    off = (square != 0).to(x.dtype)
    wide, length = gradient[number] * off, distance[number]
    difference = x.unsqueeze(-2) - x.unsqueeze(-3)
    return (wide.unsqueeze(-1) * _slopes(difference, p, length.unsqueeze(-1))).sum(-2)


@rewriting("aten.batch_norm_backward.default")
def batch_norm_backward(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_var: Tensor | None,
    update: bool,
    eps: float,
    output_mask: Sequence[bool],
    reserve: Tensor,
) -> tuple[Tensor, ...]:
    statistics = (running_mean, running_var, save_mean, save_var)
    return aten.native_batch_norm_backward(
        gradient, x, weight, *statistics, update, eps, output_mask
    )


# --- numbers --------------------------------------------------------------------------------------


@rewriting("aten.frexp.Tensor")
def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    usual = torch.isfinite(x) & (x != 0)
    size = torch.where(usual, x.abs(), 1.0)
    exponent = torch.floor(torch.log2(size)) + 1
    mantissa = size / torch.exp2(exponent)
    # The logarithm of a number next to a power of two may round to the wrong side.
    exponent = torch.where(mantissa >= 1, exponent + 1, torch.where(mantissa < 0.5, exponent - 1,
                                                                    exponent))  # fmt: skip
    mantissa = torch.where(usual, x / torch.exp2(exponent), x)
    return mantissa, torch.where(usual, exponent, 0).to(torch.int32)


@rewriting("aten.lcm.default")
def lcm(x: Tensor, y: Tensor) -> Tensor:
    common = torch.gcd(x, y)
    divided = torch.div(x, torch.where(common == 0, 1, common), rounding_mode="trunc")
    return (divided * y).abs().to(torch.result_type(x, y))


# --- segments -------------------------------------------------------------------------------------


@rewriting("aten.segment_reduce.default")
def segment_reduce(
    x: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    given = lengths if lengths is not None else offsets
    if given is None or given.dim() != 1 or axis != 0:
        return NotImplemented
    if lengths is not None:
        ends, counts = torch.cumsum(lengths, 0), lengths
    else:
        ends, counts = given[1:], given[1:] - given[:-1]
    places = torch.arange(x.shape[0])
    segment = (places.unsqueeze(-1) >= ends).to(torch.int64).sum(-1)
    neutral = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}[reduce]
    start = neutral if initial is None else float(initial)
    shape = (ends.shape[0], *x.shape[1:])
    index = segment.reshape(-1, *[1] * (x.dim() - 1)).expand(x.shape)
    kind = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}[reduce]
    total = x.new_full(shape, start).scatter_reduce(0, index, x, kind)
    if reduce != "mean":
        return total
    count = counts.reshape(-1, *[1] * (x.dim() - 1)).to(x.dtype)
    empty = total if initial is not None else torch.full_like(total, math.nan)
    return torch.where(count == 0, empty, total / count.clamp(min=1))


# --- random numbers -------------------------------------------------------------------------------


@rewriting("aten.multinomial.default")
def multinomial(
    x: Tensor, num_samples: int, replacement: bool = False, *, generator: object = None
) -> Tensor:
    """The places of the largest of log p plus Gumbel noise."""
    logarithm = torch.log(x)
    if not replacement:
        noise = -torch.log(-torch.log(torch.rand_like(x).clamp(min=1e-30)))
        return (logarithm + noise).topk(num_samples, -1).indices
    wide = logarithm.unsqueeze(-2).expand(*x.shape[:-1], num_samples, x.shape[-1]).clone()
    noise = -torch.log(-torch.log(torch.rand_like(wide).clamp(min=1e-30)))
    return (wide + noise).argmax(-1)


@rewriting("aten.geometric.default")
def geometric(x: Tensor, p: float, *, generator: object = None) -> Tensor:
    drawn = torch.rand_like(x.to(torch.float32)).clamp(min=1e-30)
    return torch.ceil(torch.log(drawn) / math.log1p(-p)).clamp(min=1).to(x.dtype)


@rewriting("aten.cauchy.default")
def cauchy(
    x: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: object = None
) -> Tensor:
    return median + sigma * torch.tan(math.pi * (torch.rand_like(x) - 0.5))


@rewriting("aten.log_normal.default")
def log_normal(
    x: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: object = None
) -> Tensor:
    return torch.exp(torch.randn_like(x) * std + mean)


@rewriting("aten.normal.float_float")
def normal(
    mean: float, std: float, size: Sequence[int], *, generator: object = None,
    dtype: torch.dtype | None = None, **_: object,
) -> Tensor:  # fmt: skip
    return torch.randn(size, dtype=dtype) * std + mean
