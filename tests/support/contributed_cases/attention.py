# SPDX-License-Identifier: Apache-2.0
"""Attention and states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .case import Array, Case, Const, Source


def causal_positions(batch: int, length: int) -> Array:
    return np.tile(np.arange(length, dtype=np.int64), (batch, 1))


def attention(s: Source) -> Iterator[Case]:
    n, h, length, batch = 4, 8, 6, 2
    d = n * h
    x, w, b = s.f(batch, length, d), Const(s.f(d, 3 * d, scale=0.2)), Const(s.f(3 * d))
    heads = {"num_heads": n}
    ends = np.array([4, 6], np.int32)
    both = np.array([5, 6, 1, 0], np.int32)
    flat = np.ones((batch, length), np.int32)
    flat[0, 4:] = 0
    full = s.i(0, 2, batch, length, length)
    full[:, :, 0] = 1
    bias = s.f(1, n, length, length)
    op = "Attention"
    yield Case(op, [x, w, b], heads, "plain")
    yield Case(op, [x, w, b], {**heads, "scale": 0.1}, "scale")
    yield Case(op, [x, w, b], {**heads, "unidirectional": 1}, "causal")
    yield Case(op, [x, w, b, ends], heads, "ends")
    yield Case(op, [x, w, b, both], heads, "begins")
    yield Case(op, [x, w, b, flat], heads, "mask2")
    yield Case(op, [x, w, b, flat], {**heads, "unidirectional": 1}, "mask2-causal")
    yield Case(op, [x, w, b, full], {**heads, "mask_filter_value": -1000.0}, "mask3")
    yield Case(op, [x, w, b, None, None, bias], heads, "bias")
    wide = Const(s.f(d, 2 * d + 16, scale=0.2))
    yield Case(
        op, [x, wide, Const(s.f(2 * d + 16))], {**heads, "qkv_hidden_sizes": [d, d, 16]}, "sizes"
    )
    past = s.f(2, batch, n, 3, h)
    yield Case(op, [x, w, b, None, past], {**heads, "unidirectional": 1}, "past", outputs=2)
    longer = np.ones((batch, length + 3), np.int32)
    longer[1, :2] = 0
    yield Case(
        op, [x[:, :1], w, b, longer[:, :4], past], {**heads, "unidirectional": 1}, "step", outputs=2
    )
    yield Case(op, [x, w, b, None], {**heads, "unidirectional": 1}, "present", outputs=2)

    op = "QAttention"
    near: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-3}
    scale = Const(np.array(0.02, np.float32))
    w_scale = Const(np.array(0.01, np.float32))
    quantised = [s.bytes(batch, length, d), Const(s.i(-63, 63, d, 3 * d, dtype=np.int8)), b]
    zero, w_zero = Const(np.array(128, np.uint8)), Const(np.array(0, np.int8))
    yield Case(op, [*quantised, scale, w_scale, flat, zero, w_zero], heads, "mask", **near)
    yield Case(
        op,
        [
            *quantised,
            scale,
            Const(np.full(3 * d, 0.01, np.float32)),
            None,
            zero,
            Const(np.zeros(3 * d, np.int8)),
            past,
        ],
        {**heads, "unidirectional": 1},
        "past",
        outputs=2,
        **near,
    )

    op = "MultiHeadAttention"
    q, k, v = s.f(batch, length, d), s.f(batch, 5, d), s.f(batch, 5, d)
    qkv_bias = Const(s.f(3 * d))
    yield Case(op, [q, k, v], heads, "plain")
    yield Case(op, [q, k, v, qkv_bias], heads, "bias")
    yield Case(op, [q, k, s.f(batch, 5, 16)], heads, "v-size")
    cross = np.ones((batch, 5), np.int32)
    cross[1, 3:] = 0
    yield Case(op, [q, k, v, None, cross], heads, "mask2")
    yield Case(op, [q, k, v, None, np.array([3, 5], np.int32)], heads, "ends")
    yield Case(op, [q, k, v, None, None, s.f(1, n, length, 5)], heads, "score-bias")
    keys, values = s.f(batch, n, 5, h), s.f(batch, n, 5, h)
    yield Case(op, [q, keys, values], heads, "cross")
    own = [q, s.f(batch, length, d), s.f(batch, length, d)]
    yield Case(op, own, {**heads, "unidirectional": 1}, "causal")
    pasts = [s.f(batch, n, 3, h), s.f(batch, n, 3, h)]
    yield Case(
        op, [*own, qkv_bias, None, None, *pasts], {**heads, "unidirectional": 1}, "past", outputs=3
    )
    yield Case(op, own, heads, "present", outputs=3)
    yield from causal_across(s)

    op = "DecoderMaskedMultiHeadAttention"
    one = [s.f(batch, 1, d) for _ in range(3)]
    buffers = [s.f(batch, n, 8, h), s.f(batch, n, 8, h)]
    share = {**heads, "past_present_share_buffer": 1}
    length_of = Const(np.array([5], np.int32))
    masked = np.ones((batch, 6), np.int32)
    masked[0, :2] = 0
    yield Case(op, [*one, None, None, *buffers, length_of], share, "self", outputs=3)
    yield Case(op, [*one, masked, None, *buffers, length_of], share, "mask", outputs=3)
    yield Case(
        op, [*one, None, None, *buffers, length_of, None, None, qkv_bias], share, "bias", outputs=3
    )
    yield Case(op, [one[0], keys, values], heads, "cross")

    op = "RotaryEmbedding"
    cos, sin = (Const(s.f(16, h // 2)) for _ in range(2))
    at = causal_positions(batch, length)
    for interleaved in (0, 1):
        how = {"interleaved": interleaved}
        yield Case(op, [x, at, cos, sin], how, f"3d-{interleaved}")
        yield Case(op, [s.f(batch, n, length, h), at, cos, sin], how, f"4d-{interleaved}")
        yield Case(op, [x, np.array([3]), cos, sin], how, f"offset-{interleaved}")
    part = [Const(s.f(16, 2)), Const(s.f(16, 2))]
    yield Case(op, [x, at, *part], {"num_heads": n, "rotary_embedding_dim": 4}, "part")
    given = [p.array for p in part]
    how = {"num_heads": n, "rotary_embedding_dim": 4}
    yield Case(op, [x, at, *given], how, "part-given", everywhere=True)
    four = s.f(batch, n, length, h)
    yield Case(op, [four, np.array([3]), *given], how, "part-given-4d", everywhere=True)
    packed = {"is_packed_batching": 1}
    yield Case(op, [x, at, cos, sin], packed, "packed", everywhere=True)
    longer = s.f(1, 20, d)
    where = s.i(0, 16, 1, 20, dtype=np.int64)
    yield Case(op, [longer, where, cos, sin], packed, "packed-longer", everywhere=True)
    half = {"rtol": 1e-2, "atol": 1e-2}
    halves = [Const(c.array.astype(np.float16)) for c in (cos, sin)]
    yield Case(op, [x.astype(np.float16), at, *halves], {}, "half", **half)
    op = "MRotaryEmbedding"
    three = s.i(0, 16, 3, batch, length, dtype=np.int64)
    for layout in (0, 1):
        how = {"mrope_section": [2, 1, 1], "mrope_layout": layout, "num_heads": n}
        yield Case(op, [x, three, cos, sin], how, f"layout{layout}")
    three = s.i(0, 16, 3, 1, 20, dtype=np.int64)
    how = {"mrope_section": [2, 1, 1], "num_heads": n, "is_packed_batching": 1}
    yield Case(op, [longer, three, cos, sin], how, "packed-longer", everywhere=True)

    yield from group_query_attention(s)
    yield from states(s)


def causal_across(s: Source) -> Iterator[Case]:
    """A causal order over more and fewer keys than queries."""
    n, h, batch = 2, 8, 2
    d = n * h
    attributes = {"num_heads": n, "unidirectional": 1}
    for queries, keys in ((1, 4), (2, 5), (4, 5), (4, 3), (6, 1)):
        new = [s.f(batch, queries, d), s.f(batch, keys, d), s.f(batch, keys, d)]
        yield Case(
            "MultiHeadAttention", new, attributes, f"causal-{queries}-{keys}", everywhere=True
        )
        pasts = [s.f(batch, n, 3, h), s.f(batch, n, 3, h)]
        yield Case(
            "MultiHeadAttention",
            [*new, None, None, None, *pasts],
            attributes,
            f"causal-past-{queries}-{keys}",
            outputs=3,
        )
        mask = s.i(0, 2, batch, keys)
        mask[:, 0] = 1
        name = f"causal-mask-{queries}-{keys}"
        yield Case("MultiHeadAttention", [*new, None, mask], attributes, name)
    heads = [s.f(batch, 3, d), s.f(batch, n, 5, h), s.f(batch, n, 5, h)]
    yield Case("MultiHeadAttention", heads, attributes, "causal-heads")


def group_query_attention(s: Source) -> Iterator[Case]:
    op = "GroupQueryAttention"
    n, kn, h, length = 4, 2, 16, 5
    base = {"num_heads": n, "kv_num_heads": kn}
    cos, sin = (Const(s.f(32, h // 2)) for _ in range(2))

    def total(length: int) -> Array:
        return np.array(length, np.int32)

    def prompt(batch: int, dtype: Any = np.float32) -> list[Any]:
        q = s.f(batch, length, n * h, dtype=dtype)
        k, v = (s.f(batch, length, kn * h, dtype=dtype) for _ in range(2))
        lengths = np.full(batch, length - 1, np.int32)
        return [q, k, v, None, None, lengths, total(length)]

    three: dict[str, Any] = {"outputs": 3}
    for batch in (1, 2):
        yield Case(op, prompt(batch), base, f"prompt{batch}", **three)
        rotary = {**base, "do_rotary": 1}
        yield Case(op, [*prompt(batch), cos, sin], rotary, f"rotary{batch}", **three)
        step = [
            s.f(batch, 1, n * h),
            s.f(batch, 1, kn * h),
            s.f(batch, 1, kn * h),
            s.f(batch, kn, 7, h),
            s.f(batch, kn, 7, h),
            np.full(batch, 7, np.int32),
            total(8),
        ]
        yield Case(op, [*step, cos, sin], rotary, f"step{batch}", **three)
        if batch == 2:
            ragged = list(step)
            ragged[5] = np.array([4, 7], np.int32)
            yield Case(op, [*ragged, cos, sin], rotary, "ragged", **three)
        empty = list(prompt(batch))
        empty[3], empty[4] = s.f(batch, kn, 0, h), s.f(batch, kn, 0, h)
        yield Case(op, [*empty, cos, sin], rotary, f"empty{batch}", **three)
        buffered = list(step)
        buffered[3], buffered[4] = s.f(batch, kn, 12, h), s.f(batch, kn, 12, h)
        yield Case(op, buffered, base, f"buffer{batch}", **three)
        packed = [s.f(batch, length, (n + 2 * kn) * h), None, None, *prompt(batch)[3:]]
        yield Case(op, [*packed, cos, sin], rotary, f"packed{batch}", **three)
    more = [
        s.f(1, 3, n * h),
        s.f(1, 3, kn * h),
        s.f(1, 3, kn * h),
        s.f(1, kn, 7, h),
        s.f(1, kn, 7, h),
        np.array([9], np.int32),
        total(10),
    ]
    yield Case(op, [*more, cos, sin], {**base, "do_rotary": 1}, "more", **three)
    interleaved = {**base, "do_rotary": 1, "rotary_interleaved": 1}
    yield Case(op, [*prompt(2), cos, sin], interleaved, "interleaved", **three)
    yield Case(op, prompt(1), {**base, "local_window_size": 2}, "window", **three)
    yield Case(op, more, {**base, "local_window_size": 3}, "window-more", **three)
    yield Case(op, prompt(1), {**base, "softcap": 1.5}, "softcap", **three)
    yield Case(op, prompt(2), {**base, "smooth_softmax": 1}, "smooth", **three)
    yield Case(op, prompt(2), {**base, "scale": 0.3}, "scale", **three)
    extra = [None, None, None]
    bias = s.f(1, n, length, length)
    yield Case(op, [*prompt(1), *extra, bias], base, "score-bias", **three)
    yield Case(op, [*prompt(1), *extra, bias], {**base, "softcap": 1.5}, "cap-bias", **three)
    yield Case(op, [*prompt(1), *extra, None, s.f(n)], base, "sink", **three)
    yield Case(op, prompt(1), {**base, "causal": 0}, "both-ways", **three)
    at = np.arange(3, 3 + length, dtype=np.int64)[None]
    yield Case(op, [*prompt(1), cos, sin, at], {**base, "do_rotary": 1}, "places", **three)
    near = {"rtol": 2e-2, "atol": 2e-2}
    yield Case(op, prompt(1, np.float16), base, "half", **near, **three)
    for kind in (1, 2):
        scores: dict[str, Any] = {"outputs": 4, "everywhere": True}
        how = {**base, "qk_output": kind}
        yield Case(op, prompt(2), how, f"scores{kind}", **scores)
        yield Case(op, buffered, how, f"scores{kind}-buffer", **scores)
        wide = {**how, "local_window_size": 2, "softcap": 5.0, "smooth_softmax": 1}
        yield Case(op, buffered, wide, f"scores{kind}-window", **scores)
        mixed = [*prompt(1)]
        mixed[3], mixed[4] = s.f(1, kn, 9, h), s.f(1, kn, 9, h)
        yield Case(
            op, [*mixed, cos, sin], {**how, "do_rotary": 1}, f"scores{kind}-prompt", **scores
        )
    yield Case(
        op,
        prompt(1, np.float16),
        {**base, "qk_output": 1},
        "scores1-half",
        **near,
        **scores,
    )


def states(s: Source) -> Iterator[Case]:
    x, w, b = s.f(2, 6, 9), Const(s.f(6, 1, 4)), Const(s.f(6))
    op = "CausalConvWithState"
    yield Case(op, [x, w, b], {}, "plain", outputs=2)
    yield Case(op, [x, w, b, s.f(2, 6, 3)], {"activation": "silu"}, "state", outputs=2)
    yield Case(op, [x, w, None, s.f(2, 6, 6)], {"dilation": 2}, "dilation", outputs=2)
    last = {"channels_last": 1}
    yield Case(op, [s.f(2, 9, 6), w, b, s.f(2, 3, 6)], last, "channels-last", outputs=2)
    both: dict[str, Any] = {"outputs": 2, "everywhere": True}
    one = Const(s.f(6, 1, 1))
    yield Case(op, [x, one, b, s.f(2, 6, 0)], {}, "one", **both)
    yield Case(op, [s.f(2, 9, 6), one, b, s.f(2, 0, 6)], last, "one-last", **both)
    given = s.f(6, 1, 3)
    yield Case(op, [x, given, b, s.f(2, 6, 4)], {"dilation": 2}, "given", **both)
    yield Case(op, [x, given, None, s.f(2, 6, 2)], {"activation": "silu"}, "given-silu", **both)
    yield Case(op, [s.f(2, 9, 6), given, b.array, s.f(2, 2, 6)], last, "given-last", **both)
    yield Case("LinearAttentionGate", [s.f(2, 5, 4), s.f(4), s.f(4), s.f(2, 5, 4)], {}, outputs=2)
    op = "LinearAttention"
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    q = s.f(2, 5, 4 * 8, scale=0.3)
    k, v = s.f(2, 5, 2 * 8, scale=0.3), s.f(2, 5, 2 * 8)
    state = s.f(2, 2, 8, 8)
    decay = -np.abs(s.f(2, 5, 2))
    beta = 1 / (1 + np.exp(-s.f(2, 5, 2)))
    for rule, extra in (
        ("linear", []),
        ("gated", [decay]),
        ("delta", [None, beta]),
        ("gated_delta", [decay, beta]),
    ):
        for given in (None, state):
            name = f"{rule}-{'state' if given is not None else 'fresh'}"
            yield Case(
                op, [q, k, v, given, *extra], {**heads, "update_rule": rule}, name, outputs=2
            )
