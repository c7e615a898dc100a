# SPDX-License-Identifier: Apache-2.0
"""How plans are run, on a driver whose device memory is the host's and a context that doubles.

Nothing here needs a GPU, and nothing here shows that a GPU does the same.
"""

import ctypes
import gc
import importlib.util
import shutil
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import openxrt
import pytest

if importlib.util.find_spec("tensorrt_rtx_bindings") is None:
    pytest.skip("TensorRT-RTX is not installed", allow_module_level=True)
try:
    openxrt.engine_ops("tensorrt")  # loads the engine
    from openxrt.engines import _cuda, _tensorrt_run
    from openxrt.engines.tensorrt import LIBRARY
except openxrt.Error as error:  # of the engine in C++, or because the name is taken by it
    pytest.skip(f"the engine is the one in C++: {error}", allow_module_level=True)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> _cuda.Driver:
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler")
    library = tmp_path_factory.mktemp("cuda") / "libfake_cuda.so"
    source = Path(__file__).parents[2] / "support" / "fake_cuda.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    return _cuda.Driver(str(library))


class Context:
    """Of a plan with the inputs a and b: y = 2a of the same shape, z = what of b is not zero."""

    def __init__(self) -> None:
        self.addresses: dict[str, int] = {}
        self.shapes: dict[str, tuple] = {}
        self.allocator = None

    def set_input_shape(self, name: str, shape: tuple) -> bool:
        self.shapes[name] = tuple(shape)
        return len(shape) == 1

    def set_tensor_address(self, name: str, address: int) -> None:
        self.addresses[name] = address

    def get_tensor_shape(self, name: str) -> tuple:
        return self.shapes["a"] if name == "y" else (-1,)

    def set_output_allocator(self, name: str, allocator: object) -> None:
        self.allocator = allocator

    def array(self, name: str, shape: tuple) -> np.ndarray:
        count = int(np.prod(shape))
        memory = (ctypes.c_float * count).from_address(self.addresses[name])
        return np.frombuffer(memory, np.float32)

    def execute_async_v3(self, stream: int) -> bool:
        self.array("y", self.shapes["a"])[:] = 2 * self.array("a", self.shapes["a"])
        b = self.array("b", self.shapes["b"])
        found = b[b != 0]
        if self.allocator is not None:
            self.addresses["z"] = self.allocator.reallocate_output_async(
                "z", 0, max(found.nbytes, 4), 256, stream
            )
            self.allocator.notify_shape("z", found.shape)
        if found.size:
            self.array("z", found.shape)[:] = found
        return True


def executable(driver: _cuda.Driver) -> _tensorrt_run.Executable:
    made = object.__new__(_tensorrt_run.Executable)
    gpu = _cuda.Device(driver, 0)
    plan = SimpleNamespace(library=LIBRARY, gpu=gpu, context=Context, keep=lambda: kept.append(1))
    made.__dict__.update(
        library=LIBRARY,
        gpu=gpu,
        plan=plan,
        source=None,
        inputs=["a", "b"],
        outputs=["y", "z"],
        dtypes=[np.dtype(np.float32)] * 2,
        lock=threading.Lock(),
    )
    return made


kept: list[int] = []


def test_the_device_is_asked(driver: _cuda.Driver) -> None:
    assert driver.count == 1
    assert driver.compute_capability(0) == (8, 9)
    with pytest.raises(openxrt.EngineError, match="no device cuda:1: the driver finds 1"):
        driver.device(1)


def test_runs_copy_in_and_out(driver: _cuda.Driver) -> None:
    before = driver.library.fake_live()
    made = executable(driver)
    place = made.create_context()
    rng = np.random.default_rng(0)
    kept.clear()
    for size in (3, 70, 5, 0):
        a, b = (rng.integers(0, 3, size).astype(np.float32) for _ in range(2))
        y = np.full(size, -1, np.float32)
        outputs = [y, None] if size != 5 else [None, None]
        made.run([a, b], outputs, place)
        np.testing.assert_array_equal(outputs[0], 2 * a)
        np.testing.assert_array_equal(outputs[1], b[b != 0])
        if size != 5:
            assert outputs[0] is y, "the memory that was given is written"
    assert kept == [1], "what was compiled is kept after the first run"
    del made, place, outputs
    gc.collect()
    assert driver.library.fake_live() == before, "all memory is given back"


def test_failures_have_cudas_names(driver: _cuda.Driver) -> None:
    buffer = _cuda.Buffer(_cuda.Device(driver, 0))
    with pytest.raises(openxrt.EngineError, match=r"cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEM"):
        buffer.reserve(1 << 41)
    with pytest.raises(openxrt.EngineError, match="too old: it has no cuNoSuchCall"):
        driver.call("cuNoSuchCall")
    with pytest.raises(openxrt.EngineError, match="no CUDA driver on this machine"):
        _cuda.Driver("libno_such_cuda.so")


def test_a_shape_outside_of_the_profile_is_an_error(driver: _cuda.Driver) -> None:
    made = executable(driver)
    a = np.zeros((2, 2), np.float32)
    with pytest.raises(openxrt.InvalidArgument, match=r"input 'a': the plan takes no shape \[2, 2"):
        made.run([a, a], [None, None], made.create_context())


def test_larger_inputs_build_the_plan_again(
    driver: _cuda.Driver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = executable(driver)
    limits = {"a": 4, "b": 4}
    built = []

    def build(grown: dict) -> tuple[bytes, dict]:
        built.append(grown)
        limits.update({name: shape[0] for name, shape in grown.items()})
        return b"plan", {}

    def plan(*arguments: object) -> SimpleNamespace:
        return SimpleNamespace(
            library=LIBRARY,
            gpu=made.gpu,
            context=Context,
            keep=lambda: None,
            maximum=lambda name: [limits[name]],
        )

    monkeypatch.setattr(_tensorrt_run, "GpuPlan", plan)
    made.plan = plan()
    made.record = None
    made.source = SimpleNamespace(name="f", build=build)
    place = made.create_context()
    for size in (4, 5, 8, 9):
        x = np.ones(size, np.float32)
        outputs = [None, None]
        made.run([x, x], outputs, place)
        np.testing.assert_array_equal(outputs[0], 2 * x)
    assert built == [{"a": [8], "b": [8]}, {"a": [16], "b": [16]}]
    assert [record.message.count("built again") for record in caplog.records] == [1, 1]
