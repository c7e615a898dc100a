# SPDX-License-Identifier: Apache-2.0
"""Loops whose bodies run on the real engines, against NumPy."""

from pathlib import Path

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import make_model, model_proto, tensor, untyped, usable

STEPS, SIZE = 6, 8


def recurrent_model() -> bytes:
    """h[t] = tanh(w·h[t-1] + x[t]) by a Scan, which returns all h² too; w is captured."""
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["w", "h"], ["wh"], name="mm"),
            helper.make_node("Add", ["wh", "xt"], ["s"], name="add"),
            helper.make_node("Tanh", ["s"], ["h_next"], name="tanh"),
            helper.make_node("Mul", ["h_next", "h_next"], ["square"], name="square"),
        ],
        "body",
        [tensor("h", TensorProto.FLOAT, [SIZE]), tensor("xt", TensorProto.FLOAT, [SIZE])],
        [tensor("h_next", TensorProto.FLOAT, [SIZE]), tensor("square", TensorProto.FLOAT, [SIZE])],
    )
    scan = helper.make_node(
        "Scan", ["h0", "x"], ["last", "squares"], name="scan", body=body, num_scan_inputs=1
    )
    model = model_proto(
        [scan],
        [
            tensor("w", TensorProto.FLOAT, [SIZE, SIZE]),
            tensor("h0", TensorProto.FLOAT, [SIZE]),
            tensor("x", TensorProto.FLOAT, ["steps", SIZE]),
        ],
        [
            tensor("last", TensorProto.FLOAT, [SIZE]),
            tensor("squares", TensorProto.FLOAT, ["steps", SIZE]),
        ],
    )
    onnx.checker.check_model(model)
    return model.SerializeToString()


