# SPDX-License-Identifier: Apache-2.0
"""Histograms over several dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..registry import rewriting


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
