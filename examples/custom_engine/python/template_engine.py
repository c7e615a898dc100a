# SPDX-License-Identifier: Apache-2.0
"""A complete small engine in NumPy: Add, MatMul, Relu, and Momentum, which updates variables.

It is src/engines/template in Python, part for part: a registry of lowerings that supports() reads,
an executable of steps, temporary buffers of a run, results written where they are wanted.

    python template_engine.py MODEL.onnx [DIMENSION=SIZE ...]

runs a model with it, and natively what it refuses, on random inputs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import openxrt

# Computes one node: reads the arrays, writes into the memory for the results.
Kernel = Callable[[Sequence[np.ndarray], Sequence[np.ndarray], np.ndarray], None]


@dataclass
class Lowering:
    """What the engine can do with one op, and how."""

    # The kernel for a node; called when a function is compiled.
    create: Callable[[openxrt.NodeView], Kernel]
    # A reason against nodes that the kernel cannot do, "" for none.
    refuses: Callable[[openxrt.NodeView], str] = lambda _node: ""
    # Floats of temporary memory that one run of the kernel needs.
    workspace: Callable[[openxrt.NodeView], int] = lambda _node: 0
    training: bool = True  # nodes of training steps too
    # Positions of the node's inputs that the kernel can write its results over.
    mutable_inputs: tuple[int, ...] = ()


LOWERINGS: dict[str, Lowering] = {}


def relu(_node: openxrt.NodeView) -> Kernel:
    """May be written over its input."""

    def run(inputs: Sequence, outputs: Sequence, _workspace: np.ndarray) -> None:
        np.maximum(inputs[0], np.float32(0), out=outputs[0])

    return run


def add(_node: openxrt.NodeView) -> Kernel:
    """NumPy broadcasts as ONNX does."""

    def run(inputs: Sequence, outputs: Sequence, _workspace: np.ndarray) -> None:
        np.add(inputs[0], inputs[1], out=outputs[0])

    return run


def matmul(node: openxrt.NodeView) -> Kernel:
    """Transposes the second matrix into temporary memory: both are read along their rows."""
    depth, columns = node.input_types[1].shape

    def run(inputs: Sequence, outputs: Sequence, workspace: np.ndarray) -> None:
        transposed = workspace[: depth * columns].reshape(columns, depth)
        transposed[...] = inputs[1].T
        for i, row in enumerate(inputs[0]):
            outputs[0][i] = (transposed * row).sum(axis=1, dtype=np.float32)

    return run


def matmul_refuses(node: openxrt.NodeView) -> str:
    """It multiplies matrices."""
    for kind in node.input_types:
        if len(kind.shape) != 2:
            return f"it multiplies matrices, not {kind}"
    return ""


def momentum(node: openxrt.NodeView) -> Kernel:
    """The results may lie in the memory of weight and momentum: both are read before writing."""
    alpha = np.float32(node.attributes["alpha"])
    beta = np.float32(node.attributes["beta"])
    decay = np.float32(node.attributes["norm_coefficient"])
    nesterov = node.attributes["mode"] == "nesterov"

    def run(inputs: Sequence, outputs: Sequence, _workspace: np.ndarray) -> None:
        rate, step, weight, gradient, old = inputs
        g = decay * weight + gradient
        v = alpha * old + (beta if step > 0 else np.float32(1)) * g
        new_weight = weight - rate * (g + alpha * v if nesterov else v)
        outputs[0][...] = new_weight
        outputs[1][...] = v

    return run


LOWERINGS["Relu"] = Lowering(relu, mutable_inputs=(0,))
LOWERINGS["Add"] = Lowering(add)
LOWERINGS["MatMul"] = Lowering(
    matmul,
    refuses=matmul_refuses,
    workspace=lambda node: math.prod(node.input_types[1].shape),
    training=False,  # kept out of training steps, to show that
)
LOWERINGS["ai.onnx.preview.training.Momentum"] = Lowering(
    momentum,
    refuses=lambda node: "" if len(node.inputs) == 5 else "it updates one weight at a time",
    mutable_inputs=(2, 4),
)


def qualified(node: openxrt.NodeView) -> str:
    """As lowerings are named: "Relu", "ai.onnx.preview.training.Momentum"."""
    return f"{node.domain}.{node.op}" if node.domain else node.op


class Executable:
    """Steps over named values. What a run needs for itself is in its context."""

    def __init__(self, function: openxrt.FunctionView) -> None:
        self.inputs = [port.name for port in function.inputs]
        self.outputs = [port.name for port in function.outputs]
        self.constants = {name: np.array(value) for name, value in function.constants().items()}
        self.steps = []
        self.temporaries: dict[str, tuple[tuple[int, ...], str]] = {}
        self.workspace = 0
        readers: dict[str, list[tuple[openxrt.NodeView, int]]] = {}
        producers = {}
        for node in function.nodes:
            lowering = LOWERINGS[qualified(node)]
            self.steps.append((lowering.create(node), list(node.inputs), list(node.outputs)))
            self.workspace = max(self.workspace, lowering.workspace(node))
            for position, name in enumerate(node.inputs):
                readers.setdefault(name, []).append((node.name, position))
            for name, kind in zip(node.outputs, node.output_types, strict=True):
                producers[name] = (node.name, lowering.mutable_inputs)
                if name not in self.outputs:
                    self.temporaries[name] = (kind.shape, kind.dtype)
        # Outputs that lie in the memory of an input, and must wait until all steps have run: some
        # other node reads the input, or the lowering cannot write over it.
        self.aside = set()
        for source, target in function.aliases:
            name, mutable_inputs = producers[self.outputs[target]]
            for reader, position in readers.get(self.inputs[source], []):
                if reader != name or position not in mutable_inputs:
                    self.aside.add(target)
        sizes = [
            int(np.prod(dims)) * np.dtype(kind).itemsize for dims, kind in self.temporaries.values()
        ]
        self.workspace_bytes = 4 * self.workspace + sum(sizes)

    def create_context(self) -> dict:
        """The temporary buffers of one run at a time."""
        values = {name: np.empty(dims, kind) for name, (dims, kind) in self.temporaries.items()}
        return {
            "values": values | self.constants,
            "workspace": np.empty(self.workspace, np.float32),
        }

    def run(self, inputs: list, outputs: list, context: dict) -> None:
        """`outputs` holds memory to write into."""
        values = dict(context["values"])
        values.update(zip(self.inputs, inputs, strict=True))
        for i, name in enumerate(self.outputs):
            values[name] = np.empty_like(outputs[i]) if i in self.aside else outputs[i]
        for kernel, reads, writes in self.steps:
            kernel([values[r] for r in reads], [values[w] for w in writes], context["workspace"])
        for i in self.aside:
            outputs[i][...] = values[self.outputs[i]]

    def serialize(self) -> bytes:
        """The steps are made again when it is loaded: there is nothing but a mark to keep."""
        return b"numpy template"


@openxrt.engine(
    "numpy_template",
    version="1",
    ops=sorted(LOWERINGS),
    training=[op for op, lowering in LOWERINGS.items() if lowering.training],
    options=[],  # it has none: every key is an error
    in_place=True,
    files=[__file__],  # plans are kept in the disk cache until it changes
)
class TemplateEngine:
    """Claims what is registered above."""

    def supports(self, node: openxrt.NodeView) -> bool | str:
        """True, or why not."""
        lowering = LOWERINGS.get(qualified(node))
        if lowering is None:
            return f"there is no lowering of {qualified(node)}"
        for position, kind in enumerate([*node.input_types, *node.output_types]):
            is_step_count = node.op == "Momentum" and position == 1
            if kind is None or (kind.dtype != "float32" and not is_step_count):
                return f"it computes in float32, not in {kind or 'what is left out'}"
            if not kind.is_static:
                return f"it needs static shapes, not {kind}"
        return lowering.refuses(node) or True

    def compile(self, function: openxrt.FunctionView) -> Executable:
        """The steps of a function."""
        return Executable(function)

    def load(self, blob: memoryview, function: openxrt.FunctionView) -> Executable:
        """From what serialize() gave."""
        if bytes(blob) != b"numpy template":
            raise openxrt.InvalidModel("these bytes are none of this engine's")
        return Executable(function)


def main() -> None:
    """Runs a model on random inputs."""
    sizes = dict(argument.split("=") for argument in sys.argv[2:])
    program = openxrt.load(sys.argv[1], engine="numpy_template,native")
    rng = np.random.default_rng(0)
    inputs = {
        port.name: rng.standard_normal(
            [int(sizes.get(dim, 1)) if isinstance(dim, str) else dim or 1 for dim in port.shape]
        ).astype(port.dtype)
        for port in program.inputs
    }
    for name, value in program.run(inputs).items():
        print(f"{name}: {value.dtype}{list(value.shape)}")
    print(program.explain())


if __name__ == "__main__":
    main()
