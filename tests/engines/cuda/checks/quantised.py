# SPDX-License-Identifier: Apache-2.0
"""Quantised models, beside ONNX Runtime on the CPU."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import pytest
from cuda_models import (
    FLOAT,
    HAS_CUDNN,
    STANDIN,
    check,
    load,
    model,
    node,
    remarks,
    shape_of,
    values,
)
from onnx import TensorProto
from openxrt.quantize import quantize


def test_quantised_models_stay_on_the_device(tmp_path: Path) -> None:
    """Per tensor and per channel, with and without zero points."""
    rng = np.random.default_rng(4)
    constants = {
        "sx": np.float32(0.05),
        "zx": np.uint8(120),
        "qw": rng.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8),
        "sw": rng.uniform(0.001, 0.01, 8).astype(np.float32),
        "zw": np.zeros(8, np.int8),
        "qb": rng.integers(-999, 999, 8).astype(np.int32),
        "sb": np.float32(0.0005),
        "sy": np.float32(0.02),
        "zy": np.int8(-3),
    }
    nodes = [
        node("QuantizeLinear", "x sx zx", "qx"),
        node("DequantizeLinear", "qx sx zx", "dx"),
        node("DequantizeLinear", "qw sw zw", "dw", axis=0),
        node("DequantizeLinear", "qb sb", "db"),
        node("Conv", "dx dw db", "a", kernel_shape=[3, 3]),
        node("Relu", "a", "b"),
        node("QuantizeLinear", "b sy zy", "qy"),
        node("DequantizeLinear", "qy sy zy", "y"),
    ]
    made = model(nodes, {"x": (FLOAT, (2, 3, 8, 8))}, ["qx", "y"], constants)
    # Of what is rounded, sums in another order may give a neighbour.
    check(made, tmp_path, atol=0.021)


def in_float(made: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What ONNX Runtime gives node by node: products of what the bytes stand for, whose sums
    saturate nowhere."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feed)


def check_bytes(made: onnx.ModelProto, tmp_path: Path, products: int, wide: int = 0) -> None:
    """So many products of bytes, of which `wide` are copied 16 bytes at a time; of their results
    few go to the neighbouring step."""
    folder = tmp_path / "sources"
    # On stand-ins, which are slow, tiles are not timed.
    options = {"source_dir": str(folder), "measure": "false" if STANDIN else "true"}
    program = load(made, tmp_path, engine_options={"cuda": options})
    text = "".join(file.read_text() for file in folder.glob("*.cu"))
    tiles = {
        function: len(re.findall(rf"\n *{function}_sums<P>\(\(const", text))
        for function in ("integer", "warpgroup")
    }
    if STANDIN or tiles["warpgroup"] > 0:  # it stands for a device of compute capability 9.0
        assert tiles == {"integer": 6 * products - 3 * wide, "warpgroup": 5 * wide}
    else:
        assert tiles["integer"] == 6 * products
    for seed in (0, 1):
        feed = values(made, seed)
        for got, want in zip(program.run(feed).values(), in_float(made, feed), strict=True):
            if want.dtype == np.float32:
                np.testing.assert_allclose(got, want, 1e-4, 1e-4 * np.abs(want).max())
                continue
            off = np.abs(np.asarray(got, np.int32) - want.astype(np.int32))
            assert off.max() <= 1
            assert (off != 0).mean() <= 0.01


CONVOLUTIONS = {
    "points": {"x": (2, 32, 5, 5), "w": (24, 32, 1, 1)},
    "three channels": {"x": (1, 3, 17, 15), "w": (16, 3, 7, 7), "strides": [2, 2], "pads": [3] * 4},
    "blocks": {"x": (2, 3, 18, 16), "w": (16, 3, 7, 7), "strides": [2, 2], "pads": [3] * 4},
    "blocks, few": {
        "x": (2, 1, 8, 12),
        "w": (16, 1, 3, 4),
        "strides": [2, 2],
        "pads": [0, 1, 1, 2],
    },
    "windows": {"x": (1, 16, 9, 7), "w": (40, 16, 3, 3), "pads": [1] * 4},
    "odd": {"x": (1, 20, 8, 8), "w": (13, 20, 3, 2), "pads": [0, 1, 2, 0], "dilations": [2, 1]},
    "few rows": {"x": (1, 64, 4, 4), "w": (64, 64, 3, 3), "pads": [1] * 4, "strides": [2, 2]},
}


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions_of_bytes(case: str, kind: type, tmp_path: Path) -> None:
    """What is behind them up to the next bytes is computed before anything is written; outside a
    picture lies the zero point."""
    facts = dict(CONVOLUTIONS[case])
    x, w = facts.pop("x"), facts.pop("w")
    rng = np.random.default_rng(8)
    zero = 117 if kind == np.uint8 else -9
    constants = {
        "sx": np.float32(0.02),
        "zx": kind(zero),
        "qw": rng.integers(-127, 128, w).astype(np.int8),
        "sw": rng.uniform(0.001, 0.01, w[0]).astype(np.float32),
        "zw": np.zeros(w[0], np.int8),
        "qb": rng.integers(-999, 999, w[0]).astype(np.int32),
        "sb": np.float32(0.0005),
        "sy": np.float32(0.05),
        "zy": kind(zero + 3),
        "sr": np.float32(0.03),
    }
    nodes = [
        node("QuantizeLinear", "x sx zx", "qx"),
        node("DequantizeLinear", "qx sx zx", "dx"),
        node("DequantizeLinear", "qw sw zw", "dw", axis=0),
        node("DequantizeLinear", "qb sb", "db"),
        node("Conv", "dx dw db", "a", kernel_shape=w[2:], **facts),
        node("QuantizeLinear", "a sy zy", "qa"),
        node("DequantizeLinear", "qa sy zy", "da"),
        node("QuantizeLinear", "r sr zx", "qr"),
        node("DequantizeLinear", "qr sr zx", "dr"),
        node("Add", "da dr", "s"),
        node("Relu", "s", "t"),
        node("QuantizeLinear", "t sy zy", "y"),
    ]
    alone = model(nodes[:7], {"x": (FLOAT, x)}, ["da"], constants)
    shape = shape_of(alone)
    made = model(nodes, {"x": (FLOAT, x), "r": (FLOAT, shape)}, ["y", "qx"], constants)
    # Blocks of 2 x 2 elements are read as 16 channels.
    check_bytes(made, tmp_path, products=1, wide=1 if x[1] % 16 == 0 or "blocks" in case else 0)


@pytest.mark.parametrize(
    ("case", "behind"),
    [("windows", ""), ("points", "relu"), ("points", "residual"), ("few rows", "residual relu")],
)
def test_symmetric_convolutions_of_bytes(case: str, behind: str, tmp_path: Path) -> None:
    """With zero points of zero cuDNN knows the whole step: it is among its ways, and some results
    are out of the range of bytes."""
    facts = dict(CONVOLUTIONS[case])
    x, w = facts.pop("x"), facts.pop("w")
    rng = np.random.default_rng(11)
    constants = {
        "sx": np.float32(0.02),
        "z": np.int8(0),
        "qw": rng.integers(-127, 128, w).astype(np.int8),
        "sw": rng.uniform(0.001, 0.01, w[0]).astype(np.float32),
        "zw": np.zeros(w[0], np.int8),
        "b": rng.standard_normal(w[0]).astype(np.float32),
        "sy": np.float32(0.02),
        "sr": np.float32(0.03),
    }
    nodes = [
        node("QuantizeLinear", "x sx z", "qx"),
        node("DequantizeLinear", "qx sx z", "dx"),
        node("DequantizeLinear", "qw sw zw", "dw", axis=0),
        node("Conv", "dx dw b", "c0", kernel_shape=w[2:], **facts),
    ]
    alone = model(nodes, {"x": (FLOAT, x)}, ["c0"], constants)
    shape = shape_of(alone)
    inputs = {"x": (FLOAT, x)}
    last = "c0"
    if "residual" in behind:
        inputs["r"] = (FLOAT, shape)
        constants["qv"] = rng.integers(-127, 128, (w[0], w[0], 1, 1)).astype(np.int8)
        nodes += [
            node("QuantizeLinear", "r sx z", "qs"),
            node("DequantizeLinear", "qs sx z", "ds"),
            node("DequantizeLinear", "qv sw zw", "dv", axis=0),
            node("Conv", "ds dv b", "s", kernel_shape=[1, 1]),
            node("QuantizeLinear", "s sr z", "qr"),
            node("DequantizeLinear", "qr sr z", "dr"),
            node("Add", f"{last} dr", "c1"),
        ]
        last = "c1"
    if "relu" in behind:
        nodes.append(node("Relu", last, "c2"))
        last = "c2"
    nodes.append(node("QuantizeLinear", f"{last} sy z", "y"))
    made = model(nodes, inputs, ["y"], constants)
    feed = values(made, 0)
    want = in_float(made, feed)[0].astype(np.int32)
    assert want.max() == 127
    # What is taken unseen, and the fastest; stand-ins are slow.
    for measure in ("false",) if STANDIN else ("false", "true"):
        program = load(made, tmp_path, engine_options={"cuda": {"measure": measure}})
        # Channels of a residual that are no multiple of sixteen are for kernels alone.
        count = 1 if "residual" in behind and w[0] % 16 == 0 else 0
        if HAS_CUDNN and measure == "false":
            assert f"{count + 1} convolutions" in remarks(program)
        off = np.abs(np.asarray(program.run(feed)["y"], np.int32) - want)
        assert off.max() <= 1
        assert (off != 0).mean() <= 0.01


def test_a_network_of_bytes(tmp_path: Path) -> None:
    """A pool, a shortcut, a product and unsigned weights: between them are bytes alone."""
    rng = np.random.default_rng(9)
    constants = {"shape": np.array([2, -1], np.int64), "zero": np.uint8(128)}
    nodes = [node("QuantizeLinear", "x s0 z0", "q0"), node("DequantizeLinear", "q0 s0 z0", "v0")]

    def scale(i: int, step: float, zero: int) -> None:
        constants[f"s{i}"], constants[f"z{i}"] = np.float32(step), np.uint8(zero)

    def convolution(i: int, source: str, channels: tuple[int, int], *more: str) -> None:
        constants[f"w{i}"] = rng.integers(1, 256, (*channels, 3, 3)).astype(np.uint8)
        constants[f"t{i}"] = np.float32(0.004)
        nodes.append(node("DequantizeLinear", f"w{i} t{i} zero", f"d{i}"))
        nodes.append(node("Conv", f"{source} d{i}", f"c{i}", kernel_shape=[3, 3], pads=[1] * 4))
        last = f"c{i}"
        for op in more:
            inputs = last if op == "Relu" else f"{last} {op}"
            nodes.append(node("Relu" if op == "Relu" else "Add", inputs, f"{last}_"))
            last += "_"
        nodes.append(node("QuantizeLinear", f"{last} s{i} z{i}", f"q{i}"))
        nodes.append(node("DequantizeLinear", f"q{i} s{i} z{i}", f"v{i}"))

    scale(0, 0.02, 128)
    scale(1, 0.01, 0)
    scale(2, 0.02, 120)
    scale(3, 0.03, 0)
    scale(4, 0.05, 100)
    convolution(1, "v0", (8, 3), "Relu")
    nodes += [
        node("MaxPool", "v1", "m", kernel_shape=[2, 2], strides=[2, 2]),
        node("QuantizeLinear", "m s1 z1", "qm"),
        node("DequantizeLinear", "qm s1 z1", "vm"),
    ]
    convolution(2, "vm", (8, 8))
    convolution(3, "vm", (8, 8), "v2", "Relu")
    constants["wp"] = rng.integers(-127, 128, (8 * 16, 10)).astype(np.int8)
    constants["sp"] = rng.uniform(0.001, 0.003, 10).astype(np.float32)
    constants["zp"] = np.zeros(10, np.int8)
    constants["bp"] = rng.standard_normal(10).astype(np.float32)
    nodes += [
        node("Reshape", "v3 shape", "flat"),
        node("DequantizeLinear", "wp sp zp", "dp", axis=1),
        node("MatMul", "flat dp", "p"),
        node("Add", "p bp", "y"),
        node("QuantizeLinear", "y s4 z4", "qy"),
    ]
    made = model(nodes, {"x": (FLOAT, (2, 3, 8, 8))}, ["q1", "q3", "qy"], constants)
    check_bytes(made, tmp_path, products=4, wide=1)


@pytest.mark.parametrize("per_channel", [False, True])
def test_the_ops_qlinear(per_channel: bool, tmp_path: Path) -> None:
    """QLinearConv and QLinearMatMul, beside their reference implementation."""
    rng = np.random.default_rng(10)
    count = 8 if per_channel else 1
    scale = rng.uniform(0.001, 0.004, count).astype(np.float32)
    constants = {
        "sx": np.float32(0.02),
        "zx": np.uint8(120),
        "w": rng.integers(-127, 128, (8, 12, 3, 3)).astype(np.int8),
        "sw": scale if per_channel else scale[0],
        "zw": np.zeros(count, np.int8) if per_channel else np.int8(0),
        "b": rng.integers(-2000, 2000, 8).astype(np.int32),
        "sy": np.float32(0.06),
        "zy": np.uint8(90),
        "m": rng.integers(-127, 128, (24, 16)).astype(np.int8),
        "sm": np.float32(0.003),
        "zm": np.int8(0),
    }
    nodes = [
        node("QLinearConv", "p sx zx w sw zw sy zy b", "y", kernel_shape=[3, 3], pads=[1] * 4),
        node("QLinearMatMul", "a sx zx m sm zm sy zy", "z"),
    ]
    byte = TensorProto.UINT8
    made = model(nodes, {"p": (byte, (1, 12, 6, 6)), "a": (byte, (5, 24))}, ["y", "z"], constants)
    feed = {
        "p": rng.integers(0, 256, (1, 12, 6, 6)).astype(np.uint8),
        "a": rng.integers(0, 256, (5, 24)).astype(np.uint8),
    }
    wanted = onnx.reference.ReferenceEvaluator(made).run(None, feed)
    options = {"measure": "false" if STANDIN else "true"}
    given = load(made, tmp_path, engine_options={"cuda": options}).run(feed)
    for got, want in zip(given.values(), wanted, strict=True):
        off = np.abs(np.asarray(got, np.int32) - want.astype(np.int32))
        assert off.max() <= 1
        assert (off != 0).mean() <= 0.01


def test_the_quantiser_writes_symmetric_bytes_for_it(tmp_path: Path) -> None:
    """They are faster here; for other engines steps are finer."""
    rng = np.random.default_rng(12)
    w = rng.standard_normal((16, 16, 1, 1)).astype(np.float32)
    made = model([node("Conv", "x w", "y")], {"x": (FLOAT, (1, 16, 4, 4))}, ["y"], {"w": w})
    onnx.save(made, tmp_path / "float.onnx")
    for engine, kind in (("cuda", TensorProto.INT8), ("native", TensorProto.UINT8)):
        quantize(
            tmp_path / "float.onnx",
            tmp_path / "bytes.onnx",
            calibration=[values(made)],
            engine=[engine],
            device="cuda" if engine == "cuda" else "cpu",
        )
        graph = onnx.load(tmp_path / "bytes.onnx").graph
        zeros = [n.input[2] for n in graph.node if n.op_type == "QuantizeLinear"]
        kinds = {t.data_type for t in graph.initializer if t.name in zeros}
        assert kinds == {kind}
