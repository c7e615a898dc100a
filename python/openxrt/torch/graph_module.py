# SPDX-License-Identifier: Apache-2.0
"""A module or function as a traced graph that runs in PyTorch, or becomes TensorRT layers or Relax.

>>> graph = GraphModule(model, images)
>>> graph(images, verbose=True)              # PyTorch, node by node, each printed
>>> with trt_network(network):               # layers of the user's own network
...     logits = graph(network.add_input("images", trt.float32, (1, 3, 224, 224)))
>>> with tvm_network():                      # Relax, in the function that is open
...     logits = graph(variable)
"""

from __future__ import annotations

import functools
import inspect
import operator
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument
from torch.utils import _pytree as pytree

from .._core import InvalidArgument, Unsupported
from .aten.decompositions import mend
from .handlers.context import Context, current_context, has_trt_tensor, has_tvm_tensor
from .handlers.registry import Handler, find_handler, qualified_name, registered_handlers
from .importer import _shape_of, where
from .registry import lowered_ops
from .tracing import CANNOT_TRACE


class _Function(torch.nn.Module):
    """A function as a module, which is what torch.export takes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        if isinstance(function, types.FunctionType):
            # Tracing notes the source lines of functions of this name only.
            code = function.__code__.replace(co_name="forward")
            named = types.FunctionType(
                code,
                function.__globals__,
                function.__name__,
                function.__defaults__,
                function.__closure__,
            )
            named.__kwdefaults__ = function.__kwdefaults__
            function = named
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


@dataclass(frozen=True)
class TensorSpec:
    """Dtype and shape of an input or output, as they were traced; a dimension may be a symbol."""

    name: str
    dtype: torch.dtype
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{self.name}: {dtype}[{', '.join(map(str, self.shape))}]"


def _spec_of(name: str, sample: torch.Tensor) -> TensorSpec:
    shape = tuple(size if isinstance(size, int) else str(size) for size in _shape_of(sample))
    return TensorSpec(name, sample.dtype, shape)


def _argument_names(net: torch.nn.Module, spec: pytree.TreeSpec) -> list[str]:
    """Per flat argument the name that the module's or function's signature gives it; "" for a part
    of a nested one."""
    function = net.function if isinstance(net, _Function) else getattr(net, "owner", net).forward
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # of a builtin, which has no signature
        parameters = []
    named = [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
    positional, keywords = spec.children()
    names = []
    for i, child in enumerate(positional.children()):
        is_plain = child.is_leaf() and i < len(named)
        names += [named[i] if is_plain else ""] * child.num_leaves
    for key, child in zip(keywords.context, keywords.children(), strict=True):
        names += [key if child.is_leaf() else ""] * child.num_leaves
    return names


def _brief(value: Any) -> str:
    """A value as verbose mode prints it."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_brief(v) for v in value)}]"
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (int, float, bool, str)) or value is None:
        return repr(value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):  # an ITensor
        return f"{getattr(value.dtype, 'name', value.dtype)}{list(value.shape)}"
    if hasattr(value, "ty"):  # an expression of Relax
        return str(value.ty).replace("\n", " ")
    return str(value)


