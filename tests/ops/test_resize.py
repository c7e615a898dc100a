# SPDX-License-Identifier: Apache-2.0
"""Resize by scales that are no whole numbers: which elements are near is decided by a rounding."""

import numpy as np
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, usable

WAYS = ["asymmetric", "half_pixel", "pytorch_half_pixel"]
MODES = [
    ("nearest", "floor"),
    ("nearest", "ceil"),
    ("nearest", "round_prefer_floor"),
    ("nearest", "round_prefer_ceil"),
    ("linear", None),
    ("cubic", None),
]
SCALES = [0.3, 0.9, 1.1, 1.3, 1.6, 1.7, 2.3]
SHAPES = [(1, 2, 9, 11), (1, 2, 8, 6)]  # 1.1 leaves the second one's size as it is


@pytest.mark.parametrize("engine", ["native", "xla", "openvino", "onnxruntime"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("mode", "rounding"), MODES)
def test_fractional_scales(mode: str, rounding: str | None, way: str, engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    attributes = {"mode": mode, "coordinate_transformation_mode": way}
    if rounding is not None:
        attributes["nearest_mode"] = rounding
    for shape in SHAPES:
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        for scale in SCALES:
            model = make_model(
                [helper.make_node("Resize", ["x", "", "scales"], ["y"], **attributes)],
                [tensor("x", TensorProto.FLOAT, list(shape))],
                [tensor("y", TensorProto.FLOAT, None)],
                [numpy_helper.from_array(np.array([1, 1, scale, scale], np.float32), "scales")],
                opset=19,
            )
            wanted = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
            program = openxrt.load(
                model, engine=list(dict.fromkeys((engine, "native"))), cache_dir=""
            )
            found = program.run({"x": x})["y"]
            np.testing.assert_allclose(found, wanted, atol=1e-4, err_msg=f"{shape}, {scale}")


@pytest.mark.parametrize("engine", ["native", "xla", "openvino", "onnxruntime"])
@pytest.mark.parametrize("is_open", [False, True])
def test_sizes_are_counted_in_float(engine: str, is_open: bool) -> None:
    """5 times the float 1.8 are 9 in float, and a little less in double."""
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    for size, scale in ((5, 1.8), (3, 5 / 3), (10, 2.3), (7, 11 / 7), (50, 0.58), (29, 1.1)):
        x = np.arange(size, dtype=np.float32).reshape(1, 1, size)
        model = make_model(
            [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="nearest")],
            [tensor("x", TensorProto.FLOAT, [1, 1, "w"] if is_open else x.shape)],
            [tensor("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(np.array([1, 1, scale], np.float32), "scales")],
            opset=19,
        )
        wanted = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
        program = openxrt.load(model, engine=list(dict.fromkeys((engine, "native"))), cache_dir="")
        np.testing.assert_array_equal(program.run({"x": x})["y"], wanted, f"{size}, {scale}")


@pytest.mark.parametrize("engine", ["native", "xla", "openvino", "onnxruntime"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("axes", [[2, 3], [3, 2], [-1, 2]])
@pytest.mark.parametrize("is_open", [False, True])
def test_the_size_of_what_is_cropped(
    engine: str, mode: str, axes: list[int], is_open: bool
) -> None:
    """Scales count from the whole operand, not from the region that is taken of it."""
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    x = np.arange(24, dtype=np.float32).reshape(1, 2, 4, 3)
    for region, scales in (([0.1, 0.2, 0.9, 0.8], [2, 1.7]), ([0.3, 0.3, 1.2, 0.6], [0.6, 2])):
        model = make_model(
            [
                helper.make_node(
                    "Resize",
                    ["x", "region", "scales"],
                    ["y"],
                    mode=mode,
                    axes=axes,
                    coordinate_transformation_mode="tf_crop_and_resize",
                    extrapolation_value=-1.0,
                )
            ],
            [tensor("x", TensorProto.FLOAT, ["n", 2, "h", "w"] if is_open else x.shape)],
            [tensor("y", TensorProto.FLOAT, None)],
            [
                numpy_helper.from_array(np.array(region, np.float32), "region"),
                numpy_helper.from_array(np.array(scales, np.float32), "scales"),
            ],
            opset=19,
        )
        wanted = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
        program = openxrt.load(model, engine=list(dict.fromkeys((engine, "native"))), cache_dir="")
        np.testing.assert_allclose(program.run({"x": x})["y"], wanted, atol=1e-4)


@pytest.mark.parametrize("engine", ["native", "xla", "openvino"])
@pytest.mark.parametrize("scales", [(4.6e18, 1e9), (4.6e18, 1.0), (1.0, 1e20)])
def test_a_result_that_is_too_large(engine: str, scales: tuple[float, float]) -> None:
    """No size of it fits 64 bits, or all together do not: nothing is computed."""
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    model = make_model(
        [helper.make_node("Resize", ["x", "", "scales"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [1, 1, 4, 4])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([1, 1, *scales], np.float32), "scales")],
    )
    engines = list(dict.fromkeys((engine, "native")))
    with pytest.raises((openxrt.ResourceError, openxrt.InvalidModel), match="Resize"):
        openxrt.load(model, engine=engines, cache_dir="", max_memory_bytes=1 << 28)
