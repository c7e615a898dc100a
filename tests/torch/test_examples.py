# SPDX-License-Identifier: Apache-2.0
"""The examples of examples/pytorch do what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "pytorch"


@pytest.mark.parametrize("name", ["train_digits.py", "train_text.py"])
def test_engines_learn_as_pytorch_does(name: str, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    svg = tmp_path / "losses.svg"
    command = [EXAMPLES / name, "--engine", "native", "--steps", "30", "--svg", svg]
    result = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    # PyTorch, the same from weights changed by a millionth, and the engine.
    rows = {line[:16].strip(): line.split() for line in result.stdout.splitlines()[1:]}
    first, native = rows["PyTorch"], rows["native"]
    assert float(native[-1]) < 1e-3
    assert float(native[2]) == pytest.approx(float(first[2]), abs=0.01)  # accuracy
    assert svg.read_text(encoding="utf-8").count("<polyline") == 3


def test_digits_in_int8() -> None:
    pytest.importorskip("sklearn")
    command = [EXAMPLES / "int8_digits.py", "--engine", "native"]
    result = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    rows = {line[:24].strip(): line[24:].split() for line in result.stdout.splitlines()[1:]}
    assert len(rows) == 5
    for name, (accuracy, agreement, decibels) in rows.items():
        assert float(accuracy) > 0.9, name
        assert float(agreement) > 0.98, name
        assert (float(decibels) > 60) == (name == "float32"), name
