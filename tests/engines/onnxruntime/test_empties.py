# SPDX-License-Identifier: Apache-2.0
"""Operands without elements on which ONNX Runtime ends the process, where sizes are open."""

import contextlib

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, untyped

pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


# Operands, the first of which comes without elements, and attributes.
CASES = {
    "ConvTranspose": ([random(1, 1, 3, 4, 5), random(1, 2, 3, 3, 3)], (1, 1, 0, 4, 5), {}),
    "GRU": ([random(1, 3, 2), random(1, 15, 2), random(1, 15, 5)], (0, 3, 2), {"hidden_size": 5}),
    "LSTM": ([random(1, 3, 2), random(1, 12, 2), random(1, 12, 3)], (1, 0, 2), {"hidden_size": 3}),
    "RNN": ([random(1, 3, 2), random(1, 4, 2), random(1, 4, 4)], (1, 0, 2), {"hidden_size": 4}),
}


@pytest.mark.parametrize("op", sorted(CASES))
def test_no_elements(op: str) -> None:
    operands, empty, attributes = CASES[op]
    feeds = dict(zip("abc", operands, strict=False))
    model = make_model(
        [helper.make_node(op, list(feeds), ["y"], **attributes)],
        [
            tensor(name, TensorProto.FLOAT, [f"{name}{i}" for i in range(value.ndim)])
            for name, value in feeds.items()
        ],
        [untyped("y")],
    )
    program = openxrt.load(
        model, engine="onnxruntime", strict=True, cache_dir="", max_specializations=1
    )
    right = program.run(feeds)["y"]
    with pytest.raises(openxrt.Unsupported, match=r"no elements|no other one"):
        program.run({**feeds, "a": np.zeros(empty, np.float32)})
    np.testing.assert_array_equal(program.run(feeds)["y"], right)


@pytest.mark.parametrize("count", [0, "n"])
@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("Attention", {"a": (2, 0, 4, 8), "b": (2, 0, 5, 8), "c": (2, 0, 5, 8)}),
        ("Conv", {"a": (1, 0, 5, 5), "b": (1, 0, 3, 3)}),  # hangs
    ],
)
def test_no_heads_and_no_channels(
    op: str, inputs: dict[str, tuple[int, ...]], count: int | str
) -> None:
    def load(count: int | str) -> openxrt.Program:
        ports = [
            tensor(name, TensorProto.FLOAT, [shape[0], count, *shape[2:]])
            for name, shape in inputs.items()
        ]
        nodes = [helper.make_node(op, list(inputs), ["y"])]
        return openxrt.load(
            make_model(nodes, ports, [untyped("y")], opset=23),
            engine=["onnxruntime", "native"],
            cache_dir="",
            check_results=False,
        )

    assert load(2).explain().nodes_per_engine == {"onnxruntime": 1}
    with contextlib.suppress(openxrt.Error):  # others need not take them
        result = load(count).run({n: np.ones(shape, np.float32) for n, shape in inputs.items()})
        assert not result["y"].any()


