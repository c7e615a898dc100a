# SPDX-License-Identifier: Apache-2.0
"""Graphs with symbolic sizes, an op of which can be imported with known sizes only."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.fx.experimental.proxy_tensor import make_fx

from .aten.decompositions import decompositions
from .importer import Imported, import_fx
from .runner import Runner

_MOST_PROGRAMS = 32


def is_symbolic(samples: Sequence[object]) -> bool:
    """Whether a size among a graph's inputs is a symbol."""
    return any(
        isinstance(x, (torch.SymInt, torch.SymFloat))
        or (isinstance(x, torch.Tensor) and any(isinstance(n, torch.SymInt) for n in x.shape))
        for x in samples
    )


def _hint(number: object) -> object:
    """What a symbol was when it was traced."""
    return number.node.hint if isinstance(number, (torch.SymInt, torch.SymFloat)) else number


def _like(x: object, mode: FakeTensorMode) -> object:
    """A tensor of the same type without memory, of sizes that are known."""
    if not isinstance(x, torch.Tensor):
        return _hint(x)
    sizes, strides = ([_hint(n) for n in numbers] for numbers in (x.size(), x.stride()))
    with mode, torch.no_grad():
        return torch.empty_strided(sizes, strides, dtype=x.dtype)


class PerShape:
    """A program for each combination of sizes, made when it first comes; the last 32 are kept."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        samples: Sequence[object],
        make: Callable[[Imported], Runner],
    ) -> None:
        self.module = module
        self.make = make
        self.runners: OrderedDict[tuple[object, ...], Runner] = OrderedDict()
        self._make(samples)  # what cannot be imported at all is refused now

    def _make(self, arguments: Sequence[object]) -> Runner:
        mode = FakeTensorMode()
        with unset_fake_temporarily(), torch._guards.tracing(None):
            known = [_like(x, mode) for x in arguments]
            with mode:
                graph = make_fx(self.module, decomposition_table=decompositions())(*known)
            return self.make(import_fx(graph, known, keep_views=True, draws_outside=True))

    def __call__(self, arguments: Sequence[object]) -> list[object]:
        """The results for flat arguments."""
        key = tuple(tuple(x.shape) if isinstance(x, torch.Tensor) else x for x in arguments)
        runner = self.runners.get(key)
        if runner is None:
            runner = self.runners[key] = self._make(arguments)
            if len(self.runners) > _MOST_PROGRAMS:
                self.runners.popitem(last=False)
        else:
            self.runners.move_to_end(key)
        return runner(arguments)
