# SPDX-License-Identifier: Apache-2.0
"""Lets tests import the samples beside them; each test starts with nothing traced: PyTorch
remembers sizes per function, not per module."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def nothing_traced() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    yield