QUANTISED = {"s": np.float32(0.5), "z": np.uint8(3)}
ML = "ai.onnx.ml"
# Nodes, inputs of which some have no elements, and constants.
EMPTY: dict[str, tuple[list[onnx.NodeProto], dict[str, np.ndarray], dict[str, np.ndarray]]] = {
    "FeatureVectorizer": (
        [helper.make_node("FeatureVectorizer", ["a"], ["y"], domain=ML, inputdimensions=[2])],
        {"a": np.zeros((0, 2), np.float32)},
        {},
    ),
    "RoiAlign": (
        [helper.make_node("RoiAlign", ["a", "r", "b"], ["y"], sampling_ratio=1)],
        {"a": np.zeros((2, 2, 0, 5), np.float32)},
        {"r": np.array([[0, 0, 1, 1]], np.float32), "b": np.zeros(1, np.int64)},
    ),
    "QuantizeLinear": (
        [helper.make_node("QuantizeLinear", ["a", "b"], ["y"], axis=1, block_size=2)],
        {"a": np.zeros((3, 0), np.float32), "b": np.zeros((3, 0), np.float32)},
        {},
    ),
    "MatMulInteger": (
        [helper.make_node("MatMulInteger", ["a", "b"], ["y"])],
        {"a": np.zeros((8, 0), np.uint8), "b": np.zeros((0, 2), np.uint8)},
        {},
    ),
    "QLinearMatMul": (
        [helper.make_node("QLinearMatMul", ["a", "s", "z", "b", "s", "z", "s", "z"], ["y"])],
        {"a": np.zeros((8, 0), np.uint8), "b": np.zeros((0, 2), np.uint8)},
        QUANTISED,
    ),
    "ConvInteger": (
        [helper.make_node("ConvInteger", ["a", "b"], ["y"])],
        {"a": np.zeros((1, 0, 5, 5), np.uint8), "b": np.zeros((2, 0, 3, 3), np.uint8)},
        {},
    ),
    "QLinearConv": (
        [helper.make_node("QLinearConv", ["a", "s", "z", "b", "s", "z", "s", "z"], ["y"])],
        {"a": np.zeros((1, 0, 5, 5), np.uint8), "b": np.zeros((2, 0, 3, 3), np.uint8)},
        QUANTISED,
    ),
    "MatMul": (
        [
            helper.make_node("DequantizeLinear", ["a", "s", "z"], ["c"]),
            helper.make_node("DequantizeLinear", ["b", "s", "z"], ["d"]),
            helper.make_node("MatMul", ["c", "d"], ["e"]),
            helper.make_node("QuantizeLinear", ["e", "s", "z"], ["y"]),
        ],
        {"a": np.zeros((8, 0), np.uint8), "b": np.zeros((0, 2), np.uint8)},
        QUANTISED,
    ),
    "LSTM": (  # without turns: the last state of the cells
        [helper.make_node("LSTM", ["a", "w", "r"], ["", "", "y"], hidden_size=3)],
        {"a": np.zeros((0, 2, 2), np.float32)},
        {"w": np.ones((1, 12, 2), np.float32), "r": np.ones((1, 12, 3), np.float32)},
    ),
    "InstanceNormalization": (
        [helper.make_node("InstanceNormalization", ["a", "s", "t"], ["y"])],
        {"a": np.zeros((1, 2, 0), np.float32)},
        {"s": np.ones(2, np.float32), "t": np.ones(2, np.float32)},
    ),
}


def empty_model(op: str, kind: str) -> bytes:
    """Its inputs are of open sizes or of fixed ones; or constants, and the constants inputs."""
    nodes, inputs, constants = EMPTY[op]
    if kind == "constant":
        inputs, constants = constants, inputs
    ports = []
    for name, array in inputs.items():
        sizes = [f"{name}{i}" for i in range(array.ndim)] if kind == "open" else array.shape
        ports.append(tensor(name, helper.np_dtype_to_tensor_dtype(array.dtype), sizes))
    weights = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    return make_model(nodes, ports, [untyped("y")], weights, domains={ML: 3})


@pytest.mark.parametrize("op", sorted(EMPTY.keys() - {"InstanceNormalization"}))
def test_what_has_no_elements_is_left_to_others(op: str) -> None:
    """ONNX Runtime ends the process, or gives what lies in memory."""
    inputs = EMPTY[op][1]
    with contextlib.suppress(openxrt.InvalidArgument):  # an empty image cannot be sampled
        wanted = openxrt.load(empty_model(op, "fixed"), engine="native", cache_dir="").run(inputs)
        program = openxrt.load(
            empty_model(op, "fixed"), engine=["onnxruntime", "native"], cache_dir=""
        )
        np.testing.assert_array_equal(program.run(inputs)["y"], wanted["y"])
    program = openxrt.load(empty_model(op, "open"), engine="onnxruntime", strict=True, cache_dir="")
    with pytest.raises(openxrt.Unsupported, match=rf"is 0; of no \w+ (quantised )?{op} "):
        program.run(inputs)


def test_an_image_of_no_elements_that_is_constant() -> None:
    def load(op: str) -> openxrt.Program:
        return openxrt.load(
            empty_model(op, "constant"), engine=["onnxruntime", "native"], cache_dir=""
        )

    inputs = EMPTY["InstanceNormalization"][2]
    assert load("InstanceNormalization").run(inputs)["y"].shape == (1, 2, 0)
    with pytest.raises(openxrt.InvalidArgument, match="empty image"):
        load("RoiAlign").run(EMPTY["RoiAlign"][2])


