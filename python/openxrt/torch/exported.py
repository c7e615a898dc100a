# SPDX-License-Identifier: Apache-2.0
"""A module as torch.export sees it, and what that form of it serves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch.export.graph_signature import InputKind

from .._core import Watch
from .aten.memory import read_by_strides
from .containers import Kind, flatten
from .importer import Imported, import_exported
from .runner import Memory
from .tracing import trace

# Held by whoever traces a module, for torch.export puts fake tensors in the place of its parameters
# meanwhile, and by whoever reads them.
_PARAMETERS = threading.RLock()


# What torch.export is told of an argument: per open dimension of a tensor how far it is open, or
# the same for an integer; None: it is as it is.
Wide: TypeAlias = "list[dict[int, Any] | Any | None]"


# Of combinations of sizes, as many are remembered.
_MAX_VERDICTS = 4096


class _Open:
    """Stands for an integer of any value."""


def _layout(x: Any) -> object:
    """How a tensor lies in memory."""
    if not isinstance(x, torch.Tensor):
        return None
    return True if x.is_contiguous() else x.stride(), x.storage_offset()


def _overlap(one: object, other: object) -> bool:
    """Whether two tensors have memory in common, from their first to their last elements."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    if one.device != other.device or not one.numel() or not other.numel():
        return False

    def end(x: torch.Tensor) -> int:
        last = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
        return x.data_ptr() + (last + 1) * x.element_size()

    return one.data_ptr() < end(other) and other.data_ptr() < end(one)


