# SPDX-License-Identifier: Apache-2.0
"""The quantiser: ONNX Runtime computes the quantised models and the float ones."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openxrt
import openxrt.quantize
import pytest
from onnx import TensorProto, helper, numpy_helper
from openxrt import _command
from small_models import model_proto, tensor

onnxruntime = pytest.importorskip("onnxruntime")

Feeds = dict[str, np.ndarray]
CPU = Path("/proc/cpuinfo").read_text(encoding="utf-8")


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    x: list[int],
    y: list[int],
    constants: dict[str, np.ndarray],
) -> Path:
    model = model_proto(
        nodes,
        [tensor("x", TensorProto.FLOAT, x)],
        [tensor("y", TensorProto.FLOAT, y)],
        [numpy_helper.from_array(v.astype(np.float32), n) for n, v in constants.items()],
    )
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path


def run(model: Path, feeds: Feeds) -> np.ndarray:
    """By ONNX Runtime, as written: without its own int8 kernels."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


def decibels(model: Path, quantised: Path, tests: list[Feeds]) -> float:
    signal = noise = 0.0
    for feeds in tests:
        wanted = run(model, feeds).astype(np.float64)
        signal += (wanted**2).sum()
        noise += ((run(quantised, feeds) - wanted) ** 2).sum()
    return float(10 * np.log10(signal / noise))


def scaled_network(path: Path, first: float, second: float, size: int = 16) -> Path:
    """Two Gemms whose weights are of these sizes."""
    rng = np.random.default_rng(0)
    return save(
        path,
        [
            helper.make_node("Gemm", ["x", "a"], ["h"], name="first"),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("Gemm", ["r", "b", "c"], ["y"], name="second"),
        ],
        ["N", size],
        ["N", 8],
        {
            "a": rng.standard_normal((size, 64)) * first,
            "b": rng.standard_normal((64, 8)) * second,
            "c": rng.standard_normal(8),
        },
    )


@pytest.mark.parametrize("first", [1e-36, 1e-32, 1e-29, 1e-20, 1e20, 1e29])
@pytest.mark.parametrize("options", [{}, {"smooth": 0.0, "correct_bias": False}], ids=str)
def test_weights_of_any_size(first: float, options: dict[str, Any], tmp_path: Path) -> None:
    """Those below 1e-30 stay as they are, and what has such a range is told."""
    model = scaled_network(tmp_path / "m.onnx", first, 1 / first)
    samples = samples_of([8, 16])
    said = quantise(model, tmp_path / "q.onnx", samples, **options)
    kept = "node 'first' stays in floating point: its weights are too small for int8" in said
    assert kept == (first < 1e-30)
    assert ("1 of 2" if kept else "2 of 2") in said
    assert ("the range of 'r' is below 1e-30" in said) == kept
    if kept:
        return
    for constant in onnx.load(tmp_path / "q.onnx").graph.initializer:
        if constant.name.endswith("scale"):
            assert numpy_helper.to_array(constant).min() >= np.finfo(np.float32).tiny
    assert decibels(model, tmp_path / "q.onnx", samples) > 25
    x = samples[0]["x"]
    found = openxrt.load(tmp_path / "q.onnx", engine="native")(x)
    wanted = openxrt.load(model, engine="native")(x)
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()


def test_nothing_but_weights_that_are_too_small(tmp_path: Path) -> None:
    model = scaled_network(tmp_path / "m.onnx", 1e-37, 1e-37)
    with pytest.raises(
        openxrt.InvalidArgument, match="nothing to quantise: nodes 'first', 'second'"
    ):
        quantise(model, tmp_path / "q.onnx", samples_of([8, 16]))


def test_samples_of_zeros_are_told(tmp_path: Path) -> None:
    model = scaled_network(tmp_path / "m.onnx", 1, 1)
    said = quantise(model, tmp_path / "q.onnx", [{"x": np.zeros((4, 16), np.float32)}] * 2)
    assert "the range of 'x', 'r' is below 1e-30 in the samples: all that it holds" in said
    assert "is below" not in quantise(model, tmp_path / "q.onnx", samples_of([8, 16]))


def ops_of(model: Path) -> list[str]:
    return [node.op_type for node in onnx.load(model).graph.node]


