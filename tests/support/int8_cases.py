# SPDX-License-Identifier: Apache-2.0
"""Quantised graphs of the native engine's tests, and what they compute in exact sums and float64.

A result may be another only where the number before the rounding is next to the middle between two
steps.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import openxrt

Array = np.ndarray
NEAR = 2e-3  # of a step, from the middle


class Grid:
    """Bytes q that stand for (q - zero) * scale."""

    def __init__(self, rng: np.random.Generator, dtype: str, width: float) -> None:
        self.dtype = np.dtype(dtype)
        info = np.iinfo(self.dtype)
        self.low, self.high = info.min, info.max
        self.scale = np.float32(width / 255 * rng.uniform(0.7, 1.3))
        middle = info.min + 128
        self.zero = int(rng.choice([info.min, middle, rng.integers(info.min, info.max + 1)]))

    def random(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.integers(self.low, self.high + 1, shape).astype(self.dtype)

    def real(self, q: Array) -> Array:
        return (q.astype(np.float64) - self.zero) * np.float64(self.scale)

    def check(self, found: Array, wanted: Array) -> None:
        """`wanted`: real numbers before they are quantised."""
        assert found.dtype == self.dtype
        steps = wanted / np.float64(self.scale)
        exact = np.clip(np.rint(steps) + self.zero, self.low, self.high)
        off = np.abs(found.astype(np.int64) - exact.astype(np.int64))
        assert off.max(initial=0) <= 1
        from_middle = np.abs(steps - np.floor(steps) - 0.5)
        assert np.all((off == 0) | (from_middle < NEAR))


class Build:
    """A graph of Q/DQ with its inputs."""

    def __init__(self) -> None:
        self.graph = openxrt.Graph("int8")
        self.feeds: dict[str, Array] = {}

    def node(self, op: str, inputs: list[Any], attributes: dict[str, Any] | None = None) -> Any:
        (value,) = self.graph.add_node(op, inputs, [""], attributes or {})
        return value

    def constant(self, array: Any, dtype: str) -> Any:
        return self.graph.add_constant(np.asarray(array, dtype), dtype)

    def input(self, q: Array, shape: list[Any] | None = None) -> Any:
        name = f"x{len(self.feeds)}"
        self.feeds[name] = q
        return self.graph.add_input(name, q.dtype.name, shape or list(q.shape))

    def parameters(self, grid: Grid) -> list[Any]:
        return [
            self.constant(grid.scale, "float32"),
            self.constant(grid.zero, grid.dtype.name),
        ]

    def dequantised(self, q: Any, grid: Grid) -> Any:
        return self.node("DequantizeLinear", [q, *self.parameters(grid)])

    def quantised(self, value: Any, grid: Grid) -> Any:
        return self.node("QuantizeLinear", [value, *self.parameters(grid)])

    def run(self, output: Any) -> Array:
        self.graph.add_output(output)
        self.graph.finish()
        (found,) = openxrt.load(self.graph, engine="native").run(self.feeds).values()
        return found


@cache
def multiplies_bytes() -> bool:
    """Whether quantised graphs run on bytes on this processor; else they run as written."""
    rng = np.random.default_rng(0)
    grid = Grid(rng, "uint8", 4)
    build = Build()
    x = build.dequantised(build.input(grid.random(rng, (1, 8))), grid)
    build.graph.add_output(build.node("Softmax", [x]))
    build.graph.finish()
    notes = openxrt.load(build.graph, engine="native").explain()["notes"]
    return not any("neither VNNI nor AMX" in note for note in notes)


def convolve(x: Array, w: Array, *, group: int, strides, dilations, pads) -> Array:
    """Of whole numbers; x is padded with zeros."""
    spatial = w.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:spatial], pads[spatial:], strict=True)])
    extents = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    axes = tuple(range(2, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(x, extents, axis=axes)
    windows = windows[(slice(None), slice(None), *(slice(None, None, s) for s in strides))]
    windows = windows[(..., *(slice(None, None, d) for d in dilations))]
    parts = []
    for xs, ws in zip(np.split(windows, group, 1), np.split(w, group, 0), strict=True):
        taps = tuple(range(windows.ndim - spatial, windows.ndim))
        parts.append(
            np.moveaxis(np.tensordot(xs, ws, ((1, *taps), tuple(range(1, w.ndim)))), -1, 1)
        )
    return np.concatenate(parts, 1)


class Weights:
    """int8 or uint8 numbers with one scale, or one per channel."""

    def __init__(self, rng: np.random.Generator, shape: tuple[int, ...], axis: int = 0) -> None:
        self.axis, self.shape = axis, shape
        self.dtype = rng.choice(["int8", "int8", "uint8"])
        self.q = rng.integers(-127, 128, shape)
        self.zero = 128 if self.dtype == "uint8" else 0
        channels = shape[axis]
        self.per_channel = rng.random() < 0.7
        self.scales = rng.uniform(0.002, 0.02, channels if self.per_channel else 1)
        self.scales = self.scales.astype(np.float32)

    def value(self, build: Build) -> Any:
        scale = self.scales if self.per_channel else self.scales[0]
        inputs = [
            build.constant(self.q + self.zero, self.dtype),
            build.constant(scale, "float32"),
        ]
        if self.zero:
            inputs.append(build.constant(np.full(np.shape(scale), self.zero), self.dtype))
        return build.node("DequantizeLinear", inputs, {"axis": self.axis})

    def factors(self, rank: int, axis: int) -> Array:
        shape = [1] * rank
        shape[axis] = -1
        return self.scales.astype(np.float64).reshape(shape)


def bias_of(rng: np.random.Generator, build: Build, channels: int, spread: float) -> Any:
    """An int32 bias with scales, or a float one: its value and its numbers."""
    if rng.random() < 0.5:
        numbers = (rng.normal(size=channels) * spread).astype(np.float32)
        return build.constant(numbers, "float32"), numbers.astype(np.float64)
    q = rng.integers(-2000, 2000, channels)
    scales = np.full(channels, spread / 1000, np.float32)
    inputs = [build.constant(q, "int32"), build.constant(scales, "float32")]
    return build.node("DequantizeLinear", inputs, {"axis": 0}), q * scales.astype(np.float64)


def follow(
    rng: np.random.Generator, build: Build, value: Any, real: Array, dynamic: bool
) -> tuple[Any, Array]:
    """Perhaps a residual, perhaps an activation."""
    spread = float(real.std()) + 1e-6
    if rng.random() < 0.4:
        grid = Grid(rng, rng.choice(["uint8", "int8"]), 4 * spread)
        q = grid.random(rng, real.shape)
        other = build.dequantised(build.input(q, ["N", *q.shape[1:]] if dynamic else None), grid)
        value = build.node("Add", [value, other] if rng.random() < 0.5 else [other, value])
        real = real + grid.real(q)
    kind = rng.choice(["none", "Relu", "Clip", "LeakyRelu"])
    if kind == "Relu":
        return build.node("Relu", [value]), np.maximum(real, 0)
    if kind == "Clip":
        bounds = np.array([-0.3 * spread, 0.8 * spread], np.float32)
        ends = [build.constant(bound, "float32") for bound in bounds]
        return build.node("Clip", [value, *ends]), np.clip(real, *bounds.astype(np.float64))
    if kind == "LeakyRelu":
        value = build.node("LeakyRelu", [value], {"alpha": 0.25})
        return value, np.where(real < 0, 0.25 * real, real)
    return value, real


def finish(rng: np.random.Generator, build: Build, value: Any, real: Array) -> None:
    if rng.random() < 0.15:
        found = build.run(value)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, real, rtol=1e-5, atol=1e-5 * (np.abs(real).max() + 1e-6))
        return
    grid = Grid(rng, rng.choice(["uint8", "int8"]), 4 * float(real.std()) + 1e-6)
    grid.check(build.run(build.quantised(value, grid)), real)
