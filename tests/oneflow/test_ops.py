# SPDX-License-Identifier: Apache-2.0
"""Op by op, what OneFlow computes, forward and gradient: ./dev test oneflow."""

from __future__ import annotations

import copy

import numpy as np
import pytest

flow = pytest.importorskip("oneflow")

from op_cases import CASES, Case  # noqa: E402
from openxrt.oneflow import XRTModule  # noqa: E402
from openxrt.oneflow.job import flatten  # noqa: E402

TOLERANCE = 1e-4  # of the range


def close(found: flow.Tensor, wanted: flow.Tensor) -> None:
    a, b = found.numpy(), wanted.numpy()
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    if b.dtype.kind in "biu":
        np.testing.assert_array_equal(a, b)
        return
    reach = float(b.max() - b.min()) or max(1.0, abs(float(b.max())))
    np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE * reach)


def compare(case: Case, engine: str = "native") -> XRTModule:
    """Raises where the engine's results or gradients are not OneFlow's."""
    flow.manual_seed(5)
    plain = case.module()
    inner = copy.deepcopy(plain)
    wrapped = XRTModule(inner, engine=engine)
    sides = []
    for module in (plain, wrapped):
        args = [
            flow.tensor(x, requires_grad=case.gradients and x.dtype == np.float32)
            for x in case.inputs
        ]
        module.train(case.gradients)
        results = flatten(module(*args), [])
        if case.gradients:
            weights = [flow.arange(y.numel()).reshape(y.shape) / y.numel() + 1 for y in results]
            sum((y * w).sum() for y, w in zip(results, weights, strict=True)).backward()
        sides.append((results, args))
    for a, b in zip(sides[1][0], sides[0][0], strict=True):
        close(a, b)
    if case.gradients:
        for a, b in zip(sides[1][1], sides[0][1], strict=True):
            assert (a.grad is None) == (b.grad is None)
            if b.grad is not None:
                close(a.grad, b.grad)
        for (name, a), b in zip(inner.named_parameters(), plain.parameters(), strict=True):
            assert a.grad is not None, name
            close(a.grad, b.grad)
    return wrapped


@pytest.mark.parametrize("name", CASES)
def test_an_op_is_that_of_oneflow(name: str) -> None:
    compare(CASES[name])
