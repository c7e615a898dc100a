# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose windows reach far, and what stands between them."""

import numpy as np
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor


def stack(pad: str, depth: int = 3, channels: int = 32) -> bytes:
    """Residual blocks of dilated convolutions; `pad`: how the length is kept."""
    rng = np.random.default_rng(0)
    nodes, constants = [], {}

    def constant(name: str, value: object, dtype: type = np.int64) -> str:
        constants[name] = np.asarray(value, dtype)
        return name

    constant("axes", [2])
    x = "x"
    for i in range(depth):
        reach = 64 * 4**i
        weights = rng.standard_normal((channels, channels, 3)) / np.sqrt(3 * channels)
        constant(f"w{i}", weights, np.float32)
        if pad == "concat":
            constant(f"n{i}", [reach])
            constant(f"m{i}", [-reach])
            constant(f"end{i}", [np.iinfo(np.int64).max])
            constant("zero", [0])
            nodes += [
                helper.make_node("Slice", [x, "zero", f"n{i}", "axes"], [f"head{i}"]),
                helper.make_node("Slice", [x, f"m{i}", f"end{i}", "axes"], [f"tail{i}"]),
                helper.make_node("Concat", [f"head{i}", x, f"tail{i}"], [f"p{i}"], axis=2),
            ]
        else:
            constant(f"pads{i}", [0, 0, reach, 0, 0, reach])
            nodes.append(helper.make_node("Pad", [x, f"pads{i}"], [f"p{i}"], mode=pad))
        nodes += [
            helper.make_node("Conv", [f"p{i}", f"w{i}"], [f"c{i}"], dilations=[reach]),
            helper.make_node("Relu", [f"c{i}"], [f"r{i}"]),
            helper.make_node("Add", [f"r{i}", x], [f"y{i}"]),
        ]
        x = f"y{i}"
    nodes.append(helper.make_node("Identity", [x], ["y"]))
    return make_model(
        nodes,
        [tensor("x", TensorProto.FLOAT, [2, channels, 1500])],
        [tensor("y", TensorProto.FLOAT, [2, channels, 1500])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )


@pytest.mark.parametrize("pad", ["concat", "constant", "reflect", "edge"])
def test_dilated_blocks(pad: str) -> None:
    model = stack(pad)
    x = np.random.default_rng(1).standard_normal((2, 32, 1500)).astype(np.float32)
    (wanted,) = onnxruntime.InferenceSession(model).run(None, {"x": x})
    program = openxrt.load(model, engine="native", strict=True, cache_dir="")
    np.testing.assert_allclose(program.run({"x": x})["y"], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([3], [40], [2], [1]),
        ([-5], [-60], [3], [-2]),
        ([1], [9], [1], [2]),
        ([2, 0, 5], [30, 2, 60], [3, 0, 2], [3, 1, 1]),
    ],
)
def test_slices_between_convolutions(
    starts: list[int], ends: list[int], axes: list[int], steps: list[int]
) -> None:
    rng = np.random.default_rng(0)
    lists = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    weight = (rng.standard_normal((16, 16, 3, 3)) / 12).astype(np.float32)
    model = make_model(
        [
            helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
            helper.make_node("Slice", ["a", *lists], ["b"]),
            helper.make_node("Relu", ["b"], ["y"]),
        ],
        [tensor("x", TensorProto.FLOAT, [2, 16, 64, 64])],
        [tensor("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(weight, "w"),
            *(numpy_helper.from_array(np.array(v), n) for n, v in lists.items()),
        ],
    )
    x = rng.standard_normal((2, 16, 64, 64)).astype(np.float32)
    (wanted,) = onnxruntime.InferenceSession(model).run(None, {"x": x})
    program = openxrt.load(model, engine="native", strict=True, cache_dir="")
    np.testing.assert_allclose(program.run({"x": x})["y"], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("is_open", [False, True])
def test_the_largest_entries(is_open: bool) -> None:
    """One bound, whether sizes are known at load or a run brings them, and one message."""
    x = np.ones((1, 1, 10), np.float32)
    weights = numpy_helper.from_array(np.ones((1, 1, 3), np.float32), "w")

    def program(**attributes: object) -> openxrt.Program:
        model = make_model(
            [helper.make_node("Conv", ["x", "w"], ["y"], **attributes)],
            [tensor("x", TensorProto.FLOAT, ["a", "b", "c"] if is_open else x.shape)],
            [tensor("y", TensorProto.FLOAT, None)],
            [weights],
        )
        return openxrt.load(model, engine="native", cache_dir="")

    served = program(strides=[2**31 - 1])
    for _ in range(3):
        np.testing.assert_array_equal(served(x), [[[3]]])
    for attributes in ({"strides": [2**31]}, {"dilations": [2**40]}, {"pads": [2**40, 0]}):
        with pytest.raises((openxrt.InvalidArgument, openxrt.ResourceError), match="Conv"):
            program(**attributes)(x)


@pytest.mark.parametrize("op", ["Conv", "MaxPool"])
def test_no_window_fits_no_elements(op: str) -> None:
    """Whatever ran before."""
    attributes = {} if op == "Conv" else {"kernel_shape": [3]}
    model = make_model(
        [helper.make_node(op, ["x", "w"] if op == "Conv" else ["x"], ["y"], **attributes)],
        [tensor("x", TensorProto.FLOAT, ["a", "b", "c"])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones((1, 1, 3), np.float32), "w")] if op == "Conv" else [],
    )
    program = openxrt.load(model, engine="native", cache_dir="")
    for size in (0, 10, 7, 6, 0):
        x = np.ones((1, 1, size), np.float32)
        if size > 0:
            assert program(x).shape == (1, 1, size - 2)
            continue
        with pytest.raises(openxrt.InvalidArgument, match="a window of 3 does not fit"):
            program(x)


def far_padding(op: str, pads: list[int]) -> bytes:
    """A convolution of a small image, of which nearly all of the result is padding."""
    rng = np.random.default_rng(3)
    rank = len(pads) // 2
    shape = [4, 3, *[3] * rank]
    constants = {"w": (rng.standard_normal(shape) / 5).astype(np.float32)}
    names, dtype = ["x", "w"], TensorProto.FLOAT
    if op != "Conv":
        dtype = TensorProto.UINT8
        constants = {"w": rng.integers(-20, 20, shape).astype(np.int8)}
    if op == "QLinearConv":
        constants |= {"s": np.float32(0.05), "z": np.uint8(7), "wz": np.int8(0)}
        names = ["x", "s", "z", "w", "s", "wz", "s", "z"]
    return make_model(
        [helper.make_node(op, names, ["y"], pads=pads)],
        [tensor("x", dtype, [2, 3, *[5] * rank])],
        [tensor("y", {"ConvInteger": TensorProto.INT32}.get(op, dtype), None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )


@pytest.mark.parametrize("op", ["Conv", "ConvInteger", "QLinearConv"])
@pytest.mark.parametrize("pads", [[900_000, 2], [1, 150_000, 1, 2], [0, 2, 20_000, 1]])
def test_far_padding(op: str, pads: list[int]) -> None:
    """More windows than are gathered at a time; a library would prepare something for each."""
    model = far_padding(op, pads)
    rank = len(pads) // 2
    x = np.random.default_rng(4).standard_normal((2, 3, *[5] * rank)).astype(np.float32)
    x = x if op == "Conv" else (x * 20 + 100).astype(np.uint8)
    (wanted,) = onnxruntime.InferenceSession(model).run(None, {"x": x})
    program = openxrt.load(model, engine="native", strict=True, cache_dir="")
    got = program.run({"x": x})["y"]
    # A product half way between two levels may be rounded to either.
    tolerance = {"Conv": 1e-5, "ConvInteger": 0, "QLinearConv": 1}[op]
    np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), atol=tolerance)


@pytest.mark.parametrize("engine", ["native", "openvino"])
@pytest.mark.parametrize("options", [{"strides": [1 << 14, 1]}, {"pads": [1 << 15, 0, 0, 0]}])
def test_far_transposed(engine: str, options: dict[str, list[int]]) -> None:
    """The CPU plugin of OpenVINO would take seconds, and for longer strides hours."""
    rng = np.random.default_rng(5)
    if "pads" in options:
        options = {"strides": [1 << 14, 1], **options}
    model = make_model(
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"], **options)],
        [tensor("x", TensorProto.FLOAT, [1, 4, 4, 3])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(rng.standard_normal((4, 2, 3, 3)).astype(np.float32), "w")],
    )
    x = rng.standard_normal((1, 4, 4, 3)).astype(np.float32)
    (wanted,) = onnxruntime.InferenceSession(model).run(None, {"x": x})
    program = openxrt.load(model, engine=engine, cache_dir="")
    np.testing.assert_allclose(program.run({"x": x})["y"], wanted, rtol=1e-4, atol=1e-4)
