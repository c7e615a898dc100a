# SPDX-License-Identifier: Apache-2.0
"""Sums of products of bytes on the native engine are exact, also those of the largest bytes.

Processors without VNNI add two products of bytes in 16 bits, which hold 255 * 128 and no more. With
scales of 1 and without a grid behind it a quantised node makes the sum itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from int8_cases import Array, Build, convolve, multiplies_bytes


def extreme(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, kind: str) -> Array:
    """Bytes: the ends of the range, one end, a few of them among small numbers, or any."""
    info = np.iinfo(dtype)
    if kind == "ends":
        return rng.choice([info.min, info.max], shape).astype(dtype)
    if kind in ("low", "high"):
        return np.full(shape, info.min if kind == "low" else info.max, dtype)
    if kind == "some":
        small = np.clip(rng.normal(0, 6, shape), -128, 127)
        ends = rng.choice([info.min, info.max], shape)
        return np.where(rng.random(shape) < 0.02, ends, np.clip(small, info.min, info.max)).astype(
            dtype
        )
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


KINDS = ("ends", "low", "high", "some", "any")


def dequantised(build: Build, q: Any, dtype: str, zero: int) -> Any:
    """q - zero."""
    return build.node(
        "DequantizeLinear", [q, build.constant(1, "float32"), build.constant(zero, dtype)]
    )


def check_in_integers(capfd: Any, op: str) -> None:
    steps = capfd.readouterr().err
    if multiplies_bytes():
        assert "int8 " in steps, steps
        assert f"({op})" not in steps.replace(f"(xrt.native.{op})", ""), steps


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("x_kind", KINDS)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_product(kind: str, x_kind: str, dtype: str, capfd, monkeypatch) -> None:
    monkeypatch.setenv("XRT_NATIVE_PROFILE", "1")
    rng = np.random.default_rng(len(kind) + 7 * len(x_kind))
    for k, n, rows in [(1, 4, 1), (2, 16, 5), (3, 17, 6), (97, 33, 7), (256, 32, 13), (411, 5, 60)]:
        build = Build()
        x = extreme(rng, (rows, k), dtype, x_kind)
        w = extreme(rng, (k, n), "int8", kind)
        zero = int(rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1))
        q = build.constant(w, "int8")
        factors = [
            dequantised(build, build.input(x), dtype, zero),
            dequantised(build, q, "int8", 0),
        ]
        found = build.run(build.node("MatMul", factors))
        np.testing.assert_array_equal(found, (x.astype(np.int64) - zero) @ w.astype(np.int64))
        check_in_integers(capfd, "MatMul")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("a_zero", [None, 0, 99])
def test_whole_numbers(kind: str, dtype: str, a_zero: int | None) -> None:
    """MatMulInteger, whose result is int32, of sizes up to where float32 ends."""
    rng = np.random.default_rng(len(kind))
    for k, n, rows in [(1, 1, 1), (5, 3, 2), (64, 40, 19), (700, 16, 6), (5000, 18, 3)]:
        build = Build()
        x = extreme(rng, (rows, k), dtype, rng.choice(KINDS))
        w = extreme(rng, (k, n), "int8", kind)
        inputs = [build.input(x), build.constant(w, "int8")]
        if a_zero is not None:
            inputs.append(build.constant(a_zero, dtype))
        found = build.run(build.node("MatMulInteger", inputs))
        wanted = (x.astype(np.int64) - (a_zero or 0)) @ w.astype(np.int64)
        np.testing.assert_array_equal(found, wanted)


# Kernel, strides, dilations, pads, group, channels of X per group and of Y.
CONVOLUTIONS = {
    "points": ([1, 1], [1, 1], [1, 1], [0, 0, 0, 0], 1, 24, 20),
    "strided points": ([1, 1], [2, 3], [1, 1], [0, 0, 0, 0], 1, 7, 18),
    "three by three": ([3, 3], [1, 1], [1, 1], [1, 1, 1, 1], 1, 16, 33),
    "few channels": ([7, 5], [2, 2], [1, 1], [3, 2, 3, 2], 1, 3, 40),
    "dilated": ([3, 3], [1, 1], [2, 3], [2, 3, 1, 0], 1, 5, 16),
    "groups": ([3, 3], [1, 2], [1, 1], [1, 0, 1, 2], 2, 20, 34),
    "channels": ([3, 3], [1, 1], [1, 1], [1, 1, 1, 1], 32, 1, 32),
    "odd channels": ([5, 3], [2, 1], [1, 2], [2, 2, 2, 2], 45, 1, 45),
    "unpadded channels": ([3, 3], [1, 1], [1, 1], [0, 0, 0, 0], 48, 1, 48),
    "lines": ([5], [1], [2], [4, 4], 1, 17, 16),
    "volumes": ([2, 3, 3], [1, 2, 1], [1, 1, 1], [1, 0, 1, 0, 1, 1], 1, 6, 19),
}


@pytest.mark.parametrize("window", list(CONVOLUTIONS))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_convolution(window: str, kind: str, dtype: str, capfd, monkeypatch) -> None:
    monkeypatch.setenv("XRT_NATIVE_PROFILE", "1")
    kernel, strides, dilations, pads, group, inner, channels = CONVOLUTIONS[window]
    rng = np.random.default_rng(len(window) + 31 * len(kind))
    for open_batch in (False, True):
        build = Build()
        sizes = [int(n) for n in rng.integers(7, 14, len(kernel))]
        x = extreme(rng, (2, group * inner, *sizes), dtype, rng.choice(KINDS))
        w = extreme(rng, (channels, inner, *kernel), "int8", kind)
        zero = int(rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1))
        shape = ["N", *x.shape[1:]] if open_batch else None
        attributes = {"group": group, "strides": strides, "dilations": dilations, "pads": pads}
        q = build.constant(w, "int8")
        inputs = [
            dequantised(build, build.input(x, shape), dtype, zero),
            dequantised(build, q, "int8", 0),
        ]
        found = build.run(build.node("Conv", inputs, attributes))
        wanted = convolve(x.astype(np.int64) - zero, w.astype(np.int64), **attributes)
        np.testing.assert_array_equal(found, wanted)
        check_in_integers(capfd, "Conv")


@pytest.mark.parametrize("kind", KINDS)
def test_qlinear_convolution(kind: str) -> None:
    """The result on a grid, of any sizes: there is no other loop worth the name."""
    rng = np.random.default_rng(len(kind))
    for group, inner, channels in [(1, 3, 1), (4, 2, 4), (6, 1, 12), (1, 9, 30)]:
        build = Build()
        x = extreme(rng, (1, group * inner, 9, 8), "uint8", rng.choice(KINDS))
        w = extreme(rng, (channels, inner, 3, 3), "int8", kind)
        zero, y_zero, scale = 77, 130, np.float32(911)
        inputs = [
            build.input(x),
            build.constant(1, "float32"),
            build.constant(zero, "uint8"),
            build.constant(w, "int8"),
            build.constant(1, "float32"),
            build.constant(0, "int8"),
            build.constant(scale, "float32"),
            build.constant(y_zero, "uint8"),
        ]
        attributes = {"group": group, "pads": [1, 1, 1, 1]}
        found = build.run(build.node("QLinearConv", inputs, attributes))
        sums = convolve(
            x.astype(np.int64) - zero,
            w.astype(np.int64),
            strides=(1, 1),
            dilations=(1, 1),
            **attributes,
        )
        # An odd scale: no sum is in the middle between two steps.
        wanted = np.clip(np.rint(sums / np.float64(scale)) + y_zero, 0, 255)
        np.testing.assert_array_equal(found, wanted)
