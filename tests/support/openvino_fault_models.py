# SPDX-License-Identifier: Apache-2.0
"""Those faults of the pinned OpenVINO whose models take more than a few lines."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from fault_models import Fault, f32, fault
from onnx import NodeProto, TensorProto, helper
from small_models import tensor


def softmax(x: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    terms = np.exp(x - x.max(-1, keepdims=True))
    return (terms / terms.sum(-1, keepdims=True)).astype(np.float32)


def loss_of_constants() -> Fault:
    """Only the weights differ from run to run."""
    scores = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    classes = np.array([[0, 2], [1, 1]])
    weights = f32(1, 2, 4)
    picked = np.take_along_axis(scores, classes[:, None], 1)[:, 0]
    return fault(
        "A loss of constants multiplies them by the weights of every run",
        [
            helper.make_node(
                "NegativeLogLikelihoodLoss", ["scores", "classes", "w"], ["y"], reduction="none"
            )
        ],
        {"w": weights},
        [-picked * weights[classes]],
        constants={"scores": scores, "classes": classes},
        runs=3,
    )


def attention_as_long_as_it_has_heads() -> Fault:
    """The queries alone are transposed in its kernel, and have the shape of the result."""
    rng = np.random.default_rng(0)
    q = rng.standard_normal((1, 3, 3, 4)).astype(np.float32)  # [batch, places, heads, size]
    k, v = (rng.standard_normal((1, 3, 3, 4)).astype(np.float32) for _ in range(2))
    scores = q.transpose(0, 2, 1, 3) @ k.transpose(0, 1, 3, 2)
    return fault(
        "An attention as long as it has heads is written over its queries",
        [
            helper.make_node("Neg", ["q"], ["negative"]),
            helper.make_node("Transpose", ["negative"], ["heads"], perm=[0, 2, 1, 3]),
            helper.make_node("Transpose", ["k"], ["turned"], perm=[0, 1, 3, 2]),
            helper.make_node("MatMul", ["heads", "turned"], ["scores"]),
            helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
            helper.make_node("MatMul", ["weights", "v"], ["product"]),
            helper.make_node("Neg", ["product"], ["y"]),
        ],
        {"q": -q, "k": k, "v": v},
        [-softmax(scores) @ v],
    )


def attention_read_in_two_shapes() -> Fault:
    """Its kernel has no room for a transpose that two read, and has the one of the queries."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 3, 3, 4)).astype(np.float32) for _ in range(3))
    scores = q.transpose(0, 2, 1, 3) @ k.transpose(0, 1, 3, 2)
    right = (softmax(scores) @ v).transpose(0, 2, 1, 3)
    return fault(
        "An attention whose transposed result two read is written over its queries",
        [
            helper.make_node("Neg", ["q"], ["negative"]),
            helper.make_node("Transpose", ["negative"], ["heads"], perm=[0, 2, 1, 3]),
            helper.make_node("Transpose", ["k"], ["turned"], perm=[0, 1, 3, 2]),
            helper.make_node("MatMul", ["heads", "turned"], ["scores"]),
            helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
            helper.make_node("MatMul", ["weights", "v"], ["product"]),
            helper.make_node("Transpose", ["product"], ["places"], perm=[0, 2, 1, 3]),
            helper.make_node("Reshape", ["places", "row"], ["y"]),
            helper.make_node("Reshape", ["places", "rows"], ["z"]),
        ],
        {"q": -q, "k": k, "v": v},
        [right.reshape(-1), right.reshape(3, -1)],
        constants={"row": np.array([-1]), "rows": np.array([3, -1])},
    )


