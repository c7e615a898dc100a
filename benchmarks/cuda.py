#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CUDA engine beside torch.compile on one card: networks in float16, tensors on the card.

    python benchmarks/cuda.py                             # needs a GPU and PyTorch for CUDA
    python benchmarks/cuda.py --write                     # docs/gpu/bench.json and bench.md
    python benchmarks/cuda.py --only BERT --batches 1,32 --modes reduce-overhead,max-autotune

Per network and batch the median of runs that are waited for, and the mean of runs that are queued
one behind the other. Weights and data are random. The last column is the largest difference of
engine and PyTorch in float16 over the largest value.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openxrt
import openxrt.torch as xt
import torch
from torch import nn
from torch.nn import functional
from torch_cuda import Run, cuda_graph, median_ms, queued_ms, resnet50

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "gpu"
TOKENS = 128


class BertLayer(nn.Module):
    """Attention and two products, a normalisation behind each."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (f(x).view(shape).transpose(1, 2) for f in (self.query, self.key, self.value))
        y = functional.scaled_dot_product_attention(q, k, v)
        x = self.first(x + self.out(y.transpose(1, 2).reshape(batch, length, width)))
        return self.second(x + self.narrow(functional.gelu(self.wide(x))))


class Bert(nn.Module):
    """BERT-base: twelve layers of width 768."""

    def __init__(self, words: int = 30522, width: int = 768) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(TOKENS, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(*[BertLayer(width, 12) for _ in range(12)])

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.layers(self.norm(self.words(tokens) + self.places.weight))


def pictures(batch: int) -> torch.Tensor:
    """Of 224 × 224."""
    return torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.float16)


def sentences(batch: int) -> torch.Tensor:
    """Of 128 tokens."""
    return torch.randint(0, 30522, (batch, TOKENS), device="cuda")


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], torch.Tensor], list[int]]] = {
    "ResNet-50": (resnet50, pictures, [1, 32, 256]),
    "BERT-base": (Bert, sentences, [1, 32]),
}


def measure(
    name: str, batch: int, modes: list[str], seconds: float, rows: list[dict[str, Any]]
) -> None:
    """All ways of one network at one batch size."""
    make, data, _ = NETWORKS[name]
    torch.manual_seed(0)
    module = make().cuda().eval().half()
    x = data(batch)

    def add(way: str, build: Callable[[], Run], off: float | None = None) -> None:
        start = time.perf_counter()
        run = build()
        run()
        torch.cuda.synchronize()
        made = time.perf_counter() - start
        row = {
            "network": name,
            "batch": batch,
            "way": way,
            "waited_ms": median_ms(run, seconds),
            "queued_ms": queued_ms(run, seconds),
            "made_s": made,
            "off": off,
        }
        rows.append(row)
        print(
            f"{name:10s} {batch:4d} {way:32s} waited {row['waited_ms']:8.3f} ms, queued "
            f"{row['queued_ms']:8.3f} ms, made in {made:6.1f} s"
            + ("" if off is None else f", off {off:.1e}"),
            flush=True,
        )

    with torch.no_grad():
        want = module(x).float()
        add("PyTorch, CUDA graph", lambda: cuda_graph(module, x))
        fast = xt.XRTModule(module, engine=["cuda", "native"])
        start = time.perf_counter()
        off = ((fast(x).float() - want).abs().max() / want.abs().max()).item()
        first = time.perf_counter() - start
        add("OpenXRT, cuda", lambda: lambda: fast(x), off)
        rows[-1]["made_s"] = first
        for mode in modes:
            torch._dynamo.reset()
            compiled = torch.compile(module, mode=mode)
            add(f"torch.compile, {mode}", lambda compiled=compiled: lambda: compiled(x))


def write(rows: list[dict[str, Any]]) -> None:
    """The figures, and the page that shows them."""
    FOLDER.mkdir(exist_ok=True)
    facts = {
        "command": " ".join(["./dev bench cuda", *sys.argv[1:]]),
        "device": torch.cuda.get_device_name(),
        "pytorch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "openxrt": openxrt.__version__,
        "python": platform.python_version(),
        "rows": rows,
    }
    (FOLDER / "bench.json").write_text(json.dumps(facts, indent=2) + "\n")
    lines = [
        "# The CUDA engine beside torch.compile",
        "",
        f"Made by `{facts['command']}` on one {facts['device']}: PyTorch {facts['pytorch']}, cuDNN "
        f"{facts['cudnn']}. float16, tensors on the card; medians of runs that are waited for, "
        "means of runs that are queued.",
        "",
        "| network | batch | way | waited, ms | queued, ms | first run, s | off PyTorch |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        off = "" if row["off"] is None else f"{row['off']:.1e}"
        lines.append(
            f"| {row['network']} | {row['batch']} | {row['way']} | {row['waited_ms']:.3f} | "
            f"{row['queued_ms']:.3f} | {row['made_s']:.1f} | {off} |"
        )
    (FOLDER / "bench.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Everything, or what --only names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of the networks' names")
    parser.add_argument("--batches", default="", help="1,32 instead of all")
    parser.add_argument("--modes", default="reduce-overhead,max-autotune", help="of torch.compile")
    parser.add_argument("--seconds", type=float, default=1.0, help="per way")
    parser.add_argument("--write", action="store_true", help="docs/gpu/bench.json and bench.md")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, (_, _, batches) in NETWORKS.items():
        if arguments.only.lower() not in name.lower():
            continue
        chosen = [int(b) for b in arguments.batches.split(",") if b] or batches
        for batch in chosen:
            modes = [m for m in arguments.modes.split(",") if m]
            measure(name, batch, modes, arguments.seconds, rows)
    if arguments.write:
        write(rows)


if __name__ == "__main__":
    main()
