# SPDX-License-Identifier: Apache-2.0
"""NaN, infinities, empty tensors and float64 through torch.compile: results are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openxrt
import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import openxrt.torch  # noqa: E402

NAN, INF = float("nan"), float("inf")
ENGINES = [
    pytest.param(name, marks=pytest.mark.skipif(name not in openxrt.engines(), reason="not built"))
    for name in ("native", "xla")
]
SPECIAL = [[NAN, INF, -INF, 0.0], [1.0, -1.5, 2.5, -2.5], [NAN, NAN, NAN, NAN], [4, NAN, 1, -INF]]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sign": torch.sign,
    "sgn": torch.sgn,
    "abs_gradient": lambda x: torch.func.grad(lambda y: y.abs().sum())(x),
    "maximum": lambda x: (torch.maximum(x, x.T), torch.minimum(x, x.T)),
    "clamp": lambda x: (x.clamp(-1, 1), x.clamp(min=0), x.relu(), F.relu6(x), F.hardtanh(x)),
    "clamp_tensor": lambda x: torch.clamp(x, x.T, x.T + 1),
    "amax": lambda x: (x.max(), x.amax(0), x.amax(1), x.amin(1), x.amax((0, 1))),
    "max": lambda x: (*x.max(1), *x.min(0)),
    "max_half": lambda x: (x.half().amax(1), x.half().amin(1), x.bfloat16().amax(0)),
    "max_double": lambda x: (x.double().amax(1), x.double().amin(0), torch.maximum(x, x.double())),
    "softmax": lambda x: (x.softmax(1), x.softmax(0), x.log_softmax(1)),
    "logsumexp": lambda x: x.logsumexp(1),
    "sort": lambda x: (*x.sort(1), *x[:2].topk(2, 1), x.median()),
    "max_pool2d": lambda x: (F.max_pool2d(x[None, None], 2), F.max_pool2d(x[None, None], 3, 1, 1)),
    "max_pool1d": lambda x: (F.max_pool1d(x[None], 2), F.max_pool1d(x[None], 3, 2, 1)),
    "max_pool_channels": lambda x: F.max_pool2d(x[None, None].repeat(2, 19, 3, 3), 3, 2, 1),
    "max_pool_indices": lambda x: F.max_pool2d(x[None, None], 2, return_indices=True),
    "adaptive_max_pool": lambda x: F.adaptive_max_pool2d(x[None, None], 2),
    "floor_divide": lambda x: (
        x // 3,
        x // x.T,
        x // 0.1,
        torch.div(x, -2.5, rounding_mode="floor"),
    ),
}


def same(actual: Any, expected: Any) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6, equal_nan=True)


def compiled(function: Callable[..., Any], engine: str) -> Callable[..., Any]:
    return torch.compile(function, backend="openxrt", options={"engine": engine})


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("engine", ENGINES)
def test_special_numbers(engine: str, name: str) -> None:
    x = torch.tensor(SPECIAL)
    same(compiled(FUNCTIONS[name], engine)(x), FUNCTIONS[name](x))


@pytest.mark.parametrize("engine", ENGINES)
def test_windows_of_the_lowest_number(engine: str) -> None:
    """The border of a max pool is no number of the image, not even the lowest."""
    x = torch.full((1, 2, 4, 4), -INF)
    for window in ((3, 2, 1), (2, 2, 0)):

        def pool(x: torch.Tensor, window: tuple[int, int, int] = window) -> torch.Tensor:
            return F.max_pool2d(x, *window)

        same(compiled(pool, engine)(x), pool(x))


@pytest.mark.parametrize("engine", ENGINES)
def test_floor_division_is_exact(engine: str) -> None:
    """1 divided by 0.1 is 10 when it is rounded, and 9 with a remainder."""

    def divide(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x // y, x // 0.1, torch.floor_divide(x, -0.1), x % y

    x = torch.tensor([1.0, 6.0, -1.0, 5.5, -5.5, 7.0, -7.0, 0.0, 5.0])
    y = torch.tensor([0.1, 0.1, 0.1, 2.0, 2.0, -2.5, -2.0, 3.0, 0.0])
    same(compiled(divide, engine)(x, y), divide(x, y))


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_not_true(engine: str) -> None:
    def reduce(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.any(), x.all(), x.any(0), x.all(0), x.any(1), x.all(1), x.sum(), x.prod()

    for x in (torch.zeros(0, 3), torch.zeros(2, 0), torch.zeros(0, 3, dtype=torch.uint8)):
        torch._dynamo.reset()
        same(compiled(reduce, engine)(x), reduce(x))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("norm", ["layer", "group", "batch", "instance"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_norms_in_other_dtypes(engine: str, norm: str, dtype: torch.dtype) -> None:
    """Forward and backward; in 16 bits with weights of the same dtype and of float32."""
    torch.manual_seed(0)

    def apply(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if norm == "layer":
            return F.layer_norm(x.transpose(1, 2), (6,), w, b)
        if norm == "group":
            return F.group_norm(x, 3, w, b)
        if norm == "instance":
            return F.instance_norm(x, weight=w, bias=b)
        return F.batch_norm(x, None, None, w, b, training=True)

    results = []
    inputs = [torch.randn(4, 6, 5), torch.randn(6), torch.randn(6)]
    coefficients = torch.randn(4, 30)
    for function in (apply, compiled(apply, engine)):
        arguments = [x.to(dtype).requires_grad_() for x in inputs]
        y = function(*arguments)
        assert y.dtype == dtype
        (y.reshape(4, 30) * coefficients.to(dtype)).sum().backward()
        results.append([y.detach(), *(x.grad for x in arguments)])
    tolerance = 1e-9 if dtype == torch.float64 else 5e-2
    torch.testing.assert_close(results[1], results[0], rtol=tolerance, atol=tolerance)


SIGNS = torch.tensor([-0.0, -0.0, 0.0, 0.0, -0.0, 2.0, -2.0, INF, -INF, INF, NAN, 0.0])
SIDES = torch.tensor([-2.0, -0.0, -2.0, -0.0, 3.0, -0.0, 0.0, INF, -INF, -INF, 1.0, NAN])
LARGE = torch.tensor([3e38, 1.8e38, 1e38, -3e38, 2.0**127, 0.3, 1.0, 0.0, NAN, INF])
TAILS = torch.tensor([1e-20, 1e-12, 1e-8, 1e-7, 1e-5, 0.3, 0.5, 0.99, 0.0, 1.0, 2.0, NAN])
BELOW_ZERO = torch.tensor([INF, 5.0, 0.5, -0.5, -1.3, -2.7, -10.1, -60.4, -500.25])
LIMITS = torch.tensor([-1.0, 0.0, 1.0])
BYTES, SIGNED = (torch.tensor([1, 2, 100], dtype=dtype) for dtype in (torch.uint8, torch.int8))
COMPLEX = torch.tensor([2 + 3j, -2 - 0j, complex(-2.0, -0.0), 3e30 + 4e30j, 3e-30 + 4e-30j])

AT_THE_EDGES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "atan2": (torch.atan2, (SIGNS, SIDES)),
    "hypot": (torch.hypot, (SIGNS, SIDES)),
    "frexp": (lambda x: tuple(torch.frexp(x)), (LARGE,)),
    "ndtri": (torch.special.ndtri, (TAILS,)),
    "ndtri_double": (torch.special.ndtri, (TAILS.double(),)),
    "trigamma": (lambda x: torch.polygamma(1, x), (BELOW_ZERO[:-1],)),
    "polygamma": (lambda x: torch.polygamma(2, x), (BELOW_ZERO.double()[1:],)),
    "zeta": (lambda x: torch.special.zeta(torch.tensor([[2.0], [3.0]]), x), (BELOW_ZERO,)),
    "clamp_by_nan": (
        lambda x: (x.clamp(min=NAN), x.clamp(max=NAN), x.clamp(NAN, 2), torch.clamp_min(x, NAN)),
        (LIMITS,),
    ),
    "bucketize": (
        lambda x, y: (
            torch.bucketize(x, y),
            torch.bucketize(x, y, right=True),
            torch.searchsorted(y, x),
        ),
        (torch.tensor([NAN, 0.5, 0.0, -INF, INF]), LIMITS),
    ),
    "float8": (
        lambda x: (x.to(torch.float8_e5m2).float(), x.to(torch.float8_e4m3fn).float()),
        (torch.tensor([1e10, INF, -INF, NAN, 57344.0, 62000.0, 448.0]),),
    ),
    "uint8": (lambda x: (x + 300, x * 200, x - 300, x > -1, x == 300, 300 - x), (BYTES,)),
    "int8": (lambda x: (x + 300, x < 300, x // 300, x % 300, x == 300), (SIGNED,)),
    "complex_pad": (lambda z: (F.pad(z, (1, 1), value=1.0), F.pad(z, (2, 0))), (COMPLEX,)),
    "complex_cat": (
        lambda x, z: (torch.cat([x, z]), torch.stack([z[:3], x])),
        (LIMITS.double(), COMPLEX),
    ),
    "complex_abs": (torch.abs, (COMPLEX,)),
    "complex_angle": (torch.angle, (COMPLEX,)),
}


@pytest.mark.parametrize("name", AT_THE_EDGES)
@pytest.mark.parametrize("engine", ENGINES)
def test_at_the_edges(engine: str, name: str) -> None:
    function, arguments = AT_THE_EDGES[name]
    actual, expected = compiled(function, engine)(*arguments), function(*arguments)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=0, equal_nan=True)
