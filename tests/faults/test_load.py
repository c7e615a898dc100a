# SPDX-License-Identifier: Apache-2.0
"""Some seconds of mixed load with faults; `./dev fuzz load --minutes 30` is the long one."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import load_faults
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


CHURN = """
import pathlib, shutil, sys
while True:
    folders = [pathlib.Path(sys.argv[1], str(i)) for i in range(40)]
    for folder in folders:
        (folder / "inner" / "most").mkdir(parents=True)
    for folder in folders:
        shutil.rmtree(folder)
"""


def test_faults_go_on_while_the_process_removes_files(tmp_path: Path) -> None:
    faults = load_faults.Faults(os.getpid(), tmp_path, random.Random(0))
    process = subprocess.Popen([sys.executable, "-c", CHURN, str(faults.cache)])
    try:
        while not faults.cache.exists():
            time.sleep(0.01)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            faults.damage(Path.unlink)
    finally:
        process.kill()
        process.wait()
