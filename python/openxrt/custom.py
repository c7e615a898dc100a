# SPDX-License-Identifier: Apache-2.0
"""Engines written in Python.

>>> @openxrt.engine("numpy", version=np.__version__, ops=["Relu"])
... class NumPyEngine:
...     def supports(self, node):
...         return True if node.op == "Relu" else f"{node.op} is not written"
...
...     def compile(self, function):
...         return lambda x: np.maximum(x, 0)

That is all an engine needs; `PythonEngine` and `PythonExecutable` say what more it may have. Every
method is called with the GIL held, from any thread, and several may be called at once. What a
method raises reaches the user as `EngineError` (or as the class of `openxrt` that it is) with the
traceback.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ._core import (
    FunctionView,
    GraphView,
    InvalidArgument,
    NodeView,
    register_engine,
)


class PythonExecutable(Protocol):
    """What compile() may return instead of a callable: results are written where they belong.

    Also optional, on a callable too: attributes `workspace_bytes` (scratch memory of one run) and
    `weight_bytes` (weights that it holds for itself), for reports and limits; `num_threads`, the
    threads that one run takes, where they are not the function's `num_threads`: launches begin
    only while those of all that run stay within the process's budget.
    """

    def run(self, inputs: list[Any], outputs: list[Any], context: Any = None) -> None:
        """One run.

        Args:
            inputs: one array per entry parameter, lent for the call: neither written nor kept.
            outputs: one entry per return parameter: an array to write the result into, or None,
                then the result is to be put into the list. An array put there is given away: its
                memory must not be used for another run.
            context: what create_context() returned; passed only where that method exists. One run
                at a time uses one context.
        """
        ...

    def create_context(self) -> Any:
        """Optional. What one run needs for itself: buffers, a binding, a stream."""
        ...

    def serialize(self) -> bytes | None:
        """Optional. Bytes for the disk cache that the engine's load() takes back, or None."""
        ...


class PythonEngine(Protocol):
    """What a class must have (supports, compile) and may have (the rest) to be an engine."""

    def supports(self, node: NodeView) -> bool | str:
        """True, or why not. A yes is a promise: the node compiles and runs. No word about speed."""
        ...

    def compile(self, function: FunctionView) -> Callable[..., object] | PythonExecutable:
        """Turns a function into a callable, or into an object with a method run().

        A callable gets one array per entry parameter, in order, and returns one array, or a tuple
        with one per return parameter. Arrays passed to it are lent for the call: they must be
        neither written nor kept. The results are copied; run() writes them in place.
        """
        ...

    def supports_all(self, graph: GraphView) -> list[bool | str]:
        """Optional. An answer for each of graph.nodes, for libraries that judge whole graphs."""
        ...

    def load(self, blob: memoryview, function: FunctionView) -> object:
        """Optional. As compile(), from what serialize() gave for the same function. An engine with
        this method has its executables kept in the disk cache; its version is part of the key.
        """
        ...


T = TypeVar("T", bound=type)


def _several(name: str, what: str, given: Any) -> list[Any]:
    """What an engine has several of, which a text alone is not: its letters are."""
    if isinstance(given, (str, bytes, os.PathLike)) or not isinstance(given, Iterable):
        raise InvalidArgument(f"engine {name!r}: {what} is {given!r}; give a list of them")
    return list(given)


def _texts(name: str, what: str, given: Any) -> list[str]:
    items = _several(name, what, given)
    for item in items:
        if not isinstance(item, str):
            raise InvalidArgument(f"engine {name!r}: {item!r} in {what} is no str")
    return items


def _source_of(cls: type) -> str:
    """The file of the class, for `xrt doctor`; "" where it has none."""
    if cls.__module__ == "__main__":
        return ""
    try:
        return inspect.getsourcefile(cls) or ""
    except TypeError:  # it was made by exec(), or in a notebook
        return ""


def engine(
    name: str,
    *,
    version: str,
    devices: Sequence[str] = ("cpu",),
    dynamic_shapes: bool = False,
    ops: Sequence[str] = (),
    training: bool | Sequence[str] = False,
    options: Sequence[str] | None = None,
    in_place: bool = False,
    files: Sequence[str | os.PathLike[str]] = (),
    offline_options: Mapping[str, str] | None = None,
) -> Callable[[T], T]:
    """A class decorator: makes an instance of the class the engine `name` of this process.

    A package makes its engine known to all programs by an entry point of the group
    ``openxrt.engines`` that has the engine's name and refers to the decorated class.

    Args:
        name: what users pass as ``engine=``; taken names are InvalidArgument.
        version: of the library behind the engine; part of every cache key.
        devices: what ``device=`` may name. Arrays lie in the memory of the host on every device.
        dynamic_shapes: functions with symbolic or unknown dimensions may be compiled.
        ops: qualified names of ops with a lowering, for tables.
        training: nodes of training steps may be offered to it: of every op, or of the ops that are
            listed by their qualified names.
        options: the names that ``engine_options={name: ...}`` may have; another one is
            InvalidArgument, with the nearest of these. None: compile() judges them itself.
        in_place: the memory of an output may be that of the input that ``function.aliases`` names;
            nodes that read the input must see its old value. Otherwise functions have no aliases,
            and the runtime copies what was computed over the input.
        files: what the engine is made of: its modules (``__file__``) and the library behind it.
            Where they are named, whole plans of programs that use it are kept in the disk cache and
            made anew when one of these files changes, so that a second start asks supports()
            nothing. Without them nothing tells when the code changes: executables are kept (see
            load()), plans are not.
        offline_options: engine options with which it compiles for a device that this machine does
            not have; `xrt doctor` tries them where the engine cannot run.
    """
    for what, text in (("name", name), ("version", version)):
        if not isinstance(text, str):
            raise InvalidArgument(
                f"engine {name!r}: {what} is {text!r}; give a str"
                + (", as in @openxrt.engine('mine', version='1')" if what == "name" else "")
            )
    flags = {"dynamic_shapes": dynamic_shapes, "in_place": in_place}
    for what, flag in flags.items():
        if not isinstance(flag, bool):
            raise InvalidArgument(f"engine {name!r}: {what} is {flag!r}; give True or False")
    trained: list[str] | None = None  # every op
    if training is not True:
        trained = [] if training is False else _texts(name, "training", training)

    def decorate(cls: T) -> T:
        for method in ("supports", "compile"):
            if not isinstance(cls, type) or not callable(getattr(cls, method, None)):
                raise InvalidArgument(
                    f"engine {name!r}: {cls!r} is no class with a method {method}()"
                )
        register_engine(
            cls(),
            name=name,
            version=version,
            devices=_texts(name, "devices", devices),
            location=_source_of(cls),
            ops=sorted(_texts(name, "ops", ops)),
            trained=trained,
            options=None if options is None else sorted(_texts(name, "options", options)),
            files=[os.fspath(file) for file in _several(name, "files", files)],
            offline_options=dict(offline_options or {}),
            **flags,
        )
        return cls

    return decorate
