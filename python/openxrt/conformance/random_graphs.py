# SPDX-License-Identifier: Apache-2.0
"""Random valid ONNX models of several nodes, each made from its number.

What single nodes do not show is what happens between them: folding, fusion, layouts, partition and
memory that is used again. A graph grows from a few inputs by nodes that fit to what is there, with
operands of any age, so that values are read more than once, branch, meet again, and are results and
operands at the same time. Half of the graphs keep axis 0 apart: they run with any number of rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .models import make_model, value_info

Shape = tuple[int, ...]
MOST_ELEMENTS = 20_000
MOST_RANK = 5
F32, F16, I64, I32, BOOL = "float32", "float16", "int64", "int32", "bool"
FLOATS = (F32, F16)
NUMBERS = (F32, F16, I64, I32)


@dataclass(frozen=True)
class _Value:
    """A tensor of the graph, with the shape that it has in the first run."""

    name: str
    dtype: str
    shape: Shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def count(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


# Of these a rounding may decide which of two numbers comes out.
STEPS = {"Floor", "Sign", "ThresholdedRelu", "QuantizeLinear", "Equal"}
STEPS |= {"Less", "LessOrEqual", "Greater", "GreaterOrEqual"}
# Of the largest number of a result, where numbers have 24 bits and where some have 11.
TOLERANCE, TOLERANCE_OF_HALF = 1e-4, 1e-2


@dataclass(frozen=True)
class RandomGraph:
    """A model and the inputs of its runs, which differ in axis 0 where the model allows it."""

    model: bytes
    ops: tuple[str, ...]
    runs: list[dict[str, np.ndarray]]
    tolerance: float

    def is_wrong(self, runs: list[bool]) -> bool:
        """Whether the graph is wrong where these of its runs are."""
        return all(runs) if STEPS.intersection(self.ops) else any(runs)


def nearby(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inputs moved by about a hundred-thousandth, or by what their type rounds. What that
    changes is no digit to judge by."""
    numbers = np.random.default_rng(0)

    def step(dtype: np.dtype) -> float:
        return max(1e-5, float(np.finfo(dtype).eps))

    return {
        name: (x * (1 + step(x.dtype) * numbers.standard_normal(x.shape))).astype(x.dtype)
        if x.dtype.kind == "f"
        else x
        for name, x in feeds.items()
    }


class _Unfit(Exception):
    """No operand fits to the node that was chosen."""


