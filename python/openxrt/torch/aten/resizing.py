# SPDX-License-Identifier: Apache-2.0
"""Resizing, with PyTorch's own sizes and places on the CPU.

PyTorch takes the size of a result from the scale factor, rounded down, and places from the factor
itself; ONNX's Resize takes sizes or factors. Where neither of them says what PyTorch does, elements
are gathered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..._core import Unsupported
from ..builder import Builder, Int, Value
from ..registry import lowering


@dataclass(frozen=True)
class _Axis:
    """One dimension that is resized."""

    dim: int
    size: Int
    out: Int
    factor: float | None  # as it was given; None: the sizes say it

    @property
    def known(self) -> tuple[int, int] | None:
        """Both sizes, where they are numbers."""
        if isinstance(self.size, int) and isinstance(self.out, int):
            return self.size, self.out
        return None

    @property
    def is_whole(self) -> bool:
        """Whether the factor is a whole number."""
        return self.factor is not None and self.factor == int(self.factor)


def _axes(
    b: Builder, x: Value, output_size: Sequence[Int] | None, factors: Sequence[float] | None
) -> list[_Axis]:
    if output_size is None and factors is None:
        raise Unsupported("neither an output size nor scale factors are given")
    axes = []
    for i in range(x.rank - 2):
        size = b.dim_size(x, i + 2)
        factor = None if output_size is not None else float(factors[i])  # type: ignore[index]
        out = output_size[i] if output_size is not None else _scaled(b, size, factor)  # type: ignore[arg-type]
        axes.append(_Axis(i + 2, size, out, factor))
    return axes


def _scaled(b: Builder, size: Int, factor: float) -> Int:
    """A size by a factor, rounded down."""
    if isinstance(size, int):
        return size * int(factor) if factor == int(factor) else int(size * factor)
    if factor == int(factor):
        return b.product([size, int(factor)])
    wide = b.cast(size, torch.float64)
    scaled = b.op("Mul", wide, b.scalar(factor, torch.float64), rank=0, shape=())
    return b.cast(scaled, torch.int64)


def _resize(b: Builder, x: Value, axes: Sequence[_Axis], **attributes: object) -> Value:
    """By the sizes."""
    sizes = b.vector([b.dim_size(x, 0), b.dim_size(x, 1), *(axis.out for axis in axes)])
    return b.op("Resize", x, None, None, sizes, rank=x.rank, **attributes)


def _resize_by_factors(
    b: Builder, x: Value, factors: Sequence[np.float32], **attributes: object
) -> Value:
    scales = b.tensor(torch.tensor([1.0, 1.0, *map(float, factors)]), "scales")
    return b.op("Resize", x, None, scales, rank=x.rank, **attributes)


def _places(b: Builder, axis: _Axis, dtype: torch.dtype) -> Value:
    """0, 1, … of the results of one dimension."""
    ends = [b.operand(n, torch.int64) for n in (0, axis.out, 1)]
    return b.cast(b.op("Range", *ends, rank=1), dtype)


def _step(b: Builder, axis: _Axis, dtype: torch.dtype) -> Value:
    """How far apart in the operand two results are."""
    if axis.factor is not None:
        return b.scalar(1.0 / axis.factor, dtype)
    sizes = [b.cast(b.operand(n, torch.int64), dtype) for n in (axis.size, axis.out)]
    return b.op("Div", *sizes, rank=0)


def _last(b: Builder, axis: _Axis) -> Value:
    return b.op("Sub", *[b.operand(n, torch.int64) for n in (axis.size, 1)], rank=0)


def _is(b: Builder, axis: _Axis, times: int) -> Value:
    """Whether one dimension becomes so many times as large."""
    sizes = [b.operand(n, torch.int64) for n in (axis.out, b.product([axis.size, times]))]
    return b.op("Equal", *sizes, dtype=torch.bool, rank=0)


# --- nearest --------------------------------------------------------------------------------------


def _few_results(b: Builder, axes: Sequence[_Axis]) -> bool | Value:
    """Whether PyTorch looks at the sizes before the factors: not in one dimension, and not where
    there are many results, for which it has another kernel."""
    if len(axes) == 1:
        return False
    most = 128 * (len(axes) - 1)
    total: Int = 0
    for axis in axes:
        if isinstance(total, int) and isinstance(axis.out, int):
            total += axis.out
        else:
            total = b.op("Add", *[b.operand(n, torch.int64) for n in (total, axis.out)], rank=0)
    if isinstance(total, int):
        return total <= most
    limit = b.scalar(most, torch.int64)
    return b.op("LessOrEqual", total, limit, dtype=torch.bool, rank=0)


def _table(size: int, out: int, factor: float | None, by_sizes: bool) -> np.ndarray:
    """Which element each result is; in float32, as PyTorch has it."""
    step = np.float32(1.0 / factor) if factor else np.float32(size) / np.float32(out)
    along = np.arange(out, dtype=np.int64)
    if by_sizes and out in (size, 2 * size):
        return along * size // out
    return np.minimum(np.floor(along.astype(np.float32) * step).astype(np.int64), size - 1)


def _known_table(axis: _Axis, by_sizes: bool | Value) -> np.ndarray | None:
    if axis.known is None:
        return None
    if isinstance(by_sizes, bool):
        return _table(*axis.known, axis.factor, by_sizes)
    tables = [_table(*axis.known, axis.factor, either) for either in (False, True)]
    return tables[0] if (tables[0] == tables[1]).all() else None


def _nearest_indices(b: Builder, axis: _Axis, by_sizes: bool | Value) -> Value:
    """The same, where sizes are known when the program runs."""
    along = _places(b, axis, torch.float32)
    place = b.op("Floor", b.op("Mul", along, _step(b, axis, torch.float32), rank=1), rank=1)
    index = b.op("Min", b.cast(place, torch.int64), _last(b, axis), rank=1)
    if by_sizes is False or axis.factor is None:
        return index
    for times in (1, 2):
        applies = _is(b, axis, times)
        if isinstance(by_sizes, Value):
            applies = b.op("And", applies, by_sizes, rank=0)
        along = _places(b, axis, torch.int64)
        simple = b.op("Div", along, b.scalar(times, torch.int64), rank=1)
        index = b.op("Where", applies, simple, index, dtype=torch.int64, rank=1)
    return index


@lowering(
    "aten.upsample_nearest1d.vec", "aten.upsample_nearest2d.vec", "aten.upsample_nearest3d.vec"
)
def upsample_nearest(
    b: Builder,
    x: Value,
    output_size: Sequence[Int] | None,
    scale_factors: Sequence[float] | None = None,
) -> Value:
    axes = _axes(b, x, output_size, scale_factors)
    few = _few_results(b, axes)
    tables = [_known_table(axis, few) for axis in axes]
    even = [_is_even(axis, table) for axis, table in zip(axes, tables, strict=True)]
    if all(even):
        attributes = {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        }
        if all(axis.known is None or axis.is_whole for axis in axes) and scale_factors:
            factors = [np.float32(axis.factor) for axis in axes]  # type: ignore[arg-type]
            return _resize_by_factors(b, x, factors, **attributes)
        return _resize(b, x, axes, **attributes)
    for axis, table in zip(axes, tables, strict=True):
        if table is not None and axis.size == axis.out and (table == np.arange(len(table))).all():
            continue
        index = _nearest_indices(b, axis, few) if table is None else b.array(table)
        x = b.op("Gather", x, index, axis=axis.dim, rank=x.rank)
    return x


def _is_even(axis: _Axis, table: np.ndarray | None) -> bool:
    """Whether each element is repeated as often, or each of so many is taken."""
    if axis.known is None or table is None:
        if not axis.is_whole:
            return False
        times = int(axis.factor)  # type: ignore[arg-type]
        most = 4096
        return bool((_table(most, most * times, axis.factor, False) == _repeats(most, times)).all())
    size, out = axis.known
    if size and out % size == 0:
        return bool((table == _repeats(size, out // size)).all())
    return out > 0 and size % out == 0 and bool((table == np.arange(out) * (size // out)).all())


def _repeats(size: int, times: int) -> np.ndarray:
    return np.repeat(np.arange(size), times)


# --- linear and cubic -----------------------------------------------------------------------------


def _factor_for(size: int, out: int, factor: float) -> np.float32:
    """The factor, or the next one by which Resize too has `out` results."""
    found = np.float32(factor)
    for _ in range(4):
        counts = {int(found * np.float32(size)), int(float(found) * size)}
        if counts == {out}:
            return found
        towards = np.float32(np.inf if min(counts) < out else 0)
        found = np.nextafter(found, towards)
    raise Unsupported(f"no factor makes {out} of {size}")


def _weights(b: Builder, t: Value, cubic: bool) -> list[Value]:
    """Of the neighbours of a place that is `t` beyond the first one, or the second of four."""

    def polynomial(z: Value, *factors: float) -> Value:
        y = b.scalar(factors[0], z.dtype)
        for factor in factors[1:]:
            y = b.op("Mul", y, z, rank=z.rank)
            y = b.op("Add", y, b.scalar(factor, z.dtype), rank=z.rank)
        return y

    one = b.scalar(1.0, t.dtype)
    back = b.op("Sub", one, t, rank=t.rank)
    if not cubic:
        return [back, t]
    a = -0.75
    far = [b.op("Add", z, one, rank=t.rank) for z in (t, back)]
    outer = [polynomial(z, a, -5 * a, 8 * a, -4 * a) for z in far]
    inner = [polynomial(z, a + 2, -(a + 3), 0.0, 1.0) for z in (t, back)]
    return [outer[0], inner[0], inner[1], outer[1]]


def _source_places(b: Builder, axis: _Axis, dtype: torch.dtype, cubic: bool) -> Value:
    """Where in one dimension of the operand the results lie."""
    half = b.scalar(0.5, dtype)
    along = _places(b, axis, dtype)
    middle = b.op("Add", along, half, rank=1)
    place = b.op("Sub", b.op("Mul", middle, _step(b, axis, dtype), rank=1), half, rank=1)
    if cubic:
        return place
    place = b.op("Max", place, b.scalar(0.0, dtype), rank=1)
    return b.op("Where", _is(b, axis, 1), along, place, dtype=dtype, rank=1)


def _places_between_corners(b: Builder, axis: _Axis, dtype: torch.dtype) -> Value:
    """The same, where the first and the last results are the first and the last elements."""
    one = b.scalar(1, torch.int64)
    gaps = [b.op("Sub", b.operand(n, torch.int64), one, rank=0) for n in (axis.size, axis.out)]
    gaps[1] = b.op("Max", gaps[1], one, rank=0)  # one result is the first element
    step = b.op("Div", *[b.cast(gap, dtype) for gap in gaps], rank=0)
    return b.op("Mul", _places(b, axis, dtype), step, rank=1)


def _by_neighbours(
    b: Builder, x: Value, axis: _Axis, cubic: bool, align_corners: bool = False
) -> Value:
    """Sums of weighted neighbours along one dimension, in the operand's dtype."""
    dtype = x.dtype
    if align_corners:
        place = _places_between_corners(b, axis, dtype)
    else:
        place = _source_places(b, axis, dtype, cubic)
    first = b.op("Floor", place, rank=1)
    t = b.op("Sub", place, first, rank=1)
    weights = _weights(b, t, cubic)
    total: Value | None = None
    for i, weight in enumerate(weights):
        index = b.op("Add", b.cast(first, torch.int64), b.scalar(i - cubic, torch.int64), rank=1)
        index = b.op("Max", index, b.scalar(0, torch.int64), rank=1)
        index = b.op("Min", index, _last(b, axis), rank=1)
        taken = b.op("Gather", x, index, axis=axis.dim, rank=x.rank)
        beyond = x.rank - 1 - axis.dim
        wide = b.unsqueeze(weight, *range(1, beyond + 1)) if beyond else weight
        part = b.op("Mul", taken, wide, rank=x.rank)
        total = part if total is None else b.op("Add", total, part, rank=x.rank)
    assert total is not None
    return total