@functools.lru_cache(maxsize=4)
def _decompositions(kept: tuple[str, ...]) -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions into Core ATen, but for the ops of these names."""
    table = dict(torch.export.default_decompositions().items())
    mend(table)
    for op in _kept_ops(kept):
        table.pop(op, None)
    return table


def _kept_ops(names: Sequence[str]) -> set[Any]:
    """The overloads that have a handler or a lowering: they are not decomposed."""
    kept: set[Any] = set()
    for name in names:
        namespace, _, rest = name.replace("::", ".", 1).partition(".")
        base, _, overload = rest.partition(".")
        packet = getattr(getattr(torch.ops, namespace, None), base, None)
        if not isinstance(packet, torch._ops.OpOverloadPacket):
            continue
        overloads = [overload] if overload else packet.overloads()
        kept.update(getattr(packet, o) for o in overloads if o in packet.overloads())
    return kept


class _Program:
    """The graph in ops that are handled, for one set of registered handlers."""

    def __init__(self, exported: ExportedProgram, handlers: frozenset[str]) -> None:
        names = (*(name for name in lowered_ops() if name.startswith("aten.")), *sorted(handlers))
        self.exported = exported.run_decompositions(_decompositions(names))
        self.module = self.exported.graph_module
        self.nodes = list(self.module.graph.nodes)


class GraphModule:
    """A module or function, traced once by torch.export.

    Called with PyTorch's tensors it runs node by node in PyTorch, with gradients. Called inside of
    `trt_network(network)` with TensorRT's ITensors it adds layers to that network and gives their
    outputs; inside of `tvm_network()` with Relax expressions it emits bindings. Nodes that no
    tensor of the network reaches are evaluated in PyTorch while it is called. It may be called any
    number of times, also in one network.

    Args:
        net: a torch.nn.Module, in the mode (train or eval) that it is to be traced in, or a
            function. Parameters and buffers are shared with it: later changes are seen by the next
            call.
        inputs: example arguments, nested lists, tuples and dicts too.
        keywords: example keyword arguments.
        dynamic_shapes: as torch.export.export takes it; without it shapes are those of `inputs`.

    Raises:
        Unsupported: it cannot be traced whole, for example because data decide its control flow.
    """

    def __init__(
        self,
        net: torch.nn.Module | Callable[..., Any],
        *inputs: Any,
        keywords: Mapping[str, Any] | None = None,
        dynamic_shapes: Any = None,
    ) -> None:
        self.net = net if isinstance(net, torch.nn.Module) else _Function(net)
        name = getattr(net, "__name__", type(getattr(net, "owner", net)).__name__)
        try:
            with torch.no_grad():
                self.exported = torch.export.export(
                    self.net,
                    tuple(inputs),
                    dict(keywords or {}),
                    dynamic_shapes=dynamic_shapes,
                    strict=False,
                )
        except CANNOT_TRACE as error:
            raise Unsupported(f"{name} cannot be traced whole: {error}") from error
        self.name = name
        # The example arguments in flat order; the tensors among them without their memory.
        self.example_leaves = [
            leaf.detach().to("meta") if isinstance(leaf, torch.Tensor) else leaf
            for leaf in pytree.tree_leaves((tuple(inputs), dict(keywords or {})))
        ]
        self._programs: dict[frozenset[str], _Program] = {}
        self._lock = threading.Lock()

    # --- what it looks like ---------------------------------------------------------------------

    @property
    def graph(self) -> torch.fx.Graph:
        """The graph of ATen ops, as the next call runs it."""
        return self._program().module.graph

    @property
    def inputs(self) -> list[TensorSpec]:
        """The tensors it is called with, in flat order, named after the arguments."""
        exported = self.exported
        nodes = {n.name: n for n in exported.graph.nodes if n.op == "placeholder"}
        samples = [
            (name, nodes[name].meta.get("val"))
            for name in exported.graph_signature.user_inputs
            if isinstance(name, str) and name in nodes
        ]
        names = _argument_names(self.net, exported.call_spec.in_spec)
        return [
            _spec_of(names[i] or name, val)
            for i, (name, val) in enumerate(samples)
            if isinstance(val, torch.Tensor)
        ]

    @property
    def results(self) -> list[tuple[bool, Any]]:
        """Per flat result whether it is a tensor, and else its value: None, or a number."""
        return [
            (isinstance(spec.arg, TensorArgument), getattr(spec.arg, "value", None))
            for spec in self.exported.graph_signature.output_specs
            if spec.kind == OutputKind.USER_OUTPUT
        ]

    @property
    def code(self) -> str:
        """The graph as Python text."""
        return self._program().module.code

    def __str__(self) -> str:
        return f"GraphModule({self.name})\n{self.graph}"

    # --- calls ----------------------------------------------------------------------------------

    def __call__(self, *args: Any, verbose: bool = False, **kwargs: Any) -> Any:
        """The results, in the structure that the traced module gives.

        With `verbose` each node is printed: its name, its op, its arguments and results, and the
        source line that made it.

        Raises:
            InvalidArgument: other arguments than those traced.
            Unsupported: a node has no handler in this mode, or it is refused; names the node and
                the source line.
        """
        flat, spec = pytree.tree_flatten((args, kwargs))
        if spec != self.exported.call_spec.in_spec:
            raise InvalidArgument(
                f"{self.name} was traced with arguments of the structure "
                f"{self.exported.call_spec.in_spec}, not {spec}"
            )
        context = current_context()
        if has_trt_tensor(flat) and not context.is_tensorrt:
            raise InvalidArgument(
                f"{self.name} is called with TensorRT's tensors outside of "
                "`with trt_network(network):`"
            )
        if has_tvm_tensor(flat) and not context.is_tvm:
            raise InvalidArgument(
                f"{self.name} is called with Relax expressions outside of `with tvm_network():`"
            )
        run = _Run(self, self._program(), context, verbose)
        return pytree.tree_unflatten(run.run(flat), self.exported.call_spec.out_spec)

    def _program(self) -> _Program:
        handlers = frozenset(registered_handlers())
        with self._lock:
            program = self._programs.get(handlers)
            if program is None:
                program = self._programs[handlers] = _Program(self.exported, handlers)
            return program


class _Run:
    """One call: the values so far."""

    def __init__(
        self, owner: GraphModule, program: _Program, context: Context, verbose: bool
    ) -> None:
        self.owner = owner
        self.program = program
        self.context = context
        self.verbose = verbose
        self.values: dict[torch.fx.Node, Any] = {}
        self.prefix = context.unique_name(owner.name) if not context.is_torch else owner.name

    def run(self, flat: list[Any]) -> list[Any]:
        in_network = any(self.context.is_tensor(value) for value in flat)
        self.bind_inputs(flat)
        if in_network:
            self.check_handlers()
        results: list[Any] = []
        for node in self.program.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                results = self.outputs(node, flat, in_network)
            else:
                self.values[node] = self.evaluate(node)
        return results

    # --- inputs ---------------------------------------------------------------------------------

    def bind_inputs(self, flat: list[Any]) -> None:
        exported = self.program.exported
        nodes = {node.name: node for node in self.program.nodes if node.op == "placeholder"}
        arguments = iter(flat)
        for spec in exported.graph_signature.input_specs:
            node = nodes[spec.arg.name]
            if spec.kind == InputKind.USER_INPUT:
                value = next(arguments)
                self.check_input(node, value, getattr(spec.arg, "value", None))
            else:
                value = self.state(str(spec.target))
            self.values[node] = value

    def state(self, name: str) -> Any:
        """A parameter, a buffer or a constant as it is now."""
        try:
            return operator.attrgetter(name)(self.owner.net)
        except AttributeError:
            exported = self.program.exported
            if name in exported.constants:
                return exported.constants[name]
            return exported.state_dict[name]

    def check_input(self, node: torch.fx.Node, value: Any, known: Any) -> None:
        sample = node.meta.get("val", known)
        if not isinstance(sample, torch.Tensor):
            if not isinstance(sample, torch.SymInt) and value != sample:
                raise InvalidArgument(
                    f"{self.owner.name}: {node.name} is {value!r} and was {sample!r} when traced: "
                    "it is built into the graph"
                )
            return
        spec = _spec_of(node.name, sample)
        if isinstance(value, torch.Tensor):
            dtype, shape = value.dtype, list(value.shape)
        elif self.context.is_tensor(value):
            dtype, shape = self.describe(value)
        else:
            raise InvalidArgument(
                f"{self.owner.name}: {node.name} is a {type(value).__name__}; {spec} is wanted"
            )
        fits = len(shape) == len(spec.shape) and all(
            not isinstance(wanted, int) or wanted == size
            for wanted, size in zip(spec.shape, shape, strict=True)
        )
        if dtype != spec.dtype or not fits:
            given = f"{str(dtype).removeprefix('torch.')}{shape}"
            raise InvalidArgument(
                f"{self.owner.name}: {node.name} is {given} and was traced as {spec}; sizes that "
                "may differ are named in dynamic_shapes"
            )

    def describe(self, value: Any) -> tuple[torch.dtype, list[int]]:
        """Dtype and shape of a tensor of the network."""
        if self.context.is_tensorrt:
            from .handlers import tensorrt

            return tensorrt.describe(self.context, value)  # type: ignore[arg-type]
        from .handlers import tvm

        return tvm.describe(value)

    # --- nodes ----------------------------------------------------------------------------------

    def check_handlers(self) -> None:
        """Before anything is added to the network: each node that it reaches must be handled."""
        from .handlers.fragment import has_lowering

        reached = {n for n, value in self.values.items() if self.context.is_tensor(value)}
        missing: dict[str, str] = {}
        for node in self.program.nodes:
            if node.op != "call_function" or not reached.intersection(node.all_input_nodes):
                continue
            reached.add(node)
            if node.target is operator.getitem or has_lowering(node):
                continue
            if find_handler(node.target) is None:
                name = qualified_name(node.target)[1]
                missing.setdefault(name, f"{name}{where(node)}")
        if missing:
            mode = "TensorRT" if self.context.is_tensorrt else "TVM"
            raise Unsupported(
                f"{self.owner.name}: no handler in {mode}'s mode for\n  "
                + "\n  ".join(missing.values())
                + "\nregister one with @register_node_handler"
            )

    def evaluate(self, node: torch.fx.Node) -> Any:
        if node.op == "get_attr":
            return operator.attrgetter(str(node.target))(self.program.module)
        arguments = torch.fx.node.map_arg(node.args, lambda n: self.values[n])
        keywords = torch.fx.node.map_arg(node.kwargs, lambda n: self.values[n])
        if node.target is operator.getitem:
            return arguments[0][arguments[1]]
        scope = f"{self.prefix}/{node.name}"
        handler = find_handler(node.target)
        result: Any = NotImplemented
        if handler is not None:
            result = self.handled(handler, node, arguments, keywords, scope)
        if result is NotImplemented:
            result = self.default(node, arguments, keywords, scope)
        if self.verbose:
            shown = ", ".join(_brief(a) for a in [*arguments, *keywords.values()])
            name = qualified_name(node.target)[1]
            print(f"{scope} = {name}({shown}) -> {_brief(result)}{where(node)}")
        return result

    def handled(
        self, handler: Handler, node: torch.fx.Node, arguments: Any, keywords: Any, scope: str
    ) -> Any:
        inputs, attributes = _by_schema(node.target, arguments, keywords)
        results = handler(inputs, attributes, scope)
        if results is NotImplemented:
            return NotImplemented
        schema = getattr(node.target, "_schema", None)
        wanted = len(schema.returns) if schema is not None else 1
        if not isinstance(results, (list, tuple)) or len(results) != wanted:
            raise InvalidArgument(
                f"the handler of {qualified_name(node.target)[1]} must return a list of {wanted}, "
                f"one result per output of the op, not {results!r}"
            )
        return results[0] if wanted == 1 else list(results)

    def default(self, node: torch.fx.Node, arguments: Any, keywords: Any, scope: str) -> Any:
        """Without a registered handler: PyTorch itself where all is known, else the lowering."""
        context = self.context
        flat = pytree.tree_leaves((arguments, keywords))
        if not any(context.is_tensor(value) for value in flat):
            if not context.is_torch and _is_random(node.target):
                raise Unsupported(
                    f"{qualified_name(node.target)[1]}{where(node)}: random numbers would be "
                    "constants of the network"
                )
            return node.target(*arguments, **keywords)  # type: ignore[operator]
        if context.is_tensorrt:
            from .handlers import tensorrt

            return tensorrt.lower(context, self.program.module, node, self.values, scope)  # type: ignore[arg-type]
        from .handlers import tvm

        return tvm.lower(context, self.program.module, node, self.values, scope)  # type: ignore[arg-type]

    # --- outputs --------------------------------------------------------------------------------

    def outputs(self, node: torch.fx.Node, flat: list[Any], in_network: bool) -> list[Any]:
        exported = self.program.exported
        user_inputs = dict(zip(exported.graph_signature.user_inputs, flat, strict=True))
        results = []
        returned = node.args[0]
        assert isinstance(returned, (list, tuple))
        for spec, result in zip(exported.graph_signature.output_specs, returned, strict=True):
            value = self.values[result] if isinstance(result, torch.fx.Node) else result
            if spec.kind == OutputKind.USER_OUTPUT:
                if in_network and isinstance(value, torch.Tensor):
                    value = self.context.constant(value)
                results.append(value)
            elif in_network:
                raise Unsupported(
                    f"{self.owner.name} writes '{spec.target}': a network cannot; trace it in eval "
                    "mode"
                )
            else:
                with torch.no_grad():
                    is_buffer = spec.kind == OutputKind.BUFFER_MUTATION
                    name = str(spec.target)
                    (self.state(name) if is_buffer else user_inputs[name]).copy_(value)
        return results


def _is_random(target: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


def _by_schema(target: Any, arguments: Any, keywords: Any) -> tuple[list[Any], dict[str, Any]]:
    """The positional arguments with defaults filled in, and the keyword-only ones by name."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return list(arguments), dict(keywords)
    inputs: list[Any] = []
    attributes: dict[str, Any] = {}
    for i, argument in enumerate(schema.arguments):
        if i < len(arguments):
            value = arguments[i]
        else:
            value = keywords.get(argument.name, argument.default_value)
        if argument.kwarg_only:
            attributes[argument.name] = value
        else:
            inputs.append(value)
    return inputs, attributes
