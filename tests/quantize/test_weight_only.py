# SPDX-License-Identifier: Apache-2.0
"""Quantisation without samples: weights alone, and ranges that each run finds. The files are judged
by ONNX Runtime, their numbers by NumPy."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import openxrt
import openxrt.quantize
import pytest
from onnx import TensorProto, helper, numpy_helper
from openxrt import _command
from small_models import model_proto, tensor, usable

onnxruntime = pytest.importorskip("onnxruntime")


def network(path: Path, *, dtype: type = np.float32) -> Path:
    """Embedding, product, Gemm."""
    rng = np.random.default_rng(0)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.normal(size=shape).astype(dtype) / 8, name)

    model = model_proto(
        [
            helper.make_node("Gather", ["table", "i"], ["e"], name="embed"),
            helper.make_node("MatMul", ["e", "w0"], ["a"], name="first"),
            helper.make_node("Relu", ["a"], ["b"], name="relu"),
            helper.make_node("Reshape", ["b", "shape"], ["c"], name="flat"),
            helper.make_node("Gemm", ["c", "w1", "bias"], ["y"], name="second", transB=1),
        ],
        [tensor("i", TensorProto.INT64, ["n"])],
        [tensor("y", kind, ["n", 96])],
        [
            weight("table", 100, 128),
            weight("w0", 128, 160),
            weight("w1", 96, 160),
            weight("bias", 96),
            numpy_helper.from_array(np.array([-1, 160]), "shape"),
        ],
    )
    onnx.save(model, path)
    return path


def decibels(found: np.ndarray, wanted: np.ndarray) -> float:
    error = found.astype(np.float64) - wanted
    signal = (wanted.astype(np.float64) ** 2).sum()
    return float(10 * np.log10(signal / max((error**2).sum(), 1e-30)))


@pytest.mark.parametrize("block", [0, 32, 64, 128])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("weights", ["int4", "int8"])
def test_one_file_everywhere(tmp_path: Path, weights: str, symmetric: bool, block: int) -> None:
    plain = network(tmp_path / "plain.onnx")
    small = tmp_path / "small.onnx"
    said = openxrt.quantize.quantize(
        plain, small, weights=weights, block=block, symmetric=symmetric
    )
    assert "weights of 2 products and 1 tables" in said
    onnx.checker.check_model(str(small), full_check=True)
    indices = np.arange(12) * 7
    (wanted,) = onnxruntime.InferenceSession(plain).run(None, {"i": indices})
    (judged,) = onnxruntime.InferenceSession(small).run(None, {"i": indices})
    assert decibels(judged, wanted) > (34 if weights == "int8" else 12)
    for engine in ("native", "openvino", "xla", "tvm"):
        if usable(engine):
            found = openxrt.load(small, engine=engine)(indices)
            # OpenVINO rounds the other factor where weights are compressed.
            assert decibels(found, judged) > (30 if engine == "openvino" else 50), engine


def numbers_of(path: Path) -> dict[str, np.ndarray]:
    """What the DequantizeLinear nodes of a model make."""
    graph = onnx.load(path).graph
    values = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    found = {}
    for node in graph.node:
        if node.op_type != "DequantizeLinear":
            continue
        q, s = (values[name] for name in node.input[:2])
        z = values[node.input[2]] if len(node.input) > 2 else np.zeros(s.shape)
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
        s, z = s.astype(np.float64), z.astype(np.float64)
        if block:
            s, z = (np.take(np.repeat(v, block, axis), range(q.shape[axis]), axis) for v in (s, z))
        else:
            shape = [-1 if d == axis else 1 for d in range(q.ndim)]
            s, z = s.reshape(shape), z.reshape(shape)
        found[node.input[0].removesuffix("/quantized")] = (q.astype(np.float64) - z) * s
    return found


@pytest.mark.parametrize("symmetric", [False, True])
def test_scales_are_searched(tmp_path: Path, symmetric: bool) -> None:
    """The squared error of each block is no larger than with rounding to the largest weight."""
    plain = network(tmp_path / "plain.onnx")
    small = tmp_path / "small.onnx"
    openxrt.quantize.quantize(plain, small, weights="int4", block=32, symmetric=symmetric)
    made = numbers_of(small)
    originals = {t.name: numpy_helper.to_array(t) for t in onnx.load(plain).graph.initializer}
    assert set(made) == {"table", "w0", "w1"}
    for name, found in made.items():
        w = originals[name].astype(np.float64)
        blocks = (w.T if name == "w0" else w).reshape(-1, 32)
        theirs = (found.T if name == "w0" else found).reshape(-1, 32)
        low = np.minimum(blocks.min(1, keepdims=True), 0)
        high = np.maximum(blocks.max(1, keepdims=True), 0)
        if symmetric:
            step = np.maximum(-low, high) / 7
            nearest = np.clip(np.rint(blocks / step), -7, 7) * step
        else:
            step = (high - low) / 15
            zero = np.rint(-low / step)
            nearest = (np.clip(np.rint(blocks / step) + zero, 0, 15) - zero) * step
        ours = ((theirs - blocks) ** 2).sum(1)
        plainly = ((nearest - blocks) ** 2).sum(1)
        assert (ours <= plainly * 1.001).all()
        assert ours.sum() < 0.93 * plainly.sum()


def test_half(tmp_path: Path) -> None:
    plain = network(tmp_path / "plain.onnx", dtype=np.float16)
    small = tmp_path / "small.onnx"
    openxrt.quantize.quantize(plain, small, weights="int4")
    onnx.checker.check_model(str(small), full_check=True)
    indices = np.arange(12)
    (wanted,) = onnxruntime.InferenceSession(plain).run(None, {"i": indices})
    found = openxrt.load(small, engine="native")(indices)
    assert found.dtype == np.float16
    assert decibels(found, wanted) > 12


@pytest.mark.parametrize("rows", [1, 9])
def test_dynamic(tmp_path: Path, rows: int) -> None:
    """As ONNX Runtime's own quantiser, which has one scale for a whole matrix."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    plain, small, theirs = (tmp_path / name for name in ("plain.onnx", "small.onnx", "ort.onnx"))
    network(plain)
    said = openxrt.quantize.quantize(plain, small, dynamic=True)
    assert "2 of 2 MatMul and Gemm nodes" in said
    onnx.checker.check_model(str(small), full_check=True)
    quantization.quantize_dynamic(str(plain), str(theirs), op_types_to_quantize=["MatMul", "Gemm"])
    indices = np.arange(rows) * 11
    (wanted,) = onnxruntime.InferenceSession(plain).run(None, {"i": indices})
    exact = onnxruntime.SessionOptions()  # also without VNNI, where its sums saturate otherwise
    exact.add_session_config_entry("session.x64quantprecision", "1")
    (judged,) = onnxruntime.InferenceSession(small, exact).run(None, {"i": indices})
    (other,) = onnxruntime.InferenceSession(theirs).run(None, {"i": indices})
    assert decibels(judged, wanted) > decibels(other, wanted) - 0.5
    program = openxrt.load(small, engine="native", strict=True)
    assert decibels(program(indices), wanted) > decibels(other, wanted) - 0.5
    assert "2 of 2 quantised nodes run in integers" in str(program.explain())


