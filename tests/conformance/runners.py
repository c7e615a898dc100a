# SPDX-License-Identifier: Apache-2.0
"""What the conformance driver can run a model with: this project's engines, and peers as baselines.

A runner is made once per worker and called once per test:

    outcome = runner(model, model_bytes, feeds_per_data_set)

It raises `NotSupportedError` when it declines the model with a reason; anything else raised is a
failure.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

DEVICE = "XRT_CONFORMANCE_DEVICE"  # names the device in the environment of a worker


class NotSupportedError(Exception):
    """The runner declines the model; the message says why."""


@dataclass
class Outcome:
    """Outputs in graph order, per data set; nodes that each engine ran; its operators by engine."""

    outputs: list[list[Any]]
    nodes: dict[str, int] = field(default_factory=dict)


class OpenXrt:
    """The public Python API with a list of engines."""

    def __init__(self, engines: list[str]) -> None:
        import openxrt

        self.openxrt = openxrt
        self.engines = engines

    def __call__(
        self, model: onnx.ModelProto, content: bytes, feeds: list[dict[str, Any]]
    ) -> Outcome:
        try:
            device = os.environ.get(DEVICE, "cpu")
            program = self.openxrt.load(content, engine=self.engines, device=device, num_threads=1)
            outputs = [program.run(inputs) for inputs in feeds]
        except self.openxrt.Unsupported as error:
            raise NotSupportedError(str(error)) from error
        names = [value.name for value in model.graph.output]
        nodes = Counter(entry["engine"] for entry in program.explain()["nodes"])
        return Outcome([[result[name] for name in names] for result in outputs], dict(nodes))


class OnnxRuntime:
    """Peer: onnxruntime's CPU provider."""

    def __init__(self, _: list[str]) -> None:
        # Newer operator sets than the last release that it implements: tried, not refused.
        os.environ["ALLOW_RELEASED_ONNX_OPSET_ONLY"] = "0"
        import onnxruntime

        self.onnxruntime = onnxruntime
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = 1
        self.options.log_severity_level = 4

    def __call__(
        self, model: onnx.ModelProto, content: bytes, feeds: list[dict[str, Any]]
    ) -> Outcome:
        session = self.onnxruntime.InferenceSession(
            content, self.options, providers=["CPUExecutionProvider"]
        )
        outputs = [session.run(None, inputs) for inputs in feeds]
        return Outcome(outputs, {"onnxruntime": len(model.graph.node)})


class OpenVino:
    """Peer: OpenVINO's CPU device in float32."""

    def __init__(self, _: list[str]) -> None:
        import openvino

        self.core = openvino.Core()
        self.core.set_property(
            "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
        )

    def __call__(
        self, model: onnx.ModelProto, content: bytes, feeds: list[dict[str, Any]]
    ) -> Outcome:
        compiled = self.core.compile_model(self.core.read_model(content), "CPU")
        outputs = []
        for inputs in feeds:
            known = {name for port in compiled.inputs for name in port.get_names()}
            used = {name: np.array(value) for name, value in inputs.items() if name in known}
            results = compiled(used)
            outputs.append([np.array(results[port]) for port in compiled.outputs])
        return Outcome(outputs, {"openvino": len(model.graph.node)})


class Reference:
    """Peer: the reference evaluator of the onnx package."""

    def __init__(self, _: list[str]) -> None:
        pass

    def __call__(
        self, model: onnx.ModelProto, content: bytes, feeds: list[dict[str, Any]]
    ) -> Outcome:
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(model)
        outputs = [list(evaluator.run(None, inputs)) for inputs in feeds]
        return Outcome(outputs, {"reference": len(model.graph.node)})


RUNNERS = {
    "openxrt": OpenXrt,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
    "reference": Reference,
}
BASELINES = [name for name in RUNNERS if name != "openxrt"]
