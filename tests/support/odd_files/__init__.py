# SPDX-License-Identifier: Apache-2.0
"""Models as odd as exporters write them."""

from . import declarations, headers, initializers, nodes
from .odd import CASES, X

__all__ = ["CASES", "X", "declarations", "headers", "initializers", "nodes"]
