#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what lower precision gains and costs: time, error and agreement of each engine.

    ./dev bench precision                              # every model whose package is installed
    ./dev bench precision --write                      # and keep the figures that the docs show
    ./dev bench precision ppocr_v6_rec minilm --engine native --rounds 20 --json precision.json
    ./dev bench precision --from a.json b.json --write # the tables again, of models measured apart

A column is an engine and a precision: "native int8" is `openxrt.load(engine="native")` of the file
that `openxrt.quantize` made, "native int4" that of `quantize(weights="int4")`, whose products and
tables have their weights in 4 bits, "native bf16" the float32 file with `precision="bf16"`. Beside
them stand ONNX Runtime's static quantisation (Q/DQ, weights by channel), its dynamic one, OpenVINO,
and NNCF's quantisation for OpenVINO with nncf installed (tools/requirements-bench-nodeps.txt). All
are calibrated with the same samples, with their own defaults, and judged with others that nobody
was calibrated with (benchmarks/precision_samples.py).

Every column has a process of its own; the processes take turns as in `./dev bench peers`. Reported
per model: the median time over that of ONNX Runtime in float32, in the same turns; the signal over
noise of the worst output against ONNX Runtime in float32, in decibels over all judged samples; how
often the answer is the same: the largest score, or the nearest other sentence; and the memory that
the model and its runs hold once they are done. What cannot be measured is a dash, and its reason is
listed below the tables. An engine that has no such precision is told so by explain(), and is no
column.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from figures import write_run
from own_memory import own_bytes
from peers import Worker, alternate, models_there, take_turns
from precision_report import report, tables
from precision_samples import CASES, Case
from zoo import ZOO, Feeds

ENGINES = ("native", "openvino", "xla", "onnxruntime", "tvm")
PRECISIONS = ("f32", "bf16", "f16", "int8", "int4")
BASE = "ORT f32"
PEERS = (BASE, "ORT static int8", "ORT dynamic int8", "OpenVINO f32", "OpenVINO bf16", "NNCF int8")
Run = Callable[[Feeds], list[np.ndarray]]


# --- files of each quantiser ---------------------------------------------------------------------


def onnxruntime_static(model: Path, output: Path, samples: list[Feeds]) -> None:
    """ONNX Runtime's static quantisation, as its documentation advises for CPUs: by channel, which
    takes opset 13, and behind its preparation where the result of that can be loaded.
    """
    import onnx

    newer = output.with_suffix(".newer.onnx")
    opset = next(i.version for i in onnx.load(model).opset_import if i.domain in ("", "ai.onnx"))
    if opset < 13:
        onnx.save(onnx.version_converter.convert_version(onnx.load(model), 17), newer)
        model = newer
    try:
        onnxruntime_quantised(model, output, samples, prepare=True)
    except Exception:  # its optimiser makes models of some that its own loader refuses
        onnxruntime_quantised(model, output, samples, prepare=False)


def onnxruntime_quantised(
    model: Path, output: Path, samples: list[Feeds], *, prepare: bool
) -> None:
    """Writes the file and loads it."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType
    from onnxruntime.quantization import quantize_static as quantise
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = iter(samples)

        def get_next(self) -> Feeds | None:
            return next(self.left, None)

    prepared = model
    if prepare:
        prepared = output.with_suffix(".prepared.onnx")
        quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
    quantise(
        str(prepared),
        str(output),
        Reader(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    run_onnxruntime(str(output), 1)


def onnxruntime_dynamic(model: Path, output: Path, samples: list[Feeds]) -> None:
    """ONNX Runtime's dynamic quantisation: ranges of activations are found at each run."""
    del samples
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(str(model), str(output), per_channel=True, weight_type=QuantType.QInt8)


def openxrt_int8(model: Path, output: Path, samples: list[Feeds]) -> None:
    import openxrt.quantize

    openxrt.quantize.quantize(model, output, calibration=samples)


def openxrt_rounded(model: Path, output: Path, samples: list[Feeds]) -> None:
    """For ONNX Runtime, which has no kernel for a sum with a residual in floating point."""
    import openxrt.quantize

    openxrt.quantize.quantize(model, output, calibration=samples, round_sums=True)


def openxrt_int4(model: Path, output: Path, samples: list[Feeds]) -> None:
    """Weights alone; RuntimeError where the model has no product or table with weights."""
    del samples
    import onnx
    import openxrt.quantize

    openxrt.quantize.quantize(model, output, weights="int4")
    types = {tensor.data_type for tensor in onnx.load(output).graph.initializer}
    if types.isdisjoint({onnx.TensorProto.INT4, onnx.TensorProto.UINT4}):
        raise RuntimeError("no product or table has weights that 4 bits can hold")


