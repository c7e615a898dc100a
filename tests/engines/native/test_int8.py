# SPDX-License-Identifier: Apache-2.0
"""Quantised graphs on the native engine, against sums of whole numbers in NumPy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openxrt
import openxrt.quantize
import pytest
from int8_cases import (
    Array,
    Build,
    Grid,
    Weights,
    bias_of,
    convolve,
    finish,
    follow,
    multiplies_bytes,
)


@pytest.mark.parametrize("seed", range(120))
def test_convolution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spatial = int(rng.choice([1, 2, 2, 2, 3]))
    group = int(rng.choice([1, 1, 1, 2, 8]))
    inner = int(rng.choice([1, 2, 3, 8, 16, 19, 64]))
    channels = group * int(rng.choice([1, 3, 8, 16, 40]))
    if rng.random() < 0.25:
        group, inner = int(rng.choice([8, 16, 20])), 1
        channels = group
    kernel = [int(rng.choice([1, 1, 2, 3, 5])) for _ in range(spatial)]
    strides = [int(rng.choice([1, 1, 2])) for _ in range(spatial)]
    dilations = [int(rng.choice([1, 1, 1, 2])) for _ in range(spatial)]
    pads = [int(rng.choice([0, 0, 1, 2])) for _ in range(2 * spatial)]
    sizes = [
        (k - 1) * d + 1 + int(rng.integers(0, 9)) for k, d in zip(kernel, dilations, strict=True)
    ]
    build = Build()
    x_grid = Grid(rng, rng.choice(["uint8", "uint8", "int8"]), 4)
    x = x_grid.random(rng, (int(rng.integers(1, 3)), group * inner, *sizes))
    weights = Weights(rng, (channels, inner, *kernel))
    attributes = {"group": group, "strides": strides, "dilations": dilations, "pads": pads}
    sums = convolve(x.astype(np.int64) - x_grid.zero, weights.q, **attributes)
    factors = weights.factors(sums.ndim, 1) * np.float64(x_grid.scale)
    real = sums * factors
    dynamic = rng.random() < 0.3
    shape = ["N", *x.shape[1:]] if dynamic else None
    inputs = [build.dequantised(build.input(x, shape), x_grid), weights.value(build)]
    if rng.random() < 0.6:
        value, numbers = bias_of(rng, build, channels, float(real.std()) + 1e-6)
        inputs.append(value)
        real = real + numbers.reshape(-1, *[1] * spatial)
    value = build.node("Conv", inputs, attributes)
    value, real = follow(rng, build, value, real, dynamic)
    finish(rng, build, value, real)


@pytest.mark.parametrize("seed", range(60))
def test_product(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    op = str(rng.choice(["MatMul", "Gemm"]))
    k, n = (int(rng.choice([1, 3, 16, 64, 129, 700])) for _ in range(2))
    leading = (int(rng.integers(1, 40)),)
    if op == "MatMul" and rng.random() < 0.5:
        leading = (int(rng.integers(1, 4)), *leading)
    trans_b = int(op == "Gemm" and rng.random() < 0.5)
    build = Build()
    x_grid = Grid(rng, rng.choice(["uint8", "int8"]), 4)
    x = x_grid.random(rng, (*leading, k))
    weights = Weights(rng, (n, k) if trans_b else (k, n), 1 - trans_b)
    sums = (x.astype(np.int64) - x_grid.zero) @ (weights.q.T if trans_b else weights.q)
    real = sums * weights.factors(sums.ndim, -1) * np.float64(x_grid.scale)
    dynamic = rng.random() < 0.3
    shape = ["N", *x.shape[1:]] if dynamic else None
    inputs = [build.dequantised(build.input(x, shape), x_grid), weights.value(build)]
    attributes = {"transB": trans_b} if op == "Gemm" else {}
    spread = float(real.std()) + 1e-6
    if op == "Gemm" and rng.random() < 0.7:
        value, numbers = bias_of(rng, build, n, spread)
        inputs.append(value)
        attributes |= {"alpha": 0.5, "beta": 2.0} if rng.random() < 0.3 else {}
        real = real * attributes.get("alpha", 1) + numbers * attributes.get("beta", 1)
    value = build.node(op, inputs, attributes)
    if op == "MatMul" and rng.random() < 0.5:
        numbers = (rng.normal(size=n) * spread).astype(np.float32)
        value = build.node("Add", [value, build.constant(numbers, "float32")])
        real = real + numbers
    value, real = follow(rng, build, value, real, dynamic)
    finish(rng, build, value, real)


def activation(rng: np.random.Generator, build: Build, shape: tuple[int, ...], dynamic: bool):
    grid = Grid(rng, rng.choice(["uint8", "int8"]), 4)
    q = grid.random(rng, shape)
    value = build.input(q, ["N", *shape[1:]] if dynamic else None)
    return build.dequantised(value, grid), grid.real(q), grid


@pytest.mark.parametrize("seed", range(30))
def test_addition(seed: int) -> None:
    rng = np.random.default_rng(2000 + seed)
    shape = (int(rng.integers(1, 3)), *(int(n) for n in rng.integers(1, 40, rng.integers(1, 4))))
    build = Build()
    dynamic = rng.random() < 0.3
    a, a_real, _ = activation(rng, build, shape, dynamic)
    b, b_real, _ = activation(rng, build, shape, dynamic)
    real = a_real + b_real
    value = build.node("Add", [a, b])
    if rng.random() < 0.5:
        value, real = build.node("Relu", [value]), np.maximum(real, 0)
    finish(rng, build, value, real)


FUNCTIONS = {
    "Relu": ({}, lambda x: np.maximum(x, 0)),
    "LeakyRelu": ({"alpha": 0.125}, lambda x: np.where(x < 0, 0.125 * x, x)),
    "Sigmoid": ({}, lambda x: 1 / (1 + np.exp(-x))),
    "Tanh": ({}, np.tanh),
    "Elu": ({"alpha": 0.5}, lambda x: np.where(x < 0, 0.5 * np.expm1(x), x)),
    "Exp": ({}, np.exp),
    "Abs": ({}, np.abs),
    "Gelu": ({}, lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2),
    "HardSigmoid": ({"alpha": 0.25, "beta": 0.5}, lambda x: np.clip(0.25 * x + 0.5, 0, 1)),
    "HardSwish": ({}, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
}


@pytest.mark.parametrize("op", ["none", *FUNCTIONS])
@pytest.mark.parametrize("seed", range(4))
def test_function(seed: int, op: str) -> None:
    rng = np.random.default_rng(3000 + seed)
    build = Build()
    value, real, _ = activation(rng, build, (2, 300), seed % 2 == 1)
    if op != "none":
        attributes, function = FUNCTIONS[op]
        value, real = build.node(op, [value], attributes), function(real)
    grid = Grid(rng, rng.choice(["uint8", "int8"]), 4 * float(real.std()))
    grid.check(build.run(build.quantised(value, grid)), real)


@pytest.mark.parametrize("seed", range(40))
def test_pooling(seed: int) -> None:
    rng = np.random.default_rng(4000 + seed)
    shape = (int(rng.integers(1, 3)), int(rng.choice([1, 3, 16, 40])), *rng.integers(3, 12, 2))
    shape = tuple(int(n) for n in shape)
    build = Build()
    value, real, grid = activation(rng, build, shape, rng.random() < 0.3)
    op = str(rng.choice(["MaxPool", "AveragePool", "GlobalAveragePool"]))
    if rng.random() < 0.5:  # channels last
        w = np.eye(shape[1], dtype=np.int8).reshape(shape[1], shape[1], 1, 1)
        weights = [build.constant(w, "int8"), build.constant(1.0, "float32")]
        value = build.node("Conv", [value, build.node("DequantizeLinear", weights)])
        value = build.dequantised(build.quantised(value, grid), grid)
    if op == "GlobalAveragePool":
        value, real = build.node(op, [value]), real.mean((2, 3), keepdims=True)
    else:
        pads = [int(n) for n in rng.integers(0, 2, 4)]
        include = int(op == "AveragePool" and rng.random() < 0.3)
        attributes = {"kernel_shape": [2, 3], "strides": [2, 1], "pads": pads}
        attributes |= {"count_include_pad": 1} if include else {}
        value = build.node(op, [value], attributes)
        fill = -np.inf if op == "MaxPool" else 0.0
        edges = [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])]
        windows = np.lib.stride_tricks.sliding_window_view(
            np.pad(real, edges, constant_values=fill), (2, 3), (2, 3)
        )[:, :, ::2]
        if op == "MaxPool":
            real = windows.max((4, 5))
        else:
            inside = np.pad(np.ones_like(real), edges, constant_values=include)
            counts = np.lib.stride_tricks.sliding_window_view(inside, (2, 3), (2, 3))[:, :, ::2]
            real = windows.sum((4, 5)) / counts.sum((4, 5))
    if rng.random() < 0.5:
        grid = Grid(rng, rng.choice(["uint8", "int8"]), 4)
    grid.check(build.run(build.quantised(value, grid)), real)


@pytest.mark.parametrize("seed", range(20))
def test_concat(seed: int) -> None:
    rng = np.random.default_rng(5000 + seed)
    build = Build()
    alike = rng.random() < 0.5
    axis = int(rng.choice([1, 2]))
    grid = Grid(rng, "uint8", 4)
    values, parts = [], []
    for width in rng.integers(1, 20, 3):
        shape = [2, 5, 5]
        shape[axis] = int(width)
        own = grid if alike else Grid(rng, "uint8", 4)
        q = own.random(rng, tuple(shape))
        values.append(build.dequantised(build.input(q), own))
        parts.append(own.real(q))
    value = build.node("Concat", values, {"axis": axis})
    grid.check(build.run(build.quantised(value, grid)), np.concatenate(parts, axis))


@pytest.mark.parametrize("channels", [1, 3, 4, 20])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_from_float_to_bottleneck(channels: int, dtype: str) -> None:
    """Quantised on the way in, residuals whose bytes are read twice, dequantised at the end."""
    rng = np.random.default_rng(channels)
    build = Build()
    x = rng.normal(size=(2, channels, 29, 31)).astype(np.float32)
    grid = Grid(rng, dtype, 6)
    q = np.clip(np.rint(x / grid.scale) + grid.zero, grid.low, grid.high)
    real = grid.real(q)
    value = build.dequantised(build.quantised(build.input(x), grid), grid)
    for _ in range(2):
        weights = Weights(rng, (channels, channels, 3, 3))
        window = {"strides": [1, 1], "dilations": [1, 1], "pads": [1, 1, 1, 1], "group": 1}
        sums = convolve(q.astype(np.int64) - grid.zero, weights.q, **window)
        wanted = sums * weights.factors(4, 1) * np.float64(grid.scale) + real
        after = Grid(rng, dtype, 4 * float(wanted.std()))
        total = build.node(
            "Add", [build.node("Conv", [value, weights.value(build)], window), value]
        )
        out = build.quantised(total, after)
        value = build.dequantised(out, after)
        steps = np.rint(wanted / np.float64(after.scale)) + after.zero
        q, grid = np.clip(steps, after.low, after.high), after
        real = grid.real(q)
    found = build.run(value)
    # One step of the first block may be seen through the second.
    assert np.mean(np.abs(found - real) > 0.5 * grid.scale) < 0.01


@pytest.mark.parametrize("seed", range(30))
def test_qlinear(seed: int) -> None:
    rng = np.random.default_rng(6000 + seed)
    is_conv = bool(rng.random() < 0.5)
    build = Build()
    x_grid = Grid(rng, rng.choice(["uint8", "int8"]), 4)
    k, n = int(rng.choice([1, 3, 16, 70])), int(rng.choice([1, 5, 16, 40]))
    shape = (2, k, 9, 8) if is_conv else (3, 7, k)
    x = x_grid.random(rng, shape)
    weights = Weights(rng, (n, k, 3, 3) if is_conv else (k, n), 0 if is_conv else 1)
    centred = x.astype(np.int64) - x_grid.zero
    window = {"strides": [1, 2], "dilations": [1, 1], "pads": [0, 1, 2, 1], "group": 1}
    sums = convolve(centred, weights.q, **window) if is_conv else centred @ weights.q
    axis = 1 if is_conv else -1
    bias = rng.integers(-500, 500, n)
    if is_conv:
        sums = sums + bias.reshape(1, -1, 1, 1)
    real = sums * weights.factors(sums.ndim, axis) * np.float64(x_grid.scale)
    y_grid = Grid(rng, x_grid.dtype.name, 4 * float(real.std()))
    scale = weights.scales if weights.per_channel else weights.scales[0]
    inputs = [
        build.input(x),
        *build.parameters(x_grid),
        build.constant(weights.q + weights.zero, weights.dtype),
        build.constant(scale, "float32"),
        build.constant(np.full(np.shape(scale), weights.zero), weights.dtype),
        *build.parameters(y_grid),
        *([build.constant(bias, "int32")] if is_conv else []),
    ]
    op = "QLinearConv" if is_conv else "QLinearMatMul"
    y_grid.check(build.run(build.node(op, inputs, window if is_conv else {})), real)


@pytest.mark.parametrize("k", [1, 5, 64, 700, 4096])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("extreme", [False, True])
def test_sums_are_exact(k: int, dtype: str, extreme: bool) -> None:
    """Also those beyond 2^24, which float32 does not hold."""
    rng = np.random.default_rng(k)
    info = np.iinfo(dtype)
    build = Build()
    x = rng.integers(info.min, info.max + 1, (2, 9, k)).astype(dtype)
    w = rng.integers(0, 256, (k, 33)).astype("uint8")
    if extreme:
        x[:] = info.max
        w[:] = 255
        w[0] = 254
    zero = np.asarray(info.min + 1, dtype)
    inputs = [build.input(x), build.constant(w, "uint8"), build.input(zero)]
    found = build.run(build.node("MatMulInteger", [*inputs, build.constant(128, "uint8")]))
    wanted = (x.astype(np.int64) - int(zero)) @ (w.astype(np.int64) - 128)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("count", [1, 7, 5000])
def test_dynamic_quantisation(count: int) -> None:
    rng = np.random.default_rng(count)
    x = rng.normal(size=count).astype(np.float32)
    graph = openxrt.Graph("dynamic")
    value = graph.add_input("x", "float32", [count])
    for output in graph.add_node("DynamicQuantizeLinear", [value], ["y", "scale", "zero"]):
        graph.add_output(output)
    graph.finish()
    found = openxrt.load(graph, engine="native").run({"x": x})
    low, high = min(float(x.min()), 0), max(float(x.max()), 0)
    scale = np.float32(np.float32(np.float32(high) - np.float32(low)) / np.float32(255))
    zero = np.clip(np.rint(-np.float32(low) / scale), 0, 255)
    wanted = np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8)
    assert found["scale"] == scale
    assert found["zero"] == zero
    np.testing.assert_array_equal(found["y"], wanted)


@pytest.mark.parametrize("round_sums", [False, True])
def test_rounded_sums_for_onnxruntime(tmp_path: Path, round_sums: bool) -> None:
    """ONNX Runtime's own optimiser finds nothing left to compute in float32."""
    onnxruntime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    graph = openxrt.Graph("residual")
    value = graph.add_input("x", "float32", [1, 16, 8, 8])

    def node(op: str, inputs: list[Any], **attributes: Any) -> Any:
        (result,) = graph.add_node(op, inputs, [""], attributes)
        return result

    def weights(*shape: int) -> Any:
        return graph.add_constant(rng.normal(size=shape).astype(np.float32) * 0.1, "float32")

    for _ in range(2):
        inner = node("Conv", [value, weights(16, 16, 3, 3)], pads=[1, 1, 1, 1])
        inner = node("Conv", [node("Relu", [inner]), weights(16, 16, 1, 1)])
        value = node("Relu", [node("Add", [inner, value])])
    value = node("Flatten", [value])
    value = node("Gemm", [value, weights(10, 1024), weights(10)], transB=1)
    graph.add_output(value)
    graph.finish()
    (tmp_path / "float.onnx").write_bytes(graph.to_onnx())
    x = rng.normal(size=(1, 16, 8, 8)).astype(np.float32)
    int8 = tmp_path / "int8.onnx"
    openxrt.quantize.quantize(
        tmp_path / "float.onnx", int8, calibration=[{"x": x}], round_sums=round_sums
    )
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(int8, options)
    (wanted,) = session.run(None, {"x": x})
    ops = {n.op_type for n in onnx.load(tmp_path / "optimised.onnx").graph.node}
    assert "QGemm" in ops
    assert ops.isdisjoint({"Conv", "FusedConv", "Gemm"}) == round_sums
    found = openxrt.load(int8, engine="native")(x)
    assert np.linalg.norm(found - wanted) < 0.03 * np.linalg.norm(wanted)


