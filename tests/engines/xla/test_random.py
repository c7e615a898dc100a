# SPDX-License-Identifier: Apache-2.0
"""Random ops on XLA: their distribution, and that no two draws are alike."""

from __future__ import annotations

import math

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import model_proto, tensor, untyped

COUNT = 60000
N = helper.make_node


def xla(nodes: list[object], outputs: list[str], **inputs: np.ndarray) -> openxrt.Program:
    """A program that XLA runs whole."""
    model = model_proto(
        nodes,
        [tensor(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in inputs.items()],
        [untyped(name) for name in outputs],
        opset=22,
    )
    return openxrt.load(model.SerializeToString(), engine=["xla"], strict=True)


def check_moments(y: np.ndarray, mean: float, deviation: float) -> None:
    """Within five standard deviations of their estimates."""
    assert abs(y.mean() - mean) <= 5 * deviation / math.sqrt(y.size)
    assert abs(y.std() - deviation) <= 5 * deviation / math.sqrt(y.size)


@pytest.mark.parametrize(
    "dtype", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16]
)
def test_distributions(dtype: int) -> None:
    shape = {"shape": [200, COUNT // 200], "dtype": dtype}
    program = xla(
        [
            N("RandomUniform", [], ["u_"], low=-1.0, high=3.0, **shape),
            N("RandomNormal", [], ["n_"], mean=2.0, scale=0.5, **shape),
            N("Cast", ["u_"], ["u"], to=TensorProto.FLOAT),
            N("Cast", ["n_"], ["n"], to=TensorProto.FLOAT),
        ],
        ["u", "n"],
    )
    results = program.run({})
    coarse = dtype == TensorProto.BFLOAT16  # steps of 1/64 and more shift means by half a step
    if not coarse:
        check_moments(results["u"], 1.0, 4 / math.sqrt(12))
        check_moments(results["n"], 2.0, 0.5)
    assert results["u"].min() >= -1 and results["u"].max() <= 3
    np.testing.assert_allclose(np.quantile(results["u"], [0.25, 0.5, 0.75]), [0, 1, 2], atol=0.06)
    within = np.mean(np.abs(results["n"] - 2) <= 0.5)
    assert abs(within - 0.6827) <= 0.02


def test_every_draw_differs() -> None:
    """Of two nodes, of two runs, and of two programs, which XLA begins with one state."""
    x = np.zeros((100, 100), np.float32)
    nodes = [N("RandomUniformLike", ["x"], ["a"]), N("RandomUniformLike", ["x"], ["b"])]
    programs = [xla(nodes, ["a", "b"], x=x) for _ in range(2)]
    drawn = [y for p in programs for _ in range(2) for y in p.run({"x": x}).values()]
    for i, first in enumerate(drawn):
        for second in drawn[:i]:
            assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) <= 0.06


def test_bernoulli_and_dropout() -> None:
    p = np.repeat(np.array([0.0, 0.1, 0.5, 0.9, 1.0], np.float32), COUNT // 5).reshape(5, -1)
    one = np.ones((COUNT,), np.float32)
    program = xla(
        [
            N("Bernoulli", ["p"], ["hits"]),
            N("Constant", [], ["r"], value_float=0.3),
            N("Constant", [], ["t"], value=helper.make_tensor("t", TensorProto.BOOL, [], [True])),
            N("Dropout", ["one", "r", "t"], ["y", "mask"]),
        ],
        ["hits", "y", "mask"],
        p=p,
        one=one,
    )
    results = program.run({"p": p, "one": one})
    wanted = p[:, 0]
    error = 5 * np.sqrt(wanted * (1 - wanted) / p.shape[1])
    assert np.all(np.abs(results["hits"].mean(1) - wanted) <= error)
    kept = results["mask"]
    assert abs(kept.mean() - 0.7) <= 5 * math.sqrt(0.21 / COUNT)
    np.testing.assert_allclose(results["y"], np.where(kept, 1 / 0.7, 0), rtol=1e-6)


def test_a_seed_is_left_to_an_engine_that_begins_anew() -> None:
    with pytest.raises(openxrt.Unsupported, match="a seed"):
        xla([N("RandomUniform", [], ["y"], shape=[3], seed=1.0)], ["y"])