@pytest.mark.parametrize("is_open", [False, True])
def test_a_layer_norm_that_is_written_out(is_open: bool) -> None:
    """ONNX Runtime makes one node of it, which fails of no elements."""
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["mean"]),
        helper.make_node("Sub", ["x", "mean"], ["d"]),
        helper.make_node("Pow", ["d", "two"], ["square"]),
        helper.make_node("ReduceMean", ["square", "axes"], ["variance"]),
        helper.make_node("Add", ["variance", "epsilon"], ["sum"]),
        helper.make_node("Sqrt", ["sum"], ["root"]),
        helper.make_node("Div", ["d", "root"], ["quotient"]),
        helper.make_node("Mul", ["quotient", "scale"], ["y"]),
    ]
    constants = {
        "axes": np.int64([-1]),
        "two": np.float32(2),
        "epsilon": np.float32(1e-3),
        "scale": np.ones(1 if is_open else 0, np.float32),
    }
    model = make_model(
        nodes,
        [tensor("x", TensorProto.FLOAT, ["a", "b"] if is_open else [3, 0])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    program = openxrt.load(model, engine=["onnxruntime", "native"], cache_dir="")
    for columns in (4, 0, 4) if is_open else (0, 0):
        assert program(np.ones((3, columns), np.float32)).shape == (3, columns)


@pytest.mark.parametrize("op", ["LayerNormalization", "MaxPool"])
def test_a_batch_of_0_is_no_lack_of_elements(op: str) -> None:
    attributes = {"kernel_shape": [2]} if op == "MaxPool" else {}
    model = make_model(
        [helper.make_node(op, ["a", "s"][: 1 if attributes else 2], ["y"], **attributes)],
        [tensor("a", TensorProto.FLOAT, ["n", 2, 3])],
        [untyped("y")],
        [numpy_helper.from_array(np.ones(3, np.float32), "s")],
    )
    program = openxrt.load(model, engine="onnxruntime", strict=True, cache_dir="")
    assert program(np.zeros((0, 2, 3), np.float32)).shape == (0, 2, 3 - len(attributes))


def chosen_model(op: str, axis: int, sizes: list[int], weights: dict[str, np.ndarray]) -> bytes:
    """Only a run tells how much of an axis is left for the op."""
    hidden = {"hidden_size": weights["r"].shape[2]} if "r" in weights else {}
    return make_model(
        [
            helper.make_node("Compress", ["x", "chosen"], ["some"], axis=axis),
            helper.make_node(op, ["some", *weights], ["y"], **hidden),
        ],
        [tensor("x", TensorProto.FLOAT, sizes), tensor("chosen", TensorProto.BOOL, [sizes[axis]])],
        [untyped("y")],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )


@pytest.mark.parametrize(
    ("op", "axis", "sizes", "weights", "engine"),
    [
        ("GRU", 0, [3, 1, 2], {"w": (1, 15, 2), "r": (1, 15, 5)}, "native"),
        ("GRU", 1, [1, 3, 2], {"w": (1, 15, 2), "r": (1, 15, 5)}, "native"),
        ("LSTM", 0, [3, 1, 2], {"w": (1, 12, 2), "r": (1, 12, 3)}, "onnxruntime"),
        ("LSTM", 1, [1, 3, 2], {"w": (1, 12, 2), "r": (1, 12, 3)}, "native"),
        ("ConvTranspose", 2, [1, 1, 3], {"w": (1, 2, 3)}, "onnxruntime"),
        ("ConvTranspose", 2, [1, 1, 3, 4, 5], {"w": (1, 2, 3, 3, 3)}, "native"),
        ("InstanceNormalization", 2, [1, 2, 3], {"w": (2,), "b": (2,)}, "native"),
    ],
)
def test_sizes_of_0_that_are_computed(
    op: str, axis: int, sizes: list[int], weights: dict[str, tuple[int, ...]], engine: str
) -> None:
    arrays = {name: random(*shape) for name, shape in weights.items()}
    model = chosen_model(op, axis, sizes, arrays)
    program = openxrt.load(
        model, engine=["onnxruntime", "native"], cache_dir="", check_results=False
    )
    exact = openxrt.load(model, engine="native", cache_dir="")
    assert {row["op"]: row["engine"] for row in program.explain()["nodes"]}[op] == engine
    for count in (0, 1):
        feeds = {"x": random(*sizes), "chosen": np.arange(sizes[axis]) < count}
        np.testing.assert_allclose(program.run(feeds)["y"], exact.run(feeds)["y"], atol=1e-6)


def test_layers_of_open_sizes_stay() -> None:
    """A recogniser of words in images of any width, and a quantised layer behind it."""
    arrays = {
        "w": random(4, 1, 8, 3),
        "lw": random(1, 12, 4),
        "lr": random(1, 12, 3),
        "q": np.ones((3, 5), np.int8),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[0, 1, 0, 1]),
        helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[1, 2], strides=[1, 2]),
        helper.make_node("Squeeze", ["p", "two"], ["s"]),
        helper.make_node("Transpose", ["s"], ["t"], perm=[2, 0, 1]),
        helper.make_node("LSTM", ["t", "lw", "lr"], ["l"], hidden_size=3),
        helper.make_node("Squeeze", ["l", "one"], ["h"]),
        helper.make_node("DynamicQuantizeLinear", ["h"], ["n", "scale", "zero"]),
        helper.make_node("MatMulInteger", ["n", "q", "zero"], ["y"]),
    ]
    constants = {**arrays, "one": np.array([1]), "two": np.array([2])}
    model = make_model(
        nodes,
        [tensor("x", TensorProto.FLOAT, ["batch", 1, 8, "width"])],
        [untyped("y")],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    program = openxrt.load(model, engine="onnxruntime", cache_dir="", check_results=False)
    assert program.explain().nodes_per_engine == {"onnxruntime": len(nodes)}
    assert program(random(2, 1, 8, 10)).shape == (5, 2, 5)


def einsum_model(nodes: list[onnx.NodeProto], source: str) -> bytes:
    equation = "bhld,bhsd->bhls"
    return make_model(
        [*nodes, helper.make_node("Einsum", [source, source], ["y"], equation=equation)],
        [
            tensor("x", TensorProto.FLOAT, ["batch", 1, 4, 3]),
            tensor("past", TensorProto.FLOAT, ["p"]),
        ],
        [untyped("y"), untyped("z")],
    )


def test_einsum_of_no_elements() -> None:
    """It looks at the sizes that its operands have: others may be 0."""
    model = einsum_model([helper.make_node("Neg", ["past"], ["z"])], "x")
    program = openxrt.load(model, engine=["onnxruntime"], cache_dir="", check_results=False)
    x = random(2, 1, 4, 3)
    none = np.zeros(0, np.float32)
    right = program.run({"x": x, "past": none})
    assert program.explain().nodes_per_engine == {"onnxruntime": 2}
    np.testing.assert_allclose(right["y"], x @ x.swapaxes(2, 3), rtol=1e-5)
    assert program.run({"x": x[:0], "past": none})["y"].shape == (0, 1, 4, 4)
    assert "on 'native', first because of" in str(program.explain())
    assert "'batch' is 0" in str(program.explain())
    program = openxrt.load(model, engine="onnxruntime", strict=True, cache_dir="")
    with pytest.raises(openxrt.Unsupported, match="'batch' is 0"):
        program.run({"x": x[:0], "past": none})


@pytest.mark.parametrize("is_fixed", [False, True])
def test_einsum_of_sizes_that_are_computed(is_fixed: bool) -> None:
    """The operands turn out to be empty within the model: the node goes to others."""
    nodes = [
        helper.make_node("Neg", ["past"], ["z"]),
        helper.make_node("Cast", ["past"], ["chosen"], to=TensorProto.BOOL),
        helper.make_node("Compress", ["x", "chosen"], ["some"], axis=0),
    ]
    model = einsum_model(nodes, "some")
    program = openxrt.load(
        model,
        engine=["onnxruntime", "native"],
        cache_dir="",
        check_results=False,
        shapes={"x": [2, 1, 4, 3], "past": [2]} if is_fixed else {},
    )
    x = random(2, 1, 4, 3)
    for past, count in (([0, 1], 1), ([0, 0], 0)):
        result = program.run({"x": x, "past": np.array(past, np.float32)})["y"]
        assert result.shape == (count, 1, 4, 4)
    engines = {row["op"]: row["engine"] for row in program.explain()["nodes"]}
    assert engines["Einsum"] == "native"


def test_what_ends_the_process_in_a_branch() -> None:
    """Nobody looks at the sizes of what a branch captures."""
    node = helper.make_node(
        "FeatureVectorizer", ["x", "z"], ["u"], domain="ai.onnx.ml", inputdimensions=[2, 3]
    )
    branches = [
        helper.make_graph([node], "then", [], [tensor("u", TensorProto.FLOAT, None)]),
        helper.make_graph(
            [helper.make_node("Identity", ["x"], ["w"])],
            "else",
            [],
            [tensor("w", TensorProto.FLOAT, None)],
        ),
    ]
    model = make_model(
        [helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])],
        [
            tensor("x", TensorProto.FLOAT, ["n", 2]),
            tensor("z", TensorProto.FLOAT, ["n", 3]),
            tensor("c", TensorProto.BOOL, []),
        ],
        [tensor("y", TensorProto.FLOAT, None)],
        domains={"ai.onnx.ml": 3},
    )
    program = openxrt.load(model, engine=["onnxruntime", "native"], cache_dir="")
    for rows in (3, 2, 0):
        feeds = {"x": random(rows, 2), "z": random(rows, 3), "c": np.array(True)}
        assert program.run(feeds)["y"].shape == (rows, 5)
