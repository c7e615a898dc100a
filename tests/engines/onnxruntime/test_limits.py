# SPDX-License-Identifier: Apache-2.0
"""Limits of time and memory hold for what ONNX Runtime runs: it is ended between two nodes, and is
not asked for what cannot be done."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from process_growth import PRINT_PEAK
from small_models import make_model, tensor, untyped

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64


def products(size: int, count: int) -> bytes:
    """x times itself, so many times."""
    names = ["x", *(f"a{i}" for i in range(1, count)), "y"]
    nodes = [
        helper.make_node("MatMul", [names[i], "x"], [names[i + 1]]) for i in range(len(names) - 1)
    ]
    shape = [size, size]
    return make_model(nodes, [tensor("x", FLOAT, shape)], [tensor("y", FLOAT, shape)], [])


def load(model: bytes) -> openxrt.Program:
    return openxrt.load(
        model, engine="onnxruntime", cache_dir="", check_results=False, num_threads=1
    )


def test_a_run_is_ended_between_nodes() -> None:
    program = load(products(1024, 100))
    x = np.eye(1024, dtype=np.float32)
    for _ in range(2):
        begin = time.perf_counter()
        with pytest.raises(openxrt.ResourceError, match=r"longer than its limit of 0\.2 s"):
            program.run({"x": x}, timeout=0.2)
        assert time.perf_counter() - begin < 2
    np.testing.assert_array_equal(program.run({"x": x}, timeout=300)["y"], x)


def test_a_child_of_fork_ends_its_runs() -> None:
    """The thread that ends them is the parent's, which waits for 300 seconds."""
    program = load(products(1024, 100))
    load(products(2, 1)).run({"x": np.eye(2, dtype=np.float32)}, timeout=300)
    child = os.fork()
    if child == 0:
        begin = time.perf_counter()
        try:
            program.run({"x": np.eye(1024, dtype=np.float32)}, timeout=0.2)
        except openxrt.ResourceError:
            os._exit(0 if time.perf_counter() - begin < 2 else 1)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("engine", ["onnxruntime", "openvino", "xla"])
def test_what_takes_longer_at_least_is_not_begun(engine: str, is_open: bool) -> None:
    if engine not in openxrt.engines():
        pytest.skip(f"{engine} is not installed")
    w = np.ones((1, 1, 2048, 2048), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1024] * 4, name="far")
    shape = [1, 1, "h", "w"] if is_open else [1, 1, 4096, 4096]
    model = make_model(
        [node],
        [tensor("x", FLOAT, shape)],
        [tensor("y", FLOAT, None)],
        [numpy_helper.from_array(w, "w")],
    )
    program = openxrt.load(
        model, engine=[engine, "native"], cache_dir="", deadline_s=20, check_results=False
    )
    begin = time.perf_counter()
    with pytest.raises(openxrt.ResourceError, match=r"'far'.* s at least|than its limit of 20 s"):
        program.run({"x": np.ones((1, 1, 4096, 4096), np.float32)})
    assert time.perf_counter() - begin < 25


@pytest.mark.parametrize(
    ("op", "inputs", "dtype"),
    [
        ("HannWindow", {"n": 2**31 - 1}, INT64),
        ("HammingWindow", {"n": 2**30}, INT32),
        ("Range", {"a": -(2**31), "b": 2**31 - 1, "c": 3}, INT32),
    ],
)
def test_values_that_ask_for_gigabytes_are_looked_at_first(
    op: str, inputs: dict[str, int], dtype: int
) -> None:
    output = FLOAT if "Window" in op else dtype
    model = make_model(
        [helper.make_node(op, list(inputs), ["y"])],
        [tensor(name, dtype, []) for name in inputs],
        [tensor("y", output, ["n"])],
        [],
    )
    program = openxrt.load(
        model, engine="onnxruntime", cache_dir="", max_memory_bytes=64 << 20, check_results=False
    )
    kind = np.int32 if dtype == INT32 else np.int64
    with pytest.raises(openxrt.ResourceError, match=rf"\({op}\).*max_memory_bytes"):
        program.run({name: kind(value) for name, value in inputs.items()})


@pytest.mark.parametrize("dtype", [FLOAT, INT64])
def test_a_number_of_gigabytes_that_is_computed_is_looked_at_first(dtype: int) -> None:
    """Of int64 where it is known to be small."""
    nodes = [
        helper.make_node("Cast", ["n"], ["end"], to=dtype),
        helper.make_node("Range", ["start", "end", "step"], ["y"]),
    ]
    kind = helper.tensor_dtype_to_np_dtype(dtype).type
    constants = [
        numpy_helper.from_array(np.array(kind(value)), name)
        for name, value in (("start", 0), ("step", 1))
    ]
    model = make_model(nodes, [tensor("n", INT32, [])], [tensor("y", dtype, ["count"])], constants)
    program = openxrt.load(
        model, engine="onnxruntime", cache_dir="", max_memory_bytes=64 << 20, check_results=False
    )
    assert program.explain().nodes_per_engine == {"onnxruntime": 2}
    assert program(np.int32(5)).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(openxrt.ResourceError, match=r"\(Range\).*max_memory_bytes"):
        program(np.int32(1410065408))


