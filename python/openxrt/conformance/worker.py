# SPDX-License-Identifier: Apache-2.0
"""Runs cases on one engine, in a process of its own that may crash or hang.

Started with the engine's description as JSON. A request has `cases`, of one check, or asks for
`ops`; the answer has one result per case.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import openxrt

from .checks import CHECKS, Case, Run
from .pool import Answer, Request, first_lines, serve
from .subject import Failed, Skipped, Subject


def result_of(run: Run, error: Exception | None) -> dict[str, Any]:
    """What a case came to."""
    result = {"status": "passed", "reason": "", "check": run.case.check, "types": run.types}
    if error is None:
        return result
    if isinstance(error, Skipped):
        return result | {"status": "skipped", "reason": first_lines(str(error))}
    check = getattr(error, "check", "") or run.case.check
    known = isinstance(error, Failed)
    reason = str(error) if known else f"{type(error).__name__}: {error}"
    return result | {"status": "failed", "reason": first_lines(reason), "check": check}


def run_cases(subject: Subject, cases: list[Case], seed: int) -> list[dict[str, Any]]:
    """The results of cases of one check."""
    check = CHECKS[cases[0].check]
    runs = [Run(subject, case, seed) for case in cases]
    started = time.monotonic()
    errors: list[Exception | None] = []
    if check.run_batch is not None:
        errors = check.run_batch(runs)
    else:
        for run in runs:
            try:
                check.run(run)
                errors.append(None)
            except Exception as error:  # every error of a case is that case's result
                errors.append(error)
    seconds = round((time.monotonic() - started) / len(runs), 4)
    return [
        result_of(run, error) | {"seconds": seconds}
        for run, error in zip(runs, errors, strict=True)
    ]


def main() -> None:
    """Serves requests until standard input ends."""
    description = json.loads(sys.argv[1])

    def start() -> Any:
        subject = Subject(**description)
        ops: list[str] = []

        def answer(request: Request) -> Answer:
            if "cases" not in request:
                try:
                    ops[:] = openxrt.engine_ops(subject.name)
                except openxrt.Error as error:
                    return {"error": str(error)}
                return {"ops": ops}
            cases = [Case(**case) for case in request["cases"]]
            return {"results": run_cases(subject, cases, request["seed"])}

        return answer

    serve(start)


if __name__ == "__main__":
    main()
