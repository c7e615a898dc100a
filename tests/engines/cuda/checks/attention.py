# SPDX-License-Identifier: Apache-2.0
"""Attention as a whole and written out, beside ONNX Runtime and the reference implementation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import pytest
from cuda_models import (
    DTYPES,
    FLOAT,
    HALF,
    HAS_CUDNN,
    STANDIN,
    attentions,
    load,
    model,
    node,
    remarks,
    values,
)
from onnx import TensorProto, helper

HEADS, WIDTH = 3, 16


def attention_nodes(form: str, kind: int, size: int) -> tuple[list[onnx.NodeProto], dict[str, Any]]:
    """y of q, k and v [2, HEADS, size, WIDTH] in one of the ways in which frameworks write it."""
    constants: dict[str, Any] = {"quarter": np.array(0.25, np.float32)}
    half = kind == HALF
    wide = {n: f"{n}_wide" if half else n for n in "qkv"}
    nodes = [node("Cast", n, wide[n], to=FLOAT) for n in "qkv"] if half else []
    nodes += [
        node("Mul", f"{wide['q']} quarter", "scaled"),
        node("Transpose", wide["k"], "turned", perm=[0, 1, 3, 2]),
        node("MatMul", "scaled turned", "scores"),
    ]
    last = "scores"
    if form.startswith("eager"):  # as PyTorch writes it out on CUDA: by batched products
        constants |= {
            "flat": np.array([2 * HEADS, size, WIDTH], np.int64),
            "flat_turned": np.array([2 * HEADS, WIDTH, size], np.int64),
            "flat_weights": np.array([2 * HEADS, size, size], np.int64),
            "apart_scores": np.array([2, HEADS, size, size], np.int64),
            "apart_result": np.array([2, HEADS, size, WIDTH], np.int64),
            "low": np.array(-np.inf, np.float32),
            "zero": np.array(0, np.float32),
            "last": np.array([-1], np.int64),
        }
        nodes[-1:] = [
            node("Reshape", "scaled flat", "scaled_flat"),
            node("Reshape", "turned flat_turned", "turned_flat"),
            node("MatMul", "scaled_flat turned_flat", "scores_flat"),
            node("Reshape", "scores_flat apart_scores", "scores"),
        ]
        if form == "eager masked":
            nodes.append(node("Add", "scores mask", "masked"))
            last = "masked"
        nodes += [
            node("Softmax", last, "weights", axis=-1),
            node("ReduceMax", f"{last} last", "most", keepdims=1),
            node("Equal", "most low", "hidden"),
            node("Where", "hidden zero weights", "guarded"),
            node("Reshape", "guarded flat_weights", "weights_flat"),
            node("Reshape", f"{wide['v']} flat", "v_flat"),
            node("MatMul", "weights_flat v_flat", "product_flat"),
            node("Reshape", "product_flat apart_result", "product" if half else "y"),
        ]
        return nodes + ([node("Cast", "product", "y", to=HALF)] if half else []), constants
    if form in ("masked", "both"):
        nodes.append(node("Add", "scores mask", "masked"))
        last = "masked"
    if form in ("causal", "both"):
        constants["lower"] = np.tril(np.ones((size, size), bool))
        constants["low"] = np.array(-np.inf, np.float32)
        nodes.append(node("Where", f"lower {last} low", "visible"))
        last = "visible"
    nodes += [node("Softmax", last, "weights", axis=-1)]
    product = "product" if half else "y"
    nodes += [node("MatMul", f"weights {wide['v']}", product)]
    if half:
        nodes += [node("Cast", product, "y", to=HALF)]
    return nodes, constants


@pytest.mark.parametrize("form", ["plain", "masked", "causal", "both", "eager", "eager masked"])
def test_attention_in_half_precision(form: str, tmp_path: Path) -> None:
    """Within 2⁻⁸ of the largest value; as a whole where cuDNN is there."""
    size = 9
    results = {}
    for kind in (HALF, FLOAT):
        nodes, constants = attention_nodes(form, kind, size)
        inputs = dict.fromkeys("qkv", (kind, (2, HEADS, size, WIDTH)))
        if form in ("masked", "both", "eager masked"):
            inputs["mask"] = (FLOAT, (2, 1, size if form.startswith("eager") else 1, size))
        made = model(nodes, inputs, ["y"], constants)
        if kind == HALF:
            feed = values(made)
            if form == "eager masked":
                feed["mask"][1, 0, 2] = -np.inf
            program = load(made, tmp_path)
            results[kind] = np.asarray(program.run(feed)["y"], np.float32)
            results["again"] = np.asarray(program.run(feed)["y"], np.float32)
            assert attentions(program) == (1 if HAS_CUDNN else 0)
        else:
            session = onnxruntime.InferenceSession(
                made.SerializeToString(), providers=["CPUExecutionProvider"]
            )
            wide = {n: v.astype(np.float32) for n, v in feed.items()}
            results[kind] = session.run(None, wide)[0]
    bound = 2**-8 * np.abs(results[FLOAT]).max()
    assert np.abs(results[HALF] - results[FLOAT]).max() <= bound
    np.testing.assert_array_equal(results["again"], results[HALF])


def test_attention_rounds_weights_and_result_alone(tmp_path: Path) -> None:
    """Beside float64, by one unit in the last place of each."""
    size = 33
    nodes, constants = attention_nodes("plain", HALF, size)
    made = model(nodes, dict.fromkeys("qkv", (HALF, (2, HEADS, size, WIDTH))), ["y"], constants)
    feed = values(made)
    got = np.asarray(load(made, tmp_path).run(feed)["y"], np.float64)
    q, k, v = (feed[n].astype(np.float64) for n in "qkv")
    weights = np.exp(0.25 * q @ k.swapaxes(2, 3))
    weights /= weights.sum(-1, keepdims=True)
    want = weights @ v
    assert (np.abs(got - want) <= 1.05 * 2**-11 * (weights @ np.abs(v) + np.abs(want))).all()


@pytest.mark.parametrize("kind", [FLOAT, HALF])
@pytest.mark.parametrize("case", ["plain", "causal", "bool mask", "past", "flat", "cap"])
def test_the_op_attention(case: str, kind: int, tmp_path: Path) -> None:
    """ONNX's own, beside its reference implementation; a row that sees nothing gives zeros."""
    dtype = DTYPES[kind]
    rng = np.random.default_rng(11)
    attributes: dict[str, Any] = {"causal": {"is_causal": 1}, "cap": {"softcap": 2.0}}.get(case, {})
    heads, kv_heads, size = 4, 2, 6
    feed = {
        "q": rng.standard_normal((2, heads, size, WIDTH)).astype(dtype),
        "k": rng.standard_normal((2, kv_heads, size, WIDTH)).astype(dtype),
        "v": rng.standard_normal((2, kv_heads, size, WIDTH)).astype(dtype),
    }
    names, outputs = "q k v", ["y"]
    if case == "flat":
        feed = {n: x.transpose(0, 2, 1, 3).reshape(2, size, -1).copy() for n, x in feed.items()}
        attributes |= {"q_num_heads": heads, "kv_num_heads": kv_heads}
    if case == "bool mask":
        feed["m"] = rng.random((size, size)) < 0.6
        feed["m"][1] = False
        names += " m"
    if case == "past":
        for n in ("pk", "pv"):
            feed[n] = rng.standard_normal((2, kv_heads, 3, WIDTH)).astype(dtype)
        names, outputs = "q k v _ pk pv", ["y", "nk", "nv"]
        attributes |= {"is_causal": 1}
    types = {n: TensorProto.BOOL if x.dtype == bool else kind for n, x in feed.items()}
    graph = helper.make_graph(
        [node("Attention", names, " ".join(outputs), **attributes)],
        "g",
        [helper.make_tensor_value_info(n, types[n], x.shape) for n, x in feed.items()],
        [helper.make_tensor_value_info(n, kind, None) for n in outputs],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
    wanted = onnx.reference.ReferenceEvaluator(made).run(None, feed)
    given = load(made, tmp_path).run(feed)
    for name, want in zip(outputs, wanted, strict=True):
        got, want = np.asarray(given[name], np.float32), np.asarray(want, np.float32)
        if case == "bool mask" and name == "y":
            np.testing.assert_array_equal(got[:, :, 1], 0)
            got, want = np.delete(got, 1, axis=2), np.delete(want, 1, axis=2)
        assert np.abs(got - want).max() <= (2**-8 if kind == HALF else 1e-5) * np.abs(want).max()


def layer(kind: int, size: int = 8) -> onnx.ModelProto:
    """Attention over products of one value, as a network has it."""
    width = HEADS * WIDTH
    rng = np.random.default_rng(2)
    constants: dict[str, Any] = {
        "apart": np.array([2, size, HEADS, WIDTH], np.int64),
        "together": np.array([2, size, width], np.int64),
    }
    nodes = []
    for n in "qkv":
        constants[f"w{n}"] = (rng.standard_normal((width, width)) / 6).astype(DTYPES[kind])
        constants[f"b{n}"] = rng.standard_normal(width).astype(DTYPES[kind])
        nodes += [
            node("MatMul", f"x w{n}", f"p{n}"),
            node("Add", f"p{n} b{n}", f"s{n}"),
            node("Reshape", f"s{n} apart", f"r{n}"),
            node("Transpose", f"r{n}", n, perm=[0, 2, 1, 3]),
        ]
    inner, more = attention_nodes("plain", kind, size)
    nodes += [
        *inner,
        node("Transpose", "y", "back", perm=[0, 2, 1, 3]),
        node("Reshape", "back together", "z"),
    ]
    return model(nodes, {"x": (kind, (2, size, width))}, ["z"], constants | more)


def test_projections_are_one_product(tmp_path: Path) -> None:
    """Whose parts the library reads where they lie."""
    made = layer(HALF)
    feed = values(made)
    program = load(made, tmp_path)
    got = np.asarray(program.run(feed)["z"], np.float32)
    session = onnxruntime.InferenceSession(
        layer(FLOAT).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    want = session.run(None, {"x": feed["x"].astype(np.float32)})[0]
    assert np.abs(got - want).max() <= 2**-7 * np.abs(want).max()
    if HAS_CUDNN:
        assert "0 generated kernels, 1 products" in remarks(program)
        assert attentions(program) == 1


@pytest.mark.parametrize("what", ["attention", "convolution"])
@pytest.mark.skipif(not (STANDIN and HAS_CUDNN), reason="the stand-in refuses on demand")
def test_what_the_library_refuses_is_computed_otherwise(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XRT_STANDIN_CUDNN_REFUSES", what)
    made = layer(HALF)
    program = load(made, tmp_path)
    assert attentions(program) == (1 if what == "convolution" else 0)
    feed = values(made)
    monkeypatch.delenv("XRT_STANDIN_CUDNN_REFUSES")
    want = np.asarray(load(made, tmp_path).run(feed)["z"], np.float32)
    got = np.asarray(program.run(feed)["z"], np.float32)
    assert np.abs(got - want).max() <= 2**-8 * np.abs(want).max()
