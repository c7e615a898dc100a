# SPDX-License-Identifier: Apache-2.0
"""An engine outside the tree is one folder: everything finds it without an edit elsewhere."""

import sys
from pathlib import Path

import numpy as np
import pytest
from build_tree import build_outside, call, xrt
from onnx import TensorProto, helper
from small_models import make_model, tensor

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).with_name("toy")
OPS = ("Mul", "Neg", "Relu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the engine's library, built against an installed OpenXRT."""
    return build_outside(SOURCES, tmp_path_factory.mktemp("toy"))


def test_it_is_small() -> None:
    files = [path for path in SOURCES.iterdir() if path.is_file()]
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) <= 200


def test_the_command_finds_it(folder: Path) -> None:
    environment = {"XRT_ENGINE_PATH": str(folder)}
    told = call(xrt(), "doctor", "toy", **environment)
    assert "ran one op; 3 ops; devices cpu" in told
    rows = [line.split() for line in call(xrt(), "engines", "--ops", **environment).splitlines()]
    heads = next(row for row in rows if row[:1] == ["op"])
    column = heads.index("toy")
    named = {row[0] for row in rows if len(row) == len(heads) and row[column] == "toy"}
    assert named - {"op"} == set(OPS)


def test_the_table_of_operators_has_it(folder: Path, tmp_path: Path) -> None:
    tool, page = ROOT / "tools" / "make_operators.py", tmp_path / "operators.md"
    call(sys.executable, tool, "--output", page, XRT_ENGINE_PATH=str(folder))
    rows = [line.split(" | ") for line in page.read_text(encoding="utf-8").splitlines()]
    heads = next(row for row in rows if row[0] == "| op")
    column = heads.index("toy")
    table = [row for row in rows if len(row) == len(heads)]
    marked = [row[0].removeprefix("| ") for row in table if "●" in row[column]]
    assert marked == list(OPS)


def test_it_keeps_the_contract(folder: Path) -> None:
    command = [sys.executable, "-m", "openxrt", "conformance", "--engine", "toy"]
    told = call(*command, "--engine-path", folder)
    assert told.splitlines()[-1].endswith("checks passed, 0 failed")


def test_a_model_runs_on_it(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    nodes = [
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("Mul", ["r", "x"], ["m"]),
        helper.make_node("Exp", ["m"], ["y"]),
    ]
    ends = [[tensor(name, TensorProto.FLOAT, [2, 3])] for name in "xy"]
    model.write_bytes(make_model(nodes, *ends))
    x = np.array([[1, -2, 3], [-1, 0, 0.5]], np.float32)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "expected.npz", y=np.exp(np.maximum(-x, 0) * x))
    told = call(
        *(xrt(), "run", model, "--engine", "toy,native", "--input", tmp_path / "x.npy"),
        *("--expect", tmp_path / "expected.npz"),
        XRT_ENGINE_PATH=str(folder),
    )
    assert "toy 3 of 4 nodes" in told
