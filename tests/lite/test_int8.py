# SPDX-License-Identifier: Apache-2.0
"""Post-training quantisation: scanned digits, ONNX Runtime as the judge of the Q/DQ model."""

import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openxrt
import openxrt.lite
import openxrt.quantize
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from openxrt import _command
from PIL import Image
from small_models import model_proto

Network = tuple[Path, np.ndarray, np.ndarray, np.ndarray]


def constant(name: str, array: np.ndarray) -> TensorProto:
    return numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name)


def digits_model(weights: list[TensorProto]) -> onnx.ModelProto:
    """Two convolutions (the second with a residual), pools, a Concat, a product."""
    pads = {"pads": [1] * 4}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], **pads),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], name="second", **pads),
        helper.make_node("Add", ["c2", "r1"], ["a2"]),
        helper.make_node("Relu", ["a2"], ["r2"]),
        helper.make_node("Concat", ["r1", "r2"], ["both"], axis=1),
        helper.make_node("MaxPool", ["both"], ["small"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["small"], ["flat"]),
    ]
    if len(weights) == 6:
        nodes.append(helper.make_node("Gemm", ["flat", "w3", "b3"], ["y"], name="last", transB=1))
    output = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    return model_proto(
        nodes,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 8, 8])],
        [output],
        weights,
        opset=17,
    )


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    """Random convolutions and a product solved for: file, calibration pictures, tests, answers."""
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(digits.target))
    x = (digits.images[order, None] / 16).astype(np.float32)
    labels = digits.target[order]
    weights = [
        constant("w1", rng.standard_normal((12, 1, 3, 3))),
        constant("b1", rng.standard_normal(12) * 0.5),
        constant("w2", rng.standard_normal((12, 12, 3, 3)) / 8),
        constant("b2", rng.standard_normal(12) * 0.5),
    ]
    session = onnxruntime.InferenceSession(digits_model(weights).SerializeToString())
    features = np.concatenate([session.run(None, {"x": i[None]})[0] for i in x])
    train = np.hstack([features[:1400], np.ones((1400, 1))])
    wanted = np.eye(10)[labels[:1400]]
    solved = np.linalg.solve(train.T @ train + 3 * np.eye(train.shape[1]), train.T @ wanted)
    weights += [constant("w3", solved[:-1].T), constant("b3", solved[-1])]
    file = tmp_path_factory.mktemp("digits") / "digits.onnx"
    onnx.save(digits_model(weights), file)
    return file, x[:64], x[1400:], labels[1400:]


def answers(model: Path, pictures: np.ndarray) -> np.ndarray:
    if model.suffix == ".onnx":
        options = onnxruntime.SessionOptions()
        # As written: without ONNX Runtime's own integer kernels.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(model, options)
        return np.concatenate([session.run(None, {"x": p[None]})[0] for p in pictures])
    lite = openxrt.lite.Model(model)
    return np.concatenate([lite.run({"x": p[None]})["y"] for p in pictures])


def decibels(actual: np.ndarray, expected: np.ndarray) -> float:
    """Signal over the noise of quantisation."""
    return -10 * np.log10(np.mean((actual - expected) ** 2) / np.mean(expected**2))


class Reader(CalibrationDataReader):
    """Samples for ONNX Runtime's quantiser."""

    def __init__(self, pictures: np.ndarray) -> None:
        self.pictures = iter(pictures)

    def get_next(self) -> dict[str, np.ndarray] | None:
        picture = next(self.pictures, None)
        return None if picture is None else {"x": picture[None]}


def xrt(*words: object) -> subprocess.CompletedProcess[str]:
    program = next(p for p in _command.programs() if p.is_file())
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("clipping", ["minmax", "percentile", "entropy", "mse"])
def test_digits_lose_at_most_one_percent(network: Network, clipping: str, tmp_path: Path) -> None:
    file, calibration, pictures, labels = network
    openxrt.lite.compile(
        file,
        tmp_path / "int8.bin",
        targets="x86,generic",
        precision="int8",
        calibration=[{"x": p[None]} for p in calibration],
        clipping=clipping,
    )
    in_float, in_int8 = answers(file, pictures), answers(tmp_path / "int8.bin", pictures)
    assert np.mean(in_float.argmax(1) == labels) > 0.95
    lost = np.mean(in_float.argmax(1) == labels) - np.mean(in_int8.argmax(1) == labels)
    assert lost <= 0.01
    assert np.abs(in_float - in_int8).max() > 1e-4  # it is int8


def test_every_driver_gives_the_same_bits(network: Network, tmp_path: Path) -> None:
    file, calibration, pictures, _ = network
    results = []
    for target in ("generic", "x86"):
        out = tmp_path / f"{target}.bin"
        samples = [{"x": calibration}]
        openxrt.lite.compile(file, out, targets=target, precision="int8", calibration=samples)
        results.append(answers(out, pictures))
    np.testing.assert_array_equal(results[0], results[1])


