# SPDX-License-Identifier: Apache-2.0
"""What the package asks pip for agrees with what the engines tell people to install."""

import json
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("openvino", "xla", "onnxruntime", "tvm", "torch", "serve", "ray", "cuda13", "tensorrt")


def project() -> dict[str, list[str]]:
    """The package's requirements by extra, its own under ""."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    own = re.search(r"^dependencies = \[(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    table = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    assert own is not None
    rows = re.findall(r"^([\w-]+) = \[(.*?)\]$", table, re.MULTILINE | re.DOTALL)
    return {name: re.findall(r"\"([^\"]+)\"", row) for name, row in [("", own[1]), *rows]}


def requirements(extra: str) -> dict[str, Requirement]:
    return {found.name: found for found in map(Requirement, project()[extra])}


@pytest.mark.parametrize("extra", [*EXTRAS, "all"])
def test_there_is_an_extra(extra: str) -> None:
    assert requirements(extra)


def test_every_requirement_has_a_least_version() -> None:
    for extra in project():
        for requirement in requirements(extra).values():
            if requirement.name == "openxrt":
                assert requirement.extras <= set(project())
                continue
            operators = {clause.operator for clause in requirement.specifier}
            assert operators & {">=", "=="}, requirement


@pytest.mark.parametrize(
    ("extra", "file"),
    [
        ("openvino", "src/engines/openvino/engine.json"),
        ("xla", "src/engines/xla/engine.json"),
        ("tvm", "src/engines/tvm/engine.json"),
        ("onnxruntime", "python/openxrt/engines/onnxruntime.json"),
        ("", "src/engines/native/engine.json"),
    ],
)
def test_the_hint_names_versions_that_pip_may_take(extra: str, file: str) -> None:
    hint = json.loads((ROOT / file).read_text(encoding="utf-8"))["install"]
    asked = requirements(extra)
    named = re.findall(r"(?<![\w-])([a-z][\w-]*)((?:==|>=)[\w.,<>=]+[\w])", hint)
    assert named
    for name, versions in named:
        assert name in asked, name
        if versions.startswith("=="):
            assert asked[name].specifier.contains(versions[2:]), hint
        else:
            assert asked[name].specifier == Requirement(name + versions).specifier, hint


def test_what_the_build_uses_is_in_the_ranges() -> None:
    """The least version of each library is the one that the engines are linked with."""
    used = dict(
        re.findall(
            r"^([\w-]+)==([\w.]+)", (ROOT / "tools" / "requirements.txt").read_text(), re.MULTILINE
        )
    )
    for extra in ("", "openvino", "xla"):
        for name, requirement in requirements(extra).items():
            if name in used:
                assert requirement.specifier.contains(used[name]), requirement


@pytest.mark.parametrize("name", ["intel-cmplr-lib-rt", "onednn-cpu-tbb", "tbb"])
def test_libraries_of_the_native_engine_are_ranges(name: str) -> None:
    least = {clause.operator: clause.version for clause in requirements("")[name].specifier}
    used = (ROOT / "tools" / "requirements.txt").read_text()
    assert f"{name}=={least['>=']}\n" in used
    assert "<" in least
