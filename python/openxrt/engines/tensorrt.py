# SPDX-License-Identifier: Apache-2.0
"""TensorRT as an engine, through its Python package: TensorRT 10 and newer, and TensorRT-RTX.

A function becomes ONNX bytes, TensorRT's parser makes a strongly typed network of them, and the
builder a plan. With TensorRT-RTX this needs no GPU if the option `compute_capabilities` names one;
running does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._core import (
    EngineError,
    FunctionView,
    GraphView,
    InvalidArgument,
    NodeView,
    standard_ops,
)
from ..custom import engine
from . import _cuda, _options, _tensorrt_library, _tensorrt_rules, _tensorrt_run, _versions
from ._tensorrt_library import Library, Rejected, read_record, write_record
from ._tensorrt_rules import RANDOM, refusal
from ._tensorrt_run import Executable

NAME = "tensorrt"
# Constants above this size are read by the parser where they lie, smaller ones are in the model.
INLINE_BYTES = 1024
EXTERNAL = b"openxrt-constants"
OPTIONS = ("compute_capabilities", "optimization_level", "shapes", "tf32")
# Of a dimension that nobody bounds.
DEFAULT_MAXIMUM = 64

LIBRARY = Library()
# Of TensorRT-RTX; the oldest and the newest were tested.
VERSIONS = _versions.Range("1.6.1.120", "1.8")
PACKAGES = ("tensorrt-rtx-cu13-bindings", "tensorrt-rtx-cu13-libs")
if LIBRARY.is_rtx:
    _versions.check("TensorRT-RTX", LIBRARY.trt.__version__, VERSIONS, PACKAGES)


def shapes_option(options: Mapping[str, str]) -> dict[str, tuple[int, int, int]]:
    """Least, best and largest length by symbol from "N=1:8:32,H=224". Raises InvalidArgument."""
    ranges = {}
    for part in filter(None, options.get("shapes", "").split(",")):
        match = re.fullmatch(r"(.+)=(\d+)(?::(\d+):(\d+))?", part)
        lengths = [int(length) for length in (match.groups()[1:] if match else ()) if length]
        if not lengths or lengths != sorted(lengths):
            raise InvalidArgument(
                f"engine {NAME}, option 'shapes': '{part}' is neither SYMBOL=LENGTH nor "
                "SYMBOL=LEAST:BEST:LARGEST"
            )
        ranges[match[1]] = (lengths[0], lengths[len(lengths) // 2], lengths[-1])
    return ranges


def capabilities_option(options: Mapping[str, str]) -> list[tuple[int, int]]:
    """Numbers from "89" or "8.6,12.0". Raises InvalidArgument."""
    found = []
    for part in filter(None, options.get("compute_capabilities", "").split(",")):
        match = re.fullmatch(r"(\d+)\.?(\d)", part.strip())
        if match is None:
            raise InvalidArgument(
                f"engine {NAME}, option 'compute_capabilities': '{part}' is not of the form 89"
            )
        found.append((int(match[1]), int(match[2])))
    return found


def version() -> str:
    """Of the package, with the compute capability of this machine's GPU: a plan fits that alone."""
    text = LIBRARY.trt.__version__ + ("-rtx" if LIBRARY.is_rtx else "")
    try:
        major, minor = _cuda.driver().compute_capability(0)
    except EngineError:
        return f"{text}+no-gpu"
    return f"{text}+sm{major}{minor}"


def devices() -> list[str]:
    """Those of this machine; where it has none, one by name, to build for another machine."""
    try:
        count = _cuda.driver().count
    except EngineError:
        count = 1
    return [f"cuda:{i}" for i in range(count)]


