# SPDX-License-Identifier: Apache-2.0
"""Attributes of RNN, GRU and LSTM that few models have: the numbers of ONNX Runtime on every
engine, or an error."""

from typing import Any

import numpy as np
import onnxruntime
import openxrt
import pytest
from on_engine import load_on
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, untyped, usable

ENGINES = ["native", "openvino", "onnxruntime", "xla"]
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrence(op: str, **attributes: Any) -> bytes:
    """A last state [directions, 2, 3] of x [4, 2, 5]."""
    both = 2 if attributes.get("direction") == "bidirectional" else 1
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((both, 3 * GATES[op], 5)),
        "r": rng.standard_normal((both, 3 * GATES[op], 3)),
    }
    return make_model(
        [helper.make_node(op, ["x", "w", "r"], ["", "y"], hidden_size=3, **attributes)],
        [tensor("x", TensorProto.FLOAT, [4, 2, 5])],
        [untyped("y")],
        [numpy_helper.from_array(a.astype(np.float32), name) for name, a in weights.items()],
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        # Only functions that have a parameter take one of the list.
        ("LSTM", {"activations": ["Sigmoid", "Elu", "Tanh"], "activation_alpha": [0.3]}),
        ("GRU", {"activations": ["Sigmoid", "LeakyRelu"], "activation_alpha": [0.3]}),
        (
            "LSTM",
            {
                "activations": ["HardSigmoid", "Tanh", "ScaledTanh"],
                "activation_alpha": [0.3, 0.7],
                "activation_beta": [0.6, 0.9],
            },
        ),
        (
            "RNN",
            {
                "activations": ["Tanh", "Affine"],
                "activation_alpha": [0.3],
                "activation_beta": [0.6],
                "direction": "bidirectional",
            },
        ),
        ("LSTM", {"input_forget": 1}),
        ("RNN", {"activations": ["Relu", "Tanh"]}),  # as ONNX Runtime saves it: one too many
        ("GRU", {"clip": 0.5}),
        ("LSTM", {"clip": 0.5}),
    ],
)
def test_attributes(op: str, attributes: dict[str, Any], engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    model = recurrence(op, **attributes)
    x = np.random.default_rng(1).standard_normal((4, 2, 5)).astype(np.float32)
    expected = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
    engines = list(dict.fromkeys([engine, "native"]))
    program = openxrt.load(model, engine=engines, check_results=False, cache_dir="")
    np.testing.assert_allclose(program(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("clip", [-1.0, float("nan")])
def test_a_threshold_below_zero(op: str, clip: float) -> None:
    with pytest.raises(openxrt.InvalidModel, match="clip"):
        openxrt.load(recurrence(op, clip=clip))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("functions", [["Foo", "Tanh"], ["Tanh"] * 3])
def test_functions_that_there_are_not(functions: list[str], engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    with pytest.raises(openxrt.InvalidModel, match=r"node 'GRU' \(GRU\): .*activation"):
        openxrt.load(recurrence("GRU", activations=functions), engine=[engine])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", sorted(GATES))
def test_sequences_without_elements(op: str, direction: str, engine: str) -> None:
    """They end with 0, whatever they began with."""
    both = 2 if direction == "bidirectional" else 1
    rng = np.random.default_rng(0)
    names = ["x", "w", "r", "", "lengths", "h"] + (["c"] if op == "LSTM" else [])
    shapes = {
        "x": (4, 3, 5),
        "w": (both, 3 * GATES[op], 5),
        "r": (both, 3 * GATES[op], 3),
        "h": (both, 3, 3),
        "c": (both, 3, 3),
    }
    feeds = {
        name: rng.standard_normal(shapes[name]).astype(np.float32)
        for name in names
        if name in shapes
    }
    outputs = ["y", "y_h"] + (["y_c"] if op == "LSTM" else [])
    model = make_model(
        [helper.make_node(op, names, outputs, hidden_size=3, direction=direction)],
        [tensor(name, TensorProto.FLOAT, value.shape) for name, value in feeds.items()]
        + [tensor("lengths", TensorProto.INT32, [3])],
        [untyped(name) for name in outputs],
    )
    feeds["lengths"] = np.array([4, 0, 2], np.int32)
    expected = onnxruntime.InferenceSession(model).run(None, feeds)
    found = load_on(model, engine).run(feeds)
    for name, value in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)
