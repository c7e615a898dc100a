# SPDX-License-Identifier: Apache-2.0
"""Models of the mixed load, with inputs of several sizes and what ONNX Runtime makes of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor

FLOAT, INT64, BOOL, STRING = (
    TensorProto.FLOAT,
    TensorProto.INT64,
    TensorProto.BOOL,
    TensorProto.STRING,
)
Arrays = dict[str, np.ndarray]
ALL_ENGINES = ("native", "openvino", "xla", "onnxruntime")


@dataclasses.dataclass
class Model:
    """A model, and what is to come of it."""

    name: str
    content: bytes
    inputs: list[Arrays]
    outputs: list[Arrays] = dataclasses.field(default_factory=list)
    # Inputs of the right types that no run may take: an error is what they give.
    refused: list[Arrays] = dataclasses.field(default_factory=list)
    # Inputs that keep a run busy for ever.
    endless: Arrays | None = None
    engines: tuple[str, ...] = ALL_ENGINES
    tolerance: float = 2e-3

    def expect(self) -> Model:
        """With the outputs of ONNX Runtime."""
        session = onnxruntime.InferenceSession(self.content, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        for values in self.inputs:
            self.outputs.append(dict(zip(names, session.run(names, values), strict=True)))
        return self


class Weights:
    """Constants of a model."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.protos: list[onnx.TensorProto] = []

    def add(self, name: str, *shape: int) -> str:
        """Random numbers, small enough that no value explodes."""
        values = self.rng.standard_normal(shape, dtype=np.float32) / np.float32(shape[0] ** 0.5)
        return self.put(name, values)

    def put(self, name: str, values: np.ndarray) -> str:
        self.protos.append(numpy_helper.from_array(values, name))
        return name


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(list(shape)).standard_normal(shape, dtype=np.float32)


def relu() -> bytes:
    """The least of models."""
    ports = [tensor("x", FLOAT, ["n"])], [tensor("y", FLOAT, ["n"])]
    return make_model([helper.make_node("Relu", ["x"], ["y"])], *ports)


def perceptron() -> Model:
    weights, nodes, value = Weights(1), [], "x"
    for i in range(4):
        nodes += [
            helper.make_node("MatMul", [value, weights.add(f"w{i}", 32, 32)], [f"m{i}"]),
            helper.make_node("Add", [f"m{i}", weights.add(f"b{i}", 32)], [f"a{i}"]),
            helper.make_node("Tanh", [f"a{i}"], [f"t{i}"]),
        ]
        value = f"t{i}"
    ports = [tensor("x", FLOAT, ["n", 32])], [tensor(value, FLOAT, ["n", 32])]
    content = make_model(nodes, *ports, weights.protos)
    return Model("perceptron", content, [{"x": floats(n, 32)} for n in (1, 2, 3, 5, 8, 13)])


def convolution() -> Model:
    weights = Weights(2)
    nodes = [
        helper.make_node("Conv", ["x", weights.add("k", 8, 3, 3, 3)], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["p"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", weights.add("w", 8, 10)], ["y"]),
    ]
    ports = [tensor("x", FLOAT, ["n", 3, "h", "w"])], [tensor("y", FLOAT, ["n", 10])]
    content = make_model(nodes, *ports, weights.protos)
    sizes = [(1, 16, 16), (2, 16, 16), (1, 24, 12), (3, 8, 8)]
    return Model("convolution", content, [{"x": floats(n, 3, h, w)} for n, h, w in sizes])


def attention() -> Model:
    weights = Weights(3)
    nodes = [
        helper.make_node("MatMul", ["x", weights.add(f"w{p}", 32, 32)], [p])
        for p in ("q", "k", "v")
    ]
    nodes += [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["soft"], axis=-1),
        helper.make_node("MatMul", ["soft", "v"], ["mixed"]),
        helper.make_node("Add", ["mixed", "x"], ["sum"]),
        helper.make_node(
            "LayerNormalization", ["sum", weights.add("scale", 32), weights.add("bias", 32)], ["y"]
        ),
    ]
    ports = [tensor("x", FLOAT, ["b", "s", 32])], [tensor("y", FLOAT, ["b", "s", 32])]
    content = make_model(nodes, *ports, weights.protos)
    sizes = [(1, 4), (2, 7), (1, 16), (3, 5)]
    return Model("attention", content, [{"x": floats(b, s, 32)} for b, s in sizes])


def embedding() -> Model:
    weights = Weights(4)
    nodes = [
        helper.make_node("Gather", [weights.add("table", 50, 16), "ids"], ["rows"], axis=0),
        helper.make_node("Gemm", ["rows", weights.add("w", 16, 8)], ["y"]),
    ]
    ports = [tensor("ids", INT64, ["n"])], [tensor("y", FLOAT, ["n", 8])]
    content = make_model(nodes, *ports, weights.protos)
    good = [{"ids": np.arange(n) * 7 % 50} for n in (1, 4, 9, 30)]
    bad = [{"ids": np.array(ids)} for ids in ([99], [0, -51], [3, 2**40])]
    return Model("embedding", content, good, refused=bad)


def loop() -> Model:
    weights = Weights(5)
    half = weights.put("half", np.array(0.5, np.float32))
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["go"]),
            helper.make_node("Mul", ["s", half], ["h"]),
            helper.make_node("Sin", ["h"], ["t"]),
            helper.make_node("Identity", ["t"], ["kept"]),
        ],
        "body",
        [tensor("i", INT64, []), tensor("c", BOOL, []), tensor("s", FLOAT, [4])],
        [tensor("go", BOOL, []), tensor("t", FLOAT, [4]), tensor("kept", FLOAT, [4])],
    )
    content = make_model(
        [helper.make_node("Loop", ["n", "", "x"], ["y", "all"], body=body, name="spin")],
        [tensor("n", INT64, []), tensor("x", FLOAT, [4])],
        [tensor("y", FLOAT, [4]), tensor("all", FLOAT, ["trips", 4])],
        weights.protos,
    )
    good = [{"n": np.array(n), "x": floats(4)} for n in (1, 3, 10)]
    return Model("loop", content, good, endless={"n": np.array(2**31 - 1), "x": floats(4)})


