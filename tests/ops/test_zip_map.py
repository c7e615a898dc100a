# SPDX-License-Identifier: Apache-2.0
"""Maps from labels to scores, as skl2onnx writes them of every classifier; against ONNX Runtime."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import openxrt
import pytest
from build_tree import xrt
from onnx import TensorProto, helper
from small_models import model_proto, tensor, usable

LABELS: dict[str, dict[str, Any]] = {
    "strings": {"classlabels_strings": ["red", "grün", ""]},
    "int64": {"classlabels_int64s": [7, -1, 2**40]},
}


def scores_by_label(attributes: dict[str, Any], shape: list[int | str]) -> bytes:
    key = TensorProto.STRING if "classlabels_strings" in attributes else TensorProto.INT64
    value = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(key, value))
    return model_proto(
        [
            helper.make_node("Neg", ["x"], ["scores"]),
            helper.make_node("ZipMap", ["scores"], ["y"], domain="ai.onnx.ml", **attributes),
        ],
        [tensor("x", TensorProto.FLOAT, shape)],
        [helper.make_value_info("y", maps)],
        domains={"ai.onnx.ml": 3},
    ).SerializeToString()


@pytest.mark.parametrize("engine", ["native", "openvino", "onnxruntime"])
@pytest.mark.parametrize("isolation", [{}, {"isolation": "process"}], ids=["here", "process"])
@pytest.mark.parametrize("labels", LABELS)
def test_each_row_is_a_dict(labels: str, isolation: dict[str, str], engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    model = scores_by_label(LABELS[labels], ["n", 3])
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    engines = list(dict.fromkeys([engine, "native"]))
    program = openxrt.load(model, engine=engines, **isolation)
    for rows in (2, 0, 5):
        x = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
        (wanted,) = session.run(None, {"x": x})
        assert program.run({"x": x})["y"] == wanted


def test_the_command_writes_keys_and_values(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(scores_by_label(LABELS["strings"], [2, 3]))
    command = [
        "run",
        tmp_path / "model.onnx",
        "-e",
        "native",
        "-i",
        "ones",
        "-o",
        tmp_path / "y.npz",
    ]
    subprocess.run([xrt(), *command], check=True, capture_output=True)
    found = np.load(tmp_path / "y.npz", allow_pickle=True)
    assert sorted(found) == ["y[0][0]", "y[0][1]", "y[1][0]", "y[1][1]"]
    np.testing.assert_array_equal(found["y[1][1]"], [-1, -1, -1])


def test_one_row_without_an_axis() -> None:
    model = scores_by_label(LABELS["int64"], [3])
    found = openxrt.load(model, engine="native").run({"x": np.array([1, 2, 3], np.float32)})["y"]
    assert found == [{7: -1.0, -1: -2.0, 2**40: -3.0}]


def test_other_numbers_of_scores_than_labels() -> None:
    model = scores_by_label(LABELS["strings"], ["n", "m"])
    program = openxrt.load(model, engine="native")
    with pytest.raises(openxrt.InvalidArgument, match=r"\[2,4\] has no score for each of 3 labels"):
        program.run({"x": np.ones((2, 4), np.float32)})


def test_labels_are_wanted() -> None:
    with pytest.raises(openxrt.Error, match="ZipMap"):
        openxrt.load(scores_by_label({}, ["n", 3]), engine="native")
