# SPDX-License-Identifier: Apache-2.0
"""GGUF files that are damaged: always an error of ours, never a crash or a large allocation."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import openxrt
import openxrt.generate
import pytest
from gguf_files import gguf_bytes, tiny_llama
from openxrt.generate.gguf import GgufFile

pytest.importorskip("tokenizers")


def test_every_truncation(tmp_path: Path) -> None:
    data = gguf_bytes(*tiny_llama(layers=1))
    path = tmp_path / "cut.gguf"
    rng = np.random.default_rng(0)
    for size in [*range(64), *rng.integers(64, len(data) - 32, 150)]:
        path.write_bytes(data[:size])
        with pytest.raises(openxrt.InvalidModel, match=r"cut\.gguf"):
            GgufFile(path)


def test_mutations(tmp_path: Path) -> None:
    """Bytes changed at random, most of them in the head: an error, or a model that runs."""
    data = bytearray(gguf_bytes(*tiny_llama(layers=1)))
    head = data.find(b"blk.0.ffn_down.weight") + 64
    path = tmp_path / "mutated.gguf"
    rng = np.random.default_rng(1)
    loaded = 0
    for _ in range(150):
        changed = bytearray(data)
        for at in rng.integers(0, head, rng.integers(1, 6)):
            changed[at] = rng.integers(0, 256)
        path.write_bytes(changed)
        try:
            model = openxrt.generate.load(path)
            model.generate([5, 6], max_tokens=2)
            loaded += 1
        except openxrt.Error:
            pass
    assert loaded > 5  # names of tensors and tokens are most of what there is


def with_count(data: bytes, at: int, count: int) -> bytes:
    return data[:at] + struct.pack("<Q", count) + data[at + 8 :]


@pytest.mark.parametrize("at", [8, 16])
@pytest.mark.parametrize("count", [1 << 63, (1 << 64) - 1, 1 << 32, 10_000])
def test_wrong_counts(tmp_path: Path, at: int, count: int) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(with_count(gguf_bytes(*tiny_llama(layers=1)), at, count))
    with pytest.raises(openxrt.InvalidModel):
        GgufFile(path)


@pytest.mark.parametrize("size", [0, 1 << 40, 1 << 62, (1 << 64) - 32])
def test_absurd_shapes(tmp_path: Path, size: int) -> None:
    data = gguf_bytes(*tiny_llama(layers=1))
    at = data.index(b"token_embd.weight") + len("token_embd.weight") + 4
    path = tmp_path / "m.gguf"
    path.write_bytes(with_count(data, at, size))
    with pytest.raises(openxrt.InvalidModel, match="token_embd"):
        GgufFile(path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("llama.block_count", 0, "block_count"),
        ("llama.block_count", 4000, "no tensor 'blk.2"),
        ("llama.attention.head_count", 6, "wants"),
        ("llama.attention.head_count_kv", 3, "do not share"),
        ("llama.embedding_length", 65, "wants"),
        ("llama.attention.layer_norm_rms_epsilon", -1.0, "epsilon"),
        ("llama.context_length", "long", "context_length"),
        ("tokenizer.ggml.tokens", ["a"], "tokens"),
        ("tokenizer.ggml.eos_token_id", 4000, "eos_token_id"),
        ("tokenizer.ggml.merges", ["x"], "merge"),
        ("tokenizer.ggml.merges", ["no such"], "tokenizer"),
        ("general.alignment", 0, "alignment"),
    ],
)
def test_values_that_contradict(tmp_path: Path, key: str, value: Any, message: str) -> None:
    metadata, tensors = tiny_llama()
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes({**metadata, key: value}, tensors))
    with pytest.raises(openxrt.InvalidModel, match=message):
        openxrt.generate.load(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("general.architecture", "mamba"),
        ("tokenizer.ggml.pre", "strange"),
        ("tokenizer.ggml.model", "t5"),
        ("llama.expert_count", 8),
        ("llama.rope.scaling.type", "yarn"),
    ],
)
def test_what_is_not_there(tmp_path: Path, key: str, value: Any) -> None:
    metadata, tensors = tiny_llama()
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes({**metadata, key: value}, tensors))
    with pytest.raises(openxrt.Unsupported, match=str(value) if isinstance(value, str) else key):
        openxrt.generate.load(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(openxrt.NotFound):
        openxrt.generate.load(tmp_path / "none.gguf")
    (tmp_path / "text.gguf").write_text("not a model")
    with pytest.raises(openxrt.InvalidModel, match="GGUF"):
        openxrt.generate.load(tmp_path / "text.gguf")
