# SPDX-License-Identifier: Apache-2.0
"""Cases of ONNX Runtime's contributed ops: operands, attributes, how near answers must be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from small_models import model_proto, tensor, untyped

Array = np.ndarray
MICROSOFT = "com.microsoft"
NCHWC = "com.microsoft.nchwc"


@dataclass
class Const:
    """An operand that the file holds; of `dtype`, a type of TensorProto, where NumPy lacks it."""

    array: Any
    dtype: int | None = None


@dataclass
class Case:
    """A node, its operands, and how near the answers must be."""

    op: str
    operands: list[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    domain: str = MICROSOFT
    outputs: int = 1
    rtol: float = 1e-4
    atol: float = 1e-4
    skip: tuple[int, ...] = ()  # outputs that are not asked for
    around: Callable[[onnx.NodeProto], list[onnx.NodeProto]] | None = None
    result: str = ""  # of the nodes around it
    opset: int = 21

    @property
    def label(self) -> str:
        return f"{self.op}-{self.name}" if self.name else self.op

    def model(self, open_dimensions: bool = False) -> tuple[bytes, dict[str, Array]]:
        """The file, and what it is fed with."""
        names, inputs, constants, feeds = [], [], [], {}
        for i, operand in enumerate(self.operands):
            if operand is None:
                names.append("")
                continue
            name = f"x{i}"
            names.append(name)
            if isinstance(operand, Const):
                constants.append(constant(operand, name))
                continue
            array = np.asarray(operand)
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            shape: list[Any] = list(array.shape)
            if open_dimensions:
                shape = [f"d{i}_{k}" for k in range(array.ndim)]
            inputs.append(tensor(name, kind, shape))
            feeds[name] = array
        outputs = ["" if i in self.skip else f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(
            self.op, names, outputs, name="node", domain=self.domain, **self.attributes
        )
        nodes = self.around(node) if self.around else [node]
        wanted = [self.result] if self.result else [o for o in outputs if o]
        model = model_proto(
            nodes,
            inputs,
            [untyped(o) for o in wanted],
            constants,
            opset=self.opset,
            domains={MICROSOFT: 1, NCHWC: 1},
        )
        return model.SerializeToString(), feeds


def constant(operand: Const, name: str) -> onnx.TensorProto:
    array = np.asarray(operand.array)
    if operand.dtype is None:
        return numpy_helper.from_array(array, name)
    return helper.make_tensor(name, operand.dtype, array.shape, array.ravel().tolist())


class Source:
    """Random operands."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def f(self, *shape: int, scale: float = 1.0, dtype: Any = np.float32) -> Array:
        return (self.rng.normal(size=shape) * scale).astype(dtype)

    def i(self, low: int, high: int, *shape: int, dtype: Any = np.int32) -> Array:
        return self.rng.integers(low, high, shape).astype(dtype)

    def bytes(self, *shape: int, dtype: Any = np.uint8) -> Array:
        info = np.iinfo(dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(dtype)


def linear(s: Source) -> Iterator[Case]:
    for ta in (0, 1):
        for tb in (0, 1):
            a = s.f(2, 3, 5, 4) if ta else s.f(2, 3, 4, 5)
            b = s.f(2, 3, 6, 5) if tb else s.f(2, 3, 5, 6)
            attributes = {"transA": ta, "transB": tb, "alpha": 0.5}
            yield Case("FusedMatMul", [a, b], attributes, f"{ta}{tb}")
    yield Case("FusedMatMul", [s.f(4, 5), s.f(5)], {"transA": 0}, "vector")
    yield Case(
        "FusedMatMul",
        [s.f(4, 2, 3, 5), s.f(2, 3, 5, 6)],
        {"transBatchA": 1},
        "batch",
    )
    yield Case(
        "FusedMatMul",
        [s.f(4, 5, dtype=np.float64), s.f(5, 3, dtype=np.float64)],
        {"alpha": 2.0},
        "double",
    )
    yield Case("TransposeMatMul", [s.f(5, 4), s.f(5, 6)], {"transA": 1, "alpha": 0.25})
    for activation, extra in (
        ("Relu", {}),
        ("LeakyRelu", {"activation_alpha": 0.1}),
        ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}),
        ("Tanh", {}),
    ):
        yield Case(
            "FusedGemm",
            [s.f(4, 5), s.f(6, 5), s.f(6)],
            {"activation": activation, "transB": 1, "alpha": 0.5, "beta": 2.0, **extra},
            activation,
        )
    yield Case(
        "MatMulInteger16",
        [s.i(-300, 300, 4, 8, dtype=np.int16), s.i(-300, 300, 8, 3, dtype=np.int16)],
    )


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


