# SPDX-License-Identifier: Apache-2.0
"""Runs hostile cases one by one in a process of its own, for hostile_run.py.

Started with the engine's name and the bound on memory in bytes; requests name a case. The answer
says how it ended: "result", "error" (one of ours), "internal" (InternalError, or an exception that
is none of ours), "differs" (another result than native's), "lax" (a result where native has an
error), "explained" (one of these two, which a row of hostile_known.py explains). A process that
takes more memory than the bound ends with status OVER_BOUND.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openxrt
from hostile_cases import HostileCase, make_case, seeds
from hostile_known import explanation, ops_of
from openxrt.conformance.judge import difference, loosest_tolerance
from openxrt.conformance.pool import first_lines, serve

TOLERANCE = 2e-3  # of the largest magnitude: rounding explains no more for ops of these sizes


OVER_BOUND = 77
# What the owner of the process allows: an eighth of what the process may take, for engines that
# allocate outputs themselves hold those a second time, and a part of the time.
DEADLINE = 5
MOST = 1 << 28
# Of addresses, beyond what libraries reserve and never touch; threads reserve more of them.
RESERVED = (os.cpu_count() or 1) * (8 << 30)


def resident_bytes() -> int:
    """The memory that the process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def watch(bound: int) -> None:
    """Ends the process when it has more memory."""
    while resident_bytes() <= bound:
        time.sleep(0.02)
    os._exit(OVER_BOUND)


def write_files(case: HostileCase, folder: Path) -> Path:
    """The model as a file, with those beside it."""
    for name, content in (case.files or {}).items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if content is None:
            os.mkfifo(path)
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)
    model = folder / "model.onnx"
    model.write_bytes(case.model)
    return model


def outcomes(case: HostileCase, engines: list[str]) -> list[tuple[str, Any]]:
    """Of loading, if that fails, else of each run: ("result", values) or (kind, message)."""
    found: list[tuple[str, Any]] = []

    def attempt(action: Callable[[], Any]) -> Any:
        try:
            value = action()
        except openxrt.InternalError as error:
            found.append(("internal", str(error)))
        except openxrt.Error as error:
            found.append(("error", str(error)))
        except MemoryError:
            found.append(("error", "out of memory"))
        except Exception as error:  # what is none of ours is what is looked for
            found.append(("internal", f"{type(error).__name__}: {error}"))
        else:
            return value
        return None

    options = {
        "engines": engines,
        "num_threads": 1,
        "deadline_s": DEADLINE,
        "max_memory_bytes": MOST,
        "max_specializations": 1,  # the second set of sizes is run by a plan that leaves them open
    }
    with tempfile.TemporaryDirectory() as folder:
        source = case.model if case.files is None else write_files(case, Path(folder))
        program = attempt(lambda: openxrt.load(source, **options))
    if program is None:
        return found
    for feeds, out in case.runs:
        results = attempt(lambda feeds=feeds, out=out: program.run(feeds, out=out))
        if results is not None:
            values = results.values() if isinstance(results, dict) else results
            found.append(("result", list(values)))
    return found


def is_random(case: HostileCase) -> bool:
    """Whether engines may give different numbers."""
    ops = {case.name, *ops_of(case.model)}
    return any(
        word in op.lower()
        for op in ops
        for word in ("bernoulli", "random", "multinomial", "dropout")
    )


def judged(
    engine: str, case: HostileCase, ours: list[tuple[str, Any]], native: list[tuple[str, Any]]
) -> tuple[str, str]:
    """How the case ended, and the message of the worst of its runs."""
    for kind, text in ours:
        if kind == "internal":
            return "internal", text
    found: list[tuple[str, str]] = []
    for run, (kind, value), (kind_of_native, expected) in zip(
        range(len(ours)), ours, native, strict=False
    ):
        if kind != "result":
            continue
        if kind_of_native == "error" and len(ours) == len(native):
            found.append(("lax", str(expected)))  # a result where native says what is wrong
        elif kind_of_native == "result":
            try:
                reason = difference(
                    expected, value, max(TOLERANCE, loosest_tolerance(half_floats(expected)))
                )
            except MemoryError:  # both are large, and comparing them makes more
                continue
            if not reason:
                continue
            found.append(("differs", reason))
        else:
            continue
        why = explanation(engine, case, run, found[-1], expected, value)
        if why:
            found[-1] = ("explained", f"{why} | {found[-1][1]}")
    for kind in ("differs", "lax", "explained"):
        for outcome, text in found:
            if outcome == kind:
                return outcome, text
    kind, text = ours[-1]
    return kind, text if kind != "result" else ""


def half_floats(values: Any) -> list[Any]:
    """Arrays of less than 32 bits, whose elements are rounded more coarsely than TOLERANCE."""
    return [v for v in values if isinstance(v, np.ndarray) and v.dtype.itemsize < 4]


def start() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Loads the engine; what answers a request."""
    engine, bound = sys.argv[1], int(sys.argv[2])
    os.environ["XRT_LOG"] = "error"
    engines = [engine] if engine == "native" else [engine, "native"]
    warm = make_case("tensor", 0, 0)
    outcomes(warm, engines)
    seeds()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + RESERVED, used + RESERVED))
    threading.Thread(target=watch, args=(resident_bytes() + bound,), daemon=True).start()

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        case = make_case(request["kind"], request["index"], request["seed"])
        with np.errstate(all="ignore"):
            ours = outcomes(case, engines)
            native = []
            if engine != "native" and not is_random(case):  # of a case that nobody wrote into
                again = make_case(request["kind"], request["index"], request["seed"])
                native = outcomes(again, ["native"])
            kind, text = judged(engine, case, ours, native)
        return {"case": case.name, "outcome": kind, "text": first_lines(text, 300)}

    return answer


if __name__ == "__main__":
    serve(start)
