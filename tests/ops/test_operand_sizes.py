# SPDX-License-Identifier: Apache-2.0
"""Operands that do not go together are errors on every engine, also where type inference and the
engine's library let them pass."""

import contextlib
from typing import Any

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, model_proto, tensor, untyped, usable

ENGINES = ["native", "openvino", "xla", "onnxruntime"]
NUMBERS = np.random.default_rng(0)
F, I64 = TensorProto.FLOAT, TensorProto.INT64


def random(*shape: int) -> np.ndarray:
    return NUMBERS.standard_normal(shape, np.float32)


def load(engine: str, op: str, operands: dict[str, np.ndarray], **attributes: Any) -> Any:
    """A program of one node with operands of open sizes."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    inputs = [
        tensor(
            name,
            helper.np_dtype_to_tensor_dtype(value.dtype),
            [f"{name}{i}" for i in range(value.ndim)],
        )
        for name, value in operands.items()
    ]
    names = [name if name in operands else "" for name in "abcdefghi"]
    while not names[-1]:
        names.pop()
    node = helper.make_node(op, names, ["y"], name="node", **attributes)
    engines = [engine] if engine == "native" else [engine, "native"]
    model = make_model([node], inputs, [untyped("y")], opset=24)
    # The second set of sizes is run by a plan that leaves them open.
    return openxrt.load(model, engines=engines, max_specializations=1)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("wrong", [4, -1, 10**8, -(10**8)])
def test_lengths_of_sequences(engine: str, op: str, gates: int, wrong: int) -> None:
    operands = {
        "a": random(3, 2, 4),
        "b": random(1, gates * 2, 4),
        "c": random(1, gates * 2, 2),
        "e": np.array([3, 1], np.int32),
    }
    program = load(engine, op, operands, hidden_size=2)
    right = program.run(operands)["y"]
    with pytest.raises(openxrt.Error):
        program.run({**operands, "e": np.array([3, wrong], np.int32)})
    np.testing.assert_array_equal(program.run(operands)["y"], right)


WRONG: list[tuple[str, dict[str, np.ndarray], dict[str, np.ndarray], dict[str, Any]]] = [
    ("RMSNormalization", {"a": random(2, 3, 5), "b": random(5)}, {"b": random(3)}, {}),
    ("SpaceToDepth", {"a": random(1, 1, 4, 4)}, {"a": random(1, 1, 5, 4)}, {"blocksize": 2}),
    ("GlobalAveragePool", {"a": random(1, 2, 3)}, {"a": random(1, 2, 0)}, {}),
    (
        "GroupNormalization",
        {"a": random(1, 4, 3), "b": random(4), "c": random(4)},
        {"b": random(2)},
        {"num_groups": 2},
    ),
    (
        "RotaryEmbedding",
        {"a": random(1, 2, 3, 4), "b": random(1, 3, 2), "c": random(1, 3, 2)},
        {"b": random(1, 2, 2), "c": random(1, 2, 2)},
        {},
    ),
    (
        "Attention",
        {"a": random(1, 2, 3, 4), "b": random(1, 2, 5, 4), "c": random(1, 2, 5, 4)},
        {"c": random(1, 2, 4, 4)},
        {},
    ),
    (
        "Col2Im",
        {"a": random(1, 4, 4), "b": np.array([3, 3]), "c": np.array([2, 2])},
        {"b": np.array([9, 9])},
        {},
    ),
    *[
        (
            op,
            {"a": random(3, 2, 4), "b": random(1, gates * 2, 4), "c": random(1, gates * 2, 2)},
            wrong,
            {"hidden_size": 2},
        )
        for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))
        for wrong in ({"a": random(3, 2, 2)}, {"b": random(1, 1, 4)}, {"c": random(1, 1, 2)})
    ],
    ("Gemm", {"a": random(2, 3), "b": random(3, 4), "c": random(4)}, {"b": random(2, 4)}, {}),
    ("Gemm", {"a": random(2, 3), "b": random(3, 4), "c": random(4)}, {"c": random(3)}, {}),
    (
        "Einsum",
        {"a": random(2, 3), "b": random(3, 4)},
        {"b": random(5, 4)},
        {"equation": "ij,jk->ik"},
    ),
    ("Conv", {"a": random(1, 2, 5), "b": random(3, 2, 3), "c": random(3)}, {"c": random(2)}, {}),
    (
        "Conv",
        {"a": random(1, 1, 5), "b": random(1, 1, 3)},
        {"b": random(1, 1, 2)},
        {"kernel_shape": [3]},
    ),
    ("ConvTranspose", {"a": random(1, 2, 5), "b": random(2, 3, 3)}, {"b": random(3, 3, 3)}, {}),
    (
        "ConvTranspose",
        {"a": random(1, 1, 5), "b": random(1, 1, 3)},
        {"b": random(1, 1, 2)},
        {"kernel_shape": [3]},
    ),
    (
        "ConvTranspose",
        {"a": random(1, 2, 5), "b": random(2, 3, 3), "c": random(3)},
        {"c": random(2)},
        {},
    ),
    (
        "GridSample",
        {"a": random(1, 1, 4, 4), "b": random(1, 2, 2, 2)},
        {"b": random(2, 2, 2, 2)},
        {},
    ),
    ("Clip", {"a": random(3), "b": random(1)[0:1].reshape(())}, {"b": random(2)}, {}),
    (
        "MatMulInteger",
        {"a": np.ones((2, 3), np.uint8), "b": np.ones((3, 4), np.uint8), "c": np.ones(1, np.uint8)},
        {"c": np.ones(3, np.uint8)},
        {},
    ),
    (
        "MatMulInteger",
        {
            "a": np.ones((2, 2, 3), np.uint8),
            "b": np.ones((2, 3, 4), np.uint8),
            "c": np.ones((2, 2, 1), np.uint8),
        },
        {"c": np.ones((1, 1, 3), np.uint8)},
        {},
    ),
    (
        "QLinearConv",
        {
            "a": np.ones((1, 1, 4, 4), np.uint8),
            "b": np.float32(0.1).reshape(()),
            "c": np.uint8(1).reshape(()),
            "d": np.ones((2, 1, 2, 2), np.uint8),
            "e": np.ones(1, np.float32),
            "f": np.ones(1, np.uint8),
            "g": np.float32(0.1).reshape(()),
            "h": np.uint8(1).reshape(()),
        },
        {"e": np.ones(3, np.float32)},
        {},
    ),
    (
        "QLinearMatMul",
        {
            "a": np.ones((2, 4), np.uint8),
            "b": np.ones(1, np.float32),
            "c": np.ones(1, np.uint8),
            "d": np.ones((4, 3), np.uint8),
            "e": np.ones(1, np.float32),
            "f": np.ones(1, np.uint8),
            "g": np.ones(1, np.float32),
            "h": np.ones(1, np.uint8),
        },
        {"g": np.ones(17, np.float32)},
        {},
    ),
    *[
        (
            "DeformConv",
            {
                "a": random(1, 1, 3, 3),
                "b": random(1, 1, 2, 2),
                "c": random(1, 8, 2, 2),
                "d": random(1),
            },
            wrong,
            {},
        )
        for wrong in ({"a": random(1, 17, 3, 3)}, {"d": random(2)}, {"c": random(1, 6, 2, 2)})
    ],
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", WRONG, ids=[f"{case[0]}-{'-'.join(case[2])}" for case in WRONG])
def test_sizes(engine: str, case: tuple[str, Any, Any, Any]) -> None:
    op, operands, wrong, attributes = case
    program = load(engine, op, operands, **attributes)
    right = program.run(operands)["y"]
    with pytest.raises(openxrt.Error):
        program.run({**operands, **wrong})
    np.testing.assert_allclose(program.run(operands)["y"], right, rtol=1e-5)
    native = load("native", op, operands, **attributes).run(operands)["y"]
    np.testing.assert_allclose(right, native, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_mirrors_larger_than_what_they_show(engine: str) -> None:
    """As NumPy mirrors again and again, or an error; the next model runs right."""
    operands = {"a": random(2, 3), "b": np.array([1, 1, 1, 1])}
    program = load(engine, "Pad", operands, mode="reflect")
    for pads in ([1, 1, 1, 1], [1, 5, 1, 7], [0, 0, 0, 4]):
        try:
            made = program.run({**operands, "b": np.array(pads)})["y"]
        except openxrt.EngineError:
            assert engine == "onnxruntime" and max(pads) > 1
            continue
        both = list(zip(pads[:2], pads[2:], strict=True))
        np.testing.assert_array_equal(made, np.pad(operands["a"], both, mode="reflect"))
    relu = load(engine, "Relu", {"a": operands["a"]})
    np.testing.assert_array_equal(relu.run({"a": operands["a"]})["y"], np.maximum(operands["a"], 0))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", ["Squeeze", "Unsqueeze", "Reshape"])
def test_views_of_constants(engine: str, op: str) -> None:
    """The shape of a constant's view is computed; the next model runs right."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    data = random(1, 3, 4)
    to, expected = {
        "Squeeze": ([0], data[0]),
        "Unsqueeze": ([1], data[:, None]),
        "Reshape": ([3, 4], data[0]),
    }[op]
    node = helper.make_node(op, ["x", "to"], ["y"], name="node")
    model = make_model(
        [node],
        [tensor("to", I64, [len(to)])],
        [tensor("y", F, list(expected.shape))],
        [numpy_helper.from_array(data, "x")],
    )
    engines = [engine] if engine == "native" else [engine, "native"]
    program = openxrt.load(model, engines=engines)
    for _ in range(2):
        np.testing.assert_array_equal(program.run({"to": np.array(to)})["y"], expected)
    relu = load(engine, "Relu", {"a": data})
    np.testing.assert_array_equal(relu.run({"a": data})["y"], np.maximum(data, 0))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_least_integer_in_a_branch(engine: str) -> None:
    """What is looked at in a graph is looked at in its bodies."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    divide = helper.make_node("Div", ["x", "by"], ["z"])
    branch = helper.make_graph([divide], "branch", [], [untyped("z")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    model = make_model(
        [node],
        [tensor("c", TensorProto.BOOL, []), tensor("x", I64, [2]), tensor("by", I64, [2])],
        [untyped("y")],
    )
    engines = [engine] if engine == "native" else [engine, "native"]
    program = openxrt.load(model, engines=engines)
    feeds = {"c": np.array(True), "x": np.array([8, 9]), "by": np.array([-1, 3])}
    np.testing.assert_array_equal(program.run(feeds)["y"], [-8, 3])
    with contextlib.suppress(openxrt.Error):  # an engine may say that it computes in 32 bits
        program.run({**feeds, "x": np.array([-(2**63), 9])})
    np.testing.assert_array_equal(program.run(feeds)["y"], [-8, 3])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", ["SequenceAt", "SequenceErase"])
def test_positions_without_elements(engine: str, op: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, None))
    model = make_model(
        [helper.make_node(op, ["s", "at"], ["y"], name="node")],
        [helper.make_value_info("s", kind), tensor("at", I64, ["n", "m"])],
        [untyped("y")],
    )
    engines = [engine] if engine == "native" else [engine, "native"]
    program = openxrt.load(model, engines=engines)
    with pytest.raises(openxrt.Error):
        program.run({"s": [random(2), random(3)], "at": np.zeros((1, 0), np.int64)})


@pytest.mark.parametrize("engine", ENGINES)
def test_a_diagonal_without_elements(engine: str) -> None:
    operands = {"a": random(3, 3), "b": np.array(1)}
    program = load(engine, "Trilu", {**operands, "b": np.zeros((1, 0), np.int64)})
    with pytest.raises(openxrt.Error):
        program.run({**operands, "b": np.zeros((1, 0), np.int64)})


@pytest.mark.parametrize("batch", [-1, 2, 10**6, -(2**63), 2**63 - 1])
def test_batch_dimensions_that_there_are_not(batch: int) -> None:
    with pytest.raises(openxrt.InvalidModel, match="'batch_dims'"):
        load(
            "native",
            "GatherND",
            {"a": random(2, 3), "b": np.zeros((2, 1), np.int64)},
            batch_dims=batch,
        )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("count", [0, 1, 15, 17])
def test_biases_that_are_constants(engine: str, op: str, count: int) -> None:
    """One for each of 16 channels, in kernels for pictures of few channels, too."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    shape = (16, 3, 3, 3) if op == "Conv" else (3, 16, 3, 3)
    fixed = [
        numpy_helper.from_array(random(*shape), "w"),
        numpy_helper.from_array(random(count), "b"),
    ]
    node = helper.make_node(op, ["x", "w", "b"], ["y"], name="node")
    model = make_model([node], [tensor("x", F, [1, 3, 8, 8])], [untyped("y")], fixed)
    engines = [engine] if engine == "native" else [engine, "native"]
    with pytest.raises(openxrt.Error):
        openxrt.load(model, engines=engines).run({"x": random(1, 3, 8, 8)})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize(
    ("axis", "block", "scales"),
    [(-(2**31), 2, (2, 4)), (7, 2, (2, 4)), (0, 3, (2, 3)), (1, 2, (2,)), (0, -2, (2, 4))],
)
def test_blocks_that_there_are_not(
    engine: str, op: str, axis: int, block: int, scales: tuple[int, ...]
) -> None:
    x = random(4, 4) if op == "QuantizeLinear" else np.ones((4, 4), np.uint8)
    operands = {"a": x, "b": np.ones(scales, np.float32)}
    with pytest.raises(openxrt.Error):
        load(engine, op, operands, axis=axis, block_size=block).run(operands)


