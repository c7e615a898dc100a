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
HEADS_OF_X = """
  q_flat = MatMul (x, wq)
  k_flat = MatMul (x, wk)
  v_flat = MatMul (x, wv)
  q_heads = Reshape (q_flat, split)
  k_heads = Reshape (k_flat, split)
  v_heads = Reshape (v_flat, split)
  q = Transpose <perm = [0, 2, 1, 3]> (q_heads)
  k_new = Transpose <perm = [0, 2, 1, 3]> (k_heads)
  v_new = Transpose <perm = [0, 2, 1, 3]> (v_heads)
"""
JOINED_HEADS = """
  answers_last = Transpose <perm = [0, 2, 1, 3]> (answers)
  joined = Reshape (answers_last, merged)
  y = Add (x, joined)
"""
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
  HEADS
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
  JOINED
  logits = MatMul (y, head)
}
"""


def whole(text: str) -> str:
    """With the parts that both models have."""
    return text.replace("HEADS", HEADS_OF_X.strip()).replace("JOINED", JOINED_HEADS.strip())


def decoder(s: Source, name: str = "decoder") -> onnx.GraphProto:
    """A model as ONNX Runtime's tool for generation writes it."""
    graph = onnx.parser.parse_graph(whole(TEXT))
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


# A source's keys and values.
ENCODER = """
  encoder_hidden_states = Gather (table, encoder_input_ids)
  key_flat = MatMul (encoder_hidden_states, wk_cross)
  value_flat = MatMul (encoder_hidden_states, wv_cross)
  key_heads = Reshape (key_flat, split)
  value_heads = Reshape (value_flat, split)
  present_key_cross_0 = Transpose <perm = [0, 2, 1, 3]> (key_heads)
  present_value_cross_0 = Transpose <perm = [0, 2, 1, 3]> (value_heads)
"""
# A layer over the words so far, of which SELF makes keys and values, and over the source.
STEP = """
  x = Gather (table, IDS)
  seen = Cast <to = 1> (encoder_attention_mask)
  unseen = Sub (one, seen)
  low = Mul (unseen, lowest)
  bias = Unsqueeze (low, axes)
  HEADS
  SELF
  k_turned = Transpose <perm = [0, 1, 3, 2]> (present_key_self_0)
  products = MatMul (q, k_turned)
  weights = Softmax (products)
  answers = MatMul (weights, present_value_self_0)
  JOINED
  cross_flat = MatMul (y, wq_cross)
  cross_heads = Reshape (cross_flat, split)
  cross_q = Transpose <perm = [0, 2, 1, 3]> (cross_heads)
  cross_k = Transpose <perm = [0, 1, 3, 2]> (KEY)
  cross_products = MatMul (cross_q, cross_k)
  cross_biased = Add (cross_products, bias)
  cross_weights = Softmax (cross_biased)
  cross_answers = MatMul (cross_weights, VALUE)
  cross_last = Transpose <perm = [0, 2, 1, 3]> (cross_answers)
  cross_joined = Reshape (cross_last, merged)
  z = Add (y, cross_joined)
  logits = MatMul (z, head)
"""


def past(name: str, length: str) -> str:
    return f"float[b, 2, {length}, 4] {name}"


def encoder_and_decoder(s: Source, *, steps: bool, hidden: bool) -> dict[str, onnx.GraphProto]:
    """Two graphs like those of T5. `steps`: the encoder's takes the first step, as in older files;
    `hidden`: the decoder is given the hidden states, too."""
    constants = {
        "table": s.f(WORDS, SIZE),
        **{f"w{name}": s.f(SIZE, SIZE, scale=0.3) for name in ("q", "k", "v", "q_cross")},
        **{f"w{name}": s.f(SIZE, SIZE) for name in ("k_cross", "v_cross")},
        "head": s.f(SIZE, WORDS, scale=3),
        "one": np.float32(1),
        "lowest": np.float32(-1e4),
        "axes": np.array([1, 2]),
        "split": np.array([0, 0, HEADS, HEAD]),
        "merged": np.array([0, 0, SIZE]),
    }
    own = [past(f"present_{kind}_self_0", "t") for kind in ("key", "value")]
    cross = [past(f"present_{kind}_cross_0", "e") for kind in ("key", "value")]
    scores = "float[b, 1, 23] logits"
    states = "float[b, e, 8] encoder_hidden_states"

    def graph(name: str, inputs: list[str], outputs: list[str], body: str) -> onnx.GraphProto:
        made = onnx.parser.parse_graph(
            f"{name} ({', '.join(inputs)}) => ({', '.join(outputs)}) {{ {body} }}"
        )
        used = {name for node in made.node for name in node.input}
        made.initializer.extend(
            numpy_helper.from_array(np.asarray(value), key)
            for key, value in constants.items()
            if key in used
        )
        return made

    def step(ids: str, keys: str, values: str, cross_key: str, cross_value: str) -> str:
        made = f"present_key_self_0 = {keys}\n  present_value_self_0 = {values}"
        text = whole(STEP).replace("IDS", ids).replace("SELF", made)
        return text.replace("KEY", cross_key).replace("VALUE", cross_value)

    source = ["int32[b, e] encoder_input_ids", "int32[b, e] encoder_attention_mask"]
    encoder = graph("encoder", source, cross, ENCODER)
    if steps:
        first = step(
            "decoder_input_ids",
            "Identity (k_new)",
            "Identity (v_new)",
            "present_key_cross_0",
            "present_value_cross_0",
        )
        encoder = graph(
            "encoder",
            [*source, "int32[b, 1] decoder_input_ids"],
            [scores, states, *own, *cross],
            ENCODER + first,
        )
    inputs = ["int32[b, 1] input_ids", source[1], *[states] * hidden]
    for kind, length in (("self", "p"), ("cross", "e")):
        inputs += [past(f"past_{part}_{kind}_0", length) for part in ("key", "value")]
    following = step(
        "input_ids",
        "Concat <axis = 2> (past_key_self_0, k_new)",
        "Concat <axis = 2> (past_value_self_0, v_new)",
        "past_key_cross_0",
        "past_value_cross_0",
    )
    return {"encoder": encoder, "decoder": graph("decoder", inputs, [scores, *own], following)}


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

    graphs = {"decoder": decoder(Source(7)), "init_decoder": decoder(Source(7), "first")}
    yield Case("BeamSearch", base, {**common, **graphs}, "first", outputs=2)
    source = np.array([[3, 7, 9, 11], [2, 2, 4, 6]], np.int32)
    leading = np.array([[PADDING, PADDING, 3, 7], [2, 2, 4, 6]], np.int32)
    inner = np.array([[3, PADDING, 7, PADDING], [2, 2, 4, 6]], np.int32)
    mask = np.array([[1, 1, 0, 1], [1, 1, 1, 1]], np.int32)
    common = {**common, "model_type": 1, "decoder_start_token_id": 0}
    for form in ("new", "old", "hidden"):
        old = form != "new"
        graphs = encoder_and_decoder(s, steps=old, hidden=form == "hidden")
        for name, operands, attributes in (
            ("plain", [source, *base[1:]], {}),
            ("early", [source, *base[1:]], {"early_stopping": 1}),
            ("leading", [leading, *base[1:]], {}),
            ("inner", [inner, *base[1:]], {}),
            ("penalty", [source, *base[1:], more], {}),
            ("masks", [source, *base[1:], None, some, at_first], {}),
            ("mask", [source, *base[1:], None, None, None, mask], {}),
        ):
            attributes = {**common, **attributes, **graphs}
            yield Case("BeamSearch", operands, attributes, f"{form}-{name}", outputs=2)
