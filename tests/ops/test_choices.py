# SPDX-License-Identifier: Apache-2.0
"""Attributes that name a way that the standard does not know are errors when a file is loaded;
they are for ONNX Runtime, at the latest when it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, untyped

X = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
REGION = {"r": np.float32([[0, 0, 2, 2]]), "n": np.array([0])}
SCALES = {"roi": np.zeros(0, np.float32), "scales": np.float32([1, 1, 2, 2])}
GATES = {"w": np.ones((1, 8, 4), np.float32), "r": np.ones((1, 8, 2), np.float32)}
# op, attribute, operands behind x, other attributes
CASES: list[tuple[str, str, dict[str, np.ndarray], dict[str, Any]]] = [
    ("GridSample", "mode", {"g": np.zeros((1, 2, 2, 2), np.float32)}, {}),
    ("GridSample", "padding_mode", {"g": np.zeros((1, 2, 2, 2), np.float32)}, {}),
    ("Resize", "mode", SCALES, {}),
    ("Resize", "coordinate_transformation_mode", SCALES, {}),
    ("Resize", "nearest_mode", SCALES, {}),
    ("RoiAlign", "mode", REGION, {}),
    ("RoiAlign", "coordinate_transformation_mode", REGION, {}),
    ("Pad", "mode", {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1])}, {}),
    ("DepthToSpace", "mode", {}, {"blocksize": 1}),
    ("Conv", "auto_pad", {"w": np.ones((1, 1, 3, 3), np.float32)}, {}),
    ("MaxPool", "auto_pad", {}, {"kernel_shape": [2, 2]}),
    ("Gelu", "approximate", {}, {}),
    ("LSTM", "direction", GATES, {"hidden_size": 2}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]}")
def test_unknown_ways_are_refused(case: tuple[str, str, Any, Any]) -> None:
    op, attribute, operands, others = case
    model = make_model(
        [helper.make_node(op, ["x", *operands], ["y"], **{attribute: "wrong"}, **others)],
        [tensor("x", TensorProto.FLOAT, X.shape[1:] if op == "LSTM" else X.shape)],
        [untyped("y")],
        [numpy_helper.from_array(value, name) for name, value in operands.items()],
        opset=22,
    )
    with pytest.raises(Exception):  # noqa: B017 - of many kinds
        onnxruntime.InferenceSession(model).run(None, {"x": X})
    with pytest.raises(openxrt.InvalidModel, match=f"{op}.*'{attribute}' is 'wrong', not one of"):
        openxrt.load(model, engine="native")


def test_norms_of_other_orders_are_refused() -> None:
    model = make_model(
        [helper.make_node("LpNormalization", ["x"], ["y"], p=8)],
        [tensor("x", TensorProto.FLOAT, X.shape)],
        [untyped("y")],
        opset=22,
    )
    with pytest.raises(Exception):  # noqa: B017 - of a class of its own
        onnxruntime.InferenceSession(model)
    with pytest.raises(openxrt.InvalidModel, match=r"LpNormalization.*'p' is 8, not one of 1, 2"):
        openxrt.load(model, engine="openvino")
