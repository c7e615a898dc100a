# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pools, also in ONNX Runtime's blocks of channels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .case import NCHWC, Array, Case, Const, Source


def convolution(s: Source) -> Iterator[Case]:
    x, w, b = s.f(2, 6, 9, 9), Const(s.f(8, 6, 3, 3, scale=0.2)), Const(s.f(8))
    for activation, params in (
        ("", []),
        ("Relu", []),
        ("Sigmoid", []),
        ("LeakyRelu", [0.2]),
        ("Clip", [-0.5, 0.5]),
        ("HardSigmoid", [0.2, 0.4]),
    ):
        attributes: dict[str, Any] = {"pads": [1, 1, 1, 1]}
        if activation:
            attributes["activation"] = activation
        if params:
            attributes["activation_params"] = params
        yield Case("FusedConv", [x, w, b], attributes, activation or "plain")
    yield Case(
        "FusedConv",
        [x, w, b, s.f(2, 8, 9, 9)],
        {"activation": "Relu", "pads": [1, 1, 1, 1]},
        "sum",
    )
    for pads in (Const(np.array([1, 0, 1, 1])), np.array([1, 0, 1, 1])):
        yield Case(
            "ConvTransposeWithDynamicPads",
            [s.f(1, 3, 5, 5), Const(s.f(3, 4, 3, 3)), pads, Const(s.f(4))],
            {"strides": [2, 2], "output_padding": [1, 1]},
            "constant" if isinstance(pads, Const) else "input",
        )
    for dtype in (np.uint8, np.int8):
        yield Case(
            "NhwcMaxPool",
            [s.bytes(2, 9, 9, 5, dtype=dtype)],
            {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
            np.dtype(dtype).name,
        )
    mask = np.ones((1, 1, 8, 8), np.int32)
    mask[..., 5:] = 0
    mask[..., 6, 1] = 0
    yield Case(
        "MaxpoolWithMask",
        [s.f(2, 3, 8, 8), mask],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        "2d",
    )
    line = np.ones((1, 1, 12), np.int32)
    line[..., 9:] = 0
    yield Case(
        "MaxpoolWithMask", [s.f(1, 2, 12), line], {"kernel_shape": [3], "strides": [1]}, "1d"
    )


def block() -> int:
    """Channels of a block, on this processor."""
    return 16 if "avx512f" in Path("/proc/cpuinfo").read_text(encoding="ascii") else 8


def blocked(w: Array) -> Array:
    """Weights (O, I, H, W) as ONNX Runtime lays them out."""
    b = block()
    o, i, h, k = w.shape
    if i < b:
        laid = w.reshape(o // b, b, i, h, k).transpose(0, 2, 3, 4, 1)
    else:
        laid = w.reshape(o // b, b, i // b, b, h, k).transpose(0, 2, 4, 5, 3, 1)
    return np.ascontiguousarray(laid).reshape(w.shape)


def between_orders(channels: int, last: int = 0) -> Callable[[onnx.NodeProto], list[Any]]:
    def around(node: onnx.NodeProto) -> list[Any]:
        first = helper.make_node(
            "ReorderInput", ["x0"], ["in"], domain=NCHWC, channels_last=last, name="in"
        )
        node.input[0] = "in"
        back = helper.make_node(
            "ReorderOutput",
            ["y0"],
            ["out"],
            domain=NCHWC,
            channels=channels,
            channels_last=last,
            name="out",
        )
        return [first, node, back]

    return around


def nchwc(s: Source) -> Iterator[Case]:
    b = block()
    common: dict[str, Any] = {"domain": NCHWC, "result": "out"}
    x = s.f(1, 2 * b, 9, 9)
    for op, attributes in (
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("GlobalAveragePool", {}),
        ("GlobalMaxPool", {}),
        ("Upsample", {"scales": [1, 1, 2, 2]}),
        ("Upsample", {"scales": [1, 1, 2, 2], "mode": "linear"}),
    ):
        yield Case(op, [x], attributes, str(attributes), around=between_orders(2 * b), **common)
    w = s.f(4 * b, 2 * b, 3, 3, scale=0.1)
    yield Case(
        "Conv",
        [x, Const(blocked(w)), Const(s.f(4 * b))],
        {"pads": [1, 1, 1, 1], "activation": "Relu", "kernel_shape": [3, 3]},
        "blocks",
        around=between_orders(4 * b),
        **common,
    )
    yield Case(
        "Conv",
        [s.f(1, 9, 9, 2 * b), Const(blocked(w)), Const(s.f(4 * b))],
        {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]},
        "channels-last",
        around=between_orders(4 * b, 1),
        **common,
    )
    yield Case(
        "Conv",
        [x, Const(blocked(s.f(2 * b, 1, 3, 3)))],
        {"group": 2 * b, "kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
        "depthwise",
        around=between_orders(2 * b),
        **common,
    )
    yield Case(
        "Conv",
        [s.f(1, 3, 9, 9), Const(blocked(s.f(2 * b, 3, 3, 3)))],
        {"kernel_shape": [3, 3], "strides": [2, 2]},
        "first",
        around=lambda node: [node, between_orders(2 * b - 3)(helper.make_node("x", ["x"], []))[2]],
        **common,
    )
    for op in ("ReorderInput", "ReorderOutput"):
        yield Case(
            op, [x], {}, domain=NCHWC, result="out", around=lambda node: orders_only(2 * block())
        )


def orders_only(channels: int) -> list[Any]:
    return between_orders(channels)(helper.make_node("Relu", ["in"], ["y0"]))
