# SPDX-License-Identifier: Apache-2.0
"""Each test starts with nothing traced: PyTorch remembers sizes per function, not per module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def nothing_traced() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    torch._dynamo.reset()
    yield
