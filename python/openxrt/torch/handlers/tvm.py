# SPDX-License-Identifier: Apache-2.0
"""ATen nodes as bindings of a Relax function.

A node becomes a small ONNX model, TVM's ONNX frontend makes Relax of that, and its bindings are
added to the function that the user's block builder has open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..._core import Unsupported
from ..importer import op_name, where
from .context import TVMContext
from .fragment import make_fragment

# What TVM's frontend raises for a model that it does not take.
_FRONTEND_ERRORS = (
    RuntimeError,
    ValueError,
    TypeError,
    AssertionError,
    AttributeError,
    LookupError,
)

_DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "int32": torch.int32,
    "int16": torch.int16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
}


def describe(expression: Any) -> tuple[torch.dtype, list[int]]:
    """Dtype and shape of a Relax tensor; −1 where a dimension is symbolic."""
    from tvm import relax

    kind = expression.ty
    if not isinstance(kind, relax.TensorType):
        raise Unsupported(f"a Relax value of type {kind} is no tensor")
    dtype = _DTYPES.get(str(kind.dtype))
    if dtype is None:
        raise Unsupported(f"Relax's {kind.dtype} has no counterpart in PyTorch")
    if kind.shape is None:
        raise Unsupported("a Relax tensor of unknown shape")
    sizes = []
    for size in kind.shape:
        number = getattr(size, "value", None)
        sizes.append(-1 if number is None else int(number))
    return dtype, sizes


def lower(
    context: TVMContext,
    module: torch.fx.GraphModule,
    node: torch.fx.Node,
    values: Mapping[torch.fx.Node, Any],
    scope: str,
) -> Any:
    """Emits the bindings of one node; its results as PyTorch would structure them.

    Raises:
        Unsupported: there is no lowering, or TVM does not take it; names the source line.
    """
    place = f"{op_name(node)}{where(node)}"
    fragment = make_fragment(module, node, values, context.is_tensor, describe)
    if not fragment.outputs:
        return fragment.result
    relax_module = _relax_of(fragment.model, place)
    outputs = inlined(context, relax_module, list(fragment.inputs.values()), scope)
    for (dtype, shape), output in zip(fragment.outputs, outputs, strict=True):
        if not isinstance(output.ty, context.relax.TensorType):
            raise Unsupported(f"{place}: TVM makes {output.ty} of it, which is no tensor")
        found_dtype, found_shape = describe(output)
        if found_dtype != dtype or (shape is not None and len(shape) != len(found_shape)):
            raise Unsupported(
                f"{place}: TVM makes {found_dtype}{found_shape} of it, PyTorch "
                f"{dtype}{list(shape or ())}"
            )
    return fragment.results(outputs)


def _relax_of(model: bytes, place: str) -> Any:
    import onnx
    from tvm.relax.frontend.onnx import from_onnx

    try:
        return from_onnx(onnx.load_from_string(model))
    except _FRONTEND_ERRORS as error:
        raise Unsupported(f"{place}: TVM does not take it: {error}") from error


def inlined(context: TVMContext, module: Any, arguments: list[Any], scope: str) -> list[Any]:
    """Emits what the function `main` of a module does to these arguments; its results. Functions
    that it calls are added to the builder's module."""
    relax = context.relax
    function = module["main"]
    callees = {
        variable: context.network.add_func(callee, variable.name_hint)
        for variable, callee in module.functions.items()
        if variable.name_hint != "main"
    }
    bound = function.bind_params(dict(zip(function.params, arguments, strict=True)))
    variables: dict[Any, Any] = {}

    @relax.expr_functor.mutator
    class Renamed(relax.PyExprMutator):
        """Reads the variables of the builder in place of those of the function."""

        def visit_var_(self, variable: Any) -> Any:
            return variables.get(variable, variable)

        def visit_dataflow_var_(self, variable: Any) -> Any:
            return variables.get(variable, variable)

        def visit_global_var_(self, variable: Any) -> Any:
            return callees.get(variable, variable)

    renamed = Renamed()
    for block in bound.body.blocks:
        for binding in block.bindings:
            value = renamed.visit_expr(binding.value)
            if isinstance(binding, relax.MatchCast):
                variables[binding.var] = context.network.match_cast(value, binding.ty, scope)
            else:
                variables[binding.var] = context.emit(value, context.unique_name(scope))
    body = renamed.visit_expr(bound.body.body)
    kind = body.ty
    if isinstance(kind, relax.TupleType):
        return [context.emit(relax.TupleGetItem(body, i)) for i in range(len(kind.fields))]
    return [body]
