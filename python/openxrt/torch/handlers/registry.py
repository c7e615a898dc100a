# SPDX-License-Identifier: Apache-2.0
"""Handlers of ATen ops by name: those that users register, over those made of lowerings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import torch

from ..._core import InvalidArgument
from ..registry import lowered_ops

# handler(inputs, attributes, scope): the positional arguments of the op with defaults filled in,
# its keyword-only arguments by name, and a name that is unique in the network. It gives one result
# per output of the op in a list or tuple, or NotImplemented to leave the node to what the project
# would do without it.
Handler: TypeAlias = Callable[[list[Any], dict[str, Any], str], Sequence[Any]]

_handlers: dict[str, Handler] = {}


def _checked(name: str) -> str:
    namespace, separator, op = name.partition("::")
    if not separator or not namespace or not op:
        raise InvalidArgument(
            f"'{name}' names no op: handlers are registered under 'aten::sum' for every overload, "
            "or 'aten::sum.dim_IntList' for one"
        )
    # Graphs are functional: what was written in place has become the op without the underscore.
    base, dot, overload = op.partition(".")
    if base.endswith("_") and not base.startswith("__"):
        base = base[:-1]
    return f"{namespace}::{base}{dot}{overload}"


def register_node_handler(*names: str) -> Callable[[Handler], Handler]:
    """Registers a handler of ops, in place of what was there.

    >>> @register_node_handler("aten::sum")
    ... def aten_sum(inputs, attributes, scope):
    ...     context = current_context()
    ...     if context.is_tensorrt and has_trt_tensor(inputs):
    ...         ...  # layers of context.network
    ...     return NotImplemented  # elsewhere as without this handler

    "aten::sum" is every overload of the op, "aten::sum.dim_IntList" is one and goes first. In-place
    ops (`aten::relu_`) are the ops that they are in place of.

    Raises:
        InvalidArgument: a name is not of this form.
    """
    keys = [_checked(name) for name in names]

    def register(handler: Handler) -> Handler:
        for key in keys:
            _handlers[key] = handler
        return handler

    return register


def remove_node_handler(name: str) -> None:
    """Forgets a registered handler: the op is handled as it was before."""
    if _handlers.pop(_checked(name), None) is None:
        raise InvalidArgument(f"no handler is registered for '{name}'")


def registered_handlers() -> Mapping[str, Handler]:
    """The handlers that users have registered, by name."""
    return dict(_handlers)


def qualified_name(target: object) -> tuple[str, str]:
    """("aten::sum", "aten::sum.dim_IntList") of an op; of a Python function its name, twice."""
    if isinstance(target, torch._ops.OpOverload):
        base = target._schema.name
        return base, f"{base}.{target._overloadname}"
    name = getattr(target, "__name__", str(target))
    return name, name


def find_handler(target: object) -> Handler | None:
    """The registered handler of an op, or None."""
    base, full = qualified_name(target)
    return _handlers.get(full) or _handlers.get(base)


# Of these TensorRT's parser or builder takes nothing.
_NOT_IN_TENSORRT = frozenset(
    [
        "aten::bitwise_left_shift",
        "aten::bitwise_right_shift",
        "aten::col2im",
        "aten::cumprod",
        "aten::scatter_add",
        "aten::scatter_reduce",
        "aten::_embedding_bag",
        "aten::_embedding_bag_forward_only",
    ]
)
# Nor TVM's frontend of these.
_NOT_IN_TVM = frozenset(
    ["aten::col2im", "aten::cumprod", "aten::_embedding_bag", "aten::_embedding_bag_forward_only"]
)
# The size of their result depends on data.
_OPEN_SIZES = frozenset(
    [
        "aten::bincount",
        "aten::item",
        "aten::_local_scalar_dense",
        "aten::masked_select",
        "aten::nonzero",
        "aten::repeat_interleave",
        "aten::_unique2",
        "aten::unique_consecutive",
        "aten::unique_dim",
    ]
)
# Lowerings that are of training, or that random numbers come from: not for a network of layers.
_NOT_IN_NETWORKS = ("_assert", "aten.gcd", "_backward", "rand", "bernoulli", "native_dropout")


def handled_ops(mode: Literal["torch", "tensorrt", "tvm"] = "tensorrt") -> list[str]:
    """Names of the ATen ops, with their overloads, that a mode has a handler for.

    PyTorch's mode handles every op there is; the list holds those of the other modes.
    """
    if mode not in ("torch", "tensorrt", "tvm"):
        raise InvalidArgument(f"there is no mode '{mode}': torch, tensorrt, tvm")
    names = {
        name.replace("aten.", "aten::", 1)
        for name in lowered_ops()
        if name.startswith("aten.") and not any(part in name for part in _NOT_IN_NETWORKS)
    }
    excluded = {"tensorrt": _NOT_IN_TENSORRT | _OPEN_SIZES, "tvm": _NOT_IN_TVM | _OPEN_SIZES}
    names = {name for name in names if name.split(".")[0] not in excluded.get(mode, ())}
    return sorted(names | set(_handlers))