FILES: dict[str, Callable[[Path, Path, list[Feeds]], None]] = {
    "ort-static": onnxruntime_static,
    "ort-dynamic": onnxruntime_dynamic,
    "int8": openxrt_int8,
    "int8-rounded": openxrt_rounded,
    "int4": openxrt_int4,
}


def quantise(kind: str, model: Path, output: Path) -> str:
    """Writes one of FILES in a process of its own; why it failed, or ""."""
    command = [sys.executable, __file__, "--quantise", kind, str(model), str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else (said or [f"status {done.returncode}"])[-1]


def file_of(column: str) -> str:
    """Which of FILES a column runs; "" for the model as it is."""
    if column == "ORT static int8":
        return "ort-static"
    if column == "ORT dynamic int8":
        return "ort-dynamic"
    if column in PEERS or not column.endswith((" int8", " int4")):
        return ""
    if column.endswith(" int4"):
        return "int4"
    return "int8-rounded" if column.startswith("onnxruntime ") else "int8"


# --- one column, in a process of its own ---------------------------------------------------------


def run_onnxruntime(path: str, threads: int) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def run_openvino(path: str, threads: int, column: str, samples: list[Feeds]) -> Run:
    import openvino

    model: Any = openvino.Core().read_model(path)
    model.reshape({name: list(array.shape) for name, array in samples[0].items()})
    if column.startswith("NNCF"):
        import nncf

        nncf.set_log_level("ERROR")
        model = nncf.quantize(model, nncf.Dataset(samples), subset_size=len(samples))
    settings = {
        "INFERENCE_PRECISION_HINT": "bf16" if column.endswith("bf16") else "f32",
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()

    def run(feeds: Feeds) -> list[np.ndarray]:
        results = request.infer(feeds, share_inputs=True)
        return [results[i] for i in range(len(results))]

    return run


def run_openxrt(path: str, threads: int, column: str) -> Run:
    import openxrt

    engine, precision = column.split()
    engines = list(dict.fromkeys([engine, "native"]))
    wanted = precision if precision in ("bf16", "f16") else "f32"
    program = openxrt.load(
        path, engine=engines, num_threads=threads, precision=wanted, cache_dir=""
    )
    names = [port.name for port in program.outputs]

    def run(feeds: Feeds) -> list[np.ndarray]:
        results = program.run(feeds)
        return [results[name] for name in names]

    run.explain = program.explain
    return run


def check_precision(run: Any, column: str) -> None:
    """RuntimeError where the engine computes in another precision than the column says, or not at
    all."""
    explanation = run.explain()
    engine, precision = column.split()
    if not explanation["nodes_per_engine"].get(engine):
        raise RuntimeError(f"{engine} runs no node")
    if precision in ("bf16", "f16"):
        refusal = f"engine '{engine}' computes in float32"
        if any(note.startswith(refusal) for note in explanation["notes"]):
            raise RuntimeError(f"{engine} has no {precision}")


def load_feeds(file: Path) -> list[Feeds]:
    """The samples of a file that save_feeds() wrote."""
    with np.load(file) as stored:
        samples: dict[str, Feeds] = {}
        for key in stored.files:
            number, name = key.split("/", 1)
            samples.setdefault(number, {})[name] = stored[key]
    return list(samples.values())


def save_feeds(file: Path, samples: Iterable[Feeds]) -> None:
    np.savez(
        file,
        **{f"{i:04}/{name}": x for i, feeds in enumerate(samples) for name, x in feeds.items()},
    )


def package_of(column: str) -> str:
    """The Python package that runs a column."""
    if column not in PEERS:
        return "openxrt"
    return "onnxruntime" if column.startswith("ORT") else "openvino"


def held_bytes() -> int:
    """Memory of this process that is no file's, without what the allocator keeps for later."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return own_bytes("RssAnon")


def work(column: str, path: str, folder: str, threads: int) -> int:
    """The process of one column: writes the outputs for the judged samples, then takes turns."""
    calibration, judged = (load_feeds(Path(folder) / f"{n}.npz") for n in ("calibration", "judged"))
    # Standard output is the parent's: what a library prints while it loads goes to standard error.
    answers = os.dup(1)
    os.dup2(2, 1)
    importlib.import_module(package_of(column))
    before = held_bytes()
    begin = time.perf_counter()
    if column.startswith("ORT"):
        run = run_onnxruntime(path, threads)
    elif column in PEERS:
        run = run_openvino(path, threads, column, calibration)
    else:
        run = run_openxrt(path, threads, column)
    outputs = [[np.array(x) for x in run(feeds)] for feeds in judged]
    if column not in PEERS:
        check_precision(run, column)
    save_feeds(
        Path(folder) / f"{column}.npz",
        ({str(i): x for i, x in enumerate(row)} for row in outputs),
    )
    started = time.perf_counter() - begin
    del outputs
    held = held_bytes() - before
    sys.stdout.flush()
    os.dup2(answers, 1)
    print(json.dumps({"start": started, "held": held}), flush=True)
    take_turns(lambda: run(judged[0]))
    return 0


# --- all of them, in turns -----------------------------------------------------------------------


def decibels(wanted: list[Feeds], found: list[Feeds]) -> float:
    """Signal over noise of the worst output over all samples."""
    worst = np.inf
    for output in wanted[0]:
        if wanted[0][output].dtype.kind != "f":
            continue
        signal = sum(float((x[output].astype(np.float64) ** 2).sum()) for x in wanted)
        noise = sum(
            float(((x[output].astype(np.float64) - y[output]) ** 2).sum())
            for x, y in zip(wanted, found, strict=True)
        )
        if noise > 0 and signal > 0:
            worst = min(worst, 10 * np.log10(signal / noise))
    return float(worst)


def measure(case: Case, columns: list[str], rounds: int, threads: int) -> dict[str, Any]:
    """All columns on one model, by column."""
    model = ZOO[case.name].path()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        calibration, judged = case.samples()
        save_feeds(folder / "calibration.npz", calibration)
        save_feeds(folder / "judged.npz", judged)
        paths = {"": model}
        for kind in dict.fromkeys(map(file_of, columns)):
            if not kind:
                continue
            paths[kind] = folder / f"{kind}.onnx"
            if reason := quantise(kind, model, paths[kind]):
                failed = {"error": reason}
                results |= {column: failed for column in columns if file_of(column) == kind}
        workers = []
        for column in columns:
            if column in results:
                continue
            arguments = [str(paths[file_of(column)]), name, str(threads)]
            try:
                workers.append(Worker(column, threads, __file__, arguments, limit=600))
            except RuntimeError as error:
                results[column] = {"error": str(error)}
        alternate(workers, rounds, 3)
        wanted = load_feeds(folder / f"{BASE}.npz")
        for worker in workers:
            worker.stop()
            found = load_feeds(folder / f"{worker.runtime}.npz")
            results[worker.runtime] = {
                "median_ms": statistics.median(worker.seconds) * 1e3,
                "decibels": decibels(wanted, found),
                "agreement": case.agreement(wanted, found),
                "start_s": worker.first["start"],
                "held_mb": worker.first["held"] / 2**20,
            }
    return {column: results[column] for column in columns}


def main() -> int:
    """Runs the benchmark, one worker of it, or one quantiser."""
    if sys.argv[1:2] == ["--worker"]:
        column, path, folder, threads = sys.argv[2:6]
        return work(column, path, folder, int(threads))
    if sys.argv[1:2] == ["--quantise"]:
        kind, path, output = sys.argv[2:5]
        samples = load_feeds(Path(output).parent / "calibration.npz")
        FILES[kind](Path(path), Path(output), samples)
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(CASES)}")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="may be repeated")
    parser.add_argument("--precision", action="append", choices=PRECISIONS, help="may be repeated")
    parser.add_argument("--rounds", type=int, default=10, help="turns of three runs each")
    parser.add_argument("--threads", type=int, default=2, help="threads of each runtime")
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument(
        "--from", type=Path, dest="stored", nargs="+", help="measure nothing: read --json's"
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="keep the figures in docs/background/figures.json and make the page of them",
    )
    options = parser.parse_args()
    if options.write and options.models:
        parser.error("--write keeps runs over all models: name none")
    if options.stored:
        results = {
            name: row
            for file in options.stored
            for name, row in json.loads(file.read_text(encoding="utf-8")).items()
        }
    else:
        results = measure_all(options, parser)
    print(report(results))
    if options.write:
        keep(results, options)
    return 0


def measure_all(
    options: argparse.Namespace, parser: argparse.ArgumentParser
) -> dict[str, dict[str, Any]]:
    """The chosen models, or all."""
    engines, precisions = options.engine or ENGINES, options.precision or PRECISIONS
    columns = [*PEERS, *(f"{engine} {p}" for engine in engines for p in precisions)]
    results: dict[str, dict[str, Any]] = {}
    for name in set(options.models) - set(CASES):
        parser.error(f"there are no samples for '{name}'; known: {', '.join(CASES)}")
    for model in models_there(options.models or list(CASES), parser):
        rounds = max(1, options.rounds)
        results[model.name] = measure(CASES[model.name], columns, rounds, options.threads)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return results


def keep(results: dict[str, dict[str, Any]], options: argparse.Namespace) -> None:
    """The tables, for the documentation."""
    packages = ["onnxruntime", "openvino", "openxrt"]
    if any("median_ms" in r.get("NNCF int8", {}) for r in results.values()):
        packages.append("nncf")
    # Where the files of --from lie says nothing: the models that were measured do.
    models = [] if set(results) == set(CASES) else list(results)
    write_run(
        "precision",
        "precision",
        options.threads,
        packages,
        {"tables": tables(results)},
        models if options.stored else None,
    )


if __name__ == "__main__":
    sys.exit(main())
