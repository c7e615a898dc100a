# SPDX-License-Identifier: Apache-2.0
"""TensorRT layers of one network added to another, through TensorRT's public API.

One function per kind of layer: it adds the layer with the inputs that its `add_…` call takes and
sets its attributes; inputs beyond those are connected afterwards by position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core import InternalError

# add(trt, network, layer, inputs) → the new layer, and how many inputs the call has connected.
Copier = Callable[[Any, Any, Any, Sequence[Any]], tuple[Any, int]]

# Kind of layer (the name in trt.LayerType) → its class and its copier.
_COPIERS: dict[str, tuple[str, Copier]] = {}


def _copier(kind: str, class_name: str) -> Callable[[Copier], Copier]:
    def register(function: Copier) -> Copier:
        _COPIERS[kind] = (class_name, function)
        return function

    return register


def _simple(kind: str, class_name: str, method: str, inputs: int, *attributes: str) -> None:
    """Layers whose call takes their inputs first, then some of their attributes."""

    def copy(trt: Any, network: Any, layer: Any, tensors: Sequence[Any]) -> tuple[Any, int]:
        values = [getattr(layer, attribute) for attribute in attributes]
        return getattr(network, method)(*tensors[:inputs], *values), inputs

    _copier(kind, class_name)(copy)


_simple("CAST", "ICastLayer", "add_cast", 1, "to_type")
_simple("ELEMENTWISE", "IElementWiseLayer", "add_elementwise", 2, "op")
_simple("IDENTITY", "IIdentityLayer", "add_identity", 1)
_simple("PARAMETRIC_RELU", "IParametricReLULayer", "add_parametric_relu", 2)
_simple("REDUCE", "IReduceLayer", "add_reduce", 1, "op", "axes", "keep_dims")
_simple("SELECT", "ISelectLayer", "add_select", 3)
_simple("SHAPE", "IShapeLayer", "add_shape", 1)
_simple("SQUEEZE", "ISqueezeLayer", "add_squeeze", 2)
_simple("UNARY", "IUnaryLayer", "add_unary", 1, "op")
_simple("UNSQUEEZE", "IUnsqueezeLayer", "add_unsqueeze", 2)
_simple("ONE_HOT", "IOneHotLayer", "add_one_hot", 3, "axis")
_simple("ASSERTION", "IAssertionLayer", "add_assertion", 1, "message")


def _weights(trt: Any, values: Any) -> Any:
    """A layer's weights as a call takes them: none is not an empty array, but has its dtype."""
    if isinstance(values, np.ndarray) and values.size == 0:
        kinds = {"float32": trt.DataType.FLOAT, "float16": trt.DataType.HALF}
        return trt.Weights(kinds[values.dtype.name])
    return values


def _assign(layer: Any, source: Any, *attributes: str) -> Any:
    for attribute in attributes:
        setattr(layer, attribute, getattr(source, attribute))
    return layer


