# SPDX-License-Identifier: Apache-2.0
"""Computed operands that OpenVINO's CPU plugin misreads are left to another engine."""

from __future__ import annotations

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, usable

X = np.arange(12, dtype=np.float32).reshape(4, 3)

pytestmark = pytest.mark.skipif(not usable("openvino"), reason="openvino is not installed")


def engines_of(program: openxrt.Program) -> str:
    """What ran the nodes, and why."""
    return str(program.explain())


def test_pad_with_a_computed_value() -> None:
    model = make_model(
        [helper.make_node("Pad", ["x", "pads", "value"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [4, 3]), tensor("value", TensorProto.FLOAT, [])],
        [tensor("y", TensorProto.FLOAT, [5, 6])],
        [numpy_helper.from_array(np.array([1, 1, 0, 2]), "pads")],
    )
    program = openxrt.load(model, engine=["openvino", "native"])
    expected = np.pad(X, ((1, 0), (1, 2)), constant_values=7)
    np.testing.assert_array_equal(program(X, np.float32(7)), expected)
    assert "pads with zeros" in engines_of(program)


def test_slice_with_computed_axes() -> None:
    model = make_model(
        [helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [4, 3]), tensor("axes", TensorProto.INT64, [1])],
        [tensor("y", TensorProto.FLOAT, ["rows", "columns"])],
        [
            numpy_helper.from_array(np.array([1]), "starts"),
            numpy_helper.from_array(np.array([2]), "ends"),
        ],
    )
    program = openxrt.load(model, engine=["openvino", "native"])
    np.testing.assert_array_equal(program(X, np.array([0])), X[1:2])
    np.testing.assert_array_equal(program(X, np.array([-1])), X[:, 1:2])
    assert "outside of its memory" in engines_of(program)
