# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime as an engine: whole functions are handed over as ONNX bytes.

What it supports is asked of ONNX Runtime itself: a node is taken if a session can be made of it.
Big constants are not copied into the model but lent to the session; inputs and outputs of a run are
the caller's own memory, bound to the session.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import re
import tempfile
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401 gives NumPy the names bfloat16, float8_e4m3fn, …
import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as library

from .._core import (
    EngineError,
    FunctionView,
    GraphView,
    NodeView,
    Unsupported,
    check_time,
    require_threads,
    thread_budget,
    time_left,
)
from ..custom import engine
from . import _onnxruntime_learned, _onnxruntime_rules, _onnxruntime_sizes, _options, _versions
from ._onnxruntime_rules import known_bits, refusal
from ._onnxruntime_sizes import SizeChecks, open_sizes, product_of_quantised, size_refusal

LOG = logging.getLogger("openxrt.onnxruntime")
# What the engine's answers follow from, beside this file.
PARTS = (_onnxruntime_learned, _onnxruntime_rules, _onnxruntime_sizes, _options, library)
NAME = "onnxruntime"
# The oldest is the last for Python 3.10. pyproject.toml has the same range; both ends are tested.
VERSIONS = _versions.Range("1.23.2", "1.33")
_versions.check(NAME, onnxruntime.__version__, VERSIONS)
# Before, what a binding gives away ends with its outputs.
GIVES_AWAY = _versions.numbers(onnxruntime.__version__) >= (1, 30)
# Element types in the order of ONNX's numbers for them (TensorProto.DataType).
# fmt: off
DTYPES = (
    "undefined", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool",
    "float16", "float64", "uint32", "uint64", "complex64", "complex128", "bfloat16",
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "uint4", "int4",
    "float4_e2m1fn", "float8_e8m0fnu", "uint2", "int2",
)
# fmt: on
ONNX_NUMBER = {name: number for number, name in enumerate(DTYPES)}
# Constants above this size are lent, smaller ones are part of the model.
INLINE_BYTES = 1024
OPTIMIZATION = {
    "disable": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "layout": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_LAYOUT,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
# What products with weights of 4 bits in blocks make of the other factor, and its number at ONNX
# Runtime, whose own default is 4.
ACCURACY_LEVELS = {"float": "1", "int8": "4"}
OPTIONS = (
    "activations",
    "disabled_optimizers",
    "enable_cpu_mem_arena",
    "enable_mem_pattern",
    "graph_optimization_level",
)
# It joins an addition to the normalisation that follows where shapes are static; its kernel makes
# MiniLM take 10 % more processor time than the two ops by themselves (ONNX Runtime 1.31.1).
SLOW_OPTIMIZERS = "SkipLayerNormFusion"
# They round an output of the function where what is transposed of it is quantised.
NORM_OPTIMIZERS = {"LayerNormFusionL1", "LayerNormFusionL2", "SimplifiedLayerNormFusion"}
TRANSPOSE_OPTIMIZERS = {
    "QDQPropagationTransformer",
    "TransposeOptimizer",
    "TransposeOptimizer_CPUExecutionProvider",
}
# A rounding moves to the other side of these.
MOVED = frozenset({"MaxPool", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
# What ONNX Runtime raises: classes of its own that have no base but Exception.
FAILURES = (
    library.EPFail,
    library.Fail,
    library.InvalidArgument,
    library.InvalidGraph,
    library.InvalidProtobuf,
    library.ModelRequiresCompilation,
    library.NoSuchFile,
    library.NotImplemented,
    library.RuntimeException,
    RuntimeError,
)
CPU = ["CPUExecutionProvider"]
HOST = ("cpu", 0)
EXTERNAL = b"openxrt-constants"
# Threads that wait for less than the gaps between the ops of a small model take longer for it than
# threads that do not wait at all (ONNX Runtime 1.31.1: 1.7 ms, 1.3, and 0.9 with this).
SPIN_US = 1000
FATAL = 4
# Making a session takes time that grows with the square of the nodes of which none waits for
# another: for these, some seconds.
MOST_SIDE_BY_SIDE = 4096
TOO_WIDE = (
    f"it is one of more than {MOST_SIDE_BY_SIDE} nodes side by side, of which it takes minutes to "
    "make a session"
)


def cause_of(error: BaseException) -> str:
    """ONNX Runtime's message without its error code and the place in its source."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    text = re.sub(r"\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
    # file.cc:12 void onnxruntime::f(int) [with T = float] what happened
    place = re.search(r"/onnxruntime_src/\S+:\d+ ", text)
    if place is not None:
        start = re.search(
            r"\)(?: const)?(?: \[with [^]]*\])? (?=[A-Za-z_]+[ .:!'\"]\S*)", text[place.end() :]
        )
        if start is not None:
            text = text[: place.start()] + text[place.end() + start.end() :]
    return text[:400]


def kernels() -> list[str]:
    """Qualified names of the standard's ops that the CPU provider has a kernel for."""
    return sorted(
        {
            f"{kernel.domain}.{kernel.op_name}" if kernel.domain else kernel.op_name
            for kernel in library.get_all_opkernel_def()
            if kernel.provider == CPU[0] and kernel.domain in ("", "ai.onnx.ml")
        }
    )


class _Watch:
    """Ends runs whose time is over: ONNX Runtime looks between two nodes.

    Runs come and go without the lock, by operations of a dict that are atomic: most of them take
    less time than it would.
    """

    def __init__(self) -> None:
        self.reset()
        os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
        """No run, and no thread: what a process begins with, a child of fork() too."""
        self.changed = threading.Condition()
        self.runs: dict[int, tuple[float, onnxruntime.RunOptions]] = {}
        self.numbers = itertools.count()
        self.next = math.inf  # when the thread looks; while it does, any run wakes it again
        self.thread: threading.Thread | None = None

    def begin(self, seconds: float) -> tuple[int, onnxruntime.RunOptions]:
        """A number for end(), and options of a run that ends when so many seconds are over."""
        options = onnxruntime.RunOptions()
        # What holds without it; where it is missing, the library raises and catches an exception.
        options.add_run_config_entry("gpu_graph_id", "0")
        end = time.monotonic() + seconds
        number = next(self.numbers)
        self.runs[number] = end, options
        if end < self.next:
            self.wake()
        return number, options

    def end(self, number: int) -> None:
        """That run is over."""
        self.runs.pop(number, None)

    def wake(self) -> None:
        """The thread looks anew."""
        with self.changed:
            if self.thread is None:
                thread = threading.Thread(target=self.work, daemon=True)
                thread.start()
                self.thread = thread
            else:
                self.changed.notify()

    def work(self) -> None:
        """The thread's life."""
        with self.changed:
            while True:
                self.next = math.inf
                now = time.monotonic()
                earliest = math.inf
                for number, (end, options) in list(self.runs.items()):
                    if end <= now:
                        options.terminate = True
                        self.runs.pop(number, None)
                    else:
                        earliest = min(earliest, end)
                self.next = earliest
                self.changed.wait(None if earliest == math.inf else earliest - now)


WATCH = _Watch()


def call_within(run: Callable[..., Any], *arguments: object) -> Any:
    """What ONNX Runtime's `run` returns, ended by the limit that holds for this thread, if any."""
    left = time_left()
    try:
        if left is None:
            return run(*arguments)
        number, options = WATCH.begin(left)
        try:
            return run(*arguments, options)
        finally:
            WATCH.end(number)
    except FAILURES as error:
        check_time()  # it was ended
        raise EngineError(cause_of(error)) from error


def has_in_body(node: NodeView, *ops: str) -> bool:
    """Whether a body of the node has nodes of all these ops."""
    bodies = [v for v in node.attributes.values() if isinstance(v, str)]
    return any(all(f" {op}(" in body for op in ops) for body in bodies)


def moves_int8(node: NodeView, nodes: dict[str, NodeView]) -> bool:
    """Whether a rounding to int8 may get to the other side of the node."""
    before = nodes.get(node.inputs[0]) if node.op in MOVED else None
    if before is None or before.op != "DequantizeLinear":
        return False
    type_ = before.input_types[0]
    return type_ is None or type_.dtype == "int8"


def says_int8(node: NodeView) -> bool:
    """Whether it is a QuantizeLinear to int8 with the type written out, or may have one within."""
    if node.op == "QuantizeLinear":
        return node.attributes.get("output_dtype") == ONNX_NUMBER["int8"]
    return has_in_body(node, "DequantizeLinear") or has_in_body(node, "QuantizeLinear")


def may_multiply_a_vector(node: NodeView) -> bool:
    """Whether it is a MatMul by a tensor of rank 1, or one in a body by anything."""
    if node.op != "MatMul":
        return has_in_body(node, "MatMul")
    right = node.input_types[1]
    return right is None or right.shape is None or len(right.shape) == 1


def has_fine_scale(node: NodeView) -> bool:
    """Whether a QuantizeLinear may have a step below 1/256."""
    scale = node.constants.get(1)
    return scale is None or bool((scale < 0.99 / 256).any())


def side_by_side(nodes: list[NodeView]) -> list[str]:
    """By node, why it is left to others where very many do not wait for each other, or ""."""
    depths: dict[str, int] = {}
    widths: Counter[int] = Counter()
    refusals = []
    for node in nodes:
        depth = max((depths[name] for name in node.inputs if name in depths), default=0) + 1
        depths.update((name, depth) for name in node.outputs)
        widths[depth] += 1
        is_one_more = widths[depth] > MOST_SIDE_BY_SIDE
        refusals.append(TOO_WIDE if is_one_more else "")
    return refusals


def copies_axis(makers: dict[str, NodeView], name: str, source: str, axis: int) -> bool:
    """Whether it is one element: the size of this axis of the source, as a Gather takes it."""
    unsqueeze = makers.get(name)
    if unsqueeze is None or unsqueeze.op != "Unsqueeze":
        return False
    gather = makers.get(unsqueeze.inputs[0])
    if gather is None or gather.op != "Gather":
        return False
    shape = makers.get(gather.inputs[0])
    if shape is None or shape.op != "Shape" or "end" in shape.attributes:
        return False
    index = gather.constants.get(1)
    is_axis = index is not None and index.ndim == 0 and index == axis
    return is_axis and shape.inputs[0] == source and not shape.attributes.get("start", 0)


def gets_an_open_size(makers: dict[str, NodeView], node: NodeView) -> bool:
    """Whether ReshapeFusion may make -1 of a size of a Reshape, and 0 of others: beside axes of no
    elements -1 stands for nothing.
    """
    concat = makers.get(node.inputs[1]) if node.op == "Reshape" else None
    if concat is None or concat.op != "Concat":
        return False
    type_ = node.input_types[0]
    dims = type_.shape if type_ is not None else None
    if dims is not None and all(isinstance(dim, int) and dim > 0 for dim in dims):
        return False
    axis = 0
    is_open = False
    for i, name in enumerate(concat.inputs):
        values = concat.constants.get(i)
        if values is None:
            is_open = is_open or not copies_axis(makers, name, node.inputs[0], axis)
        elif (values < 0).any():
            return False  # it stays as it is, or fails as it would
        axis += 1 if values is None else values.size
    return is_open


def wrong_optimizers(function: FunctionView) -> list[str]:
    """The optimisers that change results of this function, or fail at it (ONNX Runtime 1.31.1)."""
    nodes = {name: node for node in function.nodes for name in node.outputs}
    makers = {name: node.op for name, node in nodes.items()}

    def reads(node: NodeView, op: str) -> bool:
        return any(makers.get(name) == op for name in node.inputs)

    with_given_zero = {
        node.outputs[0]
        for node in function.nodes
        if node.op == "DequantizeLinear" and len(node.inputs) > 2 and 2 not in node.constants
    }
    outputs = {port.name for port in function.outputs}
    steps = {
        type_.dtype
        for node in function.nodes
        if node.op == "QuantizeLinear"
        for type_ in node.output_types
        if type_ is not None
    }
    quantizes = "QuantizeLinear" in makers.values()
    found = set()
    if len(steps) > 1:  # moves a rounding across others, with the type of the one that it meets
        found.add("QDQPropagationTransformer")
    places = open_sizes(function)
    has_output_dtype = function.opsets.get("", 0) >= 21
    for node in function.nodes:
        if has_output_dtype and says_int8(node):
            found.add("QDQS8ToU8Transformer")  # makes uint8 of it, but not of its output_dtype
        if has_output_dtype and moves_int8(node, nodes):
            found.add("QDQPropagationTransformer")  # writes such an output_dtype
        length = product_of_quantised(node, makers)
        if length not in places and (length == 0 or not isinstance(length, int)):
            found.add("QDQSelectorActionTransformer")  # of no terms, its sums are not written
        if may_multiply_a_vector(node):
            found.add("MatmulTransposeFusion")  # leaves out the transpose of what a vector follows
        if gets_an_open_size(nodes, node) or has_in_body(node, "Reshape", "Concat"):
            found.add("ReshapeFusion")  # makes sizes of {0, -1, …}, which fail on no elements
        if node.op == "Transpose" and quantizes and node.inputs[0] in outputs:
            found |= TRANSPOSE_OPTIMIZERS
        elif node.op.endswith("Pool") and reads(node, "Pad"):
            found.add("Pad_Fusion")  # gives a pool more padding than its kernel takes
        elif node.op == "QuantizeLinear" and reads(node, "Softmax") and has_fine_scale(node):
            found.add("QDQSelectorActionTransformer")  # its integer kernel has 256 steps up to 1
        elif node.op == "QuantizeLinear" and reads(node, "DequantizeLinear"):
            found.add("DoubleQDQPairsRemover")  # leaves the first of two roundings
        elif node.op == "ReduceMean" and reads(node, "Cast"):
            found.add("LayerNormFusionL1")  # takes what is cast, of another type
        elif node.op == "Add" and 0 in node.constants and reads(node, "ReduceMean"):
            found |= NORM_OPTIMIZERS  # take the epsilon from the second operand alone
        elif node.op == "MatMul" and any(
            type_ is not None and type_.shape is not None and 0 in type_.shape
            for type_ in node.output_types
        ):
            found.add("MatMulAddFusion")  # takes a size of 0 for that of its input
        elif has_in_body(node, "Where", "DequantizeLinear") or (
            node.op == "Where" and not with_given_zero.isdisjoint(node.inputs)
        ):
            found.add("QDQSelectorActionTransformer")  # reads zero points where only constants lie
        elif node.op in ("Gather", "Slice"):
            found.add("GatherSliceToSplitFusion")  # notes each place of an axis, if it be 2**31
            found.add("GatherToSliceFusion")  # indices beyond the axis become its end, no error
    return sorted(found)


class Session:
    """A function that ONNX Runtime compiled, with strings, sequences or optionals at its border."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        function: FunctionView,
        lent: list[Any],
        optimized: _Scratch | None,
    ) -> None:
        self.session = session
        self.lent = lent  # the memory of constants: the session reads it where it lies
        self.optimized = optimized
        self.input_names = [port.name for port in function.inputs]
        self.output_names = [port.name for port in function.outputs]
        self.sizes = SizeChecks(function)

    def check(self, inputs: list[Any]) -> None:
        """Unsupported where ONNX Runtime is not asked for sizes."""
        if no := self.sizes.refusal(inputs):
            raise Unsupported(no)

    def serialize(self) -> bytes | None:
        """The model as ONNX Runtime optimised it, with its weights; once."""
        optimized, self.optimized = self.optimized, None
        return None if optimized is None else optimized.take()

    def run(self, inputs: list[Any], outputs: list[Any]) -> None:
        """One run; ONNX Runtime allocates the results."""
        self.check(inputs)
        feeds = dict(zip(self.input_names, inputs, strict=True))
        try:
            outputs[:] = call_within(self.session.run, self.output_names, feeds)
        except UnicodeEncodeError:
            raise Unsupported(
                "a text that is not UTF-8 does not pass its Python interface"
            ) from None
        except ValueError as error:  # no elements, of more bytes than there may be if there were
            raise Unsupported(f"a result is no array of NumPy: {error}") from None


class BoundSession(Session):
    """A function of plain tensors: runs read and write the memory they are given."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        function: FunctionView,
        lent: list[Any],
        optimized: _Scratch | None,
    ) -> None:
        super().__init__(session, function, lent, optimized)
        self.inputs = [(port.name, ONNX_NUMBER[port.dtype]) for port in function.inputs]
        self.outputs = [(port.name, ONNX_NUMBER[port.dtype]) for port in function.outputs]
        self.output_dtypes = [np.dtype(port.dtype) for port in function.outputs]
        ports = [*function.inputs, *function.outputs]
        self.takes_arrays = all(np.dtype(port.dtype).isbuiltin == 1 for port in ports)

    def create_context(self) -> _Binding:
        """A binding, for one run at a time."""
        return _Binding(self.session, len(self.inputs), len(self.outputs))

    def run(self, inputs: list[Any], outputs: list[Any], context: _Binding) -> None:
        """One run. A result whose shape is not known before is memory of ONNX Runtime's."""
        if self.takes_arrays and all(array is None for array in outputs):
            # Sizes that change would be bound anew in each run, which takes longer.
            super().run(inputs, outputs)
            return
        self.check(inputs)
        binding = context.binding
        for i, array in enumerate(inputs):
            at = array.__array_interface__["data"][0], array.shape
            if at != context.inputs[i]:
                name, number = self.inputs[i]
                binding.bind_input(name, *HOST, number, at[1], at[0])
                context.inputs[i] = at
        for i, array in enumerate(outputs):
            if array is None:
                binding.bind_output(self.outputs[i][0], *HOST)
                continue
            at = array.__array_interface__["data"][0], array.shape
            if at != context.outputs[i]:
                name, number = self.outputs[i]
                binding.bind_output(name, *HOST, number, at[1], at[0])
                context.outputs[i] = at
        call_within(self.session.run_with_iobinding, binding)
        if any(array is None for array in outputs):
            results = binding.get_outputs()
            for i, array in enumerate(outputs):
                if array is None:
                    result = _Memory.array(results[i], self.output_dtypes[i])
                    outputs[i] = result if GIVES_AWAY else result.copy()
            # The binding must not hold on to what is given away.
            binding.clear_binding_outputs()
            context.outputs = [None] * len(outputs)


class _Binding:
    """What is bound to a session: the address and shape of each array that its runs were given.

    Binding takes as long as some small models: what is where it was at the last run stays bound.
    """

    def __init__(self, session: onnxruntime.InferenceSession, inputs: int, outputs: int) -> None:
        self.binding = session.io_binding()
        self.inputs: list[tuple[int, tuple[int, ...]] | None] = [None] * inputs
        self.outputs: list[tuple[int, tuple[int, ...]] | None] = [None] * outputs


class _Memory:
    """Memory of an OrtValue, lent to NumPy."""

    def __init__(self, value: Any, dtype: np.dtype) -> None:
        self.value = value
        self.__array_interface__ = {
            "version": 3,
            "shape": tuple(value.shape()),
            "typestr": f"|V{dtype.itemsize}",
            "data": (value.data_ptr(), False),
        }

    @staticmethod
    def array(value: Any, dtype: np.dtype) -> np.ndarray:
        """An array of the value's memory, which lives as long as the array."""
        if 0 in value.shape():
            return np.empty(value.shape(), dtype)
        return np.asarray(_Memory(value, dtype)).view(dtype)


def _session_options(threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = FATAL  # what goes wrong is raised as well
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return options


def open_session(
    model: bytes, options: onnxruntime.SessionOptions, *, disabled_optimizers: Iterable[str] = ()
) -> onnxruntime.InferenceSession:
    """Without its second attempt where the first one fails, which prints on the standard output."""
    return onnxruntime.InferenceSession(
        model,
        options,
        providers=CPU,
        disabled_optimizers=list(disabled_optimizers),
        enable_fallback=False,
    )


class _Answers:
    """What ONNX Runtime said about nodes, by their signatures; for the life of the process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: dict[str, bool | str] = {}

    @staticmethod
    def refusal_of(model: bytes) -> str:
        """Why no session can be made of the model, or ""."""
        options = _session_options(1)
        options.graph_optimization_level = OPTIMIZATION["disable"]
        try:
            open_session(model, options)
        except FAILURES as error:
            return cause_of(error) or "it makes no session of the node"
        return ""

    def node(self, node: NodeView) -> bool | str:
        """The answer about one node by itself."""
        key = node.signature()
        with self.lock:
            if key not in self.known:
                self.known[key] = self.refusal_of(node.to_onnx()) or True
            return self.known[key]

    def graph(self, graph: GraphView, nodes: list[NodeView]) -> dict[str, bool | str]:
        """Answers by name of node. All that is not known yet is asked as one model."""
        # A kernel is chosen by the version of the standard that the whole model declares.
        opset = str(sorted(graph.opsets.items()))
        keys = {node.name: opset + node.signature() for node in nodes}
        with self.lock:
            unknown = {keys[n.name]: n for n in nodes if keys[n.name] not in self.known}
            self.ask(graph, list(unknown.items()))
            return {name: self.known[key] for name, key in keys.items()}

    def ask(self, graph: GraphView, items: list[tuple[str, NodeView]]) -> None:
        """Fills `known`: a session for each of a few refusals and one, or one for each node."""
        for _ in range(16):
            if not items:
                return
            cause = self.refusal_of(graph.to_onnx([node for _, node in items], large="input"))
            if not cause:
                self.known.update((key, True) for key, _ in items)
                return
            culprit = [item for item in items if _names(cause, item[1].name)]
            if len(culprit) != 1:  # it does not say which
                break
            self.known[culprit[0][0]] = cause
            items.remove(culprit[0])
        for key, node in items:
            self.known[key] = self.refusal_of(graph.to_onnx([node], large="input")) or True


def _names(cause: str, name: str) -> bool:
    return bool(re.search(rf"(?<![\w/.:-]){re.escape(name)}(?![\w/.:-])", cause))


@engine(
    NAME,
    version=onnxruntime.__version__,
    dynamic_shapes=True,
    ops=kernels(),
    training=True,
    options=OPTIONS,
    files=[__file__, *(m.__file__ for m in PARTS)],
)
class OnnxRuntimeEngine:
    """ONNX Runtime's CPU provider."""

    def __init__(self) -> None:
        self.answers = _Answers()
        # No WeakSet, which calls Python when a session goes: a Ctrl-C that came while it went would
        # be raised there, and Python drops what is raised in such a call.
        self.spinning: list[weakref.ref[Session]] = []

    def supports(self, node: NodeView) -> bool | str:
        """True, or why not."""
        return refusal(node) or size_refusal(node, ()) or self.answers.node(node)

    def supports_all(self, graph: GraphView) -> list[bool | str]:
        """Answers for all nodes of a graph, from few sessions."""
        nodes = graph.nodes
        wide = side_by_side(nodes)
        known = known_bits(nodes)
        sizes = open_sizes(graph)
        refusals = [
            refusal(node, known) or size_refusal(node, sizes) or no
            for node, no in zip(nodes, wide, strict=True)
        ]
        asked = [node for node, no in zip(nodes, refusals, strict=True) if not no]
        answers = self.answers.graph(graph, asked)
        return [no or answers[node.name] for node, no in zip(nodes, refusals, strict=True)]

    def compile(self, function: FunctionView) -> Session:
        """A session for the function."""
        options, spins = self.settings(function)
        options.graph_optimization_level = OPTIMIZATION[
            _options.choice(NAME, function.options, "graph_optimization_level", OPTIMIZATION, "all")
        ]
        optimized = _scratch(function)
        if optimized is not None:
            options.optimized_model_filepath = str(optimized.path)
        model = function.to_onnx(inline_limit=INLINE_BYTES)
        constants = function.constants(INLINE_BYTES) if EXTERNAL in model else {}
        lent = list(constants.values())
        if constants:
            values = [
                onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
                    array, ONNX_NUMBER[array.dtype.name]
                )
                for array in lent
            ]
            options.add_external_initializers(list(constants), values)
        disabled = function.options.get("disabled_optimizers", SLOW_OPTIMIZERS).split(",")
        disabled += wrong_optimizers(function)

        def start() -> onnxruntime.InferenceSession:
            try:
                return open_session(model, options, disabled_optimizers=disabled)
            except FAILURES as error:
                raise EngineError(cause_of(error)) from error

        try:
            session = start()
        except EngineError as error:
            if optimized is None:
                raise
            # It may have failed at the file: a full disk costs the entry of the cache alone.
            options.optimized_model_filepath = ""
            session = start()
            LOG.warning("%s is not kept: %s", optimized.path, error)
            optimized = None
        return self.keep(make_session(session, function, lent, optimized), spins)

    def load(self, blob: memoryview, function: FunctionView) -> Session:
        """From what ONNX Runtime had optimised before."""
        options, spins = self.settings(function)
        options.graph_optimization_level = OPTIMIZATION["disable"]
        try:
            session = open_session(bytes(blob), options)
        except FAILURES as error:
            raise EngineError(cause_of(error)) from error
        return self.keep(make_session(session, function, [], None), spins)

    def keep(self, session: Session, spins: bool) -> Session:
        """Notes whose threads wait in a loop."""
        if spins:
            self.spinning.append(weakref.ref(session))
        return session

    def settings(self, function: FunctionView) -> tuple[onnxruntime.SessionOptions, bool]:
        """What holds for compiling and for loading, and whether threads without work wait for it in
        a loop when a run has ended. Threads that sleep at once cost the next run their waking
        (0.1 ms, SqueezeNet takes 3.6); of several sessions, whose runs alternate, they would wait
        beside one another, and on processors that are not in the budget beside other engines' runs,
        and take more processors than there are threads to use.
        """
        # The threads of a session are the callers', one for each run, and a pool that all share.
        pool = (function.num_threads - 1) * function.streams
        require_threads(pool)  # where one of several cannot be started, the session waits for ever
        options = _session_options(pool + 1)
        self.spinning = [session for session in self.spinning if session() is not None]
        spins = not self.spinning and thread_budget() >= len(os.sched_getaffinity(0))
        if spins:
            options.add_session_config_entry("session.intra_op.spin_duration_us", str(SPIN_US))
        else:
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        activations = _options.choice(
            NAME, function.options, "activations", ACCURACY_LEVELS, "float"
        )
        options.add_session_config_entry(
            "session.qdq_matmulnbits_accuracy_level", ACCURACY_LEVELS[activations]
        )
        options.enable_cpu_mem_arena = _options.flag(
            NAME, function.options, "enable_cpu_mem_arena", True
        )
        options.enable_mem_pattern = _options.flag(
            NAME, function.options, "enable_mem_pattern", True
        )
        return options, spins


def make_session(
    session: onnxruntime.InferenceSession,
    function: FunctionView,
    lent: list[Any],
    optimized: _Scratch | None,
) -> Session:
    """Of the kind that the function's parameters allow."""
    kinds = [port.type for port in [*function.inputs, *function.outputs]]
    bound = all(kind.kind == "tensor" and kind.dtype != "string" for kind in kinds)
    return (BoundSession if bound else Session)(session, function, lent, optimized)


def _scratch(function: FunctionView) -> _Scratch | None:
    """Where there is a cache on disk, which will ask for the optimised model."""
    if not function.records_dir:
        return None
    try:
        return _Scratch(Path(function.records_dir))
    except OSError as error:
        LOG.warning("a model is not kept in %s: %s", function.records_dir, error)
        return None


class _Scratch:
    """A file that ONNX Runtime writes a model to and that is read once."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True)
        self.path = Path(self.folder.name) / "optimized.onnx"

    def take(self) -> bytes | None:
        """Its content; None where ONNX Runtime wrote none, or the model is over 2 GB."""
        with self.folder:
            parts = list(self.path.parent.iterdir())
            return self.path.read_bytes() if parts == [self.path] else None
