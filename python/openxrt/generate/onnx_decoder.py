# SPDX-License-Identifier: Apache-2.0
"""Decoders from folders of ONNX files: those of ONNX Runtime GenAI (genai_config.json), of optimum
and of transformers.js; with one file or with one for the prompt and one for what follows, with a
cache that grows or without one, behind an encoder or not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .._core import Graph, InvalidModel, NotFound, Port, Program, Unsupported
from .._load import load
from .json_file import read_object

# The first of each that is there.
_WITH_CACHE = ("decoder_model_merged.onnx", "model.onnx", "decoder_with_past_model.onnx")
_PROMPT = ("decoder_model.onnx", "decoder.onnx")
_ENCODERS = ("encoder_model.onnx", "encoder.onnx")
_NO_LIMIT = 1 << 20  # positions, where no file says how many there are


def _file(folder: Path, names: Sequence[str]) -> Path | None:
    for place in (folder, folder / "onnx"):
        for name in names:
            if (place / name).is_file():
                return place / name
    return None


@dataclass
class OnnxFolder:
    """Which files a folder has, and what its descriptions say."""

    path: Path
    prompt: Path  # the program that takes the first tokens
    step: Path  # the one that takes those behind them; may be the same
    encoder: Path | None = None
    context: int = _NO_LIMIT
    ends: list[int] = field(default_factory=list)
    start: int | None = None  # the first token behind an encoder
    heads: int | None = None  # of keys and values
    head: int | None = None  # numbers of one
    names: dict[str, str] = field(default_factory=dict)  # of inputs and outputs, ours to theirs
    pasts: list[tuple[str, str]] = field(default_factory=list)  # patterns of past and present

    @staticmethod
    def of(path: Path) -> OnnxFolder:
        """NotFound where there is no model in it."""
        if (path / "genai_config.json").is_file():
            return _of_genai(path)
        with_cache, prompt = _file(path, _WITH_CACHE), _file(path, _PROMPT)
        if with_cache is not None and with_cache.name == _WITH_CACHE[2] and prompt is None:
            raise NotFound(f"{path}: {with_cache.name} is there, {_PROMPT[0]} is not")
        first = prompt if with_cache is None or with_cache.name == _WITH_CACHE[2] else with_cache
        if first is None:
            raise NotFound(
                f"{path}: no language model: neither genai_config.json nor one of "
                f"{', '.join((*_WITH_CACHE, *_PROMPT))}"
            )
        folder = OnnxFolder(path, first, with_cache or first, _file(path, _ENCODERS))
        for name in ("config.json", "generation_config.json"):
            if not (path / name).is_file():
                continue
            config = read_object(path / name)
            for key in ("max_position_embeddings", "n_positions"):
                if isinstance(config.get(key), int) and config[key] > 0:
                    folder.context = config[key]
            heads = config.get("num_attention_heads")
            if isinstance(heads, int) and heads > 0:
                folder.heads = config.get("num_key_value_heads", heads)
                folder.head = config.get("head_dim") or config.get("hidden_size", 0) // heads
            if isinstance(config.get("decoder_start_token_id"), int):
                folder.start = config["decoder_start_token_id"]
        return folder


def _of_genai(path: Path) -> OnnxFolder:
    file = path / "genai_config.json"
    model = read_object(file).get("model")
    decoder = model.get("decoder") if isinstance(model, dict) else None
    if not isinstance(decoder, dict) or not isinstance(decoder.get("filename"), str):
        raise InvalidModel(f"{file}: 'model.decoder.filename' is missing")
    if "encoder" in model:
        raise Unsupported(f"{file}: a model with an encoder; those of optimum can be read")
    program = path / decoder["filename"]
    if program.parent != path or not program.is_file():
        raise NotFound(f"{program}: no such file, or not in the folder of {file.name}")
    ends = model.get("eos_token_id", [])
    folder = OnnxFolder(
        path,
        program,
        program,
        context=int(model.get("context_length", _NO_LIMIT)),
        ends=[int(e) for e in (ends if isinstance(ends, list) else [ends])],
        heads=decoder.get("num_key_value_heads"),
        head=decoder.get("head_size"),
    )
    for part in ("inputs", "outputs"):
        for ours, theirs in decoder.get(part, {}).items():
            if isinstance(theirs, str) and "%d" not in theirs:
                folder.names[ours] = theirs
    inputs, outputs = decoder.get("inputs", {}), decoder.get("outputs", {})
    for kind in ("key", "value"):
        past, present = inputs.get(f"past_{kind}_names"), outputs.get(f"present_{kind}_names")
        if isinstance(past, str) and isinstance(present, str):
            folder.pasts.append((past, present))
    return folder


class _Ports:
    """How a program's inputs are filled."""

    def __init__(self, program: Program, folder: OnnxFolder, file: Path) -> None:
        self.program = program
        self.file = file
        outputs = {port.name for port in program.outputs}
        self.logits = folder.names.get("logits", "logits")
        if self.logits not in outputs:
            raise Unsupported(f"{file}: no output '{self.logits}'")
        self.past: dict[str, str] = {}  # past to present
        self.empty: dict[str, np.ndarray] = {}
        self.other: list[tuple[str, str, Port]] = []  # ours, theirs
        known = {theirs: ours for ours, theirs in folder.names.items()}
        for port in program.inputs:
            present = self._present_of(port.name, folder)
            if present is None:
                self.other.append((known.get(port.name, port.name), port.name, port))
                continue
            if present not in outputs:
                raise Unsupported(f"{file}: input '{port.name}' has no output '{present}'")
            self.past[port.name] = present
            self.empty[port.name] = self._empty(port, folder)

    @staticmethod
    def _present_of(name: str, folder: OnnxFolder) -> str | None:
        for past, present in folder.pasts:
            pattern = re.escape(past).replace("%d", r"(\d+)")
            if found := re.fullmatch(pattern, name):
                return present.replace("%d", found[1])
        if name.startswith("past_key_values."):
            return "present." + name.removeprefix("past_key_values.")
        return None

    def _empty(self, port: Port, folder: OnnxFolder) -> np.ndarray:
        shape = port.shape
        if shape is None or len(shape) != 4:
            raise Unsupported(f"{self.file}: input '{port.name}' is no cache of rank 4")
        heads = shape[1] if isinstance(shape[1], int) else folder.heads
        head = shape[3] if isinstance(shape[3], int) else folder.head
        sizes = [1, heads, 0, head]
        if not all(isinstance(size, int) and 0 <= size < 1 << 20 for size in sizes):
            raise Unsupported(
                f"{self.file}: neither input '{port.name}', {shape}, nor a description in the "
                "folder says how many heads there are and how large they are"
            )
        return np.zeros(sizes, port.dtype)


