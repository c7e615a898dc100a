# SPDX-License-Identifier: Apache-2.0
"""Special functions, written in ops that have lowerings.

Classical formulas: the polynomials for modified Bessel functions in float32 are those of Abramowitz
and Stegun, section 9.8; bessel.py has those of float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from ..registry import rewriting
from .bessel import modified_i, modified_k


def _computed(x: Tensor) -> Tensor:
    """In at least float32; integers as PyTorch's default floating dtype."""
    if x.dtype in (torch.float16, torch.bfloat16):
        return x.float()
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


def _result(value: Tensor, x: Tensor) -> Tensor:
    return value.to(x.dtype) if x.is_floating_point() else value


def _polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Horner's rule, the constant first."""
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


# --- gamma ----------------------------------------------------------------------------------------

# Lanczos' approximation with g = 7.
_LANCZOS = (
    0.99999999999980993,
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
    -0.13857109526572012,
    9.9843695780195716e-6,
    1.5056327351493116e-7,
)


@rewriting("aten.lgamma.default")
def lgamma(x: Tensor) -> Tensor:
    value = _computed(x)
    left = value < 0.5
    z = torch.where(left, 1 - value, value) - 1
    series = torch.full_like(z, _LANCZOS[0])
    for i, coefficient in enumerate(_LANCZOS[1:]):
        series = series + coefficient / (z + (i + 1))
    t = z + 7.5
    right = 0.5 * math.log(2 * math.pi) + (z + 0.5) * t.log() - t + series.log()
    # Γ(x)·Γ(1−x) = π / sin πx
    sine = torch.sin(math.pi * (value - torch.round(value))).abs()
    result = torch.where(left, math.log(math.pi) - sine.log() - right, right)
    pole = (value <= 0) & (value == torch.floor(value))
    return _result(torch.where(pole | torch.isinf(value), math.inf, result), x)


@rewriting("aten.digamma.default")
def digamma(x: Tensor) -> Tensor:
    value = _computed(x)
    left = value < 0
    z = torch.where(left, 1 - value, value)
    shifted = z + 6
    inverse = 1 / (shifted * shifted)
    tail = _polynomial(inverse, (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760))
    result = shifted.log() - 0.5 / shifted + inverse * tail
    for k in range(6):
        result = result - 1 / (z + k)
    # ψ(1−x) − ψ(x) = π / tan πx
    turn = math.pi / torch.tan(math.pi * (value - torch.round(value)))
    result = torch.where(left, result - turn, result)
    result = torch.where(left & (value == torch.floor(value)), math.nan, result)
    return _result(torch.where(value == 0, torch.copysign(torch.full_like(value, math.inf), -value),
                               result), x)  # fmt: skip


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


@rewriting("aten.polygamma.default")
def polygamma(n: int, x: Tensor) -> Tensor:
    if n == 0:
        return digamma(x)
    value = _computed(x)
    result = (-1) ** (n + 1) * math.factorial(n) * _hurwitz(n + 1, value)
    pole = (value <= 0) & (value == torch.floor(value))
    return _result(torch.where(pole, (-1) ** (n + 1) * math.inf, result), x)


@rewriting("aten.special_zeta.default")
def zeta(s: Tensor, q: Tensor) -> Tensor:
    value, shift = torch.broadcast_tensors(_computed(s), _computed(q))
    result = _hurwitz(value, shift)
    pole = (shift <= 0) & (shift == torch.floor(shift))
    undefined = (shift <= 0) & (value != torch.floor(value))
    result = torch.where(undefined, math.nan, result)
    result = torch.where(pole | (value == 1), math.inf, result)
    return torch.where(value < 1, math.nan, result).to(torch.result_type(value, shift))


# --- error function -------------------------------------------------------------------------------


@rewriting("aten.erfinv.default")
def erfinv(x: Tensor) -> Tensor:
    value = _computed(x)
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
    return _result(torch.where(value.abs() > 1, math.nan, y), x)


@rewriting("aten.special_ndtri.default")
def ndtri(x: Tensor) -> Tensor:
    value = _computed(x)
    return _result(math.sqrt(2) * erfinv(2 * value - 1), x)


