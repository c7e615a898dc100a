# SPDX-License-Identifier: Apache-2.0
"""Programs in C and in Rust with the C API, built against the build tree and an installed tree."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from build_tree import build_folder, call, cmake

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "lite_mcu" / "digits_int8.onnx"
# Debian's compiler, which the example names, before one that a user installed.
RUSTC = next(
    (path for path in ("/usr/bin/rustc", shutil.which("rustc")) if path and Path(path).is_file()),
    None,
)

pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("make", "gcc", "pkg-config")),
    reason="needs make, gcc and pkg-config",
)
needs_rust = pytest.mark.skipif(
    RUSTC is None, reason="needs rustc (tools/debian-packages.txt, set languages)"
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of pkg-config's file in an installed tree that was moved."""
    folder = tmp_path_factory.mktemp("installed")
    call(cmake(), "--install", build_folder(), "--prefix", folder / "first")
    (folder / "first").rename(folder / "moved")
    found = list((folder / "moved").rglob("openxrt.pc"))
    assert len(found) == 1
    return found[0].parent


@pytest.fixture(params=["build", "installed"])
def pkgconfig(request: pytest.FixtureRequest) -> Path:
    """The folder of openxrt.pc."""
    if request.param == "installed":
        return request.getfixturevalue("installed")
    return build_folder() / "lib" / "pkgconfig"


def run_example(name: str, pkgconfig: Path, out: Path, *variables: str) -> list[str]:
    """The lines that the example prints."""
    said = call(
        *["make", "-s", "-C", ROOT / "examples" / name, "run"],
        *[f"PKG_CONFIG_PATH={pkgconfig}", f"OUT={out}", *variables],
    )
    return said.splitlines()


def explained(line: str) -> set[tuple[str, str]]:
    """Op and engine of every node of an explanation."""
    return {(node["op"], node["engine"]) for node in json.loads(line)["nodes"]}


def test_c(pkgconfig: Path, tmp_path: Path) -> None:
    lines = run_example("c_api", pkgconfig, tmp_path)
    assert lines[1:5] == [
        "input  x: float32[1,1,8,8]",
        "output y: float32[1,10]",
        "20 of 20 right",
        "submitted: 10 scores of float32",
    ]
    assert ("Conv", "native") in explained(lines[5])


@needs_rust
def test_rust(pkgconfig: Path, tmp_path: Path) -> None:
    lines = run_example("rust", pkgconfig, tmp_path, f"RUSTC={RUSTC}")
    assert lines[1] == "input x: float32[1,1,8,8]"
    assert lines[3] == "four threads: the same scores"
    assert lines[4].startswith("refused: invalid_argument: input 'x'")
    assert ("Conv", "native") in explained(lines[5])
    # What ONNX Runtime makes of the picture.
    source = (ROOT / "examples" / "rust" / "main.rs").read_text()
    rows = source[source.index("= [") + 3 : source.index("];")].replace("//", "")
    picture = np.array([float(word) for word in rows.split(",") if word.strip()], np.float32)
    session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    (scores,) = session.run(None, {"x": picture.reshape(1, 1, 8, 8) / 16})
    digit, score = int(scores.argmax()), float(scores.max())
    words = lines[2].split()
    assert words[:2] == ["digit", str(digit)]
    # One step of int8 where a sum is rounded the other way.
    assert abs(float(words[3].rstrip(")")) - score) < 0.02 * float(np.ptp(scores))


def test_a_failure_is_a_code_and_a_text(tmp_path: Path) -> None:
    pkgconfig = build_folder() / "lib" / "pkgconfig"
    run_example("c_api", pkgconfig, tmp_path)
    result = subprocess.run(
        [tmp_path / "digits", MODEL, "no_such_engine"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stderr.startswith("not_found: there is no engine 'no_such_engine'")
