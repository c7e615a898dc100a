# SPDX-License-Identifier: Apache-2.0
"""Small models as the checks want them: one node with its inputs, as variables or as constants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 21  # of generated models, unless an op is newer


@dataclass(frozen=True)
class Sample:
    """A node with values for its inputs; None is an input that is left out."""

    op: str
    inputs: tuple[np.ndarray | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    fixed: frozenset[int] = frozenset()  # inputs that models usually have as constants: axes, pads
    domain: str = ""

    def types(self) -> str:
        """The inputs' types, for people."""
        return ", ".join("-" if a is None else type_text(a) for a in self.inputs)

    def feeds(self, constants: Iterable[int] | None = None) -> dict[str, np.ndarray]:
        """Values of the inputs that are no constants, by name."""
        left_out = self.fixed if constants is None else set(constants)
        return {
            f"x{i}": array
            for i, array in enumerate(self.inputs)
            if array is not None and i not in left_out
        }

    def model(
        self,
        constants: Iterable[int] | None = None,
        shapes: Mapping[str, Sequence[int | str]] | None = None,
    ) -> bytes:
        """The node as a model with inputs x0, x1, ... and outputs y0, y1, ...

        Args:
            constants: positions of inputs that are initializers; None: those that are `fixed`.
            shapes: declared shapes by input's name, where they are not those of the values.
        """
        held = self.fixed if constants is None else set(constants)
        names = ["" if array is None else f"x{i}" for i, array in enumerate(self.inputs)]
        node = helper.make_node(
            self.op,
            names,
            [f"y{i}" for i in range(self.outputs)],
            name=f"node_{self.op}",
            domain=self.domain,
            **self.attributes,
        )
        inputs = [
            value_info(name, array, (shapes or {}).get(name))
            for name, array in self.feeds(held).items()
        ]
        initializers = [
            numpy_helper.from_array(np.array(array, order="C"), f"x{i}")
            for i, array in enumerate(self.inputs)
            if array is not None and i in held
        ]
        return make_model([node], inputs, node.output, initializers)


def type_text(array: np.ndarray) -> str:
    """Such as float32[2,3]."""
    dtype = "string" if array.dtype == object else array.dtype.name
    return f"{dtype}[{','.join(map(str, array.shape))}]"


def value_info(
    name: str, array: np.ndarray, shape: Sequence[int | str] | None = None
) -> onnx.ValueInfoProto:
    """The declaration of a value like this array."""
    kind = (
        onnx.TensorProto.STRING
        if array.dtype == object
        else helper.np_dtype_to_tensor_dtype(array.dtype)
    )
    return helper.make_tensor_value_info(name, kind, array.shape if shape is None else shape)


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    initializers: Sequence[onnx.TensorProto] = (),
) -> bytes:
    """A model whose outputs have the types that ONNX infers."""
    graph = helper.make_graph(
        nodes,
        "conformance",
        inputs,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        initializers,
    )
    opsets = {node.domain: OPSET if node.domain == "" else 1 for node in nodes} | {"": OPSET}
    for node in nodes:
        opsets[node.domain] = max(opsets[node.domain], since_version(node.domain, node.op_type))
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in opsets.items()],
        ir_version=10,
    )
    return onnx.shape_inference.infer_shapes(model).SerializeToString()


@cache
def since_version(domain: str, op: str) -> int:
    """The first version of the domain that has the op."""
    versions = [
        schema.since_version
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.domain == domain and schema.name == op
    ]
    return min(versions, default=1)


def schema_of(domain: str, op: str) -> onnx.defs.OpSchema | None:
    """The op's schema at the opset of generated models."""
    version = max(OPSET if domain == "" else 1, since_version(domain, op))
    if not onnx.defs.has(op, version, domain):
        return None
    return onnx.defs.get_schema(op, version, domain)


# --- other dtypes ---------------------------------------------------------------------------------


def type_variables(sample: Sample) -> dict[str, list[int]]:
    """The schema's type parameters (T, Tind) that inputs have, to the positions of these inputs."""
    schema = schema_of(sample.domain, sample.op)
    if schema is None or not schema.inputs:
        return {}
    variables: dict[str, list[int]] = {}
    last = len(schema.inputs) - 1
    for position, array in enumerate(sample.inputs):
        formal = schema.inputs[min(position, last)]  # the last one may be variadic
        if array is not None:
            variables.setdefault(formal.type_str, []).append(position)
    return variables


def dtypes_of(sample: Sample, variable: str) -> list[str]:
    """The dtypes that the schema allows for a type parameter, but for text and packed numbers."""
    schema = schema_of(sample.domain, sample.op)
    names = []
    for constraint in schema.type_constraints if schema else ():
        if constraint.type_param_str != variable:
            continue
        for kind in constraint.allowed_type_strs:
            name = ONNX_DTYPES.get(kind.removeprefix("tensor(").removesuffix(")"))
            if name is not None:
                names.append(name)
    return sorted(names)


def retyped(sample: Sample, variable: str, dtype: str) -> Sample:
    """The sample with its inputs of one type parameter in another dtype."""
    positions = set(type_variables(sample)[variable])
    inputs = tuple(
        cast(array, dtype) if i in positions and array is not None else array
        for i, array in enumerate(sample.inputs)
    )
    return replace(sample, inputs=inputs)


def cast(array: np.ndarray, dtype: str) -> np.ndarray:
    """Values of the same kind in another dtype: floats become small integers, or their signs."""
    kind = numpy_dtype(dtype)
    if array.dtype == kind:
        return array
    values = array.astype(np.float64) if is_floating(array.dtype) else array
    if is_floating(kind) or kind.kind == "c":
        return values.astype(np.float32).astype(kind) if kind.itemsize < 4 else values.astype(kind)
    if kind.kind == "b":
        return values > 0
    if is_floating(array.dtype):
        # A scale or a bound stays one.
        values = np.rint(values * 3) if array.ndim else np.ceil(values)
    if kind.kind == "u":
        values = np.abs(values)
    return values.astype(kind)


def numpy_dtype(name: str) -> np.dtype:
    """A dtype by its name, those of ml_dtypes too."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def is_floating(dtype: np.dtype) -> bool:
    """Whether it is a real floating-point dtype, those of ml_dtypes included."""
    return dtype.kind == "f" or dtype.name.startswith(("bfloat", "float"))


# The words of ONNX's schemas to the names of NumPy and ml_dtypes; float8 is left to the onnx
# package's tests.
ONNX_DTYPES = {
    "float": "float32",
    "double": "float64",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "bool": "bool",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