class Signature:
    """Which arguments a program serves: dtypes, dimensions of which None is any, and devices, under
    the autocast and with the default dtype of this moment, which are traced with the rest."""

    def __init__(self, flat: list[object], kind: Kind) -> None:
        self.dtypes = _dtypes_of_this_moment()
        self.kind = kind
        # Tensors by position and nothing else, for which callers give no kind.
        positional, keywords = kind.spec.children()
        self._is_usual = not keywords.num_children and all(
            child.is_leaf() for child in positional.children()
        )
        # How arguments lie in memory whose strides the program depends on, by position.
        self.layouts: dict[int, object] = {}
        self.entries = [
            (a.dtype, list(a.shape), a.device) if isinstance(a, torch.Tensor) else a for a in flat
        ]
        # Of sizes that are open: the argument, its dimension (None: it is an integer), and what
        # the size is in the symbols of the trace, with the range of each symbol.
        self._open: list[tuple[int, int | None, Any]] = []
        self._ranges: dict[Any, Any] = {}
        # What the trace found to hold between symbols, and whether it holds for sizes seen since.
        self._relations: list[Any] = []
        self._verdicts: dict[tuple[int, ...], bool] = {}

    def fits(self, flat: list[object], kind: Kind | None) -> bool:
        """Whether these arguments are of that kind; None stands for tensors by position."""
        if not self._is_usual if kind is None else kind != self.kind:
            return False
        if self.dtypes != _dtypes_of_this_moment():
            return False
        if len(flat) != len(self.entries):
            return False
        for place, layout in self.layouts.items():
            if _layout(flat[place]) != layout:
                return False
        for entry, given in zip(self.entries, flat, strict=True):
            if not isinstance(given, torch.Tensor):
                if entry is _Open:
                    if type(given) is not int:
                        return False
                elif isinstance(entry, tuple) or entry != given:
                    return False
                continue
            if not isinstance(entry, tuple) or entry[0] != given.dtype:
                return False
            if entry[2] != given.device:
                return False
            dims = entry[1]
            if list(given.shape) == dims:  # as where no dimension is open
                continue
            if len(dims) != given.dim():
                return False
            for dim, size in zip(dims, given.shape, strict=True):
                if dim is not None and dim != size:
                    return False
        return not self._open or self._sizes_fit(flat)

    def _sizes_fit(self, flat: list[object]) -> bool:
        """Whether open sizes are such that the trace took the ways that these would take."""
        sizes: dict[Any, int] = {}
        for place, dim, expression in self._open:
            size: int = flat[place] if dim is None else flat[place].shape[dim]  # type: ignore
            if sizes.setdefault(expression, size) != size:
                return False
        key = tuple(sizes.values())
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = self._is_as_traced(sizes)
            if len(self._verdicts) < _MAX_VERDICTS:
                self._verdicts[key] = verdict
        return verdict

    def _is_as_traced(self, sizes: dict[Any, int]) -> bool:
        for expression, size in sizes.items():
            known = self._ranges.get(expression)
            if known is not None:
                if not known[0] <= size <= known[1]:
                    return False
            elif expression.free_symbols <= sizes.keys() and expression.subs(sizes) != size:
                return False
        return all(
            bool(relation.subs(sizes))
            for relation in self._relations
            if relation.free_symbols <= sizes.keys()
        )

    def widened(self, flat: list[object], kind: Kind) -> Wide | None:
        """Per argument, the dimensions in which `flat` differs, as torch.export wants them; None
        where it differs in more than sizes."""
        wide: Wide = []
        if kind != self.kind or self.dtypes != _dtypes_of_this_moment():
            return None
        for place, (entry, given) in enumerate(zip(self.entries, flat, strict=True)):
            if not isinstance(given, torch.Tensor) or not isinstance(entry, tuple):
                if isinstance(given, torch.Tensor) or isinstance(entry, tuple):
                    return None
                is_same = entry is not _Open and entry == given
                if not is_same and (place < kind.plain or type(given) is not int):
                    return None
                wide.append(None if is_same else torch.export.Dim.AUTO)
                continue
            if entry[0] != given.dtype or len(entry[1]) != given.dim():
                return None
            if entry[2] != given.device:
                return None
            differing = [
                d
                for d, size in enumerate(given.shape)
                if size > 1 and (entry[1][d] is None or entry[1][d] != size)  # 1 stays a constant
            ]
            wide.append(dict.fromkeys(differing, torch.export.Dim.AUTO) or None)
        return wide

    def lengths_open(self) -> Wide | None:
        """Per argument, the dimensions that are as long as a sequence among the arguments, as
        torch.export wants them; None where there is none. Sequences lie in the second dimension of
        arguments, as all of transformers has them; what belongs to their caches is as long."""
        plain = self.entries[: self.kind.plain]
        lengths = {entry[1][1] for entry in plain if isinstance(entry, tuple) and entry[1][1:]}
        lengths -= {1}  # which PyTorch keeps
        wide: Wide = []
        for place, entry in enumerate(self.entries):
            if isinstance(entry, tuple):
                dims = [d for d, size in enumerate(entry[1]) if d > 0 and size in lengths]
                wide.append(dict.fromkeys(dims, torch.export.Dim.AUTO) or None)
            elif place >= self.kind.plain and type(entry) is int and entry in lengths:
                wide.append(torch.export.Dim.AUTO)
            else:
                wide.append(None)
        return wide if any(dims is not None for dims in wide) else None

    def allow(self, wide: Wide) -> None:
        """Lets the dimensions that widened() named be any."""
        for place, dims in enumerate(wide):
            entry = self.entries[place]
            if isinstance(entry, tuple):
                for d in dims or ():
                    entry[1][d] = None
            elif dims is not None:
                self.entries[place] = _Open

    def open_as_traced(self, values: list[object], ranges: Mapping[Any, Any]) -> None:
        """Lets sizes be any that the trace would have served.

        Args:
            values: per argument what it was in the trace, sizes as symbols.
            ranges: of the symbols.
        """
        traced: Any = None
        for place, value in enumerate(values):
            entry = self.entries[place]
            if isinstance(value, torch.Tensor) and isinstance(entry, tuple):
                for d, size in enumerate(value.shape):
                    if isinstance(size, torch.SymInt) and size.node.maybe_as_int() is None:
                        entry[1][d] = None
                        self._open.append((place, d, size.node.expr))
                        traced = size.node.shape_env
            elif isinstance(value, torch.SymInt) and value.node.maybe_as_int() is None:
                self.entries[place] = _Open
                self._open.append((place, None, value.node.expr))
                traced = value.node.shape_env
        self._ranges = {symbol: (r.lower, r.upper) for symbol, r in ranges.items()}
        if traced is not None:
            self._relations = [guard.expr for guard in traced.guards]


