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


def by_coordinates(op: str, indices: np.ndarray | None) -> bytes:
    """y = op(table, ids, ...): ids are an input unless `indices` are given, updates are ones."""
    shape = {"GatherND": [2, 2], "ScatterND": [2, 2], "ScatterElements": [2, 3]}[op]
    inputs = ["table", "ids"] + ["updates"] * (op != "GatherND")
    constants = [] if indices is None else [numpy_helper.from_array(indices, "ids")]
    if op != "GatherND":
        ones = np.ones([2] if op == "ScatterND" else shape, np.float32)
        constants.append(numpy_helper.from_array(ones, "updates"))
    return make_model(
        [helper.make_node(op, inputs, ["y"], name="embed")],
        [tensor("table", TensorProto.FLOAT, [4, 3])]
        + ([tensor("ids", TensorProto.INT64, shape)] if indices is None else []),
        [tensor("y", TensorProto.FLOAT, [2] if op == "GatherND" else [4, 3])],
        constants,
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", ["GatherND", "ScatterElements", "ScatterND"])
def test_coordinates_out_of_range(engine: str, op: str) -> None:
    """Of two axes, each coordinate is held to the size of its own."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    right = np.array([[0, -4, 3], [1, 1, 1]] if op == "ScatterElements" else [[3, 2], [-4, -3]])
    program = openxrt.load(by_coordinates(op, None), engine=engine, strict=True)
    expected = np.copy(TABLE)
    if op == "GatherND":
        expected = TABLE[tuple(right.T)]
    elif op == "ScatterND":
        expected[tuple(right.T)] = 1
    else:
        np.put_along_axis(expected, right, 1, 0)
    np.testing.assert_array_equal(program(TABLE, right), expected)
    wrongs = (4, -5, 10**8, -(10**8)) if op == "ScatterElements" else (3, -4, 10**8, -(10**8))
    size = 4 if op == "ScatterElements" else 3
    for wrong in wrongs:
        hostile = right.copy()
        hostile[1, 1] = wrong
        message = rf"'embed'.*{wrong} is outside an axis of size {size}"
        with pytest.raises(openxrt.Error, match=message):
            program(TABLE, hostile)
        fixed = openxrt.load(by_coordinates(op, hostile), engine=engine, strict=True)
        with pytest.raises(openxrt.Error, match=message):
            fixed(TABLE)
