# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .case import Case, Const, Source
from .weights import pack


def experts(s: Source) -> Iterator[Case]:
    e, h, f, tokens = 4, 16, 32, 6
    x, logits = s.f(tokens, h), s.f(tokens, e)
    w1, b1 = Const(s.f(e, f, h, scale=0.2)), Const(s.f(e, f))
    w2, b2 = Const(s.f(e, h, f, scale=0.2)), Const(s.f(e, h))
    for how in ("relu", "gelu", "silu", "identity"):
        yield Case("MoE", [x, logits, w1, b1, w2, b2], {"k": 2, "activation_type": how}, how)
    normal = {"k": 2, "normalize_routing_weights": 1}
    yield Case("MoE", [s.f(2, 3, h), logits, w1, None, w2], normal, "normal")
    fused = [x, logits, Const(s.f(e, 2 * f, h, scale=0.2)), Const(s.f(e, 2 * f)), w2, b2]
    swiglu = {
        "k": 2,
        "activation_type": "swiglu",
        "swiglu_fusion": 1,
        "activation_alpha": 1.702,
        "activation_beta": 1.0,
    }
    yield Case("MoE", fused, swiglu, "swiglu")
    yield Case("MoE", fused, {**swiglu, "swiglu_limit": 0.5}, "limit")
    for bits in (4, 8):
        q1 = Const(pack(s.i(0, 2**bits, e, f, h), bits))
        q2 = Const(pack(s.i(0, 2**bits, e, h, f), bits))
        scale = 0.4 / 2**bits
        s1 = Const(np.abs(s.f(e, f, scale=scale)))
        s2 = Const(np.abs(s.f(e, h, scale=scale)))
        attributes = {"k": 2, "expert_weight_bits": bits, "activation_type": "silu"}
        yield Case(
            "QMoE", [x, logits, q1, s1, b1, q2, s2, b2], attributes, str(bits), rtol=2e-2, atol=2e-2
        )
        s1 = Const(np.abs(s.f(e, f, h // 16, scale=scale)))
        s2 = Const(np.abs(s.f(e, h, f // 16, scale=scale)))
        yield Case(
            "QMoE",
            [x, logits, q1, s1, b1, q2, s2, b2],
            {**attributes, "block_size": 16},
            f"{bits}-blocks",
            rtol=3e-2,
            atol=3e-2,
        )
        far: dict[str, Any] = {"rtol": 3e-2, "atol": 3e-2, "everywhere": True}
        given = [x, logits, q1.array, s1, b1, q2.array, s2, b2]
        yield Case("QMoE", given, {**attributes, "block_size": 16}, f"{bits}-blocks-given", **far)
        z1 = pack(s.i(0, 2**bits, e, f, h // 16), bits)
        z2 = pack(s.i(0, 2**bits, e, h, f // 16), bits)
        points = [*given, None, None, None, z1, z2]
        name = f"{bits}-blocks-zeros-given"
        yield Case("QMoE", points, {**attributes, "block_size": 16}, name, **far)
        s1 = Const(np.abs(s.f(e, f, scale=scale)))
        s2 = Const(np.abs(s.f(e, h, scale=scale)))
        given = [x, logits, q1.array, s1, b1, q2.array, s2, b2]
        yield Case("QMoE", given, attributes, f"{bits}-given", **far)
        points = [*given, None, None, None]
        points += [pack(s.i(0, 2**bits, e, size), bits) for size in (f, h)]
        yield Case("QMoE", points, attributes, f"{bits}-zeros-given", **far)
