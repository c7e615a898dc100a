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
import onnx.reference
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper

STANDIN = "CUDA_STANDIN" in os.environ
# A card has it, and stand-ins tell.
HAS_CUDNN = not STANDIN or Path(os.environ.get("XRT_CUDNN", "/none")).exists()
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


@pytest.mark.parametrize("columns", [8, 9, 1001])
def test_products_of_halves_with_any_number_of_columns(columns: int, tmp_path: Path) -> None:
    """Constants of odd numbers of columns lie by column on the device, with more behind them."""
    rng = np.random.default_rng(columns)
    weights = (rng.standard_normal((16, columns)) / 4).astype(np.float16)
    nodes = [node("MatMul", "x w", "y"), node("MatMul", "z w", "u")]
    inputs = {"x": (HALF, (3, 5, 16)), "z": (HALF, (7, 16))}
    made = model(nodes, inputs, ["y", "u"], {"w": weights})
    feed = values(made)
    program = load(made, tmp_path)
    for _ in range(2):
        given = program.run(feed)
        for name, x in (("y", "x"), ("u", "z")):
            want = feed[x].astype(np.float32) @ weights.astype(np.float32)
            off = np.abs(np.asarray(given[name], np.float32) - want).max()
            assert off <= 2**-9 * np.abs(want).max()


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


def test_quantised_models_stay_on_the_device(tmp_path: Path) -> None:
    """Per tensor and per channel, with and without zero points."""
    rng = np.random.default_rng(4)
    constants = {
        "sx": np.float32(0.05),
        "zx": np.uint8(120),
        "qw": rng.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8),
        "sw": rng.uniform(0.001, 0.01, 8).astype(np.float32),
        "zw": np.zeros(8, np.int8),
        "qb": rng.integers(-999, 999, 8).astype(np.int32),
        "sb": np.float32(0.0005),
        "sy": np.float32(0.02),
        "zy": np.int8(-3),
    }
    nodes = [
        node("QuantizeLinear", "x sx zx", "qx"),
        node("DequantizeLinear", "qx sx zx", "dx"),
        node("DequantizeLinear", "qw sw zw", "dw", axis=0),
        node("DequantizeLinear", "qb sb", "db"),
        node("Conv", "dx dw db", "a", kernel_shape=[3, 3]),
        node("Relu", "a", "b"),
        node("QuantizeLinear", "b sy zy", "qy"),
        node("DequantizeLinear", "qy sy zy", "y"),
    ]
    made = model(nodes, {"x": (FLOAT, (2, 3, 8, 8))}, ["qx", "y"], constants)
    # Of what is rounded, sums in another order may give a neighbour.
    check(made, tmp_path, atol=0.021)


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


def test_sizes_within_a_range_share_few_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of a range are padded to sizes of which each is compiled once."""
    batches = (3, 4, 7, 8, 5, 1, 13, 16)
    copies = {
        batch: given_like(np.full((batch, 4), batch, np.float32), tmp_path) for batch in batches
    }
    calls = tmp_path / "calls"
    monkeypatch.setenv("XRT_STANDIN_LOG", str(calls))
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "y")]
    weights = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    made = model(nodes, {"x": (FLOAT, (8, 4))}, ["y"], {"w": weights})
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    program = load(made, tmp_path, ranges={"batch": (1, 4, 16)}, cache_dir=None)
    for batch in batches:
        x = np.random.default_rng(batch).standard_normal((batch, 4)).astype(np.float32)
        want = np.maximum(x @ weights, 0)
        np.testing.assert_allclose(program.run({"x": x})["y"], want, rtol=1e-4, atol=1e-5)
        given = program.run({"x": x}, device="cuda")["y"]
        assert isinstance(given, openxrt.DeviceArray)
        np.testing.assert_allclose(given.numpy(), want, rtol=1e-4, atol=1e-5)
        given = program.run({"x": copies[batch]}, device="cuda")["y"]
        want = np.maximum(np.full((batch, 4), batch, np.float32) @ weights, 0)
        np.testing.assert_allclose(given.numpy(), want, rtol=1e-4, atol=1e-4)
        assert program.explain()["nodes_per_engine"].keys() == {"cuda"}
    if STANDIN:  # for 4, 8, 16 and 1; all have the same weights
        lines = calls.read_text().split("\n")
        assert lines.count("module") <= 4
        assert lines.count(f"write {weights.nbytes}") == 1


def given_like(x: np.ndarray, tmp_path: Path) -> openxrt.DeviceArray:
    """The same values in the device's memory."""
    copied = load(model([node("Identity", "x", "y")], {"x": (FLOAT, x.shape)}, ["y"]), tmp_path)
    return copied.run({"x": x}, device="cuda")["y"]


