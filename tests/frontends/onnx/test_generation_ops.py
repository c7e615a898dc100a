# SPDX-License-Identifier: Apache-2.0
"""Ops that run a language model to the end of a text: what cannot be rewritten says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import openxrt
import pytest
from contributed_cases import Case, all_cases

CASES = {case.label: case for case in all_cases() if case.op in ("GreedySearch", "BeamSearch")}


def with_decoder(case: Case, change: Callable[[Any], None]) -> Case:
    graph = type(case.attributes["decoder"])()
    graph.CopyFrom(case.attributes["decoder"])
    change(graph)
    return Case(case.op, case.operands, {**case.attributes, "decoder": graph}, "changed")


def without_attribute(case: Case, name: str) -> Case:
    attributes = {key: value for key, value in case.attributes.items() if key != name}
    return Case(case.op, case.operands, attributes, outputs=case.outputs)


GREEDY, BEAMS, T5 = (
    CASES[label] for label in ("GreedySearch-plain", "BeamSearch-plain", "BeamSearch-new-plain")
)
BROKEN = {
    "no model": (without_attribute(GREEDY, "decoder"), "'decoder' is missing"),
    "no encoder": (without_attribute(T5, "encoder"), "'encoder' is missing"),
    "no end": (without_attribute(GREEDY, "eos_token_id"), "'eos_token_id' is missing"),
    "no present": (
        with_decoder(GREEDY, lambda graph: graph.output.pop()),
        "does not take words, positions, a mask",
    ),
    "unknown heads": (
        with_decoder(
            GREEDY,
            lambda graph: graph.input[3].type.tensor_type.ClearField("shape"),
        ),
        "sizes of the heads",
    ),
    "other layers": (
        Case("BeamSearch", T5.operands, {**T5.attributes, "encoder": T5.attributes["decoder"]}),
        "keys and values as those of T5",
    ),
    "whisper": (
        Case("BeamSearch", BEAMS.operands, {**BEAMS.attributes, "model_type": 2}),
        "neither a decoder alone nor like T5",
    ),
    "every score": (
        Case("BeamSearch", BEAMS.operands, BEAMS.attributes, outputs=3),
        "scores of every step",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_rewritten_says_why(name: str) -> None:
    case, reason = BROKEN[name]
    model, _ = case.model()
    with pytest.raises(openxrt.Error, match=reason):
        openxrt.load(model, engine="native")


def test_a_prompt_as_long_as_the_text() -> None:
    model, feeds = GREEDY.model(open_dimensions=True)
    program = openxrt.load(model, engine="native", cache_dir="")
    feeds["x1"] = np.array([3], np.int32)
    np.testing.assert_array_equal(program.run(feeds)["y0"], feeds["x0"])
    feeds["x1"] = np.array([4], np.int32)
    assert program.run(feeds)["y0"].shape == (2, 4)


def test_operands_named_as_parts_of_the_loop() -> None:
    """What the loop reads from outside has names of its own there."""
    case = CASES["GreedySearch-masks"]
    model, feeds = case.model()
    expected = openxrt.load(model, engine="native").run(feeds)["y0"]
    graph = onnx.load_from_string(model)
    names = dict(
        zip(
            [value.name for value in graph.graph.input],
            ("words", "mask", "go", "step"),
            strict=True,
        )
    )
    for value in graph.graph.input:
        value.name = names[value.name]
    node = graph.graph.node[0]
    node.input[:] = [names.get(name, name) for name in node.input]
    renamed = {names[name]: value for name, value in feeds.items()}
    found = openxrt.load(graph.SerializeToString(), engine="native").run(renamed)["y0"]
    np.testing.assert_array_equal(found, expected)
