# SPDX-License-Identifier: Apache-2.0
"""Nodes that OpenVINO computes otherwise than the standard."""

import time
from typing import Any

import numpy as np
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, model_proto, tensor, untyped

pytest.importorskip("openvino")


@pytest.mark.parametrize(
    ("op", "factors"),
    [
        ("HardSigmoid", {"alpha": 0.5, "beta": 0.0}),
        ("HardSigmoid", {"alpha": 0.0, "beta": 0.5}),
        ("Selu", {"alpha": 0.0, "gamma": 2.0}),
        ("Selu", {"alpha": 2.0, "gamma": 0.0}),
    ],
)
def test_a_factor_of_zero(op: str, factors: dict[str, float]) -> None:
    model = make_model(
        [helper.make_node(op, ["x"], ["y"], **factors)],
        [tensor("x", TensorProto.FLOAT, [5])],
        [tensor("y", TensorProto.FLOAT, [5])],
    )
    x = np.array([-3, -0.5, 0, 0.5, 2], np.float32)
    wanted = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
    program = openxrt.load(model, engine=["openvino", "native"])
    np.testing.assert_allclose(program.run({"x": x})["y"], wanted, rtol=1e-5)


def test_splits_into_unequal_parts() -> None:
    """Its parts had no elements, and the next model crashed."""
    model = make_model(
        [helper.make_node("Split", ["x"], ["a", "b", "c"], axis=0, num_outputs=3)],
        [tensor("x", TensorProto.FLOAT, ["n"])],
        [tensor(name, TensorProto.FLOAT, None) for name in "abc"],
        opset=18,
    )
    program = openxrt.load(model, engine=["openvino", "native"])
    for count in (6, 2, 5, 9, 5, 7):
        x = np.arange(count, dtype=np.float32)
        part = -(-count // 3)
        for got, wanted in zip(program.run({"x": x}).values(), (0, 1, 2), strict=True):
            np.testing.assert_array_equal(got, x[wanted * part : (wanted + 1) * part])


@pytest.mark.parametrize("op", ["Sub", "Div"])
@pytest.mark.parametrize("heads", [(4,), (2, 4)])
def test_a_difference_of_attention_that_is_read_elsewhere(op: str, heads: tuple[int, ...]) -> None:
    """One kernel was made of both, which crashed."""
    numbers = np.random.default_rng(0)
    feeds = {
        name: numbers.uniform(0.5, 1, (*heads, *sizes)).astype(np.float32)
        for name, sizes in {"q": (8, 3), "k": (3, 8), "v": (8, 3), "d": (8, 3)}.items()
    }
    model = make_model(
        [
            helper.make_node("MatMul", ["q", "k"], ["scores"]),
            helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
            helper.make_node("MatMul", ["weights", "v"], ["y"]),
            helper.make_node(op, ["y", "d"], ["z"]),
        ],
        [tensor(name, TensorProto.FLOAT, x.shape) for name, x in feeds.items()],
        [tensor(name, TensorProto.FLOAT, None) for name in "yz"],
    )
    wanted = onnxruntime.InferenceSession(model).run(None, feeds)
    program = openxrt.load(model, engine="openvino", strict=True)
    for found, right in zip(program.run(feeds).values(), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["Add", "Mul", "Where"])
@pytest.mark.parametrize("at", [0, 1])
def test_attention_joined_with_what_is_computed_and_turned(op: str, at: int) -> None:
    """As PyTorch makes zeros of rows that a mask hides whole. One kernel was made, and crashed."""
    numbers = np.random.default_rng(0)
    feeds: dict[str, np.ndarray] = {
        name: numbers.standard_normal((2, 2, *sizes)).astype(np.float32)
        for name, sizes in {"q": (16, 4), "k": (4, 16), "v": (16, 4)}.items()
    }
    feeds["m"] = np.array([True, False]).reshape(2, 1, 1, 1)
    operands = ["y", "other"] if at == 0 else ["other", "y"]
    model = make_model(
        [
            helper.make_node("MatMul", ["q", "k"], ["scores"]),
            helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
            helper.make_node("MatMul", ["weights", "v"], ["y"]),
            helper.make_node("Not", ["m"], ["hidden"]),
            helper.make_node("Cast", ["hidden"], ["other"], to=TensorProto.FLOAT),
            helper.make_node(op, ["hidden"] * (op == "Where") + operands, ["joined"]),
            helper.make_node("Transpose", ["joined"], ["z"], perm=[0, 2, 1, 3]),
        ],
        [
            tensor(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in feeds.items()
        ],
        [tensor("z", TensorProto.FLOAT, None)],
    )
    wanted = onnxruntime.InferenceSession(model).run(None, feeds)[0]
    program = openxrt.load(model, engine="openvino", strict=True)
    np.testing.assert_allclose(program.run(feeds)["z"], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("length", ["n", 3])
def test_a_quantised_product_that_ends_in_an_axis_of_one(length: int | str) -> None:
    """As heads of a single element have it. It did not compile."""
    weights = np.arange(16, dtype=np.int8).reshape(4, 4)
    model = make_model(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("DequantizeLinear", ["w", "s"], ["weights"]),
            helper.make_node("MatMul", ["d", "weights"], ["m"]),
            helper.make_node("Reshape", ["m", "heads"], ["r"]),
            helper.make_node("Transpose", ["r"], ["y"], perm=[0, 2, 1, 3]),
        ],
        [tensor("x", TensorProto.FLOAT, [2, length, 4])],
        [tensor("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.float32(0.5), "s"),
            numpy_helper.from_array(np.uint8(128), "z"),
            numpy_helper.from_array(weights, "w"),
            numpy_helper.from_array(np.array([0, 0, 4, 1]), "heads"),
        ],
        opset=19,
    )
    x = np.round(np.random.default_rng(0).standard_normal((2, 3, 4))).astype(np.float32)
    program = openxrt.load(model, engine="openvino", strict=True)
    wanted = (x @ (weights * np.float32(0.5))).transpose(0, 2, 1)[..., None]
    np.testing.assert_allclose(program(x), wanted, rtol=1e-6)


def test_many_roundings_in_a_row() -> None:
    """Each doubled the time to compile."""
    nodes = []
    for k in range(30):
        nodes += [
            helper.make_node("QuantizeLinear", [f"x{k}", "s", "z"], [f"q{k}"]),
            helper.make_node("DequantizeLinear", [f"q{k}", "s", "z"], [f"x{k + 1}"]),
        ]
    model = make_model(
        nodes,
        [tensor("x0", TensorProto.FLOAT, [2])],
        [tensor("x30", TensorProto.FLOAT, [2])],
        [numpy_helper.from_array(np.float32(0.5), "s"), numpy_helper.from_array(np.uint8(9), "z")],
    )
    program = openxrt.load(model, engine=["openvino", "native"], deadline_s=30)
    np.testing.assert_array_equal(program(np.array([1.2, -9], np.float32)), [1, -4.5])
    assert program.explain()["nodes_per_engine"]["openvino"] >= 8


@pytest.mark.parametrize(("ratio", "engine"), [(0, "native"), (2, "openvino"), (2**40, "native")])
def test_samples_of_regions(ratio: int, engine: str) -> None:
    """As many as a region is wide are negative where it ends before it begins."""
    node = helper.make_node("RoiAlign", ["x", "r", "i"], ["y"], sampling_ratio=ratio)
    inputs = [tensor("x", TensorProto.FLOAT, [1, 1, 4, 4]), tensor("r", TensorProto.FLOAT, [1, 4])]
    inputs.append(tensor("i", TensorProto.INT64, [1]))
    model = make_model([node], inputs, [tensor("y", TensorProto.FLOAT, None)], opset=16)
    program = openxrt.load(model, engine=["openvino", "native"], max_memory_bytes=1 << 28)
    assert program.explain()["nodes_per_engine"] == {engine: 1}


@pytest.mark.parametrize(
    ("operand", "constant", "engine"),
    [
        ("sizes", None, "native"),
        ("scales", None, "native"),
        ("scales", [2, 1, 1, 2], "native"),
        ("scales", [1, 1, 1, 2], "openvino"),
    ],
)
def test_resize_of_the_batch(operand: str, constant: list[float] | None, engine: str) -> None:
    """Failed in the middle of a run, and the next model crashed."""
    kind, dtype = (
        (TensorProto.INT64, np.int64) if operand == "sizes" else (TensorProto.FLOAT, np.float32)
    )
    names = ["x", "", "", "s"] if operand == "sizes" else ["x", "", "s"]
    model = make_model(
        [helper.make_node("Resize", names, ["y"], mode="nearest")],
        [tensor("x", TensorProto.FLOAT, ["n", 1, 3, 4])]
        + ([tensor("s", kind, [4])] if constant is None else []),
        [tensor("y", TensorProto.FLOAT, None)],
        [] if constant is None else [numpy_helper.from_array(np.array(constant, dtype), "s")],
        opset=19,
    )
    program = openxrt.load(model, engine=["openvino", "native"])
    assert program.explain()["nodes_per_engine"] == {engine: 1}
    session = onnxruntime.InferenceSession(model)
    for batch in (1, 3):
        feed = {"x": np.arange(batch * 12, dtype=np.float32).reshape(batch, 1, 3, 4)}
        if constant is None:
            feed["s"] = np.array(
                [2 * batch, 1, 6, 2] if operand == "sizes" else [2, 1, 2, 0.5], dtype
            )
        np.testing.assert_array_equal(program.run(feed)["y"], session.run(None, feed)[0])


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_shifts_of_open_sizes(direction: str, dtype: type) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = make_model(
        [helper.make_node("BitShift", ["x", "by"], ["y"], direction=direction)],
        [tensor("x", kind, ["n"]), tensor("by", kind, ["n"])],
        [tensor("y", kind, ["n"])],
    )
    program = openxrt.load(model, engine=["openvino", "native"])
    shift = np.left_shift if direction == "LEFT" else np.right_shift
    for n in (1, 5, 30, 255):
        x, by = np.arange(255 - n, 255).astype(dtype), np.full(n, 4, dtype)
        np.testing.assert_array_equal(program.run({"x": x, "by": by})["y"], shift(x, by))


@pytest.mark.parametrize(("count", "engine"), [(1000, "openvino"), (3000, "native")])
def test_long_rows_of_elementwise_nodes(count: int, engine: str) -> None:
    """One kernel of them all takes the plugin minutes to make."""
    nodes = [helper.make_node("Abs", [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    model = make_model(
        nodes,
        [tensor("v0", TensorProto.FLOAT, [2, 3])],
        [tensor(f"v{count}", TensorProto.FLOAT, [2, 3])],
    )
    began = time.monotonic()
    program = openxrt.load(model, engine=["openvino", "native"])
    x = np.full((2, 3), -2, np.float32)
    np.testing.assert_array_equal(program.run({"v0": x})[f"v{count}"], -x)
    assert time.monotonic() - began < 30
    assert set(program.explain().nodes_per_engine) == {engine}


def test_many_operands() -> None:
    """The time that the plugin takes to compile a node grows with the square of its operands."""
    count = 20_000
    node = helper.make_node("Concat", ["x"] * count, ["y"], axis=0)
    shape = [2, 3]
    model = make_model(
        [node],
        [tensor("x", TensorProto.FLOAT, shape)],
        [tensor("y", TensorProto.FLOAT, [2 * count, 3])],
    )
    began = time.monotonic()
    program = openxrt.load(model, engine=["openvino", "native"])
    x = np.full(shape, -2, np.float32)
    np.testing.assert_array_equal(program.run({"x": x})["y"], np.tile(x, (count, 1)))
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("op", ["Det", "SwiGLU"])
def test_an_unknown_op_in_a_branch(op: str) -> None:
    """Converting it ends the process; SwiGLU is known by its body alone."""
    branches = {}
    for name in ("then_branch", "else_branch"):
        node = helper.make_node(op, ["x"] * (2 if op == "SwiGLU" else 1), [name])
        branches[name] = helper.make_graph([node], name, [], [untyped(name)])
    model = model_proto(
        [helper.make_node("If", ["c"], ["y"], **branches)],
        [tensor("c", TensorProto.BOOL, []), tensor("x", TensorProto.FLOAT, [2, 3, 3])],
        [untyped("y")],
        opset=28,
    )
    program = openxrt.load(model.SerializeToString(), engine=["openvino", "native"])
    plain = openxrt.load(model.SerializeToString(), engine="native")
    x = np.random.default_rng(0).standard_normal((2, 3, 3)).astype(np.float32)
    feeds = {"c": np.array(True), "x": x}
    np.testing.assert_allclose(program.run(feeds)["y"], plain.run(feeds)["y"], rtol=1e-5)


@pytest.mark.parametrize(("count", "chosen", "taken"), [(1000, 20, True), (100_000, 50_000, False)])
def test_a_stable_choice_of_many_runs_elsewhere(count: int, chosen: int, taken: bool) -> None:
    """It would take the CPU plugin 25 seconds."""
    node = helper.make_node("TopK", ["x", "k"], ["y", "i"], name="node")
    k = numpy_helper.from_array(np.array([chosen]), "k")
    outputs = [untyped("y"), untyped("i")]
    x = np.random.default_rng(3).integers(0, 9, count).astype(np.float32)
    model = make_model([node], [tensor("x", TensorProto.FLOAT, [count])], outputs, [k])
    program = openxrt.load(model, engine=["openvino", "native"], cache_dir="")
    assert program.explain().nodes_per_engine == {"openvino" if taken else "native": 1}
    order = np.argsort(-x, kind="stable")[:chosen]
    np.testing.assert_array_equal(program.run({"x": x})["i"], order)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("most", [-9, -(1 << 30), 0, 2, 1 << 30])
def test_any_count_of_boxes(most: int, threads: int) -> None:
    """For a negative one the plugin wrote outside of its memory: a model that ran later crashed."""
    model = make_model(
        [helper.make_node("NonMaxSuppression", ["b", "s", "most"], ["y"])],
        [
            tensor("b", TensorProto.FLOAT, [1, 6, 4]),
            tensor("s", TensorProto.FLOAT, [1, 1, 6]),
            tensor("most", TensorProto.INT64, [1]),
        ],
        [tensor("y", TensorProto.INT64, ["n", 3])],
    )
    rng = np.random.default_rng(5)
    corners = np.sort(rng.random((1, 6, 2, 2), np.float32), axis=2).reshape(1, 6, 4)
    feeds = {"b": corners, "s": rng.random((1, 1, 6), np.float32), "most": np.array([most])}
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, feeds)
    program = openxrt.load(model, engine=["openvino"], cache_dir="", num_threads=threads)
    np.testing.assert_array_equal(program.run(feeds)["y"], wanted)
    assert program.explain().nodes_per_engine == {"openvino": 1}


@pytest.mark.parametrize("threads", [1, 2])
def test_indices_smaller_than_the_data(threads: int) -> None:
    """OpenVINO refuses them; on one thread it gave what lay there from the run before."""
    model = make_model(
        [helper.make_node("GatherElements", ["x", "i"], ["y"], axis=0)],
        [
            tensor("x", TensorProto.FLOAT, ["a", "b"]),
            tensor("i", TensorProto.INT64, ["c", "d"]),
        ],
        [tensor("y", TensorProto.FLOAT, ["c", "d"])],
    )
    program = openxrt.load(model, engine=["openvino", "native"], cache_dir="", num_threads=threads)
    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    for shape in [(2, 3), (3, 3), (2, 1), (1, 2), (2, 3)]:
        i = np.resize([1, 2, 0], shape)
        found = program.run({"x": x, "i": i})["y"]
        np.testing.assert_array_equal(found, np.take_along_axis(x[:, : shape[1]], i, 0))


@pytest.mark.parametrize("threads", [1, 2])
def test_heads_that_turn_out_to_share_keys(threads: int) -> None:
    model = make_model(
        [helper.make_node("Attention", ["q", "k", "v"], ["y"])],
        [tensor(name, TensorProto.FLOAT, [f"{name}{i}" for i in range(4)]) for name in "qkv"],
        [untyped("y")],
        opset=23,
    )
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    program = openxrt.load(model, engine=["openvino", "native"], cache_dir="", num_threads=threads)
    rng = np.random.default_rng(2)
    k, v = rng.random((2, 2, 3, 6, 8), np.float32)
    for heads in (3, 6, 3, 9):
        feeds = {"q": rng.random((2, heads, 4, 8), np.float32), "k": k, "v": v}
        (wanted,) = session.run(None, feeds)
        np.testing.assert_allclose(program.run(feeds)["y"], wanted, rtol=1e-4, atol=1e-5)


# An op, attributes, and sets of sizes of its operands, which come in turn.
SIZES = {
    "AveragePool": (
        {
            "kernel_shape": [3, 3],
            "strides": [3, 3],
            "pads": [1] * 4,
            "ceil_mode": 1,
            "count_include_pad": 1,
        },
        np.float32,
        [[(1, 3, 2, 2)], [(1, 3, 3, 2)], [(1, 3, 2, 3)]],
    ),
    "MaxPool": (
        {"kernel_shape": [2, 2], "strides": [2, 2], "storage_order": 1},
        np.float32,
        [[(1, 1, 5, 5)], [(1, 1, 5, 6)], [(1, 1, 4, 5)]],
    ),
    "Div": ({}, np.uint8, [[(3, 4, 5), (3, 4, 5)], [(1, 4, 5), (3, 4, 5)], [(3, 4, 1), (1, 1, 5)]]),
    "PRelu": ({}, np.float32, [[(3, 4, 5), (5,)], [(3, 1, 5), (5,)], [(3, 5, 5), (5,)]]),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("op", sorted(SIZES))
def test_open_sizes(op: str, threads: int) -> None:
    """Each plan of OpenVINO gave other numbers than ONNX Runtime, or another shape."""
    attributes, dtype, sets = SIZES[op]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    names = "ab"[: len(sets[0])]
    results = ["y", "indices"] if op == "MaxPool" else ["y"]
    model = make_model(
        [helper.make_node(op, list(names), results, **attributes)],
        [
            tensor(name, kind, [f"{name}{i}" for i in range(len(size))])
            for name, size in zip(names, sets[0], strict=True)
        ],
        [untyped(name) for name in results],
    )
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    program = openxrt.load(model, engine=["openvino", "native"], cache_dir="", num_threads=threads)
    rng = np.random.default_rng(4)
    for sizes in sets:
        feeds = {
            name: (rng.integers(1, 100, size) if dtype == np.uint8 else rng.normal(size=size))
            for name, size in zip(names, sizes, strict=True)
        }
        feeds = {name: value.astype(dtype) for name, value in feeds.items()}
        found = program.run(feeds)
        for name, wanted in zip(results, session.run(None, feeds), strict=True):
            np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["Max", "Min", "Sum", "Dropout"])
def test_a_result_that_is_the_operand(op: str) -> None:
    """Behind other sizes, what an earlier run had left in its memory came out."""
    model = make_model(
        [helper.make_node(op, ["x"], ["y"])],
        [tensor("x", TensorProto.FLOAT, ["n"])],
        [tensor("y", TensorProto.FLOAT, ["n"])],
    )
    program = openxrt.load(
        model, engine=["openvino", "native"], max_specializations=1, check_results=False
    )
    for count in (3, 3, 17, 1, 5, 1):
        x = np.arange(3, 3 + count, dtype=np.float32)
        np.testing.assert_array_equal(program(x), x)


def test_bytes_of_a_branch() -> None:
    """The plugin read them by the sizes of another run."""
    branches = {
        name: helper.make_graph(
            [helper.make_node("Identity", ["x"], [name])], name, [], [untyped(name)]
        )
        for name in ("then_branch", "else_branch")
    }
    model = make_model(
        [
            helper.make_node("If", ["c"], ["bytes"], **branches),
            helper.make_node("DequantizeLinear", ["bytes", "s"], ["scaled"]),
            helper.make_node("Softmax", ["scaled"], ["y"]),
        ],
        [
            tensor("x", TensorProto.UINT8, ["n", "m"]),
            tensor("c", TensorProto.BOOL, []),
            tensor("s", TensorProto.FLOAT, []),
        ],
        [tensor("y", TensorProto.FLOAT, ["n", "m"])],
    )
    session = onnxruntime.InferenceSession(model)
    program = openxrt.load(
        model, engine=["openvino", "native"], max_specializations=1, check_results=False
    )
    for rows, columns in ((2, 4), (3, 5), (1, 4), (4, 4), (1, 4)):
        x = np.arange(rows * columns, dtype=np.uint8).reshape(rows, columns) * 11
        feeds = {"x": x, "c": np.array(True), "s": np.array(0.125, np.float32)}
        wanted = session.run(None, feeds)[0]
        np.testing.assert_allclose(program.run(feeds)["y"], wanted, atol=1e-6)


def right_on_openvino(
    model: bytes, feeds: dict[str, np.ndarray], *, atol: float = 1e-4, **options: Any
) -> None:
    """With native for what OpenVINO does not take, against ONNX Runtime."""
    wanted = onnxruntime.InferenceSession(model).run(None, feeds)
    program = openxrt.load(model, engine=["openvino", "native"], cache_dir="", **options)
    for found, right in zip(program.run(feeds).values(), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=atol)


def test_a_condition_that_chooses_nothing() -> None:
    """It ended the process."""
    model = make_model(
        [helper.make_node("Compress", ["x", "c"], ["y"], axis=0)],
        [tensor("x", TensorProto.FLOAT, [2, 3])],
        [untyped("y")],
        [numpy_helper.from_array(np.array([False, False]), "c")],
    )
    right_on_openvino(model, {"x": np.ones((2, 3), np.float32)})


@pytest.mark.parametrize("quantised", [False, True])
def test_unsigned_weights(quantised: bool) -> None:
    """Around a zero point of 0: "No suitable implementations"."""
    rng = np.random.default_rng(0)
    scales = {"xs": np.float32(0.03), "ws": np.float32(0.02), "ys": np.float32(0.1)}
    points = {"xz": np.uint8(3), "wz": np.uint8(0), "yz": np.uint8(7)}
    weights = {"w": rng.integers(0, 99, (2, 2, 3, 3)).astype(np.uint8)}
    constants = [numpy_helper.from_array(a, n) for n, a in (scales | points | weights).items()]
    if quantised:
        operands = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
        nodes = [helper.make_node("QLinearConv", operands, ["y"])]
        x, dtype = rng.integers(0, 200, (1, 2, 6, 5)).astype(np.uint8), TensorProto.UINT8
    else:
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
            helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
            helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"]),
            helper.make_node("Conv", ["xd", "wd"], ["c"]),
            helper.make_node("QuantizeLinear", ["c", "ys", "yz"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "ys", "yz"], ["y"]),
        ]
        x, dtype = rng.standard_normal((1, 2, 6, 5)).astype(np.float32), TensorProto.FLOAT
    model = make_model(nodes, [tensor("x", dtype, x.shape)], [untyped("y")], constants)
    right_on_openvino(model, {"x": x})


@pytest.mark.parametrize("written_out", [False, True])
def test_mish_between_products(written_out: bool) -> None:
    """One thread makes one kernel of all, which has no Mish."""
    rng = np.random.default_rng(0)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"])]
    if written_out:
        nodes += [
            helper.make_node("Softplus", ["a"], ["s"]),
            helper.make_node("Tanh", ["s"], ["t"]),
            helper.make_node("Mul", ["a", "t"], ["m"]),
        ]
    else:
        nodes.append(helper.make_node("Mish", ["a"], ["m"]))
    nodes.append(helper.make_node("MatMul", ["m", "v"], ["y"]))
    constants = {"w": rng.standard_normal((5, 6)), "v": rng.standard_normal((6, 3))}
    model = make_model(
        nodes,
        [tensor("x", TensorProto.FLOAT, [2, 5])],
        [untyped("y")],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in constants.items()],
    )
    x = rng.standard_normal((2, 5)).astype(np.float32)
    right_on_openvino(model, {"x": x}, num_threads=1)


@pytest.mark.parametrize("functions", [["Tanh"], ["LeakyRelu"], ["Elu"], ["Tanh"]])
def test_functions_of_a_recurrence(functions: list[str]) -> None:
    """What is known of one does not speak for another."""
    rng = np.random.default_rng(0)
    constants = {"w": rng.standard_normal((1, 4, 5)), "r": rng.standard_normal((1, 4, 4))}
    model = make_model(
        [helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=4, activations=functions)],
        [tensor("x", TensorProto.FLOAT, ["s", "b", "i"])],
        [untyped("y")],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in constants.items()],
    )
    right_on_openvino(model, {"x": rng.standard_normal((3, 2, 5)).astype(np.float32)})


@pytest.mark.parametrize("behind", ["transposed", "as it is", "quantised"])
@pytest.mark.parametrize(
    "before", ["nothing", "number", "number first", "table", "transposed without"]
)
@pytest.mark.parametrize("product", ["MatMul", "Einsum", "MatMul of rounded weights"])
def test_an_attention_as_long_as_it_has_heads(before: str, behind: str, product: str) -> None:
    """It is one kernel with the transposes at its sides, and may be written over its queries."""
    rng = np.random.default_rng(0)
    heads, size = 3, 4
    swap = {"perm": [0, 2, 1, 3]}
    nodes = [helper.make_node("Neg", ["q"], ["q0"])]
    if before == "transposed without":
        nodes.append(helper.make_node("Identity", ["q0"], ["queries"]))
    else:
        turned = "queries" if before == "nothing" else "q1"
        nodes.append(helper.make_node("Transpose", ["q0"], [turned], **swap))
        if before != "nothing":
            factors = ["number", "q1"] if before == "number first" else ["q1", before]
            nodes.append(helper.make_node("Mul", factors, ["queries"]))
    if product != "Einsum":
        nodes.append(helper.make_node("Transpose", ["k"], ["keys"], perm=[0, 1, 3, 2]))
        nodes.append(helper.make_node("MatMul", ["queries", "keys"], ["scores"]))
        last = helper.make_node("MatMul", ["weights", "v"], ["o"])
    else:
        equation = {"equation": "bhqd,bhkd->bhqk"}
        nodes.append(helper.make_node("Einsum", ["queries", "k"], ["scores"], **equation))
        last = helper.make_node("Einsum", ["weights", "v"], ["o"], equation="bhqk,bhkd->bhqd")
    rounded = product == "MatMul of rounded weights"
    made = "whole" if rounded else "weights"
    nodes.append(helper.make_node("Softmax", ["scores"], [made], axis=-1))
    if rounded:
        nodes.append(helper.make_node("QuantizeLinear", ["whole", "s8", "z8"], ["steps"]))
        nodes.append(helper.make_node("DequantizeLinear", ["steps", "s8", "z8"], ["weights"]))
    nodes.append(last)
    if behind == "as it is":
        nodes.append(helper.make_node("Relu", ["o"], ["y"]))
    else:
        nodes.append(helper.make_node("Transpose", ["o"], ["o1"], **swap))
        if behind == "quantised":
            nodes.append(helper.make_node("QuantizeLinear", ["o1", "s", "z"], ["o2"]))
            nodes.append(helper.make_node("DequantizeLinear", ["o2", "s", "z"], ["o3"]))
        last_value = "o3" if behind == "quantised" else "o1"
        nodes.append(helper.make_node("Reshape", [last_value, "to"], ["y"]))
    constants = {
        "number": np.float32(0.5),
        "table": rng.standard_normal((heads, size)).astype(np.float32),
        "s": np.float32(0.01),
        "z": np.uint8(128),
        "s8": np.float32(1 / 255),
        "z8": np.uint8(0),
        "to": np.array([0, 0, -1]),
    }
    shape = [2, heads, heads, size]
    model = make_model(
        nodes,
        [tensor(name, TensorProto.FLOAT, shape) for name in "qkv"],
        [untyped("y")],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name in "qkv"}
    right_on_openvino(model, feeds, atol=0.02 if rounded or behind == "quantised" else 1e-4)


def test_a_quantised_summand_whose_axis_is_divided() -> None:
    """It ended the process while it compiled."""
    rng = np.random.default_rng(0)
    constants = {
        "s": np.float32(0.03),
        "z": np.uint8(112),
        "s2": np.float32(0.006),
        "z2": np.int8(0),
        "b": rng.integers(-99, 99, 8).astype(np.int8),
        "to": np.array([0, -1, 4, 2]),
    }
    model = make_model(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("DequantizeLinear", ["b", "s2", "z2"], ["summand"]),
            helper.make_node("Add", ["summand", "d"], ["sum"]),
            helper.make_node("Reshape", ["sum", "to"], ["y"]),
        ],
        [tensor("x", TensorProto.FLOAT, [2, 3, 8])],
        [untyped("y")],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    right_on_openvino(model, {"x": rng.standard_normal((2, 3, 8)).astype(np.float32)})


@pytest.mark.parametrize("op", ["Mul", "Add"])
def test_a_number_per_head_behind_a_rounded_product(op: str) -> None:
    """It did not compile."""
    rng = np.random.default_rng(0)
    constants = {
        "s": np.float32(0.05),
        "z": np.int8(0),
        "half": np.array([0.5], np.float32),
        "heads": rng.uniform(0.5, 1.5, (5, 1, 1)).astype(np.float32),
    }
    model = make_model(
        [
            helper.make_node("MatMul", ["a", "b"], ["m"]),
            helper.make_node("QuantizeLinear", ["m", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("Mul", ["d", "half"], ["scaled"]),
            helper.make_node(op, ["heads", "scaled"], ["y"]),
        ],
        [
            tensor("a", TensorProto.FLOAT, [2, 5, 8, 3]),
            tensor("b", TensorProto.FLOAT, [2, 5, 3, 8]),
        ],
        [untyped("y")],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    shapes = {"a": (2, 5, 8, 3), "b": (2, 5, 3, 8)}
    feeds = {name: rng.standard_normal(s).astype(np.float32) for name, s in shapes.items()}
    right_on_openvino(model, feeds, atol=0.04)  # a step, at most


def test_parts_in_int8_that_are_joined_before_a_convolution() -> None:
    """Their bytes were taken for such without a sign."""
    rng = np.random.default_rng(0)
    constants = {
        "s": np.float32(0.015),
        "z": np.int8(0),
        "w": rng.integers(-99, 99, (2, 8, 3, 3)).astype(np.int8),
        "ws": np.array([0.0028, 0.0024], np.float32),
    }
    model = make_model(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("Concat", ["d", "d"], ["joined"], axis=1),
            helper.make_node("DequantizeLinear", ["w", "ws"], ["kernel"], axis=0),
            helper.make_node("Conv", ["joined", "kernel"], ["y"], pads=[1, 1, 1, 1]),
        ],
        [tensor("x", TensorProto.FLOAT, [2, 4, 1, 4])],
        [untyped("y")],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    right_on_openvino(model, {"x": rng.standard_normal((2, 4, 1, 4)).astype(np.float32)})


def test_a_second_rounding_with_other_bounds() -> None:
    """Each result was the largest."""
    rng = np.random.default_rng(0)
    constants = {
        "c": rng.standard_normal((3, 3)).astype(np.float32),
        "w": rng.integers(-63, 63, (3, 3)).astype(np.int8),  # AVX2 alone saturates beyond
        **{name: np.float32(0.003 + 0.001 * i) for i, name in enumerate(("s", "s1", "ws", "ys"))},
        "z": np.int8(0),
        "z1": np.uint8(164),
    }
    nodes = [helper.make_node("MatMul", ["x", "c"], ["m"])]
    for value, scale, zero in (("m", "s", "z"), ("md", "s1", "z1")):
        nodes.append(helper.make_node("QuantizeLinear", [value, scale, zero], [value + "q"]))
        nodes.append(
            helper.make_node("DequantizeLinear", [value + "q", scale, zero], [value + "d"])
        )
    nodes += [
        helper.make_node("DequantizeLinear", ["w", "ws", "z"], ["weights"]),
        helper.make_node("MatMul", ["mdd", "weights"], ["product"]),
        helper.make_node("QuantizeLinear", ["product", "ys", "z"], ["y"]),
    ]
    model = make_model(
        nodes,
        [tensor("x", TensorProto.FLOAT, [3, 3])],
        [untyped("y")],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    x = (rng.standard_normal((3, 3)) * 0.2).astype(np.float32)
    right_on_openvino(model, {"x": x}, atol=1)


def test_steps_of_single_elements_with_padding() -> None:
    """It wrote over the heap."""
    rng = np.random.default_rng(0)
    constants = {
        "s": np.float32(0.01),
        "z": np.uint8(139),
        "w": rng.standard_normal((16, 3, 1)).astype(np.float32),
        "v": rng.standard_normal((5, 16, 5)).astype(np.float32),
    }
    model = make_model(
        [
            helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"]),
            helper.make_node("Conv", ["d", "w"], ["c"], strides=[3], pads=[1, 2]),
            helper.make_node("Conv", ["c", "v"], ["y"], pads=[2, 2]),
        ],
        [tensor("x", TensorProto.UINT8, ["n", 3, 2])],
        [untyped("y")],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    for _ in range(4):
        right_on_openvino(model, {"x": rng.integers(0, 255, (3, 3, 2)).astype(np.uint8)})


def test_bodies_in_bodies() -> None:
    """Each level doubled the time to compile."""
    nodes = [helper.make_node("Neg", ["x"], ["z0"])]
    for level in range(24):
        otherwise = [helper.make_node("Identity", ["x"], ["e"])]
        branches = {
            "then_branch": helper.make_graph(nodes, "then", [], [untyped(f"z{level}")]),
            "else_branch": helper.make_graph(otherwise, "else", [], [untyped("e")]),
        }
        nodes = [helper.make_node("If", ["c"], [f"z{level + 1}"], **branches)]
    inputs = [tensor("x", TensorProto.FLOAT, ["n"]), tensor("c", TensorProto.BOOL, [])]
    model = make_model(nodes, inputs, [untyped("z24")])
    start = time.monotonic()
    right_on_openvino(model, {"x": np.ones(3, np.float32), "c": np.array(True)})
    assert time.monotonic() - start < 20


def test_thousands_of_results() -> None:
    """The time to compile grew with the square of their number."""
    names = [f"y{i}" for i in range(5000)]
    model = make_model(
        [helper.make_node("Neg", ["x"], [name]) for name in names],
        [tensor("x", TensorProto.FLOAT, [2])],
        [untyped(name) for name in names],
    )
    start = time.monotonic()
    program = openxrt.load(model, engine=["openvino", "native"], cache_dir="")
    assert time.monotonic() - start < 20
    results = program.run({"x": np.array([1, 2], np.float32)})
    assert all(np.array_equal(y, [-1, -2]) for y in results.values())
