# SPDX-License-Identifier: Apache-2.0
"""Calling programs: names, positions, outputs in place, profile, explanation."""

import html
import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import onnx.reference
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import identity_model, make_model, tensor


def test_run_by_name_and_by_position(add_model: bytes) -> None:
    program = openxrt.load(add_model, engine="native")
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    b = np.full((2, 3), 10, np.float32)
    outputs = program.run({"b": b, "a": a})
    assert list(outputs) == ["total"]
    np.testing.assert_array_equal(outputs["total"], a + b)
    np.testing.assert_array_equal(program(a, b), a + b)
    np.testing.assert_array_equal(program(a, b=b), a + b)


def test_several_outputs_come_as_a_tuple_in_graph_order(two_outputs_model: bytes) -> None:
    program = openxrt.load(two_outputs_model, engine="native")
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    big, small = program(x)
    np.testing.assert_array_equal(big, np.maximum(x, 0))
    np.testing.assert_array_equal(small, -x)


def test_ports_tell_names_types_and_shapes(add_model: bytes) -> None:
    program = openxrt.load(add_model, engine="native")
    assert [port.name for port in program.inputs] == ["a", "b"]
    port = program.inputs[0]
    assert (port.dtype, port.shape, port.has_default) == ("float32", ("N", 3), False)
    assert "float32[N,3]" in repr(program)


def test_load_takes_paths_and_buffers(add_model: bytes, tmp_path: Path) -> None:
    path = tmp_path / "add.onnx"
    path.write_bytes(add_model)
    one = np.ones((1, 3), np.float32)
    for model in (path, str(path), bytearray(add_model), memoryview(add_model)):
        np.testing.assert_array_equal(openxrt.load(model, engine="native")(one, one), one + one)


def test_a_model_agrees_with_the_reference_evaluator(mlp_model: bytes) -> None:
    program = openxrt.load(mlp_model, engine="native")
    reference = onnx.reference.ReferenceEvaluator(onnx.load_from_string(mlp_model))
    for rows in (1, 5, 2):
        x = np.random.default_rng(rows).standard_normal((rows, 8)).astype(np.float32)
        (expected,) = reference.run(None, {"x": x})
        np.testing.assert_allclose(program(x), expected, rtol=1e-5, atol=1e-6)


def test_outputs_in_place(two_outputs_model: bytes) -> None:
    program = openxrt.load(two_outputs_model, engine="native")
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    big = np.full((2, 3), 7, np.float32)
    outputs = program.run({"x": x}, out={"big": big})
    assert outputs["big"] is big
    np.testing.assert_array_equal(big, np.maximum(x, 0))
    small = np.empty((2, 3), np.float32)
    result = program(x, out=[None, small])
    assert result[1] is small
    np.testing.assert_array_equal(small, -x)


def test_outputs_in_place_must_fit(two_outputs_model: bytes) -> None:
    program = openxrt.load(two_outputs_model, engine="native")
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(openxrt.InvalidArgument, match="big"):
        program.run({"x": x}, out={"big": np.empty((3, 3), np.float32)})
    with pytest.raises(openxrt.InvalidArgument, match="big"):
        program.run({"x": x}, out={"big": np.empty((2, 3), np.float64)})
    with pytest.raises(openxrt.InvalidArgument, match="C-contiguous"):
        program.run({"x": x}, out={"big": np.empty((3, 2), np.float32).T})
    read_only = np.empty((2, 3), np.float32)
    read_only.flags.writeable = False
    with pytest.raises(openxrt.InvalidArgument, match="big"):
        program.run({"x": x}, out={"big": read_only})
    with pytest.raises(openxrt.InvalidArgument, match="no output 'huge'"):
        program.run({"x": x}, out={"huge": read_only})
    with pytest.raises(openxrt.InvalidArgument, match="2 outputs"):
        program.run({"x": x}, out=[None])


def test_results_do_not_share_memory_with_inputs_or_the_model() -> None:
    program = openxrt.load(identity_model(TensorProto.FLOAT, [3]), engine="native")
    x = np.ones(3, np.float32)
    y = program(x)
    y[:] = 5
    np.testing.assert_array_equal(x, 1)
    constant = helper.make_tensor("value", TensorProto.FLOAT, [2], [1.0, 2.0])
    model = make_model(
        [
            helper.make_node("Constant", [], ["y"], value=constant),
            helper.make_node("Relu", ["x"], ["z"]),
        ],
        [tensor("x", TensorProto.FLOAT, [1])],
        [tensor("y", TensorProto.FLOAT, [2]), tensor("z", TensorProto.FLOAT, [1])],
    )
    program = openxrt.load(model, engine="native")
    program(np.ones(1, np.float32))[0][:] = 9
    np.testing.assert_array_equal(program(np.ones(1, np.float32))[0], [1, 2])


