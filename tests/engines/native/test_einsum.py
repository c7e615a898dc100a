# SPDX-License-Identifier: Apache-2.0
"""Einsum of the native engine against NumPy: any number of operands, repeated and summed labels."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import openxrt
import pytest
from onnx import helper
from small_models import model_proto, untyped

CASES = [
    ("ii,ij->j", [(4, 4), (4, 3)]),
    ("ii->i", [(4, 4)]),
    ("ab,cd,bc->ad", [(3, 4), (5, 6), (4, 5)]),
    ("a,b,c->", [(3,), (4,), (5,)]),
    ("i,j,k->kij", [(3,), (4,), (5,)]),
    ("ab,bc,ca->", [(3, 4), (4, 5), (5, 3)]),
    ("bhid,bhjd,ij->bhij", [(2, 2, 5, 3), (2, 2, 7, 3), (5, 7)]),
    ("...i,...i,ij->...j", [(2, 3, 4), (2, 3, 4), (4, 5)]),
    ("b...,a...,ab", [(3, 2, 2), (4, 2, 2), (4, 3)]),
    ("ij,ij,jk,ij->i", [(3, 4), (3, 4), (4, 0), (3, 4)]),
]


def einsum(equation: str, shapes: list[tuple[int, ...]], dtype: type) -> onnx.ModelProto:
    """A model of one node with inputs x0, x1 and so on."""
    names = [f"x{i}" for i in range(len(shapes))]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs = [
        helper.make_tensor_value_info(name, kind, list(shape))
        for name, shape in zip(names, shapes, strict=True)
    ]
    node = helper.make_node("Einsum", names, ["y"], equation=equation)
    return model_proto([node], inputs, [untyped("y")])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64])
@pytest.mark.parametrize(("equation", "shapes"), CASES)
def test_against_numpy(equation: str, shapes: list[tuple[int, ...]], dtype: type) -> None:
    """Integers are exact."""
    rng = np.random.default_rng(0)
    values = [rng.integers(-4, 5, shape).astype(dtype) for shape in shapes]
    program = openxrt.load(
        einsum(equation, shapes, dtype).SerializeToString(), engine="native", strict=True
    )
    result = program.run({f"x{i}": value for i, value in enumerate(values)})["y"]
    expected = np.einsum(equation, *[value.astype(np.float64) for value in values])
    np.testing.assert_array_equal(result, expected.astype(dtype))


def test_many_operands() -> None:
    """One loop over all labels would take 8 ** 15 turns."""
    labels = "abcdefghijklmno"
    equation = ",".join(a + b for a, b in itertools.pairwise(labels)) + "->a"
    shapes = [(8, 8)] * (len(labels) - 1)
    values = [np.full(shape, 0.125, np.float32) for shape in shapes]
    model = einsum(equation, shapes, np.float32)
    program = openxrt.load(model.SerializeToString(), engine="native", deadline_s=20)
    result = program.run({f"x{i}": value for i, value in enumerate(values)})["y"]
    np.testing.assert_allclose(result, np.ones(8), rtol=1e-5)
