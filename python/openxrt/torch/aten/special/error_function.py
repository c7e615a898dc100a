# SPDX-License-Identifier: Apache-2.0
"""Error functions and their inverses, written in ops that have lowerings."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ...registry import rewriting
from .approximations import computed, polynomial, result_as

# Rational approximations of the quantiles of the normal distribution, as of the Cephes library:
# by (p - 1/2)^2, and by 1/z where z = sqrt(-2 log p) is below 8 or above.
# fmt: off
_CENTRE = (
    -1.2391658386738125,
    13.931260938727968,
    -56.67628574690703,
    98.00107541859997,
    -59.96335010141079,
)
_UNDER_CENTRE = (
    -1.1833162112133,
    15.90562251262117,
    -82.03722561683334,
    200.26021238006066,
    -225.46268785411937,
    86.36024213908905,
    4.676279128988815,
    1.9544885833814176,
    1.0,
)
_TAIL = (
    -0.0008574567851546854,
    -0.03504246268278482,
    -0.1402560791713545,
    2.1866330685079025,
    14.684956192885803,
    44.08050738932008,
    57.16281922464213,
    31.525109459989388,
    4.0554489230596245,
)
_UNDER_TAIL = (
    -0.0009332594808954574,
    -0.03808064076915783,
    -0.14218292285478779,
    2.504649462083094,
    15.04253856929075,
    41.3172038254672,
    45.39076351288792,
    15.779988325646675,
    1.0,
)
_FAR_TAIL = (
    6.239745391849833e-09,
    2.6580697468673755e-06,
    0.00030158155350823543,
    0.012371663481782003,
    0.20148538954917908,
    1.3330346081580755,
    3.9388102529247444,
    6.915228890689842,
    3.2377489177694603,
)
_UNDER_FAR_TAIL = (
    6.790194080099813e-09,
    2.8924786474538068e-06,
    0.00032801446468212774,
    0.013420400608854318,
    0.21623699359449663,
    1.3770209948908132,
    3.6798356385616087,
    6.02427039364742,
    1.0,
)
# fmt: on


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
    # By the smaller tail: 2p − 1 would lose the digits of a small p.
    upper = value > 1 - math.exp(-2)
    p = torch.where(upper, 1 - value, value)
    offset = p - 0.5
    square = offset * offset
    ratio = polynomial(square, _CENTRE) / polynomial(square, _UNDER_CENTRE)
    centre = math.sqrt(2 * math.pi) * (offset + offset * square * ratio)
    is_tail = p <= math.exp(-2)
    z = torch.sqrt(-2 * torch.log(torch.where(is_tail & (p > 0), p, math.exp(-2))))
    inverse = 1 / z
    near = polynomial(inverse, _TAIL) / polynomial(inverse, _UNDER_TAIL)
    far = polynomial(inverse, _FAR_TAIL) / polynomial(inverse, _UNDER_FAR_TAIL)
    tail = z - torch.log(z) / z - inverse * torch.where(z < 8, near, far)
    result = torch.where(is_tail, torch.where(upper, tail, -tail), centre)
    result = torch.where(p == 0, torch.where(upper, math.inf, -math.inf), result)
    return result_as(torch.where((value < 0) | (value > 1), math.nan, result), x)


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
