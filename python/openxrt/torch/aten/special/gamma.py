# SPDX-License-Identifier: Apache-2.0
"""Gamma functions and Hurwitz' zeta function, written in ops that have lowerings."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ...registry import rewriting
from .approximations import computed, polynomial, result_as

# Of Stirling's series, B₂ⱼ / (2j (2j − 1)): below 1e-13 off where the argument is at least 7.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_LARGE = 7


@rewriting("aten.lgamma.default")
def lgamma(x: Tensor) -> Tensor:
    value = computed(x)
    left = value < 0.5
    z = torch.where(left, 1 - value, value)
    # Γ(z + n) = z (z + 1) … (z + n − 1) Γ(z) brings small arguments to where the series holds.
    large = z >= _LARGE
    shifted = torch.where(large, z, z + _LARGE)
    small = torch.where(large, 1, z)
    # (z + n)ⁿ over that product: what is left has fewer digits to lose.
    ratio = torch.ones_like(z)
    for k in range(_LARGE):
        ratio = ratio * ((small + _LARGE) / (small + k))
    inverse = 1 / shifted
    right = (z - 0.5) * shifted.log() - shifted + 0.5 * math.log(2 * math.pi)
    right = right + inverse * polynomial(inverse * inverse, _STIRLING)
    right = torch.where(large, right, right + ratio.log())
    # Γ(x)·Γ(1−x) = π / sin πx
    sine = torch.sin(math.pi * (value - torch.round(value))).abs()
    result = torch.where(left, math.log(math.pi) - sine.log() - right, right)
    pole = (value <= 0) & (value == torch.floor(value))
    return result_as(torch.where(pole | torch.isinf(value), math.inf, result), x)


@rewriting("aten.digamma.default")
def digamma(x: Tensor) -> Tensor:
    value = computed(x)
    left = value < 0
    z = torch.where(left, 1 - value, value)
    shifted = z + 6
    inverse = 1 / (shifted * shifted)
    tail = polynomial(inverse, (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760))
    result = shifted.log() - 0.5 / shifted + inverse * tail
    for k in range(6):
        result = result - 1 / (z + k)
    # ψ(1−x) − ψ(x) = π / tan πx
    turn = math.pi / torch.tan(math.pi * (value - torch.round(value)))
    result = torch.where(left, result - turn, result)
    result = torch.where(left & (value == torch.floor(value)), math.nan, result)
    at_zero = torch.copysign(torch.full_like(value, math.inf), -value)
    return result_as(torch.where(value == 0, at_zero, result), x)


def _bernoulli(count: int) -> list[float]:
    """B₂ⱼ / (2j)! from j = 1 on."""
    return [
        2 * (-1) ** (j + 1) / (2 * math.pi) ** (2 * j) * sum(n ** (-2 * j) for n in range(1, 60))
        for j in range(1, count + 1)
    ]


def _hurwitz(s: Tensor | int, q: Tensor) -> Tensor:
    """Σ (q + k)^−s by Euler and Maclaurin's formula."""
    terms = 20
    total = torch.zeros_like(q)
    for k in range(terms):
        total = total + torch.pow(q + k, -s)
    a = q + terms
    power = torch.pow(a, -s)
    total = total + power * a / (s - 1) + 0.5 * power
    factor = s * power / a
    for j, number in enumerate(_bernoulli(6)):
        total = total + number * factor
        factor = factor * (s + 2 * j + 1) * (s + 2 * j + 2) / (a * a)
    return total


def _zeta_of_any(s: Tensor | int, q: Tensor) -> Tensor:
    """Σ (q + k)^−s for arguments of either sign; of negative ones for whole s alone."""
    # The sum over all whole k has period 1 in q: below zero it is taken where the formula holds,
    # and less what comes before k = 0, which is (−1)^s Σ (1 − q + k)^−s.
    left = q < 0
    near = torch.where(left, q - torch.round(q), q)
    right = torch.where(left, 1 - q, 1)
    across = torch.where(left, 1 - near, 1)
    here, there, before = _hurwitz(s, torch.stack([near, across, right])).unbind()
    odd = s % 2 != 0
    change = there - before
    if isinstance(odd, Tensor):
        change = torch.where(odd, -change, change)
    elif odd:
        change = -change
    return torch.where(left, here + change, here)


@rewriting("aten.polygamma.default")
def polygamma(n: int, x: Tensor) -> Tensor:
    if n == 0:
        return digamma(x)
    value = computed(x)
    result = (-1) ** (n + 1) * math.factorial(n) * _zeta_of_any(n + 1, value)
    if n == 1:  # of PyTorch's, this one has its limit at infinity, where the others are NaN
        result = torch.where(value == math.inf, 0, result)
    pole = (value <= 0) & (value == torch.floor(value))
    return result_as(torch.where(pole, (-1) ** (n + 1) * math.inf, result), x)


@rewriting("aten.special_zeta.default")
def zeta(s: Tensor, q: Tensor) -> Tensor:
    value, shift = torch.broadcast_tensors(computed(s), computed(q))
    result = _zeta_of_any(value, shift)
    pole = (shift <= 0) & (shift == torch.floor(shift))
    undefined = (shift <= 0) & (value != torch.floor(value))
    result = torch.where(undefined, math.nan, result)
    result = torch.where(pole | (value == 1), math.inf, result)
    return torch.where(value < 1, math.nan, result).to(torch.result_type(value, shift))


def _zeta(place: str, apply: Callable[[object, object], Tensor]) -> None:
    rewriting(f"aten.special_zeta.{place}")(apply)


_zeta("other_scalar", lambda s, q: torch.special.zeta(s, torch.full([], q, dtype=s.dtype)))
_zeta("self_scalar", lambda s, q: torch.special.zeta(torch.full([], s, dtype=q.dtype), q))
