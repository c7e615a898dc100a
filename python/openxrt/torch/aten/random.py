# SPDX-License-Identifier: Apache-2.0
"""Random tensors. PyTorch draws the numbers anew for every run (draws.py), or the engine does, by a
generator of its own: results agree with eager's in distribution, not number for number."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..._core import Unsupported
from ..builder import Builder, Int, Operand, Value
from ..registry import lowering
from .creation import filled
from .pointwise import add, mul


def draw(b: Builder, op: str, like: Value, dtype: torch.dtype) -> Value:
    """Random numbers in the shape of `like`: RandomUniformLike over [0, 1), or RandomNormalLike."""
    if b.draws is not None and b.draws.takes(like.shape):
        assert like.shape is not None
        b.draws.add(op, like.shape, dtype, b.device())
        return b.input(f"{b.name}_{op}", dtype, like.shape)
    ids = b.graph.add_node(
        op, [like.id], [f"{b.name}_{op}"], {"dtype": b.onnx_dtype(dtype)}, "", b.name
    )
    return Value(ids[0], dtype, like.shape, like.rank)


def _result(b: Builder, size: Sequence[Int], dtype: torch.dtype) -> Value:
    """A tensor in the shape of the op's result."""
    return _shaped(b, filled(b, size, 0, dtype))


def _shaped(b: Builder, like: Value) -> Value:
    """A value that has the shape of the op's result."""
    known = b.out[0] if b.out else None
    return like if known is None else Value(like.id, like.dtype, known[1])


@lowering("aten.rand.default", "aten.rand.generator")
def rand(
    b: Builder, size: Sequence[Int], *, dtype: torch.dtype | None = None, **_: object
) -> Value:
    wanted = dtype or torch.get_default_dtype()
    return draw(b, "RandomUniformLike", _result(b, size, wanted), wanted)


@lowering("aten.randn.default", "aten.randn.generator")
def randn(
    b: Builder, size: Sequence[Int], *, dtype: torch.dtype | None = None, **_: object
) -> Value:
    wanted = dtype or torch.get_default_dtype()
    return draw(b, "RandomNormalLike", _result(b, size, wanted), wanted)


@lowering("aten.rand_like.default")
def rand_like(b: Builder, x: Value, *, dtype: torch.dtype | None = None, **_: object) -> Value:
    return draw(b, "RandomUniformLike", x, dtype or x.dtype)


@lowering("aten.randn_like.default")
def randn_like(b: Builder, x: Value, *, dtype: torch.dtype | None = None, **_: object) -> Value:
    return draw(b, "RandomNormalLike", x, dtype or x.dtype)


@lowering("aten.bernoulli.default", "aten.bernoulli.p")
def bernoulli(b: Builder, x: Value, p: float | None = None, **_: object) -> Value:
    threshold = x if p is None else b.scalar(float(p), x.dtype)
    drawn = draw(b, "RandomUniformLike", x, x.dtype)
    return b.cast(b.op("Less", drawn, threshold, dtype=torch.bool, shape=x.shape), x.dtype)


@lowering("aten.native_dropout.default")
def native_dropout(b: Builder, x: Value, p: float, train: bool | None) -> list[Value | None]:
    if train is False or p == 0:
        ones = b.op("Equal", x, x, dtype=torch.bool, shape=x.shape) if 1 in b.used else None
        return [x, ones]
    drawn = draw(b, "RandomUniformLike", x, torch.float32)
    kept = b.op(
        "GreaterOrEqual", drawn, b.scalar(float(p), torch.float32), dtype=torch.bool, shape=x.shape
    )
    scale = b.scalar(0.0 if p == 1 else 1.0 / (1.0 - p), x.dtype)
    mask = b.op("Mul", b.cast(kept, x.dtype), scale, shape=x.shape)
    return [b.op("Mul", x, mask, shape=x.shape), kept]


@lowering("aten.dropout.default")
def dropout(b: Builder, x: Value, p: float, train: bool) -> Value:
    result = native_dropout(b, x, p, train)[0]
    assert result is not None
    return result


@lowering("aten.randperm.default")
def randperm(b: Builder, n: Int, *, dtype: torch.dtype | None = None, **_: object) -> Value:
    if not isinstance(n, int):
        raise Unsupported("randperm of a symbolic number")
    drawn = draw(b, "RandomUniformLike", _result(b, [n], torch.float32), torch.float32)
    _, order = b.ops("TopK", drawn, b.ints([n]), dtypes=[torch.float32, torch.int64], axis=0)
    return b.cast(order, dtype or torch.int64)


def _integers(b: Builder, like: Value, low: int, high: int, dtype: torch.dtype) -> Value:
    drawn = b.cast(draw(b, "RandomUniformLike", like, torch.float32), torch.float64)
    span = b.op("Mul", drawn, b.scalar(float(high - low), torch.float64))
    return b.cast(
        b.op("Add", b.op("Floor", span), b.scalar(float(low), torch.float64), shape=like.shape),
        dtype,
    )


@lowering("aten.randint.default")
def randint(
    b: Builder, high: int, size: Sequence[Int], *, dtype: torch.dtype | None = None, **_: object
) -> Value:
    like = _result(b, size, torch.float32)
    return _integers(b, like, 0, high, dtype or torch.int64)


@lowering("aten.randint.low")
def randint_low(
    b: Builder,
    low: int,
    high: int,
    size: Sequence[Int],
    *,
    dtype: torch.dtype | None = None,
    **_: object,
) -> Value:
    like = _result(b, size, torch.float32)
    return _integers(b, like, low, high, dtype or torch.int64)


@lowering("aten.randint_like.default")
def randint_like(
    b: Builder, x: Value, high: int, *, dtype: torch.dtype | None = None, **_: object
) -> Value:
    return _integers(b, x, 0, high, dtype or x.dtype)


@lowering("aten.randint_like.low_dtype")
def randint_like_low(
    b: Builder, x: Value, low: int, high: int, *, dtype: torch.dtype | None = None, **_: object
) -> Value:
    return _integers(b, x, low, high, dtype or x.dtype)


@lowering("aten.uniform.default")
def uniform(b: Builder, x: Value, begin: float = 0.0, end: float = 1.0, **_: object) -> Value:
    return add(b, mul(b, draw(b, "RandomUniformLike", x, x.dtype), end - begin), begin)


@lowering("aten.normal_functional.default")
def normal(b: Builder, x: Value, mean: float = 0.0, std: float = 1.0, **_: object) -> Value:
    return add(b, mul(b, draw(b, "RandomNormalLike", x, x.dtype), std), mean)


@lowering("aten.normal.Tensor_Tensor", "aten.normal.Tensor_float", "aten.normal.float_Tensor")
def normal_of(b: Builder, mean: Operand, std: Operand = 1.0, **_: object) -> Value:
    total = _shaped(b, add(b, mean, std))
    return add(b, mul(b, draw(b, "RandomNormalLike", total, total.dtype), std), mean)


@lowering("aten.exponential.default")
def exponential(b: Builder, x: Value, lambd: float = 1.0, **_: object) -> Value:
    drawn = draw(b, "RandomUniformLike", x, x.dtype)
    rest = b.op("Sub", b.scalar(1.0, x.dtype), drawn, shape=x.shape)
    return b.op("Div", b.op("Log", rest), b.scalar(-lambd, x.dtype), shape=x.shape)
