# SPDX-License-Identifier: Apache-2.0
"""The model that openxrt.load() is given, and lists of engines."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ._core import Graph, InvalidArgument


def source_of(model: Any) -> str | bytes | bytearray | memoryview | Graph:
    """What Program's C++ side takes for `model`."""
    if isinstance(model, (bytes, bytearray, memoryview, Graph)):
        return model
    if isinstance(model, (str, os.PathLike)):
        return os.fsdecode(os.fspath(model))
    kind = type(model)
    hint = "pass a path, the bytes of an ONNX model, or an openxrt.Graph"
    if hasattr(model, "SerializeToString"):
        hint = "pass model.SerializeToString()"
    elif hasattr(model, "read"):
        hint = "pass its path, or what read() gives"
    elif any(base.__module__.startswith("torch.nn") for base in kind.__mro__):
        hint = "openxrt.torch.XRTModule(module) runs modules of PyTorch"
    elif kind.__name__ == "ExportedProgram":
        hint = "pass openxrt.torch.import_exported(program).graph"
    raise TypeError(f"the model is a {kind.__name__}: {hint}")


def engine_names(engine: Any) -> list[str]:
    """The names in `engine`, in order of priority."""
    if isinstance(engine, str):
        return [name.strip() for name in engine.split(",")]
    names = list(engine) if isinstance(engine, Iterable) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise InvalidArgument(
            f'engine is {engine!r}: give a name, "auto", or a list of names in order of priority'
        )
    return names
