# SPDX-License-Identifier: Apache-2.0
"""Names in files whose exporter did not write UTF-8."""

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper

NAMES = ["given", "made", "node", "graph", "batch", "weight", "inner"]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_no_utf8(name: str) -> None:
    """A byte of another encoding is shown by its number, wherever the name is."""
    given = helper.make_tensor_value_info("given", TensorProto.FLOAT, ["batch", 2])
    made = helper.make_tensor_value_info("made", TensorProto.FLOAT, ["batch", 2])
    weight = numpy_helper.from_array(np.ones(2, np.float32), "weight")
    nodes = [
        helper.make_node("Add", ["given", "weight"], ["inner"], name="node"),
        helper.make_node("Neg", ["inner"], ["made"]),
    ]
    graph = helper.make_graph(nodes, "graph", [given], [made], [weight])
    opset = [helper.make_opsetid("", 17)]
    content = helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    foreign = "é".encode("latin-1") + name[1:].encode()  # as long: the file's lengths hold
    program = openxrt.load(content.replace(name.encode(), foreign), engine="native", cache_dir="")
    shown = {each: "\\xe9" + each[1:] if each == name else each for each in NAMES}
    assert [port.name for port in program.inputs] == [shown["given"]]
    assert [port.name for port in program.outputs] == [shown["made"]]
    assert program.inputs[0].shape == (shown["batch"], 2)
    x = np.array([[1, 2]], np.float32)
    results = program.run({shown["given"]: x})
    np.testing.assert_array_equal(results[shown["made"]], [[-2, -3]])
    assert shown["node"] in [row["name"] for row in program.explain()["nodes"]]
