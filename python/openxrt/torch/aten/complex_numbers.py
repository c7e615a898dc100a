# SPDX-License-Identifier: Apache-2.0
"""Complex tensors as two real ones, and Fourier transforms.

A value of complex dtype is a pair of values, its real and imaginary parts; inputs and outputs of
the graph have a last dimension of 2, as torch.view_as_real() gives it. Ops that only move elements,
or that are linear with real coefficients, are the real op on each part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ..._core import Unsupported
from ..builder import Builder, Int, Operand, Value
from ..registry import complex_lowering, find
from .creation import filled, full_like
from .floating_point import atan2, hypot
from .pointwise import add, div, mul, sub

_REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}


@dataclass(frozen=True)
class Complex:
    """A complex tensor: real values of one shape."""

    re: Value
    im: Value

    @property
    def dtype(self) -> torch.dtype:
        """PyTorch's."""
        return torch.complex64 if self.re.dtype == torch.float32 else torch.complex128

    @property
    def rank(self) -> int:
        """Of the complex tensor."""
        return self.re.rank

    @property
    def shape(self) -> tuple[int | torch.SymInt, ...] | None:
        """Of the complex tensor."""
        return self.re.shape


def real_dtype(dtype: torch.dtype) -> torch.dtype:
    """That of the parts."""
    if dtype not in _REAL:
        raise Unsupported(f"no numbers of {dtype}")
    return _REAL[dtype]


def constant(b: Builder, tensor: torch.Tensor, name: str) -> Complex:
    """Both parts as constants."""
    whole = tensor.detach().resolve_conj()
    real_dtype(whole.dtype)
    return Complex(
        b.tensor(whole.real.contiguous(), f"{name}_re"),
        b.tensor(whole.imag.contiguous(), f"{name}_im"),
    )


def from_pair(b: Builder, pair: Value) -> Complex:
    """Of a tensor whose last dimension holds both parts."""
    shape = None if pair.shape is None else pair.shape[:-1]
    re, im = (
        b.op("Gather", pair, b.scalar(i, torch.int64), axis=pair.rank - 1, rank=pair.rank - 1,
             shape=shape)
        for i in range(2)
    )  # fmt: skip
    return Complex(re, im)


def to_pair(b: Builder, x: Complex) -> Value:
    """The other way."""
    parts = [b.unsqueeze(part, x.rank) for part in (x.re, x.im)]
    return b.op("Concat", *parts, axis=x.rank, rank=x.rank + 1)


def _zero(b: Builder, like: Value) -> Value:
    return full_like(b, like, 0)


def _parts(b: Builder, x: object) -> tuple[Operand, Operand]:
    """Real and imaginary part of an operand of any kind."""
    if isinstance(x, Complex):
        return x.re, x.im
    if isinstance(x, complex):
        return x.real, x.imag
    if isinstance(x, Value):
        return x, _zero(b, x)
    return x, 0  # type: ignore[return-value]


def _value(b: Builder, x: object, dtype: torch.dtype) -> Complex:
    """An operand as a complex value with parts of that dtype."""
    re, im = _parts(b, x)
    return Complex(b.operand(re, dtype), b.operand(im, dtype))


# --- each part by itself --------------------------------------------------------------------------


def _part(x: object, index: int) -> object:
    if isinstance(x, Complex):
        return (x.re, x.im)[index]
    if isinstance(x, (list, tuple)):
        return [_part(item, index) for item in x]
    return x


def _joined(re: object, im: object) -> object:
    if isinstance(re, Value) and isinstance(im, Value):
        return Complex(re, im)
    if isinstance(re, (list, tuple)) and isinstance(im, (list, tuple)):
        return [_joined(a, c) for a, c in zip(re, im, strict=True)]
    return re


def _by_parts(name: str) -> None:
    def lower(b: Builder, *args: object, **kwargs: object) -> object:
        function = find(name)
        assert function is not None
        outputs = b.out
        b.out = [
            (real_dtype(o[0]) if o[0].is_complex else o[0], o[1]) if o else None for o in outputs
        ]
        keywords = {k: v for k, v in kwargs.items() if not isinstance(v, torch.dtype)}
        re, im = (
            function(
                b, *[_part(x, i) for x in args], **{k: _part(v, i) for k, v in keywords.items()}
            )
            for i in range(2)
        )
        b.out = outputs
        return _joined(re, im)

    complex_lowering(name)(lower)


