# SPDX-License-Identifier: Apache-2.0
"""The Llama family as a graph: RMS norms, rotary embeddings, grouped heads, a gated
perceptron.

Shapes: B sequences, S new positions, T positions of the cache, H numbers of an embedding, N heads
of queries, K of keys and values, D numbers of a head, V words.

    embeddings[B, S, H], positions[B, S], begin[B], last[B], past_key_i[B, K, T, D], past_value_i
    -> logits[B, V], present_key_i, present_value_i

`begin` is where the new positions begin in the cache, `last` the position, of the S, whose logits
are wanted. The present caches are aliases of the past ones.
"""

from __future__ import annotations

import mmap
import tempfile
from dataclasses import dataclass

import numpy as np

from .._core import Graph, InvalidModel, Unsupported
from .blocks import BlockMatrix
from .weights import Weights, WeightTensor

# Architectures; whether numbers of a head that turn together are neighbours in GGUF files.
_INTERLEAVED = {"llama": True, "qwen2": False, "qwen3": False}


@dataclass(frozen=True)
class LlamaConfig:
    """Sizes of a model, as the metadata says."""

    architecture: str
    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int
    context: int
    epsilon: float
    rotary_base: float
    rotary: int  # numbers of a head that turn
    rotary_scale: float
    interleaved: bool  # numbers of a head that turn together are neighbours

    @staticmethod
    def of(weights: Weights) -> LlamaConfig:
        """InvalidModel where a value is missing or absurd; Unsupported for what is not built."""
        architecture = weights.value("general.architecture", str)
        if architecture not in _INTERLEAVED:
            raise Unsupported(
                f"{weights.path}: the architecture '{architecture}'; there are "
                f"{', '.join(_INTERLEAVED)}"
            )

        def name(key: str) -> str:
            return weights.source_name(f"{architecture}.{key}")

        def number(key: str, most: int, default: int | None = None) -> int:
            found = weights.value(f"{architecture}.{key}", int, default)
            if not 1 <= found <= most:
                raise InvalidModel(
                    f"{weights.path}: '{name(key)}' is {found}; 1 to {most} are possible"
                )
            return int(found)

        def real(key: str, default: float | None = None) -> float:
            found = float(weights.value(f"{architecture}.{key}", (float, int), default))
            if not 0 < found < 1e12:
                raise InvalidModel(f"{weights.path}: '{name(key)}' is {found}")
            return found

        heads = number("attention.head_count", 1 << 12)
        hidden = number("embedding_length", 1 << 20)
        head = number("attention.key_length", 1 << 14, hidden // heads)
        embedding = weights.tensors.get("token_embd.weight")
        if embedding is None or len(embedding.shape) != 2:
            table = weights.source_name("token_embd.weight")
            raise InvalidModel(f"{weights.path}: there is no matrix '{table}'")
        kv_heads = number("attention.head_count_kv", 1 << 12, heads)
        if heads % kv_heads != 0:
            raise InvalidModel(f"{weights.path}: {heads} heads do not share {kv_heads} keys")
        if number("attention.value_length", 1 << 14, head) != head:
            raise Unsupported(f"{weights.path}: values of another size than keys")
        for key in ("expert_count", "attention.sliding_window"):
            if weights.metadata.get(f"{architecture}.{key}", 0):
                raise Unsupported(f"{weights.path}: '{name(key)}'")
        scaling = weights.metadata.get(f"{architecture}.rope.scaling.type", "none")
        if scaling not in ("none", "linear"):
            raise Unsupported(f"{weights.path}: rotary embeddings scaled by '{scaling}'")
        scale = real("rope.scaling.factor", 1.0) if scaling == "linear" else 1.0
        rotary = number("rope.dimension_count", head, head)
        if rotary % 2 != 0:
            raise InvalidModel(f"{weights.path}: {rotary} numbers of a head do not turn in pairs")
        return LlamaConfig(
            architecture,
            number("block_count", 1 << 12),
            hidden,
            number("feed_forward_length", 1 << 24),
            heads,
            kv_heads,
            head,
            embedding.shape[0],
            number("context_length", 1 << 24),
            real("attention.layer_norm_rms_epsilon"),
            real("rope.freq_base", 10000.0),
            rotary,
            scale,
            _INTERLEAVED[architecture] if weights.interleaved is None else weights.interleaved,
        )


class ConstantStore:
    """Memory for constants, mapped from a file without a name: what engines have packed once need
    not stay in memory."""

    def __init__(self, size: int) -> None:
        with tempfile.TemporaryFile(prefix="openxrt-") as file:
            file.truncate(max(size, mmap.PAGESIZE))  # no room is taken before it is written
            self._map = mmap.mmap(file.fileno(), max(size, mmap.PAGESIZE))
        self._at = 0

    def keep(self, array: np.ndarray) -> np.ndarray:
        """A copy in the store."""
        kept = np.frombuffer(self._map, array.dtype, array.size, self._at).reshape(array.shape)
        kept[...] = array
        self._at += -(-array.nbytes // 64) * 64
        return kept

    def release_pages(self) -> None:
        """What is read later comes from the file."""
        self._map.madvise(mmap.MADV_DONTNEED)

    @staticmethod
    def size_for(weights: Weights) -> int:
        """Bytes that hold all matrices."""
        size = 0
        for tensor in weights.tensors.values():
            count = tensor.raw.shape[0] * tensor.row
            # Of blocks: a byte a number, and two float32 and a zero point for 16 of them.
            size += (4 if tensor.format.read is None else 2) * count + 4096
        return size


class _Builder:
    """Adds nodes; values are the graph's ids."""

    def __init__(self, weights: Weights, config: LlamaConfig, store: ConstantStore) -> None:
        self.weights = weights
        self.config = config
        self.store = store
        self.graph = Graph(config.architecture)
        self._lists: dict[tuple[int, ...], int] = {}
        self._sums: dict[tuple[int, int], int] = {}

    def op(self, name: str, inputs: list[int | None], label: str, **attributes: object) -> int:
        return self.graph.add_node(name, inputs, [label], attributes, name=label)[0]

    def ints(self, *values: int) -> int:
        if values not in self._lists:
            array = np.array(values, np.int64)
            self._lists[values] = self.graph.add_constant(array, "int64", f"ints{len(self._lists)}")
        return self._lists[values]

    def vector(self, name: str, length: int) -> int:
        tensor = self.weights.tensor(name, (length,))
        array = tensor.format.dense(tensor.raw)[0]
        return self.graph.add_constant(array, "float32", name)

    def norm(self, x: int, weight: str, label: str, length: int | None = None) -> int:
        scale = self.vector(weight, length or self.config.hidden)
        return self.op("RMSNormalization", [x, scale], label, axis=-1, epsilon=self.config.epsilon)

    def product(self, x: int, names: list[str], rows: list[int], columns: int, label: str) -> int:
        """x times the transposes of matrices, the results side by side."""
        tensors = [self.weights.tensor(n, (r, columns)) for n, r in zip(names, rows, strict=True)]
        y = self._joined_product(x, tensors, label)
        biases = [n.removesuffix("weight") + "bias" for n in names]
        there = [n in self.weights.tensors for n in biases]
        if not any(there):
            return y
        parts = [
            self._dense(self.weights.tensor(n, (r,)))[0] if t else np.zeros(r, np.float32)
            for n, r, t in zip(biases, rows, there, strict=True)
        ]
        bias = self.graph.add_constant(np.concatenate(parts), "float32", label + "/bias")
        return self.op("Add", [y, bias], label + "/add_bias")

    @staticmethod
    def _dense(tensor: WeightTensor) -> np.ndarray:
        return tensor.format.dense(tensor.raw)

    def _joined_product(self, x: int, tensors: list[WeightTensor], label: str) -> int:
        read = [t.format.read for t in tensors]
        if all(r is None for r in read):
            dense = np.concatenate([self._dense(t) for t in tensors])
            weight = self.graph.add_constant(self.store.keep(dense), "float32", label + "/weight")
            turned = self.op("Transpose", [weight], label + "/turned", perm=[1, 0])
            return self.op("MatMul", [x, turned], label)
        matrices = [r(t.raw) for r, t in zip(read, tensors, strict=True) if r is not None]
        if len(matrices) == len(tensors) and (joined := BlockMatrix.joined(matrices)) is not None:
            return self.block_product(x, joined, label)
        if len(tensors) == 1:
            raise AssertionError("one matrix is joined with itself")
        parts = [self._joined_product(x, [t], f"{label}/{i}") for i, t in enumerate(tensors)]
        return self.op("Concat", list(parts), label, axis=-1)

    def block_product(self, x: int, w: BlockMatrix, label: str) -> int:
        """x[..., k] times the transpose of w[n, k]."""
        keep = self.store.keep
        q = self._small(w.numbers, w.bits, label + "/numbers")
        scale = self.graph.add_constant(keep(w.scales), "float32", label + "/scales")
        inputs: list[int | None] = [q, scale]
        if w.zero != 0:
            zeros = np.full(w.scales.shape, w.zero, w.numbers.dtype)
            inputs.append(self._small(zeros, w.bits, label + "/zeros"))
        dense = self.op(
            "DequantizeLinear", inputs, label + "/dequantize", axis=1, block_size=w.block
        )
        turned = self.op("Transpose", [dense], label + "/turned", perm=[1, 0])
        if w.offsets is None:
            return self.op("MatMul", [x, turned], label)
        y = self.op("MatMul", [x, turned], label + "/scaled")
        offsets = self.graph.add_constant(keep(w.offsets.T), "float32", label + "/offsets")
        shifted = self.op("MatMul", [self.block_sums(x, w.block), offsets], label + "/shifted")
        return self.op("Add", [y, shifted], label)

    def _small(self, numbers: np.ndarray, bits: int, name: str) -> int:
        """A constant of uint4, two numbers a byte, or of int8."""
        if bits == 8:
            return self.graph.add_constant(self.store.keep(numbers), "int8", name)
        flat = numbers.reshape(-1)
        if flat.size % 2 != 0:
            flat = np.append(flat, np.uint8(0))
        packed = self.store.keep(flat[0::2] | flat[1::2] << 4)
        return self.graph.add_packed_constant(packed, "uint4", list(numbers.shape), name)

    def block_sums(self, x: int, block: int) -> int:
        """Sums of the numbers of each block: what an offset of a block is multiplied with."""
        if (x, block) not in self._sums:
            label = f"{self.graph.name_of(x)}/sums{block}"
            split = self.op("Reshape", [x, self.ints(0, 0, -1, block)], label + "/blocks")
            self._sums[x, block] = self.op("ReduceSum", [split, self.ints(-1)], label, keepdims=0)
        return self._sums[x, block]

    def rotary_caches(self) -> tuple[int, int]:
        c = self.config
        pairs = np.arange(0, c.rotary, 2, dtype=np.float64) / c.rotary
        speeds = c.rotary_base**-pairs / c.rotary_scale
        if "rope_freqs.weight" in self.weights.tensors:
            tensor = self.weights.tensor("rope_freqs.weight", (c.rotary // 2,))
            speeds = speeds / self._dense(tensor)[0]
        angles = np.arange(c.context, dtype=np.float64)[:, None] * speeds
        return (
            self.graph.add_constant(np.cos(angles).astype(np.float32), "float32", "cos"),
            self.graph.add_constant(np.sin(angles).astype(np.float32), "float32", "sin"),
        )

    def rotated(self, x: int, label: str, positions: int, caches: tuple[int, int]) -> int:
        attributes = {"interleaved": int(self.config.interleaved)}
        if self.config.rotary != self.config.head:
            attributes["rotary_embedding_dim"] = self.config.rotary
        return self.op("RotaryEmbedding", [x, *caches, positions], label, **attributes)

    def build(self) -> Graph:
        c = self.config
        g = self.graph
        x = g.add_input("embeddings", "float32", ["batch", "sequence", c.hidden])
        positions = g.add_input("positions", "int64", ["batch", "sequence"])
        begin = g.add_input("begin", "int64", ["batch"])
        last = g.add_input("last", "int64", ["batch"])
        cache = ["batch", c.kv_heads, "capacity", c.head]
        pasts = [
            (
                g.add_input(f"past_key_{i}", "float32", cache),
                g.add_input(f"past_value_{i}", "float32", cache),
            )
            for i in range(c.layers)
        ]
        caches = self.rotary_caches()
        length = self.op("Shape", [positions], "length", start=1, end=2)
        valid = self.op("Add", [begin, length], "valid")
        presents = []
        for i, (past_key, past_value) in enumerate(pasts):
            layer = f"blk.{i}."
            h = self.norm(x, layer + "attn_norm.weight", layer + "attn_norm")
            names = [f"{layer}attn_{part}.weight" for part in "qkv"]
            rows = [c.heads * c.head, c.kv_heads * c.head, c.kv_heads * c.head]
            qkv = self.product(h, names, rows, c.hidden, layer + "qkv")
            heads = self.op(
                "Reshape",
                [qkv, self.ints(0, 0, c.heads + 2 * c.kv_heads, c.head)],
                layer + "heads",
            )
            heads = self.op("Transpose", [heads], layer + "by_head", perm=[0, 2, 1, 3])
            turning, v = g.add_node(
                "Split",
                [heads, self.ints(c.heads + c.kv_heads, c.kv_heads)],
                [layer + "qk", layer + "v"],
                {"axis": 1},
                name=layer + "split_v",
            )
            has_norms = layer + "attn_q_norm.weight" in self.weights.tensors
            if not has_norms:
                turning = self.rotated(turning, layer + "turned", positions, caches)
            q, k = g.add_node(
                "Split",
                [turning, self.ints(c.heads, c.kv_heads)],
                [layer + "q", layer + "k"],
                {"axis": 1},
                name=layer + "split_qk",
            )
            if has_norms:
                q = self.norm(q, layer + "attn_q_norm.weight", layer + "q_norm", c.head)
                k = self.norm(k, layer + "attn_k_norm.weight", layer + "k_norm", c.head)
                q = self.rotated(q, layer + "q_turned", positions, caches)
                k = self.rotated(k, layer + "k_turned", positions, caches)
            key = self.op("TensorScatter", [past_key, k, begin], f"present_key_{i}", axis=2)
            value = self.op("TensorScatter", [past_value, v, begin], f"present_value_{i}", axis=2)
            presents += [key, value]
            seen = self.op(
                "Attention",
                [q, key, value, None, None, None, valid],
                layer + "attention",
                is_causal=1,
                scale=c.head**-0.5,
            )
            seen = self.op("Transpose", [seen], layer + "by_position", perm=[0, 2, 1, 3])
            seen = self.op("Reshape", [seen, self.ints(0, 0, c.heads * c.head)], layer + "joined")
            out = self.product(
                seen, [layer + "attn_output.weight"], [c.hidden], c.heads * c.head, layer + "out"
            )
            x = self.op("Add", [x, out], layer + "attended")
            h = self.norm(x, layer + "ffn_norm.weight", layer + "ffn_norm")
            names = [layer + "ffn_gate.weight", layer + "ffn_up.weight"]
            both = self.product(h, names, [c.inner, c.inner], c.hidden, layer + "gate_up")
            gate, up = g.add_node(
                "Split",
                [both, self.ints(c.inner, c.inner)],
                [layer + "gate", layer + "up"],
                {"axis": -1},
                name=layer + "split_gate",
            )
            gate = self.op("Swish", [gate], layer + "swish")
            gated = self.op("Mul", [gate, up], layer + "gated")
            down = self.product(
                gated, [layer + "ffn_down.weight"], [c.hidden], c.inner, layer + "down"
            )
            x = self.op("Add", [x, down], layer + "output")
        where = self.op("Unsqueeze", [last, self.ints(-1)], "last/where")
        x = self.op("GatherND", [x, where], "last/hidden", batch_dims=1)
        x = self.op("Unsqueeze", [x, self.ints(1)], "last/row")
        x = self.norm(x, "output_norm.weight", "output_norm")
        head = "output.weight" if "output.weight" in self.weights.tensors else "token_embd.weight"
        logits = self.product(x, [head], [c.vocabulary], c.hidden, "words")
        g.add_output(self.op("Squeeze", [logits, self.ints(1)], "logits"))
        for value in presents:
            g.add_output(value)
        g.finish()
        return g


def build_graph(weights: Weights, config: LlamaConfig, store: ConstantStore) -> Graph:
    """The graph of a model; the head of this module has its inputs and outputs. Its matrices lie in
    the store."""
    return _Builder(weights, config, store).build()
