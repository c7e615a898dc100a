# SPDX-License-Identifier: Apache-2.0
"""Runs the checks on an engine in worker processes, and says what they came to."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import onnx

from .checks import CHECKS, ORDER, Case
from .judge import reason_class
from .pool import Answer, Request, Worker, WorkerLost, run_all
from .subject import engine_environment

BATCH = 16  # cases of a check that runs several at once
# A check whose cases crash or hang so often is not gone through to its end.
MOST_LOST = {"crash": 20, "hang": 3}


class EngineUnavailable(Exception):
    """The engine cannot be loaded; the message says why."""


@dataclass(frozen=True)
class Engine:
    """The engine under test, as the command line names it."""

    name: str
    path: str = ""
    device: str = "cpu"
    options: dict[str, str] = field(default_factory=dict)

    def command(self) -> list[str]:
        """What starts a worker."""
        return [sys.executable, "-m", "openxrt.conformance.worker", json.dumps(asdict(self))]

    def environment(self) -> dict[str, str]:
        """The environment of a worker."""
        settings = {"XRT_CACHE_DIR": "", "OMP_NUM_THREADS": "1"}
        return os.environ | settings | engine_environment(self.path)

    def start(self, seconds: float) -> tuple[Worker, list[str]]:
        """A worker, and the ops that the engine lists. Raises EngineUnavailable."""
        try:
            worker = Worker(self.command(), self.environment())
            answer = worker.ask({"ops": True}, seconds)
        except (RuntimeError, WorkerLost) as error:
            raise EngineUnavailable(f"engine '{self.name}' ends its process: {error}") from error
        if "error" in answer:
            worker.stop()
            raise EngineUnavailable(answer["error"])
        return worker, answer["ops"]


def choose_cases(ops: Sequence[str], checks: Sequence[str], pattern: str) -> list[Case]:
    """The cases of these checks whose name matches, in the order of the report."""
    wanted = re.compile(pattern)
    return [
        case
        for name in ORDER
        if name in checks
        for case in CHECKS[name].cases(ops)
        if wanted.search(case.name)
    ]


def run_cases(
    engine: Engine,
    cases: Sequence[Case],
    *,
    seed: int,
    jobs: int,
    seconds: float,
    ready: Worker | None = None,
) -> list[dict[str, Any]]:
    """One result per case: check, name, op, types, status, reason and seconds."""
    requests: list[Request] = []
    for case in cases:
        last = requests[-1]["cases"] if requests else []
        together = CHECKS[case.check].run_batch is not None and 0 < len(last) < BATCH
        if together and last[0]["check"] == case.check:
            last.append(asdict(case))
        else:
            requests.append({"cases": [asdict(case)], "seed": seed})
    losses: Counter[tuple[str, str]] = Counter()
    lock = threading.Lock()

    def lost(request: Request, loss: WorkerLost) -> Answer:
        with lock:
            losses[request["cases"][0]["check"], loss.kind] += 1
        return {"lost": str(loss)}

    def given_up(request: Request) -> Answer | None:
        check = request["cases"][0]["check"]
        with lock:
            for kind, most in MOST_LOST.items():
                if losses[check, kind] >= most:
                    reason = f"not run: {most} cases of this check ended in a {kind}"
                    return {"not_run": reason}
        return None

    answers = run_all(
        requests,
        engine.command(),
        engine.environment(),
        jobs=jobs,
        seconds=seconds,
        lost=lost,
        skip=given_up,
        ready=ready,
    )
    results = []
    for request, answer in zip(requests, answers, strict=True):
        outcomes = answer.get("results")
        if outcomes is None and "lost" in answer and len(request["cases"]) > 1:
            # One of the batch ended the process: each alone says which.
            outcomes = [
                run_cases(engine, [Case(**case)], seed=seed, jobs=1, seconds=seconds)[0]
                for case in request["cases"]
            ]
        for i, case in enumerate(request["cases"]):
            plain = {"name": case["name"], "op": case["op"], "check": case["check"], "types": ""}
            if outcomes is not None:
                results.append(plain | outcomes[i])
            elif "lost" in answer:
                spent = {"seconds": answer.get("seconds", 0.0)}
                results.append(plain | spent | {"status": "failed", "reason": answer["lost"]})
            else:
                nothing = {"status": "skipped", "reason": answer["not_run"], "seconds": 0.0}
                results.append(plain | nothing)
    return results


@dataclass
class Report:
    """The results of a run."""

    engine: Engine
    seed: int
    results: list[dict[str, Any]]
    seconds: float

    def by_check(self) -> dict[str, Counter[str]]:
        """Per check how many cases passed, failed and were skipped."""
        counts: dict[str, Counter[str]] = {}
        for name in ORDER:
            for result in self.results:
                if result["check"] == name:
                    counts.setdefault(name, Counter())[result["status"]] += 1
        return counts

    def failed_checks(self) -> list[str]:
        """Names of the checks that fail."""
        return [name for name, counts in self.by_check().items() if counts["failed"]]

    def again(self, result: dict[str, Any]) -> str:
        """The command that runs one case alone."""
        words = ["xrt conformance --engine", self.engine.name]
        if self.engine.path:
            words += ["--engine-path", _quoted(self.engine.path)]
        if self.engine.device != "cpu":
            words += ["--device", self.engine.device]
        for key, value in self.engine.options.items():
            words += ["--option", _quoted(f"{key}={value}")]
        if self.seed:
            words += ["--seed", str(self.seed)]
        check = result["name"].split("/")[0]
        name = re.sub(r"([.+])", r"\\\1", result["name"])
        return " ".join([*words, "--check", check, "-k", f"'^{name}$'"])

    def to_json(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {
            "engine": asdict(self.engine),
            "onnx": onnx.__version__,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "checks": {
                name: {status: counts[status] for status in ("passed", "failed", "skipped")}
                for name, counts in self.by_check().items()
            },
            "failed_checks": self.failed_checks(),
            "results": [
                result | ({"again": self.again(result)} if result["status"] == "failed" else {})
                for result in self.results
            ],
        }

    def text(self, verbose: bool = False) -> str:
        """For people: a line per check, its first failing case, and why cases are skipped."""
        lines = [
            f"engine {self.engine.name} on {self.engine.device}, onnx {onnx.__version__}, "
            f"seed {self.seed}",
            "",
            f"  {'check':<16}{'passed':>8}{'failed':>8}{'skipped':>9}",
        ]
        checks = self.by_check()
        for name, counts in checks.items():
            lines.append(
                f"  {name:<16}{counts['passed']:>8}{counts['failed']:>8}{counts['skipped']:>9}"
            )
        for name in self.failed_checks():
            failures = [r for r in self.results if r["check"] == name and r["status"] == "failed"]
            lines += ["", f"FAILED {name}: {CHECKS[name].text}"]
            for result in failures if verbose else failures[:1]:
                lines += [
                    f"  {result['name']}: {result['op']}"
                    + (f" on {result['types']}" if result["types"] else "")
                    + f", seed {self.seed}",
                    f"    {result['reason']}",
                    f"    again: {self.again(result)}",
                ]
            if len(failures) > 1 and not verbose:
                others = ", ".join(r["name"].partition("/")[2] for r in failures[1:9])
                lines.append(f"  and {others}{', …' * (len(failures) > 9)}")
        skips = self._skips(3 if not verbose else 50)
        if skips:
            lines += ["", "skipped:", *skips]
        failed = self.failed_checks()
        lines += [
            "",
            f"{self.seconds:.1f} s",
            f"{len(checks) - len(failed)} checks passed, {len(failed)} failed"
            + (f": {', '.join(failed)}" if failed else ""),
        ]
        return "\n".join(lines)

    def _skips(self, most: int) -> list[str]:
        lines = []
        for name in self.by_check():
            groups: dict[str, list[str]] = {}
            for result in self.results:
                if result["check"] == name and result["status"] == "skipped":
                    groups.setdefault(reason_class(result["reason"]), []).append(result["reason"])
            ordered = sorted(groups.values(), key=len, reverse=True)
            for reasons in ordered[:most]:
                lines.append(f"  {name}: {len(reasons)} × {reasons[0][:160]}")
            if len(ordered) > most:
                rest = sum(map(len, ordered[most:]))
                lines.append(f"  {name}: {rest} for {len(ordered) - most} other reasons")
        return lines


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def conformance(
    engine: Engine,
    *,
    checks: Sequence[str] = ORDER,
    pattern: str = "",
    seed: int = 0,
    jobs: int = 0,
    timeout_s: float = 60.0,
) -> Report:
    """Runs checks on an engine. Raises EngineUnavailable where it cannot be loaded."""
    started = time.monotonic()
    worker, ops = engine.start(timeout_s)
    cases = choose_cases(ops, checks, pattern)
    results = run_cases(
        engine, cases, seed=seed, jobs=jobs or os.cpu_count() or 1, seconds=timeout_s, ready=worker
    )
    return Report(engine, seed, results, time.monotonic() - started)
