# SPDX-License-Identifier: Apache-2.0
"""Ops that few models have, written in PyTorch's own ops that have lowerings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey

from ..._core import Unsupported
from ..builder import DTYPE_NAMES, Builder, Value
from ..registry import lowering, rewriting
from .rewrites import segment_reduce

# --- bits -----------------------------------------------------------------------------------------

_BITS = {torch.float64: torch.int64, torch.float32: torch.int32,
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


@rewriting("aten.nextafter.default")
def nextafter(x: Tensor, y: Tensor) -> Tensor:
    x, y = torch.broadcast_tensors(x, y)
    kind = _BITS[x.dtype]
    away = (x < y) == (x > 0)
    bits = x.contiguous().view(kind)
    stepped = (bits + torch.where(away, 1, -1).to(kind)).view(x.dtype)
    smallest = torch.ones_like(bits).view(x.dtype)
    stepped = torch.where(x == 0, torch.where(y > 0, smallest, -smallest), stepped)
    stepped = torch.where(x == y, y, stepped)
    return torch.where(torch.isnan(x) | torch.isnan(y), math.nan, stepped)


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


# --- pooling with drawn windows -------------------------------------------------------------------


def _begins(sample: Tensor, size: int, windows: int, length: int) -> Tensor:
    """Where the windows of one dimension begin, [N, C, windows]."""
    last = torch.full((*sample.shape, 1), size - length, dtype=torch.int64)
    if windows == 1:
        return last
    alpha = (size - length) / (windows - 1)
    each = torch.arange(windows - 1, dtype=sample.dtype)
    drawn = sample.unsqueeze(-1)
    first = (drawn * alpha).to(torch.int64)
    return torch.cat([((each + drawn) * alpha).to(torch.int64) - first, last], -1)


def _fractional(
    x: Tensor, kernel: Sequence[int], output: Sequence[int], samples: Tensor, order: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """`order`: which of the samples is for which spatial dimension."""
    spatial = len(order)
    image = x if x.dim() == spatial + 2 else x.unsqueeze(0)
    places = torch.zeros([1] * (2 + 2 * spatial), dtype=torch.int64)
    for i, which in enumerate(order):
        size = image.shape[2 + i]
        begins = _begins(samples[..., which], size, output[i], kernel[i])
        inside = begins.unsqueeze(-1) + torch.arange(kernel[i])
        shape = [*begins.shape[:2]] + [1] * (2 * spatial)
        shape[2 + i], shape[2 + spatial + i] = output[i], kernel[i]
        places = places * size + inside.reshape(shape)
    places = places.expand(*image.shape[:2], *output, *kernel).flatten(2 + spatial)
    flat = image.flatten(2)
    values = torch.gather(flat, 2, places.flatten(2)).reshape(places.shape)
    values, window = values.max(-1, keepdim=True)
    results = values.squeeze(-1), torch.gather(places, -1, window).squeeze(-1)
    return results if image is x else tuple(r.squeeze(0) for r in results)  # type: ignore[return-value]


@rewriting("aten.fractional_max_pool2d.default")
def fractional_max_pool2d(
    x: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    return _fractional(x, kernel_size, output_size, random_samples, (1, 0))


@rewriting("aten.fractional_max_pool3d.default")
def fractional_max_pool3d(
    x: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    return _fractional(x, kernel_size, output_size, random_samples, (0, 1, 2))


def _pooled_gradient(spatial: int, gradient: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    """Each gradient to the place that won."""
    flat = torch.zeros_like(x).flatten(-spatial)
    written = flat.scatter_add(-1, indices.flatten(-spatial), gradient.flatten(-spatial))
    return written.reshape(x.shape)


@rewriting("aten.fractional_max_pool2d_backward.default")
def fractional_max_pool2d_backward(
    gradient: Tensor, x: Tensor, kernel_size: Sequence[int], output_size: Sequence[int],
    indices: Tensor,
) -> Tensor:  # fmt: skip
    return _pooled_gradient(2, gradient, x, indices)


@rewriting("aten.fractional_max_pool3d_backward.default")
def fractional_max_pool3d_backward(
    gradient: Tensor, x: Tensor, kernel_size: Sequence[int], output_size: Sequence[int],
    indices: Tensor,
) -> Tensor:  # fmt: skip
    return _pooled_gradient(3, gradient, x, indices)


# --- what PyTorch reads numbers for, though it need not -------------------------------------------


def _composite(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers what an op that PyTorch takes apart is while it is traced, as PyTorch's own
    decompositions do."""
    op = getattr(torch.ops.aten, name).default

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if DispatchKey.CompositeImplicitAutograd not in op.py_kernels:
            op.py_impl(DispatchKey.CompositeImplicitAutograd)(function)
        return function

    return register


