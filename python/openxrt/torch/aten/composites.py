# SPDX-License-Identifier: Apache-2.0
"""Ops that PyTorch takes apart by reading numbers, which these do not."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey


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
