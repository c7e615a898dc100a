# SPDX-License-Identifier: Apache-2.0
"""A case of a contributed op: operands, attributes, how near answers must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from small_models import model_proto, tensor, untyped

Array = np.ndarray
MICROSOFT = "com.microsoft"
NCHWC = "com.microsoft.nchwc"


@dataclass
class Const:
    """An operand that the file holds; of `dtype`, a type of TensorProto, where NumPy lacks it."""

    array: Any
    dtype: int | None = None


@dataclass
class Case:
    """A node, its operands, and how near the answers must be."""

    op: str
    operands: list[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    domain: str = MICROSOFT
    outputs: int = 1
    rtol: float = 1e-4
    atol: float = 1e-4
    skip: tuple[int, ...] = ()  # outputs that are not asked for
    around: Callable[[onnx.NodeProto], list[onnx.NodeProto]] | None = None
    result: str = ""  # of the nodes around it
    opset: int = 21
    everywhere: bool = False  # on the other engines too, where the op's first case is not enough

    @property
    def label(self) -> str:
        return f"{self.op}-{self.name}" if self.name else self.op

    def model(self, open_dimensions: bool = False) -> tuple[bytes, dict[str, Array]]:
        """The file, and what it is fed with."""
        names, inputs, constants, feeds = [], [], [], {}
        for i, operand in enumerate(self.operands):
            if operand is None:
                names.append("")
                continue
            name = f"x{i}"
            names.append(name)
            if isinstance(operand, Const):
                constants.append(constant(operand, name))
                continue
            array = np.asarray(operand)
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            shape: list[Any] = list(array.shape)
            if open_dimensions:
                shape = [f"d{i}_{k}" for k in range(array.ndim)]
            inputs.append(tensor(name, kind, shape))
            feeds[name] = array
        outputs = ["" if i in self.skip else f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(
            self.op, names, outputs, name="node", domain=self.domain, **self.attributes
        )
        nodes = self.around(node) if self.around else [node]
        wanted = [self.result] if self.result else [o for o in outputs if o]
        model = model_proto(
            nodes,
            inputs,
            [untyped(o) for o in wanted],
            constants,
            opset=self.opset,
            domains={MICROSOFT: 1, NCHWC: 1},
        )
        return model.SerializeToString(), feeds


def constant(operand: Const, name: str) -> onnx.TensorProto:
    array = np.asarray(operand.array)
    if operand.dtype is None:
        return numpy_helper.from_array(array, name)
    return helper.make_tensor(name, operand.dtype, array.shape, array.ravel().tolist())


class Source:
    """Random operands."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def f(self, *shape: int, scale: float = 1.0, dtype: Any = np.float32) -> Array:
        return (self.rng.normal(size=shape) * scale).astype(dtype)

    def i(self, low: int, high: int, *shape: int, dtype: Any = np.int32) -> Array:
        return self.rng.integers(low, high, shape).astype(dtype)

    def bytes(self, *shape: int, dtype: Any = np.uint8) -> Array:
        info = np.iinfo(dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(dtype)
