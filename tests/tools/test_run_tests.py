# SPDX-License-Identifier: Apache-2.0
"""tools/run_tests.py counts what pytest and GoogleTest report, and names what was skipped."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

PYTEST = """
import pytest
def test_passes(): pass
def test_fails(): assert False
def test_skips(): pytest.skip("no GPU here")
@pytest.mark.skipif(True, reason="no GPU here")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_cases(n): pass
"""

# As GoogleTest 1.12 writes it.
GOOGLE_TEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4" failures="1" disabled="0" errors="0" name="AllTests">
  <testsuite name="Gpu" tests="4">
    <testcase name="Adds" status="run" result="completed" time="0." classname="Gpu" />
    <testcase name="Fails" status="run" result="completed" time="0." classname="Gpu">
      <failure message="a.cc:3&#x0A;Failed" type=""><![CDATA[a.cc:3]]></failure>
    </testcase>
    <testcase name="Runs" status="run" result="skipped" time="0." classname="Gpu">
      <skipped message="a.cc:9&#x0A;no device&#x0A;"><![CDATA[a.cc:9]]></skipped>
    </testcase>
    <testcase name="Filtered" status="notrun" result="suppressed" time="0." classname="Gpu" />
  </testsuite>
</testsuites>
"""


def test_pytest(tmp_path: Path, tool: Callable[[str], ModuleType]) -> None:
    run_tests = tool("run_tests")
    (tmp_path / "test_it.py").write_text(PYTEST)
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [f"--junit-xml={report}", str(tmp_path / "test_it.py")]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    result = run_tests.read_junit(report, "python: ")
    assert result.summary() == "1 passed, 1 failed, 4 skipped"
    assert run_tests.skip_lines(result.skips) == [
        "  no GPU here (4):",
        "    python: test_it.test_skips",
        "    python: test_it.test_cases (3 cases)",
    ]
    assert result.failures == ["python: test_it.test_fails"]


def test_shares_hold_each_file_once(tool: Callable[[str], ModuleType]) -> None:
    run_tests = tool("run_tests")
    folders = [name for names in [*run_tests.shares(3), run_tests.ALONE] for name in names]
    files = [file for name in folders for file in (run_tests.ROOT / name).rglob("test_*.py")]
    assert sorted(files) == sorted((run_tests.ROOT / "tests").rglob("test_*.py"))


def test_fuzz(tmp_path: Path, tool: Callable[[str], ModuleType]) -> None:
    targets = {
        "clean": {"executions": 9, "crashes": 0},
        "crashes": {"executions": 9, "crashes": 1},
        "does_not_start": {"executions": 0, "crashes": 0},
    }
    report = tmp_path / "fuzz.json"
    report.write_text(json.dumps({"source": "", "targets": targets}))
    result = tool("run_tests").read_fuzz(report)
    assert result.summary() == "1 passed, 2 failed, 0 skipped"
    assert result.failures == ["fuzz: crashes", "fuzz: does_not_start"]


def test_google_test(tmp_path: Path, tool: Callable[[str], ModuleType]) -> None:
    run_tests = tool("run_tests")
    (tmp_path / "report.xml").write_text(GOOGLE_TEST)
    result = run_tests.read_junit(tmp_path / "report.xml", "release: gpu_test: ")
    assert result.summary() == "1 passed, 1 failed, 1 skipped"
    assert run_tests.skip_lines(result.skips) == [
        "  no device (1):",
        "    release: gpu_test: Gpu.Runs",
    ]


def test_sums_keep_the_names(tool: Callable[[str], ModuleType]) -> None:
    run_tests = tool("run_tests")
    total = run_tests.Result(1, 0, 1, [], [("why", "a")])
    total.add(run_tests.Result(1, 1, 1, ["b"], [("why", "c")]))
    assert total.summary() == "2 passed, 1 failed, 2 skipped"
    assert run_tests.skip_lines(total.skips) == ["  why (2):", "    a", "    c"]
