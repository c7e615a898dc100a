# SPDX-License-Identifier: Apache-2.0
"""Ops of users in TVM's ONNX frontend: their code builds Relax (engines/tvm/user_code.h)."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

ENTRY = "build"  # what the source must define


class CodeError(Exception):
    """Code of a user's op that cannot be used; the message is for the user."""


def attribute_of(kind: str, value: Any) -> Any:
    """What the engine wrote, as Python has it."""
    if kind.endswith("s"):
        return [attribute_of(kind[:-1], item) for item in value]
    if kind == "float":
        return float.fromhex(value)
    if kind == "text":
        return bytes.fromhex(value).decode("utf-8", "surrogateescape")
    if kind == "array":
        dtype, shape, data = value
        return np.frombuffer(bytes.fromhex(data), dtype).reshape(shape)
    return value


def module_of(source: str, folder: str, number: int) -> ModuleType:
    """The source as a module with a file: TVMScript and tracebacks read it."""
    name = f"xrt_user_code_{Path(folder).name}_{number}"
    file = Path(folder) / f"{name}.py"
    file.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def as_list(made: Any, relax: Any, bb: Any) -> list[Any]:
    """One expression per output of what the user's function returned."""
    if isinstance(made, relax.Tuple):
        made = list(made.fields)
    if not isinstance(made, (list, tuple)):
        made = bb.normalize(made)
        if not isinstance(made.ty, relax.TupleType):
            return [made]
        made = bb.emit(made)
        made = [relax.TupleGetItem(made, i) for i in range(len(made.ty.fields))]
    return [bb.emit(expression) for expression in made]


def check(results: list[Any], wanted: list[Any]) -> None:
    """Of the numbers of the node's outputs, their element types and shapes."""
    if len(results) != len(wanted):
        raise CodeError(f"it returned {len(results)} results, the node has {len(wanted)}")
    for i, (result, (dtype, shape)) in enumerate(zip(results, wanted, strict=True)):
        given = getattr(result.ty, "shape", None)
        dims = None if given is None else [getattr(dim, "value", dim) for dim in given]
        if str(getattr(result.ty, "dtype", "")) != dtype or dims != shape:
            raise CodeError(f"result {i} is {result.ty}, the node has {dtype}{shape}")


def converter_of(tvm: Any, code: dict[str, Any], folder: str, number: int) -> type:
    """What the frontend calls for a node."""
    relax = tvm.relax
    attributes = {name: attribute_of(*value) for name, value in code["attributes"].items()}

    def convert(bb: Any, inputs: Any, _attributes: Any, _state: Any) -> Any:
        try:
            build = getattr(module_of(code["source"], folder, number), ENTRY, None)
            if build is None:
                raise CodeError(f"it defines no function '{ENTRY}'")
            results = as_list(build(bb, *inputs, **attributes), relax, bb)
            check(results, code["results"])
        except Exception as error:
            text = str(error) if isinstance(error, CodeError) else traceback.format_exc()
            raise CodeError(
                f"node '{code['node']}' ({code['op']}): its code for TVM: {text}"
            ) from error
        return results[0] if len(results) == 1 else relax.Tuple(results)

    class Converter:
        @staticmethod
        def get_converter(_opset: int) -> Callable[..., Any]:
            return convert

    return Converter


@contextlib.contextmanager
def user_ops(tvm: Any, model: Any, codes: list[dict[str, Any]]) -> Iterator[None]:
    """While it lasts, the frontend takes the nodes of `model` that have code, renamed to be told
    from ops of the standard that bear their names."""
    if not codes:
        yield
        return
    from tvm.relax.frontend.onnx import onnx_frontend

    by_output = {code["output"]: (i, code) for i, code in enumerate(codes)}
    known = onnx_frontend._get_convert_map
    with tempfile.TemporaryDirectory() as folder:
        converters = {}
        for node in model.graph.node:
            if node.domain and node.output and node.output[0] in by_output:
                i, code = by_output[node.output[0]]
                node.op_type = f"xrt.user.{i}"
                del node.attribute[:]
                converters[node.op_type] = converter_of(tvm, code, folder, i)
        onnx_frontend._get_convert_map = lambda: {**known(), **converters}
        try:
            yield
        finally:
            onnx_frontend._get_convert_map = known
