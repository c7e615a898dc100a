# SPDX-License-Identifier: Apache-2.0
"""Sums over one element: the plugin compiles them once and for all, so runs of one have a model of
their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, usable

pytestmark = pytest.mark.skipif(not usable("openvino"), reason="openvino is not there")


def attention() -> bytes:
    shapes = {"q": ["b", 4, "l", 8], "k": ["b", 4, "s", 8], "v": ["b", 4, "s", 8]}
    return make_model(
        [
            helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
            helper.make_node("MatMul", ["q", "kt"], ["products"]),
            helper.make_node("Mul", ["products", "factor"], ["scores"]),
            helper.make_node("Softmax", ["scores"], ["weights"]),
            helper.make_node("MatMul", ["weights", "v"], ["y"]),
        ],
        [tensor(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.float32(0.35), "factor")],
    )


@pytest.mark.parametrize("cached", [False, True])
def test_attention_in_any_order(cached: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    options = {"cache_dir": str(tmp_path) if cached else "", "max_specializations": 1}
    for _ in range(1 + cached):
        program = openxrt.load(
            attention(), engine="openvino", strict=True, check_results=False, **options
        )
        # Queries and keys; the first sizes have a plan of their own.
        for queries, keys in [(7, 7), (3, 1), (17, 17), (1, 33), (1, 1), (5, 64), (33, 2)]:
            q = rng.standard_normal((2, 4, queries, 8), np.float32)
            k, v = (rng.standard_normal((2, 4, keys, 8), np.float32) for _ in range(2))
            scores = q @ k.swapaxes(2, 3) * np.float32(0.35)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            expected = weights / weights.sum(-1, keepdims=True) @ v
            result = program.run({"q": q, "k": k, "v": v})["y"]
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