def united(one: Wide | None, other: Wide) -> Wide | None:
    """What either opens; None where neither opens anything."""
    dims = [
        {**mine, **its} if isinstance(mine, dict) and isinstance(its, dict) else mine or its
        for mine, its in zip(one or [None] * len(other), other, strict=True)
    ]
    return dims if any(dim is not None for dim in dims) else None


def without_ones(wide: Wide | None, flat: list[object]) -> Wide | None:
    """Without the dimensions in which the arguments have one element or none."""
    if wide is None:
        return None
    kept = [
        {d: how for d, how in dims.items() if value.shape[d] > 1} or None  # type: ignore
        if isinstance(dims, dict)
        else dims
        for dims, value in zip(wide, flat, strict=True)
    ]
    return kept if any(dims is not None for dims in kept) else None


def _dtypes_of_this_moment() -> tuple[object, torch.dtype]:
    """What decides the dtypes of results beside the arguments."""
    return _autocast(), torch.get_default_dtype()


def _autocast() -> tuple[tuple[str, torch.dtype], ...] | None:
    """The devices whose ops autocast changes just now, with its dtypes; None: none of them."""
    if not torch._C._is_any_autocast_enabled():
        return None
    kinds = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    return tuple((kind, torch.get_autocast_dtype(kind)) for kind in kinds)


def has_substitutes(module: torch.nn.Module) -> bool:
    """Whether torch.func.functional_call has put tensors in the place of parameters."""
    return any(
        not isinstance(parameter, torch.nn.Parameter)
        for owner in module.modules()
        for parameter in owner._parameters.values()
        if parameter is not None
    )


# Hooks that run with forward, and are traced with it.
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


_BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")


def watch_hooks(module: torch.nn.Module) -> Watch:
    """Notices hooks of the module's parts that come or go: torch.compile does not look for them."""
    parts = list(module.modules())
    hooks = [part.__dict__[name] for part in parts for name in _HOOKS + _BACKWARD_HOOKS]
    watched = [*hooks, *(part._modules for part in parts)]
    places = [(place, key, value) for place in watched for key, value in place.items()]
    return Watch(places, watched, False)


