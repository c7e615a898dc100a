# SPDX-License-Identifier: Apache-2.0
"""Training steps through torch.compile's backend "openxrt", judged by PyTorch eager."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch

F = torch.nn.functional
Linear = torch.nn.Linear


def mlp() -> torch.nn.Module:
    return torch.nn.Sequential(Linear(12, 16), torch.nn.ReLU(), Linear(16, 8), torch.nn.ReLU())


def warm(module: torch.nn.Module, *inputs: torch.Tensor) -> torch.nn.Module:
    """The module through the engines, past the first backward pass; gradients are as they were."""
    fast = torch.compile(module, backend="openxrt", options={"engine": "native"})
    result = fast(*inputs)
    result = result if isinstance(result, torch.Tensor) else result[0]
    result.sum().backward()
    for tensor in (*module.parameters(), *inputs):
        tensor.grad = None
    return fast


def pair(
    make: Callable[[], torch.nn.Module], *inputs: torch.Tensor
) -> tuple[torch.nn.Module, torch.nn.Module]:
    """The same module in PyTorch and through the engines."""
    module = make()
    return module, warm(copy.deepcopy(module), *inputs)


def check(fast: torch.nn.Module, module: torch.nn.Module) -> None:
    for (name, wanted), found in zip(module.named_parameters(), fast.parameters(), strict=True):
        if wanted.grad is None:
            assert found.grad is None, name
        else:
            torch.testing.assert_close(found.grad, wanted.grad, msg=name)
        torch.testing.assert_close(found, wanted, msg=name)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_steps_of_an_optimizer(optimizer: type) -> None:
    module, fast = pair(mlp, torch.randn(5, 12))
    options = {"momentum": 0.9} if optimizer is torch.optim.SGD else {}
    optimizers = [optimizer(m.parameters(), 0.05, **options) for m in (module, fast)]
    for _ in range(4):
        x = torch.randn(5, 12)
        for update, run in zip(optimizers, (module, fast), strict=True):
            update.zero_grad()
            F.mse_loss(run(x), torch.ones(5, 8)).backward()
            update.step()
        check(fast, module)


@pytest.fixture
def graphs_may_be_kept() -> Iterator[None]:
    """What PyTorch asks for where a step keeps its graph after one that did not."""
    with torch._functorch.config.patch(donated_buffer=False):
        yield


@pytest.mark.usefixtures("graphs_may_be_kept")
def test_gradients_accumulate_and_retain_graph() -> None:
    x = torch.randn(5, 12)
    module, fast = pair(mlp, x)
    for run in (module, fast):
        first, second = run(x), run(2 * x)
        second.square().sum().backward()
        first.sum().backward(retain_graph=True)
        first.square().sum().backward()
        with pytest.raises(RuntimeError, match="second time"):
            first.sum().backward()
    check(fast, module)


def test_inputs_and_some_of_the_parameters() -> None:
    x = torch.randn(5, 12, requires_grad=True)
    module, fast = pair(mlp, x)
    for some in ((x,), (x, "2.weight"), ("0.bias",)):
        found, wanted = (
            torch.autograd.grad(
                run(x).square().sum(),
                [get(run, name) if isinstance(name, str) else name for name in some],
            )
            for run in (fast, module)
        )
        torch.testing.assert_close(found, wanted)


def get(module: torch.nn.Module, name: str) -> torch.Tensor:
    return getattr(module, "_orig_mod", module).get_parameter(name)


def test_inputs_that_are_results_of_other_ops() -> None:
    x = torch.randn(5, 12)
    module, fast = pair(mlp, x.clone().requires_grad_())
    gradients = []
    for run in (module, fast):
        leaf = x.clone().requires_grad_()
        run(leaf.tanh()).sum().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(gradients[1], gradients[0])


@pytest.mark.skipif(
    torch.__version__ < "2.13", reason="torch.compile misses requires_grad_() of a parameter"
)
def test_frozen_parameters() -> None:
    def frozen() -> torch.nn.Module:
        module = mlp()
        module[0].weight.requires_grad_(False)
        module[2].bias.requires_grad_(False)
        return module

    x = torch.randn(5, 12)
    module, fast = pair(frozen, x)
    for run in (module, fast):
        run(x).square().sum().backward()
    check(fast, module)
    for run in (module, fast):  # and free again
        get(run, "0.weight").requires_grad_(True)
        run(x).square().sum().backward()
        run(x).square().sum().backward()
    check(fast, module)


def test_hooks() -> None:
    x = torch.randn(5, 12)
    module, fast = pair(mlp, x)
    seen: list[list[torch.Tensor]] = []
    for run in (module, fast):
        mine: list[torch.Tensor] = []
        result = run(x)
        result.register_hook(lambda gradient, mine=mine: mine.append(gradient.clone()))
        result.register_hook(lambda gradient: 3 * gradient)
        get(run, "0.weight").register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))
        get(run, "2.bias").register_post_accumulate_grad_hook(
            lambda parameter, mine=mine: mine.append(parameter.grad.clone())
        )
        result.square().sum().backward()
        seen.append(mine)
    assert len(seen[0]) == 2
    torch.testing.assert_close(seen[1], seen[0])
    check(fast, module)


def test_saved_tensor_hooks() -> None:
    x = torch.randn(5, 12)
    module, fast = pair(mlp, x)
    packed = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor.shape)
        return 2 * tensor.detach()

    for run in (module, fast):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor / 2):
            result = run(x)
        assert packed
        packed.clear()
        result.square().sum().backward()
    check(fast, module)


@pytest.mark.usefixtures("graphs_may_be_kept")
def test_no_second_gradient_is_pretended() -> None:
    x = torch.randn(5, 12, requires_grad=True)
    _, fast = pair(mlp, x)
    result = fast(x)
    (gradient,) = torch.autograd.grad(result, x, torch.ones_like(result), create_graph=True)
    assert gradient.requires_grad
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.square().sum().backward()


@pytest.mark.parametrize("what", ["weight", "result"])
def test_a_change_of_what_is_saved_is_noticed(what: str) -> None:
    x = torch.randn(5, 12)
    for run in pair(mlp, x):
        result = run(x)
        loss = result.sum()
        with torch.no_grad():
            (get(run, "2.weight") if what == "weight" else result).add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_evaluation_between_steps() -> None:
    x = torch.randn(5, 12)
    module, fast = pair(mlp, x)
    for run in (module, fast):
        with torch.no_grad():
            before = run(x)
            assert not before.requires_grad
        torch.nn.utils.clip_grad_norm_(run.parameters(), 1.0)
        run(x).square().sum().backward()
        with torch.no_grad():
            for parameter in run.parameters():
                parameter -= 0.1 * parameter.grad
            assert not torch.equal(run(x), before)
        run(x).square().sum().backward()
    check(fast, module)


class Heads(torch.nn.Module):
    """Three results: one without a gradient, and two of which a loss may leave one out."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.one, self.two = Linear(12, 16), Linear(16, 3), Linear(16, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = torch.tanh(self.body(x))
        return self.one(x), x.argmax(1), self.two(x)


