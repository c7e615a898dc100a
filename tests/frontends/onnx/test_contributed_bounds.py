# SPDX-License-Identifier: Apache-2.0
"""Contributed ops that ask their rewriting for the impossible, or for too much: errors that name
the node and the attribute."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import openxrt
import pytest
from contributed_cases import Case, Const, all_cases
from onnx import TensorProto, helper
from small_models import make_model, tensor, untyped, usable

SOURCES = Path(__file__).parents[3] / "src" / "onnx" / "contributed"
CASES = {case.label: case for case in all_cases()}
FIRST: dict[str, Case] = {}
for each in CASES.values():
    FIRST.setdefault(each.op, each)
LARGE = [2**40, 2**62, 2**63 - 1]
NEGATIVE = [-1, -(2**63)]


def load(case: Case, **options: Any) -> Any:
    options = {"engine": "native", "cache_dir": "", "deadline_s": 20} | options
    return openxrt.load(case.model()[0], **options)


def f(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def ngrams(op: str, attributes: dict[str, Any]) -> Case:
    words = np.arange(5)
    operands = {
        "NGramRepeatBlock": [words.reshape(1, 5), f(1, 10)],
        "BifurcationDetector": [words, words, np.array(0)],
        "NGramHashMapping": [words.reshape(1, 5), Const(np.ones(2000, np.int64)), words],
    }[op]
    outputs = 1 if op == "NGramRepeatBlock" else 2
    return Case(op, operands, {"n_head_per_ngram": 1, "pad_id": 0} | attributes, outputs=outputs)


@pytest.mark.parametrize(
    "op", ["Attention", "QAttention", "MultiHeadAttention", "DecoderMaskedMultiHeadAttention"]
)
@pytest.mark.parametrize("heads", [0, *NEGATIVE, *LARGE])
def test_heads(op: str, heads: int) -> None:
    case = FIRST[op]
    case = replace(case, attributes={**case.attributes, "num_heads": heads})
    with pytest.raises(openxrt.InvalidModel, match=rf"'node' .*{op}.*'num_heads' is {heads}"):
        load(case)


@pytest.mark.parametrize("name", ["expert_weight_bits", "fc1_expert_weight_bits"])
@pytest.mark.parametrize("bits", [0, 1, 3, 16, *NEGATIVE, *LARGE])
def test_bits_of_experts(name: str, bits: int) -> None:
    case = FIRST["QMoE"]
    case = replace(case, attributes={**case.attributes, name: bits})
    with pytest.raises(openxrt.InvalidModel, match=rf"QMoE.*({name}|numbers of {bits} bits)"):
        load(case)


@pytest.mark.parametrize("shape", [(5,), (0,), ()])
def test_ranks_of_streams(shape: tuple[int, ...]) -> None:
    operands = [np.zeros(shape, np.float32), f(2), f(2), f(2, 2)]
    with pytest.raises(openxrt.InvalidModel):
        load(Case("HyperConnectionPostMix", operands))
    mixed = [np.zeros((2, 2), np.float32), f(2), f(2), np.zeros(shape, np.float32)]
    with pytest.raises(openxrt.InvalidModel, match="it needs two or more"):
        load(Case("HyperConnectionPostMix", mixed))
    with pytest.raises(openxrt.InvalidModel, match="it needs two or more"):
        load(Case("NhwcMaxPool", [np.zeros(shape, np.int8)], {"kernel_shape": [1]}))


@pytest.mark.parametrize(
    "shape", [[128, 2**62], [2**62, 4], [-31, 5], [-(2**40), 1], [31, 2**61], [2**40, 0], [0, 4]]
)
def test_shape_of_weights_in_blocks(shape: list[int]) -> None:
    operands = [f(2, 32), Const(np.zeros(100, np.uint8)), Const(np.array(shape))]
    with pytest.raises(openxrt.InvalidModel, match=r"MatMulFpQ4.*its weights have the size"):
        load(Case("MatMulFpQ4", operands, {"blk_quant_type": 1}))


@pytest.mark.parametrize(
    ("op", "operand"),
    [("MatMulNBits", 1), ("MatMulFpQ4", 1), ("MatMulFpQ4", 2), ("QMoE", 2)],
)
def test_weights_that_are_texts(op: str, operand: int) -> None:
    case = FIRST[op]
    given = case.operands[operand]
    array = np.asarray(given.array if isinstance(given, Const) else given)
    operands = list(case.operands)
    operands[operand] = Const(np.full(array.shape, "x" * 40, object))
    with pytest.raises(openxrt.InvalidModel, match="is of string"):
        load(replace(case, operands=operands))


@pytest.mark.parametrize(
    "section",
    [[-1, 0, 0], [2**40, 1, 1], [2**63 - 1, 2**63 - 1, 2], [3 * 10**8, 1, 1], [10**9, 10**9, 0]],
)
def test_sections_of_positions(section: list[int]) -> None:
    case = FIRST["MRotaryEmbedding"]
    case = replace(case, attributes={**case.attributes, "mrope_section": section})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((openxrt.InvalidModel, openxrt.ResourceError), match="MRotaryEmbedding"):
        load(case, max_memory_bytes=1 << 28)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 19  # of KiB


@pytest.mark.parametrize(
    ("op", "name"),
    [
        ("NGramRepeatBlock", "ngram_size"),
        ("BifurcationDetector", "max_ngram_size"),
        ("BifurcationDetector", "min_ngram_size"),
        ("NGramHashMapping", "max_ngram_size"),
    ],
)
@pytest.mark.parametrize("size", [0, 2000, 10**5, *NEGATIVE, *LARGE])
def test_sizes_of_ngrams(op: str, name: str, size: int) -> None:
    with pytest.raises(openxrt.InvalidModel, match=rf"{op}.*'{name}' is {size}"):
        load(ngrams(op, {name: size}))


def test_nodes_of_rewritings_are_counted() -> None:
    case = ngrams("NGramRepeatBlock", {"ngram_size": 100})
    load(case)
    with pytest.raises(openxrt.ResourceError, match="more than 200 nodes"):
        load(case, max_nodes=200)


def test_nodes_of_rewritings_have_a_bound() -> None:
    with pytest.raises(openxrt.ResourceError, match="more than 200000 nodes"):
        load(ngrams("BifurcationDetector", {"max_ngram_size": 1024}), deadline_s=0)


def test_the_time_of_rewritings_is_looked_at() -> None:
    with pytest.raises(openxrt.ResourceError, match=r"BifurcationDetector.*limit of 0\.1 s"):
        load(ngrams("BifurcationDetector", {"max_ngram_size": 1024}), deadline_s=0.1)


def test_long_names_are_not_repeated() -> None:
    name = "n" * (1 << 20)
    node = helper.make_node(
        "NGramRepeatBlock", ["x", "y"], ["z"], name, domain="com.microsoft", ngram_size=500
    )
    data = make_model(
        [node],
        [tensor("x", TensorProto.INT64, [1, 5]), tensor("y", TensorProto.FLOAT, [1, 9])],
        [untyped("z")],
        domains={"com.microsoft": 1},
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    openxrt.load(data, engine="native", cache_dir="")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 19  # of KiB


def two_layers(graph: Any) -> Any:
    changed = type(graph)()
    changed.CopyFrom(graph)
    for values in (changed.input, changed.output):
        last = values[-1]
        values.add().CopyFrom(last)
        values[-1].name += "_again"
    node = changed.node.add()
    node.CopyFrom(helper.make_node("Identity", [changed.input[-1].name], [changed.output[-1].name]))
    return changed


@pytest.mark.parametrize("label", ["GreedySearch-plain", "BeamSearch-plain"])
def test_other_layers_at_first(label: str) -> None:
    case = CASES[label]
    first = two_layers(case.attributes["decoder"])
    case = replace(case, attributes={**case.attributes, "init_decoder": first})
    with pytest.raises(openxrt.InvalidModel, match="as many layers"):
        load(case)


def test_a_first_decoder_behind_an_encoder_is_none() -> None:
    case = CASES["BeamSearch-new-plain"]
    first = CASES["BeamSearch-plain"].attributes["decoder"]
    with_first = replace(case, attributes={**case.attributes, "init_decoder": first})
    feeds = case.model()[1]
    for left, right in zip(
        load(case).run(feeds).values(), load(with_first).run(feeds).values(), strict=True
    ):
        np.testing.assert_array_equal(left, right)


def hostile_lists() -> list[tuple[str, str, list[int]]]:
    return [
        ("MaxpoolWithMask", "kernel_shape", [2**32, 2**32]),
        ("MaxpoolWithMask", "kernel_shape", [-1, -1]),
        ("MaxpoolWithMask", "pads", [-1, -1, 2**62, 2**62]),
        ("Crop", "border", [0, 0, -(2**63), -(2**63)]),
        ("Crop", "scale", [2**63 - 1, 2**63 - 1]),
        ("Attention", "qkv_hidden_sizes", [2**62, 2**62, -(2**63)]),
    ]


@pytest.mark.parametrize(("op", "name", "value"), hostile_lists())
def test_lists(op: str, name: str, value: list[int]) -> None:
    case = FIRST[op]
    with pytest.raises(openxrt.InvalidModel, match=f"{op}.*'{name}' is"):
        load(replace(case, attributes={**case.attributes, name: value}))


def each_source(check: Callable[[str, str], None]) -> None:
    for path in sorted(SOURCES.glob("*.cc")):
        if path.name != "rewriting.cc":
            check(path.name, path.read_text(encoding="utf-8"))


def test_rewritings_permute_and_allocate_through_one_place() -> None:
    def check(name: str, text: str) -> None:
        assert not re.search(r"swap\(perm|add_node\(|add_constant\(", text), name
        assert not re.search(r"get_if<(Ints|std::int64_t)>", text), name

    each_source(check)


@pytest.mark.parametrize("engine", ["native", "openvino", "xla"])
@pytest.mark.parametrize("length", [13, 2**31 - 1])
def test_lengths_beyond_the_longest(length: int, engine: str) -> None:
    """Of GroupQueryAttention's seqlens_k: they mean all keys; ONNX Runtime refuses them."""
    if not usable(engine):
        pytest.skip(f"{engine} is not usable here")
    rng = np.random.default_rng(0)
    state = {k: rng.standard_normal((2, 2, 12, 16), np.float32) for k in ("pk", "pv")}
    widths = {"q": 64, "k": 32, "v": 32}
    rows = {k: rng.standard_normal((2, 1, width), np.float32) for k, width in widths.items()}
    feeds = rows | state | {"last": np.int32([12, 12]), "total": np.array(13, np.int32)}
    kind = helper.np_dtype_to_tensor_dtype
    model = make_model(
        [
            helper.make_node(
                "GroupQueryAttention",
                list(feeds),
                ["y", "present_k", "present_v"],
                domain="com.microsoft",
                num_heads=4,
                kv_num_heads=2,
            )
        ],
        [tensor(name, kind(a.dtype), a.shape) for name, a in feeds.items()],
        [untyped("y"), untyped("present_k"), untyped("present_v")],
        domains={"com.microsoft": 1},
    )
    program = openxrt.load(model, engine=list(dict.fromkeys([engine, "native"])), cache_dir="")
    session = onnxruntime.InferenceSession(model)
    expected = session.run(None, feeds)
    np.testing.assert_allclose(program.run(feeds)["y"], expected[0], rtol=1e-4, atol=1e-5)
    wrong = feeds | {"last": np.int32([12, length])}
    with pytest.raises(Exception, match="is out of range"):
        session.run(None, wrong)
    np.testing.assert_allclose(program.run(wrong)["y"], expected[0], rtol=1e-4, atol=1e-5)
