# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions and pools of half precision, beside ONNX Runtime in float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from cuda_models import DTYPES, HAS_CUDNN, check_half, model, node, remarks, shape_of

CASES = {
    "small": {"x": (2, 16, 7, 7), "k": (3, 3), "pads": [1, 1, 1, 1]},
    "strided": {"x": (1, 12, 15, 17), "k": (5, 5), "strides": [2, 2], "pads": [2, 2, 2, 2]},
    "strides of two kinds": {"x": (1, 8, 9, 16), "k": (3, 3), "strides": [1, 3]},
    "dilated": {"x": (1, 6, 12, 14), "k": (3, 2), "dilations": [2, 3], "pads": [0, 1, 2, 1]},
    "odd channels": {"x": (2, 5, 6, 9), "k": (2, 3)},
    "larger than its operand": {"x": (1, 4, 2, 3), "k": (7, 7), "pads": [3, 3, 3, 3]},
    "far strides": {"x": (1, 8, 4, 90), "k": (2, 3), "strides": [1, 40], "pads": [0, 1, 0, 1]},
    "wide": {"x": (1, 4, 5, 80), "k": (1, 60), "pads": [0, 9, 0, 9]},
    "a line": {"x": (2, 24, 50), "k": (5,), "pads": [2, 2]},
    # Of which threads take several results beside each other.
    "large": {"x": (8, 96, 56, 56), "k": (3, 3), "pads": [1, 1, 1, 1]},
    "large, uneven": {"x": (16, 80, 61, 59), "k": (3, 3), "strides": [1, 2], "pads": [1, 1, 1, 1]},
}


BEHIND = ("nothing", "an addition", "a normalisation")


@pytest.mark.parametrize(
    ("case", "behind"), [(case, BEHIND[i % len(BEHIND)]) for i, case in enumerate(CASES)]
)
def test_depthwise_convolutions(case: str, behind: str, tmp_path: Path) -> None:
    facts = dict(CASES[case])
    x, kernel = facts.pop("x"), facts.pop("k")
    channels = x[1]
    rng = np.random.default_rng(3)
    weights = rng.standard_normal((channels, 1, *kernel)) / np.sqrt(np.prod(kernel))
    vectors = {n: rng.standard_normal(channels) for n in ("b", "shift", "mean")}
    vectors |= {n: rng.uniform(0.5, 2, channels) for n in ("scale", "variance")}

    def build(kind: int) -> onnx.ModelProto:
        constants = {"w": weights.astype(np.float16).astype(DTYPES[kind])}
        for name, vector in vectors.items():
            constants[name] = vector.astype(np.float16).astype(DTYPES[kind])
        has_norm = behind == "a normalisation"
        first = "x w" if has_norm else "x w b"
        nodes = [node("Conv", first, "a", kernel_shape=kernel, group=channels, **facts)]
        inputs = {"x": (kind, x)}
        if behind == "nothing":
            return model(nodes, inputs, ["a"], constants)
        if has_norm:
            norm = node("BatchNormalization", "a scale shift mean variance", "n")
            nodes += [norm, node("Sigmoid", "n", "s"), node("Mul", "n s", "y")]
        else:
            inputs["r"] = (kind, shape_of(model(nodes, inputs, ["a"], constants)))
            nodes += [node("Add", "r a", "s"), node("Relu", "s", "y")]
        return model(nodes, inputs, ["y"], constants)

    # Wide windows are the library's, where it is there.
    by_library = int(HAS_CUDNN and case == "wide")
    assert f", {by_library} convolutions" in remarks(check_half(build, tmp_path))


def test_results_that_others_read(tmp_path: Path) -> None:
    """A sum that is both a result and an operand, one convolution behind the other."""
    rng = np.random.default_rng(4)
    weights = {n: rng.standard_normal((16, 1, 3, 3)).astype(np.float16) / 3 for n in ("v", "w")}

    def build(kind: int) -> onnx.ModelProto:
        constants = {n: w.astype(DTYPES[kind]) for n, w in weights.items()}
        same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "group": 16}
        nodes = [
            node("Conv", "x v", "a", **same),
            node("Relu", "a", "b"),
            node("Conv", "b w", "c", **same),
            node("Add", "c b", "d"),
            node("Mul", "a d", "e"),
        ]
        return model(nodes, {"x": (kind, (2, 16, 10, 9))}, ["a", "c", "e"], constants)

    check_half(build, tmp_path)


def test_factors_of_channels(tmp_path: Path) -> None:
    """Made of each channel's mean, they are computed where they are multiplied with, and also
    where somebody else reads them."""
    rng = np.random.default_rng(6)
    weights = rng.standard_normal((32, 1, 3, 3)).astype(np.float16) / 3
    half = rng.uniform(0.2, 1, (1, 32, 1, 1)).astype(np.float16)

    def build(kind: int) -> onnx.ModelProto:
        constants = {"w": weights.astype(DTYPES[kind]), "h": half.astype(DTYPES[kind])}
        nodes = [
            node("Conv", "x w", "a", kernel_shape=[3, 3], pads=[1] * 4, group=32),
            node("GlobalAveragePool", "a", "m"),
            node("Mul", "m h", "n"),
            node("Sigmoid", "n", "s"),
            node("Mul", "a s", "y"),
            node("Neg", "m", "u"),
            node("Add", "y u", "z"),
        ]
        return model(nodes, {"x": (kind, (2, 32, 14, 13))}, ["y", "z", "u"], constants)

    check_half(build, tmp_path)


POOLS = {
    "all of a channel": ("GlobalAveragePool", {}),
    "a maximum": ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "a maximum, rounded up": (
        "MaxPool",
        {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
    ),
    "a mean": ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "a mean with padding": (
        "AveragePool",
        {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1], "count_include_pad": 1},
    ),
    "a mean, rounded up": (
        "AveragePool",
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "pads": [0, 1, 1, 0]},
    ),
}


@pytest.mark.parametrize("case", POOLS)
def test_pools(case: str, tmp_path: Path) -> None:
    """Of what a convolution has left channels last."""
    x = (10, 64, 57, 61) if case == "a mean" else (2, 28, 13, 11)
    op, facts = POOLS[case]
    weights = np.random.default_rng(5).uniform(0.5, 2, (x[1], 1, 1, 1)).astype(np.float16)

    def build(kind: int) -> onnx.ModelProto:
        nodes = [
            node("Conv", "x w", "a", kernel_shape=[1, 1], group=x[1]),
            node(op, "a", "y", **facts),
        ]
        return model(nodes, {"x": (kind, x)}, ["y"], {"w": weights.astype(DTYPES[kind])})

    check_half(build, tmp_path)
