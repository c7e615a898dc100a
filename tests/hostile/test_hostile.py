# SPDX-License-Identifier: Apache-2.0
"""A sample of hostile models and tensors ends with a result or an error of ours, on every engine.

`./dev fuzz hostile --all` runs all of them."""

import pytest
from hostile_page import BAD
from hostile_run import BOUND, ENGINES, make_requests, run_engine
from small_models import usable

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
