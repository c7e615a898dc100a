# SPDX-License-Identifier: Apache-2.0
"""What the tests of installed trees and of wheels share."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper


def run(*command: object, **options: Any) -> str:
    """Standard output of a command that must succeed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def call() -> Callable[..., str]:
    """Runs a command that must succeed; gives its standard output."""
    return run


@pytest.fixture(scope="session")
def dynamic() -> Callable[[Path, str], list[str]]:
    """Values of a tag of a library's dynamic section."""

    def read(library: Path, tag: str) -> list[str]:
        return re.findall(rf"\({tag}\).*\[(.*)\]", run("readelf", "--dynamic", "--wide", library))

    return read


# What a machine has where it has a C++ program at all.
SYSTEM = re.compile(r"(ld-linux-x86-64|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s))\.so\.\d+")


@pytest.fixture
def foreign(tmp_path: Path) -> Callable[..., list[str]]:
    """Runs a command that must succeed; which libraries it took from elsewhere than a tree, but for
    those that every machine has."""

    def find(tree: Path, *command: object, env: dict[str, str]) -> list[str]:
        loaded = tmp_path / "loaded"
        loaded.mkdir(exist_ok=True)
        # The loader writes which file it takes for each library.
        told = {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(loaded / "by")}
        run(*command, env=env | told)
        text = "".join(file.read_text() for file in loaded.iterdir())
        files = set(re.findall(r"calling init: (\S+)", text))
        assert files
        return sorted(
            file
            for file in files
            if not file.startswith(f"{tree}/") and not SYSTEM.fullmatch(Path(file).name)
        )

    return find


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = Relu(x), float32[2, 3]."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"
