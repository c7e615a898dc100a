#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the libFuzzer programs in build/fuzz/fuzz, each from a corpus of small real models.

python tools/run_fuzzers.py [TARGET] [RUNS]
python tools/run_fuzzers.py --build build/asan --seconds 60 --jobs 2  # blind mutations; CI
python tools/run_fuzzers.py --hours 24 --jobs 4 --record
python tools/run_fuzzers.py --bundle FOLDER    # what another machine needs; there: FOLDER/run.sh
python tools/run_fuzzers.py --take report.json # what came of it, into the record
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import importlib.util
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "docs" / "background" / "fuzzing.json"
PAGE = ROOT / "docs" / "background" / "fuzzing.md"
# Larger files make few mutations a second and find nothing that small ones do not.
SEED_BYTES = 20_000
SEED_COUNT = 400
HOSTILE_COUNT = 600  # cases of tests/hostile among the seeds of run_model
# Of one turn of a target where time is shared, so that every target has some of it early.
TURN_SECONDS = 120
MEMORY_MB = 2000


# In a bundle: which source it was built from.
SOURCE = "source.txt"
# The libraries of every Linux system whose C library is not older than the builder's.
SYSTEM = re.compile(r"(linux-vdso|ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv)\.so.*")
RUN = """\
#!/bin/sh
# run.sh SECONDS JOBS OUT: all targets, JOBS at a time, for about so many seconds.
# `./dev fuzz --take` reads OUT/report.json; inputs that crashed lie in OUT/crashes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ -d "$here/fuzz" ] || python3 -m tarfile -e "$here/files.tar.xz" "$here"
exec python3 "$here/run_fuzzers.py" --build "$here" --out "$3" --json "$3/report.json" \\
  --jobs "$2" --hours "$(awk "BEGIN { print $1 * $2 / 3600 }")"
"""


@dataclasses.dataclass
class Outcome:
    """What turns of one target came to."""

    executions: int = 0
    processor_seconds: float = 0
    crashes: int = 0
    corpus: int = 0  # files at the end
    edges: int = 0  # of the program's control flow, that were reached
    features: int = 0  # edges with counts, and compared values

    def add(self, other: Outcome) -> None:
        """Another turn."""
        self.executions += other.executions
        self.processor_seconds = round(self.processor_seconds + other.processor_seconds, 1)
        self.crashes += other.crashes
        self.corpus = other.corpus
        self.edges = max(self.edges, other.edges)
        self.features = max(self.features, other.features)


class Fuzzers:
    """The programs of a build or of a bundle, and where their corpora and crashes lie."""

    def __init__(self, build: Path, out: Path, target: str | None, seed: int) -> None:
        found = sorted(
            p for p in (build / "fuzz").glob("*") if p.is_file() and os.access(p, os.X_OK)
        )
        self.programs = [p for p in found if target in (None, p.name)]
        self.build, self.out, self.seed = build, out, seed
        self.crashes = out / "crashes"
        self.crashes.mkdir(parents=True, exist_ok=True)

    def source(self) -> str:
        """The hash of the tree that the programs are built from."""
        note = self.build / SOURCE
        return note.read_text().strip() if note.exists() else tree()

    def corpus(self, target: str) -> Path:
        """The corpus folder of a target, with its seeds."""
        folder = self.out / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        if (self.build / "seeds").is_dir():
            shutil.copytree(self.build / "seeds" / target, folder, dirs_exist_ok=True)
        else:
            collect_seeds(target, folder)
            if target == "run_model" and not any(folder.glob("hostile-*")):
                write_hostile_models(folder, self.seed)
        return folder

    def run(self, program: Path, limit: list[str], seed: int) -> Outcome:
        """One turn. The input of a crash lies in `crashes`, and its report is printed."""
        corpus = self.corpus(program.name)
        command = [
            str(program),
            *limit,
            f"-artifact_prefix={self.crashes}/{program.name}-",
            "-timeout=25",
            f"-rss_limit_mb={MEMORY_MB}",
            "-malloc_limit_mb=1024",
            "-max_len=65536",
            "-print_final_stats=1",
            "-print_funcs=0",
            f"-seed={seed}",
            str(corpus),
        ]
        with tempfile.TemporaryFile() as log:
            # In a bundle, all that the programs need lies there.
            environment = {
                **os.environ,
                "LD_LIBRARY_PATH": str(self.build / "lib"),
                "XRT_LOG": "off",
            }
            process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=environment
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            log.seek(0)
            lines = log.read().decode(errors="replace").splitlines()
        # At the end of a turn LeakSanitizer may fail at threads that are ending: no input did it.
        unlooked = any("LeakSanitizer has encountered a fatal error" in line for line in lines)
        is_crash = process.returncode != 0 and not (unlooked and "number_of_executed" in str(lines))
        if unlooked:
            print(f"{program.name}: LeakSanitizer failed: nobody looked for leaks of this turn")
        if is_crash:
            progress = re.compile(r"#\d+\s")
            print("\n".join([x for x in lines if not progress.match(x)][-200:]), flush=True)
        counted = [re.search(r"number_of_executed_units: *(\d+)", line) for line in lines]
        reached = [re.search(r" cov: (\d+) ft: (\d+)", line) for line in lines]
        return Outcome(
            executions=sum(int(found.group(1)) for found in counted if found),
            processor_seconds=round(usage.ru_utime + usage.ru_stime, 1),
            crashes=int(is_crash),
            corpus=len(list(corpus.iterdir())),
            edges=max((int(found.group(1)) for found in reached if found), default=0),
            features=max((int(found.group(2)) for found in reached if found), default=0),
        )


