# SPDX-License-Identifier: Apache-2.0
"""The examples of examples/training, in Python and in C++ against an installed OpenXRT."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from openxrt import _command

pytest.importorskip("torch")
pytest.importorskip("sklearn")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "training"


BUILD = next(path for path in _command.programs() if path.is_file()).parent.parent


def call(*command: object, folder: Path | None = None) -> str:
    """Standard output of a command that must succeed, with the engines of the build folder."""
    words = [str(word) for word in command]
    env = os.environ | {"LD_LIBRARY_PATH": str(BUILD / "lib")}
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def differences(told: str) -> list[float]:
    """How far the losses of each run are from PyTorch's."""
    return [float(number) for number in re.findall(r"difference of the loss (\S+)", told)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of cpp/."""
    if not (BUILD / "CMakeCache.txt").is_file():
        pytest.skip("this is not a build folder")
    cmake = Path(sys.executable).parent / "cmake"
    folder = tmp_path_factory.mktemp("training")
    call(cmake, "--install", BUILD, "--prefix", folder / "prefix", "--component", "OpenXRT")
    prefix = f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}"
    call(cmake, "-S", EXAMPLES / "cpp", "-B", folder / "build", prefix)
    call(cmake, "--build", folder / "build")
    return folder / "build"


def test_a_network_trains_as_with_pytorch_in_python_and_in_cpp(programs: Path) -> None:
    script = [sys.executable, EXAMPLES / "digits.py", "--steps", "30", "--engine", "native"]
    found = differences(call(*script, "--cpp", programs / "replay"))
    assert len(found) == 2
    assert max(found) < 1e-4


def test_a_transformer_trains_as_with_pytorch() -> None:
    script = [sys.executable, EXAMPLES / "text.py", "--steps", "10", "--engine", "native"]
    found = differences(call(*script))
    assert len(found) == 1
    assert max(found) < 1e-3


def test_cpp_alone_learns_and_saves(programs: Path, tmp_path: Path) -> None:
    call(programs / "digits", folder=tmp_path)  # fails where fewer than nine of ten are right
    assert [file.name for file in tmp_path.iterdir()] == ["digits.state"]
