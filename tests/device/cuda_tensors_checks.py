# SPDX-License-Identifier: Apache-2.0
"""Programs on a stand-in for a GPU whose memory is the host's: what is copied, and who waits.

test_cuda_tensors.py runs this file in a process that finds the stand-ins.
"""

from __future__ import annotations

import ctypes
import gc
import os
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import openxrt
import pytest

DRIVER = ctypes.CDLL("libcuda.so.1")
PLUGIN = ctypes.CDLL(os.environ["XRT_PJRT_CUDA_PLUGIN"])
CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
ENGINES = ["xla", "native"]


class View(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class Managed(ctypes.Structure):
    """DLManagedTensor."""


DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
Managed._fields_ = (("view", View), ("context", ctypes.c_void_p), ("deleter", DELETER))

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype = ctypes.c_void_p
pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)
rename = ctypes.pythonapi.PyCapsule_SetName
rename.argtypes = (ctypes.py_object, ctypes.c_char_p)
RENAMED = b"used_dltensor"


class OnGpu:
    """A tensor of another library on the GPU."""

    def __init__(self, array: Any, device: int = 0, misaligned: bool = False) -> None:
        given = np.asarray(array)
        room = np.empty(given.nbytes + 128, np.uint8)
        start = -room.ctypes.data % 64 + (4 if misaligned else 0)
        self.array = room[start : start + given.nbytes].view(given.dtype).reshape(given.shape)
        self.array[...] = given
        self.device = device
        self.streams: list[int | None] = []
        self.lent = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device

    def __dlpack__(self, stream: int | None = None) -> Any:
        self.streams.append(stream)
        self.lent += 1
        array = self.array
        managed = Managed()
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        strides = (ctypes.c_int64 * array.ndim)(*[s // array.itemsize for s in array.strides])

        def give_back(_: object) -> None:
            self.lent -= 1
            kept.clear()

        managed.view = View(
            array.ctypes.data, 2, self.device, array.ndim, CODES[array.dtype.kind],
            array.itemsize * 8, 1, shape, strides, 0,
        )  # fmt: skip
        managed.deleter = DELETER(give_back)
        kept = [managed, shape, strides, array]
        return new_capsule(ctypes.addressof(managed), b"dltensor", None)


def taken(array: openxrt.DeviceArray) -> np.ndarray:
    """What another library would read, in place; the capsule is given back with the process."""
    capsule = array.__dlpack__(stream=7)
    managed = Managed.from_address(pointer_of(capsule, b"dltensor"))
    rename(capsule, RENAMED)
    view = managed.view
    assert (view.device_type, view.device, view.lanes) == (2, 0, 1)
    kinds = {v: k for k, v in CODES.items()}
    shape = [view.shape[i] for i in range(view.ndim)]
    dtype = np.dtype(f"{kinds[view.code]}{view.bits // 8}")
    buffer = (ctypes.c_char * (int(np.prod(shape)) * dtype.itemsize)).from_address(view.data)
    return np.frombuffer(buffer, dtype).reshape(shape)


class Copies:
    """What crossed between the host and the device since it was made."""

    def __init__(self) -> None:
        self.before = self.now()

    @staticmethod
    def now() -> tuple[int, int]:
        to_device = PLUGIN.fake_uploads() + DRIVER.fake_copies_to_device()
        return to_device, PLUGIN.fake_downloads() + DRIVER.fake_copies_to_host()

    def since(self) -> tuple[int, int]:
        """To the device, to the host."""
        now = self.now()
        return now[0] - self.before[0], now[1] - self.before[1]


def affine(**options: Any) -> openxrt.Program:
    """y = x · w + b, with w and b built in."""
    graph = openxrt.Graph("affine")
    x = graph.add_input("x", "float32", ["n", 3])
    w = graph.add_constant(np.arange(6, dtype=np.float32).reshape(3, 2), "float32", "w")
    b = graph.add_constant(np.array([1, -1], np.float32), "float32", "b")
    (product,) = graph.add_node("MatMul", [x, w], ["product"])
    (y,) = graph.add_node("Add", [product, b], ["y"])
    graph.add_output(y)
    graph.finish()
    return openxrt.load(graph, engine=ENGINES, device="cuda", **options)


def expected(x: np.ndarray) -> np.ndarray:
    return x @ np.arange(6, dtype=np.float32).reshape(3, 2) + np.array([1, -1], np.float32)


X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def test_no_copy_in_or_out() -> None:
    program = affine()
    x = OnGpu(X)
    program(x)  # compiles, and uploads the weights
    copies, views = Copies(), PLUGIN.fake_views()
    y = program(x)
    assert copies.since() == (0, 0)
    assert PLUGIN.fake_views() == views + 1
    assert isinstance(y, openxrt.DeviceArray)
    assert (y.shape, y.dtype, y.device, y.nbytes) == ((2, 2), np.float32, "cuda:0", 16)
    np.testing.assert_allclose(taken(y), expected(X), rtol=1e-6)
    assert copies.since() == (0, 0)
    np.testing.assert_allclose(y.numpy(), expected(X), rtol=1e-6)
    assert copies.since() == (0, 1)


def test_producers_are_waited_for() -> None:
    program = affine()
    x = OnGpu(X)
    waits = DRIVER.fake_waits()
    program(x)
    assert isinstance(x.streams[-1], int) and x.streams[-1] > 2, "a stream that we then wait for"
    assert DRIVER.fake_waits() > waits


def test_memory_is_given_back() -> None:
    program = affine()
    x = OnGpu(X)
    y = program(x)
    assert x.lent == 0
    del y
    gc.collect()

    def give_back(times: int) -> int:
        for _ in range(times):
            capsule = program(x).__dlpack__(stream=7)
            del capsule  # not taken: given back by its destructor
        return DRIVER.fake_live()

    live = give_back(5)
    assert give_back(10) == live, "what waits for an event goes when the next one comes"


def test_host_in_host_out() -> None:
    program = affine()
    y = program(X)
    assert isinstance(y, np.ndarray)
    np.testing.assert_allclose(y, expected(X), rtol=1e-6)


def test_where_results_lie_can_be_chosen() -> None:
    program = affine()
    assert isinstance(program.run({"x": X}, device="cuda:0")["y"], openxrt.DeviceArray)
    assert isinstance(program.run({"x": OnGpu(X)}, device="cpu")["y"], np.ndarray)
    with pytest.raises(openxrt.InvalidArgument, match="cuda:3"):
        program.run({"x": X}, device="cuda:3")
    with pytest.raises(openxrt.InvalidArgument, match="cpu"):
        openxrt.load(_identity(), engine="native").run({"x": X}, device="cuda")


def _identity() -> openxrt.Graph:
    graph = openxrt.Graph("identity")
    x = graph.add_input("x", "float32", [2, 3])
    (y,) = graph.add_node("Identity", [x], ["y"])
    graph.add_output(y)
    graph.finish()
    return graph


def test_results_into_memory_on_the_gpu() -> None:
    program = affine()
    out = OnGpu(np.zeros((2, 2), np.float32))
    assert program(OnGpu(X), out=out) is out
    np.testing.assert_allclose(out.array, expected(X), rtol=1e-6)
    host = np.zeros((2, 2), np.float32)
    assert program(OnGpu(X), out=host) is host
    np.testing.assert_allclose(host, expected(X), rtol=1e-6)
    out.array[...] = 0
    program(X, out=out)  # from the host
    np.testing.assert_allclose(out.array, expected(X), rtol=1e-6)


def test_wrong_device() -> None:
    with pytest.raises(openxrt.InvalidArgument, match=r"input 'x'.*cuda:1.*cuda"):
        affine()(OnGpu(X, device=1))
    on_cpu = openxrt.load(_identity(), engine="native")
    with pytest.raises(openxrt.InvalidArgument, match=r"on the same device.*cuda:0.*cpu"):
        on_cpu(OnGpu(X))


def test_strided_memory_is_refused() -> None:
    x = OnGpu(np.zeros((3, 2), np.float32))
    x.array = x.array.T
    with pytest.raises(openxrt.InvalidArgument, match=r"cuda:0.*dense and row-major"):
        affine()(x)


def test_memory_that_kernels_cannot_read_is_copied_on_the_device() -> None:
    program = affine()
    program(OnGpu(X))
    copies = Copies()
    y = program(OnGpu(X, misaligned=True))
    assert copies.since() == (0, 0)
    np.testing.assert_allclose(y.numpy(), expected(X), rtol=1e-6)


def test_empty_tensor() -> None:
    y = affine()(OnGpu(np.zeros((0, 3), np.float32)))
    assert y.shape == (0, 2) and y.numpy().shape == (0, 2)


def chain(middle: str) -> openxrt.Program:
    """Two functions on the GPU with one on the host between them."""
    graph = openxrt.Graph("chain")
    x = graph.add_input("x", "float32", [2, 3])
    (a,) = graph.add_node("Neg", [x], ["a"], name="first")
    (b,) = graph.add_node("Abs", [a], ["b"], name="middle")
    (c,) = graph.add_node("Add", [a, b], ["c"], name="last")
    graph.add_output(c)
    graph.finish()
    return openxrt.load(graph, engine=ENGINES, device="cuda", node_engines={"middle": middle})


def test_values_between_functions_cross_once_each_way() -> None:
    program = chain("native")
    x = OnGpu(X - 3)
    program(x)
    launches = program.explain()["launches"]
    assert [launch["engine"] for launch in launches] == ["xla", "native", "xla"]
    copies = Copies()
    y = program(x)
    # What the host function reads comes, what it gives goes; what both others share stays.
    assert copies.since() == (1, 1)
    np.testing.assert_allclose(y.numpy(), -(X - 3) + np.abs(X - 3))


def test_state_on_the_gpu() -> None:
    graph = openxrt.Graph("counter")
    x = graph.add_input("x", "float32", [2])
    state = graph.add_input("state", "float32", [2])
    (new,) = graph.add_node("Add", [state, x], ["new"])
    (twice,) = graph.add_node("Add", [new, new], ["twice"])
    graph.add_output(new)
    graph.add_output(twice)
    graph.finish()
    program = openxrt.load(graph, engine=ENGINES, device="cuda", aliases={"state": "new"})
    kept = OnGpu(np.array([10, 20], np.float32))
    for i in range(1, 4):
        _, twice = program(OnGpu(np.array([1, 2], np.float32)), kept)
        np.testing.assert_array_equal(kept.array, [10 + i, 20 + 2 * i])
        np.testing.assert_array_equal(taken(twice), 2 * kept.array)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bit_products(dtype: Any) -> None:
    graph = openxrt.Graph("half")
    name = np.dtype(dtype).name
    x = graph.add_input("x", name, [4, 64])
    w = np.linspace(-1, 1, 64 * 8).reshape(64, 8).astype(dtype)
    weights = graph.add_constant(w, name, "w")
    (y,) = graph.add_node("MatMul", [x, weights], ["y"])
    graph.add_output(y)
    graph.finish()
    given = np.linspace(-2, 2, 4 * 64).reshape(4, 64).astype(dtype)
    program = openxrt.load(graph, engine=ENGINES, device="cuda")
    found = program.run({"x": given})["y"].astype(np.float64)
    wanted = given.astype(np.float64) @ w.astype(np.float64)
    # Rounded once, at the end.
    np.testing.assert_allclose(found, wanted, rtol=2 * float(ml_dtypes.finfo(dtype).eps))


def test_option_tf32() -> None:
    affine(engine_options={"xla": {"tf32": "true"}})(X)
    with pytest.raises(openxrt.Error, match="'perhaps' is not true or false"):
        affine(engine_options={"xla": {"tf32": "perhaps"}})(X)


class ManagedVersioned(ctypes.Structure):
    """DLManagedTensorVersioned."""


VERSIONED_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(ManagedVersioned))
ManagedVersioned._fields_ = (
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("context", ctypes.c_void_p),
    ("deleter", VERSIONED_DELETER),
    ("flags", ctypes.c_uint64),
    ("view", View),
)
FROM_OBJECT = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.POINTER(ManagedVersioned))
)
TO_OBJECT = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ManagedVersioned), ctypes.POINTER(ctypes.c_void_p)
)
CURRENT_STREAM = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)


