# SPDX-License-Identifier: Apache-2.0
"""Losses, optimizers and learning-rate schedules for :class:`openxrt.Trainer`.

Losses and optimizers mean what PyTorch's of that name mean; LAMB is that of You et al., 2020
(arXiv:1904.00962), with bias correction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields

Schedule = Callable[[int], float]
"""Learning rate of step 0, 1, …"""


@dataclass(frozen=True)
class Loss:
    """A loss of the model's prediction against the input "target".

    kind: cross_entropy, nll, mse, l1, smooth_l1, huber, bce, bce_with_logits, kl_div; or output:
    the model computes the loss itself. reduction: mean or sum (kl_div: also batchmean).
    """

    kind: str = "cross_entropy"
    reduction: str = "mean"
    label_smoothing: float = 0.0
    ignore_index: int = -100
    class_probabilities: bool = False
    delta: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """What all optimizers share. Gradients are first cut to ±clip_value, then scaled so that the
    norm of all together is at most clip_norm; 0 turns either off. The learning rate may be given
    without its name."""

    learning_rate: float = field(default=0.01, kw_only=False)
    weight_decay: float = 0.0
    clip_value: float = 0.0
    clip_norm: float = 0.0

    def options(self) -> dict[str, object]:
        """Name and settings, as the C++ trainer takes them."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {"name": type(self).__name__.lower(), **values}


@dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """torch.optim.SGD."""

    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False


@dataclass(frozen=True, kw_only=True)
class Adagrad(Optimizer):
    """torch.optim.Adagrad."""

    learning_rate_decay: float = 0.0
    initial_accumulator: float = 0.0
    epsilon: float = 1e-10


@dataclass(frozen=True, kw_only=True)
class RMSprop(Optimizer):
    """torch.optim.RMSprop."""

    alpha: float = 0.99
    centered: bool = False
    momentum: float = 0.0
    epsilon: float = 1e-8


@dataclass(frozen=True, kw_only=True)
class Adam(Optimizer):
    """torch.optim.Adam."""

    learning_rate: float = field(default=1e-3, kw_only=False)
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    amsgrad: bool = False


@dataclass(frozen=True, kw_only=True)
class AdamW(Adam):
    """torch.optim.AdamW."""

    weight_decay: float = 0.01


@dataclass(frozen=True, kw_only=True)
class LAMB(Optimizer):
    """Layer-wise adaptive moments."""

    learning_rate: float = field(default=1e-3, kw_only=False)
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6


@dataclass(frozen=True)
class LossScale:
    """A loss scale that follows the gradients, as torch.amp.GradScaler's does.

    A step with a gradient that is not finite changes no weight and multiplies the scale by
    `backoff`; `growth_interval` other steps in a row multiply it by `growth`.
    """

    initial: float = 65536.0
    growth: float = 2.0
    backoff: float = 0.5
    growth_interval: int = 2000


def _warmed_up(rate: float, warmup: int, after: Schedule) -> Schedule:
    def schedule(step: int) -> float:
        return rate * (step + 1) / warmup if step < warmup else after(step - warmup)

    return schedule


def constant(rate: float, *, warmup: int = 0) -> Schedule:
    """`rate`, after `warmup` steps that rise to it."""
    return _warmed_up(rate, warmup, lambda _: rate)


def stepwise(rate: float, every: int, factor: float = 0.1, *, warmup: int = 0) -> Schedule:
    """Multiplied by `factor` every `every` steps."""
    return _warmed_up(rate, warmup, lambda step: rate * factor ** (step // every))


def cosine(rate: float, total: int, last: float = 0.0, *, warmup: int = 0) -> Schedule:
    """Half a cosine from `rate` to `last` at step `total`."""

    def after(step: int) -> float:
        part = min(step / max(total - warmup, 1), 1.0)
        return last + (rate - last) * 0.5 * (1 + math.cos(math.pi * part))

    return _warmed_up(rate, warmup, after)


def linear(rate: float, total: int, last: float = 0.0, *, warmup: int = 0) -> Schedule:
    """Linearly from `rate` to `last` at step `total`."""
    return _warmed_up(
        rate, warmup, lambda step: rate + (last - rate) * min(step / max(total - warmup, 1), 1.0)
    )
