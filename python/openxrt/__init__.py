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
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _arguments, _plugins, engines
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
from ._core import default_cache_dir as _default_cache_dir
from ._core import load as _load
from ._core import version as _version

if TYPE_CHECKING:
    from . import optim
    from .comparison import Comparison, compare
    from .custom import engine
    from .custom_op import load_op_library, op, register_op
    from .explanation import Explanation
    from .trainer import Trainer

__all__ = [
    "CacheEntry",
    "Comparison",
    "DeviceArray",
    "EngineError",
    "EngineReport",
    "Error",
    "Explanation",
    "FunctionView",
    "Graph",
    "GraphView",
    "InternalError",
    "InvalidArgument",
    "InvalidModel",
    "IoError",
    "LaunchEvent",
    "NodeView",
    "NotFound",
    "Port",
    "Program",
    "ResourceError",
    "Trainer",
    "Unsupported",
    "cache_clear",
    "cache_list",
    "compare",
    "doctor",
    "engine",
    "engine_ops",
    "engines",
    "load",
    "load_op_library",
    "op",
    "optim",
    "register_lowering",
    "register_op",
    "registered_ops",
    "rewrite_onnx",
    "set_num_threads",
    "thread_budget",
]

__version__ = _version()

_plugins.set_defaults()

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
    "Explanation": ".explanation",
    "lite": ".lite",
    "oneflow": ".oneflow",
    "quantize": ".quantize",
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


def load(
    model: str | os.PathLike[str] | bytes | bytearray | memoryview | Graph,
    engine: str | Sequence[str] = "auto",
    device: str = "cpu",
    *,
    strict: bool = False,
    num_threads: int = 0,
    cache_dir: str | os.PathLike[str] | None = None,
    cluster_minimum_nodes: int = 1,
    cluster_maximum_nodes: int = -1,
    node_engines: Mapping[str, str] | None = None,
    aliases: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    engine_options: Mapping[str, Mapping[str, object]] | None = None,
    dump_dir: str | os.PathLike[str] | None = None,
    max_specializations: int = 16,
    auto_mode: str = "",
    auto_budget_s: float = 10.0,
    precision: str = "f32",
    tolerance: float = 0.01,
    max_batch_size: int = 0,
    max_workspace_bytes: int = 0,
    **options: object,
) -> Program:
    """Loads an ONNX model, places it on engines and compiles it.

    Args:
        model: path of the model, its bytes, or a Graph. Bytes cannot refer to external data files.
        engine: an engine's name, several in order of priority (a list, or "a,b"), or "auto".
        device: "cpu", or a device that the engines name ("cuda:0"). Then inputs may lie there, in
            anything with __dlpack__ (PyTorch, CuPy, JAX), and results of such a call stay there.
        strict: only the engines listed may run nodes. Otherwise what none of them takes runs on
            "native", and ``explain()`` says which nodes and why.
        num_threads: threads for all engines together; 0 is the process's budget.
        cache_dir: folder of the compile cache. None: $XRT_CACHE_DIR, else no disk cache; "" turns
            it off.
        cluster_minimum_nodes: smaller clusters go to the next engine; -1: no limit.
        cluster_maximum_nodes: larger clusters are split; -1: no limit.
        node_engines: node name to engine, overriding placement.
        aliases: input name to output name, sharing memory: the output is written into the array
            passed for the input, which must be writable and C-contiguous.
        engine_options: engine to its own options; values are passed as text.
        dump_dir: where to write the graph before and after each pass, and every function.
        max_specializations: compiled plans kept for distinct input shapes.
        auto_mode: how engine="auto" decides: "fast", by estimates; "full", by measuring before the
            program is ready; "background", by measuring beside the runs. "": $XRT_AUTO, else fast.
        auto_budget_s: seconds that measuring may take.
        precision: what engines that can do so compute float32 in: "f32", "bf16", "f16", or "auto":
            measured, the fastest whose outputs stay within `tolerance` of float32.
        tolerance: for precision="auto", over the range of each output.
        max_batch_size: for engines that build for a range of sizes, the largest first dimension;
            0: as the model declares it.
        max_workspace_bytes: bound on scratch memory of one run of a function, for engines that
            plan it; 0: none.
        options: further options by name (docs/reference/options.md): fallback, force_compile,
            training, verbose, dump_subgraph_dir, max_workspace_size, …

    Raises:
        NotFound: the file or an engine does not exist.
        InvalidModel: the model is damaged or breaks a rule.
        Unsupported: no permitted engine can run a node; the message says why each refused it.
        EngineError: a named engine cannot be loaded, or failed to compile.
    """
    pairs = aliases.items() if isinstance(aliases, Mapping) else aliases
    return _load(
        _arguments.source_of(model),
        engines=_arguments.engine_names(engine),
        strict=bool(strict),
        cache_dir=None if cache_dir is None else os.fspath(cache_dir),
        node_engines=dict(node_engines or {}),
        aliases=[(first, second) for first, second in pairs],
        engine_options=_arguments.texts_by_engine(engine_options or {}),
        dump_dir="" if dump_dir is None else os.fspath(dump_dir),
        options={name: _arguments.option_text(value) for name, value in options.items()},
        **_arguments.texts(device=device, auto_mode=auto_mode, precision=precision),
        **_arguments.numbers(auto_budget_s=auto_budget_s, tolerance=tolerance),
        **_arguments.integers(
            num_threads=num_threads,
            cluster_minimum_nodes=cluster_minimum_nodes,
            cluster_maximum_nodes=cluster_maximum_nodes,
            max_specializations=max_specializations,
            max_batch_size=max_batch_size,
            max_workspace_bytes=max_workspace_bytes,
        ),
    )


def cache_list(cache_dir: str | os.PathLike[str] | None = None) -> list[CacheEntry]:
    """The entries of a compile cache, $XRT_CACHE_DIR by default."""
    return _cache_list(_cache_folder(cache_dir))


def cache_clear(cache_dir: str | os.PathLike[str] | None = None) -> int:
    """Removes every entry of a compile cache, $XRT_CACHE_DIR by default; returns how many."""
    return _cache_clear(_cache_folder(cache_dir))


def _cache_folder(cache_dir: str | os.PathLike[str] | None) -> str:
    folder = os.fspath(cache_dir) if cache_dir is not None else _default_cache_dir()
    if not folder:
        raise InvalidArgument("no cache folder: pass one, or set XRT_CACHE_DIR")
    return folder