@pytest.mark.parametrize("engine", ENGINES)
def test_features_of_a_scalar(engine: str) -> None:
    """The rank is not declared."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    node = helper.make_node("ArrayFeatureExtractor", ["x", "i"], ["y"], domain="ai.onnx.ml")
    model = model_proto(
        [node],
        [tensor("x", F, None), tensor("i", I64, [1])],
        [untyped("y")],
        domains={"ai.onnx.ml": 3},
    )
    program = openxrt.load(
        model.SerializeToString(), engine=list(dict.fromkeys([engine, "native"]))
    )
    feeds = {"x": random(2, 3), "i": np.array([1])}
    np.testing.assert_array_equal(program.run(feeds)["y"], feeds["x"][:, 1:2])
    with pytest.raises(openxrt.Error):
        program.run({**feeds, "x": np.array(1, np.float32)})


@pytest.mark.parametrize("engine", ENGINES)
def test_no_elements_along_another_axis(engine: str) -> None:
    """ONNX Runtime ends the process."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    node = helper.make_node("Unique", ["x"], ["y"], axis=1)
    model = model_proto([node], [tensor("x", F, ["a", "b", "c"])], [untyped("y")])
    program = openxrt.load(
        model.SerializeToString(), engine=list(dict.fromkeys([engine, "native"]))
    )
    x = np.array([[[1, 2], [1, 2], [0, 5]]], np.float32)
    np.testing.assert_array_equal(program.run({"x": x})["y"], np.unique(x, axis=1))
    with contextlib.suppress(openxrt.Error):
        assert program.run({"x": np.zeros((1, 1, 0), np.float32)})["y"].size == 0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("perm", [(1, 0), (0, 1, 3), (0, 0, 1), (-1, 0, 1), (3, 2, 1, 0)])
