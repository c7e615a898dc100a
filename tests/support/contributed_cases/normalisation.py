# SPDX-License-Identifier: Apache-2.0
"""Normalisations, gates and what stands around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .case import Case, Const, Source


def normalisation(s: Source) -> Iterator[Case]:
    for dtype, near in ((np.float32, 1e-4), (np.float16, 2e-2)):
        kind = np.dtype(dtype).name
        x, skip = s.f(2, 5, 16, dtype=dtype), s.f(2, 5, 16, dtype=dtype)
        g, b, bias = (s.f(16, dtype=dtype) for _ in range(3))
        t: dict[str, Any] = {"rtol": near, "atol": near}
        op = "SkipLayerNormalization"
        yield Case(op, [x, skip, g, b, bias], {"epsilon": 1e-5}, f"all-{kind}", **t)
        four: dict[str, Any] = {"outputs": 4, "skip": (1, 2), **t}
        yield Case(op, [x, skip, g, None, bias], {}, f"sum-{kind}", **four)
        yield Case(op, [x, skip[0], g, b], {}, f"broadcast-{kind}", **t)
        op = "SkipSimplifiedLayerNormalization"
        yield Case(op, [x, skip, g], {"epsilon": 1e-6}, f"plain-{kind}", **t)
        yield Case(op, [x, skip, g, bias], {}, f"sum-{kind}", **four)
        op = "SimplifiedLayerNormalization"
        yield Case(op, [x, g], {"epsilon": 1e-6}, kind, domain="", **t)
    words, places, kinds = Const(s.f(30, 16)), Const(s.f(12, 16)), Const(s.f(2, 16))
    g, b = Const(s.f(16)), Const(s.f(16))
    ids, segments = s.i(0, 30, 2, 7), s.i(0, 2, 2, 7)
    mask = np.ones((2, 7), np.int32)
    mask[1, 4:] = 0
    op = "EmbedLayerNormalization"
    yield Case(op, [ids, segments, words, places, kinds, g, b], {}, "plain", outputs=2)
    yield Case(op, [ids, segments, words, places, kinds, g, b, mask], {}, "mask", outputs=2)
    yield Case(op, [ids, None, words, places, None, g, b, mask], {}, "no-segments", outputs=3)
    at = s.i(0, 12, 2, 7)
    yield Case(op, [ids, segments, words, places, kinds, g, b, None, at], {}, "places", outputs=2)

    def table(rows: int) -> tuple[Const, Const, Const]:
        shape = (rows, 16) if rows else (16,)
        zero = Const(np.array(120, np.uint8))
        return Const(s.bytes(*shape)), Const(np.array(0.02, np.float32)), zero

    tables = [table(30), table(12), table(2), table(0), table(0)]
    yield Case(
        "QEmbedLayerNormalization",
        [
            ids,
            segments,
            *(t[0] for t in tables),
            mask,
            *(t[1] for t in tables),
            *(t[2] for t in tables),
        ],
        {},
        outputs=2,
        atol=1e-3,
        rtol=1e-3,
    )
    x = s.f(2, 3, 4, 8)
    for scale in (None, s.f(8), s.f(4, 8), s.f(32)):
        name = "none" if scale is None else str(scale.shape)
        yield Case("BranchwiseRMSNorm", [x, scale], {}, f"grouped-{name}")
        yield Case("BranchwiseRMSNorm", [s.f(2, 3, 32), scale], {"num_branches": 4}, f"flat-{name}")
    for how in ("silu", "sigmoid"):
        yield Case("GatedRMSNorm", [s.f(2, 3, 32), s.f(8), s.f(2, 3, 32)], {"activation": how}, how)
    yield Case(
        "EngramGate",
        [x, s.f(2, 3, 4, 8), s.f(2, 3, 8), s.f(4, 8), s.f(4, 8), s.f(4, 8)],
        {},
        outputs=2,
    )
    yield Case("GatedAdd", [s.f(2, 3, 8), s.f(2, 3, 8), s.f(2, 3, 1)])
    for factors in (s.f(2, 3, 4), s.f(2, 3, 4, 1), s.f(2, 3, 4, 8)):
        name = str(factors.shape)
        yield Case("HyperConnectionPreMix", [x, factors], {"reduction_scale": 0.5}, name)
        yield Case("HyperConnectionPostMix", [x, s.f(2, 3, 8), factors], {}, name)
    yield Case("HyperConnectionPreMix", [s.f(2, 3, 32), s.f(2, 3, 32)], {"num_branches": 4}, "flat")
    yield Case(
        "HyperConnectionPostMix",
        [s.f(2, 3, 32), s.f(2, 3, 8), s.f(2, 3, 4), s.f(2, 3, 4, 4)],
        {"num_branches": 4},
        "mixed",
    )
