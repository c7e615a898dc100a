# SPDX-License-Identifier: Apache-2.0
"""cond, while_loop, scan and map of PyTorch through the engines, judged by PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable

import openxrt
import pytest

torch = pytest.importorskip("torch")

import unknown_op  # noqa: E402, F401
from openxrt import torch as xt  # noqa: E402
from torch._higher_order_ops.associative_scan import associative_scan  # noqa: E402
from torch._higher_order_ops.map import map as map_rows  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402


class Branches(torch.nn.Module):
    """Two branches, of which one has weights and the other has not."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.cond(
            x.sum() > 0, lambda x: (self.layer(x), x.exp()), lambda x: (x * 2, x - 1), (x,)
        )


class Nested(torch.nn.Module):
    """A branch within a branch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.max() > 1, lambda x: x.exp(), lambda x: x.sin(), (x,))

        return torch.cond(x.min() < -1, inner, lambda x: x.cos(), (x,))


class Loop(torch.nn.Module):
    """A number and a tensor change until the tensor says so."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def goes_on(i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return (i < 6) & (x.abs().max() < 1e4)

        def step(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, x * 3 + self.layer(x)

        return while_loop(goes_on, step, (torch.tensor(0), x))


class CountedLoop(torch.nn.Module):
    """Carries a Python number."""

    def forward(self, x: torch.Tensor) -> tuple[int, torch.Tensor]:
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * (i + 1)), (0, x))


class Recurrent(torch.nn.Module):
    """h = tanh(W·h + x), row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, h: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def step(h: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            new = torch.tanh(self.layer(h) + x)
            return new, new * x

        return scan(step, h, x, dim=0)


class Rows(torch.nn.Module):
    """A function of each row, and of a tensor that is the same for all."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return map_rows(lambda x, y: (x * y).sum(-1), x, y)


class Products(torch.nn.Module):
    """A running product of matrices."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return associative_scan(lambda a, b: a @ b, x, dim=0, combine_mode="generic")


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X = rand(3, 4)
CASES: dict[str, tuple[Callable[[], torch.nn.Module], list[tuple[torch.Tensor, ...]]]] = {
    "cond": (Branches, [(X.abs(),), (-X.abs(),)]),
    "nested cond": (Nested, [(X,), (X + 5,), (X - 9,)]),
    "while_loop": (Loop, [(X,), (X * 1e3,), (X * 1e6,)]),
    "while_loop of a number": (CountedLoop, [(X,)]),
    "scan": (Recurrent, [(X[0], rand(5, 4)), (X[0], rand(1, 4))]),
    "map": (Rows, [(rand(5, 3, 4), rand(4))]),
    "associative_scan": (Products, [(rand(5, 3, 3),)]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("engine", ["native", "xla"])
def test_agrees_with_pytorch(name: str, engine: str) -> None:
    if engine not in openxrt.engines():
        pytest.skip(f"no engine {engine}")
    engines = [engine] if engine == "native" else [engine, "native"]
    torch.manual_seed(0)
    make, samples = CASES[name]
    module = make().eval()
    fast = xt.XRTModule(module, engine=engines)
    for sample in samples:
        with torch.no_grad():
            wanted, found = module(*sample), fast(*sample)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_gradients_go_through_the_branch_that_was_taken() -> None:
    torch.manual_seed(0)
    module = Branches().train()
    fast = xt.XRTModule(module, engine="native")
    for x in (X.abs(), -X.abs()):
        gradients = []
        for net in (module, fast):
            module.zero_grad()
            first, second = net(x)
            (first.square().sum() + second.sum()).backward()
            found = [p.grad for p in module.parameters()]
            gradients.append([torch.zeros(1) if g is None else g.clone() for g in found])
        for found, wanted in zip(*gradients, strict=True):
            torch.testing.assert_close(found, wanted)


class Unheard(torch.nn.Module):
    """A branch with an op that no engine has."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.ops.openxrt_tests.unheard, lambda x: x * 2, (x + 1,))


def test_an_op_of_a_branch_is_named_or_left_to_pytorch() -> None:
    with pytest.raises(openxrt.Unsupported, match=r"unheard.*test_control_flow\.py:\d+"):
        xt.XRTModule(Unheard().eval(), engine="native")(X)
    fast = xt.XRTModule(Unheard().eval(), engine="native", fallback=True)
    for x in (X.abs(), -X.abs() - 9):
        torch.testing.assert_close(fast(x), Unheard()(x))


class Mixed(torch.nn.Module):
    """A branch that every engine has beside an op that none has."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(x.sum() > 0, lambda x: x.exp(), lambda x: x * 2, (x,))
        return torch.ops.openxrt_tests.unheard(y) + 1


def test_branches_run_beside_what_pytorch_runs() -> None:
    fast = xt.XRTModule(Mixed().eval(), engine="native", fallback=True)
    for x in (X.abs(), -X.abs()):
        torch.testing.assert_close(fast(x), Mixed()(x))


class OnData(torch.nn.Module):
    """Python's own if, on a tensor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        if y.sum() > 0:
            return y * 2
        return y * 3


def test_pythons_if_on_data_names_its_line() -> None:
    with pytest.raises(openxrt.Unsupported, match=r"test_control_flow\.py:\d+: if y\.sum\(\) > 0"):
        xt.XRTModule(OnData().eval(), engine="native")(X)
    fast = xt.XRTModule(OnData().eval(), engine="native", fallback=True)
    for x in (X.abs(), -X.abs() - 1):
        torch.testing.assert_close(fast(x), OnData()(x))
