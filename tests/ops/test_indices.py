# SPDX-License-Identifier: Apache-2.0
"""Indices out of range are errors on every engine, in range they count from either end."""

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, usable

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)
ENGINES = ["native", "openvino", "xla", "onnxruntime"]


def embedding(*, cast: bool = False, op: str = "Gather") -> bytes:
    """y = table[ids], int64[2] or, for GatherElements, int64[2,3]; int32 where it is cast."""
    ids = "wide" if cast else "ids"
    nodes: list[onnx.NodeProto] = []
    if cast:
        nodes.append(helper.make_node("Cast", ["ids"], ["wide"], to=TensorProto.INT64))
    nodes.append(helper.make_node(op, ["table", ids], ["y"], name="embed"))
    dtype = TensorProto.INT32 if cast else TensorProto.INT64
    shape = [2] if op == "Gather" else [2, 3]
    return make_model(
        nodes,
        [tensor("ids", dtype, shape)],
        [tensor("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(TABLE, "table")],
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cast", [False, True])
def test_indices_out_of_range(engine: str, cast: bool) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    program = openxrt.load(embedding(cast=cast), engine=engine, strict=True)
    dtype = np.int32 if cast else np.int64
    for ids in ([0, 3], [-4, -1]):
        np.testing.assert_array_equal(program(np.array(ids, dtype)), TABLE[ids])
    for wrong in (4, -5):
        with pytest.raises(openxrt.Error, match=rf"'embed'.*{wrong} is outside an axis of size 4"):
            program(np.array([1, wrong], dtype))


@pytest.mark.parametrize("engine", ENGINES)
def test_elements_out_of_range(engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    program = openxrt.load(embedding(op="GatherElements"), engine=engine, strict=True)
    ids = np.array([[0, -4, 3], [1, 1, 1]])
    np.testing.assert_array_equal(program(ids), np.take_along_axis(TABLE, ids, 0))
    ids[1, 2] = 4
    with pytest.raises(openxrt.Error, match=r"'embed'.*4 is outside an axis of size 4"):
        program(ids)
