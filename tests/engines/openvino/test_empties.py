# SPDX-License-Identifier: Apache-2.0
"""Values without elements end OpenVINO's process: what reads or makes them runs elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, untyped, usable

pytestmark = pytest.mark.skipif(not usable("openvino"), reason="openvino is not installed")

ENGINES = ["openvino", "native"]
F = TensorProto.FLOAT
OPS: list[tuple[str, dict[str, Any]]] = [
    ("Elu", {}),
    ("Gelu", {"approximate": "tanh"}),
    ("ReduceSum", {}),
    ("Softmax", {}),
    ("Transpose", {}),
    ("Max", {}),
]


def load(op: str, attributes: dict[str, Any], **options: Any) -> openxrt.Program:
    """Of one node; the second set of sizes is run by a plan that leaves them open."""
    model = make_model(
        [helper.make_node(op, ["x"] * (1 + (op == "Max")), ["y"], name="node", **attributes)],
        [tensor("x", F, ["a", "b", "c"])],
        [untyped("y")],
        opset=22,
    )
    return openxrt.load(model, max_specializations=1, **options)


@pytest.mark.parametrize(("op", "attributes"), OPS, ids=[op for op, _ in OPS])
def test_sizes_that_a_run_tells(op: str, attributes: dict[str, Any]) -> None:
    ours, native = (load(op, attributes, engines=engines) for engines in (ENGINES, ["native"]))
    for shape in ((2, 3, 4), (3, 3, 4), (0, 2, 3), (2, 0, 3), (2, 3, 4), (2, 3, 0), (4, 3, 4)):
        x = np.random.default_rng(0).standard_normal(shape, np.float32)
        given, wanted = ours.run({"x": x})["y"], native.run({"x": x})["y"]
        np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-5)
    assert ours.explain().nodes_per_engine == {"openvino": 1}
    assert "on 'native', first because of node 'node'" in str(ours.explain())


def test_strict_programs_say_so() -> None:
    program = load("Elu", {}, engines=["openvino"], strict=True)
    for shape in ((2, 3, 4), (3, 3, 4)):
        program.run({"x": np.ones(shape, np.float32)})
    with pytest.raises(openxrt.Error, match="has no elements"):
        program.run({"x": np.ones((0, 3, 4), np.float32)})
    program.run({"x": np.ones((3, 3, 4), np.float32)})


@pytest.mark.parametrize("named", [False, True])
def test_a_fallback_that_nobody_named_is_told(
    named: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    program = load("Elu", {}, engines=ENGINES if named else ["openvino"])
    for rows in (2, 3, 0, 0):
        program.run({"x": np.ones((rows, 3, 4), np.float32)})
    told = capfd.readouterr().err
    assert told.count("runs on 'native'") == (0 if named else 1), told


def test_sizes_that_the_model_tells() -> None:
    model = make_model(
        [helper.make_node("Elu", ["x"], ["e"]), helper.make_node("ReduceSum", ["e"], ["y"])],
        [tensor("x", F, [0, 3])],
        [untyped("y")],
    )
    program = openxrt.load(model, engines=ENGINES)
    assert "has no elements" in str(program.explain())
    assert program.run({"x": np.ones((0, 3), np.float32)})["y"] == 0


def test_parts_without_elements_are_joined_there() -> None:
    model = make_model(
        [
            helper.make_node("Concat", ["past", "x"], ["all"], axis=1),
            helper.make_node("MatMul", ["all", "w"], ["y"]),
        ],
        [tensor("past", F, ["b", "p", 3]), tensor("x", F, ["b", 1, 3])],
        [untyped("y")],
        [numpy_helper.from_array(np.eye(3, dtype=np.float32), "w")],
    )
    program = openxrt.load(model, engines=ENGINES, max_specializations=1)
    x = np.ones((2, 1, 3), np.float32)
    for length in (2, 3, 0, 1):
        past = np.full((2, length, 3), 7, np.float32)
        given = program.run({"past": past, "x": x})["y"]
        np.testing.assert_array_equal(given, np.concatenate([past, x], 1))
    assert "on 'native'" not in str(program.explain())


def test_as_many_as_data_decides() -> None:
    """A border behind NonZero: whoever reads it is not run on no elements."""
    model = make_model(
        [
            helper.make_node("NonZero", ["x"], ["at"]),
            helper.make_node("Transpose", ["at"], ["rows"]),
            helper.make_node("GatherND", ["x", "rows"], ["found"]),
            helper.make_node("Elu", ["found"], ["y"]),
        ],
        [tensor("x", F, ["a", "b"])],
        [untyped("y")],
    )
    program = openxrt.load(model, engines=ENGINES, max_specializations=1)
    for x in (np.eye(3), np.eye(4), np.zeros((3, 3)), np.ones((2, 2)), np.zeros((0, 2))):
        given = program.run({"x": x.astype(np.float32)})["y"]
        np.testing.assert_array_equal(given, np.ones(np.count_nonzero(x), np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_unique_in_order_of_appearance(dtype: Any) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = make_model(
        [helper.make_node("Unique", ["x"], ["y"], sorted=0)],
        [tensor("x", kind, ["n"])],
        [untyped("y")],
    )
    program = openxrt.load(model, engines=ENGINES)
    for values in ([2, 1, 1, 3], [2, 2]):
        given = program.run({"x": np.array(values, dtype)})["y"]
        np.testing.assert_array_equal(given, list(dict.fromkeys(values)))


def test_boxes_with_scores_that_are_no_numbers() -> None:
    """A NaN is neither before nor after another number: sorting leaves no memory by it."""
    model = make_model(
        [helper.make_node("NonMaxSuppression", ["boxes", "scores", "most"], ["y"])],
        [tensor("boxes", F, [1, "n", 4]), tensor("scores", F, [1, 1, "n"])],
        [untyped("y")],
        [numpy_helper.from_array(np.array([300]), "most")],
    )
    program = openxrt.load(model, engines=ENGINES)
    rng = np.random.default_rng(0)
    boxes = rng.random((1, 300, 4), np.float32)
    scores = np.where(rng.random((1, 1, 300)) < 0.5, np.nan, 1).astype(np.float32)
    chosen = program.run({"boxes": boxes, "scores": scores})["y"]
    assert chosen.shape[1] == 3


@pytest.mark.parametrize("end", [-(2**31), 2**31 - 1])
def test_ranges_whose_ends_are_far_apart(end: int) -> None:
    """The plugin subtracts int32 from int32."""
    axes = numpy_helper.from_array(np.zeros(0, np.int64), "scalar")
    model = make_model(
        [
            helper.make_node("Reshape", ["start", "scalar"], ["from"]),
            helper.make_node("Reshape", ["end", "scalar"], ["to"]),
            helper.make_node("Range", ["from", "to", "step"], ["y"]),
        ],
        [tensor("start", TensorProto.INT64, [1]), tensor("end", TensorProto.INT64, [1])],
        [untyped("y")],
        [axes, numpy_helper.from_array(np.array(1), "step")],
    )
    program = openxrt.load(model, engines=ENGINES, max_memory_bytes=1 << 20)
    np.testing.assert_array_equal(
        program.run({"start": np.array([2]), "end": np.array([5])})["y"], [2, 3, 4]
    )
    feeds = {"start": np.array([5]), "end": np.array([end])}
    if end < 0:
        assert program.run(feeds)["y"].shape == (0,)
    else:
        with pytest.raises(openxrt.Error, match="max_memory_bytes"):
            program.run(feeds)


def test_many_axes() -> None:
    model = make_model(
        [helper.make_node("Elu", ["x"], ["y"])], [tensor("x", F, None)], [untyped("y")]
    )
    program = openxrt.load(model, engines=ENGINES)
    for rank in (2, 8, 20):
        x = np.ones([1] * rank, np.float32)
        assert program.run({"x": x})["y"].shape == x.shape
    assert "axes, more than" in str(program.explain())


def test_sizes_are_followed_through_any_node() -> None:
    """Type inference does not know Where; the engine keeps the function all the same."""
    model = make_model(
        [
            helper.make_node("Shape", ["x"], ["sizes"]),
            helper.make_node("Equal", ["sizes", "one"], ["is_one"]),
            helper.make_node("Where", ["is_one", "four", "sizes"], ["wanted"]),
            helper.make_node("Expand", ["x", "wanted"], ["large"]),
            helper.make_node("Elu", ["large"], ["y"]),
        ],
        [tensor("x", F, ["a", "b"])],
        [untyped("y")],
        [
            numpy_helper.from_array(np.array([1, 1]), "one"),
            numpy_helper.from_array(np.array([4, 4]), "four"),
        ],
    )
    program = openxrt.load(model, engines=ENGINES, max_specializations=1)
    for shape, wanted in (((2, 3), (2, 3)), ((1, 3), (4, 3)), ((5, 1), (5, 4)), ((0, 3), (0, 3))):
        given = program.run({"x": np.ones(shape, np.float32)})["y"]
        assert given.shape == wanted
        if 0 not in shape:
            assert "on 'native'" not in str(program.explain())
    assert "on 'native'" in str(program.explain())
