# SPDX-License-Identifier: Apache-2.0
"""TensorRT's Python package, whichever is installed, and what it is told and asked at build time.

Building needs no GPU with TensorRT-RTX: a plan is built for a compute capability by name.
"""

from __future__ import annotations

import importlib
import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .._core import EngineError, Error, InvalidArgument, NotFound, write_output_file

# In this order: the TensorRT of data centres, the one for RTX cards.
MODULES = ("tensorrt", "tensorrt_bindings", "tensorrt_rtx", "tensorrt_rtx_bindings")


class Rejected(Exception):
    """TensorRT does not take a model; the text says why."""


def import_tensorrt() -> ModuleType:
    """The module; NotFound where none of them is installed, EngineError where none can be used."""
    failures = []
    for name in MODULES:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                failures.append(f"{name}: {error}")
        except (ImportError, OSError) as error:
            failures.append(f"{name}: {error}")
        else:
            if hasattr(module, "OnnxParser"):
                return module
            failures.append(f"{name} {module.__version__} has no ONNX parser")
    if failures:
        raise EngineError("no TensorRT package can be used: " + "; ".join(failures))
    raise NotFound(f"none of the packages {', '.join(MODULES)} is installed")


class Library:
    """The module with a logger and a builder; one thread at a time uses it."""

    def __init__(self, module: ModuleType | None = None) -> None:
        self.trt = trt = module or import_tensorrt()
        self.is_rtx = "rtx" in trt.__name__
        self.lock = threading.RLock()
        self.messages: deque[str] = deque(maxlen=20)
        messages = self.messages

        class Logger(trt.ILogger):
            """Keeps errors, to become part of exceptions; nothing is printed."""

            def __init__(self) -> None:
                trt.ILogger.__init__(self)

            def log(self, severity: Any, message: str) -> None:
                if severity <= trt.ILogger.ERROR:
                    messages.append(message.splitlines()[0])

        self.logger = Logger()
        self.builder = trt.Builder(self.logger)
        kinds = {
            "FLOAT": "float32",
            "HALF": "float16",
            "BF16": "bfloat16",
            "INT64": "int64",
            "INT32": "int32",
            "INT8": "int8",
            "UINT8": "uint8",
            "BOOL": "bool",
            "FP8": "float8_e4m3fn",
            "E8M0": "float8_e8m0fnu",
            "INT4": "int4",
            "FP4": "float4_e2m1fn",
        }
        self.dtypes = {
            getattr(trt.DataType, name): ours
            for name, ours in kinds.items()
            if hasattr(trt.DataType, name)
        }

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """The library for one thread, with no messages of others."""
        with self.lock:
            self.messages.clear()
            yield

    def cause(self, otherwise: str) -> str:
        """The first thing that the library complained about, without places in its source."""
        texts = [text for text in self.messages if not text.startswith("ModelImporter.cpp")]
        for text in texts:
            if "catchCudaError" not in text:
                return re.sub(r"^(\[[^]]*\] |\w+::\w+: )?(Error Code \d+: )?", "", text)
        return "it asks a GPU, and finds none" if texts else otherwise

    def parse(self, model: bytes, constants: Mapping[str, np.ndarray]) -> tuple[Any, Any]:
        """A strongly typed network and its parser, which must live as long.

        `constants` are external data of the model, read where they lie. Raises Rejected.
        """
        flags = 1 << int(self.trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        network = self.builder.create_network(flags)
        parser = self.trt.OnnxParser(network, self.logger)
        if constants:
            parsed = parser.load_model_proto(model) and all(
                parser.load_initializer(name, array.ctypes.data, array.nbytes)
                for name, array in constants.items()
            )
            parsed = parsed and parser.parse_model_proto()
        else:
            parsed = parser.parse(model)
        if not parsed:
            raise Rejected(self.rejection(parser))
        if hasattr(self.trt.LayerType, "ATTENTION_OUTPUT"):
            # Where no fused kernel exists, attention may become products and a softmax.
            for i in range(network.num_layers):
                layer = network.get_layer(i)
                if layer.type == self.trt.LayerType.ATTENTION_OUTPUT:
                    layer.__class__ = self.trt.IAttentionOutputLayer
                    layer.attention.decomposable = True
        return network, parser

    def rejection(self, parser: Any) -> str:
        """Why the parser took no model: its last words, which are the most particular."""
        for i in range(parser.num_errors):
            error = parser.get_error(i)
            lines = [line for line in error.desc().splitlines() if "catchCudaError" not in line]
            text = lines[-1].removeprefix("Assertion failed: ") if lines else ""
            quoted = re.search(r'&& "(.+)"$', text)
            if quoted is not None:
                return f"its parser: {quoted[1]}"
            if text and text != "false":
                return f"its parser: {text}"
            if error.node_operator():
                return f"its parser does not take {error.node_operator()} ({error.func()})"
        return f"its parser: {self.cause('it gives no cause')}"

    def config(self, capabilities: list[tuple[int, int]]) -> Any:
        """A build configuration; float32 stays float32. Raises InvalidArgument."""
        config = self.builder.create_builder_config()
        config.clear_flag(self.trt.BuilderFlag.TF32)
        if not capabilities:
            return config
        if not hasattr(config, "set_compute_capability"):
            raise InvalidArgument(
                f"engine tensorrt, option 'compute_capabilities': {self.trt.__name__} "
                f"{self.trt.__version__} builds for the GPU of this machine only; TensorRT-RTX "
                "builds for others"
            )
        known = self.trt.ComputeCapability.__members__
        config.num_compute_capabilities = len(capabilities)
        for i, (major, minor) in enumerate(capabilities):
            name = f"SM{major}{minor}"
            if name not in known:
                names = sorted((n[2:] for n in known if n.startswith("SM")), key=int)
                raise InvalidArgument(
                    f"engine tensorrt, option 'compute_capabilities': {major}{minor} is none that "
                    f"{self.trt.__name__} {self.trt.__version__} builds for: {', '.join(names)}"
                )
            config.set_compute_capability(known[name], i)
        return config

    def monitor(self, progress: Callable[[str, float], None]) -> Any:
        """Hands on how far a build has come."""
        trt = self.trt

        class Monitor(trt.IProgressMonitor):
            """Counts the steps of the outermost phase."""

            def __init__(self) -> None:
                trt.IProgressMonitor.__init__(self)
                self.steps: dict[str, int] = {}

            def phase_start(self, phase: str, parent: str | None, steps: int) -> None:
                if parent is None:
                    self.steps[phase] = steps

            def step_complete(self, phase: str, step: int) -> bool:
                if phase in self.steps:
                    progress(phase, (step + 1) / max(self.steps[phase], 1))
                return True

            def phase_finish(self, phase: str) -> None:
                self.steps.pop(phase, None)

        return Monitor()


def read_record(path: Path | None) -> bytes:
    """What an earlier process kept, or nothing."""
    if path is None:
        return b""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def write_record(path: Path, content: bytes) -> None:
    """Puts it in place of what was there, at once. A full disk costs the record, not the run."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_output_file(path, content)
    except (OSError, Error) as error:
        logging.getLogger("openxrt.tensorrt").warning("%s is not kept: %s", path, error)
