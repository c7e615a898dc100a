# SPDX-License-Identifier: Apache-2.0
"""Programs on one engine, for tests that compare engines."""

import openxrt
import pytest
from small_models import usable


def load_on(model: bytes, engine: str) -> openxrt.Program:
    """The model on the engine, with native for what it does not take; skips the test without it."""
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    engines = list(dict.fromkeys([engine, "native"]))
    return openxrt.load(model, engine=engines, check_results=False, cache_dir="")
