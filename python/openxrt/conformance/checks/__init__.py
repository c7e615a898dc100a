# SPDX-License-Identifier: Apache-2.0
"""The checks, in the order in which they are reported."""

from . import contract, programs, values  # noqa: F401 each fills CHECKS
from .registry import CHECKS, Case, Check, Run

ORDER = (
    *("engine", "support", "ops", "dtypes", "sizes", "constants", "dynamic_shapes", "graphs"),
    *(
        "networks",
        "outputs",
        "inputs",
        "wrong_inputs",
        "precisions",
        "training",
        "aliases",
        "determinism",
    ),
    *("threads", "cache", "leaks", "slow"),
)
if set(ORDER) != set(CHECKS):
    raise ImportError(f"checks without a place in the order: {set(ORDER) ^ set(CHECKS)}")

__all__ = ["CHECKS", "ORDER", "Case", "Check", "Run"]
