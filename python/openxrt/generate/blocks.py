# SPDX-License-Identifier: Apache-2.0
"""The types of tensors in GGUF files, taken apart without a loss.

    w[n, k] = (numbers[n, k] - zero) * scales[n, k / block] + offsets[n, k / block]

Engines multiply with numbers of 4 and 8 bits. Types of more than 4 bits get 8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class BlockMatrix:
    """A matrix of small whole numbers; see the head of this module."""

    numbers: np.ndarray  # uint8[n, k] of 4 bits, or int8[n, k]
    scales: np.ndarray  # float32[n, k / block]
    offsets: np.ndarray | None  # as scales
    zero: int
    block: int

    @property
    def bits(self) -> int:
        """Bits of a number."""
        return 4 if self.numbers.dtype == np.uint8 else 8

    def dense(self) -> np.ndarray:
        """The matrix as float32."""
        rows, columns = self.numbers.shape
        wide = self.numbers.reshape(rows, columns // self.block, self.block).astype(np.float32)
        wide -= self.zero
        wide *= self.scales[:, :, None]
        if self.offsets is not None:
            wide += self.offsets[:, :, None]
        return wide.reshape(rows, columns)

    @staticmethod
    def joined(parts: list[BlockMatrix]) -> BlockMatrix | None:
        """The rows of all, one behind the other; None where they are of different kinds."""
        first = parts[0]
        for p in parts[1:]:
            if (p.bits, p.zero, p.block) != (first.bits, first.zero, first.block):
                return None
            if (p.offsets is None) != (first.offsets is None):
                return None
        offsets = None
        if first.offsets is not None:
            offsets = np.concatenate([p.offsets for p in parts if p.offsets is not None])
        return BlockMatrix(
            np.concatenate([p.numbers for p in parts]),
            np.concatenate([p.scales for p in parts]),
            offsets,
            first.zero,
            first.block,
        )


@dataclass(frozen=True)
class BlockFormat:
    """A type of tensors: so many numbers in so many bytes."""

    name: str
    numbers: int
    bytes: int
    # Of uint8[rows, bytes of a row].
    read: Callable[[np.ndarray], BlockMatrix] | None = None
    dtype: np.dtype | None = None  # plain numbers

    def dense(self, raw: np.ndarray) -> np.ndarray:
        """float32[rows, numbers of a row]."""
        if self.read is not None:
            return self.read(raw).dense()
        assert self.dtype is not None
        if self.name == "BF16":
            return (np.ascontiguousarray(raw).view("<u2").astype("<u4") << 16).view("<f4")
        return np.ascontiguousarray(raw).view(self.dtype).astype(np.float32)


def _blocks(raw: np.ndarray, size: int) -> np.ndarray:
    """uint8[rows, blocks, size]."""
    return raw.reshape(raw.shape[0], -1, size)


def _half(b: np.ndarray, at: int) -> np.ndarray:
    """The float16 at a place of each block, as float32[rows, blocks]."""
    return np.ascontiguousarray(b[:, :, at : at + 2]).view("<f2")[:, :, 0].astype(np.float32)


def _halves(b: np.ndarray) -> np.ndarray:
    """Numbers of 4 bits: the low ones of all bytes, then the high ones."""
    return np.concatenate([b & 15, b >> 4], axis=-1)


def _flat(a: np.ndarray) -> np.ndarray:
    return a.reshape(a.shape[0], -1)


def _fifth_bits(b: np.ndarray, at: int) -> np.ndarray:
    """32 bits from a place of each block on, as 0 or 16 each."""
    bits = np.unpackbits(np.ascontiguousarray(b[:, :, at : at + 4]), axis=-1, bitorder="little")
    return bits << 4


def _q4_0(raw: np.ndarray) -> BlockMatrix:
    b = _blocks(raw, 18)
    return BlockMatrix(_flat(_halves(b[:, :, 2:])), _half(b, 0), None, 8, 32)


def _q4_1(raw: np.ndarray) -> BlockMatrix:
    b = _blocks(raw, 20)
    return BlockMatrix(_flat(_halves(b[:, :, 4:])), _half(b, 0), _half(b, 2), 0, 32)


def _q5_0(raw: np.ndarray) -> BlockMatrix:
    b = _blocks(raw, 22)
    numbers = (_halves(b[:, :, 6:]) | _fifth_bits(b, 2)).astype(np.int8)
    return BlockMatrix(_flat(numbers), _half(b, 0), None, 16, 32)


def _q5_1(raw: np.ndarray) -> BlockMatrix:
    b = _blocks(raw, 24)
    numbers = (_halves(b[:, :, 8:]) | _fifth_bits(b, 4)).astype(np.int8)
    return BlockMatrix(_flat(numbers), _half(b, 0), _half(b, 2), 0, 32)


def _q8_0(raw: np.ndarray) -> BlockMatrix:
    b = _blocks(raw, 34)
    return BlockMatrix(_flat(b[:, :, 2:].view(np.int8)), _half(b, 0), None, 0, 32)


def _sub_blocks(of: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Scales of sub-blocks: one number of a block times those of its parts."""
    return _flat(of[:, :, None] * factors.astype(np.float32))