# --- attention ---

HEADS, WIDTH = 3, 16


def remarks(program: openxrt.Program) -> str:
    """What the engine says of its functions."""
    return str(program.explain())


def attentions(program: openxrt.Program) -> int:
    """How many attentions the library computes as a whole."""
    found = re.findall(r"convolutions and (\d+) attentions", remarks(program))
    return sum(int(count) for count in found)


def attention_nodes(form: str, kind: int, size: int) -> tuple[list[onnx.NodeProto], dict[str, Any]]:
    """y of q, k and v [2, HEADS, size, WIDTH] in one of the ways in which frameworks write it."""
    constants: dict[str, Any] = {"quarter": np.array(0.25, np.float32)}
    half = kind == HALF
    wide = {n: f"{n}_wide" if half else n for n in "qkv"}
    nodes = [node("Cast", n, wide[n], to=FLOAT) for n in "qkv"] if half else []
    nodes += [
        node("Mul", f"{wide['q']} quarter", "scaled"),
        node("Transpose", wide["k"], "turned", perm=[0, 1, 3, 2]),
        node("MatMul", "scaled turned", "scores"),
    ]
    last = "scores"
    if form.startswith("eager"):  # as PyTorch writes it out on CUDA: by batched products
        constants |= {
            "flat": np.array([2 * HEADS, size, WIDTH], np.int64),
            "flat_turned": np.array([2 * HEADS, WIDTH, size], np.int64),
            "flat_weights": np.array([2 * HEADS, size, size], np.int64),
            "apart_scores": np.array([2, HEADS, size, size], np.int64),
            "apart_result": np.array([2, HEADS, size, WIDTH], np.int64),
            "low": np.array(-np.inf, np.float32),
            "zero": np.array(0, np.float32),
            "last": np.array([-1], np.int64),
        }
        nodes[-1:] = [
            node("Reshape", "scaled flat", "scaled_flat"),
            node("Reshape", "turned flat_turned", "turned_flat"),
            node("MatMul", "scaled_flat turned_flat", "scores_flat"),
            node("Reshape", "scores_flat apart_scores", "scores"),
        ]
        if form == "eager masked":
            nodes.append(node("Add", "scores mask", "masked"))
            last = "masked"
        nodes += [
            node("Softmax", last, "weights", axis=-1),
            node("ReduceMax", f"{last} last", "most", keepdims=1),
            node("Equal", "most low", "hidden"),
            node("Where", "hidden zero weights", "guarded"),
            node("Reshape", "guarded flat_weights", "weights_flat"),
            node("Reshape", f"{wide['v']} flat", "v_flat"),
            node("MatMul", "weights_flat v_flat", "product_flat"),
            node("Reshape", "product_flat apart_result", "product" if half else "y"),
        ]
        return nodes + ([node("Cast", "product", "y", to=HALF)] if half else []), constants
    if form in ("masked", "both"):
        nodes.append(node("Add", "scores mask", "masked"))
        last = "masked"
    if form in ("causal", "both"):
        constants["lower"] = np.tril(np.ones((size, size), bool))
        constants["low"] = np.array(-np.inf, np.float32)
        nodes.append(node("Where", f"lower {last} low", "visible"))
        last = "visible"
    nodes += [node("Softmax", last, "weights", axis=-1)]
    product = "product" if half else "y"
    nodes += [node("MatMul", f"weights {wide['v']}", product)]
    if half:
        nodes += [node("Cast", product, "y", to=HALF)]
    return nodes, constants


