# SPDX-License-Identifier: Apache-2.0
"""Lowerings of the ATen ops, by family; importing this package registers them."""

from . import (
    attention,
    backward,
    complex_numbers,
    creation,
    further,
    indexing,
    linalg,
    linear,
    normalization,
    pointwise,
    pooling,
    random,
    reductions,
    rewrites,
    shapes,
    sized_by_data,
    special,
    symbolic,
)

__all__ = [
    "attention",
    "backward",
    "complex_numbers",
    "creation",
    "further",
    "indexing",
    "linalg",
    "linear",
    "normalization",
    "pointwise",
    "pooling",
    "random",
    "reductions",
    "rewrites",
    "shapes",
    "sized_by_data",
    "special",
    "symbolic",
]
