# SPDX-License-Identifier: Apache-2.0
"""The model that openxrt.load() is given, and lists of engines."""

from __future__ import annotations

import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ._core import Graph, InvalidArgument, InvalidModel, Unsupported

# What zipfile, json, pickle and PyTorch raise of a damaged archive.
_DAMAGED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def source_of(model: Any) -> str | bytes | bytearray | memoryview | Graph:
    """What Program's C++ side takes for `model`."""
    if isinstance(model, (bytes, bytearray, memoryview, Graph)):
        return model
    if isinstance(model, (str, os.PathLike)):
        path = os.fsdecode(os.fspath(model))
        return _exported_graph(path) if _is_exported_program(path) else path
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


def _is_exported_program(path: str) -> bool:
    """Whether torch.export.save() wrote the file, whatever its name is."""
    try:
        with Path(path).open("rb") as file:
            if file.read(4) != b"PK\x03\x04":
                return False
            with zipfile.ZipFile(file) as archive:
                names = archive.namelist()
    except _DAMAGED:  # load() says what is wrong with it
        return False
    members = {name.rpartition("/")[2] for name in names}
    return bool(members & {"archive_format", "serialized_exported_program.json"})


def _exported_graph(path: str) -> Graph:
    """The program of torch.export in the file. Unsupported where PyTorch is missing, where the
    program changes buffers, which only a module keeps between runs, and where the name does not
    tell what it is: PyTorch runs code that such a file holds."""
    what = f"'{path}' holds a program of torch.export"
    if not path.endswith(".pt2"):
        raise Unsupported(
            f"{what}, and PyTorch, which reads it, runs code that it may hold: where you trust it, "
            "give it a name that ends with .pt2"
        )
    try:
        import torch
    except ImportError as error:
        raise Unsupported(
            f"{what}, which PyTorch reads: install torch, or write an ONNX file from it with "
            f"torch.onnx.export where PyTorch is ({error})"
        ) from error
    from .torch import import_exported

    try:
        program = torch.export.load(path)
    except _DAMAGED as error:
        raise InvalidModel(f"{what} that PyTorch cannot read: {error}") from error
    imported = import_exported(program)
    plain = [result.output for result in imported.results] == list(range(len(imported.results)))
    if imported.aliases or not plain:
        raise Unsupported(
            f"{what} that writes its buffers or arguments, or gives arguments back, which a graph "
            "alone does not tell: openxrt.torch.XRTModule(torch.export.load(path).module()) does"
        )
    return imported.graph


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
