#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Modules on CUDA through XLA beside PyTorch: inference and training steps, tensors on the GPU.

    python benchmarks/torch_cuda.py                 # needs a GPU, PyTorch for CUDA, jax-cuda13-pjrt
    python benchmarks/torch_cuda.py --only ResNet-50 --inductor

Medians of the runs of a second, each of which is waited for; then the mean of runs that are queued
one after the other ("queued"), as in training that does not look at every loss. Weights and data
are random; networks are those of the papers, written down here, so that nothing has to be
downloaded.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import openxrt.torch as xt
import torch
from torch import nn
from torch.nn import functional

Run = Callable[[], Any]
ENGINE = {"engine": ["xla", "native"]}
TF32 = {"engine_options": {"xla": {"tf32": "true"}}}


class Block(nn.Module):
    """A residual block of two convolutions, or with `expansion` 4 of three."""

    def __init__(self, given: int, channels: int, stride: int, expansion: int) -> None:
        super().__init__()
        out = channels * expansion
        sizes = [(1, 1), (3, stride), (1, 1)] if expansion == 4 else [(3, stride), (3, 1)]
        widths = [given, *[channels] * (len(sizes) - 1), out]
        layers: list[nn.Module] = []
        for i, (size, step) in enumerate(sizes):
            one = nn.Conv2d(widths[i], widths[i + 1], size, step, size // 2, bias=False)
            layers += [one, nn.BatchNorm2d(widths[i + 1]), nn.ReLU()]
        self.body = nn.Sequential(*layers[:-1])
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or given != out:
            one = nn.Conv2d(given, out, 1, stride, bias=False)
            self.shortcut = nn.Sequential(one, nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    """Of so many blocks per stage, on pictures of 224 × 224."""

    def __init__(self, blocks: tuple[int, ...], expansion: int) -> None:
        super().__init__()
        layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
        layers.append(nn.MaxPool2d(3, 2, 1))
        given = 64
        for stage, count in enumerate(blocks):
            for i in range(count):
                stride = 2 if stage > 0 and i == 0 else 1
                layers.append(Block(given, 64 << stage, stride, expansion))
                given = (64 << stage) * expansion
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(given, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).mean((2, 3)))


class Layer(nn.Module):
    """Causal attention and two products, each behind a normalisation."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.first(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(functional.gelu(self.wide(self.second(x))))


class Transformer(nn.Module):
    """Four layers of width 256 over sequences of 128 tokens."""

    def __init__(self, words: int = 1000, width: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.Sequential(*[Layer(width, 4) for _ in range(4)])
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embedding(tokens)))


def resnet50() -> nn.Module:
    """50 layers."""
    return ResNet((3, 4, 6, 3), 4)


def resnet18() -> nn.Module:
    """18 layers."""
    return ResNet((2, 2, 2, 2), 1)


def queued_ms(run: Run, seconds: float) -> float:
    """Of one of many runs that are queued one after the other, the last of which is waited for."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    start = time.perf_counter()
    count = 0
    while time.perf_counter() < start + seconds or count < 10:
        run()
        count += 1
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / count


def median_ms(run: Run, seconds: float) -> float:
    """Of a run that is waited for."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 10:
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def cuda_graph(module: nn.Module, x: torch.Tensor) -> Run:
    """The module's kernels, recorded and replayed."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            module(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        module(x)
    return graph.replay


class Table:
    """Prints one line per way as it is measured."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def measure(self, case: str, way: str, make: Callable[[], Run]) -> None:
        """Makes the run, does it once, and times it."""
        start = time.perf_counter()
        run = make()
        run()
        torch.cuda.synchronize()
        made = time.perf_counter() - start
        ms, queued = median_ms(run, self.seconds), queued_ms(run, self.seconds)
        print(
            f"{case:30s} {way:28s} {ms:9.3f} ms, queued {queued:9.3f} ms   made in {made:.1f} s",
            flush=True,
        )


def allow_tf32(allow: bool) -> None:
    """For PyTorch's products and convolutions."""
    torch.backends.cuda.matmul.allow_tf32 = allow
    torch.backends.cudnn.allow_tf32 = allow


def inference(
    table: Table, name: str, make: Callable[[], nn.Module], x: torch.Tensor, kind: str, more: bool
) -> None:
    """All ways of one module in one type."""
    dtype = torch.float32 if kind == "tf32" else getattr(torch, kind)
    allow_tf32(kind == "tf32")
    torch.manual_seed(0)
    module = make().cuda().eval().to(dtype)
    x = x.to(dtype) if x.is_floating_point() else x
    case = f"{name} {kind} batch {x.shape[0]}"
    fast = xt.XRTModule(module, **ENGINE, **(TF32 if kind == "tf32" else {}))
    with torch.no_grad():
        wanted = module(x)
        off = ((fast(x) - wanted).abs().max() / wanted.abs().max()).item()
        print(f"{case:30s} off PyTorch by {off:.1e} of the largest", flush=True)
        table.measure(case, "PyTorch eager", lambda: lambda: module(x))
        table.measure(case, "PyTorch, CUDA graph", lambda: cuda_graph(module, x))
        table.measure(case, "XRTModule", lambda: lambda: fast(x))
        if kind == "float32":
            program, host = next(iter(fast.programs())), x.cpu()
            array, pinned = host.numpy(), host.pin_memory()
            table.measure(case, "eager, host to host", lambda: lambda: module(pinned.cuda()).cpu())
            table.measure(case, "program, host to host", lambda: lambda: program(array))
        if more:
            compiled = torch.compile(module, mode="reduce-overhead")
            table.measure(case, "torch.compile, inductor", lambda: lambda: compiled(x))


def step_of(module: nn.Module, run: Callable[..., Any], x: torch.Tensor, y: torch.Tensor) -> Run:
    """Loss, gradients and SGD with momentum."""
    optimizer = torch.optim.SGD(module.parameters(), 0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(run(x).flatten(0, -2), y.flatten()).backward()
        optimizer.step()

    return step


def training(
    table: Table, name: str, make: Callable[[], nn.Module], x: torch.Tensor, y: torch.Tensor
) -> None:
    """A step in float32 without TF32."""
    allow_tf32(False)
    case = f"{name} step batch {x.shape[0]}"
    for way in ("PyTorch eager", "torch.compile, openxrt"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        module = make().cuda().train()
        run: Callable[..., Any] = module
        if way != "PyTorch eager":
            run = torch.compile(module, backend="openxrt", options=dict(ENGINE))
        table.measure(case, way, lambda module=module, run=run: step_of(module, run, x, y))


def main() -> None:
    """Everything, or what --only names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of the networks' names")
    parser.add_argument("--seconds", type=float, default=1.0, help="per way")
    parser.add_argument("--inductor", action="store_true", help="torch.compile's default too")
    arguments = parser.parse_args()
    table = Table(arguments.seconds)
    torch.manual_seed(0)
    tokens = torch.randint(0, 1000, (32, 128), device="cuda")
    pictures = torch.randn(32, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (32,), device="cuda")
    cases: list[tuple[str, Callable[[], None]]] = []
    for x, kind in (
        (pictures[:1], "float32"),
        (pictures[:1], "float16"),
        (pictures, "float32"),
        (pictures, "tf32"),
        (pictures, "bfloat16"),
    ):
        cases.append(
            (
                "ResNet-50",
                lambda x=x, kind=kind: inference(
                    table, "ResNet-50", resnet50, x, kind, arguments.inductor
                ),
            )
        )
    cases += [
        (
            "transformer",
            lambda: inference(
                table, "transformer", Transformer, tokens, "float32", arguments.inductor
            ),
        ),
        (
            "transformer",
            lambda: training(table, "transformer", Transformer, tokens, tokens.roll(-1, 1)),
        ),
        ("ResNet-18", lambda: training(table, "ResNet-18", resnet18, pictures, labels)),
    ]
    for name, run in cases:
        if arguments.only.lower() in name.lower():
            run()


if __name__ == "__main__":
    main()
