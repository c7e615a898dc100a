# SPDX-License-Identifier: Apache-2.0
"""Error functions and their inverses, written in ops that have lowerings."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ...registry import rewriting
from .approximations import computed, result_as


@rewriting("aten.erfinv.default")
def erfinv(x: Tensor) -> Tensor:
    value = computed(x)
    inside = value.clamp(-1, 1)
    # Winitzki's approximation, then Halley's steps.
    logarithm = torch.log1p(-inside * inside)
    half = 2 / (math.pi * 0.147) + logarithm / 2
    root = torch.sqrt(torch.sqrt(half * half - logarithm / 0.147) - half)
    y = torch.where(inside < 0, -root, root)
    for _ in range(2):
        error = torch.erf(y) - inside
        step = error / (2 / math.sqrt(math.pi) * torch.exp(-y * y))
        step = step / (1 + y * step)
        y = torch.where(torch.isfinite(step), y - step, y)
    y = torch.where(value.abs() == 1, value * math.inf, y)
    return result_as(torch.where(value.abs() > 1, math.nan, y), x)


@rewriting("aten.special_ndtri.default")
def ndtri(x: Tensor) -> Tensor:
    value = computed(x)
    return result_as(math.sqrt(2) * erfinv(2 * value - 1), x)


@rewriting("aten.special_erfcx.default")
def erfcx(x: Tensor) -> Tensor:
    value = computed(x)
    near = value.clamp(max=2)
    small = torch.exp(near * near) * torch.erfc(near)
    far = value.clamp(min=2)
    fraction = far
    for k in range(40, 0, -1):
        fraction = far + (k / 2) / fraction
    return result_as(torch.where(value < 2, small, 1 / (math.sqrt(math.pi) * fraction)), x)
