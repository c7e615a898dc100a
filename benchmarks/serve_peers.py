# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime and OpenVINO behind Triton, for `./dev bench serve`: the model of openxrt's Python
backend with another runtime in it, so that batching, copies and answers are the same code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from openxrt.serve.settings import ModelSettings
from openxrt.serve.triton_model import TritonPythonModel


class Session:
    """What the backend asks of a program, of ONNX Runtime."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        self._session = onnxruntime.InferenceSession(
            os.fspath(path), options, providers=["CPUExecutionProvider"]
        )
        self._names = [output.name for output in self._session.get_outputs()]

    def run(
        self, inputs: Mapping[str, np.ndarray], timeout_s: float | None = None, callers: object = ()
    ) -> dict[str, np.ndarray]:
        del timeout_s, callers
        return dict(zip(self._names, self._session.run(None, dict(inputs)), strict=True))


class Compiled:
    """The same of OpenVINO, with its hint for latency: one request of all threads at a time."""

    def __init__(self, path: Path) -> None:
        import openvino

        core = openvino.Core()
        model = core.compile_model(os.fspath(path), "CPU", {"PERFORMANCE_HINT": "LATENCY"})
        self._request = model.create_infer_request()
        self._names = [output.get_any_name() for output in model.outputs]

    def run(
        self, inputs: Mapping[str, np.ndarray], timeout_s: float | None = None, callers: object = ()
    ) -> dict[str, np.ndarray]:
        del timeout_s, callers
        results = self._request.infer(dict(inputs), share_inputs=True)
        return {name: results[i] for i, name in enumerate(self._names)}


class OnnxruntimeModel(TritonPythonModel):
    """ONNX Runtime's."""

    def load(self, path: Path, settings: ModelSettings) -> Session:
        del settings
        return Session(path)


class OpenvinoModel(TritonPythonModel):
    """OpenVINO's."""

    def load(self, path: Path, settings: ModelSettings) -> Compiled:
        del settings
        return Compiled(path)
