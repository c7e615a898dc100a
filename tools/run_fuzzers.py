#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the libFuzzer programs in build/fuzz/fuzz, each from a corpus of small real models.

python tools/run_fuzzers.py [TARGET] [RUNS]
python tools/run_fuzzers.py --hours 24 --record
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import importlib.util
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"
CRASHES = BUILD / "crashes"
RECORD = ROOT / "docs" / "background" / "fuzzing.json"
PAGE = ROOT / "docs" / "background" / "fuzzing.md"
# Larger files make few mutations a second and find nothing that small ones do not.
SEED_BYTES = 20_000
SEED_COUNT = 400
# Of one turn of a target where time is shared, so that every target has some of it early.
TURN_SECONDS = 300
MEMORY_MB = 2000


@dataclasses.dataclass
class Outcome:
    """What turns of one target came to."""

    executions: int = 0
    processor_seconds: float = 0
    crashes: int = 0
    corpus: int = 0  # files at the end

    def add(self, other: Outcome) -> None:
        """Another turn."""
        self.executions += other.executions
        self.processor_seconds = round(self.processor_seconds + other.processor_seconds, 1)
        self.crashes += other.crashes
        self.corpus = other.corpus


def collect_seeds(target: str) -> Path:
    """The corpus folder of a target: tests/fuzz/corpus/<target>, and small models of onnx."""
    corpus = BUILD / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    own = ROOT / "tests" / "fuzz" / "corpus" / target
    if own.is_dir():
        for file in sorted(own.iterdir()):
            shutil.copy(file, corpus / file.name)
    if target == "read_flat":  # what to change, and the text of a graph
        for file in sorted((own.parent / "parse_graph").iterdir()):
            (corpus / file.name).write_bytes(bytes(8) + file.read_bytes())
    if target == "import_oneflow":  # jobs with gradients and updates
        for file in sorted((ROOT / "tests" / "frontends" / "oneflow" / "data").glob("*.mlir.gz")):
            (corpus / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
    spec = importlib.util.find_spec("onnx")
    if "model" in target and spec is not None and spec.submodule_search_locations:
        data = Path(next(iter(spec.submodule_search_locations))) / "backend" / "test" / "data"
        models = [f for f in sorted(data.rglob("*.onnx")) if f.stat().st_size <= SEED_BYTES]
        step = max(1, len(models) // SEED_COUNT)
        for file in models[::step]:
            name = "-".join(file.relative_to(data).parts[-2:])
            shutil.copy(file, corpus / name)
    return corpus


def run_program(program: Path, limit: list[str], seed: int) -> Outcome:
    """One turn. The input of a crash lies in CRASHES, and its report is printed."""
    corpus = collect_seeds(program.name)
    command = [
        str(program),
        *limit,
        f"-artifact_prefix={CRASHES}/{program.name}-",
        "-timeout=25",
        f"-rss_limit_mb={MEMORY_MB}",
        "-malloc_limit_mb=1024",
        "-max_len=65536",
        "-print_final_stats=1",
        "-verbosity=0",
        "-print_funcs=0",
        f"-seed={seed}",
        str(corpus),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = done.stdout.decode(errors="replace").splitlines()
    if done.returncode != 0:
        print("\n".join(lines[-200:]), flush=True)
    counted = [re.search(r"number_of_executed_units: *(\d+)", line) for line in lines]
    return Outcome(
        executions=sum(int(found.group(1)) for found in counted if found),
        processor_seconds=round(
            after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, 1
        ),
        crashes=int(done.returncode != 0),
        corpus=len(list(corpus.iterdir())),
    )


def told(name: str, outcome: Outcome) -> str:
    """A line of the report."""
    return (
        f"{name}: {outcome.executions} executions, {outcome.processor_seconds:.0f} s, "
        f"{outcome.crashes} crashes, {outcome.corpus} files"
    )


def run_for(programs: list[Path], hours: float, record: bool) -> bool:
    """Turns of all targets until `hours` of processor time are spent; whether none crashed."""
    totals = {program.name: Outcome() for program in programs}
    turn = min(TURN_SECONDS, max(1, int(hours * 3600 / len(programs))))
    sound, number = True, 1
    while sum(outcome.processor_seconds for outcome in totals.values()) < hours * 3600:
        for program in programs:
            outcome = run_program(program, [f"-max_total_time={turn}"], number)
            totals[program.name].add(outcome)
            sound = sound and outcome.crashes == 0
            print(told(program.name, totals[program.name]), flush=True)
            if record:
                keep({program.name: outcome})
            if sum(o.processor_seconds for o in totals.values()) >= hours * 3600:
                break
        number += 1
    return sound


def keep(turns: dict[str, Outcome]) -> None:
    """Adds turns to docs/background/fuzzing.json, of the source as it is, and writes its page."""
    revision = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD:src"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    kept = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if kept.get("source") != revision:  # what was said of other code says nothing of this one
        kept = {"source": revision, "targets": {}}
    for name, turn in turns.items():
        total = Outcome(**kept["targets"].get(name, {}))
        total.add(turn)
        kept["targets"][name] = dataclasses.asdict(total)
    RECORD.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(kept))


def page(kept: dict) -> str:
    """The page of docs that shows the record."""
    rows = [
        f"| `{name}` | {row['executions']:,} | {row['processor_seconds']:,.0f} "
        f"| {row['crashes']} | {row['corpus']:,} |"
        for name, row in sorted(kept["targets"].items())
    ]
    seconds = sum(row["processor_seconds"] for row in kept["targets"].values())
    return "\n".join(
        [
            "# Fuzzing",
            "",
            "    ./dev fuzz --hours 24 --record",
            "",
            "The command builds the libFuzzer programs of `tests/fuzz` with AddressSanitizer and",
            "UndefinedBehaviorSanitizer, and gives each of them turns until the hours of processor",
            "time are spent. It writes this page. Leaks, and inputs that take 25 s or",
            f"{MEMORY_MB:,} MB count as crashes.",
            "",
            f"On the source with the tree hash `{kept['source']}`, {seconds / 3600:.2f} hours:",
            "",
            "| target | executions | processor seconds | crashes | files in the corpus |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
            "The other tests with hostile input are listed in `SECURITY.md`.",
            "",
        ]
    )


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", nargs="?", help="one program (default: all)")
    parser.add_argument("runs", nargs="?", type=int, default=10_000)
    parser.add_argument("--hours", type=float, help="of processor time, shared by the targets")
    parser.add_argument("--record", action="store_true", help="keep counts in docs, with --hours")
    arguments = parser.parse_args()

    programs = sorted(
        p for p in (BUILD / "fuzz").glob("*") if os.access(p, os.X_OK) and p.is_file()
    )
    if arguments.target:
        programs = [p for p in programs if p.name == arguments.target]
    if not programs:
        print(f"no fuzz program {arguments.target or ''} in {BUILD / 'fuzz'}", file=sys.stderr)
        return 2
    CRASHES.mkdir(parents=True, exist_ok=True)
    if arguments.hours:
        if run_for(programs, arguments.hours, arguments.record):
            return 0
        print(f"the inputs that crashed are in {CRASHES}")
        return 1
    failed = []
    for program in programs:
        # libFuzzer counts the reading of the seeds as runs; the mutations come on top.
        seeds = len(list(collect_seeds(program.name).iterdir()))
        print(f"==> {program.name}: {arguments.runs} mutations of {seeds} files", flush=True)
        outcome = run_program(program, [f"-runs={arguments.runs + seeds}"], 1)
        if outcome.crashes:
            failed.append(program.name)
        else:
            print(told(program.name, outcome), flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}; the inputs are in {CRASHES}")
        return 1
    print("no crash")
    return 0


if __name__ == "__main__":
    sys.exit(main())
