# SPDX-License-Identifier: Apache-2.0
"""The engine under test, and those that judge it, through the public Python API."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import openxrt
from openxrt._core import FALLBACK_ENGINE

Arrays = dict[str, np.ndarray]
NATIVE = FALLBACK_ENGINE  # judges the others


class Skipped(Exception):
    """The case does not apply; the message says why."""


class Failed(Exception):
    """What the case found; `check` is the check that it belongs to, where that is another one."""

    def __init__(self, reason: str, check: str = "") -> None:
        super().__init__(reason)
        self.check = check


def import_engine(path: str, name: str) -> None:
    """Runs the file that registers an engine written in Python: `path`, or `path`/NAME.py where
    that exists. Libraries are found through XRT_ENGINE_PATH instead.
    """
    file = Path(path) / f"{name}.py" if Path(path).is_dir() else Path(path)
    if file.suffix != ".py" or not file.is_file():
        return
    sys.path.append(str(file.parent))  # for its own modules
    spec = importlib.util.spec_from_file_location(f"engine_{name}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)


class Subject:
    """The engine under test: loads programs on it, and on those that say what is right."""

    def __init__(
        self, name: str, *, path: str = "", device: str = "cpu", options: Mapping[str, str]
    ) -> None:
        self.name = name
        self.device = device
        self.options = dict(options)
        self.path = path
        if path:
            import_engine(path, name)

    def description(self) -> dict[str, Any]:
        """What makes the same subject in another process."""
        return {
            "name": self.name,
            "path": self.path,
            "device": self.device,
            "options": self.options,
        }

    def load(self, model: bytes, *, strict: bool = True, **options: Any) -> openxrt.Program:
        """The model on this engine alone, or with `native` for what it refuses.

        Raises Skipped where the engine refuses a node, and Failed under the check `support` where
        it claims all of them and cannot compile them.
        """
        arguments = {
            "engine": [self.name] if strict or self.name == NATIVE else [self.name, NATIVE],
            "strict": strict,
            "device": self.device,
            "num_threads": 1,
            "cache_dir": "",
            "check_results": False,  # a wrong engine is to be judged, not replaced
            "engine_options": {self.name: self.options} if self.options else {},
        }
        try:
            return openxrt.load(model, **(arguments | options))
        except openxrt.Unsupported as error:
            raise Skipped(f"refused: {error}") from error
        except openxrt.Error as error:
            if isinstance(error, openxrt.InvalidModel) and not self._is_valid(model):
                raise Skipped(f"no valid model: {error}") from error
            raise Failed(
                f"it claims the node and cannot compile it: {type(error).__name__}: {error}",
                "support",
            ) from error

    def _is_valid(self, model: bytes) -> bool:
        """Whether the model can be read, whatever engine gets it."""
        if self.name == NATIVE:
            return False
        try:
            openxrt.load(model, engine=[NATIVE], num_threads=1, cache_dir="")
        except openxrt.InvalidModel:
            return False
        except openxrt.Error:
            return True
        return True

    def run(
        self, program: openxrt.Program, feeds: Mapping[str, Any], **options: Any
    ) -> list[np.ndarray]:
        """Outputs in order. Sizes that are known now may be refused now: Skipped."""
        try:
            return list(program.run(dict(feeds), **options).values())
        except openxrt.Unsupported as error:
            raise Skipped(f"refused: {error}") from error
        except openxrt.Error as error:
            raise Failed(f"the run fails: {type(error).__name__}: {error}") from error

    def nodes(self, program: openxrt.Program) -> int:
        """How many nodes run on the engine."""
        return program.explain().nodes_per_engine.get(self.name, 0)

    def require_nodes(self, program: openxrt.Program) -> None:
        """Raises Skipped where the passes leave nothing for the engine."""
        if not self.nodes(program):
            raise Skipped("no node reaches an engine: the passes compute it")

    def expected(self, model: bytes, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """What is right: the native engine's outputs; of that itself, and where it refuses the
        model, those of the onnx package's reference evaluator, which is NumPy.
        """
        if self.name != NATIVE:
            try:
                program = openxrt.load(
                    model, engine=[NATIVE], strict=True, num_threads=1, cache_dir=""
                )
                return list(program.run(dict(feeds)).values())
            except openxrt.Unsupported:
                pass
        return reference(model, feeds)


def reference(model: bytes, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs of the onnx package's reference evaluator. Raises Skipped where it fails."""
    from onnx.reference import ReferenceEvaluator

    proto = onnx.load_from_string(model)
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(proto).run(None, dict(feeds))
    except Exception as error:  # it raises whatever its NumPy code does; nothing judges then
        raise Skipped(
            f"nothing to judge by: the reference evaluator fails: {type(error).__name__}: {error}"
        ) from error
    return [
        _as_declared(result, output.type)
        for result, output in zip(results, proto.graph.output, strict=True)
    ]


def _as_declared(result: Any, declared: onnx.TypeProto) -> Any:
    """An array in the declared dtype: NumPy widens sums of integers."""
    if not declared.HasField("tensor_type") or isinstance(result, list):
        return result
    array = np.asarray(result)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(declared.tensor_type.elem_type)
    return array if array.dtype == object else array.astype(dtype, copy=False)


def engine_environment(path: str) -> dict[str, str]:
    """The environment in which libraries of a folder, or of a file, are found as engines."""
    if not path or path.endswith(".py"):
        return {}
    known = os.environ.get("XRT_ENGINE_PATH", "")
    return {"XRT_ENGINE_PATH": os.pathsep.join(filter(None, [str(Path(path).resolve()), known]))}
