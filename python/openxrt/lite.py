# SPDX-License-Identifier: Apache-2.0
"""OpenXRT Lite: models compiled to one file, run by the C runtime.

>>> openxrt.lite.compile("resnet50.onnx", "resnet50.bin", targets=["x86", "generic"])
>>> model = openxrt.lite.Model("resnet50.bin")
>>> outputs = model.run({"x": image})
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from operator import index
from os import PathLike, fspath
from pathlib import Path

import numpy as np

from . import _command
from ._core import Error, InvalidArgument
from .quantize import Samples, sample_folder

_DTYPES = {
    1: np.dtype(np.float32),
    2: np.dtype(np.uint8),
    3: np.dtype(np.int8),
    6: np.dtype(np.int32),
    7: np.dtype(np.int64),
    9: np.dtype(np.bool_),
    10: np.dtype(np.float16),
}


_MOST_THREADS = 1024


class _Port(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int32),
        ("dims", ctypes.c_int64 * 8),
        ("bytes", ctypes.c_size_t),
    )


class _ContextOptions(ctypes.Structure):
    _fields_ = (
        ("memory", ctypes.c_void_p),
        ("memory_bytes", ctypes.c_size_t),
        ("threads", ctypes.c_void_p),
    )


def _binary_folder() -> Path:
    for path in _command.programs():
        if path.is_file():
            return path.parent
    raise FileNotFoundError("the programs of OpenXRT were not found")


def _environment() -> dict[str, str]:
    """The process's, with NVRTC of the package nvidia-cuda-nvrtc where none is named."""
    environment = dict(os.environ)
    package = importlib.util.find_spec("nvidia")
    if "XRT_NVRTC" not in environment and package is not None:
        for folder in package.submodule_search_locations or ():
            for library in sorted(Path(folder).glob("*/lib/libnvrtc.so.*"), reverse=True):
                environment.setdefault("XRT_NVRTC", str(library))
    return environment


def compile(  # noqa: A001 (the name that users of compilers expect)
    model: str | PathLike[str],
    output: str | PathLike[str],
    *,
    targets: str | Sequence[str] = ("generic",),
    precision: str = "fp32",
    emit: str = "bin",
    dims: Mapping[str, int] | None = None,
    calibration: Samples | None = None,
    clipping: str = "minmax",
    report: str | PathLike[str] | None = None,
) -> str:
    """Compiles an ONNX file, a OneFlow folder or a graph's text; returns what the compiler says.

    `targets` is one name, names separated by commas, or a sequence of names. `dims` gives sizes to
    symbols of the inputs; others are 1. `precision="int8"` quantises a model in floating point by
    `calibration`: samples, each a mapping from input names to arrays, or a folder of them.
    `clipping` is "minmax", "percentile", "entropy" or "mse". `report` names an HTML file that
    shows the plan in memory and work. Raises openxrt.Error with the compiler's message,
    InvalidArgument where a file would be written over the model, and TypeError for an argument of
    a wrong type, also a sample that is no mapping.
    """
    names = targets if isinstance(targets, str) else ",".join(targets)
    if dims is not None and not isinstance(dims, Mapping):
        raise TypeError(f"dims is {type(dims).__name__}: a mapping from symbols to sizes is wanted")
    source, target = _path(model, "model"), _path(output, "output")
    command = [str(_binary_folder() / "xrt-lite-compile"), source, "-o", target]
    command += ["--targets", names, "--precision", precision, "--emit", emit]
    for symbol, size in (dims or {}).items():
        command += ["--dim", f"{symbol}={size}"]
    if report is not None:
        command += ["--report", fspath(report)]
    with ExitStack() as stack:
        if calibration is not None:
            folder = stack.enter_context(sample_folder(calibration))
            command += ["--calibrate", folder, "--clipping", clipping]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=_environment()
        )
    if done.returncode != 0:
        raise _command.failure(done.returncode, done.stderr)
    return done.stdout.strip()


