# SPDX-License-Identifier: Apache-2.0
"""The engines of examples/custom_engine work as its README says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from openxrt import _command

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "custom_engine"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = Exp(Neg(Relu(x))), float32[N,3]."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3]) for name in "xy"]
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="relu"),
        helper.make_node("Neg", ["a"], ["b"], name="neg"),
        helper.make_node("Exp", ["b"], ["y"], name="exp"),
    ]
    graph = helper.make_graph(nodes, "test", ends[:1], ends[1:])
    path = tmp_path / "model.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path
    )
    return path


def call(*command: object, **environment: str) -> str:
    """Standard output of a command that must succeed."""
    result = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_python_engine(model: Path) -> None:
    pytest.importorskip("onnxruntime")
    output = call(sys.executable, EXAMPLE / "python" / "onnxruntime_engine.py", model, "N=4")
    assert "onnxruntime 3 of 3 nodes" in output
    assert "y: float32[4, 3], largest difference" in output


def test_the_engine_outside_the_tree(model: Path, tmp_path: Path) -> None:
    program = next(path for path in _command.programs() if path.is_file())
    build = program.parent.parent
    if not (build / "CMakeCache.txt").is_file():
        pytest.skip("this is not a build folder: there is nothing to install from")
    cmake = Path(sys.executable).parent / "cmake"
    cmake = cmake if cmake.is_file() else Path("cmake")
    prefix, folder = tmp_path / "prefix", tmp_path / "signs"
    call(cmake, "--install", build, "--prefix", prefix, "--component", "OpenXRT")
    call(cmake, "-S", EXAMPLE / "cpp", "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}")
    call(cmake, "--build", folder)
    path = {"XRT_ENGINE_PATH": str(folder)}
    assert "ran one op" in call(program, "doctor", "signs", **path)
    options = [model, "-e", "signs,native", "--json"]
    explanation = json.loads(call(program, "inspect", *options, "--runs", 1, **path))
    assert explanation["nodes_per_engine"] == {"native": 1, "signs": 2}
    exp = next(node for node in explanation["nodes"] if node["op"] == "Exp")
    assert exp["refusals"]["signs"] == "it knows Abs, Neg and Relu only"
    inputs = ["-i", "x=[[1,-2,0.5]]"]
    assert "y: float32[1,3] 0.36788, 1, 0.60653" in call(
        program, "run", model, "-e", "signs,native", *inputs, **path
    )
