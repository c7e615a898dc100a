# SPDX-License-Identifier: Apache-2.0
"""Running what was built from a GraphModule: TensorRT engines and Relax modules.

`InferenceContext` and `TorchInferenceContext` drive TensorRT's execution contexts through its
Python API and CUDA's driver. They need a GPU.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes  # noqa: F401 gives NumPy the name bfloat16
import numpy as np
import torch

from .._core import EngineError, InvalidArgument
from ..engines import _cuda
from ..engines._tensorrt_library import import_tensorrt
from .handlers.context import trt_module_of

_NUMPY_DTYPES = {
    "FLOAT": "float32",
    "HALF": "float16",
    "BF16": "bfloat16",
    "INT64": "int64",
    "INT32": "int32",
    "INT8": "int8",
    "UINT8": "uint8",
    "BOOL": "bool",
}


def by_name(names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Positional and keyword inputs by name, in the order of `names`. Raises InvalidArgument."""
    wanted = ", ".join(names)
    if len(args) > len(names):
        raise InvalidArgument(f"{len(args)} inputs for the inputs {wanted}")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise InvalidArgument(f"there is no input '{name}': the inputs are {wanted}")
        if name in given:
            raise InvalidArgument(f"input '{name}' is given by position and by name")
        given[name] = value
    missing = [name for name in names if name not in given]
    if missing:
        raise InvalidArgument(f"no value for the inputs {', '.join(missing)}")
    return {name: given[name] for name in names}


class _Tensors:
    """The inputs and outputs of an execution context's engine, and their dtypes."""

    def __init__(self, context: Any) -> None:
        engine = context.engine
        self.inputs: dict[str, str] = {}
        self.outputs: dict[str, str] = {}
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            kind = engine.get_tensor_dtype(name).name
            if kind not in _NUMPY_DTYPES:
                raise InvalidArgument(f"tensor '{name}' is of TensorRT's type {kind}")
            is_input = engine.get_tensor_mode(name).name == "INPUT"
            (self.inputs if is_input else self.outputs)[name] = _NUMPY_DTYPES[kind]


def _set_shape(context: Any, name: str, shape: Sequence[int]) -> None:
    if not context.set_input_shape(name, tuple(shape)):
        raise InvalidArgument(
            f"input '{name}': the engine takes no shape {list(shape)}; its optimisation profile "
            "says which it takes"
        )


def _make_allocator(context: Any, reserve: Any, shapes: dict[str, tuple[int, ...]]) -> Any:
    """TensorRT asks it for memory where the data decide an output's shape."""
    trt = trt_module_of(context, "IExecutionContext") or import_tensorrt()

    class Allocator(trt.IOutputAllocator):  # type: ignore[name-defined]
        """One for all outputs of a context."""

        def __init__(self) -> None:
            trt.IOutputAllocator.__init__(self)

        def reallocate_output(self, name: str, memory: int, size: int, alignment: int) -> int:
            return reserve(name, size)

        def reallocate_output_async(
            self, name: str, memory: int, size: int, alignment: int, stream: int
        ) -> int:
            return reserve(name, size)

        def notify_shape(self, name: str, shape: Any) -> None:
            shapes[name] = tuple(shape)

    return Allocator()


