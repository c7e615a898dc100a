# SPDX-License-Identifier: Apache-2.0
"""An engine that tells whether it was asked for a training step."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import openxrt

ENGINES = ["inference_only", "native"]


@openxrt.engine("inference_only", version="1", training=True)
class InferenceOnly:
    """Runs Relu, and refuses all of a training step."""

    def supports(self, node: openxrt.NodeView) -> bool | str:
        if node.training:
            return "it is for inference only"
        return True if node.op == "Relu" else "not Relu"

    def compile(self, function: openxrt.FunctionView) -> InferenceOnly:
        assert not function.training
        return self

    def run(self, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        for x, y in zip(inputs, outputs, strict=True):
            np.maximum(x, 0, out=y)


def check_inference(programs: Iterable[openxrt.Program]) -> None:
    """There is one program, and the engine runs its Relu."""
    (program,) = programs
    assert program.explain()["nodes_per_engine"]["inference_only"] == 1


def check_training(programs: Iterable[openxrt.Program], count: int) -> None:
    """There are so many programs, and the engine was asked, and refused, as they train."""
    explanations = [program.explain() for program in programs]
    assert len(explanations) == count
    reasons = set()
    for explanation in explanations:
        assert "inference_only" not in explanation["nodes_per_engine"]
        for node in explanation["nodes"]:
            reasons.add(node["refusals"].get("inference_only"))
    assert "it is for inference only" in reasons