def attention_behind_which_a_function_stands() -> Fault:
    """It stands before the transpose of the result, in no kernel with it."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 3, 12)).astype(np.float32) for _ in range(3))
    heads = [x.reshape(1, 3, 3, 4).transpose(0, 2, 1, 3) for x in (q, k, v)]
    scores = heads[0] @ heads[1].transpose(0, 1, 3, 2) / np.float32(2)
    return fault(
        "An Attention of three axes is written over its queries where a function follows",
        [
            helper.make_node("Attention", ["q", "k", "v"], ["o"], q_num_heads=3, kv_num_heads=3),
            helper.make_node("Neg", ["o"], ["y"]),
        ],
        {"q": q, "k": k, "v": v},
        [-(softmax(scores) @ heads[2]).transpose(0, 2, 1, 3).reshape(1, 3, 12)],
        opset=23,
    )


def turned_twice() -> Fault:
    """What stands between the two transposes is read elsewhere."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 5, 2)).astype(np.float32)  # [steps, batch, size]
    w = np.full((1, 2, 2), 0.5, np.float32)
    return fault(
        "A recurrence of what is transposed twice takes another order",
        [
            helper.make_node("Transpose", ["x"], ["turned"], perm=[1, 0, 2]),
            helper.make_node("Transpose", ["turned"], ["back"], perm=[1, 0, 2]),
            helper.make_node("RNN", ["back", "w", "r"], ["hidden"], hidden_size=2),
            helper.make_node("Squeeze", ["hidden", "one"], ["flat"]),
            helper.make_node("Transpose", ["flat"], ["again"], perm=[1, 0, 2]),
            helper.make_node("MatMul", ["again", "m"], ["product"]),
            helper.make_node("Add", ["product", "turned"], ["y"]),
        ],
        {"x": x},
        [(np.tanh(x @ w[0].T) + x).transpose(1, 0, 2)],
        constants={
            "w": w,
            "r": np.zeros((1, 2, 2), np.float32),
            "one": np.array([1]),
            "m": np.eye(2, dtype=np.float32),
        },
    )


