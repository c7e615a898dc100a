# SPDX-License-Identifier: Apache-2.0
"""Sizes that change from run to run: each input larger, smaller, empty and of another rank in turn,
with the valid ones between them. What a plan of open sizes keeps of one run, the next one meets."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

MOST_RUNS = 24
MOST_ELEMENTS = 100_000

Feeds = dict[str, Any]


def shapes(dims: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Others than these, near to them."""
    for axis, size in enumerate(dims):
        for other in sorted({size + 1, 2 * size, 1, max(size - 1, 0), 0, 17} - {size}):
            yield (*dims[:axis], other, *dims[axis + 1 :])
    yield (1, *dims)
    yield (*dims, 1) if dims else (0,)
    yield dims[1:] if dims else (3,)


def resized(array: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    """The elements again and again, or as many as there is room for."""
    if array.size == 0 or 0 in dims:
        return np.zeros(dims, array.dtype)
    return np.resize(array, dims)


def make(rng: random.Random, feeds: Feeds) -> list[Feeds]:
    """The runs of a model; the first and the last one are valid."""
    changed = [
        {**feeds, name: resized(value, dims)}
        for name, value in feeds.items()
        if isinstance(value, np.ndarray)
        for dims in shapes(value.shape)
        if np.prod(dims) <= MOST_ELEMENTS
    ]
    if len(changed) > MOST_RUNS:
        changed = [changed[i] for i in sorted(rng.sample(range(len(changed)), MOST_RUNS))]
    return [feeds, *changed, feeds]
