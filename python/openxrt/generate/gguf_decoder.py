# SPDX-License-Identifier: Apache-2.0
"""A decoder from a GGUF file: one program for prompts and for single tokens, whose caches are
written in place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._core import Program, load
from .gguf import GgufFile
from .llama import LlamaConfig, build_graph

_CHUNK = 512  # positions of a prompt that go through the model at once


class GgufDecoder:
    """See decoder.Decoder."""

    def __init__(self, file: GgufFile, options: dict[str, object]) -> None:
        config = LlamaConfig.of(file)
        self._config = config
        self._embedding = file.tensor("token_embd.weight", (config.vocabulary, config.hidden))
        self.vocabulary = config.vocabulary
        self.context = config.context
        self.start_token = None
        aliases = {}
        for i in range(config.layers):
            for kind in ("key", "value"):
                aliases[f"past_{kind}_{i}"] = f"present_{kind}_{i}"
        self._names = list(aliases)
        self._program = load(build_graph(file, config), {**options, "aliases": aliases})
        file.release_pages()

    @property
    def program(self) -> Program:
        """The program that computes."""
        return self._program

    def chunk(self, left: int) -> int:
        return min(left, _CHUNK)

    def embed(self, tokens: np.ndarray) -> np.ndarray:
        """Rows of the table, which stays in the file."""
        rows = self._embedding.raw[tokens.reshape(-1)]
        dense = self._embedding.format.dense(rows)
        return dense.reshape(*tokens.shape, self._config.hidden)

    def start(
        self, batch: int, capacity: int, sources: Sequence[Sequence[int]] | None = None
    ) -> GgufState:
        del sources  # there is no encoder
        c = self._config
        shape = (batch, c.kv_heads, capacity, c.head)
        return GgufState(self, {name: np.zeros(shape, np.float32) for name in self._names})


class GgufState:
    """See decoder.DecoderState."""

    def __init__(self, decoder: GgufDecoder, caches: dict[str, np.ndarray]) -> None:
        self._decoder = decoder
        self._inputs = dict(caches)

    def feed(self, tokens: np.ndarray, begin: np.ndarray, counts: np.ndarray) -> np.ndarray:
        inputs = self._inputs
        inputs["embeddings"] = self._decoder.embed(tokens)
        inputs["positions"] = begin[:, None] + np.arange(tokens.shape[1], dtype=np.int64)
        inputs["begin"] = begin
        inputs["last"] = np.maximum(counts - 1, 0)
        return self._decoder.program.run(inputs)["logits"]