class _Builder:
    """A graph that grows."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.rows = self.random.random() < 0.5  # axis 0 is kept apart
        self.values: list[_Value] = []
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.names = 0

    # --- parts ---------------------------------------------------------------------------------

    def name(self) -> str:
        self.names += 1
        return f"v{self.names}"

    def array(self, dtype: str, shape: Shape) -> np.ndarray:
        """Numbers of moderate size, among them zeros."""
        if dtype == BOOL:
            return self.numbers.random(shape) < 0.5
        if dtype in (I64, I32):
            return self.numbers.integers(-4, 5, shape).astype(dtype)
        return self.numbers.standard_normal(shape).astype(dtype)

    def constant(self, array: np.ndarray) -> str:
        """An initialiser, or a Constant node."""
        name = self.name()
        if self.random.random() < 0.3:
            self.nodes.append(
                helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))
            )
        else:
            self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def add(
        self, op: str, inputs: list[str], *results: tuple[str, Shape], **attributes: Any
    ) -> list[_Value]:
        """A node whose results have these types and shapes."""
        for _, shape in results:
            if np.prod(shape, dtype=np.int64) > MOST_ELEMENTS or len(shape) > MOST_RANK:
                raise _Unfit
        made = [_Value(self.name(), dtype, shape) for dtype, shape in results]
        self.nodes.append(helper.make_node(op, inputs, [v.name for v in made], **attributes))
        self.values += made
        return made

    # --- choices -------------------------------------------------------------------------------

    def some(
        self, dtypes: tuple[str, ...] = FLOATS, fits: Callable[[_Value], bool] = lambda v: True
    ) -> _Value:
        """One of the values, rather a new one."""
        found = [v for v in self.values if v.dtype in dtypes and fits(v)]
        if not found:
            raise _Unfit
        return found[-min(int(self.random.expovariate(0.35)) + 1, len(found))]

    def axis(self, value: _Value) -> int:
        """An axis, counted from either end."""
        axes = range(int(self.rows), value.rank)
        if not axes:
            raise _Unfit
        axis = self.random.choice(axes)
        return axis - value.rank if self.random.random() < 0.3 else axis

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)


# --- nodes: each takes a builder and adds one or a few ------------------------------------------


def _unary(b: _Builder) -> None:
    x = b.some()
    plain = ["Relu", "Sigmoid", "Tanh", "Erf", "Abs", "Neg", "HardSwish", "Softplus", "Softsign"]
    plain += ["Sin", "Cos", "Mish", "Selu", "Identity", "Floor", "Sign", "Elu", "LeakyRelu"]
    plain += ["HardSigmoid", "ThresholdedRelu", "Gelu", "Dropout"]
    op = b.random.choice(plain if x.dtype == F16 else [*plain, "Celu"])
    attributes: dict[str, Any] = {}
    if op in ("Elu", "LeakyRelu", "Celu", "ThresholdedRelu") and b.chance(0.7):
        attributes["alpha"] = b.pick(0.1, 0.5, 1.5)
    if op == "Gelu":
        attributes["approximate"] = b.pick("none", "tanh")
    if op == "HardSigmoid" and b.chance(0.5):
        attributes |= {"alpha": 0.3, "beta": 0.4}
    b.add(op, [x.name], (x.dtype, x.shape), **attributes)


def _unary_of_integers(b: _Builder) -> None:
    x = b.some((I64, I32))
    b.add(b.pick("Abs", "Neg", "Sign", "Identity"), [x.name], (x.dtype, x.shape))


def _root(b: _Builder) -> None:
    """Functions of positive numbers."""
    x = b.some()
    (positive,) = b.add("Abs", [x.name], (x.dtype, x.shape))
    one = b.constant(np.array(b.pick(0.5, 1.0), x.dtype))
    (sum_,) = b.add("Add", [positive.name, one], (x.dtype, x.shape))
    b.add(b.pick("Sqrt", "Log", "Reciprocal"), [sum_.name], (x.dtype, x.shape))


def _exponential(b: _Builder) -> None:
    x = b.some()
    (bounded,) = b.add("Tanh", [x.name], (x.dtype, x.shape))
    b.add("Exp", [bounded.name], (x.dtype, x.shape))


def _clip(b: _Builder) -> None:
    x = b.some(NUMBERS)
    low, high = (b.constant(np.array(v, x.dtype)) for v in (b.pick(-1, 0), b.pick(1, 3)))
    bounds = b.pick([low, high], [low], ["", high], [])
    b.add("Clip", [x.name, *bounds], (x.dtype, x.shape))


def _partner(b: _Builder, x: _Value) -> tuple[str, Shape]:
    """An operand that goes together with x under broadcasting, and the shape of both."""
    if b.chance(0.5):
        other = b.some((x.dtype,), lambda v: _can_broadcast(b, x.shape, v.shape))
        return other.name, np.broadcast_shapes(x.shape, other.shape)
    shape = [size if b.chance(0.6) else 1 for size in x.shape]
    if b.rows and shape:
        shape[0] = 1
    shape = shape[b.random.randrange(len(shape) + 1) :]
    return b.constant(b.array(x.dtype, tuple(shape))), x.shape


def _can_broadcast(b: _Builder, one: Shape, other: Shape) -> bool:
    try:
        shape = np.broadcast_shapes(one, other)
    except ValueError:
        return False
    # With rows apart, axis 0 must be axis 0 of both.
    return not b.rows or len(one) == len(other) == len(shape)


def _binary(b: _Builder) -> None:
    x = b.some(NUMBERS)
    other, shape = _partner(b, x)
    operands = [x.name, other] if b.chance(0.6) else [other, x.name]
    b.add(b.pick("Add", "Add", "Sub", "Mul", "Mul", "Max", "Min"), operands, (x.dtype, shape))


def _division(b: _Builder) -> None:
    x = b.some()
    other = b.some((x.dtype,), lambda v: _can_broadcast(b, x.shape, v.shape))
    shape = np.broadcast_shapes(x.shape, other.shape)
    (positive,) = b.add("Abs", [other.name], (x.dtype, other.shape))
    one = b.constant(np.array(1, x.dtype))
    (divisor,) = b.add("Add", [positive.name, one], (x.dtype, other.shape))
    b.add("Div", [x.name, divisor.name], (x.dtype, shape))


def _power(b: _Builder) -> None:
    x = b.some()
    exponent = b.constant(np.array(b.pick(2, 3, 1), x.dtype))
    b.add("Pow", [x.name, exponent], (x.dtype, x.shape))


def _comparison(b: _Builder) -> None:
    x = b.some((F32, I64, I32))  # in float16 too many are equal, or not, by a rounding
    other, shape = _partner(b, x)
    op = b.pick("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal")
    b.add(op, [x.name, other], (BOOL, shape))


def _logic(b: _Builder) -> None:
    x = b.some((BOOL,))
    if b.chance(0.3):
        b.add("Not", [x.name], (BOOL, x.shape))
        return
    other, shape = _partner(b, x)
    b.add(b.pick("And", "Or", "Xor"), [x.name, other], (BOOL, shape))


def _where(b: _Builder) -> None:
    condition = b.some((BOOL,))
    x = b.some(NUMBERS, lambda v: _can_broadcast(b, condition.shape, v.shape))
    shape = np.broadcast_shapes(condition.shape, x.shape)
    y = b.constant(b.array(x.dtype, b.pick((), (1,))))
    if b.chance(0.5):
        found = b.some((x.dtype,), lambda v: _can_broadcast(b, shape, v.shape))
        shape = np.broadcast_shapes(shape, found.shape)
        y = found.name
    operands = [x.name, y] if b.chance(0.5) else [y, x.name]
    b.add("Where", [condition.name, *operands], (x.dtype, shape))


def _cast(b: _Builder) -> None:
    x = b.some((*NUMBERS, BOOL))
    # Whether a number is zero may depend on a rounding.
    targets = {F32: (F16, F32), F16: (F32, F16), BOOL: (F32, I64, I32)}
    to = b.pick(*targets.get(x.dtype, (F32, I64, I32, BOOL)))
    code = helper.np_dtype_to_tensor_dtype(np.dtype(to))
    b.add("Cast", [x.name], (to, x.shape), to=code)


def _reshape(b: _Builder) -> None:
    x = b.some((*NUMBERS, BOOL), lambda v: v.rank > 0)
    kept = 1 if b.rows else 0
    rest = list(x.shape[kept:])
    if len(rest) > 1 and b.chance(0.6):
        at = b.random.randrange(len(rest) - 1)
        rest[at : at + 2] = [rest[at] * rest[at + 1]]
    elif rest:
        at = b.random.randrange(len(rest))
        divisors = [d for d in (2, 3, 4) if rest[at] % d == 0]
        divisor = b.random.choice(divisors) if divisors else 1
        rest[at : at + 1] = [divisor, rest[at] // divisor]
    told = list(rest)
    if told and b.chance(0.5) and x.count:
        told[b.random.randrange(len(told))] = -1
    shape = (*x.shape[:kept], *rest)
    if not told or 0 in rest:
        raise _Unfit
    b.add("Reshape", [x.name, b.integers(*([0] * kept), *told)], (x.dtype, shape))


def _reshape_by_shape(b: _Builder) -> None:
    """The way exporters write view(x.size(0), -1): sizes that the graph computes."""
    x = b.some(fits=lambda v: v.rank > 1 and 0 not in v.shape)
    (shape,) = b.add("Shape", [x.name], (I64, (x.rank,)))
    b.values.pop()
    rest = int(np.prod(x.shape[1:], dtype=np.int64))
    if b.chance(0.5):
        (first,) = b.add("Gather", [shape.name, b.constant(np.array(0))], (I64, ()))
        b.values.pop()
        (first,) = b.add("Unsqueeze", [first.name, b.integers(0)], (I64, (1,)))
    else:
        ends = [b.integers(0), b.integers(1)]
        (first,) = b.add("Slice", [shape.name, *ends], (I64, (1,)))
    b.values.pop()
    (target,) = b.add("Concat", [first.name, b.integers(-1)], (I64, (2,)), axis=0)
    b.values.pop()
    b.add("Reshape", [x.name, target.name], (x.dtype, (x.shape[0], rest)))


def _transpose(b: _Builder) -> None:
    x = b.some((*NUMBERS, BOOL), lambda v: v.rank > 1)
    kept = [0] if b.rows else []
    order = list(range(len(kept), x.rank))
    b.random.shuffle(order)
    order = kept + order
    b.add("Transpose", [x.name], (x.dtype, tuple(x.shape[a] for a in order)), perm=order)


def _flatten(b: _Builder) -> None:
    x = b.some(fits=lambda v: v.rank > 1)
    axis = 1 if b.rows else b.random.randrange(x.rank + 1)
    shape = tuple(int(np.prod(s, dtype=np.int64)) for s in (x.shape[:axis], x.shape[axis:]))
    b.add("Flatten", [x.name], (x.dtype, shape), axis=axis)


def _squeeze(b: _Builder) -> None:
    x = b.some((*NUMBERS, BOOL), lambda v: 1 in v.shape[int(b.rows) :])
    axis = b.random.choice([a for a in range(int(b.rows), x.rank) if x.shape[a] == 1])
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    b.add("Squeeze", [x.name, b.integers(axis)], (x.dtype, shape))


def _unsqueeze(b: _Builder) -> None:
    x = b.some((*NUMBERS, BOOL))
    if b.rows and not x.rank:
        raise _Unfit
    axis = b.random.randrange(int(b.rows), x.rank + 1)
    shape = (*x.shape[:axis], 1, *x.shape[axis:])
    b.add("Unsqueeze", [x.name, b.integers(axis)], (x.dtype, shape))


def _concat(b: _Builder) -> None:
    x = b.some((*NUMBERS, BOOL), lambda v: v.rank > int(b.rows))
    axis = b.axis(x)
    place = axis % x.rank

    def fits(v: _Value) -> bool:
        return v.rank == x.rank and all(
            a == c or i == place for i, (a, c) in enumerate(zip(v.shape, x.shape, strict=True))
        )

    parts = [x, *(b.some((x.dtype,), fits) for _ in range(b.pick(1, 1, 2)))]
    b.random.shuffle(parts)
    shape = list(x.shape)
    shape[place] = sum(p.shape[place] for p in parts)
    b.add("Concat", [p.name for p in parts], (x.dtype, tuple(shape)), axis=axis)


def _split(b: _Builder) -> None:
    x = b.some((*NUMBERS, BOOL), lambda v: v.rank > int(b.rows))
    axis = b.axis(x)
    place = axis % x.rank
    size = x.shape[place]
    if size < 2:
        raise _Unfit
    first = b.random.randrange(0 if b.chance(0.1) else 1, size)
    shapes = []
    for part in (first, size - first):
        shape = list(x.shape)
        shape[place] = part
        shapes.append((x.dtype, tuple(shape)))
    b.add("Split", [x.name, b.integers(first, size - first)], *shapes, axis=axis)


def _slice_(b: _Builder) -> None:
    x = b.some((*NUMBERS, BOOL), lambda v: v.rank > int(b.rows))
    axis = b.axis(x)
    place = axis % x.rank
    size = x.shape[place]
    step = b.pick(1, 1, 2, -1, -2)
    start = b.random.randrange(-size, size) if size else 0
    end = b.pick(size, 2**31 - 1, 2**62, -1, 1) if step > 0 else b.pick(-(2**31), -size - 1, 0)
    shape = list(x.shape)
    shape[place] = len(range(*slice(start, end, step).indices(size)))
    if shape[place] == 0 and b.chance(0.9):
        raise _Unfit
    operands = [b.integers(v) for v in (start, end, axis, step)]
    b.add("Slice", [x.name, *operands], (x.dtype, tuple(shape)))


def _gather(b: _Builder) -> None:
    x = b.some((*NUMBERS, BOOL), lambda v: v.rank > int(b.rows))
    axis = b.axis(x)
    place = axis % x.rank
    size = x.shape[place]
    if size == 0:
        raise _Unfit
    own = b.pick((), (1,), (3,), (2, 2))
    indices = b.numbers.integers(-size, size, own)
    shape = (*x.shape[:place], *own, *x.shape[place + 1 :])
    b.add("Gather", [x.name, b.constant(indices)], (x.dtype, shape), axis=axis)


def _pad(b: _Builder) -> None:
    x = b.some((F32, F16, I64), lambda v: v.rank > int(b.rows))
    axis = b.axis(x) % x.rank
    mode = b.pick("constant", "constant", "reflect", "edge")
    if x.shape[axis] < 3:
        mode = "constant"
    pads = np.zeros((2, x.rank), np.int64)
    pads[:, axis] = [b.pick(0, 1, 2), b.pick(0, 1, 2)]
    if mode == "constant" and x.shape[axis] > 4 and b.chance(0.2):
        pads[1, axis] = -1
    shape = list(x.shape)
    shape[axis] += int(pads[:, axis].sum())
    operands = [x.name, b.constant(pads.reshape(-1))]
    if mode == "constant" and b.chance(0.5):
        operands.append(b.constant(np.array(b.pick(0, 1, -2), x.dtype)))
    b.add("Pad", operands, (x.dtype, tuple(shape)), mode=mode)


def _expand(b: _Builder) -> None:
    x = b.some((*NUMBERS, BOOL), lambda v: 1 in v.shape[int(b.rows) :])
    shape = [b.pick(1, 2, 3) if size == 1 else size for size in x.shape]
    told = [1 if size == own else size for size, own in zip(shape, x.shape, strict=True)]
    if b.rows:
        shape[0] = x.shape[0]
        told[0] = 1
    b.add("Expand", [x.name, b.integers(*told)], (x.dtype, tuple(shape)))


def _tile(b: _Builder) -> None:
    x = b.some((*NUMBERS, BOOL), lambda v: v.rank > int(b.rows))
    repeats = [b.pick(1, 1, 2) for _ in x.shape]
    if b.rows:
        repeats[0] = 1
    shape = tuple(s * r for s, r in zip(x.shape, repeats, strict=True))
    b.add("Tile", [x.name, b.integers(*repeats)], (x.dtype, shape))


def _reduction(b: _Builder) -> None:
    x = b.some(fits=lambda v: v.rank > int(b.rows) and 0 not in v.shape)
    first = int(b.rows)
    axes = sorted(b.random.sample(range(first, x.rank), b.random.randint(1, x.rank - first)))
    keep = b.pick(0, 1)
    op = b.pick("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceL1")
    shape = tuple(1 if a in axes else s for a, s in enumerate(x.shape) if keep or a not in axes)
    b.add(op, [x.name, b.integers(*axes)], (x.dtype, shape), keepdims=keep)


def _softmax(b: _Builder) -> None:
    x = b.some(fits=lambda v: v.rank > int(b.rows))
    op = b.pick("Softmax", "Softmax", "LogSoftmax")
    b.add(op, [x.name], (x.dtype, x.shape), axis=b.axis(x))


def _cumulative_sum(b: _Builder) -> None:
    x = b.some((F32, I64), lambda v: v.rank > int(b.rows))
    axis = b.constant(np.array(b.axis(x)))
    flags = {"exclusive": b.pick(0, 1), "reverse": b.pick(0, 1)}
    b.add("CumSum", [x.name, axis], (x.dtype, x.shape), **flags)


def _matmul(b: _Builder) -> None:
    x = b.some((F32,), lambda v: v.rank > 1)
    inner = x.shape[-1]
    if b.chance(0.35):

        def fits(v: _Value) -> bool:
            return (
                v.rank > 1
                and v.shape[-2] == inner
                and (not b.rows or (v.rank == x.rank and v.rank > 2))
                and _can_broadcast(b, x.shape[:-2], v.shape[:-2])
            )

        if b.rows and x.rank == 2:
            raise _Unfit
        other = b.some((F32,), fits)
        batch = np.broadcast_shapes(x.shape[:-2], other.shape[:-2])
        b.add("MatMul", [x.name, other.name], (F32, (*batch, x.shape[-2], other.shape[-1])))
        return
    columns = b.pick(1, 3, 8, 17)
    weight = b.array(F32, (inner, columns)) / np.float32(max(inner, 1) ** 0.5)
    (y,) = b.add("MatMul", [x.name, b.constant(weight)], (F32, (*x.shape[:-1], columns)))
    if b.chance(0.6):
        b.add("Add", [y.name, b.constant(b.array(F32, (columns,)))], (F32, y.shape))


def _vector_product(b: _Builder) -> None:
    """A matrix, or what was turned, by a vector on either side."""
    x = b.some((F32,), lambda v: v.rank > 1 and 0 not in v.shape)
    if not b.rows and b.chance(0.4):
        order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
        (x,) = b.add("Transpose", [x.name], (F32, tuple(x.shape[a] for a in order)), perm=order)
    is_left = x.rank > 2 and b.chance(0.3)  # of rows that are kept apart none is summed
    size = x.shape[-2 if is_left else -1]
    found = [v.name for v in b.values if v.dtype == F32 and v.shape == (size,) and not b.rows]
    vector = b.random.choice([*found, ""]) or b.constant(b.array(F32, (size,)) / size**0.5)
    operands = [vector, x.name] if is_left else [x.name, vector]
    shape = (*x.shape[:-2], x.shape[-1]) if is_left else x.shape[:-1]
    (y,) = b.add("MatMul", operands, (F32, shape))
    if b.chance(0.4):
        factor = b.constant(np.array(b.pick(0.5, 2.0), np.float32))
        b.add("Mul", [y.name, factor], (F32, shape))


def _gemm(b: _Builder) -> None:
    x = b.some((F32,), lambda v: v.rank == 2)
    flipped = not b.rows and b.chance(0.3)
    rows, inner = x.shape[::-1] if flipped else x.shape
    columns = b.pick(1, 4, 9)
    turned = b.pick(0, 1)
    weight = b.array(F32, (columns, inner) if turned else (inner, columns))
    operands = [x.name, b.constant(weight / np.float32(max(inner, 1) ** 0.5))]
    if b.chance(0.7):
        operands.append(b.constant(b.array(F32, b.pick((columns,), (1, columns), (1,), ()))))
    attributes: dict[str, Any] = {"transB": turned}
    if flipped:
        attributes["transA"] = 1
    if b.chance(0.3):
        attributes |= {"alpha": 0.5, "beta": b.pick(1.0, 2.0, 0.0)}
    b.add("Gemm", operands, (F32, (rows, columns)), **attributes)


def _window(b: _Builder, x: _Value) -> tuple[dict[str, Any], Shape]:
    """Kernel, strides, pads and dilations of a _window over the spatial axes, and its places."""
    spatial = x.shape[2:]
    kernel = [b.random.randint(1, min(3, s)) if s else 1 for s in spatial]
    strides = [b.pick(1, 1, 2) for _ in spatial]
    dilations = [
        b.pick(1, 1, 2) if (k - 1) * 2 < s else 1 for k, s in zip(kernel, spatial, strict=True)
    ]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [[b.random.randint(0, k // 2) for k in kernel] for _ in range(2)]
    places = tuple(
        (s + low + high - r) // stride + 1
        for s, low, high, r, stride in zip(spatial, *pads, reach, strides, strict=True)
    )
    if any(p < 1 for p in places):
        raise _Unfit
    attributes = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
    return attributes | {"pads": pads[0] + pads[1]}, places


def _some_picture(b: _Builder, dtypes: tuple[str, ...] = (F32,)) -> _Value:
    return b.some(dtypes, lambda v: v.rank in (3, 4, 5) and 0 not in v.shape)


def _convolution(b: _Builder) -> None:
    x = _some_picture(b)
    attributes, places = _window(b, x)
    channels = x.shape[1]
    groups = b.random.choice([g for g in (1, 1, channels, 2) if channels % g == 0])
    maps = groups * b.pick(1, 2, 5)
    shape = (maps, channels // groups, *attributes["kernel_shape"])
    weight = b.array(F32, shape) / np.float32(np.prod(shape[1:]) ** 0.5)
    operands = [x.name, b.constant(weight)]
    if b.chance(0.6):
        operands.append(b.constant(b.array(F32, (maps,))))
    (y,) = b.add("Conv", operands, (F32, (x.shape[0], maps, *places)), group=groups, **attributes)
    if b.chance(0.4):
        scale, bias, mean = (b.constant(b.array(F32, (maps,))) for _ in range(3))
        variance = b.constant(np.abs(b.array(F32, (maps,))) + np.float32(0.5))
        b.add("BatchNormalization", [y.name, scale, bias, mean, variance], (F32, y.shape))


def _transposed_convolution(b: _Builder) -> None:
    x = _some_picture(b)
    spatial = x.shape[2:]
    kernel = [b.pick(1, 2, 3) for _ in spatial]
    strides = [b.pick(1, 2) for _ in spatial]
    channels = x.shape[1]
    groups = b.random.choice([g for g in (1, channels) if channels % g == 0])
    own = b.pick(1, 3)
    weight = b.array(F32, (channels, own, *kernel)) / np.float32(channels**0.5)
    places = tuple((s - 1) * st + k for s, st, k in zip(spatial, strides, kernel, strict=True))
    attributes = {"kernel_shape": kernel, "strides": strides, "group": groups}
    b.add(
        "ConvTranspose",
        [x.name, b.constant(weight)],
        (F32, (x.shape[0], groups * own, *places)),
        **attributes,
    )


def _pool(b: _Builder) -> None:
    x = _some_picture(b)
    attributes, places = _window(b, x)
    op = b.pick("MaxPool", "AveragePool")
    if op == "AveragePool":
        attributes["dilations"] = [1] * len(places)
        attributes["count_include_pad"] = b.pick(0, 1)
        spans = zip(
            x.shape[2:],
            attributes["pads"][: len(places)],
            attributes["pads"][len(places) :],
            attributes["kernel_shape"],
            attributes["strides"],
            strict=True,
        )
        places = tuple((s + low + high - k) // stride + 1 for s, low, high, k, stride in spans)
    b.add(op, [x.name], (F32, (*x.shape[:2], *places)), **attributes)


def _global_pool(b: _Builder) -> None:
    x = _some_picture(b)
    op = b.pick("GlobalAveragePool", "GlobalMaxPool")
    b.add(op, [x.name], (F32, (*x.shape[:2], *([1] * (x.rank - 2)))))


def _resize(b: _Builder) -> None:
    x = b.some((F32,), lambda v: v.rank == 4 and 0 not in v.shape)
    mode = b.pick("nearest", "linear")
    attributes = {"mode": mode}
    if mode == "nearest":
        way, rounding = b.pick(("asymmetric", "floor"), ("half_pixel", "round_prefer_ceil"))
        attributes |= {"coordinate_transformation_mode": way, "nearest_mode": rounding}
    else:
        attributes["coordinate_transformation_mode"] = b.pick("half_pixel", "align_corners")
    shape = (*x.shape[:2], x.shape[2] * 2, x.shape[3] * b.pick(1, 2, 3))
    if b.chance(0.5) or b.rows:
        scales = np.array([n / o for n, o in zip(shape, x.shape, strict=True)], np.float32)
        operands = [x.name, "", b.constant(scales)]
    else:
        operands = [x.name, "", "", b.integers(*shape)]
    b.add("Resize", operands, (F32, shape), **attributes)


def _depth_to_space(b: _Builder) -> None:
    x = b.some((F32,), lambda v: v.rank == 4 and v.shape[1] % 4 == 0)
    n, c, h, w = x.shape
    shape = (n, c // 4, h * 2, w * 2)
    b.add("DepthToSpace", [x.name], (F32, shape), blocksize=2, mode=b.pick("DCR", "CRD"))


def _layer_normalization(b: _Builder) -> None:
    x = b.some((F32,), lambda v: v.rank > 1 and v.shape[-1] > 1 and 0 not in v.shape)
    size = x.shape[-1:]
    operands = [x.name, b.constant(b.array(F32, size))]
    if b.chance(0.7):
        operands.append(b.constant(b.array(F32, size)))
    b.add("LayerNormalization", operands, (F32, x.shape), axis=-1, epsilon=b.pick(1e-5, 1e-2))


def _written_normalization(b: _Builder) -> None:
    """LayerNormalization as exporters of old opsets write it."""
    x = b.some((F32,), lambda v: v.rank > 1 and v.shape[-1] > 1 and 0 not in v.shape)
    narrow = (F32, (*x.shape[:-1], 1))
    wide = (F32, x.shape)
    (mean,) = b.add("ReduceMean", [x.name, b.integers(-1)], narrow)
    (centred,) = b.add("Sub", [x.name, mean.name], wide)
    if b.chance(0.5):
        (square,) = b.add("Mul", [centred.name, centred.name], wide)
    else:
        two = b.constant(np.array(2, np.float32))
        (square,) = b.add("Pow", [centred.name, two], wide)
    (variance,) = b.add("ReduceMean", [square.name, b.integers(-1)], narrow)
    (safe,) = b.add("Add", [variance.name, b.constant(np.array(1e-2, np.float32))], narrow)
    (deviation,) = b.add("Sqrt", [safe.name], narrow)
    (y,) = b.add("Div", [centred.name, deviation.name], wide)
    (y,) = b.add("Mul", [y.name, b.constant(b.array(F32, x.shape[-1:]))], wide)
    b.add("Add", [y.name, b.constant(b.array(F32, x.shape[-1:]))], wide)


def _instance_normalization(b: _Builder) -> None:
    x = b.some((F32,), lambda v: v.rank in (3, 4) and np.prod(v.shape[2:]) > 1 and v.count > 0)
    scale, bias = (b.constant(b.array(F32, x.shape[1:2])) for _ in range(2))
    b.add("InstanceNormalization", [x.name, scale, bias], (F32, x.shape), epsilon=1e-2)


def _gate(b: _Builder) -> None:
    """x times a function of x, as SiLU, GELU and hard swish are written."""
    x = b.some()
    (y,) = b.add(b.pick("Sigmoid", "Tanh", "HardSigmoid", "Erf"), [x.name], (x.dtype, x.shape))
    b.add("Mul", [x.name, y.name] if b.chance(0.5) else [y.name, x.name], (x.dtype, x.shape))


def _attention(b: _Builder) -> None:
    """Scaled products of keys and queries as exporters write them."""
    x = b.some((F32,), lambda v: v.rank in (3, 4) and 0 not in v.shape and v.shape[-1] > 1)
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    turned = tuple(x.shape[a] for a in order)
    (keys,) = b.add("Transpose", [x.name], (F32, turned), perm=order)
    shape = (*x.shape[:-1], x.shape[-2])
    (scores,) = b.add("MatMul", [x.name, keys.name], (F32, shape))
    scale = b.constant(np.array(x.shape[-1] ** b.pick(0.5, 0.25), np.float32))
    (scaled,) = b.add(b.pick("Div", "Mul"), [scores.name, scale], (F32, shape))
    if b.chance(0.5):
        mask = b.constant(b.array(F32, (1,) * (x.rank - 2) + shape[-2:]))
        (scaled,) = b.add("Add", [scaled.name, mask], (F32, shape))
    (weights,) = b.add("Softmax", [scaled.name], (F32, shape), axis=-1)
    b.add("MatMul", [weights.name, x.name], (F32, x.shape))


def _quantisation(b: _Builder) -> None:
    x = b.some((F32,))
    kind = b.pick(np.uint8, np.int8)
    # No multiples of each other, whose products would lie between two steps.
    scale = b.constant(np.array(b.pick(0.02, 0.0531), np.float32))
    zero = b.constant(np.array(b.pick(0, 100), kind))
    (y,) = b.add("QuantizeLinear", [x.name, scale, zero], (np.dtype(kind).name, x.shape))
    b.add("DequantizeLinear", [y.name, scale, zero], (F32, x.shape))


def _branch(b: _Builder) -> None:
    """An If over values of the graph around it."""
    x = b.some((F32,))
    (condition,) = b.add(
        "Greater",
        [b.constant(np.array(v, np.float32)) for v in (b.pick(0.0, 1.0), 0.5)],
        (BOOL, ()),
    )
    b.values.pop()
    bodies = []
    for ops in (["Relu"], ["Neg", "Tanh"]):
        nodes, at = [], x.name
        for op in ops:
            name = b.name()
            nodes.append(helper.make_node(op, [at], [name]))
            at = name
        result = helper.make_tensor_value_info(at, TensorProto.FLOAT, None)
        bodies.append(helper.make_graph(nodes, "body", [], [result]))
    b.add("If", [condition.name], (F32, x.shape), then_branch=bodies[0], else_branch=bodies[1])


_NODES: dict[Callable[[_Builder], None], float] = {
    _unary: 5,
    _unary_of_integers: 0.7,
    _root: 1,
    _exponential: 0.5,
    _clip: 1,
    _binary: 6,
    _division: 1,
    _power: 0.5,
    _comparison: 1,
    _logic: 0.7,
    _where: 1,
    _cast: 1.5,
    _reshape: 3,
    _reshape_by_shape: 1,
    _transpose: 3,
    _flatten: 0.7,
    _squeeze: 1,
    _unsqueeze: 1,
    _concat: 2,
    _split: 1.5,
    _slice_: 2,
    _gather: 1.5,
    _pad: 1.5,
    _expand: 0.7,
    _tile: 0.7,
    _reduction: 2,
    _softmax: 1,
    _cumulative_sum: 0.5,
    _matmul: 3,
    _vector_product: 0.7,
    _gemm: 1,
    _convolution: 4,
    _transposed_convolution: 0.7,
    _pool: 1.5,
    _global_pool: 0.7,
    _resize: 1,
    _depth_to_space: 0.5,
    _layer_normalization: 1,
    _written_normalization: 0.7,
    _instance_normalization: 0.5,
    _gate: 1.5,
    _attention: 1,
    _quantisation: 1.5,
    _branch: 0.3,
}


def make_random_graph(seed: int, most_nodes: int = 24) -> RandomGraph:
    """The graph of this number, of up to about `most_nodes` nodes."""
    b = _Builder(seed)
    first = b.pick(1, 2, 3, 4)
    inputs = []
    for _ in range(b.pick(1, 1, 2, 3)):
        dtype = b.pick(F32, F32, F32, F32, F16, I64)
        rest = tuple(b.pick(1, 2, 3, 4, 8) for _ in range(b.pick(1, 2, 3, 3, 3)))
        inputs.append(_Value(b.name(), dtype, (first, *rest)))
    b.values += inputs
    wanted = b.random.randint(2, most_nodes)
    for _ in range(4 * wanted):
        if len(b.nodes) >= wanted:
            break
        (grow,) = b.random.choices(list(_NODES), list(_NODES.values()))
        before = (len(b.values), len(b.nodes), len(b.initializers))
        try:
            grow(b)
        except _Unfit:
            for kept, part in zip(before, (b.values, b.nodes, b.initializers), strict=True):
                del part[kept:]
    read = {name for node in b.nodes for name in node.input}
    made = [v for v in b.values if v not in inputs]
    outputs = [v for v in made if v.name not in read or b.chance(0.1)]
    if not outputs:
        outputs = b.add("Identity", [inputs[0].name], (inputs[0].dtype, inputs[0].shape))

    is_open = b.rows and b.chance(0.7)
    counts = [first, 7, 1, first] if is_open else [first, first]
    runs = [{v.name: b.array(v.dtype, (n, *v.shape[1:])) for v in inputs} for n in counts]
    infos = [
        value_info(v.name, runs[0][v.name], ("rows", *v.shape[1:]) if is_open else None)
        for v in inputs
    ]
    is_half = F16 in {v.dtype for v in b.values}
    return RandomGraph(
        make_model(b.nodes, infos, [v.name for v in outputs], b.initializers),
        tuple(sorted({node.op_type for node in b.nodes})),
        runs,
        TOLERANCE_OF_HALF if is_half else TOLERANCE,
    )