class InferenceContext:
    """NumPy arrays in and out of a TensorRT execution context, by way of page-locked memory.

    Inputs are given by position, in the order of the engine, or by name; outputs come by name, in
    arrays of their own. One run at a time: threads wait for each other.

    Args:
        context: TensorRT's IExecutionContext; it must outlive this object's runs.
        device: the GPU's number that the engine was deserialised on.

    Raises:
        EngineError: there is no CUDA driver or no such device.
    """

    def __init__(self, context: Any, device: int = 0) -> None:
        self.context = context
        self._tensors = _Tensors(context)
        self._gpu = _cuda.Device(_cuda.driver(), device)
        self._gpu.enter()
        self._stream = _cuda.Stream(self._gpu)
        names = [*self._tensors.inputs, *self._tensors.outputs]
        self._buffers = {name: _cuda.Buffer(self._gpu) for name in names}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._allocator: Any = None
        self._lock = threading.Lock()

    @property
    def input_names(self) -> list[str]:
        """In the order of positional inputs."""
        return list(self._tensors.inputs)

    @property
    def output_names(self) -> list[str]:
        """In the order of the engine."""
        return list(self._tensors.outputs)

    def inference(self, *inputs: np.ndarray, **named: np.ndarray) -> dict[str, np.ndarray]:
        """One run that waits after each step: copies in, the engine, copies out. For profiling."""
        return self._run(inputs, named, stepwise=True)

    def inference_async(self, *inputs: np.ndarray, **named: np.ndarray) -> dict[str, np.ndarray]:
        """One run whose steps follow each other on a stream; it waits for the last one only, and
        other Python threads run meanwhile."""
        return self._run(inputs, named, stepwise=False)

    def _run(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], stepwise: bool
    ) -> dict[str, np.ndarray]:
        arrays = {}
        for name, value in by_name(self.input_names, args, kwargs).items():
            wanted = np.dtype(self._tensors.inputs[name])
            array = np.ascontiguousarray(value)
            if array.dtype != wanted:
                raise InvalidArgument(f"input '{name}' is {array.dtype}, the engine takes {wanted}")
            arrays[name] = array.reshape(np.shape(value))
        with self._lock:
            self._gpu.enter()
            for name, array in arrays.items():
                buffer = self._buffers[name]
                buffer.reserve(array.nbytes)
                buffer.upload(array.ctypes.data, array.nbytes, self._stream)
                _set_shape(self.context, name, array.shape)
                self.context.set_tensor_address(name, buffer.address.value)
            self._prepare_outputs()
            if stepwise:
                self._stream.synchronize()
            if not self.context.execute_async_v3(self._stream.handle.value):
                raise EngineError("TensorRT could not start the run; its logger says why")
            return self._collect(stepwise)

    def _prepare_outputs(self) -> None:
        self._shapes.clear()
        for name, dtype in self._tensors.outputs.items():
            shape = tuple(self.context.get_tensor_shape(name))
            if any(size < 0 for size in shape):
                if self._allocator is None:
                    self._allocator = _make_allocator(self.context, self._reserve, self._shapes)
                self.context.set_output_allocator(name, self._allocator)
                continue
            self._shapes[name] = shape
            address = self._reserve(name, int(np.prod(shape)) * np.dtype(dtype).itemsize)
            self.context.set_tensor_address(name, address)

    def _reserve(self, name: str, size: int) -> int:
        self._buffers[name].reserve(size)
        return int(self._buffers[name].address.value)

    def _collect(self, stepwise: bool) -> dict[str, np.ndarray]:
        results = {}
        open_shapes = any(name not in self._shapes for name in self._tensors.outputs)
        if stepwise or open_shapes:
            self._stream.synchronize()  # the allocator is told the shapes by now
        for name, dtype in self._tensors.outputs.items():
            results[name] = np.empty(self._shapes[name], np.dtype(dtype))
            self._buffers[name].download(results[name].nbytes, self._stream)
        self._stream.synchronize()
        for name, array in results.items():
            self._buffers[name].read(array.ctypes.data, array.nbytes)
        return results


