# SPDX-License-Identifier: Apache-2.0
"""The build that is tested, an installation of it, and what others build against that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from openxrt import _command


def call(*command: object, **environment: str) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def xrt() -> Path:
    """The command of the build."""
    return next(path for path in _command.programs() if path.is_file())


def build_folder() -> Path:
    """The folder of the build; skips the test where the package is installed."""
    build = xrt().parent.parent
    if not (build / "CMakeCache.txt").is_file():
        pytest.skip("this is not a build folder: there is nothing to install from")
    return build


def cmake() -> Path:
    """The program; that of the environment first."""
    own = Path(sys.executable).parent / "cmake"
    return own if own.is_file() else Path("cmake")


def build_outside(sources: Path, folder: Path) -> Path:
    """Installs OpenXRT below `folder` and builds the sources against it; where they were built."""
    build = build_folder()
    call(cmake(), "--install", build, "--prefix", folder / "prefix", "--component", "OpenXRT")
    call(cmake(), "-S", sources, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}")
    call(cmake(), "--build", folder / "build")
    return folder / "build"
