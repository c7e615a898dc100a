#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the folders of tests/frontends/oneflow/data with OneFlow 0.9.0 itself.

    tools/extra_env.sh oneflow python tests/frontends/oneflow/make_models.py [NAME...]

A model's folder is what ``oneflow.save(graph, folder)`` writes, with ``cases.npz`` beside the
variables: the inputs and OneFlow's own outputs. A job with gradients and updates is a compressed
text, with an archive of its variables before and after a few steps.
"""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import oneflow as flow
import oneflow.nn as nn
from oneflow.nn import functional

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
        x = functional.hardswish(self.norm(self.stem(x)))
        y = functional.relu6(self.depth(x))
        gate = functional.hardsigmoid(
            self.excite(functional.silu(self.squeeze(functional.adaptive_avg_pool2d(y, 1))))
        )
        y = flow.cat([x + y * gate, flow.sigmoid(y)], dim=1)
        y = functional.adaptive_avg_pool2d(y[:, :16], (3, 2))
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


# --- jobs with gradients and updates --------------------------------------------------------------

JOBS: dict[str, Callable[[], tuple[nn.Module, list[np.ndarray], Callable]]] = {}


def job(make: Callable[[], tuple[nn.Module, list[np.ndarray], Callable]]) -> Callable:
    """Registers a module that computes its own loss, its inputs, and what makes an optimizer."""
    JOBS[make.__name__] = make
    return make


class Classifier(nn.Module):
    """A small network with its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            # A bias before batch normalisation has no gradient but noise, which Adam enlarges.
            nn.Conv2d(1, 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2, bias=False),
            nn.GELU(),
            nn.AvgPool2d(2),
            nn.Flatten(1),
            nn.Linear(8, 10),
        )
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x, labels):
        return self.loss(self.net(x), labels)


def classifier(optimizer: Callable) -> tuple[nn.Module, list[np.ndarray], Callable]:
    labels = np.random.randint(0, 10, 6).astype(np.int64)
    return Classifier(), [floats(6, 1, 8, 8), labels], optimizer


@job
def train_sgd():
    return classifier(lambda p: flow.optim.SGD(p, lr=0.1))


@job
def train_momentum():
    return classifier(
        lambda p: flow.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3, nesterov=True)
    )


@job
def train_adam():
    return classifier(lambda p: flow.optim.Adam(p, lr=0.01))


@job
def train_adamw():
    return classifier(lambda p: flow.optim.AdamW(p, lr=0.01, weight_decay=0.1))


@job
def train_adagrad():
    return classifier(lambda p: flow.optim.Adagrad(p, lr=0.05, lr_decay=0.1))


@job
def train_rmsprop():
    return classifier(lambda p: flow.optim.RMSprop(p, lr=0.01, centered=True))


@job
def train_lamb():
    return classifier(lambda p: flow.optim.LAMB(p, lr=0.01, weight_decay=0.01))


