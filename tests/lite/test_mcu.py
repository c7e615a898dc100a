# SPDX-License-Identifier: Apache-2.0
"""The example for microcontrollers: right, small, and bit for bit what a desktop computes."""

import shutil
import subprocess
from pathlib import Path

import pytest
from openxrt import _command

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "lite_mcu"


def make(target: str, out: Path) -> str:
    """Runs make and returns what it printed."""
    command = next(path for path in _command.programs() if path.is_file())
    compiler = command.with_name("xrt-lite-compile")
    arguments = ["make", "-s", "-C", EXAMPLE, target, f"OUT={out}", f"COMPILER={compiler}"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_desktop_reads_the_digits(tmp_path: Path) -> None:
    assert "20 of 20 right" in make("desktop", tmp_path)


@pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None or shutil.which("qemu-system-arm") is None,
    reason="needs gcc-arm-none-eabi and qemu-system-arm",
)
def test_cortex_m_computes_the_same_bits(tmp_path: Path) -> None:
    assert make("run", tmp_path) == make("desktop", tmp_path)
    text, data = make("size", tmp_path).splitlines()[1].split()[:2]
    assert int(text) + int(data) <= 100 * 1024
