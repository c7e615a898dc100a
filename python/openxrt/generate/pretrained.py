# SPDX-License-Identifier: Apache-2.0
"""Models of the package `transformers`: a folder as save_pretrained() writes it (config.json,
model.safetensors, tokenizer.json), or a model in memory.

A file is data from elsewhere: lengths and offsets are compared with the size of the file before
anything is made of them, and what does not fit is InvalidModel.
"""

from __future__ import annotations

import json
import math
import mmap
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core import InvalidModel, Unsupported
from .blocks import FORMATS, BlockFormat
from .json_file import read_object
from .weights import Weights, WeightTensor

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

ONE_FILE = "model.safetensors"
INDEX = "model.safetensors.index.json"

# Kinds of models to the architecture of a GGUF file that computes the same.
_ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}

# Keys of config.json by those of GGUF files.
_KEYS = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "context_length": "max_position_embeddings",
    "rope.freq_base": "rope_theta",
    "rope.scaling.factor": "factor",
}

# Tensors of the model, and those of a layer, to the names in GGUF files.
_TENSORS = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
_LAYER_TENSORS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_LAYER = re.compile(r"model\.layers\.(\d{1,6})\.(.+)\.(weight|bias)")
_TURNING = "rotary_emb.inv_freq"  # older files have what the configuration says

_BY_DTYPE = {f.name: f for f in FORMATS.values() if f.read is None}
_MAX_HEADER = 100 << 20  # bytes; the format's own bound


