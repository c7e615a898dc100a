# SPDX-License-Identifier: Apache-2.0
"""The lite runtime stays within its limits of size."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_code_is_within_its_limits() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "lite_size.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "x86-64     core" in done.stdout