@pytest.mark.parametrize("options", [{"weights": "int8"}, {"weights": "int4"}, {"dynamic": True}])
@pytest.mark.parametrize("size", [1e-38, 1e-32, 1e-29, 1e20])
def test_weights_of_any_size(tmp_path: Path, size: float, options: dict) -> None:
    """Those below 1e-30 stay as they are."""
    rng = np.random.default_rng(0)
    model = model_proto(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")],
        [tensor("x", TensorProto.FLOAT, ["n", 128])],
        [tensor("y", TensorProto.FLOAT, ["n", 64])],
        [numpy_helper.from_array((rng.standard_normal((128, 64)) * size).astype(np.float32), "w")],
    )
    onnx.save(model, tmp_path / "m.onnx")
    said = openxrt.quantize.quantize(tmp_path / "m.onnx", tmp_path / "q.onnx", **options)
    kept = "node 'product' stays in floating point: its weights are too small for int8" in said
    assert kept == (size < 1e-30), said
    if kept:
        (constant,) = onnx.load(tmp_path / "q.onnx").graph.initializer
        np.testing.assert_array_equal(
            numpy_helper.to_array(constant), numpy_helper.to_array(model.graph.initializer[0])
        )
        return
    x = rng.standard_normal((4, 128)).astype(np.float32)
    wanted = x.astype(np.float64) @ numpy_helper.to_array(model.graph.initializer[0])
    found = onnxruntime.InferenceSession(tmp_path / "q.onnx").run(None, {"x": x})[0]
    least = 15 if options.get("weights") == "int4" else 25
    assert decibels(found / size, wanted / size) > least
    own = openxrt.load(tmp_path / "q.onnx", engine="native")(x)
    assert decibels(own / size, wanted / size) > least


