# SPDX-License-Identifier: Apache-2.0
"""PyTorch's generator decides the random numbers of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.utils.checkpoint import checkpoint  # noqa: E402

nn, F = torch.nn, torch.nn.functional

import openxrt.torch as xt  # noqa: E402


def wrapped(module: nn.Module) -> Callable[..., Any]:
    return xt.XRTModule(module, engine="native")


def compiled(module: nn.Module) -> Callable[..., Any]:
    return torch.compile(module, backend="openxrt", options={"engine": "native"})


WAYS = pytest.mark.parametrize("way", [wrapped, compiled])


class Function(nn.Module):
    """A module that is one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


DRAWN = {
    "dropout": lambda x: F.dropout(x, 0.5),
    "bernoulli": lambda x: torch.bernoulli(torch.full_like(x, 0.3)),
    "uniform": lambda x: x + torch.rand(x.shape[1], x.shape[0] + 1).sum(),
    "normal": lambda x: x * torch.randn_like(x),
    "integers": lambda x: torch.randint(0, 1000, x.shape),
    "multinomial": lambda x: torch.multinomial(x.abs() + 1, 2),
    "several": lambda x: F.dropout(x + torch.randn_like(x), 0.1) + torch.rand_like(x),
}


@WAYS
@pytest.mark.parametrize("name", DRAWN)
def test_a_seed_says_the_numbers(way: Callable[..., Any], name: str) -> None:
    """Whatever the size; without it they differ."""
    fast = way(Function(DRAWN[name]).eval())
    for rows in (8, 9, 10, 8):
        x = torch.ones(rows, 7)
        torch.manual_seed(3)
        first, second = fast(x), fast(x)
        torch.manual_seed(3)
        assert torch.equal(fast(x), first)
        assert not torch.equal(first, second)


@WAYS
def test_normal_numbers_are_those_of_eager(way: Callable[..., Any]) -> None:
    function = Function(lambda x: (x + torch.randn_like(x), torch.rand(3, x.shape[0]))).eval()
    fast = way(function)
    for rows in (4, 5, 6):
        x = torch.ones(rows, 7)
        torch.manual_seed(3)
        found = fast(x)
        torch.manual_seed(3)
        for actual, expected in zip(found, function(x), strict=True):
            torch.testing.assert_close(actual, expected)


def test_programs_of_random_numbers_serve_every_size() -> None:
    fast = xt.XRTModule(Function(DRAWN["several"]).eval(), engine="native")
    for rows in (4, 5, 6, 7):
        assert fast(torch.ones(rows, 3)).shape == (rows, 3)
    assert len(list(fast.programs())) == 2


@WAYS
def test_a_checkpoint_around_it_draws_the_same_again(way: Callable[..., Any]) -> None:
    fast = way(nn.Dropout(0.5).train())
    for count in (100, 60, 80):
        x = torch.ones(count, requires_grad=True)
        y = checkpoint(lambda z: fast(z).square(), x, use_reentrant=False)
        y.sum().backward()
        assert 0 < y.count_nonzero() < count
        assert torch.equal(x.grad != 0, y != 0)


@WAYS
def test_a_checkpoint_within_it_keeps_what_was_drawn(way: Callable[..., Any]) -> None:
    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(100))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            part = nn.Sequential(nn.ReLU(), nn.Dropout(0.5), nn.ReLU())
            return checkpoint(lambda z: part(z * self.scale).square(), x, use_reentrant=False)

    fast = way(Part().train())
    for rows in (2, 3):
        x = torch.ones(rows, 100, requires_grad=True)
        y = fast(x)
        y.sum().backward()
        assert 0 < y.count_nonzero() < y.numel()
        assert torch.equal(x.grad != 0, y != 0)
