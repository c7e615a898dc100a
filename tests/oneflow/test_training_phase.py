# SPDX-License-Identifier: Apache-2.0
"""Engines are asked for a training step by what trains in OneFlow, and for inference elsewhere."""

from __future__ import annotations

import pytest

flow = pytest.importorskip("oneflow")

from oneflow import nn  # noqa: E402
from openxrt.oneflow import XRTModule  # noqa: E402
from training_phase import ENGINES, check_inference, check_training  # noqa: E402


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def test_a_module() -> None:
    x = flow.randn(4, 6)
    training = XRTModule(network(), engine=ENGINES).train()
    training(x).sum().backward()
    check_training(training.programs(), 2)  # forward and backward
    evaluated = XRTModule(network().eval(), engine=ENGINES)
    evaluated(x)
    check_inference(evaluated.programs())


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
