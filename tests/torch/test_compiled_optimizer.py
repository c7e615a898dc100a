# SPDX-License-Identifier: Apache-2.0
"""torch.compile of an optimizer's step: ops on lists of tensors, and parameters in place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn, optim = torch.nn, torch.optim


OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "SGD": lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda p: optim.Adam(p, 0.01),
    "Adam, plain": lambda p: optim.Adam(p, 0.01, foreach=False),
    "AdamW": lambda p: optim.AdamW(p, 0.01, amsgrad=True, foreach=True),
    "RMSprop": lambda p: optim.RMSprop(p, 0.01, momentum=0.9, centered=True, foreach=True),
    "Adagrad": lambda p: optim.Adagrad(p, 0.01, foreach=True),
    "NAdam": lambda p: optim.NAdam(p, 0.01, foreach=True),
    "RAdam": lambda p: optim.RAdam(p, 0.01, foreach=True),
    "Adadelta": lambda p: optim.Adadelta(p, foreach=True),
    "Adamax": lambda p: optim.Adamax(p, foreach=True),
    "Rprop": lambda p: optim.Rprop(p, foreach=True),
}
OPTIONS = {"engine": "native"}


def close(actual: Any, expected: Any) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_of_an_optimizer(name: str) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    other = copy.deepcopy(module)
    optimizer, compiled = (
        OPTIMIZERS[name](module.parameters()),
        OPTIMIZERS[name](other.parameters()),
    )
    step = torch.compile(compiled.step, backend="openxrt", options=OPTIONS)
    for _ in range(4):
        x = torch.randn(6, 4)
        for of, zero, advance in (
            (module, optimizer.zero_grad, optimizer.step),
            (other, compiled.zero_grad, step),
        ):
            zero()
            of(x).square().sum().backward()
            advance()
        for actual, expected in zip(other.parameters(), module.parameters(), strict=True):
            close(actual, expected)


def test_a_whole_step_with_clipping() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    other = copy.deepcopy(module)

    def step(of: nn.Module, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = of(x).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(of.parameters(), 0.1)
        optimizer.step()
        return loss

    compiled = torch.compile(step, backend="openxrt", options=OPTIONS)
    optimizers = [optim.Adam(of.parameters(), 0.01) for of in (module, other)]
    for _ in range(3):
        x = torch.randn(6, 4)
        close(compiled(other, optimizers[1], x), step(module, optimizers[0], x))


def test_lists_of_tensors() -> None:
    """Each op on lists, as on one tensor after the other."""

    def lists(x: list[torch.Tensor], y: list[torch.Tensor]) -> list[Any]:
        numbers = [1.5, 2.5]
        return [
            *torch._foreach_add(x, y, alpha=2),
            *torch._foreach_add(x, numbers),
            *torch._foreach_sub(x, 1),
            *torch._foreach_div(x, y),
            *torch._foreach_maximum(x, 0.5),
            *torch._foreach_minimum(x, y),
            *torch._foreach_clamp_min(x, numbers),
            *torch._foreach_addcmul(x, y, y, numbers),
            *torch._foreach_addcdiv(x, y, y, value=0.5),
            *torch._foreach_lerp(x, y, 0.25),
            *torch._foreach_pow(x, 2),
            *torch._foreach_norm(x),
            *torch._foreach_norm(x, float("inf")),
            *torch._foreach_sqrt(torch._foreach_abs(x)),
            *torch._foreach_sign(x),
        ]

    x, y = ([torch.randn(3), torch.randn(2, 4)] for _ in range(2))
    compiled = torch.compile(lists, backend="openxrt", options=OPTIONS)
    close(compiled(x, y), lists(x, y))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "max-autotune"}, "takes options="),
        ({"options": {"engine": "native", "freeze": "no"}}, "'freeze' is True or False"),
    ],
)
def test_arguments_without_a_meaning(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        torch.compile(lambda x: x + 1, backend="openxrt", **arguments)(torch.ones(2))
