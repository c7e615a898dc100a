# SPDX-License-Identifier: Apache-2.0
"""How one model is served: the file ``xrt.json`` in its folder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import InvalidArgument

FILE = "xrt.json"
MAX_REQUEST_BYTES = 64 << 20
"""Bytes of a request at most, unless something else is asked for: as many as newer Tritons take."""

_WHOLE_NUMBERS = (
    "max_batch_size",
    "max_delay_us",
    "instances",
    "max_queue_size",
    "timeout_ms",
    "priority_levels",
    "default_priority_level",
)


@dataclass(frozen=True)
class ModelSettings:
    """Keys of ``xrt.json``; each may be left out.

    >>> ModelSettings.from_json('{"options": {"engine": "openvino,native"}, "max_batch_size": 16}')
    """

    options: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of :func:`openxrt.load`."""
    max_batch_size: int = 0
    """Requests are run together up to so many rows (Triton); every input and output then has an
    open first dimension. 0: each request runs alone, with whatever sizes it has."""
    max_delay_us: int = 0
    """Microseconds for which a request waits for others to share a batch (Triton)."""
    instances: int = 1
    """Processes that each hold the model (Triton)."""
    max_queue_size: int | None = None
    """Requests that wait at most, further ones are refused; 0: no bound. With priorities, of each
    level. None: 1000 with KServe, no bound with Triton."""
    timeout_ms: int = 0
    """Milliseconds for which a run may take; 0: no bound. A request's own deadline counts too."""
    priority_levels: int = 0
    """Levels of priority that a request may ask for, 1 is served first; 0: none (Triton)."""
    default_priority_level: int = 0
    """Level of requests that ask for none; 0: the last one."""
    versions: str = "latest"
    """Which versions are served at once: "latest" or "all" (Triton; KServe serves the latest)."""
    warm_up: dict[str, list[int]] = field(default_factory=dict)
    """Input name to the shape of zeros of the run before the model is ready. Inputs that are not
    named take the sizes that the model declares, and 1 for open ones."""

    def __post_init__(self) -> None:
        for name in _WHOLE_NUMBERS:
            value = getattr(self, name)
            if value is None and name == "max_queue_size":
                continue
            least = 1 if name == "instances" else 0
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidArgument(f"{name} is {value!r}: a whole number of at least {least}")
        if self.default_priority_level > self.priority_levels:
            raise InvalidArgument(
                f"default_priority_level is {self.default_priority_level}, of "
                f"{self.priority_levels} priority_levels"
            )
        if self.versions not in ("latest", "all"):
            raise InvalidArgument(f'versions is {self.versions!r}: "latest" or "all"')
        for name in ("options", "warm_up"):
            if not isinstance(getattr(self, name), dict):
                raise InvalidArgument(f"{name} is no object")
        for name, shape in self.warm_up.items():
            if not isinstance(shape, list) or not all(
                isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape
            ):
                raise InvalidArgument(f"warm_up of '{name}' is no list of sizes: {shape!r}")

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> ModelSettings:
        """Raises InvalidArgument for an unknown key or a value that does not fit it."""
        known = [f.name for f in dataclasses.fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise InvalidArgument(f"unknown key '{unknown[0]}'; there are {', '.join(known)}")
        return cls(**values)

    @classmethod
    def from_json(cls, text: str) -> ModelSettings:
        """Raises InvalidArgument where `text` is not one JSON object of known keys."""
        try:
            values = json.loads(text)
        except ValueError as error:
            raise InvalidArgument(f"no JSON: {error}") from None
        if not isinstance(values, dict):
            raise InvalidArgument("no JSON object")
        return cls.from_mapping(values)

    @classmethod
    def of_folder(cls, folder: Path) -> ModelSettings:
        """What ``xrt.json`` in `folder` says, or the defaults where there is none."""
        path = folder / FILE
        if not path.exists():
            return cls()
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except InvalidArgument as error:
            raise InvalidArgument(f"'{path}': {error}") from None

    def to_json(self) -> str:
        """One line that from_json() reads back."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)
