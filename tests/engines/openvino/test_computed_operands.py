# SPDX-License-Identifier: Apache-2.0
"""Computed operands that OpenVINO's CPU plugin misreads are left to another engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, usable

X = np.arange(12, dtype=np.float32).reshape(4, 3)

pytestmark = pytest.mark.skipif(not usable("openvino"), reason="openvino is not installed")


def engines_of(program: openxrt.Program) -> str:
    """What ran the nodes, and why."""
    return str(program.explain())


def test_pad_with_a_computed_value() -> None:
    model = make_model(
        [helper.make_node("Pad", ["x", "pads", "value"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [4, 3]), tensor("value", TensorProto.FLOAT, [])],
        [tensor("y", TensorProto.FLOAT, [5, 6])],
        [numpy_helper.from_array(np.array([1, 1, 0, 2]), "pads")],
    )
    program = openxrt.load(model, engine=["openvino", "native"])
    expected = np.pad(X, ((1, 0), (1, 2)), constant_values=7)
    np.testing.assert_array_equal(program(X, np.float32(7)), expected)
    assert "pads with zeros" in engines_of(program)


def test_slice_with_computed_axes() -> None:
    model = make_model(
        [helper.make_node("Slice", ["x", "starts", "ends", "axes"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [4, 3]), tensor("axes", TensorProto.INT64, [1])],
        [tensor("y", TensorProto.FLOAT, ["rows", "columns"])],
        [
            numpy_helper.from_array(np.array([1]), "starts"),
            numpy_helper.from_array(np.array([2]), "ends"),
        ],
    )
    program = openxrt.load(model, engine=["openvino", "native"])
    np.testing.assert_array_equal(program(X, np.array([0])), X[1:2])
    np.testing.assert_array_equal(program(X, np.array([-1])), X[:, 1:2])
    assert "outside of its memory" in engines_of(program)


def test_compress_by_a_condition_without_elements() -> None:
    model = make_model(
        [helper.make_node("Compress", ["x", "keep"], ["y"])],
        [tensor("x", TensorProto.FLOAT, ["d"]), tensor("keep", TensorProto.BOOL, ["n"])],
        [tensor("y", TensorProto.FLOAT, ["m"])],
    )
    program = openxrt.load(model, engine=["openvino", "native"])
    x = np.arange(3, dtype=np.float32)
    for keep in ([], [True], [False, True, True]):
        found = program.run({"x": x, "keep": np.array(keep, bool)})["y"]
        np.testing.assert_array_equal(found, np.compress(keep, x) if keep else x[:0])


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_functions_are_right_from_the_cache_too(
    op: str, gates: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.normal(size=(1, gates * 8, n)).astype(np.float32), name)
        for name, n in (("w", 6), ("r", 8))
    ]
    model = make_model(
        [helper.make_node(op, ["x", "w", "r"], ["all"], hidden_size=8)],
        [tensor("x", TensorProto.FLOAT, ["s", "b", 6])],
        [tensor("all", TensorProto.FLOAT, ["s", 1, "b", 8])],
        weights,
    )
    x = rng.normal(size=(5, 2, 6)).astype(np.float32)
    wanted = openxrt.load(model, engine="native").run({"x": x})["all"]
    for _ in range(2):
        program = openxrt.load(
            model, engine=["openvino", "native"], cache_dir=tmp_path, check_results=False
        )
        np.testing.assert_allclose(program.run({"x": x})["all"], wanted, rtol=1e-4, atol=1e-5)
