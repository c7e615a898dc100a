# SPDX-License-Identifier: Apache-2.0
"""Forward and backward program of a compiled graph as one function of PyTorch's autograd.

AOTAutograd puts wrappers around the two programs that see to mutated arguments, views, tensor
subclasses, random states and symbolic sizes; on a small network they take as long as the programs.
A graph that has none of these (what AOTAutograd itself has found while tracing) needs only a node
in the autograd graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .runner import Runner


class _Function(torch.autograd.Function):
    """One call: saves what the backward program reads."""

    @staticmethod
    def forward(ctx: Any, step: CompiledStep, *arguments: torch.Tensor) -> Any:
        results = step.forward(arguments)
        ctx.step = step
        ctx.save_for_backward(*results[step.outputs :])
        if step.without_gradient:
            ctx.mark_non_differentiable(*(results[place] for place in step.without_gradient))
        return tuple(results[: step.outputs])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        step = ctx.step
        saved = ctx.saved_tensors
        if torch.compiler.is_compiling():  # PyTorch's compiled autograd traces this
            return (None, *_gradients_untraced(step, saved, gradients))
        if torch.is_grad_enabled():  # create_graph=True
            return (None, *_NoSecondGradient.apply(_LEAF, step, len(saved), *saved, *gradients))
        return (None, *step.gradients(saved, gradients))


# What is left of _Function.apply outside of functorch's transforms.
_apply = super(torch.autograd.Function, _Function).apply


class _NoSecondGradient(torch.autograd.Function):
    """The backward program where a graph of it is wanted: its results say that they want a
    gradient, and refuse when it is asked for."""

    @staticmethod
    def forward(
        ctx: Any, leaf: torch.Tensor, step: CompiledStep, count: int, *tensors: torch.Tensor
    ) -> Any:
        return tuple(step.gradients(tensors[:count], tensors[count:]))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        raise RuntimeError(
            "the backward graph of torch.compile's backend 'openxrt' has no gradient of its own "
            "(double backward); call the module without torch.compile where one is needed"
        )


@torch.compiler.disable
def _gradients_untraced(
    step: CompiledStep, saved: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]
) -> list[Any]:
    return step.gradients(saved, gradients)


# Something that wants a gradient, whatever is saved.
_LEAF = torch.empty(0, requires_grad=True)


class CompiledStep:
    """Called with the flat arguments of the graph; the results are a tuple."""

    def __init__(
        self,
        forward: Runner,
        backward: Runner,
        outputs: int,
        with_gradient: Sequence[int],
        without_edge: Sequence[int],
    ) -> None:
        """
        Args:
            forward: gives the results, and behind them what is saved.
            backward: takes what is saved, and behind it the gradients of the results; gives those
                of the arguments.
            outputs: how many results there are.
            with_gradient: those of them that have gradients.
            without_edge: arguments that want a gradient and get none.
        """
        self.forward = forward
        self.backward = backward
        self.outputs = outputs
        self.with_gradient = tuple(with_gradient)
        self.without_gradient = tuple(sorted(set(range(outputs)) - set(with_gradient)))
        self.without_edge = tuple(without_edge)

    def __call__(self, *arguments: torch.Tensor) -> Any:
        """The results for flat arguments."""
        if self.without_edge:
            changed = list(arguments)
            for place in self.without_edge:
                changed[place] = changed[place].detach()
            arguments = tuple(changed)
        if torch._C._are_functorch_transforms_active():
            return _Function.apply(self, *arguments)  # says what it lacks
        return _apply(self, *arguments)

    def gradients(
        self, saved: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]
    ) -> list[Any]:
        """One gradient, or None, per argument; `gradients` has one entry per result."""
        return self.backward([*saved, *(gradients[place] for place in self.with_gradient)])


def _is_plain(metadata: Any, arguments: int) -> bool:
    """Whether a graph with so many arguments has nothing that AOTAutograd's wrappers see to."""
    plain = "PlainTensorMeta"
    return (
        len(metadata.input_info) == arguments
        and metadata.num_mutated_inp_runtime_indices == 0
        and metadata.num_mutated_graph_handled_indices == 0
        and not metadata.indices_of_inputs_that_requires_grad_with_mutations_in_bw
        and metadata.num_outputs_aliased == 0
        and metadata.num_unsafe_view_outputs == 0
        and metadata.num_intermediate_bases == 0
        and not metadata.num_symints_saved_for_bw
        and not metadata.num_opaque_objects_saved_for_bw
        and not metadata.dynamic_outputs
        and not metadata.tokens
        and metadata.num_backward_tokens == 0
        and metadata.num_graphsafe_rng_states == 0
        and not metadata.is_rng_op_functionalized
        and metadata.grad_enabled_mutation is None
        and all(type(meta).__name__ == plain for meta in metadata.subclass_inp_meta)
        and all(type(meta).__name__ == plain for meta in metadata.subclass_tangent_meta)
        and all(issubclass(info.raw_type, torch.Tensor) for info in metadata.output_info)
    )


