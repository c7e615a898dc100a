# SPDX-License-Identifier: Apache-2.0
"""Quantised activations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .case import Case, Const, Source


def quantised(s: Source) -> Iterator[Case]:
    def grid(scale: float, zero: int = 120, dtype: Any = np.uint8) -> list[Const]:
        return [Const(np.array(scale, np.float32)), Const(np.array(zero, dtype))]

    near: dict[str, Any] = {"rtol": 0.0, "atol": 1.0}
    a, b = s.bytes(2, 8, 5, 5), s.bytes(2, 8, 5, 5)
    for op in ("QLinearAdd", "QLinearMul"):
        yield Case(op, [a, *grid(0.02), b, *grid(0.03), *grid(0.05)], {}, **near)
    yield Case("QLinearSigmoid", [a, *grid(0.05), *grid(1 / 256, 0)], {}, **near)
    yield Case("QLinearLeakyRelu", [a, *grid(0.05), *grid(0.05)], {"alpha": 0.1}, **near)
    yield Case("QLinearSoftmax", [a, *grid(0.02), *grid(1 / 256, 0)], {"opset": 13}, **near)
    for opset in (1, 11, 12, 13, 17):
        for shape in ((7,), (2, 5), (2, 3, 4), (2, 3, 4, 5)):
            x = [s.bytes(*shape), *grid(0.02), *grid(1 / 256, 0)]
            name = f"no-axis-{opset}-{len(shape)}"
            yield Case("QLinearSoftmax", x, {"opset": opset}, name, **near, everywhere=True)
    x = [s.bytes(2, 3, 4), *grid(0.02), *grid(1 / 256, 0)]
    yield Case("QLinearSoftmax", x, {"opset": 12, "axis": 1}, "axis-12", **near)
    yield Case("QLinearSoftmax", x, {"opset": 13, "axis": 1}, "axis-13", **near)
    yield Case("QLinearConcat", [*grid(0.03), a, *grid(0.02), b, *grid(0.04)], {"axis": 1}, **near)
    condition = s.rng.random(a.shape) < 0.5
    yield Case("QLinearWhere", [condition, a, *grid(0.02), b, *grid(0.03), *grid(0.03)], {}, **near)
    for last in (0, 1):
        x = [s.bytes(1, 9, 9, 6) if last else s.bytes(1, 6, 9, 9), *grid(0.02)]
        how = {"channels_last": last}
        name = "last" if last else "first"
        yield Case("QLinearGlobalAveragePool", [*x, *grid(0.02)], how, name, **near)
        pool = {**how, "kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
        yield Case("QLinearAveragePool", [*x, *grid(0.02)], pool, name, **near)
        w = [
            Const(s.i(-63, 63, 8, 6, 3, 3, dtype=np.int8)),
            Const(np.full(8, 0.01, np.float32)),
            Const(np.zeros(8, np.int8)),
        ]
        bias = Const(s.i(-500, 500, 8))
        conv = {**how, "pads": [1, 1, 1, 1]}
        yield Case("QLinearConv", [*x, *w, *grid(0.05), bias], conv, name, **near)
        given = [w[0].array, *w[1:]]
        conv = {**conv, "kernel_shape": [3, 3]}
        yield Case(
            "QLinearConv",
            [*x, *given, *grid(0.05), bias],
            conv,
            f"{name}-given",
            **near,
            everywhere=True,
        )
    w = [Const(s.i(-63, 63, 12, 7, dtype=np.int8)), *grid(0.01, 0, np.int8)]
    c = Const(s.i(-300, 300, 7))
    yield Case("QGemm", [s.bytes(5, 12), *grid(0.02), *w, c, *grid(0.1)], {}, **near)
    yield Case("QGemm", [s.bytes(5, 12), *grid(0.02), *w, c], {"alpha": 0.5}, "floats")
    scales = Const(np.abs(s.f(7, scale=0.02)))
    yield Case(
        "DynamicQuantizeMatMul", [s.f(5, 12), w[0], scales, None, Const(s.f(7))], {}, atol=1e-3
    )
    yield Case(
        "MatMulIntegerToFloat",
        [s.bytes(5, 12), w[0], grid(0.02)[0], scales, grid(0.02)[1], None, Const(s.f(7))],
        atol=1e-3,
    )
    for kind, dtype in ((0, np.uint8), (1, np.int16)):
        zero = Const(np.array(3, dtype))
        x = s.f(3, 4)
        step = Const(np.array(0.05, np.float32))
        yield Case("QuantizeLinear", [x, step, zero], {}, str(kind), **near)
        q = s.i(0, 200, 3, 4, dtype=dtype)
        yield Case("DequantizeLinear", [q, step, zero], {}, str(kind))
    steps, zeros = Const(np.abs(s.f(4)) + 0.01), Const(s.i(0, 9, 4, dtype=np.uint8))
    yield Case("DequantizeLinear", [s.bytes(3, 4), steps, zeros], {"axis": 1}, "axis")
    hidden, size = 8, 6
    for directions in (1, 2):
        for per_channel in (False, True):
            shape = (directions, 4 * hidden) if per_channel else (directions,)
            lstm = [
                s.f(5, 2, size),
                Const(s.i(-60, 60, directions, size, 4 * hidden, dtype=np.int8)),
                Const(s.i(-60, 60, directions, hidden, 4 * hidden, dtype=np.int8)),
                Const(s.f(directions, 8 * hidden, scale=0.1)),
                None,
                None,
                None,
                None,
                Const(np.full(shape, 0.005, np.float32)),
                Const(np.zeros(shape, np.int8)),
                Const(np.full(shape, 0.005, np.float32)),
                Const(np.zeros(shape, np.int8)),
            ]
            attributes: dict[str, Any] = {"hidden_size": hidden}
            if directions == 2:
                attributes["direction"] = "bidirectional"
            # ONNX Runtime rounds the inputs and the hidden state to bytes, too.
            yield Case(
                "DynamicQuantizeLSTM",
                lstm,
                attributes,
                f"{directions}-{per_channel}",
                outputs=3,
                rtol=0.05,
                atol=0.03,
            )
