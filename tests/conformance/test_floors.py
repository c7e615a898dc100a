# SPDX-License-Identifier: Apache-2.0
"""The counts of expectations.json hold: all tests natively, families of ops on the other engines.
A test that does not pass natively is explained there.

The whole suite on every engine takes minutes: ``./dev conformance openvino,native --check``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import openxrt
import pytest

DRIVER = Path(__file__).with_name("run.py")
SAMPLE = "_(add|argmax|averagepool|conv|gather|gemm|matmul|pad|relu|slice|softmax|transpose)"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, DRIVER, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def test_native_passes_as_many_as_before() -> None:
    """Every kind of test, on the native engine alone."""
    result = run("native", "--check")
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino", "xla"])
def test_engine_runs_its_families(engine: str, tmp_path: Path) -> None:
    """Common families of ops pass, and mostly the engine itself runs them."""
    if not any(report.name == engine and report.available for report in openxrt.doctor()):
        pytest.skip(f"engine {engine} is not available")
    results = tmp_path / "results.json"
    run(f"{engine},native", "--kind", "node", "-k", SAMPLE, "--json", results)
    report = json.loads(results.read_text(encoding="utf-8"))
    wrong = {n: t["reason"] for n, t in report["tests"].items() if t["status"] != "pass"}
    assert not wrong
    summary = report["summary"]
    assert summary["engines"][engine]["whole_tests"] > 0.8 * summary["passed"]
