# SPDX-License-Identifier: Apache-2.0
"""The backend "openxrt" of torch.compile, for inference and training.

>>> model = torch.compile(model, backend="openxrt", options={"engine": ["openvino", "native"]})

PyTorch traces, splits at graph breaks and derives the backward graph; what it hands over, forward
and backward alike, is imported and run by the engines.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from .._core import InvalidArgument, Unsupported
from .aten.decompositions import decompositions
from .fallback import refused_nodes, split
from .importer import import_fx
from .joint_graph import partition
from .per_shape import PerShape, is_symbolic
from .runner import FrozenWhileUnchanged, Memory, Runner, Runners
from .sizes import ranges_of_symbols
from .tracing import attention_as_products


def _static_positions(count: int) -> list[int]:
    """Arguments that are parameters and buffers, as PyTorch's tracing has found them."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    positions = getattr(metadata, "static_input_indices", None) or []
    return [position for position in positions if position < count]


@dataclasses.dataclass
class _Compiler:
    """Turns one FX graph into a callable; `freeze` builds parameters into the graph, `training`
    is for forward and backward graphs."""

    make: Callable[..., Runner]
    freeze: bool
    fallback: bool
    training: bool = False
    backward: bool = False

    def _results_of_users(self, module: torch.fx.GraphModule) -> int:
        """How many of a graph's first results PyTorch's code gets to see, and not only the backward
        graph."""
        if self.backward:
            return 0
        if not self.training:
            (output,) = module.graph.find_nodes(op="output")
            return len(output.args[0])  # type: ignore[arg-type]
        context = torch._guards.TracingContext.try_get()
        metadata = context.fw_metadata if context is not None else None
        return metadata.num_forward_returns if metadata is not None else 0

    def __call__(
        self, module: torch.fx.GraphModule, samples: Sequence[object]
    ) -> Callable[..., object]:
        if self.fallback and (refused := refused_nodes(module, samples)):
            parts = split(module, refused, self.make)
            return make_boxed_func(lambda *arguments: parts(*arguments))
        static = _static_positions(len(samples)) if self.freeze else []
        laid_out = self._results_of_users(module)
        ranges = {} if self.training else ranges_of_symbols(samples)

        def live() -> Runner:
            return self.make(
                import_fx(module, samples, laid_out=laid_out, draws_outside=True), ranges=ranges
            )

        if not static:
            try:
                runner = live()
            except Unsupported:
                if not is_symbolic(samples):
                    raise
                programs = PerShape(module, samples, self.make)
                return make_boxed_func(lambda *arguments: programs(arguments))
            return make_boxed_func(lambda *arguments: runner(arguments))

        if is_symbolic(samples):
            try:
                import_fx(module, samples)
            except Unsupported:  # weights stay inputs
                specialised = PerShape(module, samples, self.make)
                return make_boxed_func(lambda *arguments: specialised(arguments))

        known: list[torch.Tensor] = []
        versions: list[int] = []
        memory: list[Memory] = []

        def frozen() -> Runner:
            constants = dict(zip(static, known, strict=True))
            imported = import_fx(
                module, samples, constants=constants, laid_out=laid_out, draws_outside=True
            )
            return self.make(imported, ranges=ranges)

        choice = FrozenWhileUnchanged(frozen, live)

        def run(*arguments: object) -> list[object]:
            weights: list[torch.Tensor] = [arguments[position] for position in static]  # type: ignore[misc]
            if not known:
                known.extend(weights)
                # PyTorch counts no writes to what was made in torch.inference_mode().
                versions.extend(-1 if w.is_inference() else w._version for w in weights)
                memory.append(Memory(weights))

            def unchanged() -> bool:
                return all(
                    weight is first and version >= 0 and weight._version == version
                    for weight, first, version in zip(weights, known, versions, strict=True)
                ) and all(watched.unchanged() for watched in memory)

            return choice.runner(unchanged)[0](arguments)

        return make_boxed_func(run)


def openxrt_backend(
    module: torch.fx.GraphModule,
    samples: Sequence[torch.Tensor],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    runners: Runners | None = None,
) -> Callable[..., object]:
    """torch.compile's entry point.

    `options` are the arguments of openxrt.load(), and two of its own: freeze=False keeps weights
    as inputs from the start; fallback=True lets PyTorch run the ops that cannot be imported, which
    otherwise are an error. `runners` is for XRTModule, which lists what was made.

    Where sizes are symbols (dynamic=True), their bounds are the program's `ranges`: those of
    torch._dynamo.mark_dynamic(x, 0, min=1, max=64), for example.

    Engines are asked for a training step where PyTorch derives a backward graph.
    """
    if mode not in (None, "default"):
        raise InvalidArgument(
            f"torch.compile(mode={mode!r}) is for PyTorch's own backend: 'openxrt' takes options="
            "{...}, for example {'engine': 'auto', 'auto_mode': 'full'}"
        )
    chosen = dict(options or {})
    freeze, fallback = chosen.pop("freeze", True), chosen.pop("fallback", False)
    for name, value in (("freeze", freeze), ("fallback", fallback)):
        if not isinstance(value, bool):
            raise InvalidArgument(f"option '{name}' is True or False, not {value!r}")
    runners = runners or Runners()
    make = functools.partial(runners.make, options=chosen)
    make_training = functools.partial(runners.make, options={**chosen, "training": True})
    backend = aot_autograd(
        fw_compiler=_Compiler(make_training, False, fallback, training=True),
        bw_compiler=_Compiler(make_training, False, fallback, training=True, backward=True),
        inference_compiler=_Compiler(make, freeze, fallback),
        decompositions=decompositions(),
        partition_fn=partition,
    )
    with attention_as_products(samples):
        return backend(module, samples)
