#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a process of its own adds to a run: the same function in this process and in a worker.

    ./dev bench isolation [--engine native] [--rounds 8]

The function is one Relu, so that nearly all of its time is what is to be measured. Both programs
run in turns; the table has medians of all runs.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import onnx
import openxrt
from onnx import helper

SIZES = (1, 1 << 10, 1 << 16, 1 << 18, 1 << 20, 1 << 22)
SECONDS = 0.2  # of a turn


def model(size: int) -> bytes:
    """Relu of so many numbers."""
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "relu",
        [helper.make_tensor_value_info("x", kind, [size])],
        [helper.make_tensor_value_info("y", kind, [size])],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def turn(program: openxrt.Program, x: np.ndarray) -> list[float]:
    """Times of runs in seconds, the first left out."""
    times = []
    end = time.perf_counter() + SECONDS
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        program(x)
        times.append(time.perf_counter() - start)
    return times[1:]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="native")
    parser.add_argument("--rounds", type=int, default=8)
    arguments = parser.parse_args()
    print(f"engine {arguments.engine}, medians in µs")
    print("| floats | here | worker | more |\n| ---: | ---: | ---: | ---: |")
    for size in SIZES:
        x = np.linspace(-1, 1, size, dtype=np.float32)
        here, worker = (
            openxrt.load(model(size), engine=[arguments.engine], isolation=isolation, cache_dir="")
            for isolation in ([], [arguments.engine])
        )
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(arguments.rounds):
            pairs = [(here, times[0]), (worker, times[1])]
            for program, kept in pairs if number % 2 == 0 else pairs[::-1]:
                kept += turn(program, x)
        medians = [1e6 * float(np.median(kept)) for kept in times]
        print(f"| {size} | {medians[0]:.1f} | {medians[1]:.1f} | {medians[1] - medians[0]:.1f} |")


if __name__ == "__main__":
    main()
