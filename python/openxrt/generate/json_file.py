# SPDX-License-Identifier: Apache-2.0
"""The JSON files beside a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .._core import InvalidModel


def read_object(path: Path) -> dict[str, Any]:
    """The object that a file holds.

    Raises:
        InvalidModel: the file holds something else.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidModel(f"{path}: {error}") from error
    if not isinstance(found, dict):
        raise InvalidModel(f"{path}: no object")
    return found
