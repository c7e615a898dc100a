# SPDX-License-Identifier: Apache-2.0
"""Ops of one's own: schema, kernel in NumPy, and how other engines take them."""

from __future__ import annotations

import inspect
import os
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from . import _core
from ._core import InvalidArgument
from ._source import as_text

F = TypeVar("F", bound=Callable[..., Any])

# What stands for the kind of an attribute that has no default.
_KINDS: dict[Any, Any] = {
    int: 0,
    bool: 0,
    float: 0.0,
    str: "",
    list[int]: [0],
    list[float]: [0.0],
    list[str]: [""],
}


def _parameters(
    names: Sequence[str], dtypes: Mapping[str, Sequence[str]]
) -> list[tuple[str, bool, bool, list[str]]]:
    """Rows for the core from "x", "bias?" (optional) and "xs*" (variadic)."""
    rows = []
    for text in names:
        name = text.rstrip("?*")
        rows.append((name, text.endswith("?"), text.endswith("*"), list(dtypes.get(name, ()))))
    return rows


def _from_signature(op: str, kernel: Callable[..., Any]) -> tuple[list[str], dict[str, Any]]:
    """Inputs are what can be passed by position, attributes what is passed by keyword alone."""
    inputs: list[str] = []
    attributes: dict[str, Any] = {}
    hints = typing.get_type_hints(kernel)
    for parameter in inspect.signature(kernel).parameters.values():
        name = parameter.name
        if parameter.kind is parameter.KEYWORD_ONLY:
            value = parameter.default
            if value is parameter.empty:
                if hints.get(name) not in _KINDS:
                    raise InvalidArgument(
                        f"op {op}: attribute '{name}' has no default, so its annotation must say "
                        "what it is: int, float, str or a list of these"
                    )
                value = hints[name]
            attributes[name] = value
        elif parameter.kind is parameter.VAR_POSITIONAL:
            inputs.append(name + "*")
        elif parameter.kind is parameter.VAR_KEYWORD:
            raise InvalidArgument(f"op {op}: **{name}: attributes must be named")
        else:
            inputs.append(name if parameter.default is parameter.empty else name + "?")
    return inputs, attributes


