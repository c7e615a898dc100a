# SPDX-License-Identifier: Apache-2.0
"""Operands with which the ONNX library's rules for shapes read beyond memory, take for ever, or say
what is not so."""

from __future__ import annotations

import time

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, untyped

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64


def constant(name: str, value: object, dtype: type = np.int64) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def load(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    constants: list[onnx.TensorProto],
    outputs: list[str] | None = None,
) -> openxrt.Program:
    ports = [untyped(name) for name in outputs or ["y"]]
    return openxrt.load(make_model(nodes, inputs, ports, constants, opset=24), cache_dir="")


def sizes_of(name: str) -> list[onnx.NodeProto]:
    """y: zeros of the sizes of the value, where shapes that were inferred show."""
    return [
        helper.make_node("Shape", [name], ["sizes"]),
        helper.make_node("ConstantOfShape", ["sizes"], ["y"]),
    ]


@pytest.mark.parametrize("start", [0, 1, 2, -1])
@pytest.mark.parametrize("step", [2**31 - 1, 2**31, 2**32 - 1, 2**32, -(2**32), 1 - 2**63])
def test_large_steps_of_slices(start: int, step: int) -> None:
    end = 3 if step > 0 else -9
    program = load(
        [helper.make_node("Slice", ["x", "start", "end", "axis", "step"], ["y"])],
        [],
        [
            constant("x", [1, 2, 3]),
            constant("start", [start]),
            constant("end", [end]),
            constant("axis", [0]),
            constant("step", [step]),
        ],
    )
    expected = np.array([1, 2, 3])[start : end if step > 0 else None : step]
    np.testing.assert_array_equal(program.run({})["y"], expected)


@pytest.mark.parametrize("op", ["Slice", "Pad"])
def test_axes_of_unknown_rank(op: str) -> None:
    """They are there, whatever their shape."""
    operands = ["x", "begin", "end", "axes"] if op == "Slice" else ["x", "pads", "", "axes"]
    program = load(
        [helper.make_node(op, operands, ["v"]), *sizes_of("v")],
        [tensor("x", FLOAT, [4, 6]), tensor("axes", INT64, None)],
        [constant("begin", [0]), constant("end", [1]), constant("pads", [2, 3])],
    )
    x = np.ones((4, 6), np.float32)
    expected = (4, 1) if op == "Slice" else (4, 11)
    assert program.run({"x": x, "axes": np.array([1])})["y"].shape == expected


def test_steps_of_unknown_rank() -> None:
    program = load(
        [helper.make_node("Slice", ["x", "begin", "end", "axes", "steps"], ["v"]), *sizes_of("v")],
        [tensor("x", FLOAT, [9, 2]), tensor("steps", INT64, None)],
        [constant("begin", [0]), constant("end", [9]), constant("axes", [0])],
    )
    x = np.ones((9, 2), np.float32)
    assert program.run({"x": x, "steps": np.array([3])})["y"].shape == (3, 2)


def test_many_known_values_side_by_side() -> None:
    program = load(
        [helper.make_node("Concat", ["c"] * 20000, ["v"], axis=0), *sizes_of("v")],
        [],
        [constant("c", np.arange(1024))],
    )
    assert program.run({})["y"].shape == (20000 * 1024,)


