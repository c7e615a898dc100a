# SPDX-License-Identifier: Apache-2.0
"""A CNN for scikit-learn's digits in int8: trained by PyTorch, evaluated by the engines.

    python examples/pytorch/int8_digits.py --engine openvino

Prints accuracy, agreement with PyTorch and signal over noise of floating point and of int8, the
ranges taken from samples, from the first calls, and within ptq_calibration_mode().
"""

from __future__ import annotations

import argparse
import tempfile

import openxrt.torch as xt
import torch
from sklearn.datasets import load_digits
from torch import nn


def network() -> nn.Module:
    """Three convolutions and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * 16, 10),
    )


def train(net: nn.Module, pictures: torch.Tensor, labels: torch.Tensor, steps: int) -> None:
    """Adam, batches of 64."""
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(steps):
        at = torch.randint(0, len(pictures), (64,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(pictures[at]), labels[at]).backward()
        optimizer.step()


def main() -> None:
    """Trains, wraps, compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()

    images, targets = load_digits(return_X_y=True)
    pictures = torch.tensor(images / 16.0, dtype=torch.float32).reshape(-1, 1, 8, 8)
    labels = torch.tensor(targets)
    torch.manual_seed(0)
    net = network()
    train(net, pictures[:1400], labels[:1400], options.steps)
    net.eval()
    test, truth = pictures[1400:], labels[1400:]
    with torch.no_grad():
        wanted = net(test)

    def report(name: str, module: nn.Module) -> None:
        with torch.no_grad():
            found = module(test)
        accuracy = (found.argmax(1) == truth).float().mean()
        agreement = (found.argmax(1) == wanted.argmax(1)).float().mean()
        noise = (found - wanted).square().sum().clamp_min(1e-30)
        ratio = 10 * torch.log10(wanted.square().sum() / noise)
        print(f"{name:24}{accuracy:10.4f}{agreement:12.4f}{ratio:10.1f}")

    print(f"{'':24}{'accuracy':>10}{'agreement':>12}{'dB':>10}")
    report("float32", xt.XRTModule(net, engine=options.engine))

    samples = list(pictures[:256].split(32))
    int8 = {"engine": options.engine, "use_int8": True}
    report("int8, samples", xt.XRTModule(net, **int8, int8_calibration=samples))

    first = xt.XRTModule(net, **int8, int8_calibration=8)
    for x in samples:  # in floating point
        first(x)
    report("int8, the first 8 calls", first)

    with tempfile.TemporaryDirectory() as folder:
        module = xt.XRTModule(net, **int8)
        with xt.ptq_calibration_mode(folder):
            for x in samples:
                module(x)
        # What the folder holds serves other processes.
        report("int8, table", xt.XRTModule(net, **int8, int8_calibration=folder))

        # The weights change: they are quantised anew, and so are the ranges of samples.
        trained = xt.XRTModule(net, **int8, int8_calibration=samples)
        train(trained.train(), pictures[:1400], labels[:1400], 20)
        trained.eval()
        with torch.no_grad():
            wanted = net(test)
        report("int8, trained on", trained)


if __name__ == "__main__":
    main()