@pytest.mark.parametrize("form", ["plain", "masked", "causal", "both", "eager", "eager masked"])
def test_attention_in_half_precision(form: str, tmp_path: Path) -> None:
    """Within 2⁻⁸ of the largest value; as a whole where cuDNN is there."""
    size = 9
    results = {}
    for kind in (HALF, FLOAT):
        nodes, constants = attention_nodes(form, kind, size)
        inputs = dict.fromkeys("qkv", (kind, (2, HEADS, size, WIDTH)))
        if form in ("masked", "both", "eager masked"):
            inputs["mask"] = (FLOAT, (2, 1, size if form.startswith("eager") else 1, size))
        made = model(nodes, inputs, ["y"], constants)
        if kind == HALF:
            feed = values(made)
            if form == "eager masked":
                feed["mask"][1, 0, 2] = -np.inf
            program = load(made, tmp_path)
            results[kind] = np.asarray(program.run(feed)["y"], np.float32)
            results["again"] = np.asarray(program.run(feed)["y"], np.float32)
            assert attentions(program) == (1 if HAS_CUDNN else 0)
        else:
            session = onnxruntime.InferenceSession(
                made.SerializeToString(), providers=["CPUExecutionProvider"]
            )
            wide = {n: v.astype(np.float32) for n, v in feed.items()}
            results[kind] = session.run(None, wide)[0]
    bound = 2**-8 * np.abs(results[FLOAT]).max()
    assert np.abs(results[HALF] - results[FLOAT]).max() <= bound
    np.testing.assert_array_equal(results["again"], results[HALF])


