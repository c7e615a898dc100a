# SPDX-License-Identifier: Apache-2.0
"""A sample of hostile models and tensors ends with a result or an error of ours, on every engine.

`./dev fuzz hostile --all` runs all of them."""

import numpy as np
import pytest
from hostile_cases import HostileCase
from hostile_known import FACTS, KNOWN
from hostile_page import BAD
from hostile_run import BOUND, ENGINES, make_requests, run_engine
from hostile_worker import judged
from onnx import TensorProto, helper
from small_models import make_model, tensor, usable

SEED = 20
COUNTS = {"model": 24, "tensor": 60, "node": 40, "costly": 8, "file": 28, "caller": 8}
COUNTS |= {"limit": 30, "mixed": 20, "sizes": 20, "contributed": 20}
CONTRIBUTED = 600


def test_sample_of_contributed_ops() -> None:
    """They are rewritten before an engine sees them."""
    requests = make_requests({"contributed": CONTRIBUTED}, SEED)
    answers = run_engine("native", requests, jobs=1, seconds=20, bound=BOUND)
    assert [answer for answer in answers if answer["outcome"] in BAD] == []
    assert sum(answer["outcome"] == "result" for answer in answers) > len(answers) // 4


@pytest.mark.parametrize("engine", ENGINES)
def test_sample(engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    requests = make_requests(COUNTS, SEED)
    answers = run_engine(engine, requests, jobs=1, seconds=60, bound=BOUND)
    assert len(answers) == len(requests)
    assert [answer for answer in answers if answer["outcome"] in BAD] == []
    assert sum(answer["outcome"] == "result" for answer in answers) > len(answers) // 4


def outcome(engine: str, op: str, x: list[float], ours: list[float], native: list[float]) -> str:
    """How a case of one op ends that gave these results."""
    model = make_model(
        [helper.make_node(op, ["x"], ["y"])],
        [tensor("x", TensorProto.FLOAT, ["n"])],
        [tensor("y", TensorProto.FLOAT, ["n"])],
    )
    case = HostileCase(op, model, [({"x": np.array(x, np.float32)}, None)])
    given, expected = ([("result", [np.array(v, np.float32)])] for v in (ours, native))
    return judged(engine, case, given, expected)[0]


def test_what_no_row_explains_fails() -> None:
    assert {"differs", "lax"} <= set(BAD)
    assert outcome("xla", "Softmax", [1, 2], [0.3, 0.7], [0.3, 0.7]) == "result"
    assert outcome("xla", "Softmax", [1, 2], [0.3, 0.7], [0.2, 0.8]) == "differs"
    assert outcome("xla", "Softmax", [np.inf, 2], [0, 0], [np.nan, 0]) == "explained"
    assert outcome("xla", "Abs", [np.inf, 2], [0, 2], [np.inf, 2]) == "differs"
    assert outcome("xla", "Ceil", [1e-45], [0], [1]) == "explained"
    assert outcome("onnxruntime", "Ceil", [1e-45], [0], [1]) == "differs"
    assert outcome("xla", "Neg", [1e-45], [0], [-1e-45]) == "explained"


def test_rows_name_what_there_is() -> None:
    for row in KNOWN:
        assert row.outcome in ("differs", "lax")
        assert row.ops or row.text or row.when
        assert set(row.engines.split()) <= set(ENGINES)
        assert row.when in FACTS
