# SPDX-License-Identifier: Apache-2.0
"""Running TensorRT's plans: device memory, page-locked copies, a stream for each run at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import ml_dtypes  # noqa: F401 gives NumPy the name bfloat16
import numpy as np

from .._core import EngineError, FunctionView, InvalidArgument
from . import _cuda
from ._tensorrt_library import Library, read_record, write_record

LOG = logging.getLogger("openxrt.tensorrt")


class Source(Protocol):
    """What a plan is built from."""

    name: str

    def build(self, grown: Mapping[str, list[int]]) -> tuple[bytes, Any]:
        """A plan for inputs as large as `grown` says, by name, and its bounds."""


class GpuPlan:
    """A plan that a GPU has accepted."""

    def __init__(
        self, library: Library, gpu: _cuda.Device, plan: bytes, record: Path | None
    ) -> None:
        gpu.enter()
        self.library = library
        self.gpu = gpu
        self.record = record
        with library.exclusive():
            self.runtime = library.trt.Runtime(library.logger)
            self.engine = self.runtime.deserialize_cuda_engine(plan)
            if self.engine is None:
                major, minor = gpu.driver.compute_capability(int(gpu.handle.value))
                raise EngineError(
                    f"a GPU of compute capability {major}.{minor} does not take the plan: "
                    f"{library.cause('TensorRT gives no cause')}"
                )
        self.cache = None
        self.settings = None
        if hasattr(self.engine, "create_runtime_config"):
            self.settings = self.engine.create_runtime_config()
            if hasattr(self.settings, "create_runtime_cache"):  # TensorRT-RTX compiles on the GPU
                self.cache = self.settings.create_runtime_cache()
                kept = read_record(record)
                if kept:
                    self.cache.deserialize(kept)
                self.settings.set_runtime_cache(self.cache)

    def context(self) -> Any:
        """An execution context, for one run at a time."""
        if self.settings is None:
            return self.engine.create_execution_context()
        return self.engine.create_execution_context(self.settings)

    def keep(self) -> None:
        """Writes what was compiled on the GPU to the cache folder, for the next process."""
        if self.cache is not None and self.record is not None:
            write_record(self.record, bytes(self.cache.serialize()))

    def maximum(self, name: str) -> list[int]:
        """The largest shape that the plan takes for an input."""
        return list(self.engine.get_tensor_profile_shape(name, 0)[2])


class Context:
    """What one run needs: TensorRT's context, a stream, and memory for each input and output."""

    def __init__(self, plan: GpuPlan, inputs: list[str], outputs: list[str]) -> None:
        plan.gpu.enter()
        self.plan = plan
        self.context = plan.context()
        if self.context is None:
            raise EngineError(plan.library.cause("TensorRT makes no execution context"))
        self.stream = _cuda.Stream(plan.gpu)
        self.buffers = {name: _cuda.Buffer(plan.gpu) for name in inputs + outputs}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.is_first = True
        self.allocator = make_allocator(plan.library, self.buffers, self.shapes)


def make_allocator(
    library: Library, buffers: dict[str, _cuda.Buffer], shapes: dict[str, tuple[int, ...]]
) -> Any:
    """Gives memory for results whose shape the data decide, and hears their shapes."""
    trt = library.trt

    class Allocator(trt.IOutputAllocator):
        """One for all outputs of a context."""

        def __init__(self) -> None:
            trt.IOutputAllocator.__init__(self)

        def reallocate_output(self, name: str, memory: int, size: int, alignment: int) -> int:
            buffers[name].reserve(size)
            return buffers[name].address.value

        def reallocate_output_async(
            self, name: str, memory: int, size: int, alignment: int, stream: int
        ) -> int:
            return self.reallocate_output(name, memory, size, alignment)

        def notify_shape(self, name: str, shape: Any) -> None:
            shapes[name] = tuple(shape)

    return Allocator()


