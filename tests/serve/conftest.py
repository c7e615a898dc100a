# SPDX-License-Identifier: Apache-2.0
"""A folder of models that servers are started over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from serving import linear_model


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Of two models, "batched" puts requests together, "plain" (a file) does not."""
    folder = tmp_path / "models"
    linear_model(folder / "batched" / "1" / "model.onnx")
    settings = {"options": {"engine": "native"}, "max_batch_size": 8, "max_delay_us": 500}
    (folder / "batched" / "xrt.json").write_text(json.dumps(settings))
    linear_model(folder / "plain.onnx", 2.0)
    return folder
