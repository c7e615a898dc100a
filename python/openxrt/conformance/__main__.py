# SPDX-License-Identifier: Apache-2.0
"""`xrt conformance`: checks of an engine, of the tree or not, in C++ or in Python.

    xrt conformance --engine native
    xrt conformance --engine mine --engine-path build/            libxrt_engine_mine.so, or mine.py
    xrt conformance --engine mine --check sizes --check constants -k MatMul
    xrt conformance --list

Judges by the test data of the onnx package and by the native engine; native itself by NumPy. Each
case runs in a worker process: one that crashes or hangs is reported as such. Exit code 0 when every
check passes, 1 when one fails, 2 for a wrong command line, 3 where the engine cannot be loaded.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path

from .._core import Error, write_output_file


def parser() -> argparse.ArgumentParser:
    """The command line."""
    words = argparse.ArgumentParser(
        prog="xrt conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words.add_argument("-e", "--engine", metavar="NAME", help="the engine under test")
    words.add_argument(
        "--engine-path",
        metavar="PATH",
        default="",
        help="where it is: a folder with libxrt_engine_NAME.so or NAME.py, or such a file",
    )
    words.add_argument("--device", default="cpu", help="of the engine (default: %(default)s)")
    words.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the engine's own (repeatable)",
    )
    words.add_argument(
        "-k", dest="pattern", default="", metavar="REGEX", help="only cases whose name matches"
    )
    words.add_argument(
        "--check", action="append", metavar="NAME", help="only this check (repeatable)"
    )
    words.add_argument("--json", metavar="FILE", type=Path, help="write all results as JSON")
    words.add_argument(
        "--list", action="store_true", help="list the checks, or the cases of an engine"
    )
    words.add_argument("--seed", type=int, default=0, help="of generated inputs (default: 0)")
    words.add_argument(
        "--jobs", type=int, default=0, metavar="N", help="worker processes; 0: one per processor"
    )
    words.add_argument(
        "--timeout", type=float, default=60.0, metavar="S", help="seconds for one case"
    )
    words.add_argument("-v", "--verbose", action="store_true", help="print every failing case")
    return words


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    words = parser()
    given = words.parse_args(arguments)
    try:
        from .checks import CHECKS, ORDER
        from .driver import Engine, EngineUnavailable, choose_cases, conformance
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        print(
            "xrt conformance: the test data come with the package onnx: "
            "pip install 'openxrt[onnx]'",
            file=sys.stderr,
        )
        return 1
    checks = given.check or list(ORDER)
    if unknown := [name for name in checks if name not in CHECKS]:
        words.error(f"there is no check {unknown[0]!r}; there are {', '.join(ORDER)}")
    try:
        re.compile(given.pattern)
    except re.error as error:
        words.error(f"-k {given.pattern!r}: {error}")
    options = {}
    for option in given.option:
        key, equals, value = option.partition("=")
        if not equals or not key:
            words.error(f"--option {option!r}: give KEY=VALUE")
        options[key] = value
    if given.engine_path and not Path(given.engine_path).exists():
        words.error(f"--engine-path {given.engine_path!r} does not exist")
    if given.list and not given.engine:
        for name in checks:
            print(f"{name:<16}{CHECKS[name].text}")
        return 0
    if not given.engine:
        words.error("name an engine with --engine")
    engine = Engine(given.engine, given.engine_path, given.device, options)
    try:
        if given.list:
            worker, ops = engine.start(given.timeout)
            worker.stop()
            for case in choose_cases(ops, checks, given.pattern):
                print(case.name)
            return 0
        report = conformance(
            engine,
            checks=checks,
            pattern=given.pattern,
            seed=given.seed,
            jobs=given.jobs,
            timeout_s=given.timeout,
        )
    except EngineUnavailable as error:
        print(f"xrt conformance: {error}", file=sys.stderr)
        return 3
    if not report.results:
        words.error(f"no case matches -k {given.pattern!r}")
    written = True
    if given.json:
        try:
            write_output_file(given.json, (json.dumps(report.to_json(), indent=1) + "\n").encode())
        except Error as error:
            print(f"xrt conformance: {error}", file=sys.stderr)
            written = False
    print(report.text(given.verbose))
    return 1 if report.failed_checks() or not written else 0


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # as `head` leaves it: not an error worth a traceback
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
