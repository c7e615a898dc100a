# SPDX-License-Identifier: Apache-2.0
"""Faults of pinned versions of vendors' libraries, by engine; and how each library runs alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from fault_models import Arrays, Fault
from onnxruntime_faults import ONNXRUNTIME
from openvino_faults import OPENVINO


def openvino_alone(model: bytes, rounds: list[Arrays]) -> list[np.ndarray]:
    """OpenVINO's own reader and CPU plugin."""
    import openvino

    core = openvino.Core()
    settings = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(model), "CPU", settings)
    for feeds in rounds:
        results = compiled(feeds)
    return [results[output] for output in compiled.outputs]


def onnxruntime_alone(model: bytes, rounds: list[Arrays]) -> list[np.ndarray]:
    """ONNX Runtime's CPU provider."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return [session.run(None, feeds) for feeds in rounds][-1]


Alone = Callable[[bytes, list[Arrays]], list[np.ndarray]]


# Engine -> the vendor by itself, where the README lies, and the faults.
FAULTS: dict[str, tuple[Alone, str, list[Fault]]] = {
    "openvino": (openvino_alone, "src/engines/openvino/README.md", OPENVINO),
    "onnxruntime": (onnxruntime_alone, "python/openxrt/engines/README.md", ONNXRUNTIME),
}
