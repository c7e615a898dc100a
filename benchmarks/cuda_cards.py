#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 on one card and on several: inference through `devices`, training steps through DDP.

    ./dev bench cuda_cards             # needs PyTorch for CUDA, and two cards or more
    ./dev bench cuda_cards --write     # docs/gpu/cards.json and cards.md

Inference has 256 pictures a card in float16. "host": one program of all cards, arrays of NumPy go
in and come out; "on the cards": a program per card, each of which a thread gives tensors that lie
there. Training steps have 64 pictures a card in bfloat16, a process per card, gradients through
NCCL. Rates are pictures a second: medians of runs that are waited for.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openxrt
import openxrt.torch as xt
import torch
import torch.distributed as dist
from cuda import FOLDER, made_by, write
from torch import multiprocessing, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch_cuda import resnet50

ENGINES = ["cuda", "native"]
PICTURES, STEP_PICTURES = 256, 64  # a card
RUNS, STEPS = 20, 30
OURS, PEER = "XRTModule", "torch.compile"


def rate(pictures: int, run: Callable[[], Any], runs: int = RUNS) -> float:
    """Pictures a second."""
    for _ in range(4):
        run()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return pictures / statistics.median(seconds)


def export(folder: Path) -> Path:
    """ResNet-50 in float16, of any batch."""
    torch.manual_seed(0)
    module, x = resnet50().cuda().eval().half(), torch.randn(2, 3, 224, 224, device="cuda").half()
    path = folder / "resnet50.onnx"
    axes = {"x": {0: "n"}, "y": {0: "n"}}
    with torch.no_grad():
        torch.onnx.export(
            module,
            (x,),
            path,
            input_names=["x"],
            output_names=["y"],
            dynamic_axes=axes,
            dynamo=False,
        )
    return path


def from_host(path: Path, cards: int) -> float:
    """One program, which shares each run's pictures among the cards."""
    names = [f"cuda:{i}" for i in range(cards)]
    program = openxrt.load(path, engine=ENGINES, devices=names, strict=True)
    x = np.random.default_rng(0).standard_normal((PICTURES * cards, 3, 224, 224), np.float32)
    x = x.astype(np.float16)
    return rate(len(x), lambda: program.run({"x": x}))


def on_cards(path: Path, cards: int) -> float:
    """A program and a thread per card; a round ends with the last of them."""
    runs = []
    for i in range(cards):
        program = openxrt.load(path, engine=ENGINES, device=f"cuda:{i}", strict=True)
        x = torch.randn(PICTURES, 3, 224, 224, device=f"cuda:{i}").half()
        runs.append(lambda program=program, x=x: program.call_tensors([x], torch.Tensor))

    def several(card: int) -> None:
        for _ in range(5):
            runs[card]()
        torch.cuda.synchronize(card)

    def round_() -> None:
        threads = [threading.Thread(target=several, args=(i,)) for i in range(cards)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return rate(5 * PICTURES * cards, round_, runs=8)


def step_rate(rank: int, cards: int, way: str, meeting: str, results: Any) -> None:
    """Of one process of a training step."""
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", f"file://{meeting}", rank=rank, world_size=cards)
    torch.manual_seed(0)
    module: nn.Module = resnet50().cuda().train().bfloat16()
    wrapped = xt.XRTModule(module, engine=ENGINES) if way == OURS else module
    model: Any = DistributedDataParallel(wrapped, device_ids=[rank])
    if way == PEER:
        model = torch.compile(model)
    optimizer = torch.optim.SGD(module.parameters(), 0.01, momentum=0.9)
    x = torch.randn(STEP_PICTURES, 3, 224, 224, device="cuda").bfloat16()
    y = torch.randint(0, 1000, (STEP_PICTURES,), device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(x).float(), y).backward()
        optimizer.step()
        torch.cuda.synchronize()

    found = rate(STEP_PICTURES * cards, step, STEPS)
    if rank == 0:
        results.put(found)
    dist.destroy_process_group()


def training(cards: int, way: str) -> float:
    """A process per card."""
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        arguments = (cards, way, f"{folder}/meeting", results)
        multiprocessing.spawn(step_rate, arguments, nprocs=cards)
        return results.get()


def table(facts: dict[str, Any]) -> list[str]:
    """Rates of one host."""
    counts = facts["cards"]
    lines = [
        "",
        f"`{facts['commands'][0]}` on {counts[-1]} {facts['device']} of one host, PyTorch "
        f"{facts['pytorch']}:",
        "",
        "| what | " + " | ".join(f"{n} card{'s' if n > 1 else ''}" for n in counts) + " | ratio |",
        "| --- |" + " --- |" * (len(counts) + 1),
    ]
    for what, rates in facts["rates"].items():
        if len(rates) < len(counts):
            continue  # not all are measured yet
        told = " | ".join(f"{r:.0f}" for r in rates)
        ratios = ", ".join(f"{r / rates[0]:.2f}" for r in rates[1:])
        lines.append(f"| {what} | {told} | {ratios} |")
    return lines


def page(hosts: list[dict[str, Any]]) -> list[str]:
    """Rates of hosts with different numbers of cards."""
    return [
        "# Several cards",
        "",
        f"ResNet-50, {PICTURES} pictures a card in float16, training steps of {STEP_PICTURES} a "
        "card in bfloat16. Pictures a second, and their ratio to one card's.",
        *[line for facts in hosts for line in table(facts)],
    ]


def keep(facts: dict[str, Any]) -> None:
    """In place of what is known of as many cards."""
    known = json.loads((FOLDER / "cards.json").read_text(encoding="utf-8"))["hosts"]
    hosts = [host for host in known if host["cards"] != facts["cards"]]
    hosts = sorted([*hosts, facts], key=lambda host: host["cards"][-1])
    write("cards", {"hosts": hosts}, page(hosts))


def main() -> None:
    """All rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="docs/gpu/cards.json and cards.md")
    parser.add_argument("--ways", default=f"{OURS},{PEER}", help="of the training step")
    arguments = parser.parse_args()
    counts = [n for n in (1, 2, 4, 8) if n <= torch.cuda.device_count()]
    if len(counts) < 2:
        sys.exit("cuda_cards: there is one card; two are compared with it")
    rates: dict[str, list[float]] = {}

    def add(what: str, found: float) -> None:
        rates.setdefault(what, []).append(found)
        print(f"{what}: {found:.0f} pictures a second", flush=True)
        facts = {**made_by(), "cards": counts, "rates": rates}
        if arguments.write:
            keep(facts)

    with tempfile.TemporaryDirectory() as folder:
        path = export(Path(folder))
        for cards in counts:
            add("inference, host", from_host(path, cards))
            add("inference, on the cards", on_cards(path, cards))
    for way in arguments.ways.split(","):
        for cards in counts:
            add(f"training step, {way}", training(cards, way))


if __name__ == "__main__":
    main()
