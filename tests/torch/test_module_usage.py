# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's users do with modules beside calling them: the wrapper does as the module does."""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import openxrt
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

import openxrt.torch as xt  # noqa: E402
from openxrt.torch.runner import Runner  # noqa: E402


def mlp() -> torch.nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def assert_close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(
        actual.detach(), expected.detach(), rtol=tolerance, atol=tolerance, equal_nan=True
    )


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every run of the engines."""
    counted: list[int] = []
    call = Runner.__call__

    def counting(self, *args, **kwargs):
        counted.append(1)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(Runner, "__call__", counting)
    return counted


def test_what_is_no_module_is_refused() -> None:
    for given in (None, 5, torch.relu, "model.onnx"):
        with pytest.raises(TypeError, match=f"{type(given).__name__}: a torch.nn.Module is wanted"):
            xt.XRTModule(given)


@pytest.mark.filterwarnings("error")
def test_no_warnings_of_pytorch_about_itself() -> None:
    module = mlp().eval()
    x = torch.randn(2, 4)
    assert_close(xt.XRTModule(module, "native")(x), module(x))


def test_results_are_contiguous() -> None:
    """In any memory format of the arguments."""
    module = nn.Conv2d(3, 8, 3).eval()
    x = torch.randn(1, 3, 8, 8).to(memory_format=torch.channels_last)
    result = xt.XRTModule(module, "native")(x)
    assert result.is_contiguous()
    assert_close(result, module(x))


def test_autocast_is_part_of_what_was_traced() -> None:
    """Also where a program for these arguments was made outside of it, or within it."""
    module = mlp().eval()
    x = torch.randn(2, 4)
    outside_first, inside_first = xt.XRTModule(module, "native"), xt.XRTModule(module, "native")
    outside_first(x)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype):
            for fast in (outside_first, inside_first):
                assert fast(x).dtype == dtype
                assert_close(fast(x).float(), module(x).float(), 3e-2)
    for fast in (outside_first, inside_first):
        assert fast(x).dtype == torch.float32
        assert_close(fast(x), module(x))


@pytest.mark.skipif(
    "isolate_recompiles" not in inspect.signature(torch.compile).parameters,
    reason="this PyTorch counts the recompilations of all modules of a class together",
)
def test_every_wrapper_trains_through_the_engines(runs: list[int]) -> None:
    """PyTorch counts recompilations by code, which modules of a class share, and runs all that
    comes above its limit of eight by itself."""
    for _ in range(torch._dynamo.config.recompile_limit + 2):
        fast = xt.XRTModule(mlp().train(), "native")
        runs.clear()
        for rows in (1, 2, 3):
            fast(torch.randn(rows, 4)).sum().backward()
        assert len(runs) == 6


def test_a_dtype_that_changed_in_place() -> None:
    """Module.to() keeps the parameters, and gives them other contents."""
    module = nn.Embedding(5, 3).eval()
    fast = xt.XRTModule(module, "native")
    rows = torch.tensor([1, 4])
    assert fast(rows).dtype == torch.float32
    module.double()
    assert fast(rows).dtype == torch.float64
    fast.half()
    assert fast(rows).dtype == torch.float16
    assert_close(fast(rows), module(rows))


def test_hooks_and_forward_methods_that_come_later() -> None:
    module = mlp().eval()
    fast = xt.XRTModule(module, "native")
    x = torch.randn(2, 4)
    fast(x)
    hook = module[1].register_forward_hook(lambda part, args, result: result + 100)
    assert_close(fast(x), module(x), 1e-3)
    hook.remove()
    assert_close(fast(x), module(x))
    module[0].register_forward_pre_hook(lambda part, args: (args[0] * 2,))
    assert_close(fast(x), module(x))
    module[2].forward = lambda given: given[:, :1]
    assert_close(fast(x), module(x))


def test_attributes_are_set_where_forward_reads_them() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = 2.0
            self.options = "its own"

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.factor

    module = Scaled().eval()
    fast = xt.XRTModule(module, "native")
    assert module.options == "its own"
    x = torch.ones(3)
    assert_close(fast(x), x * 2)
    fast.factor = 5.0
    assert module.factor == fast.factor == 5.0
    assert_close(fast(x), x * 5)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.float16])
def test_arguments_that_pytorch_refuses(training: bool, dtype: torch.dtype) -> None:
    """Its own error, which names the cause, and none of tracing or import."""
    fast = xt.XRTModule(mlp().train(training), "native")
    with pytest.raises(RuntimeError, match="must have the same dtype") as caught:
        fast(torch.ones(2, 4, dtype=dtype))
    assert not isinstance(caught.value, openxrt.Error)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        xt.XRTModule(mlp().eval(), "native")(torch.ones(2, 5))


def test_what_tracing_stumbles_over_is_left_to_pytorch() -> None:
    """Whatever torch.export raises: here a TypeError, for sizes that depend on data."""

    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(4, 5, batch_first=True)

        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(
                x, lengths, batch_first=True, enforce_sorted=False
            )
            return nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0]

    module = Packed().eval()
    given = torch.randn(3, 4, 4), torch.tensor([4, 2, 3])
    with pytest.raises(openxrt.Unsupported, match=r"Packed cannot be traced whole.*fallback=True"):
        xt.XRTModule(module, "native")(*given)
    assert_close(xt.XRTModule(module, "native", fallback=True)(*given), module(*given))


@pytest.mark.parametrize("training", [False, True])
def test_lazy_modules(training: bool) -> None:
    module = nn.Sequential(nn.LazyLinear(3), nn.ReLU()).train(training)
    x = torch.randn(2, 4)
    assert_close(xt.XRTModule(module, "native")(x), module(x))


def test_transforms_of_torch_func() -> None:
    module = mlp().eval()
    fast = xt.XRTModule(module, "native")
    x = torch.randn(5, 2, 4)
    fast(x[0])
    assert_close(torch.vmap(fast)(x), torch.vmap(module)(x))

    def gradients(of: nn.Module) -> dict[str, torch.Tensor]:
        weights = {name: weight.detach() for name, weight in module.named_parameters()}
        return torch.func.grad(lambda given: torch.func.functional_call(of, given, (x[0],)).sum())(
            weights
        )

    expected = gradients(module)
    for name, gradient in gradients(fast).items():
        assert_close(gradient, expected[name])


def test_part_of_a_larger_module() -> None:
    """torch.export and TorchScript take the wrapped module in, not its results of the moment."""
    module = mlp().eval()

    class Larger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = xt.XRTModule(module, "native")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.part(x).relu()

    x = torch.randn(2, 4)
    larger = Larger().eval()
    assert_close(larger(x), module(x).relu())
    assert_close(xt.XRTModule(larger, "native")(x), module(x).relu())
    assert_close(torch.export.export(larger, (x,)).module()(x + 1), module(x + 1).relu())
    assert_close(torch.jit.trace(larger, x)(x + 1), module(x + 1).relu())


def test_a_graph_that_is_kept() -> None:
    module = mlp().train()
    fast = xt.XRTModule(module, "native")
    x = torch.randn(2, 4)
    loss = fast(x).square().sum()
    loss.backward(retain_graph=True)
    once = module[0].weight.grad.clone()
    loss.backward()
    assert_close(module[0].weight.grad, once * 2)


def test_signs_and_conjugates_that_are_yet_to_be_applied() -> None:
    class Plus(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    fast = xt.XRTModule(Plus().eval(), "native")
    z = torch.randn(3, dtype=torch.complex64)
    negative = z.conj().imag
    assert negative.is_neg()
    assert_close(fast(negative), negative + 1)
    assert_close(fast(z.conj()), z.conj() + 1)


def test_threads_that_trace_at_once() -> None:
    """torch.export keeps what it traces in global variables, fake parameters in the module, and a
    function of its own in the place of nn.Module.__call__."""
    modules = [mlp().eval() for _ in range(2)]
    wrapped = [xt.XRTModule(module, "native") for module in modules]
    inputs = [torch.randn(rows, 4) for rows in (1, 2, 3, 4)]
    results: dict[tuple[int, int], torch.Tensor] = {}
    failures: list[BaseException] = []
    start = threading.Barrier(len(inputs))

    def work(i: int) -> None:
        try:
            start.wait()
            for k, fast in enumerate(wrapped):
                results[i, k] = fast(inputs[i])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    for (i, k), result in results.items():
        assert_close(result, modules[k](inputs[i]))


def test_a_module_under_two_names() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(10, 6)
            self.first = nn.Linear(6, 10, bias=False)
            self.first.weight = self.embedding.weight
            self.second = self.first

        def forward(self, i: torch.Tensor) -> torch.Tensor:
            return self.second(self.embedding(i))

    module = Tied()
    i = torch.randint(0, 10, (2, 3))
    for wrapper in (xt.XRTModule, xt.EngineModule):
        fast = wrapper(module, "native")
        for _ in range(2):
            assert_close(fast.eval()(i), module(i))
            fast.train()(i).square().sum().backward()
            torch.optim.SGD(fast.parameters(), 0.01).step()
        assert_close(fast.eval()(i), module(i))


def test_weights_made_in_inference_mode() -> None:
    """PyTorch does not count writes to them: they are inputs from the start."""
    with torch.inference_mode():
        module = mlp().eval()
        x = torch.randn(2, 4)
        fast = xt.XRTModule(module, "native")
        compiled = torch.compile(module, backend="openxrt", options={"engine": "native"})
        for function in (fast, compiled):
            assert_close(function(x), module(x))
            module[0].weight.mul_(2)
            assert_close(function(x), module(x))
    assert_close(fast(x), module(x))


def compiled(module: nn.Module) -> nn.Module:
    return torch.compile(module, backend="openxrt", options={"engine": "native"})


OTHER_MEMORY = {
    "assigned": lambda m: setattr(m[0].weight, "data", m[0].weight * 2),
    "assigned, of another shape": lambda m: setattr(m[2].bias, "data", torch.ones(1)),
    "a vector": lambda m: nn.utils.vector_to_parameters(torch.ones(73), m.parameters()),
    "to a dtype and back": lambda m: m[0].bfloat16().float(),
    "a buffer": lambda m: setattr(m[3].running_mean, "data", torch.ones(3)),
}


@pytest.mark.parametrize("name", OTHER_MEMORY)
@pytest.mark.parametrize("way", [lambda m: xt.XRTModule(m, "native"), compiled])
def test_weights_with_other_memory(way: Callable[[nn.Module], Any], name: str) -> None:
    """PyTorch counts no write where `.data` is assigned."""
    module = mlp().append(nn.BatchNorm1d(3)).eval()
    x = torch.randn(2, 4)
    with torch.no_grad():
        fast = way(module)
        assert_close(fast(x), module(x))
        before = module(x)
        OTHER_MEMORY[name](module)
        assert not torch.equal(module(x), before)
        assert_close(fast(x), module(x))


@pytest.fixture
def default_dtype() -> Iterator[torch.dtype]:
    """What it is afterwards again."""
    dtype = torch.get_default_dtype()
    yield dtype
    torch.set_default_dtype(dtype)


def test_the_default_dtype_is_part_of_what_was_traced(default_dtype: torch.dtype) -> None:
    class Module(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x + 1, torch.arange(x.shape[0]) / 2, x * torch.ones(3)

    fast = xt.XRTModule(Module().eval(), "native")
    for dtype in (default_dtype, torch.float64, default_dtype):
        torch.set_default_dtype(dtype)
        for rows in (3, 1, 4):
            x = torch.ones(rows, 3, dtype=torch.float32)
            for found, expected in zip(fast(x), Module()(x), strict=True):
                assert found.dtype == expected.dtype
                assert_close(found, expected)


@pytest.mark.parametrize("wrapper", [xt.XRTModule, xt.EngineModule])
def test_functional_calls(wrapper: type) -> None:
    """Tensors in the place of parameters get their gradients, in evaluation mode, too."""
    module = mlp().eval()
    fast = wrapper(module, "native")
    x = torch.randn(2, 4)
    for _ in range(2):
        double = {name: p * 2 for name, p in module.named_parameters()}
        y = torch.func.functional_call(fast, double, (x,))
        assert_close(y, torch.func.functional_call(module, double, (x,)))
        module.zero_grad()
        y.sum().backward()
        assert module[0].weight.grad is not None
        with torch.no_grad():
            assert not torch.func.functional_call(fast, double, (x,)).requires_grad
        assert_close(fast(x), module(x))


def test_batch_normalisation_under_autocast() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 2, 3))
    gradients = []
    x = torch.randn(4, 3, 9, 9)
    for fast in (module, xt.XRTModule(module, "native")):
        module.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = fast(x).float().square().mean()
        loss.backward()
        gradients.append([p.grad.clone() for p in module.parameters()])
    for actual, expected in zip(gradients[1], gradients[0], strict=True):
        assert actual.dtype == expected.dtype
        assert_close(actual, expected, 3e-2)


def test_batch_normalisation_under_a_checkpoint() -> None:
    """What is computed again leaves the running statistics alone, and reads none."""
    from torch.utils.checkpoint import checkpoint

    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.net, x, use_reentrant=False)

    torch.manual_seed(0)
    module = Part()
    plain = copy.deepcopy(module)
    fast = xt.XRTModule(module, "native")
    for _ in range(3):
        x = torch.randn(4, 3, 9, 9)
        for run, of in ((plain.net, plain), (fast, module)):
            of.zero_grad()
            run(x).square().mean().backward()
        for actual, expected in zip(module.parameters(), plain.parameters(), strict=True):
            assert_close(actual.grad, expected.grad)
        for actual, expected in zip(module.buffers(), plain.buffers(), strict=True):
            assert_close(actual, expected)


class Doubles(nn.Module):
    """Another way for more than ten rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 10 else x + 1


