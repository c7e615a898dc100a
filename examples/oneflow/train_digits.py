# SPDX-License-Identifier: Apache-2.0
"""A CNN on scikit-learn's digits, trained by OneFlow and through the engines.

    ./dev test oneflow -k readme        # once: installs OneFlow and builds the extension module
    export PYTHONPATH=build/release/python
    tools/oneflow_env.sh python examples/oneflow/train_digits.py --engine native

Both begin with the same weights and see the same batches; printed are the loss curves' largest
difference and both accuracies on digits that were not trained on.
"""

from __future__ import annotations

import argparse

import numpy as np
import oneflow as flow
from oneflow import nn
from openxrt.oneflow import XRTModule
from sklearn.datasets import load_digits

BATCH = 32


class Net(nn.Module):
    """Two convolutions and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(128, 10)

    def forward(self, x: flow.Tensor) -> flow.Tensor:
        """Scores of the ten digits."""
        x = self.pool(flow.relu(self.conv2(flow.relu(self.norm(self.conv1(x))))))
        return self.head(flow.flatten(x, 1))


def train(engine: str | None, steps: int, images: np.ndarray, labels: np.ndarray) -> tuple:
    """The loss of every step, and the accuracy on the last fifth of the data."""
    flow.manual_seed(0)
    net = Net()
    model = net if engine is None else XRTModule(net, engine=engine.split(","))
    optimizer = flow.optim.SGD(model.parameters(), lr=0.1)
    loss_of = nn.CrossEntropyLoss()
    known = len(images) * 4 // 5 // BATCH * BATCH
    curve = []
    model.train()
    for step in range(steps):
        at = step * BATCH % known
        x, y = flow.tensor(images[at : at + BATCH]), flow.tensor(labels[at : at + BATCH])
        loss = loss_of(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(float(loss.numpy()))
    model.eval()
    with flow.no_grad():
        scores = model(flow.tensor(images[known:])).numpy()
    return np.array(curve), float((scores.argmax(1) == labels[known:]).mean())


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="native")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    digits = load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    labels = digits.target.astype(np.int64)
    wanted, accuracy = train(None, options.steps, images, labels)
    found, own_accuracy = train(options.engine, options.steps, images, labels)
    print(f"loss: {wanted[0]:.4f} -> {wanted[-1]:.4f} (OneFlow), {found[-1]:.4f} (openxrt)")
    print(
        f"largest difference of the curves over {options.steps} steps: "
        f"{np.abs(found - wanted).max():.2e}"
    )
    print(f"accuracy: {accuracy:.4f} (OneFlow), {own_accuracy:.4f} (openxrt)")


if __name__ == "__main__":
    main()
