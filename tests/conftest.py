# SPDX-License-Identifier: Apache-2.0
"""Models that several tests use. What tests import lies in tests/support, which pyproject.toml
puts on the path of pytest."""

import os
import signal

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor

# Nothing is kept in the user's cache folder, or read from it: tests that are about that name one.
os.environ.setdefault("XRT_CACHE_DIR", "")

# Shells start what runs in the background with SIGINT ignored, and its children inherit that. The
# tests of Ctrl-C mean programs that somebody started.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def add_model() -> bytes:
    """total = a + b, float32[N,3]."""
    return make_model(
        [helper.make_node("Add", ["a", "b"], ["total"])],
        [tensor(name, TensorProto.FLOAT, ["N", 3]) for name in ("a", "b")],
        [tensor("total", TensorProto.FLOAT, ["N", 3])],
    )


@pytest.fixture(scope="session")
def two_outputs_model() -> bytes:
    """big = Relu(x), small = Neg(x), float32[2,3]."""
    return make_model(
        [
            helper.make_node("Relu", ["x"], ["big"], name="relu"),
            helper.make_node("Neg", ["x"], ["small"], name="neg"),
        ],
        [tensor("x", TensorProto.FLOAT, [2, 3])],
        [tensor(name, TensorProto.FLOAT, [2, 3]) for name in ("big", "small")],
    )


@pytest.fixture(scope="session")
def mlp_model() -> bytes:
    """A two-layer perceptron with random weights, float32[N,8] to float32[N,4]."""
    rng = np.random.default_rng(3)

    def weight(name: str, shape: tuple[int, ...]) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)

    return make_model(
        [
            helper.make_node("MatMul", ["x", "w1"], ["h1"], name="layer1"),
            helper.make_node("Add", ["h1", "b1"], ["h2"], name="bias1"),
            helper.make_node("Relu", ["h2"], ["h3"], name="relu"),
            helper.make_node("MatMul", ["h3", "w2"], ["h4"], name="layer2"),
            helper.make_node("Softmax", ["h4"], ["y"], name="softmax", axis=-1),
        ],
        [tensor("x", TensorProto.FLOAT, ["N", 8])],
        [tensor("y", TensorProto.FLOAT, ["N", 4])],
        [weight("w1", (8, 16)), weight("b1", (16,)), weight("w2", (16, 4))],
    )
