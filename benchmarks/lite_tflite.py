# SPDX-License-Identifier: Apache-2.0
"""Writes convolutional networks in ONNX as .tflite files, in float32 and int8, for LiteRT.

Takes the ops of the image networks that `./dev bench lite` measures: Conv, Relu, Clip to [0, 6],
Add, Concat, MaxPool, GlobalAveragePool, Flatten, Gemm. Images become N, H, W, C; activations go
into the op before them; paddings that TFLite's SAME does not mean become PAD, as converters write
them.

int8 is TFLite's scheme for whole networks: activations asymmetric per tensor, factors symmetric per
channel, biases int32; ranges are those of the values that ONNX Runtime computes on samples.

The schema is the one in PyPI's ai-edge-litert (tools/requirements-litert.txt).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

Ranges = dict[str, tuple[float, float]]


@dataclass
class Step:
    """A node, with what follows it and only it."""

    node: onnx.NodeProto
    output: str
    activation: str = ""  # "", "Relu" or "Relu6"
    attributes: dict[str, Any] = field(default_factory=dict)


def read_graph(model: onnx.ModelProto) -> tuple[list[Step], dict[str, np.ndarray], dict[str, str]]:
    """Nodes in order, constants by name, and what names stand for others."""
    graph = model.graph
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    same: dict[str, str] = {}
    uses: dict[str, int] = {}
    for node in graph.node:
        for name in node.input:
            uses[name] = uses.get(name, 0) + 1
    steps: dict[str, Step] = {}
    for node in graph.node:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Constant":
            constants[node.output[0]] = numpy_helper.to_array(attributes["value"])
        elif node.op_type == "Identity":
            source = same.get(node.input[0], node.input[0])
            if source in constants:
                constants[node.output[0]] = constants[source]
            same[node.output[0]] = source
        elif node.op_type in ("Relu", "Clip"):
            before = steps.pop(node.input[0], None)
            if before is None or before.activation or uses[node.input[0]] != 1:
                raise ValueError(f"{node.name}: no op before it takes {node.op_type}")
            if node.op_type == "Clip":
                bounds = [float(constants[same.get(n, n)]) for n in node.input[1:]]
                if bounds != [0.0, 6.0]:
                    raise ValueError(f"{node.name}: Clip to {bounds}, not [0, 6]")
            before.activation = "Relu" if node.op_type == "Relu" else "Relu6"
            before.output = node.output[0]
            steps[before.output] = before
        else:
            steps[node.output[0]] = Step(node, node.output[0], attributes=attributes)
    return list(steps.values()), constants, same


def calibrate(model: onnx.ModelProto, samples: list[dict[str, np.ndarray]]) -> Ranges:
    """Least and largest element of each value, zero included."""
    import onnxruntime

    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    names = [n.output[0] for n in model.graph.node if n.op_type not in ("Constant", "Identity")]
    outputs = {o.name for o in model.graph.output}
    watched.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in outputs)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        watched.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    kept = [o.name for o in session.get_outputs()]
    ranges: Ranges = {}
    for sample in samples:
        values = dict(zip(kept, session.run(None, sample), strict=True)) | sample
        for name, value in values.items():
            low, high = ranges.get(name, (0.0, 0.0))
            ranges[name] = (min(low, float(value.min())), max(high, float(value.max())))
    return ranges


class Writer:
    """Collects tensors and operators of one subgraph."""

    def __init__(self, ranges: Ranges | None) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self.schema = schema
        self.ranges = ranges
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.buffers = [schema.BufferT()]
        self.model.operatorCodes = []
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.model.subgraphs = [self.graph]
        self.codes: dict[int, int] = {}

    def tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        data: np.ndarray | None = None,
        scale: np.ndarray | None = None,
        zero: int = 0,
        axis: int = 0,
    ) -> int:
        """A tensor; its number."""
        t = self.schema.TensorT()
        t.name, t.shape = name, list(shape)
        t.type = getattr(self.schema.TensorType, dtype)
        t.buffer = 0
        if data is not None:
            buffer = self.schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            t.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        if scale is not None:
            t.quantization = self.schema.QuantizationParametersT()
            t.quantization.scale = np.asarray(scale, np.float32)
            t.quantization.zeroPoint = np.full(len(t.quantization.scale), zero, np.int64)
            t.quantization.quantizedDimension = axis
        self.graph.tensors.append(t)
        return len(self.graph.tensors) - 1

    def operator(
        self,
        code: str,
        inputs: list[int],
        output: int,
        options: str = "",
        version: int = 1,
        **values: Any,
    ) -> int:
        """An operator with one output; the output."""
        number = getattr(self.schema.BuiltinOperator, code)
        if number not in self.codes:
            self.codes[number] = len(self.model.operatorCodes)
            entry = self.schema.OperatorCodeT()
            entry.builtinCode = number
            entry.deprecatedBuiltinCode = min(number, 127)
            entry.version = version
            self.model.operatorCodes.append(entry)
        op = self.schema.OperatorT()
        op.opcodeIndex, op.inputs, op.outputs = self.codes[number], inputs, [output]
        if options:
            op.builtinOptionsType = getattr(self.schema.BuiltinOptions, options)
            op.builtinOptions = getattr(self.schema, options + "T")()
            for key, value in values.items():
                setattr(op.builtinOptions, key, value)
        self.graph.operators.append(op)
        return output

    def activations(self, name: str, shape: tuple[int, ...]) -> int:
        """A value between operators."""
        if self.ranges is None:
            return self.tensor(name, shape, "FLOAT32")
        low, high = self.ranges[name]
        scale = max(high - low, 1e-8) / 255
        zero = int(np.clip(round(-128 - low / scale), -128, 127))
        return self.tensor(name, shape, "INT8", scale=np.array([scale]), zero=zero)

    def scale_of(self, tensor: int) -> float:
        return float(self.graph.tensors[tensor].quantization.scale[0])

    def factors(self, name: str, w: np.ndarray, axis: int) -> tuple[int, np.ndarray]:
        """Constant factors, and their scales by channel (ones in float32)."""
        channels = w.shape[axis]
        if self.ranges is None:
            return self.tensor(name, w.shape, "FLOAT32", w), np.ones(channels)
        largest = np.abs(np.moveaxis(w, axis, 0).reshape(channels, -1)).max(axis=1)
        scale = np.maximum(largest, 1e-8) / 127
        shape = [1] * w.ndim
        shape[axis] = channels
        rounded = np.clip(np.rint(w / scale.reshape(shape)), -127, 127).astype(np.int8)
        return self.tensor(name, w.shape, "INT8", rounded, scale, axis=axis), scale

    def bias(self, name: str, b: np.ndarray, x: int, scales: np.ndarray) -> int:
        if self.ranges is None:
            return self.tensor(name, b.shape, "FLOAT32", b)
        scale = scales * self.scale_of(x)
        return self.tensor(name, b.shape, "INT32", np.rint(b / scale).astype(np.int32), scale)

    def pad(self, x: int, pads: list[int]) -> int:
        """`pads`: top, left, bottom, right."""
        t = self.graph.tensors[x]
        top, left, bottom, right = pads
        n, h, w, c = t.shape
        sizes = np.array([[0, 0], [top, bottom], [left, right], [0, 0]], np.int32)
        amounts = self.tensor(f"{t.name}/pads", (4, 2), "INT32", sizes)
        shape = (n, h + top + bottom, w + left + right, c)
        name = f"{t.name}/padded"
        if self.ranges is not None:
            self.ranges[name] = self.ranges[t.name]
        return self.operator("PAD", [x, amounts], self.activations(name, shape), "PadOptions")

    def bytes(self) -> bytes:
        import flatbuffers

        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


class Converter:
    """One model."""

    def __init__(self, model: onnx.ModelProto, ranges: Ranges | None) -> None:
        self.steps, self.constants, self.same = read_graph(model)
        self.writer = Writer(dict(ranges) if ranges is not None else None)
        self.values: dict[str, int] = {}
        self.schema = self.writer.schema
        if self.writer.ranges is not None:
            self.share_ranges(self.writer.ranges)
        (port,) = model.graph.input
        n, c, h, w = (d.dim_value or 1 for d in port.type.tensor_type.shape.dim)
        x = self.writer.tensor("input", (n, h, w, c), "FLOAT32")
        self.writer.graph.inputs = [x]
        if ranges is not None:
            inner = self.writer.activations(port.name, (n, h, w, c))
            x = self.writer.operator("QUANTIZE", [x], inner, "QuantizeOptions")
        self.values[port.name] = x
        for step in self.steps:
            take = getattr(self, f"on_{step.node.op_type.lower()}", None)
            if take is None:
                raise ValueError(f"{step.node.name}: no {step.node.op_type} here")
            take(step)
        (port,) = model.graph.output
        y = self.values[port.name]
        if ranges is not None:
            shape = tuple(self.writer.graph.tensors[y].shape)
            inner = self.writer.tensor("output", shape, "FLOAT32")
            y = self.writer.operator("DEQUANTIZE", [y], inner, "DequantizeOptions")
        self.writer.graph.outputs = [y]

    def share_ranges(self, ranges: Ranges) -> None:
        """int8 Concat and MaxPool want one scale on all sides."""
        for step in reversed(self.steps):
            if step.node.op_type in ("Concat", "MaxPool", "Flatten"):
                names = [self.same.get(n, n) for n in (*step.node.input, step.output)]
                low = min(ranges[n][0] for n in names)
                high = max(ranges[n][1] for n in names)
                for n in names:
                    ranges[n] = (low, high)

    def value(self, step: Step, index: int) -> int:
        name = step.node.input[index]
        return self.values[self.same.get(name, name)]

    def constant(self, step: Step, index: int) -> np.ndarray:
        name = step.node.input[index]
        return self.constants[self.same.get(name, name)]

    def shape(self, tensor: int) -> list[int]:
        return self.writer.graph.tensors[tensor].shape

    def activation(self, step: Step) -> int:
        kinds = self.schema.ActivationFunctionType
        return {"": kinds.NONE, "Relu": kinds.RELU, "Relu6": kinds.RELU6}[step.activation]

    def window(self, step: Step, x: int, kernel: list[int]) -> tuple[int, int, tuple[int, int]]:
        """x, padded where TFLite has no name for it, the padding's number, the output's size."""
        strides, pads = step.attributes["strides"], step.attributes.get("pads", [0, 0, 0, 0])
        _, h, w, _ = self.shape(x)
        size = tuple(
            (extent + pads[i] + pads[i + 2] - kernel[i]) // strides[i] + 1
            for i, extent in enumerate((h, w))
        )
        same = []
        for i, extent in enumerate((h, w)):
            total = max((-(-extent // strides[i]) - 1) * strides[i] + kernel[i] - extent, 0)
            same.append((total // 2, total - total // 2))
        if any(pads) and same == [(pads[0], pads[2]), (pads[1], pads[3])]:
            return x, self.schema.Padding.SAME, size
        if any(pads):
            x = self.writer.pad(x, list(pads))
        return x, self.schema.Padding.VALID, size

    def emit(
        self, step: Step, code: str, inputs: list[int], shape: tuple[int, ...], **rest: Any
    ) -> None:
        y = self.writer.activations(step.output, shape)
        self.values[step.output] = self.writer.operator(code, inputs, y, **rest)

    # --- ops, by their names in ONNX -----------------------------------------------------------

    def on_conv(self, step: Step) -> None:
        w, group = self.constant(step, 1), step.attributes.get("group", 1)
        x, padding, (h, wd) = self.window(step, self.value(step, 0), list(w.shape[2:]))
        depthwise = group > 1
        if depthwise and (w.shape[1] != 1 or group != w.shape[0]):
            raise ValueError(f"{step.node.name}: {group} groups")
        w = w.transpose(1, 2, 3, 0) if depthwise else w.transpose(0, 2, 3, 1)
        axis = 3 if depthwise else 0
        factors, scales = self.writer.factors(step.node.input[1], w, axis)
        channels = w.shape[axis]
        b = self.constant(step, 2) if len(step.node.input) > 2 else np.zeros(channels, np.float32)
        bias = self.writer.bias(step.output + "/bias", b, x, scales)
        strides = step.attributes["strides"]
        common = {
            "padding": padding,
            "strideH": strides[0],
            "strideW": strides[1],
            "dilationHFactor": 1,
            "dilationWFactor": 1,
            "fusedActivationFunction": self.activation(step),
        }
        shape = (self.shape(x)[0], h, wd, channels)
        if depthwise:
            self.emit(
                step,
                "DEPTHWISE_CONV_2D",
                [x, factors, bias],
                shape,
                options="DepthwiseConv2DOptions",
                version=3,
                depthMultiplier=1,
                **common,
            )
        else:
            inputs = [x, factors, bias]
            self.emit(step, "CONV_2D", inputs, shape, options="Conv2DOptions", version=3, **common)

    def on_add(self, step: Step) -> None:
        a, b = self.value(step, 0), self.value(step, 1)
        shape = tuple(self.shape(a))
        kind = self.activation(step)
        self.emit(
            step,
            "ADD",
            [a, b],
            shape,
            options="AddOptions",
            version=2,
            fusedActivationFunction=kind,
            potScaleInt16=False,
        )

    def on_concat(self, step: Step) -> None:
        inputs = [self.value(step, i) for i in range(len(step.node.input))]
        shape = list(self.shape(inputs[0]))
        shape[3] = sum(self.shape(i)[3] for i in inputs)
        self.emit(
            step,
            "CONCATENATION",
            inputs,
            tuple(shape),
            options="ConcatenationOptions",
            version=2,
            axis=3,
        )

    def on_maxpool(self, step: Step) -> None:
        kernel, strides = step.attributes["kernel_shape"], step.attributes["strides"]
        name = self.same.get(step.node.input[0], step.node.input[0])
        before = next((s for s in self.steps if s.output == name), None)
        if any(step.attributes.get("pads", [])) and (before is None or not before.activation):
            raise ValueError(f"{step.node.name}: zeros of a PAD may exceed what is negative")
        x, padding, (h, w) = self.window(step, self.value(step, 0), list(kernel))
        n, _, _, c = self.shape(x)
        self.emit(
            step,
            "MAX_POOL_2D",
            [x],
            (n, h, w, c),
            options="Pool2DOptions",
            version=2,
            padding=padding,
            strideH=strides[0],
            strideW=strides[1],
            filterHeight=kernel[0],
            filterWidth=kernel[1],
        )

    def on_globalaveragepool(self, step: Step) -> None:
        x = self.value(step, 0)
        n, _, _, c = self.shape(x)
        axes = self.writer.tensor(step.output + "/axes", (2,), "INT32", np.array([1, 2], np.int32))
        self.emit(
            step,
            "MEAN",
            [x, axes],
            (n, 1, 1, c),
            options="ReducerOptions",
            version=2,
            keepDims=True,
        )

    def on_flatten(self, step: Step) -> None:
        x = self.value(step, 0)
        n, h, w, c = self.shape(x)
        if h * w != 1:
            raise ValueError(f"{step.node.name}: Flatten of images orders its elements otherwise")
        shape = np.array([n, c], np.int32)
        to = self.writer.tensor(step.output + "/shape", (2,), "INT32", shape)
        options = {"options": "ReshapeOptions", "newShape": [n, c]}
        self.emit(step, "RESHAPE", [x, to], (n, c), **options)

    def on_gemm(self, step: Step) -> None:
        x, w = self.value(step, 0), self.constant(step, 1)
        if not step.attributes.get("transB", 0):
            w = w.T
        factors, scales = self.writer.factors(step.node.input[1], w, 0)
        bias = self.writer.bias(step.output + "/bias", self.constant(step, 2), x, scales)
        shape = (self.shape(x)[0], w.shape[0])
        self.emit(
            step,
            "FULLY_CONNECTED",
            [x, factors, bias],
            shape,
            options="FullyConnectedOptions",
            version=4,
            fusedActivationFunction=self.activation(step),
        )


def convert(path: str | Path, samples: list[dict[str, np.ndarray]] | None = None) -> bytes:
    """The network of an ONNX file as a .tflite file: in int8 where samples are given."""
    model = onnx.load(path)
    ranges = calibrate(model, samples) if samples else None
    return Converter(model, ranges).writer.bytes()


def check(path: str | Path, tflite: Path, feeds: dict[str, np.ndarray], noise: float) -> float:
    """The difference from ONNX Runtime's outputs in float32, as a share of their norm."""
    import onnxruntime
    from ai_edge_litert.interpreter import Interpreter

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, feeds)
    interpreter = Interpreter(model_path=str(tflite), num_threads=1)
    interpreter.allocate_tensors()
    (value,) = feeds.values()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], value.transpose(0, 2, 3, 1))
    interpreter.invoke()
    found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    share = float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
    if not share < noise:
        raise RuntimeError(f"{path}: LiteRT's outputs differ by {share:.2g} of their norm")
    return share
