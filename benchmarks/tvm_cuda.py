#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TVM on an NVIDIA GPU: ONNX's tests and a model's time (ResNet-50).

    ./dev run python benchmarks/tvm_cuda.py                       # on the first GPU
    ./dev run python benchmarks/tvm_cuda.py --rounds 5 -- --kind node -k '^test_relu'

Needs the packages of tools/requirements.txt (of TVM the compiler's library alone has 259 MB), a C++
compiler for linking, CUDA's nvcc, NVIDIA's driver and CUDA 13's libcudart.so.13. Ends with status 1
and the engine's own reason where one of these is missing. Counts are those of `./dev conformance
tvm,native`, whose arguments follow `--`; times are medians of whole runs, copies of inputs and
results included, beside the native engine on the CPU in turns.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import openxrt
from zoo import ZOO

ROOT = Path(__file__).resolve().parents[1]


def why_not(device: str) -> str:
    """Why the engine runs nothing on this device; "" where it runs."""
    graph = openxrt.Graph()
    x = graph.add_input("x", "float32", [4])
    (y,) = graph.add_node("Relu", [x], ["y"])
    graph.add_output(y)
    values = np.array([-1, 0, 2, -3], np.float32)
    try:
        result = openxrt.load(graph, engine="tvm", strict=True, device=device)(values)
    except openxrt.Error as error:
        return str(error)
    return "" if np.array_equal(result, np.maximum(values, 0)) else f"Relu gave {result}"


def milliseconds(name: str, device: str, rounds: int) -> tuple[float, float, float, float]:
    """On the GPU, natively, the largest difference over the range of the outputs, and the seconds
    of the start on the GPU: loading and one run."""
    model = ZOO[name]
    feeds = model.feeds()
    path = str(model.path())
    begin = time.perf_counter()
    on_gpu = openxrt.load(path, engine=["tvm", "native"], device=device)
    on_gpu.run(feeds)
    start = time.perf_counter() - begin
    programs = (on_gpu, openxrt.load(path, engine="native"))
    outputs = [next(iter(program.run(feeds).values())) for program in programs]
    error = float(np.abs(outputs[0] - outputs[1]).max() / np.abs(outputs[1]).max())
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for program, times in zip(programs, seconds, strict=True):
            program.run(feeds)
            begin = time.perf_counter()
            program.run(feeds)
            times.append(time.perf_counter() - begin)
    gpu, cpu = (statistics.median(times) * 1e3 for times in seconds)
    return gpu, cpu, error, start


def main() -> int:
    """Runs both parts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--model", default="resnet50", choices=[m.name for m in ZOO.values()])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("conformance", nargs="*", help="arguments of ./dev conformance, after --")
    options = parser.parse_args()
    if reason := why_not(options.device):
        print(f"TVM runs nothing on {options.device}: {reason}", file=sys.stderr)
        return 1
    gpu, cpu, error, start = milliseconds(options.model, options.device, options.rounds)
    print(
        f"{options.model}: tvm on {options.device} {gpu:.2f} ms, native on the CPU {cpu:.2f} ms, "
        f"largest difference {error:.1e} of the largest value; the GPU's start took {start:.1f} s",
        flush=True,
    )
    driver = [sys.executable, str(ROOT / "tests" / "conformance" / "run.py"), "tvm,native"]
    driver += ["--device", options.device, *options.conformance]
    return subprocess.run(driver, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
