# SPDX-License-Identifier: Apache-2.0
"""docs/reference/operators.md is what the engines' registries say."""

import subprocess
import sys
from pathlib import Path

import openxrt
import pytest
from small_models import usable

ROOT = Path(__file__).resolve().parents[2]


def test_operators_page_is_fresh() -> None:
    """The page is checked where all its engines are built."""
    missing = [engine for engine in openxrt.engines() if not usable(engine)]
    if missing:
        pytest.skip(f"engines not available: {', '.join(missing)}")
    result = subprocess.run(
        [sys.executable, ROOT / "tools" / "make_operators.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
