# SPDX-License-Identifier: Apache-2.0
"""Pictures, labelled sets and models of the tests of evaluation, and the command."""

import subprocess
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from openxrt import _command, _core
from small_models import model_proto, tensor

RNG = np.random.default_rng(7)


def picture(width: int, height: int) -> np.ndarray:
    return RNG.integers(0, 256, (height, width, 3), np.uint8)


def labelled(data: Path, **changes: object) -> _core.LabelledSet:
    options = {
        "format": "auto",
        "classes": None,
        "picture_field": "",
        "label_field": "",
        "preset": "",
        "resize_shorter": None,
        "crop": None,
        "mean": None,
        "std": None,
        "scale": None,
        "layout": "auto",
        "channels": "rgb",
        "limit": 0,
        "label_offset": 0,
        "skip_bad": False,
        "workers": 0,
    }
    return _core.LabelledSet(data, **{**options, **changes})


def save(path: Path, nodes: list, shape: list, out: list, weights: list = ()) -> Path:
    inputs = [tensor("x", TensorProto.FLOAT, shape)]
    outputs = [tensor("y", TensorProto.FLOAT, out)]
    onnx.save(model_proto(nodes, inputs, outputs, list(weights)), path)
    return path


def scores_model(path: Path, batch: int | str = "N", classes: int = 7) -> Path:
    """The input is the scores."""
    return save(
        path, [helper.make_node("Identity", ["x"], ["y"])], [batch, classes], [batch, classes]
    )


def picture_model(path: Path, size: int = 24, classes: int = 4) -> Path:
    """Scores from a picture: means of channels times weights."""
    weights = numpy_helper.from_array(RNG.standard_normal((3, classes)).astype(np.float32), "w")
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["y"]),
    ]
    return save(path, nodes, ["N", 3, size, size], ["N", classes], [weights])


def top(values: np.ndarray, labels: np.ndarray, k: int) -> float:
    best = np.argsort(-values, axis=1, kind="stable")[:, :k]
    return float((best == labels[:, None]).any(axis=1).mean())


def xrt(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = next(path for path in _command.programs() if path.is_file())
    return subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120
    )