def activation(s: Source) -> Iterator[Case]:
    x = s.f(3, 4, 8)
    yield Case("Gelu", [x])
    yield Case("BiasGelu", [x, s.f(8)])
    yield Case("FastGelu", [x], name="plain")
    yield Case("FastGelu", [x, s.f(8)], name="bias")
    yield Case("QuickGelu", [x], name="default")
    yield Case("QuickGelu", [x], {"alpha": 1.0}, "alpha")
    yield Case("ScaledSiLU", [x], {"alpha": 0.7}, "alpha")
    yield Case("ScaledSiLU", [x, np.array(0.3, np.float32)], {}, "scale")
    half = {"rtol": 1e-2, "atol": 1e-2}
    yield Case("ScaledSiLU", [x.astype(np.float16)], {"alpha": 0.7}, "half", **half)
    standard: dict[str, Any] = {"domain": "", "opset": 9}
    yield Case("Affine", [x], {"alpha": 2.0, "beta": 0.5}, **standard)
    yield Case("Scale", [x], {"scale": 2.0}, **standard)
    yield Case("ParametricSoftplus", [x], {"alpha": 0.5, "beta": 1.5}, **standard)
    yield Case("ScaledTanh", [x], {"alpha": 0.5, "beta": 1.5}, **standard)
    yield Case(
        "ImageScaler", [s.f(1, 3, 4, 4)], {"scale": 2.0, "bias": [0.1, 0.2, 0.3]}, **standard
    )
    yield Case("Crop", [s.f(1, 3, 8, 8)], {"border": [1, 2, 1, 1]}, "border", **standard)
    yield Case(
        "Crop", [s.f(1, 3, 8, 8)], {"border": [1, 2, 0, 0], "scale": [3, 4]}, "scale", **standard
    )


def normalisation(s: Source) -> Iterator[Case]:
    for dtype, near in ((np.float32, 1e-4), (np.float16, 2e-2)):
        kind = np.dtype(dtype).name
        x, skip = s.f(2, 5, 16, dtype=dtype), s.f(2, 5, 16, dtype=dtype)
        g, b, bias = (s.f(16, dtype=dtype) for _ in range(3))
        t: dict[str, Any] = {"rtol": near, "atol": near}
        op = "SkipLayerNormalization"
        yield Case(op, [x, skip, g, b, bias], {"epsilon": 1e-5}, f"all-{kind}", **t)
        four: dict[str, Any] = {"outputs": 4, "skip": (1, 2), **t}
        yield Case(op, [x, skip, g, None, bias], {}, f"sum-{kind}", **four)
        yield Case(op, [x, skip[0], g, b], {}, f"broadcast-{kind}", **t)
        op = "SkipSimplifiedLayerNormalization"
        yield Case(op, [x, skip, g], {"epsilon": 1e-6}, f"plain-{kind}", **t)
        yield Case(op, [x, skip, g, bias], {}, f"sum-{kind}", **four)
        op = "SimplifiedLayerNormalization"
        yield Case(op, [x, g], {"epsilon": 1e-6}, kind, domain="", **t)
    words, places, kinds = Const(s.f(30, 16)), Const(s.f(12, 16)), Const(s.f(2, 16))
    g, b = Const(s.f(16)), Const(s.f(16))
    ids, segments = s.i(0, 30, 2, 7), s.i(0, 2, 2, 7)
    mask = np.ones((2, 7), np.int32)
    mask[1, 4:] = 0
    op = "EmbedLayerNormalization"
    yield Case(op, [ids, segments, words, places, kinds, g, b], {}, "plain", outputs=2)
    yield Case(op, [ids, segments, words, places, kinds, g, b, mask], {}, "mask", outputs=2)
    yield Case(op, [ids, None, words, places, None, g, b, mask], {}, "no-segments", outputs=3)
    at = s.i(0, 12, 2, 7)
    yield Case(op, [ids, segments, words, places, kinds, g, b, None, at], {}, "places", outputs=2)

    def table(rows: int) -> tuple[Const, Const, Const]:
        shape = (rows, 16) if rows else (16,)
        zero = Const(np.array(120, np.uint8))
        return Const(s.bytes(*shape)), Const(np.array(0.02, np.float32)), zero

    tables = [table(30), table(12), table(2), table(0), table(0)]
    yield Case(
        "QEmbedLayerNormalization",
        [
            ids,
            segments,
            *(t[0] for t in tables),
            mask,
            *(t[1] for t in tables),
            *(t[2] for t in tables),
        ],
        {},
        outputs=2,
        atol=1e-3,
        rtol=1e-3,
    )
    x = s.f(2, 3, 4, 8)
    for scale in (None, s.f(8), s.f(4, 8), s.f(32)):
        name = "none" if scale is None else str(scale.shape)
        yield Case("BranchwiseRMSNorm", [x, scale], {}, f"grouped-{name}")
        yield Case("BranchwiseRMSNorm", [s.f(2, 3, 32), scale], {"num_branches": 4}, f"flat-{name}")
    for how in ("silu", "sigmoid"):
        yield Case("GatedRMSNorm", [s.f(2, 3, 32), s.f(8), s.f(2, 3, 32)], {"activation": how}, how)
    yield Case(
        "EngramGate",
        [x, s.f(2, 3, 4, 8), s.f(2, 3, 8), s.f(4, 8), s.f(4, 8), s.f(4, 8)],
        {},
        outputs=2,
    )
    yield Case("GatedAdd", [s.f(2, 3, 8), s.f(2, 3, 8), s.f(2, 3, 1)])
    for factors in (s.f(2, 3, 4), s.f(2, 3, 4, 1), s.f(2, 3, 4, 8)):
        name = str(factors.shape)
        yield Case("HyperConnectionPreMix", [x, factors], {"reduction_scale": 0.5}, name)
        yield Case("HyperConnectionPostMix", [x, s.f(2, 3, 8), factors], {}, name)
    yield Case("HyperConnectionPreMix", [s.f(2, 3, 32), s.f(2, 3, 32)], {"num_branches": 4}, "flat")
    yield Case(
        "HyperConnectionPostMix",
        [s.f(2, 3, 32), s.f(2, 3, 8), s.f(2, 3, 4), s.f(2, 3, 4, 4)],
        {"num_branches": 4},
        "mixed",
    )


