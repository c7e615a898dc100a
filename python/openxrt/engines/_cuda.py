# SPDX-License-Identifier: Apache-2.0
"""The few calls of CUDA's driver API that running an engine takes, through ctypes.

libcuda.so.1 comes with NVIDIA's driver: nothing else need be installed. The primary context of a
device is used, the one that TensorRT and every other library of the process use. Every failure is
an `EngineError` with CUDA's own name for it.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import lru_cache

from .._core import EngineError

LIBRARY = "libcuda.so.1"
COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR = 75, 76  # CUdevice_attribute
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
PORTABLE = 1  # CU_MEMHOSTALLOC_PORTABLE


class Driver:
    """The library, with its devices counted. EngineError where there is none."""

    def __init__(self, path: str = LIBRARY) -> None:
        try:
            self.library = ctypes.CDLL(path)
        except OSError as error:
            raise EngineError(f"there is no CUDA driver on this machine ({error})") from error
        self.call("cuInit", c_uint(0))
        count = c_int()
        self.call("cuDeviceGetCount", byref(count))
        self.count = count.value
        if self.count == 0:
            raise EngineError("the CUDA driver finds no device on this machine")

    def call(self, name: str, *arguments: object) -> None:
        """Calls a function of the driver; EngineError where it does not return CUDA_SUCCESS."""
        function = getattr(self.library, name, None)
        if function is None:
            raise EngineError(f"the CUDA driver is too old: it has no {name}")
        code = function(*arguments)
        if code != 0:
            text = c_char_p()
            self.library.cuGetErrorName(c_int(code), byref(text))
            cause = (text.value or b"unknown").decode()
            raise EngineError(f"CUDA: {name} failed: {cause} ({code})")

    def compute_capability(self, index: int) -> tuple[int, int]:
        """Of the device, for example (8, 9)."""
        device = self.device(index)
        major, minor = c_int(), c_int()
        self.call("cuDeviceGetAttribute", byref(major), c_int(COMPUTE_CAPABILITY_MAJOR), device)
        self.call("cuDeviceGetAttribute", byref(minor), c_int(COMPUTE_CAPABILITY_MINOR), device)
        return major.value, minor.value

    def device(self, index: int) -> c_int:
        """The driver's handle of the device."""
        if not 0 <= index < self.count:
            raise EngineError(f"there is no device cuda:{index}: the driver finds {self.count}")
        device = c_int()
        self.call("cuDeviceGet", byref(device), c_int(index))
        return device


@lru_cache(maxsize=1)
def driver() -> Driver:
    """The driver of this machine."""
    return Driver()


class Device:
    """A device's primary context, for as long as the object lives."""

    def __init__(self, driver: Driver, index: int) -> None:
        self.driver = driver
        self.handle = driver.device(index)
        self.context = c_void_p()
        driver.call("cuDevicePrimaryCtxRetain", byref(self.context), self.handle)

    def __del__(self) -> None:
        if self.context:
            self.driver.library.cuDevicePrimaryCtxRelease_v2(self.handle)

    def enter(self) -> None:
        """Makes it the current device of this thread."""
        self.driver.call("cuCtxSetCurrent", self.context)


class Stream:
    """A stream of a device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.handle = c_void_p()
        device.driver.call("cuStreamCreate", byref(self.handle), c_uint(NON_BLOCKING))

    def __del__(self) -> None:
        if self.handle:
            self.device.driver.library.cuStreamDestroy_v2(self.handle)

    def synchronize(self) -> None:
        """Waits until all that was put on the stream is done; other threads of Python run on."""
        self.device.driver.call("cuStreamSynchronize", self.handle)


class Buffer:
    """Memory of a device, with page-locked memory of the host beside it; grows, never shrinks."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.bytes = 0
        self.address = c_uint64()
        self.host = c_void_p()

    def __del__(self) -> None:
        self.free()

    def free(self) -> None:
        """Gives both memories back."""
        library = self.device.driver.library
        if self.address:
            library.cuMemFree_v2(self.address)
        if self.host:
            library.cuMemFreeHost(self.host)
        self.address, self.host, self.bytes = c_uint64(), c_void_p(), 0

    def reserve(self, count: int) -> None:
        """Room for so many bytes; what was there is lost if it grows."""
        count = max(count, 1)
        if count <= self.bytes:
            return
        self.free()
        call = self.device.driver.call
        call("cuMemAlloc_v2", byref(self.address), c_size_t(count))
        call("cuMemHostAlloc", byref(self.host), c_size_t(count), c_uint(PORTABLE))
        self.bytes = count

    def upload(self, source: int, count: int, stream: Stream) -> None:
        """Copies from the host, by way of the page-locked memory, in the order of the stream."""
        if count == 0:
            return
        ctypes.memmove(self.host, source, count)
        self.device.driver.call(
            "cuMemcpyHtoDAsync_v2", self.address, self.host, c_size_t(count), stream.handle
        )

    def download(self, count: int, stream: Stream) -> None:
        """Copies to the page-locked memory; there when the stream has been synchronised."""
        if count == 0:
            return
        self.device.driver.call(
            "cuMemcpyDtoHAsync_v2", self.host, self.address, c_size_t(count), stream.handle
        )

    def read(self, target: int, count: int) -> None:
        """Copies what was downloaded to memory of the host."""
        ctypes.memmove(target, self.host, count)
