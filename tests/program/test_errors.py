# SPDX-License-Identifier: Apache-2.0
"""Every mistake is an openxrt.Error that names its place; nothing crashes."""

import copy
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor


def test_classes() -> None:
    assert issubclass(openxrt.Error, RuntimeError)
    assert issubclass(openxrt.InvalidArgument, ValueError)
    for name in (
        "InvalidArgument",
        "InvalidModel",
        "Unsupported",
        "NotFound",
        "EngineError",
        "IoError",
        "ResourceError",
        "InternalError",
    ):
        assert issubclass(getattr(openxrt, name), openxrt.Error)


def test_inputs_by_wrong_name(add_model: bytes) -> None:
    program = openxrt.load(add_model, engine="native")
    x = np.zeros((1, 3), np.float32)
    with pytest.raises(openxrt.InvalidArgument, match="no input 'c'; its inputs are 'a', 'b'"):
        program.run({"a": x, "b": x, "c": x})
    with pytest.raises(openxrt.InvalidArgument, match="input 'b'"):
        program.run({"a": x})
    with pytest.raises(openxrt.InvalidArgument, match="input 'b'"):
        program(x)
    with pytest.raises(openxrt.InvalidArgument, match="3 arrays were given"):
        program(x, x, x)
    with pytest.raises(openxrt.InvalidArgument, match="input 'a' was given twice"):
        program(x, x, a=x)
    with pytest.raises(openxrt.InvalidArgument, match="str"):
        program.run({1: x})


def test_calls_as_other_runtimes_have_them(add_model: bytes) -> None:
    program = openxrt.load(add_model, engine="native")
    feed = {"a": np.zeros((1, 3), np.float32), "b": np.ones((1, 3), np.float32)}
    for arguments in ((None, feed), (["total"], feed), (list(feed.values()),), ()):
        with pytest.raises(openxrt.InvalidArgument, match=r"run\(None, feed\) is run\(feed\)"):
            program.run(*arguments)


def test_a_program_is_shared_not_pickled(add_model: bytes) -> None:
    program = openxrt.load(add_model, engine="native")
    for act in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="another process loads it itself, with the same cache"):
            act(program)


def test_dtype_shape_and_symbols(add_model: bytes) -> None:
    program = openxrt.load(add_model, engine="native")
    good = np.zeros((2, 3), np.float32)
    with pytest.raises(openxrt.InvalidArgument, match=r"(?s)b.*int32"):
        program(good, good.astype(np.int32))
    with pytest.raises(openxrt.InvalidArgument, match=r"(?s)b.*4"):
        program(good, np.zeros((2, 4), np.float32))
    with pytest.raises(openxrt.InvalidArgument, match=r"(?s)b.*N"):
        program(good, np.zeros((5, 3), np.float32))
    with pytest.raises(openxrt.InvalidArgument, match="b"):
        program(good, np.zeros(3, np.float32))


def test_missing_file_and_engine(add_model: bytes, tmp_path: Path) -> None:
    with pytest.raises(openxrt.NotFound, match=r"nowhere\.onnx"):
        openxrt.load(tmp_path / "nowhere.onnx", engine="native")
    with pytest.raises(openxrt.Error, match="warp"):
        openxrt.load(add_model, engine=["warp", "native"])
    with pytest.raises(openxrt.Error):
        openxrt.load(add_model, engine=[])
    with pytest.raises(openxrt.Error):
        openxrt.load(add_model, engine="")


def test_an_unknown_operator(tmp_path: Path) -> None:
    model = make_model(
        [helper.make_node("Frobnicate", ["x"], ["y"], name="frob", domain="nobody")],
        [tensor("x", TensorProto.FLOAT, [1])],
        [tensor("y", TensorProto.FLOAT, [1])],
    )
    proto = onnx.load_from_string(model)
    proto.opset_import.append(helper.make_opsetid("nobody", 1))
    with pytest.raises(openxrt.Error, match="Frobnicate"):
        openxrt.load(proto.SerializeToString(), engine="native")


