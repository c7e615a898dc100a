# SPDX-License-Identifier: Apache-2.0
"""Pictures that are read between their elements: GridSample, RoiAlign, and Resize of bytes."""

import numpy as np
import onnxruntime
import openxrt
import pytest
import torch
from on_engine import load_on
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, untyped

ENGINES = ["native", "openvino", "onnxruntime", "xla"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_points_outside(mode: str, padding: str, align: bool, engine: str) -> None:
    """Of a cubic not the point is brought inside, but each element that it reads."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 2, 4, 5)).astype(np.float32)
    grid = rng.uniform(-1.6, 1.6, (1, 6, 7, 2)).astype(np.float32)
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": int(align)}
    model = make_model(
        [helper.make_node("GridSample", ["x", "grid"], ["y"], **attributes)],
        [tensor("x", TensorProto.FLOAT, x.shape), tensor("grid", TensorProto.FLOAT, grid.shape)],
        [untyped("y")],
    )
    expected = torch.nn.functional.grid_sample(
        torch.from_numpy(x),
        torch.from_numpy(grid),
        {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode),
        padding,
        align_corners=align,
    )
    np.testing.assert_allclose(load_on(model, engine)(x, grid), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_picture_without_rows(engine: str) -> None:
    """There is nothing to read: XLA and native would read memory that is not the picture's."""
    model = make_model(
        [
            helper.make_node("RoiAlign", ["x", "r", "i"], ["y"], output_height=2, output_width=3),
        ],
        [tensor("x", TensorProto.FLOAT, ["n", 2, "h", 4]), tensor("i", TensorProto.INT64, [1])],
        [untyped("y")],
        [numpy_helper.from_array(np.array([[0, 0, 3, 3]], np.float32), "r")],
        opset=16,
    )
    program = load_on(model, engine)
    for _ in range(2):
        found = program(np.ones((1, 2, 4, 4), np.float32), np.array([0]))
        np.testing.assert_array_equal(found, np.ones((1, 2, 2, 3), np.float32))
        with pytest.raises(openxrt.Error, match="empty"):
            program(np.ones((1, 2, 0, 4), np.float32), np.array([0]))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cubic_of_bytes_keeps_their_range(engine: str) -> None:
    x = np.zeros((1, 1, 4, 6), np.uint8)
    x[..., 2:4] = 255
    model = make_model(
        [helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="cubic", antialias=1)],
        [tensor("x", TensorProto.UINT8, x.shape)],
        [untyped("y")],
        [numpy_helper.from_array(np.array([1, 1, 4, 8]), "sizes")],
    )
    expected = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
    np.testing.assert_array_equal(load_on(model, engine)(x), expected)
