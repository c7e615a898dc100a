# SPDX-License-Identifier: Apache-2.0
"""Arguments and results in containers of other packages: transformers' key-value caches."""

from __future__ import annotations

from typing import Any

import openxrt
import openxrt.torch as xt
import pytest
import torch


@pytest.fixture(autouse=True)
def transformers() -> Any:
    """transformers imports torchvision, whose wheel has its operators for CUDA only; its Python
    part wants no more than that they are declared."""
    if not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        transformers.library = library  # type: ignore[attr-defined]  they live as long as this
    return pytest.importorskip("transformers")


class Box:
    """A container that PyTorch knows nothing of."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


class GivesBox(torch.nn.Module):
    """Hides its result."""

    def forward(self, x: torch.Tensor) -> Box:
        return Box(x + 1)


def test_unknown_container_is_named() -> None:
    module = xt.XRTModule(GivesBox().eval(), engine="native")
    with pytest.raises(openxrt.Unsupported, match=r"GivesBox cannot be traced.*class.*Box"):
        module(torch.ones(2))
    fallback = xt.XRTModule(GivesBox().eval(), engine="native", fallback=True)
    assert torch.equal(fallback(torch.ones(2)).tensor, torch.full((2,), 2.0))


def causal(transformers: Any, kind: str) -> Any:
    torch.manual_seed(0)
    if kind == "gpt2":
        config = transformers.GPT2Config(
            n_embd=32, n_layer=1, n_head=4, vocab_size=99, bos_token_id=1, eos_token_id=98
        )
        return transformers.GPT2LMHeadModel(config).eval()
    config = transformers.LlamaConfig(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        vocab_size=99,
        eos_token_id=98,
    )
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize(("kind", "engine"), [("gpt2", "native"), ("llama", "xla")])
def test_token_by_token_with_a_cache(transformers: Any, kind: str, engine: str) -> None:
    plain = causal(transformers, kind)
    module = xt.XRTModule(plain, engine=engine)
    tokens = torch.randint(0, 90, (2, 7))
    with torch.no_grad():
        want, got = plain(tokens), module(tokens)
        for step in range(5):
            assert type(got.past_key_values) is type(want.past_key_values)
            assert got.past_key_values.get_seq_length() == 7 + step
            torch.testing.assert_close(got.logits, want.logits, rtol=1e-4, atol=1e-5)
            next_token = want.logits[:, -1:].argmax(-1)
            want = plain(next_token, past_key_values=want.past_key_values)
            got = module(next_token, past_key_values=got.past_key_values)
    # The whole prompt, the first token after it, and one for every length that follows.
    assert len(module._programs) == 3


GREEDY = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 99, "eos_token_id": 98}


def generator(transformers: Any, kind: str) -> Any:
    """A small model of random weights that generates."""
    torch.manual_seed(0)
    if kind in ("gpt2", "llama"):
        return causal(transformers, kind)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64}
    if kind == "mistral":  # a window that is full before the last token
        config = transformers.MistralConfig(**SMALL, **heads, sliding_window=8)
        return transformers.MistralForCausalLM(config).eval()
    if kind == "gpt_neo":  # whose mask ends with its positions
        config = transformers.GPTNeoConfig(
            hidden_size=32,
            num_layers=2,
            num_heads=4,
            vocab_size=99,
            max_position_embeddings=32,
            attention_types=[[["global", "local"], 1]],
            eos_token_id=98,
        )
        return transformers.GPTNeoForCausalLM(config).eval()
    if kind == "mamba":
        return transformers.MambaForCausalLM(transformers.MambaConfig(**SMALL)).eval()
    config = transformers.T5Config(
        d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, vocab_size=99, eos_token_id=98
    )
    config.decoder_start_token_id = 0
    return transformers.T5ForConditionalGeneration(config).eval()


@pytest.mark.parametrize(
    ("kind", "programs"),
    [("llama", 2), ("gpt2", 2), ("gpt_neo", 2), ("mistral", 4), ("mamba", 2), ("t5", 3)],
)
def test_generate_through_the_engines(transformers: Any, kind: str, programs: int) -> None:
    plain = generator(transformers, kind)
    module = xt.XRTModule(plain, engine="native")
    tokens = torch.randint(1, 90, (2, 5))
    assert torch.equal(module.generate(tokens, **GREEDY), plain.generate(tokens, **GREEDY))
    # The prompt and a token: a further call, and a longer one, compile nothing.
    assert len(list(module.programs())) == programs
    longer = {**GREEDY, "max_new_tokens": 12}
    assert torch.equal(module.generate(tokens, **longer), plain.generate(tokens, **longer))
    assert len(list(module.programs())) == programs
    # Nor does a prompt of another length, but where PyTorch has a graph for each length.
    if kind not in ("mistral", "mamba"):
        other = torch.randint(1, 90, (2, 7))
        assert torch.equal(module.generate(other, **GREEDY), plain.generate(other, **GREEDY))
        assert len(list(module.programs())) == programs


def test_speech_through_the_engines(transformers: Any) -> None:
    """An encoder of features and a decoder of tokens (Whisper)."""
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        vocab_size=99,
        num_mel_bins=8,
        max_source_positions=20,
        max_target_positions=32,
        decoder_start_token_id=1,
        eos_token_id=98,
        bos_token_id=98,
        pad_token_id=98,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    plain = transformers.WhisperForConditionalGeneration(config).eval()
    plain.generation_config.no_timestamps_token_id = 3
    module = xt.XRTModule(plain, engine="native")
    options = {**GREEDY, "decoder_input_ids": torch.tensor([[1, 2, 3]])}
    programs = []
    for _ in range(2):
        features = torch.randn(1, 8, 40)
        want = plain.generate(features, **options)
        assert torch.equal(module.generate(features, **options), want)
        programs.append(len(list(module.programs())))
    assert programs[0] == programs[1] > 1  # a second recording compiles nothing


def test_generate_with_beams_and_a_cache_that_grows(transformers: Any) -> None:
    plain = generator(transformers, "llama")
    module = xt.XRTModule(plain, engine="native")
    tokens = torch.randint(1, 90, (2, 5))
    for options in ({"num_beams": 3}, {"cache_implementation": "dynamic"}, {"use_cache": False}):
        want = plain.generate(tokens, **GREEDY, **options)
        assert torch.equal(module.generate(tokens, **GREEDY, **options), want)
    assert list(module.programs())


def test_the_callers_cache_is_brought_to_its_new_state(transformers: Any) -> None:
    plain = generator(transformers, "llama")
    module = xt.XRTModule(plain, engine="native")
    mine, other = transformers.DynamicCache(), transformers.DynamicCache()
    for tokens in (torch.randint(1, 90, (2, 5)), torch.randint(1, 90, (2, 1))):
        with torch.no_grad():
            got = module(tokens, past_key_values=mine)
            plain(tokens, past_key_values=other)
        assert got.past_key_values is mine
    assert mine.get_seq_length() == 6
    torch.testing.assert_close(mine.layers[0].keys, other.layers[0].keys, rtol=1e-4, atol=1e-5)


def test_encoder_and_decoder_caches(transformers: Any) -> None:
    torch.manual_seed(0)
    config = transformers.T5Config(
        d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, vocab_size=99
    )
    plain = transformers.T5Model(config).eval()
    arguments = {
        "input_ids": torch.randint(0, 90, (2, 6)),
        "decoder_input_ids": torch.randint(0, 90, (2, 3)),
    }
    with torch.no_grad():
        want, got = plain(**arguments), xt.XRTModule(plain, engine="native")(**arguments)
    torch.testing.assert_close(got[0], want[0], rtol=1e-4, atol=1e-5)
    caches, expected = got.past_key_values, want.past_key_values
    assert type(caches) is type(expected)
    for name in ("self_attention_cache", "cross_attention_cache"):
        for layer, other in zip(
            getattr(caches, name).layers, getattr(expected, name).layers, strict=True
        ):
            torch.testing.assert_close(layer.keys, other.keys, rtol=1e-4, atol=1e-5)


class Experts(torch.nn.Module):
    """Rows sorted by expert; the last two belong to none."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 4, 5))

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return torch.ops.transformers.grouped_mm_fallback(x, self.weight, ends)