class PretrainedWeights(Weights):
    """See Weights; raises Unsupported for a model that is not of the Llama family."""

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        super().__init__(path)
        self.interleaved = False
        self._maps: list[mmap.mmap] = []
        self._read_config(config)

    @staticmethod
    def of_folder(folder: Path) -> PretrainedWeights:
        """Raises InvalidModel naming the file that is damaged."""
        weights = PretrainedWeights(folder, read_object(folder / "config.json"))
        for file in _files(folder):
            data = weights.map_file(file)
            for name, dtype, shape, begin, end in _entries(file, data):
                raw = np.frombuffer(data, np.uint8, end - begin, begin)
                weights.add(name, dtype, shape, raw)
        weights.check_words()
        return weights

    @staticmethod
    def of_model(model: PreTrainedModel) -> PretrainedWeights:
        """The weights stay the model's own where it lies in the processor's memory."""
        weights = PretrainedWeights(Path(type(model).__name__), model.config.to_dict())
        for name, tensor in model.state_dict().items():
            weights.add(name, *_plain(name, tensor))
        weights.check_words()
        return weights

    def source_name(self, name: str) -> str:
        """See Weights."""
        return _KEYS.get(name.split(".", 1)[-1]) or _source_tensor(name)

    def release_pages(self) -> None:
        """See Weights."""
        for data in self._maps:
            data.madvise(mmap.MADV_DONTNEED)

    def map_file(self, file: Path) -> mmap.mmap:
        """A file of tensors, mapped."""
        with file.open("rb") as opened:
            if opened.seek(0, 2) == 0:
                raise InvalidModel(f"{file}: the file is empty")
            data = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        self._maps.append(data)
        return data

    def add(self, name: str, dtype: str, shape: tuple[int, ...], raw: np.ndarray) -> None:
        """One tensor of the model; `dtype` as safetensors names it, `raw` its bytes."""
        if name.endswith(_TURNING):
            return
        known = _gguf_name(name)
        if known is None:
            raise Unsupported(f"{self.path}: a model with the tensor '{name}'")
        if dtype not in _BY_DTYPE:
            raise Unsupported(
                f"{self.path}: tensor '{name}' of {dtype}; there are {', '.join(_BY_DTYPE)}"
            )
        if known in self.tensors:
            raise InvalidModel(f"{self.path}: tensor '{name}' is there twice")
        self._add(known, name, _BY_DTYPE[dtype], shape, raw)

    def check_words(self) -> None:
        """Where the embeddings are the words, too, the words have no matrix of their own."""
        if self._tied:
            self.tensors.pop("output.weight", None)
        elif "output.weight" not in self.tensors:
            raise InvalidModel(f"{self.path}: there is no tensor 'lm_head.weight'")

    def _add(
        self, known: str, name: str, kind: BlockFormat, shape: tuple[int, ...], raw: np.ndarray
    ) -> None:
        if not shape or min(shape) < 1:
            raise InvalidModel(f"{self.path}: tensor '{name}' has the shape {list(shape)}")
        rows = math.prod(shape[:-1])
        self.tensors[known] = WeightTensor(known, kind, shape, raw.reshape(rows, -1))

    def _read_config(self, config: Mapping[str, Any]) -> None:
        kind = config.get("model_type")
        if kind not in _ARCHITECTURES:
            raise Unsupported(
                f"{self.path}: a model of the type {kind!r}; there are {', '.join(_ARCHITECTURES)}"
            )
        activation = config.get("hidden_act", "silu")
        if activation not in ("silu", "swish"):
            raise Unsupported(f"{self.path}: the activation {activation!r}; there is 'silu'")
        architecture = _ARCHITECTURES[kind]
        values: dict[str, Any] = {k: v for k, v in config.items() if v is not None}
        turning = values.get("rope_parameters", values.get("rope_scaling", {}))
        if not isinstance(turning, dict):
            raise InvalidModel(f"{self.path}: 'rope_scaling' is no object")
        values |= {k: v for k, v in turning.items() if k in ("rope_theta", "factor")}
        if values.get("use_sliding_window") is False:
            values.pop("sliding_window", None)
        self.metadata["general.architecture"] = architecture
        for key, theirs in _KEYS.items():
            if theirs in values:
                self.metadata[f"{architecture}.{key}"] = self._checked(theirs, values[theirs])
        self._tied = bool(values.get("tie_word_embeddings", False))
        self._read_turning(architecture, turning)

    def _checked(self, key: str, value: Any) -> Any:
        if isinstance(value, int) and abs(value) >= 1 << 62:
            raise InvalidModel(f"{self.path}: '{key}' is {str(value)[:40]}")
        return value

    def _read_turning(self, architecture: str, turning: Mapping[str, Any]) -> None:
        """How rotary embeddings are stretched."""
        kind = turning.get("rope_type", turning.get("type", "default"))
        if kind == "linear":
            self.metadata[f"{architecture}.rope.scaling.type"] = "linear"
        elif kind == "llama3":
            factors = self._llama3_factors(architecture, turning)
            raw = factors.view(np.uint8)
            self._add("rope_freqs.weight", "rope_parameters", FORMATS[0], factors.shape, raw)
        elif kind != "default":
            raise Unsupported(f"{self.path}: rotary embeddings of the type {kind!r}")
        share = turning.get("partial_rotary_factor", 1.0)
        if share != 1.0:
            raise Unsupported(f"{self.path}: {share!r} of a head's numbers turn")

    def _llama3_factors(self, architecture: str, turning: Mapping[str, Any]) -> np.ndarray:
        """What Llama 3 divides the speeds by: 1 for short waves, `factor` for long ones, and
        between them what joins the two."""

        def real(key: str) -> float:
            found = turning.get(key)
            if isinstance(found, bool) or not isinstance(found, int | float):
                raise InvalidModel(f"{self.path}: '{key}' of the rotary embeddings is {found!r}")
            if not 0 < self._checked(key, found) < 1e12:
                raise InvalidModel(f"{self.path}: '{key}' of the rotary embeddings is {found!r}")
            return float(found)

        factor, low, high = real("factor"), real("low_freq_factor"), real("high_freq_factor")
        context = real("original_max_position_embeddings")
        if high <= low:
            raise InvalidModel(f"{self.path}: 'high_freq_factor' is not above 'low_freq_factor'")
        heads = self.value(f"{architecture}.attention.head_count", int)
        hidden = self.value(f"{architecture}.embedding_length", int)
        head = self.value(f"{architecture}.attention.key_length", int, hidden // max(heads, 1))
        if not 2 <= head <= 1 << 14:
            raise InvalidModel(f"{self.path}: heads of {head} numbers")
        base = float(self.value(f"{architecture}.rope.freq_base", (int, float), 10000.0))
        if not 0 < base < 1e12:
            raise InvalidModel(f"{self.path}: 'rope_theta' is {base}")
        waves = 2 * math.pi * base ** (np.arange(0, head, 2, dtype=np.float64) / head)
        smooth = np.clip((context / waves - low) / (high - low), 0.0, 1.0)
        # The speed is (1 - smooth) / factor + smooth times that without stretching.
        return (1 / ((1 - smooth) / factor + smooth)).astype("<f4")


def is_folder(path: Path) -> bool:
    """Whether a folder has weights as this module reads them, and no ONNX file of the model."""
    if any(path.glob("*.onnx")) or any((path / "onnx").glob("*.onnx")):
        return False
    return (path / "config.json").is_file() and any(
        (path / name).is_file() for name in (ONE_FILE, INDEX)
    )


def is_model(model: object) -> bool:
    """Whether something is a model of the package."""
    return hasattr(model, "state_dict") and hasattr(getattr(model, "config", None), "to_dict")


def _files(folder: Path) -> list[Path]:
    if (folder / ONE_FILE).is_file():
        return [folder / ONE_FILE]
    index = folder / INDEX
    places = read_object(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise InvalidModel(f"{index}: there is no 'weight_map'")
    found = []
    for name in sorted({str(place) for place in places.values()}):
        if Path(name).name != name or not (folder / name).is_file():
            raise InvalidModel(f"{index}: there is no file '{name[:200]}' beside it")
        found.append(folder / name)
    return found


def _entries(file: Path, data: mmap.mmap) -> Iterator[tuple[str, str, tuple[int, ...], int, int]]:
    """Name, dtype, shape, and where the bytes begin and end, of each tensor."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(len(data) - 8, _MAX_HEADER):
        raise InvalidModel(
            f"{file}: a header of {length} bytes in a file of {len(data)}: the file is damaged or "
            "no safetensors file"
        )
    try:
        header = json.loads(data[8 : 8 + length])
    except (ValueError, RecursionError) as error:
        raise InvalidModel(f"{file}: the header: {str(error)[:200]}") from None
    if not isinstance(header, dict):
        raise InvalidModel(f"{file}: the header is no object")
    begin = 8 + length
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        where = f"{file}: tensor '{name[:200]}'"
        if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
            raise InvalidModel(f"{where} has no dtype")
        shape, offsets = entry.get("shape"), entry.get("data_offsets")
        if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
            raise InvalidModel(f"{where}: its shape or its offsets are no numbers")
        first, end = offsets
        if not first <= end <= len(data) - begin:
            raise InvalidModel(
                f"{where} lies at the bytes {first} to {end} of {len(data) - begin}: the file is "
                "damaged or was not copied to its end"
            )
        kind = _BY_DTYPE.get(entry["dtype"])
        if kind is not None and math.prod(shape) * kind.bytes != end - first:
            raise InvalidModel(f"{where}: {shape} of {kind.name} are no {end - first} bytes")
        yield name, entry["dtype"], tuple(shape), begin + first, begin + end


def _are_sizes(values: Any) -> bool:
    return (
        isinstance(values, list)
        and len(values) <= 8
        and all(type(n) is int and 0 <= n < 1 << 62 for n in values)
    )


def _plain(name: str, tensor: torch.Tensor) -> tuple[str, tuple[int, ...], np.ndarray]:
    """Dtype, shape and bytes of a tensor of PyTorch."""
    import torch

    dtypes = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
    if tensor.dtype not in dtypes:
        raise Unsupported(f"tensor '{name}' of {tensor.dtype}; there are {', '.join(_BY_DTYPE)}")
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return dtypes[tensor.dtype], tuple(tensor.shape), flat.numpy()


def _gguf_name(name: str) -> str | None:
    stem, _, ending = name.rpartition(".")
    if stem in _TENSORS and ending in ("weight", "bias"):
        return f"{_TENSORS[stem]}.{ending}"
    layer = _LAYER.fullmatch(name)
    if layer is None or layer[2] not in _LAYER_TENSORS:
        return None
    return f"blk.{int(layer[1])}.{_LAYER_TENSORS[layer[2]]}.{layer[3]}"


def _source_tensor(known: str) -> str:
    """The name that a tensor would have in the source."""
    stem, _, ending = known.rpartition(".")
    names = {ours: theirs for theirs, ours in _TENSORS.items()}
    if stem in names:
        return f"{names[stem]}.{ending}"
    layer = re.fullmatch(r"blk\.(\d+)\.(.+)", stem)
    inner = {ours: theirs for theirs, ours in _LAYER_TENSORS.items()}
    if layer is None or layer[2] not in inner:
        return known
    return f"model.layers.{layer[1]}.{inner[layer[2]]}.{ending}"
