# SPDX-License-Identifier: Apache-2.0
"""`xrt conformance`: an engine that is wrong in one way fails the check of that name, a right one
passes all.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx")

from openxrt.conformance.checks import CHECKS, ORDER
from openxrt.conformance.driver import Engine, Report, conformance

ENGINES = Path(__file__).resolve().parent / "engines"
SMALL, FAULTY = str(ENGINES / "small.py"), str(ENGINES / "faulty.py")
# Engine to the check that has to find its fault. Read, not imported: that would register engines
# in this process.
FAULTS = {
    name: check
    for check, name in re.findall(r'@fault\("(\w+)".*\)\nclass (\w+)', Path(FAULTY).read_text())
}


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "openxrt.conformance", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def failures(report: Report, check: str) -> list[dict]:
    return [r for r in report.results if r["check"] == check and r["status"] == "failed"]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_fails_its_check(name: str) -> None:
    check = FAULTS[name]
    timeout_s = 5.0 if name == "Hangs" else 60.0
    report = conformance(Engine(name, FAULTY), checks=[check], jobs=1, timeout_s=timeout_s)
    assert report.failed_checks() == [check]
    first = failures(report, check)[0]
    assert first["reason"] and first["op"] and first["name"].startswith(f"{check}/")
    assert f"FAILED {check}" in report.text()
    assert report.again(first) in report.text()


def test_every_check_has_a_fault_that_it_finds() -> None:
    assert set(FAULTS.values()) == set(ORDER) == set(CHECKS)


def test_the_engine_without_a_fault_passes_every_check() -> None:
    checks = [name for name in ORDER if name != "ops"]
    report = conformance(Engine("small", SMALL), checks=checks)
    assert report.failed_checks() == []
    assert all(counts["passed"] for counts in report.by_check().values())
    ops = conformance(Engine("small", SMALL), checks=["ops"], pattern="test_(add|leakyrelu|matmul)")
    assert ops.failed_checks() == [] and ops.by_check()["ops"]["passed"] > 10


def test_the_command_repeats_a_case(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    arguments = ["--engine", "OddSizes", "--engine-path", FAULTY, "--check", "sizes", "--seed", "3"]
    done = command(*arguments, "--json", str(file))
    assert done.returncode == 1, done.stderr
    assert "1 failed: sizes" in done.stdout.splitlines()[-1]
    content = json.loads(file.read_text())
    assert content["failed_checks"] == ["sizes"]
    failed = [r for r in content["results"] if r["status"] == "failed"]
    words = failed[0]["again"].replace("'", "").split()
    assert words[:2] == ["xrt", "conformance"] and failed[0]["again"] in done.stdout
    again = command(*words[2:])
    assert again.returncode == 1
    assert failed[0]["reason"] in again.stdout
    assert re.search(r"sizes +0 +1 +0", again.stdout)


def test_misuse_and_engines_that_are_not_there() -> None:
    for arguments, code, text in [
        (["--engine", "small", "--check", "speed"], 2, "there is no check 'speed'"),
        (["--engine", "small", "--engine-path", "/none"], 2, "does not exist"),
        (["--engine", "small", "-k", "("], 2, "-k '('"),
        (["--engine", "small", "--option", "x"], 2, "KEY=VALUE"),
        ([], 2, "--engine"),
        (["--engine", "no_such_engine"], 3, "no engine 'no_such_engine'"),
        (
            ["--engine", "small", "--engine-path", SMALL, "--check", "sizes", "-k", "none"],
            2,
            "no case matches",
        ),
    ]:
        done = command(*arguments)
        assert done.returncode == code, (arguments, done.stderr)
        assert text in done.stderr, (arguments, done.stderr)


def test_checks_and_cases_are_listed() -> None:
    listed = command("--list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == list(ORDER)
    arguments = ["--engine", "small", "--engine-path", SMALL, "--list", "--check", "constants"]
    cases = command(*arguments).stdout.splitlines()
    assert "constants/MatMul/x1-constant" in cases
    assert all(case.startswith("constants/") for case in cases)