def test_texts_that_double_are_counted() -> None:
    names = ["x", *[f"s{i}" for i in range(40)]]
    model = make_model(
        [helper.make_node("StringConcat", [a, a], [b]) for a, b in pairwise(names)],
        [tensor("x", TensorProto.STRING, [1])],
        [tensor("s39", TensorProto.STRING, [1])],
        [],
    )
    program = openxrt.load(model, engine="onnxruntime", cache_dir="", max_memory_bytes=64 << 20)
    with pytest.raises(openxrt.ResourceError, match=r"StringConcat.*max_memory_bytes"):
        program(np.array(["abcd"], object))


def test_an_axis_that_is_declared_endless_is_not_counted_through(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["x", "first"], ["a"]),
        helper.make_node("Gather", ["x", "second"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    constants = [
        numpy_helper.from_array(np.int64(0), "first"),
        numpy_helper.from_array(np.int64(1), "second"),
    ]
    model = make_model(
        nodes, [tensor("x", FLOAT, [2**31, 2])], [tensor("y", FLOAT, [2])], constants
    )
    loads = "import openxrt, sys; openxrt.load(sys.argv[1], engine='onnxruntime', cache_dir='')"
    (tmp_path / "model.onnx").write_bytes(model)
    command = [sys.executable, "-c", loads + PRINT_PEAK, str(tmp_path / "model.onnx")]
    peak_kib = int(subprocess.run(command, check=True, capture_output=True).stdout)
    assert peak_kib < 1 << 20


def test_windows_whose_columns_take_gigabytes_are_left_to_others() -> None:
    w = np.ones((1, 1, 128, 128), np.float32)
    model = make_model(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="wide")],
        [tensor("x", FLOAT, [1, 1, "h", "w"])],
        [tensor("y", FLOAT, None)],
        [numpy_helper.from_array(w, "w")],
    )
    program = openxrt.load(model, engine=["onnxruntime", "native"], cache_dir="")
    result = program(np.ones((1, 1, 130, 129), np.float32))
    np.testing.assert_allclose(result, np.full((1, 1, 3, 2), 128 * 128))
    (row,) = program.explain()["nodes"]
    assert row["engine"] == "native"
    assert "16384 elements" in row["refusals"]["onnxruntime"]


def test_regions_are_not_sampled_without_end() -> None:
    model = make_model(
        [helper.make_node("RoiAlign", ["x", "r", "i"], ["y"], sampling_ratio=2**62)],
        [tensor("x", FLOAT, [1, 1, 4, 4])],
        [tensor("y", FLOAT, None)],
        [
            numpy_helper.from_array(np.array([[0, 0, 1e9, 4]], np.float32), "r"),
            numpy_helper.from_array(np.array([0], np.int64), "i"),
        ],
    )
    program = openxrt.load(model, engine=["onnxruntime", "native"], cache_dir="")
    with pytest.raises(openxrt.InvalidArgument, match="region"):
        program.run({"x": np.ones((1, 1, 4, 4), np.float32)})


def test_nodes_side_by_side_are_so_many() -> None:
    count = 4100
    nodes = [helper.make_node("Elu", ["x"], [f"y{i}"], alpha=float(i)) for i in range(count)]
    outputs = [tensor(f"y{i}", FLOAT, [1]) for i in range(count)]
    model = make_model(nodes, [tensor("x", FLOAT, [1])], outputs)
    program = openxrt.load(
        model, engine=["onnxruntime", "native"], cache_dir="", check_results=False
    )
    explanation = program.explain()
    assert explanation["nodes_per_engine"] == {"onnxruntime": 4096, "native": 4}
    assert "side by side" in explanation["nodes"][-1]["refusals"]["onnxruntime"]
    results = program.run({"x": np.array([-1], np.float32)})
    np.testing.assert_allclose(results["y4099"], [4099 * np.expm1(-1)], rtol=1e-6)


@pytest.mark.parametrize("count", [4096, 4097])
def test_operands_are_so_many(count: int) -> None:
    names = [f"x{i}" for i in range(count)]
    model = make_model(
        [
            helper.make_node("Split", ["x"], names, num_outputs=count),
            helper.make_node("Sum", names, ["y"]),
        ],
        [tensor("x", FLOAT, [count])],
        [tensor("y", FLOAT, [1])],
    )
    program = openxrt.load(
        model, engine=["onnxruntime", "native"], cache_dir="", check_results=False
    )
    explanation = program.explain()
    engine = "onnxruntime" if count == 4096 else "native"
    assert explanation["nodes_per_engine"] == {engine: 2}
    if engine == "native":
        assert "4096 operands" in explanation["nodes"][-1]["refusals"]["onnxruntime"]
    assert program.run({"x": np.ones(count, np.float32)})["y"] == [count]