def test_an_input_with_a_default_may_be_left_out() -> None:
    default = helper.make_tensor("b", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])
    model = make_model(
        [helper.make_node("Add", ["a", "b"], ["total"])],
        [tensor("a", TensorProto.FLOAT, [3]), tensor("b", TensorProto.FLOAT, [3])],
        [tensor("total", TensorProto.FLOAT, [3])],
        [default],
    )
    program = openxrt.load(model, engine="native")
    zeros = np.zeros(3, np.float32)
    assert [port.has_default for port in program.inputs] == [False, True]
    np.testing.assert_array_equal(program(zeros), [1, 2, 3])
    np.testing.assert_array_equal(program(zeros, zeros), zeros)
    np.testing.assert_array_equal(program.run({"a": zeros, "b": None})["total"], [1, 2, 3])


def test_an_alias_updates_the_callers_array() -> None:
    model = make_model(
        [helper.make_node("Add", ["weight", "step"], ["updated"])],
        [tensor("weight", TensorProto.FLOAT, [4]), tensor("step", TensorProto.FLOAT, [4])],
        [tensor("updated", TensorProto.FLOAT, [4])],
    )
    program = openxrt.load(model, engine="native", aliases={"weight": "updated"})
    weight = np.zeros(4, np.float32)
    for _ in range(3):
        program.run({"weight": weight, "step": np.ones(4, np.float32)})
    np.testing.assert_array_equal(weight, 3)
    weight.flags.writeable = False
    with pytest.raises(openxrt.InvalidArgument, match="weight"):
        program.run({"weight": weight, "step": np.ones(4, np.float32)})


