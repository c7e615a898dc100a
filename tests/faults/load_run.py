#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mixed load with faults: many threads load, run and drop programs of several engines while
workers are killed, the cache is damaged, limits come and go and the clock jumps.

./dev fuzz load --minutes 30 --record
./dev fuzz load --minutes 5 --json report.json
./dev fuzz load --minutes 2 --engines native,openvino --seed 7 --clients 8

Every result is compared with ONNX Runtime's. Memory, blocks of the heap that are in use, threads,
descriptors and mappings of the process are sampled; a line is laid through the samples after the
first third (the median of the slopes between all pairs of them), and what it rises by over them may
be no more than a stated part.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from load_faults import Faults
from load_page import IN_BYTES, write_page
from process_growth import rise, sample
from small_models import usable

HERE = Path(__file__).parent
ENGINES = ["native", "openvino", "xla", "onnxruntime"]
CLIENTS = 16
BOUND = 4 << 30  # bytes of the process, lest it takes the machine along
HANG_SECONDS = 120  # of one operation, or without a line of the process
# By what a process may grow after the first third: a part of what it has, and at least a number.
# What engines keep by shape, and threads of theirs for what is first done late, come when they are
# needed; pools that grow with the number of programs are filled before (Load.fill_pools()).
GROWTH = {
    "heap in use": (0.1, 32 << 20),
    "memory": (0.1, 64 << 20),  # resident, after the C library has given free pages back
    "threads": (0, 12),
    "descriptors": (0.05, 8),
    # Code that OpenVINO makes in the heap splits its mapping, page by page. A quarter of what Linux
    # allows a process (vm.max_map_count).
    "mappings": (0, 1 << 14),
}


