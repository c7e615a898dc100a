# SPDX-License-Identifier: Apache-2.0
"""Special functions that take as many steps as their arguments ask for: Loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .builder import Builder, Operand, Value
from .registry import lowering
from .traced import repeated, traced

# --- orthogonal polynomials -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Family:
    """P₀ = 1, P₁ and the recurrence P_k of x, k, P_{k−1} and P_{k−2}."""

    first: Callable[[Tensor], Tensor]
    step: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
    is_shifted: bool = False  # of 2x − 1
    limits: tuple[int, int] | None = None  # the largest n in float32 and float64; beyond, NaN


def _chebyshev(x: Tensor, k: Tensor, q: Tensor, p: Tensor) -> Tensor:
    return 2 * x * q - p


_POLYNOMIALS = {
    "hermite_polynomial_h": _Family(
        lambda x: 2 * x, lambda x, k, q, p: 2 * x * q - 2 * (k - 1) * p, limits=(128, 512)
    ),
    "hermite_polynomial_he": _Family(lambda x: x.clone(), lambda x, k, q, p: x * q - (k - 1) * p),
    "laguerre_polynomial_l": _Family(
        lambda x: 1 - x, lambda x, k, q, p: ((2 * k - 1 - x) * q - (k - 1) * p) / k
    ),
    "legendre_polynomial_p": _Family(
        lambda x: x.clone(), lambda x, k, q, p: ((2 * k - 1) * x * q - (k - 1) * p) / k
    ),
}
for _kind, _first in {
    "t": lambda x: x.clone(),
    "u": lambda x: 2 * x,
    "v": lambda x: 2 * x - 1,
    "w": lambda x: 2 * x + 1,
}.items():
    _POLYNOMIALS[f"chebyshev_polynomial_{_kind}"] = _Family(_first, _chebyshev)
    _POLYNOMIALS[f"shifted_chebyshev_polynomial_{_kind}"] = _Family(_first, _chebyshev, True)


def _polynomial(name: str, family: _Family) -> None:
    def start(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        x, n = torch.broadcast_tensors(x, n)
        n = n.to(torch.int64)
        x = 2 * x - 1 if family.is_shifted else x.clone()
        # One more, for there may be no element.
        highest = torch.cat([n.reshape(-1), torch.zeros([1], dtype=torch.int64)]).amax()
        k = torch.full([], 2, dtype=torch.int64)
        return k, torch.ones_like(x), family.first(x), x, n, highest

    def goes_on(k: Tensor, p: Tensor, q: Tensor, x: Tensor, n: Tensor, highest: Tensor) -> Tensor:
        return k <= highest

    def step(
        k: Tensor, p: Tensor, q: Tensor, x: Tensor, n: Tensor, highest: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        asked = k <= n
        following = family.step(x, k.to(x.dtype), q, p)
        return k + 1, torch.where(asked, q, p), torch.where(asked, following, q)

    def finish(q: Tensor, n: Tensor) -> Tensor:
        value = torch.where(n < 0, 0, torch.where(n == 0, 1, q))
        if family.limits is None:
            return value
        limit = family.limits[1 if q.dtype == torch.float64 else 0]
        return torch.where(n > limit, torch.nan, value)

    def lower(b: Builder, x: Operand, n: Operand) -> Value:
        dtype = b.result_type(x, n)
        dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        operands = [b.operand(v, wide) for v in (x, n)]
        k, p, q, *fixed = traced(b, start, *operands)
        _, _, q = repeated(b, goes_on, step, [k, p, q], fixed)
        return b.cast(traced(b, finish, q, fixed[1])[0], dtype)

    lowering(*[f"aten.special_{name}.{kind}" for kind in ("default", "x_scalar", "n_scalar")])(
        lower
    )


for _name, _family in _POLYNOMIALS.items():
    _polynomial(_name, _family)


# --- incomplete gamma functions -------------------------------------------------------------------

_MOST_TERMS = 100_000
_TINY = 1e-300


def _gamma_start(a: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    a, x = torch.broadcast_tensors(a, x)
    fits = (a > 0) & (x > 0) & torch.isfinite(a) & torch.isfinite(x)
    # Others are told by what they are.
    usual_a, usual_x = torch.where(fits, a, 1.0), torch.where(fits, x, 1.0)
    by_series = usual_x < usual_a + 1
    one = torch.ones_like(usual_x)
    begin = usual_x + 1 - usual_a
    d = 1 / torch.where(by_series, 1.0, begin)
    count = torch.zeros([], dtype=torch.float64)
    busy = torch.ones_like(fits)
    # Of the series: term and sum. Of the continued fraction (Lentz's method): c, d and value.
    return count, busy, one, one.clone(), one / _TINY, d, d.clone(), usual_a, usual_x, by_series


def _gamma_goes_on(count: Tensor, busy: Tensor, *_: Tensor) -> Tensor:
    return busy.any() & (count < _MOST_TERMS)


def _gamma_step(
    count: Tensor, busy: Tensor, term: Tensor, total: Tensor, c: Tensor, d: Tensor, value: Tensor,
    a: Tensor, x: Tensor, by_series: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    eps = torch.finfo(torch.float64).eps
    i = count + 1
    next_term = term * x / (a + i)
    next_total = total + next_term
    numerator = -i * (i - a)
    b = x + 1 - a + 2 * i
    divisor = numerator * d + b
    next_d = 1 / torch.where(divisor.abs() < _TINY, _TINY, divisor)
    next_c = b + numerator / c
    next_c = torch.where(next_c.abs() < _TINY, _TINY, next_c)
    factor = next_c * next_d
    rest = torch.where(by_series, next_term.abs() > eps * next_total, (factor - 1).abs() > 2 * eps)
    return (
        i,
        busy & rest,
        torch.where(busy, next_term, term),
        torch.where(busy, next_total, total),
        torch.where(busy, next_c, c),
        torch.where(busy, next_d, d),
        torch.where(busy, value * factor, value),
    )


def _gamma_finish(upper: bool) -> Callable[..., Tensor]:
    def finish(
        a: Tensor, x: Tensor, total: Tensor, value: Tensor, usual_a: Tensor, usual_x: Tensor,
        by_series: Tensor,
    ) -> Tensor:  # fmt: skip
        a, x = torch.broadcast_tensors(a, x)
        scale = torch.exp(usual_a * torch.log(usual_x) - usual_x - torch.lgamma(usual_a))
        low, high = scale * total / usual_a, scale * value
        result = torch.where(by_series, 1 - low, high) if upper else (
            torch.where(by_series, low, 1 - high)
        )  # fmt: skip
        zero, one = (0.0, 1.0) if upper else (1.0, 0.0)  # at x = ∞, and at x = 0
        result = torch.where(torch.isinf(x), zero, result)
        result = torch.where(torch.isinf(a), torch.where(torch.isinf(x), torch.nan, one), result)
        result = torch.where((x == 0) & (a > 0), one, result)
        result = torch.where(a == 0, torch.where(x > 0, zero, torch.nan), result)
        undefined = (a < 0) | (x < 0) | torch.isnan(a) | torch.isnan(x)
        return torch.where(undefined, torch.nan, result)

    return finish


def _incomplete_gamma(name: str, upper: bool) -> None:
    def lower(b: Builder, a: Value, x: Value) -> Value:
        dtype = b.result_type(a, x)
        dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
        operands = [b.cast(v, torch.float64) for v in (a, x)]
        state = traced(b, _gamma_start, *operands)
        carried, fixed = state[:7], state[7:]
        _, _, _, total, _, _, value = repeated(b, _gamma_goes_on, _gamma_step, carried, fixed)
        result = traced(b, _gamma_finish(upper), *operands, total, value, *fixed)[0]
        return b.cast(result, dtype)

    lowering(f"aten.{name}.default")(lower)


_incomplete_gamma("igamma", upper=False)
_incomplete_gamma("igammac", upper=True)
