# SPDX-License-Identifier: Apache-2.0
"""XRTModule in training mode follows changes of what it wraps, judged by PyTorch eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import openxrt
import openxrt.torch as xt
import pytest
import torch
from openxrt.torch import runner

Linear = torch.nn.Linear


class Network(torch.nn.Module):
    """A forward() that reads an attribute and a mode."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = Linear(6, 5), Linear(5, 3)
        self.scale = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x)) * self.scale
        return self.last(x) if self.training else x


def sequential() -> torch.nn.Module:
    return torch.nn.Sequential(Linear(6, 5), torch.nn.ReLU(), Linear(5, 3))


MODULES = [sequential, Network]


def pair(make: Callable[[], torch.nn.Module]) -> tuple[torch.nn.Module, xt.XRTModule]:
    module = make()
    fast = xt.XRTModule(copy.deepcopy(module), engine="native").train()
    for _ in range(3):
        same(module, fast)
    return module, fast


def same(module: torch.nn.Module, fast: torch.nn.Module, *shape: int) -> None:
    x = torch.randn(*(shape or (4, 6)))
    results = []
    for run in (module, fast):
        run.zero_grad()
        results.append(run(x))
        results[-1].square().sum().backward()
    torch.testing.assert_close(results[1], results[0])
    for wanted, found in zip(module.parameters(), fast.parameters(), strict=True):
        if wanted.grad is None:
            assert found.grad is None
        else:
            torch.testing.assert_close(found.grad, wanted.grad)


@pytest.mark.parametrize("make", MODULES)
def test_weights_and_shapes_that_change(make: Callable[[], torch.nn.Module]) -> None:
    module, fast = pair(make)
    for run in (module, fast):
        with torch.no_grad():
            for parameter in run.parameters():
                parameter.mul_(0.5)
    same(module, fast)
    for size in (7, 2, 4):
        same(module, fast, size, 6)
    name = "0" if make is sequential else "first"
    for run in (module, fast):
        getattr(run, name).weight.requires_grad_(False)
    same(module, fast)
    fresh = Linear(6, 5, bias=False)
    setattr(module, name, fresh)
    setattr(fast.wrapped, name, copy.deepcopy(fresh))
    same(module, fast)


def test_attributes_that_forward_reads() -> None:
    module, fast = pair(Network)
    module.scale = fast.wrapped.scale = 3.0
    same(module, fast)
    module.scale = fast.wrapped.scale = 1.0
    same(module, fast)


@pytest.mark.parametrize("make", MODULES)
def test_hooks(make: Callable[[], torch.nn.Module]) -> None:
    module = make()
    fast = xt.XRTModule(copy.deepcopy(module), engine="native").train()
    if make is Network:  # torch.compile looks for hooks of PyTorch's own modules while tracing
        module, fast = pair(make)
    for run in (module, fast.wrapped):
        run.register_forward_hook(lambda _, __, result: 2 * result)
    same(module, fast)
    same(module, fast)
    same(module, fast)


def test_hooks_that_come_later() -> None:
    """On parts, on parts that were replaced, forward and backward."""
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    fast = xt.XRTModule(module, engine="native").train()
    x = torch.randn(3, 4)

    def check() -> None:
        torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)

    check()
    hook = module[0].register_forward_hook(lambda part, args, result: 5 * result)
    check()
    hook.remove()
    check()
    module[2] = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
    check()
    module[2].register_forward_pre_hook(lambda part, args: (args[0] + 1,))
    check()
    called: list[int] = []
    module[0].register_full_backward_hook(lambda *_: called.append(1))
    fast(x).sum().backward()
    assert called == [1]


