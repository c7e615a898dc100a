# SPDX-License-Identifier: Apache-2.0
"""docs/reference/operators.md is what the engines' registries say."""

import subprocess
import sys
from pathlib import Path

import openxrt
import pytest

ROOT = Path(__file__).resolve().parents[2]


def columns() -> set[str]:
    """The engines of the page."""
    page = (ROOT / "docs" / "reference" / "operators.md").read_text(encoding="utf-8")
    head = next(line for line in page.splitlines() if line.startswith("| op | since |"))
    return {cell.strip() for cell in head.strip("|").split("|")} - {"op", "since", "gradient"}


def test_operators_page_is_fresh() -> None:
    """The page is checked where all its engines are built; an engine of its own is a column."""
    missing = columns() - set(openxrt.engines())
    if missing:
        pytest.skip(f"engines that are not built: {', '.join(sorted(missing))}")
    result = subprocess.run(
        [sys.executable, ROOT / "tools" / "make_operators.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
