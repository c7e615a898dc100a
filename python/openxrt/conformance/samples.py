# SPDX-License-Identifier: Apache-2.0
"""Generated samples: one row per op gives a node with inputs of a size.

A row is a function of random numbers and a size `n` that appears in the shapes. It gives the values
of the inputs; attributes and the positions of inputs that are constants in most models stand beside
it. A new op needs one call of `add` and nothing else.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .models import Sample

Random = np.random.Generator
Values = Sequence[np.ndarray | None]


@dataclass(frozen=True)
class Row:
    """How samples of an op are made."""

    op: str
    inputs: Callable[[Random, int], Values]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    fixed: frozenset[int] = frozenset()
    empty: bool = False  # n may be 0
    large: int = 20000  # n of checks that want work for a while
    most: int = 1 << 30  # the largest n that checks of values try

    def sample(self, n: int, seed: int) -> Sample:
        """The sample of size n; the same for the same seed on every machine."""
        rng = np.random.default_rng([seed, n, zlib.crc32(self.op.encode())])
        values = tuple(self.inputs(rng, n))
        return Sample(self.op, values, self.attributes, self.outputs, self.fixed)


ROWS: dict[str, Row] = {}


def add(op: str, inputs: Callable[[Random, int], Values], **options: Any) -> None:
    """A row of the table. A second one of an op is an error."""
    if op in ROWS:
        raise ValueError(f"{op} has a row already")
    options["fixed"] = frozenset(options.get("fixed", ()))
    ROWS[op] = Row(op, inputs, **options)


def uniform(rng: Random, *shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """float32 values between two bounds."""
    return rng.uniform(low, high, shape).astype(np.float32)


def away_from_zero(rng: Random, *shape: int) -> np.ndarray:
    """float32 values of magnitude 0.5 to 2."""
    return (rng.uniform(0.5, 2.0, shape) * rng.choice([-1.0, 1.0], shape)).astype(np.float32)


def truths(rng: Random, *shape: int) -> np.ndarray:
    """Truth values."""
    return rng.integers(0, 2, shape).astype(bool)


def integers(rng: Random, low: int, high: int, *shape: int) -> np.ndarray:
    """int64 values from low to high - 1."""
    return rng.integers(low, high, shape)


def indices(*values: int) -> np.ndarray:
    """int64 values, as axes and sizes are given."""
    return np.array(values, np.int64)


def scalar(value: float) -> np.ndarray:
    """A float32 scalar."""
    return np.array(value, np.float32)


# --- one operand ----------------------------------------------------------------------------------


def _unary(op: str, low: float = -2.0, high: float = 2.0, **attributes: Any) -> None:
    add(
        op,
        lambda rng, n: [uniform(rng, 3, n, low=low, high=high)],
        attributes=attributes,
        empty=True,
    )


for _op in (
    *("Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Exp", "Floor", "Ceil", "Sign", "Erf", "Sin", "Cos"),
    *("Atan", "Sinh", "Cosh", "Asinh", "HardSwish", "Mish", "Softplus", "Softsign", "Round"),
):
    _unary(_op)
_unary("Log", 0.1, 4)
_unary("Sqrt", 0, 4)
_unary("Tan", -1.2, 1.2)
_unary("Asin", -1, 1)
_unary("Acos", -1, 1)
_unary("Atanh", -0.9, 0.9)
_unary("Acosh", 1, 4)
_unary("Elu", alpha=0.7)
_unary("Celu", alpha=0.7)
_unary("Selu", alpha=1.5, gamma=1.1)
_unary("LeakyRelu", alpha=0.3)
_unary("ThresholdedRelu", alpha=0.6)
_unary("HardSigmoid", alpha=0.3, beta=0.4)
_unary("Gelu", approximate="tanh")
_unary("Cast", to=7)
add("Reciprocal", lambda rng, n: [away_from_zero(rng, 3, n)], empty=True)
add("Not", lambda rng, n: [truths(rng, 3, n)], empty=True)
add(
    "IsNaN",
    lambda rng, n: [np.where(truths(rng, 3, n), np.float32(np.nan), np.float32(1))],
    empty=True,
)
add(
    "IsInf",
    lambda rng, n: [np.where(truths(rng, 3, n), np.float32(-np.inf), np.float32(1))],
    attributes={"detect_positive": 0},
    empty=True,
)
add(
    "BitwiseNot",
    lambda rng, n: [integers(rng, 0, 255, 3, n).astype(np.uint8)],
    empty=True,
)

# --- two operands and more ------------------------------------------------------------------------

for _op in ("Add", "Sub", "Mul", "Min", "Max", "Sum", "Mean", "PRelu"):
    add(_op, lambda rng, n: [uniform(rng, 3, n), uniform(rng, n)], empty=True)
for _op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"):
    add(
        _op,
        lambda rng, n: [np.rint(uniform(rng, 3, n)), np.rint(uniform(rng, 3, 1))],
        empty=True,
    )
for _op in ("And", "Or", "Xor"):
    add(_op, lambda rng, n: [truths(rng, 3, n), truths(rng, n)], empty=True)
for _op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    add(
        _op,
        lambda rng, n: [integers(rng, 0, 99, 3, n), integers(rng, 0, 99, n)],
        empty=True,
    )
add("Div", lambda rng, n: [uniform(rng, 3, n), away_from_zero(rng, n)], empty=True)
add(
    "Pow",
    lambda rng, n: [uniform(rng, 3, n, low=0.5), uniform(rng, n, low=0.5)],
    empty=True,
)
add(
    "Mod",
    lambda rng, n: [integers(rng, -50, 50, 3, n), integers(rng, 1, 9, n)],
    empty=True,
)
add(
    "BitShift",
    lambda rng, n: [
        integers(rng, 0, 99, 3, n).astype(np.uint32),
        integers(rng, 0, 9, n).astype(np.uint32),
    ],
    attributes={"direction": "LEFT"},
    empty=True,
)
add(
    "Where",
    lambda rng, n: [truths(rng, 3, n), uniform(rng, n), uniform(rng, 3, 1)],
    empty=True,
)
add(
    "Clip",
    lambda rng, n: [uniform(rng, 3, n), scalar(-0.5), scalar(1.25)],
    fixed=(1, 2),
    empty=True,
)

# --- reductions -----------------------------------------------------------------------------------

for _op in ("Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp"):
    add(
        f"Reduce{_op}",
        lambda rng, n: [uniform(rng, 3, n, 2), indices(1)],
        attributes={"keepdims": 0},
        fixed=(1,),
    )
add(
    "ReduceProd",
    lambda rng, n: [uniform(rng, 3, n, low=0.9, high=1.1), indices(-1)],
    fixed=(1,),
    most=130,
)
add("ReduceLogSum", lambda rng, n: [uniform(rng, 3, n, low=0.1), indices(-1)], fixed=(1,))
for _op in ("ArgMax", "ArgMin"):
    add(_op, lambda rng, n: [uniform(rng, 3, n)], attributes={"axis": 1, "keepdims": 0})
for _op in ("Softmax", "LogSoftmax", "Hardmax"):
    add(_op, lambda rng, n: [uniform(rng, 3, n, 2)], attributes={"axis": 1})
add("CumSum", lambda rng, n: [uniform(rng, 3, n), np.array(1, np.int64)], fixed=(1,), most=130)
add(
    "TopK",
    lambda rng, n: [uniform(rng, 3, n + 4), indices(3)],
    attributes={"axis": -1},
    outputs=2,
    fixed=(1,),
)

# --- normalisations -------------------------------------------------------------------------------

add(
    "LayerNormalization",
    lambda rng, n: [uniform(rng, 3, n + 1), uniform(rng, n + 1), uniform(rng, n + 1)],
    attributes={"epsilon": 1e-3},
)
add(
    "RMSNormalization",
    lambda rng, n: [uniform(rng, 3, n), uniform(rng, n)],
    attributes={"epsilon": 1e-3},
)
add(
    "BatchNormalization",
    lambda rng, n: [
        uniform(rng, 2, n, 3, 3),
        uniform(rng, n),
        uniform(rng, n),
        uniform(rng, n),
        uniform(rng, n, low=0.5),
    ],
    attributes={"epsilon": 1e-2},
    large=2000,
)
add(
    "InstanceNormalization",
    lambda rng, n: [uniform(rng, 2, n, 3, 5), uniform(rng, n), uniform(rng, n)],
    large=1000,
)
add(
    "GroupNormalization",
    lambda rng, n: [uniform(rng, 2, 4, n, 3), uniform(rng, 4), uniform(rng, 4)],
    attributes={"num_groups": 2},
    large=2000,
)
add("LpNormalization", lambda rng, n: [away_from_zero(rng, 3, n)], attributes={"axis": 1, "p": 2})
add("MeanVarianceNormalization", lambda rng, n: [uniform(rng, 2, n, 3, 4)], large=2000)
add(
    "LRN",
    lambda rng, n: [uniform(rng, n, n, 2, 3)],  # the reference evaluator takes only such batches
    attributes={"size": 3, "alpha": 0.01, "beta": 0.6, "bias": 1.2},
    large=50,
    most=33,
)

# --- products -------------------------------------------------------------------------------------

add(
    "MatMul",
    lambda rng, n: [uniform(rng, n, 7), uniform(rng, 7, n)],
    empty=True,
    large=128,
)
add(
    "Gemm",
    lambda rng, n: [uniform(rng, 9, n), uniform(rng, 5, 9), uniform(rng, 5)],
    attributes={"alpha": 2.0, "beta": 3.0, "transA": 1, "transB": 1},
    large=2000,
)
add(
    "Einsum",
    lambda rng, n: [uniform(rng, 3, n), uniform(rng, 5, n)],
    attributes={"equation": "ij,kj->ik"},
    large=2000,
)
add(
    "Conv",
    lambda rng, n: [uniform(rng, 1, 3, n, n + 1), uniform(rng, 4, 3, 3, 3), uniform(rng, 4)],
    attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 1]},
    large=48,
    most=70,
)
add(
    "ConvTranspose",
    lambda rng, n: [uniform(rng, 1, 2, n, n + 1), uniform(rng, 2, 3, 3, 3)],
    attributes={"kernel_shape": [3, 3], "strides": [2, 2]},
    large=32,
    most=33,
)
add(
    "MaxPool",
    lambda rng, n: [uniform(rng, 1, 3, n, n + 1)],
    attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]},
    large=64,
    most=70,
)
add(
    "AveragePool",
    lambda rng, n: [uniform(rng, 1, 3, n, n + 1)],
    attributes={"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    large=64,
    most=70,
)
add(
    "LpPool",
    lambda rng, n: [uniform(rng, 1, 3, n + 2, n + 3)],
    attributes={"kernel_shape": [3, 2], "p": 2},
    large=64,
    most=70,
)
for _op in ("GlobalAveragePool", "GlobalMaxPool"):
    add(_op, lambda rng, n: [uniform(rng, 2, 3, n, n + 1)], large=100)


def _recurrent(op: str, gates: int, outputs: int) -> None:
    """n is the length of the sequence."""
    hidden = 5

    def inputs(rng: Random, n: int) -> Values:
        weights = [(1, gates * hidden, 3), (1, gates * hidden, hidden), (1, 2 * gates * hidden)]
        return [uniform(rng, n, 2, 3), *(uniform(rng, *w, low=-0.5, high=0.5) for w in weights)]

    attributes = {"hidden_size": hidden}
    add(op, inputs, attributes=attributes, outputs=outputs, large=100, most=33)


_recurrent("RNN", 1, 2)
_recurrent("GRU", 3, 2)
_recurrent("LSTM", 4, 3)

# --- where elements lie ---------------------------------------------------------------------------

add("Transpose", lambda rng, n: [uniform(rng, 3, n, 2)], attributes={"perm": [2, 0, 1]}, empty=True)
add("Reshape", lambda rng, n: [uniform(rng, n, 6), indices(-1, 3)], fixed=(1,))
add("Flatten", lambda rng, n: [uniform(rng, n, 2, 3)], attributes={"axis": 1}, empty=True)
add("Squeeze", lambda rng, n: [uniform(rng, 1, n), indices(0)], fixed=(1,), empty=True)
add("Unsqueeze", lambda rng, n: [uniform(rng, 3, n), indices(1)], fixed=(1,), empty=True)
add(
    "Concat",
    lambda rng, n: [uniform(rng, 2, n), uniform(rng, 2, 3)],
    attributes={"axis": 1},
    empty=True,
)
add(
    "Split",
    lambda rng, n: [uniform(rng, 3, 2 * n)],
    attributes={"axis": 1, "num_outputs": 2},
    outputs=2,
)
add(
    "Slice",
    lambda rng, n: [uniform(rng, 5, n + 2), indices(1), indices(-1), indices(1), indices(1)],
    fixed=(1, 2, 3, 4),
)
add(
    "Gather",
    lambda rng, n: [uniform(rng, 5, n), integers(rng, -5, 5, 2, 3)],
    attributes={"axis": 0},
)
add(
    "GatherElements",
    lambda rng, n: [uniform(rng, 4, n), integers(rng, 0, 4, 2, n)],
    attributes={"axis": 0},
)
add("GatherND", lambda rng, n: [uniform(rng, 4, n), integers(rng, 0, 4, 3, 1)])
add(
    "ScatterElements",
    lambda rng, n: [uniform(rng, 4, n), integers(rng, 0, 4, 1, n), uniform(rng, 1, n)],
    attributes={"axis": 0},
)
add(
    "ScatterND",
    lambda rng, n: [uniform(rng, 4, n), np.array([[2], [0]], np.int64), uniform(rng, 2, n)],
)
add(
    "Pad",
    lambda rng, n: [uniform(rng, 2, n), indices(1, 0, 2, 1), scalar(0.5)],
    fixed=(1, 2),
)
add("Expand", lambda rng, n: [uniform(rng, n), indices(3, 1)], fixed=(1,))
add("Tile", lambda rng, n: [uniform(rng, 2, n), indices(2, 3)], fixed=(1,))
add(
    "DepthToSpace",
    lambda rng, n: [uniform(rng, 1, 8, n, 3)],
    attributes={"blocksize": 2},
    large=2000,
)
add(
    "SpaceToDepth",
    lambda rng, n: [uniform(rng, 1, 2, 2 * n, 4)],
    attributes={"blocksize": 2},
    large=2000,
)
add(
    "OneHot",
    lambda rng, n: [
        integers(rng, 0, 5, n),
        np.array(5, np.int64),
        np.array([0.25, 4], np.float32),
    ],
    fixed=(1, 2),
)
add("Trilu", lambda rng, n: [uniform(rng, n, n + 2)], attributes={"upper": 0}, large=200)
add(
    "Resize",
    lambda rng, n: [uniform(rng, 1, 2, n, n), None, np.array([1, 1, 2, 2], np.float32)],
    attributes={"mode": "linear"},
    fixed=(2,),
    large=64,
    most=70,
)

# --- quantised ------------------------------------------------------------------------------------

add(
    "QuantizeLinear",
    lambda rng, n: [uniform(rng, 3, n), scalar(0.0173), np.array(117, np.uint8)],
    fixed=(1, 2),
)
add(
    "DequantizeLinear",
    lambda rng, n: [
        integers(rng, 0, 256, 3, n).astype(np.uint8),
        scalar(0.0173),
        np.array(117, np.uint8),
    ],
    fixed=(1, 2),
)
