# SPDX-License-Identifier: Apache-2.0
"""Hostile callers: a sound model, and objects for its inputs and outputs that are no plain arrays.

Views with negative, zero or overlapping strides, unaligned and read-only memory, foreign byte
orders, dtypes without a counterpart, objects whose protocols lie or raise, wrong names, wrong
memory for outputs.
"""

from __future__ import annotations

import array
import ctypes
import random
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper
from small_models import model_proto, tensor, untyped

F, I64, S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


class Raises:
    """Every protocol of arrays raises."""

    def __getattr__(self, name: str) -> Any:
        if name in ("__dlpack__", "__dlpack_device__", "__array__", "__array_interface__"):
            raise RuntimeError("no")
        raise AttributeError(name)


class Exports:
    """Gives what it is made with as a DLPack capsule, whatever that is."""

    def __init__(self, capsule: Any, device: Any = (1, 0)) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> Any:
        return self.device


class Interface:
    """An array interface with these entries."""

    def __init__(self, **entries: Any) -> None:
        self.__array_interface__ = {"version": 3, **entries}


class Array:
    """Says what it is made with where an array is asked for."""

    def __init__(self, made: Any) -> None:
        self.made = made

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.made


class Mine(np.ndarray):
    """A sub-class whose shape lies."""

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return (1000, 1000)


