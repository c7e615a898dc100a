# SPDX-License-Identifier: Apache-2.0
"""openxrt.lite against NumPy."""

import struct
import zlib
from pathlib import Path

import numpy as np
import onnx
import openxrt.lite
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import model_proto, tensor


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = relu(x @ w + b), float32[N,3] to [N,5]; a file compiled for N = 4."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal((3, 5), np.float32), "w"),
        numpy_helper.from_array(rng.standard_normal(5, np.float32), "b"),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    file = tmp_path / "model.onnx"
    onnx.save(
        model_proto(
            nodes,
            [tensor("x", TensorProto.FLOAT, ["N", 3])],
            [tensor("y", TensorProto.FLOAT, ["N", 5])],
            weights,
            opset=17,
        ),
        file,
    )
    said = openxrt.lite.compile(file, tmp_path / "model.bin", dims={"N": 4})
    assert "1 ops" in said  # product, bias and Relu are one kernel
    return file


def test_runs_as_numpy(model: Path) -> None:
    lite = openxrt.lite.Model(model.with_suffix(".bin"), threads=2)
    w, b = (numpy_helper.to_array(t) for t in onnx.load(model).graph.initializer)
    x = np.random.default_rng(1).standard_normal((4, 3), np.float32)
    np.testing.assert_allclose(lite.run({"x": x})["y"], np.maximum(x @ w + b, 0), rtol=1e-5)
    with pytest.raises(ValueError, match="float32"):
        lite.run({"x": x[:2]})
    with pytest.raises(ValueError, match="missing"):
        lite.run({})


def test_says_what_is_wrong(model: Path, tmp_path: Path) -> None:
    (tmp_path / "junk.bin").write_bytes(b"junk" * 100)
    with pytest.raises(RuntimeError, match="not a model file"):
        openxrt.lite.Model(tmp_path / "junk.bin")
    with pytest.raises(RuntimeError, match="abacus"):
        openxrt.lite.compile(model, tmp_path / "x.bin", targets=["abacus"])


def test_a_name_that_is_not_utf_8(model: Path, tmp_path: Path) -> None:
    """In a file whose checksum is right."""
    data = bytearray(model.with_suffix(".bin").read_bytes())
    data[data.index(b"x\0")] = 0xFF
    (meta_bytes,) = struct.unpack_from("<I", data, 16)
    struct.pack_into("<I", data, 20, zlib.crc32(bytes(data[32:meta_bytes])))
    (tmp_path / "odd.bin").write_bytes(data)
    with pytest.raises(openxrt.Error, match=r"odd\.bin.*not UTF-8"):
        openxrt.lite.Model(tmp_path / "odd.bin")


def test_arguments_of_a_wrong_type(model: Path) -> None:
    compiled = model.with_suffix(".bin")
    with pytest.raises(TypeError, match="bytes: a path"):
        openxrt.lite.Model(b"model.bin")
    with pytest.raises(openxrt.InvalidArgument, match="null character"):
        openxrt.lite.Model("model\0.bin")
    with pytest.raises(TypeError, match=r"threads=1\.5"):
        openxrt.lite.Model(compiled, threads=1.5)
    for threads in (-1, 2**40):
        with pytest.raises(openxrt.InvalidArgument, match=f"threads={threads}"):
            openxrt.lite.Model(compiled, threads=threads)
    with pytest.raises(TypeError, match="dims is int"):
        openxrt.lite.compile(model, compiled, dims=5)
    with pytest.raises(TypeError, match="model is bytes"):
        openxrt.lite.compile(b"model.onnx", compiled)


def test_the_model_is_not_written_over(model: Path, tmp_path: Path) -> None:
    before = model.read_bytes()
    (tmp_path / "link.bin").symlink_to(model)
    for output, options in (
        (model, {}),
        (tmp_path / "link.bin", {}),
        (tmp_path / "other.bin", {"report": model}),
    ):
        with pytest.raises(openxrt.InvalidArgument, match="is the model"):
            openxrt.lite.compile(model, output, **options)
        assert model.read_bytes() == before
