#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the folders of tests/frontends/oneflow/data with OneFlow 0.9.0 itself.

    tools/oneflow_env.sh python tests/frontends/oneflow/make_models.py [NAME...]

Each folder is what ``oneflow.save(graph, folder)`` writes, with ``cases.npz`` beside the variables:
the inputs and OneFlow's own outputs.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import oneflow as flow
import oneflow.nn as nn
import oneflow.nn.functional as F

DATA = Path(__file__).resolve().parent / "data"
MODELS: dict[str, Callable[[], tuple[nn.Module, list[np.ndarray]]]] = {}


def model(make: Callable[[], tuple[nn.Module, list[np.ndarray]]]) -> Callable:
    """Registers a model under the function's name."""
    MODELS[make.__name__] = make
    return make


def floats(*shape: int, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    """Random numbers; the generator's seed is the model's."""
    return np.random.uniform(low, high, shape).astype(np.float32)


class Lambda(nn.Module):
    """A module of one function."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: flow.Tensor) -> object:
        return self.function(*args)


@model
def cnn():
    """Convolution, batch normalisation, pooling, a linear layer."""
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 12, 3, stride=2, padding=1, groups=4, bias=False),
        nn.LeakyReLU(0.1),
        nn.AvgPool2d(2, stride=1, padding=1),
        nn.Flatten(1),
        nn.Linear(12 * 5 * 5, 5),
        nn.Softmax(dim=-1),
    )
    return net, [floats(2, 3, 16, 16)]


class Mobile(nn.Module):
    """Depthwise convolution with squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.depth = nn.Conv2d(16, 16, 5, padding=4, dilation=2, groups=16)
        self.squeeze = nn.Conv2d(16, 4, 1)
        self.excite = nn.Conv2d(4, 16, 1)
        self.head = nn.Linear(16, 6)

    def forward(self, x):
        x = F.hardswish(self.norm(self.stem(x)))
        y = F.relu6(self.depth(x))
        gate = F.hardsigmoid(self.excite(F.silu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        y = flow.cat([x + y * gate, flow.sigmoid(y)], dim=1)
        y = F.adaptive_avg_pool2d(y[:, :16], (3, 2))
        return self.head(y.mean(dim=(2, 3)))


@model
def mobile():
    """What MobileNet v3 and EfficientNet are made of."""
    return Mobile(), [floats(1, 3, 20, 20)]


class Attention(nn.Module):
    """A transformer's block over windows, as ViT and Swin write it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.qkv = nn.Linear(24, 72)
        self.out = nn.Linear(24, 24)
        self.mlp = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24))
        self.token = nn.Parameter(flow.randn(1, 1, 24))
        self.table = nn.Parameter(flow.randn(31, 3))
        index = np.arange(16)[:, None] - np.arange(16)[None, :] + 15
        self.register_buffer("index", flow.tensor(index.reshape(-1, 1).astype(np.int64)))

    def forward(self, x):
        b, n, c = x.shape
        x = flow.roll(x, shifts=(-3,), dims=(1,))
        x = flow.cat([self.token.expand(b, -1, -1), x], dim=1)
        qkv = self.qkv(self.norm(x)).reshape(b, n + 1, 3, 3, 8).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = flow.matmul(q, k.transpose(-2, -1)) * 8**-0.5
        bias = flow.gather_nd(self.table, self.index).reshape(n + 1, n + 1, 3).permute(2, 0, 1)
        scores = flow.softmax(scores + bias.unsqueeze(0), dim=-1)
        y = flow.matmul(scores, v).transpose(1, 2).reshape(b, n + 1, c)
        x = x + self.out(y)
        return x + self.mlp(self.norm(x)), x[:, 0]


@model
def attention():
    """Two outputs; variables and constant indices."""
    return Attention(), [floats(2, 15, 24)]


def save(name: str) -> None:
    """Builds, runs and writes one model."""
    np.random.seed(7)
    flow.manual_seed(7)
    net, inputs = MODELS[name]()
    net.eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):  # statistics that do something
            module.running_mean.copy_(flow.tensor(floats(module.num_features)))
            module.running_var.copy_(flow.tensor(floats(module.num_features, low=0.5, high=2)))

    class Graph(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def build(self, *args):
            return self.net(*args)

    graph = Graph()
    outputs = graph(*[flow.tensor(x) for x in inputs])
    if not isinstance(outputs, (tuple, list)):
        outputs = [outputs]
    folder = DATA / name
    shutil.rmtree(folder, ignore_errors=True)
    flow.save(graph, str(folder))
    arrays = {f"input_{i}": x for i, x in enumerate(inputs)}
    arrays |= {f"output_{i}": y.numpy() for i, y in enumerate(outputs)}
    np.savez_compressed(folder / "cases.npz", **arrays)
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    print(f"{name}: {size / 1024:.0f} KiB")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or MODELS:
        save(wanted)
