# SPDX-License-Identifier: Apache-2.0
"""What approximations of special functions share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def computed(x: Tensor) -> Tensor:
    """In at least float32; integers as PyTorch's default floating dtype."""
    if x.dtype in (torch.float16, torch.bfloat16):
        return x.float()
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


def result_as(value: Tensor, x: Tensor) -> Tensor:
    """In the dtype of x, where that is floating."""
    return value.to(x.dtype) if x.is_floating_point() else value


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Horner's rule, the constant first."""
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total