def samples_of(shape: list[int], count: int = 16, seed: int = 0) -> list[Feeds]:
    rng = np.random.default_rng(seed)
    return [{"x": rng.normal(size=shape).astype(np.float32)} for _ in range(count)]


def quantise(model: Path, output: Path, samples: list[Feeds], **options: Any) -> str:
    return openxrt.quantize.quantize(model, output, calibration=samples, **options)


# --- the form of activations ---------------------------------------------------------------------


def convolution(path: Path) -> Path:
    rng = np.random.default_rng(0)
    return save(
        path,
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("Conv", ["r", "v"], ["y"], name="last"),
        ],
        [1, 4, 8, 8],
        [1, 3, 6, 6],
        {
            "w": rng.normal(size=(8, 4, 3, 3)),
            "b": rng.normal(size=8),
            "v": rng.normal(size=(3, 8, 3, 3)),
        },
    )


@pytest.mark.parametrize(
    ("activations", "dtype"), [("asymmetric", np.uint8), ("symmetric", np.int8)]
)
def test_forms_of_activations(activations: str, dtype: type, tmp_path: Path) -> None:
    model, output = convolution(tmp_path / "net.onnx"), tmp_path / "int8.onnx"
    quantise(model, output, samples_of([1, 4, 8, 8]), activations=activations)
    graph = onnx.load(output).graph
    constants = {c.name: numpy_helper.to_array(c) for c in graph.initializer}
    zeros = [constants[n.input[2]] for n in graph.node if n.op_type == "QuantizeLinear"]
    assert len(zeros) >= 3
    assert all(z.dtype == dtype for z in zeros)
    if activations == "symmetric":
        assert all(z == 0 for z in zeros)
    assert decibels(model, output, samples_of([1, 4, 8, 8], 4, 1)) > 25


@pytest.mark.parametrize("engine", ["native", "openvino", "onnxruntime", "xla"])
def test_symmetric_activations_run_everywhere(engine: str, tmp_path: Path) -> None:
    if engine not in openxrt.engines():
        pytest.skip(f"{engine} is not installed")
    model, output = convolution(tmp_path / "net.onnx"), tmp_path / "int8.onnx"
    quantise(model, output, samples_of([1, 4, 8, 8]), activations="symmetric")
    for feeds in samples_of([1, 4, 8, 8], 4, 1):
        wanted = run(model, feeds)
        found = openxrt.load(output, engine=engine, cache_dir="").run(feeds)["y"]
        # Without VNNI these two add up pairs of products in 16 bits, which saturates.
        saturates = engine in ("openvino", "onnxruntime") and "vnni" not in CPU
        assert np.abs(found - wanted).max() < (0.1 if saturates else 0.05) * np.ptp(wanted)


def test_engines_of_cpus_get_asymmetric_activations(tmp_path: Path) -> None:
    model, output = convolution(tmp_path / "net.onnx"), tmp_path / "int8.onnx"
    quantise(model, output, samples_of([1, 4, 8, 8]), engine=["native", "openvino"])
    constants = {c.data_type for c in onnx.load(output).graph.initializer}
    assert TensorProto.UINT8 in constants


# --- what makes int8 more exact ------------------------------------------------------------------