def test_what_stays(tmp_path: Path) -> None:
    plain, small = tmp_path / "plain.onnx", tmp_path / "small.onnx"
    network(plain)
    said = openxrt.quantize.quantize(plain, small, weights="int4", keep_float=["first"])
    assert "weights of 1 products and 1 tables in 4 bits, 1 in floating point" in said
    said = openxrt.quantize.quantize(plain, small, dynamic=True, keep_float=["first", "second"])
    assert "0 of 2" in said


def test_errors(tmp_path: Path) -> None:
    plain, small = network(tmp_path / "plain.onnx"), tmp_path / "small.onnx"

    def fails(message: str, **options: object) -> None:
        with pytest.raises(openxrt.InvalidArgument, match=message):
            openxrt.quantize.quantize(plain, small, **options)
        assert not small.exists()

    fails("samples are missing: calibration= or data=")
    fails("one of", weights="int4", dynamic=True)
    fails("there are int4 and int8", weights="int2")
    fails("a power of two from 16 on", weights="int4", block=24)
    fails("a power of two from 16 on", weights="int4", block=8)
    fails("no node 'frist'; did you mean 'first'", weights="int8", keep_float=["frist"])
    fails("are of weights=", dynamic=True, block=32)
    model = onnx.load(plain)
    bad = np.full((128, 160), np.nan, np.float32)
    next(t for t in model.graph.initializer if t.name == "w0").CopyFrom(
        numpy_helper.from_array(bad, "w0")
    )
    onnx.save(model, plain)
    fails(r"node 'first' \(MatMul\): a weight is not finite", weights="int4")
    fails(r"node 'first' \(MatMul\): a weight is not finite", dynamic=True)


def test_command(tmp_path: Path) -> None:
    program = next(path for path in _command.programs() if path.is_file())
    plain, small, same = (tmp_path / f"{name}.onnx" for name in ("plain", "small", "same"))
    network(plain)

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        words = [program, "quantize", plain, "-o", small, *map(str, arguments)]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)

    done = call("--weights", "int4", "--block", "64", "--symmetric")
    assert done.returncode == 0, done.stderr
    assert "weights of 2 products and 1 tables in 4 bits" in done.stdout
    openxrt.quantize.quantize(plain, same, weights="int4", block=64, symmetric=True)
    assert small.read_bytes() == same.read_bytes()
    assert "2 of 2 MatMul and Gemm nodes" in call("--dynamic").stdout
    for wrong in ([], ["--weights", "int4", "--dynamic"], ["--block", "32"], ["--weights", "int3"]):
        assert call(*wrong).returncode != 0