def dynamic_sums(
    rng: np.random.Generator, op: str, x: Array, weights: str, per_channel: bool
) -> tuple[Build, Any, Array]:
    """DynamicQuantizeLinear -> `op` -> Cast -> Mul: the graph, its result, and what that is."""
    build = Build()
    real = build.input(x)
    q, scale, zero = build.graph.add_node("DynamicQuantizeLinear", [real], ["q", "scale", "zero"])
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    x_scale = np.float32(np.float32(np.float32(high) - np.float32(low)) / np.float32(255))
    x_zero = int(np.clip(np.rint(-np.float32(low) / x_scale), 0, 255))
    xq = np.clip(np.rint(x / x_scale) + x_zero, 0, 255).astype(np.int64) - x_zero
    info = np.iinfo(weights)
    if op == "MatMulInteger":
        w = rng.integers(info.min, info.max + 1, (x.shape[-1], 24))
    else:
        w = rng.integers(info.min, info.max + 1, (24, x.shape[1], 3, 3))
    w_zero = int(rng.integers(info.min + 90, info.max - 90)) if weights == "uint8" else 0
    inputs = [q, build.constant(w, weights), zero, build.constant(w_zero, weights)]
    factors = rng.uniform(0.001, 0.02, 24 if per_channel else 1).astype(np.float32)
    if op == "MatMulInteger":
        sums = build.node(op, inputs)
        wanted = xq @ (w - w_zero)
        shape: tuple[int, ...] = (-1,)
    else:
        sums = build.node(op, inputs, {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]})
        wanted = convolve(
            xq, w - w_zero, group=1, strides=(1, 1), dilations=(1, 1), pads=(1, 1, 1, 1)
        )
        shape = (-1, 1, 1)
    cast = build.node("Cast", [sums], {"to": 1})
    factors = factors.reshape(shape) if per_channel else factors.reshape(())
    scales = build.node("Mul", [scale, build.constant(factors, "float32")])
    bias = rng.normal(size=24).astype(np.float32).reshape(shape)
    value = build.node("Add", [build.node("Mul", [cast, scales]), build.constant(bias, "float32")])
    return build, value, wanted * (np.float64(x_scale) * factors.astype(np.float64)) + bias


