# SPDX-License-Identifier: Apache-2.0
"""A decoder of the Llama family: one program for prompts and for single tokens, whose caches are
written in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .._core import FALLBACK_ENGINE, Program, load
from .llama import ConstantStore, LlamaConfig, build_graph
from .weights import Weights

_BATCH = 64  # sequences at once; a larger batch is compiled for
_LEAST_CHUNK = 16
_CHUNK = 512  # positions of a prompt that go through the model at once


class LlamaDecoder:
    """See decoder.Decoder."""

    def __init__(self, weights: Weights, max_context: int, options: dict[str, object]) -> None:
        config = LlamaConfig.of(weights)
        config = replace(config, context=min(config.context, max_context))
        self._config = config
        self._embedding = weights.tensor("token_embd.weight", (config.vocabulary, config.hidden))
        self.vocabulary = config.vocabulary
        self.context = config.context
        self.start_token = None
        aliases = {}
        for i in range(config.layers):
            for kind in ("key", "value"):
                aliases[f"past_{kind}_{i}"] = f"present_{kind}_{i}"
        self._names = list(aliases)
        # Other engines may compile for each size: then there are few of them.
        self._takes_any_size = options["engine"] == [FALLBACK_ENGINE]
        store = ConstantStore(ConstantStore.size_for(weights))
        self._program = load(
            build_graph(weights, config, store),
            {
                # One plan for all sizes, made now: engines pack the weights once.
                "ranges": {
                    "batch": (1, 1, _BATCH),
                    "sequence": (1, 1, _CHUNK),
                    "capacity": (1, min(256, config.context), config.context),
                },
                **options,
                "aliases": aliases,
            },
        )
        weights.release_pages()
        store.release_pages()

    @property
    def program(self) -> Program:
        """The program that computes."""
        return self._program

    def chunk(self, left: int) -> int:
        """See decoder.Decoder."""
        if self._takes_any_size:
            return min(left, _CHUNK)
        return min(max(1 << (left - 1).bit_length(), _LEAST_CHUNK), _CHUNK)

    def embed(self, tokens: np.ndarray) -> np.ndarray:
        """Rows of the table, which stays in the weights."""
        rows = self._embedding.raw[tokens.reshape(-1)]
        dense = self._embedding.format.dense(rows)
        return dense.reshape(*tokens.shape, self._config.hidden)

    def start(
        self, batch: int, capacity: int, sources: Sequence[Sequence[int]] | None = None
    ) -> LlamaState:
        """See decoder.Decoder."""
        del sources  # there is no encoder
        step = 64 if self._takes_any_size else 256
        capacity = min(-(-capacity // step) * step, self.context)
        c = self._config
        shape = (batch, c.kv_heads, capacity, c.head)
        return LlamaState(self, {name: np.zeros(shape, np.float32) for name in self._names})


class LlamaState:
    """See decoder.DecoderState."""

    def __init__(self, decoder: LlamaDecoder, caches: dict[str, np.ndarray]) -> None:
        self._decoder = decoder
        self._inputs = dict(caches)

    def feed(self, tokens: np.ndarray, begin: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """See decoder.DecoderState."""
        inputs = self._inputs
        inputs["embeddings"] = self._decoder.embed(tokens)
        inputs["positions"] = begin[:, None] + np.arange(tokens.shape[1], dtype=np.int64)
        inputs["begin"] = begin
        inputs["last"] = np.maximum(counts - 1, 0)
        return self._decoder.program.run(inputs)["logits"]