class Managed(ctypes.Structure):
    """DLManagedTensor, filled by hand."""

    _fields_ = [
        *[("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("number", ctypes.c_int32)],
        *[("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8)],
        *[("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p)],
        *[("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)],
    ]


MEMORY = np.zeros(1024)
KEPT: list[Any] = []  # what capsules point to
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def capsule(rng: random.Random, a: np.ndarray) -> Any:
    """A capsule over the array's memory whose sizes, strides or type are wrong."""
    shape, strides = list(a.shape), [s // a.itemsize for s in a.strides]
    made = Managed(data=a.ctypes.data, device=1, ndim=a.ndim, code=2, bits=32, lanes=1)
    way = rng.randrange(8)
    if way == 0:
        shape[rng.randrange(a.ndim)] = rng.choice([-1, 2**62, -(2**63)])
    elif way == 1:
        made.ndim = rng.choice([-1, 0, -(2**31)])
    elif way == 2:
        made.bits, made.lanes = rng.choice([(0, 1), (4, 1), (32, 0), (32, 4), (255, 1), (16, 2)])
    elif way == 3:
        made.code = rng.choice([0, 3, 5, 6, 7, 17, 255])
    elif way == 4:
        made.device = rng.choice([0, 2, 3, 13, -1])
    elif way == 5:
        made.data, shape = None, rng.choice([[0, 3], [0], [2, 3]])
        if shape == [2, 3]:
            made.device = 2
        made.ndim = len(shape)
    elif way == 6:
        strides = [0] * a.ndim
        shape[0] = rng.choice([2, 2**50])
    sizes, steps = (ctypes.c_int64 * len(shape))(*shape), (ctypes.c_int64 * 64)(*strides)
    made.shape, made.strides = ctypes.addressof(sizes), ctypes.addressof(steps)
    KEPT.extend([a, made, sizes, steps])
    del KEPT[:-400]
    name = rng.choice([b"dltensor", b"dltensor", b"dltensor", b"used_dltensor", b"other"])
    KEPT.append(name)
    return Exports(new_capsule(ctypes.addressof(made), name, None), rng.choice([(1, 0), (2, 0)]))


def strange_view(rng: random.Random, a: np.ndarray) -> Any:
    """The array's elements in memory of a strange form."""
    if a.dtype == object:
        return a[::-1]
    raw = np.zeros(a.nbytes + 9, np.uint8)
    unaligned = raw[1 : 1 + a.nbytes].view(a.dtype).reshape(a.shape)
    unaligned[...] = a
    fixed = a.copy()
    fixed.flags.writeable = False
    views = [
        *[a[::-1], a[..., ::-1], a.T, np.asfortranarray(a), unaligned, unaligned[::-1], fixed],
        *[np.broadcast_to(a.reshape(-1)[:1], a.shape), a.byteswap().view(a.dtype.newbyteorder())],
        *[a.astype(a.dtype.newbyteorder(">")), np.ma.masked_array(a), a.view(np.recarray)],
        np.lib.stride_tricks.as_strided(a, (a.shape[0], *a.shape[1:]), [0] * a.ndim),
        np.repeat(a, 2, axis=-1)[..., ::2],
        np.lib.stride_tricks.as_strided(a, (2**50, *a.shape[1:]), [0] * a.ndim),
        np.lib.stride_tricks.as_strided(a, (0, *a.shape[1:]), [2**62] * a.ndim),
    ]
    return rng.choice(views)


def strange_dtype(rng: random.Random, a: np.ndarray) -> Any:
    """Elements of another kind."""
    kinds = ["U3", "S4", "M8[s]", "m8", "V8", "c8", "c16", "f2", "f8", "g", "O", "b", "Q", "?"]
    kinds += [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint2]
    dtype = np.dtype(rng.choice(kinds))
    with np.errstate(all="ignore"):
        made = np.zeros(a.shape, dtype)
    if rng.random() < 0.2:
        made = np.zeros(a.shape, [("f", "f4"), ("g", "i4")])
    if made.dtype == object and made.size:
        made.reshape(-1)[0] = rng.choice([1, "a", None, [1], b"\xff", "\ud800", made, 2**100])
    return made


def strange_object(rng: random.Random, a: np.ndarray) -> Any:
    """What is no NumPy array."""
    released = memoryview(bytearray(a.tobytes() if a.dtype != object else b"12345678"))
    released.release()
    deep: Any = 1.0
    for _ in range(rng.choice([5, 70, 900])):
        deep = [deep]
    address = (MEMORY.ctypes.data, False)
    return rng.choice(
        [
            *[None, 1, -1, 1.5, float("nan"), True, 2**100, "x", b"x", "", [], [[]], (), {}, set()],
            *[[1, [2]], [None], ["a", 1], range(6), iter([1]), object, object(), print, ...],
            *[Raises(), Exports(None), Exports(1), Exports("x", device=None), Exports(a, (99, 0))],
            *[Array(None), Array("x"), Array([1, [2]]), Array(a), deep, a.tolist(), released],
            *[array.array("f", [1.0] * 6), (ctypes.c_float * 6)(), bytes(24), bytearray(24)],
            Interface(shape=(2, 3), typestr="<f4", data=address),
            Interface(shape=(-1, 3), typestr="<f4", data=(0, True)),
            Interface(shape=(2, 3), typestr="garbage", data=address),
            np.zeros((2, 3), np.float32).view(Mine),
            memoryview(np.zeros((2, 3), np.float32))[::-1],
            np.float32(1),
            1j,
        ]
    )


def strange_array(rng: random.Random, a: np.ndarray) -> Any:
    """Any of these."""
    way = rng.random()
    if way < 0.4:
        return strange_view(rng, a)
    if way < 0.55:
        return strange_dtype(rng, a)
    if way < 0.7 and a.dtype == np.float32 and a.ndim:
        return capsule(rng, a)
    return strange_object(rng, a)


def strange_names(rng: random.Random, feeds: dict[str, Any]) -> Any:
    """Inputs that are missing, too many, or no dictionary of names."""
    first = next(iter(feeds))
    rest = {name: value for name, value in feeds.items() if name != first}
    return rng.choice(
        [
            *[
                rest,
                {},
                None,
                [],
                5,
                "x",
                list(feeds.values()),
                {**feeds, "no": 1},
                {1: feeds[first]},
            ],
            *[{**rest, first + "\0": feeds[first]}, {"": 1, **feeds}, {**feeds, "é" * 9999: 1}],
            *[{None: 1}, {**rest, first.upper(): feeds[first]}, {b"x": 1, **feeds}],
        ]
    )


def strange_outputs(rng: random.Random, feeds: dict[str, Any], name: str) -> Any:
    """Memory for outputs that is too small, read-only, another's, or the inputs'."""
    shared = next(iter(feeds.values()))
    fixed = np.zeros((2, 3), np.float32)
    fixed.flags.writeable = False
    memory = np.zeros((4, 6), np.float32)
    one = rng.choice(
        [
            *[fixed, shared, shared[::-1], memory[::2, ::2], memory, memory[:0], np.zeros(6)],
            *[np.zeros((2, 3), ">f4"), np.zeros((2, 3), object), None, 1, "x", [], Raises()],
            *[np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32), np.float32(0)],
            *[np.zeros((2, 3), np.int64), bytes(24), bytearray(24), Exports(None)],
        ]
    )
    return rng.choice([{name: one}, {name: one}, {name: one}, [one], one, {"no": one}, {1: one}])


def models(rng: random.Random) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A small sound model and its inputs."""
    ones = np.arange(6, dtype=np.float32).reshape(2, 3)
    shape = rng.choice([[2, 3], ["a", "b"], ["n", 3], None])
    x = tensor("x", F, shape)
    made = [
        ([helper.make_node("Relu", ["x"], ["y"])], [x], {"x": ones}),
        ([helper.make_node("Identity", ["x"], ["y"])], [x], {"x": ones}),
        (
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            [x, tensor("w", F, rng.choice([[3, 2], ["k", "m"]]))],
            {"x": ones, "w": np.ones((3, 2), np.float32)},
        ),
        (
            [helper.make_node("Gather", ["x", "i"], ["y"], axis=1)],
            [x, tensor("i", I64, ["n"])],
            {"x": ones, "i": np.array([0, 2])},
        ),
        (
            [helper.make_node("Identity", ["s"], ["y"])],
            [tensor("s", S, ["n"])],
            {"s": np.array(["a", "b", "é"], object)},
        ),
    ]
    nodes, inputs, feeds = rng.choice(made)
    return model_proto(nodes, inputs, [untyped("y")]), feeds


def make(rng: random.Random) -> tuple[str, bytes, list[tuple[Any, Any]]]:
    """A name, a model, and per run the inputs and the memory for outputs."""
    model, feeds = models(rng)
    runs: list[tuple[Any, Any]] = [(feeds, None)]
    for _ in range(12):
        way = rng.random()
        if way < 0.1:
            runs.append((strange_names(rng, feeds), None))
        elif way < 0.25 and "s" not in feeds:
            runs.append((feeds, strange_outputs(rng, feeds, "y")))
        else:
            name = rng.choice(sorted(feeds))
            runs.append(({**feeds, name: strange_array(rng, feeds[name])}, None))
    runs.append((feeds, None))
    return "callers", model.SerializeToString(), runs