def causal_positions(batch: int, length: int) -> Array:
    return np.tile(np.arange(length, dtype=np.int64), (batch, 1))


def attention(s: Source) -> Iterator[Case]:
    n, h, length, batch = 4, 8, 6, 2
    d = n * h
    x, w, b = s.f(batch, length, d), Const(s.f(d, 3 * d, scale=0.2)), Const(s.f(3 * d))
    heads = {"num_heads": n}
    ends = np.array([4, 6], np.int32)
    both = np.array([5, 6, 1, 0], np.int32)
    flat = np.ones((batch, length), np.int32)
    flat[0, 4:] = 0
    full = s.i(0, 2, batch, length, length)
    full[:, :, 0] = 1
    bias = s.f(1, n, length, length)
    op = "Attention"
    yield Case(op, [x, w, b], heads, "plain")
    yield Case(op, [x, w, b], {**heads, "scale": 0.1}, "scale")
    yield Case(op, [x, w, b], {**heads, "unidirectional": 1}, "causal")
    yield Case(op, [x, w, b, ends], heads, "ends")
    yield Case(op, [x, w, b, both], heads, "begins")
    yield Case(op, [x, w, b, flat], heads, "mask2")
    yield Case(op, [x, w, b, flat], {**heads, "unidirectional": 1}, "mask2-causal")
    yield Case(op, [x, w, b, full], {**heads, "mask_filter_value": -1000.0}, "mask3")
    yield Case(op, [x, w, b, None, None, bias], heads, "bias")
    wide = Const(s.f(d, 2 * d + 16, scale=0.2))
    yield Case(
        op, [x, wide, Const(s.f(2 * d + 16))], {**heads, "qkv_hidden_sizes": [d, d, 16]}, "sizes"
    )
    past = s.f(2, batch, n, 3, h)
    yield Case(op, [x, w, b, None, past], {**heads, "unidirectional": 1}, "past", outputs=2)
    longer = np.ones((batch, length + 3), np.int32)
    longer[1, :2] = 0
    yield Case(
        op, [x[:, :1], w, b, longer[:, :4], past], {**heads, "unidirectional": 1}, "step", outputs=2
    )
    yield Case(op, [x, w, b, None], {**heads, "unidirectional": 1}, "present", outputs=2)

    op = "QAttention"
    near: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-3}
    scale = Const(np.array(0.02, np.float32))
    w_scale = Const(np.array(0.01, np.float32))
    quantised = [s.bytes(batch, length, d), Const(s.i(-63, 63, d, 3 * d, dtype=np.int8)), b]
    zero, w_zero = Const(np.array(128, np.uint8)), Const(np.array(0, np.int8))
    yield Case(op, [*quantised, scale, w_scale, flat, zero, w_zero], heads, "mask", **near)
    yield Case(
        op,
        [
            *quantised,
            scale,
            Const(np.full(3 * d, 0.01, np.float32)),
            None,
            zero,
            Const(np.zeros(3 * d, np.int8)),
            past,
        ],
        {**heads, "unidirectional": 1},
        "past",
        outputs=2,
        **near,
    )

    op = "MultiHeadAttention"
    q, k, v = s.f(batch, length, d), s.f(batch, 5, d), s.f(batch, 5, d)
    qkv_bias = Const(s.f(3 * d))
    yield Case(op, [q, k, v], heads, "plain")
    yield Case(op, [q, k, v, qkv_bias], heads, "bias")
    yield Case(op, [q, k, s.f(batch, 5, 16)], heads, "v-size")
    cross = np.ones((batch, 5), np.int32)
    cross[1, 3:] = 0
    yield Case(op, [q, k, v, None, cross], heads, "mask2")
    yield Case(op, [q, k, v, None, np.array([3, 5], np.int32)], heads, "ends")
    yield Case(op, [q, k, v, None, None, s.f(1, n, length, 5)], heads, "score-bias")
    keys, values = s.f(batch, n, 5, h), s.f(batch, n, 5, h)
    yield Case(op, [q, keys, values], heads, "cross")
    own = [q, s.f(batch, length, d), s.f(batch, length, d)]
    yield Case(op, own, {**heads, "unidirectional": 1}, "causal")
    pasts = [s.f(batch, n, 3, h), s.f(batch, n, 3, h)]
    yield Case(
        op, [*own, qkv_bias, None, None, *pasts], {**heads, "unidirectional": 1}, "past", outputs=3
    )
    yield Case(op, own, heads, "present", outputs=3)

    op = "DecoderMaskedMultiHeadAttention"
    one = [s.f(batch, 1, d) for _ in range(3)]
    buffers = [s.f(batch, n, 8, h), s.f(batch, n, 8, h)]
    share = {**heads, "past_present_share_buffer": 1}
    length_of = Const(np.array([5], np.int32))
    masked = np.ones((batch, 6), np.int32)
    masked[0, :2] = 0
    yield Case(op, [*one, None, None, *buffers, length_of], share, "self", outputs=3)
    yield Case(op, [*one, masked, None, *buffers, length_of], share, "mask", outputs=3)
    yield Case(
        op, [*one, None, None, *buffers, length_of, None, None, qkv_bias], share, "bias", outputs=3
    )
    yield Case(op, [one[0], keys, values], heads, "cross")

    op = "RotaryEmbedding"
    cos, sin = (Const(s.f(16, h // 2)) for _ in range(2))
    at = causal_positions(batch, length)
    for interleaved in (0, 1):
        how = {"interleaved": interleaved}
        yield Case(op, [x, at, cos, sin], how, f"3d-{interleaved}")
        yield Case(op, [s.f(batch, n, length, h), at, cos, sin], how, f"4d-{interleaved}")
        yield Case(op, [x, np.array([3]), cos, sin], how, f"offset-{interleaved}")
    part = [Const(s.f(16, 2)), Const(s.f(16, 2))]
    yield Case(op, [x, at, *part], {"num_heads": n, "rotary_embedding_dim": 4}, "part")
    half = {"rtol": 1e-2, "atol": 1e-2}
    halves = [Const(c.array.astype(np.float16)) for c in (cos, sin)]
    yield Case(op, [x.astype(np.float16), at, *halves], {}, "half", **half)
    op = "MRotaryEmbedding"
    three = s.i(0, 16, 3, batch, length, dtype=np.int64)
    for layout in (0, 1):
        how = {"mrope_section": [2, 1, 1], "mrope_layout": layout, "num_heads": n}
        yield Case(op, [x, three, cos, sin], how, f"layout{layout}")

    yield from group_query_attention(s)
    yield from states(s)


def group_query_attention(s: Source) -> Iterator[Case]:
    op = "GroupQueryAttention"
    n, kn, h, length = 4, 2, 16, 5
    base = {"num_heads": n, "kv_num_heads": kn}
    cos, sin = (Const(s.f(32, h // 2)) for _ in range(2))

    def total(length: int) -> Array:
        return np.array(length, np.int32)

    def prompt(batch: int, dtype: Any = np.float32) -> list[Any]:
        q = s.f(batch, length, n * h, dtype=dtype)
        k, v = (s.f(batch, length, kn * h, dtype=dtype) for _ in range(2))
        lengths = np.full(batch, length - 1, np.int32)
        return [q, k, v, None, None, lengths, total(length)]

    three: dict[str, Any] = {"outputs": 3}
    for batch in (1, 2):
        yield Case(op, prompt(batch), base, f"prompt{batch}", **three)
        rotary = {**base, "do_rotary": 1}
        yield Case(op, [*prompt(batch), cos, sin], rotary, f"rotary{batch}", **three)
        step = [
            s.f(batch, 1, n * h),
            s.f(batch, 1, kn * h),
            s.f(batch, 1, kn * h),
            s.f(batch, kn, 7, h),
            s.f(batch, kn, 7, h),
            np.full(batch, 7, np.int32),
            total(8),
        ]
        yield Case(op, [*step, cos, sin], rotary, f"step{batch}", **three)
        if batch == 2:
            ragged = list(step)
            ragged[5] = np.array([4, 7], np.int32)
            yield Case(op, [*ragged, cos, sin], rotary, "ragged", **three)
        empty = list(prompt(batch))
        empty[3], empty[4] = s.f(batch, kn, 0, h), s.f(batch, kn, 0, h)
        yield Case(op, [*empty, cos, sin], rotary, f"empty{batch}", **three)
        buffered = list(step)
        buffered[3], buffered[4] = s.f(batch, kn, 12, h), s.f(batch, kn, 12, h)
        yield Case(op, buffered, base, f"buffer{batch}", **three)
        packed = [s.f(batch, length, (n + 2 * kn) * h), None, None, *prompt(batch)[3:]]
        yield Case(op, [*packed, cos, sin], rotary, f"packed{batch}", **three)
    more = [
        s.f(1, 3, n * h),
        s.f(1, 3, kn * h),
        s.f(1, 3, kn * h),
        s.f(1, kn, 7, h),
        s.f(1, kn, 7, h),
        np.array([9], np.int32),
        total(10),
    ]
    yield Case(op, [*more, cos, sin], {**base, "do_rotary": 1}, "more", **three)
    interleaved = {**base, "do_rotary": 1, "rotary_interleaved": 1}
    yield Case(op, [*prompt(2), cos, sin], interleaved, "interleaved", **three)
    yield Case(op, prompt(1), {**base, "local_window_size": 2}, "window", **three)
    yield Case(op, more, {**base, "local_window_size": 3}, "window-more", **three)
    yield Case(op, prompt(1), {**base, "softcap": 1.5}, "softcap", **three)
    yield Case(op, prompt(2), {**base, "smooth_softmax": 1}, "smooth", **three)
    yield Case(op, prompt(2), {**base, "scale": 0.3}, "scale", **three)
    extra = [None, None, None]
    bias = s.f(1, n, length, length)
    yield Case(op, [*prompt(1), *extra, bias], base, "score-bias", **three)
    yield Case(op, [*prompt(1), *extra, bias], {**base, "softcap": 1.5}, "cap-bias", **three)
    yield Case(op, [*prompt(1), *extra, None, s.f(n)], base, "sink", **three)
    yield Case(op, prompt(1), {**base, "causal": 0}, "both-ways", **three)
    at = np.arange(3, 3 + length, dtype=np.int64)[None]
    yield Case(op, [*prompt(1), cos, sin, at], {**base, "do_rotary": 1}, "places", **three)
    near = {"rtol": 2e-2, "atol": 2e-2}
    yield Case(op, prompt(1, np.float16), base, "half", **near, **three)


def states(s: Source) -> Iterator[Case]:
    x, w, b = s.f(2, 6, 9), Const(s.f(6, 1, 4)), Const(s.f(6))
    op = "CausalConvWithState"
    yield Case(op, [x, w, b], {}, "plain", outputs=2)
    yield Case(op, [x, w, b, s.f(2, 6, 3)], {"activation": "silu"}, "state", outputs=2)
    yield Case(op, [x, w, None, s.f(2, 6, 6)], {"dilation": 2}, "dilation", outputs=2)
    last = {"channels_last": 1}
    yield Case(op, [s.f(2, 9, 6), w, b, s.f(2, 3, 6)], last, "channels-last", outputs=2)
    yield Case("LinearAttentionGate", [s.f(2, 5, 4), s.f(4), s.f(4), s.f(2, 5, 4)], {}, outputs=2)
    op = "LinearAttention"
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    q = s.f(2, 5, 4 * 8, scale=0.3)
    k, v = s.f(2, 5, 2 * 8, scale=0.3), s.f(2, 5, 2 * 8)
    state = s.f(2, 2, 8, 8)
    decay = -np.abs(s.f(2, 5, 2))
    beta = 1 / (1 + np.exp(-s.f(2, 5, 2)))
    for rule, extra in (
        ("linear", []),
        ("gated", [decay]),
        ("delta", [None, beta]),
        ("gated_delta", [decay, beta]),
    ):
        for given in (None, state):
            name = f"{rule}-{'state' if given is not None else 'fresh'}"
            yield Case(
                op, [q, k, v, given, *extra], {**heads, "update_rule": rule}, name, outputs=2
            )


def pack(numbers: Array, bits: int) -> Array:
    """Small numbers along the last axis in bytes, low bits first."""
    per = 8 // bits
    rest = -numbers.shape[-1] % per
    padded = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, rest)])
    groups = padded.reshape(*padded.shape[:-1], -1, per).astype(np.uint32)
    return (groups << (np.arange(per) * bits)).sum(-1).astype(np.uint8)


def weights(s: Source) -> Iterator[Case]:
    op = "MatMulNBits"
    for bits in (2, 4, 8):
        for k, block_size in ((64, 32), (48, 16), (40, 16)):
            n, blocks = 12, math.ceil(k / block_size)
            q = s.i(0, 2**bits, n, blocks, block_size)
            scales = np.abs(s.f(n, blocks, scale=0.1))
            attributes = {"bits": bits, "block_size": block_size, "N": n, "K": k}
            operands = [s.f(2, 3, k), Const(pack(q, bits)), Const(scales)]
            near: dict[str, Any] = {"rtol": 1e-2, "atol": 2e-2}
            yield Case(op, operands, attributes, f"{bits}-{k}-plain", **near)
            zeros = Const(pack(s.i(0, 2**bits, n, blocks), bits))
            yield Case(op, [*operands, zeros], attributes, f"{bits}-{k}-zeros", **near)
    bias = Const(s.f(12))
    yield Case(op, [*operands, None, None, bias], attributes, "bias", **near)
    attributes = {"bits": 4, "block_size": 32, "N": 12, "K": 64}
    operands = [
        s.f(3, 64),
        Const(pack(s.i(0, 16, 12, 2, 32), 4)),
        Const(np.abs(s.f(12, 2, scale=0.1))),
    ]
    floats = Const(s.f(12, 2, scale=3.0) + 8)
    yield Case(op, [*operands, floats], attributes, "float-zeros", **near)
    half = [
        operands[0].astype(np.float16),
        operands[1],
        Const(operands[2].array.astype(np.float16)),
    ]
    yield Case(op, half, attributes, "half", rtol=5e-2, atol=1e-1)

    op = "MatMulBnb4"
    for kind in (0, 1):
        for trans in (1,):  # ONNX Runtime's CPU kernel reads beyond the weights without
            n, k = 8, 32
            attributes = {"N": n, "K": k, "block_size": 16, "quant_type": kind, "transB": trans}
            yield Case(
                op,
                [
                    s.f(3, k if trans else n),
                    Const(s.bytes(n * k // 2)),
                    Const(np.abs(s.f(n * k // 16))),
                ],
                attributes,
                f"{kind}{trans}",
                rtol=1e-3,
                atol=1e-3,
            )

    op = "MatMulFpQ4"
    for kind, size, has_zero in ((0, 32, False), (1, 32, True)):
        blocks = []
        for _ in range(4 * 64 // size):
            scale = np.abs(s.f(1, scale=0.1)).tobytes()
            zero = bytes([int(s.i(0, 16))]) if has_zero else b""
            blocks.append(scale + zero + s.bytes(size // 2).tobytes())
        blob = np.frombuffer(b"".join(blocks), np.uint8)
        yield Case(
            op,
            [s.f(3, 64), Const(blob), Const(np.array([64, 4]))],
            {"blk_quant_type": kind},
            str(kind),
            rtol=1e-3,
            atol=1e-3,
        )

    op = "GatherBlockQuantized"
    table = s.i(0, 16, 20, 64)
    scales = np.abs(s.f(20, 2, scale=0.1))
    ids = s.i(0, 20, 2, 3, dtype=np.int64)
    base = {"block_size": 32, "quantize_axis": 1, "gather_axis": 0}
    zeros = s.i(0, 16, 20, 2)
    packed = Const(pack(table, 4))
    yield Case(op, [packed, ids, Const(scales)], {**base, "bits": 4}, "bytes")
    yield Case(
        op, [packed, ids, Const(scales), Const(pack(zeros, 4))], {**base, "bits": 4}, "bytes-zeros"
    )
    yield Case(op, [Const(s.bytes(20, 64)), ids, Const(scales)], {**base, "bits": 8}, "bytes8")
    four = Const(table, TensorProto.UINT4)
    yield Case(op, [four, ids, Const(scales)], base, "uint4")
    yield Case(op, [four, ids, Const(scales), Const(zeros, TensorProto.UINT4)], base, "uint4-zeros")
    yield Case(op, [Const(table - 8, TensorProto.INT4), ids, Const(scales)], base, "int4")
    other = {"block_size": 16, "quantize_axis": 0, "gather_axis": 1}
    tall = Const(s.i(0, 16, 32, 6), TensorProto.UINT4)
    yield Case(op, [tall, s.i(0, 6, 3, dtype=np.int64), Const(np.abs(s.f(2, 6)))], other, "columns")


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


def sequence(s: Source) -> Iterator[Case]:
    letters = s.i(1, 20, 5, 9)
    letters[0, 3:] = 0
    letters[1, 7:] = 0
    letters[2, 1:] = 0
    yield Case(
        "WordConvEmbedding",
        [letters, Const(s.f(6, 1, 3, 4)), Const(s.f(6)), Const(s.f(20, 4))],
    )
    ids = s.i(0, 3, 2, 12, dtype=np.int64)
    for n in (1, 2, 3):
        yield Case("NGramRepeatBlock", [ids, s.f(2, 5)], {"ngram_size": n}, str(n))
    yield Case("NGramRepeatBlock", [ids[:, :2], s.f(2, 5)], {"ngram_size": 3}, "short")
    source = np.array([5, 3, 7, 3, 7, 8, 2, 9], np.int64)
    op = "BifurcationDetector"
    start = np.array([0], np.int64)
    for tail in ([1, 5], [3, 7], [7, 3, 7], [2, 9], [4, 4], [8]):
        current = np.array([1, *tail], np.int64)
        yield Case(op, [source, current, start], {}, str(tail), outputs=2)
    predicted = np.array([3, 7, 8, 1, 1, 1, 1], np.int64)
    yield Case(
        op,
        [source, np.array([4], np.int64), np.array([2], np.int64), predicted],
        {},
        "p",
        outputs=2,
    )
    predicted = np.array([7, 3, 7, 8, 2, 9, 6], np.int64)
    yield Case(
        op,
        [source, np.array([4], np.int64), np.array([2], np.int64), predicted],
        {},
        "q",
        outputs=2,
    )
    for dtype in (np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64):
        x = s.i(0, 2**31 - 1, 3, 4, dtype=np.int64).astype(dtype)
        for positive in (0, 1):
            name = f"{np.dtype(dtype).name}-{positive}"
            yield Case("MurmurHash3", [x], {"positive": positive, "seed": 42}, name)
    op = "NGramHashMapping"
    for dtype in (np.int32, np.int64):
        ids = s.i(0, 90, 2, 7, dtype=dtype)
        factors = Const(s.i(1, 1000, 3, dtype=dtype) * 2 + 1)
        sizes = Const(np.array([101, 103, 107, 109], dtype))
        base = {"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 1}
        name = np.dtype(dtype).name
        yield Case(op, [ids, factors, sizes], base, f"{name}-plain", outputs=2)
        past = s.i(0, 90, 2, 2, dtype=dtype)
        offsets = Const(np.array([0, 101, 204, 311], dtype))
        more = [ids, factors, sizes, past, offsets]
        yield Case(op, more, base, f"{name}-past", outputs=2)
        eos = ids.copy()
        eos[0, 3] = 7
        reset = [eos, factors, sizes, None, None, Const(np.array(7, dtype))]
        yield Case(op, reset, {**base, "reset_on_eos": 1}, f"{name}-eos", outputs=2)
        segments = np.array([[0, 0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 1, 1, 1]], np.int32)
        yield Case(
            op, [ids, factors, sizes, None, None, None, segments], base, f"{name}-seg", outputs=2
        )
        packed = [s.i(0, 90, 9, dtype=dtype), factors, sizes, np.array([0, 4, 5, 9], np.int32)]
        varlen = "VarlenNGramHashMapping"
        yield Case(varlen, packed, base, f"{name}-plain", outputs=2)
        pasts = s.i(0, 90, 3, 2, dtype=dtype)
        yield Case(varlen, [*packed, pasts, offsets], base, f"{name}-past", outputs=2)
        packed[0][2] = 7
        reset = [*packed, None, None, Const(np.array(7, dtype))]
        yield Case(varlen, reset, {**base, "reset_on_eos": 1}, f"{name}-eos", outputs=2)
        parts = np.array([0, 0, 1, 1, 0, 0, 0, 2, 2], np.int32)
        yield Case(varlen, [*packed, None, None, None, parts], base, f"{name}-seg", outputs=2)


def experts(s: Source) -> Iterator[Case]:
    e, h, f, tokens = 4, 16, 32, 6
    x, logits = s.f(tokens, h), s.f(tokens, e)
    w1, b1 = Const(s.f(e, f, h, scale=0.2)), Const(s.f(e, f))
    w2, b2 = Const(s.f(e, h, f, scale=0.2)), Const(s.f(e, h))
    for how in ("relu", "gelu", "silu", "identity"):
        yield Case("MoE", [x, logits, w1, b1, w2, b2], {"k": 2, "activation_type": how}, how)
    normal = {"k": 2, "normalize_routing_weights": 1}
    yield Case("MoE", [s.f(2, 3, h), logits, w1, None, w2], normal, "normal")
    fused = [x, logits, Const(s.f(e, 2 * f, h, scale=0.2)), Const(s.f(e, 2 * f)), w2, b2]
    swiglu = {
        "k": 2,
        "activation_type": "swiglu",
        "swiglu_fusion": 1,
        "activation_alpha": 1.702,
        "activation_beta": 1.0,
    }
    yield Case("MoE", fused, swiglu, "swiglu")
    yield Case("MoE", fused, {**swiglu, "swiglu_limit": 0.5}, "limit")
    for bits in (4, 8):
        q1 = Const(pack(s.i(0, 2**bits, e, f, h), bits))
        q2 = Const(pack(s.i(0, 2**bits, e, h, f), bits))
        scale = 0.4 / 2**bits
        s1 = Const(np.abs(s.f(e, f, scale=scale)))
        s2 = Const(np.abs(s.f(e, h, scale=scale)))
        attributes = {"k": 2, "expert_weight_bits": bits, "activation_type": "silu"}
        yield Case(
            "QMoE", [x, logits, q1, s1, b1, q2, s2, b2], attributes, str(bits), rtol=2e-2, atol=2e-2
        )
        s1 = Const(np.abs(s.f(e, f, h // 16, scale=scale)))
        s2 = Const(np.abs(s.f(e, h, f // 16, scale=scale)))
        yield Case(
            "QMoE",
            [x, logits, q1, s1, b1, q2, s2, b2],
            {**attributes, "block_size": 16},
            f"{bits}-blocks",
            rtol=3e-2,
            atol=3e-2,
        )


def other(s: Source) -> Iterator[Case]:
    for upper in (0, 1):
        yield Case("Trilu", [s.f(2, 4, 5), Const(np.array(1))], {"upper": upper}, str(upper))
    matrices = s.f(2, 3, 5, 5) + 2 * np.eye(5, dtype=np.float32)
    turned = matrices[:, :, ::-1].copy()
    yield Case("Inverse", [matrices], name="batch", rtol=1e-3, atol=1e-3)
    yield Case("Inverse", [turned[0, 0]], name="pivots", rtol=1e-3, atol=1e-3)
    yield Case("Inverse", [matrices.astype(np.float64)], name="double")
    for metric in ("euclidean", "sqeuclidean"):
        yield Case("CDist", [s.f(4, 6), s.f(5, 6)], {"metric": metric}, metric)
    double = [s.f(4, 6, dtype=np.float64), s.f(5, 6, dtype=np.float64)]
    yield Case("CDist", double, {"metric": "euclidean"}, "double")
    for dtype in (np.int32, np.int64):
        where = s.i(0, 3, 2, 2, 2, dtype=dtype)
        yield Case("GatherND", [s.f(3, 4, 5), where], {}, np.dtype(dtype).name)
    for axis in (0, 2, -1):
        yield Case("ExpandDims", [s.f(3, 4), Const(np.array(axis, np.int32))], {}, str(axis))
    x, grid = s.f(2, 3, 6, 7), s.f(2, 4, 5, 2, scale=0.7)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for align in (0, 1):
                attributes = {"mode": mode, "padding_mode": padding, "align_corners": align}
                yield Case("GridSample", [x, grid], attributes, f"{mode}-{padding}-{align}")
    boxes = np.array([[0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], [-0.2, 0.3, 1.1, 0.7]], np.float32)
    which = np.array([0, 1, 1], np.int32)
    for mode in ("bilinear", "nearest"):
        for size in ([3, 4], [1, 5]):
            yield Case(
                "CropAndResize",
                [x, boxes, which, Const(np.array(size, np.int32))],
                {"mode": mode, "extrapolation_value": 0.5},
                f"{mode}-{size}",
            )
    yield Case("Unique", [s.i(0, 5, 12).astype(np.float32)], {}, outputs=3)
    for dtype in (np.float32, np.int64, np.int32):
        span = [np.array(v, dtype) for v in (1, 10, 2)]
        yield Case("Range", [Const(v) for v in span], {}, np.dtype(dtype).name)
    yield Case("Range", [np.array([2], np.int64), np.array([7], np.int64)], {}, "input")
    for mode in ("constant", "reflect", "edge"):
        pads = Const(np.array([0, 1, 2, 1]))
        yield Case(
            "Pad", [s.f(3, 4), pads, Const(np.array([0.5], np.float32))], {"mode": mode}, mode
        )
    yield Case("SampleOp", [s.f(3, 4)])
    for axis in (-1, 0, 1):
        yield Case("UnfoldTensor", [s.f(5, 6, 7)], {"dim": axis, "size": 3, "step": 2}, str(axis))
    starts, ends = Const(np.array([0, 1])), Const(np.array([2, 9]))
    yield Case("DynamicSlice", [s.f(3, 4), starts, ends], {}, domain="", opset=9)


def all_cases() -> list[Case]:
    cases: list[Case] = []
    groups = (
        linear,
        convolution,
        nchwc,
        activation,
        normalisation,
        attention,
        weights,
        quantised,
        sequence,
        experts,
        other,
    )
    for seed, group in enumerate(groups):
        cases += group(Source(seed))
    return cases