def test_cycles_and_duplicate_names() -> None:
    x, y = tensor("x", TensorProto.FLOAT, [1]), tensor("y", TensorProto.FLOAT, [1])
    cycle = make_model(
        [
            helper.make_node("Add", ["x", "b"], ["a"]),
            helper.make_node("Add", ["x", "a"], ["b"]),
            helper.make_node("Relu", ["a"], ["y"]),
        ],
        [x],
        [y],
    )
    twice = make_model([helper.make_node("Relu", ["x"], ["y"])] * 2, [x], [y])
    for model in (cycle, twice):
        with pytest.raises(openxrt.InvalidModel):
            openxrt.load(model, engine="native")


def test_external_data_must_be_there_and_inside(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones(64, np.float32), "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    model = make_model(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [64])],
        [tensor("y", TensorProto.FLOAT, [64])],
    )
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "outside.bin").write_bytes(bytes(256))
    for location, match in (("missing.bin", "missing.bin"), ("../outside.bin", "outside")):
        proto = onnx.load_from_string(model)
        external = TensorProto()
        external.CopyFrom(weight)
        entry = external.external_data.add()
        entry.key, entry.value = "location", location
        proto.graph.initializer.append(external)
        path = folder / "model.onnx"
        path.write_bytes(proto.SerializeToString())
        with pytest.raises(openxrt.Error, match=match):
            openxrt.load(path, engine="native")


def test_empty_truncated_and_damaged_models(mlp_model: bytes, tmp_path: Path) -> None:
    with pytest.raises(openxrt.InvalidModel):
        openxrt.load(b"", engine="native")
    empty = tmp_path / "empty.onnx"
    empty.touch()
    with pytest.raises(openxrt.Error, match=r"empty\.onnx"):
        openxrt.load(empty, engine="native")
    random.seed(5)
    refused = 0
    for i in range(150):
        damaged = bytearray(mlp_model)
        if i % 2:
            del damaged[random.randrange(len(damaged)) :]
        for _ in range(i % 4):
            if damaged:
                damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
        try:
            openxrt.load(bytes(damaged), engine="native")
        except openxrt.Error as error:
            refused += 1
            assert str(error)
            assert not isinstance(error, openxrt.InternalError), error
    assert refused > 50


def test_strict_names_what_the_engine_refused() -> None:
    # No engine but native takes strings.
    model = make_model(
        [helper.make_node("StringConcat", ["x", "x"], ["y"], name="joined")],
        [tensor("x", TensorProto.STRING, [1])],
        [tensor("y", TensorProto.STRING, [1])],
    )
    others = [r.name for r in openxrt.doctor() if r.available and r.name in ("openvino", "xla")]
    if not others:
        pytest.skip("no engine other than native is available")
    with pytest.raises(openxrt.Unsupported, match=f"(?s)StringConcat.*{others[0]}"):
        openxrt.load(model, engine=others[0], strict=True)