def test_sizes_that_take_another_way() -> None:
    plain = Doubles().eval()
    module = xt.XRTModule(plain, "native")
    for rows in (5, 7, 12, 20, 9, 1):
        x = torch.randn(rows, 2)
        assert_close(module(x), plain(x))


class Compares(nn.Module):
    """Another way for an even number of rows, and for more rows than the other has."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.shape[0] % 2 == 0:
            return x * 2 + y.sum()
        return x - y.sum() if x.shape[0] > y.shape[0] else x + y.sum()


def test_sizes_that_take_another_way_together() -> None:
    plain = Compares().eval()
    module = xt.XRTModule(plain, "native")
    for rows, others in ((5, 4), (7, 3), (6, 5), (9, 10), (11, 2), (3, 8), (8, 2)):
        x, y = torch.randn(rows), torch.randn(others)
        assert_close(module(x, y), plain(x, y))


class Difference(nn.Module):
    """Its arguments must not be mixed up."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x - y


def test_arguments_by_name_and_by_position() -> None:
    module = xt.XRTModule(Difference().eval(), "native")
    x, y = torch.randn(3), torch.randn(3)
    assert_close(module(y=y, x=x), x - y)
    assert_close(module(x, y), x - y)
    assert_close(module(x, y=y), x - y)


