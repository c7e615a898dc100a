#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Conformance: engines × the tests of the onnx package, through the public Python API.

    ./dev conformance native                       # all 2,024 tests on the native engine
    ./dev conformance openvino,native --json F     # two engines on each graph, results to F
    ./dev conformance native -k 'relu|conv'        # some tests
    ./dev conformance xla,native --device cuda:0   # on another device than the CPU
    ./dev conformance --baseline onnxruntime       # a peer through the same driver

A test passes only when every output has the shape, the dtype and, within the package's own
tolerances, the values that the package expects. Tests run in worker processes: a crash or a hang
fails the one test that did it. Exit status: 0 when every floor of --check holds and every test that
does not pass is explained in expectations.json (or no --check), 1 otherwise, 2 on misuse.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import onnx
from openxrt.conformance.judge import reason_class
from openxrt.conformance.onnx_tests import KINDS, Case, load_cases, op_names
from openxrt.conformance.pool import WorkerLost, run_all

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from runners import BASELINES, DEVICE  # noqa: E402

FLOORS = HERE / "expectations.json"
RECORDS = HERE.parents[1] / "docs" / "conformance"
START_SECONDS = 120  # for a worker to import its engines on a busy machine


def run_tests(cases: list[Case], runner: list[str], jobs: int, seconds: float) -> dict[str, dict]:
    """Results by `kind/name`, in the order of `cases`."""
    by_name = {f"{case.kind}/{case.name}": case for case in cases}
    requests = [
        {
            "name": case.name,
            "kind": case.kind,
            "folder": str(case.folder),
            "rtol": case.rtol,
            "atol": case.atol,
        }
        for case in cases
    ]

    def lost(request: dict[str, Any], loss: WorkerLost) -> dict[str, Any]:
        case = by_name[f"{request['kind']}/{request['name']}"]
        ops = op_names(onnx.load_from_string(case.model_bytes()))
        return {"status": "fail", "reason": str(loss), "ops": ops}

    with tempfile.TemporaryDirectory(prefix="xrt-conformance-") as cache:
        environment = os.environ | {
            "XRT_CACHE_DIR": cache,  # of this run only: an old cache entry must not answer
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, str(HERE / "worker.py"), *runner]
        answers = run_all(requests, command, environment, jobs=jobs, seconds=seconds, lost=lost)
    return dict(zip(by_name, answers, strict=True))


def summarize(results: dict[str, dict]) -> dict[str, Any]:
    """Counts: by status, by kind, and per engine the passing tests in which it ran nodes."""
    status = Counter(result["status"] for result in results.values())
    kinds: dict[str, Counter] = defaultdict(Counter)
    engines: dict[str, Counter] = defaultdict(Counter)
    for key, result in results.items():
        kinds[key.split("/")[0]][result["status"]] += 1
        if result["status"] != "pass":
            continue
        nodes = {engine: count for engine, count in result["nodes"].items() if count}
        for engine, count in nodes.items():
            engines[engine]["nodes"] += count
            engines[engine]["tests"] += 1
            engines[engine]["whole_tests"] += len(nodes) == 1
            engines[engine]["node_tests"] += key.startswith("node/")
    return {
        "passed": status["pass"],
        "failed": status["fail"],
        "unsupported": status["unsupported"],
        "kinds": {kind: dict(counts) for kind, counts in kinds.items()},
        "engines": {engine: dict(counts) for engine, counts in engines.items()},
    }


def operator_table(results: dict[str, dict]) -> dict[str, dict[str, int]]:
    """Per operator the number of tests that hold it, by status."""
    table: dict[str, Counter] = defaultdict(Counter)
    for result in results.values():
        for op in result["ops"]:
            table[op][result["status"]] += 1
    return {op: dict(table[op]) for op in sorted(table)}


