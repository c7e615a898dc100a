# SPDX-License-Identifier: Apache-2.0
"""The native engine's convolution over images of few channels, against ONNX's reference."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from small_models import make_model, tensor


def model(
    planes: int, channels: int, window: tuple[int, int], post: str = "", **attributes: object
) -> bytes:
    """A convolution with a bias, an activation, and a tail that reads channels-last memory."""
    rng = np.random.default_rng(planes * channels)
    weights = rng.standard_normal((channels, planes, *window)).astype(np.float32)
    bias = rng.standard_normal(channels).astype(np.float32)
    constants = {"w": weights, "b": bias, "low": np.float32(-0.5), "high": np.float32(1.5)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], **attributes)]
    if post:
        bounds = ["low", "high"] if post == "Clip" else []
        nodes.append(helper.make_node(post, ["c", *bounds], ["p"]))
    tail = helper.make_node("AveragePool", [nodes[-1].output[0]], ["y"], kernel_shape=[1, 1])
    nodes.append(tail)
    return make_model(
        nodes,
        [tensor("x", TensorProto.FLOAT, ["n", planes, "h", "w"])],
        [tensor("y", TensorProto.FLOAT, ["a", "b", "c", "d"])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )


def check(content: bytes, x: np.ndarray, **options: object) -> None:
    program = openxrt.load(content, engine="native", cache_dir="", **options)
    expected = ReferenceEvaluator(onnx.load_from_string(content)).run(None, {"x": x})[0]
    actual = program.run({"x": x})["y"]
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-4)


def image(planes: int, height: int, width: int, images: int = 1) -> np.ndarray:
    rng = np.random.default_rng(height * width)
    return rng.standard_normal((images, planes, height, width)).astype(np.float32)


# A vector is 4, 8 or 16 channels, of which the inner loop takes one, two or four at a time.
@pytest.mark.parametrize("channels", [16, 32, 48, 64, 80, 112])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("width", [4, 19, 41])
def test_channels_strides_and_widths(channels: int, stride: int, width: int) -> None:
    content = model(3, channels, (3, 3), "Relu", strides=[stride, stride])
    check(content, image(3, 7, width))


@pytest.mark.parametrize("planes", [1, 2, 3, 4])
@pytest.mark.parametrize("post", ["", "Relu", "Clip"])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 2, 0, 3], [4, 0, 5, 1]])
def test_planes_activations_and_padding(planes: int, post: str, pads: list[int]) -> None:
    content = model(planes, 32, (5, 3), post, strides=[2, 1], pads=pads)
    check(content, image(planes, 9, 23, images=2), num_threads=2)


def test_the_window_of_automatic_padding() -> None:
    content = model(3, 16, (7, 7), "Relu", strides=[2, 2], auto_pad="SAME_UPPER")
    check(content, image(3, 30, 33))


def test_what_is_no_number_stays() -> None:
    x = image(3, 8, 30)
    x[0, 1, 4, 7] = np.nan
    x[0, 2, 2, 20] = np.inf
    content = model(3, 16, (1, 1), "Relu")
    weights, bias = (
        numpy_helper.to_array(i) for i in onnx.load_from_string(content).graph.initializer[:2]
    )
    sums = np.einsum("ocij,nchw->nohw", weights, x) + bias[:, None, None]
    expected = np.where(sums < 0, 0, sums)  # and no number where there is none
    actual = openxrt.load(content, engine="native", cache_dir="").run({"x": x})["y"]
    assert np.isnan(expected).sum() == 16
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-4)


def test_it_is_what_computes_and_comes_back_from_the_disk_cache(tmp_path: Path) -> None:
    """In processes of their own: the profile is printed when a program goes."""
    code = f"""
        import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
        import openxrt, test_image_conv as t
        program = openxrt.load(t.model(3, 32, (3, 3), "Relu"), engine="native",
                               cache_dir={str(tmp_path)!r})
        print(float(program.run({{"x": t.image(3, 20, 20)}})["y"].sum()))
    """
    sums = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(line.strip() for line in code.splitlines())],
            env=os.environ | {"XRT_NATIVE_PROFILE": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        assert "ImageConv" in done.stdout + done.stderr
        sums.append(done.stdout.splitlines()[0])
    assert sums[0] == sums[1]
    assert list(tmp_path.rglob("*"))
