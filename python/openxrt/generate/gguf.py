# SPDX-License-Identifier: Apache-2.0
"""GGUF files: named values, and tensors that stay in the mapped file.

    file = GgufFile("model.gguf")
    file.metadata["general.architecture"]
    file.tensors["token_embd.weight"].raw

A file is data from elsewhere: counts, lengths and offsets are compared with the size of the file
before anything is made of them, and what does not fit is InvalidModel.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np

from .._core import InvalidModel, NotFound
from .blocks import FORMATS
from .weights import Weights, WeightTensor

_MAGIC = b"GGUF"
_MAX_RANK = 4
_MAX_DEPTH = 4  # of arrays of arrays

# By the number of a type of metadata; 8 is a text and 9 an array.
_NUMBERS = {
    0: np.dtype("u1"),
    1: np.dtype("i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    7: np.dtype("?"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}
_TEXT = 8
_ARRAY = 9


class _Cursor:
    """Reads from the front of a file, never beyond its end."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.at = 0

    def fail(self, what: str) -> InvalidModel:
        return InvalidModel(f"{self.path}: at byte {self.at}: {what}")

    def take(self, count: int, what: str) -> bytes:
        if count > len(self.data) - self.at:
            raise self.fail(
                f"{what} of {count} bytes does not fit into the file of {len(self.data)}: "
                "the file is damaged or was not copied to its end"
            )
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, code: str, what: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code), what))[0]

    def count(self, what: str, least_bytes: int) -> int:
        """A number of things, each of `least_bytes` or more."""
        n = self.number("Q", f"the number of {what}")
        if n * least_bytes > len(self.data) - self.at:
            raise self.fail(f"the file is too short for {n} {what}")
        return n

    def text(self, what: str) -> str:
        length = self.number("Q", f"the length of {what}")
        data = self.take(length, what)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fail(f"{what} is no UTF-8: {error}") from None

    def value(self, kind: int, what: str, depth: int = 0) -> Any:
        if kind == _TEXT:
            return self.text(what)
        if kind == _ARRAY:
            if depth >= _MAX_DEPTH:
                raise self.fail(f"{what} has more than {_MAX_DEPTH} arrays in each other")
            inner = self.number("I", f"the type of {what}")
            if inner in _NUMBERS:
                dtype = _NUMBERS[inner]
                n = self.count(f"elements of {what}", dtype.itemsize)
                return np.frombuffer(self.take(n * dtype.itemsize, what), dtype)
            n = self.count(f"elements of {what}", 8)
            return [self.value(inner, what, depth + 1) for _ in range(n)]
        if kind not in _NUMBERS:
            raise self.fail(f"{what} has the type {kind}, which no version of the format has")
        dtype = _NUMBERS[kind]
        return np.frombuffer(self.take(dtype.itemsize, what), dtype)[0].item()


class GgufFile(Weights):
    """A file, its metadata read and its tensors mapped."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(Path(path))
        try:
            with self.path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size == 0:
                    raise InvalidModel(f"{self.path}: the file is empty")
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise NotFound(f"{self.path}: no such file") from None
        cursor = _Cursor(self.path, self._map)
        if cursor.take(4, "the mark of the format") != _MAGIC:
            raise InvalidModel(f"{self.path}: no GGUF file: it does not begin with 'GGUF'")
        version = cursor.number("I", "the version")
        if version not in (2, 3):
            raise InvalidModel(f"{self.path}: version {version} of GGUF; 2 and 3 can be read")
        tensors = cursor.count("tensors", 8 + 4 + 4 + 8)
        values = cursor.count("values", 8 + 4 + 1)
        for _ in range(values):
            key = cursor.text("a key")
            self.metadata[key] = cursor.value(
                cursor.number("I", f"the type of '{key}'"), f"'{key}'"
            )
        self._read_tensors(cursor, tensors)

    def _read_tensors(self, cursor: _Cursor, count: int) -> None:
        entries = []
        for _ in range(count):
            name = cursor.text("the name of a tensor")
            rank = cursor.number("I", f"the rank of '{name}'")
            if not 1 <= rank <= _MAX_RANK:
                raise cursor.fail(f"tensor '{name}' has rank {rank}; 1 to {_MAX_RANK} are possible")
            shape = tuple(cursor.number("Q", f"the shape of '{name}'") for _ in range(rank))[::-1]
            kind = cursor.number("I", f"the type of '{name}'")
            entries.append((name, shape, kind, cursor.number("Q", f"the offset of '{name}'")))
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20:
            raise InvalidModel(f"{self.path}: an alignment of {alignment!r}")
        begin = -(-cursor.at // alignment) * alignment
        data = np.frombuffer(self._map, np.uint8)
        for name, shape, kind, offset in entries:
            where = f"{self.path}: tensor '{name}'"
            if name in self.tensors:
                raise InvalidModel(f"{where} is there twice")
            if kind not in FORMATS:
                known = ", ".join(f.name for f in FORMATS.values())
                raise InvalidModel(f"{where} has the type {kind}; there are {known}")
            format_ = FORMATS[kind]
            if min(shape) < 1:
                raise InvalidModel(f"{where} has the shape {shape}")
            if shape[-1] % format_.numbers != 0:
                raise InvalidModel(
                    f"{where}: rows of {shape[-1]} numbers are no whole blocks of "
                    f"{format_.numbers} ({format_.name})"
                )
            row = shape[-1] // format_.numbers * format_.bytes
            rows = math.prod(shape[:-1])
            if begin + offset + rows * row > len(data):
                raise InvalidModel(
                    f"{where}, {shape} of {format_.name}, ends at byte "
                    f"{begin + offset + rows * row} of a file of {len(data)}: the file is damaged "
                    "or was not copied to its end"
                )
            raw = data[begin + offset : begin + offset + rows * row].reshape(rows, row)
            self.tensors[name] = WeightTensor(name, format_, shape, raw)

    def release_pages(self) -> None:
        """See Weights."""
        self._map.madvise(mmap.MADV_DONTNEED)
