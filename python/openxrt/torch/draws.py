# SPDX-License-Identifier: Apache-2.0
"""Random numbers that PyTorch draws for a program, which takes them as inputs.

So torch.manual_seed() decides them, a checkpoint that keeps the generator's state computes the same
again, and they are the same on every engine. Bodies of loops and branches, which draw as often as
they run, leave it to their engine's generator, as does a graph that is to run without PyTorch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .sizes import symbol_of

# By the op that would draw them.
_FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "RandomNormalLike": torch.randn,
    "RandomUniformLike": torch.rand,
}


@dataclasses.dataclass(frozen=True)
class _Draw:
    function: Callable[..., torch.Tensor]
    shape: tuple[int | torch.SymInt, ...]
    dtype: torch.dtype
    device: torch.device


def _expression(size: torch.SymInt) -> Any:
    return size.node.expr


class Draws:
    """The draws of one graph, in the order of its inputs for them."""

    def __init__(self) -> None:
        self._draws: list[_Draw] = []
        # Per symbol the argument that tells it, and the dimension; None: it is an integer.
        self._places: dict[Any, tuple[int, int | None]] = {}

    def __bool__(self) -> bool:
        return bool(self._draws)

    def note_argument(self, position: int, sample: object) -> None:
        """What the graph's argument was in the trace."""
        if isinstance(sample, torch.Tensor):
            for dim, size in enumerate(sample.shape):
                self._note(size, (position, dim))
        else:
            self._note(sample, (position, None))

    def _note(self, size: object, place: tuple[int, int | None]) -> None:
        symbol = symbol_of(size)
        if symbol is not None:
            self._places.setdefault(symbol, place)

    def takes(self, shape: Sequence[int | torch.SymInt] | None) -> bool:
        """Whether the arguments of a run tell this shape."""
        return shape is not None and all(
            isinstance(size, int) or _expression(size).free_symbols <= self._places.keys()
            for size in shape
        )

    def add(
        self,
        op: str,
        shape: Sequence[int | torch.SymInt],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """One more."""
        self._draws.append(_Draw(_FUNCTIONS[op], tuple(shape), dtype, device))

    def __call__(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        """The numbers for a run with these arguments."""
        sizes = {
            symbol: arguments[position] if dim is None else arguments[position].shape[dim]
            for symbol, (position, dim) in self._places.items()
        }
        return [
            draw.function(
                [
                    size if isinstance(size, int) else int(_expression(size).xreplace(sizes))
                    for size in draw.shape
                ],
                dtype=draw.dtype,
                device=draw.device,
            )
            for draw in self._draws
        ]
