# SPDX-License-Identifier: Apache-2.0
"""A sample of random graphs is right on every engine. `./dev fuzz graphs` runs more of them."""

import pytest
from random_graphs_run import check_apart
from small_models import usable

COUNTS = {
    "layers": {"native": 400, "onnxruntime": 200, "openvino": 100, "xla": 24, "tvm": 12},
    "flow": {"native": 200, "onnxruntime": 100, "openvino": 100, "xla": 24, "tvm": 12},
}
SEED = 2000
CASES = [(kind, engine) for kind, counts in COUNTS.items() for engine in counts]


@pytest.mark.parametrize(("kind", "engine"), CASES)
def test_random_graphs(kind: str, engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    count = COUNTS[kind][engine]
    outcomes = dict(check_apart(kind, engine, SEED, count))
    assert len(outcomes) == count
    # Some bodies ONNX Runtime does not take.
    ends = ("right",) if kind == "layers" else ("right", "unjudged")
    assert {n: o for n, o in outcomes.items() if o[0] not in ends} == {}
    assert sum(o[0] == "right" for o in outcomes.values()) >= 0.9 * count
