# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 by OneFlow and through openxrt.oneflow.XRTModule, as a ratio of medians in one run.

PYTHONPATH=build/release/python tools/extra_env.sh oneflow python benchmarks/oneflow_speed.py
"""

from __future__ import annotations

import argparse
import statistics
import time

import oneflow as flow
from oneflow import nn
from oneflow_save import network
from openxrt.oneflow import XRTModule


class Graph(nn.Graph):
    """OneFlow's own compiled form."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def build(self, x: flow.Tensor) -> flow.Tensor:
        """The module's result."""
        return self.module(x)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    module, array = network(options.network)
    x = flow.tensor(array)
    engines = options.engine.split(",")
    runs = {
        "OneFlow eager": module,
        "OneFlow nn.Graph": Graph(module),
        "XRTModule": XRTModule(module, engine=engines),
        "XRTModule, watch_weights=False": XRTModule(module, engine=engines, watch_weights=False),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    with flow.no_grad():
        for turn in range(options.rounds + 2):
            for name, run in runs.items():
                begin = time.perf_counter()
                run(x).numpy()
                if turn >= 2:
                    times[name].append(time.perf_counter() - begin)
    whole = statistics.median(times["OneFlow eager"])
    for name, samples in times.items():
        median = statistics.median(samples)
        print(f"{name:32} {median * 1000:6.1f} ms, {median / whole:.2f} of OneFlow eager")


if __name__ == "__main__":
    main()
