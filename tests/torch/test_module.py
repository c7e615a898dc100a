# SPDX-License-Identifier: Apache-2.0
"""Modules behind the engines: inference, training, changed weights, new shapes."""

from __future__ import annotations

import copy
import pickle

import openxrt
import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import openxrt.torch as xt  # noqa: E402
import unknown_op  # noqa: E402, F401


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, stride=2, padding=1),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(4 * 3 * 3, 5),
    )


def batch(n: int = 8, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(n, 1, 12, 12, generator=generator),
        torch.randint(0, 5, (n,), generator=generator),
    )


def train(module: torch.nn.Module, forward, steps: int = 8) -> list[float]:
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
    losses = []
    x, y = batch()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ["native", ["xla", "native"], ["openvino", "native"]])
def test_training_follows_pytorch(engine) -> None:
    reference, module = network(), xt.XRTModule(network(), engine=engine)
    expected = train(reference, reference)
    assert train(module, module) == pytest.approx(expected, abs=1e-4)
    # Running statistics moved as PyTorch's did.
    assert_close(module.state_dict()["1.running_var"], reference[1].running_var)
    x, _ = batch(5, seed=2)
    assert_close(module.eval()(x), reference.eval()(x))


def test_torch_compile_backend() -> None:
    reference, module = network(), network()
    compiled = torch.compile(module, backend="openxrt", options={"engine": "native"})
    assert train(module, compiled) == pytest.approx(train(reference, reference), abs=1e-4)
    reference.eval(), module.eval()
    with torch.no_grad():
        for n in (8, 5, 3):
            x, _ = batch(n)
            assert_close(compiled(x), reference(x))
        module[0].weight.mul_(2)
        reference[0].weight.mul_(2)
        assert_close(compiled(x), reference(x))


def test_graph_breaks_are_left_to_pytorch() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return y + 1 if y.sum() > 0 else y - 1

    compiled = torch.compile(function, backend="openxrt", options={"engine": "native"})
    with torch.no_grad():
        for x in (torch.ones(3), -torch.ones(3)):
            assert_close(compiled(x), function(x))


def test_changed_weights_are_seen_and_compile_once() -> None:
    module = network().eval()
    fast = xt.XRTModule(module, engine="native")
    x, _ = batch(2)
    assert_close(fast(x), module(x))
    for factor in (2.0, 0.5, 3.0):
        with torch.no_grad():
            module[5].weight.mul_(factor)
        assert_close(fast(x), module(x))
    fast.load_state_dict(network().state_dict())
    assert_close(fast(x), module(x))
    assert len(list(fast.programs())) == 1  # weights are inputs of one program now
    module[5].weight = torch.nn.Parameter(torch.zeros(5, 36))
    assert_close(fast(x), module(x))


def test_a_third_batch_size_compiles_nothing() -> None:
    module = network().eval()
    fast = xt.XRTModule(module, engine="native")
    for n in (2, 4, 7, 9):
        x, _ = batch(n)
        assert_close(fast(x), module(x))
    assert len(list(fast.programs())) == 2


class AlongBatch(torch.nn.Module):
    """A transform along the batch, whose size must be a number."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, torch.fft.rfft(x, dim=0).abs()


def test_sizes_that_must_be_numbers_have_a_program_each() -> None:
    module = AlongBatch().eval()
    fast = xt.XRTModule(module, engine="native")
    for n in (2, 4, 7, 2):
        x, _ = batch(n)
        for found, wanted in zip(fast(x), module(x), strict=True):
            assert_close(found, wanted)
    assert len(list(fast.programs())) == 3
    frequencies = xt.XRTModule(Magnitudes().eval(), engine="native")
    for n in (2, 4, 7):
        x, _ = batch(n)
        assert_close(frequencies(x), Magnitudes()(x))
    assert len(list(frequencies.programs())) == 2


class Counted(torch.nn.Module):
    """An op of whose results PyTorch knows no sizes where those of its operand are open."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.histogram(x, bins=4, range=(-1.0, 1.0))[0]


def test_open_sizes_that_cannot_be_traced_have_a_program_each() -> None:
    fast = xt.XRTModule(Counted().eval(), engine="native")
    for n in (15, 25, 35, 15):
        x = torch.sin(torch.arange(n))
        assert_close(fast(x), Counted()(x))
        assert not any("dynamic" in name for name in vars(x))  # marks of torch.export
    assert len(list(fast.programs())) == 3


