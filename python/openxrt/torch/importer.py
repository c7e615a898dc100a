# SPDX-License-Identifier: Apache-2.0
"""From torch.fx graphs of ATen ops to openxrt.Graph, one lowering per op."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from .._core import Graph, InternalError, Unsupported
from . import aten  # noqa: F401  registers the lowerings
from .aten.complex_numbers import Complex, constant, from_pair, real_dtype, to_pair
from .aten.decompositions import export_decompositions
from .builder import DTYPE_NAMES, Builder, Value, dims_of
from .draws import Draws
from .registry import find, find_complex

_P = ParamSpec("_P")
_R = TypeVar("_R")

CPU = torch.device("cpu")


@dataclass
class Imported:
    """A graph, and how its inputs and outputs are those of the PyTorch program."""

    graph: Graph
    # Per input of the graph: the position of the program's argument in their flat order, or the
    # name of a parameter or buffer in the state dict. Arguments that are no tensors or symbolic
    # integers are built into the graph.
    inputs: list[int | str] = field(default_factory=list)
    # Per result of the program, in flat order.
    results: list[Result] = field(default_factory=list)
    # Graph input → graph output that is its new value.
    aliases: dict[str, str] = field(default_factory=dict)
    # Makes of the program's arguments what results with a `view` are.
    views: Callable[..., Sequence[torch.Tensor]] | None = None
    # Places in `inputs` of complex tensors, which the graph takes as torch.view_as_real() does.
    complex_inputs: list[int] = field(default_factory=list)
    # Per input where it lies; the CPU for a symbolic integer.
    input_devices: list[torch.device] = field(default_factory=list)
    # What PyTorch draws for each run: inputs of the graph behind all others.
    draws: Draws = field(default_factory=Draws)
    # Where inputs, constants and results lie, all together.
    devices: set[torch.device] = field(default_factory=set)


@dataclass(frozen=True)
class Result:
    """One result: an output of the graph, or (output −1) an argument of the program, a view of
    arguments, or a value known while tracing."""

    output: int
    known: object = None
    argument: int = -1
    view: int = -1  # the place in what Imported.views makes
    is_number: bool = False  # a symbolic integer: a Python number and no tensor
    is_complex: bool = False  # the output's last dimension holds real and imaginary part
    device: torch.device = CPU  # where PyTorch's result lies
    # The output's dimensions in PyTorch's order, where it lies in memory in another one.
    order: tuple[int, ...] | None = None


def where(node: torch.fx.Node) -> str:
    """The user's source line that made the node, as " (model.py:12: x.foo())", or ""."""
    return place_in(node.meta.get("stack_trace") or node.stack_trace or "")


def place_in(trace: str) -> str:
    """The last line of a traceback that is not of generated code, as where() has it."""
    lines = [line.strip() for line in trace.strip().splitlines()]
    for i in range(len(lines) - 1, -1, -1):
        path, _, rest = lines[i].removeprefix("File ").partition(", line ")
        file = path.strip('"')
        if not lines[i].startswith("File ") or file.startswith("<"):
            continue
        number = rest.split(",")[0]
        code = f": {lines[i + 1]}" if i + 1 < len(lines) and lines[i + 1] else ""
        return f" ({file}:{number}{code})"
    return ""


