# SPDX-License-Identifier: Apache-2.0
"""Models in float16 and bfloat16 on the native engine: ONNX Runtime's numbers, at float32's speed.

A bound is a multiple of the type's rounding error, relative to the largest number of the result.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import ml_dtypes
import numpy as np
import onnxruntime
import openxrt
import pytest

Feeds = dict[str, np.ndarray]
TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


class Network:
    """A graph whose constants and inputs have one element type."""

    def __init__(self, dtype: str, seed: int = 0) -> None:
        self.graph = openxrt.Graph("network")
        self.dtype = dtype
        self.rng = np.random.default_rng(seed)
        self.feeds: Feeds = {}

    def rounded(self, array: np.ndarray) -> np.ndarray:
        """The same numbers whatever the type of the graph is: those of bfloat16."""
        return array.astype(ml_dtypes.bfloat16).astype(np.float32)

    def input(self, name: str, *dims: int) -> int:
        self.feeds[name] = self.rounded(self.rng.normal(size=dims))
        return self.graph.add_input(name, self.dtype, list(dims))

    def weights(self, *dims: int) -> int:
        array = self.rng.normal(size=dims) / np.sqrt(np.prod(dims[1:]) or 1)
        return self.graph.add_constant(self.typed(self.rounded(array)), self.dtype)

    def op(self, op: str, *inputs: int | None, **attributes: object) -> int:
        return self.graph.add_node(op, list(inputs), ["v"], attributes=attributes)[0]

    def typed(self, array: np.ndarray) -> np.ndarray:
        return array.astype(TYPES.get(self.dtype, np.float32))

    def typed_feeds(self) -> Feeds:
        return {name: self.typed(array) for name, array in self.feeds.items()}


def depthwise(dtype: str, size: int = 32, blocks: int = 3) -> Network:
    """Separable convolutions, gates and residual sums, pools and a classifier."""
    n = Network(dtype)
    x = n.op("Conv", n.input("x", 1, 3, 2 * size, 2 * size), n.weights(32, 3, 3, 3),
             strides=[2, 2], pads=[1, 1, 1, 1])  # fmt: skip
    for _ in range(blocks):
        wide = n.op("HardSwish", n.op("Conv", x, n.weights(96, 32, 1, 1), n.weights(96)))
        deep = n.op("Conv", wide, n.weights(96, 1, 5, 5), group=96, pads=[2, 2, 2, 2])
        deep = n.op("Relu", deep)
        gate = n.op("Conv", n.op("GlobalAveragePool", deep), n.weights(96, 96, 1, 1))
        deep = n.op("Mul", deep, n.op("HardSigmoid", gate))
        x = n.op("Add", n.op("Conv", deep, n.weights(32, 96, 1, 1)), x)
    x = n.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = n.op("Flatten", n.op("AveragePool", x, kernel_shape=[4, 4], strides=[4, 4]))
    n.graph.add_output(n.op("Gemm", x, n.weights(32 * (size // 8) ** 2, 10), n.weights(10)))
    return n


def attention(dtype: str, tokens: int = 32, width: int = 64) -> Network:
    """A block of a transformer, two heads, that hands on its keys behind those of its past."""
    n = Network(dtype, 1)
    x = n.input("x", tokens, width)
    past = n.input("past", 2, 16, width // 2)

    def heads(value: int) -> int:
        shape = n.graph.add_constant(np.array([tokens, 2, width // 2]), "int64")
        return n.op("Transpose", n.op("Reshape", value, shape), perm=[1, 0, 2])

    q, k, v = (heads(n.op("MatMul", x, n.weights(width, width))) for _ in range(3))
    keys = n.op("Concat", past, k, axis=1)
    values = n.op("Concat", past, v, axis=1)
    weights = n.op("Softmax", n.op("MatMul", q, n.op("Transpose", keys, perm=[0, 2, 1])), axis=-1)
    mixed = n.op("Transpose", n.op("MatMul", weights, values), perm=[1, 0, 2])
    shape = n.graph.add_constant(np.array([tokens, width]), "int64")
    x = n.op("Add", x, n.op("MatMul", n.op("Reshape", mixed, shape), n.weights(width, width)))
    x = n.op("LayerNormalization", x, n.weights(width), n.weights(width), axis=-1)
    y = n.op("Gelu", n.op("Gemm", x, n.weights(width, 96), n.weights(96)))
    low = n.op("Tanh", y)
    n.graph.add_output(n.op("Where", n.op("Greater", y, n.op("Neg", y)), y, low))
    n.graph.add_output(keys)
    return n


def recurrent(dtype: str) -> Network:
    """Two cells and a normalisation whose numbers add up over a long axis."""
    n = Network(dtype, 2)
    x = n.input("x", 12, 2, 16)
    y = n.graph.add_node(
        "LSTM", [x, n.weights(1, 64, 16), n.weights(1, 64, 16)], ["y"],
        attributes={"hidden_size": 16},
    )[0]  # fmt: skip
    y = n.op("Squeeze", y, n.graph.add_constant(np.array([1]), "int64"))
    y = n.graph.add_node(
        "GRU", [y, n.weights(1, 48, 16), n.weights(1, 48, 16)], ["y"],
        attributes={"hidden_size": 16},
    )[0]  # fmt: skip
    total = n.op("ReduceSum", n.op("Abs", y), n.graph.add_constant(np.array([0, 3]), "int64"))
    n.graph.add_output(n.op("Div", y, total))
    return n


NETWORKS: dict[str, Callable[[str], Network]] = {
    "depthwise": depthwise,
    "attention": attention,
    "recurrent": recurrent,
}


def outputs_of(network: Network, **options: object) -> list[np.ndarray]:
    program = openxrt.load(network.graph, engine="native", cache_dir="", **options)
    assert program.explain()["nodes_per_engine"].keys() == {"native"}
    return list(program.run(network.typed_feeds()).values())


def by_onnxruntime(network: Network) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(
        network.graph.to_onnx(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, network.typed_feeds())


def error(found: np.ndarray, exact: np.ndarray) -> float:
    difference = np.abs(found.astype(np.float64) - exact).max()
    return float(difference / np.abs(exact).max())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", NETWORKS)
def test_accuracy(name: str, dtype: str) -> None:
    """ONNX Runtime has no kernels of bfloat16: its float32 judges both types."""
    exact = by_onnxruntime(NETWORKS[name]("float32"))
    network = NETWORKS[name](dtype)
    for found, wanted in zip(outputs_of(network), exact, strict=True):
        assert found.dtype == TYPES[dtype]
        assert error(found, wanted) < 6 * UNIT[dtype]
    for found, wanted in zip(
        outputs_of(NETWORKS[name]("float32"), precision="f16" if dtype == "float16" else "bf16"),
        exact,
        strict=True,
    ):
        assert error(found, wanted) < 6 * UNIT[dtype]


@pytest.mark.parametrize("name", NETWORKS)
def test_no_worse_than_onnxruntime(name: str) -> None:
    exact = by_onnxruntime(NETWORKS[name]("float32"))
    network = NETWORKS[name]("float16")
    theirs = by_onnxruntime(network)
    for found, peer, wanted in zip(outputs_of(network), theirs, exact, strict=True):
        assert error(found, wanted) <= max(2 * error(peer, wanted), UNIT["float16"])


def test_casts_of_the_graph_round() -> None:
    for dtype, array in TYPES.items():
        graph = openxrt.Graph("casts")
        x = graph.add_input("x", "float32", [5])
        (narrow,) = graph.add_node(
            "Cast", [x], ["n"], attributes={"to": 10 if "b" not in dtype else 16}
        )
        (doubled,) = graph.add_node("Add", [narrow, narrow], ["d"])
        (wide,) = graph.add_node("Cast", [doubled], ["w"], attributes={"to": 1})
        graph.add_output(wide)
        x = np.array([1 / 3, 1e-9, 1e5, 7.125, -np.inf], np.float32)
        found = openxrt.load(graph, engine="native", cache_dir="").run({"x": x})["w"]
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(found, 2 * x.astype(array).astype(np.float32))


def test_time() -> None:
    """Half precision is no slower than float32 by more than the conversions."""
    programs, feeds = {}, {}
    for dtype in ("float32", *TYPES):
        network = depthwise(dtype, size=64, blocks=6)
        programs[dtype] = openxrt.load(network.graph, engine="native", cache_dir="")
        feeds[dtype] = network.typed_feeds()
    seconds: dict[str, list[float]] = {dtype: [] for dtype in programs}
    for _ in range(15):
        for dtype, program in programs.items():
            begin = time.perf_counter()
            program.run(feeds[dtype])
            seconds[dtype].append(time.perf_counter() - begin)
    least = {dtype: statistics.quantiles(values)[0] for dtype, values in seconds.items()}
    for dtype in TYPES:
        assert least[dtype] < 2 * least["float32"]
