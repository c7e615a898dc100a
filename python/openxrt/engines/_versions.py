# SPDX-License-Identifier: Apache-2.0
"""Versions of vendors' packages: what was found, what is wanted, and how to mend it."""

from __future__ import annotations

import logging
import re
from typing import NamedTuple

from .._core import EngineError

LOG = logging.getLogger("openxrt.engines")


class Range(NamedTuple):
    """From `least`, which is tested, up to what comes before `end`."""

    least: str
    end: str

    def __str__(self) -> str:
        """As pip takes it."""
        return f">={self.least},<{self.end}"


def numbers(version: str) -> tuple[int, ...]:
    """(1, 31, 1) of "1.31.1+cpu"."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def check(package: str, version: str, wanted: Range, packages: tuple[str, ...] = ()) -> None:
    """Raises EngineError for a version that is too old; logs a warning for one that is newer than
    what was tested. `packages` are those that pip installs, where they are not `package`."""
    install = " ".join(f"'{name}{wanted}'" for name in packages or (package,))
    text = f"found {package} {version}, wanted {wanted}: pip install {install}"
    if numbers(version) < numbers(wanted.least):
        raise EngineError(text)
    if numbers(version) >= numbers(wanted.end):
        LOG.warning("%s (newer ones are not tested)", text)
