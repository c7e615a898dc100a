# SPDX-License-Identifier: Apache-2.0
"""A small correct engine in NumPy, which `xrt conformance` has to pass.

faulty.py has copies of it with one fault each.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import openxrt

Arrays = Sequence[np.ndarray]
Attributes = dict[str, Any]
DTYPES = ("float32", "float64")


def leaky_relu(attributes: Attributes, x: np.ndarray) -> np.ndarray:
    """LeakyRelu in the dtype of x."""
    return np.where(x < 0, x * x.dtype.type(attributes.get("alpha", 0.01)), x)


def softmax(attributes: Attributes, x: np.ndarray) -> np.ndarray:
    """Softmax along one axis."""
    axis = attributes.get("axis", -1)
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def gather(attributes: Attributes, data: np.ndarray, index: np.ndarray) -> np.ndarray:
    """NumPy raises an error where an index is out of range."""
    return np.take(data, index, axis=attributes.get("axis", 0))


KERNELS: dict[str, Callable[..., np.ndarray]] = {
    "Add": lambda _, a, b: a + b,
    "Gather": gather,
    "LeakyRelu": leaky_relu,
    "MatMul": lambda _, a, b: a @ b,
    "Mul": lambda _, a, b: a * b,
    "Relu": lambda _, x: np.maximum(x, 0),
    "Softmax": softmax,
    "Transpose": lambda attributes, x: np.transpose(x, attributes.get("perm")),
}


class Executable:
    """Steps over named values; each run has values of its own."""

    def __init__(self, steps: list[list[Any]], constants: dict[str, np.ndarray], ends: Any) -> None:
        self.steps, self.constants = steps, constants
        self.inputs, self.outputs = ends

    @classmethod
    def of(cls, function: openxrt.FunctionView) -> Executable:
        """From a function."""
        steps = [
            [node.op, dict(node.attributes), list(node.inputs), list(node.outputs)]
            for node in function.nodes
        ]
        constants = {name: np.array(value) for name, value in function.constants().items()}
        ends = [[p.name for p in function.inputs], [p.name for p in function.outputs]]
        return cls(steps, constants, ends)

    def compute(self, op: str, attributes: Attributes, arrays: Arrays) -> np.ndarray:
        """One node."""
        return KERNELS[op](attributes, *arrays)

    def run(self, inputs: list[Any], outputs: list[Any]) -> None:
        """Results are written when everything is computed: an output may lie over an input."""
        values = self.constants | dict(zip(self.inputs, inputs, strict=True))
        for op, attributes, reads, (result,) in self.steps:
            values[result] = self.compute(op, attributes, [values[name] for name in reads])
        self.write([np.array(values[name], order="C") for name in self.outputs], outputs)

    def write(self, results: list[np.ndarray], outputs: list[Any]) -> None:
        """Into the memory that is given, if any."""
        for i, result in enumerate(results):
            if outputs[i] is None:
                outputs[i] = result
            else:
                outputs[i][...] = result

    def serialize(self) -> bytes:
        """A .npz: the constants, and the rest as JSON."""
        file = io.BytesIO()
        text = json.dumps([self.steps, [self.inputs, self.outputs]])
        np.savez(file, _text=np.array(text), **self.constants)
        return file.getvalue()

    @classmethod
    def deserialize(cls, blob: bytes) -> Executable:
        """From serialize()."""
        with np.load(io.BytesIO(blob)) as archive:
            constants = {name: archive[name] for name in archive.files if name != "_text"}
            steps, ends = json.loads(str(archive["_text"]))
        return cls(steps, constants, ends)


class Engine:
    """Claims what KERNELS has, in float32 and float64."""

    executable = Executable

    def supports(self, node: openxrt.NodeView) -> bool | str:
        """True, or why not."""
        if node.domain or node.op not in KERNELS:
            return f"there is no kernel for {node.op}"
        kinds = [*node.input_types, *node.output_types]
        if node.op == "Gather" and kinds.pop(1).dtype not in ("int64", "int32"):
            return "indices are integers"
        for kind in kinds:
            if kind is None or kind.dtype not in DTYPES:
                return f"it computes in float32 and float64, not {kind}"
        return True

    def compile(self, function: openxrt.FunctionView) -> Any:
        """The steps of a function."""
        return self.executable.of(function)

    def load(self, blob: memoryview, function: openxrt.FunctionView) -> Any:
        """From the cache."""
        return self.executable.deserialize(bytes(blob))


def register(name: str, cls: type, **changes: Any) -> None:
    """Makes the class the engine of that name."""
    facts = {
        "version": "1",
        "ops": sorted(KERNELS),
        "training": True,
        "options": [],
        "in_place": True,
    }
    openxrt.engine(name, **(facts | changes))(cls)


register("small", Engine)
