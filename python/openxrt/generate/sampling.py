# SPDX-License-Identifier: Apache-2.0
"""The choice of the next token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._core import EngineError, InvalidArgument


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen.

    `greedy`, or a temperature of 0, takes the likeliest. Otherwise the logits are divided by
    `temperature`; of the `top_k` likeliest (0: of all) those are left that together have the
    probability `top_p`; one of these is drawn. Before all of that, logits of tokens that are
    already there are divided by `repetition_penalty` where they are positive, else multiplied
    with it.
    """

    greedy: bool = False
    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    repetition_penalty: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        rules = (
            ("temperature", 0 <= self.temperature < float("inf"), "0 or more"),
            ("top_k", self.top_k >= 0, "0 or more"),
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("repetition_penalty", 0 < self.repetition_penalty < float("inf"), "above 0"),
        )
        for name, holds, wanted in rules:
            if not holds:
                raise InvalidArgument(f"{name} is {getattr(self, name)}; wanted is {wanted}")


class Sampler:
    """Chooses the tokens of one sequence."""

    def __init__(self, how: Sampling, stream: int = 0) -> None:
        """`stream` tells the sequences of a batch apart, which share a seed."""
        self.how = how
        self._random = np.random.default_rng(None if how.seed is None else [how.seed, stream])

    def choose(self, logits: np.ndarray, seen: Sequence[int]) -> int:
        """The next token, of float32[words]; `seen`: all tokens so far."""
        best = int(logits.argmax())  # the first NaN, where there are any
        if not np.isfinite(logits[best]):
            raise EngineError(
                f"after {len(seen)} tokens the model's logits are {logits[best]}: its weights are "
                "damaged, or a number overflowed"
            )
        how = self.how
        if how.repetition_penalty != 1.0:
            there = np.unique(np.asarray(seen, np.int64))
            logits = logits.copy()
            found = logits[there]
            logits[there] = np.where(
                found > 0, found / how.repetition_penalty, found * how.repetition_penalty
            )
            best = int(logits.argmax())
        if how.greedy or how.temperature == 0:
            return best
        if 0 < how.top_k < len(logits):
            kept = np.argpartition(logits, -how.top_k)[-how.top_k :]
        else:
            kept = np.arange(len(logits))
        kept = kept[np.argsort(-logits[kept], kind="stable")]
        scaled = logits[kept].astype(np.float64) / how.temperature
        weights = np.exp(scaled - scaled[0])
        weights /= weights.sum()
        if how.top_p < 1:
            count = int(np.searchsorted(np.cumsum(weights), how.top_p)) + 1
            kept, weights = kept[:count], weights[:count] / weights[:count].sum()
        return int(self._random.choice(kept, p=weights))