def _interpolated(
    b: Builder, x: Value, axes: Sequence[_Axis], align_corners: bool, cubic: bool
) -> Value:
    if x.dtype == torch.float64:  # Resize computes places in float32
        for axis in axes:
            x = _by_neighbours(b, x, axis, cubic, align_corners)
        return x
    attributes = {
        "mode": "cubic" if cubic else "linear",
        "coordinate_transformation_mode": "align_corners" if align_corners else "half_pixel",
        "cubic_coeff_a": -0.75 if cubic else None,
    }
    # The sizes say the factors, too.
    if align_corners or all(
        axis.factor is None or (axis.known is not None and axis.out == axis.size * axis.factor)
        for axis in axes
    ):
        return _resize(b, x, axes, **attributes)
    # Resize copies where sizes stay; PyTorch does too, but for cubic resizing.
    keeps = all(axis.known is not None and axis.out == axis.size for axis in axes)
    if all(axis.known is not None or axis.is_whole for axis in axes) and not (cubic and keeps):
        factors = []
        for axis in axes:
            assert axis.factor is not None
            if axis.known is None:
                factors.append(np.float32(axis.factor))
            elif axis.known[0] == axis.known[1] and not cubic:
                factors.append(np.float32(1.0))
            else:
                factors.append(_factor_for(*axis.known, axis.factor))
        return _resize_by_factors(b, x, factors, **attributes)
    for axis in axes:
        x = _by_neighbours(b, x, axis, cubic)
    return x