_BY_PARTS = [
    "alias.default", "clone.default", "detach.default", "contiguous.default",
    "lift_fresh_copy.default", "view.default", "reshape.default", "_unsafe_view.default",
    "_reshape_copy.default", "permute.default", "transpose.int", "t.default",
    "unsqueeze.default", "squeeze.dim", "squeeze.dims", "squeeze.default", "expand.default",
    "repeat.default", "split_with_sizes.default", "split.Tensor", "chunk.default",
    "unbind.int", "select.int", "slice.Tensor", "narrow.default", "flip.default",
    "roll.default", "as_strided.default", "diagonal.default", "tril.default", "triu.default",
    "unfold.default", "index.Tensor", "gather.default", "index_select.default", "sum.dim_IntList",
    "sum.default", "mean.dim", "mean.default", "cumsum.default", "neg.default",
    "zeros_like.default", "empty_like.default",
    "new_zeros.default", "new_empty.default", "zeros.default", "empty.memory_format",
    "empty_strided.default", "empty_permuted.default", "flatten.using_ints",
]  # fmt: skip
for _name in _BY_PARTS:
    _by_parts(f"aten.{_name}")


@complex_lowering("aten.constant_pad_nd.default")
def constant_pad(b: Builder, x: Complex, pad: Sequence[Int], value: complex = 0) -> Complex:
    function = find("aten.constant_pad_nd.default")
    assert function is not None
    filling = complex(value)
    return Complex(function(b, x.re, pad, filling.real), function(b, x.im, pad, filling.imag))


# --- real and complex operands together -----------------------------------------------------------


def _mixed(name: str, *places: int) -> None:
    """By parts, after the operands at these places were made complex."""

    def lower(b: Builder, *args: object, **kwargs: object) -> object:
        function = find(name)
        assert function is not None
        operands: list[object] = list(args)
        assert b.out[0] is not None
        dtype = real_dtype(b.out[0][0])
        for place in places:
            x = operands[place]
            operands[place] = (
                [_value(b, item, dtype) for item in x]
                if isinstance(x, (list, tuple))
                else _value(b, x, dtype)
            )
        re, im = (function(b, *[_part(x, i) for x in operands], **kwargs) for i in range(2))
        return _joined(re, im)

    complex_lowering(name)(lower)


def _flat(values: Sequence[object]) -> list[object]:
    found: list[object] = []
    for value in values:
        found += _flat(value) if isinstance(value, (list, tuple)) else [value]
    return found


_mixed("aten.where.self", 1, 2)
_mixed("aten.cat.default", 0)
_mixed("aten.stack.default", 0)
_mixed("aten.slice_scatter.default", 0, 1)
_mixed("aten.select_scatter.default", 0, 1)
_mixed("aten.copy.default", 0, 1)
_mixed("aten.index_put.default", 0, 2)
_mixed("aten.masked_fill.Scalar", 0, 2)


def _sum(name: str, function: Callable[..., Value]) -> None:
    def lower(b: Builder, x: object, y: object, *, alpha: object = 1) -> Complex:
        if isinstance(alpha, complex):
            raise Unsupported("a complex alpha")
        (a, c), (d, e) = _parts(b, x), _parts(b, y)
        return Complex(function(b, a, d, alpha), function(b, c, e, alpha))

    complex_lowering(name)(lower)


for _name in ("add.Tensor", "add.Scalar"):
    _sum(f"aten.{_name}", add)
for _name in ("sub.Tensor", "sub.Scalar"):
    _sum(f"aten.{_name}", sub)


@complex_lowering("aten.mul.Tensor", "aten.mul.Scalar")
def multiply(b: Builder, x: object, y: object) -> Complex:
    (a, c), (d, e) = _parts(b, x), _parts(b, y)
    if not isinstance(y, (Complex, complex)):
        return Complex(mul(b, a, d), mul(b, c, d))
    if not isinstance(x, (Complex, complex)):
        return Complex(mul(b, a, d), mul(b, a, e))
    return Complex(
        sub(b, mul(b, a, d), mul(b, c, e)),
        add(b, mul(b, a, e), mul(b, c, d)),
    )


