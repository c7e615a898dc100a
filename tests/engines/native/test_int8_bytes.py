# SPDX-License-Identifier: Apache-2.0
"""Ops between quantised tensors that the native engine runs on bytes, without a sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from int8_cases import Array, Build, Grid, multiplies_bytes
from onnx.reference import ReferenceEvaluator


def in_integers(build: Build, capfd, monkeypatch, output: Any) -> Array:
    """The result; no step but those on bytes computed it, where the processor has such steps."""
    monkeypatch.setenv("XRT_NATIVE_PROFILE", "1")
    found = build.run(output)
    steps = capfd.readouterr().err
    assert "QuantizeLinear" not in steps or not multiplies_bytes(), steps
    return found


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((2, 8, 5, 7), (2, 8, 1, 1)),
        ((2, 50, 60, 12), (2, 1, 1, 12)),
        ((1, 1, 1, 12), (2, 50, 60, 12)),
        ((2, 8, 1, 1), (2, 8, 5, 7)),
        ((2, 8, 5, 7), (2, 8, 5, 7)),
        ((3, 5, 70), (1, 5, 1)),
        ((3, 5, 70), (3, 1, 70)),
        ((3, 1, 70), (1, 5, 1)),
        ((4,), (1,)),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_pairs_that_broadcast(op, first, second, seed, capfd, monkeypatch) -> None:
    rng = np.random.default_rng(seed)
    build = Build()
    grids = [Grid(rng, str(rng.choice(["uint8", "int8"])), w) for w in (2, 3, 6)]
    xs = [grids[0].random(rng, first), grids[1].random(rng, second)]
    values = [build.dequantised(build.input(x), g) for x, g in zip(xs, grids[:2], strict=True)]
    y = build.quantised(build.node(op, values), grids[2])
    a, b = (g.real(x) for x, g in zip(xs, grids[:2], strict=True))
    wanted = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[op](a, b)
    grids[2].check(in_integers(build, capfd, monkeypatch, y), wanted)


def test_a_quantised_constant_is_an_operand(capfd, monkeypatch) -> None:
    """What ONNX Runtime's quantiser makes of a bias behind a product."""
    rng = np.random.default_rng(0)
    build = Build()
    x, b, y = Grid(rng, "uint8", 4), Grid(rng, "int8", 2), Grid(rng, "uint8", 6)
    xq, bq = x.random(rng, (3, 9, 20)), b.random(rng, (20,))
    bias = build.dequantised(build.constant(bq, "int8"), b)
    total = build.node("Add", [bias, build.dequantised(build.input(xq), x)])
    found = in_integers(build, capfd, monkeypatch, build.quantised(total, y))
    y.check(found, x.real(xq) + b.real(bq))


@pytest.mark.parametrize("op", ["Mul", "Div", "Add"])
def test_a_quantised_number_makes_a_table(op: str, capfd, monkeypatch) -> None:
    rng = np.random.default_rng(0)
    build = Build()
    x, b, y = Grid(rng, "uint8", 4), Grid(rng, "uint8", 2), Grid(rng, "int8", 6)
    xq = x.random(rng, (3, 333))
    bq = np.asarray(b.zero + 40 if b.zero < 128 else b.zero - 40, "uint8")
    one = build.dequantised(build.constant(bq, "uint8"), b)
    value = build.node(op, [build.dequantised(build.input(xq), x), one])
    found = in_integers(build, capfd, monkeypatch, build.quantised(value, y))
    number = np.float64(np.float32(b.real(bq)))
    wanted = {"Add": np.add, "Div": np.divide, "Mul": np.multiply}[op](x.real(xq), number)
    y.check(found, wanted)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("convolved", [False, True])
def test_what_moves_stays_on_bytes(dtype: str, convolved: bool, capfd, monkeypatch) -> None:
    """Split, Pad, Resize and Concat, also behind a convolution, whose result has channels last."""
    rng = np.random.default_rng(4)
    build = Build()
    grid = Grid(rng, dtype, 4)
    q = grid.random(rng, (1, 8, 6, 6))
    value = build.dequantised(build.input(q), grid)
    real = grid.real(q)
    if convolved:
        w = np.zeros((8, 8, 1, 1), np.int64)
        w[range(8), range(8), 0, 0] = 1
        weights = build.node(
            "DequantizeLinear", [build.constant(w, "int8"), build.constant(1.0, "float32")]
        )
        value = build.node("Conv", [value, weights], {"kernel_shape": [1, 1]})
        value = build.dequantised(build.quantised(value, grid), grid)
    sizes = build.constant([3, 5], "int64")
    (a, b) = build.graph.add_node("Split", [value, sizes], ["", ""], {"axis": 1})
    pads = build.constant([0, 0, 1, 2, 0, 0, 3, 4], "int64")
    a = build.node("Pad", [build.dequantised(build.quantised(a, grid), grid), pads])
    sizes = build.constant([1, 5, 12, 12], "int64")
    b = build.dequantised(build.quantised(b, grid), grid)
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
    b = build.node("Resize", [b, None, None, sizes], {**nearest, "nearest_mode": "floor"})
    b = build.node("Slice", [b, *(build.constant(v, "int64") for v in ([0, 0], [10, 12], [2, 3]))])
    joined = build.node("Concat", [a, b], {"axis": 1})
    found = in_integers(build, capfd, monkeypatch, build.quantised(joined, grid))
    first = np.pad(real[:, :3], ((0, 0), (0, 0), (1, 3), (2, 4)))
    second = real[:, 3:].repeat(2, 2).repeat(2, 3)[:, :, :10, :12]
    grid.check(found, np.concatenate([first, second], 1))


@pytest.mark.parametrize(
    "op", ["Erf", "Neg", "Softplus", "Softsign", "Mish", "Floor", "Ceil", "Round", "Sin", "Cos"]
)
def test_functions_of_one_element_are_tables(op: str, capfd, monkeypatch) -> None:
    rng = np.random.default_rng(0)
    build = Build()
    x, y = Grid(rng, "int8", 6), Grid(rng, "uint8", 6)
    xq = np.arange(-128, 128).astype("int8")
    half = build.node(
        "Mul", [build.dequantised(build.input(xq), x), build.constant(0.5, "float32")]
    )
    value = build.node(op, [half])
    found = in_integers(build, capfd, monkeypatch, build.quantised(value, y))
    node = onnx.helper.make_node(op, ["x"], ["y"])
    real = ReferenceEvaluator(node).run(None, {"x": (x.real(xq) / 2).astype(np.float32)})[0]
    y.check(found, real.astype(np.float64))