class TorchInferenceContext:
    """PyTorch's device tensors in and out of a TensorRT execution context: nothing is copied.

    Args:
        context: TensorRT's IExecutionContext; it must outlive this object's runs.
        device: where the engine was deserialised, any CUDA device; the current one by default.
    """

    def __init__(self, context: Any, device: torch.device | str | int | None = None) -> None:
        self.context = context
        self._tensors = _Tensors(context)
        if device is None:
            device = torch.cuda.current_device()
        if isinstance(device, int):
            device = torch.device("cuda", device)
        self.device = torch.empty(0, device=device).device  # "cuda" with its number
        self._lock = threading.Lock()

    @property
    def input_names(self) -> list[str]:
        """In the order of positional inputs."""
        return list(self._tensors.inputs)

    @property
    def output_names(self) -> list[str]:
        """In the order of the engine."""
        return list(self._tensors.outputs)

    def inference(self, *inputs: torch.Tensor, **named: torch.Tensor) -> dict[str, torch.Tensor]:
        """One run on the device's current stream, which it waits for."""
        results = self.inference_async(*inputs, **named)
        torch.cuda.current_stream(self.device).synchronize()
        return results

    def inference_async(
        self, *inputs: torch.Tensor, stream: Any = None, **named: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """One run, put on a stream: the device's current one by default, then the results are
        used like those of any PyTorch op.

        Another `stream` (torch.cuda.Stream) first waits for the current one; who uses the results
        on the current stream lets that wait for `stream`.
        """
        tensors = {}
        for name, tensor in by_name(self.input_names, inputs, named).items():
            wanted = getattr(torch, self._tensors.inputs[name])
            if not isinstance(tensor, torch.Tensor):
                raise InvalidArgument(f"input '{name}' is a {type(tensor).__name__} and no tensor")
            if tensor.device != self.device:
                raise InvalidArgument(
                    f"input '{name}' is on {tensor.device}, the engine on {self.device}"
                )
            if tensor.dtype != wanted:
                raise InvalidArgument(
                    f"input '{name}' is {tensor.dtype}, the engine takes {wanted}"
                )
            tensors[name] = tensor.detach().contiguous()
        current = torch.cuda.current_stream(self.device)
        if stream is None:
            stream = current
        with self._lock:
            for name, tensor in tensors.items():
                _set_shape(self.context, name, tensor.shape)
                self.context.set_tensor_address(name, _address(tensor, self.device))
            blocks: dict[str, torch.Tensor] = {}
            shapes: dict[str, tuple[int, ...]] = {}
            allocator = self._prepare_outputs(blocks, shapes)
            if stream != current:
                stream.wait_stream(current)
                for tensor in [*tensors.values(), *blocks.values()]:
                    tensor.record_stream(stream)
            if not self.context.execute_async_v3(stream.cuda_stream):
                raise EngineError("TensorRT could not start the run; its logger says why")
            if allocator is not None:
                stream.synchronize()  # the allocator is told the shapes by now
        return {name: self._result(name, blocks[name], shapes[name]) for name in self.output_names}

    def _prepare_outputs(
        self, blocks: dict[str, torch.Tensor], shapes: dict[str, tuple[int, ...]]
    ) -> Any:
        """Memory for each output; an allocator if the data decide a shape."""
        allocator = None

        def reserve(name: str, size: int) -> int:
            blocks[name] = torch.empty(max(size, 1), dtype=torch.uint8, device=self.device)
            return blocks[name].data_ptr()

        for name, dtype in self._tensors.outputs.items():
            shape = tuple(self.context.get_tensor_shape(name))
            if any(size < 0 for size in shape):
                if allocator is None:
                    allocator = _make_allocator(self.context, reserve, shapes)
                self.context.set_output_allocator(name, allocator)
                continue
            shapes[name] = shape
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            self.context.set_tensor_address(name, reserve(name, size))
        return allocator

    def _result(self, name: str, block: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        dtype = getattr(torch, self._tensors.outputs[name])
        size = int(np.prod(shape)) * dtype.itemsize
        return block[:size].view(dtype).reshape(shape)


def _address(tensor: torch.Tensor, device: torch.device) -> int:
    """Of a tensor's memory; TensorRT wants one of an empty tensor too."""
    if tensor.numel() > 0:
        return tensor.data_ptr()
    return torch.empty(1, dtype=tensor.dtype, device=device).data_ptr()


class TVMInference:
    """Runs the function `main` of a Relax module; arrays or PyTorch tensors in, NumPy arrays out.

    Args:
        module: an IRModule, which is compiled, or what tvm.compile() has given.
        target: TVM's target, as text or object; "llvm" is the CPU.
        device: a tvm.runtime.Device; by default that of the target.
        input_names, output_names: in order; by default those of the function's parameters, and
            output_0, output_1, …
    """

    def __init__(
        self,
        module: Any,
        target: Any = "llvm",
        *,
        device: Any = None,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        import tvm
        from tvm import relax

        self._tvm = tvm
        target = tvm.target.Target(target) if isinstance(target, str) else target
        names = list(input_names or ())
        if isinstance(module, tvm.IRModule):
            names = names or [parameter.name for parameter in module["main"].params]
            module = tvm.compile(module, target=target)
        if not names:
            raise InvalidArgument("input_names must be given with a compiled module")
        self.input_names = names
        self._output_names = list(output_names) if output_names is not None else None
        self.device = (
            device if device is not None else tvm.device(target.kind.name.replace("llvm", "cpu"))
        )
        self.machine = relax.VirtualMachine(module, self.device)
        self._lock = threading.Lock()

    def inference(self, *inputs: Any, **named: Any) -> dict[str, np.ndarray]:
        """One run; inputs by position or by name."""
        arguments = []
        for value in by_name(self.input_names, inputs, named).values():
            if isinstance(value, torch.Tensor):
                value = value.detach().cpu().contiguous().numpy()
            arguments.append(self._tvm.runtime.tensor(np.ascontiguousarray(value), self.device))
        with self._lock:
            outputs = self.machine["main"](*arguments)
        if isinstance(outputs, self._tvm.runtime.Tensor):
            outputs = [outputs]
        arrays = [output.numpy() for output in outputs]
        names = self._output_names or [f"output_{i}" for i in range(len(arrays))]
        if len(names) != len(arrays):
            raise InvalidArgument(f"{len(names)} output names for {len(arrays)} outputs")
        return dict(zip(names, arrays, strict=True))

    __call__ = inference