def boxes_model(boxes: int | str, classes: int | str, most: int | None) -> bytes:
    constants = {"iou": np.float32(0.5), **({} if most is None else {"most": np.array([most])})}
    return make_model(
        [helper.make_node("NonMaxSuppression", ["b", "s", "most", "iou"], ["y"])],
        [
            tensor("b", FLOAT, [1, boxes, 4]),
            tensor("s", FLOAT, [1, classes, boxes]),
            *([tensor("most", INT64, [1])] if most is None else []),
        ],
        [tensor("y", INT64, ["n", 3])],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )


@pytest.mark.parametrize(
    ("boxes", "classes", "most", "engine"),
    [
        (8400, 80, 300, "onnxruntime"),
        (8400, 80, None, "native"),
        (60000, 1, None, "native"),
        (1000, 90, None, "onnxruntime"),
        ("n", "c", 100, "onnxruntime"),
        ("n", "c", None, "onnxruntime"),
    ],
)
def test_boxes_are_compared_so_often(
    boxes: int | str, classes: int | str, most: int | None, engine: str
) -> None:
    program = openxrt.load(
        boxes_model(boxes, classes, most), engine=["onnxruntime", "native"], cache_dir=""
    )
    assert program.explain().nodes_per_engine == {engine: 1}


def test_boxes_of_open_number_are_counted_in_the_run() -> None:
    program = openxrt.load(
        boxes_model("n", 1, None), engine="onnxruntime", strict=True, cache_dir=""
    )
    b, s = np.zeros((1, 20000, 4), np.float32), np.ones((1, 1, 20000), np.float32)
    one = np.array([1])
    assert program.run({"b": b[:, :2], "s": s[:, :, :2], "most": one})["y"].tolist() == [[0, 0, 0]]
    with pytest.raises(openxrt.Unsupported, match="400000000 pairs of boxes"):
        program.run({"b": b, "s": s, "most": one})


TEXT = TensorProto.STRING
TEXTS = {
    "Cast": ([("x", FLOAT)], {"to": TEXT}),
    "Concat": ([("x", TEXT)] * 2, {"axis": 0}),
    "Expand": ([("x", TEXT), ("i", INT64)], {}),
    "Gather": ([("x", TEXT), ("i", INT64)], {}),
    "Identity": ([("x", TEXT)], {}),
    "LabelEncoder": (
        [("x", INT64)],
        {"domain": "ai.onnx.ml", "keys_int64s": [1], "values_strings": ["a"]},
    ),
    "SequenceConstruct": ([("x", TEXT)] * 2, {}),
    "StringSplit": ([("x", TEXT)], {}),
    "Tile": ([("x", TEXT), ("i", INT64)], {}),
}


@pytest.mark.parametrize("op", sorted(TEXTS))
def test_results_of_texts_are_left_to_others(op: str) -> None:
    operands, attributes = TEXTS[op]
    results = ["y", "z"] if op == "StringSplit" else ["y"]
    model = make_model(
        [helper.make_node(op, [name for name, _ in operands], results, **attributes)],
        [tensor(name, kind, [1]) for name, kind in dict(operands).items()],
        [untyped(name) for name in results],
        domains={"ai.onnx.ml": 3},
    )
    program = openxrt.load(model, engine=["onnxruntime", "native"], cache_dir="")
    (row,) = program.explain()["nodes"]
    assert row["engine"] == "native"
    assert "texts" in row["refusals"]["onnxruntime"]


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("MelWeightMatrix", [INT64, INT64, INT64, FLOAT, FLOAT]),
        ("Unique", [FLOAT]),
    ],
)
def test_calls_without_bounds_are_left_to_others(op: str, inputs: list[int]) -> None:
    names = [f"x{i}" for i in range(len(inputs))]
    sizes = ["n"] if op == "Unique" else []
    model = make_model(
        [helper.make_node(op, names, ["y"])],
        [tensor(name, kind, sizes) for name, kind in zip(names, inputs, strict=True)],
        [untyped("y")],
    )
    program = openxrt.load(model, engine=["onnxruntime", "native"], cache_dir="")
    assert program.explain().nodes_per_engine == {"native": 1}


@pytest.mark.parametrize(
    ("op", "kind", "reason"), [("Identity", TEXT, "texts"), ("Unique", FLOAT, "Unique")]
)
def test_calls_without_bounds_in_a_branch_are_left_to_others(
    op: str, kind: int, reason: str
) -> None:
    branch = helper.make_graph(
        [helper.make_node(op, ["x"], ["z"])], "branch", [], [tensor("z", kind, ["m"])]
    )
    model = make_model(
        [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)],
        [tensor("c", TensorProto.BOOL, [1]), tensor("x", kind, ["n"])],
        [tensor("y", kind, ["m"])],
    )
    program = openxrt.load(model, engine=["onnxruntime", "native"], cache_dir="")
    (row,) = program.explain()["nodes"]
    assert row["engine"] == "native"
    assert reason in row["refusals"]["onnxruntime"]
