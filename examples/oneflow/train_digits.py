# SPDX-License-Identifier: Apache-2.0
"""A CNN on scikit-learn's digits, trained by OneFlow and through the engines.

    ./dev test oneflow -k readme        # once: installs OneFlow and builds the extension module
    export PYTHONPATH=build/release/python
    tools/extra_env.sh oneflow python examples/oneflow/train_digits.py --svg digits.svg

All begin with the same weights and see the same batches. As modules, forward and backward go
through the engines and the optimizer stays OneFlow's; as "whole job" an nn.Graph with its optimizer
is one program, updates included. Printed are the last loss, the accuracy on digits that were not
trained on, and how far the loss was from OneFlow's at most; more than 1e-3 is a failure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import oneflow as flow
from oneflow import nn
from openxrt.oneflow import XRTModule
from sklearn.datasets import load_digits

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "training"))
from loss_picture import write_svg

BATCH = 64
SEEN = 1437  # the rest is kept for the accuracy
WAYS = ["native", "xla", "openvino,xla", "native, whole job"]


def digits() -> tuple[np.ndarray, np.ndarray]:
    """1,797 scanned digits, float32 [n, 1, 8, 8] from 0 to 1, and what they are, int64 [n]."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images = (data.images[:, None] / 16).astype(np.float32)
    return images[order], data.target[order].astype(np.int64)


def network() -> nn.Module:
    """With the same weights each time.

    Smooth throughout: at a ReLU, one value that rounding moves across 0 changes a gradient by far
    more than rounding, and at this rate such a difference grows to 1e-3 of the loss in 100 steps.
    """
    flow.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.SiLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.SiLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 16, 10),
    )


class Step(nn.Graph):
    """A training step, update included."""

    def __init__(self, net: nn.Module, optimizer: flow.optim.Optimizer) -> None:
        super().__init__()
        self.net = net
        self.loss_of = nn.CrossEntropyLoss()
        self.add_optimizer(optimizer)

    def build(self, x: flow.Tensor, y: flow.Tensor) -> flow.Tensor:
        """The loss."""
        loss = self.loss_of(self.net(x), y)
        loss.backward()
        return loss


def stepping(way: str, net: nn.Module) -> tuple[nn.Module, Callable]:
    """What evaluates, and a function that makes a step and returns its loss."""
    engines, _, whole = way.partition(", ")
    model = XRTModule(net, engine=engines.split(",")) if way else net
    optimizer = flow.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if whole:
        return model, XRTModule(Step(net, optimizer), engine=engines.split(","))
    loss_of = nn.CrossEntropyLoss()

    def step(x: flow.Tensor, y: flow.Tensor) -> flow.Tensor:
        loss = loss_of(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return model, step


def train(
    way: str, steps: int, images: np.ndarray, labels: np.ndarray
) -> tuple[list[float], float]:
    """The loss of every step, and the accuracy on digits kept for it; "" is OneFlow."""
    model, step = stepping(way, network())
    curve = []
    model.train()
    for number in range(steps):
        at = number * BATCH % (SEEN - BATCH)
        x, y = flow.tensor(images[at : at + BATCH]), flow.tensor(labels[at : at + BATCH])
        curve.append(float(step(x, y).numpy()))
    model.eval()
    with flow.no_grad():
        scores = model(flow.tensor(images[SEEN:])).numpy()
    return curve, float((scores.argmax(1) == labels[SEEN:]).mean())


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", action="append", help="engines in order of priority: a,b")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--svg", type=Path, help="where to draw the losses")
    options = parser.parse_args()
    images, labels = digits()
    curves: dict[str, list[float]] = {}
    worst = 0.0
    print(f"{'':18} last loss  accuracy  largest difference of a loss")
    for way in ["", *(options.engine or WAYS)]:
        name = way or "OneFlow"
        curves[name], accuracy = train(way, options.steps, images, labels)
        difference = float(np.abs(np.subtract(curves[name], curves["OneFlow"])).max())
        worst = max(worst, difference)
        print(f"{name:18} {curves[name][-1]:9.5f} {accuracy:9.4f}  {difference:.2e}", flush=True)
    if options.svg:
        write_svg(options.svg, "Loss of a CNN on digits: OneFlow and the engines", curves)
    return int(worst > 1e-3)


if __name__ == "__main__":
    raise SystemExit(main())
