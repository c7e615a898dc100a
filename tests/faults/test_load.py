# SPDX-License-Identifier: Apache-2.0
"""Some seconds of mixed load with faults; `./dev fuzz load --minutes 30` is the long one."""

from __future__ import annotations

import load_run
import pytest


def test_sample_of_mixed_load() -> None:
    report = load_run.run_load(load_run.parse(["--minutes", "2", "--seed", "3"]))
    assert report["problems"] == [], report["errors"]
    assert report["counts"]["right results"] > 100
    assert sum(report["faults"].values()) > 10


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([5.0] * 100, -0.01, 0.01),
        ([float(i) for i in range(100)], 98, 100),
        ([100.0 + i % 7 for i in range(1000)], -1, 1),
        ([0.0] * 50 + [1000.0] + [0.0] * 50, -1, 1),
    ],
)
def test_rise_is_that_of_a_line(values: list[float], low: float, high: float) -> None:
    assert low <= load_run.rise(values) <= high