def test_results_without_gradients() -> None:
    x = torch.randn(5, 12)
    module, fast = pair(Heads, x)
    for run in (module, fast):
        one, places, two = run(x)
        assert not places.requires_grad
        two.square().sum().backward()
        one, places, two = run(x)
        (one.sum() + two.sum() + places.sum()).backward()
    for name in ("body.weight", "two.weight", "one.weight"):
        torch.testing.assert_close(get(fast, name).grad, get(module, name).grad)


class Counting(torch.nn.Module):
    """A buffer is written, and a result is a view of an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = Linear(12, 4)
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.linear(x)
        self.calls.add_(y.detach().sum(0))
        return y, x[1:]


def test_buffers_that_are_written_and_views_of_arguments() -> None:
    x = torch.randn(5, 12)
    module = Counting()
    fast = warm(copy.deepcopy(module), x)
    module(x)
    for run in (module, fast):
        y, part = run(x)
        assert part.data_ptr() == x[1:].data_ptr()
        y.square().sum().backward()
    check(fast, module)
    torch.testing.assert_close(fast.calls, module.calls)


def test_batches_of_many_sizes() -> None:
    module, fast = pair(mlp, torch.randn(5, 12))
    for size in (7, 3, 7, 5):
        x = torch.randn(size, 12)
        for run in (module, fast):
            run(x).square().sum().backward()
        check(fast, module)


def test_autocast() -> None:
    x = torch.randn(5, 12)
    module, fast = pair(mlp, x)
    for run in (module, fast):
        for _ in range(3):
            with torch.autocast("cpu", torch.bfloat16):
                result = run(x)
            assert result.dtype == torch.bfloat16
            result.float().square().sum().backward()
    for wanted, found in zip(module.parameters(), fast.parameters(), strict=True):
        torch.testing.assert_close(found.grad, wanted.grad, rtol=0.05, atol=0.05)


def test_what_is_saved_goes_with_the_graph() -> None:
    x = torch.randn(5, 12)
    _, fast = pair(mlp, x)
    result = fast(x)
    saved = [
        weakref.ref(tensor) for tensor in result.grad_fn.saved_tensors if tensor.shape == (5, 16)
    ]
    assert saved
    result.sum().backward()
    gc.collect()
    assert all(tensor() is None for tensor in saved)


def test_several_threads_at_once() -> None:
    x = torch.randn(256, 512)
    make = lambda: torch.nn.Sequential(Linear(512, 512), torch.nn.ReLU(), Linear(512, 512))  # noqa: E731
    modules = [make() for _ in range(3)]
    fast = [warm(copy.deepcopy(module), x) for module in modules]
    failures: list[BaseException] = []

    def train(run: torch.nn.Module) -> None:
        try:
            for _ in range(20):
                run(x).square().sum().backward()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=train, args=(run,)) for run in fast]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for module, run in zip(modules, fast, strict=True):
        for _ in range(20):
            module(x).square().sum().backward()
        for wanted, found in zip(module.parameters(), run.parameters(), strict=True):
            torch.testing.assert_close(found.grad, wanted.grad, rtol=1e-3, atol=1e-1)


def _channels_last(*shape: int) -> torch.Tensor:
    return torch.randn(shape).to(memory_format=torch.channels_last)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("gradients", [False, True])
def test_results_lie_in_memory_as_pytorchs(gradients: bool, dynamic: bool) -> None:
    """What comes after the graph may look at strides, as view() does."""
    weight = torch.randn(5, 3, 3, 3)

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x.t() * 2
        torch._dynamo.graph_break()
        return y.t().view(-1) + 1

    cases = [
        (lambda x: torch.relu(x) * 2, _channels_last(2, 3, 4, 4)),
        (lambda x: torch.conv2d(x, weight), _channels_last(2, 3, 6, 6)),
        (lambda x: (x + 1, torch.conv2d(x, weight).relu(), x.mean(1)), _channels_last(2, 3, 6, 6)),
        (lambda x: (x * 2).permute(0, 2, 3, 1), _channels_last(2, 3, 4, 4)),
        (lambda x: x.permute(2, 0, 1) + 1, torch.randn(2, 3, 4)),
        (lambda x: x[:, :, ::2] + 1, torch.randn(2, 3, 4)),
        (broken, torch.randn(3, 4)),
    ]
    for function, x in cases:
        torch._dynamo.reset()
        options = {"engine": "native"}
        compiled = torch.compile(function, backend="openxrt", options=options, dynamic=dynamic)
        for _ in range(3):
            given = x.clone(memory_format=torch.preserve_format).requires_grad_(gradients)
            actual, expected = compiled(given), function(given)
            if isinstance(actual, torch.Tensor):
                actual, expected = (actual,), (expected,)
            for one, other in zip(actual, expected, strict=True):
                assert one.stride() == other.stride()
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
            if gradients:
                sum(one.sum() for one in actual).backward()
                assert given.grad is not None
