# SPDX-License-Identifier: Apache-2.0
"""Files for several targets through the tools, with NVIDIA's own NVRTC; no GPU is needed."""

import importlib.util
import subprocess
from pathlib import Path

import numpy as np
import onnx
import openxrt.lite
import pytest
from onnx import TensorProto, helper, numpy_helper
from openxrt import _command
from small_models import model_proto, tensor

needs_nvrtc = pytest.mark.skipif(
    importlib.util.find_spec("nvidia") is None, reason="nvidia-cuda-nvrtc is not installed"
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A convolution, ArgMax, a table that is looked up, a product."""
    rng = np.random.default_rng(0)

    def weights(name: str, *dims: int) -> TensorProto:
        return numpy_helper.from_array(rng.standard_normal(dims, np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("ArgMax", ["c"], ["i"], axis=1, keepdims=0),
        helper.make_node("Gather", ["table", "i"], ["rows"]),
        helper.make_node("MatMul", ["rows", "w"], ["y"]),
    ]
    file = tmp_path / "model.onnx"
    onnx.save(
        model_proto(
            nodes,
            [tensor("x", TensorProto.FLOAT, [1, 3, 8, 8])],
            [tensor("y", TensorProto.FLOAT, [1, 8, 8, 5])],
            [weights("k", 20, 3, 3, 3), weights("table", 20, 12), weights("w", 12, 5)],
            opset=17,
        ),
        file,
    )
    return file


def inspect(file: Path) -> str:
    tool = next(p for p in _command.programs() if p.is_file()).parent / "xrt-lite-inspect"
    return subprocess.run([tool, file], capture_output=True, text=True, check=True).stdout


@needs_nvrtc
def test_nvrtc_compiles_what_goes_to_the_gpu(model: Path) -> None:
    file = model.with_suffix(".bin")
    openxrt.lite.compile(model, file, targets=["cuda", "generic"])
    shown = inspect(file)
    assert "function 0: 3 ops on cuda, code" in shown
    assert "function 1: 1 ops on generic" in shown
    assert "function 2: 1 ops on cuda, code" in shown
    assert shown.count(": transfer ") == 4
    code = file.read_bytes()
    assert code.count(b"\x7fELF") >= 4  # two functions for two architectures
    assert b".target sm_80" in code  # PTX


@needs_nvrtc
@pytest.mark.parametrize(
    ("precision", "instruction"),
    [
        ("int8", b"mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32"),
        ("fp16", b"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
        ("tf32", b"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"),
        ("fp32", b""),
    ],
)
def test_products_run_on_tensor_cores_where_the_precision_allows_it(
    model: Path, monkeypatch: pytest.MonkeyPatch, precision: str, instruction: bytes
) -> None:
    """For 8.0 and 9.0; files in float32 have them where TF32 is asked for. PTX for 7.5 has none."""
    monkeypatch.setenv("XRT_CUDA_ARCHS", "80,90,ptx75,ptx80")
    if precision == "tf32":
        monkeypatch.setenv("XRT_CUDA_TF32", "1")
    options = {"precision": precision} if precision != "tf32" else {}
    if precision == "int8":
        options["calibration"] = [{"x": np.ones((1, 3, 8, 8), np.float32)}]
    file = model.with_suffix(".bin")
    openxrt.lite.compile(model, file, targets=["cuda", "generic"], **options)
    code = file.read_bytes()
    functions = code.split(b".target sm_75")[1:]
    assert len(functions) == 2
    for function in functions:  # PTX for 7.5, then for 8.0
        older, newer = function.split(b".target sm_80")[:2]
        assert b"mma.sync" not in older
        assert instruction in newer
        if precision == "fp32":
            assert b"mma.sync" not in newer


@needs_nvrtc
def test_nvrtc_refuses_an_architecture_that_it_does_not_know(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XRT_CUDA_ARCHS", "12")
    with pytest.raises(RuntimeError, match="sm_12"):
        openxrt.lite.compile(model, model.with_suffix(".bin"), targets=["cuda", "generic"])


def test_says_which_tools_are_missing(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XRT_NVRTC", "/nonexistent/libnvrtc.so")
    monkeypatch.delenv("ASCEND_TOOLKIT_HOME", raising=False)
    file = model.with_suffix(".bin")
    with pytest.raises(RuntimeError, match="XRT_NVRTC"):
        openxrt.lite.compile(model, file, targets=["cuda", "generic"])
    with pytest.raises(RuntimeError, match="ASCEND_TOOLKIT_HOME"):
        openxrt.lite.compile(model, file, targets=["ascend", "generic"])
    openxrt.lite.compile(model, file, targets=["generic", "cuda", "ascend"])  # not asked for
    assert openxrt.lite.Model(file).run({"x": np.zeros((1, 3, 8, 8), np.float32)})
