# SPDX-License-Identifier: Apache-2.0
"""Engines written in Python, found by name and loaded when they are first asked for.

Those of this package are modules beside this file; other packages declare theirs as entry points of
the group ``openxrt.engines``:

    [project.entry-points."openxrt.engines"]
    mine = "my_package.engine:MyEngine"

A library of that name (libxrt_engine_<name>.so) goes before an engine of this package, and that
before an entry point.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
from functools import lru_cache
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from .._core import (
    EngineError,
    NotFound,
    end_measuring,
    end_runs,
    engine_names,
    finish_writing,
    set_engine_provider,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "openxrt.engines"


class BuiltIn(NamedTuple):
    """An engine of this package: where it is, and which package of a vendor it needs."""

    module: str
    packages: tuple[str, ...]  # any one of them
    install: str

    def installed(self) -> bool:
        """Whether a package that it needs is there; nothing is imported."""
        return any(find_spec(package) is not None for package in self.packages)


BUILT_IN = {
    "onnxruntime": BuiltIn(
        "openxrt.engines.onnxruntime", ("onnxruntime",), "pip install 'onnxruntime>=1.23.2,<1.33'"
    ),
    "tensorrt": BuiltIn(
        "openxrt.engines.tensorrt",
        ("tensorrt", "tensorrt_bindings", "tensorrt_rtx", "tensorrt_rtx_bindings"),
        "pip install 'tensorrt-rtx-cu13-bindings>=1.6.1.120,<1.8' "
        "'tensorrt-rtx-cu13-libs>=1.6.1.120,<1.8'",
    ),
}


@lru_cache(maxsize=1)
def declared() -> dict[str, EntryPoint]:
    """Engines of other packages, by name. Two of one name: the first package by name has it.

    Raises OSError where this process can open no file.
    """
    from importlib.metadata import entry_points  # slow to import, rarely needed

    found: dict[str, EntryPoint] = {}
    # entry_points() passes over folders that it cannot read, and the answer is kept.
    os.close(os.open(__file__, os.O_RDONLY))
    for entry in sorted(entry_points(group=GROUP), key=lambda e: (e.name, e.value)):
        found.setdefault(entry.name, entry)
    return found


def names() -> list[str]:
    """Engines that load() knows and whose packages are installed."""
    ours = [name for name, engine in BUILT_IN.items() if engine.installed()]
    return ours + [name for name in declared() if name not in BUILT_IN]


def load(name: str) -> bool:
    """Imports the module that registers the engine; False for a name that is not known.

    Raises NotFound where its package is not installed, EngineError where importing it fails.
    """
    engine = BUILT_IN.get(name)
    if engine is not None and not engine.installed():
        raise NotFound(
            f"engine '{name}' needs the package {' or '.join(engine.packages)}, which is not "
            f"installed: {engine.install}"
        )
    entry = declared().get(name) if engine is None else None
    try:
        if engine is not None:
            importlib.import_module(engine.module)
        elif entry is not None:
            entry.load()
        else:
            return False
    except (ImportError, AttributeError, OSError) as error:
        source = engine.module if engine is not None else f"the entry point {entry.value!r}"
        raise EngineError(f"engine '{name}' cannot be loaded from {source}: {error}") from error
    return True


def worker_command(name: str) -> list[str]:
    """The command that runs the engine for another process; empty where that has no way to it."""
    if name not in names():
        return []
    # The worker imports from where this process does.
    code = f"import sys; sys.path[:] = {sys.path!r}; from openxrt import _worker; _worker.main()"
    return [sys.executable, "-c", code]


class _Engines(ModuleType):
    """A package that is also the function which lists all engines: openxrt.engines()."""

    def __call__(self) -> list[str]:
        """Names of the engines that may be asked for."""
        return engine_names()


sys.modules[__name__].__class__ = _Engines
set_engine_provider(names, load, worker_command)
# Last of all: threads that still run programs then, daemons, do not come back to Python.
atexit.register(end_runs)
# Executables are written to the disk cache in the background: those of Python need Python for it.
atexit.register(finish_writing)
# Before that, measurements beside the runs of programs that are still there.
atexit.register(end_measuring)
