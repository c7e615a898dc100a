# SPDX-License-Identifier: Apache-2.0
"""An odd file, and the list of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5
W = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


@dataclass
class Odd:
    """A model, its inputs, and files beside it."""

    model: ModelProto
    feed: dict[str, np.ndarray] = field(default_factory=lambda: {"x": X})
    files: dict[str, bytes] = field(default_factory=dict)


CASES: dict[str, Callable[[], Odd]] = {}


def info(name: str, dtype: int = FLOAT, shape: object = (2, 3)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, None if shape is None else list(shape))


def plain(
    nodes: list[onnx.NodeProto] | None = None,
    *,
    inputs: list[onnx.ValueInfoProto] | None = None,
    outputs: list[onnx.ValueInfoProto] | None = None,
    initializers: tuple[TensorProto, ...] = (),
    opset: int = 17,
    ir: int = 8,
) -> ModelProto:
    """y = Relu(x), or what is given."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], name="relu")] if nodes is None else nodes,
        "g",
        [info("x")] if inputs is None else inputs,
        [info("y")] if outputs is None else outputs,
        list(initializers),
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir, producer_name="odd"
    )


def case(make: Callable[[], Odd | ModelProto]) -> Callable[[], Odd | ModelProto]:
    def odd() -> Odd:
        made = make()
        return made if isinstance(made, Odd) else Odd(made)

    CASES[make.__name__] = odd
    return make


def weight(name: str = "w", value: np.ndarray = W) -> TensorProto:
    return numpy_helper.from_array(value, name)


ADD = helper.make_node("Add", ["x", "w"], ["y"])
