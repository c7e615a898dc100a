#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts of many lengths: an encoder with symbolic sizes, engine by engine, beside ONNX Runtime.

    ./dev run python benchmarks/lengths.py                         # all engines
    ./dev run python benchmarks/lengths.py --engine native --memory

Each turn runs every length once, in an order of its own; ONNX Runtime runs the same text just
before or after. Each run begins a pause after the last one: the threads of whoever ran look for
work in a loop, those of ONNX Runtime for 40 ms, and would have a processor that the other one
counts on.
Printed are the means of a turn, and their ratio: loading is outside, all that a new length costs is
inside. `--memory` runs 1,000 different sizes in a process of its own and prints the resident memory
after ten and after all of them.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from encoder import encoder_feeds, encoder_model

ENGINES = ["native", "openvino", "onnxruntime", "auto"]
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


def timed(run: Any, feeds: dict[str, np.ndarray], pause: float) -> tuple[float, np.ndarray]:
    """Milliseconds, and the first output."""
    time.sleep(pause)
    start = time.perf_counter()
    (result,) = run(feeds)
    return (time.perf_counter() - start) * 1e3, result


def compare(engine: str, options: argparse.Namespace) -> None:
    """Prints a line per turn."""
    import openxrt

    model = encoder_model(options.layers, options.width)
    start = time.perf_counter()
    program = openxrt.load(model, engine=engine, cache_dir="", num_threads=options.threads)
    loading = (time.perf_counter() - start) * 1e3
    start = time.perf_counter()
    peer = session(model, options.threads)
    print(
        f"{engine}: loaded in {loading:.1f} ms, "
        f"ONNX Runtime in {(time.perf_counter() - start) * 1e3:.1f} ms"
    )
    mine_run = lambda feeds: program.run(feeds).values()  # noqa: E731
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
    launches = program.explain()["launches"]
    print(f"  {len(launches)} functions: {', '.join(sorted({row['engine'] for row in launches}))}")


def resident_mib() -> float:
    """Of this process, now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def grow(engine: str, options: argparse.Namespace) -> None:
    """Prints the memory after ten sizes and after all."""
    model = encoder_model(options.layers, options.width)
    if engine == "peer":
        peer = session(model, options.threads)
        run = lambda feeds: peer.run(None, feeds)  # noqa: E731
    else:
        import openxrt

        run = openxrt.load(model, engine=engine, cache_dir="", num_threads=options.threads).run
    sizes = [(batch, length) for length in range(4, 129) for batch in range(1, 9)]
    random.Random(3).shuffle(sizes)
    sizes = [(8, 128)] + [size for size in sizes if size != (8, 128)]
    for done, (batch, length) in enumerate(sizes[: options.sizes], 1):
        run(encoder_feeds(batch, length))
        if done == 10:
            early = resident_mib()
    late = resident_mib()
    print(
        f"{engine}: {early:.0f} MiB after 10 sizes, {late:.0f} after {options.sizes}: "
        f"{late / early:.2f} times",
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
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--grow", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.grow:
        grow(options.grow, options)
        return
    for engine in options.engine or ENGINES:
        if options.memory:
            subprocess.run([sys.executable, *sys.argv, "--grow", engine], check=True)
        else:
            compare(engine, options)


if __name__ == "__main__":
    main()