class Executable:
    """A plan, and where the machine has a GPU what runs it."""

    def __init__(
        self,
        library: Library,
        function: FunctionView,
        plan: bytes,
        gpu: _cuda.Device | None,
        source: Source | None,
    ) -> None:
        self.library = library
        self.plan_bytes = plan
        self.gpu = gpu
        self.source = source  # where shapes may grow
        self.inputs = [port.name for port in function.inputs]
        self.outputs = [port.name for port in function.outputs]
        self.dtypes = [np.dtype(port.dtype) for port in function.outputs]
        self.record = None
        if function.records_dir:
            name = f"tensorrt-runtime-{library.trt.__version__}.bin"
            self.record = Path(function.records_dir) / name
        self.lock = threading.Lock()
        self.plan = None if gpu is None else GpuPlan(library, gpu, plan, self.record)
        self.weight_bytes = len(plan)
        self.workspace_bytes = 0 if self.plan is None else self.plan.engine.device_memory_size_v2

    def serialize(self) -> bytes:
        """The plan."""
        return self.plan_bytes

    def create_context(self) -> list[Context]:
        """A place for a context: made by the first run, and anew when the plan is."""
        return []

    def grow(self, arrays: list[np.ndarray]) -> GpuPlan:
        """The plan, built again for larger shapes if an input exceeds those it was built for."""
        with self.lock:
            if self.source is None:
                return self.plan
            largest = {}
            for name, array in zip(self.inputs, arrays, strict=True):
                maximum = self.plan.maximum(name)
                if any(size > most for size, most in zip(array.shape, maximum, strict=True)):
                    largest[name] = [
                        1 << (size - 1).bit_length() if size > most else most
                        for size, most in zip(array.shape, maximum, strict=True)
                    ]
            if largest:
                LOG.warning(
                    "function %s is built again for larger inputs: %s", self.source.name, largest
                )
                self.plan_bytes, _ = self.source.build(largest)
                self.plan = GpuPlan(self.library, self.gpu, self.plan_bytes, self.record)
            return self.plan

    def run(self, inputs: list[Any], outputs: list[Any], place: list[Context]) -> None:
        """One run: copies in, the plan, copies out."""
        if self.plan is None:
            try:
                _cuda.driver()
            except EngineError as error:
                raise EngineError(f"a plan of TensorRT runs on a GPU: {error}") from error
        self.gpu.enter()
        plan = self.grow(inputs)
        if not place or place[0].plan is not plan:
            place[:] = [Context(plan, self.inputs, self.outputs)]
        self.launch(place[0], inputs, outputs)

    def launch(self, run: Context, inputs: list[Any], outputs: list[Any]) -> None:
        """The steps of a run on the stream of its context."""
        context, stream = run.context, run.stream
        for name, array in zip(self.inputs, inputs, strict=True):
            buffer = run.buffers[name]
            buffer.reserve(array.nbytes)
            buffer.upload(array.ctypes.data, array.nbytes, stream)
            if not context.set_input_shape(name, array.shape):
                raise InvalidArgument(
                    f"input '{name}': the plan takes no shape {list(array.shape)}: "
                    f"{self.library.cause('it is outside of the profile')}"
                )
            context.set_tensor_address(name, buffer.address.value)
        for name, array, dtype in zip(self.outputs, outputs, self.dtypes, strict=True):
            shape = context.get_tensor_shape(name) if array is None else array.shape
            if any(size < 0 for size in shape):
                context.set_output_allocator(name, run.allocator)
                continue
            run.shapes[name] = tuple(shape)
            run.buffers[name].reserve(int(np.prod(shape)) * dtype.itemsize)
            context.set_tensor_address(name, run.buffers[name].address.value)
        if not context.execute_async_v3(stream.handle.value):
            raise EngineError(self.library.cause("TensorRT could not start the run"))
        waiting = []
        for i, name in enumerate(self.outputs):
            if name not in run.shapes:
                stream.synchronize()  # the allocator is told the shape by now
            if outputs[i] is None:
                outputs[i] = np.empty(run.shapes.pop(name), self.dtypes[i])
            run.buffers[name].download(outputs[i].nbytes, stream)
            waiting.append((run.buffers[name], outputs[i]))
        stream.synchronize()
        for buffer, array in waiting:
            buffer.read(array.ctypes.data, array.nbytes)
        if run.is_first:
            run.is_first = False
            run.plan.keep()
