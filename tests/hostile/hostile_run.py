#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs hostile models and tensors on engines, each batch in worker processes with bounds on
time and memory, and reports how each ended.

./dev fuzz hostile --all --record --json report.json
./dev fuzz hostile --engines openvino --kinds model,node --share 0.1 --seed 7
./dev fuzz hostile --all --slice 3/10 --engines native
./dev fuzz hostile --engines xla --only tensor:1234
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from hostile_page import BAD, write_page
from openxrt.conformance.judge import reason_class
from openxrt.conformance.pool import WorkerLost, run_all
from small_models import usable

ENGINES = ["native", "openvino", "xla", "onnxruntime"]
SECONDS = 60
BOUND = 2 << 30
BATCH = 400  # cases of a worker: what libraries keep of each adds up
OVER_BOUND = 77  # as in hostile_worker.py
ALL = {"model": 1000, "tensor": 5000, "node": 2000, "costly": 300, "file": 600}
ALL |= {"caller": 200, "limit": 1200, "mixed": 600, "sizes": 1500, "contributed": 3000}
# glibc's own checks of the heap: who writes outside of its memory is found by the next that frees.
HEAP_CHECKS = "libc_malloc_debug.so.0"
TOLD = set(BAD)  # with an example of each reason


def has_heap_checks() -> bool:
    """Whether this machine's C library has them; another allocator or a sanitizer has its own."""
    if "LD_PRELOAD" in os.environ:
        return False
    try:
        ctypes.CDLL(HEAP_CHECKS)
    except OSError:
        return False
    return True


def lost(_: dict[str, Any], loss: WorkerLost) -> dict[str, Any]:
    """The answer of a case that took its worker along."""
    kind = "memory" if f"exit status {OVER_BOUND}" in str(loss) else loss.kind
    return {"case": "", "outcome": kind, "text": str(loss)}


def run_engine(
    engine: str,
    requests: list[dict[str, Any]],
    *,
    jobs: int,
    seconds: float,
    bound: int,
    end: float = float("inf"),
) -> list[dict[str, Any]]:
    """The answers, each with what it answers. Cases that would begin after `end` are left out."""
    command = [sys.executable, str(Path(__file__).parent / "hostile_worker.py"), engine, str(bound)]
    here = Path(__file__).parent
    paths = [str(here), str(here.parent / "support"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "XRT_CACHE_DIR": "", "PYTHONPATH": os.pathsep.join(paths)}
    if has_heap_checks():
        environment |= {"LD_PRELOAD": HEAP_CHECKS, "MALLOC_CHECK_": "3"}
    late = {"case": "", "outcome": "left out", "text": ""}

    def skip(_: dict[str, Any]) -> dict[str, Any] | None:
        return late if time.monotonic() > end else None

    answers = []
    for at in range(0, len(requests), BATCH):
        batch = requests[at : at + BATCH]
        answers += run_all(
            batch, command, environment, jobs=jobs, seconds=seconds, lost=lost, skip=skip
        )
    return [
        {"engine": engine, **request, **answer}
        for request, answer in zip(requests, answers, strict=True)
    ]


def make_requests(counts: dict[str, int], seed: int) -> list[dict[str, Any]]:
    """One per case."""
    return [
        {"kind": kind, "index": index, "seed": seed}
        for kind, count in counts.items()
        for index in range(count)
    ]


def part(requests: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """The i-th of n equal parts, "i/n"; i counts from 1."""
    number, _, count = text.partition("/")
    first, parts = int(number) - 1, int(count)
    return requests[len(requests) * first // parts : len(requests) * (first + 1) // parts]


def summary(answers: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Counts of outcomes by engine."""
    counts: dict[str, collections.Counter[str]] = {}
    for answer in answers:
        counts.setdefault(answer["engine"], collections.Counter())[answer["outcome"]] += 1
    return {engine: dict(sorted(counter.items())) for engine, counter in counts.items()}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", default=",".join(ENGINES), help="names, by commas")
    parser.add_argument("--kinds", default=",".join(ALL), help="of cases, by commas")
    parser.add_argument("--share", type=float, default=0.12, help="of all cases that run")
    parser.add_argument("--all", action="store_true", help=f"all cases: {ALL}")
    parser.add_argument("--slice", default="1/1", help="a part of the cases, for example 2/7")
    parser.add_argument("--only", help="one case, for example tensor:17")
    parser.add_argument("--budget", type=float, help="seconds per engine; cases in random order")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of a case")
    parser.add_argument("--bound", type=int, default=BOUND, help="bytes that a case may take")
    parser.add_argument("--json", type=Path, help="where all answers go")
    parser.add_argument("--record", action="store_true", help="write docs/background/hostile.md")
    arguments = parser.parse_args()
    share = 1.0 if arguments.all else arguments.share
    counts = {kind: int(ALL[kind] * share) for kind in arguments.kinds.split(",")}
    requests = part(make_requests(counts, arguments.seed), arguments.slice)
    if arguments.only:
        kind, _, index = arguments.only.partition(":")
        requests = [{"kind": kind, "index": int(index), "seed": arguments.seed}]
    if arguments.budget:
        random.Random(arguments.seed).shuffle(requests)
    answers: list[dict[str, Any]] = []
    for engine in arguments.engines.split(","):
        if not usable(engine):
            print(f"{engine}: not installed", file=sys.stderr)
            continue
        began = time.monotonic()
        answers += run_engine(
            engine,
            requests,
            jobs=arguments.jobs,
            seconds=arguments.seconds,
            bound=arguments.bound,
            end=began + arguments.budget if arguments.budget else float("inf"),
        )
        print(f"{engine}: {len(requests)} cases in {time.monotonic() - began:.0f} s", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(answers, indent=0))
    if arguments.record:
        write_page(answers)
    classes: dict[tuple[str, str, str], list[str]] = {}
    for answer in answers:
        if answer["outcome"] not in TOLD:
            continue
        key = (answer["engine"], answer["outcome"], reason_class(answer["text"]))
        where = f"{answer['kind']}:{answer['index']} {answer['case']}"
        classes.setdefault(key, []).append(where)
    for (engine, outcome, reason), where in sorted(classes.items()):
        print(f"{engine} {outcome} {len(where)}x [{', '.join(where[:3])}] {reason}")
    for engine, counts in summary(answers).items():
        print(f"{engine}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    return 1 if any(answer["outcome"] in BAD for answer in answers) else 0


if __name__ == "__main__":
    sys.exit(main())
