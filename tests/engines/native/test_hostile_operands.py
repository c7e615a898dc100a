# SPDX-License-Identifier: Apache-2.0
"""Operands of sizes that do not go together, or without elements: an error, or an empty result."""

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, untyped

BYTES = TensorProto.UINT8


def products() -> bytes:
    """y = MatMulInteger(a, b, za), ranks and sizes open."""
    node = helper.make_node("MatMulInteger", ["a", "b", "z"], ["y"], name="product")
    inputs = [tensor(name, BYTES, None) for name in "abz"]
    return make_model([node], inputs, [untyped("y")])


def ones(*dims: int) -> np.ndarray:
    return np.ones(dims, np.uint8)


def test_zero_points_of_no_rows() -> None:
    program = openxrt.load(products(), engine="native")
    assert program(ones(0, 3), ones(3, 2), ones(2)).shape == (0, 2)
    assert program(ones(2, 3), ones(3, 2), ones(2)).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("zero", [(2, 2, 2, 2), (3,), (5, 2, 1), (1, 1, 1, 4)])
def test_zero_points_of_another_shape(zero: tuple[int, ...]) -> None:
    program = openxrt.load(products(), engine="native")
    with pytest.raises(openxrt.Error, match="product"):
        program(ones(2, 3), ones(3, 2), ones(*zero))


@pytest.mark.parametrize("engine", ["native", "openvino", "onnxruntime"])
def test_axes_outside_the_rank(engine: str) -> None:
    """OpenVINO's CumSum writes outside of its memory."""
    if engine not in openxrt.engines():
        pytest.skip(f"{engine} is not installed")
    node = helper.make_node("CumSum", ["x", "axis"], ["y"], name="sums")
    inputs = [tensor("x", TensorProto.FLOAT, [3, 4]), tensor("axis", TensorProto.INT64, [])]
    program = openxrt.load(make_model([node], inputs, [untyped("y")]), engine=engine, cache_dir="")
    x = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(program(x, np.int64(-2)), x.cumsum(0))
    for axis in (2, 9, -3, 2**40):
        with pytest.raises(openxrt.Error, match=f"'sums'.*axis {axis} is outside"):
            program(x, np.int64(axis))


def test_sizes_beside_a_zero_that_numpy_cannot_hold() -> None:
    node = helper.make_node("ConstantOfShape", ["sizes"], ["y"])
    model = make_model([node], [tensor("sizes", TensorProto.INT64, [3])], [untyped("y")])
    program = openxrt.load(model, engine="native", cache_dir="")
    assert program(np.array([0, 5, 0])).shape == (0, 5, 0)
    with pytest.raises(openxrt.Error, match=r"shape \[0, 4611686018427387904, 0\] is no array"):
        program(np.array([0, 2**62, 0]))


@pytest.mark.parametrize(
    "lengths", [(-(1 << 40), 2, 0), (0, 2, 0), (2, 1, 0), (1, 2, -1)], ids=lambda v: str(v)
)
def test_lengths_of_grams(lengths: tuple[int, int, int]) -> None:
    """Of a length below zero there are billions of n-grams, in a loop that no clock ends."""
    shortest, longest, skips = lengths
    node = helper.make_node(
        "TfIdfVectorizer",
        ["x"],
        ["y"],
        mode="TF",
        min_gram_length=shortest,
        max_gram_length=longest,
        max_skip_count=skips,
        ngram_counts=[0, 2],
        ngram_indexes=[0, 1, 2],
        pool_int64s=[1, 2, 3, 4],
    )
    model = make_model(
        [node], [tensor("x", TensorProto.INT32, [12])], [tensor("y", TensorProto.FLOAT, [3])]
    )
    with pytest.raises(openxrt.Error, match="min_gram_length"):
        openxrt.load(model, engine="native", cache_dir="").run({"x": np.ones(12, np.int32)})


@pytest.mark.parametrize("n", ["known", "open"])
def test_short_bias(n: str) -> None:
    """A constant of four numbers is not read as the millions that its node has columns."""
    model = make_model(
        [helper.make_node("Gemm", ["x", "w", "b"], ["g"]), helper.make_node("Relu", ["g"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [2 if n == "known" else "n", 1])],
        [tensor("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.ones((1, 10_000_000), np.float32), "w"),
            numpy_helper.from_array(np.ones(4, np.float32), "b"),
        ],
    )
    with pytest.raises(openxrt.InvalidArgument, match=r"does not broadcast|the bias is"):
        openxrt.load(model, engine="native", cache_dir="").run({"x": np.ones((2, 1), np.float32)})
