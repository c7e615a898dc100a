# SPDX-License-Identifier: Apache-2.0
"""Gradients that PyTorch's decompositions leave whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..._core import Unsupported
from ..builder import Builder, Int, NeedsStaticShape, Number, Value, static_or_none
from ..registry import lowering
from .creation import filled, full_like
from .normalization import HALVES, as_expected, filled_channels, is_uniform, widened
from .pooling import spread


def _deconvolution(
    b: Builder,
    gradient: Value,
    weight: Value,
    size: Sequence[Int],
    strides: list[int],
    pads: list[int],
    dilations: list[int],
    groups: int,
) -> Value:
    """The gradient of a convolution's input, whose spatial dimensions are `size`."""
    spatial = len(size)
    kernel = weight.static_shape("the gradient of a convolution", 2)
    known = static_or_none(size)
    out = None if gradient.shape is None else static_or_none(gradient.shape[2:])
    if known is None or out is None:
        # As long as it can be, then cut to the length that is known when the program runs.
        long = b.op(
            "ConvTranspose",
            gradient,
            weight,
            rank=gradient.rank,
            strides=strides,
            pads=[*pads, *pads],
            dilations=dilations,
            group=groups,
            output_padding=[s - 1 for s in strides] if max(strides) > 1 else None,
        )
        axes = list(range(2, 2 + spatial))
        return b.op(
            "Slice", long, b.ints([0] * spatial), b.vector(size), b.ints(axes), rank=gradient.rank
        )
    rest = [
        known[i] - ((out[i] - 1) * strides[i] - 2 * pads[i] + dilations[i] * (kernel[i] - 1) + 1)
        for i in range(spatial)
    ]
    return b.op(
        "ConvTranspose",
        gradient,
        weight,
        rank=gradient.rank,
        strides=strides,
        pads=[*pads, *pads],
        dilations=dilations,
        group=groups,
        output_padding=rest if any(rest) else None,
    )


_GRADIENT_TYPES = (torch.float32, torch.float64)  # of the ops of domain "xrt"


def _weight_gradient_by_convolution(
    b: Builder,
    x: Value,
    gradient: Value,
    kernel: Sequence[int],
    strides: list[int],
    pads: list[int],
    dilations: list[int],
    groups: int,
) -> Value:
    """The gradient of a convolution's weight: batch and channels change places, and what was the
    stride is now the distance of the weight's elements."""
    spatial = len(kernel)
    channels, *size = [b.dim_size(x, dim) for dim in range(1, x.rank)]
    if not isinstance(channels, int):
        raise NeedsStaticShape("the gradient of a convolution of symbolic channels")
    per_group = channels // groups
    rest = list(range(3, 3 + spatial))
    if groups == 1:
        image = b.transpose(x, [1, 0, *range(2, 2 + spatial)])
    else:
        split = b.reshape(x, [-1, groups, per_group, *size])
        moved = b.transpose(split, [2, 1, 0, *rest])
        image = b.reshape(moved, [per_group, -1, *size])
    filters = b.transpose(gradient, [1, 0, *range(2, 2 + spatial)])
    y = b.op(
        "Conv",
        image,
        filters,
        rank=x.rank,
        strides=dilations,
        pads=[*pads, *pads],
        dilations=strides,
        group=groups,
    )
    # Rows of the input that no window reached make the result longer than the kernel.
    axes = list(range(2, 2 + spatial))
    y = b.op("Slice", y, b.ints([0] * spatial), b.ints(list(kernel)), b.ints(axes), rank=x.rank)
    return b.transpose(y, [1, 0, *axes])


def _weight_gradient(
    b: Builder,
    x: Value,
    gradient: Value,
    weight: Value,
    window: dict[str, object],
    with_bias: bool,
) -> list[Value]:
    """The gradients of a convolution's weight and, if wanted, bias. Those of half precision are
    sums in float32 that are rounded once."""
    dtype = torch.float32 if x.dtype in HALVES else x.dtype
    made = b.ops(
        "ConvWeightGradient",
        b.cast(x, dtype),
        b.cast(gradient, dtype),
        dtypes=[dtype] * (1 + with_bias),
        domain="xrt",
        **window,
    )
    shapes = (weight.shape, None if gradient.shape is None else gradient.shape[1:2])
    return [
        b.cast(b.declared(value, shape), x.dtype)
        for value, shape in zip(made, shapes, strict=False)
    ]


