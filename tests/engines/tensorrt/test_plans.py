# SPDX-License-Identifier: Apache-2.0
"""TensorRT, the engine in C++ or the one on its Python package: plans built without a GPU."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, model_proto, tensor

ROOT = Path(__file__).resolve().parents[3]

if "tensorrt" not in openxrt.engines():
    pytest.skip("TensorRT-RTX is not installed", allow_module_level=True)

from openxrt.engines import _cuda  # noqa: E402

IN_PYTHON = any(
    report.location.endswith(".py") for report in openxrt.doctor() if report.name == "tensorrt"
)


def has_gpu() -> bool:
    try:
        _cuda.driver()
    except openxrt.EngineError:
        return False
    return True


def load(model: bytes, **options: object) -> openxrt.Program:
    options = {"compute_capabilities": "89", **options}
    return openxrt.load(
        model,
        engine="tensorrt",
        device="cuda:0",
        strict=True,
        cache_dir="",
        engine_options={"tensorrt": options},
    )


def conv_model(dims: list, dtype: int = TensorProto.FLOAT) -> bytes:
    """y = Relu(Conv(x)), 3 to 16 channels."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((16, 3, 3, 3)).astype(helper.tensor_dtype_to_np_dtype(dtype))
    return make_model(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["y"], name="relu"),
        ],
        [tensor("x", dtype, dims)],
        [tensor("y", dtype, [dims[0], 16, *dims[2:]])],
        [numpy_helper.from_array(weight, "w")],
    )


def plan_of(model: bytes, tmp_path: Path, **options: object) -> bytes:
    """What the disk cache holds for a model of one function."""
    openxrt.load(
        model,
        engine="tensorrt",
        device="cuda:0",
        strict=True,
        cache_dir=tmp_path,
        engine_options={"tensorrt": {"compute_capabilities": "89", **options}},
    )
    openxrt._core.finish_writing()
    (entry,) = [e for e in openxrt.cache_list(tmp_path) if e.engine == "tensorrt"]
    assert entry.valid
    return (tmp_path / f"{entry.key}.xrtc").read_bytes()


def test_it_is_found_by_name() -> None:
    assert "tensorrt" in openxrt.engines()
    assert {"Conv", "MatMul", "Softmax"} <= set(openxrt.engine_ops("tensorrt"))
    assert "RandomNormal" not in openxrt.engine_ops("tensorrt")


def test_a_plan_is_built_and_kept(tmp_path: Path) -> None:
    first = plan_of(conv_model([1, 3, 8, 8]), tmp_path)
    assert len(first) > 10_000
    program = openxrt.load(
        conv_model([1, 3, 8, 8]),
        engine="tensorrt",
        device="cuda:0",
        cache_dir=tmp_path,
        engine_options={"tensorrt": {"compute_capabilities": "89"}},
    )
    assert program.explain()["launches"][0]["from_cache"]


def test_options_are_part_of_the_key(tmp_path: Path) -> None:
    for i, capability in enumerate(("89", "12.0")):
        plan_of(conv_model([1, 3, 8, 8]), tmp_path / str(i), compute_capabilities=capability)
    keys = [openxrt.cache_list(tmp_path / str(i))[0].key for i in range(2)]
    assert keys[0] != keys[1]