@_composite("cov")
def cov(
    x: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """Without the check that there are enough observations, which reads a number."""
    rows = x if x.dim() == 2 else x.reshape(1, -1)
    weights = fweights
    if aweights is not None:
        weights = aweights if fweights is None else fweights * aweights
    if weights is None:
        total = torch.full([], rows.shape[1], dtype=torch.int64)
        mean = rows.sum(1) / total
    else:
        total = weights.sum()
        mean = (rows * weights).sum(1) / total
    if aweights is not None and weights is not None and correction != 0:
        divisor = total - correction * (weights * aweights).sum() / total
    else:
        divisor = total - correction
    centred = rows - mean.unsqueeze(1)
    weighted = centred if weights is None else centred * weights
    product = centred @ weighted.t().conj()
    return torch.true_divide(product, divisor.clamp(min=0)).squeeze()


@_composite("combinations")
def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """By a table of places, whose size needs no data."""
    if r == 0:
        return x.new_empty(0)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = torch.tensor(list(choose(range(int(x.shape[0])), r)), dtype=torch.int64)
    return x[places.reshape(-1, r)]


@rewriting("aten.take.default")
def take(x: Tensor, index: Tensor) -> Tensor:
    return torch.gather(x.reshape(-1), 0, index.reshape(-1)).reshape(index.shape)


@rewriting("aten.resize.default")
def resize(x: Tensor, size: Sequence[int], *, memory_format: object = None) -> Tensor:
    """What there is of a dense tensor, and zeros."""
    if not x.is_contiguous():
        return NotImplemented
    flat, count = x.reshape(-1), math.prod(size)
    if count > x.numel():
        flat = torch.cat([flat, flat.new_zeros(count - x.numel())])
    return flat[:count].reshape(size)


# --- histograms over several dimensions -----------------------------------------------------------


@rewriting("aten._histogramdd_bin_edges.default")
def histogramdd_bin_edges(
    x: Tensor, bins: Sequence[int], *, range: Sequence[float] | None = None,
    weight: Tensor | None = None, density: bool = False,
) -> list[Tensor]:  # fmt: skip
    rows = x.reshape(-1, x.shape[-1])
    edges = []
    for d, count in enumerate(bins):
        if range is not None:
            low, high = (torch.full([], v, dtype=x.dtype) for v in range[2 * d : 2 * d + 2])
        elif rows.shape[0] == 0:
            low, high = torch.zeros([], dtype=x.dtype), torch.ones([], dtype=x.dtype)
        else:
            low, high = rows[:, d].amin(), rows[:, d].amax()
        same = low == high
        low, high = torch.where(same, low - 0.5, low), torch.where(same, high + 0.5, high)
        along = torch.arange(count + 1, dtype=x.dtype)
        # From both ends, as PyTorch's linspace goes.
        step = (high - low) / count
        edges.append(torch.where(along < (count + 1) // 2, low + along * step,
                                 high - (count - along) * step))  # fmt: skip
    return edges


@rewriting("aten._histogramdd_from_bin_tensors.default")
def histogramdd_from_edges(
    x: Tensor, bins: Sequence[Tensor], *, weight: Tensor | None = None, density: bool = False
) -> Tensor:
    rows = x.reshape(-1, x.shape[-1])
    weights = torch.ones_like(rows[:, 0]) if weight is None else weight.reshape(-1)
    shape = [edges.shape[0] - 1 for edges in bins]
    place = torch.zeros(rows.shape[0], dtype=torch.int64)
    inside = torch.ones(rows.shape[0], dtype=torch.bool)
    for d, edges in enumerate(bins):
        column = rows[:, d].contiguous()
        inside = inside & (column >= edges[0]) & (column <= edges[-1])
        at = (torch.searchsorted(edges, column, right=True) - 1).clamp(0, shape[d] - 1)
        place = place * shape[d] + at
    counted = torch.where(inside, weights.to(x.dtype), 0)
    flat = torch.zeros(math.prod(shape), dtype=x.dtype)
    counts = flat.scatter_add(0, torch.where(inside, place, 0), counted).reshape(shape)
    if density:
        counts = counts / counts.sum()
        for d, edges in enumerate(bins):
            width = (edges[1:] - edges[:-1]).reshape([-1] + [1] * (len(shape) - 1 - d))
            counts = counts / width
    return counts


@rewriting("aten._histogramdd_from_bin_cts.default")
def histogramdd_from_counts(
    x: Tensor, bins: Sequence[int], *, range: Sequence[float] | None = None,
    weight: Tensor | None = None, density: bool = False,
) -> Tensor:  # fmt: skip
    edges = histogramdd_bin_edges(x, bins, range=range)
    return histogramdd_from_edges(x, edges, weight=weight, density=density)


# --- segments -------------------------------------------------------------------------------------


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
