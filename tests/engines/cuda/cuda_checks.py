# SPDX-License-Identifier: Apache-2.0
"""The CUDA engine beside ONNX Runtime on the CPU. Run by test_cuda.py with stand-ins for the driver
and for NVRTC, where a machine has no GPU, and by ``./dev test cuda`` on a card."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper

STANDIN = "CUDA_STANDIN" in os.environ
FLOAT, HALF, LONG, INT = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.INT64,
    TensorProto.INT32,
)
DTYPES = {FLOAT: np.float32, HALF: np.float16, LONG: np.int64, INT: np.int32}
ENGINES = {"engine": ["cuda", "native"], "device": "cuda", "strict": True}


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, tuple[int, ...]]],
    outputs: list[str],
    constants: dict[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    """A model whose inputs have these types and shapes; those of its outputs are inferred."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(v, n) for n, v in (constants or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


def load(made: onnx.ModelProto, tmp_path: Path, **options: Any) -> openxrt.Program:
    """The model on the engine."""
    path = tmp_path / "model.onnx"
    onnx.save(made, path)
    return openxrt.load(path, **(ENGINES | options))


def values(made: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    """Random values for the model's inputs."""
    rng = np.random.default_rng(seed)
    feed = {}
    for value in made.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        dtype = DTYPES[value.type.tensor_type.elem_type]
        if np.issubdtype(dtype, np.integer):
            feed[value.name] = rng.integers(-9, 9, shape).astype(dtype)
        else:
            feed[value.name] = rng.standard_normal(shape).astype(dtype)
    return feed


def check(made: onnx.ModelProto, tmp_path: Path, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """Two runs, the second of which is the recorded one, give what ONNX Runtime gives."""
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    program = load(made, tmp_path)
    assert set(program.explain()["nodes_per_engine"]) <= {"cuda"}
    for seed in (0, 1):
        feed = values(made, seed)
        wanted = session.run(None, feed)
        given = program.run(feed)
        for (name, got), want in zip(given.items(), wanted, strict=True):
            np.testing.assert_allclose(
                np.asarray(got, np.float64), want.astype(np.float64), rtol, atol, err_msg=name
            )


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """A node from names with spaces between them; "_" is an operand that is left out."""
    names = ["" if n == "_" else n for n in inputs.split()]
    return helper.make_node(op, names, outputs.split(), **attributes)


@pytest.mark.parametrize("columns", [7, 96, 1000, 5000])
def test_rows_with_what_is_around_them(columns: int, tmp_path: Path) -> None:
    nodes = [
        node("Add", "x y", "s"),  # read by the normalisation and behind it
        node("LayerNormalization", "s w b", "n", axis=-1),
        node("Tanh", "n", "t"),
        node("Add", "t s", "u"),
        node("Softmax", "u", "p", axis=1),
        node("LogSoftmax", "u", "q", axis=-1),
        node("Mul", "p q", "z"),
    ]
    constants = {
        "w": np.linspace(0.5, 1.5, columns, dtype=np.float32),
        "b": np.linspace(-1, 1, columns, dtype=np.float32),
    }
    shape = (3, 5, columns)
    made = model(nodes, {"x": (FLOAT, shape), "y": (FLOAT, shape)}, ["z", "u"], constants)
    check(made, tmp_path)


def test_elements_of_any_shape_and_type(tmp_path: Path) -> None:
    nodes = [
        node("Add", "x row", "a"),
        node("Mul", "a column", "b"),
        node("Clip", "b low _", "c"),
        node("Greater", "c row", "d"),
        node("Where", "d c column", "e"),
        node("Cast", "e", "f", to=HALF),
        node("Cast", "f", "g", to=FLOAT),
        node("Div", "i j", "k"),
        node("Mod", "i j", "l"),
        node("Erf", "g", "m"),
        node("HardSwish", "m", "n"),
        node("Pow", "a two", "o"),
    ]
    constants = {"low": np.float32(-0.5), "two": np.float32(2), "j": np.array([2, -3, 5], np.int64)}
    inputs = {
        "x": (FLOAT, (2, 4, 6)),
        "row": (FLOAT, (6,)),
        "column": (FLOAT, (2, 1, 1)),
        "i": (LONG, (4, 3)),
    }
    check(model(nodes, inputs, ["n", "k", "l", "o", "e"], constants), tmp_path)


def test_views_move_nothing_and_are_right(tmp_path: Path) -> None:
    constants = {
        "shape": np.array([2, 3, 4, 5], np.int64),
        "merged": np.array([2, 4, 15], np.int64),
        "starts": np.array([3, 10], np.int64),
        "ends": np.array([-10, 2], np.int64),
        "axes": np.array([1, 2], np.int64),
        "steps": np.array([-1, -3], np.int64),
        "wide": np.array([6, 2, 4, 3], np.int64),
    }
    nodes = [
        node("Reshape", "x shape", "a"),
        node("Transpose", "a", "b", perm=[0, 2, 1, 3]),
        node("Reshape", "b merged", "c"),
        node("Slice", "c starts ends axes steps", "d"),
        node("Exp", "d", "e"),
        node("Split", "c", "f g h", axis=2, num_outputs=3),
        node("Concat", "h f", "i", axis=1),
        node("Relu", "i", "j"),
        node("Expand", "d wide", "k"),
        node("Sub", "k d", "l"),
    ]
    made = model(nodes, {"x": (FLOAT, (6, 20))}, ["e", "j", "l", "c"], constants)
    check(made, tmp_path)


CONVOLUTIONS = {
    "plain": {"x": (2, 8, 9, 7), "w": (16, 8, 3, 3), "pads": [1, 1, 1, 1]},
    "strided": {"x": (1, 4, 11, 11), "w": (8, 4, 5, 5), "strides": [2, 2], "pads": [2, 2, 2, 2]},
    "uneven pads": {"x": (1, 4, 8, 8), "w": (4, 4, 3, 3), "pads": [0, 1, 2, 1]},
    "dilated": {"x": (1, 4, 12, 12), "w": (4, 4, 3, 3), "dilations": [2, 3]},
    "depthwise": {"x": (2, 16, 6, 6), "w": (16, 1, 3, 3), "group": 16, "pads": [1, 1, 1, 1]},
    "groups": {"x": (2, 16, 6, 6), "w": (8, 4, 1, 1), "group": 4},
    "line": {"x": (2, 6, 20), "w": (4, 6, 5), "pads": [2, 2]},
    "space": {"x": (1, 2, 4, 5, 6), "w": (3, 2, 2, 2, 2)},
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", [FLOAT, HALF])
def test_convolutions(case: str, dtype: int, tmp_path: Path) -> None:
    """With bias, an addition and an activation; half precision within 2⁻⁸ of the largest."""
    facts = dict(CONVOLUTIONS[case])
    x, w = facts.pop("x"), facts.pop("w")
    rng = np.random.default_rng(3)
    weights = (rng.standard_normal(w) / np.sqrt(np.prod(w[1:]))).astype(np.float16)
    bias = rng.standard_normal(w[0]).astype(np.float16)

    def build(kind: int) -> onnx.ModelProto:
        constants = {"w": weights.astype(DTYPES[kind]), "b": bias.astype(DTYPES[kind])}
        nodes = [
            node("Conv", "x w b", "a", kernel_shape=w[2:], **facts),
            node("Add", "r a", "s"),
            node("Relu", "s", "y"),
        ]
        alone = model([nodes[0]], {"x": (kind, x)}, ["a"], constants)
        shape = [d.dim_value for d in alone.graph.output[0].type.tensor_type.shape.dim]
        return model(nodes, {"x": (kind, x), "r": (kind, tuple(shape))}, ["y"], constants)

    if dtype == FLOAT:
        check(build(FLOAT), tmp_path)
        return
    made = build(HALF)
    feed = values(made)
    wide = {n: v.astype(np.float32) for n, v in feed.items()}
    session = onnxruntime.InferenceSession(
        build(FLOAT).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    want = session.run(None, wide)[0]
    got = np.asarray(load(made, tmp_path).run(feed)["y"], np.float32)
    assert np.abs(got - want).max() <= 2**-8 * np.abs(want).max()


def test_pools_and_reductions(tmp_path: Path) -> None:
    nodes = [
        node("MaxPool", "x", "a", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("AveragePool", "x", "b", kernel_shape=[3, 2], pads=[1, 0, 1, 1], ceil_mode=1),
        node("GlobalAveragePool", "x", "c"),
        node("ReduceMean", "x last", "d", keepdims=0),
        node("ReduceMax", "x middle", "e"),
        node("ReduceLogSumExp", "x all", "f"),
        node("ReduceL2", "x outer", "g", keepdims=0),
        node("ArgMax", "x", "h", axis=3, keepdims=0),
        node("ReduceSum", "i last", "j"),
        node("ReduceProd", "x middle", "k"),
    ]
    constants = {
        "last": np.array([-1], np.int64),
        "middle": np.array([1, 2], np.int64),
        "all": np.array([0, 1, 2, 3], np.int64),
        "outer": np.array([0, 2], np.int64),
    }
    inputs = {"x": (FLOAT, (2, 3, 9, 8)), "i": (LONG, (3, 70))}
    check(model(nodes, inputs, list("abcdefghjk"), constants), tmp_path)


def test_products(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", "x w", "a"),
        node("Add", "a bias", "b"),
        node("Relu", "b", "c"),
        node("Transpose", "x", "t", perm=[0, 2, 1]),
        node("MatMul", "x t", "d"),
        node("MatMul", "row t", "e"),
        node("Gemm", "m n p", "f", alpha=0.5, beta=2.0, transA=1),
        node("Gemm", "m n q", "g", transA=1),
        node("Gemm", "m n", "h", transA=1),
        node("MatMul", "i j", "k"),
        node("Add", "d d", "l"),
    ]
    rng = np.random.default_rng(5)
    constants = {
        "w": rng.standard_normal((24, 40)).astype(np.float32),
        "bias": rng.standard_normal(40).astype(np.float32),
        "j": rng.integers(-5, 5, (6, 4)).astype(np.int32),
        "q": rng.standard_normal(18).astype(np.float32),
    }
    inputs = {
        "x": (FLOAT, (3, 17, 24)),
        "row": (FLOAT, (24,)),
        "m": (FLOAT, (20, 10)),
        "n": (FLOAT, (20, 18)),
        "p": (FLOAT, (10, 1)),
        "i": (INT, (5, 6)),
    }
    check(model(nodes, inputs, ["c", "d", "e", "f", "g", "h", "k", "l"], constants), tmp_path)


def test_gathers_pads_and_resizes(tmp_path: Path) -> None:
    nodes = [
        node("Gather", "x which", "a", axis=1),
        node("Pad", "x pads", "b", mode="reflect"),
        node("Resize", "x _ scales", "c", mode="linear"),
        node("Resize", "x _ scales", "d", mode="nearest"),
        node("Tile", "x times", "e"),
        node("DepthToSpace", "x", "f", blocksize=2),
    ]
    constants = {
        "which": np.array([[3, -1], [0, 1]], np.int64),
        "pads": np.array([0, 0, 1, 2, 0, 0, 3, 1], np.int64),
        "scales": np.array([1, 1, 2.5, 1.5], np.float32),
        "times": np.array([2, 1, 3, 1], np.int64),
    }
    check(model(nodes, {"x": (FLOAT, (2, 4, 5, 6))}, list("abcdef"), constants), tmp_path)


def test_half_precision_by_the_plan(tmp_path: Path) -> None:
    """precision="f16" puts casts around products and convolutions of a float32 model."""
    rng = np.random.default_rng(7)
    constants = {
        "w": (rng.standard_normal((16, 8, 3, 3)) / 8).astype(np.float32),
        "m": (rng.standard_normal((16, 10)) / 4).astype(np.float32),
    }
    nodes = [
        node("Conv", "x w", "a", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "a", "b"),
        node("GlobalAveragePool", "b", "c"),
        node("Flatten", "c", "d"),
        node("MatMul", "d m", "y"),
    ]
    made = model(nodes, {"x": (FLOAT, (2, 8, 12, 12))}, ["y"], constants)
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feed = values(made)
    want = session.run(None, feed)[0]
    got = load(made, tmp_path, precision="f16").run(feed)["y"]
    off = np.abs(np.asarray(got) - want).max()
    assert 0 < off <= 2**-7 * np.abs(want).max()


def small(tmp_path: Path, rows: int = 4) -> openxrt.Program:
    """y = relu(x w)."""
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "y")]
    weights = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    return load(model(nodes, {"x": (FLOAT, (rows, 4))}, ["y"], {"w": weights}), tmp_path)


def test_tensors_stay_on_the_device(tmp_path: Path) -> None:
    program = small(tmp_path)
    x = np.arange(16, dtype=np.float32).reshape(4, 4) / 10
    want = program(x)
    on_device = program.run({"x": x}, device="cuda")["y"]
    assert isinstance(on_device, openxrt.DeviceArray)
    np.testing.assert_array_equal(on_device.numpy(), want)
    square = load(model([node("Exp", "x", "y")], {"x": (FLOAT, (4, 3))}, ["y"]), tmp_path)
    again = square(on_device)
    assert isinstance(again, openxrt.DeviceArray)
    np.testing.assert_allclose(again.numpy(), np.exp(want), rtol=1e-6)


def test_eight_threads_on_one_program(tmp_path: Path) -> None:
    program = small(tmp_path)
    wrong: list[str] = []

    def work(number: int) -> None:
        x = np.full((4, 4), number, np.float32)
        want = np.maximum(x @ np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3), 0)
        for _ in range(20):
            if not np.allclose(program(x), want, rtol=1e-4, atol=1e-5):
                wrong.append(f"thread {number}")

    # The stand-in runs the threads of a block in one thread of the process.
    count = 1 if STANDIN else 8
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_out_of_memory_is_said_and_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two values of 0.7 of a device's memory each."""
    side = 1500 if STANDIN else 160_000
    if STANDIN:
        monkeypatch.setenv("XRT_STANDIN_MEMORY", str(14 << 20))
    nodes = [
        node("MatMul", "x y", "a"),
        node("Transpose", "a", "b", perm=[1, 0]),
        node("Add", "a b", "c"),
        node("ReduceMax", "c axes", "z"),
    ]
    constants = {"axes": np.array([0, 1], np.int64)}
    inputs = {"x": (FLOAT, (side, 1)), "y": (FLOAT, (1, side))}
    large = model(nodes, inputs, ["z"], constants)
    with pytest.raises(openxrt.Error, match=r"memory of \d+ bytes for .* of function"):
        load(large, tmp_path).run(values(large))
    np.testing.assert_allclose(
        small(tmp_path)(np.ones((4, 4), np.float32))[0, 2], 8 / 11, rtol=1e-5
    )


def test_without_a_gpu_it_is_said(tmp_path: Path) -> None:
    small(tmp_path)
    script = (
        "import openxrt\n"
        f"openxrt.load({str(tmp_path / 'model.onnx')!r}, engine=['cuda', 'native'], "
        "device='cuda', strict=True)\n"
    )
    hidden = {"CUDA_VISIBLE_DEVICES": "", "XRT_STANDIN_NO_DEVICE": "1"}
    run = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | hidden, capture_output=True, text=True
    )
    assert run.returncode != 0
    assert re.search("no GPU|finds no GPU|no device", run.stderr), run.stderr


def test_sources_are_kept_on_demand(tmp_path: Path) -> None:
    made = model([node("Exp", "x", "y")], {"x": (FLOAT, (4, 3))}, ["y"])
    folder = tmp_path / "sources"
    load(made, tmp_path, engine_options={"cuda": {"source_dir": str(folder)}})
    texts = [path.read_text() for path in folder.glob("*.cu")]
    assert len(texts) == 1
    assert "expf(" in texts[0]