@pytest.mark.parametrize("shape", [(6, 4, 2), ("n", "m", "k")])
def test_axes_that_there_are_not(
    engine: str, perm: tuple[int, ...], shape: tuple[int | str, ...]
) -> None:
    """Before and behind what ONNX Runtime's optimiser moves a Transpose over."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["a"], name="before"),
        helper.make_node("Transpose", ["a"], ["b"], name="node", perm=perm),
        helper.make_node("Unsqueeze", ["b", "zero"], ["c"], name="behind"),
        helper.make_node("Mul", ["c", "c"], ["y"], name="last"),
    ]
    axes = [numpy_helper.from_array(np.array([0]), "zero")]
    model = make_model(nodes, [tensor("x", F, shape)], [untyped("y")], axes)
    with pytest.raises(openxrt.Error, match=r"'perm'|TypeInferenceError.*perm"):  # not a library's
        openxrt.load(model, engine=list(dict.fromkeys([engine, "native"]))).run(
            {"x": random(6, 4, 2)}
        )


@pytest.mark.parametrize("engine", ENGINES)
def test_counts_of_keys_are_a_list(engine: str) -> None:
    """Two by one of them are as many as two, but no list."""
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    shapes = {"q": (2, 3, 4, 8), "k": (2, 3, 8, 8), "v": (2, 3, 8, 8)}
    model = make_model(
        [helper.make_node("Attention", [*shapes, "", "", "", "n"], ["y"])],
        [tensor(key, TensorProto.FLOAT, [f"{key}{i}" for i in range(4)]) for key in shapes]
        + [tensor("n", TensorProto.INT64, None)],
        [tensor("y", TensorProto.FLOAT, None)],
        opset=24,
    )
    program = openxrt.load(model, engine=list(dict.fromkeys([engine, "native"])), cache_dir="")
    feeds = {key: random(*shape) for key, shape in shapes.items()}
    feeds["n"] = np.array([6, 7])
    assert program.run(feeds)["y"].shape == shapes["q"]
    with pytest.raises(openxrt.InvalidArgument, match="nonpad_kv_seqlen"):
        program.run({**feeds, "n": np.array([[6], [7]])})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("specializations", [1, 8])
def test_an_addend_that_does_not_broadcast(engine: str, specializations: int) -> None:
    """An error of the operands that names the node; ONNX Runtime's kernel says so itself."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    names = {"a": ["m", "k"], "b": ["p", "q"], "c": ["r", "s"]}
    model = make_model(
        [helper.make_node("Gemm", ["a", "b", "c"], ["y"], name="node", transB=1)],
        [tensor(name, F, dims) for name, dims in names.items()],
        [untyped("y")],
    )
    program = openxrt.load(
        model,
        engines=list(dict.fromkeys([engine, "native"])),
        max_specializations=specializations,
    )
    program.run({"a": random(2, 4), "b": random(5, 4), "c": random(2, 1)})
    wanted = openxrt.EngineError if engine == "onnxruntime" else openxrt.InvalidArgument
    with pytest.raises(wanted, match=r"'node' \(Gemm\)"):
        program.run({"a": random(33, 4), "b": random(5, 4), "c": random(3, 1)})
