#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures this project's engines beside ONNX Runtime, OpenVINO and PyTorch in one run.

    ./dev bench peers                                  # every model of the zoo that is benched
    ./dev bench peers --write                          # and keep the figures that the docs show
    ./dev bench peers resnet50 minilm --rounds 20 --json peers.json --svg peers.svg
    ./dev bench peers --from peers.json --svg peers.svg               # draw and report again

Every runtime has a process of its own, so that threads and memory are its own; the processes take
turns, a few runs each, so that drift of the machine meets all alike. They do so there and back. A
turn begins when the threads of the runtime before no longer wait for work in a loop, those of ONNX
Runtime after 40 ms, and its first run does not count: it finds caches cold. "xrt auto" is compared
with each other column turn by turn: the median over the rounds of one's time over the other's, of
which the highest is reported. Batch 1, fp32 (OpenVINO's own
bf16 default is off) but for "xrt auto-low", which has precision="auto" and may take whatever the
CPU has within a tolerance of 0.01, and states its error; `--threads` threads each. "xrt auto" has
auto_mode="full": it measures while it loads. Reported per model: median and minimum latency,
start (load and first run; importing the runtime's package is stated beside it), peak memory of the
process. Then `--starts` pairs of starts that take turns, each pair with a cache folder of its own:
the first fills it, the second, in a new process, uses it; for this project's engines, and for
OpenVINO with its own cache (CACHE_DIR). `--rounds 0` measures starts alone. Ratios are of medians.

`--int8` compares int8 with float32 instead: the model is quantised from its own feeds with minmax
ranges (openxrt.quantize), and columns named "… int8" run that one Q/DQ file; "… int8-rounded": the
one quantised with round_sums.

"xrt auto-default" is a program loaded without options, timed once it has measured beside its runs;
the seconds that this took are stated. It decides in each process anew.

`--all` adds three: "xrt auto-default", and two that nothing else here needs. "jax" is JAX's
compiler and runtime on the StableHLO that the XLA engine makes (benchmarks/peers_jax.py says why,
and what to install; its start does not count the making of it), and "xrt tvm-tuned,native" is TVM
after its own tuning, which takes up to `--tvm-seconds` for a model that was not tuned before. A
cell that cannot be measured is a dash, and its reason is listed below the tables.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import peers_jax
from figures import write_run
from own_memory import own_bytes
from peers_picture import draw
from peers_report import INT8, OPTIONAL, ROUNDED, RUNTIMES, choice_of, columns, report
from zoo import ZOO, Feeds, ZooModel

# The package whose version counts, by the first word of a runtime's name.
PACKAGES = {
    "jax": "jax",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "pytorch": "torch",
    "xrt": "openxrt",
}
PAUSE_SECONDS = 0.06  # before a turn
# What has a cache of compiled models on disk.
CACHING = ("openvino", "xrt ")


class Tuned(NamedTuple):
    """How TVM is tuned, and where what it found is kept."""

    trials: int
    seconds: int
    folder: str


# --- one runtime, in a process of its own ------------------------------------------------------


def is_int8(runtime: str) -> bool:
    return runtime.endswith((" int8", " int8-rounded"))


def import_package(runtime: str) -> None:
    """What a user's program has imported before it loads a model."""
    packages = {"xrt": ["openxrt"], "pytorch": ["torch", "export_models"]}
    name = runtime.split()[0]
    for package in packages.get(name, [name]):
        importlib.import_module(package)


def runner(
    runtime: str,
    export: str | None,
    path: str,
    threads: int,
    feeds: Feeds,
    cache: str,
    tuned: Tuned,
) -> Callable[[], Any]:
    """Loads the model; what is returned runs it once on `feeds`. `cache`: a folder, or "".
    `export`: what export_models.py makes the model from, for PyTorch.
    """
    if runtime == "jax":
        return peers_jax.jax_runner(Path(tuned.folder), feeds)
    if runtime.startswith("onnxruntime"):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, feeds)
    if runtime.startswith("openvino"):
        import openvino

        settings = {
            "INFERENCE_PRECISION_HINT": "bf16" if runtime.endswith("bf16") else "f32",
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
        }
        if cache:
            settings["CACHE_DIR"] = cache
        compiled = openvino.Core().compile_model(path, "CPU", settings)
        request = compiled.create_infer_request()
        return lambda: request.infer(feeds, share_inputs=True)
    if runtime.startswith("pytorch"):
        import torch
        from export_models import torch_inputs, torch_network

        torch.set_num_threads(threads)
        network = torch_network(export)
        if runtime.endswith("compiled"):
            import torch._inductor.config

            torch._inductor.config.freezing = True
            network = torch.compile(network)
        inputs = torch_inputs(feeds)

        def run() -> Any:
            with torch.inference_mode():
                return network(*inputs)

        return run
    import openxrt

    engines = runtime.split()[1].split(",")
    options: dict[str, Any] = {}
    if engines[0].startswith("auto"):
        if engines[0] != "auto-default":
            options = {"auto_mode": "full", "auto_budget_s": 30}
        if engines[0] == "auto-low":
            options |= {"precision": "auto", "tolerance": 0.01}
        engines = ["auto"]
    if engines[0] == "tvm-tuned":
        engines[0] = "tvm"
        options["engine_options"] = {
            "tvm": {"tvm_trials": str(tuned.trials), "tvm_time_budget": str(tuned.seconds)}
        }
        cache = tuned.folder  # of the tuning records: they stay from run to run
    program = openxrt.load(path, engine=engines, num_threads=threads, cache_dir=cache, **options)

    def run_program() -> Any:
        return program.run(feeds)

    run_program.explain = program.explain
    return run_program