def profile_bounds(
    function: FunctionView, grown: Mapping[str, list[int]]
) -> dict[str, tuple[list[int], list[int], list[int]]]:
    """Least, best and largest shape by name of each input with open dimensions.

    The option `shapes` says for symbols, then the program's ranges; else the first dimension
    reaches from 1 to max_batch_size, others from 1 to 64, and the largest is the best. `grown`
    holds what a run has asked for.
    """
    declared = {**function.ranges, **shapes_option(function.options)}
    bounds = {}
    for port in function.inputs:
        dims = port.shape or ()
        if all(isinstance(dim, int) for dim in dims):
            continue
        ranges = []
        for i, dim in enumerate(dims):
            largest = (function.max_batch_size if i == 0 else 0) or DEFAULT_MAXIMUM
            low, best, high = declared.get(dim, (1, largest, largest))
            if isinstance(dim, int):
                low = best = high = dim
            elif port.name in grown and grown[port.name][i] > high:
                best = high = grown[port.name][i]
            ranges.append((low, best, high))
        least, best, largest = (list(shape) for shape in zip(*ranges, strict=True))
        bounds[port.name] = (least, best, largest)
    return bounds


def ops() -> list[str]:
    """Ops that the parser has an importer for, but for those that are refused in any case."""
    with LIBRARY.exclusive():
        network = LIBRARY.builder.create_network()
        parser = LIBRARY.trt.OnnxParser(network, LIBRARY.logger)
        return [op for op in standard_ops() if op not in RANDOM and parser.supports_operator(op)]


@engine(
    NAME,
    version=version(),
    devices=devices(),
    dynamic_shapes=True,
    ops=ops(),
    options=OPTIONS,
    offline_options={"compute_capabilities": "89"},
    files=[
        __file__,
        LIBRARY.trt.__file__,
        *(m.__file__ for m in (_cuda, _options, _tensorrt_library, _tensorrt_rules)),
        _tensorrt_run.__file__,
    ],
)
class TensorRTEngine:
    """Asks TensorRT's parser about nodes and its builder for plans."""

    def __init__(self) -> None:
        self.known: dict[str, bool | str] = {}

    def supports(self, node: NodeView) -> bool | str:
        """True, or why not."""
        return refusal(node) or self.answer(node.signature(shapes=True), node, node.to_onnx(), {})

    def supports_all(self, graph: GraphView) -> list[bool | str]:
        """True or why not, of each node; nodes that differ in names only are asked about once."""
        answers: list[bool | str] = []
        for node in graph.nodes:
            reason = refusal(node)
            if reason:
                answers.append(reason)
                continue
            key = node.signature(shapes=True)
            if key not in self.known:
                model = graph.to_onnx([node], inline_limit=INLINE_BYTES)
                large = {
                    node.inputs[i]: array
                    for i, array in node.constants.items()
                    if EXTERNAL in model and array.nbytes > INLINE_BYTES
                }
                self.answer(key, node, model, large)
            answers.append(self.known[key])
        return answers

    def answer(
        self, key: str, node: NodeView, model: bytes, constants: Mapping[str, np.ndarray]
    ) -> bool | str:
        """What parser and builder say about a model of one node."""
        if key not in self.known:
            with LIBRARY.exclusive():
                self.known[key] = judge(node, model, constants)
        return self.known[key]

    def compile(self, function: FunctionView) -> Executable:
        """A plan, ready to run where there is a GPU."""
        source = Source(function)
        gpu = gpu_of(function)
        if gpu is None and not source.capabilities:
            # Says what is missing, and how to do without.
            try:
                _cuda.driver()
            except EngineError as error:
                raise EngineError(
                    f"{error}: a plan can be built for another machine with the option "
                    "compute_capabilities, for example 89"
                ) from error
        plan, bounds = source.build({}, function.progress)
        return Executable(LIBRARY, function, plan, gpu, source if bounds else None)

    def load(self, blob: memoryview, function: FunctionView) -> Executable:
        """From a plan of the disk cache."""
        source = Source(function)
        has_bounds = bool(profile_bounds(function, {}))
        return Executable(
            LIBRARY, function, bytes(blob), gpu_of(function), source if has_bounds else None
        )


