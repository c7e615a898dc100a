# SPDX-License-Identifier: Apache-2.0
"""Hostile elements, shapes and numbers: what callers may send and nobody does by accident."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
from onnx import helper

INTEGERS = [0, 1, -1, 2, -2, 3, 5, 7, 16, 255, 256, -128, 65536, 100_000, 10**6]
INTEGERS += [2**31 - 1, -(2**31), 2**31, 2**32, 10**10, 2**40, -(2**40)]
INTEGERS += [2**62, 2**63 - 1, -(2**63), -(2**63) + 1]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-30, 1e4, -1e4, 1e10, -1e10, 3.4e38, -3.4e38]
FLOATS += [float("nan"), float("inf"), float("-inf")]
TEXTS = ["", "a", "(" * 3000 + ")" * 3000, "(a*)*b", "\x00", "é" * 9, "x" * 20_000, "[", "\xff"]
SIZES = [0, 1, 2, 3, 5, 17]


def integer(rng: random.Random) -> int:
    """An int64."""
    return rng.choice(INTEGERS) if rng.random() < 0.7 else rng.randint(-9, 9)


def within(dtype: np.dtype, number: int) -> int:
    """The number as the dtype wraps it."""
    info = np.iinfo(dtype)
    span = int(info.max) - int(info.min) + 1
    return (number - int(info.min)) % span + int(info.min)


def spoiled(rng: random.Random, array: np.ndarray) -> np.ndarray:
    """The array with some elements replaced."""
    array = np.array(array)  # a copy that can be written to
    if array.size == 0:
        return array
    count = 1 if rng.random() < 0.7 else rng.randint(1, min(array.size, 8))
    flat = array.reshape(-1)
    for _ in range(count):
        at = rng.randrange(flat.size)
        flat[at] = element(rng, flat[at], array.dtype)
    return flat.reshape(array.shape)


def element(rng: random.Random, old: Any, dtype: np.dtype) -> Any:
    """A hostile element of the dtype."""
    if dtype.kind in "OUS":
        return rng.choice(TEXTS)
    if dtype == np.bool_:
        return not old
    if dtype.kind in "iu":
        return dtype.type(within(dtype, integer(rng)))
    with np.errstate(all="ignore"):
        return np.array(rng.choice(FLOATS)).astype(dtype)


def reshaped(rng: random.Random, array: np.ndarray) -> np.ndarray:
    """The elements, repeated as needed, in another shape: other sizes, empty, another rank."""
    dims = list(array.shape)
    way = rng.random()
    if way < 0.45 and dims:
        dims[rng.randrange(len(dims))] = rng.choice(SIZES)
    elif way < 0.6:
        dims = [rng.choice(SIZES) for _ in dims]
    elif way < 0.75 and dims:
        del dims[rng.randrange(len(dims))]
    elif way < 0.95:
        dims.insert(rng.randint(0, len(dims)), rng.choice([0, 1, 1, 2, 3]))
    else:
        dims = [1] * rng.choice([8, 12, 33, 63])
    return np.resize(array, dims) if array.size else np.zeros(dims, array.dtype)


def retyped(rng: random.Random, array: np.ndarray) -> np.ndarray:
    """The elements in another dtype."""
    if array.dtype == object:
        return np.zeros(array.shape, np.float32)
    names = ["float32", "float16", "float64", "int64", "int32", "int8", "uint8", "bool", "uint64"]
    if array.dtype.kind == "c":
        array = array.real
    with np.errstate(all="ignore"):
        return array.astype(rng.choice(names))


def hostile_array(rng: random.Random, array: np.ndarray) -> np.ndarray:
    """A hostile variant: elements, shape or both, seldom the dtype."""
    way = rng.random()
    if way < 0.55:
        return spoiled(rng, array)
    if way < 0.8:
        return reshaped(rng, array)
    if way < 0.95:
        return spoiled(rng, reshaped(rng, array))
    return retyped(rng, array)


def hostile_value(rng: random.Random, value: Any) -> Any:
    """A hostile variant of an array, a sequence or an optional."""
    if isinstance(value, np.ndarray):
        return hostile_array(rng, value)
    if isinstance(value, list):
        way = rng.random()
        if way < 0.3 or not value:
            return []
        if way < 0.6:
            return value[: rng.randrange(len(value))]
        at = rng.randrange(len(value))
        return [*value[:at], hostile_value(rng, value[at]), *value[at + 1 :]]
    return value


def attribute(rng: random.Random, name: str, kind: int) -> onnx.AttributeProto | None:
    """An attribute of this kind, or of a wrong one; None: it is left out."""
    kinds = onnx.AttributeProto
    if rng.random() < 0.08:
        return None
    if rng.random() < 0.06:
        kind = rng.choice([kinds.INT, kinds.FLOAT, kinds.STRING, kinds.INTS, kinds.FLOATS])
    if kind == kinds.INT:
        value: Any = integer(rng)
    elif kind == kinds.FLOAT:
        value = rng.choice(FLOATS)
    elif kind == kinds.STRING:
        value = rng.choice(["", "garbage", "NOTSET", "VALID", "SAME_UPPER", "linear", *TEXTS[2:4]])
    elif kind == kinds.INTS:
        value = [integer(rng) for _ in range(rng.choice([0, 1, 1, 2, 3, 4, 6, 8, 70]))]
        if not value:
            return onnx.AttributeProto(name=name, type=kinds.INTS)
    elif kind == kinds.FLOATS:
        value = [rng.choice(FLOATS) for _ in range(rng.choice([1, 2, 4, 9]))]
    elif kind == kinds.STRINGS:
        value = [rng.choice(TEXTS) for _ in range(rng.choice([1, 2, 5]))]
    else:
        return None
    return helper.make_attribute(name, value, attr_type=kind)