class Magnitudes(torch.nn.Module):
    """A transform along a dimension that never changes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(x).abs()


def test_behaves_as_the_wrapped_module() -> None:
    module = network()
    fast = xt.XRTModule(module, engine="native")
    assert list(fast.state_dict()) == list(module.state_dict())
    assert [p.data_ptr() for p in fast.parameters()] == [p.data_ptr() for p in module.parameters()]
    assert fast.eval() is fast and not module.training and not module[1].training
    fast.train()
    assert module.training and module[1].training
    fast.to(torch.float64)
    assert module[0].weight.dtype == torch.float64
    x = batch(2)[0].double()
    assert_close(fast.eval()(x), module(x))
    clone = copy.deepcopy(fast)
    assert clone.wrapped is not module
    again = pickle.loads(pickle.dumps(fast))
    assert_close(again(x), module(x))


def test_pytorch_trains_and_the_engine_evaluates_in_turns() -> None:
    class Larger(torch.nn.Module):
        def __init__(self, inner: torch.nn.Module) -> None:
            super().__init__()
            self.inner = inner
            self.head = torch.nn.Linear(5, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.inner(x))

    torch.manual_seed(3)
    plain = Larger(network())
    fast = copy.deepcopy(plain)
    fast.inner = xt.EngineModule(fast.inner, engine="native")
    x, _ = batch(3, seed=5)
    for _ in range(2):
        assert train(fast.train(), fast, 3) == pytest.approx(train(plain.train(), plain, 3))
        assert_close(fast.eval()(x), plain.eval()(x))


def test_gradients_flow_in_evaluation_mode_when_an_argument_wants_them() -> None:
    module = network().eval()
    fast = xt.XRTModule(module, engine="native")
    x = batch(2)[0].requires_grad_()
    fast(x).sum().backward()
    expected = torch.autograd.grad(module(x).sum(), x)[0]
    assert_close(x.grad, expected)


def test_nested_arguments_and_results() -> None:
    class Nested(torch.nn.Module):
        def forward(self, x, *, pair, scale=2.0):
            return {"sum": x + pair[0], "rest": [pair[1] * scale, None]}

    fast = xt.XRTModule(Nested().eval(), engine="native")
    one, two = torch.ones(2), torch.full((2,), 2.0)
    result = fast(one, pair=(two, one))
    assert result["sum"].tolist() == [3, 3] and result["rest"][0].tolist() == [2, 2]
    assert result["rest"][1] is None
    assert fast(one, pair=(two, one), scale=5.0)["rest"][0].tolist() == [5, 5]


def test_buffers_that_the_module_writes_live_on() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(x)
            return self.count * 2

    fast = xt.XRTModule(Counter().eval(), engine="native")
    for step in (1, 2, 3):
        assert fast(torch.ones(2)).tolist() == [2 * step, 2 * step]
    assert fast.count.tolist() == [3, 3]


class DataDependent(torch.nn.Module):
    """Whose control flow depends on its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x * 3


def test_control_flow_on_data_is_an_error_or_falls_back_when_asked() -> None:
    with pytest.raises(
        openxrt.Unsupported, match=r"cannot be traced whole.*test_module\.py:\d+: return x \* 2 if"
    ):
        xt.XRTModule(DataDependent().eval(), engine="native")(torch.ones(2))
    fast = xt.XRTModule(DataDependent().eval(), engine="native", fallback=True)
    assert fast(torch.ones(2)).tolist() == [2, 2]
    assert fast(-torch.ones(2)).tolist() == [-3, -3]


class Packed(torch.nn.Module):
    """With an LSTM over sequences of different lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(3, 4)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths)
        return torch.nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0])[0]


def test_packed_sequences_are_named() -> None:
    module = Packed().eval()
    arguments = torch.randn(5, 2, 3), torch.tensor([5, 3])
    with pytest.raises(openxrt.Unsupported, match=r"a packed sequence has sizes .* padded"):
        xt.XRTModule(module, engine="native")(*arguments)
    fast = xt.XRTModule(module, engine="native", fallback=True)
    torch.testing.assert_close(fast(*arguments), module(*arguments))


def test_a_mask_that_pytorch_looks_at_is_named() -> None:
    module = torch.nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval()
    x, y = torch.randn(2, 5, 8), torch.randn(2, 6, 8)
    mask = module.generate_square_subsequent_mask(6)
    fast = xt.XRTModule(module, engine="native")
    with pytest.raises(openxrt.Unsupported, match=r"transformer\.py:\d+: .*tgt_is_causal"):
        fast(x, y, tgt_mask=mask)
    expected = module(x, y, tgt_mask=mask, tgt_is_causal=True)
    assert_close(fast(x, y, tgt_mask=mask, tgt_is_causal=True), expected)


def test_unsupported_op_names_its_line() -> None:
    class Unheard(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.openxrt_tests.unheard(x)

    with pytest.raises(openxrt.Unsupported, match=r"unheard.*test_module\.py:\d+"):
        xt.XRTModule(Unheard().eval(), engine="native")(torch.ones(2))


class Spectrum(torch.nn.Module):
    """A filter in the frequency domain, whose weights are complex."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(9, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        spectrum = torch.fft.rfft(x) * self.weight
        return torch.fft.irfft(spectrum, n=x.shape[-1]), spectrum


