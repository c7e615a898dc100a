# SPDX-License-Identifier: Apache-2.0
"""Engines are asked for a training step by everything that trains, and for inference elsewhere."""

from __future__ import annotations

import functools

import openxrt.torch as xt
import pytest
import torch
from openxrt.torch.runner import Runners
from training_phase import ENGINES, check_inference, check_training


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))


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