def growth(samples: list[dict[str, int]]) -> dict[str, dict[str, float]]:
    """By what is sampled: its median after the first third, what it rose by, and what it may."""
    later = samples[len(samples) // 3 :]
    found = {}
    for name, (part, number) in GROWTH.items():
        values = [float(row[name]) for row in later]
        median = statistics.median(values) if values else 0.0
        found[name] = {
            "median": median,
            "rise": rise(values),
            "allowed": max(part * median, float(number)),
        }
    return found


class Run:
    """One load, from start to verdict."""

    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self.arguments = arguments
        self.rows: queue.Queue[dict[str, Any] | None] = queue.Queue()
        engines = [name for name in arguments.engines.split(",") if usable(name)]
        paths = [str(HERE), str(HERE.parent / "support"), os.environ.get("PYTHONPATH", "")]
        self.process = subprocess.Popen(
            [
                sys.executable,
                str(HERE / "load_clients.py"),
                str(folder),
                ",".join(engines),
                str(arguments.seed),
                str(arguments.clients),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "errors.txt").open("w"),
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "XRT_LOG": "error",
                # One heap for all threads. With one for each, what compilers take for a moment is
                # spread over all of them for minutes: that growth would hide a leak.
                "MALLOC_ARENA_MAX": "1",
            },
        )
        self.folder, self.engines = folder, engines
        self.faults = Faults(self.process.pid, folder, random.Random(arguments.seed))
        self.samples: list[dict[str, int]] = []
        self.last: dict[str, Any] = {}
        self.problems: list[str] = []

    def tell(self, line: str) -> None:
        """To the clients; they may be gone."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def read(self) -> None:
        for line in self.process.stdout:
            self.rows.put(json.loads(line))
        self.rows.put(None)

    def take_rows(self, seconds: float) -> bool:
        """What the process says within that time; whether it goes on."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                row = self.rows.get(timeout=left)
            except queue.Empty:
                return True
            if row is None:
                return False
            self.last = row
            if row["slowest"] > HANG_SECONDS:
                self.problems.append(f"hang: {row['what']}")
                return False
            if self.is_too_large():
                self.problems.append(f"memory of more than {BOUND} bytes: {row['what']}")
                self.process.kill()
                return False
        return True

    def run(self) -> None:
        threading.Thread(target=self.read, daemon=True).start()
        if not self.wait_for_start():
            return
        end = time.monotonic() + 60 * self.arguments.minutes
        ended = threading.Event()
        faults = threading.Thread(target=self.inject, args=(ended,), daemon=True)
        faults.start()
        going = True
        while going and time.monotonic() < end:
            going = self.take_rows(self.arguments.sample)
            with contextlib.suppress(OSError):
                held = sample(self.process.pid)
                self.samples.append({"heap in use": self.last["heap"], **held})
        ended.set()
        faults.join()
        self.tell("end")
        while going:
            going = self.take_rows(HANG_SECONDS)
        self.finish()

    def is_too_large(self) -> bool:
        try:
            return sample(self.process.pid)["memory"] > BOUND
        except OSError:  # it is gone
            return False

    def wait_for_start(self) -> bool:
        """Whether the clients begin: no fault is due before."""
        heard = time.monotonic()
        while time.monotonic() < heard + HANG_SECONDS:
            before = self.last
            going = self.take_rows(1)
            if self.last and not self.last.get("starting"):
                return True
            if not going:
                break
            if self.last is not before:
                heard = time.monotonic()
        self.finish()
        return False

    def inject(self, ended: threading.Event) -> None:
        try:
            while not ended.wait(self.faults.chance.uniform(0.2, 2) * self.arguments.pause):
                self.faults.inject(self.tell, ended.wait)
        except Exception as error:  # else the rest would be a load without faults
            self.problems.append(f"no faults any more: {type(error).__name__}: {error}")

    def finish(self) -> None:
        try:
            status = self.process.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
            self.problems.append("hang: the process does not end")
        if status != 0:
            self.problems.append(f"the process ended with {status}")
        self.problems += self.last.get("wrong", [])
        self.problems += [f"hang at the end: {what}" for what in self.last.get("hung", [])]
        for name, found in growth(self.samples).items():
            if found["rise"] > found["allowed"]:
                self.problems.append(f"growth: {name} rose by {found['rise']:.0f}")

    def summary(self) -> str:
        """One line."""
        counts = self.last.get("counts", {})
        right = counts.get("right results", 0)
        errors = sum(number for what, number in counts.items() if what.startswith("errors"))
        held = ", ".join(
            f"{name} {found['median'] / (1 << 20):.0f} MiB {found['rise'] / (1 << 20):+.1f}"
            if name in IN_BYTES
            else f"{name} {found['median']:.0f} {found['rise']:+.1f}"
            for name, found in growth(self.samples).items()
        )
        return (
            f"{self.arguments.minutes:g} minutes, {self.arguments.clients} threads on "
            f"{', '.join(self.engines)}: {right} right results, {errors} errors that were due, "
            f"{sum(self.faults.counts.values())} faults, {len(self.problems)} problems; {held}"
        )

    def report(self) -> dict[str, Any]:
        """All of it."""
        return {
            "summary": self.summary(),
            "counts": self.last.get("counts", {}),
            "faults": self.faults.counts,
            "growth": growth(self.samples),
            "problems": self.problems,
            "samples": self.samples,
        }


def run_load(arguments: argparse.Namespace) -> dict[str, Any]:
    """The report of one load."""
    with tempfile.TemporaryDirectory(prefix="xrt-load-") as name:
        run = Run(arguments, Path(name))
        try:
            run.run()
        finally:
            run.process.kill()
        report = run.report()
        errors = Path(name) / "errors.txt"
        report["errors"] = errors.read_text()[-4000:]
        return report


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--engines", default=",".join(ENGINES), help="names, by commas")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="threads that load and run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=float, default=2, help="seconds between samples")
    parser.add_argument("--pause", type=float, default=1, help="more: fewer faults")
    parser.add_argument("--json", type=Path, help="where the report goes")
    parser.add_argument("--record", action="store_true", help="write docs/background/load.md")
    return parser.parse_args(words)


def main() -> int:
    """Command line."""
    arguments = parse()
    report = run_load(arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    if arguments.record:
        write_page(report)
    for what, number in sorted(report["counts"].items()):
        print(f"{number:9} {what}")
    for what, number in sorted(report["faults"].items()):
        print(f"{number:9} faults: {what}")
    for problem in report["problems"]:
        print(problem)
    if report["errors"]:
        print(report["errors"])
    print(report["summary"])
    return 1 if report["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
