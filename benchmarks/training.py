# SPDX-License-Identifier: Apache-2.0
"""Time of one training step (forward, backward, SGD with momentum) beside PyTorch eager.

    ./dev run python benchmarks/training.py [--engine native] [--engine xla] [--model resnet18]
    ./dev run python benchmarks/training.py --compile   # also torch.compile(backend="openxrt")

A step by the engine's name is openxrt.Trainer's, one program; that of torch.compile leaves
autograd, the loss and the optimizer to PyTorch. Medians over `--seconds` of steps each, in turns,
on two threads.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import openxrt
import torch
from openxrt import optim


def mlp() -> torch.nn.Module:
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )


def cnn() -> torch.nn.Module:
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def resnet18() -> torch.nn.Module:
    from export_models import import_torchvision

    torchvision = import_torchvision()
    return torchvision.models.resnet18()


MODELS: dict[str, tuple[Callable[[], torch.nn.Module], tuple[int, ...], int]] = {
    "mlp": (mlp, (64, 784), 10),
    "cnn": (cnn, (32, 3, 32, 32), 10),
    "resnet18": (resnet18, (8, 3, 224, 224), 1000),
}


def measure(
    runs: dict[str, Callable[[], object]], seconds: float, clock: Callable[[], float]
) -> dict[str, float]:
    """Median seconds per call, each measured in turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
        run()
    end = time.perf_counter() + seconds * len(runs)
    while time.perf_counter() < end or min(len(t) for t in times.values()) < 3:
        for name, run in runs.items():
            for _ in range(3):
                begin = clock()
                run()
                times[name].append(clock() - begin)
    return {name: statistics.median(t) for name, t in times.items()}


def eager_step(
    net: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    inputs: torch.Tensor,
    target: torch.Tensor,
) -> None:
    """PyTorch as most people use it."""
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(inputs), target).backward()
    optimizer.step()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", action="append")
    parser.add_argument("--model", action="append", choices=list(MODELS))
    parser.add_argument("--compile", action="store_true", help="torch.compile with each engine")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="CPU time on one thread: for a machine that others use (XRT_NUM_THREADS=1 is set)",
    )
    arguments = parser.parse_args()
    threads = 1 if arguments.cpu_time else 2
    os.environ["XRT_NUM_THREADS"] = str(threads)
    torch.set_num_threads(threads)
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    engines = arguments.engine or ["native"]
    titles = [*engines, *(f"torch.compile, {e}" for e in engines if arguments.compile)]
    print("| model | PyTorch eager | " + " | ".join(titles) + " |")
    for name in arguments.model or MODELS:
        make, shape, classes = MODELS[name]
        rng = np.random.default_rng(0)
        x = rng.standard_normal(shape).astype(np.float32)
        y = rng.integers(0, classes, shape[0])
        torch.manual_seed(0)
        net = make()
        optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
        inputs = torch.from_numpy(x)
        runs: dict[str, Callable[[], object]] = {}
        target = torch.from_numpy(y)
        for engine in engines:
            if arguments.compile:
                wrapped = copy.deepcopy(net).train()
                own = torch.optim.SGD(wrapped.parameters(), 0.01, momentum=0.9)
                compiled = torch.compile(wrapped, backend="openxrt", options={"engine": [engine]})
                title = f"torch.compile, {engine}"
                runs[title] = partial(eager_step, compiled, own, inputs, target)
            trainer = openxrt.Trainer.from_torch(
                net,
                (inputs,),
                optimizer=optim.SGD(learning_rate=0.01, momentum=0.9),
                engine=engine,
            )
            runs[engine] = partial(trainer.step, x, target=y)
        eager = partial(eager_step, net.train(), optimizer, inputs, target)
        times = measure({"eager": eager, **runs}, arguments.seconds, clock)
        cells = [f"{times['eager'] * 1e3:.2f} ms"]
        cells += [f"{times[e] * 1e3:.2f} ms ({times[e] / times['eager']:.2f}x)" for e in titles]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
