# SPDX-License-Identifier: Apache-2.0
"""Several devices that share the rows of each run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import onnx
import openxrt
import pytest
from cuda_models import FLOAT, STANDIN, load, model, node

ROWS = 7


def device_count() -> int:
    """How many cards there are."""
    if STANDIN:
        return int(os.environ.get("XRT_STANDIN_DEVICES", "1"))
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True)
    return listed.stdout.count("GPU ")


needs_two = pytest.mark.skipif(device_count() < 2, reason="there is one device")
BOTH = {"devices": ["cuda:0", "cuda:1"], "device": "cpu"}


def network() -> onnx.ModelProto:
    """One input has rows, one has none; one output has its rows along the second axis."""
    nodes = [
        node("Mul", "x scale", "a"),
        node("Softmax", "a", "y", axis=1),
        node("Transpose", "a", "t", perm=[1, 0]),
    ]
    return model(nodes, {"x": (FLOAT, ("n", 5)), "scale": (FLOAT, (5,))}, ["y", "t"], {})


def feed(rows: int) -> dict[str, np.ndarray]:
    """Numbers that differ by row."""
    rng = np.random.default_rng(rows)
    return {
        "x": rng.standard_normal((rows, 5)).astype(np.float32),
        "scale": np.arange(5, dtype=np.float32),
    }


def expected(given: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """By NumPy."""
    a = given["x"] * given["scale"]
    e = np.exp(a - a.max(axis=1, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=1, keepdims=True), a.T


@needs_two
@pytest.mark.parametrize("rows", [0, 1, 2, ROWS])
def test_rows_are_shared_and_keep_their_order(rows: int, tmp_path: Path) -> None:
    program = load(network(), tmp_path, **BOTH)
    given = feed(rows)
    for got, want in zip(program.run(given).values(), expected(given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert any(
        "cuda:0, cuda:1 share the rows of 'n'" in note for note in program.explain()["notes"]
    )


@needs_two
def test_submitted_runs(tmp_path: Path) -> None:
    program = load(network(), tmp_path, **BOTH)
    feeds = [feed(rows) for rows in range(2, 9)]
    requests = [program.submit(given) for given in feeds]
    for request, given in zip(requests, feeds, strict=True):
        for got, want in zip(request.result().values(), expected(given), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@needs_two
def test_a_failing_device_is_named(tmp_path: Path) -> None:
    program = load(network(), tmp_path, **BOTH)
    wrong = feed(ROWS) | {"scale": np.ones(4, np.float32)}
    with pytest.raises(openxrt.Error, match=r"device cuda:0: .*'scale'"):
        program.run(wrong)
    given = feed(ROWS)
    np.testing.assert_allclose(program.run(given)["y"], expected(given)[0], rtol=1e-5)


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(openxrt.Error, match="cuda:9"):
        load(network(), tmp_path, devices=["cuda:0", "cuda:9"], device="cpu")
