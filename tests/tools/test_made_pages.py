# SPDX-License-Identifier: Apache-2.0
"""The page of figures and the picture of the rooms are found stale when they are."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def check(script: str, root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, root / script, "--check"], capture_output=True, text=True, check=False
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that the two programs read, and what they make."""
    names = [
        "README.md",
        "docs/background/figures.json",
        "docs/background/performance.md",
        "docs/background/peers.svg",
        "docs/background/architecture.svg",
        "tools/check_includes.py",
        "tools/make_architecture.py",
        *(f"benchmarks/{n}.py" for n in ("make_performance", "peers_report", "peers_picture")),
        *(f"tools/{path.name}" for path in (ROOT / "tools").glob("requirements*.txt")),
    ]
    for name in names:
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    return tmp_path


def change(path: Path, section: str, key: str, value: Any) -> None:
    figures = json.loads(path.read_text(encoding="utf-8"))
    figures[section][key] = value
    path.write_text(json.dumps(figures), encoding="utf-8")


SCRIPTS = ["benchmarks/make_performance.py", "tools/make_architecture.py"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_project_itself(script: str, copy: Path) -> None:
    result = check(script, copy)
    assert result.returncode == 0, result.stderr


def test_a_new_figure(copy: Path) -> None:
    change(copy / "docs/background/figures.json", "frontends", "machine", "another machine")
    result = check(SCRIPTS[0], copy)
    assert result.returncode == 1
    assert "docs/background/performance.md is stale" in result.stderr


def test_a_new_version_of_a_peer(copy: Path) -> None:
    for pins in (copy / "tools").glob("requirements*.txt"):
        pins.write_text(pins.read_text().replace("onnxruntime==", "onnxruntime==9."))
    result = check(SCRIPTS[0], copy)
    assert result.returncode == 1
    assert "peers: onnxruntime" in result.stderr
    assert "--write" in result.stderr


def test_a_new_room(copy: Path) -> None:
    rooms = copy / "tools" / "check_includes.py"
    rooms.write_text(rooms.read_text().replace('    "base",\n', '    "base",\n    "attic",\n', 1))
    result = check(SCRIPTS[1], copy)
    assert result.returncode == 1
    assert "attic" in result.stderr
