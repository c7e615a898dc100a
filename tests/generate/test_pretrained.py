# SPDX-License-Identifier: Apache-2.0
"""Text from models of the package transformers: tokens against its own generate()."""

from __future__ import annotations

import contextlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import openxrt
import openxrt.generate
import pytest
from gguf_files import SPECIAL, TEMPLATE, byte_words, transformers_tokens

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

PROMPT = "the inn in the hat"
SIZES = {
    "vocab_size": len(SPECIAL) + 256,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def tokenizer() -> Any:
    words = [*SPECIAL, *byte_words()]
    made = tokenizers.Tokenizer(tokenizers.models.BPE({w: i for i, w in enumerate(words)}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(SPECIAL)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token=SPECIAL[0],
        eos_token=SPECIAL[2],
        chat_template=TEMPLATE,
    )


def random_model(kind: str = "Llama", **more: Any) -> Any:
    """With biases and scales that are no zeros and ones."""
    torch.manual_seed(5)
    config = getattr(transformers, kind + "Config")(**{**SIZES, **more})
    model = getattr(transformers, kind + "ForCausalLM")(config).eval()
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if name.endswith("bias") or tensor.dim() == 1:
                tensor.add_(torch.randn_like(tensor) * 0.2)
            else:
                tensor.mul_(4)
    return model


def rounded(model: Any, dtype: str) -> Any:
    """With weights of another dtype; the rest stays float32, as from_pretrained() has it."""
    for tensor in model.parameters():
        tensor.data = tensor.data.to(getattr(torch, dtype))
    return model


def reference(model: Any, prompt: list[int], count: int) -> list[int]:
    """In float32, as openxrt computes."""
    return transformers_tokens(model.float(), prompt, count)


def saved(model: Any, folder: Path, **options: Any) -> Path:
    model.save_pretrained(folder, **options)
    tokenizer().save_pretrained(folder)
    return folder


def endless(model: openxrt.generate.LanguageModel) -> openxrt.generate.LanguageModel:
    model.tokenizer.ends = frozenset()
    return model


KINDS = [
    ("Llama", {}),
    ("Llama", {"tie_word_embeddings": True, "head_dim": 16}),
    ("Llama", {"rope_parameters": LLAMA3}),
    ("Llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}}),
    ("Llama", {"attention_bias": True, "mlp_bias": True}),
    ("Mistral", {"sliding_window": None, "head_dim": 12}),
    ("Qwen2", {"use_sliding_window": False}),
    ("Qwen3", {"head_dim": 16}),
]


@pytest.mark.parametrize(("kind", "more"), KINDS, ids=lambda v: v if isinstance(v, str) else "")
def test_architectures(kind: str, more: dict[str, Any], tmp_path: Path) -> None:
    model = random_model(kind, **more)
    found = endless(openxrt.generate.load(saved(model, tmp_path), strict=True))
    prompt = found.tokenizer.encode(PROMPT)
    made = found.generate(PROMPT, max_tokens=24, greedy=True)
    assert made.tokens == reference(model, prompt, 24)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(dtype: str, tmp_path: Path) -> None:
    """Stored in half precision, computed in float32."""
    model = rounded(random_model(), dtype)
    found = endless(openxrt.generate.load(saved(model, tmp_path)))
    prompt = found.tokenizer.encode(PROMPT)
    made = found.generate(PROMPT, max_tokens=12, greedy=True)
    assert made.tokens == reference(model, prompt, 12)


def test_several_files(tmp_path: Path) -> None:
    model = random_model()
    saved(model, tmp_path, max_shard_size="60KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    found = endless(openxrt.generate.load(tmp_path))
    prompt = found.tokenizer.encode(PROMPT)
    made = found.generate(PROMPT, max_tokens=12, greedy=True)
    assert made.tokens == reference(model, prompt, 12)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_model_in_memory(dtype: str) -> None:
    model = rounded(random_model(tie_word_embeddings=True), dtype)
    found = openxrt.generate.load(model, tokenizer=tokenizer())
    assert found.tokenizer.ends == {0, 2}
    prompt = found.chat_prompt([{"role": "user", "content": "Hi"}])
    assert prompt == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    tokens = endless(found).tokenizer.encode(prompt)
    made = found.generate(prompt, max_tokens=12, greedy=True)
    assert made.tokens == reference(model, tokens, 12)


def test_older_configuration(tmp_path: Path) -> None:
    """rope_theta and rope_scaling beside the other keys, as transformers 4 wrote them."""
    model = random_model(rope_parameters=LLAMA3)
    config = json.loads((saved(model, tmp_path) / "config.json").read_text())
    turning = config.pop("rope_parameters")
    config["rope_theta"] = turning.pop("rope_theta")
    config["rope_scaling"] = turning
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = endless(openxrt.generate.load(tmp_path))
    prompt = found.tokenizer.encode(PROMPT)
    made = found.generate(PROMPT, max_tokens=12, greedy=True)
    assert made.tokens == reference(model, prompt, 12)


# --- what does not fit ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(random_model(num_hidden_layers=1), tmp_path_factory.mktemp("tiny"))


def copied(folder: Path, to: Path) -> Path:
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to / "model.safetensors"


def with_config(folder: Path, to: Path, **values: Any) -> Path:
    copied(folder, to)
    config = json.loads((to / "config.json").read_text())
    for key, value in values.items():
        config.pop(key, None)
        if value is not None:
            config[key] = value
    (to / "config.json").write_text(json.dumps(config))
    return to


def test_every_truncation(folder: Path, tmp_path: Path) -> None:
    file = copied(folder, tmp_path)
    data = file.read_bytes()
    rng = np.random.default_rng(0)
    for size in [*range(24), *rng.integers(24, len(data), 60)]:
        file.write_bytes(data[:size])
        with pytest.raises(openxrt.InvalidModel, match=r"model\.safetensors"):
            openxrt.generate.load(tmp_path)


def test_mutations(folder: Path, tmp_path: Path) -> None:
    """Bytes of the header changed at random: an error, or a model that runs."""
    file = copied(folder, tmp_path)
    data = file.read_bytes()
    head = 8 + struct.unpack("<Q", data[:8])[0]
    rng = np.random.default_rng(1)
    for _ in range(150):
        changed = bytearray(data)
        for at in rng.integers(0, head, rng.integers(1, 4)):
            changed[at] = rng.integers(0, 256)
        file.write_bytes(changed)
        with contextlib.suppress(openxrt.Error):
            openxrt.generate.load(tmp_path).generate([5, 6], max_tokens=2)


@pytest.mark.parametrize(
    "entry",
    [
        1,
        {"dtype": "F32", "shape": [-1, 4], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [4], "data_offsets": [4, 0]},
        {"dtype": "F32", "shape": [4], "data_offsets": [0, 10**10]},
        {"dtype": "F32", "shape": [(1 << 62) - 1, 4], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [3], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
        {"dtype": 4, "shape": [1], "data_offsets": [0, 4]},
    ],
)
def test_entries_that_contradict(folder: Path, tmp_path: Path, entry: Any) -> None:
    file = copied(folder, tmp_path)
    header = json.dumps({"lm_head.weight": entry}).encode()
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(64))
    with pytest.raises(openxrt.InvalidModel, match=r"lm_head\.weight"):
        openxrt.generate.load(tmp_path)


@pytest.mark.parametrize("header", [b"[" * 100_000, b"[]", b"\xff", b"{}"])
def test_headers_that_are_none(folder: Path, tmp_path: Path, header: bytes) -> None:
    file = copied(folder, tmp_path)
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(64))
    with pytest.raises(openxrt.InvalidModel):
        openxrt.generate.load(tmp_path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_hidden_layers": 0}, "'num_hidden_layers' is 0"),
        ({"num_hidden_layers": 4}, r"no tensor 'model\.layers\.1\.input_layernorm\.weight'"),
        ({"num_hidden_layers": "two"}, "'num_hidden_layers' is 'two'"),
        ({"num_hidden_layers": True}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**40}, "'num_hidden_layers' is 1000"),
        ({"hidden_size": None}, "no 'hidden_size'"),
        ({"intermediate_size": 81}, r"mlp\.gate_proj\.weight' has the shape \(80, 48\)"),
        ({"rms_norm_eps": -1.0}, "'rms_norm_eps'"),
        ({"rms_norm_eps": float("nan")}, "'rms_norm_eps'"),
        ({"max_position_embeddings": 1 << 40}, "'max_position_embeddings'"),
        ({"num_key_value_heads": 3}, "do not share"),
        ({"rope_parameters": "fast"}, "rope"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 2}}, "low_freq_factor"),
        ({"tie_word_embeddings": True, "vocab_size": 9}, None),  # the tensors say how many
    ],
)
def test_values_that_contradict(
    folder: Path, tmp_path: Path, values: dict[str, Any], message: str | None
) -> None:
    with_config(folder, tmp_path, **values)
    if message is None:
        openxrt.generate.load(tmp_path)
        return
    with pytest.raises(openxrt.InvalidModel, match=message):
        openxrt.generate.load(tmp_path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model_type": "mamba"}, "'mamba'; there are llama"),
        ({"hidden_act": "gelu"}, "'gelu'"),
        ({"sliding_window": 64}, "'sliding_window'"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "'yarn'"),
    ],
)
def test_what_is_not_there(
    folder: Path, tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(openxrt.Unsupported, match=message):
        openxrt.generate.load(with_config(folder, tmp_path, **values))


def test_files_beside_the_index(folder: Path, tmp_path: Path) -> None:
    file = copied(folder, tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    file.rename(tmp_path / "part.safetensors")
    for name in ("../part.safetensors", "other.safetensors", "/etc/passwd", ""):
        index.write_text(json.dumps({"weight_map": {"lm_head.weight": name}}))
        with pytest.raises(openxrt.InvalidModel, match="no file"):
            openxrt.generate.load(tmp_path)
    for text in ("{}", '{"weight_map": []}', "no JSON"):
        index.write_text(text)
        with pytest.raises(openxrt.InvalidModel, match="index"):
            openxrt.generate.load(tmp_path)


def test_arguments(folder: Path) -> None:
    with pytest.raises(openxrt.InvalidArgument, match="tokenizer="):
        openxrt.generate.load(random_model())
    with pytest.raises(openxrt.InvalidArgument, match="tokenizer"):
        openxrt.generate.load(folder, tokenizer=tokenizer())
    experts = transformers.MixtralConfig(**SIZES, num_local_experts=2)
    with pytest.raises(openxrt.Unsupported, match="mixtral"):
        openxrt.generate.load(transformers.MixtralForCausalLM(experts), tokenizer=tokenizer())
