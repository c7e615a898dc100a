# SPDX-License-Identifier: Apache-2.0
"""Integers that the plugin would round: a run that is given them is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, usable

pytestmark = pytest.mark.skipif(not usable("openvino"), reason="openvino is not there")

# Constant operands behind x.
OPS: dict[str, dict[str, Any]] = {
    "Clip": {"least": np.int64(-5), "most": np.int64(1 << 23)},
    "Mul": {"factor": np.int64(200)},
    "CumSum": {"axis": np.int64(0)},
    "Relu": {},
    "ReverseSequence": {"lengths": np.array([2, 1])},
}


@pytest.mark.parametrize("op", OPS)
def test_what_float32_does_not_hold_is_refused(op: str) -> None:
    model = make_model(
        [helper.make_node(op, ["x", *OPS[op]], ["y"])],
        [tensor("x", TensorProto.INT64, [2, 2])],
        [tensor("y", TensorProto.INT64, [2, 2])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in OPS[op].items()],
        opset=18,
    )
    program = openxrt.load(model, engine="openvino", strict=True, check_results=False, cache_dir="")
    native = openxrt.load(model, engine="native", cache_dir="")
    few = np.array([[1, -7], [1 << 22, 3]])
    np.testing.assert_array_equal(program(few), native(few))
    with pytest.raises(openxrt.Error, match="'x'"):
        program(np.array([[(1 << 24) + 1, 0], [0, 0]]))
