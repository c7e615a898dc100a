# SPDX-License-Identifier: Apache-2.0
"""Patterns and cases of letters mean what they mean to ONNX Runtime, which uses RE2 as well."""

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import make_model, tensor

onnxruntime = pytest.importorskip("onnxruntime")

TEXTS = ["", "a", "ab", "AB", "aab", "12", "é", "É", "a\nb", "a.b", "日本", "x" * 50, "ß", "\tz"]
PATTERNS = [
    *[r"\d+", r"(?i)É", r".*", r"(?s).*", r".", r"\pL+", r"\w+", r"[[:alpha:]]+", r"a{1,2}b"],
    *["", r"(a|ab)(c|b)?", r"\p{Han}+", r"(?i)ab", r"[^a]+", r"a\.b", r"(?:x+x+)+y", r"\s.*"],
]
REFUSED = [r"a(?=b)", r"(a)\1", "a{1001}", "a{1000}{1000}", "[", "("]


def matches(pattern: str) -> bytes:
    node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)
    inputs = [tensor("x", TensorProto.STRING, [None])]
    return make_model([node], inputs, [tensor("y", TensorProto.BOOL, [None])])


def normalizes(action: str) -> bytes:
    node = helper.make_node(
        "StringNormalizer", ["x"], ["y"], case_change_action=action, locale="C.UTF-8"
    )
    inputs = [tensor("x", TensorProto.STRING, [None])]
    return make_model([node], inputs, [tensor("y", TensorProto.STRING, [None])])


def by_onnxruntime(model: bytes, texts: list[str]) -> np.ndarray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.array(texts, object)})[0]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_full_match(pattern: str) -> None:
    model = matches(pattern)
    ours = openxrt.load(model, engine="native")(np.array(TEXTS, object))
    np.testing.assert_array_equal(ours, by_onnxruntime(model, TEXTS))


@pytest.mark.parametrize("pattern", REFUSED)
def test_patterns_that_re2_refuses(pattern: str) -> None:
    with pytest.raises(openxrt.Error) as refused:
        openxrt.load(matches(pattern), engine="native")
    assert len(str(refused.value)) < 1000


def test_deep_groups() -> None:
    depth = 100_000
    model = matches("(" * depth + "a" + ")" * depth)
    try:
        assert openxrt.load(model, engine="native")(np.array(["a"], object))[0]
    except openxrt.Error as refused:
        assert len(str(refused)) < 1000


def test_matching_takes_linear_time() -> None:
    """Nested repetition and a text of a megabyte: neither stack nor patience ends."""
    program = openxrt.load(matches("(a*)*b"), engine="native")
    assert not program(np.array(["a" * 1_000_000], object))[0]


@pytest.mark.parametrize("action", ["LOWER", "UPPER", "NONE"])
def test_cases_of_letters(action: str) -> None:
    words = ["Straße", "ÉCOLE", "Жук", "ΑΒΓ", "ŽLUŤ", "日本", "i", "ՀԱՅ", "Ａｂ", "ÿ", "Ǆ", "ქართ"]
    model = normalizes(action)
    ours = openxrt.load(model, engine="native")(np.array(words, object))
    assert ours.tolist() == by_onnxruntime(model, words).tolist()


def test_patterns_whose_program_would_take_a_minute_are_refused() -> None:
    """The time grows with the square of the repetitions."""
    assert openxrt.load(matches("x{0,1000}" * 5), engine="native").run({"x": np.array(["xx", "y"])})
    with pytest.raises(openxrt.Unsupported, match="pattern too large"):
        openxrt.load(matches("x{0,1000}" * 200), engine="native", deadline_s=20)


@pytest.mark.parametrize("limit", [-1, 0, 1])
def test_splits_up_to_a_limit(limit: int) -> None:
    """A negative one is none."""
    node = helper.make_node("StringSplit", ["x"], ["y", "n"], delimiter=" ", maxsplit=limit)
    model = make_model(
        [node],
        [tensor("x", TensorProto.STRING, [None])],
        [tensor("y", TensorProto.STRING, None), tensor("n", TensorProto.INT64, [None])],
    )
    y = openxrt.load(model, engine="native").run({"x": np.array(["a b c"], object)})["y"]
    assert y.tolist() == ["a b c".split(" ", limit)]
