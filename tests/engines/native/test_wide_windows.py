# SPDX-License-Identifier: Apache-2.0
"""Convolutions by windows of hundreds of elements over few channels, beside ONNX Runtime, and ended
by a limit."""

from __future__ import annotations

import time

import numpy as np
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, usable

# X, W, group and the other attributes of Conv.
CASES: dict[str, tuple[list[int], list[int], int, dict[str, object]]] = {
    "dense": ([1, 1, 48, 40], [1, 1, 17, 16], 1, {"pads": [8, 8, 8, 7]}),
    "dilated": ([2, 3, 50, 51], [5, 3, 16, 17], 1, {"dilations": [2, 3], "pads": [9, 20, 15, 11]}),
    "many outputs": ([1, 1, 40, 40], [32, 1, 16, 16], 1, {"dilations": [2, 2]}),
    "strides": ([1, 2, 64, 65], [4, 2, 20, 13], 1, {"strides": [3, 2], "pads": [5, 0, 0, 9]}),
    "groups": ([2, 9, 40, 40], [18, 1, 16, 16], 9, {"dilations": [2, 2], "strides": [1, 2]}),
    "one axis": ([2, 2, 3000], [3, 2, 301], 1, {"auto_pad": "SAME_UPPER"}),
    "three axes": ([1, 2, 12, 13, 14], [2, 2, 7, 6, 7], 1, {"pads": [3, 2, 3, 3, 3, 3]}),
    "as large as the picture": ([1, 1, 60, 60], [1, 1, 60, 60], 1, {"pads": [59, 59, 59, 59]}),
}

TRANSPOSED: dict[str, tuple[list[int], list[int], int, dict[str, object]]] = {
    "dense": ([1, 1, 30, 31], [1, 1, 17, 16], 1, {"pads": [8, 8, 8, 7]}),
    "dilated": ([2, 3, 25, 26], [3, 5, 16, 17], 1, {"dilations": [2, 3], "pads": [9, 20, 15, 11]}),
    "strides": (
        [1, 2, 20, 21],
        [2, 4, 20, 13],
        1,
        {"strides": [3, 2], "pads": [5, 0, 0, 9], "output_padding": [1, 1]},
    ),
    "groups": ([2, 9, 20, 20], [9, 2, 16, 16], 9, {"dilations": [2, 2], "strides": [1, 2]}),
    "one axis": ([2, 2, 900], [2, 3, 301], 1, {"strides": [2]}),
    "three axes": ([1, 2, 8, 9, 7], [2, 2, 7, 6, 7], 1, {"pads": [3, 2, 3, 3, 3, 3]}),
    "strides and gaps": (
        [1, 16, 20, 21],
        [16, 8, 6, 7],
        1,
        {"strides": [3, 2], "dilations": [2] * 2},
    ),
    "a channel each, strides and gaps": (
        [1, 12, 20, 21],
        [12, 1, 3, 3],
        12,
        {"strides": [2, 2], "dilations": [2, 2], "pads": [1, 0, 2, 1]},
    ),
    "few elements, strides and gaps": (
        [2, 16, 20, 21],
        [16, 24, 3, 3],
        1,
        {"strides": [2, 2], "dilations": [2, 2], "output_padding": [1, 0]},
    ),
}


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(
    ("op", "name"),
    [*(("Conv", name) for name in CASES), *(("ConvTranspose", name) for name in TRANSPOSED)],
)
def test_they_are_those_of_onnx_runtime(op: str, name: str, is_open: bool, relu: bool) -> None:
    x_dims, w_dims, group, attributes = (CASES if op == "Conv" else TRANSPOSED)[name]
    rng = np.random.default_rng(0)
    x = rng.random(x_dims, np.float32)
    w = rng.standard_normal(w_dims).astype(np.float32)
    outputs = w_dims[0] if op == "Conv" else w_dims[1] * group
    b = rng.standard_normal(outputs).astype(np.float32)
    nodes = [helper.make_node(op, ["x", "w", "b"], ["c"], group=group, **attributes)]
    nodes.append(helper.make_node("Relu" if relu else "Identity", ["c"], ["y"]))
    declared = ["n", x_dims[1], *"hwd"[: len(x_dims) - 2]] if is_open else x_dims
    model = make_model(
        nodes,
        [tensor("x", TensorProto.FLOAT, declared)],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")],
    )
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": x})
    found = openxrt.load(model, engine="native", cache_dir="").run({"x": x})["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_strides_and_gaps_of_many_windows_take_no_seconds() -> None:
    """13 s where oneDNN has no memory for the matrix of all windows and walks over elements."""
    w = np.ones((16, 16, 32, 32), np.float32)
    attributes = {"strides": [3, 3], "dilations": [2, 2], "pads": [20] * 4}
    model = make_model(
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)],
        [tensor("x", TensorProto.FLOAT, [1, 16, 64, 64])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w")],
    )
    x = np.ones((1, 16, 64, 64), np.float32)
    program = openxrt.load(model, engine="native", cache_dir="")
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    begin = time.perf_counter()
    found = program.run({"x": x})["y"]
    assert time.perf_counter() - begin < 5
    (wanted,) = session.run(None, {"x": x})
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


@pytest.mark.parametrize("engine", ["openvino", "xla"])
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_engines_without_a_kernel_leave_them(op: str, engine: str) -> None:
    """A minute and more in a call that no limit ends."""
    if not usable(engine):
        pytest.skip(f"engine {engine} is not usable here")
    w = np.ones((1, 1, 80, 80), np.float32)
    model = make_model(
        [helper.make_node(op, ["x", "w"], ["y"], pads=[40] * 4)],
        [tensor("x", TensorProto.FLOAT, [1, 1, 100, 100])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w")],
    )
    program = openxrt.load(model, engine=[engine, "native"], cache_dir="")
    assert program.explain().nodes_per_engine == {"native": 1}


def test_millions_of_elements_lose_no_digits() -> None:
    """Their sum, which ONNX Runtime takes long for, by NumPy in float64."""
    x = np.random.default_rng(0).random((1, 1, 1500, 1500), np.float32)
    w = np.ones((1, 1, 1500, 1500), np.float32)
    model = make_model(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        [tensor("x", TensorProto.FLOAT, list(x.shape))],
        [tensor("y", TensorProto.FLOAT, [1, 1, 1, 1])],
        [numpy_helper.from_array(w, "w")],
    )
    found = openxrt.load(model, engine="native", cache_dir="").run({"x": x})["y"]
    assert found.item() == pytest.approx(x.sum(dtype=np.float64), rel=1e-5)


@pytest.mark.parametrize("dilation", [1, 2])
def test_a_limit_ends_what_takes_hours(dilation: int) -> None:
    size = 1024
    w = np.ones((1, 1, size, size), np.float32)
    pad = (size - 1) * dilation // 2
    model = make_model(
        [
            helper.make_node(
                "Conv", ["x", "w"], ["y"], dilations=[dilation] * 2, pads=[pad] * 4, name="far"
            )
        ],
        [tensor("x", TensorProto.FLOAT, [1, 1, 4096, 4096])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, "w")],
    )
    program = openxrt.load(model, engine="native", cache_dir="", deadline_s=30)
    begin = time.perf_counter()
    # It is ended, or not begun where it is known to take longer.
    with pytest.raises(openxrt.ResourceError, match=r"'far'.*limit of 0\.5 s"):
        program.run({"x": np.ones((1, 1, 4096, 4096), np.float32)}, timeout=0.5)
    assert time.perf_counter() - begin < 10
