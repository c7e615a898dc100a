# SPDX-License-Identifier: Apache-2.0
"""tools/check_imports.py finds modules that import each other."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def check(*folders: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "check_imports.py"), *map(str, folders)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def package(folder: Path, **modules: str) -> Path:
    """A package whose modules a, b, c hold what is given; sub_x is module x of its subpackage."""
    (folder / "pack" / "sub").mkdir(parents=True)
    for name in ("__init__", "a", "b", "c", "sub___init__", "sub_x"):
        path = folder / "pack" / Path(*name.split("_", 1) if name[:3] == "sub" else [name])
        path.with_suffix(".py").write_text(modules.get(name, ""))
    return folder / "pack"


@pytest.mark.parametrize(
    "modules",
    [
        {"a": "from . import b", "b": "from .a import f"},
        {"a": "import pack.b", "b": "from pack import a"},
        {"a": "def f():\n    from .b import g", "b": "from .a import f"},
        {"a": "from .b import g", "b": "from .c import g", "c": "from .a import f"},
        {"a": "from .sub.x import g", "sub_x": "from ..a import f"},
        {"a": "from .sub import g", "sub___init__": "from ..a import f"},
    ],
)
def test_circles(tmp_path: Path, modules: dict[str, str]) -> None:
    done = check(package(tmp_path, **modules))
    assert done.returncode == 1
    assert "pack.a <-> " in done.stdout
    assert "pack/a.py:" in done.stdout


@pytest.mark.parametrize(
    "modules",
    [
        {"a": "from .b import g\nfrom .c import h", "b": "from .c import h"},
        {"a": "from .b import g", "b": "if TYPE_CHECKING:\n    from .a import f"},
        # A package hands on what is in its modules, which come after it.
        {"sub___init__": "from .x import f", "sub_x": "from ..a import g"},
        {"__init__": "from .a import f", "a": "from . import b"},
        {"a": "import os, b", "b": "from a import x"},
    ],
)
def test_no_circles(tmp_path: Path, modules: dict[str, str]) -> None:
    done = check(package(tmp_path, **modules))
    assert done.returncode == 0, done.stdout


def test_the_project_itself() -> None:
    done = check()
    assert done.returncode == 0, done.stdout
