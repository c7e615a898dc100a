# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network learns scikit-learn's digits: PyTorch beside the engines, from the
same weights.

    ./dev run python examples/pytorch/train_digits.py        # native, xla, openvino+xla
    ./dev run python examples/pytorch/train_digits.py --engine native --steps 50
"""

from __future__ import annotations

import sys

import torch
from curves import compare, parser
from sklearn.datasets import load_digits
from torch.nn import functional

BATCH = 64


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """1,797 scanned digits, float32 [n, 1, 8, 8] from 0 to 1, and what they are, int64 [n]."""
    data = load_digits()
    order = torch.randperm(len(data.target), generator=torch.Generator().manual_seed(0))
    images = torch.from_numpy(data.images).float()[:, None] / 16
    return images[order], torch.from_numpy(data.target)[order].long()


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1),
        torch.nn.BatchNorm2d(16),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * 16, 10),
    )


def main() -> int:
    options = parser(__doc__).parse_args()
    images, labels = digits()
    seen = 1437  # the rest is kept for the accuracy

    def loss_of(module: torch.nn.Module, step: int) -> torch.Tensor:
        begin = step * BATCH % (seen - BATCH)
        part = slice(begin, begin + BATCH)
        return functional.cross_entropy(module(images[part]), labels[part])

    def accuracy_of(module: torch.nn.Module) -> float:
        return (module(images[seen:]).argmax(1) == labels[seen:]).float().mean().item()

    def optimizer(module: torch.nn.Module) -> torch.optim.Optimizer:
        # At 0.05 rounding grows to differences of the loss of 1e-2 within 200 steps, in PyTorch
        # alone, too: the row "PyTorch + 1e-6" tells.
        return torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)

    compare("Loss of a CNN on digits", network(), options, optimizer, loss_of, accuracy_of)
    return 0


if __name__ == "__main__":
    sys.exit(main())
