# SPDX-License-Identifier: Apache-2.0
"""libxrt, the native engine and the command are configured and built without Python."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from openxrt import _command

Call = Callable[..., str]

ROOT = Path(__file__).resolve().parents[2]
CACHE = next(p for p in _command.programs() if p.is_file()).parent.parent / "CMakeCache.txt"
CMAKE = str(Path(sys.executable).parent / "cmake")
NINJA = str(Path(sys.executable).parent / "ninja")

pytestmark = pytest.mark.skipif(not CACHE.is_file(), reason="this is not a build folder")


def test_nothing_calls_python(tmp_path: Path, call: Call) -> None:
    [onnx_root] = re.findall(r"^XRT_ONNX_ROOT:PATH=(.*)$", CACHE.read_text(), re.MULTILINE)
    called = tmp_path / "called"
    for name in ("python", "python3"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\ntouch '{called}'\nexit 1\n")
        program.chmod(0o755)
    build = tmp_path / "build"
    call(
        *(CMAKE, "--preset", "core", "-S", ROOT, "-B", build),
        *(f"-DCMAKE_MAKE_PROGRAM={NINJA}", f"-DXRT_ONNX_ROOT={onnx_root}"),
        f"-DXRT_LIBRARY_PREFIX={sys.prefix}",
        env=os.environ | {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"},
        cwd=ROOT,
    )
    assert not called.exists()
    commands = call(NINJA, "-C", build, "-t", "commands", "all")
    for output in ("libxrt.so", "libxrt_engine_native.so", "bin/xrt"):
        assert output in commands
    assert not re.search(r"\bpython[\d.]*\s", commands)