def test_the_qdq_model_is_standard(network: Network, tmp_path: Path) -> None:
    file, calibration, pictures, _ = network
    np.save(tmp_path / "pictures.npy", calibration)
    out = tmp_path / "qdq.onnx"
    done = xrt("quantize", file, "-o", out, "--calibrate", tmp_path, "--smooth", "0")
    assert done.returncode == 0, done.stderr
    assert "3 of 3" in done.stdout
    assert "64 samples" in done.stdout
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    # Inside of Conv, Add, Relu nothing is rounded, nor what the last Gemm gives: x, r1, a2's end
    # and the moved ones.
    assert sum(n.op_type == "QuantizeLinear" for n in model.graph.node) == 6
    dtypes = {t.name: t.data_type for t in model.graph.initializer}
    dq = {n.output[0]: n for n in model.graph.node if n.op_type == "DequantizeLinear"}
    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm"):
            assert dtypes[dq[node.input[1]].input[0]] == TensorProto.INT8
            assert dtypes[dq[node.input[2]].input[0]] == TensorProto.INT32
    expected = answers(file, pictures)
    judged = answers(out, pictures)
    # As near to float32 as ONNX Runtime's own quantiser gets with the same samples.
    quantize_static(
        file,
        tmp_path / "peer.onnx",
        Reader(calibration),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    peer = decibels(answers(tmp_path / "peer.onnx", pictures), expected)
    assert decibels(judged, expected) > peer - 0.5
    # The integer kernels round as the standard says; a step of difference stems from float32 sums
    # that fall beside the middle between two steps.
    openxrt.lite.compile(out, tmp_path / "qdq.bin")
    step = np.abs(judged - answers(tmp_path / "qdq.bin", pictures)).max()
    assert step <= 2 * (judged.max() - judged.min()) / 255


def test_quantize_from_python(network: Network, tmp_path: Path) -> None:
    """Symbolic batch and all, and an engine runs what comes out."""
    file, calibration, pictures, _ = network
    model = onnx.load(file)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    onnx.save(model, tmp_path / "batch.onnx")
    samples = [{"x": p[None]} for p in calibration]
    said = openxrt.quantize.quantize(
        tmp_path / "batch.onnx", tmp_path / "int8.onnx", calibration=samples, keep_float=["last"]
    )
    assert "2 of 3" in said
    program = openxrt.load(tmp_path / "int8.onnx", engine="native")
    (actual,) = program.run({"x": pictures[:7]}).values()
    assert decibels(actual, answers(file, pictures[:7])) > 23
    with pytest.raises(RuntimeError, match="clipping"):
        openxrt.quantize.quantize(file, tmp_path / "o", calibration=samples, clipping="none")


def test_a_node_can_stay_in_float(network: Network, tmp_path: Path) -> None:
    file, calibration, _, _ = network
    np.savez(tmp_path / "a.npz", x=calibration)
    keep = ["--keep-float", "last", "--keep-float", "second"]
    done = xrt("quantize", file, "-o", tmp_path / "o.onnx", "--calibrate", tmp_path, *keep)
    assert "1 of 3" in done.stdout


def test_pictures_are_samples(network: Network, tmp_path: Path) -> None:
    file, calibration, _, _ = network
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i, picture in enumerate(calibration[:3]):
        Image.fromarray(np.uint8(picture[0] * 255)).save(folder / f"{i}.png")
    said = openxrt.lite.compile(file, tmp_path / "o.bin", precision="int8", calibration=folder)
    assert "ops" in said


def broken(calibration: np.ndarray, what: str) -> list[dict[str, np.ndarray]]:
    if what == "empty":
        return []
    sample = calibration[0:1].copy()
    if what == "nan":
        sample[0, 0, 1, 1] = np.nan
    if what == "dtype":
        sample = sample.astype(np.float64)
    if what == "shape":
        sample = sample[:, :, :4]
    return [{"z" if what == "missing" else "x": sample}]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("empty", "no samples.*'x'.*float32"),
        ("nan", "'x' holds nan"),
        ("dtype", r"'x' must be float32\[1,1,8,8\].*float64"),
        ("shape", r"'x' must be float32\[1,1,8,8\].*\[1,1,4,8\]"),
        ("missing", "'x' is missing"),
    ],
)
def test_bad_samples(network: Network, what: str, message: str, tmp_path: Path) -> None:
    file, calibration, _, _ = network
    with pytest.raises(RuntimeError, match=f"(?s){message}"):
        openxrt.lite.compile(
            file,
            tmp_path / "o.bin",
            precision="int8",
            calibration=broken(calibration, what),
        )
    assert not (tmp_path / "o.bin").exists()


def test_int8_needs_samples(network: Network, tmp_path: Path) -> None:
    file, calibration, _, _ = network
    with pytest.raises(RuntimeError, match="--calibrate DIR"):
        openxrt.lite.compile(file, tmp_path / "o.bin", precision="int8")
    with pytest.raises(RuntimeError, match="no folder"):
        openxrt.lite.compile(file, tmp_path / "o.bin", precision="int8", calibration="nowhere")
    with pytest.raises(RuntimeError, match="--precision=int8"):
        openxrt.lite.compile(file, tmp_path / "o.bin", calibration=[{"x": calibration[:1]}])
    with pytest.raises(TypeError, match="sample 0"):
        openxrt.lite.compile(
            file, tmp_path / "o.bin", precision="int8", calibration=[calibration[:1]]
        )


