# SPDX-License-Identifier: Apache-2.0
"""A dependency's version is written in several places; they must agree."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def pins(text: str) -> dict[str, str]:
    """Name -> version of every exact pin in a text."""
    return {
        match[1].lower(): match[2]
        for match in re.finditer(r"^[\s\"]*([\w-]+)==([\w.]+)", text, re.MULTILINE)
    }


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_pyproject_pins_what_the_build_uses() -> None:
    used = pins(read("tools/requirements.txt")) | pins(read("tools/requirements-test.txt"))
    declared = pins(read("pyproject.toml"))
    assert declared
    assert {name: used.get(name) for name in declared} == declared


def test_every_engine_has_an_extra_or_is_in_the_package() -> None:
    libraries = {f.parent.name for f in (ROOT / "src" / "engines").glob("*/CMakeLists.txt")}
    modules = {f.stem for f in (ROOT / "python" / "openxrt" / "engines").glob("[a-z]*.py")}
    extras = re.findall(r"^([\w-]+) = \[", read("pyproject.toml"), re.MULTILINE)
    # The native engine is what the package itself depends on; the template is an example.
    assert (libraries | modules) - {"native", "template", "common"} <= set(extras)


def test_pyproject_pins_agree_with_each_other() -> None:
    versions: dict[str, set[str]] = {}
    for match in re.finditer(r"\"([\w-]+)==([\w.]+)\"", read("pyproject.toml")):
        versions.setdefault(match[1], set()).add(match[2])
    assert all(len(found) == 1 for found in versions.values()), versions


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("tools/build_onnx.sh", r"^version=(.+)$"),
        ("cmake/XrtDependencies.cmake", r"set\(XRT_ONNX_VERSION (.+)\)"),
        ("dev", r"^onnx_version=(.+)$"),
    ],
)
def test_onnx_version(path: str, pattern: str) -> None:
    found = re.search(pattern, read(path), re.MULTILINE)
    assert found is not None
    assert found[1] == pins(read("tools/requirements.txt"))["onnx"]


def test_project_version() -> None:
    wheel = re.search(r"^version = \"(.+)\"$", read("pyproject.toml"), re.MULTILINE)
    cmake = re.search(r"^  VERSION (.+)$", read("CMakeLists.txt"), re.MULTILINE)
    assert wheel is not None
    assert cmake is not None
    assert wheel[1] == cmake[1]


@pytest.mark.parametrize("path", sorted((ROOT / "tools").glob("requirements*.txt"), key=str))
def test_everything_is_pinned(path: Path) -> None:
    lines = [line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    loose = [line for line in lines if line and not re.fullmatch(r"[\w.-]+==[\w.]+", line)]
    assert not loose
