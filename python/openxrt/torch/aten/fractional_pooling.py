# SPDX-License-Identifier: Apache-2.0
"""Pooling whose windows are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..registry import rewriting


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