def test_two_inputs(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["left/a", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    inputs = [
        info("left/a", TensorProto.FLOAT, [2, 8]),
        info("b", TensorProto.FLOAT, [2, 4]),
    ]
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((8, 4), np.float32)
    outputs = [info("y", TensorProto.FLOAT, [2, 4])]
    file = tmp_path / "two.onnx"
    onnx.save(model_proto(nodes, inputs, outputs, [constant("w", weights)], opset=17), file)
    folder = tmp_path / "samples"
    a, b = rng.uniform(-1, 1, (16, 2, 8)), rng.uniform(-1, 1, (16, 2, 4))
    for name, array in (("left_a", a), ("b", b)):
        (folder / name).mkdir(parents=True)
        for i in range(16):
            np.save(folder / name / f"{i}.npy", array[i].astype(np.float32))
    openxrt.lite.compile(file, tmp_path / "two.bin", precision="int8", calibration=folder)
    model = openxrt.lite.Model(tmp_path / "two.bin")
    x = {"left/a": a[0].astype(np.float32), "b": b[0].astype(np.float32)}
    expected = x["left/a"] @ weights + x["b"]
    assert np.abs(model.run(x)["y"] - expected).max() < 0.1
    (folder / "b" / "3.npy").unlink()
    with pytest.raises(RuntimeError, match="sample '3': input 'b' is missing"):
        openxrt.lite.compile(file, tmp_path / "n.bin", precision="int8", calibration=folder)


@pytest.mark.parametrize("factor", [1, 4])
def test_a_bias_in_other_steps(factor: int, tmp_path: Path) -> None:
    """The standard lets a bias have any scale; kernels add it in steps of the sum."""

    def scalar(name: str, value: float, dtype: type) -> TensorProto:
        return numpy_helper.from_array(np.array(value, dtype), name)

    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (8, 16)).astype(np.int8)
    bias = rng.integers(-4000, 4000, 8).astype(np.int32)
    constants = [
        scalar("xs", 0.02, np.float32),
        scalar("xz", 128, np.uint8),
        scalar("ws", 0.01, np.float32),
        scalar("bs", 0.02 * 0.01 * factor, np.float32),
        scalar("ys", 0.2, np.float32),
        numpy_helper.from_array(weights, "wq"),
        numpy_helper.from_array(bias, "bq"),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xd"]),
        helper.make_node("DequantizeLinear", ["wq", "ws"], ["wd"]),
        helper.make_node("DequantizeLinear", ["bq", "bs"], ["bd"]),
        helper.make_node("Gemm", ["xd", "wd", "bd"], ["g"], transB=1),
        helper.make_node("QuantizeLinear", ["g", "ys", "xz"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    inputs, outputs = (
        [info("x", TensorProto.UINT8, [3, 16])],
        [info("y", TensorProto.UINT8, [3, 8])],
    )
    file = tmp_path / "bias.onnx"
    onnx.save(model_proto(nodes, inputs, outputs, constants, opset=19), file)
    assert "1 ops" in openxrt.lite.compile(file, tmp_path / "bias.bin")
    x = rng.integers(0, 256, (3, 16)).astype(np.uint8)
    exact = (x.astype(np.int64) - 128) @ weights.T.astype(np.int64) * 0.0002
    expected = np.clip(np.rint((exact + bias * 0.0002 * factor) / 0.2) + 128, 0, 255)
    actual = openxrt.lite.Model(tmp_path / "bias.bin").run({"x": x})["y"]
    np.testing.assert_array_equal(actual, expected)


def test_half_precision(network: Network, tmp_path: Path) -> None:
    """Weights are rounded to half precision; one that is too large is named."""
    file, _, pictures, _ = network
    openxrt.lite.compile(file, tmp_path / "half.bin", precision="fp16")
    openxrt.lite.compile(file, tmp_path / "full.bin")
    assert (tmp_path / "half.bin").stat().st_size < 0.6 * (tmp_path / "full.bin").stat().st_size
    model = onnx.load(file)
    for tensor in model.graph.initializer:
        if tensor.name.startswith("w"):
            rounded = numpy_helper.to_array(tensor).astype(np.float16).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(rounded, tensor.name))
    onnx.save(model, tmp_path / "rounded.onnx")
    expected = answers(tmp_path / "rounded.onnx", pictures[:20])
    np.testing.assert_allclose(answers(tmp_path / "half.bin", pictures[:20]), expected, atol=1e-5)
    assert np.abs(answers(file, pictures[:20]) - expected).max() > 1e-4
    model.graph.initializer[0].CopyFrom(constant("w1", np.full((12, 1, 3, 3), 1e5)))
    onnx.save(model, tmp_path / "large.onnx")
    with pytest.raises(RuntimeError, match="weight 100000 is beyond half precision"):
        openxrt.lite.compile(tmp_path / "large.onnx", tmp_path / "o.bin", precision="fp16")
