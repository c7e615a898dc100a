# SPDX-License-Identifier: Apache-2.0
"""A model of Triton's Python backend that runs an OpenXRT program.

``xrt serve --server triton`` writes the repository around it, ``xrt serve --write-repository DIR``
one for a Triton of yours. A version folder holds ``model.py``, which imports TritonPythonModel from
here, and ``model.onnx`` or, in ``model.path``, where that is. The parameter ``openxrt`` of
``config.pbtxt`` holds the settings as JSON (:class:`openxrt.serve.ModelSettings`).

Triton imports ``triton_python_backend_utils``; this module works in its processes only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from .. import Error, InvalidArgument, ResourceError
from .served_program import ServedProgram
from .settings import MAX_REQUEST_BYTES, ModelSettings
from .telemetry import COUNTERS, Increment, RunMetrics, configure
from .triton_repository import model_file


class TritonPythonModel:
    """What Triton calls: the names are the Python backend's."""

    def initialize(self, args: dict[str, str]) -> None:
        """Loads the model and runs it once: Triton calls it ready after that."""
        config = json.loads(args["model_config"])
        folder = Path(args["model_repository"]) / args["model_version"]
        self._settings = _settings(config)
        self._max_request_bytes = _max_request_bytes(config)
        configure()
        # The families have to live as long as what is of them.
        self._families = {
            name: pb_utils.MetricFamily(
                name=name, description=text, kind=pb_utils.MetricFamily.COUNTER
            )
            for name, (text, _) in COUNTERS.items()
        }
        self._name, self._version = args["model_name"], args["model_version"]
        self._program = self.load(model_file(folder), self._settings)
        self._scalars: set[str] = set()  # inputs that Triton has as one element
        if isinstance(self._program, ServedProgram):
            _check_described(self._program, config)
            self._scalars = {name for name, (_, dims) in self._program.inputs.items() if not dims}

    def load(self, path: Path, settings: ModelSettings) -> Any:
        """The program: run() as ServedProgram has it."""
        metrics = RunMetrics(self._counter, self._name, self._version)
        return ServedProgram(
            path, settings, model=self._name, version=self._version, metrics=metrics
        )

    def execute(self, requests: list[Any]) -> list[Any]:
        """One response per request. Requests that Triton put together are one run, where their
        sizes agree; where that run fails each is run alone, so that one does not spoil others."""
        feeds = [self._feeds(request) for request in requests]
        answers: list[Any] = [None] * len(requests)
        waiting = []
        for i, request in enumerate(requests):
            if request.is_cancelled():
                answers[i] = _failure("the request was cancelled", "CANCELLED")
            elif (size := sum(map(_size, feeds[i].values()))) > self._max_request_bytes:
                told = f"the inputs have {size} bytes, and {self._max_request_bytes} at most"
                answers[i] = _failure(told, "INVALID_ARG")
            else:
                waiting.append(i)
        for group in _groups(feeds, waiting) if self._settings.max_batch_size else waiting:
            members = group if isinstance(group, list) else [group]
            if len(members) > 1 and self._run_together(feeds, members, requests, answers):
                continue
            for i in members:
                answers[i] = self._run_alone(feeds[i], requests[i])
        return answers

    def _feeds(self, request: Any) -> dict[str, np.ndarray]:
        feeds = {tensor.name(): _array(tensor) for tensor in request.inputs()}
        return {
            name: array.reshape(()) if name in self._scalars else array
            for name, array in feeds.items()
        }

    def _run_together(
        self,
        feeds: list[dict[str, np.ndarray]],
        members: list[int],
        requests: list[Any],
        answers: list[Any],
    ) -> bool:
        rows = [len(next(iter(feeds[i].values()))) for i in members]
        joined = {
            name: np.concatenate([feeds[i][name] for i in members]) for name in feeds[members[0]]
        }
        limits = [s for s in (_seconds_left(requests[i]) for i in members) if s is not None]
        try:
            outputs = self._program.run(
                joined,
                min(limits) if limits else None,
                [_trace_context(requests[i]) for i in members],
            )
        except Error:
            return False
        ends = np.cumsum(rows)
        for i, end, count in zip(members, ends, rows, strict=True):
            part = {name: array[end - count : end] for name, array in outputs.items()}
            answers[i] = _response(part, requests[i])
        return True

    def _run_alone(self, feeds: dict[str, np.ndarray], request: Any) -> Any:
        try:
            outputs = self._program.run(feeds, _seconds_left(request), [_trace_context(request)])
            return _response(outputs, request)
        except InvalidArgument as error:
            return _failure(str(error), "INVALID_ARG")
        except ResourceError as error:
            return _failure(str(error), "UNAVAILABLE")
        except Error as error:
            return _failure(str(error), "INTERNAL")

    def _counter(self, name: str, labels: Mapping[str, str]) -> Increment:
        return self._families[name].Metric(labels=dict(labels)).increment


