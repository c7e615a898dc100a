# SPDX-License-Identifier: Apache-2.0
"""Attention over a cache that the graph writes, RotaryEmbedding and RMSNormalization on the native
engine's own kernels, against NumPy; and caches that a program writes in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import openxrt
import pytest


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, valid: list[int], causal: bool) -> Any:
    """As the standard says it, in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    y = np.zeros((*q.shape[:3], v.shape[3]))
    for b in range(len(q)):
        for s in range(q.shape[2]):
            n = valid[b] - q.shape[2] + s + 1 if causal else valid[b]
            if n <= 0:
                continue
            scores = np.einsum("hd,htd->ht", q[b, :, s], k[b, :, :n]) / np.sqrt(q.shape[3])
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            y[b, :, s] = np.einsum("ht,htd->hd", weights, v[b, :, :n])
    return y


def attention_program(causal: bool, head: int, value_head: int, **options: Any) -> Any:
    g = openxrt.Graph()
    q = g.add_input("q", "float32", ["b", "n", "s", head])
    k = g.add_input("k", "float32", ["b", "h", "t", head])
    v = g.add_input("v", "float32", ["b", "h", "t", value_head])
    valid = g.add_input("valid", "int64", ["b"])
    [y] = g.add_node(
        "Attention", [q, k, v, None, None, None, valid], ["y"], {"is_causal": int(causal)}
    )
    g.add_output(y)
    g.finish()
    return openxrt.load(g, engine="native", **options)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("queries", [1, 2, 5, 33])
@pytest.mark.parametrize(("heads", "kv_heads"), [(9, 3), (4, 1), (2, 2), (7, 7)])
def test_attention(causal: bool, queries: int, heads: int, kv_heads: int) -> None:
    rng = np.random.default_rng(queries)
    program = attention_program(causal, 24, 20, num_threads=2)
    for positions in (40, 77):
        q = rng.normal(size=(3, heads, queries, 24)).astype(np.float32)
        k = rng.normal(size=(3, kv_heads, positions, 24)).astype(np.float32)
        v = rng.normal(size=(3, kv_heads, positions, 20)).astype(np.float32)
        valid = [queries, positions, max(positions // 2, 1)]
        found = program(q, k, v, np.array(valid))
        np.testing.assert_allclose(found, attention(q, k, v, valid, causal), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("head", [64, 128, 7])
def test_attention_of_one_query(head: int) -> None:
    rng = np.random.default_rng(head)
    program = attention_program(True, head, head)
    q = rng.normal(size=(1, 6, 1, head)).astype(np.float32)
    k, v = (rng.normal(size=(1, 2, 300, head)).astype(np.float32) for _ in range(2))
    for valid in (0, 1, 2, 3, 4, 5, 299, 300):
        found = program(q, k, v, np.array([valid]))
        np.testing.assert_allclose(found, attention(q, k, v, [valid], True), rtol=1e-5, atol=1e-6)


def test_attention_refuses_lengths_beyond_the_cache() -> None:
    program = attention_program(True, 8, 8)
    q, k = np.zeros((1, 2, 1, 8), np.float32), np.zeros((1, 1, 4, 8), np.float32)
    for valid in (5, -1, 1 << 62):
        with pytest.raises(openxrt.InvalidArgument, match="nonpad_kv_seqlen"):
            program(q, k, k, np.array([valid]))
    with pytest.raises(openxrt.InvalidArgument):
        program(np.zeros((1, 3, 1, 8), np.float32), np.zeros((1, 2, 4, 8), np.float32), k, [1])


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("turned", [0, 8])
def test_rotary_embedding(interleaved: int, turned: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 5, 12)).astype(np.float32)
    size = turned or 12
    angles = rng.normal(size=(50, size // 2)).astype(np.float32)
    ids = rng.integers(0, 50, (2, 5))
    g = openxrt.Graph()
    attributes = {"interleaved": interleaved}
    if turned:
        attributes["rotary_embedding_dim"] = turned
    values = [
        g.add_input("x", "float32", ["b", "n", "s", 12]),
        g.add_constant(np.cos(angles), "float32", "cos"),
        g.add_constant(np.sin(angles), "float32", "sin"),
        g.add_input("ids", "int64", ["b", "s"]),
    ]
    g.add_output(g.add_node("RotaryEmbedding", values, ["y"], attributes)[0])
    g.finish()
    program = openxrt.load(g, engine="native")
    wanted = x.copy()
    first = np.s_[..., 0:size:2] if interleaved else np.s_[..., : size // 2]
    second = np.s_[..., 1:size:2] if interleaved else np.s_[..., size // 2 : size]
    c, s = (f(angles)[ids][:, None] for f in (np.cos, np.sin))
    wanted[first] = x[first] * c - x[second] * s
    wanted[second] = x[first] * s + x[second] * c
    np.testing.assert_allclose(program(x, ids), wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(openxrt.InvalidArgument, match="position"):
        program(x, ids + 50)


def test_rms_normalization() -> None:
    g = openxrt.Graph()
    x = g.add_input("x", "float32", ["a", "b", 100])
    scale = np.linspace(0.5, 2, 100, dtype=np.float32)
    weight = g.add_constant(scale, "float32", "scale")
    g.add_output(g.add_node("RMSNormalization", [x, weight], ["y"], {"epsilon": 1e-3})[0])
    g.finish()
    data = np.random.default_rng(0).normal(size=(3, 4, 100)).astype(np.float32)
    wanted = data / np.sqrt((data.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-3) * scale
    np.testing.assert_allclose(openxrt.load(g, engine="native")(data), wanted, rtol=1e-5)


def cache_graph(engine: str) -> openxrt.Program:
    g = openxrt.Graph()
    past = g.add_input("past", "float32", ["b", 2, "t", 4])
    rows = g.add_input("rows", "float32", ["b", 2, "s", 4])
    begin = g.add_input("begin", "int64", ["b"])
    [present] = g.add_node("TensorScatter", [past, rows, begin], ["present"], {"axis": 2})
    [total] = g.add_node("ReduceSum", [present], ["total"], {"keepdims": 0})
    g.add_output(present)
    g.add_output(total)
    g.finish()
    return openxrt.load(g, engine=engine, aliases={"past": "present"})


def test_caches_of_any_size_are_written_in_place() -> None:
    """An alias of open dimensions, which are known to be equal by their names."""
    program = cache_graph("native")
    for batch, positions, count in ((1, 8, 3), (2, 8, 1), (1, 16, 3), (3, 9, 4)):
        past = np.zeros((batch, 2, positions, 4), np.float32)
        rows = np.ones((batch, 2, count, 4), np.float32)
        begin = np.arange(batch)
        results = program.run({"past": past, "rows": rows, "begin": begin})
        assert np.shares_memory(results["present"], past)
        wanted = np.zeros_like(past)
        for b in range(batch):
            wanted[b, :, b : b + count] = 1
        np.testing.assert_array_equal(past, wanted)
        assert results["total"] == wanted.sum()


def test_aliases_of_other_sizes_are_refused() -> None:
    g = openxrt.Graph()
    x = g.add_input("x", "float32", ["a"])
    y = g.add_input("y", "float32", ["b"])
    g.add_output(g.add_node("Concat", [x, y], ["z"], {"axis": 0})[0])
    g.finish()
    with pytest.raises(openxrt.InvalidArgument, match="must be equal"):
        program = openxrt.load(g, engine="native", aliases={"x": "z"})
        program(np.zeros(2, np.float32), np.zeros(3, np.float32))
