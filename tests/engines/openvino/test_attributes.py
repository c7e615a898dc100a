# SPDX-License-Identifier: Apache-2.0
"""Attributes that OpenVINO understands otherwise than the standard."""

import numpy as np
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import make_model, tensor

pytest.importorskip("openvino")


@pytest.mark.parametrize(
    ("op", "factors"),
    [
        ("HardSigmoid", {"alpha": 0.5, "beta": 0.0}),
        ("HardSigmoid", {"alpha": 0.0, "beta": 0.5}),
        ("Selu", {"alpha": 0.0, "gamma": 2.0}),
        ("Selu", {"alpha": 2.0, "gamma": 0.0}),
    ],
)
def test_a_factor_of_zero(op: str, factors: dict[str, float]) -> None:
    model = make_model(
        [helper.make_node(op, ["x"], ["y"], **factors)],
        [tensor("x", TensorProto.FLOAT, [5])],
        [tensor("y", TensorProto.FLOAT, [5])],
    )
    x = np.array([-3, -0.5, 0, 0.5, 2], np.float32)
    wanted = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
    program = openxrt.load(model, engine=["openvino", "native"])
    np.testing.assert_allclose(program.run({"x": x})["y"], wanted, rtol=1e-5)
