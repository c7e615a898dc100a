# SPDX-License-Identifier: Apache-2.0
"""What is dequantised, with a constant or of four bits, as OpenVINO's passes for bytes see it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, usable

pytestmark = pytest.mark.skipif(not usable("openvino"), reason="openvino is not there")

BYTES = {np.uint8: 108, np.int8: -20}


def rounded(x: str, y: str, scale: str, zero: str) -> list:
    """Quantised and dequantised."""
    return [
        helper.make_node("QuantizeLinear", [x, scale, zero], [f"{y}_q"]),
        helper.make_node("DequantizeLinear", [f"{y}_q", scale, zero], [y]),
    ]


def run_alone(model: bytes, feeds: dict[str, np.ndarray], folder: Path) -> np.ndarray:
    """The first result on OpenVINO, in a process of its own, which may end."""
    (folder / "m.onnx").write_bytes(model)
    np.savez(folder / "feeds.npz", **feeds)
    text = """if True:
        import sys
        import numpy as np
        import openxrt
        program = openxrt.load(sys.argv[1], engine=["openvino", "native"], cache_dir="")
        feeds = dict(np.load(sys.argv[2]))
        for _ in range(3):
            y = next(iter(program.run(feeds).values()))
        np.save(sys.argv[3], y)
    """
    files = [str(folder / name) for name in ("m.onnx", "feeds.npz", "y.npy")]
    subprocess.run([sys.executable, "-c", text, *files], check=True, timeout=300)
    return np.load(folder / "y.npy")


@pytest.mark.parametrize("op", ["Add", "Div", "Mul", "Sub"])
@pytest.mark.parametrize("dtype", BYTES)
def test_a_constant_behind_what_is_joined(op: str, dtype: type, tmp_path: Path) -> None:
    """OpenVINO by itself ends the process."""
    zero = dtype(BYTES[dtype])
    model = make_model(
        [
            helper.make_node("Concat", ["a", "b"], ["c"], axis=1),
            *rounded("c", "d", "s", "z"),
            helper.make_node(op, ["d", "k"], ["m"]),
            *rounded("m", "y", "s2", "z"),
        ],
        [tensor(name, TensorProto.FLOAT, [2, 2, 2, 2]) for name in "ab"],
        [tensor("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.asarray(value), name)
            for name, value in {
                "s": np.float32(0.0279),
                "s2": np.float32(0.0267),
                "z": zero,
                "k": np.float32(0.5),
            }.items()
        ],
        opset=18,
    )
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal((2, 2, 2, 2)).astype(np.float32) for name in "ab"}
    wanted = onnxruntime.InferenceSession(model).run(None, feeds)[0]
    np.testing.assert_allclose(run_alone(model, feeds, tmp_path), wanted, atol=0.03)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("dtype", [TensorProto.INT4, TensorProto.UINT4])
def test_a_product_of_four_bits(dtype: int, per_channel: bool, tmp_path: Path) -> None:
    """OpenVINO by itself writes bytes where it has room for half as many."""
    rng = np.random.default_rng(0)
    size = 64
    axis = {"axis": 1} if per_channel else {}
    model = make_model(
        [
            *rounded("x", "d", "s", "z"),
            helper.make_node("DequantizeLinear", ["w", "ws"], ["v"], **axis),
            helper.make_node("MatMul", ["d", "v"], ["y"]),
        ],
        [tensor("x", TensorProto.FLOAT, [2, 1, size])],
        [tensor("y", TensorProto.FLOAT, None)],
        [
            helper.make_tensor("s", TensorProto.FLOAT, [], [0.4]),
            helper.make_tensor("z", dtype, [], [0]),
            numpy_helper.from_array(rng.integers(-127, 127, (size, size)).astype(np.int8), "w"),
            numpy_helper.from_array(np.full(size if per_channel else (), 0.01, np.float32), "ws"),
        ],
    )
    feeds = {"x": rng.standard_normal((2, 1, size)).astype(np.float32)}
    wanted = onnxruntime.InferenceSession(model).run(None, feeds)[0]
    np.testing.assert_allclose(run_alone(model, feeds, tmp_path), wanted, atol=1e-3)


@pytest.mark.parametrize("is_quantised", [False, True])
@pytest.mark.parametrize("op", ["Add", "Sub"])
def test_one_channel_becomes_those_of_a_constant(op: str, is_quantised: bool) -> None:
    """OpenVINO by itself keeps room for the constant's channels where the first run had them."""
    constants = {
        "s": np.float32(0.01),
        "s2": np.float32(0.1),
        "z": np.int8(0),
        "w": np.arange(8, dtype=np.int8).reshape(1, 8, 1, 1),
    }
    nodes = [*rounded("x", "d", "s", "z")]
    if is_quantised:
        nodes.append(helper.make_node("DequantizeLinear", ["w", "s2", "z"], ["v"]))
    else:
        constants["v"] = constants.pop("w").astype(np.float32)
    nodes += [helper.make_node(op, ["d", "v"], ["a"]), *rounded("a", "y", "s2", "z")]
    model = make_model(
        nodes,
        [tensor("x", TensorProto.FLOAT, ["a", "b", "c", "d"])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    session = onnxruntime.InferenceSession(model)
    program = openxrt.load(model, engine=["openvino", "native"], cache_dir="")
    for shape in ((2, 8, 4, 1), (3, 8, 4, 1), (3, 8, 5, 1), (2, 1, 4, 1), (2, 1, 5, 3)):
        x = np.ones(shape, np.float32)
        np.testing.assert_allclose(program(x), session.run(None, {"x": x})[0], atol=1e-6)
