# SPDX-License-Identifier: Apache-2.0
"""Outputs of a model by ONNX's reference evaluator in double precision.

The model is brought to an opset that the evaluator knows by ONNX's own version converter, and every
float32 or float16 in it becomes a float64, so that the result is the model's own, not that of one
order of summation. Two ops of the evaluator are replaced: convolution by PyTorch's, which is faster
by two orders of magnitude, and GlobalMaxPool, which takes no one-dimensional images there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.version_converter
import torch
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

OPSET = 18
FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE}


class Conv(OpRun):
    """Convolution by PyTorch."""

    op_domain = ""

    def _run(
        self,
        x: np.ndarray,
        w: np.ndarray,
        b: np.ndarray | None = None,
        auto_pad: str | None = None,
        dilations: list[int] | None = None,
        group: int | None = None,
        kernel_shape: list[int] | None = None,
        pads: list[int] | None = None,
        strides: list[int] | None = None,
    ) -> tuple[np.ndarray]:
        rank = x.ndim - 2
        kernel = kernel_shape or list(w.shape[2:])
        strides = strides or [1] * rank
        dilations = dilations or [1] * rank
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            totals = [
                max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
                for size, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True)
            ]
            small = [t // 2 for t in totals]
            large = [t - s for t, s in zip(totals, small, strict=True)]
            pads = small + large if auto_pad == "SAME_UPPER" else large + small
        pads = pads or [0] * 2 * rank
        # PyTorch wants the last axis first, its beginning and its end
        sides = [side for axis in reversed(range(rank)) for side in (pads[axis], pads[axis + rank])]
        images = torch.nn.functional.pad(torch.from_numpy(np.array(x)), sides)
        convolve = (
            torch.nn.functional.conv1d,
            torch.nn.functional.conv2d,
            torch.nn.functional.conv3d,
        )[rank - 1]
        bias = None if b is None else torch.from_numpy(np.array(b))
        weights = torch.from_numpy(np.array(w))
        y = convolve(images, weights, bias, strides, 0, dilations, group or 1)
        return (y.numpy(),)


class GlobalMaxPool(OpRun):
    """Of images of any number of axes."""

    op_domain = ""

    def _run(self, x: np.ndarray) -> tuple[np.ndarray]:
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


def widen(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in FLOATS:
        values = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def widen_type(value: onnx.ValueInfoProto) -> None:
    if value.type.tensor_type.elem_type in FLOATS:
        value.type.tensor_type.elem_type = TensorProto.DOUBLE


def widen_graph(graph: onnx.GraphProto) -> None:
    """Every float in the graph and its sub-graphs becomes a float64."""
    for tensor in graph.initializer:
        widen(tensor)
    for value in [*graph.input, *graph.output]:
        widen_type(value)
    del graph.value_info[:]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                widen(attribute.t)
            if attribute.HasField("g"):
                widen_graph(attribute.g)
            if attribute.name in ("to", "dtype") and attribute.i in FLOATS:
                attribute.i = TensorProto.DOUBLE
        if node.op_type == "ConstantOfShape" and not node.attribute:
            node.attribute.append(
                onnx.helper.make_attribute("value", numpy_helper.from_array(np.zeros(1)))
            )


def in_double(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in float64, at an opset that the reference evaluator knows."""
    (opset,) = [o.version for o in model.opset_import if o.domain == ""]
    if opset < OPSET:
        model = onnx.version_converter.convert_version(model, OPSET)
    widen_graph(model.graph)
    return model


def evaluate(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs by name, in double precision where they are floats."""
    wide: dict[str, Any] = {
        name: value.astype(np.float64) if value.dtype.kind == "f" else value
        for name, value in feeds.items()
    }
    evaluator = ReferenceEvaluator(in_double(model), new_ops=[Conv, GlobalMaxPool])
    return dict(zip(evaluator.output_names, evaluator.run(None, wide), strict=True))
