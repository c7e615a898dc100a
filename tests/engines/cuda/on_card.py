#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CUDA engine on a card: its checks, then ONNX's node tests on ``cuda,native``.

    ./dev test cuda                # exit status 0 where all is right
    ./dev test cuda --record       # also writes docs/gpu/cuda.json and cuda.md

A node test may fail where tests/conformance/expectations.json explains it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FOLDER = ROOT / "docs" / "gpu"


def checks() -> int:
    """How many of the checks pass; ends the process where one does not."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, *sorted((HERE / "checks").glob("*.py"))],
        capture_output=True,
        text=True,
        check=False,
    )
    print(run.stdout[-3000:], run.stderr[-1000:], flush=True)
    if run.returncode != 0:
        sys.exit(run.returncode)
    return int(run.stdout.rsplit(" passed", 1)[0].split()[-1])


def node_tests(jobs: int) -> dict[str, Any]:
    """The results of the conformance driver."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        command = [sys.executable, ROOT / "tests" / "conformance" / "run.py", "cuda,native"]
        options = ["--device", "cuda", "--kind", "node", "--jobs", str(jobs), "--json", results]
        subprocess.run([*command, *options], stdout=subprocess.DEVNULL, check=False)
        return json.loads(results.read_text(encoding="utf-8"))


def card() -> str:
    """The name of the first card and its driver."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[0]


def record(passed: int, report: dict[str, Any], unexplained: list[str]) -> None:
    """docs/gpu/cuda.json, and the page that shows it."""
    summary = report["summary"]
    facts = {
        "command": "./dev test cuda --record",
        "card": card(),
        "python": platform.python_version(),
        "checks_passed": passed,
        "node_tests": {key: summary[key] for key in ("passed", "failed", "unsupported")},
        "on_the_card": summary["engines"]["cuda"],
        "failed_without_explanation": unexplained,
    }
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "cuda.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    own = summary["engines"]["cuda"]
    lines = [
        "# The CUDA engine on a card",
        "",
        f"Made by `{facts['command']}` on: {facts['card']}.",
        "",
        f"- {passed} checks of `tests/engines/cuda/checks` pass, beside ONNX Runtime on "
        "the CPU: float32 without TF32 within 1e-4, float16 convolutions within 2⁻⁸ of the largest "
        "value, attention as a whole, quantised models, functions from the cache, sizes of a "
        "range, memory that is not enough, no GPU, eight threads, tensors on the card.",
        f"- Of ONNX's node tests {summary['passed']} pass on `cuda,native`, {summary['failed']} "
        f"fail ({len(unexplained)} of them not explained in tests/conformance/expectations.json), "
        f"and of {summary['unsupported']} no node runs on the card, so the program is refused.",
        f"- The card runs nodes of {own['tests']} of these tests, all nodes of "
        f"{own['whole_tests']}.",
    ]
    (FOLDER / "cuda.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="write docs/gpu/cuda.json and .md")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    options = parser.parse_args()
    passed = checks()
    report = node_tests(options.jobs)
    explained = json.loads((ROOT / "tests/conformance/expectations.json").read_text("utf-8"))
    failed = [key for key, test in report["tests"].items() if test["status"] == "fail"]
    unexplained = [key for key in failed if key not in explained["explained"]]
    print(json.dumps(report["summary"], indent=2))
    print("failed:", *failed)
    if options.record:
        record(passed, report, unexplained)
    sys.exit(1 if unexplained else 0)


if __name__ == "__main__":
    main()
