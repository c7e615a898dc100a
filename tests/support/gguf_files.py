# SPDX-License-Identifier: Apache-2.0
"""GGUF files of small random models, and the same models in transformers."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

# Types of tensors by name: number, numbers of a block, bytes of a block, places of float16 numbers.
TYPES = {
    "F32": (0, 1, 4, ()),
    "F16": (1, 1, 2, (0,)),
    "Q4_0": (2, 32, 18, (0,)),
    "Q4_1": (3, 32, 20, (0, 2)),
    "Q5_0": (6, 32, 22, (0,)),
    "Q5_1": (7, 32, 24, (0, 2)),
    "Q8_0": (8, 32, 34, (0,)),
    "Q2_K": (10, 256, 84, (80, 82)),
    "Q3_K": (11, 256, 110, (108,)),
    "Q4_K": (12, 256, 144, (0, 2)),
    "Q5_K": (13, 256, 176, (0, 2)),
    "Q6_K": (14, 256, 210, (208,)),
}

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def random_raw(rng: np.random.Generator, kind: str, rows: int, columns: int) -> np.ndarray:
    """Rows of blocks of random bits, whose scales are small."""
    _, numbers, size, halves = TYPES[kind]
    if kind == "F32":
        return rng.normal(0, 0.08, (rows, columns)).astype("<f4").view(np.uint8)
    if kind == "F16":
        return rng.normal(0, 0.08, (rows, columns)).astype("<f2").view(np.uint8)
    blocks = rng.integers(0, 256, (rows, columns // numbers, size), dtype=np.uint8)
    # Scales of sub-blocks are up to 63 in K-quants.
    factor = 0.02 if numbers == 32 else 0.0005
    for place in halves:
        scale = rng.uniform(0.2, 1, (*blocks.shape[:2], 1)) * factor
        blocks[:, :, place : place + 2] = scale.astype("<f2").view(np.uint8)
    return blocks.reshape(rows, -1)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    items = list(value)
    if isinstance(items[0], str):
        return struct.pack("<IIQ", 9, 8, len(items)) + b"".join(map(_text, items))
    if isinstance(items[0], float):
        return struct.pack("<IIQ", 9, 6, len(items)) + struct.pack(f"<{len(items)}f", *items)
    return struct.pack("<IIQ", 9, 5, len(items)) + struct.pack(f"<{len(items)}i", *items)


def gguf_bytes(
    metadata: Mapping[str, Any], tensors: Mapping[str, tuple[str, tuple[int, ...], np.ndarray]]
) -> bytes:
    """A file of version 3; a tensor is its type, its shape (dense axis last) and its bytes."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        head += _text(key) + _value(value)
    data = b""
    for name, (kind, shape, raw) in tensors.items():
        head += _text(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *shape[::-1])
        head += struct.pack("<IQ", TYPES[kind][0], len(data))
        data += raw.tobytes()
        data += b"\0" * (-len(data) % 32)
    return head + b"\0" * (-len(head) % 32) + data


