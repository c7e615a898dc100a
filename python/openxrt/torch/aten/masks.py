# SPDX-License-Identifier: Apache-2.0
"""Masks of attention, and the rows of scores that they mask as a whole."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..._core import Unsupported
from ..builder import Builder, Value
from ..registry import lowering
from .reductions import softmax

# A mask with more elements is not made to look at it.
_MOST = 2**24
# What leaves a row of scores as it is: finite numbers.
_MOVES = {
    torch.ops.aten.view.default,
    torch.ops.aten._unsafe_view.default,
    torch.ops.aten.expand.default,
    torch.ops.aten.clone.default,
    torch.ops.aten._to_copy.default,
    torch.ops.aten.mul.Scalar,
}
_PRODUCTS = {torch.ops.aten.bmm.default, torch.ops.aten.mm.default}


class _NotConstant(Exception):
    """A value depends on the arguments."""


def _constant(b: Builder, x: Any, known: dict[torch.fx.Node, Any]) -> Any:
    if isinstance(x, (list, tuple)):
        return [_constant(b, item, known) for item in x]
    if not isinstance(x, torch.fx.Node):
        return x
    if x in known:
        return known[x]
    value = b.values.get(x)
    sample = x.meta.get("val")
    if isinstance(value, Value) and value.id in b.known:
        known[x] = b.known[value.id]
    elif (
        value is not None and not isinstance(value, Value) and not isinstance(sample, torch.Tensor)
    ):
        known[x] = value
    elif (
        x.op == "call_function"
        and isinstance(x.target, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded not in x.target.tags
        and isinstance(sample, torch.Tensor)
        and all(isinstance(n, int) for n in sample.shape)
        and sample.numel() <= _MOST
    ):
        arguments = _constant(b, x.args, known)
        named = {name: _constant(b, item, known) for name, item in x.kwargs.items()}
        if "device" in named:
            named["device"] = "cpu"
        known[x] = x.target(*arguments, **named)
    else:
        raise _NotConstant
    return known[x]


def may_mask_rows(b: Builder, mask: torch.fx.Node | None) -> bool:
    """Whether a mask, −∞ or False where it masks, may mask all of a row: what is known of it says
    no, or depends on the arguments."""
    if mask is None:
        return False
    try:
        with torch.no_grad():
            found = _constant(b, mask, {})
            away = ~found if found.dtype == torch.bool else found == -math.inf
            return bool(away.all(-1).any())
    except _NotConstant:
        return True


def _masked(b: Builder, scores: Value) -> Value:
    """True for the rows of scores, or of a mask that is added to them, which are −∞ throughout."""
    largest = b.reduce("ReduceMax", scores, [-1], True)
    end = b.scalar(-math.inf, scores.dtype)
    return b.op("Equal", largest, end, dtype=torch.bool, shape=largest.shape, rank=scores.rank)


def without_masked_rows(b: Builder, x: Value, mask: Value, keepdim: bool = True) -> Value:
    """`x`, which has a row for each of the mask's, with zeros for the masked ones."""
    masked = _masked(b, mask)
    if not keepdim:
        masked = b.squeeze(masked, masked.rank - 1)
    zero = b.scalar(0.0, x.dtype)
    return b.op("Where", masked, zero, x, dtype=x.dtype, rank=x.rank, shape=x.shape)


def _mask_of(scores: Any) -> Any:
    """What a node adds to a product as its mask; None: nothing; the node itself where it is
    something else."""
    node = scores
    while isinstance(node, torch.fx.Node) and node.target in _MOVES:
        node = node.args[0]
    if not isinstance(node, torch.fx.Node):
        return scores
    if node.target in _PRODUCTS:
        return None
    if node.target is torch.ops.aten.add.Tensor and _mask_of(node.args[0]) is None:
        return node.args[1]
    return scores


@lowering("aten._safe_softmax.default")
def safe_softmax(b: Builder, x: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
    """Softmax, but zeros for rows that are masked as a whole."""
    if x.rank and dim % x.rank != x.rank - 1:
        raise Unsupported("_safe_softmax of another dimension than the last")
    node = b.node.args[0] if b.node is not None else None
    x = b.cast(x, dtype or x.dtype)
    y = softmax(b, x, dim)
    if not may_mask_rows(b, _mask_of(node)):
        return y
    return without_masked_rows(b, y, x)
