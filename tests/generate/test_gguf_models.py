# SPDX-License-Identifier: Apache-2.0
"""Text from GGUF files: tokens against transformers on the dequantised weights."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import openxrt
import openxrt.generate
import pytest
from gguf_files import (
    TYPES,
    random_raw,
    tiny_llama,
    transformers_model,
    transformers_tokens,
    write_gguf,
)
from process_growth import peak_kib

pytest.importorskip("tokenizers")

PROMPTS = ["the inn", "A", "1234 in the hat, and then some words more"]


def reference(path: Path, prompt: list[int], count: int) -> list[int]:
    pytest.importorskip("torch")
    pytest.importorskip("gguf")
    return transformers_tokens(transformers_model(path), prompt, count)


def endless(model: openxrt.generate.LanguageModel) -> openxrt.generate.LanguageModel:
    """No token ends its texts."""
    model.tokenizer.ends = frozenset()
    return model


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", *tiny_llama("Q4_1"))


@pytest.fixture(scope="module")
def model(path: Path) -> openxrt.generate.LanguageModel:
    return endless(openxrt.generate.load(path, num_threads=2, activations="float"))


@pytest.mark.parametrize("kind", TYPES)
def test_types(kind: str, tmp_path: Path) -> None:
    size = 256 if kind.endswith("K") else 64
    parts = tiny_llama(kind, hidden=size, inner=2 * size, tied=kind != "Q6_K", seed=len(kind))
    path = write_gguf(tmp_path / "m.gguf", *parts)
    model = endless(openxrt.generate.load(path, strict=True, activations="float"))
    found = model.generate(PROMPTS[0], max_tokens=12, greedy=True)
    wanted = reference(path, model.tokenizer.encode(PROMPTS[0]), 12)
    assert found.tokens == wanted


@pytest.mark.parametrize("kind", [k for k in TYPES if k not in ("F32", "F16")])
def test_blocks(kind: str) -> None:
    """Every type of block as the package `gguf` reads it, bit by bit."""
    quants = pytest.importorskip("gguf.quants")
    from gguf import GGMLQuantizationType
    from openxrt.generate.blocks import FORMATS

    number, numbers, _, _ = TYPES[kind]
    raw = random_raw(np.random.default_rng(1), kind, 5, 3 * numbers)
    wanted = quants.dequantize(raw, GGMLQuantizationType(number)).reshape(5, -1)
    np.testing.assert_array_equal(FORMATS[number].dense(raw), wanted)


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_architectures(architecture: str, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", *tiny_llama("Q4_0", architecture=architecture, seed=3))
    model = endless(openxrt.generate.load(path, activations="float"))
    found = model.generate(PROMPTS[2], max_tokens=12, greedy=True)
    assert found.tokens == reference(path, model.tokenizer.encode(PROMPTS[2]), 12)


def test_batch_is_as_one_by_one(path: Path, model: openxrt.generate.LanguageModel) -> None:
    together = model.generate(PROMPTS, max_tokens=20, greedy=True)
    for prompt, found in zip(PROMPTS, together, strict=True):
        assert found.tokens == reference(path, model.tokenizer.encode(prompt), 20)
        assert found.reason == "length"


def test_long_prompt_in_pieces(path: Path, model: openxrt.generate.LanguageModel) -> None:
    """Pieces of a prompt see what came before them."""
    from openxrt.generate import llama_decoder

    prompt = model.tokenizer.encode("the hen in the inn " * 8)
    whole = model.generate(prompt, max_tokens=8, greedy=True).tokens
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llama_decoder, "_CHUNK", 7)
        pieces = model.generate([PROMPTS[1], "the hen in the inn " * 8], max_tokens=8, greedy=True)
    assert pieces[1].tokens == whole == reference(path, prompt, 8)
    assert pieces[0].tokens == reference(path, model.tokenizer.encode(PROMPTS[1]), 8)


def test_caches_are_written_in_place(model: openxrt.generate.LanguageModel) -> None:
    """A step writes the rows of its positions, and nothing else."""
    decoder: Any = model.decoder
    state = decoder.start(1, 64)
    before = {n: a.ctypes.data for n, a in state._inputs.items() if n.startswith("past")}
    tokens = np.array([[5, 6, 7]])
    state.feed(tokens, np.array([0]), np.array([3]))
    key = state._inputs["past_key_0"]
    assert key[0, :, :3].any()
    assert not key[0, :, 3:].any()
    kept = key[0, :, :3].copy()
    state.feed(tokens[:, :1], np.array([3]), np.array([1]))
    np.testing.assert_array_equal(key[0, :, :3], kept)
    assert {n: a.ctypes.data for n, a in state._inputs.items() if n in before} == before


def test_eight_conversations_at_once(model: openxrt.generate.LanguageModel) -> None:
    prompts = [f"{i} in the hat" for i in range(8)]
    alone = [model.generate(p, max_tokens=12, greedy=True).tokens for p in prompts]
    with ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(model.generate, p, max_tokens=12, greedy=True) for p in prompts]
        assert [run.result().tokens for run in runs] == alone


def test_stream_gives_the_text(model: openxrt.generate.LanguageModel) -> None:
    whole = model.generate("the", max_tokens=30, seed=1)
    stream = model.stream("the", max_tokens=30, seed=1)
    assert "".join(stream) == whole.text
    assert stream.result().tokens == whole.tokens
    assert stream.result().reason == "length"


def test_stop_strings(model: openxrt.generate.LanguageModel) -> None:
    whole = model.generate("the", max_tokens=40, greedy=True).text
    stop = whole[7:10]
    stream = model.stream("the", max_tokens=40, greedy=True, stop=[stop, "never there"])
    text = "".join(stream)
    assert text == whole[: whole.index(stop)]
    assert stream.result().reason == "stop"


def test_cancelled(model: openxrt.generate.LanguageModel) -> None:
    event = threading.Event()
    stream = model.stream("the", max_tokens=200, greedy=True, cancel=event)
    next(stream)
    event.set()
    assert len("".join(stream)) < 20
    assert stream.result().reason == "cancelled"
    assert model.generate("the", max_tokens=9, cancel=event).tokens == []


def test_end_of_text(path: Path) -> None:
    model = openxrt.generate.load(path)
    first = endless(openxrt.generate.load(path)).generate("the", max_tokens=5, greedy=True).tokens
    model.tokenizer.ends = frozenset({first[3]})
    found = model.generate("the", max_tokens=5, greedy=True)
    assert found.reason == "end"
    assert found.tokens == first[: first.index(first[3])]


def test_chat(model: openxrt.generate.LanguageModel) -> None:
    prompt = model.chat_prompt([{"role": "user", "content": "Hi"}])
    assert prompt == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    tokens = model.tokenizer.encode(prompt)
    assert tokens.count(1) == 2
    assert tokens.count(2) == 1
    model.tokenizer.template, kept = "{{ raise_exception('no') }}", model.tokenizer.template
    with pytest.raises(openxrt.InvalidArgument, match="chat template: no"):
        model.chat_prompt([])
    model.tokenizer.template = "{{ ''.__class__.__mro__ }}"
    with pytest.raises(openxrt.InvalidArgument, match="chat template"):
        model.chat_prompt([])
    model.tokenizer.template = kept


def test_window(model: openxrt.generate.LanguageModel) -> None:
    with pytest.raises(openxrt.InvalidArgument, match="256 positions"):
        model.generate([5] * 256)
    full = model.generate([5] * 250, max_tokens=100, greedy=True)
    assert full.reason == "length"
    assert len(full.tokens) == 6


def test_a_bound_of_the_window(tmp_path: Path) -> None:
    """A file may declare sixteen million positions; tables are made for those that are wanted."""
    metadata, tensors = tiny_llama()
    path = write_gguf(tmp_path / "m.gguf", {**metadata, "llama.context_length": 1 << 24}, tensors)
    before = peak_kib()
    assert openxrt.generate.load(path).decoder.context == 131_072
    assert peak_kib() - before < 200 << 10
    model = openxrt.generate.load(path, max_context=100)
    with pytest.raises(openxrt.InvalidArgument, match="100 positions"):
        model.generate([5] * 100)
    with pytest.raises(openxrt.InvalidArgument, match="max_context"):
        openxrt.generate.load(path, max_context=0)


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ("", {}, "no tokens"),
        ([999], {}, "token 999"),
        ([-1], {}, "token"),
        ("a", {"max_tokens": 0}, "max_tokens"),
        ("a", {"temperature": -1}, "temperature"),
        ("a", {"top_p": 0}, "top_p"),
        ("a", {"stop": [""]}, "stop"),
        ("a", {"warmth": 1}, "warmth"),
    ],
)
def test_wrong_options(
    model: openxrt.generate.LanguageModel, prompt: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(openxrt.InvalidArgument, match=message):
        model.generate(prompt, **options)


def test_logits_that_are_no_numbers(tmp_path: Path) -> None:
    metadata, tensors = tiny_llama("Q8_0")
    _, shape, raw = tensors["output_norm.weight"]
    broken = raw.view("<f4").copy()
    broken[3] = np.nan
    tensors["output_norm.weight"] = ("F32", shape, broken.view(np.uint8))
    model = openxrt.generate.load(write_gguf(tmp_path / "nan.gguf", metadata, tensors))
    with pytest.raises(openxrt.EngineError, match="logits are nan"):
        model.generate("the", max_tokens=3)
