# SPDX-License-Identifier: Apache-2.0
"""What the pinned OpenVINO computes otherwise than the standard."""

from __future__ import annotations

import numpy as np
from fault_models import aligned_corners, f32, fault
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array
from openvino_fault_models import (
    BYTE,
    PADDED,
    STEPS,
    attention_as_long_as_it_has_heads,
    attention_behind_which_a_function_stands,
    attention_read_in_two_shapes,
    batch_first,
    behind_bytes,
    branch_of_bytes,
    broken_bias,
    constant_of_bfloat16,
    even_channels,
    filters_of_a_channel,
    forked_convolution,
    joined_and_quantized,
    kept_convolution,
    loss_of_constants,
    many_keys_after_one,
    masked_bytes,
    masked_products,
    max_pool_of_sizes_in_turn,
    peepholes,
    repeated,
    rounded_to_16_bits,
    scales_by_channel,
    states_of_bytes,
    turned_and_viewed,
    turned_twice,
    weights_less_their_zero,
    windowed,
    windows_before_the_image,
)
from small_models import tensor

OPENVINO = [
    behind_bytes(
        "Pad of what is dequantised fills with the zero point",
        [helper.make_node("Pad", ["d", "p"], ["y"])],
        f32([1, 2]).reshape(1, 1, 1, 2),
        f32([0, 0], [1, 2]).reshape(1, 2, 1, 2),
        zero=np.int8(100),
        constants={"p": np.array([0, 1, 0, 0, 0, 0, 0, 0])},
    ),
    behind_bytes(
        "Pad of what is dequantised fills with a number times the scale",
        [helper.make_node("Pad", ["d", "p", "v"], ["y"])],
        f32([1, 2]).reshape(1, 1, 1, 2),
        f32([3, 3], [1, 2]).reshape(1, 2, 1, 2),
        zero=np.int8(100),
        constants={"p": np.array([0, 1, 0, 0, 0, 0, 0, 0]), "v": np.float32(3)},
    ),
    behind_bytes(
        "A mean over three axes of what is dequantised is 0 but for the first",
        [helper.make_node("GlobalAveragePool", ["d"], ["y"])],
        np.arange(24, dtype=np.float32).reshape(3, 1, 8),
        f32(3.5, 11.5, 19.5).reshape(3, 1, 1),
    ),
    behind_bytes(
        "A sum over three axes of what is dequantised is 0 but for the first",
        [helper.make_node("ReduceSum", ["d", "axes"], ["y"], keepdims=0)],
        np.arange(24, dtype=np.float32).reshape(4, 2, 3),
        f32(15, 51, 87, 123),
        constants={"axes": np.array([1, 2])},
    ),
    behind_bytes(
        "AveragePool takes the padding of what is dequantised for the least byte",
        [helper.make_node("AveragePool", ["d"], ["y"], **PADDED)],
        f32([2, 4]).reshape(1, 1, 1, 2),
        f32([2, 2]).reshape(1, 1, 1, 2),  # (0 + 2 + 4) / 3, (2 + 4 + 0) / 3
        zero=np.uint8(100),
    ),
    fault(
        "What reduces three axes to two takes other constants than the channels'",
        [
            helper.make_node("ReduceMean", ["x", "axes"], ["m"]),
            helper.make_node("Mul", ["m", "k"], ["y"]),
        ],
        {"x": f32([[1, 3], [2, 4]], [[5, 7], [6, 8]])},
        [f32([[2], [30]], [[6], [70]])],
        constants={"axes": np.array([2]), "k": f32([1], [10])},
    ),
    fault(
        "Conv of single elements in steps behind a part of Split does not compile",
        [
            helper.make_node("Split", ["x"], ["z", "part"], axis=1, num_outputs=2),
            helper.make_node("Relu", ["part"], ["r"]),
            helper.make_node("Conv", ["r", "w"], ["y"], kernel_shape=[1, 1], strides=[2, 2]),
        ],
        {"x": np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)},
        [f32(8).reshape(1, 1, 1, 1), np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)],
        constants={"w": f32(2).reshape(1, 1, 1, 1)},
    ),
    fault(
        "PRelu behind a product does not compile for slopes of another axis than the last",
        [
            helper.make_node("MatMul", ["x", "w"], ["p"]),
            helper.make_node("PRelu", ["p", "slopes"], ["y"]),
        ],
        {"x": f32(-1, -2).reshape(1, 2, 1, 1)},
        [f32([-1, -1, -1], [-20, -20, -20]).reshape(1, 2, 1, 3)],
        constants={"w": np.ones((1, 3), np.float32), "slopes": f32(1, 10).reshape(2, 1, 1)},
    ),
    fault(
        "AveragePool shifts its padding with what is shifted, in a graph of Q/DQ",
        [
            helper.make_node("QuantizeLinear", ["x", "one", "n"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "one", "n"], ["z"]),
            helper.make_node("Mul", ["x", "two"], ["more"]),
            helper.make_node("Add", ["more", "three"], ["shifted"]),
            helper.make_node("AveragePool", ["shifted"], ["y"], **PADDED),
        ],
        {"x": f32([2, 4]).reshape(1, 1, 1, 2)},
        # (0 + 7 + 11) / 3, (7 + 11 + 0) / 3
        [f32([6, 6]).reshape(1, 1, 1, 2), f32([2, 4]).reshape(1, 1, 1, 2)],
        constants={"one": np.float32(1), "two": np.float32(2), "three": np.float32(3), "n": BYTE},
    ),
    behind_bytes(
        "Clip of what is dequantised rounds its bounds to the scale",
        [helper.make_node("Clip", ["d", "low", "high"], ["y"])],
        f32([-2, 1, 2, 3]),
        f32([-1.25, 1, 1.75, 1.75]),
        zero=np.int8(0),
        constants={"low": np.float32(-1.25), "high": np.float32(1.75)},
    ),
    behind_bytes(
        "A normalisation of what is dequantised divides epsilon by the scale",
        [helper.make_node("LayerNormalization", ["d", "g"], ["y"], axis=-1, epsilon=3.0)],
        f32([0, 2]),
        f32([-0.5, 0.5]),  # by the root of 1 + 3
        constants={"g": f32(1, 1)},
    ),
    fault(
        "ReduceMin before QuantizeLinear is 0",
        [
            helper.make_node("ReduceMin", ["x", "a"], ["r"], keepdims=0),
            helper.make_node("QuantizeLinear", ["r", "s", "n"], ["y"]),
        ],
        {"x": f32([[3, -2], [1, 4]], [[5, 6], [7, 8]])},
        [np.array([[102, 96], [110, 112]], np.uint8)],
        constants={"a": np.array([1]), "s": np.float32(0.5), "n": np.uint8(100)},
    ),
    fault(
        "GlobalMaxPool before QuantizeLinear is wrong",
        [
            helper.make_node("GlobalMaxPool", ["x"], ["m"]),
            helper.make_node("QuantizeLinear", ["m", "s", "n"], ["y"]),
        ],
        {"x": f32([-1, -2, -3], [2, 4, 1]).reshape(2, 1, 1, 3)},
        [np.array([98, 108], np.uint8).reshape(2, 1, 1, 1)],
        constants={"s": np.float32(0.5), "n": np.uint8(100)},
    ),
    repeated(
        "Expand of one channel is in another order beside a pool",
        helper.make_node("Expand", ["p", "n"], ["y"]),
        n=np.array([1, 3, 1, 1]),
    ),
    repeated(
        "Tile of one channel is in another order beside a pool",
        helper.make_node("Tile", ["p", "n"], ["y"]),
        n=np.array([1, 3, 1, 1]),
    ),
    repeated(
        "Concat of one channel with itself is in another order beside a pool",
        helper.make_node("Concat", ["p", "p", "p"], ["y"], axis=1),
    ),
    fault(
        "Cast of a part of Split to bool does not compile",
        [
            helper.make_node("Split", ["x"], ["a", "b"], num_outputs=2),
            helper.make_node("Cast", ["b"], ["y"], to=TensorProto.BOOL),
        ],
        {"x": f32(1, 2, 0, 3)},
        [np.array([False, True])],
    ),
    fault(
        "Conv of one channel, in steps, to one column is in another order",
        [helper.make_node("Conv", ["x", "w"], ["y"], strides=[1, 2])],
        {"x": STEPS},
        [np.concatenate([i * STEPS[..., :1] + STEPS[..., 1:2] for i in range(5)], axis=1)],
        constants={"w": f32(*[[i, 1] for i in range(5)]).reshape(5, 1, 1, 2)},
        processor="avx512f",
    ),
    fault(
        "Conv takes a factor for places for one of its weights",
        [
            helper.make_node("Mul", ["x", "f"], ["m"]),
            helper.make_node("Conv", ["m", "w"], ["y"], pads=[0, 1]),
        ],
        {"x": f32(1, 1, 1).reshape(1, 1, 3)},
        [f32(6, 5).reshape(1, 1, 2)],  # 1 + 2 + 3, 2 + 3
        constants={"f": f32(1, 2, 3), "w": f32(1, 1, 1).reshape(1, 1, 3)},
    ),
    fault(
        "Conv, MaxPool and a function that falls are computed in another order",
        [
            helper.make_node("Conv", ["x", "w"], ["c"]),
            helper.make_node("MaxPool", ["c"], ["m"], kernel_shape=[1, 2]),
            helper.make_node("Abs", ["m"], ["y"]),
        ],
        {"x": f32(-3, 1, -5).reshape(1, 1, 1, 3)},
        [f32(1, 1).reshape(1, 1, 1, 2)],
        constants={"w": f32(1).reshape(1, 1, 1, 1)},
    ),
    fault(
        "A summand for places behind one for channels is lost in a graph that quantises",
        [
            helper.make_node("InstanceNormalization", ["x", "g", "b"], ["n"]),
            helper.make_node("Add", ["n", "c"], ["y"]),
            helper.make_node("QuantizeLinear", ["n", "s", "o"], ["z"]),
        ],
        {"x": f32([0, 2], [2, 0]).reshape(1, 2, 1, 2)},
        [
            f32([10, 22], [14, 20]).reshape(1, 2, 1, 2),
            np.array([0, 4, 8, 0], np.uint8).reshape(1, 2, 1, 2),
        ],
        constants={
            "g": f32(1, 2),
            "b": f32(1, 2),
            "c": f32(10, 20).reshape(1, 1, 1, 2),
            "s": np.float32(0.5),
            "o": np.uint8(0),
        },
    ),
    fault(
        "A Cast to the type that is there gives what is computed later",
        [
            helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT),
            helper.make_node("Reshape", ["x", "sizes"], ["r"]),
            helper.make_node("Abs", ["r"], ["a"]),
            helper.make_node("Add", ["a", "one"], ["d"]),
            helper.make_node("Mul", ["y", "f"], ["m"]),
            helper.make_node("Div", ["m", "d"], ["q"]),
            helper.make_node("Add", ["d", "q"], ["z"]),
        ],
        {"x": f32([1, 3]).reshape(1, 1, 1, 2)},
        [f32([1, 3]).reshape(1, 1, 1, 2), f32([2.5, 5.5]).reshape(1, 1, 1, 1, 2)],
        constants={
            "sizes": np.array([1, 1, -1, 1, 2]),
            "one": np.float32(1),
            "f": f32(1, 2),
        },
    ),
    fault(
        "Attention and Mish do not compile",
        [
            helper.make_node("MatMul", ["x", "k"], ["a"]),
            helper.make_node("Softmax", ["a"], ["w"], axis=-1),
            helper.make_node("MatMul", ["w", "v"], ["m"]),
            helper.make_node("Mish", ["m"], ["y"]),
        ],
        {
            "x": np.zeros((1, 2, 3, 3), np.float32),
            "k": np.zeros((1, 2, 3, 3), np.float32),
            "v": np.zeros((1, 2, 3, 3), np.float32),
        },
        [np.zeros((1, 2, 3, 3), np.float32)],
        opset=22,
    ),
    fault(
        "MatMul by a matrix of one element behind MatMul does not compile",
        [
            helper.make_node("MatMul", ["x", "w"], ["m"]),
            helper.make_node("MatMul", ["m", "one"], ["y"]),
        ],
        {"x": np.eye(4, dtype=np.float32)},
        [f32([2], [4], [6], [8])],
        constants={"w": f32([1], [2], [3], [4]), "one": f32([2])},
    ),
    masked_bytes(),
    masked_products(),
    fault(
        "DequantizeLinear multiplies a constant anew in every run where its scale is given",
        [
            helper.make_node("DequantizeLinear", ["c", "s", "n"], ["d"]),
            helper.make_node("MatMul", ["d", "w"], ["y"]),
        ],
        {"s": np.float32(0.5), "n": np.uint8(1), "w": f32([1, 0], [0, 1])},
        [f32([0.5, 1], [1.5, 2])],
        constants={"c": np.array([[2, 3], [4, 5]], np.uint8)},
        runs=2,
    ),
    fault(
        "DequantizeLinear multiplies a constant anew in every run where its zero point is given",
        [
            helper.make_node("DequantizeLinear", ["c", "s", "n"], ["d"]),
            helper.make_node("MatMul", ["w", "d"], ["y"]),
        ],
        {"n": np.uint8(1), "w": f32([1, 0], [0, 1])},
        [f32([0.5, 1], [1.5, 2])],
        constants={"c": np.array([[2, 3], [4, 5]], np.uint8), "s": np.float32(0.5)},
        runs=2,
    ),
    many_keys_after_one(),
    scales_by_channel(),
    filters_of_a_channel(),
    rounded_to_16_bits(),
    states_of_bytes(),
    weights_less_their_zero(),
    batch_first(),
    fault(
        "Scan whose body reads no scanned value has one turn",
        [
            helper.make_node(
                "Scan",
                ["x", "rows"],
                ["y"],
                num_scan_inputs=1,
                body=helper.make_graph(
                    [helper.make_node("Add", ["state", "state"], ["next"])],
                    "body",
                    [
                        tensor("state", TensorProto.FLOAT, [2]),
                        tensor("row", TensorProto.FLOAT, [1]),
                    ],
                    [tensor("next", TensorProto.FLOAT, [2])],
                ),
            )
        ],
        {"x": f32(1, 2), "rows": f32([0], [0], [0])},
        [f32(8, 16)],
    ),
    fault(
        "A state that is a scanned value is that of the next turn",
        [
            helper.make_node(
                "Scan",
                ["x", "rows"],
                ["last", "y"],
                num_scan_inputs=1,
                body=helper.make_graph(
                    [
                        helper.make_node("Identity", ["row"], ["next"]),
                        helper.make_node("Neg", ["state"], ["minus"]),
                    ],
                    "body",
                    [
                        tensor("state", TensorProto.FLOAT, [1]),
                        tensor("row", TensorProto.FLOAT, [1]),
                    ],
                    [
                        tensor("next", TensorProto.FLOAT, [1]),
                        tensor("minus", TensorProto.FLOAT, [1]),
                    ],
                ),
            )
        ],
        {"x": f32(1), "rows": f32([2], [3], [4])},
        [f32([-1], [-2], [-3])],
    ),
    fault(
        "A state that a Scan within reads changes before that",
        [
            helper.make_node(
                "Scan",
                ["x", "rows"],
                ["last", "y"],
                num_scan_inputs=1,
                body=helper.make_graph(
                    [
                        helper.make_node("Unsqueeze", ["state", "axes"], ["inner_rows"]),
                        helper.make_node(
                            "Scan",
                            ["state", "inner_rows"],
                            ["changed"],
                            num_scan_inputs=1,
                            body=helper.make_graph(
                                [helper.make_node("Add", ["s", "r"], ["t"])],
                                "inner",
                                [
                                    tensor("s", TensorProto.FLOAT, [1]),
                                    tensor("r", TensorProto.FLOAT, [1]),
                                ],
                                [tensor("t", TensorProto.FLOAT, [1])],
                            ),
                        ),
                        helper.make_node("Identity", ["state"], ["next"]),
                        helper.make_node("Add", ["changed", "row"], ["sum"]),
                    ],
                    "body",
                    [
                        tensor("state", TensorProto.FLOAT, [1]),
                        tensor("row", TensorProto.FLOAT, [1]),
                    ],
                    [
                        tensor("next", TensorProto.FLOAT, [1]),
                        tensor("sum", TensorProto.FLOAT, [1]),
                    ],
                ),
            )
        ],
        {"x": f32(1), "rows": f32([2], [3], [4])},
        [f32([4], [5], [6])],
        constants={"axes": np.array([0])},
    ),
    fault(
        "An If whose condition a Loop of constants computes does not compile",
        [
            helper.make_node(
                "Loop",
                ["two", "true"],
                ["turns"],
                body=helper.make_graph(
                    [
                        helper.make_node("Less", ["turn", "one"], ["again"]),
                        helper.make_node("Identity", ["turn"], ["number"]),
                    ],
                    "body",
                    [tensor("turn", TensorProto.INT64, []), tensor("going", TensorProto.BOOL, [])],
                    [
                        tensor("again", TensorProto.BOOL, []),
                        tensor("number", TensorProto.INT64, []),
                    ],
                ),
            ),
            helper.make_node("ReduceMax", ["turns"], ["last"], keepdims=0),
            helper.make_node("Greater", ["last", "zero"], ["condition"]),
            helper.make_node(
                "If",
                ["condition"],
                ["y"],
                then_branch=helper.make_graph(
                    [helper.make_node("Neg", ["x"], ["a"])],
                    "then",
                    [],
                    [tensor("a", TensorProto.FLOAT, [2])],
                ),
                else_branch=helper.make_graph(
                    [helper.make_node("Abs", ["x"], ["b"])],
                    "else",
                    [],
                    [tensor("b", TensorProto.FLOAT, ["n"])],
                ),
            ),
        ],
        {"x": f32(1, -2)},
        [f32(-1, 2)],
        constants={
            "zero": np.array(0),
            "one": np.array(1),
            "two": np.array(2),
            "true": np.array(True),
        },
        open_sizes=True,
    ),
    fault(
        "MatMul by a constant vector before a factor does not compile",
        [
            helper.make_node("MatMul", ["x", "v"], ["product"]),
            helper.make_node("Mul", ["product", "factor"], ["y"]),
        ],
        {"x": f32([[1, 2]])},
        [f32([22])],
        constants={"v": f32(3, 4), "factor": np.float32(2)},
    ),
    fault(
        "Greater is true for NaN",
        [helper.make_node("Greater", ["x", "z"], ["y"])],
        {"x": f32(*[np.nan] * 20), "z": f32(0.5)},
        [np.zeros(20, bool)],
        processor="avx512f",
    ),
    fault(
        "GreaterOrEqual is true for NaN",
        [helper.make_node("GreaterOrEqual", ["x", "z"], ["y"])],
        {"x": f32(*[np.nan] * 20), "z": f32(0.5)},
        [np.zeros(20, bool)],
        processor="avx512f",
    ),
    loss_of_constants(),
    max_pool_of_sizes_in_turn(),
    fault(
        "Size of a constant without elements is 1",
        [helper.make_node("Size", ["x"], ["y"])],
        {},
        [np.int64(0)],
        constants={"x": np.zeros((2, 0), np.float32)},
    ),
    broken_bias(),
    kept_convolution(),
    even_channels(),
    peepholes(),
    aligned_corners("Resize aligns corners by the rounded size"),
    fault(
        "Resize ignores `antialias`",
        [helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear", antialias=1)],
        {"x": f32([[[0, 0, 8, 0]]]).reshape(1, 1, 4)},
        # Weights of a triangle that is two samples wide on each side, whose sum is 2.
        [f32(8 * 0.25 / 2, 8 * 0.75 / 2).reshape(1, 1, 2)],
        constants={"s": f32(1, 1, 0.5)},
    ),
    fault(
        "HardSigmoid and Selu take a factor of 0 for one that is not given",
        [helper.make_node("HardSigmoid", ["x"], ["y"], alpha=0.0, beta=0.25)],
        {"x": f32(-1, 0, 2)},
        [f32(0.25, 0.25, 0.25)],
    ),
    fault(
        "BitShift of bytes rounds where sizes are open",
        [helper.make_node("BitShift", ["x", "by"], ["y"], direction="RIGHT")],
        {"x": np.array([7, 255], np.uint8), "by": np.array([1, 1], np.uint8)},
        [np.array([3, 127], np.uint8)],
        open_sizes=True,
    ),
    fault(
        "Relu gives 0 for NaN",
        [helper.make_node("Relu", ["x"], ["y"])],
        {"x": f32(np.nan, -1, 2)},
        [f32(np.nan, 0, 2)],
        program="same",
    ),
    fault(
        "64-bit integers are computed in 32 bits",
        [helper.make_node("Add", ["x", "x"], ["y"])],
        {"x": np.array([1 << 40])},
        [np.array([1 << 41])],
    ),
    branch_of_bytes(),
    fault(
        "A quotient of constant integers is rounded down",
        [helper.make_node("Div", ["x", "by"], ["y"])],
        {},
        [np.array([-3, -2, 2], np.int32)],
        constants={"x": np.array([-7, 8, 7], np.int32), "by": np.array([2, -3, 3], np.int32)},
    ),
    fault(
        "A range of float16 that leads away from its end has elements",
        [helper.make_node("Range", ["x", "end", "step"], ["y"])],
        {name: np.array(n, np.float16) for name, n in {"x": 1, "end": 5, "step": -1}.items()},
        [np.zeros(0, np.float16)],
        opset=27,
        open_sizes=True,
    ),
    fault(
        "A power of 64-bit integers has 32 bits",
        [helper.make_node("Pow", ["x", "n"], ["y"])],
        {"x": np.array([-7, 2])},
        [np.array([7**16, 2**16])],
        constants={"n": np.array(16)},
    ),
    fault(
        "The rest of a division by infinity is NaN, and that of a large quotient loses digits",
        [helper.make_node("Mod", ["x", "by"], ["y"], fmod=1)],
        {"x": f32(-3, 3, 1e8), "by": f32(np.inf, 2, 3)},
        [f32(-3, 1, 1)],
    ),
    fault(
        "A convolution of one channel reads behind the image where a window is all padding",
        [helper.make_node("Conv", ["x", "w"], ["y"], pads=[0, 0, 0, 3])],
        {"x": np.ones((1, 1, 4, 4), np.float32)},
        [np.pad(np.ones((1, 1, 4, 4), np.float32), [(0, 0)] * 3 + [(0, 3)])],
        constants={"w": np.ones((1, 1, 1, 1), np.float32)},
        by_chance=True,
    ),
    fault(
        "What is cut to 16 bits is as it was for those who read it",
        [
            helper.make_node("Cast", ["x"], ["h"], to=TensorProto.INT16),
            helper.make_node("Cast", ["h"], ["y"], to=TensorProto.INT32),
        ],
        {"x": np.array([70000, 5], np.int32)},
        [np.array([4464, 5], np.int32)],
    ),
    fault(
        "ReduceMax of negative infinities is the lowest number",
        [helper.make_node("ReduceMax", ["x"], ["y"], keepdims=0)],
        {"x": f32(-np.inf, -np.inf)},
        [np.float32(-np.inf)],
    ),
    fault(
        "NonMaxSuppression drops a box at its threshold, not above it",
        [helper.make_node("NonMaxSuppression", ["b", "s", "most", "limit"], ["y"])],
        {"b": f32([[0, 0, 1, 1], [0, 0, 1, 0.5]]).reshape(1, 2, 4), "s": f32([[0.9, 0.8]])},
        [np.array([[0, 0, 0], [0, 0, 1]])],
        constants={"most": np.array([5]), "limit": f32(0.5)},
    ),
    fault(
        "Pad fills with 0 where its value is computed",
        [helper.make_node("Pad", ["x", "pads", "v"], ["y"])],
        {"x": f32(1, 2), "v": np.array(7, np.float32)},
        [f32(7, 1, 2, 7)],
        constants={"pads": np.array([1, 1])},
    ),
    forked_convolution(),
    windows_before_the_image(),
    fault(
        "Resize takes the element before the nearest where corners are aligned",
        [
            helper.make_node(
                "Resize",
                ["x", "", "", "sizes"],
                ["y"],
                mode="nearest",
                coordinate_transformation_mode="align_corners",
                nearest_mode="floor",
            )
        ],
        {"x": np.arange(14, dtype=np.float32).reshape(1, 1, 1, 14)},
        # 11 × 13 / 11 is 13.
        [f32(0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 13).reshape(1, 1, 1, 12)],
        constants={"sizes": np.array([1, 1, 1, 12])},
    ),
    fault(
        "A range of what is dequantised that leads away from its end has elements",
        [
            helper.make_node("DequantizeLinear", ["x", "scale"], ["start"]),
            helper.make_node("Range", ["start", "limit", "step"], ["y"]),
        ],
        {"x": np.array(2, np.int8), "limit": np.float32(9)},
        [np.zeros(0, np.float32)],
        constants={"scale": np.float32(1), "step": np.float32(-1)},
    ),
    fault(
        "A range from a size that leads away from its end has elements",
        [
            helper.make_node("Size", ["x"], ["start"]),
            helper.make_node("Range", ["start", "limit", "step"], ["y"]),
        ],
        {"x": np.zeros(9, np.float32), "limit": np.array(5)},
        [np.zeros(0, np.int64)],
        constants={"step": np.array(1)},
        open_sizes=True,
    ),
    fault(
        "DequantizeLinear of the zero point is not 0",
        [
            helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["h"]),
            helper.make_node("Sign", ["h"], ["y"]),
        ],
        {"x": np.array([[0, 3, 5, 7]], np.int8)},
        [f32([-1, 0, 1, 1])],
        constants={"scale": np.float32(0.1), "zero": np.int8(3)},
    ),
    fault(
        "A float beyond 2^31 becomes the least int32",
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT64)],
        {"x": f32(3e9, 2**31, -3, 2**40)},
        [np.array([3_000_000_000, 2**31, -3, 2**40])],
    ),
    constant_of_bfloat16(),
    fault(
        "AffineGrid has two places along an axis of one",
        [
            helper.make_node("AffineGrid", ["t", "size"], ["grid"], align_corners=1),
            helper.make_node("Shape", ["grid"], ["y"]),
        ],
        {"t": f32([[1, 0, 0], [0, 1, 0]]), "size": np.array([1, 2, 3, 1])},
        [np.array([1, 3, 1, 2])],
    ),
    windowed(),
    fault(
        "LSTM ignores `input_forget`",
        [
            helper.make_node(
                "LSTM",
                ["x", "w", "r", "", "", "", "c"],
                ["", "", "y"],
                hidden_size=1,
                input_forget=1,
            )
        ],
        {"x": f32(1).reshape(1, 1, 1)},
        [f32(1 - 1 / (1 + np.exp(-1))).reshape(1, 1, 1)],  # what the input gate leaves of 1
        constants={
            "w": f32(1, 0, 0, 0).reshape(1, 4, 1),
            "r": np.zeros((1, 4, 1), np.float32),
            "c": np.ones((1, 1, 1), np.float32),
        },
    ),
    fault(
        "The functions of one direction of a recurrence are those of both",
        [
            helper.make_node(
                "RNN",
                ["x", "w", "r"],
                ["", "y"],
                hidden_size=1,
                direction="bidirectional",
                activations=["Tanh", "Relu"],
            )
        ],
        {"x": f32(2).reshape(1, 1, 1)},
        [f32(np.tanh(2), 2).reshape(2, 1, 1)],
        constants={"w": np.ones((2, 1, 1), np.float32), "r": np.zeros((2, 1, 1), np.float32)},
    ),
    fault(
        "A causal Attention is shifted by how many more keys than queries there are",
        [
            helper.make_node(
                "Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "z", "w"], is_causal=1
            )
        ],
        {
            "q": f32(0, 0).reshape(1, 1, 2, 1),  # behind one that came before
            "k": f32(0).reshape(1, 1, 1, 1),
            "v": f32(3).reshape(1, 1, 1, 1),
            "pk": f32(0).reshape(1, 1, 1, 1),
            "pv": f32(1).reshape(1, 1, 1, 1),
        },
        [f32(2, 2).reshape(1, 1, 2, 1), f32(0, 0).reshape(1, 1, 2, 1)],
        opset=23,
    ),
    fault(
        "A reduction of no axes returns its operand",
        [helper.make_node("ReduceL1", ["x"], ["y"], noop_with_empty_axes=1)],
        {"x": f32(-1, 2)},
        [f32(1, 2)],
    ),
    fault(
        "A range of int16 that leads away from its end has elements",
        [helper.make_node("Range", ["from", "to", "by"], ["y"])],
        {"from": np.array(-3, np.int16), "to": np.array(0, np.int16), "by": np.array(-1, np.int16)},
        [np.zeros(0, np.int16)],
        open_sizes=True,
    ),
    fault(
        "Trilu counts diagonals in 32 bits",
        [helper.make_node("Trilu", ["x", "k"], ["y"])],
        {"x": np.ones((2, 2), np.float32), "k": np.array(2**31 - 1)},
        [np.zeros((2, 2), np.float32)],
    ),
    fault(
        "InstanceNormalization of two axes returns its operand",
        [helper.make_node("InstanceNormalization", ["x", "s", "b"], ["y"])],
        {"x": f32([3, 4])},
        [f32([5, 6])],
        constants={"s": f32(1, 2), "b": f32(5, 6)},
    ),
    fault(
        "A product of int32 is computed in float32",
        [helper.make_node("MatMul", ["a", "b"], ["y"])],
        {
            "a": np.array([[4096, 1, -4096]], np.int32),
            "b": np.array([[4096], [1], [4096]], np.int32),
        },
        [np.array([[1]], np.int32)],
    ),
    fault(
        "An Attention whose scale is 0 has another one",
        [helper.make_node("Attention", ["q", "k", "v"], ["y"], scale=0.0)],
        {
            "q": f32(1).reshape(1, 1, 1, 1),
            "k": f32(1, 9).reshape(1, 1, 2, 1),
            "v": f32(2, 4).reshape(1, 1, 2, 1),
        },
        [f32(3).reshape(1, 1, 1, 1)],
        opset=23,
    ),
    fault(
        "An Attention whose scale is negative is computed with it",
        [helper.make_node("Attention", ["q", "k", "v"], ["y"], scale=-1.0)],
        {
            "q": f32(1).reshape(1, 1, 1, 1),
            "k": f32(1, 9).reshape(1, 1, 2, 1),
            "v": f32(2, 4).reshape(1, 1, 2, 1),
        },
        [f32(np.nan).reshape(1, 1, 1, 1)],
        opset=23,
    ),
    fault(
        "What ConstantOfShape fills a result with is cut to 32 bits",
        [
            helper.make_node(
                "ConstantOfShape", ["x"], ["y"], value=from_array(np.array([2**53 + 1]))
            )
        ],
        {"x": np.array([2])},
        [np.array([2**53 + 1, 2**53 + 1])],
    ),
    fault(
        "The negative of the least int8 is the largest",
        [helper.make_node("Neg", ["x"], ["y"])],
        {"x": np.array([-128, 5], np.int8)},
        [np.array([-128, -5], np.int8)],
    ),
    fault(
        "Shrink leaves no NaN out, and nothing where lambd is NaN",
        [
            helper.make_node("Shrink", ["x"], ["y"], lambd=float("nan"), bias=0.5),
            helper.make_node("Shrink", ["x"], ["z"], lambd=1.0, bias=0.5),
        ],
        {"x": f32(-2, 3, np.nan)},
        [f32(0, 0, 0), f32(-1.5, 2.5, 0)],
    ),
    attention_as_long_as_it_has_heads(),
    attention_read_in_two_shapes(),
    attention_behind_which_a_function_stands(),
    fault(
        "The lengths of sequences are ignored where sizes are open",
        [helper.make_node("RNN", ["x", "w", "r", "", "n"], ["", "y"], hidden_size=1)],
        {"x": f32(1, 2).reshape(2, 1, 1)},
        [np.tanh(f32(1)).reshape(1, 1, 1)],
        constants={
            "w": np.ones((1, 1, 1), np.float32),
            "r": np.zeros((1, 1, 1), np.float32),
            "n": np.array([1], np.int32),
        },
        open_sizes=True,
    ),
    fault(
        "A last window of MaxPool begins behind the end",
        [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[1], strides=[2], ceil_mode=1)],
        {"x": f32(1, 2, 3, 4).reshape(1, 1, 4)},
        [f32(1, 3).reshape(1, 1, 2)],
        open_sizes=True,
    ),
    turned_twice(),
    fault(
        "LpNormalization adds to small norms",
        [helper.make_node("LpNormalization", ["x"], ["y"], axis=1, p=2)],
        {"x": f32([1e-5, 2e-5, 2e-5])},
        [f32([1 / 3, 2 / 3, 2 / 3])],
    ),
    fault(
        "Cast to bytes of four bits rounds",
        [
            helper.make_node("Cast", ["x"], ["narrow"], to=TensorProto.INT4),
            helper.make_node("Cast", ["narrow"], ["y"], to=TensorProto.INT32),
        ],
        {"x": f32(0.9, 1.9, -0.9, -1.9)},
        [np.array([0, 1, 0, -1], np.int32)],
    ),
    fault(
        "A product of integers, cast and added to, is another number in a graph that quantises",
        [
            helper.make_node("QuantizeLinear", ["x", "s", "zero"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "zero"], ["y"]),
            helper.make_node("ReduceProd", ["n"], ["all"], keepdims=0),
            helper.make_node("Cast", ["all"], ["count"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["count", "one"], ["z"]),
        ],
        {"x": f32(0.5, 1), "n": np.array([4, 9])},
        [f32(0.5, 1), np.float32(37)],
        constants={"s": np.float32(0.5), "zero": BYTE, "one": np.float32(1)},
    ),
    turned_and_viewed(),
    joined_and_quantized(),
]
