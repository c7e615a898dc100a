# SPDX-License-Identifier: Apache-2.0
"""ResNet-50, Inception-v3 and SqueezeNet-1.1: PyTorch, TVM and, on a GPU, TensorRT.

    ./dev run python examples/torch2trt/benchmark.py

Times are medians in milliseconds for one picture, 1×3×224×224 (299×299 for Inception-v3). TVM is
not tuned. Without a GPU the TensorRT column says how long the plan takes to build and how large
it is.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable

import torch
from networks import network
from openxrt.torch import TensorRTModuleWrapper, TVMModuleWrapper

NETWORKS = ["resnet50", "inception_v3", "squeezenet1_1"]


def milliseconds(run: Callable[[], object], repeat: int) -> float:
    """The median of so many runs, after one that is not counted."""
    times = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[1:])


def tensorrt(net: torch.nn.Module, inputs: torch.Tensor, repeat: int) -> str:
    """The time of a run on a GPU; without one that of the build."""
    if torch.cuda.is_available():
        module = TensorRTModuleWrapper(net.cuda()).eval()
        cell = f"{milliseconds(lambda: module(inputs.cuda()), repeat):.2f}"
        net.cpu()
        return cell
    start = time.perf_counter()
    plan = TensorRTModuleWrapper(net, compute_capability=(8, 9)).eval().build(inputs)
    seconds = time.perf_counter() - start
    return f"not run; built in {seconds:.1f} s, {len(plan.data) / 2**20:.0f} MB"


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--repeat", type=int, default=20)
    options = parser.parse_args()
    print("| network | TensorRT | TVM | PyTorch |\n| --- | ---: | ---: | ---: |")
    with torch.no_grad():
        for name in options.networks:
            net, inputs = network(name)
            cells = [tensorrt(net, inputs, options.repeat)]
            for module in (TVMModuleWrapper(net).eval(), net):
                run = functools.partial(module, inputs)
                cells.append(f"{milliseconds(run, options.repeat):.2f}")
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
