#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts of many lengths: an encoder with symbolic sizes, engine by engine, beside ONNX Runtime.

    ./dev run python benchmarks/lengths.py                         # all engines
    ./dev run python benchmarks/lengths.py --engine openvino --ranges   # sizes are told at load()
    ./dev run python benchmarks/lengths.py --engine native --memory

Each turn runs every length once, in an order of its own; ONNX Runtime runs the same text just
before or after. Each run begins a pause after the last one: the threads of whoever ran look for
work in a loop, those of ONNX Runtime for 40 ms, and would have a processor that the other one
counts on.
Printed are the means of a turn, and their ratio: loading is outside, all that a new length costs is
inside. "openvino alone" is OpenVINO without OpenXRT, with open dimensions: what a new length costs
there is its own. Each engine has a process of its own. `--memory` runs 1,000 different sizes and
prints the resident memory after ten and after all of them; of auto, which opens other engines to
measure them, also from when it has decided.
"""

from __future__ import annotations

import argparse
import importlib
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from encoder import encoder_feeds, encoder_model
from own_memory import own_bytes

ALONE = "openvino alone"
ENGINES = ["native", "openvino", ALONE, "onnxruntime", "auto"]
TOLERANCE = 2e-4  # of values whose deviation is 1


def lengths(count: int) -> list[int]:
    """Different lengths of 4 to 128 tokens, or more where there are not as many."""
    return random.Random(5).sample(range(4, max(129, count + 4)), count)


def session(model: bytes, threads: int) -> Any:
    """ONNX Runtime as it comes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def alone(model: bytes, threads: int) -> Any:
    """OpenVINO as it comes; what is returned runs it."""
    import openvino

    settings = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", settings)
    request = compiled.create_infer_request()
    return lambda feeds: [request.infer(feeds)[0]]


def program_of(engine: str, model: bytes, options: argparse.Namespace) -> Any:
    """What runs the model on the engine; with explain() where it is a program of ours."""
    if engine == ALONE:
        return alone(model, options.threads)
    import openxrt

    sized = {"ranges": {"batch": (1, 8), "sequence": (4, 128)}} if options.ranges else {}
    program = openxrt.load(model, engine=engine, cache_dir="", num_threads=options.threads, **sized)

    def run(feeds: dict[str, np.ndarray]) -> Any:
        return program.run(feeds).values()

    run.explain = program.explain
    return run


def timed(run: Any, feeds: dict[str, np.ndarray], pause: float) -> tuple[float, np.ndarray]:
    """Milliseconds, and the first output."""
    time.sleep(pause)
    start = time.perf_counter()
    (result,) = run(feeds)
    return (time.perf_counter() - start) * 1e3, result


def compare(engine: str, options: argparse.Namespace) -> None:
    """Prints a line per turn."""
    model = encoder_model(options.layers, options.width)
    importlib.import_module("openvino" if engine == ALONE else "openxrt")  # loading is not this
    start = time.perf_counter()
    mine_run = program_of(engine, model, options)
    loading = (time.perf_counter() - start) * 1e3
    start = time.perf_counter()
    peer = session(model, options.threads)
    print(
        f"{engine}: loaded in {loading:.1f} ms, "
        f"ONNX Runtime in {(time.perf_counter() - start) * 1e3:.1f} ms"
    )
    peer_run = lambda feeds: peer.run(None, feeds)  # noqa: E731
    order = lengths(options.lengths)
    for turn in range(1, options.turns + 1):
        random.Random(turn).shuffle(order)
        mine, theirs, worst = [], [], 0.0
        for place, length in enumerate(order):
            feeds = encoder_feeds(1, length)
            runs = [(mine_run, mine), (peer_run, theirs)]
            results = []
            for run, times in runs if place % 2 else reversed(runs):
                ms, result = timed(run, feeds, options.pause)
                times.append(ms)
                results.append(result)
            worst = max(worst, float(np.abs(results[0] - results[1]).max()))
        ratio = np.mean(mine) / np.mean(theirs)
        print(
            f"  turn {turn}: mean {np.mean(mine):.3f} ms, median {np.median(mine):.3f}, "
            f"most {np.max(mine):.2f}; ONNX Runtime mean {np.mean(theirs):.3f}, median "
            f"{np.median(theirs):.3f}; ratio of means {ratio:.2f}, of medians "
            f"{np.median(mine) / np.median(theirs):.2f}; largest difference {worst:.1e}",
            flush=True,
        )
        if not worst <= TOLERANCE:
            raise SystemExit(f"{engine}: the results differ by {worst}")
    if hasattr(mine_run, "explain"):
        launches = mine_run.explain()["launches"]
        engines = sorted({row["engine"] for row in launches})
        print(f"  {len(launches)} functions: {', '.join(engines)}")


def resident_mib() -> float:
    """Of this process, now."""
    return own_bytes("VmRSS") / 2**20


def grow(engine: str, options: argparse.Namespace) -> None:
    """Prints the memory after ten sizes and after all."""
    model = encoder_model(options.layers, options.width)
    if engine == "peer":
        peer = session(model, options.threads)
        run = lambda feeds: peer.run(None, feeds)  # noqa: E731
    else:
        run = program_of(engine, model, options)
    sizes = [(batch, length) for length in range(4, 129) for batch in range(1, 9)]
    random.Random(3).shuffle(sizes)
    sizes = [(8, 128)] + [size for size in sizes if size != (8, 128)]
    decided = ""
    for done, (batch, length) in enumerate(sizes[: options.sizes], 1):
        run(encoder_feeds(batch, length))
        if done == 10:
            early = resident_mib()
        looks = engine == "auto" and not decided and done % 10 == 0
        if looks and "to be measured" not in run.explain()["placement"]:
            decided = f"; {resident_mib():.0f} when it had decided, after {done}"
    late = resident_mib()
    print(
        f"{engine}: {early:.0f} MiB after 10 sizes, {late:.0f} after {options.sizes}: "
        f"{late / early:.2f} times{decided}",
        flush=True,
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", action="append", help=f"default: {', '.join(ENGINES)}")
    parser.add_argument("--lengths", type=int, default=60)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sizes", type=int, default=1000)
    parser.add_argument("--pause", type=float, default=0.06, help="seconds before each run")
    parser.add_argument("--ranges", action="store_true", help="give the sizes' ranges to load()")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--only", help=argparse.SUPPRESS)  # in this process
    options = parser.parse_args()
    if options.only:
        (grow if options.memory else compare)(options.only, options)
        return
    for engine in options.engine or ENGINES:
        subprocess.run([sys.executable, *sys.argv, "--only", engine], check=True)


if __name__ == "__main__":
    main()
