# SPDX-License-Identifier: Apache-2.0
"""The engines of examples/custom_engine: in the tree, outside of it, and in Python."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from build_tree import build_folder, build_outside, call, cmake, xrt
from onnx import TensorProto, helper, numpy_helper
from small_models import model_proto, tensor

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "custom_engine"
PYTHON_ENGINE = EXAMPLE / "python" / "template_engine.py"
TRAINING = "ai.onnx.preview.training"

# Everything that the engine claims, judged by ONNX's node tests.
CASES = [
    *["test_relu", "test_add", "test_add_bcast", "test_matmul_2d"],
    *["test_momentum", "test_nesterov_momentum"],
]


@pytest.fixture(scope="module")
def out_of_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the engine's library, built against an installed OpenXRT."""
    return build_outside(EXAMPLE / "cpp", tmp_path_factory.mktemp("template"))


@pytest.fixture(params=["in the tree", "outside the tree", "in Python"])
def form(request: pytest.FixtureRequest) -> tuple[str, str, dict[str, str]]:
    """Name of the engine, the module that registers it, environment variables."""
    if request.param == "in Python":
        return "numpy_template", str(PYTHON_ENGINE), {}
    if request.param == "in the tree":
        folder = build_folder() / "lib" / "xrt" / "template"
        if not folder.is_dir():
            pytest.skip("the template engine was not built")
    else:
        folder = request.getfixturevalue("out_of_tree")
    return "template", "-", {"XRT_ENGINE_PATH": str(folder)}


def test_numbers_are_those_of_onnx(form: tuple[str, str, dict[str, str]]) -> None:
    engine, module, environment = form
    script = Path(__file__).with_name("engine_cases.py")
    output = call(sys.executable, script, engine, module, *CASES, **environment)
    assert output.split("\n")[:-1] == [f"{name} passed on {engine}" for name in CASES]


def training_step() -> onnx.ModelProto:
    """A layer, and an update of its bias: MatMul, Add, Relu, Momentum; b, v aliased to b2, v2."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], "matmul"),
        helper.make_node("Add", ["m", "b"], ["a"], "add"),
        helper.make_node("Relu", ["a"], ["y"], "relu"),
        helper.make_node("Exp", ["y"], ["e"], "exp"),
        helper.make_node(
            "Momentum",
            ["r", "t", "b", "g", "v"],
            ["b2", "v2"],
            "update",
            domain=TRAINING,
            alpha=0.9,
            beta=1.0,
            mode="standard",
            norm_coefficient=0.01,
        ),
    ]

    def value(name: str, *dims: int) -> onnx.ValueInfoProto:
        return tensor(name, TensorProto.FLOAT, dims)

    step_count = tensor("t", TensorProto.INT64, [])
    inputs = [value("x", 2, 3), value("b", 4), value("g", 4), value("v", 4), value("r"), step_count]
    outputs = [value("y", 2, 4), value("e", 2, 4), value("b2", 4), value("v2", 4)]
    weight = numpy_helper.from_array(np.ones((3, 4), np.float32), "w")
    return model_proto(nodes, inputs, outputs, [weight], domains={TRAINING: 1})


STEP = """
import json, runpy, sys
import numpy as np
import openxrt
engine, module, path = sys.argv[1:]
if module != "-":
    runpy.run_path(module)
rng = np.random.default_rng(0)
start = {n: rng.standard_normal(s).astype(np.float32)
         for n, s in {"x": (2, 3), "b": (4,), "g": (4,), "v": (4,)}.items()}
start |= {"r": np.array(0.1, np.float32), "t": np.array(1, np.int64)}
program = openxrt.load(
    path, engine=[engine, "native"], training=True, aliases={"b": "b2", "v": "v2"})
own = {name: value.copy() for name, value in start.items()}
ran, mistakes = {}, []
b, v = start["b"], start["v"]
for _ in range(3):
    outputs = program.run(own)
    y = np.maximum(start["x"] @ np.ones((3, 4), np.float32) + b, 0)
    g = np.float32(0.01) * b + start["g"]
    v = np.float32(0.9) * v + g
    b = b - np.float32(0.1) * v
    for name, wanted in {"y": y, "e": np.exp(y), "b2": b, "v2": v}.items():
        if not np.allclose(outputs[name], wanted, rtol=1e-5, atol=1e-6):
            mistakes.append(name)
    for name, alias in {"b": "b2", "v": "v2"}.items():
        if outputs[alias].ctypes.data != own[name].ctypes.data:
            mistakes.append("not in place: " + name)
