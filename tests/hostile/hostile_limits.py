# SPDX-License-Identifier: Apache-2.0
"""Hostile numbers on long ways: what decides a shape, an address or a scale is fed, is constant, or
comes through casts, choices, sequences, optionals, branches, loops or functions; and another node
reads what comes of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import onnx
from hostile_values import FLOATS, INTEGERS, hostile_array, integer
from onnx import TensorProto, helper, numpy_helper
from small_models import tensor, untyped

Feeds = dict[str, Any]
F, I64, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


class Row(NamedTuple):
    """A sound node: its operands by name, its attributes, and how many results it has."""

    op: str
    operands: dict[str, Any]
    attributes: Mapping[str, Any] = MappingProxyType({})
    outputs: int = 1
    domain: str = ""


def f(*shape: int) -> np.ndarray:
    """Numbers that are not all the same."""
    return (np.arange(int(np.prod(shape))) % 7 - 3).astype(np.float32).reshape(shape) / 2


def u8(*shape: int) -> np.ndarray:
    """Bytes."""
    return (np.arange(int(np.prod(shape))) * 37 % 256).astype(np.uint8).reshape(shape)


def i8(*shape: int) -> np.ndarray:
    """Signed bytes."""
    return u8(*shape).view(np.int8)


def i(*numbers: int) -> np.ndarray:
    """A list of numbers."""
    return np.array(numbers, np.int64)


def one(number: int) -> np.ndarray:
    """A number without axes."""
    return np.array(number, np.int64)


def s(*numbers: float) -> np.ndarray:
    """Scales; one number has no axes."""
    return np.array(numbers[0] if len(numbers) == 1 else numbers, np.float32)


def zero(dtype: Any) -> np.ndarray:
    """A zero point."""
    return np.zeros((), dtype)


ROWS: list[Row] = [
    Row("Slice", {"x": f(3, 4), "starts": i(0, 1), "ends": i(2, 3), "axes": i(0, 1)}),
    Row("Slice", {"x": f(3, 4), "a": i(2), "b": i(-9), "axes": i(1), "steps": i(-1)}),
    Row("Gather", {"x": f(3, 4), "i": i(0, 2)}, {"axis": 1}),
    Row("GatherND", {"x": f(3, 4), "i": i(0, 2).reshape(1, 2)}),
    Row("GatherND", {"x": f(2, 3, 4), "i": i(0, 2).reshape(2, 1)}, {"batch_dims": 1}),
    Row("GatherElements", {"x": f(3, 4), "i": i(0, 1, 2, 0).reshape(1, 4)}),
    Row("ScatterND", {"x": f(3, 4), "i": i(1).reshape(1, 1), "u": f(1, 4)}, {"reduction": "add"}),
    Row("ScatterND", {"x": f(3, 4), "i": i(1, 0, 2, 1).reshape(2, 2), "u": f(2)}),
    Row("ScatterElements", {"x": f(3, 4), "i": i(0, 1).reshape(1, 2), "u": f(1, 2)}),
    Row(
        "ScatterElements",
        {"x": f(3, 4), "i": i(0, 1).reshape(1, 2), "u": f(1, 2)},
        {"axis": 1, "reduction": "max"},
    ),
    Row("TensorScatter", {"x": f(2, 4, 3), "u": f(2, 2, 3), "i": i(0, 1)}),
    Row("TensorScatter", {"x": f(2, 4, 3), "u": f(2, 2, 3), "i": i(0, 1)}, {"mode": "circular"}),
    Row("TopK", {"x": f(3, 4), "k": i(2)}, {"axis": -1}, 2),
    Row("OneHot", {"i": i(0, 2, 5), "d": one(4), "v": s(0, 1)}, {"axis": 0}),
    Row("Range", {"a": one(0), "b": one(6), "d": one(2)}),
    Row("Range", {"a": s(0), "b": s(6), "d": s(0.5)}),
    Row("Tile", {"x": f(2, 3), "r": i(2, 1)}),
    Row("Expand", {"x": f(1, 3), "s": i(2, 3)}),
    Row("ConstantOfShape", {"s": i(2, 3)}),
    Row("Reshape", {"x": f(2, 6), "s": i(3, -1)}),
    Row("Reshape", {"x": f(2, 6), "s": i(0, 2, 3)}, {"allowzero": 0}),
    Row("Pad", {"x": f(3, 4), "p": i(1, 0, 0, 2), "v": s(7)}),
    Row("Pad", {"x": f(3, 4), "p": i(1, 2)}, {"mode": "reflect"}),
    Row("Pad", {"x": f(3, 4), "p": i(1, 2), "": None, "axes": i(1)}, {"mode": "edge"}),
    Row("Pad", {"x": f(3, 4), "p": i(-1, 0, 2, 0)}, {"mode": "wrap"}),
    Row("Resize", {"x": f(1, 1, 3, 4), "": None, " ": None, "s": i(1, 1, 6, 2)}),
    Row("Resize", {"x": f(1, 1, 3, 4), "": None, "s": s(1, 1, 2, 0.5)}, {"mode": "linear"}),
    Row(
        "Resize",
        {"x": f(1, 1, 3, 4), "": None, "s": s(2, 0.5)},
        {"mode": "cubic", "axes": [2, 3], "antialias": 1},
    ),
    Row(
        "Resize",
        {"x": f(1, 1, 3, 4), "roi": s(0, 0, 0, 0, 1, 1, 1, 1), " ": None, "s": i(1, 1, 6, 2)},
        {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear"},
    ),
    Row("CumSum", {"x": f(3, 4), "a": one(1)}, {"reverse": 1}),
    Row("CumProd", {"x": f(3, 4), "a": one(1)}),
    Row(
        "RoiAlign",
        {"x": f(1, 2, 4, 4), "r": s(0, 0, 3, 3).reshape(1, 4), "i": i(0)},
        {"output_height": 2, "output_width": 3},
    ),
    Row(
        "MaxRoiPool",
        {"x": f(1, 2, 4, 4), "r": s(0, 0, 0, 3, 3).reshape(1, 5)},
        {"pooled_shape": [2, 2]},
    ),
    Row(
        "NonMaxSuppression",
        {
            "b": f(1, 6, 4),
            "s": f(1, 2, 6),
            "m": one(3),
            "iou": np.full(1, 0.5, np.float32),
            "t": np.zeros(1, np.float32),
        },
    ),
    Row("Trilu", {"x": f(3, 4), "k": one(1)}, {"upper": 0}),
    Row("Unsqueeze", {"x": f(3, 4), "a": i(0, 3)}),
    Row("Squeeze", {"x": f(1, 3, 1), "a": i(0, 2)}),
    Row("ReduceSum", {"x": f(3, 4), "a": i(0)}),
    Row("ReduceMax", {"x": f(3, 4), "a": i(0, 1)}, {"keepdims": 0}),
    Row("ReduceLogSumExp", {"x": f(3, 4), "a": i(-1)}, {"noop_with_empty_axes": 1}),
    Row("Split", {"x": f(5, 2), "s": i(2, 3)}, {"axis": 0}, 2),
    Row("SplitToSequence", {"x": f(5, 2), "s": i(2, 3)}, {"axis": 0}),
    Row("SplitToSequence", {"x": f(5, 2), "s": one(2)}, {"axis": 0, "keepdims": 0}),
    Row("Compress", {"x": f(3, 4), "c": np.array([True, False, True])}, {"axis": 0}),
    Row("ReverseSequence", {"x": f(3, 2), "l": i(3, 1)}),
    Row("CenterCropPad", {"x": f(3, 4), "s": i(2, 6)}),
    Row("AffineGrid", {"x": f(1, 2, 3), "s": i(1, 1, 2, 3)}),
    Row("GridSample", {"x": f(1, 1, 3, 3), "g": f(1, 2, 2, 2)}, {"mode": "cubic"}),
    Row("Col2Im", {"x": f(1, 4, 4), "s": i(3, 3), "b": i(2, 2)}),
    Row(
        "MaxUnpool",
        {"x": f(1, 1, 2, 2), "i": i(5, 7, 13, 15).reshape(1, 1, 2, 2)},
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    Row(
        "MaxUnpool",
        {"x": f(1, 1, 2, 2), "i": i(5, 7, 13, 15).reshape(1, 1, 2, 2), "s": i(1, 1, 5, 5)},
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    Row("DFT", {"x": f(1, 8, 1), "n": one(8), "a": one(1)}),
    Row("STFT", {"x": f(1, 16), "step": one(4), "w": f(8), "n": one(8)}),
    Row("MelWeightMatrix", {"b": one(4), "l": one(16), "r": one(8000), "lo": s(0), "hi": s(4000)}),
    Row("HannWindow", {"n": one(8)}),
    Row("EyeLike", {"x": f(3, 4)}, {"k": 1}),
    Row("Bernoulli", {"x": s(0, 1, 0.5)}),
    Row("Multinomial", {"x": f(2, 4)}, {"sample_size": 3}),
    Row("Upsample", {"x": f(1, 1, 2, 2), "s": s(1, 1, 2, 2)}),
    Row("Where", {"c": np.array([True, False]), "x": f(3, 2), "y": f(2)}),
    Row("Clip", {"x": f(3, 4), "lo": s(-1), "hi": s(1)}),
    Row("Mod", {"x": i(5, -7, 9), "y": i(3, 2, -4)}),
    Row("Div", {"x": i(5, -7, 9), "y": i(3, 2, -4)}),
    Row("Div", {"x": i(5, -7).astype(np.int32), "y": i(3, 2).astype(np.int32)}),
    Row("Pow", {"x": i(5, -7, 2), "y": i(3, 2, 4)}),
    Row("BitShift", {"x": u8(3), "y": u8(3) % 8}, {"direction": "RIGHT"}),
    Row("Unique", {"x": f(3, 4)}, {"axis": 0}, 4),
    Row("NonZero", {"x": f(3, 4)}),
    Row("Einsum", {"x": f(3, 4), "y": f(4, 2)}, {"equation": "ij,jk->ik"}),
    Row("Det", {"x": f(2, 3, 3)}),
    Row("Dropout", {"x": f(3, 4), "r": s(0.5), "t": np.array(False)}, {}, 2),
    Row(
        "LSTM",
        {
            "x": f(3, 2, 4),
            "w": f(1, 20, 4),
            "r": f(1, 20, 5),
            "b": f(1, 40),
            "l": i(3, 1).astype(np.int32),
        },
        {"hidden_size": 5},
        3,
    ),
    Row(
        "GRU",
        {
            "x": f(3, 2, 4),
            "w": f(1, 15, 4),
            "r": f(1, 15, 5),
            "b": f(1, 30),
            "l": i(3, 1).astype(np.int32),
        },
        {"hidden_size": 5},
        2,
    ),
    Row(
        "RNN",
        {
            "x": f(3, 2, 4),
            "w": f(1, 5, 4),
            "r": f(1, 5, 5),
            "b": f(1, 10),
            "l": i(3, 1).astype(np.int32),
        },
        {"hidden_size": 5},
        2,
    ),
    Row(
        "BatchNormalization",
        {"x": f(2, 3, 4), "s": f(3), "b": f(3), "m": f(3), "v": np.ones(3, np.float32)},
    ),
    Row("LayerNormalization", {"x": f(2, 3, 4), "s": f(4), "b": f(4)}),
    Row("GroupNormalization", {"x": f(2, 4, 3), "s": f(4), "b": f(4)}, {"num_groups": 2}),
    Row("InstanceNormalization", {"x": f(2, 3, 4), "s": f(3), "b": f(3)}),
    Row("RMSNormalization", {"x": f(2, 3, 4), "s": f(4)}),
    Row(
        "Conv", {"x": f(1, 4, 6, 6), "w": f(2, 2, 3, 3), "b": f(2)}, {"group": 2, "strides": [2, 1]}
    ),
    Row("Conv", {"x": f(2, 3, 9), "w": f(4, 3, 3), "b": f(4)}, {"auto_pad": "SAME_UPPER"}),
    Row(
        "ConvTranspose",
        {"x": f(1, 2, 3, 3), "w": f(2, 2, 3, 3), "b": f(2)},
        {"output_padding": [1, 1], "strides": [2, 2]},
    ),
    Row(
        "DeformConv",
        {"x": f(1, 2, 4, 4), "w": f(2, 2, 2, 2), "o": f(1, 8, 3, 3), "b": f(2), "m": f(1, 4, 3, 3)},
    ),
    Row("Gemm", {"a": f(3, 4), "b": f(4, 2), "c": f(2)}),
    Row("MatMul", {"a": f(2, 3, 4), "b": f(4, 2)}),
    Row("Attention", {"q": f(1, 2, 3, 4), "k": f(1, 2, 3, 4), "v": f(1, 2, 3, 4), "m": f(3, 3)}),
    Row(
        "Attention",
        {"q": f(1, 3, 8), "k": f(1, 3, 8), "v": f(1, 3, 8)},
        {"q_num_heads": 2, "kv_num_heads": 2},
    ),
    Row(
        "RotaryEmbedding",
        {"x": f(1, 2, 3, 4), "c": f(8, 2), "s": f(8, 2), "p": i(0, 1, 7).reshape(1, 3)},
    ),
    Row("Swish", {"x": f(3, 4)}, {"alpha": 1.0}),
    Row("NegativeLogLikelihoodLoss", {"x": f(3, 4), "t": i(0, 3, 1)}),
    Row("SoftmaxCrossEntropyLoss", {"x": f(3, 4), "t": i(0, 3, 1), "w": f(4)}, {"ignore_index": 1}),
    Row("ConcatFromSequence", {"x": [f(2, 3), f(1, 3)]}, {"axis": 0}),
    Row("SequenceAt", {"x": [f(2, 3), f(1, 3)], "p": one(1)}),
    Row("SequenceInsert", {"x": [f(2, 3), f(1, 3)], "t": f(2, 2), "p": one(1)}),
    Row("SequenceErase", {"x": [f(2, 3), f(1, 3)], "p": one(0)}),
    # Bytes with scales and zero points.
    Row("QuantizeLinear", {"x": f(3, 4), "s": s(0.1), "z": zero(np.uint8)}),
    Row("QuantizeLinear", {"x": f(3, 4), "s": s(0.1, 0.2, 0.3), "z": i8(3)}, {"axis": 0}),
    Row(
        "QuantizeLinear",
        {"x": f(4, 4), "s": np.full((2, 4), 0.1, np.float32), "z": i8(2, 4)},
        {"axis": 0, "block_size": 2},
    ),
    Row("DequantizeLinear", {"x": u8(3, 4), "s": s(0.1), "z": zero(np.uint8)}),
    Row("DequantizeLinear", {"x": i8(3, 4), "s": s(0.1, 0.2, 0.3, 0.4), "z": i8(4)}, {"axis": 1}),
    Row(
        "DequantizeLinear",
        {"x": u8(4, 4), "s": np.full((2, 4), 0.1, np.float32)},
        {"axis": 0, "block_size": 2},
    ),
    Row("DequantizeLinear", {"x": i(5, -(2**31), 2**31 - 1).astype(np.int32), "s": s(0.1)}),
    Row("DynamicQuantizeLinear", {"x": f(3, 4)}, {}, 3),
    Row("MatMulInteger", {"a": u8(3, 4), "b": i8(4, 2), "za": zero(np.uint8), "zb": zero(np.int8)}),
    Row(
        "ConvInteger",
        {"x": u8(1, 2, 5, 5), "w": i8(2, 2, 3, 3), "zx": zero(np.uint8), "zw": zero(np.int8)},
    ),
    Row(
        "QLinearMatMul",
        {"a": u8(3, 4), "sa": s(0.1), "za": zero(np.uint8), "b": u8(4, 2), "sb": s(0.2)}
        | {"zb": zero(np.uint8), "sy": s(0.5), "zy": zero(np.uint8)},
    ),
    Row(
        "QLinearConv",
        {"x": u8(1, 2, 5, 5), "sx": s(0.1), "zx": zero(np.uint8), "w": i8(2, 2, 3, 3)}
        | {"sw": s(0.1, 0.2), "zw": np.zeros(2, np.int8), "sy": s(0.5), "zy": zero(np.uint8)}
        | {"b": np.zeros(2, np.int32)},
    ),
    # Ops of ONNX Runtime's own.
    Row(
        "MatMulNBits",
        {"a": f(2, 32), "b": u8(4, 2, 8), "s": f(8)},
        {"K": 32, "N": 4, "bits": 4, "block_size": 16},
        1,
        "com.microsoft",
    ),
    Row(
        "GatherBlockQuantized",
        {"x": u8(4, 16), "i": i(0, 3), "s": f(4, 1)},
        {"block_size": 16, "bits": 8},
        1,
        "com.microsoft",
    ),
    Row(
        "SkipLayerNormalization",
        {"x": f(1, 3, 4), "k": f(1, 3, 4), "g": f(4), "b": f(4)},
        {},
        1,
        "com.microsoft",
    ),
    Row(
        "EmbedLayerNormalization",
        {
            "i": i(0, 2).astype(np.int32).reshape(1, 2),
            "t": i(0, 1).astype(np.int32).reshape(1, 2),
            "w": f(3, 4),
            "p": f(2, 4),
            "e": f(2, 4),
            "g": f(4),
            "b": f(4),
        },
        {},
        2,
        "com.microsoft",
    ),
    Row(
        "RotaryEmbedding",
        {"x": f(1, 3, 8), "p": i(0, 1, 7).reshape(1, 3), "c": f(8, 2), "s": f(8, 2)},
        {"num_heads": 2},
        1,
        "com.microsoft",
    ),
    Row(
        "QLinearAdd",
        {
            "a": u8(3),
            "sa": s(0.1),
            "za": zero(np.uint8),
            "b": u8(3),
            "sb": s(0.1),
            "zb": zero(np.uint8),
            "sy": s(0.2),
            "zy": zero(np.uint8),
        },
        {},
        1,
        "com.microsoft",
    ),
    Row(
        "DynamicQuantizeMatMul",
        {"a": f(3, 4), "b": u8(4, 2), "sb": s(0.1), "zb": zero(np.uint8)},
        {},
        1,
        "com.microsoft",
    ),
    Row(
        "MatMulIntegerToFloat",
        {
            "a": u8(3, 4),
            "b": u8(4, 2),
            "sa": s(0.1),
            "sb": s(0.1),
            "za": zero(np.uint8),
            "zb": zero(np.uint8),
        },
        {},
        1,
        "com.microsoft",
    ),
    Row(
        "MultiHeadAttention",
        {"q": f(1, 3, 8), "k": f(1, 3, 8), "v": f(1, 3, 8)},
        {"num_heads": 2},
        1,
        "com.microsoft",
    ),
    Row(
        "GroupQueryAttention",
        {
            "q": f(1, 1, 16),
            "k": f(1, 1, 16),
            "v": f(1, 1, 16),
            "pk": f(1, 2, 4, 8),
            "pv": f(1, 2, 4, 8),
            "l": i(4).astype(np.int32),
            "t": np.array(5, np.int32),
        },
        {"num_heads": 2, "kv_num_heads": 2},
        3,
        "com.microsoft",
    ),
]


class Way:
    """Adds what a model needs for an operand to come on its way to the node."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.functions: list[onnx.FunctionProto] = []
        self.fed: Feeds = {}

    def constant(self, name: str, value: Any, dtype: Any = np.int64) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def add(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def feed(self, name: str, array: np.ndarray) -> str:
        """An input of the shape, of any size, or of any rank."""
        declared: Any = self.rng.choice(
            [list(array.shape), [f"{name}_{d}" for d in range(array.ndim)], None]
        )
        self.inputs.append(tensor(name, helper.np_dtype_to_tensor_dtype(array.dtype), declared))
        self.fed[name] = array
        return name

    def list_of(self, name: str, arrays: list[np.ndarray]) -> str:
        """A sequence that is fed, or made of what is."""
        if self.rng.random() < 0.5:
            kind = helper.make_tensor_type_proto(F, None)
            value = helper.make_value_info(name, helper.make_sequence_type_proto(kind))
            self.inputs.append(value)
            self.fed[name] = arrays
            return name
        parts = [self.feed(f"{name}{at}", array) for at, array in enumerate(arrays)]
        return self.add("SequenceConstruct", parts, name)

    # --- ways ---------------------------------------------------------------------------------

    def by_sum(self, name: str, array: np.ndarray) -> str:
        if array.dtype == np.bool_ or array.dtype.itemsize == 1:
            return self.add("Identity", [name], f"{name}_v")
        return self.add("Add", [name, self.constant(f"{name}_0", 0, array.dtype)], f"{name}_v")

    def by_cast(self, name: str, array: np.ndarray) -> str:
        """What is fed are floats, which may be none that the type has."""
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        if array.dtype.kind == "f":
            return self.by_sum(name, array)
        self.inputs.pop()
        self.feed(name, array.astype(np.float32))
        return self.add("Cast", [name], f"{name}_v", to=kind)

    def by_choice(self, name: str, array: np.ndarray) -> str:
        self.feed(f"{name}_c", np.array(True))
        return self.add("Where", [f"{name}_c", name, name], f"{name}_v")

    def by_shape(self, name: str, array: np.ndarray) -> str:
        flat = self.add("Reshape", [name, self.constant(f"{name}_m", [-1])], f"{name}_f")
        return self.add("Reshape", [flat, self.add("Shape", [name], f"{name}_s")], f"{name}_v")

    def by_sequence(self, name: str, array: np.ndarray) -> str:
        made = self.add("SequenceConstruct", [name, name], f"{name}_q")
        at = self.feed(f"{name}_p", np.array(self.rng.choice([0, 1, -1])))
        return self.add("SequenceAt", [made, at], f"{name}_v")

    def by_optional(self, name: str, array: np.ndarray) -> str:
        made = self.add("Optional", [name], f"{name}_o")
        return self.add("OptionalGetElement", [made], f"{name}_v")

    def by_branch(self, name: str, array: np.ndarray) -> str:
        self.feed(f"{name}_c", np.array(self.rng.random() < 0.5))
        branches = {
            key: helper.make_graph(
                [helper.make_node("Identity", [name], [f"{name}_{key}"])],
                key,
                [],
                [untyped(f"{name}_{key}")],
            )
            for key in ("then_branch", "else_branch")
        }
        return self.add("If", [f"{name}_c"], f"{name}_v", **branches)

    def by_loop(self, name: str, array: np.ndarray) -> str:
        body = helper.make_graph(
            [
                helper.make_node("Identity", ["again"], ["again_out"]),
                helper.make_node("Identity", ["state"], ["state_out"]),
            ],
            "body",
            [tensor("turn", I64, []), tensor("again", B, []), untyped("state")],
            [tensor("again_out", B, []), untyped("state_out")],
        )
        turns = self.feed(f"{name}_m", np.array(self.rng.choice([0, 1, 3])))
        return self.add("Loop", [turns, "", name], f"{name}_v", body=body)

    def by_function(self, name: str, array: np.ndarray) -> str:
        """Of an older version of the standard."""
        imports = [helper.make_opsetid("", self.rng.choice([8, 11, 13, 17]))]
        nodes = [helper.make_node("Identity", ["a"], ["b"])]
        function = helper.make_function("own", f"F_{name}", ["a"], ["b"], nodes, imports)
        self.functions.append(function)
        return self.add(f"F_{name}", [name], f"{name}_v", domain="own")

    def by_contradiction(self, name: str, array: np.ndarray) -> str:
        """Its declared type is another's."""
        value = self.inputs[-1]
        value.type.tensor_type.ClearField("shape")
        for _ in range(self.rng.choice([0, 1, array.ndim, array.ndim + 1])):
            value.type.tensor_type.shape.dim.add(dim_value=self.rng.choice([0, 1, 2, 7]))
        return self.add("Identity", [name], f"{name}_v")

    def bring(self, name: str, value: Any) -> str:
        """The name of what the node reads."""
        if value is None:
            return ""
        if isinstance(value, list):
            return self.list_of(name, value)
        if self.rng.random() < 0.2:
            if self.rng.random() < 0.5:
                value = hostile_array(self.rng, value)
            self.constants.append(numpy_helper.from_array(value, name))
            return name
        self.feed(name, value)
        return name if self.rng.random() < 0.35 else self.rng.choice(WAYS)(self, name, value)


WAYS: list[Callable[[Way, str, np.ndarray], str]] = [
    *[Way.by_sum, Way.by_cast, Way.by_choice, Way.by_shape, Way.by_sequence, Way.by_optional],
    *[Way.by_branch, Way.by_loop, Way.by_function, Way.by_contradiction],
]


def follow(way: Way, name: str) -> str:
    """Another node reads the result."""
    kind = way.rng.randrange(9)
    if kind < 3:
        return name
    result = f"{name}_after"
    if kind == 3:
        return way.add("Shape", [name], result)
    if kind == 4:
        return way.add("ReduceSum", [way.add("Cast", [name], f"{name}_c", to=F)], result)
    if kind == 5:
        floats = way.add("Cast", [name], f"{name}_c", to=F)
        return way.add("Concat", [floats, floats], result, axis=way.rng.choice([0, -1, 1]))
    if kind == 6:
        floats = way.add("Cast", [name], f"{name}_c", to=F)
        return way.add("Add", [floats, way.constant("row", [1, 2, 3], np.float32)], result)
    if kind == 7:
        sizes = way.add("Shape", [name], f"{name}_s")
        return way.add("ConstantOfShape", [sizes], result)
    floats = way.add("Cast", [name], f"{name}_c", to=F)
    return way.add("Softmax", [floats], result, axis=way.rng.choice([-1, 0]))


def spoiled(rng: random.Random, feeds: Feeds) -> Feeds:
    """One or two of what is fed are hostile."""
    feeds = dict(feeds)
    for name in rng.sample(sorted(feeds), min(len(feeds), rng.choice([1, 1, 2]))):
        value = feeds[name]
        if isinstance(value, list):
            feeds[name] = rng.choice([[], value[:1], [*value, f(2)], [*value, f(1, 0)], value * 40])
            continue
        if value.dtype.kind in "iu" and value.dtype.itemsize > 1 and rng.random() < 0.6:
            if value.size:
                array = np.array(value)
                number = np.array(integer(rng) if rng.random() < 0.7 else rng.choice(INTEGERS))
                array.reshape(-1)[rng.randrange(array.size)] = number.astype(array.dtype)
                feeds[name] = array
            continue
        if value.dtype.kind == "f" and value.size and rng.random() < 0.6:
            array = np.array(value)
            array.reshape(-1)[rng.randrange(array.size)] = rng.choice(FLOATS)
            feeds[name] = array
            continue
        feeds[name] = hostile_array(rng, value)
    return feeds


def make(rng: random.Random, index: int) -> tuple[str, bytes, list[Feeds]]:
    """The op's name, the model and what it is run with."""
    row = ROWS[index % len(ROWS)]
    way = Way(rng)
    read = [
        way.bring(name.strip() or f"none{at}", value)
        for at, (name, value) in enumerate(row.operands.items())
    ]
    results = [f"y{at}" for at in range(row.outputs)]
    node = helper.make_node(row.op, read, results, domain=row.domain, **row.attributes)
    for attribute in node.attribute:  # seldom, since the operands are what is looked at
        if rng.random() < 0.06 and attribute.type == onnx.AttributeProto.INT:
            attribute.i = integer(rng)
        elif rng.random() < 0.06 and attribute.type == onnx.AttributeProto.INTS:
            attribute.ints[rng.randrange(len(attribute.ints))] = integer(rng)
    way.nodes.append(node)
    is_list = row.op in ("SplitToSequence", "SequenceInsert", "SequenceErase")
    outputs = results if is_list else [follow(way, name) for name in results]
    graph = helper.make_graph(
        way.nodes, "g", way.inputs, [untyped(name) for name in outputs], way.constants
    )
    versions = {"": 10 if row.op == "Upsample" else rng.choice([23, 24]), "own": 1}
    if row.op == "Upsample":
        versions[""] = 9
    if row.domain:
        versions[row.domain] = 1
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10, functions=way.functions)
    return row.op, model.SerializeToString(), [way.fed, *[spoiled(rng, way.fed) for _ in range(4)]]