_USUAL_LENGTH = 64  # what kernels are chosen for, of lengths that change from step to step


def ranges_of(graph: Graph, context: int) -> dict[str, tuple[int, int, int]]:
    """One plan for all lengths up to the window, of one sequence at a time, instead of a plan per
    length. A dimension is the batch if tensors begin with it and with nothing else."""
    places: dict[str, set[int]] = {}
    for found in graph.inputs.values():
        shape = found.shape if found.kind == "tensor" else None
        for axis, size in enumerate(shape or ()):
            if isinstance(size, str):
                places.setdefault(size, set()).add(axis if len(shape or ()) > 1 else -1)
    lengths = (1, min(_USUAL_LENGTH, context), context)
    return {name: (1, 1, 1) if axes == {0} else lengths for name, axes in places.items()}


class OnnxDecoder:
    """See decoder.Decoder."""

    def __init__(self, folder: OnnxFolder, options: dict[str, Any]) -> None:
        programs: dict[Path, Program] = {}

        def program(path: Path) -> Program:
            if path not in programs:
                own = {"ranges": ranges_of(Graph.read(path), folder.context)}
                programs[path] = load(path, **(own | options))
            return programs[path]

        self.prompt = _Ports(program(folder.prompt), folder, folder.prompt)
        self.step = _Ports(program(folder.step), folder, folder.step)
        self.encoder = None if folder.encoder is None else program(folder.encoder)
        self.start_token = folder.start if self.encoder is not None else None
        if self.encoder is not None and self.start_token is None:
            raise Unsupported(
                f"{folder.path}: no config.json says which token comes behind the encoder "
                "(decoder_start_token_id)"
            )
        self.context = folder.context
        port = next(p for p in self.step.program.outputs if p.name == self.step.logits)
        size = None if port.shape is None else port.shape[-1]
        if not isinstance(size, int):
            raise Unsupported(f"{folder.step}: the number of words of '{port.name}' is not known")
        self.vocabulary = size

    def chunk(self, left: int) -> int:
        """See decoder.Decoder."""
        return left

    def start(
        self, batch: int, capacity: int, sources: Sequence[Sequence[int]] | None = None
    ) -> OnnxState:
        """See decoder.Decoder."""
        del capacity  # caches grow
        found = [_Row(self, None if sources is None else sources[i]) for i in range(batch)]
        return OnnxState(self, found)


