# SPDX-License-Identifier: Apache-2.0
"""PyTorch modules through openxrt.torch beside PyTorch itself, in one session.

    ./dev bench frontends                    # everything; the medians of the rounds, as ratios
    ./dev bench frontends --only training --write

Runs of the peers alternate, so that what else the machine does meets all of them; every number is a
median. Ratios below 1 mean that OpenXRT is faster.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def median_ms(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Milliseconds of each, after two runs that do not count; the runs of a round alternate."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - began) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def row(title: str, ms: dict[str, float], base: str) -> str:
    ratios = ", ".join(f"{n} {ms[n] / ms[base]:.2f}" for n in ms if n != base)
    print(f"{title}: {base} {ms[base]:.3f} ms; as parts of it: {ratios}", flush=True)
    return title


def inference(rounds: int) -> list[list[str]]:
    import openxrt.torch as xt
    import torch
    from torch._inductor import config
    from torch_models import network

    module, x = network("resnet50")
    eager = module
    fast = xt.XRTModule(copy.deepcopy(module), engine="auto", auto_mode="full")
    config.freezing = True
    compiled = torch.compile(copy.deepcopy(module))
    with torch.no_grad():
        expected = eager(x)
        for other in (fast, compiled):
            torch.testing.assert_close(other(x), expected, rtol=1e-3, atol=1e-3)
        ms = median_ms(
            {
                "PyTorch eager": lambda: eager(x),
                "torch.compile, freezing": lambda: compiled(x),
                "XRTModule, auto": lambda: fast(x),
            },
            rounds,
        )
    row("ResNet-50, batch 1", ms, "PyTorch eager")
    ours = ms["XRTModule, auto"]
    return [
        ["ResNet-50 inference, engine=\"auto\"", f"{ours / ms['PyTorch eager']:.2f} × eager",
         "≤ 0.60"],
        ["ResNet-50 inference, engine=\"auto\"",
         f"{ours / ms['torch.compile, freezing']:.2f} × torch.compile with freezing", "≤ 0.95"],
    ]  # fmt: skip


def overhead(rounds: int) -> list[list[str]]:
    import openxrt.torch as xt
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()).eval()
    fast = xt.XRTModule(module, engine="native")
    x = torch.randn(1, 16)
    with torch.no_grad():
        fast(x)
        program = next(fast.programs())
        array = x.numpy()
        ms = median_ms(
            {"Program": lambda: program(array), "XRTModule": lambda: fast(x)}, rounds * 100
        )
    microseconds = (ms["XRTModule"] - ms["Program"]) * 1e3
    print(f"a call of XRTModule: {microseconds:.1f} µs more than of its program")
    return [["call of XRTModule, above its program", f"{microseconds:.1f} µs", "≤ 30 µs"]]


def networks() -> dict[str, tuple[Callable[[], object], tuple[int, ...], int, float]]:
    """By title: what makes it, the shape of a batch, the classes, and the bar of a step over eager.

    PyTorch's wrappers around the programs of a step cost a fixed time, which a small MLP shows.
    """
    import torch
    from export_models import import_torchvision

    def mlp() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Linear(784, 512),
            torch.nn.ReLU(),
            torch.nn.Linear(512, 512),
            torch.nn.ReLU(),
            torch.nn.Linear(512, 10),
        )

    def cnn() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 32, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(32, 32, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(32, 64, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(64 * 64, 10),
        )

    def resnet() -> torch.nn.Module:
        return import_torchvision().models.resnet18(num_classes=10)

    return {
        "MLP, batch 128": (mlp, (128, 784), 10, 1.5),
        "small CNN, batch 32": (cnn, (32, 3, 32, 32), 10, 1.0),
        "ResNet-18, batch 8": (resnet, (8, 3, 224, 224), 10, 1.0),
    }


def training_step(
    module: torch.nn.Module, x: torch.Tensor, y: torch.Tensor
) -> Callable[[], object]:
    """Forward, backward and an update of SGD with momentum."""
    import torch

    module.train()
    optimizer = torch.optim.SGD(module.parameters(), 0.01, momentum=0.9)

    def run() -> object:
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(module(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return run


def training(rounds: int, engines: list[str], only: str) -> list[list[str]]:
    import openxrt.torch as xt
    import torch

    rows = []
    for title, (make, shape, classes, bar) in networks().items():
        if only not in title:
            continue
        torch.manual_seed(0)
        base = make()
        x, y = torch.randn(*shape), torch.randint(0, classes, (shape[0],))

        runs = {"PyTorch eager": training_step(copy.deepcopy(base), x, y)}
        for engine in engines:
            module = xt.XRTModule(copy.deepcopy(base), engine=engine.split(","))
            runs[engine] = training_step(module, x, y)
        ms = median_ms(runs, rounds)
        row(f"training step of {title}", ms, "PyTorch eager")
        best = min(engines, key=lambda engine: ms[engine])
        ratio = ms[best] / ms["PyTorch eager"]
        rows.append([f"training step of {title}", f"{ratio:.2f} × eager ({best})", f"≤ {bar:.2f}"])
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["inference", "overhead", "training"])
    parser.add_argument("--network", default="", help="part of the name of what to train")
    parser.add_argument("--engine", action="append", help="of training: a,b (repeatable)")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="keep the figures for the docs")
    options = parser.parse_args()
    os.environ["XRT_NUM_THREADS"] = str(options.threads)

    import torch

    torch.set_num_threads(options.threads)
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    engines = options.engine or ["native", "xla,native"]
    rows: list[list[str]] = []
    if options.only in (None, "inference"):
        rows += inference(options.rounds)
    if options.only in (None, "overhead"):
        rows += overhead(options.rounds)
    if options.only in (None, "training"):
        rows += training(options.rounds, engines, options.network)
    table = [["what", "measured", "wanted"], ["---"] * 3, *rows]
    text = "\n".join("| " + " | ".join(cells) + " |" for cells in table)
    print(text)
    if options.write:
        from figures import write_run

        tables = [{"title": "", "columns": table[0], "rows": rows}]
        packages = ["openxrt", "torch"]
        write_run("frontends", "frontends", options.threads, packages, {"tables": tables})
    return 0


if __name__ == "__main__":
    sys.exit(main())