@_copier("EINSUM", "IEinsumLayer")
def _einsum(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    return network.add_einsum(list(inputs), layer.equation), len(inputs)


@_copier("CONCATENATION", "IConcatenationLayer")
def _concatenation(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    return _assign(network.add_concatenation(list(inputs)), layer, "axis"), len(inputs)


@_copier("ACTIVATION", "IActivationLayer")
def _activation(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    added = network.add_activation(inputs[0], layer.type)
    return _assign(added, layer, "alpha", "beta"), 1


@_copier("CONSTANT", "IConstantLayer")
def _constant(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    return network.add_constant(layer.shape, _weights(trt, layer.weights)), 0


_WINDOWED = ("stride_nd", "pre_padding", "post_padding", "padding_mode")


def _convolution_like(method: str) -> Copier:
    def copy(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
        kernel, bias = _weights(trt, layer.kernel), _weights(trt, layer.bias)
        added = getattr(network, method)(
            inputs[0], layer.num_output_maps, layer.kernel_size_nd, kernel, bias
        )
        return _assign(added, layer, *_WINDOWED, "dilation_nd", "num_groups"), 1

    return copy


_copier("CONVOLUTION", "IConvolutionLayer")(_convolution_like("add_convolution_nd"))
_copier("DECONVOLUTION", "IDeconvolutionLayer")(_convolution_like("add_deconvolution_nd"))


@_copier("POOLING", "IPoolingLayer")
def _pooling(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    added = network.add_pooling_nd(inputs[0], layer.type, layer.window_size_nd)
    return _assign(added, layer, *_WINDOWED, "blend_factor", "average_count_excludes_padding"), 1


@_copier("SCALE", "IScaleLayer")
def _scale(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    shift, scale, power = (_weights(trt, w) for w in (layer.shift, layer.scale, layer.power))
    added = network.add_scale_nd(inputs[0], layer.mode, shift, scale, power, layer.channel_axis)
    return added, 1


@_copier("SOFTMAX", "ISoftMaxLayer")
def _softmax(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    return _assign(network.add_softmax(inputs[0]), layer, "axes"), 1


@_copier("SHUFFLE", "IShuffleLayer")
def _shuffle(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    added = network.add_shuffle(inputs[0])
    _assign(added, layer, "first_transpose", "second_transpose", "zero_is_placeholder")
    if len(inputs) == 1 and layer.reshape_dims is not None:
        added.reshape_dims = layer.reshape_dims
    return added, 1


@_copier("TOPK", "ITopKLayer")
def _top_k(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    k = layer.k if len(inputs) == 1 else 1  # the second input says it
    added = network.add_topk(inputs[0], layer.op, k, layer.axes, layer.indices_type)
    return added, 1


@_copier("GATHER", "IGatherLayer")
def _gather(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    added = network.add_gather_v2(inputs[0], inputs[1], layer.mode)
    return _assign(added, layer, "axis", "num_elementwise_dims"), 2


@_copier("SCATTER", "IScatterLayer")
def _scatter(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    added = network.add_scatter(*inputs[:3], layer.mode)
    return _assign(added, layer, "axis"), 3


@_copier("MATRIX_MULTIPLY", "IMatrixMultiplyLayer")
def _matrix_multiply(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    return network.add_matrix_multiply(inputs[0], layer.op0, inputs[1], layer.op1), 2


@_copier("SLICE", "ISliceLayer")
def _slice(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    # None where an input says it.
    dims = [trt.Dims() if d is None else d for d in (layer.start, layer.shape, layer.stride)]
    added = network.add_slice(inputs[0], *dims)
    added.mode = layer.mode
    if layer.axes:
        added.axes = layer.axes
    return added, 1


@_copier("RESIZE", "IResizeLayer")
def _resize(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    added = network.add_resize(inputs[0])
    _assign(
        added,
        layer,
        "resize_mode",
        "coordinate_transformation",
        "selector_for_single_pixel",
        "nearest_rounding",
        "exclude_outside",
        "cubic_coeff",
    )
    if len(inputs) == 1:
        if layer.scales:
            added.scales = layer.scales
        else:
            added.shape = layer.shape
    return added, 1


@_copier("NORMALIZATION", "INormalizationLayer")
def _normalization(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    is_v2 = getattr(layer, "is_v2", False)
    add = network.add_normalization_v2 if is_v2 else network.add_normalization
    added = _assign(add(*inputs[:3], layer.axes), layer, "epsilon", "num_groups")
    return added, 3


@_copier("GRID_SAMPLE", "IGridSampleLayer")
def _grid_sample(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    added = network.add_grid_sample(inputs[0], inputs[1])
    return _assign(added, layer, "interpolation_mode", "align_corners", "sample_mode"), 2


@_copier("CUMULATIVE", "ICumulativeLayer")
def _cumulative(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    return network.add_cumulative(*inputs[:2], layer.op, layer.exclusive, layer.reverse), 2


@_copier("FILL", "IFillLayer")
def _fill(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    shape = trt.Dims() if layer.shape is None else layer.shape  # else the first input says it
    added = network.add_fill(shape, layer.operation, layer.to_type)
    if layer.is_alpha_beta_int64():
        added.set_alpha_int64(layer.get_alpha_int64())
        added.set_beta_int64(layer.get_beta_int64())
    elif not inputs:
        _assign(added, layer, "alpha", "beta")
    return added, 0


@_copier("NON_ZERO", "INonZeroLayer")
def _non_zero(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    return network.add_non_zero(inputs[0], layer.indices_type), 1


def _quantize_like(method: str) -> Copier:
    def copy(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
        added = getattr(network, method)(inputs[0], inputs[1], layer.to_type)
        return _assign(added, layer, "axis"), 2

    return copy


_copier("QUANTIZE", "IQuantizeLayer")(_quantize_like("add_quantize"))
_copier("DEQUANTIZE", "IDequantizeLayer")(_quantize_like("add_dequantize"))


@_copier("PADDING", "IPaddingLayer")
def _padding(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    return network.add_padding_nd(inputs[0], layer.pre_padding_nd, layer.post_padding_nd), 1


@_copier("LRN", "ILRNLayer")
def _lrn(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    return network.add_lrn(inputs[0], layer.window_size, layer.alpha, layer.beta, layer.k), 1


@_copier("REVERSE_SEQUENCE", "IReverseSequenceLayer")
def _reverse_sequence(trt: Any, network: Any, layer: Any, inputs: Sequence[Any]) -> tuple[Any, int]:
    added = network.add_reverse_sequence(inputs[0], inputs[1])
    return _assign(added, layer, "batch_axis", "sequence_axis"), 2


def _kind_of(trt: Any, layer: Any) -> str:
    # Activation and pooling layers have a `type` of their own.
    return trt.ILayer.type.__get__(layer).name


def unsupported_layer(trt: Any, layer: Any) -> str:
    """The kind of a layer that copy_layer does not know, or "". Gives the layer its class."""
    kind = _kind_of(trt, layer)
    known = _COPIERS.get(kind)
    if known is None:
        return kind
    layer.__class__ = getattr(trt, known[0])
    return ""


def in_order(layers: Sequence[Any], known: set[str]) -> list[Any]:
    """The layers such that each comes after those whose values it reads; a network need not have
    them so. `known` are the names of the values that are there before."""
    ordered = []
    waiting = list(layers)
    known = set(known)
    while waiting:
        later = []
        for layer in waiting:
            sources = [layer.get_input(i) for i in range(layer.num_inputs)]
            if any(tensor is not None and tensor.name not in known for tensor in sources):
                later.append(layer)
                continue
            ordered.append(layer)
            known.update(layer.get_output(i).name for i in range(layer.num_outputs))
        if len(later) == len(waiting):
            raise InternalError("the layers read values that nothing makes")
        waiting = later
    return ordered


def copy_layer(context: Any, layer: Any, tensors: dict[str, Any], name: str) -> None:
    """Adds a layer like `layer` to the context's network; `tensors` maps the names of the values of
    its network to those of the context's, and is given its outputs."""
    inputs = []
    for i in range(layer.num_inputs):
        tensor = layer.get_input(i)
        inputs.append(None if tensor is None else tensors[tensor.name])
    kind = _kind_of(context.trt, layer)
    added, connected = _COPIERS[kind][1](context.trt, context.network, layer, inputs)
    if added is None:
        raise InternalError(f"TensorRT does not add the layer {name} ({kind})")
    for i in range(connected, len(inputs)):
        if inputs[i] is not None:
            added.set_input(i, inputs[i])
    added.name = name
    for i in range(layer.num_outputs):
        output = added.get_output(i)
        tensors[layer.get_output(i).name] = output
        output.name = name if layer.num_outputs == 1 else f"{name}.{i}"