@pytest.mark.parametrize("engine", ["native", "openvino", "xla"])
def test_products_by_groups(engine: str) -> None:
    pytest.importorskip("transformers.integrations.moe")
    plain = Experts().eval()
    module = xt.XRTModule(plain, engine=engine)
    for ends in ([2, 5, 7], [0, 7, 7], [0, 0, 0], [9, 9, 9]):
        check_groups(plain, module, ends)


def check_groups(plain: torch.nn.Module, module: torch.nn.Module, ends: list[int]) -> None:
    x = torch.randn(9, 4)
    with torch.no_grad():
        got = module(x, torch.tensor(ends, dtype=torch.int32))
    parts = torch.split(x[: ends[-1]], torch.tensor([0, *ends]).diff().tolist())
    want = torch.zeros(9, 5)
    want[: ends[-1]] = torch.cat(
        [p @ w for p, w in zip(parts, module.weight.detach(), strict=True)]
    )
    torch.testing.assert_close(got, want)


def test_gradients_of_products_by_groups() -> None:
    pytest.importorskip("transformers.integrations.moe")
    module = Experts()
    ends = torch.tensor([2, 2, 7], dtype=torch.int32)
    x = torch.randn(9, 4, requires_grad=True)
    module(x, ends).square().sum().backward()
    want = x.grad, module.weight.grad
    x.grad, module.weight.grad = None, None
    xt.XRTModule(module, engine="native")(x, ends).square().sum().backward()
    for grad, expected in zip((x.grad, module.weight.grad), want, strict=True):
        torch.testing.assert_close(grad, expected, rtol=1e-4, atol=1e-5)
