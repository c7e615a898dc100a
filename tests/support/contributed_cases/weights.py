# SPDX-License-Identifier: Apache-2.0
"""Quantised weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import TensorProto

from .case import Array, Case, Const, Source


def pack(numbers: Array, bits: int) -> Array:
    """Small numbers along the last axis in bytes, low bits first."""
    per = 8 // bits
    rest = -numbers.shape[-1] % per
    padded = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, rest)])
    groups = padded.reshape(*padded.shape[:-1], -1, per).astype(np.uint32)
    return (groups << (np.arange(per) * bits)).sum(-1).astype(np.uint8)


def weights(s: Source) -> Iterator[Case]:
    op = "MatMulNBits"
    for bits in (2, 4, 8):
        for k, block_size in ((64, 32), (48, 16), (40, 16)):
            n, blocks = 12, math.ceil(k / block_size)
            q = s.i(0, 2**bits, n, blocks, block_size)
            scales = np.abs(s.f(n, blocks, scale=0.1))
            attributes = {"bits": bits, "block_size": block_size, "N": n, "K": k}
            operands = [s.f(2, 3, k), Const(pack(q, bits)), Const(scales)]
            near: dict[str, Any] = {"rtol": 1e-2, "atol": 2e-2}
            yield Case(op, operands, attributes, f"{bits}-{k}-plain", **near)
            zeros = Const(pack(s.i(0, 2**bits, n, blocks), bits))
            yield Case(op, [*operands, zeros], attributes, f"{bits}-{k}-zeros", **near)
            if bits == 4:
                groups = Const(s.i(0, blocks, blocks * block_size))
                name = f"groups-{k}"
                yield Case(op, [*operands, None, groups], attributes, name, **near, everywhere=True)
    bias = Const(s.f(12))
    yield Case(op, [*operands, None, None, bias], attributes, "bias", **near)
    attributes = {"bits": 4, "block_size": 32, "N": 12, "K": 64}
    operands = [
        s.f(3, 64),
        Const(pack(s.i(0, 16, 12, 2, 32), 4)),
        Const(np.abs(s.f(12, 2, scale=0.1))),
    ]
    floats = Const(s.f(12, 2, scale=3.0) + 8)
    yield Case(op, [*operands, floats], attributes, "float-zeros", **near)
    order = Const(s.i(0, 2, 64))
    yield Case(op, [*operands, floats, order], attributes, "groups-zeros", **near)
    half = [
        operands[0].astype(np.float16),
        operands[1],
        Const(operands[2].array.astype(np.float16)),
    ]
    yield Case(op, half, attributes, "half", rtol=5e-2, atol=1e-1)

    op = "MatMulBnb4"
    for kind in (0, 1):
        for trans in (1,):  # ONNX Runtime's CPU kernel reads beyond the weights without
            n, k = 8, 32
            attributes = {"N": n, "K": k, "block_size": 16, "quant_type": kind, "transB": trans}
            yield Case(
                op,
                [
                    s.f(3, k if trans else n),
                    Const(s.bytes(n * k // 2)),
                    Const(np.abs(s.f(n * k // 16))),
                ],
                attributes,
                f"{kind}{trans}",
                rtol=1e-3,
                atol=1e-3,
            )

    op = "MatMulFpQ4"
    for kind, size, has_zero in ((0, 32, False), (1, 32, True)):
        blocks = []
        for _ in range(4 * 64 // size):
            scale = np.abs(s.f(1, scale=0.1)).tobytes()
            zero = bytes([int(s.i(0, 16))]) if has_zero else b""
            blocks.append(scale + zero + s.bytes(size // 2).tobytes())
        blob = np.frombuffer(b"".join(blocks), np.uint8)
        yield Case(
            op,
            [s.f(3, 64), Const(blob), Const(np.array([64, 4]))],
            {"blk_quant_type": kind},
            str(kind),
            rtol=1e-3,
            atol=1e-3,
        )

    op = "GatherBlockQuantized"
    table = s.i(0, 16, 20, 64)
    scales = np.abs(s.f(20, 2, scale=0.1))
    ids = s.i(0, 20, 2, 3, dtype=np.int64)
    base = {"block_size": 32, "quantize_axis": 1, "gather_axis": 0}
    zeros = s.i(0, 16, 20, 2)
    packed = Const(pack(table, 4))
    yield Case(op, [packed, ids, Const(scales)], {**base, "bits": 4}, "bytes")
    yield Case(
        op, [packed, ids, Const(scales), Const(pack(zeros, 4))], {**base, "bits": 4}, "bytes-zeros"
    )
    yield Case(op, [Const(s.bytes(20, 64)), ids, Const(scales)], {**base, "bits": 8}, "bytes8")
    four = Const(table, TensorProto.UINT4)
    yield Case(op, [four, ids, Const(scales)], base, "uint4")
    yield Case(op, [four, ids, Const(scales), Const(zeros, TensorProto.UINT4)], base, "uint4-zeros")
    yield Case(op, [Const(table - 8, TensorProto.INT4), ids, Const(scales)], base, "int4")
    other = {"block_size": 16, "quantize_axis": 0, "gather_axis": 1}
    tall = Const(s.i(0, 16, 32, 6), TensorProto.UINT4)
    yield Case(op, [tall, s.i(0, 6, 3, dtype=np.int64), Const(np.abs(s.f(2, 6)))], other, "columns")