class Session:
    """Turns of all targets, several at a time, until so much processor time is spent."""

    def __init__(
        self,
        fuzzers: Fuzzers,
        hours: float,
        jobs: int,
        record: bool,
        report: Path | None,
        first_seed: int,
    ) -> None:
        self.fuzzers, self.jobs, self.record, self.report = fuzzers, jobs, record, report
        self.seconds = hours * 3600
        self.lock = threading.Lock()
        self.totals = {program.name: Outcome() for program in fuzzers.programs}
        self.given = dict.fromkeys(self.totals, 0.0)  # to turns that ended or are under way
        self.turns = 0
        self.first_seed = first_seed

    def run(self) -> dict[str, Outcome]:
        """All of it."""
        workers = [threading.Thread(target=self.work) for _ in range(self.jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return self.totals

    def work(self) -> None:
        """One job: turn after turn of the target that had the least."""
        while True:
            with self.lock:
                left = self.seconds - sum(self.given.values())
                if left < 1 and all(self.given.values()):
                    return
                # Every target has some of it, and the jobs end at about the same time.
                turns = max(self.jobs, len(self.given))
                seconds = math.ceil(max(1, min(TURN_SECONDS, self.seconds / turns, left)))
                program = min(self.fuzzers.programs, key=lambda p: self.given[p.name])
                self.given[program.name] += seconds
                self.turns += 1
                seed = self.first_seed + self.turns
            outcome = self.fuzzers.run(program, [f"-max_total_time={seconds}"], seed)
            with self.lock:
                # What a crash left of its turn is given again.
                self.given[program.name] += outcome.processor_seconds - seconds
                self.totals[program.name].add(outcome)
                print(told(program.name, self.totals[program.name]), flush=True)
                if self.record:
                    keep(self.fuzzers.source(), {program.name: outcome})
                if self.report:  # after each turn: what ended counts where the command is cut short
                    write_report(self.report, self.fuzzers.source(), self.totals)


def collect_seeds(target: str, corpus: Path) -> None:
    """Into the folder: tests/fuzz/corpus/<target>, and small models of onnx."""
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


def write_hostile_models(folder: Path, seed: int) -> None:
    """Models of the generator of tests/hostile, which a build without sanitizers runs elsewhere."""
    script = ROOT / "tests" / "hostile" / "hostile_models.py"
    paths = [str(ROOT / "tests" / "support"), os.environ.get("PYTHONPATH", "")]
    subprocess.run(
        [sys.executable, script, folder, f"--count={HOSTILE_COUNT}", f"--seed={seed}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        check=True,
    )


def make_bundle(fuzzers: Fuzzers, folder: Path) -> None:
    """Programs, libraries and corpora in an archive, and this file: no more is needed elsewhere."""
    folder.mkdir(parents=True, exist_ok=True)
    built = [*fuzzers.programs, *(fuzzers.build / "lib").rglob("*.so")]
    libraries = {}
    for line in subprocess.check_output(["ldd", *built], text=True).splitlines():
        name, _, place = line.strip().partition(" => ")
        path = Path(place.split(" (")[0]).resolve()
        if place and not SYSTEM.fullmatch(name) and not path.is_relative_to(fuzzers.build):
            libraries[name] = path
    with tarfile.open(folder / "files.tar.xz", "w:xz", preset=2) as archive:
        archive.add(fuzzers.build / "lib", "lib")
        for program in fuzzers.programs:
            archive.add(program, f"fuzz/{program.name}")
            archive.add(fuzzers.corpus(program.name), f"seeds/{program.name}")
        for name, path in sorted(libraries.items()):
            archive.add(path, f"lib/{name}")
    shutil.copy(__file__, folder)
    (folder / SOURCE).write_text(fuzzers.source() + "\n")
    (folder / "run.sh").write_text(RUN)
    (folder / "run.sh").chmod(0o755)


def told(name: str, outcome: Outcome) -> str:
    """A line of the report."""
    return (
        f"{name}: {outcome.executions} executions, {outcome.processor_seconds:.0f} s, "
        f"{outcome.crashes} crashes, {outcome.corpus} files, {outcome.edges} edges"
    )


def write_report(file: Path, source: str, totals: dict[str, Outcome]) -> None:
    """What `--take` reads."""
    rows = {name: dataclasses.asdict(total) for name, total in totals.items()}
    part = file.with_suffix(".part")
    part.write_text(json.dumps({"source": source, "targets": rows}, indent=1) + "\n")
    part.replace(file)


def tree() -> str:
    """The hash of src as it is committed."""
    return subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD:src"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def keep(source: str, turns: dict[str, Outcome]) -> None:
    """Adds turns to docs/background/fuzzing.json and writes its page."""
    kept = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if kept.get("source") != source:  # what was said of other code says nothing of this one
        kept = {"source": source, "targets": {}}
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
        f"| {row['crashes']} | {row['corpus']:,} | {row['edges']:,} | {row['features']:,} |"
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
            f"{MEMORY_MB:,} MB count as crashes. The corpus is counted in files; edges are those",
            "of the control flow that its files reach, features those with counts and",
            "compared values.",
            "",
            f"On the source with the tree hash `{kept['source']}`, {seconds / 3600:.2f} hours:",
            "",
            "| target | executions | processor seconds | crashes | corpus | edges | features |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
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
    parser.add_argument("--seconds", type=float, help="of each target")
    parser.add_argument(
        "--jobs", type=int, default=1, help="programs at a time, with --hours and --seconds"
    )
    parser.add_argument("--record", action="store_true", help="keep counts in docs, with --hours")
    parser.add_argument("--json", type=Path, help="where counts go, with --hours and --seconds")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "fuzz")
    parser.add_argument("--out", type=Path, help="for corpora and crashes (default: the build)")
    parser.add_argument("--bundle", type=Path, help="make what another machine needs, and end")
    parser.add_argument(
        "--take", type=Path, help="add a --json of another machine to docs, and end"
    )
    arguments = parser.parse_args()

    if arguments.take:
        report = json.loads(arguments.take.read_text())
        keep(report["source"], {k: Outcome(**row) for k, row in report["targets"].items()})
        return 0
    build = arguments.build.resolve()
    first_seed = int(time.time()) % 2**31  # another night, other mutations
    if arguments.seconds or not (arguments.hours or arguments.bundle):
        first_seed = 1  # where a change is judged, they are those of the last time
    out = (arguments.out or build).resolve()
    fuzzers = Fuzzers(build, out, arguments.target, first_seed)
    if not fuzzers.programs:
        print(f"no fuzz program {arguments.target or ''} in {build / 'fuzz'}", file=sys.stderr)
        return 2
    if arguments.bundle:
        make_bundle(fuzzers, arguments.bundle)
        return 0
    hours = arguments.hours
    if arguments.seconds:
        hours = arguments.seconds * len(fuzzers.programs) / 3600
    if hours:
        totals = Session(
            fuzzers, hours, arguments.jobs, arguments.record, arguments.json, first_seed
        ).run()
        if not any(total.crashes for total in totals.values()):
            return 0
        print(f"the inputs that crashed are in {fuzzers.crashes}")
        return 1
    failed = []
    for program in fuzzers.programs:
        # libFuzzer counts the reading of the seeds as runs; the mutations come on top.
        seeds = len(list(fuzzers.corpus(program.name).iterdir()))
        print(f"==> {program.name}: {arguments.runs} mutations of {seeds} files", flush=True)
        outcome = fuzzers.run(program, [f"-runs={arguments.runs + seeds}"], 1)
        if outcome.crashes:
            failed.append(program.name)
        else:
            print(told(program.name, outcome), flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}; the inputs are in {fuzzers.crashes}")
        return 1
    print("no crash")
    return 0


if __name__ == "__main__":
    sys.exit(main())
