# SPDX-License-Identifier: Apache-2.0
"""Pools of windows of hundreds of elements, beside ONNX Runtime; who would not look at the time
leaves them to others."""

from __future__ import annotations

import time

import numpy as np
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import make_model, tensor, usable

# X, and the attributes beside kernel_shape, which comes first.
CASES: dict[str, tuple[list[int], list[int], dict[str, object]]] = {
    "dense": ([2, 3, 48, 40], [17, 16], {"pads": [8, 8, 8, 7]}),
    "dilated": ([1, 2, 50, 51], [16, 17], {"dilations": [2, 3], "pads": [9, 12, 15, 11]}),
    "strides": ([1, 2, 64, 65], [20, 13], {"strides": [3, 2], "pads": [5, 0, 0, 9]}),
    "no padding": ([1, 2, 64, 65], [20, 13], {"strides": [1, 4]}),
    "another row": ([1, 1, 70, 33], [40, 20], {"ceil_mode": 1, "strides": [7, 5]}),
    "one axis": ([2, 2, 3000], [301], {"auto_pad": "SAME_UPPER"}),
    "three axes": ([1, 2, 12, 13, 14], [7, 6, 7], {"pads": [3, 2, 3, 3, 3, 3]}),
    "as large as the picture": ([1, 1, 60, 60], [60, 60], {"pads": [59, 59, 59, 59]}),
    "mostly padding": ([1, 2, 9, 7], [30, 30], {"pads": [29, 28, 27, 29]}),
}


def pool(op: str, shape: list[int], kernel: list[int], dtype: int, **more: object) -> bytes:
    node = helper.make_node(op, ["x"], ["y"], kernel_shape=kernel, **more)
    return make_model([node], [tensor("x", dtype, shape)], [tensor("y", dtype, None)], opset=22)


def load(model: bytes, *engines: str, **options: object) -> openxrt.Program:
    return openxrt.load(model, engine=engines, cache_dir="", check_results=False, **options)


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool", "LpPool"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("special", [False, True], ids=["", "NaN"])
def test_as_onnx_runtime_has_it(op: str, name: str, special: bool) -> None:
    shape, kernel, more = CASES[name]
    if op == "LpPool" and name == "as large as the picture":
        more = {**more, "p": 3}
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    if special and op != "MaxPool":  # ONNX Runtime loses NaN among maxima
        x.flat[[7, 40]] = np.nan, np.inf
    variants = [more]
    if op == "AveragePool" and "ceil_mode" not in more:
        variants.append({**more, "count_include_pad": 1})
    for each in variants:
        model = pool(op, shape, kernel, TensorProto.FLOAT, **each)
        expected = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
        np.testing.assert_allclose(load(model, "native")(x), expected, rtol=2e-5, atol=1e-6)
        # Of float64 no library pools.
        double = load(pool(op, shape, kernel, TensorProto.DOUBLE, **each), "native")
        np.testing.assert_allclose(double(x.astype(np.float64)), expected, rtol=2e-5, atol=1e-6)


def test_nan_is_the_largest() -> None:
    x = np.zeros([1, 1, 40, 40], np.float64)
    x[0, 0, 20, 20] = np.nan
    result = load(pool("MaxPool", [1, 1, 40, 40], [17, 17], TensorProto.DOUBLE), "native")(x)
    rows = np.arange(24)
    sees = (rows <= 20) & (rows + 17 > 20)
    np.testing.assert_array_equal(np.isnan(result[0, 0]), sees[:, None] & sees[None, :])


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool", "LpPool"])
@pytest.mark.parametrize("engine", ["openvino", "onnxruntime", "xla"])
def test_no_library_has_one_of_minutes(op: str, engine: str) -> None:
    """256 x 256 of each of 768 x 768: 4e10 elements."""
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    model = pool(op, [1, 1, 768, 768], [256, 256], TensorProto.FLOAT, pads=[128] * 4)
    program = load(model, engine, "native")
    begin = time.perf_counter()
    result = program(np.ones([1, 1, 768, 768], np.float32))
    assert time.perf_counter() - begin < 10
    assert program.explain()["nodes_per_engine"] == {"native": 1}
    assert result[0, 0, 300, 300] == (256 if op == "LpPool" else 1)
