# SPDX-License-Identifier: Apache-2.0
"""Graphs in int8 as PyTorch's tools write them (quantized_decomposed, fake quantisation), compared
with PyTorch's own kernels of these ops."""

from __future__ import annotations

import openxrt
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.ao.quantization.fx._decomposed")  # registers the ops
F, nn = torch.nn.functional, torch.nn

import openxrt.torch as xt  # noqa: E402

q = torch.ops.quantized_decomposed
ENGINES = [
    pytest.param(name, marks=pytest.mark.skipif(name not in openxrt.engines(), reason="absent"))
    for name in ("native", "xla", "openvino")
]


class Convolutions(nn.Module):
    """What convert_pt2e gives: weights in int8 per channel, activations in uint8."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.scales: list[float] = []
        for name, shape in (("first", (8, 3, 3, 3)), ("second", (4, 8, 3, 3))):
            weight = torch.randn(shape) * 0.2
            scales = weight.abs().amax((1, 2, 3)) / 127
            zeros = torch.zeros(shape[0], dtype=torch.int64)
            quantised = q.quantize_per_channel(weight, scales, zeros, 0, -127, 127, torch.int8)
            self.register_buffer(f"{name}_weight", quantised)
            self.register_buffer(f"{name}_scales", scales)
            self.register_buffer(f"{name}_zeros", zeros)
            self.register_parameter(f"{name}_bias", nn.Parameter(torch.randn(shape[0])))

    def layer(self, x: torch.Tensor, name: str, scale: float, zero: int) -> torch.Tensor:
        bounds = (0, 255, torch.uint8)
        x = q.dequantize_per_tensor(
            q.quantize_per_tensor(x, scale, zero, *bounds), scale, zero, *bounds
        )
        weight = q.dequantize_per_channel(
            getattr(self, f"{name}_weight"),
            getattr(self, f"{name}_scales"),
            getattr(self, f"{name}_zeros"),
            0,
            -127,
            127,
            torch.int8,
        )
        return F.conv2d(x, weight, getattr(self, f"{name}_bias"), padding=1).relu()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.layer(x, "first", 0.03, 121), "second", 0.02, 0)


@pytest.mark.parametrize("engine", ENGINES)
def test_convolutions_in_int8(engine: str) -> None:
    module = Convolutions().eval()
    x = torch.randn(2, 3, 12, 12)
    expected = module(x)
    exported = torch.export.export(module, (x,))
    program = openxrt.load(xt.import_exported(exported).graph, engine=engine)
    actual = torch.from_numpy(program(x.numpy()))
    # One step of the second quantisation, where the first layer's result lies between two.
    torch.testing.assert_close(actual, expected, rtol=0, atol=0.1)
    assert (actual - expected).abs().mean() < 2e-3
    assert (xt.XRTModule(module, engine)(x) - expected).abs().mean() < 2e-3


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_quantisation_and_back(dtype: torch.dtype) -> None:
    """Also to narrower ranges, and by numbers that are tensors."""
    info = torch.iinfo(dtype)
    low, high = max(info.min, -(1 << 20)), min(info.max, 1 << 20)

    class Both(nn.Module):
        def forward(self, x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, ...]:
            results = []
            zero = torch.tensor(3)
            for bounds in ((low, high), (max(low, 0) + 1, min(high, 100))):
                a = q.quantize_per_tensor(x, 0.0625, 3, *bounds, dtype)
                b = q.quantize_per_tensor(x, scale, zero, *bounds, dtype)
                results += [a, b, q.dequantize_per_tensor(a, 0.0625, 3, *bounds, dtype)]
                results.append(q.dequantize_per_tensor(b, scale, zero, *bounds, dtype))
            return tuple(results)

    x = torch.linspace(-20, 20, 101).view(1, 101)
    module = Both().eval()
    actual = xt.XRTModule(module, "native")(x, torch.tensor(0.25))
    for one, other in zip(actual, module(x, torch.tensor(0.25)), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("engine", ENGINES[:2])
def test_fake_quantisation_trains(engine: str) -> None:
    scales, zeros = torch.tensor([0.02, 0.03, 0.01, 0.05]), torch.tensor([0, 3, -2, 0])

    class Fake(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weight = torch.fake_quantize_per_channel_affine(
                self.linear.weight, scales, zeros.int(), 0, -127, 127
            )
            x = torch.fake_quantize_per_tensor_affine(x, 0.05, 4, 0, 31)
            return F.linear(x, weight, self.linear.bias)

    torch.manual_seed(0)
    module = Fake()
    with torch.no_grad():
        module.linear.weight.mul_(4)  # so that some are cut off
    x = torch.randn(5, 3)
    gradients = []
    for run in (module, xt.XRTModule(module, engine)):
        module.zero_grad()
        given = x.clone().requires_grad_()
        y = run(given)
        y.square().sum().backward()
        gradients.append([y.detach(), given.grad, *(p.grad.clone() for p in module.parameters())])
    for actual, expected in zip(gradients[1], gradients[0], strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def test_dynamic_quantisation() -> None:
    class Dynamic(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            scale, zero = q.choose_qparams.tensor(x, -128, 127, 1e-6, torch.int8)
            y = q.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
            return (
                scale,
                zero,
                q.dequantize_per_tensor.tensor(y, scale, zero, -128, 127, torch.int8),
            )

    module = Dynamic().eval()
    for x in (torch.randn(4, 5), torch.rand(4, 5) + 1, torch.zeros(2, 2)):
        for actual, expected in zip(xt.XRTModule(module, "native")(x), module(x), strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)
