# SPDX-License-Identifier: Apache-2.0
"""The backend "openxrt" of torch.compile, for inference and training.

>>> model = torch.compile(model, backend="openxrt", options={"engine": ["openvino", "native"]})

PyTorch traces, splits at graph breaks and derives the backward graph; what it hands over, forward
and backward alike, is imported and run by the engines.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

from .importer import import_fx
from .runner import FrozenWhileUnchanged, Runner


def _decompositions() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import core_aten_decompositions

    return core_aten_decompositions()


def _static_positions(count: int) -> list[int]:
    """Arguments that are parameters and buffers, as PyTorch's tracing has found them."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    positions = getattr(metadata, "static_input_indices", None) or []
    return [position for position in positions if position < count]


@dataclasses.dataclass
class _Compiler:
    """Turns one FX graph into a callable; `freeze` builds parameters into the graph."""

    options: Mapping[str, Any]
    freeze: bool

    def __call__(
        self, module: torch.fx.GraphModule, samples: Sequence[object]
    ) -> Callable[..., object]:
        static = _static_positions(len(samples)) if self.freeze else []
        options = dict(self.options)

        def live() -> Runner:
            return Runner(import_fx(module, samples), options)

        if not static:
            runner = live()
            return make_boxed_func(lambda *arguments: runner(arguments))

        choice: FrozenWhileUnchanged | None = None

        def run(*arguments: object) -> list[object]:
            nonlocal choice
            weights = [arguments[position] for position in static]
            if choice is None:
                constants = dict(zip(static, weights, strict=True))

                def frozen() -> Runner:
                    return Runner(import_fx(module, samples, constants=constants), options)

                choice = FrozenWhileUnchanged(frozen, live, weights)
            return choice.runner(weights)[0](arguments)

        return make_boxed_func(run)


def openxrt_backend(
    module: torch.fx.GraphModule,
    samples: Sequence[torch.Tensor],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., object]:
    """torch.compile's entry point; `options` are the arguments of openxrt.load()."""
    chosen = dict(options or {})
    freeze = bool(chosen.pop("freeze", True))
    backend = aot_autograd(
        fw_compiler=_Compiler(chosen, freeze=False),
        bw_compiler=_Compiler(chosen, freeze=False),
        inference_compiler=_Compiler(chosen, freeze=freeze),
        decompositions=_decompositions(),
    )
    return backend(module, samples)
