# SPDX-License-Identifier: Apache-2.0
"""Engines are asked for a training step by what trains in OneFlow, and for inference elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import openxrt
import pytest

flow = pytest.importorskip("oneflow")

from oneflow import nn  # noqa: E402
from openxrt.oneflow import XRTModule  # noqa: E402

ENGINES = ["inference_only", "native"]


@openxrt.engine("inference_only", version="1", training=True)
class InferenceOnly:
    """Runs Relu, and refuses all of a training step."""

    def supports(self, node: openxrt.NodeView) -> bool | str:
        if node.training:
            return "it is for inference only"
        return True if node.op == "Relu" else "not Relu"

    def compile(self, function: openxrt.FunctionView) -> InferenceOnly:
        return self

    def run(self, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
        for x, y in zip(inputs, outputs, strict=True):
            np.maximum(x, 0, out=y)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def check_training(programs: Iterable[openxrt.Program], count: int) -> None:
    explanations = [program.explain() for program in programs]
    assert len(explanations) == count
    reasons = set()
    for explanation in explanations:
        assert "inference_only" not in explanation["nodes_per_engine"]
        for node in explanation["nodes"]:
            reasons.add(node["refusals"].get("inference_only"))
    assert "it is for inference only" in reasons


def test_a_module() -> None:
    x = flow.randn(4, 6)
    training = XRTModule(network(), engine=ENGINES).train()
    training(x).sum().backward()
    check_training(training.programs(), 2)  # forward and backward
    evaluated = XRTModule(network().eval(), engine=ENGINES)
    evaluated(x)
    assert evaluated.explain()["nodes_per_engine"]["inference_only"] == 1


def test_a_graph_with_an_optimizer() -> None:
    class Step(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()
            self.add_optimizer(flow.optim.SGD(self.net.parameters(), lr=0.1))

        def build(self, x: flow.Tensor) -> flow.Tensor:
            loss = self.net(x).square().sum()
            loss.backward()
            return loss

    step = XRTModule(Step(), engine=ENGINES)
    step(flow.randn(4, 6))
    check_training(step.programs(), 1)
