# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network learns digits: PyTorch beside the engines, from the same weights.

    ./dev run python examples/pytorch/train_digits.py --engine native --engine openvino,native

The pictures are drawn here (seven-segment digits, moved, scaled and noisy), so that nothing is
downloaded.
"""

from __future__ import annotations

import argparse
import copy
import time

import openxrt.torch
import torch
from torch.nn import functional

SEGMENTS = ["012456", "25", "02346", "02356", "1235", "01356", "013456", "025", "0123456", "012356"]
# Begin and end of each segment on a 9 × 5 field: top, upper left, upper right, middle, lower left …
LINES = [
    (0, 0, 0, 4),
    (0, 0, 4, 0),
    (0, 4, 4, 4),
    (4, 0, 4, 4),
    (4, 0, 8, 0),
    (4, 4, 8, 4),
    (8, 0, 8, 4),
]


def digits(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures, float32 [count, 1, 16, 16], and what they show, int64 [count]."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (count,), generator=generator)
    images = torch.randn(count, 1, 16, 16, generator=generator) * 0.3
    for image, label in zip(images, labels, strict=True):
        row, column = torch.randint(0, 7, (2,), generator=generator).tolist()
        for segment in SEGMENTS[int(label)]:
            top, left, bottom, right = LINES[int(segment)]
            image[0, row + top : row + bottom + 1, column + left : column + right + 1] += 1.0
    return images, labels


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(256, 10),
    )


def train(module: torch.nn.Module, steps: int) -> tuple[list[float], float, float]:
    """The losses, milliseconds per step (the first ten apart), and accuracy on unseen pictures."""
    images, labels = digits(2048, seed=1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.02)
    losses, began = [], 0.0
    module.train()
    for step in range(steps):
        if step == 10:
            began = time.perf_counter()
        part = slice(step * 64 % 2048, step * 64 % 2048 + 64)
        optimizer.zero_grad()
        loss = functional.cross_entropy(module(images[part]), labels[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    taken = (time.perf_counter() - began) / max(1, steps - 10) * 1e3
    unseen, truth = digits(512, seed=2)
    module.eval()
    with torch.no_grad():
        accuracy = (module(unseen).argmax(1) == truth).float().mean().item()
    return losses, taken, accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", action="append", help="engines in order of priority: a,b")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    begin = network()
    reference, taken, accuracy = train(copy.deepcopy(begin), options.steps)
    print(f"{'':18}  last loss  accuracy  ms a step  largest difference of a loss")
    print(f"{'pytorch':18} {reference[-1]:10.5f} {accuracy:9.3f} {taken:10.2f}")
    for engine in options.engine or ["native"]:
        module = openxrt.torch.XRTModule(copy.deepcopy(begin), engine=engine.split(","))
        losses, taken, accuracy = train(module, options.steps)
        difference = max(abs(a - b) for a, b in zip(losses, reference, strict=True))
        print(f"{engine:18} {losses[-1]:10.5f} {accuracy:9.3f} {taken:10.2f} {difference:12.2e}")


if __name__ == "__main__":
    main()