def _inverse(b: Builder, x: Complex) -> Complex:
    size = add(b, mul(b, x.re, x.re), mul(b, x.im, x.im))
    return Complex(div(b, x.re, size), b.op("Neg", div(b, x.im, size)))


@complex_lowering("aten.div.Tensor", "aten.div.Scalar")
def divide(b: Builder, x: object, y: object) -> Complex:
    if isinstance(y, complex):
        return multiply(b, x, 1 / y)
    if isinstance(y, Complex):
        return multiply(b, x, _inverse(b, y))
    re, im = _parts(b, x)
    return Complex(div(b, re, y), div(b, im, y))  # type: ignore[arg-type]


@complex_lowering("aten.reciprocal.default")
def reciprocal(b: Builder, x: Complex) -> Complex:
    return _inverse(b, x)


@complex_lowering("aten.mm.default", "aten.bmm.default")
def matrix_product(b: Builder, x: Complex, y: Complex) -> Complex:
    def product(left: Value, right: Value) -> Value:
        return b.op("MatMul", left, right, rank=left.rank)

    return Complex(
        sub(b, product(x.re, y.re), product(x.im, y.im)),
        add(b, product(x.re, y.im), product(x.im, y.re)),
    )


@complex_lowering("aten.eq.Tensor", "aten.eq.Scalar")
def equal(b: Builder, x: object, y: object) -> Value:
    (a, c), (d, e) = _parts(b, x), _parts(b, y)
    both = []
    for left, right in ((a, d), (c, e)):
        operands = b.promote(left, right)
        rank = max(operand.rank for operand in operands)
        both.append(b.op("Equal", *operands, dtype=torch.bool, rank=rank))
    return b.op("And", *both, rank=max(value.rank for value in both))


# --- real to complex, and back --------------------------------------------------------------------


def _refuse_halves(x: Value) -> None:
    if x.dtype not in (torch.float32, torch.float64):
        raise Unsupported(f"complex numbers of two {x.dtype}")


@complex_lowering("aten.complex.default")
def make(b: Builder, re: Value, im: Value) -> Complex:
    _refuse_halves(re)
    rank = max(re.rank, im.rank)
    total = b.op("Add", re, im, rank=rank)
    size = b.op("Shape", total, dtype=torch.int64, rank=1)
    return Complex(*[b.op("Expand", part, size, rank=rank) for part in (re, im)])


@complex_lowering("aten.polar.default")
def polar(b: Builder, size: Value, angle: Value) -> Complex:
    return Complex(mul(b, size, b.op("Cos", angle)), mul(b, size, b.op("Sin", angle)))


@complex_lowering("aten.view_as_complex.default")
def view_as_complex(b: Builder, x: Value) -> Complex:
    _refuse_halves(x)
    return from_pair(b, x)


@complex_lowering("aten.view_as_real.default")
def view_as_real(b: Builder, x: Complex) -> Value:
    return to_pair(b, x)


@complex_lowering("aten.real.default")
def real(b: Builder, x: Complex) -> Value:
    return x.re


@complex_lowering("aten.imag.default")
def imag(b: Builder, x: Complex) -> Value:
    return x.im


@complex_lowering(
    "aten._conj.default",
    "aten._conj_physical.default",
    "aten.conj_physical.default",
    "aten._conj_copy.default",
)
def conj(b: Builder, x: Complex) -> Complex:
    return Complex(x.re, b.op("Neg", x.im, shape=x.im.shape))


@complex_lowering("aten.resolve_conj.default", "aten.resolve_neg.default")
def resolve(b: Builder, x: Complex) -> Complex:
    return x


@complex_lowering("aten._to_copy.default", "prims.convert_element_type.default")
def to_copy(
    b: Builder, x: Complex | Value, wanted: torch.dtype | None = None,
    *, dtype: torch.dtype | None = None, **_: object,
) -> Complex | Value:  # fmt: skip
    dtype = dtype or wanted or x.dtype
    re, im = (x.re, x.im) if isinstance(x, Complex) else (x, _zero(b, x))
    if not dtype.is_complex:
        return b.cast(re, dtype)
    return Complex(b.cast(re, real_dtype(dtype)), b.cast(im, real_dtype(dtype)))


