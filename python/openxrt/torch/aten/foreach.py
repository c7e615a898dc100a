# SPDX-License-Identifier: Apache-2.0
"""Ops on lists of tensors (aten._foreach_…), which optimizers and the clipping of gradients are
written in: the same op, tensor by tensor. They are rewritten before anything else sees them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten


def _extremum(tensors: Any, numbers: Any) -> Callable[..., torch.Tensor]:
    """Between two tensors, or a tensor and a number, which the op on one tensor has not."""

    def apply(x: torch.Tensor, other: torch.Tensor | float) -> torch.Tensor:
        return (tensors if isinstance(other, torch.Tensor) else numbers)(x, other)

    return apply


def _scaled(op: Any) -> Callable[..., torch.Tensor]:
    def apply(
        x: torch.Tensor, first: torch.Tensor, second: torch.Tensor, value: Any = 1
    ) -> torch.Tensor:
        return op(x, first, second, value=value)

    return apply


def _copy(x: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    return aten.copy(x, source)


def _norm(x: torch.Tensor, ord: Any = 2, dtype: torch.dtype | None = None) -> torch.Tensor:
    return aten.linalg_vector_norm(x, ord, dtype=dtype)


def _power_sum(x: torch.Tensor, ord: Any = 2, dtype: torch.dtype | None = None) -> torch.Tensor:
    return aten.sum(aten.pow(aten.abs(x), ord), dtype=dtype)


# Those of another name, or with other arguments, on one tensor.
_SINGLE: dict[str, Callable[..., torch.Tensor]] = {
    "addcdiv": _scaled(aten.addcdiv),
    "addcmul": _scaled(aten.addcmul),
    "clamp_max": _extremum(aten.minimum, aten.clamp_max),
    "clamp_min": _extremum(aten.maximum, aten.clamp_min),
    "copy": _copy,
    "maximum": _extremum(aten.maximum, aten.clamp_min),
    "minimum": _extremum(aten.minimum, aten.clamp_max),
    "norm": _norm,
    "powsum": _power_sum,
    "zero": aten.zeros_like,
}


def _one_by_one(
    single: Callable[..., torch.Tensor], split: bool, *arguments: Any, **keywords: Any
) -> list[torch.Tensor]:
    """`split`: the last argument is a tensor that holds one number per tensor of the lists."""
    if split:
        *rest, numbers = arguments
        arguments = (*rest, [numbers[i].item() for i in range(numbers.shape[0])])
    count = next(len(a) for a in arguments if _is_list(a))
    rows = [list(a) if _is_list(a) else [a] * count for a in arguments]
    return [single(*row, **keywords) for row in zip(*rows, strict=True)]


def _is_list(argument: object) -> bool:
    return isinstance(argument, Sequence) and not isinstance(argument, (str, bytes))


@functools.cache
def foreach_rewrites() -> dict[Any, Callable[..., list[torch.Tensor]]]:
    """By overload: those that give new tensors. In-place ones are written in these."""
    found: dict[Any, Callable[..., list[torch.Tensor]]] = {}
    for name in dir(aten):
        if not name.startswith("_foreach_") or name.endswith("_"):
            continue
        base = name.removeprefix("_foreach_")
        packet = getattr(aten, name)
        single = _SINGLE.get(base) or getattr(aten, base, None)
        if single is None:
            continue
        for overload in packet.overloads():
            if overload.endswith("out"):
                continue
            split = overload == "Tensor" and base in ("addcdiv", "addcmul")
            found[getattr(packet, overload)] = functools.partial(_one_by_one, single, split)
    return found
