# SPDX-License-Identifier: Apache-2.0
"""F.interpolate() with scale factors that are no whole numbers: PyTorch's sizes and places."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import openxrt.torch as xt  # noqa: E402

FACTORS = (0.3, 0.7, 0.9, 1.1, 1.3, 1.6, 1.7, 2.0, 2.1, 2.3)
MODES = {
    "nearest 1d": ({"mode": "nearest"}, 1),
    "nearest 2d": ({"mode": "nearest"}, 2),
    "nearest 3d": ({"mode": "nearest"}, 3),
    "nearest exact": ({"mode": "nearest-exact"}, 2),
    "linear": ({"mode": "linear"}, 1),
    "bilinear": ({"mode": "bilinear"}, 2),
    "bilinear between corners": ({"mode": "bilinear", "align_corners": True}, 2),
    "trilinear": ({"mode": "trilinear"}, 3),
    "bicubic": ({"mode": "bicubic"}, 2),
    "bicubic between corners": ({"mode": "bicubic", "align_corners": True}, 2),
}


class Resized(torch.nn.Module):
    """An image by several factors."""

    def __init__(self, options: dict[str, object], factors: tuple[float, ...]) -> None:
        super().__init__()
        self.options, self.factors = options, factors

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [F.interpolate(x, scale_factor=f, **self.options) for f in self.factors]


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(1, 2, *shape, generator=torch.Generator().manual_seed(shape[0]))


def compare(fast: torch.nn.Module, module: torch.nn.Module, x: torch.Tensor) -> None:
    for factor, found, expected in zip(module.factors, fast(x), module(x), strict=True):
        torch.testing.assert_close(
            found, expected, rtol=2e-5, atol=2e-5, msg=lambda m, f=factor: f"by {f}: {m}"
        )


@pytest.mark.parametrize("name", MODES)
def test_by_factors(name: str) -> None:
    options, rank = MODES[name]
    for size in ((9, 11, 4), (8, 6, 5), (4, 7, 4)):
        module = Resized(options, FACTORS).eval()
        compare(xt.XRTModule(module, engine="native"), module, drawn(*size[:rank]))


@pytest.mark.parametrize("name", MODES)
def test_by_factors_of_open_sizes(name: str) -> None:
    options, rank = MODES[name]
    module = Resized(options, FACTORS[2:]).eval()
    fast = xt.XRTModule(module, engine="native")
    for size in ((9, 11, 4), (8, 6, 5), (4, 7, 4), (20, 5, 6)):
        compare(fast, module, drawn(*size[:rank]))


@pytest.mark.parametrize("name", MODES)
def test_to_sizes(name: str) -> None:
    options, rank = MODES[name]
    x = drawn(*(7, 12, 5)[:rank])
    for size in ((1, 1, 1), (5, 9, 3), (7, 6, 11), (14, 25, 10)):
        module = torch.nn.Upsample(size=size[:rank], **options).eval()
        found = xt.XRTModule(module, engine="native")(x)
        torch.testing.assert_close(found, module(x), rtol=2e-5, atol=2e-5)


def test_many_results_are_placed_by_the_factor_alone() -> None:
    module = Resized({"mode": "nearest"}, (1.01, 2.01)).eval()
    compare(xt.XRTModule(module, engine="native"), module, drawn(70, 70))


@pytest.mark.parametrize("name", [name for name in MODES if "nearest" not in name])
def test_in_float64(name: str) -> None:
    """Places and weights are, too."""
    options, rank = MODES[name]
    module = Resized(options, FACTORS).eval()
    x = drawn(*(9, 11, 4)[:rank]).double()
    fast = xt.XRTModule(module, engine="native")
    for found, expected in zip(fast(x), module(x), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_bytes(mode: str, smooth: bool, corners: bool) -> None:
    """PyTorch rounds them after each dimension, by weights of 16 bits."""
    options = {"mode": mode, "antialias": smooth, "align_corners": corners}

    class Bytes(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            sizes = ((5, 5), (13, 22), (9, 41), (3, 11), (20, 1))
            by_size = [F.interpolate(x, size=size, **options) for size in sizes]
            return [*by_size, *[F.interpolate(x, scale_factor=f, **options) for f in (0.3, 1.7)]]

    generator = torch.Generator().manual_seed(0)
    for channels in (1, 3, 5):  # PyTorch has another kernel for few
        x = torch.randint(0, 256, (2, channels, 20, 11), generator=generator, dtype=torch.uint8)
        fast = xt.XRTModule(Bytes().eval(), engine="native")
        for found, expected in zip(fast(x), Bytes()(x), strict=True):
            assert torch.equal(found, expected)