@pytest.mark.parametrize("op", ["MatMulInteger", "ConvInteger"])
@pytest.mark.parametrize("weights", ["int8", "uint8"])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("size", [1, 16, 700])
def test_dynamically_quantised_sums(
    op: str, weights: str, per_channel: bool, size: int, capfd, monkeypatch
) -> None:
    rng = np.random.default_rng(size)
    shape = (2, 5, size) if op == "MatMulInteger" else (1, size, 6, 7)
    x = rng.normal(0.4, 1, shape).astype(np.float32)
    build, value, wanted = dynamic_sums(rng, op, x, weights, per_channel)
    monkeypatch.setenv("XRT_NATIVE_PROFILE", "1")
    found = build.run(build.node("Relu", [value]))
    np.testing.assert_allclose(found, np.maximum(wanted, 0), rtol=2e-6, atol=2e-6 * np.ptp(wanted))
    steps = capfd.readouterr().err
    if size >= 16 and multiplies_bytes():
        assert "int8 " in steps and f"({op})" not in steps, steps
        assert "(Mul)" not in steps.replace("xrt.native.", ""), steps


@pytest.mark.parametrize(("channels", "group"), [(8, 1), (8, 8), (300, 1)])
@pytest.mark.parametrize("zero", [0, 77])
def test_convolution_in_whole_numbers(
    channels: int, group: int, zero: int, capfd, monkeypatch
) -> None:
    """ConvInteger whose result is read as it is; float32 does not hold the sums of 300 channels."""
    rng = np.random.default_rng(group)
    build = Build()
    x = rng.integers(0, 256, (2, channels, 9, 9)).astype("uint8")
    w = rng.integers(0, 256, (16, channels // group, 3, 3))
    w[0], x[0] = 255, 255  # the largest sums, which are odd
    inputs = [build.input(x), build.constant(w, "uint8"), build.constant(zero, "uint8")]
    inputs.append(build.constant(200, "uint8"))
    monkeypatch.setenv("XRT_NATIVE_PROFILE", "1")
    found = build.run(build.node("ConvInteger", inputs, {"group": group, "strides": [2, 2]}))
    wanted = convolve(
        x.astype(np.int64) - zero,
        w - 200,
        group=group,
        strides=(2, 2),
        dilations=(1, 1),
        pads=(0, 0, 0, 0),
    )
    np.testing.assert_array_equal(found, wanted)
    assert "(ConvInteger)" not in capfd.readouterr().err


def test_explanation_tells_what_runs_in_integers(tmp_path: Path) -> None:
    """Of the same words when the executable comes from the cache."""
    rng = np.random.default_rng(2)
    grid = Grid(rng, "uint8", 4)
    build = Build()
    x = build.dequantised(build.input(grid.random(rng, (1, 8, 6, 6))), grid)
    w = build.node(
        "DequantizeLinear",
        [
            build.constant(rng.integers(-127, 128, (8, 8, 3, 3)), "int8"),
            build.constant(0.01, "float32"),
        ],
    )

    def convolved(value: Any, name: str) -> Any:
        (made,) = build.graph.add_node(
            "Conv", [value, w], [""], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, name=name
        )
        return made

    y = build.dequantised(build.quantised(convolved(x, "first"), grid), grid)
    y = build.quantised(convolved(y, "second"), grid)
    (pooled,) = build.graph.add_node(
        "GlobalMaxPool", [build.dequantised(y, grid)], [""], {}, name="pool"
    )
    build.graph.add_output(pooled)
    build.graph.finish()
    path = tmp_path / "model.onnx"
    path.write_bytes(build.graph.to_onnx())
    for _ in range(2):
        program = openxrt.load(path, engine="native", cache_dir=tmp_path / "cache")
        program.run(build.feeds)
        notes = program.explain()["notes"]
        if not multiplies_bytes():
            assert "native_0: 0 of 3 quantised nodes run in integers" in notes
            continue
        assert [n for n in notes if "quantised nodes" in n] == [
            "native_0: 2 of 3 quantised nodes run in integers"
        ]
        (reason,) = [n for n in notes if "in floating point" in n]
        assert "'pool' (GlobalMaxPool)" in reason
        assert "its result is not quantised" in reason
        assert "quantised nodes run in integers" in program.explain().to_html()
