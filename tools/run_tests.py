#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs test suites and ends with the sum of all of them: ``N passed, N failed, N skipped``.

A suite is ``python`` (pytest over tests/), ``wheel`` (pytest over what tests a wheel), ``fuzz`` (a
minute of each program in build/asan/fuzz, which is a test) or the name of a CMake preset, whose
CTest programs are run; each is a GoogleTest program and counts by its single tests. A program that
crashes or runs out of time counts as one failure more. Before the sum stand the tests that were
skipped, by reason, and those that failed.

    python tools/run_tests.py release python asan fuzz
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FUZZ_SECONDS = 60  # of each target
# Their processes are killed, stopped and limited in the midst of work: nothing runs beside them.
ALONE = ("tests/faults", "tests/isolation")


@dataclass
class Result:
    """Counts of one program or suite."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    skips: list[tuple[str, str]] = field(default_factory=list)  # the reason, the test

    def add(self, other: Result) -> None:
        """Adds another result to this one."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures
        self.skips += other.skips

    def summary(self) -> str:
        """The closing line."""
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def skip_reason(case: ElementTree.Element) -> str:
    """Why a case was skipped, on one line: as pytest and GoogleTest tell it."""
    skipped = case.find("skipped")
    told = "" if skipped is None else skipped.get("message") or skipped.text or ""
    # GoogleTest begins with "file:line"; GTEST_SKIP() may have nothing after it.
    lines = [line for line in told.strip().splitlines() if not re.fullmatch(r"\S+:\d+", line)]
    return lines[0].strip() if lines else "no reason given"


def skip_lines(skips: list[tuple[str, str]]) -> list[str]:
    """The skipped tests by reason; the cases of a parametrised test are one, with their number."""
    by_reason: dict[str, dict[str, int]] = {}
    for reason, name in skips:
        # pytest's test[case]; GoogleTest's Prefix/Suite.Test/case.
        test = re.sub(r"\[.*\]$|/[^/. ]+$", "", name)
        tests = by_reason.setdefault(reason, {})
        tests[test] = tests.get(test, 0) + 1
    lines = []
    for reason, tests in by_reason.items():
        lines.append(f"  {reason} ({sum(tests.values())}):")
        lines += [f"    {test}" + (f" ({n} cases)" if n > 1 else "") for test, n in tests.items()]
    return lines


def read_junit(path: Path, prefix: str) -> Result:
    """Counts the cases of a JUnit file, as GoogleTest and pytest write it."""
    result = Result()
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{prefix}{case.get('classname', '')}.{case.get('name', '')}"
        if case.find("failure") is not None or case.find("error") is not None:
            result.failed += 1
            result.failures.append(name)
        elif case.find("skipped") is not None or case.get("result") == "skipped":
            result.skipped += 1
            result.skips.append((skip_reason(case), name))
        elif case.get("status") != "notrun":
            result.passed += 1
    return result


def read_fuzz(path: Path) -> Result:
    """Counts the targets of a report of tools/run_fuzzers.py; one that ran nothing has failed."""
    result = Result()
    for name, row in json.loads(path.read_text())["targets"].items():
        if row["crashes"] == 0 and row["executions"] > 0:
            result.passed += 1
        else:
            result.failed += 1
            result.failures.append(f"fuzz: {name}")
    return result


@dataclass(frozen=True)
class Program:
    """One CTest entry."""

    name: str
    command: list[str]
    timeout_s: float
    environment: dict[str, str]


def ctest_programs(preset: str) -> list[Program]:
    """The programs that CTest knows in build/<preset>."""
    answer = subprocess.run(
        ["ctest", "--show-only=json-v1"],
        cwd=ROOT / "build" / preset,
        check=True,
        capture_output=True,
        text=True,
    )
    programs = []
    for test in json.loads(answer.stdout)["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        environment = dict(entry.split("=", 1) for entry in properties.get("ENVIRONMENT", []))
        programs.append(
            Program(
                test["name"],
                test["command"],
                float(properties.get("TIMEOUT", 300)),
                environment,
            )
        )
    return programs


def sanitizer_environment(preset: str) -> dict[str, str]:
    """Options of the sanitizers' runtimes."""
    suppressions = ROOT / "tools" / "sanitizers"
    return {
        "asan": {
            "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
            "LSAN_OPTIONS": f"suppressions={suppressions / 'lsan.txt'}:print_suppressions=0",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        },
        "tsan": {
            # Tests fork, and their children start threads.
            "TSAN_OPTIONS": f"suppressions={suppressions / 'tsan.txt'}:halt_on_error=0:exitcode=66"
            ":die_after_fork=0"
        },
    }.get(preset, {})


# To look for leaks the sanitizer stops all threads, and now and then fails at that itself, which
# says nothing about the program.
LEAK_SEARCH_FAILED = "LeakSanitizer has encountered a fatal error"


def run_program(
    preset: str, program: Program, test_filter: str, folder: Path, *, attempt: int = 1
) -> Result:
    """Runs one GoogleTest program; prints its output only when it fails.

    Where the search for leaks failed, it runs a second time, and a third time without that search.
    """
    report = folder / f"{preset}-{program.name}.xml"
    command = [*program.command, f"--gtest_output=xml:{report}", "--gtest_brief=1"]
    if test_filter and test_filter.lower() not in program.name.lower():
        command.append(f"--gtest_filter=*{test_filter}*")
    environment = {**os.environ, **program.environment, **sanitizer_environment(preset)}
    if attempt == 3:
        environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    start = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=program.timeout_s * (4 if sanitizer_environment(preset) else 1),
            check=False,
        )
        output, status = done.stdout.decode(errors="replace"), f"exit status {done.returncode}"
        clean = done.returncode == 0
        if LEAK_SEARCH_FAILED in output and attempt < 3:
            without = ", without that search" if attempt == 2 else ""
            said = f"{LEAK_SEARCH_FAILED}: once more{without}"
            print(f"[{preset}] {program.name}: {said}", flush=True)
            return run_program(preset, program, test_filter, folder, attempt=attempt + 1)
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace")
        status, clean = f"no end after {error.timeout:.0f} s", False
    prefix = f"{preset}: {program.name}: "
    result = read_junit(report, prefix) if report.exists() else Result()
    if not clean and not result.failed:
        result.failed += 1
        result.failures.append(f"{prefix}{status}")
    seconds = time.monotonic() - start
    text = f"[{preset}] {program.name}: {result.summary()} ({seconds:.1f} s)"
    if not clean:
        text += f", {status}\n{output[-20000:]}"
    print(text, flush=True)
    return result


