# SPDX-License-Identifier: Apache-2.0
"""openxrt.lite against NumPy."""

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