def joined_and_quantized() -> Fault:
    """A convolution of single elements is a product by its weights."""
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((1, 4, 5, 5)).astype(np.float32) for _ in range(2)]
    weights = rng.integers(-99, 99, (8, 8, 1, 1)).astype(np.int8)
    steps = np.clip(np.round(np.concatenate(parts, 1) / np.float32(0.03)), -128, 127)
    sums = np.einsum("oi,bihw->bohw", weights[:, :, 0, 0].astype(np.float64), steps)
    return fault(
        "A Concat that is quantised to int8 is taken for uint8 by a convolution",
        [
            helper.make_node("Concat", ["a", "b"], ["joined"], axis=1),
            helper.make_node("QuantizeLinear", ["joined", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("DequantizeLinear", ["w", "t", "z"], ["kernel"]),
            helper.make_node("Conv", ["d", "kernel"], ["y"]),
        ],
        dict(zip("ab", parts, strict=True)),
        [(sums * 0.03 * 0.02).astype(np.float32)],
        constants={"s": np.float32(0.03), "z": np.int8(0), "t": np.float32(0.02), "w": weights},
    )


def max_pool_of_sizes_in_turn() -> Fault:
    """A padded window of 3 in steps of 2 over five rows and columns, behind a run of nine."""
    x = np.random.default_rng(0).standard_normal((1, 1, 5, 5)).astype(np.float32)
    places = [slice(0, 2), slice(1, 4), slice(3, 5)]
    largest = np.array([[x[0, 0, r, c].max() for c in places] for r in places], np.float32)
    indices = np.array([[np.flatnonzero(x == m)[0] for m in row] for row in largest])
    return fault(
        "MaxPool with indices keeps the padding of an earlier run's sizes",
        [
            helper.make_node(
                "MaxPool",
                ["x"],
                ["y", "z"],
                kernel_shape=[3, 3],
                strides=[2, 2],
                auto_pad="SAME_UPPER",
            )
        ],
        {"x": x},
        [largest[None, None], indices[None, None]],
        open_sizes=True,
        runs=2,
        before={"x": np.ones((1, 1, 9, 9), np.float32)},
    )


def turned_and_viewed() -> Fault:
    """A convolution of single elements over what is turned, beside the same in another shape."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 5, 8)).astype(np.float32)  # [batch, length, channels]
    w = rng.standard_normal((3, 8, 1)).astype(np.float32)
    return fault(
        "A transpose before Conv reads elsewhere what is also given in another shape",
        [
            helper.make_node("Relu", ["x"], ["r"]),
            helper.make_node("Transpose", ["r"], ["turned"], perm=[0, 2, 1]),
            helper.make_node("Conv", ["turned", "w"], ["y"]),
            helper.make_node("Reshape", ["r", "shape"], ["z"]),
        ],
        {"x": x},
        [
            np.einsum("oc,blc->bol", w[:, :, 0], np.maximum(x, 0)),
            np.maximum(x, 0).reshape(2, 5, 2, 4),
        ],
        constants={"w": w, "shape": np.array([2, 5, 2, 4])},
    )


def branch_of_bytes() -> Fault:
    """Three rows behind a run of one."""
    branches = {
        name: helper.make_graph(
            [helper.make_node("Identity", ["x"], [name])],
            name,
            [],
            [tensor(name, TensorProto.UINT8, None)],
        )
        for name in ("then_branch", "else_branch")
    }
    x = np.arange(12, dtype=np.uint8).reshape(3, 4)
    given = {"c": np.array(True), "s": np.float32(0.5)}
    return fault(
        "What a branch gives is read by the sizes of another run",
        [
            helper.make_node("If", ["c"], ["bytes"], **branches),
            helper.make_node("Cast", ["bytes"], ["wide"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["wide", "s"], ["scaled"]),
            helper.make_node("Transpose", ["scaled"], ["y"], perm=[1, 0]),
        ],
        {"x": x, **given},
        [x.T.astype(np.float32) / 2],
        open_sizes=True,
        before={"x": x[:1, :2], **given},
    )


def masked_bytes() -> Fault:
    """A mask of the lowest number behind Q/DQ."""
    mask = np.array([[0, 0, -3.4e38, 0]], np.float32)
    quantised = f32([1, 2, 3, 4], [1, 1, 1, 1])
    return fault(
        "A constant near the lowest float32, added behind DequantizeLinear, gives NaN",
        [
            helper.make_node("QuantizeLinear", ["x", "s", "n"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "n"], ["d"]),
            helper.make_node("Add", ["d", "mask"], ["a"]),
            helper.make_node("Softmax", ["a"], ["y"]),
        ],
        {"x": quantised},
        [softmax(quantised + mask)],
        constants={"s": np.float32(0.1), "n": np.int8(0), "mask": mask},
    )


def masked_products() -> Fault:
    """A mask of ones and zeros times the lowest number, in a graph that dequantises."""
    rows = np.array([[0, 1, 2, 3]], np.uint8)
    offset = f32([5, 4, 3, 2])
    mask = f32([1, 1, 0, 1])
    return fault(
        "A constant added to a product by nearly the lowest float32 is lost in a graph of Q/DQ",
        [
            helper.make_node("Gather", ["table", "i"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s"], ["z"]),
            helper.make_node("Sub", ["one", "m"], ["gone"]),
            helper.make_node("Mul", ["gone", "low"], ["far"]),
            helper.make_node("Add", ["offset", "far"], ["y"]),
        ],
        {"m": mask, "i": np.array([0], np.int64)},
        [offset + (1 - mask) * np.float32(-3.4e38), rows * np.float32(0.1)],
        constants={
            "table": rows,
            "s": np.float32(0.1),
            "one": np.float32(1),
            "low": np.float32(-3.4e38),
            "offset": offset,
        },
    )


BYTE = np.uint8(0)


def behind_bytes(
    title: str,
    nodes: list[NodeProto],
    x: np.ndarray,
    expected: np.ndarray,
    *,
    zero: np.integer = BYTE,
    constants: dict[str, Any] | None = None,
) -> Fault:
    """Nodes that read d, which is x through bytes of the scale 0.5."""
    return fault(
        title,
        [
            helper.make_node("QuantizeLinear", ["x", "s", "n"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "n"], ["d"]),
            *nodes,
        ],
        {"x": x},
        [expected],
        constants={"s": np.float32(0.5), "n": zero, **(constants or {})},
    )


def repeated(title: str, node: NodeProto, **constants: Any) -> Fault:
    """A picture of one channel, three times, beside another reader of what pools it."""
    picture = f32([1, 2], [3, 4]).reshape(1, 1, 2, 2)
    return fault(
        title,
        [
            helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[1, 1]),
            node,
            helper.make_node("MaxPool", ["p"], ["z"], kernel_shape=[1, 1]),
        ],
        {"x": picture},
        [np.repeat(picture, 3, axis=1), picture],
        constants=constants,
    )


def peepholes() -> Fault:
    """One step of one unit; the output gate sees the new cell."""
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    cell = sigmoid(0) * np.tanh(1)
    return fault(
        "LSTM leaves out the peepholes",
        [helper.make_node("LSTM", ["x", "w", "r", "", "", "", "", "p"], ["", "y"], hidden_size=1)],
        {"x": f32([[1]])},
        [f32([[sigmoid(2 * cell) * np.tanh(cell)]])],
        constants={  # gates in the order i, o, f, c; peepholes in the order i, o, f
            "w": f32([[0], [0], [0], [1]]),
            "r": np.zeros((1, 4, 1), np.float32),
            "p": f32([0, 2, 0]),
        },
    )


def even_channels() -> Fault:
    """One more lies after the channel than before it: here the channel itself and the next one."""
    x = f32(1, 2, 3)
    sums = f32(1 + 4, 4 + 9, 9)
    return fault(
        "LRN places a window of an even number of channels otherwise",
        [helper.make_node("LRN", ["x"], ["y"], size=2, alpha=2.0, beta=1.0)],
        {"x": x.reshape(1, 3, 1, 1)},
        [(x / (1 + sums)).reshape(1, 3, 1, 1)],
    )


def broken_bias() -> Fault:
    """A sum of squares of 0: the whole result is that of the bias."""
    return fault(
        "LRN takes the whole part of its bias",
        [helper.make_node("LRN", ["x"], ["y"], size=1, alpha=0.0, beta=1.0, bias=1.5)],
        {"x": f32(3, 6).reshape(1, 2, 1, 1)},
        [f32(2, 4).reshape(1, 2, 1, 1)],
    )


def kept_convolution() -> Fault:
    """Of constants, with a bias of each run."""
    return fault(
        "Conv of constants keeps the result of the first run's bias",
        [helper.make_node("Conv", ["x", "w", "b"], ["y"])],
        {"b": f32(5)},
        [f32(6).reshape(1, 1, 1, 1)],
        constants={"x": f32(1).reshape(1, 1, 1, 1), "w": f32(1).reshape(1, 1, 1, 1)},
        before={"b": f32(100)},
    )


def windowed() -> Fault:
    """Each query sees its own key alone."""
    values = np.arange(8, dtype=np.float32).reshape(1, 1, 4, 2)
    return fault(
        "Attention ignores its window",
        [
            helper.make_node(
                "Attention", ["q", "k", "v"], ["y"], left_window_size=0, right_window_size=0
            )
        ],
        {"q": values, "k": values, "v": values},
        [values],
        opset=25,
    )


def many_keys_after_one() -> Fault:
    """Equal keys: each query gets the mean of the values."""
    title = "Attention over many keys is wrong where the first run had one"
    values = np.arange(20 * 8, dtype=np.float32).reshape(1, 1, 20, 8)
    keys = np.ones((1, 1, 20, 8), np.float32)
    return fault(
        title,
        [
            helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
            helper.make_node("MatMul", ["q", "kt"], ["products"]),
            helper.make_node("Mul", ["products", "factor"], ["scores"]),
            helper.make_node("Softmax", ["scores"], ["weights"]),
            helper.make_node("MatMul", ["weights", "v"], ["y"]),
        ],
        {"q": keys, "k": keys, "v": values},
        [np.repeat(values.mean(2, keepdims=True), 20, 2)],
        constants={"factor": np.float32(0.5)},
        open_sizes=True,
        before={"q": keys[:, :, :1], "k": keys[:, :, :1], "v": values[:, :, :1]},
    )


def batch_first() -> Fault:
    """Sequences of one step, of which each begins anew."""
    return fault(
        "The layout of LSTM, GRU and RNN is ignored",
        [helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=1, layout=1)],
        {"x": f32(1, 2, 0.5).reshape(3, 1, 1)},
        [np.tanh(f32(1, 2, 0.5)).reshape(3, 1, 1, 1)],
        constants={"w": f32([[1]]), "r": f32([[1]])},
    )


def scales_by_channel() -> Fault:
    """A picture of one element; each channel of the result is made of one of the picture."""
    return fault(
        "QLinearConv takes scales of output channels for those of input channels",
        [helper.make_node("QLinearConv", ["x", "one", "n", "w", "sw", "nw", "one", "n"], ["y"])],
        {"x": np.array([3, 5], np.uint8).reshape(1, 2, 1, 1)},
        [np.array([5, 6], np.uint8).reshape(1, 2, 1, 1)],
        constants={
            "w": np.array([[0, 1], [1, 0]], np.int8).reshape(2, 2, 1, 1),
            "sw": f32(1, 2),
            "nw": np.zeros(2, np.int8),
            "one": np.float32(1),
            "n": np.uint8(0),
        },
    )


def filters_of_a_channel() -> Fault:
    """Two for each of two channels: once and twice its first column."""
    x = np.arange(32, dtype=np.float32).reshape(1, 2, 8, 2) % 7
    w = np.zeros((4, 1, 3, 3), np.int8)
    w[:, 0, 1, 1] = 1, 2, 1, 2
    return fault(
        "Conv of bytes by filters of one channel, in steps, to one column is in another order",
        [
            helper.make_node("QuantizeLinear", ["x", "one", "zero"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "one", "zero"], ["d"]),
            helper.make_node("DequantizeLinear", ["w", "one"], ["dw"]),
            helper.make_node("Conv", ["d", "dw"], ["c"], group=2, strides=[1, 2], pads=[1] * 4),
            helper.make_node("QuantizeLinear", ["c", "one", "zero"], ["qy"]),
            helper.make_node("DequantizeLinear", ["qy", "one", "zero"], ["y"]),
        ],
        {"x": x},
        [np.repeat(x[..., :1], 2, axis=1) * f32(1, 2, 1, 2).reshape(4, 1, 1)],
        constants={
            "w": w,
            "one": np.float32(1),
            "zero": np.int8(0),
        },
        processor="avx512f",
    )


def rounded_to_16_bits() -> Fault:
    return fault(
        "Roundings to 16 bits are left out",
        [
            helper.make_node("QuantizeLinear", ["x", "sx", "zero"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "sx", "zero"], ["d"]),
            helper.make_node("MatMul", ["d", "one"], ["y"]),
        ],
        {"x": f32([-2.5, 0.3])},
        [f32([-2.5, 0.5])],
        constants={
            "sx": np.float32(0.5),
            "zero": np.int16(0),
            "one": np.eye(2, dtype=np.float32),
        },
    )


def states_of_bytes() -> Fault:
    """One step of a state that begins at 0: the tangent of an input of 1, of two of its steps."""
    return fault(
        "A recurrence of bytes rounds its states to the scale of its input",
        [
            helper.make_node("QuantizeLinear", ["x", "half", "zero"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "half", "zero"], ["d"]),
            helper.make_node("DequantizeLinear", ["w", "one"], ["dw"]),
            helper.make_node("DequantizeLinear", ["r", "one"], ["dr"]),
            helper.make_node("LSTM", ["d", "dw", "dr"], ["y"], hidden_size=1),
        ],
        {"x": f32(1).reshape(1, 1, 1)},
        [f32(np.tanh(np.tanh(1) / (1 + np.exp(-1))) / (1 + np.exp(-1))).reshape(1, 1, 1, 1)],
        constants={
            "half": np.float32(0.5),
            "one": np.float32(1),
            "zero": np.int8(0),
            "w": np.ones((1, 4, 1), np.int8),
            "r": np.zeros((1, 4, 1), np.int8),
        },
    )


def weights_less_their_zero() -> Fault:
    """-128 less 19 is no number of eight bits."""
    return fault(
        "ConvTranspose takes weights of bytes less their zero point for bytes",
        [
            helper.make_node("QuantizeLinear", ["x", "one", "zero"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "one", "zero"], ["d"]),
            helper.make_node("DequantizeLinear", ["w", "one", "nineteen"], ["dw"]),
            helper.make_node("ConvTranspose", ["d", "dw"], ["y"]),
        ],
        {"x": f32(1, 2).reshape(1, 1, 1, 2)},
        [f32(-147, -294).reshape(1, 1, 1, 2)],
        constants={
            "one": np.float32(1),
            "zero": np.int8(0),
            "nineteen": np.int8(19),
            "w": np.int8(-128).reshape(1, 1, 1, 1),
        },
    )


STEPS = np.arange(48, dtype=np.float32).reshape(2, 1, 8, 3)


PADDED = {"kernel_shape": [1, 3], "pads": [0, 1, 0, 1], "count_include_pad": 1}


def forked_convolution() -> Fault:
    """Each channel is one of the image's by 8, and Relu is written over what Concat reads."""
    x = f32(*range(-8, 8)).reshape(1, 4, 2, 2) / 2
    return fault(
        "A convolution of bytes that several read is overwritten where sizes are open",
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("DequantizeLinear", ["bytes", "scale", "none"], ["w"]),
            helper.make_node("Conv", ["d", "w"], ["c"]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("Concat", ["c", "r"], ["y"], axis=1),
        ],
        {"x": x},
        [np.concatenate([8 * x, np.maximum(8 * x, 0)], axis=1)],
        constants={
            "s": np.float32(0.5),
            "z": np.uint8(128),
            "bytes": 32 * np.eye(4, dtype=np.int8).reshape(4, 4, 1, 1),
            "scale": np.float32(0.25),
            "none": np.int8(0),
        },
        open_sizes=True,
    )


def windows_before_the_image() -> Fault:
    """The first row of the result is padding alone; the others are the rows that a window holds."""
    rows = [sum(0 <= first + i < 19 for i in range(5)) for first in range(-5, 16, 2)]
    return fault(
        "A convolution of bytes reads before the image where a window is all padding",
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("DequantizeLinear", ["bytes", "s"], ["w"]),
            helper.make_node("Conv", ["d", "w"], ["y"], pads=[5, 0, 1, 0], strides=[2, 1]),
        ],
        {"x": np.ones((1, 1, 19, 11), np.float32)},
        [np.broadcast_to(f32(*rows).reshape(1, 1, -1, 1), (1, 16, len(rows), 11)).copy()],
        constants={
            "s": np.float32(1),
            "z": np.uint8(100),
            "bytes": np.ones((16, 1, 5, 1), np.int8),
        },
        open_sizes=True,
        by_chance=True,
    )


def constant_of_bfloat16() -> Fault:
    """What is fed is the scale."""
    half = ml_dtypes.bfloat16
    return fault(
        "InstanceNormalization writes over a constant of bfloat16",
        [helper.make_node("InstanceNormalization", ["x", "s", "b"], ["y"], epsilon=0.0)],
        {"s": np.array([2, 4], half)},
        [np.array([[[-2, 2, -2, 2], [4, -4, 4, -4]]], half)],
        constants={
            "x": np.array([[[1, 3, 1, 3], [9, 1, 9, 1]]], half),
            "b": np.array([0, 0], half),
        },
        opset=22,
        runs=3,
    )