class Base(nn.Module):
    """What calls the module, in a class below that of forward."""

    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return self(self(x))


class Caller(Base):
    """Methods that call the module, directly and by a base class."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu()

    def twice(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        assert isinstance(self, Caller)
        return super().twice(x)

    def by_forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.forward(x)


def test_methods_call_the_wrapper(runs: list[int]) -> None:
    plain = Caller().eval()
    module = xt.XRTModule(plain, "native")
    x = torch.randn(2, 3)
    with torch.no_grad():
        assert_close(module.twice(x), plain.linear(plain.linear(x).relu()).relu())
        assert len(runs) == 2
        assert_close(module.by_forward(x), plain.linear(x).relu())
    assert len(runs) == 3
    assert plain.calls == module.calls == 1
    assert repr(type(plain)) == repr(type(module.twice.__self__))


class Counting(nn.Module):
    """Writes a number, a list and a buffer; its results depend on the number when it `uses` it."""

    def __init__(self, uses: bool) -> None:
        super().__init__()
        self.uses = uses
        self.calls = 0
        self.seen: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen.append(x.dim())
        return x * (self.calls if self.uses else 2)


def test_an_attribute_that_every_call_writes() -> None:
    """A program has one value of it."""
    module, x = Counting(True).eval(), torch.ones(2)
    with pytest.raises(openxrt.Unsupported, match=r"every call of Counting writes 'calls'.*buffer"):
        xt.XRTModule(module, "native")(x)
    assert (module.calls, module.seen) == (0, [])
    fast = xt.XRTModule(module, "native", fallback=True)
    with torch.no_grad():
        assert [fast(x)[0].item() for _ in range(3)] == [1, 2, 3]
    assert module.calls == 3


def test_an_attribute_that_decides_nothing(runs: list[int]) -> None:
    module, x = Counting(False).eval(), torch.ones(2)
    fast = xt.XRTModule(module, "native")
    assert [fast(x)[0].item() for _ in range(3)] == [2, 2, 2]
    assert (module.calls, module.seen) == (1, [1])  # as the trace left them
    assert len(runs) == 3


def test_an_attribute_that_the_first_call_writes(runs: list[int]) -> None:
    class SetUp(nn.Module):
        is_ready = False

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.is_ready:
                return x * 3
            self.is_ready = True
            return x

    fast, x = xt.XRTModule(SetUp().eval(), "native"), torch.ones(2)
    assert [fast(x)[0].item() for _ in range(3)] == [1, 3, 3]
    assert len(runs) == 2


class Accumulating(nn.Module):
    """Writes an argument before it reads the other one."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2