def test_carried_values_that_are_handed_on() -> None:
    """Each turn of the loop changes the sizes of one value more."""
    count = 4000
    carried = [f"v{k}" for k in range(count)]
    nodes = [
        helper.make_node("Identity", ["c"], ["go"]),
        helper.make_node("Concat", ["v0", "v0"], ["made0"], axis=0),
    ]
    nodes += [helper.make_node("Identity", [f"v{k - 1}"], [f"made{k}"]) for k in range(1, count)]
    body = helper.make_graph(
        nodes,
        "body",
        [tensor("i", INT64, []), tensor("c", TensorProto.BOOL, [])]
        + [tensor(name, FLOAT, [1]) for name in carried],
        [tensor("go", TensorProto.BOOL, [])] + [untyped(f"made{k}") for k in range(count)],
    )
    start = time.monotonic()
    program = load(
        [
            helper.make_node(
                "Loop", ["n", ""] + ["x"] * count, [f"y{k}" for k in range(count)], body=body
            )
        ],
        [tensor("x", FLOAT, [1]), tensor("n", INT64, [])],
        [],
        ["y0", "y1", "y3"],
    )
    assert time.monotonic() - start < 10
    found = program.run({"x": np.ones(1, np.float32), "n": np.array(3)})
    assert [found[name].shape for name in ("y0", "y1", "y3")] == [(8,), (4,), (1,)]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_sizes_that_a_cast_changes(dtype: str) -> None:
    number = TensorProto.DataType.Value(dtype.upper())
    program = load(
        [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Cast", ["s"], ["narrow"], to=number),
            helper.make_node("Cast", ["narrow"], ["wide"], to=INT64),
            helper.make_node("Expand", ["one", "wide"], ["y"]),
        ],
        [tensor("x", FLOAT, [300])],
        [constant("one", [1], np.float32)],
    )
    expected = int(np.array(300).astype(dtype))
    assert program.run({"x": np.ones(300, np.float32)})["y"].shape == (expected,)


def test_products_of_sizes_that_wrap_round() -> None:
    program = load(
        [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Cast", ["s"], ["narrow"], to=INT32),
            helper.make_node("Mul", ["narrow", "factor"], ["product"]),
            helper.make_node("Cast", ["product"], ["y"], to=INT64),
        ],
        [tensor("x", FLOAT, [70000])],
        [constant("factor", [70000], np.int32)],
    )
    expected = np.array([70000], np.int32) * np.array([70000], np.int32)
    assert program.run({"x": np.ones(70000, np.float32)})["y"] == expected


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
def test_constants_that_wrap_round(op: str) -> None:
    a, b = np.array([2**63 - 1]), np.array([-7])
    program = load(
        [helper.make_node(op, ["a", "b"], ["v"]), helper.make_node("Neg", ["v"], ["y"])],
        [],
        [constant("a", a), constant("b", b)],
    )
    expected = {"Add": a + b, "Sub": a - b, "Mul": a * b}[op]
    assert program.run({})["y"] == -expected


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        (np.int32, (-(2**31), 2**31 - 1, 2**30)),
        (np.int32, (2**31 - 1, -(2**31), -(2**30))),
        (np.int64, (-(2**63), 2**63 - 1, 2**62)),
        (np.int64, (3, -(2**63), 2)),
        (np.int64, (2**63 - 3, 2**63 - 1, 2**62)),
    ],
)
@pytest.mark.parametrize("engine", ["native", "openvino", "onnxruntime", "xla"])
def test_ranges_between_distant_ends(
    engine: str, dtype: type, numbers: tuple[int, int, int]
) -> None:
    names = ["start", "limit", "step"]
    model = make_model(
        [helper.make_node("Range", names, ["v"]), helper.make_node("Identity", ["v"], ["y"])],
        [],
        [untyped("y")],
        [constant(name, n, dtype) for name, n in zip(names, numbers, strict=True)],
    )
    program = openxrt.load(model, engine=list(dict.fromkeys([engine, "native"])), cache_dir="")
    np.testing.assert_array_equal(program.run({})["y"], [dtype(n) for n in range(*numbers)])


def test_labels_of_two_sizes() -> None:
    node = helper.make_node("Einsum", ["a", "b"], ["v"], equation="ij,ij->ij")
    program = load(
        [node, *sizes_of("v")], [tensor("a", FLOAT, [1, 2]), tensor("b", FLOAT, [3, 2])], []
    )
    feeds = {"a": np.ones((1, 2), np.float32), "b": np.ones((3, 2), np.float32)}
    assert program.run(feeds)["y"].shape == (3, 2)
    with pytest.raises(openxrt.InvalidModel, match=r"label 'i'.*2 and for 3"):
        load([node], [tensor("a", FLOAT, [2, 2]), tensor("b", FLOAT, [3, 2])], [], ["v"])


