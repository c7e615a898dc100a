# SPDX-License-Identifier: Apache-2.0
"""The command of an installed package has the engines that are written in Python."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from openxrt import _command

pytest.importorskip("onnxruntime")


def call(program: list[str], *arguments: object) -> subprocess.CompletedProcess:
    words = [*program, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def xrt(*arguments: object) -> subprocess.CompletedProcess:
    return call([sys.executable, "-m", "openxrt"], *arguments)


@pytest.fixture
def model(tmp_path: Path, mlp_model: bytes) -> Path:
    path = tmp_path / "mlp.onnx"
    path.write_bytes(mlp_model)
    return path


def test_it_lists_and_probes_them() -> None:
    result = xrt("doctor", "onnxruntime")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "ok  onnxruntime" in result.stdout
    table = xrt("engines", "--ops").stdout
    conv = next(line for line in table.splitlines() if line.split()[:1] == ["Conv"])
    assert "onnxruntime" in conv


def test_it_runs_a_model_on_them(model: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    results = {}
    for engine in ("onnxruntime", "native"):
        file = tmp_path / f"{engine}.npy"
        run = xrt("run", model, "-e", engine, "-i", f"x={tmp_path / 'x.npy'}", "-o", file)
        assert run.returncode == 0, run.stderr
        assert f"{engine} 5 of 5 nodes" in run.stdout + run.stderr
        results[engine] = np.load(file)
    np.testing.assert_allclose(results["onnxruntime"], results["native"], rtol=1e-5)


def test_it_times_them(model: Path) -> None:
    engines = ["-e", "native", "-e", "onnxruntime"]
    result = xrt("bench", model, *engines, "--rounds", 2, "--dim", "N=2", "--json", "-")
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)["configurations"]
    assert [row["name"] for row in rows] == ["native", "onnxruntime"]


def test_mistakes_have_the_exit_codes_of_the_program(model: Path) -> None:
    assert xrt("run", model, "--no-such-option").returncode == 2
    assert xrt("run", model.parent / "nothing.onnx").returncode == 1
    assert xrt("run", model, "-e", "no_such_engine").returncode == 3


def test_the_program_without_python_says_so(model: Path) -> None:
    program = next(path for path in _command.programs() if path.is_file())
    result = call([str(program)], "run", model, "-e", "onnxruntime")
    assert result.returncode == 3
    assert "python -m openxrt" in result.stderr
