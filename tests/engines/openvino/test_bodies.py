# SPDX-License-Identifier: Apache-2.0
"""What the engine does about OpenVINO's faults holds in bodies of If, Loop and Scan, too."""

import ml_dtypes
import numpy as np
import onnx
import openxrt
import pytest
from fault_models import Fault
from on_engine import load_on
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper
from openvino_faults import OPENVINO
from small_models import make_model, tensor, untyped

BRANCHES = ("then_branch", "else_branch")
HOLDING = [fault for fault in OPENVINO if fault.program == "right"]


def branch(name: str, nodes: list[NodeProto], outputs: list[str]) -> GraphProto:
    """The nodes, whose results have names of the branch."""
    made = {value for node in nodes for value in node.output if value}
    inner = []
    for node in nodes:
        copy = NodeProto()
        copy.CopyFrom(node)
        copy.name = f"{name}/{node.output[0]}"
        for values in (copy.input, copy.output):
            values[:] = [f"{name}/{value}" if value in made else value for value in values]
        inner.append(copy)
    return helper.make_graph(inner, name, [], [untyped(f"{name}/{value}") for value in outputs])


def in_branches(model: onnx.ModelProto) -> bytes:
    """The model as both branches of an If, whose condition is 'condition'."""
    graph = model.graph
    outputs = [value.name for value in graph.output]
    bodies = {name: branch(name, list(graph.node), outputs) for name in BRANCHES}
    del graph.node[:]
    graph.node.append(helper.make_node("If", ["condition"], outputs, **bodies))
    graph.input.append(tensor("condition", TensorProto.BOOL, []))
    return model.SerializeToString()


@pytest.mark.parametrize("fault", HOLDING, ids=lambda fault: fault.title)
def test_faults_in_a_branch(fault: Fault) -> None:
    model = in_branches(onnx.load_from_string(fault.model))
    program = load_on(model, "openvino")
    for feeds in fault.rounds():
        results = program.run(feeds | {"condition": np.array(True)})
    for found, right in zip(results.values(), fault.expected, strict=True):
        assert found.shape == right.shape
        if right.dtype.kind in "Obiu":
            np.testing.assert_array_equal(found, right)
        else:
            np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)


def test_a_normalisation_of_groups_in_a_branch() -> None:
    """The plugin said "Unsupported operation of type: GroupNormalization"."""
    nodes = [helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)]
    x = np.random.default_rng(0).standard_normal((2, 4, 3, 3)).astype(np.float32)
    s, b = np.float32([1, 2, 3, 4]), np.float32([4, 3, 2, 1])
    model = make_model(
        nodes,
        [tensor(n, TensorProto.FLOAT, a.shape) for n, a in (("x", x), ("s", s), ("b", b))],
        [untyped("y")],
        opset=21,
    )
    program = load_on(in_branches(onnx.load_from_string(model)), "openvino")
    groups = x.reshape(2, 2, -1)
    even = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 1e-5)
    wanted = even.reshape(x.shape) * s[:, None, None] + b[:, None, None]
    feeds = {"x": x, "s": s, "b": b, "condition": np.array(True)}
    np.testing.assert_allclose(program.run(feeds)["y"], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("to", [np.float32, np.bool_])
def test_a_cast_of_a_constant_of_two_bits(to: type, inside: bool) -> None:
    """The plugin said "map::at"."""
    levels = [1, 2, 3, 0, 1, 2, 3]
    stored = helper.make_tensor("w", TensorProto.UINT2, [7], levels)
    model = make_model(
        [helper.make_node("CastLike", ["w", "like"], ["y"])],
        [tensor("like", helper.np_dtype_to_tensor_dtype(np.dtype(to)), [1])],
        [untyped("y")],
        [stored],
        opset=25,
    )
    feeds = {"like": np.ones(1, to)}
    if inside:
        model = in_branches(onnx.load_from_string(model))
        feeds["condition"] = np.array(False)
    np.testing.assert_array_equal(load_on(model, "openvino").run(feeds)["y"], np.array(levels, to))


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "uint2"])
def test_a_cast_of_few_bits_to_bool(name: str, inside: bool) -> None:
    """The plugin said "unsupported src_prc"."""
    x = np.array([0, 1, 2, 0]).astype(getattr(ml_dtypes, name))
    model = make_model(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BOOL)],
        [tensor("x", helper.np_dtype_to_tensor_dtype(x.dtype), [4])],
        [untyped("y")],
        opset=25,
    )
    feeds = {"x": x}
    if inside:
        model = in_branches(onnx.load_from_string(model))
        feeds["condition"] = np.array(True)
    y = load_on(model, "openvino").run(feeds)["y"]
    np.testing.assert_array_equal(y, [False, True, True, False])


def test_regions_of_computed_shape() -> None:
    """The plugin said "ROIAlign node with name 'y' has invalid shape on 1st input"."""
    picture = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    model = make_model(
        [
            helper.make_node("Reshape", ["x", "to"], ["regions"]),
            helper.make_node("RoiAlign", ["picture", "regions", "of"], ["y"], sampling_ratio=2),
        ],
        [
            tensor("x", TensorProto.FLOAT, ["n"]),
            tensor("to", TensorProto.INT64, [2]),
            tensor("of", TensorProto.INT64, ["m"]),
        ],
        [untyped("y")],
        [numpy_helper.from_array(picture, "picture")],
        opset=16,
    )
    feeds = {
        "x": np.float32([0, 0, 4, 4, 1, 2, 5, 7]),
        "to": np.array([2, 4]),
        "of": np.array([1, 0]),
    }
    wanted = openxrt.load(model, engine="native", cache_dir="").run(feeds)["y"]
    np.testing.assert_allclose(load_on(model, "openvino").run(feeds)["y"], wanted, atol=1e-5)