def spread(count: int, seed: int) -> np.ndarray:
    """Sizes of channels: most about 1, a few 100."""
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.normal(0, 0.3, count))
    sizes[:: count // 4] *= 100
    return sizes


def layers(path: Path, depthwise: bool) -> Path:
    """Conv, BatchNormalization, Relu, Conv: channels of very different sizes between them."""
    rng = np.random.default_rng(3)
    sizes = spread(16, 4)
    second = rng.normal(size=(16, 1, 3, 3) if depthwise else (8, 16, 3, 3))
    if not depthwise:
        second /= sizes[None, :, None, None]
    return save(
        path,
        [
            helper.make_node("Conv", ["x", "w"], ["c"], name="first"),
            helper.make_node("BatchNormalization", ["c", "s", "t", "m", "v"], ["n"]),
            helper.make_node("Relu", ["n"], ["r"]),
            helper.make_node(
                "Conv", ["r", "u"], ["d"], name="second", group=16 if depthwise else 1
            ),
            helper.make_node("Conv", ["d", "z"], ["y"], name="third"),
        ],
        [1, 8, 10, 10],
        [1, 8, 6, 6],
        {
            "w": rng.normal(size=(16, 8, 3, 3)) / 8,
            "s": sizes,
            "t": rng.normal(size=16) * sizes,
            "m": rng.normal(size=16) / 8,
            "v": np.exp(rng.normal(0, 0.2, 16)),
            "u": second,
            "z": rng.normal(size=(8, second.shape[0], 1, 1))
            / (sizes[None, :, None, None] if depthwise else 1),
        },
    )


@pytest.mark.parametrize("depthwise", [False, True])
def test_layers_are_equalised(depthwise: bool, tmp_path: Path) -> None:
    model = layers(tmp_path / "net.onnx", depthwise)
    reached = {}
    for equalize in (False, True):
        output = tmp_path / f"{equalize}.onnx"
        quantise(model, output, samples_of([1, 8, 10, 10]), equalize=equalize)
        reached[equalize] = decibels(model, output, samples_of([1, 8, 10, 10], 4, 1))
        assert ops_of(output).count("Conv") == 3
        assert "Mul" not in ops_of(output)
    assert reached[True] > reached[False] + 6


def transformer(path: Path, shared: bool) -> Path:
    """LayerNormalization, MatMul, Add, Gelu, MatMul; `shared`: a residual reads the norm, too."""
    rng = np.random.default_rng(5)
    sizes = spread(32, 6)
    nodes = [
        helper.make_node("LayerNormalization", ["x", "g", "o"], ["n"], name="norm"),
        helper.make_node("MatMul", ["n", "w"], ["p"], name="up"),
        helper.make_node("Add", ["p", "b"], ["q"]),
        helper.make_node("Gelu", ["q"], ["r"]),
        helper.make_node("MatMul", ["r", "u"], ["d"], name="down"),
        helper.make_node("Mul", ["n", "k"], ["m"]),
        helper.make_node("Add", ["d", "m"], ["y"]),
    ]
    if not shared:
        nodes[5:] = [helper.make_node("Identity", ["d"], ["y"])]
    return save(
        path,
        nodes,
        [2, 9, 32],
        [2, 9, 32],
        {
            "g": sizes,
            "o": rng.normal(size=32) * sizes,
            "w": rng.normal(size=(32, 64)) / sizes[:, None],
            "b": rng.normal(size=64),
            "u": rng.normal(size=(64, 32)),
            **({"k": 0.1 / sizes} if shared else {}),
        },
    )


@pytest.mark.parametrize("shared", [False, True])
def test_norms_before_products_are_smoothed(shared: bool, tmp_path: Path) -> None:
    model = transformer(tmp_path / "net.onnx", shared)
    reached = {}
    for strength in (0, 0.5):
        output = tmp_path / f"{strength}.onnx"
        quantise(model, output, samples_of([2, 9, 32]), smooth=strength)
        reached[strength] = decibels(model, output, samples_of([2, 9, 32], 4, 1))
    assert reached[0.5] > reached[0] + 6
    # The norm takes the factors in, unless somebody else reads it.
    assert ops_of(output).count("Mul") == (2 if shared else 0)


def test_what_smoothing_would_worsen_is_left_alone(tmp_path: Path) -> None:
    """Channels of one size: nothing is gained, and the model's weights stay as they are."""
    model, output = convolution(tmp_path / "net.onnx"), tmp_path / "int8.onnx"
    first, second = tmp_path / "a.onnx", tmp_path / "b.onnx"
    quantise(model, first, samples_of([1, 4, 8, 8]), smooth=0)
    quantise(model, second, samples_of([1, 4, 8, 8]), smooth=0.5)
    better = decibels(model, second, samples_of([1, 4, 8, 8], 8, 1))
    assert better > decibels(model, first, samples_of([1, 4, 8, 8], 8, 1)) - 0.5
    with pytest.raises(openxrt.InvalidArgument, match="strength of 2"):
        quantise(model, output, samples_of([1, 4, 8, 8]), smooth=2)


def test_what_few_elements_say_smooths_nothing(tmp_path: Path) -> None:
    """Of 18 elements a channel, the next one is often larger than each."""
    model = transformer(tmp_path / "net.onnx", False)
    outputs = [tmp_path / "0.onnx", tmp_path / "half.onnx"]
    for output, strength in zip(outputs, (0, 0.5), strict=True):
        quantise(model, output, samples_of([2, 9, 32], 1), smooth=strength)
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_biases_are_corrected(tmp_path: Path) -> None:
    """Weights whose rounding errors all point one way, behind inputs whose mean is far from 0."""
    rng = np.random.default_rng(7)
    weights = rng.uniform(0.4, 0.6, size=(64, 8)) / 127
    weights[0] = 1
    model = save(
        tmp_path / "net.onnx",
        [
            helper.make_node("MatMul", ["x", "w"], ["p"], name="product"),
            helper.make_node("Add", ["p", "b"], ["y"]),
        ],
        [4, 64],
        [4, 8],
        {"w": weights, "b": rng.normal(size=8)},
    )
    samples = [{"x": s["x"] + 2} for s in samples_of([4, 64])]
    tests = [{"x": s["x"] + 2} for s in samples_of([4, 64], 4, 1)]
    errors = {}
    for correct in (False, True):
        output = tmp_path / f"{correct}.onnx"
        quantise(model, output, samples, correct_bias=correct, smooth=0)
        errors[correct] = np.abs(
            np.mean([run(output, t) - run(model, t) for t in tests], axis=(0, 1))
        ).max()
    assert errors[True] < 0.25 * errors[False]


def network(path: Path) -> Path:
    """A small CNN with a residual and a depthwise part."""
    rng = np.random.default_rng(9)

    def weights(*shape: int) -> np.ndarray:
        return rng.normal(size=shape) / np.sqrt(np.prod(shape[1:])) * np.sqrt(2)

    return save(
        path,
        [
            helper.make_node("Conv", ["x", "w0", "b0"], ["a"], name="stem", pads=[1] * 4),
            helper.make_node("Relu", ["a"], ["ar"]),
            helper.make_node("Conv", ["ar", "w1"], ["b"], name="deep", pads=[1] * 4, group=16),
            helper.make_node("Relu", ["b"], ["br"]),
            helper.make_node("Conv", ["br", "w2"], ["c"], name="point"),
            helper.make_node("Add", ["c", "ar"], ["d"]),
            helper.make_node("GlobalAveragePool", ["d"], ["e"]),
            helper.make_node("Flatten", ["e"], ["f"]),
            helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], name="head"),
        ],
        [1, 3, 16, 16],
        [1, 10],
        {
            "w0": weights(16, 3, 3, 3),
            "b0": rng.normal(size=16),
            "w1": weights(16, 1, 3, 3),
            "w2": weights(16, 16, 1, 1),
            "w3": weights(16, 10),
            "b3": rng.normal(size=10),
        },
    )


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (network, [1, 3, 16, 16]),
        (lambda path: layers(path, False), [1, 8, 10, 10]),
        (lambda path: layers(path, True), [1, 8, 10, 10]),
        (lambda path: transformer(path, True), [2, 9, 32]),
    ],
    ids=["network", "layers", "depthwise", "transformer"],
)
def test_onnx_runtimes_quantiser_does_no_better(
    make: Callable[[Path], Path], shape: list[int], tmp_path: Path
) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    model = make(tmp_path / "net.onnx")
    samples, tests = samples_of(shape), samples_of(shape, 8, 1)

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.rest = iter(samples)

        def get_next(self) -> Feeds | None:
            return next(self.rest, None)

    peer, ours = tmp_path / "peer.onnx", tmp_path / "ours.onnx"
    quantization.quantize_static(
        str(model),
        str(peer),
        Reader(),
        quant_format=quantization.QuantFormat.QDQ,
        op_types_to_quantize=["Conv", "Gemm", "MatMul"],
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
        per_channel=True,
    )
    quantise(model, ours, samples)
    assert decibels(model, ours, tests) > decibels(model, peer, tests)