def _keys(t: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic of distances."""
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t < 1, near, np.where(t < 2, far, 0.0))


def _scale(size: int, out: int, factor: float | None, align_corners: bool) -> float:
    """How far apart in the operand two results are."""
    if align_corners:
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return 1 / factor if factor else size / out


def _matrix(
    size: int, out: int, factor: float | None, align_corners: bool, cubic: bool
) -> np.ndarray:
    """Each row holds the weights of the inputs that make one output; those beyond the edge are
    the edge's."""
    scale = _scale(size, out, factor, align_corners)
    along = np.arange(out)
    place = along * scale if align_corners else (along + 0.5) * scale - 0.5
    if not cubic:
        place = np.maximum(place, 0.0)
    first = np.minimum(np.floor(place).astype(np.int64), size - 1)
    t = np.clip(place - first, 0.0, 1.0)
    matrix = np.zeros((out, size))
    for offset in (-1, 0, 1, 2) if cubic else (0, 1):
        distance = np.abs(t - offset)
        weight = _keys(distance, -0.75) if cubic else 1 - distance
        np.add.at(matrix, (along, np.clip(first + offset, 0, size - 1)), weight)
    return matrix


def _resized_bytes(b: Builder, x: Value, matrices: Sequence[np.ndarray]) -> Value:
    """As PyTorch has it for bytes: dimension by dimension, the last one first, with weights that
    are whole numbers of 16 bits over a power of two, and rounded to bytes each time."""
    for dim, matrix in reversed(list(enumerate(matrices, x.rank - len(matrices)))):
        most, bits = matrix.max(), 0
        while bits < 22 and int(0.5 + most * 2.0 ** (bits + 1)) < 1 << 15:
            bits += 1
        weights = np.trunc(matrix * 2.0**bits + np.copysign(0.5, matrix))
        # Sums of such numbers are exact in float64; in float32 not those of many.
        sums = _weighted(b, b.cast(x, torch.float64), dim, weights)
        half, unit = b.scalar(2.0 ** (bits - 1), sums.dtype), b.scalar(2.0**-bits, sums.dtype)
        y = b.op("Floor", b.op("Mul", b.op("Add", sums, half), unit))
        x = b.cast(b.op("Clip", y, b.scalar(0.0, y.dtype), b.scalar(255.0, y.dtype)), x.dtype)
    return x


def _weighted(b: Builder, x: Value, dim: int, weights: np.ndarray) -> Value:
    """A product with a matrix along one dimension; of few weights in a row as a sum."""
    used = weights != 0
    first = used.argmax(1)
    taps = int((np.where(used, np.arange(weights.shape[1]), 0).max(1) - first).max()) + 1
    beyond = x.rank - 1 - dim
    if taps > 4:
        order = [d for d in range(x.rank) if d != dim] + [dim]
        back = [order.index(d) for d in range(x.rank)]
        product = b.op("MatMul", b.transpose(x, order), b.array(weights.T), rank=x.rank)
        return b.transpose(product, back)
    total: Value | None = None
    for tap in range(taps):
        places = np.minimum(first + tap, weights.shape[1] - 1)
        inside = first + tap < weights.shape[1]
        own = np.where(inside, weights[np.arange(len(weights)), places], 0.0)
        taken = b.op("Gather", x, b.array(places), axis=dim, rank=x.rank)
        part = b.op("Mul", taken, b.array(own.reshape(-1, *[1] * beyond)), rank=x.rank)
        total = part if total is None else b.op("Add", total, part, rank=x.rank)
    assert total is not None
    return total


def _upsample(aten: str, cubic: bool) -> None:
    def lower(
        b: Builder,
        x: Value,
        output_size: Sequence[Int] | None,
        align_corners: bool,
        scale_factors: Sequence[float] | None = None,
        *_: object,
    ) -> Value:
        axes = _axes(b, x, output_size, scale_factors)
        if x.dtype.is_floating_point:
            return _interpolated(b, x, axes, align_corners, cubic)
        if x.dtype == torch.uint8 and all(axis.known is not None for axis in axes):
            matrices = [_matrix(*axis.known, axis.factor, align_corners, cubic) for axis in axes]  # type: ignore[misc]
            return _resized_bytes(b, x, matrices)
        # Where sizes are symbols, bytes are rounded once, and may be off by one.
        y = _interpolated(b, b.cast(x, torch.float32), axes, align_corners, cubic)
        nearest = b.op("Floor", b.op("Add", y, b.scalar(0.5, y.dtype)))
        ends = torch.iinfo(x.dtype)
        limits = [b.scalar(float(end), y.dtype) for end in (ends.min, ends.max)]
        return b.cast(b.op("Clip", nearest, *limits), x.dtype)

    lowering(f"aten.{aten}.vec")(lower)


_upsample("upsample_linear1d", False)
_upsample("upsample_bilinear2d", False)
_upsample("upsample_trilinear3d", False)
_upsample("upsample_bicubic2d", True)


# --- with antialiasing ----------------------------------------------------------------------------


def _filter(distance: np.ndarray, cubic: bool) -> np.ndarray:
    """The triangle, or Keys' cubic with a = −0.5."""
    t = np.abs(distance)
    return _keys(t, -0.5) if cubic else np.maximum(1.0 - t, 0.0)


def _resampling(size: int, out: int, scale: float, cubic: bool) -> np.ndarray:
    """Each row holds the weights of the inputs that one output averages."""
    stretch = max(scale, 1.0)
    support = (2.0 if cubic else 1.0) * stretch
    center = scale * (np.arange(out) + 0.5)
    first = np.maximum((center - support + 0.5).astype(np.int64), 0)[:, None]
    last = np.minimum((center + support + 0.5).astype(np.int64), size)[:, None]
    along = np.arange(size)[None, :]
    weights = _filter((along - center[:, None] + 0.5) / stretch, cubic)
    weights = np.where((along >= first) & (along < last), weights, 0.0)
    return weights / weights.sum(1, keepdims=True)


def _antialiased(aten: str, cubic: bool) -> None:
    """Products with two matrices, and with their transposes for the gradient."""

    def matrices(
        sizes: Sequence[int], outs: Sequence[int], align_corners: bool,
        scales: Sequence[float | None],
    ) -> list[np.ndarray]:  # fmt: skip
        return [
            _resampling(size, out, _scale(size, out, factor, align_corners), cubic)
            for size, out, factor in zip(sizes, outs, [*scales, None, None][:2], strict=True)
        ]

    def product(b: Builder, rows: np.ndarray, x: Value, columns: np.ndarray) -> Value:
        left, right = (torch.from_numpy(matrix).to(x.dtype) for matrix in (rows, columns))
        wide = b.op("MatMul", x, b.tensor(right, "columns"), rank=x.rank)
        return b.op("MatMul", b.tensor(left, "rows"), wide, rank=x.rank)

    def lower(
        b: Builder, x: Value, output_size: Sequence[int], align_corners: bool, *scales: float | None
    ) -> Value:
        sizes = x.static_shape("resizing with antialiasing", -2)
        rows, columns = matrices(sizes, output_size, align_corners, scales)
        if x.dtype == torch.uint8:
            return _resized_bytes(b, x, [rows, columns])
        return product(b, rows, x, columns.T)

    def backward(
        b: Builder,
        gradient: Value,
        output_size: Sequence[int],
        input_size: Sequence[int],
        align_corners: bool,
        *scales: float | None,
    ) -> Value:
        rows, columns = matrices(input_size[-2:], output_size, align_corners, scales)
        return product(b, rows.T, gradient, columns)

    lowering(f"aten.{aten}.default")(lower)
    lowering(f"aten.{aten}_backward.default")(backward)


_antialiased("_upsample_bilinear2d_aa", False)
_antialiased("_upsample_bicubic2d_aa", True)