def settle(run: Callable[[], Any], seconds: float = 120) -> float:
    """Runs until auto has decided, and says how long that took."""
    begin = time.perf_counter()
    while "to be measured" in run.explain()["placement"]:
        run()
        if time.perf_counter() - begin > seconds:
            raise TimeoutError(f"auto has not decided in {seconds:.0f} s")
    return time.perf_counter() - begin


def take_turns(run: Callable[[], Any]) -> None:
    """The worker's side of Worker.turn(): a line of JSON per line of standard input, which is a
    count of runs."""
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - begin)
        peak = own_bytes("VmHWM")
        print(json.dumps({"seconds": seconds, "peak": peak}), flush=True)


def work(runtime: str, name: str, threads: int, feeds_file: str, cache: str, tuned: Tuned) -> int:
    """The process of one runtime: a line of JSON per line of standard input, a count of runs."""
    if runtime == "jax":
        tuned = tuned._replace(folder=str(Path(feeds_file).parent))
        peers_jax.set_threads(threads)
        peers_jax.prepare(str(ZOO[name].path()), feeds_file, tuned.folder)
    with np.load(feeds_file) as stored:
        feeds = {key: stored[key] for key in stored.files}
    begin, begin_cpu = time.perf_counter(), time.process_time()
    import_package(runtime)
    imported, imported_cpu = time.perf_counter(), time.process_time()
    path = ZOO[name].path()
    if is_int8(runtime):
        path = Path(feeds_file).parent / f"{runtime.split()[-1]}.onnx"
    run = runner(runtime, ZOO[name].export, str(path), threads, feeds, cache, tuned)
    loaded = time.perf_counter()
    run()
    first = {
        "import": imported - begin,
        "import_cpu": imported_cpu - begin_cpu,
        "load": loaded - imported,
        "start": time.perf_counter() - imported,
        "start_cpu": time.process_time() - imported_cpu,
    }
    again, again_cpu = time.perf_counter(), time.process_time()
    run()
    first["run"] = time.perf_counter() - again
    first["run_cpu"] = time.process_time() - again_cpu
    if runtime == "xrt auto-default":
        first["settled"] = settle(run)
    if runtime.startswith("xrt auto"):
        first["candidates"] = run.explain()["candidates"]
    print(json.dumps(first), flush=True)
    take_turns(run)
    return 0


# --- all of them, in turns ---------------------------------------------------------------------


