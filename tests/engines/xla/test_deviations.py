# SPDX-License-Identifier: Apache-2.0
"""Operands for which the order of what a lowering asks shows."""

import numpy as np
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import make_model, tensor, usable

pytestmark = pytest.mark.skipif(not usable("xla"), reason="xla is not there")


@pytest.mark.parametrize("lambd", [0.5, 0.0, -1.0])
def test_shrink_asks_first_whether_a_number_is_small(lambd: float) -> None:
    model = make_model(
        [helper.make_node("Shrink", ["x"], ["y"], lambd=lambd, bias=0.25)],
        [tensor("x", TensorProto.FLOAT, [5])],
        [tensor("y", TensorProto.FLOAT, [5])],
    )
    x = np.array([-2, -0.5, 0, 0.5, 2], np.float32)
    wanted = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
    program = openxrt.load(model, engine="xla", strict=True, check_results=False, cache_dir="")
    np.testing.assert_array_equal(program(x), wanted)


def test_norms_of_other_orders_are_refused() -> None:
    model = make_model(
        [helper.make_node("LpNormalization", ["x"], ["y"], p=3)],
        [tensor("x", TensorProto.FLOAT, [2, 2])],
        [tensor("y", TensorProto.FLOAT, [2, 2])],
    )
    with pytest.raises(openxrt.Error, match="LpNormalization"):
        openxrt.load(model, engine=["xla", "native"], cache_dir="")(np.ones((2, 2), np.float32))


def test_scales_of_quantisation_are_exact() -> None:
    """The zero point of a range around zero is half way between two levels."""
    model = make_model(
        [helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])],
        [tensor("x", TensorProto.FLOAT, [7])],
        [
            tensor("y", TensorProto.UINT8, [7]),
            tensor("scale", TensorProto.FLOAT, []),
            tensor("zero", TensorProto.UINT8, []),
        ],
    )
    x = np.array([-1.5, -1, -0.5, 0, 0.5, 1, 1.5], np.float32)
    wanted = onnxruntime.InferenceSession(model).run(None, {"x": x})
    program = openxrt.load(model, engine="xla", strict=True, check_results=False, cache_dir="")
    for given, expected in zip(program.run({"x": x}).values(), wanted, strict=True):
        np.testing.assert_array_equal(given, expected)
