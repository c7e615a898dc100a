# SPDX-License-Identifier: Apache-2.0
"""The test cases of the onnx package, as folders on disk.

The package generates its node tests when they are asked for, which takes seconds, and ships the
others as folders. Here all of them are folders of one layout, the package's own:

    test_relu/model.onnx, test_relu/tolerance.json, test_relu/test_data_set_0/{input,output}_<i>.pb

The node tests are written once per version of the package into the user's cache folder. Values keep
what the package says: a dtype, a shape, a sequence, an absent optional.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")
LAYOUT = 1  # part of the cache folder's name: raise it when what is written changes


@dataclass(frozen=True)
class Case:
    """One test: a model, its tolerances, and folders with inputs and expected outputs."""

    name: str
    kind: str
    folder: Path
    rtol: float
    atol: float

    def model_bytes(self) -> bytes:
        """The model, as the package wrote it."""
        return (self.folder / "model.onnx").read_bytes()

    def data_sets(self, model: onnx.ModelProto) -> list[tuple[dict[str, Any], list[Any]]]:
        """Per data set the inputs by name and the expected outputs in graph order."""
        initialized = {tensor.name for tensor in model.graph.initializer}
        inputs = [value for value in model.graph.input if value.name not in initialized]
        sets = []
        for data in sorted(self.folder.glob("test_data_set_*")):
            feeds = {
                value.name: read_value(data / f"input_{i}.pb", value.type)
                for i, value in enumerate(inputs)
                if (data / f"input_{i}.pb").exists()
            }
            expected = [
                read_value(data / f"output_{i}.pb", value.type)
                for i, value in enumerate(model.graph.output)
            ]
            sets.append((feeds, expected))
        return sets


def op_names(model: onnx.ModelProto) -> list[str]:
    """The ops of the main graph; those outside the standard domain with their domain."""
    return sorted(
        {
            f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
            for node in model.graph.node
        }
    )


def read_value(path: Path, declared: onnx.TypeProto) -> Any:
    """An array, a list (sequence) or None (absent optional), as the graph declares it."""
    content = path.read_bytes()
    if declared.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if declared.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return numpy_helper.to_array(onnx.TensorProto.FromString(content))


def value_proto(value: Any, declared: onnx.TypeProto, name: str) -> Any:
    """A value as the message that the graph's declaration asks for."""
    if declared.HasField("sequence_type"):
        return sequence_proto(value, declared.sequence_type, name)
    if declared.HasField("optional_type"):
        inner = declared.optional_type.elem_type
        optional = onnx.OptionalProto(name=name)
        if value is None:
            optional.elem_type = onnx.OptionalProto.UNDEFINED
        elif inner.HasField("sequence_type"):
            optional.elem_type = onnx.OptionalProto.SEQUENCE
            optional.sequence_value.CopyFrom(sequence_proto(value, inner.sequence_type, name))
        else:
            optional.elem_type = onnx.OptionalProto.TENSOR
            optional.tensor_value.CopyFrom(value_proto(value, inner, name))
        return optional
    if isinstance(value, onnx.TensorProto):
        return value
    return numpy_helper.from_array(value, name)


def sequence_proto(
    value: list[Any], declared: onnx.TypeProto.Sequence, name: str
) -> onnx.SequenceProto:
    """A sequence of tensors; its element type comes from the declaration, so it may be empty."""
    sequence = onnx.SequenceProto(name=name, elem_type=onnx.SequenceProto.TENSOR)
    for element in value:
        sequence.tensor_values.append(value_proto(element, declared.elem_type, ""))
    return sequence


def node_folder() -> Path:
    """Folder of the written node tests: under `XDG_CACHE_HOME`, else `~/.cache`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "openxrt" / "conformance" / f"onnx-{onnx.__version__}-{LAYOUT}" / "node"


def write_node_cases() -> Path:
    """Writes the node tests unless they are there. Two processes may do it at once: the first to
    finish keeps its folder.
    """
    target = node_folder()
    if target.is_dir():
        return target
    from onnx.backend.test.loader import load_model_tests

    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix="node.", dir=target.parent))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the generators divide by zero on purpose
            cases = load_model_tests(kind="node")
        for case in cases:
            folder = partial / case.name
            folder.mkdir()
            (folder / "model.onnx").write_bytes(case.model.SerializeToString())
            (folder / "tolerance.json").write_text(
                json.dumps({"rtol": case.rtol, "atol": case.atol})
            )
            for index, (inputs, outputs) in enumerate(case.data_sets):
                data = folder / f"test_data_set_{index}"
                data.mkdir()
                for stem, values, declared in (
                    ("input", inputs, case.model.graph.input),
                    ("output", outputs, case.model.graph.output),
                ):
                    for i, value in enumerate(values):
                        proto = value_proto(value, declared[i].type, declared[i].name)
                        (data / f"{stem}_{i}.pb").write_bytes(proto.SerializeToString())
        try:
            partial.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def load_cases(kinds: list[str]) -> list[Case]:
    """All cases of these kinds, sorted by kind and name."""
    cases = []
    for kind in kinds:
        if kind == "node":
            root = write_node_cases()
        else:
            root = Path(onnx.__file__).parent / "backend" / "test" / "data" / kind
        for folder in sorted(path for path in root.iterdir() if (path / "model.onnx").is_file()):
            tolerance = {"rtol": 1e-3, "atol": 1e-7}
            for file in ("data.json", "tolerance.json"):
                if (folder / file).is_file():
                    tolerance |= json.loads((folder / file).read_text())
            cases.append(Case(folder.name, kind, folder, tolerance["rtol"], tolerance["atol"]))
    return cases
