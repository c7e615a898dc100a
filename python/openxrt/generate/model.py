# SPDX-License-Identifier: Apache-2.0
"""The loop of generation."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from .._core import InvalidArgument, NotFound
from .decoder import Decoder
from .sampling import Sampler, Sampling
from .tokenizer import Messages, TextStream, TextTokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from .weights import Weights

DEFAULT_CONTEXT = 1 << 17  # positions, of models that declare more
Reason = Literal["end", "stop", "length", "cancelled"]


@dataclass(frozen=True)
class Generation:
    """What was generated for one prompt.

    `reason`: "end", the model ended the text; "stop", a stop string came (it is not part of
    `text`); "length", max_tokens or the window of the model is full; "cancelled".
    `first_token_s` is from the call to the first token, `tokens_per_s` the rate of those after it
    (0 where there are none); of a batch, that of this sequence.
    """

    text: str
    tokens: list[int]
    prompt_tokens: int
    reason: Reason
    first_token_s: float
    tokens_per_s: float


class _Sequence:
    """One prompt, and what came of it so far."""

    def __init__(
        self, prompt: list[int], tokenizer: TextTokenizer, sampler: Sampler, stops: Sequence[str]
    ) -> None:
        self.source: list[int] | None = None  # what an encoder reads
        self.prompt = prompt
        self.tokens: list[int] = []
        self.reason: Reason | None = None
        self.times: list[float] = []
        self._ends = tokenizer.ends
        self._sampler = sampler
        self._stream = TextStream(tokenizer)
        self._stops = stops
        self._shown = ""
        self._held = ""  # may be the beginning of a stop string

    def step(self, logits: np.ndarray, limit: int) -> str:
        """Takes the next token; returns what can be shown of the text."""
        token = self._sampler.choose(logits, self.prompt + self.tokens)
        self.times.append(time.perf_counter())
        if token in self._ends:
            return self.finish("end")
        self.tokens.append(token)
        shown = self._show(self._stream.add(token), is_last=False)
        if self.reason is None and len(self.tokens) >= limit:
            return shown + self.finish("length")
        return shown

    def finish(self, reason: Reason) -> str:
        """Ends the sequence; returns the rest of the text."""
        shown = self._show(self._stream.end(), is_last=True)
        self.reason = self.reason or reason
        return shown

    def _show(self, text: str, *, is_last: bool) -> str:
        if self.reason is not None:
            return ""
        self._held += text
        places = [at for s in self._stops if (at := self._held.find(s)) >= 0]
        if places:
            self.reason = "stop"
            keep = min(places)
        else:
            keep = len(self._held)
            for stop in self._stops if not is_last else ():
                for n in range(min(len(stop) - 1, len(self._held)), 0, -1):
                    if self._held.endswith(stop[:n]):
                        keep = min(keep, len(self._held) - n)
                        break
        shown, self._held = self._held[:keep], self._held[keep:]
        self._shown += shown
        return shown

    def result(self, begin: float) -> Generation:
        times = self.times
        first = times[0] - begin if times else 0.0
        rate = (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 else 0.0
        return Generation(
            self._shown,
            self.tokens,
            len(self.source or self.prompt),
            self.reason or "cancelled",
            first,
            rate,
        )


class LanguageModel:
    """A model that writes text; made by :func:`openxrt.generate.load`.

    Several threads may generate with one model at once.
    """

    def __init__(self, decoder: Decoder, tokenizer: TextTokenizer) -> None:
        self.decoder = decoder
        self.tokenizer = tokenizer

    def chat_prompt(self, messages: Messages) -> str:
        """The prompt for a conversation, [{"role": "user", "content": "Hello"}], by the model's
        template."""
        return self.tokenizer.chat(messages)

    @overload
    def generate(self, prompt: str | Sequence[int], **options: object) -> Generation: ...
    @overload
    def generate(self, prompt: Sequence[str], **options: object) -> list[Generation]: ...

    def generate(self, prompt, *, max_tokens=128, stop=(), cancel=None, **sampling):
        """Continues a prompt, or several at once.

        >>> model.generate("The capital of France is", max_tokens=8, greedy=True).text

        Args:
            prompt: a text, its tokens, or a list of texts, which run as one batch.
            max_tokens: the most tokens to add.
            stop: texts that end the generation.
            cancel: a threading.Event; once it is set, no further token is generated.
            sampling: the fields of Sampling: greedy, temperature, top_k, top_p,
                repetition_penalty, seed.

        Raises:
            InvalidArgument: an option does not fit, or a prompt is longer than the model's window.
            EngineError: the model's logits are no numbers.
        """
        many = not isinstance(prompt, str) and len(prompt) > 0 and isinstance(prompt[0], str)
        prompts = list(prompt) if many else [prompt]
        begin = time.perf_counter()
        sequences = self._sequences(prompts, stop, sampling)
        for _ in self._run(sequences, max_tokens, cancel):
            pass
        results = [s.result(begin) for s in sequences]
        return results if many else results[0]

    def stream(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int = 128,
        stop: str | Sequence[str] = (),
        cancel: threading.Event | None = None,
        **sampling: object,
    ) -> TextPieces:
        """The text piece by piece, as generate() would return it; whoever stops iterating ends the
        generation. `.result()` of what is returned says the rest."""
        begin = time.perf_counter()
        sequences = self._sequences([prompt], stop, sampling)
        return TextPieces(sequences[0], self._run(sequences, max_tokens, cancel), begin)

    def _sequences(
        self, prompts: list, stop: str | Sequence[str], sampling: dict[str, object]
    ) -> list[_Sequence]:
        try:
            how = Sampling(**sampling)  # type: ignore[arg-type]
        except TypeError as error:
            raise InvalidArgument(f"generate: {error}") from None
        stops = [stop] if isinstance(stop, str) else list(stop)
        if not all(isinstance(s, str) and s for s in stops):
            raise InvalidArgument("stop: a text, or a list of them, none empty")
        sequences = []
        for i, prompt in enumerate(prompts):
            if isinstance(prompt, str):
                tokens = self.tokenizer.encode(prompt)
            else:
                tokens = [int(t) for t in prompt]
            if not tokens:
                raise InvalidArgument("a prompt has no tokens")
            if min(tokens) < 0 or max(tokens) >= self.decoder.vocabulary:
                raise InvalidArgument(
                    f"a prompt has the token {max(tokens)}; the model has "
                    f"{self.decoder.vocabulary} of them"
                )
            if len(tokens) >= self.decoder.context:
                raise InvalidArgument(
                    f"a prompt of {len(tokens)} tokens: the model has {self.decoder.context} "
                    "positions, and one is for an answer"
                )
            sequence = _Sequence(tokens, self.tokenizer, Sampler(how, i), stops)
            if self.decoder.start_token is not None:
                sequence.source, sequence.prompt = tokens, [self.decoder.start_token]
            sequences.append(sequence)
        return sequences

    def _run(
        self, sequences: list[_Sequence], max_tokens: int, cancel: threading.Event | None
    ) -> Iterator[str]:
        """What can be shown of the first sequence, token by token."""
        if max_tokens < 1:
            raise InvalidArgument(f"max_tokens is {max_tokens}; wanted is 1 or more")
        decoder = self.decoder
        lengths = np.array([len(s.prompt) for s in sequences], np.int64)
        longest = int(lengths.max())
        limits = [min(max_tokens, decoder.context - int(n)) for n in lengths]
        sizes = []
        while (at := sum(sizes)) < longest:
            sizes.append(min(decoder.chunk(longest - at), decoder.context - at))
        capacity = max(int(n) + limit for n, limit in zip(lengths, limits, strict=True))
        sources = [s.source for s in sequences if s.source is not None]
        state = decoder.start(len(sequences), max(capacity, sum(sizes)), sources or None)
        prompts = np.zeros((len(sequences), sum(sizes)), np.int64)
        for row, s in zip(prompts, sequences, strict=True):
            row[: len(s.prompt)] = s.prompt
        logits = np.zeros((len(sequences), decoder.vocabulary), np.float32)
        at = 0
        for size in sizes:
            if cancel is not None and cancel.is_set():
                break
            counts = np.clip(lengths - at, 0, size)
            # What is behind the end of a short prompt goes where its answer will be written.
            begin = np.full(len(sequences), at, np.int64)
            found = state.feed(prompts[:, at : at + size], begin, counts)
            ends_here = (lengths > at) & (lengths <= at + size)
            logits[ends_here] = found[ends_here]
            at += size
        positions = lengths.copy()
        while True:
            if cancel is not None and cancel.is_set():
                for s in sequences:
                    s.finish("cancelled")
                return
            pieces = [
                s.step(row, limit) if s.reason is None else ""
                for s, row, limit in zip(sequences, logits, limits, strict=True)
            ]
            yield pieces[0]
            if all(s.reason is not None for s in sequences):
                return
            tokens = np.array([[s.tokens[-1] if s.tokens else 0] for s in sequences], np.int64)
            running = np.array([s.reason is None for s in sequences], np.int64)
            logits = state.feed(tokens, np.minimum(positions, decoder.context - 1), running)
            positions += running


class TextPieces:
    """An iterator of texts."""

    def __init__(self, sequence: _Sequence, steps: Iterator[str], begin: float) -> None:
        self._sequence = sequence
        self._steps = steps
        self._begin = begin

    def __iter__(self) -> TextPieces:
        return self

    def __next__(self) -> str:
        while True:
            piece = next(self._steps)
            if piece:
                return piece

    def result(self) -> Generation:
        """All that came so far; its `reason` is "cancelled" where the iteration was not ended."""
        return self._sequence.result(self._begin)


def load(
    path: str | os.PathLike[str] | PreTrainedModel,
    engine: str | Sequence[str] = "native",
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    activations: Literal["float", "int8"] = "float",
    max_context: int = DEFAULT_CONTEXT,
    **options: Any,
) -> LanguageModel:
    """Loads a language model.

    >>> model = openxrt.generate.load("model.gguf", engine="native", num_threads=2)

    Args:
        path: a GGUF file of the Llama family; a folder that ONNX Runtime GenAI's builder, optimum
            or transformers.js wrote, or save_pretrained() of a model of the Llama family, with its
            tokenizer.json; or such a model of the package transformers itself.
        engine: engines in order of priority.
        tokenizer: of a model of the package transformers, for example of
            AutoTokenizer.from_pretrained().
        activations: what weights that stay in blocks are multiplied by, on engines that have a
            choice. "float" is exact; "int8" rounds the other factor block by block, as llama.cpp
            does, and is faster.
        max_context: positions of a prompt and its answer together, where the model declares more.
            Tables of a GGUF or safetensors model grow with it: 8 bytes a position for each pair of
            numbers that turns, 64 MiB for 131,072 positions of heads of 128.
        **options: those of :func:`openxrt.load`; "aliases" is the model's own.

    Raises:
        NotFound: there is no such file, or the package `tokenizers` is missing.
        InvalidModel: the file is damaged, or its values contradict each other.
        Unsupported: an architecture or a tokenizer that is not known, or an engine refuses a node.
    """
    from . import gguf, llama_decoder, onnx_decoder, pretrained
    from .tokenizer import of_folder, of_gguf, of_transformers

    if activations not in ("int8", "float"):
        raise InvalidArgument(f"activations is {activations!r}; wanted is 'float' or 'int8'")
    engines = engine.split(",") if isinstance(engine, str) else list(engine)
    own = dict(options.get("engine_options") or {})
    for name in set(engines) & {"native", "onnxruntime"}:
        own[name] = {"activations": activations, **own.get(name, {})}
    if own:
        options["engine_options"] = own
    if max_context < 1:
        raise InvalidArgument(f"max_context is {max_context}; at least one position is needed")
    if "aliases" in options:
        raise InvalidArgument("aliases: those of a language model are its own")
    options["engine"] = engines
    weights: Weights
    if pretrained.is_model(path):
        if tokenizer is None:
            raise InvalidArgument("a model of the package transformers wants a tokenizer=")
        weights = pretrained.PretrainedWeights.of_model(path)
        words = of_transformers(tokenizer, path.generation_config)
        return LanguageModel(llama_decoder.LlamaDecoder(weights, max_context, options), words)
    if tokenizer is not None:
        raise InvalidArgument("tokenizer: a file or a folder has its own")
    path = Path(path)
    if not path.exists():
        raise NotFound(f"{path}: no such file")
    if path.is_dir():
        if pretrained.is_folder(path):
            weights = pretrained.PretrainedWeights.of_folder(path)
            decoder = llama_decoder.LlamaDecoder(weights, max_context, options)
            return LanguageModel(decoder, of_folder(path))
        folder = onnx_decoder.OnnxFolder.of(path)
        words = of_folder(path)
        words.ends |= frozenset(folder.ends)
        folder.context = min(folder.context, max_context)
        if folder.encoder is not None and folder.start is None:
            folder.start = words.tokenizer.token_to_id("<pad>")  # as T5 has it
        return LanguageModel(onnx_decoder.OnnxDecoder(folder, options), words)
    weights = gguf.GgufFile(path)
    words = of_gguf(weights)
    return LanguageModel(llama_decoder.LlamaDecoder(weights, max_context, options), words)
