# SPDX-License-Identifier: Apache-2.0
"""Run one neural network on many engines.

>>> import openxrt
>>> program = openxrt.load("model.onnx", engine=["openvino", "native"])
>>> y = program(x)                      # NumPy in, NumPy out
>>> outputs = program.run({"x": x})     # by name
>>> print(program.explain())            # which engine runs what, and why

Errors are subclasses of :class:`openxrt.Error`; their messages name the place and what to do.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from . import _environment, engines
from ._core import (
    CacheEntry,
    DeviceArray,
    EngineError,
    EngineReport,
    Error,
    FunctionView,
    Graph,
    GraphView,
    InternalError,
    InvalidArgument,
    InvalidModel,
    IoError,
    LaunchEvent,
    NodeView,
    NotFound,
    Port,
    Program,
    ResourceError,
    Type,
    Unsupported,
    doctor,
    engine_ops,
    register_lowering,
    registered_ops,
    rewrite_onnx,
    set_num_threads,
    thread_budget,
)
from ._core import cache_clear as _cache_clear
from ._core import cache_list as _cache_list
from ._core import default_decision_dir as _default_decision_dir
from ._core import version as _version
from ._load import LoadOptions, load

if TYPE_CHECKING:
    from . import optim, options
    from .comparison import Comparison, compare
    from .custom import engine
    from .custom_op import load_op_library, op, register_op
    from .evaluation import Evaluation, evaluate
    from .explanation import Explanation
    from .request import Request
    from .trainer import Trainer

__all__ = [
    "CacheEntry",
    "Comparison",
    "DeviceArray",
    "EngineError",
    "EngineReport",
    "Error",
    "Evaluation",
    "Explanation",
    "FunctionView",
    "Graph",
    "GraphView",
    "InternalError",
    "InvalidArgument",
    "InvalidModel",
    "IoError",
    "LaunchEvent",
    "LoadOptions",
    "NodeView",
    "NotFound",
    "Port",
    "Program",
    "Request",
    "ResourceError",
    "Trainer",
    "Type",
    "Unsupported",
    "cache_clear",
    "cache_list",
    "compare",
    "doctor",
    "engine",
    "engine_ops",
    "engines",
    "evaluate",
    "load",
    "load_op_library",
    "op",
    "optim",
    "options",
    "register_lowering",
    "register_op",
    "registered_ops",
    "rewrite_onnx",
    "set_num_threads",
    "thread_budget",
]

__version__ = _version()

_environment.set_defaults()

# Imported when they are first asked for: together they take longer than all the rest.
_LATER = {
    "Comparison": ".comparison",
    "compare": ".comparison",
    "Trainer": ".trainer",
    "optim": ".optim",
    "engine": ".custom",
    "load_op_library": ".custom_op",
    "op": ".custom_op",
    "register_op": ".custom_op",
    "Evaluation": ".evaluation",
    "evaluate": ".evaluation",
    "Explanation": ".explanation",
    "lite": ".lite",
    "oneflow": ".oneflow",
    "options": ".options",
    "quantize": ".quantize",
    "Request": ".request",
    "torch": ".torch",
}


def __getattr__(name: str) -> Any:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'openxrt' has no attribute '{name}'")
    try:
        imported = importlib.import_module(module, __name__)
    except ModuleNotFoundError as error:  # of PyTorch, or OneFlow
        raise AttributeError(
            f"openxrt.{name} needs the package '{error.name}', which is not installed"
        ) from error
    # A module of that name is meant itself.
    value = imported if module == f".{name}" else getattr(imported, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


def cache_list(cache_dir: str | os.PathLike[str] | None = None) -> list[CacheEntry]:
    """The entries of a cache; the default is $XRT_CACHE_DIR, else what engine "auto" measured."""
    return _cache_list(_cache_folder(cache_dir))


def cache_clear(cache_dir: str | os.PathLike[str] | None = None) -> int:
    """Removes every entry of a cache and returns how many; the default is that of cache_list()."""
    return _cache_clear(_cache_folder(cache_dir))


def _cache_folder(cache_dir: str | os.PathLike[str] | None) -> str:
    folder = os.fspath(cache_dir) if cache_dir is not None else _default_decision_dir()
    if not folder:
        raise InvalidArgument("no cache folder: pass one, or set XRT_CACHE_DIR")
    return folder
