# SPDX-License-Identifier: Apache-2.0
"""Ops outside Core ATen, written in PyTorch's own ops that have lowerings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..registry import rewriting

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
    if x.storage_offset():
        return NotImplemented
    if not x.is_contiguous():  # it may be dense in another order of its dimensions
        order = sorted(range(x.dim()), key=lambda dim: -x.stride(dim))
        dense = x.permute(order)
        if not dense.is_contiguous():
            return NotImplemented
        written = as_strided_scatter(dense, src, size, stride, storage_offset)
        return written.permute([order.index(dim) for dim in range(x.dim())])
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


# --- numbers --------------------------------------------------------------------------------------


@rewriting("aten.frexp.Tensor")
def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    usual = torch.isfinite(x) & (x != 0)
    size = torch.where(usual, x.abs(), 1.0)
    # A quarter of large ones: the power of two above the largest number would be infinite, and the
    # inverse of the one below it too small for engines that flush such numbers to zero.
    large = size >= 1
    size = torch.where(large, size / 4, size)
    exponent = torch.floor(torch.log2(size)) + 1
    mantissa = size / torch.exp2(exponent)
    # The logarithm of a number next to a power of two may round to the wrong side.
    exponent = torch.where(mantissa >= 1, exponent + 1, torch.where(mantissa < 0.5, exponent - 1,
                                                                    exponent))  # fmt: skip
    reduced = torch.where(large, x / 4, x)
    mantissa = torch.where(usual, reduced / torch.exp2(exponent), x)
    exponent = torch.where(large, exponent + 2, exponent)
    return mantissa, torch.where(usual, exponent, 0).to(torch.int32)


@rewriting("aten.combinations.default")
def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    # Without a list of places, which would be a constant: PyTorch loses those of rewrites.
    if r == 0:
        return x.new_empty(0)
    if r == 1:
        return x.unsqueeze(1)
    count, step = x.shape[0], 0 if with_replacement else 1
    if r == 2:
        first, second = torch.triu_indices(count, count, step).unbind()
        return torch.stack([x[first], x[second]], 1)
    parts = []
    for i in range(count):
        rest = combinations(x[i + step :], r - 1, with_replacement)
        parts.append(torch.cat([x[i].expand(rest.shape[0], 1), rest], 1))
    return torch.cat(parts) if parts else x.new_empty(0, r)


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
    if given is None or axis != given.dim() - 1:
        return NotImplemented
    if axis > 0:  # each row has segments of its own
        return torch.stack(
            [
                segment_reduce(
                    x[i],
                    reduce,
                    lengths=None if lengths is None else lengths[i],
                    offsets=None if offsets is None else offsets[i],
                    axis=axis - 1,
                    initial=initial,
                )
                for i in range(given.shape[0])
            ]
        )
    if lengths is not None:
        ends, counts = torch.cumsum(lengths, 0), lengths
    else:
        ends, counts = given[1:], given[1:] - given[:-1]
    places = torch.arange(x.shape[0])
    segment = (places.unsqueeze(-1) >= ends).to(torch.int64).sum(-1)
    # What lies behind the last segment goes to one more, which is cut off.
    rows = ends.shape[0]
    neutral = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}[reduce]
    start = neutral if initial is None else float(initial)
    shape = (rows + 1, *x.shape[1:])
    index = segment.reshape(-1, *[1] * (x.dim() - 1)).expand(x.shape)
    kind = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}[reduce]
    total = x.new_full(shape, start).scatter_reduce(0, index, x, kind)[:rows]
    if reduce != "mean":
        return total
    count = counts.reshape(-1, *[1] * (x.dim() - 1)).to(x.dtype)
    empty = total if initial is not None else torch.full_like(total, math.nan)
    return torch.where(count == 0, empty, total / count.clamp(min=1))


@rewriting("aten._segment_reduce_backward.default")
def segment_reduce_backward(
    gradient: Tensor,
    output: Tensor,
    x: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    initial: float | None = None,
) -> Tensor:
    given = lengths if lengths is not None else offsets
    if given is None or axis != given.dim() - 1:
        return NotImplemented
    if axis > 0:
        return torch.stack(
            [
                segment_reduce_backward(
                    gradient[i],
                    output[i],
                    x[i],
                    reduce,
                    lengths=None if lengths is None else lengths[i],
                    offsets=None if offsets is None else offsets[i],
                    axis=axis - 1,
                    initial=initial,
                )
                for i in range(given.shape[0])
            ]
        )
    counts = given if lengths is not None else given[1:] - given[:-1]
    ends = torch.cumsum(counts, 0)
    places = torch.arange(x.shape[0])
    segment = (places.unsqueeze(-1) >= ends).to(torch.int64).sum(-1)
    rest = [1] * (x.dim() - 1)

    def spread(per_segment: Tensor) -> Tensor:
        """To the elements; 0 behind the last segment."""
        none = torch.zeros((1, *per_segment.shape[1:]), dtype=per_segment.dtype)
        return torch.cat([per_segment, none]).index_select(0, segment)

    def total(values: Tensor, kind: str, start: float | None) -> Tensor:
        return segment_reduce(values, kind, lengths=counts, initial=start)

    seeds = spread(gradient)
    if reduce == "sum":
        return seeds
    if reduce == "mean":
        return seeds / spread(counts.clamp(min=1)).reshape(-1, *rest).to(x.dtype).clamp(min=1)
    if reduce in ("max", "min"):  # shared by equal ones
        hits = (x == spread(output)) | torch.isnan(x)
        number = spread(total(hits.to(x.dtype), "sum", 0.0))
        return torch.where(hits, seeds / number.clamp(min=1), 0)
    is_zero = x == 0
    zeros = spread(total(is_zero.to(x.dtype), "sum", 0.0))
    others = spread(total(torch.where(is_zero, 1, x), "prod", initial))
    alone = torch.where(zeros == 1, others, 0)
    return seeds * torch.where(is_zero, alone, spread(output) / torch.where(is_zero, 1, x))


@rewriting("aten._weight_norm_interface_backward.default")
def weight_norm_backward(
    gradient: Tensor, v: Tensor, g: Tensor, norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    """Of v · g / |v|, where the norm is over all dimensions but one."""
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    along = (gradient * v).sum(others, keepdim=True) / norms
    return g / norms * (gradient - v * along / norms), along


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