@rewriting("aten.special_erfcx.default")
def erfcx(x: Tensor) -> Tensor:
    value = _computed(x)
    near = value.clamp(max=2)
    small = torch.exp(near * near) * torch.erfc(near)
    far = value.clamp(min=2)
    fraction = far
    for k in range(40, 0, -1):
        fraction = far + (k / 2) / fraction
    return _result(torch.where(value < 2, small, 1 / (math.sqrt(math.pi) * fraction)), x)


# --- Bessel functions -----------------------------------------------------------------------------

_I0_NEAR = (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813)
_I0_FAR = (0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281, -0.02057706, 0.02635537,
           -0.01647633, 0.00392377)  # fmt: skip
_I1_NEAR = (0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411)
_I1_FAR = (0.39894228, -0.03988024, -0.00362018, 0.00163801, -0.01031555, 0.02282967, -0.02895312,
           0.01787654, -0.00420059)  # fmt: skip
_K0_NEAR = (-0.57721566, 0.42278420, 0.23069756, 0.03488590, 0.00262698, 0.00010750, 0.00000740)
_K0_FAR = (1.25331414, -0.07832358, 0.02189568, -0.01062446, 0.00587872, -0.00251540, 0.00053208)
_K1_NEAR = (1.0, 0.15443144, -0.67278579, -0.18156897, -0.01919402, -0.00110404, -0.00004686)
_K1_FAR = (1.25331414, 0.23498619, -0.03655620, 0.01504268, -0.00780353, 0.00325614, -0.00068245)


def _modified(x: Tensor, order: int, scaled: bool) -> Tensor:
    size = x.abs()
    near = size.clamp(max=3.75)
    t = near / 3.75
    small = _polynomial(t * t, _I0_NEAR if order == 0 else _I1_NEAR)
    small = small * near if order else small
    far = size.clamp(min=3.75)
    large = _polynomial(3.75 / far, _I0_FAR if order == 0 else _I1_FAR) / far.sqrt()
    if scaled:
        small = small * torch.exp(-near)
    else:
        large = large * torch.exp(far)
    result = torch.where(size < 3.75, small, large)
    return torch.where(x < 0, -result, result) if order else result


def _modified_k(x: Tensor, order: int, scaled: bool) -> Tensor:
    near = x.clamp(max=2)
    quarter = near * near / 4
    logarithm = torch.log(near / 2)
    if order == 0:
        small = _polynomial(quarter, _K0_NEAR) - logarithm * _modified(near, 0, False)
    else:
        small = _polynomial(quarter, _K1_NEAR) / near + logarithm * _modified(near, 1, False)
    far = x.clamp(min=2)
    large = _polynomial(2 / far, _K0_FAR if order == 0 else _K1_FAR) / far.sqrt()
    if scaled:
        small = small * torch.exp(near)
    else:
        large = large * torch.exp(-far)
    result = torch.where(x <= 2, small, large)
    return torch.where(x < 0, math.nan, torch.where(x == 0, math.inf, result))


_Bessel: TypeAlias = Callable[[Tensor, int, bool], Tensor]


def _bessel(name: str, function: _Bessel, precise: _Bessel, order: int, scaled: bool) -> None:
    def rewrite(x: Tensor) -> Tensor:
        if x.dtype == torch.float64:  # the polynomials are not good enough
            return precise(x, order, scaled)
        return _result(function(_computed(x), order, scaled), x)

    rewriting(f"aten.{name}.default")(rewrite)


for _order in (0, 1):
    _bessel(f"special_i{_order}" if _order else "i0", _modified, modified_i, _order, False)
    _bessel(f"special_i{_order}e", _modified, modified_i, _order, True)
    _bessel(f"special_modified_bessel_i{_order}", _modified, modified_i, _order, False)
    _bessel(f"special_modified_bessel_k{_order}", _modified_k, modified_k, _order, False)
    _bessel(f"special_scaled_modified_bessel_k{_order}", _modified_k, modified_k, _order, True)


@rewriting("aten.special_spherical_bessel_j0.default")
def spherical_j0(x: Tensor) -> Tensor:
    value = _computed(x)
    square = value * value
    near = _polynomial(square, (1.0, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880))
    far = torch.sin(value) / torch.where(value == 0, 1, value)
    result = torch.where(value.abs() < 0.5, near, far)
    return _result(torch.where(torch.isinf(value), 0, result), x)