def judge(node: NodeView, model: bytes, constants: Mapping[str, np.ndarray]) -> bool | str:
    """Whether TensorRT makes the same of the node as the graph says; under the library's lock."""
    try:
        network, parser = LIBRARY.parse(model, constants)
    except Rejected as error:
        return str(error)
    if LIBRARY.is_rtx and node.op == "NonMaxSuppression":
        return "TensorRT-RTX has no kernel for it"
    profile = LIBRARY.builder.create_optimization_profile()
    for i in range(network.num_inputs):
        tensor = network.get_input(i)
        if tensor.is_shape_tensor:
            return "a value decides a shape that is no constant"
        shape = [size if size >= 0 else 2 for size in tensor.shape]
        profile.set_shape(tensor.name, shape, shape, shape)
    wanted = [kind for kind in node.output_types if kind is not None]
    for i, kind in enumerate(wanted):
        tensor = network.get_output(i)
        found = LIBRARY.dtypes.get(tensor.dtype)
        if found != kind.dtype:
            return f"it makes {found} where the standard says {kind}"
        dims = kind.shape
        if dims is not None and len(dims) != len(tensor.shape):
            return f"it makes a value of rank {len(tensor.shape)} where the standard says {kind}"
        if dims is not None and any(
            isinstance(ours, int) and theirs >= 0 and ours != theirs
            for ours, theirs in zip(dims, tensor.shape, strict=True)
        ):
            return f"it makes {found}{list(tensor.shape)} where the standard says {kind}"
    config = LIBRARY.config([])
    config.add_optimization_profile(profile)
    if not LIBRARY.builder.is_network_supported(network, config):
        return LIBRARY.cause("its builder refuses the network")
    del parser
    return True


def gpu_of(function: FunctionView) -> _cuda.Device | None:
    """The device that the function is for; None where the machine has none."""
    try:
        driver = _cuda.driver()
    except EngineError:
        return None
    return _cuda.Device(driver, int(function.device.partition(":")[2] or 0))


class Source:
    """What a plan is built from, kept for another one where shapes may grow.

    Big constants are not copied: they share the program's memory.
    """

    def __init__(self, function: FunctionView) -> None:
        self.name = function.name
        self.function = function
        self.capabilities = capabilities_option(function.options)
        self.model = function.to_onnx(inline_limit=INLINE_BYTES)
        self.constants = function.constants(INLINE_BYTES) if EXTERNAL in self.model else {}

    def build(self, grown: Mapping[str, list[int]], progress: Any = None) -> tuple[bytes, Any]:
        """A plan, and the bounds of its profile by input. Raises EngineError."""
        options = self.function.options
        bounds = profile_bounds(self.function, grown)
        trt = LIBRARY.trt
        with LIBRARY.exclusive():
            try:
                network, parser = LIBRARY.parse(self.model, self.constants)
            except Rejected as error:
                raise EngineError(f"TensorRT's parser: {error}") from error
            config = LIBRARY.config(self.capabilities)
            if _options.flag(NAME, options, "tf32", False):
                config.set_flag(trt.BuilderFlag.TF32)
            if self.function.max_workspace_bytes > 0:
                config.set_memory_pool_limit(
                    trt.MemoryPoolType.WORKSPACE, self.function.max_workspace_bytes
                )
            level = options.get("optimization_level")
            if level is not None:
                config.builder_optimization_level = int(
                    _options.choice(NAME, options, "optimization_level", "012345", "3")
                )
            if progress is not None:
                config.progress_monitor = LIBRARY.monitor(progress)
            if bounds:
                profile = LIBRARY.builder.create_optimization_profile()
                for name, shapes in bounds.items():
                    profile.set_shape(name, *shapes)
                if config.add_optimization_profile(profile) < 0:
                    raise EngineError(LIBRARY.cause("TensorRT refuses the optimisation profile"))
            timings = self.timings()
            if timings is not None:
                config.set_timing_cache(config.create_timing_cache(read_record(timings)), False)
            plan = LIBRARY.builder.build_serialized_network(network, config)
            if plan is None:
                raise EngineError(f"TensorRT's builder: {LIBRARY.cause('it gives no plan')}")
            if timings is not None:
                write_record(timings, bytes(config.get_timing_cache().serialize()))
            del parser
            return bytes(plan), bounds

    def timings(self) -> Path | None:
        """Where kernels' timings are kept; TensorRT-RTX measures none when it builds."""
        if LIBRARY.is_rtx or not self.function.records_dir:
            return None
        return Path(self.function.records_dir) / f"tensorrt-timing-{version()}.bin"
