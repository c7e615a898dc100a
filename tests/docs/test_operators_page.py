# SPDX-License-Identifier: Apache-2.0
"""docs/reference/operators.md is what the engines' registries say."""

import subprocess
import sys
from pathlib import Path

import openxrt
import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_operators_page_is_fresh() -> None:
    """The page is checked where all its engines are built."""
    missing = {"native", "openvino", "xla", "onnxruntime"} - {
        r.name for r in openxrt.doctor() if r.available
    }
    if missing:
        pytest.skip(f"engines not available: {', '.join(sorted(missing))}")
    result = subprocess.run(
        [sys.executable, ROOT / "tools" / "make_operators.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