def _settings(config: dict[str, Any]) -> ModelSettings:
    parameter = config.get("parameters", {}).get("openxrt")
    return ModelSettings.from_json(parameter["string_value"]) if parameter else ModelSettings()


def _max_request_bytes(config: dict[str, Any]) -> int:
    parameter = config.get("parameters", {}).get("max_request_bytes")
    return int(parameter["string_value"]) if parameter else MAX_REQUEST_BYTES


def _check_described(program: ServedProgram, config: dict[str, Any]) -> None:
    """Raises InvalidArgument where another version of the model has other inputs or outputs."""
    batched = config.get("max_batch_size", 0) > 0
    for what, described in (("input", program.inputs), ("output", program.outputs)):
        wanted = {
            entry["name"]: [int(n) for n in entry.get("reshape", {}).get("shape", entry["dims"])]
            for entry in config[what]
        }
        found = {
            name: dims[1:] if batched else dims or [1] for name, (_, dims) in described.items()
        }
        if wanted != found:
            raise InvalidArgument(
                f"config.pbtxt has the {what}s {wanted}, this version of the model {found}"
            )


def _array(tensor: Any) -> np.ndarray:
    # BF16 has no type in NumPy: as_numpy() of the backend refuses it, DLPack carries it.
    return tensor.as_numpy()


def _size(array: np.ndarray) -> int:
    return sum(map(len, array.ravel())) if array.dtype == object else array.nbytes


def _groups(feeds: list[dict[str, np.ndarray]], members: list[int]) -> list[list[int]]:
    """Requests that one run can take: of the same inputs, and sizes equal but for the first."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i in members:
        key = tuple(sorted((name, a.dtype.str, a.shape[1:]) for name, a in feeds[i].items()))
        groups.setdefault(key, []).append(i)
    return list(groups.values())


def _seconds_left(request: Any) -> float | None:
    microseconds = request.timeout()
    return microseconds / 1e6 if microseconds else None


def _trace_context(request: Any) -> dict[str, str]:
    """Headers of the W3C; none where Triton does not trace the request for OpenTelemetry."""
    text = request.trace().get_context()
    return json.loads(text) if text else {}


def _response(outputs: dict[str, np.ndarray], request: Any) -> Any:
    wanted = request.requested_output_names()
    return pb_utils.InferenceResponse([_tensor(name, outputs[name]) for name in wanted])


def _tensor(name: str, array: np.ndarray) -> Any:
    if array.dtype == object:
        array = np.array([str(v).encode() for v in array.ravel()], object).reshape(array.shape)
    # A scalar becomes one element, as Triton has it.
    return pb_utils.Tensor(name, np.ascontiguousarray(array))


def _failure(message: str, code: str) -> Any:
    error = pb_utils.TritonError(message, getattr(pb_utils.TritonError, code))
    return pb_utils.InferenceResponse(output_tensors=[], error=error)
