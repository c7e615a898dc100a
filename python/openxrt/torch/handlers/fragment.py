# SPDX-License-Identifier: Apache-2.0
"""One ATen node as a small ONNX model, made by the lowering that the importer has for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ..._core import Graph, Unsupported
from ..aten.complex_numbers import Complex
from ..builder import DTYPE_NAMES, Builder, Value, dims_of
from ..importer import _Importer, op_name, where
from ..registry import find

# Dtype and shape of a tensor of the network; a dimension is −1 where the network does not know it.
Describe = Callable[[Any], tuple[torch.dtype, list[int]]]


@dataclass
class Fragment:
    """A model, and how its inputs and outputs are the node's."""

    model: bytes = b""
    inputs: dict[str, Any] = field(default_factory=dict)  # name → tensor of the network
    # Per output of the model: dtype and, where it is static, shape; as PyTorch has them.
    outputs: list[tuple[torch.dtype, tuple[Any, ...] | None]] = field(default_factory=list)
    # What the node gives, in the structure of PyTorch: Output(i), or a value that is there already.
    result: Any = None

    def results(self, outputs: list[Any]) -> Any:
        """The node's results, given the model's outputs."""
        if isinstance(self.result, list):
            return [_resolved(value, outputs) for value in self.result]
        return _resolved(self.result, outputs)


class _Builder(Builder):
    """Remembers which values are constants."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.constants: dict[int, torch.Tensor] = {}

    def tensor(self, tensor: torch.Tensor, name: str = "") -> Value:
        value = super().tensor(tensor, name)
        self.constants[value.id] = tensor
        return value


@dataclass(frozen=True)
class Output:
    """One of the model's outputs."""

    index: int


def _resolved(value: Any, outputs: list[Any]) -> Any:
    return outputs[value.index] if isinstance(value, Output) else value


def has_lowering(node: torch.fx.Node) -> bool:
    """Whether make_fragment can take the node."""
    return find(op_name(node)) is not None


def make_fragment(
    module: torch.fx.GraphModule,
    node: torch.fx.Node,
    values: Mapping[torch.fx.Node, Any],
    is_tensor: Callable[[object], bool],
    describe: Describe,
) -> Fragment:
    """The model of one node. `values` holds its arguments: tensors of the network are inputs of the
    model, PyTorch's are constants.

    Raises:
        Unsupported: there is no lowering, or it does not take these arguments; names the source
            line.
    """
    builder = _Builder(Graph(node.name))
    importer = _Importer(module, builder)
    graph = builder.graph
    fragment = Fragment()
    sources: dict[int, Any] = {}  # input of the graph → tensor of the network

    def converted(value: Any, sample: Any) -> Any:
        if isinstance(value, (list, tuple)):
            samples = sample if isinstance(sample, (list, tuple)) else [None] * len(value)
            return [converted(v, s) for v, s in zip(value, samples, strict=True)]
        if isinstance(value, torch.Tensor):
            return importer.builder.tensor(value.detach().cpu(), "constant")
        if not is_tensor(value):
            return value
        dtype, known = describe(value)
        traced = sample.shape if isinstance(sample, torch.Tensor) else ()
        if len(traced) != len(known):
            raise Unsupported(
                f"{op_name(node)}{where(node)}: an argument has {len(known)} dimensions here and "
                f"had {len(traced)} when the module was traced"
            )
        shape = tuple(
            size if size >= 0 else symbol for size, symbol in zip(known, traced, strict=True)
        )
        name = f"in{len(sources)}"
        key = graph.add_input(name, DTYPE_NAMES[dtype], dims_of(shape))
        sources[key] = value
        fragment.inputs[name] = value
        return Value(key, dtype, shape)

    for argument in node.all_input_nodes:
        importer.values[argument] = converted(values[argument], argument.meta.get("val"))
    importer.lower(node)

    def output(value: Any) -> Any:
        if isinstance(value, Complex):
            raise Unsupported(f"{op_name(node)}{where(node)}: the networks have no complex numbers")
        if not isinstance(value, Value):
            return value
        if value.id in sources:
            return sources[value.id]
        if value.id in builder.constants:
            return builder.constants[value.id]
        if value.id not in seen:
            seen[value.id] = Output(len(fragment.outputs))
            graph.add_output(value.id)
            fragment.outputs.append((value.dtype, value.shape))
        return seen[value.id]

    seen: dict[int, Output] = {}
    result = importer.values[node]
    fragment.result = (
        [output(value) for value in result] if isinstance(result, (list, tuple)) else output(result)
    )
    if fragment.outputs:
        graph.finish()
        fragment.model = graph.to_onnx()
    return fragment