def test_permutations_of_fewer_axes() -> None:
    with pytest.raises(openxrt.InvalidModel, match="'perm' names 1 axes, but there are 3"):
        load(
            [helper.make_node("Transpose", ["x"], ["y"], perm=[0])],
            [tensor("x", FLOAT, [2, 3, 4])],
            [],
        )


def test_axes_beyond_32_bits() -> None:
    with pytest.raises(openxrt.InvalidModel, match="axis 4294967296"):
        load(
            [
                helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
                helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=2**32),
            ],
            [tensor("x", FLOAT, [3, 4])],
            [],
        )


@pytest.mark.parametrize("name", ["onnx::Mul_3/x", "c = If <a : type_proto = " + "seq(" * 20000])
def test_constants_named_like_code(name: str) -> None:
    """The ONNX library writes the names into a text that it parses."""
    body = helper.make_graph(
        [helper.make_node("Mul", ["score", name], ["scaled"])],
        "scale",
        [tensor("score", FLOAT, None)],
        [tensor("scaled", FLOAT, None)],
        [constant(name, 2, np.float32)],
    )
    model = make_model(
        [
            helper.make_node(
                "FlexAttention", ["q", "q", "q"], ["y"], domain="ai.onnx.preview", score_mod=body
            )
        ],
        [tensor("q", FLOAT, [1, 1, 3, 2])],
        [untyped("y")],
        opset=26,
        domains={"ai.onnx.preview": 1},
    )
    q = np.eye(3, 2, dtype=np.float32)[None, None]
    scores = np.exp(2 * q @ q.swapaxes(2, 3) / np.sqrt(2))
    expected = scores / scores.sum(-1, keepdims=True) @ q
    found = openxrt.load(model, cache_dir="").run({"q": q})["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("size", [5, "n"])
@pytest.mark.parametrize("engine", ["native", "openvino", "onnxruntime", "xla"])
def test_parts_that_an_axis_has_not(engine: str, size: int | str) -> None:
    """Two elements for each of the first three of four parts are more than five."""
    node = helper.make_node("Split", ["x"], list("abcd"), num_outputs=4, axis=0)
    model = make_model([node], [tensor("x", FLOAT, [size])], [untyped(n) for n in "abcd"])
    with pytest.raises(openxrt.Error, match=r"(?i)axis of 5|split|sum"):
        openxrt.load(model, engine=list(dict.fromkeys([engine, "native"])), cache_dir="").run(
            {"x": np.ones(5, np.float32)}
        )


@pytest.mark.parametrize("engine", ["native", "openvino", "onnxruntime", "xla"])
def test_parts_that_are_no_outputs(engine: str) -> None:
    node = helper.make_node("Split", ["x"], ["y"], num_outputs=2, axis=0)
    model = make_model([node], [tensor("x", FLOAT, ["n"])], [untyped("y")])
    program = openxrt.load(model, engine=list(dict.fromkeys([engine, "native"])), cache_dir="")
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(program.run({"x": x})["y"], x[:2])


@pytest.mark.parametrize("stash", [0, TensorProto.INT8, TensorProto.STRING, 2**40])
@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization", "GroupNormalization"])
def test_types_to_compute_in(op: str, stash: int) -> None:
    """OpenVINO computed in int8 where it was told so; native refused in a run."""
    node = helper.make_node(op, ["x", "scale"], ["y"], stash_type=stash)
    constants = [constant("scale", np.ones(3), np.float32)]
    if op == "GroupNormalization":
        node.input.append("scale")
        node.attribute.append(helper.make_attribute("num_groups", 1))
    with pytest.raises(openxrt.InvalidModel, match=f"stash_type is {stash}, but float"):
        load([node], [tensor("x", FLOAT, [2, 3])], constants)
