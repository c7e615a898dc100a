# SPDX-License-Identifier: Apache-2.0
"""A text encoder like BERT, as exporters write it: batch and sequence are symbolic, and the shapes
of attention's heads are computed from those of the inputs."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor


class _Writer:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def op(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def constant(self, values: object, dtype: type = np.float32) -> str:
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def random(self, *shape: int) -> str:
        return self.constant(self.rng.standard_normal(shape) / shape[0] ** 0.5)

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        return self.op(
            "Add", self.op("MatMul", x, self.random(inputs, outputs)), self.random(outputs)
        )

    def norm(self, x: str, width: int) -> str:
        scale, bias = self.constant(np.ones(width)), self.random(width)
        return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-12)


def encoder_model(
    layers: int = 2, width: int = 128, heads: int = 4, words: int = 1000, longest: int = 512
) -> bytes:
    """Inputs ids and mask, int64 [batch, sequence]; output float32 [batch, sequence, width]."""
    w = _Writer(7)
    shape = w.op("Shape", "ids")
    zero, one = w.constant(0, np.int64), w.constant(1, np.int64)
    sizes = [w.op("Gather", shape, index) for index in (zero, one)]
    axis = w.constant([0], np.int64)
    batch, sequence = (w.op("Unsqueeze", size, axis) for size in sizes)
    places = w.op("Gather", w.random(longest, width), w.op("Range", zero, sizes[1], one))
    x = w.norm(w.op("Add", w.op("Gather", w.random(words, width), "ids"), places), width)
    counts = w.op(
        "Cast", w.op("Unsqueeze", "mask", w.constant([1, 2], np.int64)), to=TensorProto.FLOAT
    )
    bias = w.op("Mul", w.op("Sub", w.constant(1), counts), w.constant(-1e9))
    depth = width // heads
    in_heads = w.op(
        "Concat", batch, sequence, w.constant([heads], np.int64), w.constant([depth], np.int64),
        axis=0,
    )  # fmt: skip
    joined = w.op("Concat", batch, sequence, w.constant([width], np.int64), axis=0)
    for _ in range(layers):
        query, key, value = (
            w.op(
                "Transpose",
                w.op("Reshape", w.dense(x, width, width), in_heads),
                perm=[0, 2, 3, 1] if part == "key" else [0, 2, 1, 3],
            )
            for part in ("query", "key", "value")
        )
        scores = w.op("Div", w.op("MatMul", query, key), w.constant(depth**0.5))
        shares = w.op("Softmax", w.op("Add", scores, bias), axis=-1)
        mixed = w.op("Transpose", w.op("MatMul", shares, value), perm=[0, 2, 1, 3])
        mixed = w.dense(w.op("Reshape", mixed, joined), width, width)
        x = w.norm(w.op("Add", mixed, x), width)
        grown = w.dense(x, width, 4 * width)
        erf = w.op("Erf", w.op("Div", grown, w.constant(2**0.5)))
        gelu = w.op("Mul", w.op("Mul", grown, w.op("Add", erf, w.constant(1))), w.constant(0.5))
        x = w.norm(w.op("Add", w.dense(gelu, 4 * width, width), x), width)
    w.nodes.append(helper.make_node("Identity", [x], ["hidden"], name="hidden"))
    return make_model(
        w.nodes,
        [tensor(name, TensorProto.INT64, ["batch", "sequence"]) for name in ("ids", "mask")],
        [tensor("hidden", TensorProto.FLOAT, ["batch", "sequence", width])],
        w.weights,
    )


def encoder_feeds(batch: int, sequence: int, words: int = 1000) -> dict[str, np.ndarray]:
    """Inputs of these sizes; the last tokens of every text but the first do not count."""
    rng = np.random.default_rng(1000 * batch + sequence)
    mask = np.ones((batch, sequence), np.int64)
    mask[1:, sequence - sequence // 4 :] = 0
    return {"ids": rng.integers(0, words, (batch, sequence)), "mask": mask}
