# SPDX-License-Identifier: Apache-2.0
"""A sample of random graphs is right on every engine. `./dev fuzz graphs` runs more of them."""

import pytest
from random_graphs_run import check_apart
from small_models import usable

COUNTS = {"native": 400, "onnxruntime": 200, "openvino": 100, "xla": 24, "tvm": 12}
SEED = 700


@pytest.mark.parametrize("engine", COUNTS)
def test_random_graphs(engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    outcomes = dict(check_apart(engine, SEED, COUNTS[engine]))
    assert len(outcomes) == COUNTS[engine]
    assert {n: o for n, o in outcomes.items() if o[0] != "right"} == {}