@complex_lowering("aten.abs.default")
def absolute(b: Builder, x: Complex) -> Value:
    size = hypot(b, x.re, x.im)
    return Value(size.id, size.dtype, x.shape, x.rank)


@complex_lowering("aten.angle.default")
def angle(b: Builder, x: Complex) -> Value:
    return atan2(b, x.im, x.re)


@complex_lowering("aten.sgn.default")
def sgn(b: Builder, x: Complex) -> Complex:
    size = absolute(b, x)
    none = b.op("Equal", size, b.scalar(0, size.dtype), dtype=torch.bool, shape=x.shape)
    one = b.scalar(1, size.dtype)
    divisor = b.op("Where", none, one, size, dtype=size.dtype, rank=x.rank, shape=x.shape)
    return Complex(div(b, x.re, divisor), div(b, x.im, divisor))


@complex_lowering("aten.exp.default")
def exp(b: Builder, x: Complex) -> Complex:
    return polar(b, b.op("Exp", x.re), x.im)


@complex_lowering("aten.log.default")
def log(b: Builder, x: Complex) -> Complex:
    return Complex(b.op("Log", absolute(b, x)), angle(b, x))


# --- powers ---------------------------------------------------------------------------------------

# Whole exponents up to this one are products.
_MOST_FACTORS = 64


def _whole(y: object) -> int | None:
    """An exponent that stands for a few products."""
    is_whole = isinstance(y, (int, float)) and float(y).is_integer() and abs(y) <= _MOST_FACTORS
    return int(y) if is_whole else None  # type: ignore[call-overload]


def _product(b: Builder, x: Complex, count: int) -> Complex:
    """`count` times x, multiplied."""
    result: Complex | None = None
    while count:
        if count % 2:
            result = x if result is None else multiply(b, result, x)
        count //= 2
        x = multiply(b, x, x) if count else x
    assert result is not None
    return result


def _power(b: Builder, x: Complex, y: object) -> Complex:
    """|x|^y turned by y times the angle."""
    size, turn = absolute(b, x), angle(b, x)
    if not isinstance(y, (Complex, complex)):
        real = b.operand(y, size.dtype)  # type: ignore[arg-type]
        rank = max(size.rank, real.rank)
        return polar(b, b.op("Pow", size, real, rank=rank), mul(b, turn, real))
    re, im = (b.operand(part, size.dtype) for part in _parts(b, y))
    log_size = b.op("Log", size, shape=size.shape)
    grown = b.op("Exp", sub(b, mul(b, re, log_size), mul(b, im, turn)))
    result = polar(b, grown, add(b, mul(b, im, log_size), mul(b, re, turn)))
    zero = b.scalar(0.0, size.dtype)
    is_zero = b.op("Equal", grown, zero, dtype=torch.bool)  # its angle is that of log 0
    parts = [
        b.op("Where", is_zero, zero, part, dtype=part.dtype, rank=grown.rank)
        for part in (result.re, result.im)
    ]
    return Complex(*parts)