def byte_words() -> list[str]:
    """The characters that byte-level tokenizers have for bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    chars = {b: chr(b) for b in plain}
    for i, b in enumerate(b for b in range(256) if b not in chars):
        chars[b] = chr(256 + i)
    return [chars[b] for b in range(256)]


def tiny_llama(
    kind: str = "Q8_0",
    *,
    architecture: str = "llama",
    hidden: int = 64,
    inner: int = 96,
    layers: int = 2,
    heads: int = 4,
    kv_heads: int = 2,
    context: int = 256,
    embedding: str = "Q8_0",
    tied: bool = True,
    seed: int = 0,
    **more: Any,
) -> tuple[dict[str, Any], dict[str, tuple[str, tuple[int, ...], np.ndarray]]]:
    """Metadata and tensors of a random model with a byte-level tokenizer."""
    rng = np.random.default_rng(seed)
    words = [*SPECIAL, *byte_words(), "th", "he", "in"]
    head = hidden // heads
    metadata: dict[str, Any] = {
        "general.architecture": architecture,
        f"{architecture}.block_count": layers,
        f"{architecture}.context_length": context,
        f"{architecture}.embedding_length": hidden,
        f"{architecture}.feed_forward_length": inner,
        f"{architecture}.attention.head_count": heads,
        f"{architecture}.attention.head_count_kv": kv_heads,
        f"{architecture}.rope.freq_base": 10000.0,
        f"{architecture}.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [1] * (len(words) - len(SPECIAL)),
        "tokenizer.ggml.merges": ["t h", "h e", "i n"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
        **more,
    }
    tensors = {}

    def matrix(name: str, rows: int, columns: int, of: str = kind) -> None:
        tensors[name] = (of, (rows, columns), random_raw(rng, of, rows, columns))

    def vector(name: str, length: int, around: float = 1.0) -> None:
        values = (around + 0.1 * rng.standard_normal(length)).astype("<f4")
        tensors[name] = ("F32", (length,), values.view(np.uint8))

    matrix("token_embd.weight", len(words), hidden, embedding)
    if not tied:
        matrix("output.weight", len(words), hidden)
    vector("output_norm.weight", hidden)
    for i in range(layers):
        b = f"blk.{i}."
        vector(b + "attn_norm.weight", hidden)
        vector(b + "ffn_norm.weight", hidden)
        matrix(b + "attn_q.weight", heads * head, hidden)
        matrix(b + "attn_k.weight", kv_heads * head, hidden)
        matrix(b + "attn_v.weight", kv_heads * head, hidden)
        matrix(b + "attn_output.weight", hidden, heads * head)
        matrix(b + "ffn_gate.weight", inner, hidden)
        matrix(b + "ffn_up.weight", inner, hidden)
        matrix(b + "ffn_down.weight", hidden, inner)
        if architecture == "qwen2":
            vector(b + "attn_q.bias", heads * head, 0.0)
            vector(b + "attn_k.bias", kv_heads * head, 0.0)
            vector(b + "attn_v.bias", kv_heads * head, 0.0)
        if architecture == "qwen3":
            vector(b + "attn_q_norm.weight", head)
            vector(b + "attn_k_norm.weight", head)
    return metadata, tensors


def write_gguf(path: Path, *parts: Any) -> Path:
    path.write_bytes(gguf_bytes(*parts))
    return path


def _unpaired(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of queries or keys in transformers' order: the first of all pairs, then the second."""
    rows, columns = weight.shape
    return (
        weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
    )


def transformers_model(path: Path) -> Any:
    """The model of a file in PyTorch, on the weights as the package `gguf` reads them."""
    import torch
    import transformers
    from gguf import GGUFReader
    from gguf.quants import dequantize

    reader = GGUFReader(path)
    fields = {key: field.contents() for key, field in reader.fields.items()}
    kind = fields["general.architecture"]
    tensors = {
        t.name: dequantize(t.data, t.tensor_type).astype(np.float32).reshape(t.shape[::-1])
        for t in reader.tensors
    }
    heads, kv_heads = (fields[f"{kind}.attention.head_count{end}"] for end in ("", "_kv"))
    config_class = getattr(transformers, {"llama": "Llama"}.get(kind, kind.capitalize()) + "Config")
    model_class = getattr(
        transformers, {"llama": "Llama"}.get(kind, kind.capitalize()) + "ForCausalLM"
    )
    config = config_class(
        hidden_size=fields[f"{kind}.embedding_length"],
        num_hidden_layers=fields[f"{kind}.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=fields[f"{kind}.embedding_length"] // heads,
        intermediate_size=fields[f"{kind}.feed_forward_length"],
        vocab_size=len(tensors["token_embd.weight"]),
        max_position_embeddings=fields[f"{kind}.context_length"],
        rope_theta=fields[f"{kind}.rope.freq_base"],
        rope_parameters={"rope_type": "default", "rope_theta": fields[f"{kind}.rope.freq_base"]},
        rms_norm_eps=fields[f"{kind}.attention.layer_norm_rms_epsilon"],
        tie_word_embeddings="output.weight" not in tensors,
    )
    state = {
        "model.embed_tokens.weight": tensors["token_embd.weight"],
        "lm_head.weight": tensors.get("output.weight", tensors["token_embd.weight"]),
        "model.norm.weight": tensors["output_norm.weight"],
    }
    parts = {
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "attn_q_norm": "self_attn.q_norm",
        "attn_k_norm": "self_attn.k_norm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    for name, values in tensors.items():
        if not name.startswith("blk."):
            continue
        _, layer, part, end = name.split(".")
        if kind == "llama" and part in ("attn_q", "attn_k"):
            values = _unpaired(values, heads if part == "attn_q" else kv_heads)
        state[f"model.layers.{layer}.{parts[part]}.{end}"] = values
    model = model_class(config).eval()
    model.load_state_dict({k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in state.items()})
    return model


def transformers_tokens(model: Any, prompt: list[int], count: int) -> list[int]:
    """What a model of transformers generates greedily, whatever ends its texts."""
    import torch

    given = torch.tensor([prompt])
    with torch.no_grad():
        found = model.generate(
            given,
            attention_mask=torch.ones_like(given),
            max_new_tokens=count,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
    return found[0, len(prompt) :].tolist()
