# SPDX-License-Identifier: Apache-2.0
"""A small transformer learns to continue the letters of fable.txt: PyTorch beside the engines, from
the same weights.

    ./dev run python examples/pytorch/train_text.py          # native, xla, openvino+xla
    ./dev run python examples/pytorch/train_text.py --engine native --steps 50
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from curves import compare, parser
from torch.nn import functional

TEXT = Path(__file__).with_name("fable.txt")
CONTEXT, BATCH, WIDTH, HEADS, LAYERS = 48, 16, 64, 4, 2


class Block(torch.nn.Module):
    """Attention to what came before, then a layer of its own for every place."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH)
        self.wide = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind()
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.narrow(functional.gelu(self.wide(self.norm2(x))))


class Writer(torch.nn.Module):
    """Letters in, scores of the next letter out, at every place."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.letters = torch.nn.Embedding(letters, WIDTH)
        self.places = torch.nn.Embedding(CONTEXT, WIDTH)
        self.blocks = torch.nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, letters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        at = torch.arange(x.shape[1], device=x.device)
        return self.head(self.norm(self.blocks(self.letters(x) + self.places(at))))


def main() -> int:
    options = parser(__doc__).parse_args()
    text = TEXT.read_text(encoding="utf-8")
    alphabet = sorted(set(text))
    codes = torch.tensor([alphabet.index(letter) for letter in text])
    seen = len(codes) * 9 // 10

    def windows(starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = starts[:, None] + torch.arange(CONTEXT + 1)[None]
        return codes[rows[:, :-1]], codes[rows[:, 1:]]

    def loss_of(module: torch.nn.Module, step: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(step)
        x, y = windows(torch.randint(0, seen - CONTEXT - 1, (BATCH,), generator=generator))
        return functional.cross_entropy(module(x).flatten(0, 1), y.flatten())

    def accuracy_of(module: torch.nn.Module) -> float:
        x, y = windows(torch.arange(seen, len(codes) - CONTEXT - 1, CONTEXT))
        return (module(x).argmax(-1) == y).float().mean().item()

    def optimizer(module: torch.nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)

    torch.manual_seed(0)
    writer = Writer(len(alphabet))
    compare("Loss of a transformer on text", writer, options, optimizer, loss_of, accuracy_of)
    return 0


if __name__ == "__main__":
    sys.exit(main())
