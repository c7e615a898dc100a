# SPDX-License-Identifier: Apache-2.0
"""Scaled dot product attention as PyTorch runs it on the CPU, and its gradient."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..._core import Unsupported
from ..builder import Builder, Int, Value
from ..registry import lowering
from .masks import may_mask_rows, without_masked_rows


def _scores(
    b: Builder,
    query: Value,
    key: Value,
    is_causal: bool,
    mask: Value | None,
    scale: float | None,
) -> tuple[Value, float]:
    """scale · Q Kᵀ + mask, which is no bool, and the scale."""
    (width,) = query.static_shape("attention", -1)
    factor = 1.0 / math.sqrt(width) if scale is None else float(scale)
    order = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
    scaled = b.op("Mul", query, b.scalar(factor, query.dtype), shape=query.shape)
    scores = b.op("MatMul", scaled, b.transpose(key, order), rank=query.rank)
    if mask is not None:
        scores = b.op("Add", scores, mask, rank=query.rank)
    if is_causal:
        scores = b.op("Where", _causal(b, query, key), scores, b.scalar(-math.inf, query.dtype),
                      dtype=query.dtype, rank=query.rank)  # fmt: skip
    return scores, factor


def _wide(b: Builder, *values: Value | None) -> list[Any]:
    """Halves in float32, in which PyTorch's kernel has scores and sums."""
    halves = (torch.bfloat16, torch.float16)
    return [b.cast(x, torch.float32) if x is not None and x.dtype in halves else x for x in values]


def _added(b: Builder, mask: Value | None, dtype: torch.dtype) -> Value | None:
    """A mask as what is added to scores."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    ends = [b.scalar(end, dtype) for end in (0.0, -math.inf)]
    return b.op("Where", mask, *ends, dtype=dtype, rank=mask.rank, shape=mask.shape)


def _causal(b: Builder, query: Value, key: Value) -> Value:
    """True where the column is not beyond the row."""

    def along(size: Int) -> Value:
        end = b.scalar(size, torch.int64) if isinstance(size, int) else size
        return b.op("Range", b.scalar(0, torch.int64), end, b.scalar(1, torch.int64), rank=1)

    rows, columns = along(b.dim_size(query, -2)), along(b.dim_size(key, -2))
    return b.op("GreaterOrEqual", b.unsqueeze(rows, 1), b.unsqueeze(columns, 0),
                dtype=torch.bool, rank=2)  # fmt: skip


def _repeated(b: Builder, x: Value, like: Value) -> Value:
    """Keys or values whose heads (dimension −3) serve several of the queries' each, repeated."""
    heads, wanted = x.static_size(-3, "attention"), like.static_size(-3, "attention")
    if heads == wanted:
        return x
    sizes = [b.dim_size(x, dim) for dim in range(x.rank)]
    grouped = [*sizes[:-2], wanted // heads, *sizes[-2:]]
    wide = b.op("Expand", b.unsqueeze(x, x.rank - 2), b.vector(grouped), rank=x.rank + 1)
    shape = None if x.shape is None else (*x.shape[:-3], wanted, *x.shape[-2:])
    flat = b.reshape(wide, [*sizes[:-3], wanted, *sizes[-2:]])
    return Value(flat.id, flat.dtype, shape, x.rank)


def _summed(b: Builder, gradient: Value, like: Value, wanted: Value) -> Value:
    """The gradient of what _repeated() made of `like` for the heads of `wanted`."""
    heads, given = like.static_size(-3, "attention"), wanted.static_size(-3, "attention")
    if heads == given:
        return gradient
    sizes = [b.dim_size(like, dim) for dim in range(like.rank)]
    grouped = b.reshape(gradient, [*sizes[:-2], given // heads, *sizes[-2:]])
    return b.reduce("ReduceSum", grouped, [like.rank - 2], False)


@lowering("aten._scaled_dot_product_flash_attention_for_cpu.default")
def attention(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> list[Value | None]:
    if dropout_p:
        raise Unsupported("attention with dropout inside")
    given = query.dtype
    query, key, value, attn_mask = _wide(b, query, key, value, attn_mask)
    attn_mask = _added(b, attn_mask, query.dtype)
    key, value = _repeated(b, key, query), _repeated(b, value, query)
    scores, _ = _scores(b, query, key, is_causal, attn_mask, scale)
    weights = b.op("Softmax", scores, axis=-1, rank=query.rank)
    out = b.op("MatMul", weights, value, rank=query.rank)
    # Rows that are masked as a whole give zeros, and so does their gradient.
    mask_node = None if b.node is None else b.node.kwargs.get("attn_mask")
    empty_rows = attn_mask if may_mask_rows(b, mask_node) else None
    if empty_rows is not None:
        out = without_masked_rows(b, out, empty_rows)
    out = b.cast(out, given)
    if 1 not in b.used:
        return [out, None]
    logsumexp = b.reduce("ReduceLogSumExp", scores, [-1], False)
    if empty_rows is not None:
        logsumexp = without_masked_rows(b, logsumexp, empty_rows, keepdim=False)
    return [out, logsumexp]


@lowering("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
def attention_backward(
    b: Builder,
    gradient: Value,
    query: Value,
    key: Value,
    value: Value,
    out: Value,
    logsumexp: Value,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> list[Value]:
    rank, given = query.rank, query.dtype
    gradient, query, key, value, out, attn_mask = _wide(
        b, gradient, query, key, value, out, attn_mask
    )
    attn_mask = _added(b, attn_mask, query.dtype)
    few_keys, few_values = key, value
    key, value = _repeated(b, key, query), _repeated(b, value, query)
    flip = [*range(rank - 2), rank - 1, rank - 2]
    scores, factor = _scores(b, query, key, is_causal, attn_mask, scale)
    shifted = b.op("Sub", scores, b.unsqueeze(logsumexp, logsumexp.rank), rank=rank)
    weights = b.op("Exp", shifted, rank=rank)
    to_value = b.op("MatMul", b.transpose(weights, flip), gradient, rank=rank)
    to_weights = b.op("MatMul", gradient, b.transpose(value, flip), rank=rank)
    along = b.reduce("ReduceSum", b.op("Mul", gradient, out, rank=rank), [-1], True)
    to_scores = b.op("Mul", weights, b.op("Sub", to_weights, along, rank=rank), rank=rank)
    to_scores = b.op("Mul", to_scores, b.scalar(factor, query.dtype), rank=rank)
    to_query = b.op("MatMul", to_scores, key, rank=rank)
    to_key = b.op("MatMul", b.transpose(to_scores, flip), query, rank=rank)
    summed = [_summed(b, to_key, few_keys, query), _summed(b, to_value, few_values, query)]
    return [b.cast(x, given) for x in (to_query, *summed)]
