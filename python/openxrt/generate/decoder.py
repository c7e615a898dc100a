# SPDX-License-Identifier: Apache-2.0
"""What the loop of generation asks of a model.

Shapes: B sequences, S new positions, V words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class DecoderState(Protocol):
    """The keys and values of some sequences, and the program that reads and writes them."""

    def feed(self, tokens: np.ndarray, begin: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """The logits, float32[B, V], behind the first `counts`, int64[B], of `tokens`, int64[B, S],
        which go to the positions from `begin`, int64[B], on. Where the count is 0, they mean
        nothing. Positions are fed in their order."""
        ...


class Decoder(Protocol):
    """A model."""

    vocabulary: int
    context: int  # positions that it has
    # Behind an encoder: the token that every answer begins with. Prompts go to the encoder.
    start_token: int | None

    def start(
        self, batch: int, capacity: int, sources: Sequence[Sequence[int]] | None = None
    ) -> DecoderState:
        """An empty state of `batch` sequences of up to `capacity` positions; `sources`: what the
        encoder reads, where there is one."""
        ...

    def chunk(self, left: int) -> int:
        """How many positions to feed at once where `left` are left; more than that are padded."""
        ...
