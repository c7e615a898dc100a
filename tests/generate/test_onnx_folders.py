# SPDX-License-Identifier: Apache-2.0
"""Folders as ONNX Runtime GenAI's builder and optimum write them: tokens against ONNX Runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openxrt
import openxrt.generate
import pytest
from gguf_files import byte_words
from onnx import TensorProto, helper, numpy_helper

onnxruntime = pytest.importorskip("onnxruntime")
tokenizers = pytest.importorskip("tokenizers")

WORDS, HIDDEN, HEADS, KV_HEADS, HEAD, CONTEXT = 260, 64, 4, 2, 16, 128
FLOAT, INT64, INT32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32
PROMPT = "a small dog"


def write_tokenizer(folder: Path) -> None:
    vocabulary = {word: i for i, word in enumerate([*byte_words(), "<s>", "</s>", "x1", "x2"])}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<s>", "</s>"])
    made.save(str(folder / "tokenizer.json"))


class Model:
    """Collects nodes and constants."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, name: str, *shape: int) -> str:
        return self.constant(name, self.rng.normal(0, 0.3, shape).astype(np.float32))

    def op(self, op: str, inputs: list[str], *outputs: str, **attributes: Any) -> str:
        domain = attributes.pop("domain", "")
        self.nodes.append(helper.make_node(op, inputs, list(outputs), domain=domain, **attributes))
        return outputs[0]

    def blocks(self, x: str, name: str, rows: int, columns: int) -> str:
        """MatMulNBits by random weights of 4 bits."""
        q = self.rng.integers(0, 256, (rows, columns // 32, 16), np.uint8)
        scale = self.rng.uniform(0.01, 0.05, rows * columns // 32).astype(np.float32)
        return self.op(
            "MatMulNBits",
            [x, self.constant(name + ".q", q), self.constant(name + ".s", scale)],
            name,
            domain="com.microsoft",
            bits=4,
            block_size=32,
            N=rows,
            K=columns,
        )

    def save(self, path: Path, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        def infos(of: dict[str, Any]) -> list[onnx.ValueInfoProto]:
            return [helper.make_tensor_value_info(n, t, s) for n, (t, s) in of.items()]

        graph = helper.make_graph(
            self.nodes, "model", infos(inputs), infos(outputs), self.constants
        )
        domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=10), path)


def caches(kind: str, length: str, kv_heads: int) -> dict[str, Any]:
    shape = ["batch", kv_heads, length, HEAD]
    return {f"{kind}.0.{part}": (FLOAT, shape) for part in ("key", "value")}


def write_genai(folder: Path) -> None:
    """A layer of GroupQueryAttention with products of 4 bits."""
    m = Model(1)
    x = m.op("Gather", [m.weight("table", WORDS, HIDDEN), "input_ids"], "x")
    scale = m.constant("scale", np.linspace(0.5, 1.5, HIDDEN, dtype=np.float32))
    h = m.op("SimplifiedLayerNormalization", [x, scale], "h", epsilon=1e-5, axis=-1)
    q = m.blocks(h, "q", HEADS * HEAD, HIDDEN)
    k = m.blocks(h, "k", KV_HEADS * HEAD, HIDDEN)
    v = m.blocks(h, "v", KV_HEADS * HEAD, HIDDEN)
    one = m.constant("one", np.array([1], np.int64))
    summed = m.op("ReduceSum", ["attention_mask", one], "summed", keepdims=0)
    less = m.op("Sub", [summed, one], "less")
    lengths = m.op("Cast", [less], "lengths", to=INT32)
    shape = m.op("Shape", ["attention_mask"], "shape")
    size = m.op("Gather", [shape, m.constant("at", np.array(1))], "size")
    total = m.op("Cast", [size], "total", to=INT32)
    angles = np.arange(CONTEXT)[:, None] / 100.0 ** (np.arange(HEAD // 2) / (HEAD // 2))
    cos = m.constant("cos", np.cos(angles).astype(np.float32))
    sin = m.constant("sin", np.sin(angles).astype(np.float32))
    y = m.op(
        "GroupQueryAttention",
        [q, k, v, "past_key_values.0.key", "past_key_values.0.value", lengths, total, cos, sin],
        "y",
        "present.0.key",
        "present.0.value",
        domain="com.microsoft",
        num_heads=HEADS,
        kv_num_heads=KV_HEADS,
        do_rotary=1,
    )
    x = m.op("Add", [x, m.blocks(y, "out", HIDDEN, HEADS * HEAD)], "sum")
    m.op("MatMul", [x, m.weight("words", HIDDEN, WORDS)], "logits")
    m.save(
        folder / "model.onnx",
        {
            "input_ids": (INT64, ["batch", "sequence"]),
            "attention_mask": (INT64, ["batch", "whole"]),
            **caches("past_key_values", "past", KV_HEADS),
        },
        {
            "logits": (FLOAT, ["batch", "sequence", WORDS]),
            **caches("present", "whole", KV_HEADS),
        },
    )
    config = {
        "model": {
            "context_length": CONTEXT,
            "eos_token_id": [257],
            "decoder": {
                "filename": "model.onnx",
                "head_size": HEAD,
                "num_key_value_heads": KV_HEADS,
                "inputs": {
                    "input_ids": "input_ids",
                    "attention_mask": "attention_mask",
                    "past_key_names": "past_key_values.%d.key",
                    "past_value_names": "past_key_values.%d.value",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "present.%d.key",
                    "present_value_names": "present.%d.value",
                },
            },
        }
    }
    (folder / "genai_config.json").write_text(json.dumps(config))
    write_tokenizer(folder)


def attention(m: Model, x: str, past: tuple[str, str] | None) -> tuple[str, str, str]:
    """One head per key, as exporters of standard ops write it; y, keys and values."""
    parts = []
    for name in "qkv":
        p = m.op("MatMul", [x, m.weight("w" + name, HIDDEN, HIDDEN)], name + "0")
        p = m.op("Reshape", [p, m.constant("r" + name, np.array([0, 0, HEADS, HEAD]))], name + "1")
        parts.append(m.op("Transpose", [p], name + "2", perm=[0, 2, 1, 3]))
    q, k, v = parts
    if past is not None:
        k = m.op("Concat", [past[0], k], "present.0.key", axis=2)
        v = m.op("Concat", [past[1], v], "present.0.value", axis=2)
    else:
        k = m.op("Identity", [k], "present.0.key")
        v = m.op("Identity", [v], "present.0.value")
    turned = m.op("Transpose", [k], "turned", perm=[0, 1, 3, 2])
    scores = m.op("MatMul", [q, turned], "scores")
    # Key t is hidden from the query at position p where t > p.
    shape = m.op("Shape", [scores], "shape")
    size = m.op("Gather", [shape, m.constant("last", np.array(3))], "size")
    zero, one = m.constant("zero", np.array(0)), m.constant("one", np.array(1))
    keys = m.op("Range", [zero, size, one], "keys")
    column = m.op("Unsqueeze", ["position_ids", m.constant("axes", np.array([1, 3]))], "column")
    hidden = m.op("Greater", [keys, column], "hidden")
    low = m.constant("low", np.float32(-1e9))
    weights = m.op("Softmax", [m.op("Where", [hidden, low, scores], "masked")], "weights", axis=-1)
    y = m.op("Transpose", [m.op("MatMul", [weights, v], "y0")], "y1", perm=[0, 2, 1, 3])
    return m.op("Reshape", [y, m.constant("ry", np.array([0, 0, HIDDEN]))], "y"), k, v


def write_decoder(path: Path, *, has_past: bool) -> None:
    m = Model(2)
    x = m.op("Gather", [m.weight("table", WORDS, HIDDEN), "input_ids"], "x")
    places = m.weight("places", CONTEXT, HIDDEN)
    x = m.op("Add", [x, m.op("Gather", [places, "position_ids"], "place")], "placed")
    past = ("past_key_values.0.key", "past_key_values.0.value") if has_past else None
    y, _, _ = attention(m, x, past)
    x = m.op("Add", [x, y], "sum")
    m.op("MatMul", [x, m.weight("words", HIDDEN, WORDS)], "logits")
    inputs: dict[str, Any] = {
        "input_ids": (INT64, ["batch", "sequence"]),
        "position_ids": (INT64, ["batch", "sequence"]),
    }
    if has_past:
        inputs |= caches("past_key_values", "past", HEADS)
    outputs = {
        "logits": (FLOAT, ["batch", "sequence", WORDS]),
        **caches("present", "whole", HEADS),
    }
    m.save(path, inputs, outputs)


def greedy(session: Any, prompt: list[int], count: int, kv_heads: int) -> list[int]:
    """By ONNX Runtime, with its cache."""
    names = {i.name for i in session.get_inputs()}
    past = {n: np.zeros((1, kv_heads, 0, HEAD), np.float32) for n in names if n.startswith("past")}
    tokens, fresh = list(prompt), list(prompt)
    for _ in range(count):
        feed: dict[str, Any] = {"input_ids": np.array([fresh])}
        if "attention_mask" in names:
            feed["attention_mask"] = np.ones((1, len(tokens)), np.int64)
        if "position_ids" in names:
            feed["position_ids"] = np.arange(len(tokens) - len(fresh), len(tokens))[None]
        outputs = session.run(None, {**feed, **past})
        found = dict(zip([o.name for o in session.get_outputs()], outputs, strict=True))
        if past:
            past = {n: found[n.replace("past_key_values", "present")] for n in past}
        tokens.append(int(found["logits"][0, -1].argmax()))
        fresh = tokens[-1:] if past else tokens
    return tokens[len(prompt) :]


def generated(folder: Path, count: int, engine: str = "native") -> tuple[list[int], list[int]]:
    model = openxrt.generate.load(folder, engine=engine, activations="float")
    model.tokenizer.ends = frozenset()
    prompt = model.tokenizer.encode(PROMPT)
    return prompt, model.generate(PROMPT, max_tokens=count, greedy=True).tokens


@pytest.mark.parametrize("engine", ["native", "openvino", "xla", "onnxruntime"])
def test_genai(tmp_path: Path, engine: str) -> None:
    write_genai(tmp_path)
    prompt, found = generated(tmp_path, 12, engine)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert found == greedy(session, prompt, 12, KV_HEADS)


def test_lengths_share_a_plan(tmp_path: Path) -> None:
    """Nothing is compiled for the length of a text: prompts and steps run by ranges."""
    write_genai(tmp_path)
    model = openxrt.generate.load(tmp_path)
    for prompt in ("a", "some more words"):
        model.generate(prompt, max_tokens=4, greedy=True)
        notes = model.decoder.step.program.explain()["notes"]
        assert any("this plan serves a range of sizes" in note for note in notes), notes


def test_genai_in_batches(tmp_path: Path) -> None:
    write_genai(tmp_path)
    model = openxrt.generate.load(tmp_path, activations="float")
    assert model.tokenizer.ends >= {257}
    model.tokenizer.ends = frozenset()
    prompts = ["a", "some more words", "b2"]
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for prompt, found in zip(
        prompts, model.generate(prompts, max_tokens=8, greedy=True), strict=True
    ):
        assert found.tokens == greedy(session, model.tokenizer.encode(prompt), 8, KV_HEADS)


def test_one_file_with_a_cache(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    write_decoder(tmp_path / "model.onnx", has_past=True)
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": CONTEXT}))
    prompt, found = generated(tmp_path, 12)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert found == greedy(session, prompt, 12, HEADS)
    model = openxrt.generate.load(tmp_path)
    with pytest.raises(openxrt.InvalidArgument, match="128 positions"):
        model.generate("x" * 128)


def test_two_files(tmp_path: Path) -> None:
    """One for the prompt, and one with a cache for what follows; as transformers.js has them, in a
    folder onnx/."""
    write_tokenizer(tmp_path)
    (tmp_path / "onnx").mkdir()
    write_decoder(tmp_path / "onnx" / "decoder_model.onnx", has_past=False)
    write_decoder(tmp_path / "onnx" / "decoder_with_past_model.onnx", has_past=True)
    prompt, found = generated(tmp_path, 12)
    path = tmp_path / "onnx" / "decoder_with_past_model.onnx"
    session = onnxruntime.InferenceSession(path)
    assert found == greedy(session, prompt, 12, HEADS)


def test_behind_an_encoder(tmp_path: Path) -> None:
    """Without a cache: all tokens go in each time."""
    write_tokenizer(tmp_path)
    encoder = Model(3)
    x = encoder.op("Gather", [encoder.weight("table", WORDS, HIDDEN), "input_ids"], "x")
    mask = encoder.op("Cast", ["attention_mask"], "mask", to=FLOAT)
    column = encoder.op("Unsqueeze", [mask, encoder.constant("two", np.array([2]))], "column")
    encoder.op("Mul", [x, column], "last_hidden_state")
    tokens = (INT64, ["batch", "sequence"])
    hidden = (FLOAT, ["batch", "read", HIDDEN])
    encoder.save(
        tmp_path / "encoder_model.onnx",
        {"input_ids": tokens, "attention_mask": tokens},
        {"last_hidden_state": (FLOAT, ["batch", "sequence", HIDDEN])},
    )
    m = Model(4)
    x = m.op("Gather", [m.weight("table", WORDS, HIDDEN), "input_ids"], "x")
    turned = m.op("Transpose", ["encoder_hidden_states"], "turned", perm=[0, 2, 1])
    weights = m.op("Softmax", [m.op("MatMul", [x, turned], "scores")], "weights", axis=-1)
    x = m.op("Add", [x, m.op("MatMul", [weights, "encoder_hidden_states"], "read")], "sum")
    m.op("MatMul", [x, m.weight("words", HIDDEN, WORDS)], "logits")
    m.save(
        tmp_path / "decoder_model.onnx",
        {"input_ids": tokens, "encoder_hidden_states": hidden},
        {"logits": (FLOAT, ["batch", "sequence", WORDS])},
    )
    with pytest.raises(openxrt.Unsupported, match="decoder_start_token_id"):
        openxrt.generate.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"decoder_start_token_id": 256}))
    prompt, found = generated(tmp_path, 8)
    sessions = [
        onnxruntime.InferenceSession(tmp_path / f"{part}_model.onnx")
        for part in ("encoder", "decoder")
    ]
    ids = np.array([prompt])
    [read] = sessions[0].run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
    wanted = [256]
    for _ in range(8):
        feed = {"input_ids": np.array([wanted]), "encoder_hidden_states": read}
        wanted.append(int(sessions[1].run(None, feed)[0][0, -1].argmax()))
    assert found == wanted[1:]


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("genai_config.json", "{", openxrt.InvalidModel),
        ("genai_config.json", "{}", openxrt.InvalidModel),
        ("genai_config.json", '{"model": {"decoder": {"filename": "../m"}}}', openxrt.NotFound),
        ("config.json", "[]", openxrt.NotFound),
        ("tokenizer.json", "{}", openxrt.NotFound),
    ],
)
def test_damaged_folders(tmp_path: Path, name: str, text: str, error: type) -> None:
    write_tokenizer(tmp_path)
    (tmp_path / name).write_text(text)
    with pytest.raises(error, match=str(tmp_path)):
        openxrt.generate.load(tmp_path)


def test_damaged_tokenizer(tmp_path: Path) -> None:
    write_genai(tmp_path)
    whole = (tmp_path / "tokenizer.json").read_text()
    for size in (0, 10, len(whole) // 2):
        (tmp_path / "tokenizer.json").write_text(whole[:size])
        with pytest.raises(openxrt.InvalidModel, match=r"tokenizer\.json"):
            openxrt.generate.load(tmp_path)