@lowering("aten.convolution_backward.default")
def convolution_backward(
    b: Builder,
    gradient: Value,
    x: Value,
    weight: Value,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> list[Value | None]:
    kernel = weight.static_shape("the gradient of a convolution", 2)
    spatial = len(kernel)
    strides, pads, dilations = (spread(n, spatial) for n in (stride, padding, dilation))
    results: list[Value | None] = [None, None, None]
    # Rows that a transposed convolution adds beyond a stride belong to no window.
    added = spread(output_padding, spatial) if transposed else [0] * spatial
    fits = all(extra < step for extra, step in zip(added, strides, strict=True))
    if output_mask[0]:
        if transposed:
            whole = b.op(
                "Conv",
                gradient,
                weight,
                rank=x.rank,
                strides=strides,
                pads=[*pads, *pads],
                dilations=dilations,
                group=groups,
            )
            for dim in range(2, x.rank if not fits else 2):
                whole = b.slice(whole, dim, 0, b.dim_size(x, dim))
            results[0] = whole
        else:
            size = [b.dim_size(x, dim) for dim in range(2, x.rank)]
            results[0] = _deconvolution(b, gradient, weight, size, strides, pads, dilations, groups)
    if output_mask[1]:
        image, seen = (gradient, x) if transposed else (x, gradient)
        if x.dtype in (*_GRADIENT_TYPES, *HALVES) and fits:
            window: dict[str, object] = {
                "kernel_shape": kernel,
                "strides": strides,
                "pads": [*pads, *pads],
                "dilations": dilations,
                "group": groups,
            }
            with_bias = bool(output_mask[2]) and not transposed
            made = _weight_gradient(b, image, seen, weight, window, with_bias)
            results[1 : 1 + len(made)] = made
        else:
            results[1] = _weight_gradient_by_convolution(
                b, image, seen, kernel, strides, pads, dilations, groups
            )
    if output_mask[2] and results[2] is None:
        results[2] = b.reduce("ReduceSum", gradient, [0, *range(2, gradient.rank)], False)
    return results


@lowering("aten.max_pool2d_with_indices_backward.default")
def max_pool2d_backward(b: Builder, gradient: Value, x: Value, *arguments: object) -> Value:
    indices = arguments[-1]
    assert isinstance(indices, Value)
    plane = b.product([b.dim_size(x, dim) for dim in (-2, -1)])
    zeros = b.reshape(full_like(b, x, 0), [-1, plane])
    places = b.product([b.dim_size(gradient, dim) for dim in (-2, -1)])
    summed = b.op(
        "ScatterElements",
        zeros,
        b.reshape(indices, [-1, places]),
        b.reshape(gradient, [-1, places]),
        axis=1,
        rank=2,
        reduction="add",
    )
    return b.reshape_like(summed, x)


@lowering("openxrt.max_pool2d_backward.default")
def max_pool2d_backward_by_input(
    b: Builder,
    gradient: Value,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Value:
    kernel, pads = spread(kernel_size, 2), spread(padding, 2)
    batched = x.rank == 4
    # Which element is the largest is the same in float32, and where windows overlap the sums of
    # what comes from them are rounded once.
    is_half = x.dtype in HALVES
    operands = [b.cast(v, torch.float32) if is_half else v for v in (x, gradient)]
    y = b.op(
        "MaxPoolGradient",
        *[v if batched else b.unsqueeze(v, 0) for v in operands],
        domain="xrt",
        kernel_shape=kernel,
        strides=spread(stride, 2) if stride else kernel,
        pads=[*pads, *pads],
        dilations=spread(dilation, 2),
        ceil_mode=int(ceil_mode),
    )
    if batched:
        return b.cast(b.declared(y, x.shape), x.dtype)
    y = b.declared(y, None if x.shape is None else (1, *x.shape))
    return b.cast(b.squeeze(y, 0), x.dtype)


@lowering("aten.threshold_backward.default")
def threshold_backward(b: Builder, gradient: Value, x: Value, threshold: Number) -> Value:
    x, gradient = b.promote(x, gradient)
    below = b.op("LessOrEqual", x, b.scalar(threshold, x.dtype), dtype=torch.bool, shape=x.shape)
    zero = b.scalar(0, gradient.dtype)
    return b.op("Where", below, zero, gradient, dtype=gradient.dtype, shape=gradient.shape)


@lowering("aten.avg_pool2d_backward.default")
def avg_pool2d_backward(
    b: Builder,
    gradient: Value,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    size = x.static_shape("the gradient of average pooling", -2)
    out = gradient.static_shape("the gradient of average pooling", -2)
    kernel, pads = spread(kernel_size, 2), spread(padding, 2)
    strides = spread(stride, 2) if stride else kernel
    # Each window's divisor, and how far the last windows reach past the padded input.
    counts, over = [], []
    for i, length in enumerate(size):
        begins = np.arange(out[i]) * strides[i] - pads[i]
        ends = np.minimum(begins + kernel[i], length + pads[i])
        over.append(max(0, int((begins + kernel[i]).max()) - (length + pads[i])))
        if not count_include_pad:
            begins, ends = np.maximum(begins, 0), np.minimum(ends, length)
        counts.append((ends - begins).astype(np.float64))
    divisors = counts[0][:, None] * counts[1][None, :]
    if divisor_override is not None:
        divisors = np.full_like(divisors, divisor_override)
    scale = b.tensor(torch.from_numpy(1.0 / divisors).to(gradient.dtype), "divisors")
    scaled = b.op("Mul", gradient, scale, rank=gradient.rank)
    single = b.reshape(scaled, [-1, 1, *out])
    ones = b.tensor(torch.ones(1, 1, *kernel, dtype=gradient.dtype), "ones")
    rest = [size[i] - ((out[i] - 1) * strides[i] - 2 * pads[i] + kernel[i]) for i in range(2)]
    spread_out = b.op(
        "ConvTranspose",
        single,
        ones,
        rank=4,
        strides=strides,
        pads=[*pads, pads[0] + over[0], pads[1] + over[1]],
        output_padding=[max(0, r + o) for r, o in zip(rest, over, strict=True)],
    )
    return b.reshape_like(spread_out, x)


@lowering("aten._adaptive_avg_pool2d_backward.default")
def adaptive_avg_pool2d_backward(b: Builder, gradient: Value, x: Value) -> Value:
    shape = x.static_shape("the gradient of adaptive pooling", -2)
    out = gradient.static_shape("the gradient of adaptive pooling", -2)
    matrices = []
    for axis in (-2, -1):
        matrix = np.zeros((out[axis], shape[axis]))
        for o in range(out[axis]):
            begin = o * shape[axis] // out[axis]
            end = -(-(o + 1) * shape[axis] // out[axis])
            matrix[o, begin:end] = 1.0 / (end - begin)
        matrices.append(torch.from_numpy(matrix).to(gradient.dtype))
    rows = b.tensor(matrices[0].t(), "windows")
    wide = b.op("MatMul", gradient, b.tensor(matrices[1], "windows"), rank=gradient.rank)
    return b.op("MatMul", rows, wide, rank=gradient.rank)


@lowering("aten.native_layer_norm_backward.default")
def layer_norm_backward(
    b: Builder,
    gradient: Value,
    x: Value,
    normalized_shape: Sequence[int],
    mean: Value,
    rstd: Value,
    weight: Value | None,
    bias: Value | None,
    output_mask: Sequence[bool],
) -> list[Value | None]:
    given = (gradient, x, mean, rstd, weight, bias)
    if any(value is not None and value.dtype in HALVES for value in given):
        gradient, x, mean, rstd, weight, bias = widened(b, *given)  # type: ignore[assignment]
        return as_expected(
            b,
            layer_norm_backward(
                b, gradient, x, normalized_shape, mean, rstd, weight, bias, output_mask
            ),
        )
    lead = x.rank - len(normalized_shape)
    axes, before = list(range(lead, x.rank)), list(range(lead))
    hat = b.op("Mul", b.op("Sub", x, mean, rank=x.rank), rstd, rank=x.rank)
    results: list[Value | None] = [None, None, None]
    if output_mask[0]:
        g = gradient if weight is None else b.op("Mul", gradient, weight, rank=x.rank)
        average = b.reduce("ReduceMean", g, axes, True)
        product = b.op("Mul", g, hat, rank=x.rank)
        along = b.op("Mul", hat, b.reduce("ReduceMean", product, axes, True), rank=x.rank)
        inner = b.op("Sub", b.op("Sub", g, average, rank=x.rank), along, rank=x.rank)
        results[0] = b.op("Mul", inner, rstd, rank=x.rank)
    if output_mask[1]:
        product = b.op("Mul", gradient, hat, rank=x.rank)
        results[1] = b.reduce("ReduceSum", product, before, False) if before else product
    if output_mask[2]:
        results[2] = b.reduce("ReduceSum", gradient, before, False) if before else gradient
    return results


@lowering("aten.native_group_norm_backward.default")
def group_norm_backward(
    b: Builder,
    gradient: Value,
    x: Value,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    n: int,
    c: int,
    hxw: int,
    group: int,
    output_mask: Sequence[bool],
) -> list[Value | None]:
    given = (gradient, x, mean, rstd, weight)
    if any(value is not None and value.dtype in HALVES for value in given):
        gradient, x, mean, rstd, weight = widened(b, *given)  # type: ignore[assignment]
        return as_expected(
            b,
            group_norm_backward(b, gradient, x, mean, rstd, weight, n, c, hxw, group, output_mask),
        )
    per_group = c // group

    def grouped(value: Value) -> Value:
        return b.reshape(value, [n, group, per_group, -1])

    wide = [n, group, 1, 1]
    inverse = b.reshape(rstd, wide)
    hat = b.op("Mul", b.op("Sub", grouped(x), b.reshape(mean, wide), rank=4), inverse, rank=4)
    product = b.op("Mul", grouped(gradient), hat, rank=4)
    results: list[Value | None] = [None, None, None]
    if output_mask[0]:
        g = grouped(gradient)
        if weight is not None:
            g = b.op("Mul", g, b.reshape(weight, [1, group, per_group, 1]), rank=4)
        average = b.reduce("ReduceMean", g, [2, 3], True)
        scaled = b.op("Mul", g, hat, rank=4)
        along = b.op("Mul", hat, b.reduce("ReduceMean", scaled, [2, 3], True), rank=4)
        inner = b.op("Sub", b.op("Sub", g, average, rank=4), along, rank=4)
        results[0] = b.reshape_like(b.op("Mul", inner, inverse, rank=4), x)
    if output_mask[1]:
        results[1] = b.reshape(b.reduce("ReduceSum", product, [0, 3], False), [c])
    if output_mask[2]:
        results[2] = b.reshape(b.reduce("ReduceSum", grouped(gradient), [0, 3], False), [c])
    return results


@lowering("aten.native_batch_norm_backward.default")
def batch_norm_backward(
    b: Builder,
    gradient: Value,
    x: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    save_mean: Value | None,
    save_invstd: Value | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> list[Value | None]:
    given = (gradient, x, weight, running_mean, running_var, save_mean, save_invstd)
    if any(value is not None and value.dtype in HALVES for value in given):
        wider = widened(b, *given)
        return as_expected(b, batch_norm_backward(b, *wider, train, eps, output_mask))  # type: ignore[arg-type]
    dims = [0, *range(2, x.rank)]

    def wide(value: Value) -> Value:
        return b.reshape(value, [1, -1, *([1] * (x.rank - 2))])

    if train:
        if save_mean is None or save_invstd is None:
            raise Unsupported("the gradient of batch normalisation without saved statistics")
        if is_uniform(x, gradient, weight, save_mean):
            square = b.op("Mul", save_invstd, save_invstd)
            var = b.op("Sub", b.op("Reciprocal", square), b.scalar(float(eps), x.dtype))
            made = b.ops(
                "BatchNormalizationGradient",
                x,
                weight if weight is not None else filled_channels(b, x, 1.0),
                save_mean,
                var,
                gradient,
                dtypes=[x.dtype] * 3,
                domain="xrt",
                epsilon=float(eps),
            )
            shapes = (x.shape, save_mean.shape, save_mean.shape)
            return [b.declared(v, shape) for v, shape in zip(made, shapes, strict=True)]
        mean, invstd = wide(save_mean), wide(save_invstd)
    else:
        if running_mean is None or running_var is None:
            raise Unsupported("the gradient of batch normalisation without running statistics")
        spread_var = b.op("Add", running_var, b.scalar(float(eps), running_var.dtype))
        mean, invstd = wide(running_mean), wide(b.op("Reciprocal", b.op("Sqrt", spread_var)))
    hat = b.op("Mul", b.op("Sub", x, mean, rank=x.rank), invstd, rank=x.rank)
    results: list[Value | None] = [None, None, None]
    if output_mask[0]:
        g = gradient if weight is None else b.op("Mul", gradient, wide(weight), rank=x.rank)
        if train:
            average = b.reduce("ReduceMean", g, dims, True)
            product = b.op("Mul", g, hat, rank=x.rank)
            along = b.op("Mul", hat, b.reduce("ReduceMean", product, dims, True), rank=x.rank)
            g = b.op("Sub", b.op("Sub", g, average, rank=x.rank), along, rank=x.rank)
        results[0] = b.op("Mul", g, invstd, rank=x.rank)
    if output_mask[1]:
        results[1] = b.reduce("ReduceSum", b.op("Mul", gradient, hat, rank=x.rank), dims, False)
    if output_mask[2]:
        results[2] = b.reduce("ReduceSum", gradient, dims, False)
    return results


@lowering("aten.embedding_dense_backward.default")
def embedding_backward(
    b: Builder,
    gradient: Value,
    indices: Value,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Value:
    if scale_grad_by_freq:
        raise Unsupported("the gradient of an embedding scaled by frequency")
    (width,) = gradient.static_shape("the gradient of an embedding", -1)
    if padding_idx >= 0:
        same = b.op("Equal", indices, b.scalar(padding_idx, indices.dtype), dtype=torch.bool)
        mask = b.unsqueeze(same, indices.rank)
        zero = b.scalar(0, gradient.dtype)
        gradient = b.op("Where", mask, zero, gradient, dtype=gradient.dtype, shape=gradient.shape)
    zeros = filled(b, [num_weights, width], 0, gradient.dtype)
    places = b.unsqueeze(b.cast(indices, torch.int64), indices.rank)
    return b.op("ScatterND", zeros, places, gradient, rank=2, reduction="add")
