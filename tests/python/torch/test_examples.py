# SPDX-License-Identifier: Apache-2.0
"""The examples of examples/pytorch do what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "pytorch"


def test_digits_are_learned_alike() -> None:
    result = subprocess.run(
        [sys.executable, EXAMPLES / "train_digits.py", "--engine", "native", "--steps", "40"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    native = result.stdout.splitlines()[-1].split()
    assert native[0] == "native" and float(native[-1]) < 1e-4