def branch() -> Model:
    branches = {
        name: helper.make_graph(
            [helper.make_node(op, ["x"], ["r"])], name, [], [tensor("r", FLOAT, ["n"])]
        )
        for name, op in (("then_branch", "Exp"), ("else_branch", "Neg"))
    }
    content = make_model(
        [helper.make_node("If", ["c"], ["v"], **branches), helper.make_node("Abs", ["v"], ["y"])],
        [tensor("c", BOOL, []), tensor("x", FLOAT, ["n"])],
        [tensor("y", FLOAT, ["n"])],
    )
    return Model(
        "branch",
        content,
        [{"c": np.array(c), "x": floats(n)} for c in (True, False) for n in (1, 6)],
    )


def sparse() -> Model:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("NonZero", ["r"], ["found"]),
        helper.make_node("Transpose", ["found"], ["places"], perm=[1, 0]),
        helper.make_node("GatherND", ["r", "places"], ["y"]),
    ]
    content = make_model(
        nodes,
        [tensor("x", FLOAT, ["n", 6])],
        [tensor("places", INT64, ["k", 2]), tensor("y", FLOAT, ["k"])],
    )
    return Model("sparse", content, [{"x": floats(n, 6)} for n in (1, 4, 11)])


def best() -> Model:
    nodes = [helper.make_node("TopK", ["x", "k"], ["y", "places"], axis=-1)]
    content = make_model(
        nodes,
        [tensor("x", FLOAT, ["n", 12]), tensor("k", INT64, [1])],
        [tensor("y", FLOAT, ["n", "best"]), tensor("places", INT64, ["n", "best"])],
    )
    good = [{"x": floats(n, 12), "k": np.array([k])} for n, k in ((1, 1), (3, 5), (2, 12))]
    return Model("best", content, good, refused=[{"x": floats(2, 12), "k": np.array([13])}])


def recurrent() -> Model:
    weights = Weights(8)
    names = [weights.add("w", 1, 32, 6), weights.add("r", 1, 32, 8), weights.add("b", 1, 64)]
    nodes = [helper.make_node("LSTM", ["x", *names], ["all", "last", ""], hidden_size=8)]
    content = make_model(
        nodes,
        [tensor("x", FLOAT, ["s", "b", 6])],
        [tensor("all", FLOAT, ["s", 1, "b", 8]), tensor("last", FLOAT, [1, "b", 8])],
        weights.protos,
    )
    return Model(
        "recurrent", content, [{"x": floats(s, b, 6)} for s, b in ((1, 1), (5, 2), (9, 1))]
    )


def quantised() -> Model:
    weights = Weights(9)
    scale = weights.put("scale", np.array(0.02, np.float32))
    zero = weights.put("zero", np.array(0, np.int8))
    # Of 7 bits: OpenVINO and ONNX Runtime add two products in 16 bits where the processor has no
    # VNNI, and give a sum that is too large for them its largest value.
    integers = weights.rng.integers(-64, 64, (32, 16)).astype(np.int8)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", scale, zero], ["q"]),
        helper.make_node("DequantizeLinear", ["q", scale, zero], ["d"]),
        helper.make_node("DequantizeLinear", [weights.put("w", integers), scale, zero], ["dw"]),
        helper.make_node("MatMul", ["d", "dw"], ["y"]),
    ]
    ports = [tensor("x", FLOAT, ["n", 32])], [tensor("y", FLOAT, ["n", 16])]
    content = make_model(nodes, *ports, weights.protos)
    # A value between two steps may be rounded to either.
    return Model("quantised", content, [{"x": floats(n, 32)} for n in (1, 4, 7)], tolerance=0.1)


def texts() -> Model:
    nodes = [
        helper.make_node("StringConcat", ["a", "b"], ["ab"]),
        helper.make_node("StringConcat", ["ab", "a"], ["y"]),
    ]
    content = make_model(
        nodes,
        [tensor(name, STRING, ["n"]) for name in "ab"],
        [tensor("y", STRING, ["n"])],
    )
    inputs = [
        {name: np.array([f"{name}-{'ü' * i}" for i in range(n)], object) for name in "ab"}
        for n in (1, 5, 12)
    ]
    return Model("texts", content, inputs, engines=("native", "onnxruntime"))


MODELS: list[Callable[[], Model]] = [
    perceptron,
    convolution,
    attention,
    embedding,
    loop,
    branch,
    sparse,
    best,
    recurrent,
    quantised,
    texts,
]


def make_models(folder: Path) -> list[Model]:
    """All of them, each also as NAME.onnx."""
    models = [make().expect() for make in MODELS]
    for model in models:
        (folder / f"{model.name}.onnx").write_bytes(model.content)
    return models
