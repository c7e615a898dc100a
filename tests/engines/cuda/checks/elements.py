# SPDX-License-Identifier: Apache-2.0
"""Ops on elements, rows, views and places, beside ONNX Runtime on the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cuda_models import (
    FLOAT,
    HALF,
    LONG,
    check,
    model,
    node,
)


@pytest.mark.parametrize("columns", [7, 96, 1000, 5000])
def test_rows_with_what_is_around_them(columns: int, tmp_path: Path) -> None:
    nodes = [
        node("Add", "x y", "s"),  # read by the normalisation and behind it
        node("LayerNormalization", "s w b", "n", axis=-1),
        node("Tanh", "n", "t"),
        node("Add", "t s", "u"),
        node("Softmax", "u", "p", axis=1),
        node("LogSoftmax", "u", "q", axis=-1),
        node("Mul", "p q", "z"),
    ]
    constants = {
        "w": np.linspace(0.5, 1.5, columns, dtype=np.float32),
        "b": np.linspace(-1, 1, columns, dtype=np.float32),
    }
    shape = (3, 5, columns)
    made = model(nodes, {"x": (FLOAT, shape), "y": (FLOAT, shape)}, ["z", "u"], constants)
    check(made, tmp_path)


def test_elements_of_any_shape_and_type(tmp_path: Path) -> None:
    nodes = [
        node("Add", "x row", "a"),
        node("Mul", "a column", "b"),
        node("Clip", "b low _", "c"),
        node("Greater", "c row", "d"),
        node("Where", "d c column", "e"),
        node("Cast", "e", "f", to=HALF),
        node("Cast", "f", "g", to=FLOAT),
        node("Div", "i j", "k"),
        node("Mod", "i j", "l"),
        node("Erf", "g", "m"),
        node("HardSwish", "m", "n"),
        node("Pow", "a two", "o"),
    ]
    constants = {"low": np.float32(-0.5), "two": np.float32(2), "j": np.array([2, -3, 5], np.int64)}
    inputs = {
        "x": (FLOAT, (2, 4, 6)),
        "row": (FLOAT, (6,)),
        "column": (FLOAT, (2, 1, 1)),
        "i": (LONG, (4, 3)),
    }
    check(model(nodes, inputs, ["n", "k", "l", "o", "e"], constants), tmp_path)


def test_views_move_nothing_and_are_right(tmp_path: Path) -> None:
    constants = {
        "shape": np.array([2, 3, 4, 5], np.int64),
        "merged": np.array([2, 4, 15], np.int64),
        "starts": np.array([3, 10], np.int64),
        "ends": np.array([-10, 2], np.int64),
        "axes": np.array([1, 2], np.int64),
        "steps": np.array([-1, -3], np.int64),
        "wide": np.array([6, 2, 4, 3], np.int64),
    }
    nodes = [
        node("Reshape", "x shape", "a"),
        node("Transpose", "a", "b", perm=[0, 2, 1, 3]),
        node("Reshape", "b merged", "c"),
        node("Slice", "c starts ends axes steps", "d"),
        node("Exp", "d", "e"),
        node("Split", "c", "f g h", axis=2, num_outputs=3),
        node("Concat", "h f", "i", axis=1),
        node("Relu", "i", "j"),
        node("Expand", "d wide", "k"),
        node("Sub", "k d", "l"),
    ]
    made = model(nodes, {"x": (FLOAT, (6, 20))}, ["e", "j", "l", "c"], constants)
    check(made, tmp_path)


def test_gathers_pads_and_resizes(tmp_path: Path) -> None:
    nodes = [
        node("Gather", "x which", "a", axis=1),
        node("Pad", "x pads", "b", mode="reflect"),
        node("Resize", "x _ scales", "c", mode="linear"),
        node("Resize", "x _ scales", "d", mode="nearest"),
        node("Tile", "x times", "e"),
        node("DepthToSpace", "x", "f", blocksize=2),
    ]
    constants = {
        "which": np.array([[3, -1], [0, 1]], np.int64),
        "pads": np.array([0, 0, 1, 2, 0, 0, 3, 1], np.int64),
        "scales": np.array([1, 1, 2.5, 1.5], np.float32),
        "times": np.array([2, 1, 3, 1], np.int64),
    }
    check(model(nodes, {"x": (FLOAT, (2, 4, 5, 6))}, list("abcdef"), constants), tmp_path)
