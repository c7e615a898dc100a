# SPDX-License-Identifier: Apache-2.0
"""Types of the extension module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from .explanation import Explanation

class Error(RuntimeError):
    """Base of every error that OpenXRT raises."""

class InvalidArgument(Error, ValueError):
    """Something passed by the caller is wrong: a name, dtype, shape or option."""

class InvalidModel(Error):
    """A model, cache entry or text is malformed or breaks a rule."""

class Unsupported(Error):
    """Well-formed, but no permitted engine can do it."""

class NotFound(Error):
    """A file, engine or entry is missing."""

class EngineError(Error):
    """An engine's library failed to load, to compile or to run."""

class IoError(Error):
    """The operating system refused to read, write, map or lock."""

class ResourceError(Error):
    """Out of memory, or a bound was reached."""

class InternalError(Error):
    """A rule of OpenXRT's own was broken."""

class Port:
    """A named input or output of a program."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str | None: ...
    @property
    def shape(self) -> tuple[int | str | None, ...] | None: ...
    @property
    def type(self) -> str: ...
    @property
    def has_default(self) -> bool: ...

class LaunchEvent:
    """One launch of one run."""

    @property
    def function(self) -> str: ...
    @property
    def engine(self) -> str: ...
    @property
    def start_us(self) -> float: ...
    @property
    def duration_us(self) -> float: ...
    @property
    def thread(self) -> int: ...
    @property
    def run(self) -> int: ...

class EngineReport:
    """What probing one engine found."""

    @property
    def name(self) -> str: ...
    @property
    def available(self) -> bool: ...
    @property
    def version(self) -> str: ...
    @property
    def location(self) -> str: ...
    @property
    def error(self) -> str: ...
    @property
    def install_hint(self) -> str: ...
    @property
    def devices(self) -> list[str]: ...
    @property
    def op_count(self) -> int: ...

class CacheEntry:
    """One file of the compile cache."""

    @property
    def key(self) -> str: ...
    @property
    def engine(self) -> str: ...
    @property
    def function(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def last_used_unix(self) -> int: ...
    @property
    def valid(self) -> bool: ...

class Program:
    """A graph placed on engines, compiled and ready to run."""

    def __call__(self, *arrays: Any, out: Any = None, **named: Any) -> Any: ...
    def run(self, inputs: Mapping[str, Any], *, out: Any = None) -> dict[str, Any]: ...
    @property
    def inputs(self) -> list[Port]: ...
    @property
    def outputs(self) -> list[Port]: ...
    def explain(self) -> Explanation: ...
    def enable_profile(self, on: bool = True) -> None: ...
    def profile(self) -> list[LaunchEvent]: ...
    def trace_json(self) -> str: ...
    def graph_text(self) -> str: ...

class NodeView:
    """A node, as an engine's supports() sees it."""

    @property
    def name(self) -> str: ...
    @property
    def domain(self) -> str: ...
    @property
    def op(self) -> str: ...
    @property
    def input_types(self) -> list[str]: ...
    @property
    def output_types(self) -> list[str]: ...
    @property
    def attributes(self) -> dict[str, Any]: ...

class FunctionView:
    """A function, as an engine's compile() sees it."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> list[Port]: ...
    @property
    def outputs(self) -> list[Port]: ...
    @property
    def num_threads(self) -> int: ...
    @property
    def options(self) -> dict[str, str]: ...
    def to_onnx(self) -> bytes: ...

def register_engine(
    object: Any,  # noqa: A002
    name: str,
    version: str,
    devices: Sequence[str],
    dynamic_shapes: bool,
    location: str,
    ops: Sequence[str],
) -> None: ...
def load(
    source: str | bytes | bytearray | memoryview,
    *,
    engines: Sequence[str],
    device: str,
    strict: bool,
    num_threads: int,
    cache_dir: str | None,
    cluster_minimum_nodes: int,
    cluster_maximum_nodes: int,
    node_engines: Mapping[str, str],
    aliases: Sequence[tuple[str, str]],
    engine_options: Mapping[str, Mapping[str, str]],
    dump_dir: str,
    max_specializations: int,
) -> Program: ...
def engine_names() -> list[str]: ...
def engine_ops(name: str) -> list[str]: ...
def doctor() -> list[EngineReport]: ...
def rewrite_onnx(model: bytes | str | PathLike[str], *, simplify: bool = False) -> bytes: ...
def thread_budget() -> int: ...
def default_cache_dir() -> str: ...
def cache_list(dir: str) -> list[CacheEntry]: ...  # noqa: A002
def cache_clear(dir: str) -> int: ...  # noqa: A002
def version() -> str: ...
