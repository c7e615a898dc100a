# SPDX-License-Identifier: Apache-2.0
"""Attention with masks that leave rows without scores, and flex_attention."""

from __future__ import annotations

import math
from collections.abc import Callable

import openxrt
import pytest

torch = pytest.importorskip("torch")
import openxrt.torch as xt  # noqa: E402
from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention as attend  # noqa: E402


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> object:
        return self.function(*args)


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(shape[-1]))


ENGINES = [name for name in ("native", "openvino", "xla") if name in openxrt.engines()]
QUERY = drawn(2, 4, 5, 8)
SOME = drawn(2, 1, 5, 5) > -0.5
SOME[0, 0, 1] = SOME[1] = False
MASKS = {
    "bool": SOME,
    "bool of all heads": SOME[0, 0],
    "float": torch.zeros(2, 1, 5, 5).masked_fill(~SOME, -math.inf),
    "one number for a batch": torch.tensor([0.0, -math.inf]).reshape(2, 1, 1, 1).repeat(1, 1, 1, 5),
}
# PyTorch's kernel, and what it computes in parts: values that are narrower than keys.
WAYS = {
    "kernel": lambda q, m: attend(q, q, q, m),
    "parts": lambda q, m: attend(q, q, q[..., :6], m),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("way", WAYS)
def test_rows_without_scores_give_zeros(way: str, mask: str, engine: str) -> None:
    module = Function(WAYS[way]).eval()
    expected = module(QUERY, MASKS[mask])
    assert not expected.isnan().any()
    found = xt.XRTModule(module, engine=list(dict.fromkeys((engine, "native"))))(QUERY, MASKS[mask])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_rows_without_scores_have_a_gradient(way: str) -> None:
    found, expected = (QUERY.clone().requires_grad_() for _ in range(2))
    module = Function(lambda q, m: WAYS[way](q, m).square().sum())
    xt.XRTModule(module, engine="native")(found, SOME).backward()
    module(expected, SOME).backward()
    torch.testing.assert_close(found.grad, expected.grad, rtol=1e-4, atol=1e-5)


class Masked(torch.nn.Module):
    """Attention with a mask among its buffers."""

    def __init__(self, mask: torch.Tensor, way: str) -> None:
        super().__init__()
        self.way = way
        self.register_buffer("mask", mask)

    def forward(self, q: torch.Tensor) -> torch.Tensor:
        return WAYS[self.way](q, self.mask)


def ops_of(module: torch.nn.Module, *args: torch.Tensor) -> list[str]:
    return xt.import_exported(torch.export.export(module.eval(), args)).graph.ops()


@pytest.mark.parametrize("way", WAYS)
def test_a_mask_that_leaves_a_score_in_each_row_costs_nothing(way: str) -> None:
    lower = torch.ones(5, 5).tril() > 0
    values = slice(8 if way == "kernel" else 6)
    for module in (
        Masked(lower, way),
        Function(lambda q: WAYS[way](q, None)),
        Function(lambda q: WAYS[way](q, torch.ones(5, 5).tril() > 0)),
        Function(lambda q: attend(q, q, q[..., values], is_causal=True)),
    ):
        assert "ReduceMax" not in ops_of(module, QUERY)
        found = xt.XRTModule(module, engine="native")(QUERY)
        torch.testing.assert_close(found, module(QUERY), rtol=1e-4, atol=1e-5)
    strictly_lower = Masked(lower.roll(1, 0) & lower, way)
    strictly_lower.mask[2] = False
    assert "ReduceMax" in ops_of(strictly_lower, QUERY)
    found = xt.XRTModule(strictly_lower, engine="native")(QUERY)
    torch.testing.assert_close(found, strictly_lower(QUERY), rtol=1e-4, atol=1e-5)


SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
CAUSAL = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cpu")
NOTHING = create_block_mask(lambda b, h, i, j: i < 0, None, None, 128, 128, device="cpu")
FLEXIBLE = {
    "plain": lambda q, k, v: flex_attention(q, k, v),
    "scores": lambda q, k, v: flex_attention(
        q, k, v, score_mod=lambda s, b, h, i, j: torch.tanh(s / 20) * 20 + (i - j) * 0.1
    ),
    "slopes of heads": lambda q, k, v: flex_attention(
        q, k, v, score_mod=lambda s, b, h, i, j: s + SLOPES[h] * (j - i)
    ),
    "mask": lambda q, k, v: flex_attention(q, k, v, block_mask=CAUSAL, scale=0.3),
    "mask of everything": lambda q, k, v: flex_attention(q, k, v, block_mask=NOTHING),
    "few heads of keys": lambda q, k, v: flex_attention(q, k[:, :2], v[:, :2], enable_gqa=True),
}


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("name", FLEXIBLE)
def test_flex_attention(name: str) -> None:
    module = Function(FLEXIBLE[name]).eval()
    args = [drawn(1, 4, 128, width) for width in (16, 16, 16)]
    found = xt.XRTModule(module, engine="native")(*args)
    torch.testing.assert_close(found, module(*args), rtol=1e-4, atol=1e-5)


HIDES_LATER = torch.nn.Transformer.generate_square_subsequent_mask(5)
PADDING = torch.zeros(3, 5, dtype=torch.bool)
PADDING[1, 3:] = True
FAST_PATHS = {
    "no mask": {},
    "causal": {"src_mask": HIDES_LATER},
    "said to be causal": {"src_mask": HIDES_LATER, "is_causal": True},
    "padding": {"src_key_padding_mask": PADDING},
    "both": {"src_mask": HIDES_LATER < 0, "src_key_padding_mask": PADDING},
}


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("masks", FAST_PATHS)
def test_the_fast_path_of_an_encoder_layer(masks: str, activation: str, norm_first: bool) -> None:
    """torch.compile hands it over whole where no gradients are wanted."""
    layer = torch.nn.TransformerEncoderLayer(
        8, 2, 16, batch_first=True, activation=activation, norm_first=norm_first
    ).eval()
    fast = torch.compile(layer, backend="openxrt", options={"engine": "native"})
    x = drawn(3, 5, 8)
    with torch.no_grad():
        found, expected = fast(x, **FAST_PATHS[masks]), layer(x, **FAST_PATHS[masks])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weights", ["none", "mean", "of each head"])
def test_the_fast_path_of_attention(weights: str) -> None:
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    fast = torch.compile(attention, backend="openxrt", options={"engine": "native"})
    x = drawn(3, 5, 8)
    options = {
        "need_weights": weights != "none",
        "average_attn_weights": weights == "mean",
        "key_padding_mask": PADDING,
    }
    with torch.no_grad():
        found, expected = fast(x, x, x, **options), attention(x, x, x, **options)
    for actual, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-5)