def _q2_k(raw: np.ndarray) -> BlockMatrix:
    b = _blocks(raw, 84)
    quarters = b[:, :, 16:80].reshape(*b.shape[:2], 2, 1, 32)
    shifts = np.array([0, 2, 4, 6], np.uint8).reshape(4, 1)
    numbers = (quarters >> shifts) & 3
    scales = _sub_blocks(_half(b, 80), b[:, :, :16] & 15)
    return BlockMatrix(_flat(numbers), scales, _sub_blocks(-_half(b, 82), b[:, :, :16] >> 4), 0, 16)


def _q3_k(raw: np.ndarray) -> BlockMatrix:
    b = _blocks(raw, 110)
    shape = b.shape[:2]
    shifts = np.array([0, 2, 4, 6], np.uint8).reshape(4, 1)
    low = (b[:, :, 32:96].reshape(*shape, 2, 1, 32) >> shifts) & 3
    masks = np.arange(8, dtype=np.uint8).reshape(8, 1)
    high = ((b[:, :, None, :32] >> masks) & 1).reshape(*shape, 2, 4, 32)
    # Twelve bytes hold sixteen factors of 6 bits: low halves first, then pairs of bits.
    s = b[:, :, 96:108]
    low_bits = np.concatenate([s[:, :, :8] & 15, s[:, :, :8] >> 4], axis=-1)
    pairs = [(s[:, :, 8:] >> shift) & 3 for shift in (0, 2, 4, 6)]
    factors = (low_bits | np.concatenate(pairs, axis=-1) << 4).astype(np.int8) - 32
    return BlockMatrix(_flat(low | high << 2), _sub_blocks(_half(b, 108), factors), None, 4, 16)


def _k_factors(b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eight scales and eight offsets of 6 bits, from twelve bytes."""
    s = b[:, :, 4:16]
    scales = np.concatenate([s[:, :, :4] & 63, s[:, :, 8:] & 15 | s[:, :, :4] >> 6 << 4], axis=-1)
    offsets = np.concatenate(
        [s[:, :, 4:8] & 63, s[:, :, 8:] >> 4 | s[:, :, 4:8] >> 6 << 4], axis=-1
    )
    return _sub_blocks(_half(b, 0), scales), _sub_blocks(-_half(b, 2), offsets)


def _q4_k(raw: np.ndarray) -> BlockMatrix:
    b = _blocks(raw, 144)
    scales, offsets = _k_factors(b)
    numbers = _halves(b[:, :, 16:].reshape(*b.shape[:2], 4, 32))
    return BlockMatrix(_flat(numbers), scales, offsets, 0, 32)


def _q5_k(raw: np.ndarray) -> BlockMatrix:
    b = _blocks(raw, 176)
    scales, offsets = _k_factors(b)
    shape = (*b.shape[:2], 8, 32)
    low = _halves(b[:, :, 48:].reshape(*b.shape[:2], 4, 32)).reshape(shape)
    high = (b[:, :, None, 16:48] >> np.arange(8, dtype=np.uint8).reshape(8, 1)) & 1
    return BlockMatrix(_flat(low | high << 4).astype(np.int8), scales, offsets, 0, 32)


def _q6_k(raw: np.ndarray) -> BlockMatrix:
    b = _blocks(raw, 210)
    shape = b.shape[:2]
    low = _halves(b[:, :, :128].reshape(*shape, 2, 64)).reshape(*shape, 2, 4, 32)
    shifts = np.array([0, 2, 4, 6], np.uint8).reshape(4, 1)
    high = (b[:, :, 128:192].reshape(*shape, 2, 1, 32) >> shifts) & 3
    factors = np.ascontiguousarray(b[:, :, 192:208]).view(np.int8)
    numbers = _flat(low | high << 4).astype(np.int8)
    return BlockMatrix(numbers, _sub_blocks(_half(b, 208), factors), None, 32, 16)


def _plain(name: str, dtype: str) -> BlockFormat:
    found = np.dtype(dtype)
    return BlockFormat(name, 1, found.itemsize, None, found)


# By the number that GGUF files have for them.
FORMATS: dict[int, BlockFormat] = {
    0: _plain("F32", "<f4"),
    1: _plain("F16", "<f2"),
    2: BlockFormat("Q4_0", 32, 18, _q4_0),
    3: BlockFormat("Q4_1", 32, 20, _q4_1),
    6: BlockFormat("Q5_0", 32, 22, _q5_0),
    7: BlockFormat("Q5_1", 32, 24, _q5_1),
    8: BlockFormat("Q8_0", 32, 34, _q8_0),
    10: BlockFormat("Q2_K", 256, 84, _q2_k),
    11: BlockFormat("Q3_K", 256, 110, _q3_k),
    12: BlockFormat("Q4_K", 256, 144, _q4_k),
    13: BlockFormat("Q5_K", 256, 176, _q5_k),
    14: BlockFormat("Q6_K", 256, 210, _q6_k),
    30: _plain("BF16", "<u2"),
}
