# SPDX-License-Identifier: Apache-2.0
"""Modified and spherical Bessel functions, written in ops that have lowerings.

The polynomials for float32 are those of Abramowitz and Stegun, section 9.8; bessel.py has those of
float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from ...registry import rewriting
from .approximations import computed, polynomial, result_as
from .bessel import modified_i, modified_k

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
    small = polynomial(t * t, _I0_NEAR if order == 0 else _I1_NEAR)
    small = small * near if order else small
    far = size.clamp(min=3.75)
    large = polynomial(3.75 / far, _I0_FAR if order == 0 else _I1_FAR) / far.sqrt()
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
        small = polynomial(quarter, _K0_NEAR) - logarithm * _modified(near, 0, False)
    else:
        small = polynomial(quarter, _K1_NEAR) / near + logarithm * _modified(near, 1, False)
    far = x.clamp(min=2)
    large = polynomial(2 / far, _K0_FAR if order == 0 else _K1_FAR) / far.sqrt()
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
        return result_as(function(computed(x), order, scaled), x)

    rewriting(f"aten.{name}.default")(rewrite)


for _order in (0, 1):
    _bessel(f"special_i{_order}" if _order else "i0", _modified, modified_i, _order, False)
    _bessel(f"special_i{_order}e", _modified, modified_i, _order, True)
    _bessel(f"special_modified_bessel_i{_order}", _modified, modified_i, _order, False)
    _bessel(f"special_modified_bessel_k{_order}", _modified_k, modified_k, _order, False)
    _bessel(f"special_scaled_modified_bessel_k{_order}", _modified_k, modified_k, _order, True)


@rewriting("aten.special_spherical_bessel_j0.default")
def spherical_j0(x: Tensor) -> Tensor:
    value = computed(x)
    square = value * value
    near = polynomial(square, (1.0, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880))
    far = torch.sin(value) / torch.where(value == 0, 1, value)
    result = torch.where(value.abs() < 0.5, near, far)
    return result_as(torch.where(torch.isinf(value), 0, result), x)
