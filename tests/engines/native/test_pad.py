# SPDX-License-Identifier: Apache-2.0
"""Pads of axes that are short and long, before, behind and none, judged by NumPy."""

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import make_model, tensor, untyped


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64])
def test_every_mode(mode: str, dtype: type) -> None:
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)
    rng = np.random.default_rng(0)
    for rank in (1, 2, 3):
        inputs = [
            tensor("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [None] * rank),
            tensor("pads", TensorProto.INT64, [2 * rank]),
        ]
        model = make_model([node], inputs, [untyped("y")])
        program = openxrt.load(model, engine="native", cache_dir="")
        for _ in range(40):
            x = (10 * rng.standard_normal(rng.choice([4, 5, 28, 31, 40], rank))).astype(dtype)
            pads = rng.integers(0, 4, (2, rank))
            wanted = np.pad(x, list(zip(*pads.tolist(), strict=True)), mode=mode)
            np.testing.assert_array_equal(program(x, pads.reshape(-1)), wanted)