class OnnxState:
    """See decoder.DecoderState. Sequences run one by one: rows of unequal length would need padding
    that not every model knows."""

    def __init__(self, decoder: OnnxDecoder, rows: list[_Row]) -> None:
        self._vocabulary = decoder.vocabulary
        self._rows = rows

    def feed(self, tokens: np.ndarray, begin: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """See decoder.DecoderState."""
        logits = np.zeros((len(self._rows), self._vocabulary), np.float32)
        for i, row in enumerate(self._rows):
            if counts[i] > 0:
                logits[i] = row.feed(tokens[i : i + 1, : counts[i]])
        return logits


class _Row:
    """One sequence."""

    def __init__(self, decoder: OnnxDecoder, source: Sequence[int] | None) -> None:
        self._decoder = decoder
        self._cache: dict[str, np.ndarray] | None = None  # by the name of the present
        self._tokens = np.zeros((1, 0), np.int64)
        self._encoded: dict[str, np.ndarray] = {}
        if decoder.encoder is None or source is None:
            return
        given = {"input_ids": np.array([source], np.int64)}
        given["attention_mask"] = np.ones_like(given["input_ids"])
        wanted = [port.name for port in decoder.encoder.inputs]
        if set(wanted) - set(given):
            raise Unsupported(f"the encoder wants the inputs {', '.join(wanted)}")
        hidden = decoder.encoder.run({name: given[name] for name in wanted})
        self._encoded = {
            "encoder_hidden_states": next(iter(hidden.values())),
            "encoder_attention_mask": given["attention_mask"],
        }

    def feed(self, tokens: np.ndarray) -> np.ndarray:
        decoder = self._decoder
        ports = decoder.prompt if self._cache is None else decoder.step
        before = self._tokens.shape[1]
        self._tokens = np.concatenate([self._tokens, tokens], axis=1)
        # Without a cache all tokens go in each time.
        has_cache = bool(ports.past) or len(decoder.step.past) > 0
        fresh = tokens if has_cache and self._cache is not None else self._tokens
        past = before if has_cache and self._cache is not None else 0
        inputs: dict[str, Any] = {}
        for name, present in ports.past.items():
            inputs[name] = ports.empty[name] if self._cache is None else self._cache[present]
        for ours, theirs, port in ports.other:
            inputs[theirs] = self._input(ours, port, fresh, past)
        outputs = ports.program.run(inputs)
        self._keep(outputs, ports)
        return np.asarray(outputs[ports.logits])[0, -1].astype(np.float32)

    def _keep(self, outputs: Mapping[str, Any], ports: _Ports) -> None:
        old = self._cache
        presents = [name for name in outputs if name != ports.logits]
        if not self._decoder.step.past:
            return
        self._cache = {}
        for name in presents:
            value = np.asarray(outputs[name])
            # What was made of the encoder's result does not change, and is not always given again.
            if old is not None and ".encoder." in name:
                value = old[name]
            self._cache[name] = value
        for name in old or {}:
            self._cache.setdefault(name, old[name])  # type: ignore[index]

    def _input(self, name: str, port: Port, tokens: np.ndarray, past: int) -> np.ndarray:
        count = tokens.shape[1]
        if name in ("input_ids", "decoder_input_ids"):
            found = tokens
        elif name in ("attention_mask", "decoder_attention_mask"):
            found = np.ones((1, past + count), np.int64)
        elif name == "position_ids":
            found = np.arange(past, past + count, dtype=np.int64)[None]
        elif name == "cache_position":
            found = np.arange(past, past + count, dtype=np.int64)
        elif name == "use_cache_branch":
            found = np.array([self._cache is not None])
        elif name in self._encoded:
            found = self._encoded[name]
        else:
            raise Unsupported(f"the decoder wants an input '{name}', {port.shape}: it is not known")
        if port.dtype is not None and found.dtype != np.dtype(port.dtype):
            found = found.astype(port.dtype)
        return found
