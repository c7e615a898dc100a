# SPDX-License-Identifier: Apache-2.0
"""Rewrites of ATen ops into others: PyTorch's own, as many as the importer wants, and ours."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table

from ..._core import Unsupported
from ..registry import rewrites
from .foreach import foreach_rewrites

# Beyond Core ATen's list: PyTorch writes these in ops that have lowerings.
_FURTHER = (
    "_batch_norm_with_update_functional.default",
    "as_strided_copy.default",
    "dist.default",
    "ldexp.Tensor",
    "narrow_copy.default",
    "new_empty_strided.default",
    "permute_copy.default",
    "tril_indices.default",
    "triu_indices.default",
    "unbind_copy.int",
    "view_copy.default",
)
# The lowerings keep what PyTorch's rewrites would lose: the log-sum-exp that the gradient reads and
# strides of the result that a later view relies on, which mask may leave a row without scores, that
# a gradient passes where Relu's result is
# positive (no mask is kept), and that a few sums over the batch are the gradient of its
# normalisation.
_WHOLE = (
    "_safe_softmax.default",
    "_scaled_dot_product_flash_attention_for_cpu.default",
    "native_batch_norm_backward.default",
    "threshold_backward.default",
    "upsample_bicubic2d.vec",
    "upsample_linear1d.vec",
    "upsample_trilinear3d.vec",
)


def _overload(name: str) -> Any:
    """An op by its name; None where this release of PyTorch has none of that name."""
    op, _, overload = name.removeprefix("aten.").partition(".")
    return getattr(getattr(torch.ops.aten, op, None), overload, None)


def mend(table: dict[Any, Callable[..., Any]]) -> None:
    """Puts right what is wrong in PyTorch's own rewrites: the last states of an LSTM have a
    dimension too many in 2.11."""
    lstm = torch.ops.aten.lstm.input
    rewrite = table.get(lstm)
    if rewrite is None:
        return

    def rewritten(x: Any, states: Any, *args: Any, **kwargs: Any) -> Any:
        y, *last = rewrite(x, states, *args, **kwargs)
        return y, *(
            new if new.dim() == old.dim() else new.reshape(old.shape)
            for new, old in zip(last, states, strict=True)
        )

    table[lstm] = rewritten


def _table(standard: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    table = dict(standard)
    for name in _FURTHER:
        op = _overload(name)
        if op in decomposition_table:
            table[op] = decomposition_table[op]
    table.update(foreach_rewrites())
    table.update({_overload(name): function for name, function in rewrites().items()})
    for name in _WHOLE:
        table.pop(_overload(name), None)
    mend(table)
    table.pop(None, None)  # rewrites of ops that this release lacks
    return table


def _written_windows(
    windows: torch.Tensor, sizes: Sequence[int], dim: int, size: int, step: int
) -> torch.Tensor:
    """What PyTorch's functional form makes of a tensor whose windows (Tensor.unfold) are written:
    their sum, which is the tensor where each element is in one window."""
    if size != step or sizes[dim] % size:
        raise Unsupported(
            "writing to windows (Tensor.unfold) that leave elements out, which PyTorch "
            "traces wrong; write to a slice"
        )
    rewrite = decomposition_table[torch.ops.aten.unfold_backward.default]
    return rewrite(windows, sizes, dim, size, step)


# PyTorch looks through all of its ops to make one of these, which takes 0.1 s.
@functools.cache
def _core() -> dict[Any, Callable[..., Any]]:
    return dict(core_aten_decompositions())


@functools.cache
def _exported() -> dict[Any, Callable[..., Any]]:
    return dict(torch.export.default_decompositions())


def decompositions() -> dict[Any, Callable[..., Any]]:
    """For AOTAutograd."""
    return _table(_core())


def export_decompositions() -> dict[Any, Callable[..., Any]]:
    """For the run_decompositions() of an ExportedProgram, which has no gradients."""
    table = _table(_exported())
    table[torch.ops.aten.unfold_backward.default] = _written_windows
    return table
