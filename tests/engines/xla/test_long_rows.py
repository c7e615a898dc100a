# SPDX-License-Identifier: Apache-2.0
"""Nodes that XLA would take minutes for: their row is cut, or another engine has them."""

import time

import numpy as np
import openxrt
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from small_models import make_model, tensor, usable

pytestmark = pytest.mark.skipif(not usable("xla"), reason="xla is not there")
F = TensorProto.FLOAT


def load(nodes: list[NodeProto], size: int, results: int = 1, **options: object) -> openxrt.Program:
    """Of one input and the last node's outputs."""
    outputs = [tensor(name, F, None) for name in nodes[-1].output[:results]]
    model = make_model(nodes, [tensor("x", F, [size])], outputs, opset=18)
    engines = ["xla", "native"]
    return openxrt.load(model, engine=engines, check_results=False, cache_dir="", **options)


def row(count: int) -> list[NodeProto]:
    """One after the other."""
    ops = ("Relu", "Neg", "Abs", "Exp")
    return [
        helper.make_node(ops[i % 4], [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(count)
    ]


def test_a_row_is_cut() -> None:
    program = load(row(2500), 4)
    explanation = program.explain()
    assert explanation["nodes_per_engine"] == {"xla": 2498, "native": 2}
    refusals = [n["refusals"]["xla"] for n in explanation["nodes"] if n["engine"] == "native"]
    assert all("1001 nodes in a row" in refusal for refusal in refusals)
    x = np.linspace(-2, 0.5, 4, dtype=np.float32)
    expected = openxrt.load(
        make_model(row(2500), [tensor("x", F, [4])], [tensor("v2500", F, [4])], opset=18),
        engine="native",
        cache_dir="",
    )
    np.testing.assert_allclose(program(x), expected(x), rtol=1e-5)


@pytest.mark.parametrize("op", ["Concat", "Split"])
def test_nodes_of_many_operands_or_results(op: str) -> None:
    if op == "Concat":
        node = helper.make_node(op, ["x"] * 1200, ["y"], axis=0)
    else:
        node = helper.make_node(op, ["x"], [f"y{i}" for i in range(1200)], axis=0, num_outputs=1200)
    program = load([node], 1200)
    assert program.explain()["nodes_per_engine"] == {"native": 1}


def test_each_result_takes_its_time() -> None:
    nodes = [helper.make_node("Elu", ["x"], [f"y{i}"], alpha=float(i)) for i in range(300)]
    outputs = [tensor(f"y{i}", F, [4]) for i in range(300)]
    model = make_model(nodes, [tensor("x", F, [4])], outputs)
    options = {"check_results": False, "cache_dir": "", "deadline_s": 5}
    explanation = openxrt.load(model, engine=["xla", "native"], **options).explain()
    assert explanation["nodes_per_engine"] == {"native": 300}
    assert "takes about 6.6 s" in explanation["nodes"][0]["refusals"]["xla"]


def test_what_takes_longer_than_the_limit_is_not_begun() -> None:
    program = load(row(900), 4, deadline_s=1)
    explanation = program.explain()
    assert explanation["nodes_per_engine"] == {"native": 900}
    assert "compiling 900 nodes takes about 1.8 s" in explanation["nodes"][0]["refusals"]["xla"]


def test_a_pool_that_walks_over_much_padding_is_left_to_others() -> None:
    pool = helper.make_node(
        "AveragePool", ["x"], ["y"], kernel_shape=[256, 256], pads=[255] * 4, name="pool"
    )
    model = make_model([pool], [tensor("x", F, [1, 1, 512, 512])], [tensor("y", F, None)])
    program = openxrt.load(model, engine=["xla", "native"], check_results=False, cache_dir="")
    assert program(np.ones((1, 1, 512, 512), np.float32)).min() == 1
    (row_of_pool,) = program.explain()["nodes"]
    assert row_of_pool["engine"] == "native"
    assert "whole windows" in row_of_pool["refusals"]["xla"]


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_running_totals_take_linear_time(exclusive: int, reverse: int) -> None:
    """A window over all elements for each of them would take minutes."""
    size = 1_000_000
    node = helper.make_node("CumSum", ["x", "axis"], ["y"], exclusive=exclusive, reverse=reverse)
    model = make_model(
        [node],
        [tensor("x", F, [size])],
        [tensor("y", F, [size])],
        [numpy_helper.from_array(np.array(0), "axis")],
    )
    program = openxrt.load(model, engine="xla", strict=True, check_results=False, cache_dir="")
    x = np.random.default_rng(0).integers(-3, 4, size).astype(np.float32)
    wanted = np.cumsum(x[::-1] if reverse else x)
    wanted = np.concatenate([[0], wanted[:-1]]) if exclusive else wanted
    np.testing.assert_array_equal(program.run({"x": x})["y"], wanted[::-1] if reverse else wanted)


@pytest.mark.parametrize("engine", ["openvino", "xla"])
def test_windows_of_many_channels_keep_their_deadline(engine: str) -> None:
    """Of 100,001 channels, for each of 200,000: ten seconds, in which nobody looks at the clock."""
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    model = make_model(
        [helper.make_node("LRN", ["x"], ["y"], size=100_001)],
        [tensor("x", F, [1, "channels", 1, 1])],
        [tensor("y", F, None)],
    )
    program = openxrt.load(
        model, engine=[engine, "native"], deadline_s=1, check_results=False, cache_dir=""
    )
    start = time.monotonic()
    with pytest.raises(openxrt.ResourceError, match="longer than its limit"):
        program.run({"x": np.ones((1, 200_000, 1, 1), np.float32)})
    assert time.monotonic() - start < 4


def test_convolutions_of_few_outputs_by_wide_windows_are_refused() -> None:
    w = np.ones((2, 64, 64, 64), np.float32)
    model = make_model(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        [tensor("x", F, [1, 64, 70, 70])],
        [tensor("y", F, None)],
        [numpy_helper.from_array(w, "w")],
    )
    program = openxrt.load(model, engine=["xla", "native"], check_results=False, cache_dir="")
    (node,) = program.explain()["nodes"]
    assert "no fast convolution by a window of 4096 elements" in node["refusals"]["xla"]
