# SPDX-License-Identifier: Apache-2.0
"""Gradients that have kernels of their own, judged by PyTorch: convolutions, pooling, attention."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import openxrt.torch as xt  # noqa: E402

CONVOLUTIONS = {
    "plain": (torch.nn.Conv2d(3, 4, 3), (2, 3, 8, 9)),
    "padded": (torch.nn.Conv2d(3, 4, 3, padding=1), (2, 3, 8, 9)),
    "a stride that leaves a row": (torch.nn.Conv2d(3, 4, 3, stride=2, padding=1), (2, 3, 8, 9)),
    "a stride wider than the kernel": (torch.nn.Conv2d(3, 4, 1, stride=2), (2, 3, 8, 8)),
    "large and strided": (torch.nn.Conv2d(3, 4, 7, stride=2, padding=3), (2, 3, 16, 16)),
    "dilated": (torch.nn.Conv2d(3, 4, 3, padding=2, dilation=2), (2, 3, 8, 9)),
    "grouped": (torch.nn.Conv2d(4, 6, 3, groups=2, stride=2), (2, 4, 8, 9)),
    "per channel": (torch.nn.Conv2d(4, 4, 3, groups=4, padding=1), (2, 4, 8, 9)),
    "uneven": (torch.nn.Conv2d(3, 4, (3, 1), stride=(1, 2), padding=(0, 1)), (2, 3, 8, 9)),
    "1-d": (torch.nn.Conv1d(3, 4, 3, stride=2), (2, 3, 10)),
    "3-d": (torch.nn.Conv3d(2, 3, 3, stride=2, padding=1), (2, 2, 6, 6, 6)),
    "transposed": (torch.nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), (2, 3, 5, 6)),
    "transposed, without bias": (
        torch.nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1, bias=False),
        (2, 3, 5, 6),
    ),
}


def gradients(module: torch.nn.Module, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """The result, and what its weighted sum has as gradients of inputs and parameters."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    result = module(*leaves)
    seed = torch.randn(result.shape, generator=torch.Generator().manual_seed(5))
    wanted = [*leaves, *module.parameters()]
    return [result.detach(), *torch.autograd.grad(result, wanted, seed)]


def compare(module: torch.nn.Module, *inputs: torch.Tensor, engine: object = "native") -> None:
    expected = gradients(copy.deepcopy(module), *inputs)
    found = gradients(xt.XRTModule(module, engine=engine).train(), *inputs)
    for actual, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str) -> None:
    module, shape = CONVOLUTIONS[name]
    compare(copy.deepcopy(module), torch.randn(shape))


@pytest.mark.parametrize("arguments", [(2,), (3, 2, 1), (2, 2, 0, 2), (3, 2, 1, 1, False, True)])
def test_max_pool(arguments: tuple[object, ...]) -> None:
    compare(torch.nn.MaxPool2d(*arguments), torch.randn(2, 3, 9, 11))


class Attention(torch.nn.Module):
    """Scaled dot product attention."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, **self.options)


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"attn_mask": torch.randn(5, 5)}, {"scale": 0.3}]
)
def test_attention(options: dict[str, object]) -> None:
    compare(Attention(**options), *(torch.randn(2, 2, 5, 8) for _ in range(3)))


def test_linear_layers_need_no_transposes_of_their_own() -> None:
    """Products take the transposes of weights."""
    module = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    compare(module, torch.randn(4, 6))


def test_pictures_of_many_sizes_train() -> None:
    """PyTorch makes the sizes symbolic."""
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)
    )
    fast = xt.XRTModule(copy.deepcopy(module), engine="native").train()
    for height, width in ((8, 9), (10, 12), (7, 15), (9, 8)):
        x = torch.randn(2, 3, height, width)
        for actual, wanted in zip(gradients(fast, x), gradients(module, x), strict=True):
            torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-4)