def test_wrong_options(add_model: bytes) -> None:
    with pytest.raises(openxrt.Error):
        openxrt.load(add_model, engine="native", max_specializations=0)
    with pytest.raises(openxrt.Error, match="nothing"):
        openxrt.load(add_model, engine="native", aliases={"a": "nothing"})
    with pytest.raises(openxrt.InvalidArgument, match="did you mean 'max_batch_size'"):
        openxrt.load(add_model, engine="native", max_batchsize=1)
    with pytest.raises(TypeError, match="the model is a float: pass a path"):
        openxrt.load(3.5)
    with pytest.raises(TypeError, match="SerializeToString"):
        openxrt.load(onnx.load_model_from_string(add_model))
    with pytest.raises(openxrt.NotFound, match="did you mean 'native'"):
        openxrt.load(add_model, engine="Native")
    for engines in ("native", ("native",), ("native", "native", "native")):
        with pytest.raises(openxrt.InvalidArgument, match="two are compared"):
            openxrt.compare(add_model, engines)
    pair = {name: np.ones((1, 3), np.float32) for name in ("a", "b")}
    for tolerance in (float("nan"), -1):
        with pytest.raises(openxrt.InvalidArgument, match="tolerance is"):
            openxrt.compare(add_model, ("native", "native"), pair, tolerance=tolerance)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": ["native", "auto"]}, "'auto' stands first"),
        ({"auto_budget_s": -1}, "'auto_budget_s' is -1; a number from 0 on is wanted"),
        ({"auto_budget_s": float("nan")}, "'auto_budget_s' is nan; a number"),
        ({"tolerance": -0.5}, "'tolerance' is -0.5; a number"),
        ({"num_threads": -1}, "'num_threads' is -1; a whole number from 0 to 4096 is wanted"),
        ({"num_threads": 10**6}, "'num_threads' is 1000000; a whole number"),
        ({"num_threads": "two"}, "'num_threads' is 'two'; a whole number"),
        ({"num_threads": 2.0}, "'num_threads' is 2.0; a whole number"),
        ({"tolerance": "0.1"}, "'tolerance' is '0.1'; a number"),
        ({"strict": "yes"}, "'strict' is 'yes'; true or false"),
        ({"precision": None}, "'precision' is None; f32, bf16, f16 or auto is wanted"),
        ({"precision": "f8"}, "'precision' is 'f8'; f32, bf16, f16 or auto is wanted"),
        ({"device": 3}, "'device' is 3; text is wanted"),
        ({"cache_dir": 3}, "'cache_dir' is 3; a path is wanted"),
        ({"max_batch_size": -1}, "'max_batch_size' is -1"),
        ({"max_workspace_bytes": -1}, "'max_workspace_bytes' is -1"),
        ({"max_workspace_size": -1}, "'max_workspace_size' is -1; a whole number from 0 on"),
        ({"num_threads": 1 << 40}, "'num_threads' is 1099511627776"),
        ({"cluster_maximum_nodes": 1 << 70}, "'cluster_maximum_nodes' is 1180591620717411303424"),
        ({"engine": None}, "'engine' is None; a name, or a list of names, is wanted"),
        ({"engine": [3]}, r"'engine' is \[3\]; a name, or a list of names, is wanted"),
        ({"engine": []}, r"'engine' is \[\]; a name, or a list of names, is wanted"),
        ({"engine": "native,,xla"}, "'engine' is 'native,,xla'; a name"),
        ({"node_engines": "hidden"}, "'node_engines' is 'hidden'; NODE=ENGINE is wanted"),
        ({"engine_options": {"native": "x"}}, r"'engine_options' is \{.*; ENGINE.KEY=VALUE is"),
        (
            {"cluster_minimum_nodes": 5, "cluster_maximum_nodes": 2},
            "at most 2, which is cluster_maximum_nodes, is wanted",
        ),
        ({"node_engines": {"Hidden": "native"}}, "no node 'Hidden'; did you mean 'hidden'"),
        ({"node_engines": {"nothing/like/it": "native"}}, "no node 'nothing/like/it'"),
    ],
)
def test_options_that_cannot_be_meant(options: dict, message: str) -> None:
    graph = openxrt.Graph()
    x = graph.add_input("x", "float32", [4])
    (y,) = graph.add_node("Relu", [x], ["y"], name="hidden")
    graph.add_output(y)
    with pytest.raises(openxrt.InvalidArgument, match=message):
        openxrt.load(graph, **{"engine": "native", **options})


def test_a_folder_for_dumps_that_cannot_be_made(add_model: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(openxrt.Error, match="cannot make the folder for dumps"):
        openxrt.load(add_model, engine="native", dump_dir=tmp_path / "file" / "dumps")


def test_what_is_odd_about_the_engine_path_is_said_once(tmp_path: Path) -> None:
    hidden = tmp_path / "libxrt_engine_native.so"
    hidden.write_text("no library, and never opened")
    broken = tmp_path / "libxrt_engine_broken.so"
    broken.write_text("no library")
    script = (
        "import openxrt\n"
        "openxrt.engines(), openxrt.engines()\n"
        "try:\n"
        "    openxrt.load(openxrt.Graph(), engine='broken')\n"
        "except openxrt.EngineError as error:\n"
        "    print(error)\n"
    )
    path = f"{tmp_path}:{tmp_path / 'nowhere'}:{'x' * 5000}:{hidden}"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "XRT_ENGINE_PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"'{hidden}' is not used: engine 'native' comes from") == 1
    assert done.stderr.count("nowhere' is neither a folder nor a file") == 1
    assert f"cannot be loaded from '{broken}'" in done.stdout