@pytest.mark.skipif(has_gpu(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_so() -> None:
    program = load(conv_model([1, 3, 8, 8]))
    assert program.explain().nodes_per_engine == {"tensorrt": 2}
    missing = r"runs on a GPU: (there is no CUDA|no NVIDIA) driver"
    with pytest.raises(openxrt.EngineError, match=missing):
        program(np.zeros((1, 3, 8, 8), np.float32))
    with pytest.raises(openxrt.Unsupported, match=r"option compute_capabilities, for example 89"):
        openxrt.load(conv_model([1, 3, 8, 8]), engine="tensorrt", device="cuda:0", cache_dir="")


@pytest.mark.skipif(has_gpu(), reason="this machine has a GPU")
def test_the_doctor_names_a_missing_gpu() -> None:
    """It compiled for a GPU that is not here: no failure unless the engine was asked for."""
    (report,) = [r for r in openxrt.doctor() if r.name == "tensorrt"]
    assert report.builds
    assert not report.available
    assert "driver" in report.error
    assert report.op_count > 100
    named = subprocess.run(
        [sys.executable, "-m", "openxrt", "doctor", "tensorrt"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert named.returncode == 3
    assert "compiled one op for a device that is not here" in named.stdout
    every = [sys.executable, "-m", "openxrt", "doctor"]
    others = [r for r in openxrt.doctor() if r.name != "tensorrt"]
    if all(r.available for r in others):
        assert subprocess.run(every, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_half_precision_is_what_the_graph_says(dtype: int) -> None:
    assert load(conv_model([1, 3, 8, 8], dtype)).explain().nodes_per_engine == {"tensorrt": 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compute_capabilites": "89"}, "did you mean 'compute_capabilities'|compute_capabilities"),
        ({"compute_capabilities": "nine"}, "not of the form 89|'nine' is no number"),
        ({"compute_capabilities": "50"}, "50 is none that .* builds for"),
        ({"shapes": "N"}, "'N' is (neither|not) SYMBOL=LENGTH n?or SYMBOL="),
        ({"shapes": "N=4:2:8"}, "'N=4:2:8' is (neither|not)"),
        ({"tf32": "perhaps"}, "neither 1 nor 0|'perhaps' is no number from 0 to 1"),
        ({"optimization_level": "9"}, "none of 0, 1, 2, 3, 4, 5|no number from 0 to 5"),
    ],
)
def test_wrong_options_are_errors(options: dict, message: str) -> None:
    with pytest.raises(openxrt.InvalidArgument, match=message):
        load(conv_model([1, 3, 8, 8]), **options)


def test_refusals_have_reasons() -> None:
    model = make_model(
        [
            helper.make_node("Relu", ["x"], ["r"], name="relu"),
            helper.make_node("RandomNormalLike", ["r"], ["n"], name="random"),
            helper.make_node("Reshape", ["r", "s"], ["q"], name="reshape"),
            helper.make_node("Neg", ["d"], ["e"], name="double"),
            helper.make_node("BitShift", ["u", "u"], ["v"], name="shift", direction="LEFT"),
        ],
        [
            tensor("x", TensorProto.FLOAT, [2, 3]),
            tensor("s", TensorProto.INT64, [2]),
            tensor("d", TensorProto.DOUBLE, [2]),
            tensor("u", TensorProto.UINT8, [2]),
        ],
        [
            tensor("n", TensorProto.FLOAT, [2, 3]),
            tensor("q", TensorProto.FLOAT, [None, None]),
            tensor("e", TensorProto.DOUBLE, [2]),
            tensor("v", TensorProto.UINT8, [2]),
        ],
    )
    with pytest.raises(openxrt.Unsupported) as caught:
        load(model)
    expected = {
        "RandomNormalLike": "for the same seed|no lowering",
        "Reshape": "decides a shape|not a constant",
        "Neg": "float64",
        "BitShift": "its parser|no lowering",
    }
    text = str(caught.value)
    assert any(op in text and re.search(reason, text) for op, reason in expected.items())
    for node in [n for n in onnx.load_model_from_string(model).graph.node if n.op_type != "Relu"]:
        single = model_proto(
            [node],
            [v for v in onnx.load_model_from_string(model).graph.input if v.name in node.input]
            + ([tensor("r", TensorProto.FLOAT, [2, 3])] if "r" in node.input else []),
            [v for v in onnx.load_model_from_string(model).graph.output if v.name in node.output],
        )
        with pytest.raises(openxrt.Unsupported, match=expected[node.op_type]):
            load(single.SerializeToString())


@pytest.mark.skipif(not IN_PYTHON, reason="the engine is the one in C++")
def test_bounds_of_open_dimensions() -> None:
    from openxrt.engines import tensorrt as engine

    class Port:
        def __init__(self, name: str, shape: tuple) -> None:
            self.name, self.shape = name, shape

    class Function:
        name = "f"
        options: dict = {}  # noqa: RUF012
        max_batch_size = 8
        ranges: dict = {}  # noqa: RUF012
        inputs = [Port("x", ("N", 3, None)), Port("y", (2, 2))]  # noqa: RUF012

    function = Function()
    assert engine.profile_bounds(function, {}) == {"x": ([1, 3, 1], [8, 3, 64], [8, 3, 64])}
    function.options = {"shapes": "N=2:4:16,M=7"}
    assert engine.profile_bounds(function, {}) == {"x": ([2, 3, 1], [4, 3, 64], [16, 3, 64])}
    assert engine.profile_bounds(function, {"x": [16, 3, 128]})["x"][1:] == (
        [4, 3, 128],
        [16, 3, 128],
    )
    function.options = {"shapes": "N=5"}
    assert engine.profile_bounds(function, {})["x"] == ([5, 3, 1], [5, 3, 64], [5, 3, 64])
    function.options, function.ranges = {}, {"N": (2, 4, 16)}
    assert engine.profile_bounds(function, {})["x"] == ([2, 3, 1], [4, 3, 64], [16, 3, 64])


def test_a_profile_is_built_for_open_dimensions() -> None:
    """NonZero leaves a dimension open in the middle of a graph: a function begins there."""
    model = make_model(
        [
            helper.make_node("Unique", ["x"], ["u"], name="unique"),
            helper.make_node("Exp", ["u"], ["e"], name="exp"),
            helper.make_node("Neg", ["e"], ["y"], name="neg"),
        ],
        [tensor("x", TensorProto.FLOAT, [6])],
        [tensor("y", TensorProto.FLOAT, [None])],
    )
    program = openxrt.load(
        model,
        engine=["tensorrt", "native"],
        device="cuda:0",
        cache_dir="",
        engine_options={"tensorrt": {"compute_capabilities": "89"}},
    )
    engines = {node["op"]: node["engine"] for node in program.explain()["nodes"]}
    assert engines == {"Unique": "native", "Exp": "tensorrt", "Neg": "tensorrt"}


def test_one_case_of_each_op_is_built() -> None:
    """A node test of the onnx package for every op: what the engine takes, the builder builds."""
    command = [sys.executable, str(ROOT / "benchmarks" / "tensorrt_builds.py"), "--one-per-op"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-1000:]
    summary = next(line for line in result.stdout.splitlines() if "node tests" in line)
    built = int(summary.split(" built")[0].split()[-1])
    assert built >= 100, summary


# --- int8 ----------------------------------------------------------------------------------------


def quantised_by_us(path: Path, **options: object) -> Path:
    """Two convolutions with biases, a pool, a product: what `engine="tensorrt"` makes of them."""
    import openxrt.quantize

    rng = np.random.default_rng(2)
    constants = {
        "w": rng.standard_normal((16, 3, 3, 3)),
        "b": rng.standard_normal(16),
        "v": rng.standard_normal((16, 16, 3, 3)),
        "c": rng.standard_normal(16),
        "u": rng.standard_normal((16, 10)),
        "d": rng.standard_normal(10),
    }
    model = make_model(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["1"], name="one", pads=[1] * 4),
            helper.make_node("Relu", ["1"], ["2"], name="relu"),
            helper.make_node("Conv", ["2", "v", "c"], ["3"], name="two", pads=[1] * 4),
            helper.make_node("Add", ["3", "2"], ["4"], name="sum"),
            helper.make_node("GlobalAveragePool", ["4"], ["5"], name="pool"),
            helper.make_node("Flatten", ["5"], ["6"], name="flat"),
            helper.make_node("Gemm", ["6", "u", "d"], ["y"], name="head"),
        ],
        [tensor("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [tensor("y", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(v.astype(np.float32), n) for n, v in constants.items()],
    )
    (path / "float.onnx").write_bytes(model)
    samples = [{"x": rng.standard_normal((1, 3, 8, 8)).astype(np.float32)} for _ in range(8)]
    openxrt.quantize.quantize(
        path / "float.onnx", path / "int8.onnx", calibration=samples, **options
    )
    return path / "int8.onnx"


def int8_layers(program: openxrt.Program) -> None:
    """Strict: one plan, and Q and DQ in it, in the form that TensorRT documents."""
    explanation = program.explain()
    assert set(explanation.nodes_per_engine) == {"tensorrt"}
    assert len(explanation["launches"]) == 1
    ops = [row["op"] for row in explanation["nodes"]]
    assert ops.count("QuantizeLinear") >= 3
    assert ops.count("DequantizeLinear") >= ops.count("QuantizeLinear") + 2


def test_our_quantiser_writes_what_it_takes(tmp_path: Path) -> None:
    model = quantised_by_us(tmp_path, engine="tensorrt", device="cuda:0")
    int8_layers(load(model))
    graph = onnx.load(model).graph
    kinds = {c.name: c.data_type for c in graph.initializer}
    quantise = [n for n in graph.node if n.op_type == "QuantizeLinear"]
    assert {kinds[n.input[2]] for n in quantise} == {TensorProto.INT8}
    # It is the same model for others: ONNX Runtime stays close to the float one.
    onnxruntime = pytest.importorskip("onnxruntime")
    x = {"x": np.random.default_rng(3).standard_normal((1, 3, 8, 8)).astype(np.float32)}
    wanted = onnxruntime.InferenceSession(tmp_path / "float.onnx").run(None, x)[0]
    found = onnxruntime.InferenceSession(model).run(None, x)[0]
    assert np.abs(found - wanted).max() < 0.05 * np.ptp(wanted)


def test_the_form_for_cpus_is_refused_by_name(tmp_path: Path) -> None:
    model = quantised_by_us(tmp_path, activations="asymmetric")
    with pytest.raises(openxrt.Unsupported, match="QuantizeLinear"):
        load(model)


def test_modules_in_int8_are_one_plan() -> None:
    torch = pytest.importorskip("torch")
    import openxrt.torch as xt

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1),
        torch.nn.BatchNorm2d(16),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 16, 3),
        torch.nn.Flatten(),
        torch.nn.Linear(16 * 36, 10),
    ).eval()
    samples = [torch.randn(1, 3, 8, 8) for _ in range(4)]
    module = xt.XRTModule(
        net,
        engine=["tensorrt"],
        device="cuda:0",
        strict=True,
        use_int8=True,
        int8_calibration=samples,
        cache_dir="",
        engine_options={"tensorrt": {"compute_capabilities": "89"}},
    )
    if has_gpu():
        module(samples[0])
    else:
        with pytest.raises(openxrt.EngineError, match="runs on a GPU"):
            module(samples[0])
    (program,) = module.programs()
    int8_layers(program)