# --- rules ---------------------------------------------------------------------------------------


def attention(path: Path) -> Path:
    rng = np.random.default_rng(11)
    return save(
        path,
        [
            helper.make_node("MatMul", ["x", "wq"], ["q"], name="/query"),
            helper.make_node("MatMul", ["x", "wk"], ["k"], name="/key"),
            helper.make_node("MatMul", ["x", "wv"], ["v"], name="/value"),
            helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
            helper.make_node("MatMul", ["q", "kt"], ["s"], name="/scores"),
            helper.make_node("Softmax", ["s"], ["a"], name="/softmax", axis=-1),
            helper.make_node("MatMul", ["a", "v"], ["y"], name="/context"),
        ],
        [1, 12, 16],
        [1, 12, 16],
        {n: rng.normal(size=(16, 16)) / 4 for n in ("wq", "wk", "wv")},
    )


def reads_bytes(model: Path) -> set[str]:
    """Names of nodes whose first input is dequantised."""
    graph = onnx.load(model).graph
    dequantised = {n.output[0] for n in graph.node if n.op_type == "DequantizeLinear"}
    return {n.name for n in graph.node if n.input and n.input[0] in dequantised and n.name}


def test_rules_choose_nodes(tmp_path: Path) -> None:
    model, output = attention(tmp_path / "net.onnx"), tmp_path / "int8.onnx"
    samples, tests = samples_of([1, 12, 16]), samples_of([1, 12, 16], 4, 1)
    said = quantise(model, output, samples)
    assert "3 of 5" in said
    assert "/context" not in reads_bytes(output)
    said = quantise(model, output, samples, ops=["MatMul=int8", "Softmax=int8"])
    assert {"/scores", "/context", "/softmax"} <= reads_bytes(output)
    assert decibels(model, output, tests) > 15
    said = quantise(model, output, samples, ops=["MatMul=float", "/val*=int8"])
    assert "1 of 5" in said
    quantise(model, output, samples, ops=["MatMul=int8", "/value=symmetric,mse"])
    kinds = {c.name: c.data_type for c in onnx.load(output).graph.initializer}
    assert kinds["v/zero_point"] == TensorProto.INT8
    assert kinds["q/zero_point"] == TensorProto.UINT8


