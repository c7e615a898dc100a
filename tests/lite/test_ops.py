# SPDX-License-Identifier: Apache-2.0
"""Ops that lite makes of other ops, judged by ONNX Runtime, and folders of OneFlow."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openxrt.lite
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import model_proto

ROOT = Path(__file__).resolve().parents[2]


def differs(
    file: Path,
    folder: Path,
    targets: str,
    dims: dict[str, int] | None = None,
    **inputs: np.ndarray,
) -> float:
    """Largest difference of lite from ONNX Runtime over the output's range."""
    openxrt.lite.compile(file, folder / "model.bin", targets=targets, dims=dims)
    model = openxrt.lite.Model(folder / "model.bin")
    expected = onnxruntime.InferenceSession(file).run(None, inputs)[0]
    (actual,) = model.run(inputs).values()
    assert actual.shape == expected.shape
    return float(np.abs(actual - expected).max() / np.ptp(expected))


TRANSPOSED = {
    "whole windows": ((1, 6, 5, 7), (6, 4, 2, 2), {"strides": [2, 2]}),
    "whole windows, 3 by 2": ((2, 3, 4, 5), (3, 5, 3, 2), {"strides": [3, 2]}),
    "overlapping": ((1, 4, 6, 5), (4, 3, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "uneven": (
        (2, 4, 5, 4),
        (4, 2, 3, 5),
        {"strides": [2, 3], "pads": [0, 1, 1, 2], "output_padding": [1, 2]},
    ),
    "groups, dilated": (
        (1, 6, 7, 6),
        (6, 2, 3, 3),
        {"strides": [1, 2], "group": 3, "dilations": [2, 2], "pads": [2, 1, 0, 3]},
    ),
    "same": ((1, 2, 5, 5), (2, 2, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "sized": ((1, 2, 5, 5), (2, 2, 3, 3), {"strides": [2, 2], "output_shape": [10, 9]}),
    "one dimension": ((1, 5, 9), (5, 4, 4), {"strides": [3], "pads": [1, 0]}),
}


@pytest.mark.parametrize("targets", ["generic", "x86", "cortex-m"])
@pytest.mark.parametrize("case", TRANSPOSED)
def test_conv_transpose(case: str, targets: str, tmp_path: Path) -> None:
    shape, weights, attributes = TRANSPOSED[case]
    rng = np.random.default_rng(0)
    channels = weights[1] * attributes.get("group", 1)
    constants = [
        numpy_helper.from_array(rng.standard_normal(weights, np.float32), "w"),
        numpy_helper.from_array(rng.standard_normal(channels, np.float32), "b"),
    ]
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w", "b"], ["c"], **attributes),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    inputs = [info("x", TensorProto.FLOAT, shape)]
    outputs = [info("y", TensorProto.FLOAT, None)]
    file = tmp_path / "model.onnx"
    onnx.save(model_proto(nodes, inputs, outputs, constants, opset=17), file)
    x = rng.standard_normal(shape, np.float32)
    assert differs(file, tmp_path, targets, x=x) < 1e-6


@pytest.mark.parametrize("targets", ["generic", "x86"])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_lrn(size: int, targets: str, tmp_path: Path) -> None:
    """Also the height of the images is set, whose dimension has no name."""
    node = helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.3, beta=0.6, bias=1.5)
    info = helper.make_tensor_value_info
    inputs, outputs = ([info(name, TensorProto.FLOAT, [2, 7, None, 3])] for name in ("x", "y"))
    file = tmp_path / "model.onnx"
    onnx.save(model_proto([node], inputs, outputs, opset=17), file)
    x = np.random.default_rng(0).standard_normal((2, 7, 5, 3), np.float32)
    assert differs(file, tmp_path, targets, {"x.2": 5}, x=x) < 1e-6


def test_large_constants_of_a_shape(tmp_path: Path) -> None:
    """Weights given as their shape and one number, of more than the standard passes fold."""
    nodes = [
        helper.make_node(
            "ConstantOfShape",
            ["shape"],
            ["w"],
            value=helper.make_tensor("value", TensorProto.FLOAT, [1], [0.25]),
        ),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    file = tmp_path / "model.onnx"
    onnx.save(
        model_proto(
            nodes,
            [info("x", TensorProto.FLOAT, [1, 3000])],
            [info("y", TensorProto.FLOAT, [1, 2000])],
            [numpy_helper.from_array(np.array([3000, 2000]), "shape")],
            opset=17,
        ),
        file,
    )
    openxrt.lite.compile(file, tmp_path / "model.bin", targets="x86")
    x = np.random.default_rng(0).standard_normal((1, 3000), np.float32)
    (y,) = openxrt.lite.Model(tmp_path / "model.bin").run({"x": x}).values()
    np.testing.assert_allclose(y, np.full((1, 2000), x.sum() / 4), rtol=1e-3)


def save(folder: Path, text: str) -> Path:
    file = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {text}'), file)
    return file


RESIZES = {
    "linear": "linear asymmetric 5,4 s={1,1,0.5,0.5}",
    "linear, half pixel": "linear half_pixel 5,4 s={1,1,0.5,1.3}",
    "linear, larger": "linear asymmetric 3,5 s={1,1,2.5,1.5}",
    "linear, of the same size": "linear half_pixel 3,2 s={1,1,1.3,1.4}",
    "linear, by sizes": "linear half_pixel 5,4 z={1,1,2,7}",
    "nearest": "nearest asymmetric 4,5 s={1,1,2,3}",
    "nearest, by sizes": "nearest half_pixel 4,5 z={1,1,12,10}",
    "nearest, no whole scale": "nearest asymmetric 4,3 s={1,1,1.5,0.5}",
    "nearest, 1/49 is rounded": "nearest asymmetric 2,3 s={1,1,49,1}",
}


@pytest.mark.parametrize("case", RESIZES)
def test_resize(case: str, tmp_path: Path) -> None:
    """Where the scale times the size is no whole number, the scale decides."""
    mode, transform, sizes, given = RESIZES[case].split()
    operands, kind = ("x,,s", "float") if given.startswith("s") else ("x,,,z", "int64")
    rounds = "floor" if transform == "asymmetric" else "round_prefer_floor"
    file = save(
        tmp_path,
        f"g (float[1,1,{sizes}] x) => (float[1,1,p,q] y) <{kind}[4] {given}>"
        f'{{ y=Resize<mode="{mode}",coordinate_transformation_mode="{transform}",'
        f'nearest_mode="{rounds}">({operands}) }}',
    )
    shape = (1, 1, *map(int, sizes.split(",")))
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) ** 2
    assert differs(file, tmp_path, "generic", x=x) < 1e-6


def test_resize_that_picks_other_pixels_is_refused(tmp_path: Path) -> None:
    """Eight rows of four by a scale of 2.1: not two of each."""
    file = save(
        tmp_path,
        "g (float[1,1,4,4] x) => (float[1,1,8,8] y) <float[4] s={1,1,2.1,2.1}>"
        '{ y=Resize<mode="nearest",coordinate_transformation_mode="half_pixel",'
        'nearest_mode="ceil">(x,,s) }',
    )
    with pytest.raises(openxrt.Error, match="nearest where rounding down"):
        openxrt.lite.compile(file, tmp_path / "model.bin")


@pytest.mark.parametrize(
    "op", ["Mean", "Sum", "Max", "Min", "Prod", "L1", "L2", "SumSquare"], ids=str
)
def test_reduction_over_no_axes(op: str, tmp_path: Path) -> None:
    file = save(
        tmp_path,
        f"g (float[2,2] x) => (float[2,2] y) {{ y=Reduce{op}<noop_with_empty_axes=1>(x) }}",
    )
    x = np.array([[-1, 2], [-3, 4]], np.float32)
    expected = {"L1": np.abs(x), "L2": np.abs(x), "SumSquare": x * x}.get(op, x)
    openxrt.lite.compile(file, tmp_path / "model.bin")
    actual = openxrt.lite.Model(tmp_path / "model.bin").run({"x": x})["y"]
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_sign_of_integers(dtype: str, tmp_path: Path) -> None:
    file = save(tmp_path, f"g ({dtype}[5] x) => ({dtype}[5] y) {{ y=Sign(x) }}")
    openxrt.lite.compile(file, tmp_path / "model.bin")
    x = np.array([-3, 0, 2, np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
    actual = openxrt.lite.Model(tmp_path / "model.bin").run({"x": x})["y"]
    np.testing.assert_array_equal(actual, np.sign(x))


REFUSED = {
    "an empty output": (
        "g (float[4,4] x) => (float[0,4] y) <int64[1] s={3}, int64[1] e={1}>"
        "{ [cut] y=Slice(x,s,e) }",
        r"node 'cut': 'y' is float32\[0,4\]",
    ),
    "an empty value": (
        "g (float[4,4] x) => (float[4] y) <int64[1] s={3}, int64[1] e={1}, int64[1] z={0}>"
        "{ t=Slice(x,s,e) u=Exp(t) y=ReduceSum<keepdims=0>(u,z) }",
        "without elements",
    ),
    "an output of nine dimensions": (
        "g (float[4] x) => (float[1,1,1,1,1,1,1,1,4] y) <int64[8] a={0,1,2,3,4,5,6,7}>"
        "{ y=Unsqueeze(x,a) }",
        "'y' has 9 dimensions",
    ),
    "numbers that lite has not": (
        "g (double[4] x) => (double[4] y) { y=Identity(x) }",
        r"'x' of float64\[4\]",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("emit", ["bin", "c"])
def test_what_the_runtime_would_refuse(case: str, emit: str, tmp_path: Path) -> None:
    """The compiler says what of the model it is, and writes nothing."""
    text, message = REFUSED[case]
    with pytest.raises(openxrt.Error, match=message):
        openxrt.lite.compile(save(tmp_path, text), tmp_path / "out.bin", emit=emit)
    assert not list(tmp_path.glob("out.*"))


def test_a_long_name_is_cut(tmp_path: Path) -> None:
    file = save(tmp_path, "g (float[4] x) => (float[4] y) { y=Hardmax(x) }")
    model = onnx.load(file)
    model.graph.node[0].name = "n" * 50000
    onnx.save(model, file)
    with pytest.raises(openxrt.Error, match=r"node 'nnn.*no kernel for this op") as caught:
        openxrt.lite.compile(file, tmp_path / "out.bin")
    assert len(str(caught.value)) < 1000


def test_empty_parts_are_left_out(tmp_path: Path) -> None:
    file = save(
        tmp_path,
        "g (float[4,3] x) => (float[4,3] y) <int64[3] n={0,3,1}>"
        "{ a,b,c=Split(x,n) d=Exp(b) y=Concat<axis=0>(a,d,c) }",
    )
    x = np.random.default_rng(0).standard_normal((4, 3), np.float32)
    assert differs(file, tmp_path, "generic", x=x) < 1e-6


@pytest.mark.parametrize("name", ["cnn", "mobile", "attention"])
@pytest.mark.parametrize("targets", ["generic", "x86", "cortex-m"])
def test_folders_of_oneflow(name: str, targets: str, tmp_path: Path) -> None:
    """A folder that OneFlow saved, and the outputs that OneFlow computed."""
    folder = ROOT / "tests" / "frontends" / "oneflow" / "data" / name
    openxrt.lite.compile(folder, tmp_path / "model.bin", targets=targets)
    model = openxrt.lite.Model(tmp_path / "model.bin")
    with np.load(folder / "cases.npz") as cases:
        outputs = model.run({name: cases[name] for name in model.inputs})
        assert outputs
        for key, actual in outputs.items():
            np.testing.assert_allclose(actual, cases[key], rtol=1e-4, atol=1e-5)