def test_complex_weights_and_results() -> None:
    torch.manual_seed(0)
    module, x = Spectrum().eval(), torch.randn(3, 16)
    fast = xt.XRTModule(module, engine="native")
    with torch.no_grad():
        for found, wanted in zip(fast(x), module(x), strict=True):
            torch.testing.assert_close(found, wanted)
    gradients = []
    for net in (module.train(), fast.train()):
        module.zero_grad()
        net(x)[0].square().sum().backward()
        gradients.append(module.weight.grad.clone())
    torch.testing.assert_close(gradients[1], gradients[0])


def test_complex_arguments() -> None:
    class Turned(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.ifft(x.conj() * (2 - 1j)).transpose(0, 1)

    x = torch.randn(3, 8, dtype=torch.complex64)
    fast = xt.XRTModule(Turned().eval(), engine="native")
    torch.testing.assert_close(fast(x), Turned()(x))
    torch.testing.assert_close(fast(x.conj()), Turned()(x.conj()))


def test_powers_of_complex_numbers() -> None:
    exponents = (0, 1, 2, 3, 7, -1, -2, 0.5, -0.5, 2.5, 1j, 2 + 1j)

    class Powers(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
            powers = [x.pow(exponent) for exponent in exponents]
            return [*powers, x.pow(y), y.pow(x), x.pow(x), torch.pow(2.0, x), x.sqrt(), x.rsqrt()]

    x = torch.tensor([1 + 1j, -2 + 0j, -1 - 3j, 0.3 - 0.2j, 5j])
    y = torch.tensor([0.5, 1.5, 2.0, -1.0, 3.0])
    found = xt.XRTModule(Powers().eval(), engine="native")(x, y)
    for power, wanted in zip(found, Powers()(x, y), strict=True):
        torch.testing.assert_close(power, wanted, rtol=2e-5, atol=1e-5)

    class OfZero(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [x.pow(2), x.pow(0), x.pow(1.5), x.pow(2 + 1j), x.pow(1j)]

    zero = torch.zeros(2, dtype=torch.complex64)
    found = xt.XRTModule(OfZero().eval(), engine="native")(zero)
    for power, wanted in zip(found, OfZero()(zero), strict=True):
        torch.testing.assert_close(power, wanted, equal_nan=True)


def test_an_op_without_complex_numbers_is_named() -> None:
    class Sine(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.fft(x).sin().abs()

    with pytest.raises(openxrt.Unsupported, match=r"complex numbers.*sin.*test_module\.py:\d+"):
        xt.XRTModule(Sine().eval(), engine="native")(torch.ones(4))
    fast = xt.XRTModule(Sine().eval(), engine="native", fallback=True)
    torch.testing.assert_close(fast(torch.arange(4.0)), Sine()(torch.arange(4.0)))


def test_wrong_engine_is_named() -> None:
    with pytest.raises(openxrt.NotFound, match="warp"):
        xt.XRTModule(network().eval(), engine="warp")(batch(1)[0])


class Unheard(torch.nn.Module):
    """An op that no engine has, between two that all have."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.ops.openxrt_tests.unheard(self.first(x)).relu())


class UnheardInTraining(Unheard):
    """The same for training."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.ops.openxrt_tests.unheard(self.first(x).abs() + 1).relu())


def test_pytorch_runs_what_no_engine_has_when_asked() -> None:
    torch.manual_seed(0)
    module, x = Unheard().eval(), torch.randn(5, 3)
    fast = xt.XRTModule(module, engine="native", fallback=True)
    for inputs in (x, x + 1):  # the second time it is known that PyTorch is to run a part
        assert_close(fast(inputs), module(inputs))


def test_what_cannot_be_traced_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = xt.XRTModule(DataDependent().eval(), engine="native", fallback=True)
    assert fast(torch.ones(2)).tolist() == [2, 2]
    monkeypatch.setattr(torch.export, "export", None)
    assert fast(-torch.ones(2)).tolist() == [-3, -3]


def test_training_falls_back_or_names_the_line() -> None:
    torch.manual_seed(0)
    module, x = UnheardInTraining().train(), torch.randn(5, 3)
    with pytest.raises(openxrt.Unsupported, match=r"unheard.*test_module\.py:\d+"):
        xt.XRTModule(module, engine="native")(x)
    fast = xt.XRTModule(module, engine="native", fallback=True)
    fast(x).square().sum().backward()
    found = [p.grad.clone() for p in fast.parameters()]
    fast.zero_grad()
    module(x).square().sum().backward()
    for gradient, parameter in zip(found, module.parameters(), strict=True):
        assert_close(gradient, parameter.grad)


def test_replaced_sub_modules_and_parameters_are_seen() -> None:
    module = network().eval()
    fast = xt.XRTModule(module, engine="native").eval()
    x, _ = batch(2)
    assert_close(fast(x), module(x))
    module[5] = torch.nn.Linear(36, 7)
    assert fast(x).shape == (2, 7)
    assert_close(fast(x), module(x))
    module[5].weight = torch.nn.Parameter(torch.randn(7, 36))
    assert_close(fast(x), module(x))
    module[5].weight = torch.nn.Parameter(torch.randn(3, 36))
    module[5].bias = None
    assert fast(x).shape == (2, 3)
    assert_close(fast(x), module(x))
    module[1].train()  # one sub-module back in training mode
    expected = copy.deepcopy(module)(x)
    assert_close(fast(x), expected)


def test_weights_that_were_loaded_compile_one_program() -> None:
    module, other = network().eval(), network()
    fast = xt.XRTModule(module, engine="native")
    x, _ = batch(2)
    fast(x)
    for scale in (0.5, 2.0, 3.0):
        fast.load_state_dict({k: v * scale for k, v in other.state_dict().items()})
        assert_close(fast(x), module(x))
    assert len(list(fast.programs())) == 1  # the first was dropped with its constants


def test_a_plain_attribute_needs_recompile() -> None:
    class Scale(torch.nn.Module):
        scale = 2.0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale

    module = Scale().eval()
    fast = xt.XRTModule(module, engine="native")
    assert fast(torch.ones(2)).tolist() == [2, 2]
    module.scale = 3.0
    fast.recompile()
    assert fast(torch.ones(2)).tolist() == [3, 3]


def test_wrong_arguments_are_named() -> None:
    fast = xt.XRTModule(network().eval(), engine="native")
    x, _ = batch(2)
    fast(x)
    with pytest.raises(RuntimeError, match=r"Float|float|dtype|type"):
        fast(x.double())
    with pytest.raises(RuntimeError, match=r"36|shapes|size"):
        fast(torch.zeros(2, 1, 20, 20))
    with pytest.raises(RuntimeError, match=r"meta|device"):
        fast(x.to("meta"))
    assert_close(fast(x), fast.wrapped(x))


def test_arguments_of_oneflow_xrt(tmp_path) -> None:
    module, (x, _) = network().eval(), batch(2)
    fast = xt.XRTModule(
        module,
        engine=["native"],
        max_batch_size=8,
        max_workspace_size=1 << 28,
        strict_types=True,
        force_precision_constraints=False,
        force_compile=True,
        cluster_minimum_nodes=1,
        cluster_maximum_nodes=100,
        cluster_ignore_pipeline=False,
        cluster_max_iteration=5,
        cluster_strict_sbp_policy=False,
        dump_subgraph_dir=tmp_path,
        verbose=True,
    )
    assert_close(fast(x), module(x))
    assert list(tmp_path.iterdir())
    half = xt.XRTModule(module, engine="native", use_fp16=True)
    assert half.options["precision"] == "f16"
    torch.testing.assert_close(half(x), module(x), rtol=1e-2, atol=1e-2)
    for other in ("f32", "bf16"):
        with pytest.raises(openxrt.InvalidArgument, match=f"use_fp16 and precision='{other}'"):
            xt.XRTModule(module, use_fp16=True, precision=other)
    with pytest.raises(openxrt.InvalidArgument, match="int8_calibration without use_int8"):
        xt.XRTModule(module, int8_calibration=[x])