def test_transposed_convolutions_follow_a_rule(tmp_path: Path) -> None:
    rng = np.random.default_rng(13)
    model = save(
        tmp_path / "net.onnx",
        [
            helper.make_node(
                "ConvTranspose", ["x", "w", "b"], ["y"], name="up", strides=[2, 2], group=2
            )
        ],
        [1, 4, 5, 5],
        [1, 6, 11, 11],
        {"w": rng.normal(size=(4, 3, 3, 3)), "b": rng.normal(size=6)},
    )
    output = tmp_path / "int8.onnx"
    samples = samples_of([1, 4, 5, 5])
    with pytest.raises(openxrt.InvalidArgument, match="no Conv, Gemm or MatMul"):
        quantise(model, output, samples)
    quantise(model, output, samples, ops=["ConvTranspose=int8"])
    assert ops_of(output).count("DequantizeLinear") >= 3
    assert decibels(model, output, samples_of([1, 4, 5, 5], 4, 1)) > 30


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("Conv", "not of the form"),
        ("=int8", "not of the form"),
        ("Conv=int7", "'int7' is none of float"),
        ("Cnov=float", "no node .* has such a name or op type"),
    ],
)
def test_wrong_rules_are_named(rule: str, message: str, tmp_path: Path) -> None:
    model = convolution(tmp_path / "net.onnx")
    with pytest.raises(openxrt.InvalidArgument, match=message):
        quantise(model, tmp_path / "int8.onnx", samples_of([1, 4, 8, 8]), ops=[rule])
    assert not (tmp_path / "int8.onnx").exists()


# --- accuracy and reports ------------------------------------------------------------------------


