# SPDX-License-Identifier: Apache-2.0
"""docs/reference/oneflow-ops.md is what the importer's registry and the records say."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_fresh_and_nothing_is_missing() -> None:
    result = subprocess.run(
        [sys.executable, ROOT / "tools" / "make_oneflow_ops.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