class Worker:
    """One runtime's process, seen from outside: `script` called with --worker and `arguments`.

    RuntimeError with what the process said where it fails, or has no first answer after `limit`
    seconds.
    """

    def __init__(
        self, runtime: str, threads: int, script: str, arguments: list[str], limit: float = 3600
    ) -> None:
        environment = os.environ | {
            "OMP_NUM_THREADS": str(threads),
            "XRT_NUM_THREADS": str(threads),
        }
        self.messages = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, script, "--worker", runtime, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.messages,
            text=True,
            env=environment,
        )
        self.runtime = runtime
        self.seconds: list[float] = []
        self.turns: list[float] = []  # median seconds of each
        self.peak = 0
        timer = threading.Timer(limit, self.process.kill)
        timer.start()
        try:
            self.first = self.answer()
        finally:
            timer.cancel()

    def answer(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": self.last_words()}
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def last_words(self) -> str:
        """Why the process ended: the last line that it wrote, else its exit status."""
        status = self.process.wait()
        self.messages.seek(0)
        lines = self.messages.read().strip().splitlines()
        return lines[-1] if lines and status > 0 else f"the process ended with status {status}"

    def turn(self, count: int) -> None:
        """One run that does not count, then `count` that do, after a pause."""
        time.sleep(PAUSE_SECONDS)
        self.process.stdin.write(f"{1 + count}\n")
        self.process.stdin.flush()
        answer = self.answer()
        self.peak = answer["peak"]
        seconds = answer["seconds"][1:]
        self.seconds += seconds
        self.turns.append(statistics.median(seconds))

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.messages.close()


def alternate(workers: list[Worker], rounds: int, runs: int) -> None:
    """Turns of so many runs of each, in order and against it."""
    for number in range(rounds):
        for worker in workers if number % 2 == 0 else reversed(workers):
            worker.turn(runs)


def models_there(names: list[str], parser: argparse.ArgumentParser) -> Iterator[ZooModel]:
    """The models of the zoo of these names, each announced on standard error; what keeps one out is
    said there, too.
    """
    for name in names:
        if name not in ZOO:
            parser.error(f"there is no model '{name}'; known: {', '.join(ZOO)}")
        if reason := ZOO[name].why_missing():
            print(f"left out: {reason}", file=sys.stderr)
            continue
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        yield ZOO[name]


def start(
    runtime: str, model: ZooModel, threads: int, feeds: Path, cache: str, tuned: Tuned
) -> Worker:
    """The process that runs a model of the zoo."""
    arguments = [model.name, str(threads), str(feeds), cache, json.dumps(tuned)]
    return Worker(runtime, threads, __file__, arguments)


def measure(
    model: ZooModel, wanted: list[str], rounds: int, starts: int, threads: int, tuned: Tuned
) -> dict[str, Any]:
    """All runtimes on one model, by runtime."""
    results: dict[str, Any] = {runtime: {} for runtime in wanted}
    with tempfile.TemporaryDirectory() as folder:
        feeds = Path(folder) / "feeds.npz"
        np.savez(feeds, **model.feeds())
        if any(map(is_int8, wanted)):
            import openxrt.quantize

            for kind in ("int8", "int8-rounded"):
                openxrt.quantize.quantize(
                    model.path(),
                    Path(folder) / f"{kind}.onnx",
                    calibration=[model.feeds()],
                    round_sums=kind != "int8",
                )
        if rounds > 0:
            measure_runs(model, results, rounds, threads, feeds, tuned)
        measure_starts(model, results, starts, threads, feeds, tuned)
    return {runtime: figures for runtime, figures in results.items() if figures}


def measure_runs(
    model: ZooModel,
    results: dict[str, Any],
    rounds: int,
    threads: int,
    feeds: Path,
    tuned: Tuned,
) -> None:
    """Latency, one start and memory of each runtime."""
    workers = []
    for runtime in results:
        if runtime.startswith("pytorch") and model.export is None:
            continue
        try:
            workers.append(start(runtime, model, threads, feeds, "", tuned))
        except RuntimeError as error:
            results[runtime] = {"error": str(error)}
    alternate(workers, rounds, 3)
    for worker in workers:
        worker.stop()
        results[worker.runtime] = {
            "median_ms": statistics.median(worker.seconds) * 1e3,
            "minimum_ms": min(worker.seconds) * 1e3,
            "turns_ms": [seconds * 1e3 for seconds in worker.turns],
            "import_s": worker.first["import"],
            "start_s": worker.first["start"],
            "peak_mb": worker.peak / 2**20,
        }
        if "settled" in worker.first:
            results[worker.runtime]["settled_s"] = worker.first["settled"]
        if choice := choice_of(worker.first.get("candidates", [])):
            results[worker.runtime]["choice"] = choice


def measure_starts(
    model: ZooModel,
    results: dict[str, Any],
    pairs: int,
    threads: int,
    feeds: Path,
    tuned: Tuned,
) -> None:
    """First and second starts in seconds of the clock and of the processors, all in lists."""
    for _ in range(pairs):
        for runtime, figures in results.items():
            if not runtime.startswith(CACHING) or "error" in figures or runtime in OPTIONAL:
                continue
            if is_int8(runtime):
                continue
            with tempfile.TemporaryDirectory() as cache:
                for which in ("first", "second"):
                    try:
                        worker = start(runtime, model, threads, feeds, cache, tuned)
                    except RuntimeError as error:
                        figures["error"] = str(error)
                        break
                    worker.stop()
                    for key in ("import", "start", "run"):
                        for kind in ("", "_cpu"):
                            times = figures.setdefault(f"{which}_{key}s{kind}_s", [])
                            times.append(worker.first[f"{key}{kind}"])


def main() -> int:
    """Runs the benchmark, or one worker of it."""
    if sys.argv[1:2] == ["--worker"]:
        runtime, name, threads, feeds, cache, tuned = sys.argv[2:8]
        return work(runtime, name, int(threads), feeds, cache, Tuned(*json.loads(tuned)))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="default: the benched ones")
    parser.add_argument("--rounds", type=int, default=10, help="turns of three runs each")
    parser.add_argument("--starts", type=int, default=3, help="pairs of a first and a second start")
    parser.add_argument("--threads", type=int, default=2, help="threads of each runtime")
    parser.add_argument(
        "--runtime",
        action="append",
        choices=RUNTIMES + OPTIONAL + INT8[1::2] + ROUNDED,
        help=f"may be repeated; default: {', '.join(RUNTIMES)}",
    )
    parser.add_argument(
        "--int8", action="store_true", help=f"only these: {', '.join(INT8 + ROUNDED)}"
    )
    parser.add_argument("--all", action="store_true", help=f"these too: {', '.join(OPTIONAL)}")
    parser.add_argument(
        "--tvm-trials", type=int, default=2000, help="trials of TVM's tuning per function"
    )
    parser.add_argument(
        "--tvm-seconds", type=int, default=600, help="bound of TVM's tuning per function"
    )
    parser.add_argument(
        "--tvm-records",
        type=Path,
        default=Path.home() / ".cache" / "openxrt" / "tvm-tuned",
        help="cache folder of tuned TVM: what was tuned for a model is not tuned again",
    )
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--svg", type=Path, help="file for a picture of the ratios")
    parser.add_argument("--from", type=Path, dest="stored", help="measure nothing: read --json's")
    parser.add_argument(
        "--write",
        action="store_true",
        help="keep the figures in docs/background/figures.json and make the page of them",
    )
    options = parser.parse_args()
    if options.write and options.models:
        parser.error("--write keeps runs over all models: name none")
    if options.stored:
        results = json.loads(options.stored.read_text(encoding="utf-8"))
        print(report(results, columns(results)))
        if options.svg:
            options.svg.write_text(draw(results), encoding="utf-8")
        return 0
    wanted = options.runtime or list(
        INT8 + ROUNDED if options.int8 else RUNTIMES + OPTIONAL if options.all else RUNTIMES
    )
    if any("tvm-tuned" in runtime for runtime in wanted):
        options.tvm_records.mkdir(mode=0o700, parents=True, exist_ok=True)
    tuned = Tuned(options.tvm_trials, options.tvm_seconds, str(options.tvm_records))
    names = options.models or [model.name for model in ZOO.values() if model.benched]
    results: dict[str, dict[str, Any]] = {}
    for model in models_there(names, parser):
        results[model.name] = measure(
            model,
            wanted,
            max(0, options.rounds),
            max(0, options.starts),
            options.threads,
            tuned,
        )
        for runtime, figures in results[model.name].items():
            if "error" in figures:
                print(f"  {runtime}: {figures['error']}", file=sys.stderr)
    print(report(results, wanted))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    if options.svg:
        options.svg.write_text(draw(results), encoding="utf-8")
    if options.write:
        kind = "int8" if options.int8 else "peers" if options.rounds > 0 else "starts"
        packages = sorted({PACKAGES[r.split()[0]] for r in wanted})
        write_run(kind, "peers", options.threads, packages, {"models": results})
    return 0


if __name__ == "__main__":
    sys.exit(main())
