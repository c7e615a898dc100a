# SPDX-License-Identifier: Apache-2.0
"""One lowering per ATen op."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from .._core import InvalidArgument

# Called with a Builder and the arguments of the ATen op, tensors and symbolic integers as Values.
# Returns a Value, or a sequence with one (or None, if nobody reads it) per output.
Lowering: TypeAlias = Callable[..., object]

_lowerings: dict[str, Lowering] = {}
# PyTorch functions of ops that have lowerings, by the op that they stand for.
_rewrites: dict[str, Callable[..., object]] = {}


def lowering(*ops: str, override: bool = False) -> Callable[[Lowering], Lowering]:
    """Registers a function as the lowering of ATen ops ("aten.add.Tensor").

    Raises:
        InvalidArgument: the op has a lowering already and `override` is not set.
    """

    def register(function: Lowering) -> Lowering:
        for op in ops:
            if op in _lowerings and not override:
                raise InvalidArgument(
                    f"{op} has a lowering already; pass override=True to replace it"
                )
            _lowerings[op] = function
            _rewrites.pop(op, None)  # else the op would be gone before a lowering sees it
        return function

    return register


# Lowerings of ops with a complex operand or result, which is two real values here.
_complex_lowerings: dict[str, Lowering] = {}


def complex_lowering(*ops: str) -> Callable[[Lowering], Lowering]:
    """Registers a function as the lowering of ATen ops on complex numbers."""

    def register(function: Lowering) -> Lowering:
        for op in ops:
            if op in _complex_lowerings:
                raise InvalidArgument(f"{op} has a lowering for complex numbers already")
            _complex_lowerings[op] = function
        return function

    return register


def find_complex(op: str) -> Lowering | None:
    """The lowering of an ATen op on complex numbers, or None."""
    return _complex_lowerings.get(op)


def find(op: str) -> Lowering | None:
    """The lowering of an ATen op, or None."""
    return _lowerings.get(op)


def lowered_ops() -> list[str]:
    """The ATen ops that have a lowering, sorted."""
    return sorted(_lowerings)


def imported_ops() -> list[str]:
    """The ATen ops that have a lowering, one on complex numbers, or a rewrite; sorted."""
    return sorted({*_lowerings, *_complex_lowerings, *_rewrites})


def rewriting(*ops: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Registers a function of PyTorch as what stands for ATen ops wherever they are traced.

    It may return NotImplemented, which leaves the op as it is.
    """

    def register(function: Callable[..., object]) -> Callable[..., object]:
        for op in ops:
            if op in _rewrites:
                raise InvalidArgument(f"{op} is rewritten already")
            _rewrites[op] = function
        return function

    return register


def rewrites() -> dict[str, Callable[..., object]]:
    """The functions that rewriting() was given."""
    return dict(_rewrites)
