# SPDX-License-Identifier: Apache-2.0
"""Engines written in Python.

>>> @openxrt.engine("numpy", version=np.__version__, ops=["Relu"])
... class NumPyEngine:
...     def supports(self, node):
...         return True if node.op == "Relu" else f"{node.op} is not written"
...
...     def compile(self, function):
...         return lambda x: np.maximum(x, 0)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ._core import FunctionView, NodeView, register_engine


class PythonEngine(Protocol):
    """What a class must have to be an engine."""

    def supports(self, node: NodeView) -> bool | str:
        """True, or why not. A yes is a promise: the node compiles and runs."""
        ...

    def compile(self, function: FunctionView) -> Callable[..., object]:
        """Turns a function into a callable.

        It is called with one array per entry parameter, in order, from any thread, with the GIL
        held, and returns one array, or a tuple with one per return parameter. Arrays passed to it
        are lent for the call: they must be neither written nor kept.
        """
        ...


T = TypeVar("T", bound=type)


def engine(
    name: str,
    *,
    version: str,
    devices: Sequence[str] = ("cpu",),
    dynamic_shapes: bool = False,
    ops: Sequence[str] = (),
) -> Callable[[T], T]:
    """A class decorator: makes an instance of the class the engine `name` of this process.

    Args:
        name: what users pass as ``engine=``; taken names are InvalidArgument.
        version: of the library behind the engine; part of every cache key.
        devices: what ``device=`` may name.
        dynamic_shapes: functions with symbolic or unknown dimensions may be compiled.
        ops: qualified names of ops with a lowering, for tables.
    """

    def decorate(cls: T) -> T:
        location = inspect.getsourcefile(cls) or "" if cls.__module__ != "__main__" else ""
        register_engine(
            cls(),
            name=name,
            version=version,
            devices=list(devices),
            dynamic_shapes=dynamic_shapes,
            location=location,
            ops=sorted(ops),
        )
        return cls

    return decorate