def run_cpp(preset: str, test_filter: str, jobs: int, folder: Path) -> Result:
    """Runs all programs of a preset, `jobs` at a time."""
    programs = ctest_programs(preset)
    total = Result()
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for result in pool.map(
            lambda program: run_program(preset, program, test_filter, folder), programs
        ):
            total.add(result)
    return total


def shares(count: int) -> list[list[str]]:
    """The folders of tests/ but ALONE in so many lists, of about the same length together."""
    folders = {
        path: sum(file.stat().st_size for file in path.rglob("test_*.py"))
        for path in (ROOT / "tests").iterdir()
        if path.is_dir() and f"tests/{path.name}" not in ALONE
    }
    lists: list[list[str]] = [[] for _ in range(count)]
    sizes = [0] * count
    for path, size in sorted(folders.items(), key=lambda item: (-item[1], item[0])):
        if size > 0:
            least = sizes.index(min(sizes))
            lists[least].append(str(path.relative_to(ROOT)))
            sizes[least] += size
    return [sorted(names) for names in lists if names]


def run_pytest(suite: str, test_filter: str, jobs: int, folder: Path) -> Result:
    """Runs pytest over tests/, in as many processes as jobs, or over the tests of a wheel."""
    environment = dict(os.environ)
    parts = [*shares(jobs), list(ALONE)]
    if suite == "wheel":
        parts, environment["XRT_TEST_WHEEL"] = [["tests/packaging/test_wheel.py"]], "1"

    def run(index: int) -> Result:
        """One process; the output of the first is seen as it comes, that of others at their end."""
        report = folder / f"{suite}-{index}.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junit-xml={report}", "--durations=8"]
        command += ["-p", "no:cacheprovider", *(["-k", test_filter] if test_filter else [])]
        seen = None if index in (0, len(parts) - 1) else subprocess.PIPE
        done = subprocess.run(
            [*command, *parts[index]],
            cwd=ROOT,
            env=environment,
            stdout=seen,
            stderr=subprocess.STDOUT if seen else None,
            check=False,
        )
        if seen:
            print(done.stdout.decode(errors="replace"), flush=True)
        result = read_junit(report, f"{suite}: ") if report.exists() else Result()
        nothing_collected = 5
        if done.returncode not in (0, nothing_collected) and not result.failed:
            result.failed += 1
            result.failures.append(f"{suite}: pytest ended with status {done.returncode}")
        return result

    total = Result()
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for result in pool.map(run, range(len(parts) - 1)):
            total.add(result)
    total.add(run(len(parts) - 1))
    return total


def run_fuzz(test_filter: str, jobs: int, folder: Path) -> Result:
    """Runs the fuzzers of the asan build, `jobs` at a time; one that crashes has failed."""
    report = folder / "fuzz.json"
    command = [sys.executable, "tools/run_fuzzers.py", "--build", "build/asan"]
    command += ["--json", str(report)]
    command += [
        "--jobs",
        str(jobs),
        "--seconds",
        str(FUZZ_SECONDS),
        *([test_filter] * bool(test_filter)),
    ]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    result = read_fuzz(report) if report.exists() else Result()
    if status != 0 and not result.failed:
        result.failed += 1
        result.failures.append(f"fuzz: run_fuzzers.py ended with status {status}")
    return result


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "suites", nargs="+", help="python, wheel, fuzz, or presets such as release and asan"
    )
    parser.add_argument("--filter", default="", help="part of the names of the tests to run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()

    total = Result()
    with tempfile.TemporaryDirectory(prefix="openxrt-tests-") as name:
        for suite in arguments.suites:
            start = time.monotonic()
            print(f"==> {suite} tests", flush=True)
            if suite in ("python", "wheel"):
                result = run_pytest(suite, arguments.filter, arguments.jobs, Path(name))
            elif suite == "fuzz":
                result = run_fuzz(arguments.filter, arguments.jobs, Path(name))
            else:
                result = run_cpp(suite, arguments.filter, arguments.jobs, Path(name))
            print(f"==> {suite}: {result.summary()} ({time.monotonic() - start:.0f} s)", flush=True)
            total.add(result)
    if not total.passed and not total.failed and not total.skipped:
        print("no test matched", file=sys.stderr)
        total.failed = 1
    if total.skips:
        print("skipped:")
        print("\n".join(skip_lines(total.skips)))
    if total.failures:
        print("failed:")
        for failure in total.failures:
            print(f"  {failure}")
    print(total.summary())
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
