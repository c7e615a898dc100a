# SPDX-License-Identifier: Apache-2.0
"""Ops that run a language model to the end of a text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import numpy_helper

from .case import Case, Source

WORDS, HEADS, HEAD = 23, 2, 4
SIZE = HEADS * HEAD
END, PADDING = 5, 1
# A layer of attention over words and positions.
TEXT = """
decoder (int32[b, s] input_ids, int32[b, s] position_ids, int32[b, t] attention_mask,
         float[2, b, 2, p, 4] past_0)
     => (float[b, s, 23] logits, float[2, b, 2, t, 4] present_0) {
  word = Gather (table, input_ids)
  place = Gather (places, position_ids)
  x = Add (word, place)
  seen = Cast <to = 1> (attention_mask)
  unseen = Sub (one, seen)
  low = Mul (unseen, lowest)
  key_bias = Unsqueeze (low, axes)
  keys = Shape <start = 1> (attention_mask)
  queries = Shape <start = 1> (input_ids)
  total = Squeeze (keys)
  fed = Squeeze (queries)
  begin = Sub (total, fed)
  key_at = Range (zero, total, step)
  query_at = Range (begin, total, step)
  query_rows = Unsqueeze (query_at, last)
  later = Greater (key_at, query_rows)
  later_float = Cast <to = 1> (later)
  later_bias = Mul (later_float, lowest)
  bias = Add (key_bias, later_bias)
  q_flat = MatMul (x, wq)
  k_flat = MatMul (x, wk)
  v_flat = MatMul (x, wv)
  q_heads = Reshape (q_flat, split)
  k_heads = Reshape (k_flat, split)
  v_heads = Reshape (v_flat, split)
  q = Transpose <perm = [0, 2, 1, 3]> (q_heads)
  k_new = Transpose <perm = [0, 2, 1, 3]> (k_heads)
  v_new = Transpose <perm = [0, 2, 1, 3]> (v_heads)
  new_k = Unsqueeze (k_new, first)
  new_v = Unsqueeze (v_new, first)
  new = Concat <axis = 0> (new_k, new_v)
  present_0 = Concat <axis = 3> (past_0, new)
  k = Gather (present_0, zero)
  v = Gather (present_0, step)
  k_turned = Transpose <perm = [0, 1, 3, 2]> (k)
  products = MatMul (q, k_turned)
  biased = Add (products, bias)
  weights = Softmax (biased)
  answers = MatMul (weights, v)
  answers_last = Transpose <perm = [0, 2, 1, 3]> (answers)
  joined = Reshape (answers_last, merged)
  y = Add (x, joined)
  logits = MatMul (y, head)
}
"""


def decoder(s: Source, name: str = "decoder") -> onnx.GraphProto:
    """A model as ONNX Runtime's tool for generation writes it."""
    graph = onnx.parser.parse_graph(TEXT)
    graph.name = name
    constants = {
        "table": s.f(WORDS, SIZE),
        "places": s.f(64, SIZE, scale=0.5),
        "one": np.float32(1),
        "lowest": np.float32(-1e4),
        "axes": np.array([1, 2]),
        "zero": np.array(0),
        "step": np.array(1),
        "first": np.array([0]),
        "last": np.array([1]),
        "split": np.array([0, 0, HEADS, HEAD]),
        "merged": np.array([0, 0, SIZE]),
        "wq": s.f(SIZE, SIZE, scale=0.3),
        "wk": s.f(SIZE, SIZE, scale=0.3),
        "wv": s.f(SIZE, SIZE, scale=0.3),
        "head": s.f(SIZE, WORDS, scale=3),
    }
    graph.initializer.extend(
        numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()
    )
    return graph


def generation(s: Source) -> Iterator[Case]:
    def one(value: float, dtype: type = np.int32) -> np.ndarray:
        return np.array([value], dtype)

    prompts = np.array([[3, 7, 9], [2, 2, 4]], np.int32)
    padded = np.array([[PADDING, PADDING, 9], [2, 2, 4]], np.int32)
    mask = np.array([[0, 1, 1], [1, 1, 1]], np.int32)
    some = (np.arange(WORDS) % 3 != 0).astype(np.int32)
    at_first = (np.arange(2 * WORDS).reshape(2, WORDS) % 5 != 1).astype(np.int32)
    common = {"eos_token_id": END, "pad_token_id": PADDING, "model_type": 0}

    # ONNX Runtime leaves what follows the end of all texts as it is in memory: some go on.
    endless = {**common, "eos_token_id": 0}
    most, least = one(14), one(9)
    more = one(1.7, np.float32)
    for name, operands, attributes in (
        ("plain", [prompts, most], endless),
        ("padded", [padded, most], endless),
        ("least", [prompts, most, least], endless),
        ("penalty", [prompts, most, None, more], endless),
        ("masks", [prompts, most, None, None, some, at_first], endless),
        ("mask", [prompts, most, None, None, None, None, mask], endless),
        ("repeats", [prompts, most], {**endless, "no_repeat_ngram_size": 2}),
    ):
        yield Case("GreedySearch", operands, {**attributes, "decoder": decoder(s)}, name)
    graphs = {"decoder": decoder(Source(7)), "init_decoder": decoder(Source(7), "first")}
    yield Case("GreedySearch", [prompts, most], {**endless, **graphs}, "first")

    weight = one(1, np.float32)
    base = [prompts, most, one(1), one(3), one(2), weight]
    for name, operands, attributes in (
        ("plain", base, common),
        ("early", base, {**common, "early_stopping": 1}),
        ("padded", [padded, *base[1:]], common),
        ("least", [prompts, most, least, *base[3:]], common),
        ("long", [*base[:5], one(2, np.float32)], common),
        ("short", [*base[:5], one(0.2, np.float32)], common),
        ("penalty", [*base, more], common),
        ("masks", [*base, None, some, at_first], common),
        ("mask", [*base, None, None, None, mask], common),
        ("repeats", base, {**common, "no_repeat_ngram_size": 2}),
        ("one", [prompts, most, one(1), one(1), one(1), weight], common),
    ):
        yield Case("BeamSearch", operands, {**attributes, "decoder": decoder(s)}, name, outputs=2)