def test_arguments_in_the_same_memory() -> None:
    fast = xt.XRTModule(Accumulating().eval(), "native")
    x, y = torch.zeros(3), torch.zeros(3)
    assert fast(x, y).tolist() == [0, 0, 0]
    assert x.tolist() == [1, 1, 1]
    for given in ((x, x), (x, x[:3]), (x, x.view(3)[1:].expand(2))):
        with pytest.raises(openxrt.Unsupported, match=r"argument 'x'.*memory with 'y'"):
            fast(*given)
        with pytest.raises(openxrt.Unsupported, match=r"argument 'x'.*memory with 'y'"):
            xt.XRTModule(Accumulating().eval(), "native")(*given)
    assert x.tolist() == [1, 1, 1]
    left = xt.XRTModule(Accumulating().eval(), "native", fallback=True)
    for given, expected in (((torch.zeros(3), y), 0), ((x, x), 4)):
        with torch.no_grad():
            assert left(*given).tolist() == [expected] * 3


def test_arguments_that_are_views_of_each_other() -> None:
    class Product(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x @ y

    module, y = Product().eval(), torch.randn(4, 4)
    fast = xt.XRTModule(module, "native")
    for x in (y[0], y[1], torch.randn(4), y.view(16)[::5]):
        assert_close(fast(x, y), module(x, y))


def test_a_gradient_within_forward() -> None:
    class Slope(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.func.grad(lambda y: (y**3).sum())(x)

    module, x = Slope().eval(), torch.tensor([2.0])
    with pytest.raises(openxrt.Unsupported, match=r"gradients \(torch\.func\.grad"):
        xt.XRTModule(module, "native")(x)
    assert xt.XRTModule(module, "native", fallback=True)(x).tolist() == [12]


def test_gradients_of_many_within_forward() -> None:
    class Slopes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.vmap(torch.func.grad(lambda y: (y**3).sum()))(x)

    with pytest.raises(openxrt.Unsupported, match=r"gradients \(torch\.func\.grad"):
        xt.XRTModule(Slopes().eval(), "native")(torch.ones(2, 3))


def test_sizes_among_the_results() -> None:
    class Sized(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Size]]:
            return x * 2, {"size": x.shape, "row": x[0].shape}

    module = Sized().eval()
    fast = xt.XRTModule(module, "native")
    for rows in (2, 3, 5):  # as numbers, and as symbols
        x = torch.ones(rows, 3)
        actual, expected = fast(x)[1], module(x)[1]
        assert actual == expected
        assert all(type(size) is torch.Size for size in actual.values())


def test_a_padding_mask_of_an_encoder() -> None:
    """At positions that are no padding; PyTorch's fast path gives zeros at the others."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    module = nn.TransformerEncoder(layer, 2).eval()
    x, mask = torch.randn(2, 3, 8), torch.tensor([[False] * 3, [False, False, True]])
    with torch.no_grad():
        expected = module(x, src_key_padding_mask=mask)
    actual = xt.XRTModule(module, "native")(x, src_key_padding_mask=mask)
    assert_close(actual[~mask], expected[~mask])


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_arguments_and_weights_of_8_bits(dtype: torch.dtype) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.tensor([1.0, 3.0]).to(dtype))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.float() * self.scale.float(), (x.float() * 2).to(dtype)

    module, x = Scaled().eval(), torch.tensor([1.5, -2.0]).to(dtype)
    for actual, expected in zip(xt.XRTModule(module, "native")(x), module(x), strict=True):
        assert actual.dtype == expected.dtype
        assert_close(actual.float(), expected.float())
