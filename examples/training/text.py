# SPDX-License-Identifier: Apache-2.0
"""A small transformer learns the next letter of a text: PyTorch and openxrt.Trainer, from the same
weights on the same batches.

    ./dev run python examples/training/text.py --engine native --engine xla --engine openvino,xla
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import openxrt
import torch
from loss_picture import write_svg
from openxrt import optim
from torch import nn
from torch.nn import functional

TEXT = Path(__file__).with_name("text.txt")
LENGTH, BATCH, WIDTH, HEADS, LAYERS = 48, 16, 64, 4, 2


class Block(nn.Module):
    """Attention to earlier letters, then two wide layers; each added to what comes in."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.joined = nn.Linear(WIDTH, WIDTH)
        self.before_wide = nn.LayerNorm(WIDTH)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = (BATCH, LENGTH, HEADS, WIDTH // HEADS)
        parts = self.queries_keys_values(self.before_attention(x)).split(WIDTH, dim=2)
        q, k, v = (part.view(shape).transpose(1, 2) for part in parts)
        scores = q @ k.transpose(2, 3) * (WIDTH // HEADS) ** -0.5
        later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, -1e9).softmax(-1)
        seen = (weights @ v).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)
        x = x + self.joined(seen)
        return x + self.narrow(functional.gelu(self.wide(self.before_wide(x))))


class Transformer(nn.Module):
    """Letters int64 [batch, length] to logits [batch, letters, length]."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(letters, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, letters)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.letters(text) + self.places(torch.arange(LENGTH))
        return self.head(self.norm(self.blocks(x))).transpose(1, 2)


def network(letters: int) -> nn.Module:
    torch.manual_seed(0)
    return Transformer(letters)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", action="append", help="one list of engines per run")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--svg", type=Path, help="where to draw the curves")
    arguments = parser.parse_args()
    text = TEXT.read_text(encoding="utf-8")
    alphabet = sorted(set(text))
    numbers = np.array([alphabet.index(letter) for letter in text], np.int64)
    rng = np.random.default_rng(0)
    begins = rng.integers(0, len(numbers) - LENGTH - 1, (arguments.steps, BATCH))
    rows = begins[:, :, None] + np.arange(LENGTH + 1)
    batches = [(numbers[r[:, :-1]], numbers[r[:, 1:]]) for r in rows]

    net = network(len(alphabet))
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    curves: dict[str, list[float]] = {"PyTorch": []}
    begin = time.perf_counter()
    for x, y in batches:
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(torch.from_numpy(x)), torch.from_numpy(y))
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        curves["PyTorch"].append(loss.item())
    print(f"{'PyTorch':16} {time.perf_counter() - begin:6.2f} s  loss {loss.item():.4f}")

    for engine in arguments.engine or ["native"]:
        trainer = openxrt.Trainer.from_torch(
            network(len(alphabet)),
            (torch.from_numpy(batches[0][0]),),
            optimizer=optim.AdamW(learning_rate=1e-3, weight_decay=0.01, clip_norm=1.0),
            engine=engine,
        )
        begin = time.perf_counter()
        curve = [trainer.step(x, target=y) for x, y in batches]
        took = time.perf_counter() - begin
        apart = max(abs(a - b) for a, b in zip(curve, curves["PyTorch"], strict=True))
        curves[engine] = curve
        print(
            f"{engine:16} {took:6.2f} s  loss {curve[-1]:.4f}  "
            f"largest difference of the loss {apart:.1e}"
        )
    if arguments.svg:
        write_svg(arguments.svg, "Loss of a transformer: PyTorch and openxrt.Trainer", curves)


if __name__ == "__main__":
    main()