def test_sequences_are_lists() -> None:
    model = make_model(
        [
            helper.make_node("SequenceConstruct", ["a", "b"], ["list"]),
            helper.make_node("SequenceLength", ["given"], ["length"]),
        ],
        [
            tensor("a", TensorProto.FLOAT, [2]),
            tensor("b", TensorProto.FLOAT, [3]),
            helper.make_tensor_sequence_value_info("given", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_sequence_value_info("list", TensorProto.FLOAT, None),
            tensor("length", TensorProto.INT64, []),
        ],
    )
    program = openxrt.load(model, engine="native")
    a, b = np.ones(2, np.float32), np.zeros(3, np.float32)
    made, length = program(a, b, [a, a, b])
    assert isinstance(made, list)
    np.testing.assert_array_equal(made[0], a)
    np.testing.assert_array_equal(made[1], b)
    assert length == 3
    assert program(a, b, [])[1] == 0


def test_an_empty_optional_is_none() -> None:
    optional = helper.make_optional_type_proto(
        helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    )
    model = make_model(
        [helper.make_node("OptionalHasElement", ["x"], ["there"])],
        [helper.make_value_info("x", optional)],
        [tensor("there", TensorProto.BOOL, [])],
    )
    program = openxrt.load(model, engine="native")
    assert program(np.ones(2, np.float32)) == np.True_
    assert program(None) == np.False_


def test_many_threads_run_one_program(mlp_model: bytes) -> None:
    program = openxrt.load(mlp_model, engine="native")
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((1 + i % 3, 8)).astype(np.float32) for i in range(8)]
    expected = [program(x).copy() for x in inputs]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(50):
            if not np.array_equal(program(inputs[i]), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_profile_records_launches(two_outputs_model: bytes) -> None:
    program = openxrt.load(two_outputs_model, engine="native")
    x = np.zeros((2, 3), np.float32)
    program(x)
    assert program.profile() == []
    program.enable_profile()
    program(x)
    program(x)
    program.enable_profile(False)
    program(x)
    events = program.profile()
    assert {event.engine for event in events} == {"native"}
    assert len({event.run for event in events}) == 2
    assert all(event.duration_us >= 0 for event in events)
    trace = json.loads(program.trace_json())
    assert len(trace["traceEvents"] if isinstance(trace, dict) else trace) >= len(events)


def test_explanation(mlp_model: bytes, tmp_path: Path) -> None:
    program = openxrt.load(mlp_model, engine="native")
    program(np.zeros((2, 8), np.float32))
    explanation = program.explain()
    assert set(explanation.nodes_per_engine) == {"native"}
    assert sum(explanation.nodes_per_engine.values()) == len(explanation["nodes"])
    assert "native" in str(explanation)
    assert json.loads(explanation.to_json())["launches"][0]["engine"] == "native"
    ops = {node["op"] for node in explanation["nodes"]}
    assert "Softmax" in ops
    page = tmp_path / "page.html"
    explanation.to_html(page, title="a <b> model")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "http" not in text.replace("http-equiv", "")  # it needs no network
    assert "a <b> model" not in text  # names cannot break out of the data


def test_tools() -> None:
    assert "native" in openxrt.engines()
    assert "Add" in openxrt.engine_ops("native")
    assert openxrt.thread_budget() >= 1
    reports = {report.name: report for report in openxrt.doctor()}
    assert reports["native"].available, reports["native"].error
    for report in reports.values():
        assert report.available or (report.error and report.install_hint)


def test_cache(mlp_model: bytes, tmp_path: Path) -> None:
    x = np.zeros((2, 8), np.float32)
    expected = openxrt.load(mlp_model, engine="native")(x)
    for _ in range(2):
        program = openxrt.load(mlp_model, engine="native", cache_dir=tmp_path)
        np.testing.assert_array_equal(program(x), expected)
    entries = openxrt.cache_list(tmp_path)
    assert all(entry.valid for entry in entries)
    assert openxrt.cache_clear(tmp_path) == len(entries)
    assert openxrt.cache_list(tmp_path) == []


def test_cache_folder_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XRT_CACHE_DIR", "")
    with pytest.raises(openxrt.InvalidArgument, match="XRT_CACHE_DIR"):
        openxrt.cache_list()


def test_dump_dir(mlp_model: bytes, tmp_path: Path) -> None:
    openxrt.load(mlp_model, engine="native", dump_dir=tmp_path)(np.zeros((1, 8), np.float32))
    assert any(path.is_file() for path in tmp_path.rglob("*"))


FORKED = """
import os, signal, sys
import numpy as np, openxrt

x = np.ones((2, 3), np.float32)
program = openxrt.load(sys.argv[1], engine="xla")
program.run({"a": x, "b": x})
child = os.fork()
if child == 0:
    signal.alarm(60)
    try:
        program.run({"a": x, "b": x})
    except openxrt.EngineError as error:
        os._exit(7 if "forked" in str(error) else 8)
    os._exit(9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_is_told_that_xla_has_no_threads(add_model: bytes, tmp_path: Path) -> None:
    """It would wait for ever."""
    if not any(report.name == "xla" and report.available for report in openxrt.doctor()):
        pytest.skip("XLA is not available")
    model = tmp_path / "add.onnx"
    model.write_bytes(add_model)
    done = subprocess.run(
        [sys.executable, "-c", FORKED, model], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "7"


LEFT = """
import os, signal, sys
import numpy as np, openxrt

x = np.ones((2, 3), np.float32)
program = openxrt.load(sys.argv[1], engine=sys.argv[2])
program.run({"a": x, "b": x})
child = os.fork()
if child == 0:
    signal.alarm(60)
    sys.exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("engine", ["native", "openvino", "xla"])
def test_a_forked_process_ends(engine: str, add_model: bytes, tmp_path: Path) -> None:
    """The threads that engines would wait for at their end are those of the parent."""
    if engine not in openxrt.engines():
        pytest.skip(f"{engine} is not built")
    model = tmp_path / "add.onnx"
    model.write_bytes(add_model)
    done = subprocess.run(
        [sys.executable, "-c", LEFT, model, engine], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "5"


def test_a_notebook_shows_a_program(mlp_model: bytes) -> None:
    model = onnx.load_from_string(mlp_model)
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = "<b>" if name == model.graph.input[0].name else name
    model.graph.input[0].name = "<b>"
    shown = openxrt.load(model.SerializeToString(), engine="native")._repr_html_()
    assert "native" in shown
    cells = re.findall(r"<td>(.*?)</td>", shown)
    assert cells[:3] == ["input", "&lt;b&gt;", "float32[N,8]"]
    assert len(cells) == 6


def test_a_notebook_shows_the_page(add_model: bytes) -> None:
    explanation = openxrt.load(add_model, engine="native").explain()
    frame = explanation._repr_html_()
    assert frame.startswith("<iframe ") and frame.count("<") == 2
    assert html.unescape(frame).count("</html>") == explanation.to_html().count("</html>") == 1
