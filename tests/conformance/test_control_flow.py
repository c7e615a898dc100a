# SPDX-License-Identifier: Apache-2.0
"""ONNX's own tests of If, Loop and Scan with the runtime driving the node, against the package's
expected outputs: its semantics, not those of an engine's own loops.
"""

from __future__ import annotations

import onnx
import openxrt
import pytest
from openxrt.conformance.judge import mismatch
from openxrt.conformance.onnx_tests import Case, load_cases

CONTROL_FLOW = {"If", "Loop", "Scan"}
CASES = [
    case
    for case in load_cases(["node", "simple"])
    if CONTROL_FLOW
    & {node.op_type for node in onnx.load_from_string(case.model_bytes()).graph.node}
]


def control_flow_nodes(case: Case) -> list[str]:
    """Names of those that the passes leave."""
    explanation = openxrt.load(case.model_bytes(), engine="native").explain()
    return [node["name"] for node in explanation["nodes"] if node["op"] in CONTROL_FLOW]


@pytest.mark.parametrize(
    "engines", [["native"], ["openvino", "native"], ["xla", "native"]], ids=str
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case, engines: list[str]) -> None:
    names = control_flow_nodes(case)
    if not names:
        pytest.skip("no control flow is left in it")
    program = openxrt.load(
        case.model_bytes(), engine=engines, node_engines=dict.fromkeys(names, "runtime")
    )
    model = onnx.load_from_string(case.model_bytes())
    for feeds, expected in case.data_sets(model):
        outputs = list(program.run(feeds).values())
        assert mismatch(expected, outputs, case.rtol, case.atol) is None
    driven = [node for node in program.explain()["nodes"] if node["engine"] == "runtime"]
    assert {node["name"] for node in driven} >= set(names)


def test_enough_cases_are_driven() -> None:
    assert sum(bool(control_flow_nodes(case)) for case in CASES) >= 25
