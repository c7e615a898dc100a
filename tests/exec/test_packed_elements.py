# SPDX-License-Identifier: Apache-2.0
"""Elements narrower than a byte in loops: slices, stacks and what bodies capture."""

from typing import Any

import ml_dtypes
import numpy as np
import openxrt
import pytest
from onnx import NodeProto, TensorProto, helper
from small_models import model_proto, tensor, untyped, usable

ENGINES = ["native", "openvino", "xla", "onnxruntime"]
TYPES = {
    "int4": (TensorProto.INT4, ml_dtypes.int4),
    "uint4": (TensorProto.UINT4, ml_dtypes.uint4),
    "float4": (TensorProto.FLOAT4E2M1, ml_dtypes.float4_e2m1fn),
    "int2": (TensorProto.INT2, ml_dtypes.int2),
    "uint2": (TensorProto.UINT2, ml_dtypes.uint2),
}
SHAPES = [(3, 5), (2, 4), (7, 1001)]  # of rows that begin within a byte, and that do not


def scan(kind: int, axis: int) -> NodeProto:
    """Every slice as it is, in the reverse order."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["slice"], ["same"])],
        "body",
        [tensor("slice", kind, ["n"])],
        [tensor("same", kind, None)],
    )
    attributes: dict[str, Any] = {"scan_input_axes": [axis], "scan_output_axes": [axis]}
    attributes["scan_input_directions"] = [1]
    return helper.make_node("Scan", ["x"], ["y"], body=body, num_scan_inputs=1, **attributes)


def loop(kind: int) -> NodeProto:
    """Three times what is captured."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["go_on"]),
            helper.make_node("Identity", ["x"], ["same"]),
        ],
        "body",
        [tensor("turn", TensorProto.INT64, []), tensor("going", TensorProto.BOOL, [])],
        [tensor("go_on", TensorProto.BOOL, []), tensor("same", kind, None)],
    )
    return helper.make_node("Loop", ["three", ""], ["y"], body=body)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("way", ["rows", "columns", "loop"])
def test_slices_and_stacks(way: str, name: str, shape: tuple[int, int], engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    kind, dtype = TYPES[name]
    x = (np.arange(np.prod(shape)) % 2).reshape(shape).astype(dtype)
    if way == "loop":
        node, wanted = loop(kind), np.stack([x] * 3)
    else:
        axis = 0 if way == "rows" else 1
        node, wanted = scan(kind, axis), np.flip(x, axis)
    inputs = [tensor("x", kind, list(shape)), tensor("three", TensorProto.INT64, [])]
    model = model_proto([node], inputs, [untyped("y")], opset=25)
    model.ir_version = 13
    program = openxrt.load(
        model.SerializeToString(), engine=list(dict.fromkeys((engine, "native"))), cache_dir=""
    )
    found = program.run({"x": x, "three": np.array(3)})["y"]
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_branch_reads_what_it_captures(engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    kind, dtype = TYPES["int4"]
    branches = [
        helper.make_graph(
            [helper.make_node("DequantizeLinear", ["x", "scale"], [name])],
            name,
            [],
            [tensor(name, TensorProto.FLOAT, None)],
        )
        for name in ("then", "else")
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    model = model_proto(
        [node],
        [
            tensor("x", kind, ["rows", "columns"]),
            tensor("scale", TensorProto.FLOAT, []),
            tensor("c", TensorProto.BOOL, []),
        ],
        [untyped("y")],
        opset=22,
    )
    x = np.array([[1, 2, 3], [4, 5, 6]])
    program = openxrt.load(
        model.SerializeToString(), engine=list(dict.fromkeys((engine, "native"))), cache_dir=""
    )
    feeds = {"x": x.astype(dtype), "scale": np.array(0.5, np.float32), "c": np.array(True)}
    np.testing.assert_array_equal(program.run(feeds)["y"], x * np.float32(0.5))
