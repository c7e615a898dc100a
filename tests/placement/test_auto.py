# SPDX-License-Identifier: Apache-2.0
"""Placement by the runtime, from Python and from the command line."""

import json
import subprocess
from pathlib import Path

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from openxrt import _command

RNG = np.random.default_rng(0)
W = RNG.standard_normal((64, 64)).astype(np.float32)
X = RNG.standard_normal((32, 64)).astype(np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = relu(x·w)·w."""
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("MatMul", ["b", "w"], ["y"]),
        ],
        "two products",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [32, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [32, 64])],
        [numpy_helper.from_array(W, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(made, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


EXPECTED = np.maximum(X @ W, 0) @ W


def error(y: np.ndarray) -> float:
    """Over the range, as the tolerance counts."""
    return float(np.abs(y - EXPECTED).max() / np.ptp(EXPECTED))


def test_fast_is_the_default(model: Path) -> None:
    """At once, and it says what there was to choose from."""
    program = openxrt.load(model)
    explanation = program.explain()
    assert explanation["placement"] == "estimated"
    assert explanation["precision"] == "f32"
    assert sum(row["chosen"] for row in explanation["candidates"]) == 1
    assert explanation["candidates"][0]["chosen"]
    assert "placement: estimated" in str(explanation)
    assert error(program(X)) < 1e-6


def test_full_measures(model: Path) -> None:
    """Every candidate has a time, or a reason why not."""
    program = openxrt.load(model, engine=["auto", "native", "openvino"], auto_mode="full")
    explanation = program.explain()
    assert explanation["placement"].startswith("measured")
    for row in explanation["candidates"]:
        assert row["measured_us"] > 0 or row["note"]
        assert row["precision"] == "f32"
    assert error(program(X)) < 1e-6
    assert "measured" in explanation.to_html()


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
def test_precision_stays_within_the_tolerance(model: Path, tolerance: float) -> None:
    """Never beyond, and what it states is what comes out."""
    program = openxrt.load(
        model, engine=["auto", "native", "openvino"], precision="auto", tolerance=tolerance
    )
    explanation = program.explain()
    chosen = explanation["candidates"][0]
    assert chosen["precision"] == explanation["precision"]
    assert chosen["error"] <= tolerance
    if tolerance == 0:
        assert explanation["precision"] == "f32"
    assert error(program(X)) <= 1.5 * tolerance + 1e-6  # other inputs than it was judged by


def test_mistakes(model: Path) -> None:
    """Words that mean nothing."""
    with pytest.raises(openxrt.InvalidArgument, match="fast, full or background"):
        openxrt.load(model, auto_mode="slow")
    with pytest.raises(openxrt.InvalidArgument, match="f32, bf16, f16 or auto"):
        openxrt.load(model, precision="int8")


def test_command(model: Path) -> None:
    """The same options."""
    program = next(path for path in _command.programs() if path.is_file())
    done = subprocess.run(
        [program, "inspect", model, "-e", "auto,native,openvino", "--auto", "full", "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    explanation = json.loads(done.stdout)
    assert explanation["placement"].startswith("measured")
    assert {row["plan"] for row in explanation["candidates"]} >= {"native", "openvino,native"}