def xrt(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs the command."""
    program = next(path for path in _command.programs() if path.is_file())
    return subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture
def classes(tmp_path: Path) -> tuple[Path, Path, list[Feeds]]:
    """A model of two products, the second of which int8 ruins; labels are the float model's."""
    rng = np.random.default_rng(15)
    sizes = np.ones(32)
    sizes[:2] = 1000
    second = rng.normal(size=(32, 5))
    second[:2] *= 0.001
    model = save(
        tmp_path / "net.onnx",
        [
            helper.make_node("MatMul", ["x", "w"], ["a"], name="harmless"),
            helper.make_node("Tanh", ["a"], ["b"]),
            helper.make_node("Mul", ["b", "s"], ["c"]),
            helper.make_node("MatMul", ["c", "u"], ["y"], name="delicate"),
        ],
        [1, 32],
        [1, 5],
        {"w": rng.normal(size=(32, 32)), "s": sizes, "u": second},
    )
    x = rng.normal(size=(200, 32)).astype(np.float32)
    labels = np.array([run(model, {"x": row[None]}).argmax() for row in x])
    np.savez(tmp_path / "set.npz", x=x, labels=labels)
    return model, tmp_path / "set.npz", [{"x": row[None]} for row in x[:50]]


def test_a_bound_on_top_1(classes: tuple[Path, Path, list[Feeds]], tmp_path: Path) -> None:
    model, data, samples = classes
    output = tmp_path / "int8.onnx"

    def lost() -> float:
        content = np.load(data)
        answers = [run(output, {"x": row[None]}).argmax() for row in content["x"]]
        return float(100 * (answers != content["labels"]).mean())

    quantise(model, output, samples, smooth=0)
    assert lost() > 10
    said = quantise(model, output, samples, smooth=0, accuracy="top1:4", data=data)
    assert lost() <= 4
    assert "kept in floating point: delicate" in said
    assert "in floating point 1.0000" in said
    done = xrt(
        "quantize", model, "-o", output, "--data", data, "--accuracy", "top1:4", "--smooth", 0
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "kept in floating point: delicate" in done.stdout
    assert lost() <= 4


@pytest.mark.parametrize("accuracy", ["top1", "top1:x", "top1:101", "top5:1"])
def test_accuracies_that_make_no_sense(accuracy: str, tmp_path: Path) -> None:
    model = convolution(tmp_path / "net.onnx")
    with pytest.raises(openxrt.InvalidArgument, match="top1"):
        quantise(model, tmp_path / "o.onnx", samples_of([1, 4, 8, 8]), accuracy=accuracy)
    done = xrt("quantize", model, "-o", tmp_path / "o.onnx", "--calibrate", tmp_path,
               "--accuracy", accuracy)  # fmt: skip
    assert done.returncode == 2
    assert "top1" in done.stderr


def test_reports_rank_nodes(classes: tuple[Path, Path, list[Feeds]], tmp_path: Path) -> None:
    model, data, samples = classes
    rows = openxrt.quantize.rank_nodes(model, calibration=samples, smooth=0)
    assert [row.name for row in rows] == ["delicate", "harmless"]
    assert rows[0].alone_db < rows[1].alone_db
    assert rows[0].input[1] > 900
    # The noise of the delicate node alone, by ONNX Runtime.
    output = tmp_path / "int8.onnx"
    quantise(model, output, samples, smooth=0, keep_float=["harmless"])
    assert decibels(model, output, samples[:8]) == pytest.approx(rows[0].alone_db, abs=0.5)

    page = tmp_path / "noise.html"
    quantise(model, output, samples, smooth=0, keep_float=["harmless"], report=page)
    text = page.read_text(encoding="utf-8")
    inside = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)
    assert inside is not None
    nodes = json.loads(inside[1])["nodes"]
    assert [(n["name"], n["kept"]) for n in nodes] == [("delicate", False), ("harmless", True)]
    assert "http" not in text.replace("application", "")
    table = xrt("quantize", model, "-o", output, "--data", data, "--smooth", 0, "--report")
    assert table.returncode == 0, table.stderr
    assert table.stdout.index("delicate") < table.stdout.index("harmless")
    file = tmp_path / "noise.json"
    done = xrt("quantize", model, "-o", output, "--data", data, "--report", file)
    assert done.returncode == 0, done.stderr
    assert json.loads(file.read_text(encoding="utf-8"))["model"] == "net.onnx"
    wrong = xrt("quantize", model, "-o", output, "--data", data, "--report", tmp_path / "a.txt")
    assert wrong.returncode == 2
    assert ".html or .json" in wrong.stderr


def test_samples_must_come_from_somewhere(tmp_path: Path) -> None:
    model = convolution(tmp_path / "net.onnx")
    done = xrt("quantize", model, "-o", tmp_path / "o.onnx")
    assert done.returncode == 2
    assert "--calibrate DIR, or --data DIR" in done.stderr
    with pytest.raises(openxrt.InvalidArgument, match="calibration= or data="):
        openxrt.quantize.quantize(model, tmp_path / "o.onnx")
    with pytest.raises(openxrt.NotFound, match="there are no samples"):
        quantise(model, tmp_path / "o.onnx", [])


# --- which clipping ------------------------------------------------------------------------------


def with_outliers(count: int, far: float, seed: int) -> list[Feeds]:
    """Noise of which one element in a sample is far off."""
    samples = samples_of([1, 4, 8, 8], count, seed)
    for sample in samples:
        sample["x"][0, 0, 0, 0] = far
    return samples


@pytest.mark.parametrize(("far", "chosen"), [(0.0, ("mse", "minmax")), (60.0, ("mse",))])
def test_the_clipping_is_chosen_by_the_outputs(
    far: float, chosen: tuple[str, ...], tmp_path: Path
) -> None:
    model, output = convolution(tmp_path / "net.onnx"), tmp_path / "int8.onnx"
    samples = with_outliers(16, far, 0)
    said = quantise(model, output, samples).splitlines()[-1]
    assert said.removeprefix("clipping: ") in chosen
    reached = decibels(model, output, samples)
    for clipping in ("mse", "minmax", "moving_average"):
        quantise(model, tmp_path / "other.onnx", samples, clipping=clipping)
        assert reached > decibels(model, tmp_path / "other.onnx", samples) - 0.6


# --- what convolutions give to float ops ---------------------------------------------------------


def test_spectra_are_not_rounded(tmp_path: Path) -> None:
    """Filters of which some hear a thousandth of what others do, and the logarithm of the power."""
    rng = np.random.default_rng(4)
    loud = 10.0 ** -rng.uniform(0, 3, size=(12, 1, 1))
    model = save(
        tmp_path / "net.onnx",
        [
            helper.make_node("Conv", ["x", "w"], ["c"], name="filters"),
            helper.make_node("Transpose", ["c"], ["t"], perm=[0, 2, 1]),
            helper.make_node("Mul", ["t", "t"], ["power"]),
            helper.make_node("Add", ["power", "least"], ["some"]),
            helper.make_node("Log", ["some"], ["y"]),
        ],
        [1, 1, 400],
        [1, 369, 12],
        {"w": loud * rng.normal(size=(12, 1, 32)), "least": np.array(1e-6)},
    )
    output, samples, tests = (
        tmp_path / "int8.onnx",
        *(samples_of([1, 1, 400], seed=seed) for seed in (0, 1)),
    )
    said = quantise(model, output, samples)
    assert "results of convolutions are float32 where float ops read them" in said
    assert ops_of(output).count("QuantizeLinear") == 1  # of x
    assert decibels(model, output, tests) > 15
    quantise(model, tmp_path / "rounded.onnx", samples, round_sums=True)
    assert ops_of(tmp_path / "rounded.onnx").count("QuantizeLinear") > 1
    assert decibels(model, tmp_path / "rounded.onnx", tests) < decibels(model, output, tests) - 3
    # What the network for pictures gives is rounded as before: that is worth no three decibels.
    assert "float32 where" not in quantise(
        convolution(tmp_path / "picture.onnx"), output, samples_of([1, 4, 8, 8])
    )


def test_clippings_are_known_by_name(tmp_path: Path) -> None:
    """A table has no outputs to compare: it takes one by name."""
    model, output = convolution(tmp_path / "net.onnx"), tmp_path / "int8.onnx"
    samples = samples_of([1, 4, 8, 8])
    with pytest.raises(openxrt.InvalidArgument, match="clipping 'most': there are minmax"):
        quantise(model, output, samples, clipping="most")
    with pytest.raises(openxrt.InvalidArgument, match="clipping 'auto'"):
        openxrt.quantize.calibrate(model, samples, clipping="auto")
