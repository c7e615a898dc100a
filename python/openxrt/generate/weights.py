# SPDX-License-Identifier: Apache-2.0
"""What a graph is built from: named values and tensors of some file, by the names that GGUF files
have for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._core import InvalidModel
from .blocks import BlockFormat


@dataclass(frozen=True)
class WeightTensor:
    """A tensor; `shape` has the axis that lies densely in memory last."""

    name: str
    format: BlockFormat
    shape: tuple[int, ...]
    raw: np.ndarray  # uint8[rows, bytes of a row], where the file or the model has it

    @property
    def row(self) -> int:
        """Numbers of a row."""
        return self.shape[-1]


class Weights:
    """Metadata and tensors.

    Attributes:
        path: what messages begin with.
        metadata: values by their GGUF keys.
        tensors: by their GGUF names.
        interleaved: whether the numbers of a head that turn together are neighbours; None: as GGUF
            files of the architecture have it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, WeightTensor] = {}
        self.interleaved: bool | None = None

    def source_name(self, name: str) -> str:
        """What the source itself calls a key or a tensor."""
        return name

    def value(self, key: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
        """A value of the metadata; InvalidModel where it is missing, without a default, or of
        another kind."""
        found = self.metadata.get(key, default)
        if found is None:
            raise InvalidModel(f"{self.path}: the metadata has no '{self.source_name(key)}'")
        if isinstance(found, bool) and kind is int:
            found = None
        if not isinstance(found, kind):
            raise InvalidModel(
                f"{self.path}: '{self.source_name(key)}' is {self.metadata.get(key)!r}"[:200]
            )
        return found

    def tensor(self, name: str, shape: tuple[int, ...]) -> WeightTensor:
        """A tensor; InvalidModel where it is missing or has another shape."""
        found = self.tensors.get(name)
        if found is None:
            raise InvalidModel(f"{self.path}: there is no tensor '{self.source_name(name)}'")
        if found.shape != shape:
            raise InvalidModel(
                f"{self.path}: tensor '{self.source_name(name)}' has the shape {found.shape}; the "
                f"metadata wants {shape}"
            )
        return found

    def release_pages(self) -> None:
        """Gives mapped pages back to the system: what is read later comes from the file."""