@pytest.mark.parametrize("kind", [FLOAT, HALF])
@pytest.mark.parametrize("case", ["plain", "causal", "bool mask", "past", "flat", "cap"])
def test_the_op_attention(case: str, kind: int, tmp_path: Path) -> None:
    """ONNX's own, beside its reference implementation; a row that sees nothing gives zeros."""
    dtype = DTYPES[kind]
    rng = np.random.default_rng(11)
    attributes: dict[str, Any] = {"causal": {"is_causal": 1}, "cap": {"softcap": 2.0}}.get(case, {})
    heads, kv_heads, size = 4, 2, 6
    feed = {
        "q": rng.standard_normal((2, heads, size, WIDTH)).astype(dtype),
        "k": rng.standard_normal((2, kv_heads, size, WIDTH)).astype(dtype),
        "v": rng.standard_normal((2, kv_heads, size, WIDTH)).astype(dtype),
    }
    names, outputs = "q k v", ["y"]
    if case == "flat":
        feed = {n: x.transpose(0, 2, 1, 3).reshape(2, size, -1).copy() for n, x in feed.items()}
        attributes |= {"q_num_heads": heads, "kv_num_heads": kv_heads}
    if case == "bool mask":
        feed["m"] = rng.random((size, size)) < 0.6
        feed["m"][1] = False
        names += " m"
    if case == "past":
        for n in ("pk", "pv"):
            feed[n] = rng.standard_normal((2, kv_heads, 3, WIDTH)).astype(dtype)
        names, outputs = "q k v _ pk pv", ["y", "nk", "nv"]
        attributes |= {"is_causal": 1}
    types = {n: TensorProto.BOOL if x.dtype == bool else kind for n, x in feed.items()}
    graph = helper.make_graph(
        [node("Attention", names, " ".join(outputs), **attributes)],
        "g",
        [helper.make_tensor_value_info(n, types[n], x.shape) for n, x in feed.items()],
        [helper.make_tensor_value_info(n, kind, None) for n in outputs],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
    wanted = onnx.reference.ReferenceEvaluator(made).run(None, feed)
    given = load(made, tmp_path).run(feed)
    for name, want in zip(outputs, wanted, strict=True):
        got, want = np.asarray(given[name], np.float32), np.asarray(want, np.float32)
        if case == "bool mask" and name == "y":
            np.testing.assert_array_equal(got[:, :, 1], 0)
            got, want = np.delete(got, 1, axis=2), np.delete(want, 1, axis=2)
        assert np.abs(got - want).max() <= (2**-8 if kind == HALF else 1e-5) * np.abs(want).max()


def layer(kind: int, size: int = 8) -> onnx.ModelProto:
    """Attention over products of one value, as a network has it."""
    width = HEADS * WIDTH
    rng = np.random.default_rng(2)
    constants: dict[str, Any] = {
        "apart": np.array([2, size, HEADS, WIDTH], np.int64),
        "together": np.array([2, size, width], np.int64),
    }
    nodes = []
    for n in "qkv":
        constants[f"w{n}"] = (rng.standard_normal((width, width)) / 6).astype(DTYPES[kind])
        constants[f"b{n}"] = rng.standard_normal(width).astype(DTYPES[kind])
        nodes += [
            node("MatMul", f"x w{n}", f"p{n}"),
            node("Add", f"p{n} b{n}", f"s{n}"),
            node("Reshape", f"s{n} apart", f"r{n}"),
            node("Transpose", f"r{n}", n, perm=[0, 2, 1, 3]),
        ]
    inner, more = attention_nodes("plain", kind, size)
    nodes += [
        *inner,
        node("Transpose", "y", "back", perm=[0, 2, 1, 3]),
        node("Reshape", "back together", "z"),
    ]
    return model(nodes, {"x": (kind, (2, size, width))}, ["z"], constants | more)


def test_projections_are_one_product(tmp_path: Path) -> None:
    """Whose parts the library reads where they lie."""
    made = layer(HALF)
    feed = values(made)
    program = load(made, tmp_path)
    got = np.asarray(program.run(feed)["z"], np.float32)
    session = onnxruntime.InferenceSession(
        layer(FLOAT).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    want = session.run(None, {"x": feed["x"].astype(np.float32)})[0]
    assert np.abs(got - want).max() <= 2**-7 * np.abs(want).max()
    if HAS_CUDNN:
        assert "0 generated kernels, 1 products" in remarks(program)
        assert attentions(program) == 1


@pytest.mark.parametrize("what", ["attention", "convolution"])
@pytest.mark.skipif(not (STANDIN and HAS_CUDNN), reason="the stand-in refuses on demand")
def test_what_the_library_refuses_is_computed_otherwise(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XRT_STANDIN_CUDNN_REFUSES", what)
    made = layer(HALF)
    program = load(made, tmp_path)
    assert attentions(program) == (1 if what == "convolution" else 0)
    feed = values(made)
    monkeypatch.delenv("XRT_STANDIN_CUDNN_REFUSES")
    want = np.asarray(load(made, tmp_path).run(feed)["z"], np.float32)
    got = np.asarray(program.run(feed)["z"], np.float32)
    assert np.abs(got - want).max() <= 2**-8 * np.abs(want).max()


def test_compiled_functions_come_from_the_cache(tmp_path: Path) -> None:
    """With code and choices of ways; another program finds them."""
    nodes = [
        node("Conv", "p w", "a", kernel_shape=[3, 3]),
        node("Relu", "a", "b"),
        node("Flatten", "b", "c"),
        node("MatMul", "c m", "d"),
        node("Softmax", "d", "y"),
    ]
    rng = np.random.default_rng(1)
    constants = {
        "w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32) / 5,
        "m": rng.standard_normal((4 * 36, 10)).astype(np.float32) / 12,
    }
    made = model(nodes, {"p": (FLOAT, (2, 3, 8, 8))}, ["y"], constants)
    feed = values(made)
    cache = tmp_path / "cache"
    script = (
        "import sys, json, numpy as np, openxrt\n"
        "p = openxrt.load(sys.argv[1], engine=['cuda', 'native'], device='cuda', strict=True,"
        " cache_dir=sys.argv[2])\n"
        "y = p.run(dict(np.load(sys.argv[3])))['y']\n"
        "np.save(sys.argv[4], y)\n"
        "print(json.dumps([f['from_cache'] for f in p.explain()['launches']]))\n"
    )
    path, inputs = tmp_path / "model.onnx", tmp_path / "inputs.npz"
    onnx.save(made, path)
    np.savez(inputs, **feed)
    told = []
    for run in ("first", "second"):
        result = tmp_path / f"{run}.npy"
        command = [sys.executable, "-c", script, path, cache, inputs, result]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        assert "does not take it" not in done.stderr, done.stderr[-2000:]
        told.append(done.stdout.strip().split("\n")[-1])
    assert "true" not in told[0]
    assert "false" not in told[1], told
    np.testing.assert_array_equal(np.load(tmp_path / "first.npy"), np.load(tmp_path / "second.npy"))
