# SPDX-License-Identifier: Apache-2.0
"""`devices`: an engine in Python that says that it drives two. tests/engines/cuda/checks has those
of the CUDA engine."""

from collections.abc import Callable
from typing import Any

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import make_model, tensor

FLOAT = TensorProto.FLOAT
TWO = ["cpu", "far:7"]
WITH_NATIVE = {"engine": ["devices_relu", "native"]}


class Relu:
    """An engine of one op."""

    def supports(self, node: openxrt.NodeView) -> bool | str:
        return node.op == "Relu" or f"{node.op} is not written"

    def compile(self, function: openxrt.FunctionView) -> Callable[..., object]:
        return lambda x: np.maximum(x, 0)


openxrt.engine("devices_relu", version="1", devices=TWO, dynamic_shapes=True)(Relu)


def relu(shape: list[int | str | None], op: str = "Relu", **attributes: Any) -> bytes:
    """One node."""
    return make_model(
        [helper.make_node(op, ["x"], ["y"], **attributes)],
        [tensor("x", FLOAT, shape)],
        [tensor("y", FLOAT, None)],
    )


def load(model: bytes, **options: Any) -> openxrt.Program:
    """On both devices of the engine."""
    return openxrt.load(model, **({"engine": ["devices_relu"], "devices": TWO} | options))


def test_one_device_is_that_device() -> None:
    program = openxrt.load(relu(["n", 3]), engine="native", devices=["cpu"])
    x = np.array([[-1, 2, 3]], np.float32)
    np.testing.assert_array_equal(program.run({"x": x})["y"], np.maximum(x, 0))


def test_devices_share_rows() -> None:
    program = load(relu(["n", 3]))
    for rows in (0, 1, 2, 5):
        x = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
        np.testing.assert_array_equal(program.run({"x": x})["y"], np.maximum(x, 0))


def test_memory_for_results() -> None:
    program = load(relu(["n", 3]))
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    out = np.empty_like(x)
    program(x, out=out)
    np.testing.assert_array_equal(out, np.maximum(x, 0))
    for rows in (4, 6):
        with pytest.raises(openxrt.InvalidArgument, match="output 'y' has 5 rows"):
            program(x, out=np.empty((rows, 3), np.float32))


@pytest.mark.parametrize(
    ("model", "options", "why"),
    [
        (relu(["n", 3]), {"devices": ["cpu", "cpu"]}, "'cpu' is there twice"),
        (relu(["n", 3]), {"device": "far:7"}, "device and devices: one of them"),
        (relu([4, 3]), {}, "no input begins with an open dimension that has a name"),
        (relu(["n", 3], "Softmax", axis=0), {"engine": ["devices_relu", "native"]}, "Softmax"),
        (
            relu(["n", 3], "ReduceMax", keepdims=0),
            {"engine": ["devices_relu", "native"]},
            "ReduceMax",
        ),
        (relu(["n", 3]), {"use_int8": True, "int8_calibration": 2}, "not with use_int8"),
        (relu(["n", 3]), {"devices": ["cpu", "far:9"]}, "far:9"),
    ],
    ids=["twice", "both", "closed", "softmax", "reduced", "int8", "missing"],
)
def test_refused(model: bytes, options: dict[str, Any], why: str) -> None:
    with pytest.raises(openxrt.Error, match=why):
        load(model, **options)