def op_name(node: torch.fx.Node) -> str:
    """The name a lowering is registered under, e.g. "aten.add.Tensor" or "_operator.mul"."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    if isinstance(target, str):
        return target
    module = getattr(target, "__module__", "") or ""
    name = getattr(target, "__name__", str(target))
    module = "torch" if name.startswith("sym_") else module.removeprefix("torch.")
    return f"{module}.{name}"


def bodies(node: torch.fx.Node) -> list[torch.fx.GraphModule]:
    """The graphs that a higher-order op (cond, while_loop, …) gets as arguments."""
    found = []
    for argument in node.all_input_nodes:
        if argument.op == "get_attr" and argument.graph.owning_module is not None:
            value = operator.attrgetter(str(argument.target))(argument.graph.owning_module)
            if isinstance(value, torch.fx.GraphModule):
                found.append(value)
    return found


def _missing_of(node: torch.fx.Node, around: str = "") -> dict[str, str]:
    if node.op != "call_function" or node.target is operator.getitem:
        return {}
    name, place = op_name(node), where(node) or around
    is_known = find(name) is not None or find_complex(name) is not None
    lines = {} if is_known else {name: f"{name}{place}"}
    for body in bodies(node):
        lines = missing_ops(body.graph, place) | lines
    return lines


def missing_ops(graph: torch.fx.Graph, around: str = "") -> dict[str, str]:
    """The ops of the graph, and of graphs within, that have no lowering; each with the source line
    that needs it, or that of what is `around` where it has none."""
    lines: dict[str, str] = {}
    for node in graph.nodes:
        lines = _missing_of(node, around) | lines
    return lines


def missing_nodes(graph: torch.fx.Graph) -> set[str]:
    """Names of the nodes whose op, or an op of whose bodies, has no lowering."""
    return {node.name for node in graph.nodes if _missing_of(node)}


def _shape_of(tensor: torch.Tensor) -> tuple[int | torch.SymInt, ...]:
    dims: list[int | torch.SymInt] = []
    for size in tensor.shape:
        if isinstance(size, torch.SymInt):
            number = size.node.maybe_as_int()
            dims.append(size if number is None else number)
        else:
            dims.append(size)
    return tuple(dims)


def _device_of(sample: object) -> torch.device:
    return sample.device if isinstance(sample, torch.Tensor) else CPU


def _holds_complex(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_complex(item) for item in value)
    return isinstance(value, Complex)


class _Importer:
    def __init__(
        self, module: torch.fx.GraphModule, builder: Builder, draws_outside: bool = False
    ) -> None:
        self.module = module
        self.imported = Imported(builder.graph)
        if draws_outside:
            builder.draws = self.imported.draws
        self.builder = builder
        self.values: dict[torch.fx.Node, object] = {}
        self.outputs = 0  # of the graph, so far
        self.unmade = builder.unmade  # inputs and constants

    # --- inputs ---------------------------------------------------------------------------------

    def add_input(self, name: str, sample: object) -> Value | object:
        """A graph input for a tensor or a symbolic integer; anything else is built in."""
        graph = self.imported.graph
        if isinstance(sample, torch.Tensor):
            self.imported.devices.add(sample.device)
            if sample.dtype.is_complex:
                shape = (*_shape_of(sample), 2)
                dtype = real_dtype(sample.dtype)
                key = graph.add_input(name, DTYPE_NAMES[dtype], dims_of(shape))
                self.unmade.add(key)
                return from_pair(self.builder, Value(key, dtype, shape))
            if sample.dtype not in DTYPE_NAMES:
                raise Unsupported(f"input '{name}': dtype {sample.dtype} has no counterpart")
            return self.builder.input(name, sample.dtype, _shape_of(sample))
        if isinstance(sample, torch.SymInt):
            return self.builder.input(name, torch.int64, ())
        return sample

    def add_argument(self, node: torch.fx.Node, sample: object, position: int) -> None:
        self.builder.name = node.name
        self.imported.draws.note_argument(position, sample)
        self.values[node] = self.add_input(node.name, sample)
        if isinstance(self.values[node], Complex):
            self.imported.complex_inputs.append(len(self.imported.inputs))
        if isinstance(self.values[node], (Value, Complex)):
            self.imported.inputs.append(position)
            self.imported.input_devices.append(_device_of(sample))

    def constant(self, tensor: torch.Tensor, name: str) -> Value | Complex:
        """A tensor that is built in."""
        self.imported.devices.add(tensor.device)
        is_complex = tensor.dtype.is_complex
        return (
            constant(self.builder, tensor, name)
            if is_complex
            else self.builder.tensor(tensor, name)
        )

    # --- nodes ----------------------------------------------------------------------------------

    def lower(self, node: torch.fx.Node) -> None:
        if node.op == "get_attr":
            value = operator.attrgetter(str(node.target))(self.module)
            is_tensor = isinstance(value, torch.Tensor)
            self.values[node] = self.constant(value, node.name) if is_tensor else value
            return
        if node.target is operator.getitem:
            source, index = node.args
            self.values[node] = self.values[source][index]  # type: ignore[index]
            return
        name = op_name(node)
        outputs = self.expected(node)
        is_complex = any(out is not None and out[0].is_complex for out in outputs) or any(
            _holds_complex(self.values[source]) for source in node.all_input_nodes
        )
        function = find_complex(name) if is_complex else find(name)
        if function is None:
            kind = "no lowering on complex numbers" if is_complex else "no lowering"
            refusal = Unsupported(f"{kind} for {name}{where(node)}")
            refusal.node = node.name  # type: ignore[attr-defined]
            raise refusal
        self.builder.name = node.name
        self.builder.node = node
        self.builder.values = self.values
        self.builder.out = outputs
        self.builder.used = self.used_outputs(node)
        args = torch.fx.node.map_arg(node.args, lambda n: self.values[n])
        kwargs = torch.fx.node.map_arg(node.kwargs, lambda n: self.values[n])
        try:
            result = function(self.builder, *args, **kwargs)
        except Unsupported as error:
            refusal = type(error)(f"{name}{where(node)}: {error}")
            refusal.node = node.name  # type: ignore[attr-defined]  read by fallback.py
            raise refusal from error
        if isinstance(result, (list, tuple)):
            self.values[node] = [
                self.checked(name, node, value, outputs[i] if i < len(outputs) else None)
                for i, value in enumerate(result)
            ]
        else:
            self.values[node] = self.checked(name, node, result, outputs[0] if outputs else None)

    @staticmethod
    def used_outputs(node: torch.fx.Node) -> set[int]:
        used = set()
        for user in node.users:
            if user.target is operator.getitem and isinstance(user.args[1], int):
                if user.users:
                    used.add(user.args[1])
            else:
                used.add(0)
        return used

    @staticmethod
    def expected(
        node: torch.fx.Node,
    ) -> list[tuple[torch.dtype, tuple[int | torch.SymInt, ...]] | None]:
        """Dtype and shape of every output, from what tracing recorded."""
        sample = node.meta.get("val")
        samples = sample if isinstance(sample, (list, tuple)) else [sample]
        return [(s.dtype, _shape_of(s)) if isinstance(s, torch.Tensor) else None for s in samples]

    def checked(
        self,
        name: str,
        node: torch.fx.Node,
        value: object,
        expected: tuple[torch.dtype, tuple[int | torch.SymInt, ...]] | None,
    ) -> object:
        if not isinstance(value, (Value, Complex)) or expected is None:
            return value
        dtype, shape = expected
        if value.dtype != dtype:
            raise InternalError(
                f"the lowering of {name}{where(node)} gives {value.dtype}, PyTorch gives {dtype}"
            )
        if isinstance(value, Complex):
            return Complex(*[Value(p.id, p.dtype, shape) for p in (value.re, value.im)])
        return Value(value.id, dtype, shape)

    # --- outputs --------------------------------------------------------------------------------

    def add_output(self, value: Value, name: str) -> str:
        """Makes `value` an output; one that no node makes, or an output already, gets a node."""
        graph = self.imported.graph
        key = value.id
        if key in self.unmade:
            (key,) = graph.add_node("Identity", [value.id], [name])
        self.unmade.add(key)
        graph.add_output(key)
        self.outputs += 1
        return graph.name_of(key)

    def add_result(self, result: object, name: str, laid_out: bool = False) -> None:
        is_node = isinstance(result, torch.fx.Node)
        value = self.values[result] if is_node else result
        sample = result.meta.get("val") if is_node else None  # type: ignore[attr-defined]
        device = _device_of(sample)
        if isinstance(value, (Value, Complex)):
            self.imported.devices.add(device)
        if isinstance(value, Complex):
            self.builder.name = name
            self.add_output(to_pair(self.builder, value), name)
            self.imported.results.append(Result(self.outputs - 1, is_complex=True, device=device))
        elif isinstance(value, Value):
            order = _memory_order(sample) if laid_out else None
            places = None
            if order is not None:
                value = self.builder.transpose(value, order)
                places = tuple(order.index(dim) for dim in range(len(order)))
            self.add_output(value, name)
            is_number = sample is not None and not isinstance(sample, torch.Tensor)
            self.imported.results.append(
                Result(self.outputs - 1, is_number=is_number, device=device, order=places)
            )
        else:
            self.imported.results.append(Result(-1, value))

    def run(self, stop: Callable[[torch.fx.Node], None]) -> Imported:
        # Compilers are called while PyTorch traces with fake tensors; constants are real.
        with unset_fake_temporarily():
            return self.lower_all(stop)

    def lower_all(self, stop: Callable[[torch.fx.Node], None]) -> Imported:
        missing = missing_ops(self.module.graph)
        if missing:
            raise Unsupported("no lowering for\n  " + "\n  ".join(missing.values()))
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                stop(node)
            else:
                self.lower(node)
        self.imported.graph.finish()
        return self.imported


def _memory_order(sample: object) -> list[int] | None:
    """A tensor's dimensions from the outermost to the innermost, where it is dense in memory and
    not row-major (channels last, for example)."""
    if not isinstance(sample, torch.Tensor) or sample.layout != torch.strided:
        return None
    sizes, strides = (
        [n.node.hint if isinstance(n, torch.SymInt) else n for n in numbers]
        for numbers in (sample.shape, sample.stride())
    )
    if None in sizes or None in strides or 0 in sizes:
        return None
    order = sorted(range(len(sizes)), key=lambda dim: (-strides[dim], dim))
    expected = 1
    for dim in reversed(order):
        if sizes[dim] != 1 and strides[dim] != expected:
            return None
        expected *= sizes[dim]
    # Dimensions of size 1 may have any stride.
    wide = [dim for dim in order if sizes[dim] != 1]
    return None if wide == sorted(wide) else order


def _is_token(node: torch.fx.Node) -> bool:
    """Whether an input stands for nothing but the order of effects; PyTorch passes None."""
    return bool(node.users) and all(
        op_name(user) == "ops.higher_order.with_effects" and user.args[0] is node
        for user in node.users
    )


def inline(b: Builder, module: torch.fx.GraphModule, arguments: Sequence[object]) -> list[object]:
    """Adds the nodes of a graph of ATen ops to the builder's; its results, flat.

    Numbers stand for the symbolic ones that the graph was traced with.
    """
    importer = _Importer(module, b)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node, argument in zip(placeholders, arguments, strict=True):
        importer.values[node] = argument
    results: object = None
    for node in module.graph.nodes:
        if node.op == "output":
            results = torch.fx.node.map_arg(node.args[0], lambda n: importer.values[n])
        elif node.op != "placeholder":
            importer.lower(node)
    return list(results) if isinstance(results, (list, tuple)) else [results]


def one_at_a_time(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function that reads what PyTorch is tracing: torch.export and torch.compile keep that in
    global variables, and fake tensors in modes that threads share."""

    @functools.wraps(function)
    def alone(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with torch._dynamo.convert_frame.compile_lock:
            return function(*args, **kwargs)

    return alone


def _has_symbols(samples: Sequence[object]) -> bool:
    return any(
        isinstance(n, torch.SymInt)
        for x in samples
        for n in (x.shape if isinstance(x, torch.Tensor) else [x])
    )


def _views(results: Sequence[object]) -> list[torch.fx.Node]:
    """Those of the results that are views of the graph's arguments."""
    of_arguments: dict[torch.fx.Node, bool] = {}

    def holds(node: torch.fx.Node) -> bool:
        if node not in of_arguments:
            target = node.target
            is_view = isinstance(target, torch._ops.OpOverload) and target.is_view
            is_tensor = isinstance(node.meta.get("val"), (torch.Tensor, list, tuple))
            may_be = node.op == "placeholder" or (
                node.op == "call_function"
                and (is_view or target is operator.getitem or not is_tensor)
            )
            of_arguments[node] = may_be and all(holds(source) for source in node.all_input_nodes)
        return of_arguments[node]

    found = [
        result
        for result in results
        if isinstance(result, torch.fx.Node)
        and result.op != "placeholder"
        and isinstance(result.meta.get("val"), torch.Tensor)
        and not result.meta["val"].is_complex()
        and holds(result)
    ]
    return list(dict.fromkeys(found))


def _extracted(
    module: torch.fx.GraphModule, results: Sequence[torch.fx.Node]
) -> torch.fx.GraphModule:
    """A module with the same arguments that gives these nodes and no more."""
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in module.graph.nodes:
        if node.op != "output":
            copies[node] = graph.node_copy(node, lambda source: copies[source])
    graph.output([copies[node] for node in results])
    graph.eliminate_dead_code()
    return torch.fx.GraphModule(module, graph)


@one_at_a_time
def import_fx(
    module: torch.fx.GraphModule,
    samples: Sequence[object],
    *,
    constants: Mapping[int, torch.Tensor] | None = None,
    keep_views: bool = False,
    laid_out: int = 0,
    draws_outside: bool = False,
    name: str = "graph",
) -> Imported:
    """An FX graph of ATen ops; `samples` are its inputs (fake tensors will do), in order.

    The first `laid_out` results lie in memory as PyTorch's would.

    Arguments at the positions in `constants` are built into the graph with these values. Results
    that are views of arguments are such with `keep_views`, and wherever sizes are symbols. With
    `draws_outside` random numbers are inputs where they can be (draws.py).
    """
    importer = _Importer(module, Builder(Graph(name)), draws_outside)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    with unset_fake_temporarily():  # complex inputs are taken apart by nodes with constants
        for position, (node, sample) in enumerate(zip(placeholders, samples, strict=True)):
            if _is_token(node):
                importer.values[node] = None
            elif constants is not None and position in constants:
                importer.values[node] = importer.constant(constants[position], node.name)
            else:
                importer.add_argument(node, node.meta.get("val", sample), position)

    def finish(node: torch.fx.Node) -> None:
        results = node.args[0]
        flat = results if isinstance(results, (list, tuple)) else [results]
        # What comes in and goes out (weights that the backward graph reads) is not copied; a graph
        # of nothing else keeps its nodes, for it has to have an output.
        known = {placeholder: position for position, placeholder in enumerate(placeholders)}
        # Where sizes are symbols, PyTorch finds the place of a view in its argument's memory by the
        # view that it is handed: it has to be one.
        views = _views(flat) if keep_views or _has_symbols(samples) else []
        viewed = {node: place for place, node in enumerate(views)}
        passes = any(result not in known and result not in viewed for result in flat)
        added: dict[torch.fx.Node, Result] = {}
        for i, result in enumerate(flat):
            if passes and result in known:
                importer.imported.results.append(Result(-1, argument=known[result]))
            elif result in viewed and (passes or importer.outputs):
                importer.imported.results.append(Result(-1, view=viewed[result]))
            elif result in added:  # given out and saved: one tensor, whose changes PyTorch counts
                importer.imported.results.append(added[result])
            else:
                importer.add_result(result, f"result_{i}", laid_out=i < laid_out)
                if result in viewed:  # the graph has to have an output
                    importer.imported.results[-1] = Result(-1, view=viewed[result])
                elif isinstance(result, torch.fx.Node):
                    added[result] = importer.imported.results[-1]
        if views:
            importer.imported.views = _extracted(module, views)

    return importer.run(finish)


@one_at_a_time
def import_exported(
    program: ExportedProgram,
    *,
    state_as_inputs: bool = False,
    decompose: bool = True,
    draws_outside: bool = False,
    name: str = "graph",
) -> Imported:
    """An ExportedProgram. Parameters and buffers are constants that share PyTorch's memory, or,
    with `state_as_inputs`, inputs; buffers that the program writes always are inputs, aliased to
    the outputs that hold their new values. A program that consists of Core ATen ops already needs
    no `decompose`. With `draws_outside` random numbers are inputs where they can be (draws.py).

    Raises:
        Unsupported: names every op without a lowering, with the source line that needs it.
    """
    program = program.run_decompositions(export_decompositions()) if decompose else program
    module = program.graph_module
    signature = program.graph_signature
    importer = _Importer(module, Builder(Graph(name)), draws_outside)
    written = set(signature.buffers_to_mutate.values())
    inputs_of: dict[str, str] = {}  # name in the state dict → graph input
    arguments: dict[str, str] = {}  # user input → graph input
    position = 0
    nodes = {node.name: node for node in module.graph.nodes if node.op == "placeholder"}
    for spec in signature.input_specs:
        node = nodes[spec.arg.name]
        if spec.kind == InputKind.USER_INPUT:
            sample = node.meta.get("val", getattr(spec.arg, "value", None))
            importer.add_argument(node, sample, position)
            position += 1
            value = importer.values[node]
            if isinstance(value, Value):
                arguments[spec.arg.name] = importer.imported.graph.name_of(value.id)
            continue
        if spec.kind == InputKind.TOKEN:
            importer.values[node] = None
            continue
        if spec.kind not in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            raise Unsupported(f"an input of kind {spec.kind.name} ('{spec.arg.name}')")
        target = str(spec.target)
        tensor = _state(program, target)
        is_input = spec.kind != InputKind.CONSTANT_TENSOR and (state_as_inputs or target in written)
        if is_input:
            value = importer.add_input(target, tensor)
            if not isinstance(value, Value):
                raise Unsupported(f"'{target}' is complex and an input of the graph")
            importer.imported.inputs.append(target)
            importer.imported.input_devices.append(tensor.device)
            inputs_of[target] = importer.imported.graph.name_of(value.id)
        else:
            value = importer.constant(tensor, target)
        importer.values[node] = value

    def finish(node: torch.fx.Node) -> None:
        results = node.args[0]
        assert isinstance(results, (list, tuple))
        for i, (spec, result) in enumerate(zip(signature.output_specs, results, strict=True)):
            if spec.kind == OutputKind.USER_OUTPUT:
                importer.add_result(result, f"result_{i}")
            elif spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION):
                value = importer.values[result]
                if not isinstance(value, Value):
                    raise Unsupported(f"'{spec.target}' is complex and written by the program")
                output = importer.add_output(value, f"new_{spec.target}")
                known: Mapping[str, str] = (
                    inputs_of if spec.kind == OutputKind.BUFFER_MUTATION else arguments
                )
                importer.imported.aliases[known[str(spec.target)]] = output
            elif spec.kind != OutputKind.TOKEN:
                raise Unsupported(f"an output of kind {spec.kind.name}")

    return importer.run(finish)


def _state(program: ExportedProgram, name: str) -> torch.Tensor:
    if name in program.state_dict:
        return program.state_dict[name]
    value = program.constants.get(name)
    if not isinstance(value, torch.Tensor):
        raise Unsupported(f"'{name}' is not a tensor")
    return value
