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
        "docs/background/foreign.md",
        "docs/background/performance.md",
        "docs/background/peers.svg",
        "docs/background/architecture.svg",
        "tools/check_includes.py",
        "tools/make_architecture.py",
        *(
            f"benchmarks/{n}.py"
            for n in ("foreign_report", "make_performance", "peers_report", "peers_picture")
        ),
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


def test_foreign_models_have_a_page(copy: Path) -> None:
    figures = json.loads((copy / "docs/background/figures.json").read_text(encoding="utf-8"))
    times = {"start": 0.1, "wrong": [], "error_of_range": 0.0, "turns_ms": [2.0, 2.0]}
    figures["foreign"] = {
        "command": "./dev bench foreign",
        "machine": "a machine",
        "threads": 2,
        "versions": {"onnxruntime": figures["peers"]["versions"]["onnxruntime"]},
        "models": {
            "a/model": {
                "onnxruntime": times | {"median_ms": 2.0},
                "xrt native": times | {"median_ms": 1.0, "nodes": {"native": 3}, "refusals": []},
                "xrt openvino": times
                | {
                    "median_ms": 3.0,
                    "wrong": ["y: off by 0.5 of the range"],
                    "nodes": {"openvino": 2, "native": 1},
                    "refusals": ["openvino: LSTM: it has peepholes"],
                },
                "xrt onnxruntime": {"error": "it ended"},
            }
        },
    }
    (copy / "docs/background/figures.json").write_text(json.dumps(figures), encoding="utf-8")
    assert "docs/background/foreign.md is stale" in check(SCRIPTS[0], copy).stderr
    subprocess.run([sys.executable, copy / SCRIPTS[0]], check=True)
    page = (copy / "docs/background/foreign.md").read_text(encoding="utf-8")
    assert "| a/model | 2.000 | 0.50 (0.10 s) | **wrong** 1.50 (0.10 s) | fails |" in page
    assert "1 of 1 right, mean 0.50" in page
    assert "- a/model, xrt onnxruntime: fails: it ended" in page
    assert "- openvino: LSTM: it has peepholes. a/model (1 of 3 nodes)" in page
    assert check(SCRIPTS[0], copy).returncode == 0


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