@cache
def _library() -> ctypes.CDLL:
    lib = ctypes.CDLL(str(_binary_folder().parent / "lib" / "libxrt_lite.so"))
    pointer = ctypes.c_void_p
    lib.xrt_lite_message.restype = ctypes.c_char_p
    lib.xrt_lite_load_file.argtypes = [ctypes.c_char_p, pointer, ctypes.POINTER(pointer)]
    lib.xrt_lite_context_create.argtypes = [
        pointer,
        ctypes.POINTER(_ContextOptions),
        ctypes.POINTER(pointer),
    ]
    lib.xrt_lite_threads_create.restype = pointer
    for name in ("unload", "context_destroy", "threads_destroy", "input_count", "output_count"):
        getattr(lib, f"xrt_lite_{name}").argtypes = [pointer]
    for name in ("input", "output"):
        getattr(lib, f"xrt_lite_{name}").argtypes = [pointer, ctypes.c_int32, pointer]
        setter = getattr(lib, f"xrt_lite_set_{name}")
        setter.argtypes = [pointer, ctypes.c_int32, pointer, ctypes.c_size_t]
    lib.xrt_lite_run.argtypes = [pointer]
    lib.xrt_lite_register_driver.argtypes = [pointer]
    for driver in ("generic", "cortex_m", "x86", "arm", "cuda", "ascend"):
        entry = getattr(lib, f"xrt_lite_{driver}_driver", None)
        if entry is not None:
            entry.restype = pointer
            _check(lib, lib.xrt_lite_register_driver(entry()), driver)
    return lib


def _check(lib: ctypes.CDLL, status: int, what: str) -> None:
    if status != 0:
        raise Error(f"{what}: {lib.xrt_lite_message(status).decode()}")


def _path(path: object, what: str) -> str:
    if not isinstance(path, (str, PathLike)):
        raise TypeError(f"{what} is {type(path).__name__}: a path is wanted")
    return os.fsdecode(path)


class Model:
    """A compiled model. One run at a time; make a Model per thread."""

    def __init__(self, path: str | PathLike[str], threads: int = 1) -> None:
        """Maps the file. Raises openxrt.Error where it is refused, and TypeError or InvalidArgument
        for an argument that is no path and no number of threads."""
        self._context = ctypes.c_void_p()
        self._model = ctypes.c_void_p()
        self._threads = None
        name = self._name = _path(path, "path")
        try:
            threads = index(threads)
        except TypeError:
            raise TypeError(f"threads={threads!r}: a whole number is wanted") from None
        if not 0 <= threads <= _MOST_THREADS:
            raise InvalidArgument(f"threads={threads}: a number up to {_MOST_THREADS} is wanted")
        encoded = os.fsencode(name)
        if b"\0" in encoded:
            raise InvalidArgument(f"path {name!r} holds a null character")
        self._lib = lib = _library()
        _check(lib, lib.xrt_lite_load_file(encoded, None, ctypes.byref(self._model)), name)
        if threads > 1:
            self._threads = lib.xrt_lite_threads_create(threads)
        options = _ContextOptions(None, 0, self._threads)
        created = lib.xrt_lite_context_create(
            self._model, ctypes.byref(options), ctypes.byref(self._context)
        )
        _check(lib, created, name)
        self.inputs = self._ports(lib.xrt_lite_input, lib.xrt_lite_input_count(self._model))
        self.outputs = self._ports(lib.xrt_lite_output, lib.xrt_lite_output_count(self._model))

    def _ports(self, read: object, count: int) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
        ports = {}
        for i in range(count):
            port = _Port()
            _check(self._lib, read(self._model, i, ctypes.byref(port)), "port")
            try:
                name = port.name.decode()
            except UnicodeDecodeError as error:
                raise Error(
                    f"{self._name}: the name {port.name!r} of a port is not UTF-8"
                ) from error
            ports[name] = (_DTYPES[port.dtype], tuple(port.dims[: port.rank]))
        return ports

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs by name. Raises ValueError where an input is missing or of another type."""
        kept = []
        for i, (name, (dtype, shape)) in enumerate(self.inputs.items()):
            if name not in inputs:
                raise ValueError(f"input '{name}' is missing")
            array = np.asarray(inputs[name], order="C")  # keeps rank 0
            if array.dtype != dtype or array.shape != shape:
                raise ValueError(
                    f"input '{name}' must be {dtype}{list(shape)}, "
                    f"not {array.dtype}{list(array.shape)}"
                )
            kept.append(array)
            status = self._lib.xrt_lite_set_input(self._context, i, array.ctypes.data, array.nbytes)
            _check(self._lib, status, name)
        outputs = {name: np.empty(shape, dtype) for name, (dtype, shape) in self.outputs.items()}
        for i, (name, array) in enumerate(outputs.items()):
            status = self._lib.xrt_lite_set_output(
                self._context, i, array.ctypes.data, array.nbytes
            )
            _check(self._lib, status, name)
        _check(self._lib, self._lib.xrt_lite_run(self._context), "run")
        return outputs

    def __del__(self) -> None:
        """Gives the memory back."""
        if getattr(self, "_lib", None) is None:
            return
        self._lib.xrt_lite_context_destroy(self._context)
        self._lib.xrt_lite_unload(self._model)
        if self._threads is not None:
            self._lib.xrt_lite_threads_destroy(self._threads)
