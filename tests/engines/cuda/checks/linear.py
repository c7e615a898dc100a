# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pools, reductions and products, beside ONNX Runtime on the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from cuda_models import (
    DTYPES,
    FLOAT,
    HALF,
    INT,
    LONG,
    check,
    check_half,
    load,
    model,
    node,
    shape_of,
    values,
)

CONVOLUTIONS = {
    "plain": {"x": (2, 8, 9, 7), "w": (16, 8, 3, 3), "pads": [1, 1, 1, 1]},
    "strided": {"x": (1, 4, 11, 11), "w": (8, 4, 5, 5), "strides": [2, 2], "pads": [2, 2, 2, 2]},
    "uneven pads": {"x": (1, 4, 8, 8), "w": (4, 4, 3, 3), "pads": [0, 1, 2, 1]},
    "dilated": {"x": (1, 4, 12, 12), "w": (4, 4, 3, 3), "dilations": [2, 3]},
    "depthwise": {"x": (2, 16, 6, 6), "w": (16, 1, 3, 3), "group": 16, "pads": [1, 1, 1, 1]},
    "groups": {"x": (2, 16, 6, 6), "w": (8, 4, 1, 1), "group": 4},
    "line": {"x": (2, 6, 20), "w": (4, 6, 5), "pads": [2, 2]},
    "space": {"x": (1, 2, 4, 5, 6), "w": (3, 2, 2, 2, 2)},
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", [FLOAT, HALF])
def test_convolutions(case: str, dtype: int, tmp_path: Path) -> None:
    """With bias, an addition and an activation; half precision within 2⁻⁸ of the largest."""
    facts = dict(CONVOLUTIONS[case])
    x, w = facts.pop("x"), facts.pop("w")
    rng = np.random.default_rng(3)
    weights = (rng.standard_normal(w) / np.sqrt(np.prod(w[1:]))).astype(np.float16)
    bias = rng.standard_normal(w[0]).astype(np.float16)

    def build(kind: int) -> onnx.ModelProto:
        constants = {"w": weights.astype(DTYPES[kind]), "b": bias.astype(DTYPES[kind])}
        nodes = [
            node("Conv", "x w b", "a", kernel_shape=w[2:], **facts),
            node("Add", "r a", "s"),
            node("Relu", "s", "y"),
        ]
        shape = shape_of(model([nodes[0]], {"x": (kind, x)}, ["a"], constants))
        return model(nodes, {"x": (kind, x), "r": (kind, shape)}, ["y"], constants)

    if dtype == FLOAT:
        check(build(FLOAT), tmp_path)
    else:
        check_half(build, tmp_path)


def test_pools_and_reductions(tmp_path: Path) -> None:
    nodes = [
        node("MaxPool", "x", "a", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("AveragePool", "x", "b", kernel_shape=[3, 2], pads=[1, 0, 1, 1], ceil_mode=1),
        node("GlobalAveragePool", "x", "c"),
        node("ReduceMean", "x last", "d", keepdims=0),
        node("ReduceMax", "x middle", "e"),
        node("ReduceLogSumExp", "x all", "f"),
        node("ReduceL2", "x outer", "g", keepdims=0),
        node("ArgMax", "x", "h", axis=3, keepdims=0),
        node("ReduceSum", "i last", "j"),
        node("ReduceProd", "x middle", "k"),
    ]
    constants = {
        "last": np.array([-1], np.int64),
        "middle": np.array([1, 2], np.int64),
        "all": np.array([0, 1, 2, 3], np.int64),
        "outer": np.array([0, 2], np.int64),
    }
    inputs = {"x": (FLOAT, (2, 3, 9, 8)), "i": (LONG, (3, 70))}
    check(model(nodes, inputs, list("abcdefghjk"), constants), tmp_path)


def test_products(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", "x w", "a"),
        node("Add", "a bias", "b"),
        node("Relu", "b", "c"),
        node("Transpose", "x", "t", perm=[0, 2, 1]),
        node("MatMul", "x t", "d"),
        node("MatMul", "row t", "e"),
        node("Gemm", "m n p", "f", alpha=0.5, beta=2.0, transA=1),
        node("Gemm", "m n q", "g", transA=1),
        node("Gemm", "m n", "h", transA=1),
        node("MatMul", "i j", "k"),
        node("Add", "d d", "l"),
    ]
    rng = np.random.default_rng(5)
    constants = {
        "w": rng.standard_normal((24, 40)).astype(np.float32),
        "bias": rng.standard_normal(40).astype(np.float32),
        "j": rng.integers(-5, 5, (6, 4)).astype(np.int32),
        "q": rng.standard_normal(18).astype(np.float32),
    }
    inputs = {
        "x": (FLOAT, (3, 17, 24)),
        "row": (FLOAT, (24,)),
        "m": (FLOAT, (20, 10)),
        "n": (FLOAT, (20, 18)),
        "p": (FLOAT, (10, 1)),
        "i": (INT, (5, 6)),
    }
    check(model(nodes, inputs, ["c", "d", "e", "f", "g", "h", "k", "l"], constants), tmp_path)


@pytest.mark.parametrize("columns", [8, 9, 1001])
def test_products_of_halves_with_any_number_of_columns(columns: int, tmp_path: Path) -> None:
    """Constants of odd numbers of columns lie by column on the device, with more behind them."""
    rng = np.random.default_rng(columns)
    weights = (rng.standard_normal((16, columns)) / 4).astype(np.float16)
    nodes = [node("MatMul", "x w", "y"), node("MatMul", "z w", "u")]
    inputs = {"x": (HALF, (3, 5, 16)), "z": (HALF, (7, 16))}
    made = model(nodes, inputs, ["y", "u"], {"w": weights})
    feed = values(made)
    program = load(made, tmp_path)
    for _ in range(2):
        given = program.run(feed)
        for name, x in (("y", "x"), ("u", "z")):
            want = feed[x].astype(np.float32) @ weights.astype(np.float32)
            off = np.abs(np.asarray(given[name], np.float32) - want).max()
            assert off <= 2**-9 * np.abs(want).max()


def test_half_precision_by_the_plan(tmp_path: Path) -> None:
    """precision="f16" puts casts around products and convolutions of a float32 model."""
    rng = np.random.default_rng(7)
    constants = {
        "w": (rng.standard_normal((16, 8, 3, 3)) / 8).astype(np.float32),
        "m": (rng.standard_normal((16, 10)) / 4).astype(np.float32),
    }
    nodes = [
        node("Conv", "x w", "a", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "a", "b"),
        node("GlobalAveragePool", "b", "c"),
        node("Flatten", "c", "d"),
        node("MatMul", "d m", "y"),
    ]
    made = model(nodes, {"x": (FLOAT, (2, 8, 12, 12))}, ["y"], constants)
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feed = values(made)
    want = session.run(None, feed)[0]
    got = load(made, tmp_path, precision="f16").run(feed)["y"]
    off = np.abs(np.asarray(got) - want).max()
    assert 0 < off <= 2**-7 * np.abs(want).max()


def test_large_results_of_odd_rows(tmp_path: Path) -> None:
    """Written once, where the caller wants them, neighbours in memory at a time."""
    rng = np.random.default_rng(12)
    weights = (rng.standard_normal((8, 1001)) / 3).astype(np.float16)
    made = model([node("MatMul", "x w", "y")], {"x": (HALF, (545, 8))}, ["y"], {"w": weights})
    program = load(made, tmp_path)
    for seed in (0, 1, 2):
        feed = values(made, seed)
        want = feed["x"].astype(np.float32) @ weights.astype(np.float32)
        for given in (program.run(feed)["y"], program.run(feed, device="cuda")["y"].numpy()):
            off = np.abs(np.asarray(given, np.float32) - want).max()
            assert off <= 2**-9 * np.abs(want).max()
