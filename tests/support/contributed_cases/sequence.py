# SPDX-License-Identifier: Apache-2.0
"""Words, n-grams and hashes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .case import Case, Const, Source


def sequence(s: Source) -> Iterator[Case]:
    letters = s.i(1, 20, 5, 9)
    letters[0, 3:] = 0
    letters[1, 7:] = 0
    letters[2, 1:] = 0
    yield Case(
        "WordConvEmbedding",
        [letters, Const(s.f(6, 1, 3, 4)), Const(s.f(6)), Const(s.f(20, 4))],
    )
    ids = s.i(0, 3, 2, 12, dtype=np.int64)
    for n in (1, 2, 3):
        yield Case("NGramRepeatBlock", [ids, s.f(2, 5)], {"ngram_size": n}, str(n))
    yield Case("NGramRepeatBlock", [ids[:, :2], s.f(2, 5)], {"ngram_size": 3}, "short")
    source = np.array([5, 3, 7, 3, 7, 8, 2, 9], np.int64)
    op = "BifurcationDetector"
    start = np.array([0], np.int64)
    for tail in ([1, 5], [3, 7], [7, 3, 7], [2, 9], [4, 4], [8]):
        current = np.array([1, *tail], np.int64)
        yield Case(op, [source, current, start], {}, str(tail), outputs=2)
    predicted = np.array([3, 7, 8, 1, 1, 1, 1], np.int64)
    yield Case(
        op,
        [source, np.array([4], np.int64), np.array([2], np.int64), predicted],
        {},
        "p",
        outputs=2,
    )
    predicted = np.array([7, 3, 7, 8, 2, 9, 6], np.int64)
    yield Case(
        op,
        [source, np.array([4], np.int64), np.array([2], np.int64), predicted],
        {},
        "q",
        outputs=2,
    )
    for dtype in (np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64):
        x = s.i(0, 2**31 - 1, 3, 4, dtype=np.int64).astype(dtype)
        for positive in (0, 1):
            name = f"{np.dtype(dtype).name}-{positive}"
            yield Case("MurmurHash3", [x], {"positive": positive, "seed": 42}, name)
    op = "NGramHashMapping"
    for dtype in (np.int32, np.int64):
        ids = s.i(0, 90, 2, 7, dtype=dtype)
        factors = Const(s.i(1, 1000, 3, dtype=dtype) * 2 + 1)
        sizes = Const(np.array([101, 103, 107, 109], dtype))
        base = {"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 1}
        name = np.dtype(dtype).name
        yield Case(op, [ids, factors, sizes], base, f"{name}-plain", outputs=2)
        past = s.i(0, 90, 2, 2, dtype=dtype)
        offsets = Const(np.array([0, 101, 204, 311], dtype))
        more = [ids, factors, sizes, past, offsets]
        yield Case(op, more, base, f"{name}-past", outputs=2)
        eos = ids.copy()
        eos[0, 3] = 7
        reset = [eos, factors, sizes, None, None, Const(np.array(7, dtype))]
        yield Case(op, reset, {**base, "reset_on_eos": 1}, f"{name}-eos", outputs=2)
        segments = np.array([[0, 0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 1, 1, 1]], np.int32)
        yield Case(
            op, [ids, factors, sizes, None, None, None, segments], base, f"{name}-seg", outputs=2
        )
        packed = [s.i(0, 90, 9, dtype=dtype), factors, sizes, np.array([0, 4, 5, 9], np.int32)]
        varlen = "VarlenNGramHashMapping"
        yield Case(varlen, packed, base, f"{name}-plain", outputs=2)
        pasts = s.i(0, 90, 3, 2, dtype=dtype)
        yield Case(varlen, [*packed, pasts, offsets], base, f"{name}-past", outputs=2)
        packed[0][2] = 7
        reset = [*packed, None, None, Const(np.array(7, dtype))]
        yield Case(varlen, reset, {**base, "reset_on_eos": 1}, f"{name}-eos", outputs=2)
        parts = np.array([0, 0, 1, 1, 0, 0, 0, 2, 2], np.int32)
        yield Case(varlen, [*packed, None, None, None, parts], base, f"{name}-seg", outputs=2)
