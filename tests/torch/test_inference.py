# SPDX-License-Identifier: Apache-2.0
"""How TensorRT's execution contexts are driven: on a CUDA driver whose device memory is the host's,
with a context that doubles.

Nothing here needs a GPU, and nothing here shows that a GPU does the same.
"""

from __future__ import annotations

import ctypes
import gc
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import openxrt
import pytest

torch = pytest.importorskip("torch")

import openxrt.torch as xt  # noqa: E402
from openxrt.engines import _cuda  # noqa: E402


class Engine:
    """Inputs a (float32) and b (float16); outputs y = 2a and z = b's non-zero values."""

    def __init__(self, **more: tuple[str, str]) -> None:
        self.tensors = {"a": ("INPUT", "FLOAT"), "b": ("INPUT", "HALF"), "y": ("OUTPUT", "FLOAT")}
        self.tensors |= more

    @property
    def num_io_tensors(self) -> int:
        return len(self.tensors)

    def get_tensor_name(self, i: int) -> str:
        return list(self.tensors)[i]

    def get_tensor_mode(self, name: str) -> Any:
        return SimpleNamespace(name=self.tensors[name][0])

    def get_tensor_dtype(self, name: str) -> Any:
        return SimpleNamespace(name=self.tensors[name][1])


class Context:
    """What TensorRT's IExecutionContext does, on memory of the host."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.addresses: dict[str, int] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.allocator: Any = None
        self.streams: list[int] = []

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        self.shapes[name] = tuple(shape)
        return len(shape) <= 2

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return self.shapes["a"] if name == "y" else (-1,)

    def set_tensor_address(self, name: str, address: int) -> None:
        assert address != 0
        self.addresses[name] = address

    def set_output_allocator(self, name: str, allocator: Any) -> None:
        self.allocator = allocator

    def array(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = (ctypes.c_char * size).from_address(self.addresses[name])
        return np.frombuffer(memory, dtype).reshape(shape)

    def execute_async_v3(self, stream: int) -> bool:
        self.streams.append(stream)
        a = self.array("a", self.shapes["a"], np.float32)
        self.array("y", self.shapes["a"], np.float32)[...] = 2 * a
        if self.allocator is not None:
            b = self.array("b", self.shapes["b"], np.float16)
            found = b[b != 0]
            self.addresses["z"] = self.allocator.reallocate_output_async(
                "z", 0, found.nbytes, 256, stream
            )
            self.allocator.notify_shape("z", found.shape)
            self.array("z", found.shape, np.float16)[...] = found
        return stream != 0


A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.array([0, 1, 0, 2], np.float16)


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _cuda.Driver:
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler")
    library = tmp_path / "libfake_cuda.so"
    source = Path(__file__).parents[1] / "support" / "fake_cuda.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    driver = _cuda.Driver(str(library))
    monkeypatch.setattr(_cuda, "driver", lambda: driver)
    return driver


def test_numpy_arrays_in_and_out(driver: _cuda.Driver) -> None:
    context = xt.InferenceContext(Context(Engine()))
    assert context.input_names == ["a", "b"] and context.output_names == ["y"]
    for outputs in (
        context.inference_async(A, B),
        context.inference(A, b=B),
        context.inference(b=B, a=A),
        context.inference_async(A[:, ::2], B[:0]),
    ):
        first = outputs["y"]
        np.testing.assert_array_equal(first, 2 * (A if first.shape == (2, 3) else A[:, ::2]))
    kept = context.inference_async(A, B)["y"]
    context.inference_async(A + 1, B)
    np.testing.assert_array_equal(kept, 2 * A)  # arrays of their own
    before = driver.library.fake_live()
    del context
    gc.collect()
    assert driver.library.fake_live() < before


def test_shapes_that_the_data_decide(driver: _cuda.Driver) -> None:
    pytest.importorskip("tensorrt_rtx_bindings")
    context = xt.InferenceContext(Context(Engine(z=("OUTPUT", "HALF"))))
    outputs = context.inference_async(A, B)
    np.testing.assert_array_equal(outputs["z"], B[B != 0])
    np.testing.assert_array_equal(outputs["y"], 2 * A)


def test_wrong_inputs_are_named(driver: _cuda.Driver) -> None:
    context = xt.InferenceContext(Context(Engine()))
    for arguments, named, message in (
        ((A, B, A), {}, "3 inputs for the inputs a, b"),
        ((A,), {}, "no value for the inputs b"),
        ((A,), {"a": A}, "by position and by name"),
        ((A, B), {"c": B}, "no input 'c'"),
        ((A, A), {}, "input 'b' is float32, the engine takes float16"),
        ((A[None], B), {}, r"input 'a': the engine takes no shape \[1, 2, 3\]"),
    ):
        with pytest.raises(openxrt.InvalidArgument, match=message):
            context.inference_async(*arguments, **named)
    with pytest.raises(openxrt.InvalidArgument, match="FP4"):
        xt.InferenceContext(Context(Engine(w=("INPUT", "FP4"))))


class Stream:
    """A CUDA stream as far as it is used."""

    def __init__(self, handle: int) -> None:
        self.cuda_stream = handle
        self.waited: list[Stream] = []
        self.synchronized = 0

    def wait_stream(self, other: Stream) -> None:
        self.waited.append(other)

    def synchronize(self) -> None:
        self.synchronized += 1


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch) -> Stream:
    stream = Stream(7)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    return stream


def test_tensors_stay_where_they_are(current: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Context(Engine())
    context = xt.TorchInferenceContext(fake, "cpu")
    a, b = torch.from_numpy(A), torch.from_numpy(B)
    outputs = context.inference_async(a, b)
    assert fake.addresses["a"] == a.data_ptr() and fake.addresses["y"] == outputs["y"].data_ptr()
    torch.testing.assert_close(outputs["y"], 2 * a)
    assert fake.streams == [7] and current.synchronized == 0
    context.inference(a=a.t().contiguous().t(), b=b)
    assert current.synchronized == 1
    recorded = []
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda t, s: recorded.append(s))
    other = Stream(9)
    torch.testing.assert_close(context.inference_async(a, b, stream=other)["y"], 2 * a)
    assert fake.streams[-1] == 9 and other.waited == [current] and set(recorded) == {other}
    assert len(recorded) == 3


def test_tensors_whose_shape_the_data_decide(current: Stream) -> None:
    pytest.importorskip("tensorrt_rtx_bindings")
    context = xt.TorchInferenceContext(Context(Engine(z=("OUTPUT", "HALF"))), "cpu")
    outputs = context.inference_async(torch.from_numpy(A), torch.from_numpy(B))
    torch.testing.assert_close(outputs["z"], torch.tensor([1, 2], dtype=torch.float16))


def test_wrong_tensors_are_named(current: Stream) -> None:
    context = xt.TorchInferenceContext(Context(Engine()), "cpu")
    a, b = torch.from_numpy(A), torch.from_numpy(B)
    for tensors, message in (
        ((a, a), "input 'b' is torch.float32"),
        ((A, b), "input 'a' is a ndarray"),
        ((a, b.to("meta")), "input 'b' is on meta, the engine on cpu"),
    ):
        with pytest.raises(openxrt.InvalidArgument, match=message):
            context.inference_async(*tensors)


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cuda, "driver", lambda: _cuda.Driver("libno_such_cuda.so"))
    with pytest.raises(openxrt.EngineError, match="no CUDA driver"):
        xt.InferenceContext(Context(Engine()))