def report(title: str, results: dict[str, dict], summary: dict[str, Any], options: Any) -> None:
    print(f"{title}: {len(results)} tests of onnx {onnx.__version__}")
    for kind, counts in summary["kinds"].items():
        print(f"  {kind:18} " + ", ".join(f"{counts.get(s, 0)} {s}" for s in STATUSES))
    for engine, counts in summary["engines"].items():
        print(
            f"  {engine:18} ran {counts['nodes']} nodes in {counts['tests']} passing tests, "
            f"{counts['whole_tests']} of them alone"
        )
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, result in results.items():
        if result["status"] != "pass":
            groups[result["status"], reason_class(result["reason"])].append(key)
    for (status, reason), keys in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        if len(keys) >= options.least:
            names = ", ".join(key.split("/")[1].removeprefix("test_") for key in keys[:4])
            print(f"  {len(keys):5} {status}: {reason}\n        {names}{', …' * (len(keys) > 4)}")
    if options.ops:
        print(f"  {'operator':34} {'pass':>5} {'fail':>5} {'unsupported':>12}")
        for op, counts in operator_table(results).items():
            print(f"  {op:34} " + "{:5} {:5} {:12}".format(*(counts.get(s, 0) for s in STATUSES)))
    if options.verbose:
        for key, result in results.items():
            if result["status"] != "pass":
                print(f"  {result['status']} {key}: {result['reason']}")


STATUSES = ("pass", "fail", "unsupported")


def measured_floors(summary: dict[str, Any]) -> dict[str, Any]:
    """What must not become less. What is left to native beside another engine may."""
    engines = summary["engines"]
    return {
        "passed": {kind: counts.get("pass", 0) for kind, counts in summary["kinds"].items()},
        "node_tests_ran_by": {
            engine: counts["node_tests"]
            for engine, counts in engines.items()
            if engine != "runtime" and (engine != "native" or len(engines) == 1)
        },
    }


def below_floors(floors: dict[str, Any], summary: dict[str, Any]) -> list[str]:
    """What is below a floor; kinds that were not run are not looked at."""
    measured = measured_floors(summary)
    complaints = []
    for what, entries in floors.items():
        for name, floor in entries.items():
            if what == "passed" and name not in measured[what]:
                continue
            if what == "node_tests_ran_by" and "node" not in measured["passed"]:
                continue
            got = measured[what].get(name, 0)
            if got < floor:
                complaints.append(f"{what}[{name}] is {got}, must be at least {floor}")
    return complaints


def unexplained(reasons: dict[str, str], results: dict[str, dict]) -> list[str]:
    """Tests that do not pass and whose reason is not known, or that are wrong in another way: what
    is explained may be unsupported or differ in values, but not in shapes or types.
    """
    complaints = []
    for key, result in results.items():
        if result["status"] == "pass":
            continue
        known = result["status"] == "unsupported" or "values differ" in result["reason"]
        if key not in reasons or not known:
            complaints.append(f"{key} ({result['status']}): {result['reason']}")
    return complaints


