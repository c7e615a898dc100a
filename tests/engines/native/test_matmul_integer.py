# SPDX-License-Identifier: Apache-2.0
"""MatMulInteger with packed weights, beside NumPy's sums of whole numbers."""

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from small_models import make_model, tensor

KINDS = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}


def extremes(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Numbers of all sizes, half of them the lowest and the highest: sums of 16 bits overflow."""
    info = np.iinfo(dtype)
    some = rng.integers(info.min, info.max + 1, shape)
    ends = rng.choice([info.min, info.max], shape)
    return np.where(rng.random(shape) < 0.5, some, ends).astype(dtype)


def run(a: np.ndarray, b: np.ndarray, zeros: list[np.ndarray | None], constant: bool) -> np.ndarray:
    """On the engine, with b and its zero point constant or not."""
    feeds = {"a": a, "b": b} | {
        name: zero for name, zero in zip(("az", "bz"), zeros, strict=True) if zero is not None
    }
    names = ["a", "b", *("" if z is None else n for n, z in zip(("az", "bz"), zeros, strict=True))]
    stored = {"b", "bz"} & feeds.keys() if constant else set()
    model = make_model(
        [helper.make_node("MatMulInteger", names, ["y"])],
        [tensor(n, KINDS[v.dtype.type], v.shape) for n, v in feeds.items() if n not in stored],
        [tensor("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(feeds[n], n) for n in sorted(stored)],
    )
    program = openxrt.load(model, engine="native", strict=True, cache_dir="")
    return program.run({n: v for n, v in feeds.items() if n not in stored})["y"]


@pytest.mark.parametrize("b_type", KINDS)
@pytest.mark.parametrize("a_type", KINDS)
@pytest.mark.parametrize("zero", ["none", "one", "many"])
@pytest.mark.parametrize("depth", [1, 7, 64, 130])
def test_sums_are_exact(a_type: type, b_type: type, zero: str, depth: int) -> None:
    rng = np.random.default_rng(depth)
    for rows, columns in ((1, 1), (1, 40), (5, 33), (70, 130)):
        a = extremes(rng, (rows, depth), a_type)
        b = extremes(rng, (depth, columns), b_type)
        zeros: list[np.ndarray | None] = [None, None]
        if zero == "one":
            zeros = [extremes(rng, (), a_type), extremes(rng, (), b_type)]
        if zero == "many":
            zeros = [extremes(rng, (rows,), a_type), extremes(rng, (columns,), b_type)]
        of_rows = 0 if zeros[0] is None else np.int32(zeros[0]).reshape(-1, 1)
        of_columns = 0 if zeros[1] is None else np.int32(zeros[1])
        wanted = (a.astype(np.int32) - of_rows) @ (b.astype(np.int32) - of_columns)
        np.testing.assert_array_equal(run(a, b, zeros, constant=True), wanted)
        np.testing.assert_array_equal(run(a, b, zeros, constant=False), wanted)


@pytest.mark.parametrize("a_type", KINDS)
def test_batches_and_vectors(a_type: type) -> None:
    rng = np.random.default_rng(0)
    b = extremes(rng, (12, 20), np.int8)
    for shape in ((12,), (3, 4, 12), (0, 12)):
        a = extremes(rng, shape, a_type)
        wanted = a.astype(np.int32) @ b.astype(np.int32)
        np.testing.assert_array_equal(run(a, b, [None, None], constant=True), wanted)


def test_weights_without_the_lowest_byte() -> None:
    """They have a way of their own where pairs of products are added in 16 bits."""
    rng = np.random.default_rng(0)
    b = np.where(rng.random((96, 70)) < 0.5, -127, 127).astype(np.int8)
    a = rng.choice([0, 255], (9, 96)).astype(np.uint8)
    for constant in (a, np.full_like(a, 255), np.zeros_like(a)):
        wanted = constant.astype(np.int32) @ b.astype(np.int32)
        np.testing.assert_array_equal(run(constant, b, [None, None], constant=True), wanted)


def test_zero_points_that_do_not_fit() -> None:
    b = np.ones((4, 3), np.int8)
    a = np.ones((2, 4), np.uint8)
    with pytest.raises(openxrt.Error, match="input 2 has 3 elements for 2 lines"):
        run(a, b, [np.ones(3, np.uint8), None], constant=True)


@pytest.mark.parametrize("zero", [None, 0, 7])
@pytest.mark.parametrize("dtype", KINDS)
def test_weights_behind_quantised_data(dtype: type, zero: int | None) -> None:
    """As quantize_dynamic() writes a product, with and without a zero point of the weights."""
    rng = np.random.default_rng(0)
    b = extremes(rng, (16, 8), dtype)
    stored = {"b": b, "b_scale": np.float32(0.02)}
    names = ["q", "b", "zero"]
    if zero is not None:
        stored["b_zero"] = np.array(zero, dtype)
        names.append("b_zero")
    model = make_model(
        [
            helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
            helper.make_node("MatMulInteger", names, ["sums"]),
            helper.make_node("Cast", ["sums"], ["numbers"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["scale", "b_scale"], ["both"]),
            helper.make_node("Mul", ["numbers", "both"], ["y"]),
        ],
        [tensor("x", TensorProto.FLOAT, ["n", 16])],
        [tensor("y", TensorProto.FLOAT, ["n", 8])],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in stored.items()],
    )
    x = rng.standard_normal((3, 16)).astype(np.float32)
    # ONNX Runtime's sums saturate on processors without VNNI.
    wanted = ReferenceEvaluator(onnx.load_from_string(model)).run(None, {"x": x})[0]
    program = openxrt.load(model, engine="native", strict=True, cache_dir="")
    np.testing.assert_allclose(program.run({"x": x})["y"], wanted, rtol=1e-5, atol=1e-5)
