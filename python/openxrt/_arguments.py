# SPDX-License-Identifier: Apache-2.0
"""Arguments of openxrt.load(), and what is wrong with them in words of their own."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
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


def option_text(value: object) -> str:
    """In the spelling that engines document for switches."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def texts_by_engine(options: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, str]]:
    """Engines' own options, by engine."""
    for engine, own in options.items():
        if not isinstance(own, Mapping):
            raise InvalidArgument(
                f"engine_options[{engine!r}] is {own!r}: write "
                "engine_options={engine: {option: value}}"
            )
    return {
        engine: {key: option_text(value) for key, value in own.items()}
        for engine, own in options.items()
    }


def integers(**values: Any) -> dict[str, int]:
    """Arguments that are whole numbers, by name."""
    found = {}
    for name, value in values.items():
        try:
            found[name] = operator.index(value)
        except TypeError:
            raise InvalidArgument(f"{name} is {value!r}; a whole number is wanted") from None
        # What C++ has for them; its own checks know the limits that mean something.
        narrow = name in ("num_threads", "max_specializations")
        least, end = (0 if name == "max_workspace_bytes" else -1 << 31), 1 << (31 if narrow else 63)
        if not least <= found[name] < end:
            raise InvalidArgument(f"{name} is {value!r}; from {least} to {end - 1} are possible")
    return found


def texts(**values: Any) -> dict[str, str]:
    """Arguments that are str, by name."""
    for name, value in values.items():
        if not isinstance(value, str):
            raise InvalidArgument(f"{name} is {value!r}; a str is wanted")
    return values


def numbers(**values: Any) -> dict[str, float]:
    """Arguments that are numbers, by name."""
    found = {}
    for name, value in values.items():
        if isinstance(value, str) or not hasattr(type(value), "__float__"):
            raise InvalidArgument(f"{name} is {value!r}; a number is wanted")
        found[name] = float(value)
    return found
