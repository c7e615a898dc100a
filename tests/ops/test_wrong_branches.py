# SPDX-License-Identifier: Apache-2.0
"""Nodes that break their op's rule: an error of the model, or within a branch of an If at the
latest one of the run that takes it. No engine is asked about them."""

from __future__ import annotations

import numpy as np
import onnx
import openxrt
import pytest
from on_engine import load_on
from onnx import TensorProto, helper
from small_models import make_model, tensor

ENGINES = ["native", "openvino", "onnxruntime", "xla", "tvm"]
OUTPUTS = ["y0", "y1", "y2"]


def branch(prefix: str, node: onnx.NodeProto) -> onnx.GraphProto:
    node.output[:] = [prefix + name for name in OUTPUTS]
    outputs = [tensor(name, TensorProto.FLOAT, [2]) for name in node.output]
    return helper.make_graph([node], prefix, [], outputs)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("axis", [-(2**31), -2, 1, 2**31, 2**62])
def test_axis_of_a_branch(engine: str, axis: int) -> None:
    right = helper.make_node("Split", ["x"], OUTPUTS, num_outputs=3, axis=0)
    wrong = helper.make_node("Split", ["x"], OUTPUTS, num_outputs=3, axis=axis)
    model = make_model(
        [
            helper.make_node(
                "If",
                ["c"],
                OUTPUTS,
                then_branch=branch("right_", right),
                else_branch=branch("wrong_", wrong),
            )
        ],
        [tensor("x", TensorProto.FLOAT, [6]), tensor("c", TensorProto.BOOL, [])],
        [tensor(name, TensorProto.FLOAT, [2]) for name in OUTPUTS],
        opset=18,
    )
    try:
        program = load_on(model, engine)
    except openxrt.InvalidModel as error:  # branches may be planned on their own
        assert engine != "native"
        assert f"axis {axis}" in str(error)
        return
    x = np.arange(6, dtype=np.float32)
    found = program.run({"x": x, "c": np.array(True)})
    np.testing.assert_array_equal([found[name] for name in OUTPUTS], x.reshape(3, 2))
    with pytest.raises((openxrt.InvalidArgument, openxrt.InvalidModel), match=f"axis {axis}"):
        program.run({"x": x, "c": np.array(False)})


@pytest.mark.parametrize("count", [-1, 0, 1, 2])
def test_fewer_parts_than_outputs(count: int) -> None:
    """The ONNX library would read sizes beyond its list."""
    model = make_model(
        [helper.make_node("Split", ["x"], OUTPUTS, num_outputs=count, axis=0)],
        [tensor("x", TensorProto.FLOAT, [6])],
        [tensor(name, TensorProto.FLOAT, None) for name in OUTPUTS],
        opset=18,
    )
    with pytest.raises(openxrt.InvalidModel, match="'num_outputs'"):
        openxrt.load(model)