class State:
    """The parameters and buffers of a module, by name; notices what was replaced."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.names: list[str] = []
        self.places: list[tuple[dict[str, Any], str]] = []
        fixed: list[tuple[dict[str, Any], str, object]] = []
        whole: list[dict[str, Any]] = []
        for prefix, owner in module.named_modules():
            fixed.append((owner.__dict__, "training", owner.training))
            fixed.append((owner.__dict__, "forward", owner.__dict__.get("forward")))
            for hooks in (owner.__dict__[name] for name in _HOOKS):
                fixed += [(hooks, key, hook) for key, hook in hooks.items()]
                whole.append(hooks)
            fixed += [(owner._modules, key, child) for key, child in owner._modules.items()]
            whole += [owner._modules, owner._parameters, owner._buffers]
            for tensors in (owner._parameters, owner._buffers):
                for key, tensor in tensors.items():
                    if tensor is None:
                        fixed.append((tensors, key, None))
                        continue
                    self.names.append(f"{prefix}.{key}" if prefix else key)
                    self.places.append((tensors, key))
        # What is shared has the name of each place where it is.
        self.all_places = {
            f"{prefix}.{key}" if prefix else key: (tensors, key)
            for prefix, owner in module.named_modules(remove_duplicate=False)
            for tensors in (owner._parameters, owner._buffers)
            for key, tensor in tensors.items()
            if tensor is not None
        }
        self._structure = Watch(fixed, whole, False)
        self._kinds = [self._kind(*place) for place in self.places]
        self._tensors = self._watch()
        # Whether tensors are in the place of parameters (torch.func.functional_call), as of the
        # last fits().
        self.is_substituted = has_substitutes(module)
        self._module = module

    @staticmethod
    def _kind(tensors: dict[str, Any], key: str) -> object:
        tensor = tensors[key]
        return None if tensor is None else (tensor.dtype, tensor.shape, tensor.device)

    def _watch(self) -> Watch:
        places = [(place, key, place[key]) for place, key in self.places]
        return Watch(places, [], False, dtypes=True)

    def fits(self) -> bool:
        """Whether a program traced from the module still is the module's: no sub-module, forward
        hook or forward method was replaced, no mode changed, and every tensor has its dtype,
        shape and device."""
        with _PARAMETERS:
            return self._fits()

    def _fits(self) -> bool:
        if not self._structure.unchanged():
            return False
        if not self._tensors.unchanged():
            if [self._kind(*place) for place in self.places] != self._kinds:
                return False
            self._tensors = self._watch()
            self.is_substituted = has_substitutes(self._module)
        return True


class Exported:
    """One exported form of a module: its graph, and what it serves."""

    def __init__(
        self,
        module: torch.nn.Module,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        wide: Wide | None,
        lengths_open: bool = False,
    ) -> None:
        flat, kind, _ = flatten(args, kwargs)
        self.signature = Signature(flat, kind)
        if wide is None and lengths_open:
            wide = self.signature.lengths_open()
        self.is_wide = wide is not None
        with _PARAMETERS:
            exported, self.results, self.from_second_call = trace(module, args, kwargs, wide)
            self.state = State(module)
        self._values = self._traced_values(exported)
        by_strides = read_by_strides(exported.graph)
        self.signature.layouts = {
            place: _layout(flat[place])
            for place, (name, _) in enumerate(self._values)
            if name in by_strides
        }
        if wide is not None:
            self.signature.open_as_traced(
                [value for _, value in self._values], exported.range_constraints
            )
        self.module = module
        self.program = exported
        self.by_name = self.state.all_places
        # What a program writes counts as no change: it is an input of every program.
        self.written = set(exported.graph_signature.buffers_to_mutate.values())
        # The places of arguments that the program writes, by name.
        written = set(exported.graph_signature.user_inputs_to_mutate.values())
        self.written_arguments = {
            name: place for place, (name, _) in enumerate(self._values) if name in written
        }

    def shared(self, flat: list[object]) -> tuple[str, str] | None:
        """An argument that the program writes, and another one in the same memory."""
        for name, place in self.written_arguments.items():
            for other, value in enumerate(flat):
                if other != place and _overlap(flat[place], value):
                    return name, self._values[other][0]
        return None

    def imported(self, state_as_inputs: bool, draws_outside: bool = False) -> Imported:
        """The graph."""
        return import_exported(
            self.program,
            state_as_inputs=state_as_inputs,
            decompose=False,
            draws_outside=draws_outside,
        )

    def imported_anew(self) -> Imported:
        """The graph with the parameters and buffers that the module has now."""
        for name, (tensors, key) in self.by_name.items():
            for known in (self.program.state_dict, self.program.constants):
                if name in known:
                    known[name] = tensors[key]
        imported = self.imported(False)
        imported.graph.finish(simplify=True)
        return imported

    def watch(self) -> Callable[[], bool]:
        """What says whether parameters and buffers are those of this moment: never, where one was
        made in torch.inference_mode(), whose writes PyTorch does not count."""
        with _PARAMETERS:
            places = [
                (tensors, key, tensors[key])
                for name, (tensors, key) in self.by_name.items()
                if name not in self.written
            ]
            if any(tensor.is_inference() for _, _, tensor in places):
                return lambda: False
            watch = Watch(places, [], True)
            memory = Memory([tensor for _, _, tensor in places])

        def unchanged() -> bool:
            with _PARAMETERS:
                return watch.unchanged() and memory.unchanged()

        return unchanged

    def values(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers by name."""
        with _PARAMETERS:
            return {name: tensors[key] for name, (tensors, key) in self.by_name.items()}

    @property
    def inputs(self) -> list[tuple[str, Any]]:
        """Per flat argument the name of the graph's input, and what it was in the trace."""
        return self._values

    @staticmethod
    def _traced_values(exported: torch.export.ExportedProgram) -> list[tuple[str, Any]]:
        nodes = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
        return [
            (spec.arg.name, nodes[spec.arg.name].meta.get("val"))
            for spec in exported.graph_signature.input_specs
            if spec.kind == InputKind.USER_INPUT
        ]
