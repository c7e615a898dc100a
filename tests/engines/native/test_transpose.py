# SPDX-License-Identifier: Apache-2.0
"""Native's Transpose against NumPy: squares, three planes, and what is left beside them."""

import itertools

import numpy as np
import openxrt
import pytest
from onnx import helper
from small_models import make_model, tensor


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64, np.uint8, np.float16])
@pytest.mark.parametrize(
    "shape", [(5, 9), (33, 40), (2, 17, 19), (2, 24, 7, 8), (3, 8, 16, 5), (2, 3, 67, 31)]
)
def test_every_order_of_the_axes(dtype: type, shape: tuple[int, ...]) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x = np.random.default_rng(0).integers(0, 250, shape).astype(dtype)
    for order in itertools.permutations(range(len(shape))):
        model = make_model(
            [helper.make_node("Transpose", ["x"], ["y"], perm=order)],
            [tensor("x", kind, shape)],
            [tensor("y", kind, [shape[axis] for axis in order])],
        )
        program = openxrt.load(model, engine="native", cache_dir="")
        np.testing.assert_array_equal(program(x), x.transpose(order))