class ExchangeApi(ctypes.Structure):
    """DLPackExchangeAPI."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("older", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("managed_from_object", FROM_OBJECT),
        ("object_from_managed", TO_OBJECT),
        ("view_of_object", ctypes.c_void_p),
        ("current_stream", CURRENT_STREAM),
    )


class Framework(OnGpu):
    """A tensor of a framework that queues its work on a stream, as PyTorch does."""

    kept: ClassVar[list[Any]] = []
    stream = 5

    def is_neg(self) -> bool:
        return False


def _lend(tensor: Framework, out: Any) -> int:
    array = tensor.array
    tensor.lent += 1
    shape = (ctypes.c_int64 * array.ndim)(*array.shape)

    def give_back(_: object) -> None:
        tensor.lent -= 1

    managed = ManagedVersioned(1, 1, None, VERSIONED_DELETER(give_back), 0)
    managed.view = View(
        array.ctypes.data, 2, 0, array.ndim, CODES[array.dtype.kind], array.itemsize * 8, 1, shape,
        None, 0,
    )  # fmt: skip
    Framework.kept += [managed, shape]
    out[0] = ctypes.pointer(managed)
    return 0


def _take(managed: Any, out: Any) -> int:
    view = managed.contents.view
    shape = [view.shape[i] for i in range(view.ndim)]
    buffer = (ctypes.c_char * (int(np.prod(shape)) * 4)).from_address(view.data)
    tensor = Framework(np.frombuffer(buffer, np.float32).reshape(shape))
    managed.contents.deleter(managed)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))
    out[0] = id(tensor)
    return 0


def _stream(kind: int, device: int, out: Any) -> int:
    out[0] = Framework.stream
    return 0


API = ExchangeApi(
    1, 2, None, None, FROM_OBJECT(_lend), TO_OBJECT(_take), None, CURRENT_STREAM(_stream)
)
Framework.__dlpack_c_exchange_api__ = new_capsule(  # type: ignore[attr-defined]
    ctypes.addressof(API), b"dlpack_exchange_api", None
)


def test_runs_are_queued_between_the_work_of_the_callers_stream() -> None:
    program = affine()
    x = Framework(X)
    program.call_tensors([x], Framework)  # compiles
    waits, followers = DRIVER.fake_waits(), DRIVER.fake_followers()
    behind, queued = PLUGIN.fake_views_behind(), PLUGIN.fake_stream_waits()
    (y,) = program.call_tensors([x], Framework)
    assert isinstance(y, Framework)
    np.testing.assert_allclose(y.array, expected(X), rtol=1e-6)
    assert DRIVER.fake_waits() == waits, "nobody waited for the producer"
    assert DRIVER.fake_followers() == followers + 1, "XLA's stream waits for the caller's"
    assert PLUGIN.fake_views_behind() == behind + 1
    assert PLUGIN.fake_stream_waits() == queued + 1, "and the caller's for XLA's"
    assert x.lent == 0


def test_who_wants_to_know_the_time_waits() -> None:
    program = affine()
    x = Framework(X)
    program.call_tensors([x], Framework)
    queued = PLUGIN.fake_stream_waits()
    waits = DRIVER.fake_waits()
    program.enable_profile(True)
    program.call_tensors([x], Framework)
    assert DRIVER.fake_waits() == waits + 1 and PLUGIN.fake_stream_waits() == queued
    slow = affine(engine_options={"xla": {"asynchronous": "false"}})
    slow.call_tensors([x], Framework)
    assert PLUGIN.fake_stream_waits() == queued


def test_functions_on_the_host_are_given_what_is_written() -> None:
    program = chain("native")
    x = Framework(X - 3)
    program.call_tensors([x], Framework)
    waits = DRIVER.fake_waits()
    (y,) = program.call_tensors([x], Framework)
    assert DRIVER.fake_waits() > waits
    np.testing.assert_allclose(y.array, -(X - 3) + np.abs(X - 3))


def test_a_run_that_cannot_be_started_fails() -> None:
    program = affine()
    x = Framework(X)
    program.call_tensors([x], Framework)
    PLUGIN.fake_fail_wait()
    with pytest.raises(openxrt.Error, match=r"failed to run function 'xla_0'.*MatMul"):
        program.call_tensors([x], Framework)
    (y,) = program.call_tensors([x], Framework)
    np.testing.assert_allclose(y.array, expected(X), rtol=1e-6)


def test_a_run_that_failed_later_is_told_by_the_next_one() -> None:
    program = affine()
    x = Framework(X)
    program.call_tensors([x], Framework)
    PLUGIN.fake_fail_await()
    with pytest.raises(openxrt.Error, match=r"function 'xla_0' that was started earlier failed"):
        program.call_tensors([x], Framework)
    (y,) = program.call_tensors([x], Framework)
    np.testing.assert_allclose(y.array, expected(X), rtol=1e-6)


def test_views_are_kept_and_one_follows_the_stream() -> None:
    graph = openxrt.Graph("sum")
    x, y = (graph.add_input(name, "float32", [2, 3]) for name in "xy")
    (total,) = graph.add_node("Add", [x, y], ["total"])
    graph.add_output(total)
    graph.finish()
    # The check of results reads the first run's values on the host.
    program = openxrt.load(graph, engine=ENGINES, device="cuda", check_results=False)
    a, b, c = Framework(X), Framework(X + 1), Framework(X + 2)
    program.call_tensors([a, b], Framework)
    views, behind = PLUGIN.fake_views(), PLUGIN.fake_views_behind()
    for given, added in (([a, b], 1), ([b, c], 2), ([b, b], 1), ([c, c], 1)):
        (found,) = program.call_tensors(given, Framework)
        np.testing.assert_allclose(found.array, given[0].array + given[1].array)
        views, behind = views + added, behind + 1
        assert (PLUGIN.fake_views(), PLUGIN.fake_views_behind()) == (views, behind)


def test_memory_that_waits_to_be_given_back_is_there_when_it_is_needed() -> None:
    program = affine()
    x = Framework(X)
    program.call_tensors([x], Framework)
    PLUGIN.fake_exhaust(1)
    (y,) = program.call_tensors([x], Framework)
    np.testing.assert_allclose(y.array, expected(X), rtol=1e-6)
    PLUGIN.fake_exhaust(2)
    with pytest.raises(openxrt.Error, match="exhausted"):
        program.call_tensors([x], Framework)
    (y,) = program.call_tensors([x], Framework)
    np.testing.assert_allclose(y.array, expected(X), rtol=1e-6)


def test_a_run_is_no_part_of_a_graph_that_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    program = affine()
    x = Framework(X)
    program.call_tensors([x], Framework)
    monkeypatch.setattr(Framework, "stream", 9)
    waits = DRIVER.fake_waits()
    with pytest.raises(openxrt.InvalidArgument, match="is being captured"):
        program.call_tensors([x], Framework)
    assert DRIVER.fake_waits() == waits, "which would end the capture"
