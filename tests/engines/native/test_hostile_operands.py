# SPDX-License-Identifier: Apache-2.0
"""Operands of sizes that do not go together, or without elements: an error, or an empty result."""

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import make_model, tensor, untyped

BYTES = TensorProto.UINT8


def products() -> bytes:
    """y = MatMulInteger(a, b, za), ranks and sizes open."""
    node = helper.make_node("MatMulInteger", ["a", "b", "z"], ["y"], name="product")
    inputs = [tensor(name, BYTES, None) for name in "abz"]
    return make_model([node], inputs, [untyped("y")])


def ones(*dims: int) -> np.ndarray:
    return np.ones(dims, np.uint8)


def test_zero_points_of_no_rows() -> None:
    program = openxrt.load(products(), engine="native")
    assert program(ones(0, 3), ones(3, 2), ones(2)).shape == (0, 2)
    assert program(ones(2, 3), ones(3, 2), ones(2)).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("zero", [(2, 2, 2, 2), (3,), (5, 2, 1), (1, 1, 1, 4)])
def test_zero_points_of_another_shape(zero: tuple[int, ...]) -> None:
    program = openxrt.load(products(), engine="native")
    with pytest.raises(openxrt.Error, match="product"):
        program(ones(2, 3), ones(3, 2), ones(*zero))
