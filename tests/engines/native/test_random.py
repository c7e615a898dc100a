# SPDX-License-Identifier: Apache-2.0
"""Random ops of the native engine: with a seed they give what ONNX's reference evaluator gives."""

from __future__ import annotations

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from small_models import model_proto, tensor, untyped

P = np.linspace(0, 1, 1000, dtype=np.float32).reshape(10, 100)


def one_node(node: onnx.NodeProto, inputs: dict[str, np.ndarray]) -> onnx.ModelProto:
    return model_proto(
        [node],
        [tensor(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in inputs.items()],
        [untyped(name) for name in node.output],
        opset=22,
    )


def native(node: onnx.NodeProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    content = one_node(node, inputs).SerializeToString()
    return list(openxrt.load(content, engine=["native"]).run(inputs).values())


N = helper.make_node
CASES = {
    "uniform": (N("RandomUniform", [], ["y"], shape=[7, 11], seed=3.0, low=-1.0, high=5.0), {}),
    "uniform_double": (
        N("RandomUniform", [], ["y"], shape=[9], seed=42.7, dtype=TensorProto.DOUBLE),
        {},
    ),
    "uniform_like": (N("RandomUniformLike", ["x"], ["y"], seed=0.0), {"x": P}),
    "normal": (N("RandomNormal", [], ["y"], shape=[33, 3], seed=5.0, mean=2.0, scale=0.5), {}),
    "normal_like": (N("RandomNormalLike", ["x"], ["y"], seed=1.0), {"x": P}),
    "bernoulli": (N("Bernoulli", ["x"], ["y"], seed=9.0), {"x": P}),
    "dropout": (
        N("Dropout", ["x", "r", "t"], ["y", "m"], seed=4),
        {"x": P, "r": np.array(0.3, np.float32), "t": np.array(True)},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_seed_gives_the_reference_evaluators_numbers(name: str) -> None:
    node, inputs = CASES[name]
    wanted = ReferenceEvaluator(one_node(node, inputs)).run(None, inputs)
    for a, b in zip(wanted, native(node, inputs), strict=True):
        assert b.shape == a.shape
        np.testing.assert_allclose(b, a.astype(b.dtype), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["RandomUniform", "RandomNormal"])
def test_without_a_seed_every_run_differs(op: str) -> None:
    node = N(op, [], ["y"], shape=[100])
    program = openxrt.load(one_node(node, {}).SerializeToString(), engine=["native"])
    first, second = (program.run({})["y"] for _ in range(2))
    assert not np.array_equal(first, second)


def test_bernoulli_takes_the_probability_of_each_element() -> None:
    """Means over many draws lie within five standard deviations."""
    probabilities = np.repeat(np.array([0.0, 0.1, 0.5, 0.9, 1.0], np.float32), 20000).reshape(5, -1)
    (y,) = native(N("Bernoulli", ["x"], ["y"]), {"x": probabilities})
    p = probabilities[:, 0]
    assert np.all(np.abs(y.mean(1) - p) <= 5 * np.sqrt(p * (1 - p) / 20000))
