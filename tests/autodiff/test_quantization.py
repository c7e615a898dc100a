# SPDX-License-Identifier: Apache-2.0
"""Gradients of QuantizeLinear and DequantizeLinear against PyTorch's fake quantisation."""

from __future__ import annotations

import numpy as np
import openxrt
import pytest

torch = pytest.importorskip("torch")


def ours(
    x: np.ndarray,
    dy: np.ndarray,
    scale: np.ndarray,
    zero: np.ndarray,
    *,
    axis: int = 1,
    second: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Value and gradient; the scale behind the rounding is `second` times the one before."""
    graph = openxrt.Graph("fake")
    value = graph.add_input("x", "float32", list(x.shape))
    s = graph.add_constant(scale, "float32", "s")
    t = graph.add_constant((scale * np.float32(second)).astype(np.float32), "float32", "t")
    z = graph.add_constant(zero, zero.dtype.name, "z")
    (q,) = graph.add_node("QuantizeLinear", [value, s, z], ["q"], {"axis": axis})
    (y,) = graph.add_node("DequantizeLinear", [q, t, z], ["y"], {"axis": axis})
    graph.add_output(y)
    graph.finish()
    seed = graph.add_constant(dy, "float32", "dy")
    (dx,) = graph.gradients(y, [value], seed)
    graph.add_output(dx)
    found = openxrt.load(graph, engine="native")(x)
    return found[0], found[1]


@pytest.mark.parametrize(
    ("dtype", "zero", "low", "high"), [("uint8", 100, 0, 255), ("int8", -3, -128, 127)]
)
def test_one_scale(dtype: str, zero: int, low: int, high: int) -> None:
    rng = np.random.default_rng(0)
    x, dy = (rng.normal(size=(64, 40)).astype(np.float32) for _ in range(2))
    scale = np.float32(0.009)  # cuts off at about 1.1
    wide = torch.tensor(x, requires_grad=True)
    wanted = torch.fake_quantize_per_tensor_affine(wide, float(scale), zero, low, high)
    wanted.backward(torch.tensor(dy))
    y, dx = ours(x, dy, scale, np.array(zero, dtype))
    np.testing.assert_allclose(y, wanted.detach(), rtol=1e-6, atol=1e-6)
    assert 0.02 < (dx == 0).mean() < 0.5
    np.testing.assert_allclose(dx, wide.grad, rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_scale_per_channel(axis: int) -> None:
    rng = np.random.default_rng(1)
    x, dy = (rng.normal(size=(6, 5, 7)).astype(np.float32) for _ in range(2))
    count = x.shape[axis]
    scale = rng.uniform(0.004, 0.02, count).astype(np.float32)
    zero = rng.integers(-10, 10, count).astype(np.int8)
    wide = torch.tensor(x, requires_grad=True)
    wanted = torch.fake_quantize_per_channel_affine(
        wide, torch.tensor(scale), torch.tensor(zero, dtype=torch.int32), axis % 3, -128, 127
    )
    wanted.backward(torch.tensor(dy))
    y, dx = ours(x, dy, scale, zero, axis=axis)
    np.testing.assert_allclose(y, wanted.detach(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(dx, wide.grad, rtol=1e-5)


def test_two_scales() -> None:
    """What is dequantised by another scale has a gradient in its ratio."""
    x = np.linspace(-2, 2, 50, dtype=np.float32)
    dy = np.ones(50, np.float32)
    _, dx = ours(x, dy, np.float32(0.01), np.array(0, np.int8), second=3)
    np.testing.assert_allclose(dx, np.where(np.abs(np.rint(x / 0.01) + 0.5) < 128, 3, 0), rtol=1e-6)


def test_what_only_rounds_has_none() -> None:
    """A quantised number that is read as what it is passes nothing on."""
    graph = openxrt.Graph("cast")
    x = graph.add_input("x", "float32", [4])
    s = graph.add_constant(np.float32(0.1), "float32", "s")
    (q,) = graph.add_node("QuantizeLinear", [x, s], ["q"])
    (wide,) = graph.add_node("Cast", [q], ["wide"], {"to": 1}, name="read")
    (total,) = graph.add_node("ReduceSum", [wide], ["total"], {"keepdims": 0})
    graph.finish()
    with pytest.raises(openxrt.InvalidArgument, match="has no derivative there"):
        graph.gradients(total, [x])