def register_op(
    domain: str,
    name: str,
    kernel: Callable[..., Any] | None = None,
    *,
    opset_version: int = 1,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] = ("y",),
    attributes: Mapping[str, Any] | None = None,
    dtypes: Mapping[str, Sequence[str]] | None = None,
    infer: Callable[..., Any] | None = None,
    body: str = "",
    gradient: str = "",
    lowerings: Mapping[str, str] | None = None,
    code: Mapping[str, Callable[..., Any]] | None = None,
    deterministic: bool = True,
    revision: str = "",
) -> None:
    """Registers an op; models loaded from then on may use it.

    Args:
        domain: of the op, as models import it; not one of the ONNX standard's.
        name: of the op, an identifier.
        kernel: ``kernel(*inputs, **attributes)`` computes a node: NumPy arrays in (None for an
            input that is left out; read-only, also readable through DLPack), one array or a tuple
            out, of the types that were inferred. None: there must be a body.
        opset_version: of the domain, from which on this definition holds.
        inputs: names, "bias?" for one that may be left out, "xs*" for any number from one on.
            None: as the kernel's signature says.
        outputs: likewise; one "y" by default.
        attributes: names to defaults (int, float, str, lists of these, arrays), or to a type such
            as ``float`` for one that nodes must have. None: the kernel's keyword-only parameters.
        dtypes: parameter to the element types that it may have; any other parameter has any.
        infer: ``infer(*inputs, **attributes)`` is called with a Port (``dtype``, ``shape``) per
            input and returns, per output, one of these or ``(dtype, shape)``; a dimension is an
            int, a name or None. None: through the body; without one outputs are as the first input.
        body: statements in ONNX's text form over the names above, "@name" being an attribute's
            value, e.g. ``"f = Constant <value_float: float = @by> ()  y = Mul (x, f)"``. Engines
            that do not know the op compile these.
        gradient: statements for training. They may read the inputs, the outputs and, of each
            output y, its gradient d_y, and make d_x for each input x that has a derivative, e.g.
            ``"d_x = Mul (d_y, f)"``. "": through the gradients of the body's ops.
        lowerings: engine to statements for that engine alone.
        code: engine to a function that is called as `infer` is and returns code in the engine's own
            language for that node. "xla": StableHLO text, a module or functions, whose @main takes
            the inputs that the node has and returns its outputs, or what ``jax.jit(f).lower(...)``
            returned. "tvm": a function, or Python source that defines one called ``build``:
            ``build(bb, *inputs, **attributes)`` makes Relax expressions in the relax.BlockBuilder
            `bb`, of relax.Expr (None for an input that is left out), and returns one or a tuple. It
            runs in the compiler's process: docs/guides/op.md says what goes with it.
        deterministic: False for ops that may give another result next time.
        revision: of what `kernel` and `infer` do, e.g. "1", to be changed with them; part of cache
            keys. "": nothing tells when they change, and plans of programs whose models import the
            domain are not kept in the disk cache.

    Raises:
        InvalidArgument: the op is registered already, the domain is reserved, there is neither
            kernel nor body, a name is wrong, statements cannot be read.
    """
    op_name = f"{domain}.{name}"
    for what, function in (("kernel", kernel), ("infer", infer)):
        if function is not None and not callable(function):
            raise InvalidArgument(f"op {op_name}: {what} is {function!r}, which is no function")
    several = {"inputs": inputs, "outputs": outputs}
    several |= {f"dtypes[{parameter!r}]": some for parameter, some in (dtypes or {}).items()}
    for what, some in several.items():
        if isinstance(some, str):  # its letters are a list, too
            raise InvalidArgument(f"op {op_name}: {what} is {some!r}; give a list of them")
    if (inputs is None or attributes is None) and kernel is not None:
        own_inputs, own_attributes = _from_signature(op_name, kernel)
        inputs = own_inputs if inputs is None else inputs
        attributes = own_attributes if attributes is None else attributes
    if inputs is None:
        raise InvalidArgument(f"op {op_name}: without a kernel its inputs must be named")
    rows = []
    for attribute, value in (attributes or {}).items():
        required = isinstance(value, type) or typing.get_origin(value) is not None
        if required and value not in _KINDS:
            raise InvalidArgument(f"op {op_name}: attribute '{attribute}' cannot be {value}")
        rows.append((attribute, _KINDS[value] if required else value, required))
    allowed = dict(dtypes or {})
    names = {text.rstrip("?*") for text in (*inputs, *outputs)}
    unknown = sorted(set(allowed) - names)
    if unknown:
        raise InvalidArgument(f"op {op_name}: dtypes: it has no parameter '{unknown[0]}'")
    _core.register_op(
        domain=domain,
        name=name,
        opset_version=opset_version,
        revision=revision,
        inputs=_parameters(inputs, allowed),
        outputs=_parameters(outputs, allowed),
        attributes=rows,
        deterministic=deterministic,
        kernel=kernel,
        infer=infer,
        body=body,
        gradient=gradient,
        lowerings=dict(lowerings or {}),
        code={engine: as_text(maker) for engine, maker in (code or {}).items()},
    )


def op(domain: str, name: str, **details: Any) -> Callable[[F], F]:
    """A decorator: the function is the kernel of an op. `details` are those of register_op().

    >>> @openxrt.op("my", "Scale", body="f = Constant <value_float: float = @by> () y = Mul (x, f)")
    ... def scale(x, *, by: float = 2.0):
    ...     return x * np.float32(by)
    """

    def decorate(function: F) -> F:
        register_op(domain, name, function, **details)
        return function

    return decorate


def load_op_library(file: str | os.PathLike[str]) -> list[str]:
    """Loads a library of ops written in C++ (xrt/op.h); their qualified names.

    Raises:
        NotFound: there is no such file.
        EngineError: it cannot be loaded, or was built for another version of the interface.
    """
    return _core.load_op_library(os.fspath(file))
