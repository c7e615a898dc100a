# SPDX-License-Identifier: Apache-2.0
"""Matrix products by groups of rows, as mixtures of experts compute them."""

from __future__ import annotations

import torch

from ..._core import Unsupported
from ..builder import Builder, Int, Value
from ..registry import lowering


def _bounds(b: Builder, ends: Value, groups: int) -> list[Int]:
    """0 and where each group ends."""
    wide = b.cast(ends, torch.int64)
    return [0, *(b.squeeze(b.slice(wide, 0, i, i + 1), 0) for i in range(groups))]


def _rows(b: Builder, x: Value, bounds: list[Int], group: int) -> Value:
    return b.slice(x, 0, bounds[group], bounds[group + 1])


def _expert(b: Builder, weight: Value, group: int) -> Value:
    return b.squeeze(b.slice(weight, 0, group, group + 1), 0)


def _by_rows(b: Builder, x: Value, weight: Value, ends: Value) -> Value:
    """(S, K) by (G, K, N): rows of group g times weight g; those past the last group are 0."""
    groups = weight.static_size(0, "a product by groups")
    bounds = _bounds(b, ends, groups)
    parts = [
        b.op("MatMul", _rows(b, x, bounds, g), _expert(b, weight, g), rank=2) for g in range(groups)
    ]
    left = b.op("Sub", *(b.operand(n, torch.int64) for n in (b.dim_size(x, 0), bounds[-1])), rank=0)
    size = b.vector([left, b.dim_size(weight, 2)])
    parts.append(b.op("Expand", b.scalar(0.0, x.dtype), size, rank=2))
    return b.op("Concat", *parts, axis=0, rank=2)


def _by_columns(b: Builder, x: Value, y: Value, ends: Value, groups: int) -> Value:
    """(K, S) by (S, N), a matrix per group of S: (G, K, N)."""
    bounds = _bounds(b, ends, groups)
    parts = []
    for g in range(groups):
        product = b.op(
            "MatMul",
            b.slice(x, 1, bounds[g], bounds[g + 1]),
            _rows(b, y, bounds, g),
            rank=2,
        )
        parts.append(b.unsqueeze(product, 0))
    return b.op("Concat", *parts, axis=0, rank=3)


@lowering("aten._grouped_mm.default")
def grouped_mm(
    b: Builder,
    x: Value,
    y: Value,
    offs: Value | None = None,
    bias: Value | None = None,
    out_dtype: torch.dtype | None = None,
) -> Value:
    if bias is not None:
        raise Unsupported("a product by groups with a bias")
    if offs is None:
        result = b.op("MatMul", x, y, rank=3)
    elif x.rank == 2 and y.rank == 3:
        result = _by_rows(b, x, y, offs)
    elif x.rank == 2 and y.rank == 2:
        result = _by_columns(b, x, y, offs, offs.static_size(0, "a product by groups"))
    else:
        raise Unsupported(f"a product by groups of ranks {x.rank} and {y.rank}")
    return result if out_dtype is None else b.cast(result, out_dtype)


@lowering("transformers.grouped_mm_fallback.default")
def experts(b: Builder, x: Value, weight: Value, offs: Value) -> Value:
    """What transformers calls where PyTorch's own op does not take the dtype."""
    return _by_rows(b, x, weight, offs)


@lowering("transformers.grouped_mm_fallback_backward.default")
def experts_backward(
    b: Builder, x: Value, weight: Value, offs: Value, gradient: Value
) -> list[Value]:
    groups = weight.static_size(0, "a product by groups")
    to_x = _by_rows(b, gradient, b.transpose(weight, [0, 2, 1]), offs)
    return [to_x, _by_columns(b, b.transpose(x, [1, 0]), gradient, offs, groups)]