@pytest.mark.parametrize("make", MODULES)
def test_modules_of_other_engines_keep_theirs(
    make: Callable[[], torch.nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dynamo keeps the code of all in one place, with guards that do not tell them apart."""
    loaded: list[object] = []

    def load(graph: openxrt.Graph, **options: Any) -> openxrt.Program:
        loaded.append(options["engine"])
        return openxrt.load(graph, **options)

    monkeypatch.setattr(runner, "load", load)
    module = make()
    engines = ("native", ["xla", "native"])
    runs = [xt.XRTModule(copy.deepcopy(module), engine=engine).train() for engine in engines]
    for _ in range(3):
        for run in runs:
            same(module, run)
    assert loaded == [engine for engine in engines for _ in ("forward", "backward")]


def test_grad_mode_and_autocast() -> None:
    module, fast = pair(sequential)
    x = torch.randn(4, 6)
    with torch.no_grad():
        assert not fast(x).requires_grad
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            assert fast(x).dtype == torch.bfloat16
    assert fast(x).requires_grad
    same(module, fast)


@pytest.mark.parametrize(
    "engine", [name for name in ("native", "xla") if name in openxrt.engines()]
)
def test_half_precision_with_a_grad_scaler(engine: str) -> None:
    """Gradients that float16 cannot hold are there with the scaler, and only with it."""
    torch.manual_seed(0)
    plain = torch.nn.Sequential(Linear(6, 16), torch.nn.ReLU(), Linear(16, 3))
    before = copy.deepcopy(plain.state_dict())
    runs = []
    for scaled in (True, False):
        fast = xt.XRTModule(copy.deepcopy(plain), engine=engine, precision="f16").train()
        runs.append((fast, torch.amp.GradScaler("cpu", init_scale=2.0**16, enabled=scaled)))
    runs.append((plain, torch.amp.GradScaler("cpu", enabled=False)))
    for run, scaler in runs:
        optimizer = torch.optim.SGD(run.parameters(), 1e5)
        torch.manual_seed(1)
        for _ in range(10):
            x = torch.randn(32, 6)
            optimizer.zero_grad()
            result = run(x)
            assert result.dtype == torch.float32
            loss = (result - x[:, :3]).square().mean() * 1e-6
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    scaled, lost, wanted = (dict(run.state_dict()) for run, _ in runs)
    names = {name: name.removeprefix("module.") for name in scaled}
    assert {value.dtype for value in scaled.values()} == {torch.float32}
    for name, plain_name in names.items():
        moved = (wanted[plain_name] - before[plain_name]).abs().max()
        assert (scaled[name] - wanted[plain_name]).abs().max() < 0.02 * moved
        if plain_name == "0.weight":  # a product of gradients; those of biases are sums, in float32
            assert (lost[name] - wanted[plain_name]).abs().max() > 0.1 * moved


def test_stances_and_graph_breaks() -> None:
    module, fast = pair(sequential)
    with torch.compiler.set_stance("force_eager"):
        assert "AddmmBackward" in type(fast(torch.randn(4, 6)).grad_fn).__name__

    class Broken(Network):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            torch._dynamo.graph_break()
            return self.last(torch.relu(x))

    module = Broken()
    fast = xt.XRTModule(copy.deepcopy(module), engine="native").train()
    for _ in range(4):
        same(module, fast)


def test_inside_of_another_compiled_function() -> None:
    module, fast = pair(sequential)
    outer = torch.compile(lambda x: 2 * fast(x), backend="aot_eager")
    for _ in range(3):
        x = torch.randn(4, 6)
        torch.testing.assert_close(outer(x), 2 * module(x))
    fresh = xt.XRTModule(copy.deepcopy(module), engine="native").train()
    outer = torch.compile(fresh, backend="aot_eager")
    for _ in range(3):
        same(module, outer)


def test_dropout_trains_on_xla_alone() -> None:
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.25, batch_first=True)
    fast = xt.XRTModule(layer, engine=["xla"], strict=True).train()
    x = torch.randn(2, 5, 16, requires_grad=True)
    first, second = fast(x), fast(x)
    assert not torch.equal(first, second)
    first.square().sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())
    for program in fast.programs():
        assert len(program.explain()["launches"]) == 1