@complex_lowering("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def power(b: Builder, x: object, y: object) -> Complex:
    assert b.out[0] is not None
    dtype = real_dtype(b.out[0][0])
    base = Complex(*[b.operand(part, dtype) for part in _parts(b, x)])
    if isinstance(y, complex) and y.imag == 0:
        y = y.real
    count = _whole(y)
    if count == 0:
        return full(b, base, 1)
    if count is not None:
        product = _product(b, base, abs(count))
        return product if count > 0 else _inverse(b, product)
    if isinstance(y, Complex):
        y = Complex(b.cast(y.re, dtype), b.cast(y.im, dtype))
    return _power(b, base, y)


@complex_lowering("aten.sqrt.default")
def sqrt(b: Builder, x: Complex) -> Complex:
    return _power(b, x, 0.5)


@complex_lowering("aten.rsqrt.default")
def rsqrt(b: Builder, x: Complex) -> Complex:
    return _power(b, x, -0.5)


@complex_lowering("aten.full_like.default", "aten.full.default", "aten.scalar_tensor.default")
def full(b: Builder, like: object, number: object = None, **_: object) -> Complex:
    assert b.out[0] is not None
    dtype = real_dtype(b.out[0][0])
    if isinstance(like, (Complex, Value)):
        source = like.re if isinstance(like, Complex) else like
        re, im = _parts(b, number)
        return Complex(*[full_like(b, source, part, dtype=dtype) for part in (re, im)])
    sizes = like if isinstance(like, (list, tuple)) else []
    re, im = _parts(b, number if isinstance(like, (list, tuple)) else like)
    return Complex(*[filled(b, sizes, part, dtype) for part in (re, im)])


@complex_lowering("aten.ones_like.default")
def ones_like(b: Builder, x: Complex, **_: object) -> Complex:
    return full(b, x, 1)


# --- Fourier transforms ---------------------------------------------------------------------------


def _factor(normalization: int, count: int, inverse: bool) -> float:
    """PyTorch divides by nothing, by the root of the size or by the size; DFT by the size if it is
    an inverse one."""
    factor = (1.0, 1 / math.sqrt(count), 1 / count)[normalization] if count else 1.0
    return factor * count if inverse else factor


def _scaled(b: Builder, x: Complex, factor: float) -> Complex:
    return x if factor == 1 else Complex(mul(b, x.re, factor), mul(b, x.im, factor))


def _count(x: Value, dims: Sequence[int]) -> int:
    return math.prod(x.static_size(dim, "a Fourier transform") for dim in dims)


def _dft(b: Builder, pair: Value, axis: int, inverse: bool, onesided: bool = False) -> Value:
    return b.op(
        "DFT", pair, None, b.scalar(axis, torch.int64), rank=pair.rank, inverse=int(inverse),
        onesided=int(onesided),
    )  # fmt: skip


def _transform(b: Builder, x: Complex, dims: Sequence[int], inverse: bool) -> Complex:
    pair = to_pair(b, x)
    for dim in dims:
        pair = _dft(b, pair, dim % x.rank, inverse)
    shape = x.shape
    result = from_pair(b, pair)
    return Complex(*[Value(p.id, p.dtype, shape, x.rank) for p in (result.re, result.im)])


@complex_lowering("aten._fft_c2c.default")
def c2c(b: Builder, x: Complex, dim: Sequence[int], normalization: int, forward: bool) -> Complex:
    factor = _factor(normalization, _count(x.re, dim), not forward)
    return _scaled(b, _transform(b, x, dim, not forward), factor)


@complex_lowering("aten._fft_r2c.default")
def r2c(b: Builder, x: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Complex:
    last = dim[-1] % x.rank
    pair = _dft(b, b.unsqueeze(x, x.rank), last, False, onesided)
    half = from_pair(b, pair)
    assert x.shape is not None
    size = x.static_size(last, "a Fourier transform")
    half_size = size // 2 + 1 if onesided else size
    shape = (*x.shape[:last], half_size, *x.shape[last + 1 :])
    half = Complex(*[Value(p.id, p.dtype, shape, x.rank) for p in (half.re, half.im)])
    whole = _transform(b, half, dim[:-1], False) if len(dim) > 1 else half
    return _scaled(b, whole, _factor(normalization, _count(x, dim), False))


@complex_lowering("aten._fft_c2r.default")
def c2r(
    b: Builder, x: Complex, dim: Sequence[int], normalization: int, last_dim_size: Int
) -> Value:
    if not isinstance(last_dim_size, int):
        raise Unsupported("a Fourier transform of a size that is not known")
    last = dim[-1] % x.rank
    factor = _factor(normalization, _count(x.re, dim[:-1]) * last_dim_size, True)
    known = x.re.static_size(last, "a Fourier transform")
    if len(dim) > 1:
        x = _transform(b, x, dim[:-1], True)
    # The other half mirrors the first, conjugated.
    mirrored = b.ints(range(last_dim_size - known, 0, -1))
    tail = [b.op("Gather", part, mirrored, axis=last, rank=x.rank) for part in (x.re, x.im)]
    re = b.op("Concat", x.re, tail[0], axis=last, rank=x.rank)
    im = b.op("Concat", x.im, b.op("Neg", tail[1]), axis=last, rank=x.rank)
    whole = _dft(b, to_pair(b, Complex(re, im)), last, True)
    result = from_pair(b, whole).re
    return result if factor == 1 else mul(b, result, factor)
