# SPDX-License-Identifier: Apache-2.0
"""Products with, and rows of, weights of 4 and 8 bits: the native engine against NumPy and ONNX
Runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import openxrt
import pytest
from block_weights import BlockMatrix, initializer
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, model_proto, tensor

onnxruntime = pytest.importorskip("onnxruntime")

KINDS = {
    "int4": TensorProto.INT4,
    "uint4": TensorProto.UINT4,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
}


def native(model: bytes | Path, **options: object) -> openxrt.Program:
    return openxrt.load(model, engine="native", strict=True, **options)


def remarks(program: openxrt.Program) -> str:
    return str(program.explain())


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 12, 13, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_rows(kind: str, rows: int) -> None:
    w = BlockMatrix.random(256, 192, kind=KINDS[kind], seed=rows)
    program = native(w.product(["rows", 256], bias=True))
    assert f"products that read weights of {kind[-1]} bits: 1" in remarks(program)
    x = np.random.default_rng(1).normal(size=(rows, 256)).astype(np.float32)
    wanted = x.astype(np.float64) @ w.numbers() + np.linspace(-1, 1, 192)
    np.testing.assert_allclose(program(x), wanted, rtol=1e-5, atol=2e-4)


@pytest.mark.parametrize("rows", [1, 5, 30])
@pytest.mark.parametrize(
    ("depth", "columns", "block"),
    [(256, 70, 32), (200, 128, 64), (201, 99, 16), (130, 257, 128), (300, 64, 0), (77, 300, 256)],
)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["int4", "uint8"])
def test_odd_sizes(kind: str, axis: int, depth: int, columns: int, block: int, rows: int) -> None:
    zeros = kind == "uint8"
    w = BlockMatrix.random(
        depth, columns, kind=KINDS[kind], axis=axis, block=block, zeros=zeros, seed=depth
    )
    program = native(w.product([rows, depth], gemm=depth % 2 == 1, bias=True))
    assert "products that read weights" in remarks(program)
    x = np.random.default_rng(2).normal(size=(rows, depth)).astype(np.float32)
    wanted = x.astype(np.float64) @ w.numbers() + np.linspace(-1, 1, columns)
    np.testing.assert_allclose(program(x), wanted, rtol=1e-5, atol=5e-4)


@pytest.mark.parametrize("shape", [(256,), (2, 3, 256), (0, 256)])
def test_ranks(shape: tuple[int, ...]) -> None:
    w = BlockMatrix.random(256, 128)
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    wanted = x.astype(np.float64) @ w.numbers()
    found = native(w.product(list(shape)))(x)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-4)


@pytest.mark.parametrize("rows", [1, 20])
def test_half(rows: int) -> None:
    w = BlockMatrix.random(256, 192, dtype=np.float16)
    program = native(w.product([rows, 256], bias=True))
    assert "products that read weights of 4 bits: 1" in remarks(program)
    x = np.random.default_rng(4).normal(size=(rows, 256)).astype(np.float16)
    wanted = x.astype(np.float64) @ w.numbers() + np.linspace(-1, 1, 192)
    found = program(x)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3)


def test_cache(tmp_path: Path) -> None:
    w = BlockMatrix.random(256, 192, zeros=True)
    plain = BlockMatrix.random(256, 192, kind=TensorProto.INT4, zeros=False)
    x = np.random.default_rng(5).normal(size=(3, 256)).astype(np.float32)
    for matrix in (w, plain):
        content = matrix.product([3, 256], bias=True)
        first = native(content, cache_dir=tmp_path)(x)
        np.testing.assert_array_equal(native(content, cache_dir=tmp_path)(x), first)


@pytest.mark.parametrize("rows", [1, 3, 6, 33])
@pytest.mark.parametrize("kind", KINDS)
def test_rounded_activations(kind: str, rows: int) -> None:
    """Each block of a row is rounded to int8, as NumPy does it here."""
    w = BlockMatrix.random(256, 192, kind=KINDS[kind], seed=7)
    x = np.random.default_rng(6).normal(size=(rows, 256)).astype(np.float32)
    parts = x.reshape(rows, 8, 32)
    step = np.abs(parts).max(-1, keepdims=True) / np.float32(127)
    rounded = (np.rint(parts / step) * step).reshape(x.shape).astype(np.float64)
    options = {"engine_options": {"native": {"activations": "int8"}}}
    found = native(w.product([rows, 256]), **options)(x)
    np.testing.assert_allclose(found, rounded @ w.numbers(), rtol=1e-4, atol=2e-3)
    with pytest.raises(openxrt.InvalidArgument, match="float or int8"):
        native(w.product([rows, 256]), engine_options={"native": {"activations": "int9"}})


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("rows", [1, 4, 50])
def test_matmul_nbits(bits: int, dtype: type, rows: int) -> None:
    rng = np.random.default_rng(bits)
    k, n, block = 256, 128, 32
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    packed = rng.integers(0, 256, (n, k // block, block * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.01, 0.1, n * k // block).astype(dtype)
    content = make_model(
        [
            helper.make_node(
                "MatMulNBits",
                ["x", "q", "s"],
                ["y"],
                domain="com.microsoft",
                bits=bits,
                block_size=block,
                N=n,
                K=k,
            )
        ],
        [tensor("x", kind, [rows, k])],
        [tensor("y", kind, [rows, n])],
        [numpy_helper.from_array(packed, "q"), numpy_helper.from_array(scales, "s")],
        domains={"com.microsoft": 1},
    )
    x = rng.normal(size=(rows, k)).astype(dtype)
    (wanted,) = onnxruntime.InferenceSession(content).run(None, {"x": x})
    program = native(content)
    assert f"products that read weights of {bits} bits: 1" in remarks(program)
    tolerance = 2e-3 if dtype == np.float32 else 2e-2
    np.testing.assert_allclose(program(x), wanted, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("block", [0, 16, 64])
@pytest.mark.parametrize("kind", ["int4", "uint4", "int8"])
def test_tables(kind: str, block: int) -> None:
    # A table's rows are what a product calls columns.
    w = BlockMatrix.random(96, 300, kind=KINDS[kind], axis=1, block=block)
    content = model_proto(
        [w.dequantize(), helper.make_node("Gather", ["w", "i"], ["y"])],
        [tensor("i", TensorProto.INT64, ["n", 2])],
        [tensor("y", TensorProto.FLOAT, ["n", 2, 96])],
        w.initializers(),
    ).SerializeToString()
    program = native(content)
    assert "tables of few bits that rows are taken from: 1" in remarks(program)
    indices = np.array([[0, 299], [-1, 17], [5, -300]])
    np.testing.assert_allclose(program(indices), w.numbers().T[indices], rtol=1e-6)
    with pytest.raises(openxrt.Error, match="outside an axis of size 300"):
        program(np.array([[0, 300]]))


@pytest.mark.parametrize("isa", ["SSE41", "AVX2", "AVX512_CORE"])
def test_smaller_processors(isa: str) -> None:
    """The loops of other instruction sets: tests of this file in a process without larger ones."""
    names = "test_rows or test_odd_sizes or test_rounded_activations or test_half"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", names],
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": isa},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_shared_weights() -> None:
    """One matrix is read by a product, by a Gather and as it is."""
    w = BlockMatrix.random(64, 256, axis=1, block=32)
    content = model_proto(
        [
            w.dequantize(),
            helper.make_node("Gather", ["w", "i"], ["rows"]),
            helper.make_node("Gemm", ["rows", "w"], ["y"], transB=1),
            helper.make_node("ReduceSum", ["w"], ["all"], keepdims=0),
        ],
        [tensor("i", TensorProto.INT64, [3])],
        [tensor("y", TensorProto.FLOAT, [3, 256]), tensor("all", TensorProto.FLOAT, [])],
        w.initializers(),
    ).SerializeToString()
    y, total = native(content).run({"i": np.array([1, 0, 255])}).values()
    numbers = w.numbers()
    np.testing.assert_allclose(y, numbers.T[[1, 0, 255]] @ numbers, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(total, numbers.sum(), rtol=1e-4)


def test_what_is_refused_stays_right() -> None:
    """Scales along the other axis, and blocks that no kernel reads."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(2, 240)).astype(np.float32)
    for block in (12, 240):
        w = BlockMatrix.random(240, 96, block=block)
        wanted = x.astype(np.float64) @ w.numbers()
        np.testing.assert_allclose(native(w.product([2, 240]))(x), wanted, rtol=1e-4, atol=1e-3)
    q = rng.integers(-8, 8, (240, 96))
    s = rng.uniform(0.1, 1, 240).astype(np.float32)
    content = model_proto(
        [
            helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0),
            helper.make_node("MatMul", ["x", "w"], ["y"]),
        ],
        [tensor("x", TensorProto.FLOAT, [2, 240])],
        [tensor("y", TensorProto.FLOAT, [2, 96])],
        [initializer("q", q, TensorProto.INT4), numpy_helper.from_array(s, "s")],
    ).SerializeToString()
    np.testing.assert_allclose(native(content)(x), x @ (q * s[:, None]), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("activations", ["float", "int8"])
@pytest.mark.parametrize("halves", [True, False])
@pytest.mark.parametrize("rows", [1, 3, 12, 40])
@pytest.mark.parametrize(("columns", "block"), [(192, 32), (70, 16)])
def test_offsets(columns: int, block: int, rows: int, halves: bool, activations: str) -> None:
    """A number beside the scale of each block, as the other product of an Add."""
    rng = np.random.default_rng(columns)
    depth = 256
    q = rng.integers(0, 16, (columns, depth), np.uint8)
    kind = np.float16 if halves else np.float32
    scale, offset = (
        rng.uniform(-1, 1, (columns, depth // block)).astype(kind).astype(np.float32)
        for _ in range(2)
    )
    g = openxrt.Graph()
    x = g.add_input("x", "float32", ["b", "rows", depth])
    values = [
        g.add_constant(q.view(ml_dtypes.uint4), "uint4", "q"),
        g.add_constant(scale, "float32", "scale"),
    ]
    [w] = g.add_node("DequantizeLinear", values, ["w"], {"axis": 1, "block_size": block})
    [turned] = g.add_node("Transpose", [w], ["turned"], {"perm": [1, 0]})
    [product] = g.add_node("MatMul", [x, turned], ["product"])
    shape = g.add_constant(np.array([0, 0, -1, block]), "int64", "shape")
    [parts] = g.add_node("Reshape", [x, shape], ["parts"])
    last = g.add_constant(np.array([-1]), "int64", "last")
    [sums] = g.add_node("ReduceSum", [parts, last], ["sums"], {"keepdims": 0})
    offsets = g.add_constant(np.ascontiguousarray(offset.T), "float32", "offsets")
    [shifted] = g.add_node("MatMul", [sums, offsets], ["shifted"])
    g.add_output(g.add_node("Add", [product, shifted], ["y"])[0])
    g.finish()
    program = native(g, engine_options={"native": {"activations": activations}})
    data = rng.normal(size=(1, rows, depth)).astype(np.float32)
    found = program(data)
    assert "products that read weights of 4 bits: 1" in remarks(program)
    dense = q * np.repeat(scale.astype(np.float64), block, 1) + np.repeat(offset, block, 1)
    if activations == "int8":
        split = data.reshape(-1, block)
        step = np.abs(split).max(-1, keepdims=True) / np.float32(127)
        data = (np.rint(split / step) * step).reshape(data.shape)
    np.testing.assert_allclose(found, data.astype(np.float64) @ dense.T, rtol=1e-4, atol=3e-3)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rounded_activations_that_are_no_numbers(value: float) -> None:
    w = BlockMatrix.random(256, 192)
    x = np.ones((2, 256), np.float32)
    x[1, 40] = value
    options = {"engine_options": {"native": {"activations": "int8"}}}
    found = native(w.product([2, 256]), **options)(x)
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).all()
