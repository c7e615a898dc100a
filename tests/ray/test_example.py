# SPDX-License-Identifier: Apache-2.0
"""examples/ray_batch: pictures in, Parquet out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import openxrt
import pytest

pytest.importorskip("ray")
image = pytest.importorskip("PIL.Image")
parquet = pytest.importorskip("pyarrow.parquet")

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "ray_batch" / "score.py"


def test_a_folder_of_pictures(tmp_path: Path) -> None:
    graph = openxrt.Graph("means")
    x = graph.add_input("x", "float32", ["n", 3, 4, 4])
    axes = graph.add_constant(np.array([2, 3], np.int64), "int64")
    (y,) = graph.add_node("ReduceMean", [x, axes], ["y"], {"keepdims": 0})
    graph.add_output(y)
    graph.finish()
    (tmp_path / "m.onnx").write_bytes(graph.to_onnx())
    colours = np.random.default_rng(0).integers(0, 256, (20, 3), np.uint8)
    (tmp_path / "in").mkdir()
    for i, colour in enumerate(colours):
        picture = np.broadcast_to(colour, (4, 4, 3))
        image.fromarray(picture.copy()).save(tmp_path / "in" / f"{i}.png")
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [
            *(sys.executable, SCRIPT, tmp_path / "in", tmp_path / "out"),
            *("--model", tmp_path / "m.onnx"),
            *("--size", "4", "4", "--batch", "6", "--workers", "1", "2"),
        ],
        env={**os.environ, "PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "20 pictures scored" in done.stdout
    rows = parquet.read_table(tmp_path / "out").to_pylist()
    assert len(rows) == 20
    for row in rows:
        wanted = colours[int(Path(row["path"]).stem)] / 255
        np.testing.assert_allclose(row["scores"], wanted, rtol=1e-5)