def expected(w: np.ndarray, h: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    squares = []
    for row in x:
        h = np.tanh(w @ h + row)
        squares.append(h * h)
    return h, np.array(squares).reshape(len(x), len(h))


def check(program: openxrt.Program, steps: int = STEPS) -> None:
    rng = np.random.default_rng(steps)
    w = rng.standard_normal((SIZE, SIZE)).astype(np.float32)
    h = rng.standard_normal(SIZE).astype(np.float32)
    x = rng.standard_normal((steps, SIZE)).astype(np.float32)
    outputs = program.run({"w": w, "h0": h, "x": x})
    last, squares = expected(w, h, x)
    np.testing.assert_allclose(outputs["last"], last, atol=1e-5)
    np.testing.assert_allclose(outputs["squares"], squares, atol=1e-5)


@pytest.mark.parametrize("engine", ["native", "openvino", "xla"])
def test_a_body_runs_on_one_engine_alone(engine: str) -> None:
    program = openxrt.load(
        recurrent_model(), engine=engine, strict=True, node_engines={"scan": "runtime"}
    )
    for steps in (STEPS, 1, STEPS):
        check(program, steps)
    assert program.explain().nodes_per_engine == {"runtime": 1, engine: 4}


def test_a_body_over_three_engines() -> None:
    program = openxrt.load(
        recurrent_model(),
        engine=["native", "openvino", "xla"],
        node_engines={"scan/body/mm": "openvino", "scan/body/tanh": "xla"},
    )
    check(program)
    check(program, 0)
    engines = {node["name"]: node["engine"] for node in program.explain()["nodes"]}
    assert engines == {
        "scan": "runtime",
        "scan/body/mm": "openvino",
        "scan/body/add": "native",
        "scan/body/tanh": "xla",
        "scan/body/square": "native",
    }


def test_bodies_are_kept_in_the_disk_cache(tmp_path: Path) -> None:
    def load() -> openxrt.Program:
        return openxrt.load(
            recurrent_model().replace(b"steps", b"STEPS"),  # no program in memory shares it
            engine="openvino",
            node_engines={"scan": "runtime"},
            cache_dir=tmp_path,
        )

    program = load()
    check(program)
    assert [launch["from_cache"] for launch in launches(program)] == [False]
    del program
    program = load()
    check(program)
    assert [launch["from_cache"] for launch in launches(program)] == [True]


def launches(program: openxrt.Program) -> list[dict]:
    return [entry for entry in program.explain()["launches"] if entry["engine"] != "runtime"]


def test_the_page_and_the_trace_show_bodies() -> None:
    program = openxrt.load(recurrent_model(), engine=["openvino"], node_engines={"scan": "runtime"})
    program.enable_profile()
    check(program)
    assert {"runtime_0", "scan/body/openvino_0"} <= {e.function for e in program.profile()}
    assert "scan/body/tanh" in program.explain().to_html()


def test_two_bodies_do_not_share_a_program() -> None:
    # The same graph, with other engines for its body.
    first = openxrt.load(recurrent_model(), engine=["native"], node_engines={"scan": "runtime"})
    second = openxrt.load(recurrent_model(), engine=["openvino"], node_engines={"scan": "runtime"})
    check(first)
    check(second)
    assert first.explain().nodes_per_engine == {"runtime": 1, "native": 4}
    assert second.explain().nodes_per_engine == {"runtime": 1, "openvino": 4}


def without_results(op: str, names: list[str]) -> bytes:
    """A node whose body makes 2x (in three turns 8x), |x| and -x; it has those with a name."""
    made = [
        helper.make_node("Add", ["x", "x"], ["double"]),
        helper.make_node("Abs", ["x"], ["size"]),
        helper.make_node("Neg", ["x"], ["minus"]),
    ]
    results = [tensor(name, TensorProto.FLOAT, [2]) for name in ("double", "size", "minus")]
    x = tensor("x", TensorProto.FLOAT, [2])
    if op == "Loop":
        made.append(helper.make_node("Identity", ["on"], ["still"]))
        number = tensor("i", TensorProto.INT64, [])
        body = helper.make_graph(
            made,
            "body",
            [number, tensor("on", TensorProto.BOOL, []), x],
            [tensor("still", TensorProto.BOOL, []), *results],
        )
        node = helper.make_node("Loop", ["three", "", "x"], names, body=body)
    elif op == "Scan":
        row = tensor("row", TensorProto.FLOAT, [2])
        body = helper.make_graph(made, "body", [x, row], results)
        node = helper.make_node("Scan", ["x", "rows"], names, body=body, num_scan_inputs=1)
    else:
        branches = [helper.make_graph(made, name, [], results) for name in ("yes", "no")]
        node = helper.make_node(
            "If", ["go"], names, then_branch=branches[0], else_branch=branches[1]
        )
    shape = [3, 2] if op != "If" else [2]
    shapes = {"y": [2], "sizes": shape, "minuses": shape}
    inputs = {"Loop": [], "Scan": [tensor("rows", TensorProto.FLOAT, [3, 2])]}
    model = model_proto(
        [helper.make_node("Constant", [], ["three"], value_int=3), node],
        [x, *inputs.get(op, [tensor("go", TensorProto.BOOL, [])])],
        [tensor(name, TensorProto.FLOAT, shapes[name]) for name in names if name],
    )
    return model.SerializeToString()


@pytest.mark.parametrize("engine", ["native", "openvino", "xla", "onnxruntime"])
@pytest.mark.parametrize("op", ["Loop", "Scan", "If"])
@pytest.mark.parametrize(
    "names",
    [["y", "", "minuses"], ["", "sizes", "minuses"], ["y", "sizes", ""], ["", "", "minuses"]],
)
def test_results_that_are_left_out(engine: str, op: str, names: list[str]) -> None:
    """ONNX Runtime ends the process for such a Loop."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    program = openxrt.load(
        without_results(op, names), engine=list(dict.fromkeys([engine, "native"]))
    )
    x = np.array([1.5, -2], np.float32)
    feeds = {"x": x, "rows": np.ones((3, 2), np.float32), "go": np.array(True)}
    found = program.run({name: feeds[name] for name in [i.name for i in program.inputs]})
    turns = [x] if op == "If" else [x, 2 * x, 4 * x]
    wanted = {"y": 2 * turns[-1], "sizes": np.abs(turns), "minuses": np.negative(turns)}
    assert set(found) == {name for name in names if name}
    for name, value in found.items():
        np.testing.assert_array_equal(value, wanted[name].reshape(value.shape))


@pytest.mark.parametrize("others", [[], [2, 3], [5, 6, 7]])
@pytest.mark.parametrize("op", ["Loop", "Scan"])
def test_what_no_turn_collects(op: str, others: list[int]) -> None:
    """It has the sizes that a turn would give it, whatever the program ran before."""
    nodes = [
        helper.make_node("Concat", ["v", "v"], ["collected"], axis=0),
        helper.make_node("Identity", ["v"], ["next"]),
    ]
    carried = [tensor("v", TensorProto.FLOAT, [None])]
    results = [tensor(name, TensorProto.FLOAT, [None]) for name in ("next", "collected")]
    if op == "Loop":
        nodes.append(helper.make_node("Identity", ["go"], ["on"]))
        counters = [tensor("i", TensorProto.INT64, []), tensor("go", TensorProto.BOOL, [])]
        body = helper.make_graph(
            nodes, "body", counters + carried, [tensor("on", TensorProto.BOOL, []), *results]
        )
        node = helper.make_node("Loop", ["n", "", "x"], ["last", "y"], body=body)
        count, none = tensor("n", TensorProto.INT64, []), np.array(0)
    else:
        element = [tensor("e", TensorProto.FLOAT, [])]
        body = helper.make_graph(nodes, "body", carried + element, results)
        node = helper.make_node("Scan", ["x", "n"], ["last", "y"], body=body, num_scan_inputs=1)
        count, none = tensor("n", TensorProto.FLOAT, ["m"]), np.zeros(0, np.float32)
    model = make_model(
        [node],
        [tensor("x", TensorProto.FLOAT, ["k"]), count],
        [untyped("last"), untyped("y")],
    )
    program = openxrt.load(model, engine="native", cache_dir="")
    for size in [*others, 4, 4]:
        found = program.run({"x": np.ones(size, np.float32), "n": none})
        assert found["y"].shape == (0, 2 * size)
        assert found["last"].shape == (size,)
