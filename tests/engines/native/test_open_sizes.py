# SPDX-License-Identifier: Apache-2.0
"""Kernels of functions whose sizes only a run knows, judged by NumPy."""

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor

# Axes of each operand before the product, and of the result after it; empty: as they are.
LAYOUTS = [
    ((), (), ()),
    ((0, 2, 1, 3), (0, 2, 3, 1), ()),
    ((0, 2, 1, 3), (0, 2, 1, 3), (0, 2, 1, 3)),
    ((1, 0, 3, 2), (), (1, 0, 2, 3)),
    ((3, 1, 2, 0), (), ()),
]
# Batch, heads, rows, columns, inner.
SIZES = [
    (1, 4, 7, 7, 8), (2, 3, 5, 9, 4), (1, 1, 1, 1, 1), (3, 2, 33, 20, 17), (1, 2, 1, 40, 3),
    (2, 2, 6, 1, 5), (1, 3, 64, 64, 32), (2, 1, 3, 3, 0), (0, 2, 3, 4, 5), (2, 4, 0, 3, 2),
]  # fmt: skip


def stored(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape before a Transpose by `axes` that gives `shape`."""
    if not axes:
        return shape
    before = [0] * len(shape)
    for place, axis in enumerate(axes):
        before[axis] = shape[place]
    return tuple(before)


@pytest.mark.parametrize(("a_axes", "b_axes", "y_axes"), LAYOUTS)
@pytest.mark.parametrize("scaled", [False, True])
def test_products_of_computed_operands(
    a_axes: tuple[int, ...], b_axes: tuple[int, ...], y_axes: tuple[int, ...], scaled: bool
) -> None:
    nodes, names = [], []
    for name, axes in (("a", a_axes), ("b", b_axes)):
        names.append(f"{name}_t" if axes else name)
        if axes:
            nodes.append(helper.make_node("Transpose", [name], [f"{name}_t"], perm=axes))
    nodes.append(helper.make_node("MatMul", names, ["product"]))
    last = "product"
    if scaled:
        nodes.append(helper.make_node("Mul", [last, "scale"], ["scaled"]))
        nodes.append(helper.make_node("Add", ["scaled", "shift"], ["shifted"]))
        last = "shifted"
    nodes.append(helper.make_node("Transpose", [last], ["y"], perm=y_axes or (0, 1, 2, 3)))
    model = make_model(
        nodes,
        [tensor(name, TensorProto.FLOAT, [f"{name}{i}" for i in range(4)]) for name in "ab"],
        [tensor("y", TensorProto.FLOAT, [None] * 4)],
        [
            numpy_helper.from_array(np.array(value, np.float32), name)
            for name, value in (("scale", 0.25), ("shift", 2))
        ],
    )
    program = openxrt.load(model, engine="native")
    rng = np.random.default_rng(4)
    for batch, heads, rows, columns, inner in SIZES:
        a = rng.standard_normal(stored((batch, heads, rows, inner), a_axes)).astype(np.float32)
        # Some batches of one matrix that all others meet.
        b_heads = 1 if rows % 2 else heads
        b = rng.standard_normal(stored((batch, b_heads, inner, columns), b_axes))
        b = b.astype(np.float32)
        wanted = np.matmul(a.transpose(a_axes or (0, 1, 2, 3)), b.transpose(b_axes or (0, 1, 2, 3)))
        if scaled:
            wanted = wanted * 0.25 + 2
        wanted = wanted.transpose(y_axes or (0, 1, 2, 3))
        result = program.run({"a": a, "b": b})["y"]
        assert result.shape == wanted.shape
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


def test_products_that_do_not_fit() -> None:
    model = make_model(
        [helper.make_node("MatMul", ["a", "b"], ["y"])],
        [tensor(name, TensorProto.FLOAT, [f"{name}{i}" for i in range(3)]) for name in "ab"],
        [tensor("y", TensorProto.FLOAT, [None] * 3)],
    )
    program = openxrt.load(model, engine="native")
    for n in (2, 3, 4):
        x = np.ones((1, n, n), np.float32)
        np.testing.assert_array_equal(program.run({"a": x, "b": x})["y"], np.full_like(x, n))
    with pytest.raises(openxrt.Error, match="cannot be multiplied"):
        program.run({"a": np.ones((1, 5, 5), np.float32), "b": np.ones((1, 6, 5), np.float32)})
    with pytest.raises(openxrt.Error, match="do not broadcast"):
        program.run({"a": np.ones((2, 5, 5), np.float32), "b": np.ones((3, 5, 5), np.float32)})


def test_layers_over_any_number_of_rows() -> None:
    rng = np.random.default_rng(2)
    weights = {
        "w": rng.standard_normal((12, 20)),
        "bias": rng.standard_normal(20),
        "row": rng.standard_normal((1, 20)),
        "gain": rng.standard_normal(20),
        "offset": rng.standard_normal(20),
    }
    model = make_model(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Add", ["h", "bias"], ["h1"]),
            helper.make_node("Relu", ["h1"], ["h2"]),
            helper.make_node("Mul", ["h2", "row"], ["h3"]),
            helper.make_node("LayerNormalization", ["h3", "gain", "offset"], ["y"], axis=-1),
        ],
        [tensor("x", TensorProto.FLOAT, ["batch", "rows", 12])],
        [tensor("y", TensorProto.FLOAT, ["batch", "rows", 20])],
        [numpy_helper.from_array(v.astype(np.float32), name) for name, v in weights.items()],
    )
    program = openxrt.load(model, engine="native")
    # More sizes than plans are kept, and the first ones again.
    for rows in [*range(1, 90), 1, 40, 89]:
        x = rng.standard_normal((2, rows, 12)).astype(np.float32)
        h = np.maximum(x @ weights["w"] + weights["bias"], 0) * weights["row"]
        centred = h - h.mean(-1, keepdims=True)
        wanted = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        wanted = wanted * weights["gain"] + weights["offset"]
        np.testing.assert_allclose(program.run({"x": x})["y"], wanted, rtol=1e-3, atol=1e-4)
