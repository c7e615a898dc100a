# SPDX-License-Identifier: Apache-2.0
"""Batches of Ray Data through a program, on a cluster of several processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import openxrt
import pytest
from serving import WEIGHTS, linear_model

ray = pytest.importorskip("ray")
ray_data = pytest.importorskip("ray.data")

import openxrt.ray  # noqa: E402


def rows(count: int) -> list[dict[str, object]]:
    values = np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)
    return [{"id": i, "x": value} for i, value in enumerate(values)]


def judge(found: list[dict[str, object]], given: list[dict[str, object]]) -> None:
    """Each row once, with its own result."""
    assert sorted(row["id"] for row in found) == list(range(len(given)))
    x = np.stack([given[row["id"]]["x"] for row in found])
    np.testing.assert_allclose(np.stack([row["y"] for row in found]), x @ WEIGHTS, rtol=1e-5)


def test_parquet_in_and_out(cluster: None, tmp_path: Path) -> None:
    linear_model(tmp_path / "m.onnx")
    given = rows(500)
    ray_data.from_items(given).repartition(8).write_parquet(str(tmp_path / "in"))
    scored = openxrt.ray.map_batches(
        ray_data.read_parquet(str(tmp_path / "in")),
        tmp_path / "m.onnx",
        batch_size=32,
        workers=(1, 2),
        options={"engine": "native", "cache_dir": str(tmp_path / "cache")},
    )
    scored.write_parquet(str(tmp_path / "out"))
    found = ray_data.read_parquet(str(tmp_path / "out")).take_all()
    assert set(found[0]) == {"id", "y"}
    judge(found, given)


def test_a_killed_process_costs_no_row(cluster: None, tmp_path: Path) -> None:
    linear_model(tmp_path / "m.onnx")
    pids = tmp_path / "pids"
    pids.mkdir()

    def slow(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        (pids / str(os.getpid())).touch()
        time.sleep(0.2)
        return batch

    killed: list[int] = []

    def kill() -> None:
        while not killed:
            for file in pids.iterdir():
                time.sleep(0.5)
                os.kill(int(file.name), signal.SIGKILL)
                killed.append(int(file.name))
                return
            time.sleep(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    given = rows(400)
    found = openxrt.ray.map_batches(
        ray_data.from_items(given).repartition(20),
        tmp_path / "m.onnx",
        prepare=slow,
        batch_size=20,
        options={"engine": "native"},
    ).take_all()
    killer.join()
    assert killed
    assert {int(file.name) for file in pids.iterdir()} > set(killed)
    judge(found, given)


def test_a_model_of_fixed_rows(tmp_path: Path) -> None:
    linear_model(tmp_path / "m.onnx", rows=8)
    program = openxrt.ray.BatchProgram(tmp_path / "m.onnx", options={"engine": "native"})
    for count in (1, 8, 19):
        x = np.random.default_rng(count).normal(size=(count, 4)).astype(np.float32)
        result = program({"x": x, "id": np.arange(count)})
        np.testing.assert_allclose(result["y"], x @ WEIGHTS, rtol=1e-5)
        np.testing.assert_array_equal(result["id"], np.arange(count))


def test_names_that_do_not_fit(tmp_path: Path) -> None:
    linear_model(tmp_path / "m.onnx")
    path, options = tmp_path / "m.onnx", {"engine": "native"}
    with pytest.raises(openxrt.InvalidArgument, match="there is no input 'z'; inputs: x"):
        openxrt.ray.BatchProgram(path, inputs={"z": "image"}, options=options)
    with pytest.raises(openxrt.InvalidArgument, match="there is no output 'z'; outputs: y"):
        openxrt.ray.BatchProgram(path, outputs={"z": "score"}, options=options)
    program = openxrt.ray.BatchProgram(path, inputs={"x": "image"}, options=options)
    with pytest.raises(openxrt.InvalidArgument, match="no column 'image'; columns: x"):
        program({"x": np.zeros((1, 4), np.float32)})
    kept = openxrt.ray.BatchProgram(path, keep=["y"], options=options)
    with pytest.raises(openxrt.InvalidArgument, match="column 'y' would be kept"):
        kept({"x": np.zeros((1, 4), np.float32), "y": np.zeros(1)})