class Weights(nn.Module):
    """A loss that is a function of one matrix."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.w = nn.Parameter(flow.tensor(floats(4, 6)))
        self.function = function

    def forward(self):
        parts = self.function(self.w)
        weights = [flow.arange(y.numel()).reshape(y.shape) / y.numel() for y in parts]
        return sum((y * w).sum() for y, w in zip(parts, weights))  # noqa: B905 (Python 3.10's)


def sgd(parameters):
    return flow.optim.SGD(parameters, lr=1.0)


@job
def gradients_of_activations():
    functions = [
        functional.relu, flow.sigmoid, flow.tanh, functional.gelu, nn.GELU(approximate="tanh"),
        functional.silu, functional.mish, functional.hardswish, functional.hardsigmoid,
        nn.Hardtanh(-0.5, 0.5), nn.ELU(), nn.CELU(), functional.selu, nn.LeakyReLU(0.1),
        nn.Softsign(), functional.logsigmoid,
    ]  # fmt: skip
    return Weights(lambda w: [f(w * 4) for f in functions]), [], sgd


@job
def gradients_of_functions():
    functions = [
        flow.exp, flow.square, flow.abs, flow.erf, flow.sin, flow.cos, flow.tan, flow.atan,
        flow.expm1, lambda w: flow.log(w + 5), lambda w: flow.sqrt(w + 5),
        lambda w: flow.rsqrt(w + 5), lambda w: flow.log1p(w + 5), lambda w: 1 / (w + 5),
        lambda w: flow.pow(w, 3), lambda w: flow.pow(w + 5, w), lambda w: w / (w[:1] + 5),
        lambda w: flow.maximum(w, w * 0.5), lambda w: flow.minimum(w, w * 0.5),
        lambda w: flow.clamp(w, -0.5, 0.5), lambda w: flow.where(w > 0, w, w * 2),
        lambda w: w.masked_fill(w > 0, 1.5),
    ]  # fmt: skip
    return Weights(lambda w: [f(w) for f in functions]), [], sgd


@job
def gradients_of_shapes():
    functions = [
        lambda w: w[1:3, ::2], lambda w: flow.chunk(w, 2, 1)[1], lambda w: w.narrow(1, 1, 2),
        lambda w: functional.pad(w, (1, 2)), lambda w: flow.flip(w, [1]), lambda w: flow.tril(w),
        lambda w: w.unsqueeze(0).expand(3, -1, -1), lambda w: w.repeat(2, 3),
        lambda w: flow.roll(w, 1, 1), lambda w: flow.stack([w, w * 2], 1), lambda w: w.mean(1),
        lambda w: flow.cat([w, w * 2], 1), lambda w: w.max(1)[0], lambda w: flow.amax(w, 1),
        lambda w: w.var(1), lambda w: flow.topk(w, 2)[0], lambda w: flow.sort(w, 1)[0],
        lambda w: flow.cumsum(w, 1), lambda w: flow.softmax(w, -1),
        lambda w: functional.layer_norm(w, (6,)), lambda w: functional.normalize(w, dim=1),
        lambda w: flow.matmul(w, w.t()), lambda w: flow.matmul(w.reshape(2, 2, 6), w.t()),
    ]  # fmt: skip
    return Weights(lambda w: [f(w) for f in functions]), [], sgd


@job
def gradients_of_losses():
    target = np.full((4, 6), 0.3, np.float32)
    losses = [
        lambda w, t: nn.MSELoss()(w, t), lambda w, t: nn.L1Loss()(w, t),
        lambda w, t: nn.SmoothL1Loss()(w, t), lambda w, t: nn.BCELoss()(flow.sigmoid(w), t),
        lambda w, t: nn.BCEWithLogitsLoss()(w, t),
        lambda w, t: nn.KLDivLoss()(functional.log_softmax(w, -1), t),
    ]  # fmt: skip

    class Losses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(flow.tensor(floats(4, 6)))

        def forward(self, t):
            return sum(loss(self.w, t) for loss in losses)

    return Losses(), [target], sgd


TRAINING_STEPS = 4


def save_job(name: str) -> None:
    """Runs a few steps and writes the job's text, its variables before and after, its losses."""
    np.random.seed(7)
    flow.manual_seed(7)
    net, inputs, make_optimizer = JOBS[name]()
    # One step of rate 1 shows a gradient itself.
    steps = TRAINING_STEPS if name.startswith("train") else 1
    optimizer = make_optimizer(net.parameters())

    class Graph(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.net = net
            self.add_optimizer(optimizer)

        def build(self, *args):
            loss = self.net(*args)
            loss.backward()
            return loss

    graph = Graph()
    arguments = [flow.tensor(x) for x in inputs]
    prefix = "net."
    state = {prefix + key: value for key, value in net.state_dict().items()}
    arrays = {f"before/{key}": value.numpy().copy() for key, value in state.items()}
    arrays["losses"] = np.array([graph(*arguments).numpy() for _ in range(steps)])
    arrays |= {f"after/{key}": value.numpy() for key, value in state.items()}
    arrays |= {f"input_{i}": x for i, x in enumerate(inputs)}
    arrays["learning_rate"] = np.array([optimizer.param_groups[0]["lr"]], np.float32)
    DATA.mkdir(exist_ok=True)
    np.savez_compressed(DATA / f"{name}.npz", **arrays)
    with tempfile.TemporaryDirectory() as folder:
        job_text = graph._full_graph_proto.SerializeToString()
        flow._oneflow_internal.nn.graph.SaveJobToIR(job_text, folder)
        text = (Path(folder) / "model.mlir").read_bytes()
    (DATA / f"{name}.mlir.gz").write_bytes(gzip.compress(text, mtime=0))
    print(f"{name}: {len(text)} bytes of text, losses {arrays['losses']}")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or [*MODELS, *JOBS]:
        if wanted in MODELS:
            save(wanted)
        else:
            save_job(wanted)
