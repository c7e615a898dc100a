# SPDX-License-Identifier: Apache-2.0
"""xrt-lite-run under valgrind: no invalid access, nothing uninitialised used, nothing lost."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import openxrt.lite
import pytest
from openxrt import _command

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "models"))
from expected import zoo  # noqa: E402
from networks import fixed, int8_network  # noqa: E402

pytestmark = pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")


def check(file: Path) -> None:
    command = next(path for path in _command.programs() if path.is_file())
    options = ["--leak-check=full", "--errors-for-leak-kinds=definite,indirect,possible"]
    program = [command.with_name("xrt-lite-run"), file, "--threads=2", "--repeat=1", "--verify"]
    done = subprocess.run(
        ["valgrind", "-q", "--error-exitcode=9", *options, *program],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# The processor that valgrind shows has AVX2 but not AVX-512.
@pytest.mark.parametrize("target", ["generic", "cortex-m", "x86"])
def test_int8_network_is_clean(target: str, tmp_path: Path) -> None:
    int8_network(tmp_path / "m.onnx", np.uint8)
    openxrt.lite.compile(tmp_path / "m.onnx", tmp_path / "m.bin", targets=[target])
    check(tmp_path / "m.bin")


@pytest.mark.parametrize("target", ["generic", "x86"])
def test_float_network_is_clean(target: str, tmp_path: Path) -> None:
    model = zoo.ZOO["silero_vad_16k_op15"]
    if reason := model.why_missing():
        pytest.skip(reason)
    fixed(model.path(), model.feeds(), tmp_path / "m.onnx")
    openxrt.lite.compile(tmp_path / "m.onnx", tmp_path / "m.bin", targets=[target])
    check(tmp_path / "m.bin")
