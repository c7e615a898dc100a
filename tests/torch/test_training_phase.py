# SPDX-License-Identifier: Apache-2.0
"""Engines are asked for a training step by everything that trains, and for inference elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import numpy as np
import openxrt
import openxrt.torch as xt
import pytest
import torch
from openxrt.torch.runner import Runners

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


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))


def check_inference(programs: Iterable[openxrt.Program]) -> None:
    (program,) = programs
    assert program.explain()["nodes_per_engine"]["inference_only"] == 1


def check_training(programs: Iterable[openxrt.Program], count: int) -> None:
    explanations = [program.explain() for program in programs]
    assert len(explanations) == count
    reasons = set()
    for explanation in explanations:
        assert "inference_only" not in explanation["nodes_per_engine"]
        for node in explanation["nodes"]:
            reasons.add(node["refusals"].get("inference_only"))
    assert "it is for inference only" in reasons


@pytest.mark.parametrize("fallback", [False, True])
def test_xrt_module(fallback: bool) -> None:
    fast = xt.XRTModule(network(), engine=ENGINES, fallback=fallback)
    x = torch.randn(4, 6)
    fast.train()(x).sum().backward()
    check_training(fast.programs(), 2)  # forward and backward
    fast.recompile()
    fast.eval()(x)
    check_inference(fast.programs())


@pytest.mark.parametrize("dynamic", [False, True])
def test_torch_compile(dynamic: bool) -> None:
    runners = Runners()
    fast = torch.compile(
        network(),
        backend=functools.partial(xt.openxrt_backend, runners=runners),
        options={"engine": ENGINES},
        dynamic=dynamic,
    )
    fast(torch.randn(4, 6)).sum().backward()
    check_training(runners.programs(), 2)
    torch._dynamo.reset()
    runners = Runners()
    fast = torch.compile(
        network().eval(),
        backend=functools.partial(xt.openxrt_backend, runners=runners),
        options={"engine": ENGINES},
        dynamic=dynamic,
    )
    with torch.no_grad():
        fast(torch.randn(4, 6))
    check_inference(runners.programs())
