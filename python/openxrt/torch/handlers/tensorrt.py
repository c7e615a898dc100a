# SPDX-License-Identifier: Apache-2.0
"""ATen nodes as layers of a user's TensorRT network.

A node becomes a small ONNX model, TensorRT's own parser makes a network of that, and its layers are
added to the user's: the parser itself writes to empty networks only. So nothing is added for a node
that the parser refuses.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch

from ..._core import Unsupported
from ...engines._tensorrt_library import Library, Rejected, import_tensorrt
from ..importer import op_name, where
from .constants import torch_dtype
from .context import TensorRTContext
from .fragment import make_fragment
from .layers import copy_layer, in_order, unsupported_layer
from .slices import native_handler

_libraries: dict[str, Library] = {}
_libraries_lock = threading.Lock()


def trt_package() -> ModuleType:
    """The TensorRT package that is installed. NotFound or EngineError where there is none."""
    return import_tensorrt()


def library_of(trt: ModuleType) -> Library:
    """A builder of that TensorRT package, for networks that are thrown away."""
    with _libraries_lock:
        if trt.__name__ not in _libraries:
            _libraries[trt.__name__] = Library(trt)
        return _libraries[trt.__name__]


def describe(context: TensorRTContext, tensor: Any) -> tuple[torch.dtype, list[int]]:
    """Dtype and shape of an ITensor; −1 where a dimension is open."""
    return torch_dtype(context.trt, tensor.dtype), list(tensor.shape)


def lower(
    context: TensorRTContext,
    module: torch.fx.GraphModule,
    node: torch.fx.Node,
    values: Mapping[torch.fx.Node, Any],
    scope: str,
) -> Any:
    """Adds the layers of one node; its results as PyTorch would structure them.

    Raises:
        Unsupported: there is no lowering, or TensorRT does not take it; names the source line. The
            network is as before.
    """
    place = f"{op_name(node)}{where(node)}"
    native = native_handler(op_name(node))
    if native is not None:
        arguments, keywords = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
        result = native(context, scope, *arguments, **keywords)
        if result is not NotImplemented:
            return result
    fragment = make_fragment(
        module, node, values, context.is_tensor, lambda tensor: describe(context, tensor)
    )
    if not fragment.outputs:
        return fragment.result
    library = library_of(context.trt)
    with library.exclusive():
        try:
            scratch, parser = library.parse(fragment.model, {})
        except Rejected as error:
            raise Unsupported(f"{place}: TensorRT does not take it: {error}") from error
        layers = [scratch.get_layer(i) for i in range(scratch.num_layers)]
        for layer in layers:
            kind = unsupported_layer(context.trt, layer)
            if kind:
                raise Unsupported(f"{place}: TensorRT makes a layer of kind {kind} of it")
        # Where the model says something else than PyTorch, the network must not follow it.
        for i, (dtype, shape) in enumerate(fragment.outputs):
            found_dtype, found_shape = describe(context, scratch.get_output(i))
            is_like = found_dtype == dtype and (
                shape is None
                or (
                    len(shape) == len(found_shape)
                    and all(
                        not isinstance(ours, int) or theirs < 0 or ours == theirs
                        for ours, theirs in zip(shape, found_shape, strict=True)
                    )
                )
            )
            if not is_like:
                raise Unsupported(
                    f"{place}: TensorRT makes {found_dtype}{found_shape} of it, PyTorch "
                    f"{dtype}{list(shape or ())}"
                )
        tensors: dict[str, Any] = dict(fragment.inputs)
        context.keep((scratch, parser))  # weights are in their memory
        for i, layer in enumerate(in_order(layers, set(tensors))):
            name = context.unique_name(scope if len(layers) == 1 else f"{scope}/{i}")
            copy_layer(context, layer, tensors, name)
        outputs = []
        for i in range(len(fragment.outputs)):
            tensor = tensors[scratch.get_output(i).name]
            tensor.name = context.unique_name(f"{scope}:{i}")
            outputs.append(tensor)
    return fragment.results(outputs)
