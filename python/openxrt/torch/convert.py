# SPDX-License-Identifier: Apache-2.0
"""From a module to a TensorRT network or a Relax module in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .._core import InvalidArgument
from .graph_module import GraphModule
from .handlers.context import Context, current_context, trt_network, tvm_network


def _names(graph: GraphModule, names: Sequence[str] | None, what: str, count: int) -> list[str]:
    if names is None:
        if what == "input":
            return [spec.name for spec in graph.inputs]
        return [f"output_{i}" for i in range(count)]
    if len(names) != count:
        raise InvalidArgument(f"{graph.name}: {len(names)} {what} names for {count} {what}s")
    return list(names)


def _called(
    graph: GraphModule, context: Context, tensors: Sequence[Any], verbose: bool
) -> list[Any]:
    """Those of the graph's outputs that are tensors, flat, for its tensors in flat order."""
    values = iter(tensors)
    leaves = [
        next(values) if isinstance(leaf, torch.Tensor) else leaf for leaf in graph.example_leaves
    ]
    args, kwargs = pytree.tree_unflatten(leaves, graph.exported.call_spec.in_spec)
    results = pytree.tree_leaves(graph(*args, verbose=verbose, **kwargs))
    return [
        context.constant(value)
        for value in results
        if isinstance(value, torch.Tensor) or context.is_tensor(value)
    ]


def torch2trt(
    net: torch.nn.Module | Callable[..., Any] | GraphModule,
    *inputs: Any,
    network: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_shapes: Any = None,
    verbose: bool = False,
) -> GraphModule:
    """Adds a module's inputs, layers and outputs to a TensorRT network.

    `network` is that of the current `trt_network()` by default. Inputs are named after the
    arguments of the module, outputs output_0, output_1, … unless names are given. Symbolic sizes
    (`dynamic_shapes`) become open dimensions: the build needs an optimisation profile.
    """
    from .handlers.constants import trt_dtype

    graph = (
        net
        if isinstance(net, GraphModule)
        else GraphModule(net, *inputs, dynamic_shapes=dynamic_shapes)
    )
    network = network if network is not None else current_context().network
    with trt_network(network) as context:
        specs = graph.inputs
        tensors = [
            network.add_input(
                name,
                trt_dtype(context.trt, spec.dtype),
                [size if isinstance(size, int) else -1 for size in spec.shape],
            )
            for name, spec in zip(
                _names(graph, input_names, "input", len(specs)), specs, strict=True
            )
        ]
        outputs = _called(graph, context, tensors, verbose)
        for name, output in zip(
            _names(graph, output_names, "output", len(outputs)), outputs, strict=True
        ):
            if output.is_network_input or output.is_network_output:
                output = network.add_identity(output).get_output(0)
            output.name = name
            network.mark_output(output)
    return graph


def torch2tvm(
    net: torch.nn.Module | Callable[..., Any] | GraphModule,
    *inputs: Any,
    input_names: Sequence[str] | None = None,
    verbose: bool = False,
) -> tuple[Any, GraphModule]:
    """A Relax module whose function `main` is the net, and the traced graph.

    >>> module, graph = torch2tvm(net, images, input_names=["image"])
    >>> TVMInference(module, "llvm").inference(images)
    """
    from tvm import relax

    graph = net if isinstance(net, GraphModule) else GraphModule(net, *inputs)
    specs = graph.inputs
    parameters = []
    for name, spec in zip(_names(graph, input_names, "input", len(specs)), specs, strict=True):
        if not all(isinstance(size, int) for size in spec.shape):
            raise InvalidArgument(f"{spec}: Relax is built for static shapes")
        dtype = str(spec.dtype).removeprefix("torch.")
        parameters.append(relax.Var(name, relax.TensorType(list(spec.shape), dtype)))
    builder = relax.BlockBuilder()
    with builder.function("main", parameters):
        with builder.dataflow(), tvm_network(builder) as context:
            outputs = _called(graph, context, parameters, verbose)
            result = builder.emit_output(outputs[0] if len(outputs) == 1 else relax.Tuple(outputs))
        builder.emit_func_output(result)
    return builder.get(), graph
