# SPDX-License-Identifier: Apache-2.0
"""A program as a server sees it: described in the words of the Open Inference Protocol."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from .. import InvalidArgument, Port, Program, load
from .._core import LaunchEvent
from .settings import ModelSettings
from .telemetry import RunMetrics, RunSpan, run_span

# dtype of OpenXRT to datatype of the Open Inference Protocol.
DATATYPES = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "bfloat16": "BF16",
    "float32": "FP32",
    "float64": "FP64",
    "string": "BYTES",
}


class ServedProgram:
    """A loaded model whose first run is done.

    Attributes:
        inputs, outputs: name to (datatype, dimensions), -1 for open ones.

    Args:
        path: the model file.
        settings: how it is served.
        model: name of the model, in spans.
        version: number of the version, likewise.
        metrics: where runs and launches are counted.
    """

    def __init__(
        self,
        path: Path,
        settings: ModelSettings,
        *,
        model: str = "",
        version: str = "1",
        metrics: RunMetrics | None = None,
    ) -> None:
        """Loads and warms up. Raises what :func:`openxrt.load` raises, and InvalidArgument for a
        type that the protocol cannot carry or a `max_batch_size` that does not fit the model."""
        self.settings = settings
        options = dict(settings.options)
        if settings.max_batch_size > 0:
            options.setdefault("max_batch_size", settings.max_batch_size)
        self._program: Program = load(path, **options)
        self.inputs = {port.name: _described(port) for port in self._program.inputs}
        self.outputs = {port.name: _described(port) for port in self._program.outputs}
        self._optional = {port.name for port in self._program.inputs if port.has_default}
        self._timeout_s = settings.timeout_ms / 1000 or None
        if settings.max_batch_size > 0:
            _check_batches(self._program)
        self._model, self._version = model, version
        self._metrics: RunMetrics | None = None
        self._launch_lock = threading.Lock()
        # Thread that runs now to the launches of its run that another thread has taken.
        self._launches: dict[int, list[LaunchEvent]] = {}
        self._engines = ""
        self._warm_up()
        # The plan that ran is known now; the first run is not counted.
        self._metrics = metrics
        self._engines = ",".join(self.engines())
        self._program.enable_profile()

    @property
    def required_inputs(self) -> list[str]:
        """Names of the inputs that a request has to have."""
        return [name for name in self.inputs if name not in self._optional]

    def engines(self) -> list[str]:
        """Which engines run it."""
        return sorted(self._program.explain().nodes_per_engine)

    def run(
        self,
        inputs: Mapping[str, np.ndarray],
        timeout_s: float | None = None,
        callers: Sequence[Mapping[str, str]] = (),
    ) -> dict[str, np.ndarray]:
        """All outputs by name.

        Args:
            inputs: arrays by name; text as objects (bytes or str).
            timeout_s: seconds that are left to the request; the model's own bound counts too.
            callers: the trace context of each request that shares the run, as headers.

        Raises InvalidArgument where names, dtypes or shapes do not fit, ResourceError past the
        time.
        """
        unknown = [name for name in inputs if name not in self.inputs]
        if unknown:
            raise InvalidArgument(
                f"there is no input '{unknown[0]}'; inputs: {', '.join(self.inputs)}"
            )
        bounds = [s for s in (timeout_s, self._timeout_s) if s is not None]
        feeds = {name: _text(name, array) for name, array in inputs.items()}
        with run_span(self._model, self._version, self._engines, callers) as span:
            outputs = self._watched(span, feeds, min(bounds) if bounds else None)
        return {name: np.asarray(value) for name, value in outputs.items()}

    def _watched(
        self, span: RunSpan, feeds: Mapping[str, np.ndarray], timeout_s: float | None
    ) -> Mapping[str, Any]:
        """A run, counted and told to its span, also where it fails."""
        own = threading.get_native_id()
        with self._launch_lock:
            self._launches[own] = []
        begin = time.perf_counter()
        failed = True
        try:
            outputs = self._program.run(feeds, timeout=timeout_s)
            failed = False
            return outputs
        finally:
            microseconds = 1e6 * (time.perf_counter() - begin)
            span.add_launches(self._take_launches(own))
            if self._metrics is not None:
                self._metrics.add_run(self._engines, microseconds, failed)

    def _take_launches(self, own: int) -> list[LaunchEvent]:
        """Those of the run that this thread ended. A program keeps launches of all its runs in one
        list; who takes it counts them, and hands on those of runs that others wait for."""
        with self._launch_lock:
            taken = self._program.take_profile()
            if self._metrics is not None:
                self._metrics.add_launches(taken)
            for launch in taken:
                if launch.thread in self._launches:
                    self._launches[launch.thread].append(launch)
            return self._launches.pop(own)

    def _warm_up(self) -> None:
        sizes = self.settings.warm_up
        unknown = [name for name in sizes if name not in self.inputs]
        if unknown:
            raise InvalidArgument(f"warm_up names '{unknown[0]}', which is no input")
        feeds = {}
        for name in self.required_inputs:
            datatype, dims = self.inputs[name]
            shape = sizes.get(name, [1 if n < 0 else n for n in dims])
            dtype = object if datatype == "BYTES" else numpy_type(datatype)
            feeds[name] = np.full(shape, b"" if datatype == "BYTES" else 0, dtype)
        self.run(feeds)


def numpy_type(datatype: str) -> np.dtype[Any]:
    """The dtype of NumPy for a datatype of the protocol; BYTES are objects."""
    if datatype == "BYTES":
        return np.dtype(object)
    if datatype == "BF16":
        return np.dtype(ml_dtypes.bfloat16)
    (name,) = (name for name, word in DATATYPES.items() if word == datatype)
    return np.dtype(name)


def _described(port: Port) -> tuple[str, list[int]]:
    datatype = DATATYPES.get(port.dtype or "")
    if datatype is None or port.shape is None:
        raise InvalidArgument(
            f"'{port.name}' is {port.type}: the protocol carries tensors of known rank, of types "
            f"{', '.join(DATATYPES)}"
        )
    return datatype, [n if isinstance(n, int) else -1 for n in port.shape]


def _check_batches(program: Program) -> None:
    for port in [*program.inputs, *program.outputs]:
        if not port.shape or isinstance(port.shape[0], int):
            raise InvalidArgument(
                f"max_batch_size needs an open first dimension of every input and output; "
                f"'{port.name}' is {port.type}"
            )


def _text(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype != object and array.dtype.kind not in "SU":
        return array
    try:
        flat = [v.decode("utf-8") if isinstance(v, bytes) else str(v) for v in array.ravel()]
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"input '{name}' is no text of UTF-8: {error}") from None
    return np.array(flat, dtype=object).reshape(array.shape)
