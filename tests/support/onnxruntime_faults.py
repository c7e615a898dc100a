# SPDX-License-Identifier: Apache-2.0
"""What the pinned ONNX Runtime computes otherwise than the standard."""

from __future__ import annotations

from typing import Any

import numpy as np
from fault_models import Fault, aligned_corners, f32, fault
from onnx import TensorProto, helper, numpy_helper

# A tree of two leaves, to which values up to 0 and above it lead.
TREE = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}


def tree_classes(
    title: str, weights: list[tuple[int, int, float]], expected: list[Any], **more: Any
) -> Fault:
    """The tree, with weights (leaf, class, weight), of -1 and 1; scores and numbers of classes."""
    leaves, classes, numbers = zip(*weights, strict=True)
    node = helper.make_node(
        "TreeEnsembleClassifier",
        ["x"],
        ["z", "y"],
        domain="ai.onnx.ml",
        **TREE,
        class_treeids=[0] * len(weights),
        class_nodeids=leaves,
        class_ids=classes,
        class_weights=numbers,
        classlabels_int64s=list(range(len(expected[0][0]))),
        **more,
    )
    return fault(title, [node], {"x": f32([-1], [1])}, expected, domains={"ai.onnx.ml": 3})


ONNXRUNTIME = [
    fault(
        "A transposed matrix by a vector is the matrix by the vector",
        [
            helper.make_node("Transpose", ["x"], ["turned"], perm=[1, 0]),
            helper.make_node("MatMul", ["turned", "v"], ["y"]),
        ],
        {"x": f32([1, 2], [3, 4]), "v": f32(1, 10)},
        [f32(31, 42)],
    ),
    fault(
        "A normalisation whose epsilon comes first takes another epsilon",
        [
            helper.make_node("ReduceMean", ["x", "last"], ["mean"]),
            helper.make_node("Sub", ["x", "mean"], ["d"]),
            helper.make_node("Pow", ["d", "two"], ["square"]),
            helper.make_node("ReduceMean", ["square", "last"], ["variance"]),
            helper.make_node("Add", ["epsilon", "variance"], ["sum"]),
            helper.make_node("Sqrt", ["sum"], ["deviation"]),
            helper.make_node("Div", ["d", "deviation"], ["normal"]),
            helper.make_node("Mul", ["normal", "ones"], ["scaled"]),
            helper.make_node("Add", ["scaled", "zeros"], ["y"]),
        ],
        {"x": f32([-1, 1])},
        [f32([-0.5, 0.5])],
        constants={
            "last": np.array([-1]),
            "two": np.float32(2),
            "epsilon": np.float32(3),
            "ones": f32(1, 1),
            "zeros": f32(0, 0),
        },
    ),
    fault(
        "Split of which the last part is no output gives it to the one before",
        [helper.make_node("Split", ["x"], ["y"], num_outputs=2, axis=0)],
        {"x": f32(1, 2, 3)},
        [f32(1, 2)],
    ),
    fault(
        "Softmax to steps finer than 1/256 is 0",
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("Softmax", ["d"], ["w"]),
            helper.make_node("QuantizeLinear", ["w", "fine", "z0"], ["y"]),
        ],
        {"x": np.zeros((2, 8), np.float32)},
        [np.full((2, 8), 250, np.uint8)],  # 1/8 in steps of 1/2000
        constants={
            "s": np.float32(0.02),
            "z": np.uint8(128),
            "fine": np.float32(1 / 2000),
            "z0": np.uint8(0),
        },
    ),
    fault(
        "Cast writes truth as 0 and 1",
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING)],
        {"x": np.array([True, False])},
        [np.array(["True", "False"], object)],
    ),
    aligned_corners("Resize aligns corners by the rounded size"),
    fault(
        "MaxUnpool reads indices as of `output_shape`",
        [
            helper.make_node(
                "MaxUnpool", ["x", "i", "shape"], ["y"], kernel_shape=[2, 2], strides=[2, 2]
            )
        ],
        {
            "x": f32(1, 2, 3, 4).reshape(1, 1, 2, 2),
            "i": np.array([5, 7, 13, 15]).reshape(1, 1, 2, 2),  # of 4 by 4
        },
        [
            np.pad(f32([0, 0, 0, 0], [0, 1, 0, 2], [0, 0, 0, 0], [0, 3, 0, 4]), ((0, 1), (0, 1)))[
                None, None
            ]
        ],
        constants={"shape": np.array([1, 1, 5, 5])},
    ),
    fault(
        "DFT loses digits where results are near zero",
        [helper.make_node("DFT", ["x"], ["y"])],
        {"x": np.full((1, 97, 1), 1000, np.float32)},
        [f32(*[[97000, 0] if i == 0 else [0, 0] for i in range(97)]).reshape(1, 97, 2)],
    ),
    fault(
        "ConvInteger takes one zero point for all kernels",
        [helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"])],
        {"x": np.full((1, 1, 2, 2), 3, np.uint8)},
        [np.array([8, -8], np.int32).reshape(1, 2, 1, 1)],  # four times 2 * (2 - 1), 2 * (2 - 3)
        constants={
            "w": np.full((2, 1, 2, 2), 2, np.uint8),
            "xz": np.uint8(1),
            "wz": np.array([1, 3], np.uint8),
        },
    ),
    fault(
        "Gather takes the first of each row of texts",
        [helper.make_node("Gather", ["x", "i"], ["y"])],
        {"x": np.array([["a", "b"], ["c", "d"]], object), "i": np.array([1, 0])},
        [np.array([["c", "d"], ["a", "b"]], object)],
    ),
    fault(
        "Slice backwards takes the largest integer for the first element",
        [helper.make_node("Slice", ["x", "a", "b", "axes", "steps"], ["y"])],
        {"x": f32(1, 2, 3)},
        [f32()],
        constants={
            "a": np.array([0]),
            "b": np.array([np.iinfo(np.int64).max]),
            "axes": np.array([0]),
            "steps": np.array([-1]),
        },
    ),
    fault(
        "A Pad that is larger than the kernel of the pool behind it makes no session",
        [
            helper.make_node("Pad", ["x", "p"], ["wide"]),
            helper.make_node("AveragePool", ["wide"], ["y"], kernel_shape=[2], count_include_pad=1),
        ],
        {"x": f32(4, 6).reshape(1, 1, 2)},
        [f32(0, 2, 5, 3, 0).reshape(1, 1, 5)],
        constants={"p": np.array([0, 0, 2, 0, 0, 2])},
    ),
    fault(
        "A second pair of Q/DQ is joined with the first",
        [
            helper.make_node("QuantizeLinear", ["x", "one", "n"], ["a"]),
            helper.make_node("DequantizeLinear", ["a", "one", "n"], ["b"]),
            helper.make_node("QuantizeLinear", ["b", "three", "n"], ["c"]),
            helper.make_node("DequantizeLinear", ["c", "three", "n"], ["y"]),
        ],
        {"x": f32(1, 2, 3, 4, 5, 6)},
        [f32(0, 3, 3, 3, 6, 6)],
        constants={"one": np.float32(1), "three": np.float32(3), "n": np.uint8(0)},
    ),
    fault(
        "A normalisation written out behind a Cast from float16 makes no session",
        [
            helper.make_node("Cast", ["x"], ["w"], to=TensorProto.FLOAT),
            helper.make_node("ReduceMean", ["w", "last"], ["mean"]),
            helper.make_node("Sub", ["w", "mean"], ["centred"]),
            helper.make_node("Pow", ["centred", "two"], ["square"]),
            helper.make_node("ReduceMean", ["square", "last"], ["variance"]),
            helper.make_node("Add", ["variance", "epsilon"], ["safe"]),
            helper.make_node("Sqrt", ["safe"], ["deviation"]),
            helper.make_node("Div", ["centred", "deviation"], ["normal"]),
            helper.make_node("Mul", ["normal", "factor"], ["scaled"]),
            helper.make_node("Add", ["scaled", "bias"], ["y"]),
        ],
        {"x": np.array([[-1, 1]], np.float16)},
        [f32([-0.5 + 3, 0.5 + 3])],
        constants={
            "last": np.array([-1]),
            "two": np.float32(2),
            "epsilon": np.float32(3),
            "factor": f32(1, 1),
            "bias": f32(3, 3),
        },
    ),
    fault(
        "An output is rounded where what is transposed of it is quantised",
        [
            helper.make_node("Relu", ["x"], ["y"]),
            helper.make_node("Transpose", ["y"], ["turned"], perm=[1, 0]),
            helper.make_node("QuantizeLinear", ["turned", "s", "n"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "n"], ["z"]),
        ],
        {"x": f32([0.1, 0.4], [1.1, 1.4])},
        [f32([0.1, 0.4], [1.1, 1.4]), f32([0, 1], [0.5, 1.5])],
        constants={"s": np.float32(0.5), "n": np.uint8(0)},
    ),
    fault(
        "MatMul and Add over no elements make no session",
        [
            helper.make_node("MatMul", ["x", "w"], ["m"]),
            helper.make_node("Add", ["m", "b"], ["y"]),
        ],
        {"x": np.zeros((4, 2, 0, 8), np.float32)},
        [np.zeros((4, 2, 0, 1), np.float32)],
        constants={"w": np.ones((8, 1), np.float32), "b": f32(1)},
    ),
    fault(
        "MeanVarianceNormalization of equal numbers is NaN",
        [helper.make_node("MeanVarianceNormalization", ["x"], ["y"], axes=[1])],
        {"x": f32([0.1, 0.1, 0.1], [3.3, 3.3, 3.3])},
        [f32([0, 0, 0], [0, 0, 0])],
    ),
    fault(
        "Squeeze takes an empty list of axes for all that have one element",
        [helper.make_node("Squeeze", ["x", "axes"], ["y"])],
        {"x": f32(1, 2).reshape(1, 2)},
        [f32(1, 2).reshape(1, 2)],
        constants={"axes": np.zeros(0, np.int64)},
    ),
    fault(
        "Min of int64 compares the lower 32 bits",
        [helper.make_node("Min", ["x", "z"], ["y"])],
        {"x": np.array([2, 5])},
        [np.array([2, 5])],
        constants={"z": np.array([2**31, 2**40])},
    ),
    fault(
        "Max of int64 compares the lower 32 bits",
        [helper.make_node("Max", ["x", "z"], ["y"])],
        {"x": np.array([2, -5])},
        [np.array([2**31, -5])],
        constants={"z": np.array([2**31, -(2**40)])},
    ),
    fault(
        "Clip of int64 compares the lower 32 bits",
        [helper.make_node("Clip", ["x", "z"], ["y"])],
        {"x": np.array([2**31, -(2**31) - 1])},
        [np.array([2**31, 1])],
        constants={"z": np.array(1)},
    ),
    fault(
        "Relu of int64 compares the lower 32 bits",
        [helper.make_node("Relu", ["x"], ["y"])],
        {"x": np.array([2**31, -(2**31) - 1])},
        [np.array([2**31, 0])],
    ),
    fault(
        "Sign of int64 compares the lower 32 bits",
        [helper.make_node("Sign", ["x"], ["y"])],
        {"x": np.array([2**31, -(2**31) - 1])},
        [np.array([1, -1])],
    ),
    fault(
        "Range counts int64 as float64",
        [helper.make_node("Range", ["x", "end", "step"], ["y"])],
        {"x": np.array(2**62), "end": np.array(2**62 + 1), "step": np.array(2)},
        [np.array([2**62])],
    ),
    fault(
        "A power of int64 is one of float64",
        [helper.make_node("Pow", ["x", "one"], ["y"])],
        {"x": np.array([2**53 + 1, 2])},
        [np.array([2**53 + 1, 2])],
        constants={"one": np.array(1)},
    ),
    fault(
        "The square of one element of int64 is one of float64",
        [helper.make_node("Pow", ["x", "two"], ["y"])],
        {"x": np.array([2**40 + 1])},
        [np.array([2**41 + 1])],  # without the bits beyond 64
        constants={"two": np.array(2)},
        open_sizes=True,
    ),
    *(
        fault(
            f"{op} of int64 is one of float64",
            [helper.make_node(op, ["x", "last"], ["y"])],
            {"x": np.array([[value] * count])},
            [np.array([[result]])],
            constants={"last": np.array([1])},
        )
        for op, value, count, result in (
            ("ReduceSum", 2**54 + 4, 3, 3 * (2**54 + 4)),
            ("ReduceMean", 2**53 + 1, 1, 2**53 + 1),
            ("ReduceProd", 2**53 + 1, 1, 2**53 + 1),
            ("ReduceL1", -(2**53) - 1, 1, 2**53 + 1),
            ("ReduceSumSquare", 2**30 + 1, 1, 2**60 + 2**31 + 1),
        )
    ),
    fault(
        "A remainder of int64 with fmod=1 is one of float64",
        [helper.make_node("Mod", ["x", "seven"], ["y"], fmod=1)],
        {"x": np.array([2**53 + 1])},
        [np.array([(2**53 + 1) % 7])],
        constants={"seven": np.array([7])},
    ),
    fault(
        "Shrink adds its bias to integers as float32",
        [helper.make_node("Shrink", ["x"], ["y"], lambd=0.0)],
        {"x": np.array([2**24 + 1, 0])},
        [np.array([2**24 + 1, 0])],
    ),
    fault(
        "Attention infers a width of 0 where that of the values is open",
        [
            helper.make_node("Compress", ["x", "chosen"], ["v"], axis=2),
            helper.make_node("Attention", ["x", "x", "v"], ["a"], q_num_heads=2, kv_num_heads=2),
            helper.make_node("Shape", ["a"], ["y"]),
        ],
        {"x": np.ones((1, 4, 6), np.float32), "chosen": np.arange(6) < 4},
        [np.array([1, 4, 4])],
        opset=23,
    ),
    fault(
        "A Reshape to a batch of 0 and a size that is computed fails in the run",
        [
            helper.make_node("Shape", ["x"], ["sizes"]),
            helper.make_node("Gather", ["sizes", "zero"], ["first"]),
            helper.make_node("Unsqueeze", ["first", "axis"], ["batch"]),
            helper.make_node("Shape", ["x"], ["length"], start=1, end=2),
            helper.make_node("Concat", ["batch", "length", "heads"], ["shape"], axis=0),
            helper.make_node("Reshape", ["x", "shape"], ["y"]),
        ],
        {"x": np.zeros((0, 9, 8), np.float32)},
        [np.zeros((0, 9, 2, 4), np.float32)],
        constants={"zero": np.array(0), "axis": np.array([0]), "heads": np.array([2, 4])},
        open_sizes=True,
    ),
    fault(
        "OneHot takes no position for one with a fraction",
        [helper.make_node("OneHot", ["x", "depth", "values"], ["y"])],
        {"x": f32(0.5, 1, 2.7)},
        [np.eye(3, dtype=np.float32)],
        constants={"depth": np.float32(3), "values": f32(0, 1)},
    ),
    fault(
        "SplitToSequence drops the axis of parts whose size is given",
        [
            helper.make_node("SplitToSequence", ["x", "one"], ["parts"], keepdims=0),
            helper.make_node("SequenceAt", ["parts", "first"], ["y"]),
        ],
        {"x": f32([1, 2], [3, 4])},
        [f32([1, 2])],
        constants={"one": np.array(1), "first": np.array(0)},
    ),
    fault(
        "A reduction of no elements ignores an axis counted from the end",
        [helper.make_node("ReduceSum", ["x", "axes"], ["y"])],
        {"x": np.zeros((0, 2, 3), np.float32), "axes": np.array([-2])},
        [np.zeros((0, 1, 3), np.float32)],
    ),
    fault(
        "LSTM of float64 fails in the run",
        [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=1)],
        {"x": np.ones((1, 1, 2))},
        [np.zeros((1, 1, 1, 1))],
        constants={"w": np.zeros((1, 4, 2)), "r": np.zeros((1, 4, 1))},
    ),
    fault(
        "GRU of float64 fails in the run",
        [helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=1)],
        {"x": np.ones((1, 1, 2))},
        [np.zeros((1, 1, 1, 1))],
        constants={"w": np.zeros((1, 3, 2)), "r": np.zeros((1, 3, 1))},
    ),
    fault(
        "A cubic Resize of integers fails in the run",
        [helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="cubic")],
        {"x": np.full((1, 1, 2, 2), 7, np.int32)},
        [np.full((1, 1, 4, 4), 7, np.int32)],
        constants={"sizes": np.array([1, 1, 4, 4])},
    ),
    fault(
        "Attention to old keys fails in the run where the new ones are no results",
        [helper.make_node("Attention", ["x", "x", "x", "", "old", "old"], ["y"])],
        {"x": np.zeros((1, 1, 1, 2), np.float32), "old": np.ones((1, 1, 3, 2), np.float32)},
        [np.full((1, 1, 1, 2), 0.75, np.float32)],
        opset=24,
    ),
    fault(
        "ScatterElements adds and multiplies no float16",
        [helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="mul")],
        {"x": np.array([2, 3], np.float16), "u": np.array([4], np.float16)},
        [np.array([2, 12], np.float16)],
        constants={"i": np.array([1])},
    ),
    fault(
        "ScatterND reduces no float16",
        [helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="max")],
        {"x": np.array([2, 3], np.float16), "u": np.array([4], np.float16)},
        [np.array([2, 4], np.float16)],
        constants={"i": np.array([[1]])},
    ),
    fault(
        "ScatterND finds no extreme of bool",
        [helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="max")],
        {"x": np.array([False, False]), "u": np.array([True])},
        [np.array([False, True])],
        constants={"i": np.array([[1]])},
    ),
    fault(
        "A pool with SAME_LOWER and strides beyond its window fails in the run",
        [
            helper.make_node(
                "MaxPool",
                ["x"],
                ["y"],
                auto_pad="SAME_LOWER",
                kernel_shape=[1, 2],
                strides=[1, 3],
            )
        ],
        {"x": f32(1, 3, 9, 5, 7, 9).reshape(1, 1, 1, 6)},
        [f32(3, 7).reshape(1, 1, 1, 2)],
        open_sizes=True,
    ),
    fault(
        "A dilated pool with SAME_UPPER makes another shape",
        [
            helper.make_node(
                "MaxPool",
                ["x"],
                ["y"],
                auto_pad="SAME_UPPER",
                kernel_shape=[2],
                strides=[2],
                dilations=[2],
            )
        ],
        {"x": f32(1, 2, 3, 4, 5, 6).reshape(1, 1, 6)},
        [f32(3, 5, 5).reshape(1, 1, 3)],
        open_sizes=True,
    ),
    fault(
        "A dilated convolution of bytes with SAME_UPPER fails in the run",
        [
            helper.make_node(
                "ConvInteger",
                ["x", "w"],
                ["y"],
                auto_pad="SAME_UPPER",
                strides=[2, 2],
                dilations=[2, 2],
            )
        ],
        {"x": np.array([1, 2, 3, 4, 5, 6], np.uint8).reshape(1, 1, 1, 6)},
        [np.array([4, 8, 5], np.int32).reshape(1, 1, 1, 3)],
        constants={"w": np.ones((1, 1, 1, 2), np.uint8)},
        open_sizes=True,
    ),
    fault(
        "A dilated convolution with SAME_UPPER fails in the run",
        [
            helper.make_node(
                "Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2], dilations=[2]
            )
        ],
        {"x": f32(1, 2, 3, 4, 5, 6).reshape(1, 1, 6)},
        [f32(4, 8, 5).reshape(1, 1, 3)],
        constants={"w": np.ones((1, 1, 2), np.float32)},
        open_sizes=True,
    ),
    fault(
        "Gemm over no terms forgets beta",
        [helper.make_node("Gemm", ["x", "w", "c"], ["y"], beta=0.5)],
        {"x": np.zeros((1, 0), np.float32), "w": np.zeros((0, 2), np.float32), "c": f32(2, 4)},
        [f32([1, 2])],
    ),
    fault(
        "LinearRegressor leaves out its post_transform",
        [
            helper.make_node(
                "LinearRegressor",
                ["x"],
                ["y"],
                domain="ai.onnx.ml",
                coefficients=[2.0],
                post_transform="SOFTMAX_ZERO",
            )
        ],
        {"x": f32([3], [4])},
        [f32([1], [1])],
        domains={"ai.onnx.ml": 3},
    ),
    fault(
        "LinearClassifier of one score takes 1 less this for the other class",
        [
            helper.make_node(
                "LinearClassifier",
                ["x"],
                ["z", "y"],
                domain="ai.onnx.ml",
                classlabels_ints=[5, 7],
                coefficients=[2.0],
                intercepts=[0.0],
            ),
        ],
        {"x": f32([3], [-4])},
        [f32([-6, 6], [8, -8]), np.array([7, 5])],
        domains={"ai.onnx.ml": 3},
    ),
    fault(
        "TreeEnsembleRegressor leaves out the base of a target without a weight",
        [
            helper.make_node(
                "TreeEnsembleRegressor",
                ["x"],
                ["y"],
                domain="ai.onnx.ml",
                n_targets=2,
                base_values=[10.0, 20.0],
                nodes_treeids=[0, 0, 0],
                nodes_nodeids=[0, 1, 2],
                nodes_featureids=[0, 0, 0],
                nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
                nodes_values=[0.5, 0.0, 0.0],
                nodes_truenodeids=[1, 0, 0],
                nodes_falsenodeids=[2, 0, 0],
                target_treeids=[0, 0],
                target_nodeids=[1, 2],
                target_ids=[0, 1],
                target_weights=[1.0, 2.0],
            )
        ],
        {"x": f32([0], [1])},
        [f32([11, 20], [10, 22])],
        domains={"ai.onnx.ml": 3},
    ),
    fault(
        "Resize smooths bytes as if none were negative",
        [helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear", antialias=1)],
        {"x": np.full((1, 1, 4, 4), -4, np.int8)},
        [np.full((1, 1, 2, 2), -4, np.int8)],
        constants={"sizes": np.array([1, 1, 2, 2])},
    ),
    fault(
        "Resize crops no axis whose size stays",
        [
            helper.make_node(
                "Resize",
                ["x", "region", "", "sizes"],
                ["y"],
                mode="linear",
                coordinate_transformation_mode="tf_crop_and_resize",
            )
        ],
        {"x": f32(0, 3, 6, 9).reshape(1, 1, 4)},
        [f32(0, 1, 2, 3).reshape(1, 1, 4)],  # the first third, over the same 4 elements
        constants={"region": f32(0, 0, 0, 1, 1, 1 / 3), "sizes": np.array([1, 1, 4])},
    ),
    fault(
        "Split of no elements fails in the run",
        [helper.make_node("Split", ["x"], ["y", "z"], num_outputs=2)],
        {"x": np.zeros(0, np.float32)},
        [np.zeros(0, np.float32)] * 2,
    ),
    *(
        fault(
            f"{op} of no channels fails in the run",
            [
                helper.make_node(
                    op, ["x"], ["y"], **({} if "Global" in op else {"kernel_shape": [2]})
                )
            ],
            {"x": np.zeros((1, 0, 2), np.float32)},
            [np.zeros((1, 0, 1), np.float32)],
        )
        for op in ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool", "MaxPool")
    ),
    *(
        fault(
            f"{op} over no elements fails in the run",
            [helper.make_node(op, ["x", "s"], ["y"], axis=0)],
            {"x": np.zeros((2, 0), np.float32), "s": np.zeros((2, 0), np.float32)},
            [np.zeros((2, 0), np.float32)],
            opset=23,
        )
        for op in ("LayerNormalization", "RMSNormalization")
    ),
    fault(
        "Col2Im of no channels fails in the run",
        [helper.make_node("Col2Im", ["x", "image", "block"], ["y"])],
        {"x": np.zeros((1, 0, 4), np.float32)},
        [np.zeros((1, 0, 2, 2), np.float32)],
        constants={"image": np.array([2, 2]), "block": np.array([1, 1])},
    ),
    fault(
        "Pad that wraps round no elements fails in the run",
        [helper.make_node("Pad", ["x", "pads"], ["y"], mode="wrap")],
        {"x": np.zeros((0, 2), np.float32)},
        [np.zeros((0, 3), np.float32)],
        constants={"pads": np.array([0, 0, 0, 1])},
    ),
    fault(
        "A rounding to int8 that moves to the other side of an op makes no session",
        [
            helper.make_node("QuantizeLinear", ["x", "s", "n"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "n"], ["d"]),
            helper.make_node("Transpose", ["d"], ["turned"], perm=[1, 0]),
            # Of int16, which nothing below opset 21 has.
            helper.make_node("DequantizeLinear", ["w", "s"], ["weights"]),
            helper.make_node("MatMul", ["turned", "weights"], ["y"]),
        ],
        {"x": f32([-1, 1.2, 300])},
        [f32([-1, -2], [1, 2], [63.5, 127])],
        constants={"s": np.float32(0.5), "n": np.int8(0), "w": np.array([[2, 4]], np.int16)},
    ),
    fault(
        "A QuantizeLinear to int8 with output_dtype makes no session",
        [
            helper.make_node(
                "QuantizeLinear", ["x", "s", "n"], ["q"], output_dtype=TensorProto.INT8
            ),
            helper.make_node("DequantizeLinear", ["q", "s", "n"], ["d"]),
            helper.make_node("Relu", ["d"], ["y"]),
        ],
        {"x": f32(-1, 1.2, 300)},
        [f32(0, 1, 63.5)],
        constants={"s": np.float32(0.5), "n": np.int8(0)},
    ),
    fault(
        "Binarizer of NaN fails in the run",
        [helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml")],
        {"x": f32(np.nan, -1, 2)},
        [f32(0, 0, 1)],
        domains={"ai.onnx.ml": 3},
    ),
    fault(
        "Normalizer by the maximum takes signs for magnitudes",
        [helper.make_node("Normalizer", ["x"], ["y"], domain="ai.onnx.ml", norm="MAX")],
        {"x": f32([-4, 2])},
        [f32([-1, 0.5])],
        domains={"ai.onnx.ml": 3},
    ),
    fault(
        "SVMClassifier of one score for two classes makes no SOFTMAX",
        [
            helper.make_node(
                "SVMClassifier",
                ["x"],
                ["z", "y"],
                domain="ai.onnx.ml",
                kernel_type="LINEAR",
                kernel_params=[0.0, 0.0, 0.0],
                support_vectors=[1.0, 1.0],
                vectors_per_class=[1, 1],
                coefficients=[0.75, -0.25],
                rho=[0.0],
                post_transform="SOFTMAX",
                classlabels_ints=[0, 1],
            )
        ],
        {"x": f32([2], [-2])},
        [1 / (1 + np.exp(f32([2, -2], [-2, 2]))), np.array([0, 1])],  # of -1 and 1
        domains={"ai.onnx.ml": 3},
    ),
    tree_classes(
        "TreeEnsembleClassifier takes base_values of two classes for scores",
        [(1, 0, -1.0), (1, 1, 2.0), (2, 0, 0.75), (2, 1, -0.5)],
        [f32([-1, 3], [0.75, 0.5]), np.array([1, 0])],
        base_values=[0.0, 1.0],
    ),
    tree_classes(
        "TreeEnsembleClassifier of a score for each of two classes looks at the second alone",
        [(1, 0, 0.25), (1, 1, 0.75), (2, 0, 0.75), (2, 1, 0.25)],
        [f32([0.25, 0.75], [0.75, 0.25]), np.array([1, 0])],
    ),
    tree_classes(
        "TreeEnsembleClassifier of one score compares it with 1/2 before LOGISTIC",
        [(1, 0, 0.25), (2, 0, 0.75)],
        [1 / (1 + np.exp(f32([0.25, -0.25], [0.75, -0.75]))), np.array([1, 1])],
        post_transform="LOGISTIC",
    ),
    tree_classes(
        "TreeEnsembleClassifier never names a class without a weight at the leaf",
        [(1, 0, -1.0), (2, 1, -2.0)],
        [f32([-1, 0, 0], [0, -2, 0]), np.array([1, 0])],
    ),
    tree_classes(
        "TreeEnsembleClassifier fails at a leaf without a weight",
        [(1, 2, 1.0)],
        [f32([0, 0, 1], [0, 0, 0]), np.array([2, 0])],
    ),
    *(
        fault(
            f"TreeEnsemble takes {name} for {other}",
            [
                helper.make_node(
                    "TreeEnsemble",
                    ["x"],
                    ["y"],
                    domain="ai.onnx.ml",
                    tree_roots=[0],
                    nodes_featureids=[0],
                    nodes_splits=numpy_helper.from_array(f32(0), ""),
                    nodes_modes=numpy_helper.from_array(np.uint8([0]), ""),
                    nodes_truenodeids=[0],
                    nodes_trueleafs=[1],
                    nodes_falsenodeids=[1],
                    nodes_falseleafs=[1],
                    leaf_targetids=[0, 1],
                    leaf_weights=numpy_helper.from_array(f32(1, 2), ""),
                    n_targets=2,
                    post_transform=number,
                )
            ],
            {"x": f32([-1], [1])},
            [1 / (1 + np.exp(-f32(*scores)))],
            domains={"ai.onnx.ml": 5},
        )
        for name, other, number, scores in (
            ("SOFTMAX", "LOGISTIC", 1, ([1, -1], [-2, 2])),
            ("LOGISTIC", "SOFTMAX", 2, ([1, 0], [0, 2])),
        )
    ),
    fault(
        "GridSample reads elements at positions beyond 2³¹",
        [helper.make_node("GridSample", ["x", "at"], ["y"])],
        {"x": f32(1, 2, 3, 4).reshape(1, 1, 2, 2), "at": f32(1e30, 0, 0, 0).reshape(1, 1, 2, 2)},
        [f32(0, 2.5).reshape(1, 1, 1, 2)],
        program="same",
    ),
]
