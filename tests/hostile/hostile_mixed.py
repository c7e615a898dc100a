# SPDX-License-Identifier: Apache-2.0
"""Hostile control flow (hostile_flow.py) and types (hostile_types.py), by turns.

Each model is well formed as a message, and its numbers and types are wild.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from hostile_flow import changing_state, growing_sizes, many_choices, recursive, scans, wild_counts
from hostile_parts import Made
from hostile_types import declared, huge_attributes, lists, mixed_opsets, optionals, texts, trees

SHAPES: list[Callable[[random.Random], Made]] = [
    *[changing_state, lists, texts, trees, wild_counts, optionals, mixed_opsets, declared],
    *[scans, recursive, changing_state, lists, texts, trees, growing_sizes, many_choices],
    *[huge_attributes, mixed_opsets, declared, scans],
]


def make(rng: random.Random, index: int) -> tuple[str, bytes, list[dict[str, Any]]]:
    """The name of the shape, the model and what it is run with."""
    shape = SHAPES[index % len(SHAPES)]
    model, feeds = shape(rng)
    return shape.__name__, model.SerializeToString(), feeds