rows = program.explain()["nodes"]
print(json.dumps({
    "engines": {row["name"]: row["engine"] for row in rows},
    "refusals": {row["name"]: row["refusals"] for row in rows},
    "mistakes": mistakes,
}))
"""


def test_a_training_step_is_updated_in_place(
    form: tuple[str, str, dict[str, str]], tmp_path: Path
) -> None:
    engine, module, environment = form
    onnx.save(training_step(), tmp_path / "step.onnx")
    arguments = [engine, module, tmp_path / "step.onnx"]
    told = json.loads(call(sys.executable, "-c", STEP, *arguments, **environment))
    assert told["mistakes"] == []
    # MatMul is kept out of training, and Exp is none of its ops.
    assert told["engines"] == {
        "matmul": "native",
        "exp": "native",
        "add": engine,
        "relu": engine,
        "update": engine,
    }
    assert "training" in told["refusals"]["matmul"][engine] or "inference" in told["refusals"][
        "matmul"
    ].get(engine, "")
    assert "no lowering of Exp" in told["refusals"]["exp"][engine]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = Exp(Add(Relu(x), x)), float32[2,3]."""
    ends = [tensor(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="relu"),
        helper.make_node("Add", ["a", "x"], ["b"], name="add"),
        helper.make_node("Exp", ["b"], ["y"], name="exp"),
    ]
    path = tmp_path / "model.onnx"
    onnx.save(model_proto(nodes, ends[:1], ends[1:]), path)
    return path


def test_the_python_engines_as_programs(model: Path) -> None:
    output = call(sys.executable, PYTHON_ENGINE, model)
    assert "y: float32[2, 3]" in output
    assert "numpy_template" in output
    pytest.importorskip("onnxruntime")
    output = call(sys.executable, EXAMPLE / "python" / "onnxruntime_engine.py", model)
    assert "onnxruntime 3 of 3 nodes" in output
    assert "y: float32[2, 3], largest difference" in output


def test_the_command_finds_the_engine_outside_the_tree(model: Path, out_of_tree: Path) -> None:
    path = {"XRT_ENGINE_PATH": str(out_of_tree)}
    assert "ran one op" in call(xrt(), "doctor", "template", **path)
    options = [model, "-e", "template,native", "--json"]
    explanation = json.loads(call(xrt(), "inspect", *options, "--runs", 1, **path))
    assert explanation["nodes_per_engine"] == {"native": 1, "template": 2}
    exp = next(node for node in explanation["nodes"] if node["op"] == "Exp")
    assert exp["refusals"]["template"] == "there is no lowering of Exp"
    inputs = ["-i", "x=[[1,-2,0.5],[0,0,0]]"]
    output = call(xrt(), "run", model, "-e", "template,native", *inputs, **path)
    assert "y: float32[2,3] 7.3891, 0.13534, 2.7183, 1, 1, 1" in output


def conformance(folder: Path, *checks: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "openxrt", "conformance", "--engine", "template"]
    for check in checks:
        command += ["--check", check]
    return subprocess.run(
        [*command, "--engine-path", str(folder)], capture_output=True, text=True, check=False
    )


def test_the_engine_outside_the_tree_keeps_the_contract(out_of_tree: Path) -> None:
    checks = ("engine", "dtypes", "sizes", "constants", "outputs", "aliases", "threads", "cache")
    done = conformance(out_of_tree, *checks)
    assert done.returncode == 0, done.stdout + done.stderr


def test_conformance_finds_a_fault_in_a_library(out_of_tree: Path, tmp_path: Path) -> None:
    """The same sources with one file that leaves elements unwritten."""
    sources, folder = tmp_path / "sources", tmp_path / "build"
    shutil.copytree(ROOT / "src" / "engines" / "template", sources)
    faulty = ROOT / "tests" / "conformance" / "engines" / "cpp" / "elementwise.cc"
    shutil.copy(faulty, sources / "elementwise.cc")
    prefix = out_of_tree.parent / "prefix"
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DENGINE_SOURCES={sources}"]
    call(cmake(), "-S", EXAMPLE / "cpp", "-B", folder, *options)
    call(cmake(), "--build", folder)
    done = conformance(folder, "engine", "outputs")
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "1 checks passed, 1 failed: outputs"
    assert "outputs/Relu" in done.stdout and "nan" in done.stdout


def test_a_cached_plan_whose_engine_is_gone(model: Path, out_of_tree: Path, tmp_path: Path) -> None:
    folder = tmp_path / "engines"
    folder.mkdir()
    library = folder / "libxrt_engine_template.so"
    library.write_bytes((out_of_tree / "libxrt_engine_template.so").read_bytes())
    environment = {
        "XRT_ENGINE_PATH": str(folder),
        "XRT_CACHE_DIR": str(tmp_path / "cache"),
        "XRT_LOG": "info",
    }
    command = [xrt(), "run", model, "-e", "template,native"]
    call(*command, **environment)
    entries = sorted((tmp_path / "cache").glob("template-*"))
    assert entries

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **environment},
        )

    # Another build of it: what the cache holds is made again, and the log says why.
    os.utime(library, (1, 1))
    again = run()
    assert again.returncode == 0, again.stderr
    assert "stale" in again.stderr
    assert "template" in again.stderr
    # Gone: an error that names it and what there is, for a plan in the cache too.
    library.unlink()
    gone = run()
    assert gone.returncode == 3, gone.stdout + gone.stderr
    assert "there is no engine 'template'" in gone.stderr
    assert "XRT_ENGINE_PATH" in gone.stderr