@dataclasses.dataclass
class TrainingGraph:
    """A graph and its program, as AOTAutograd has had it compiled."""

    module: torch.fx.GraphModule
    runner: Runner
    metadata: Any  # ViewAndMutationMeta

    def placeholders(self) -> int:
        """How many arguments the graph takes."""
        return len(self.module.graph.find_nodes(op="placeholder"))

    def results(self) -> Sequence[object]:
        """The nodes, or None, that it gives out."""
        (output,) = self.module.graph.find_nodes(op="output")
        return output.args[0]  # type: ignore[return-value]


def _join(forward: TrainingGraph, backward: TrainingGraph, arguments: int) -> CompiledStep | None:
    metadata = forward.metadata
    if metadata is None or not _is_plain(metadata, arguments):
        return None
    outputs = metadata.num_outputs
    infos = metadata.output_info
    with_gradient = [i for i, info in enumerate(infos) if info.requires_grad_for_backward]
    gradients = backward.results()
    saved = len(forward.results()) - outputs
    if (
        forward.placeholders() != arguments
        or len(gradients) != arguments
        or backward.placeholders() != saved + len(with_gradient)
        or any(info.requires_grad != info.requires_grad_for_backward for info in infos)
    ):
        return None
    without_edge = [
        place
        for place, info in enumerate(metadata.input_info)
        if gradients[place] is None and info.requires_grad and not info.is_leaf
    ]
    return CompiledStep(forward.runner, backward.runner, outputs, with_gradient, without_edge)


class Direct:
    """A compiled graph by AOTAutograd's function, and where that does nothing besides, by its two
    programs alone, once the first backward pass has had the second of them compiled."""

    def __init__(self, samples: Sequence[object]) -> None:
        """`samples` are the arguments of the graph that Dynamo hands over; called while tracing."""
        plain = (torch.Tensor, torch.nn.Parameter, torch._subclasses.FakeTensor)
        self.arguments = len(samples)
        # Hooks on what is saved may become part of the graphs.
        self.possible = (
            all(type(sample) in plain for sample in samples)
            and torch._C._autograd._top_saved_tensors_default_hooks(True) is None
        )
        self.forward: TrainingGraph | None = None
        self.backward: TrainingGraph | None = None
        self.step: CompiledStep | None = None

    def made_forward(self, graph: TrainingGraph) -> None:
        """Tells the forward graph."""
        self.forward = graph

    def made_backward(self, graph: TrainingGraph) -> None:
        """Tells the backward graph."""
        self.backward = graph

    def function(self, wrapped: Callable[..., Any]) -> Callable[..., Any]:
        """`wrapped` (AOTAutograd's) or what may stand for it."""
        if not self.possible or self.forward is None:
            return wrapped

        def call(*arguments: Any) -> Any:
            if self.step is not None:
                return self.step(*arguments)
            if self.possible and self.forward is not None and self.backward is not None:
                self.step = _join(self.forward, self.backward, self.arguments)
                self.possible = self.step is not None
                self.forward = self.backward = None  # the graphs are needed no longer
                return call(*arguments)
            return wrapped(*arguments)

        return call
