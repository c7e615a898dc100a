# SPDX-License-Identifier: Apache-2.0
"""A CNN on scikit-learn's digits: trained by OneFlow, evaluated in int8 by the engines.

    ./dev test oneflow -k readme        # once: installs OneFlow and builds the extension module
    export PYTHONPATH=build/release/python
    tools/extra_env.sh oneflow python examples/oneflow/int8_digits.py --engine openvino

Prints the accuracy, the share of digits that are told as OneFlow tells them, and signal over noise.
"""

from __future__ import annotations

import argparse
import tempfile

import numpy as np
import oneflow as flow
from oneflow import nn
from openxrt.oneflow import XRTModule, ptq_calibration_mode
from sklearn.datasets import load_digits

SEEN = 1437  # the rest is kept for the accuracy


def network() -> nn.Module:
    """Two convolutions and a linear layer."""
    flow.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 16, 10),
    )


def train(net: nn.Module, images: np.ndarray, labels: np.ndarray, steps: int) -> None:
    """SGD with momentum, batches of 64."""
    optimizer = flow.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    for number in range(steps):
        at = number * 64 % (SEEN - 64)
        loss = loss_of(net(flow.tensor(images[at : at + 64])), flow.tensor(labels[at : at + 64]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main() -> None:
    """Trains, wraps, compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images = (data.images[:, None] / 16).astype(np.float32)[order]
    labels = data.target[order].astype(np.int64)
    net = network()
    train(net, images, labels, options.steps)
    net.eval()

    def scores(module: nn.Module) -> np.ndarray:
        with flow.no_grad():
            return module(flow.tensor(images[SEEN:])).numpy()

    def report(name: str, module: nn.Module) -> None:
        found = scores(module)
        accuracy = (found.argmax(1) == labels[SEEN:]).mean()
        agreement = (found.argmax(1) == wanted.argmax(1)).mean()
        noise = max(float(np.square(found - wanted).sum()), 1e-30)
        ratio = 10 * np.log10(np.square(wanted).sum() / noise)
        print(f"{name:18}{accuracy:10.4f}{agreement:12.4f}{ratio:10.1f}", flush=True)

    wanted = scores(net)
    print(f"{'':18}{'accuracy':>10}{'agreement':>12}{'dB':>10}")
    report("float32", XRTModule(net, engine=options.engine))
    samples = [flow.tensor(images[i : i + 32]) for i in range(0, 256, 32)]
    int8 = {"engine": options.engine, "use_int8": True}
    report("int8, samples", XRTModule(net, **int8, int8_calibration=samples))
    with tempfile.TemporaryDirectory() as folder:
        module = XRTModule(net, **int8)
        with ptq_calibration_mode(folder):
            for x in samples:
                module(x)
        # What the folder holds serves other processes.
        report("int8, table", XRTModule(net, **int8, int8_calibration=folder))
    trained = XRTModule(net, **int8, int8_calibration=samples)
    train(trained.train(), images, labels, 20)
    trained.eval()
    net.eval()
    wanted = scores(net)
    report("int8, trained on", trained)


if __name__ == "__main__":
    main()
