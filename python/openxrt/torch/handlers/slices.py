# SPDX-License-Identifier: Apache-2.0
"""Cuts along dimensions of static shapes as TensorRT's own slice layers.

TensorRT's parser makes some thirty layers of each, which compute the bounds at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .context import TensorRTContext

# handler(context, scope, *arguments of the op) → its result, or NotImplemented.
_Native = Callable[..., Any]
_natives: dict[str, _Native] = {}


def _native(name: str) -> Callable[[_Native], _Native]:
    def register(function: _Native) -> _Native:
        _natives[name] = function
        return function

    return register


def native_handler(name: str) -> _Native | None:
    """What adds the layers of an op ("aten.slice.Tensor") without the parser, or None."""
    return _natives.get(name)


def _static(context: TensorRTContext, *tensors: Any) -> bool:
    return all(context.is_tensor(x) and all(size >= 0 for size in x.shape) for x in tensors)


def _named(context: TensorRTContext, layer: Any, scope: str) -> Any:
    layer.name = context.unique_name(scope)
    output = layer.get_output(0)
    output.name = layer.name
    return output


def _cut(
    context: TensorRTContext, x: Any, dim: int, start: int, size: int, step: int, scope: str
) -> Any:
    """`size` elements of one dimension from `start` on."""
    starts, shape, strides = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    starts[dim], shape[dim], strides[dim] = start, size, step
    return _named(context, context.network.add_slice(x, starts, shape, strides), scope)


@_native("aten.slice.Tensor")
def _slice(
    context: TensorRTContext,
    scope: str,
    x: Any,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Any:
    bounds = (start, end, step)
    if not _static(context, x) or any(not isinstance(b, int | None) for b in bounds):
        return NotImplemented
    found = range(x.shape[dim])[start:end:step]
    if len(found) == 0:
        return NotImplemented
    return _cut(context, x, dim % len(x.shape), found.start, len(found), step, scope)


@_native("aten.select.int")
def _select(context: TensorRTContext, scope: str, x: Any, dim: int, index: int) -> Any:
    if not _static(context, x) or not isinstance(index, int):
        return NotImplemented
    dim %= len(x.shape)
    part = _cut(context, x, dim, index % x.shape[dim], 1, 1, f"{scope}/slice")
    layer = context.network.add_shuffle(part)
    layer.reshape_dims = [size for i, size in enumerate(x.shape) if i != dim]
    return _named(context, layer, scope)


@_native("aten.flip.default")
def _flip(context: TensorRTContext, scope: str, x: Any, dims: Sequence[int]) -> Any:
    if not _static(context, x) or 0 in x.shape:
        return NotImplemented
    flipped = {dim % len(x.shape) for dim in dims}
    starts = [size - 1 if i in flipped else 0 for i, size in enumerate(x.shape)]
    strides = [-1 if i in flipped else 1 for i in range(len(x.shape))]
    return _named(context, context.network.add_slice(x, starts, x.shape, strides), scope)


@_native("aten.roll.default")
def _roll(
    context: TensorRTContext, scope: str, x: Any, shifts: Sequence[int], dims: Sequence[int] = ()
) -> Any:
    is_plain = all(isinstance(shift, int) for shift in shifts)
    if not dims or not is_plain or not _static(context, x) or 0 in x.shape:
        return NotImplemented
    starts = [0] * len(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        starts[dim] = (starts[dim] - shift) % x.shape[dim]
    layer = context.network.add_slice(x, starts, x.shape, [1] * len(starts))
    layer.mode = context.trt.SampleMode.WRAP
    return _named(context, layer, scope)


@_native("aten.slice_scatter.default")
def _slice_scatter(
    context: TensorRTContext,
    scope: str,
    x: Any,
    source: Any,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Any:
    bounds = (start, end, step)
    if not _static(context, x, source) or any(not isinstance(b, int | None) for b in bounds):
        return NotImplemented
    dim %= len(x.shape)
    found = range(x.shape[dim])[start:end:step]
    if step != 1 or len(found) == 0:
        return NotImplemented
    parts = [source]
    if found.start > 0:
        parts.insert(0, _cut(context, x, dim, 0, found.start, 1, f"{scope}/before"))
    if found.stop < x.shape[dim]:
        rest = x.shape[dim] - found.stop
        parts.append(_cut(context, x, dim, found.stop, rest, 1, f"{scope}/after"))
    layer = context.network.add_concatenation(parts)
    layer.axis = dim
    return _named(context, layer, scope)