def record(engines: list[str], summary: dict[str, Any], results: dict[str, dict]) -> str:
    """What docs/conformance keeps of a run: its counts; per op the node tests that hold it, how
    many pass, and in how many of these one engine ran every node; the tests that do not pass.
    """
    ops: dict[str, dict[str, Any]] = {}
    for key, result in results.items():
        if not key.startswith("node/"):
            continue
        for op in result["ops"]:
            entry = ops.setdefault(op, {"tests": 0, "passed": 0, "alone": Counter()})
            entry["tests"] += 1
            if result["status"] != "pass":
                continue
            entry["passed"] += 1
            # Control flow that the runtime drives leaves its bodies to the engine.
            ran = [e for e, count in result["nodes"].items() if count and e != "runtime"]
            if len(ran) == 1:
                entry["alone"][ran[0]] += 1
    lines = {
        "engines": engines,
        "onnx": onnx.__version__,
        "summary": summary,
        "operators": {op: ops[op] for op in sorted(ops)},
        "not_passed": {
            key: f"{result['status']}: {reason_class(result['reason'].split(';')[0])}"
            for key, result in results.items()
            if result["status"] != "pass"
        },
    }
    parts = []
    for name, value in lines.items():
        if name in ("operators", "not_passed"):  # one line each
            rows = [f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
            parts.append(f'  "{name}": {{\n' + ",\n".join(rows) + "\n  }")
        else:
            parts.append(f'  "{name}": {json.dumps(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("engines", nargs="?", help="engines in order of priority: openvino,native")
    parser.add_argument("--device", default="cpu", help="of the engines (default: %(default)s)")
    parser.add_argument("--baseline", choices=BASELINES, help="run a peer instead of our engines")
    parser.add_argument("--runner", metavar="FILE.py:CLASS", help=argparse.SUPPRESS)
    parser.add_argument("--kind", default=",".join(KINDS), help="test kinds (default: %(default)s)")
    parser.add_argument("-k", dest="pattern", metavar="REGEX", help="tests whose name matches")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one test")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all results as JSON")
    parser.add_argument("--ops", action="store_true", help="print a table of operators")
    parser.add_argument("-v", "--verbose", action="store_true", help="print each reason")
    parser.add_argument(
        "--least", type=int, default=1, metavar="N", help="hide reasons of fewer than N tests"
    )
    parser.add_argument(
        "--check", action="store_true", help="fail below the floors in expectations.json"
    )
    parser.add_argument(
        "--update", action="store_true", help="write this run's counts as the new floors"
    )
    parser.add_argument(
        "--record", action="store_true", help="write this run's counts to docs/conformance"
    )
    options = parser.parse_args()
    if (options.engines is None) == (options.baseline is None):
        parser.error("name engines, or a peer with --baseline")
    if options.device != "cpu":
        os.environ[DEVICE] = options.device  # for the workers
        if options.check or options.update or options.record:
            parser.error("floors and records are the CPU's: not with --device")
    kinds = options.kind.split(",")
    if not set(kinds) <= set(KINDS):
        parser.error(f"--kind: choose from {', '.join(KINDS)}")
    cases = load_cases(kinds)
    if options.pattern:
        cases = [case for case in cases if re.search(options.pattern, case.name)]
    if not cases:
        parser.error(f"no test matches {options.pattern!r}")

    title = options.baseline or options.engines
    engines = options.engines.split(",") if options.engines else []
    runner = options.runner or options.baseline or "openxrt"
    start = time.monotonic()
    results = run_tests(cases, [runner, *engines], options.jobs, options.timeout)
    seconds = time.monotonic() - start
    summary = summarize(results)
    report(title, results, summary, options)
    if options.json:
        content = {
            "engines": engines or [title],
            "onnx": onnx.__version__,
            "seconds": round(seconds, 1),
            "summary": summary,
            "operators": operator_table(results),
            "tests": results,
        }
        options.json.write_text(json.dumps(content, indent=1) + "\n")

    floors = json.loads(FLOORS.read_text()) if FLOORS.exists() else {}
    complaints = []
    if options.check:
        if title not in floors:
            parser.error(f"no floors for {title!r} in {FLOORS}; make them with --update")
        complaints = below_floors(floors[title], summary)
        complaints += unexplained(floors["explained"], results)
        for complaint in complaints:
            print(f"not as expected: {complaint}")
    if options.pattern and (options.update or options.record):
        parser.error("--update and --record take whole kinds, not -k")
    if options.record:
        RECORDS.mkdir(exist_ok=True)
        content = record(engines, summary, results)
        (RECORDS / f"{'-'.join(engines)}.json").write_text(content)
    if options.update:
        for what, entries in measured_floors(summary).items():
            if set(kinds) == set(KINDS):
                floors.setdefault(title, {})[what] = entries
            else:
                floors.setdefault(title, {}).setdefault(what, {}).update(entries)
        FLOORS.write_text(json.dumps(floors, indent=2, sort_keys=True) + "\n")
    print(f"{seconds:.1f} s")
    print(
        f"{summary['passed']} passed, {summary['failed']} failed, {summary['unsupported']} skipped"
    )
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
