# SPDX-License-Identifier: Apache-2.0
"""The options `shapes`, `ranges` and `max_batch_size` of a module.

Sizes that they leave open are symbols from the first trace on: one program serves them all, and its
engines are told the ranges.

>>> XRTModule(net, shapes={"x": ("batch", 3, 224, 224)}, ranges={"batch": (1, 8, 64)})

Arguments have the names of forward's parameters. A part of a container is named by the way to it:
pair_0 is pair[0], inputs_mask is inputs["mask"].
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch
from torch.utils import _pytree as pytree

from .._core import InvalidArgument
from .containers import Kind, is_cache

# Those that name arguments or dimensions.
BY_NAME = ("shapes", "ranges")

Shape = list["int | str | None"]


class Range(NamedTuple):
    """Sizes to build for, as openxrt.load() takes them."""

    least: int
    usual: int
    most: int


class Label(NamedTuple):
    """What an open dimension is called, and whether the user called it so."""

    name: str
    is_given: bool


# By flat argument and dimension.
Labels: TypeAlias = dict[tuple[int, int], Label]


@dataclass
class Opened:
    """The open sizes of one kind of arguments."""

    # Per flat argument its open dimensions, as torch.export wants them.
    wide: list[Any]
    # The flat arguments to trace with: torch.export takes a size of 1 for a constant.
    samples: list[Any]
    is_resized: bool  # some of the samples are not the arguments
    labels: Labels

    def labels_above_one(self, flat: Sequence[Any]) -> Labels:
        """Of the dimensions in which these arguments have more than one element."""
        return {at: label for at, label in self.labels.items() if flat[at[0]].shape[at[1]] > 1}


class GivenSizes:
    """What the options say.

    Raises:
        InvalidArgument: an option is none that openxrt.load() would take.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        shapes, ranges = options.get("shapes") or {}, options.get("ranges") or {}
        self.shapes = {name: _shape(name, given) for name, given in shapes.items()}
        self.ranges = {name: _range(name, given) for name, given in ranges.items()}
        self.most_of_batch = int(options.get("max_batch_size") or 0)

    def __bool__(self) -> bool:
        return self.are_named or self.most_of_batch > 0

    @property
    def are_named(self) -> bool:
        """Whether the user says which sizes are open."""
        return bool(self.shapes or self.ranges)

    def opened(
        self,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        flat: Sequence[Any],
        kind: Kind,
    ) -> Opened:
        """The open sizes of these arguments.

        Raises:
            InvalidArgument: names an argument or a dimension that the module does not have, or an
                argument of another rank or size than `shapes` says.
        """
        names = _argument_names(module, args, kwargs)
        self._check_names(module, names)
        tensors = {
            place: value
            for place, value in enumerate(flat[: kind.plain])
            if isinstance(value, torch.Tensor)
        }
        labels: Labels = {}
        known: set[str] = set()
        for place, value in tensors.items():
            wanted = self.shapes.get(names[place], [None] * value.dim())
            if len(wanted) != value.dim():
                raise InvalidArgument(
                    f"shapes: '{names[place]}' has {len(wanted)} dimensions there, the argument "
                    f"has {value.dim()}: {list(value.shape)}"
                )
            for dim, size in enumerate(value.shape):
                label = self._label(names[place], dim, wanted[dim])
                if label is not None:
                    known.add(label.name)
                fixed = self._fixed_size(label, wanted[dim])
                if fixed not in (None, size):
                    raise InvalidArgument(
                        f"dimension {dim} of '{names[place]}' is {size}; `shapes` and `ranges` say "
                        f"that it is {fixed}"
                    )
                if label is not None and fixed is None:
                    labels[place, dim] = label
        missing = sorted(self.ranges.keys() - known)
        if missing:
            raise InvalidArgument(
                f"ranges: no argument has a dimension '{missing[0]}'; "
                + _list("dimensions without a name in `shapes`", sorted(names.values()), "[0]")
            )
        wide: list[Any] = [None] * len(flat)
        for place, dim in labels:
            wide[place] = {**(wide[place] or {}), dim: torch.export.Dim.AUTO}
        samples = self._samples(flat, tensors, labels)
        is_resized = any(a is not b for a, b in zip(samples, flat, strict=True))
        return Opened(wide, samples, is_resized, labels)

    def load_options(self, labels: Labels, inputs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        """What openxrt.load() is told of a graph.

        Args:
            labels: of the opened sizes.
            inputs: per flat argument the name of the graph's input, and what it was in the trace.

        Raises:
            InvalidArgument: the module takes a size that the user named as a constant, or two
                of them as one.
        """
        by_symbol: dict[Any, Label] = {}
        for (place, dim), label in labels.items():
            size = inputs[place][1].shape[dim]
            symbol = symbol_of(size)
            if symbol is None:
                fixed = size.node.maybe_as_int() if isinstance(size, torch.SymInt) else size
                if label.is_given and fixed is not None:
                    raise InvalidArgument(
                        f"the size '{label.name}' is open in `shapes` or `ranges`, but the module "
                        f"computes with {fixed} only: a size in its code is a number, or is made "
                        "one (int(), .item())"
                    )
                continue  # it follows from another one
            known = by_symbol.get(symbol)
            if known is None or (label.is_given and not known.is_given):
                by_symbol[symbol] = label
            elif label.is_given and known.name != label.name:
                raise InvalidArgument(
                    f"the module takes '{known.name}' and '{label.name}' as one size: give both "
                    "dimensions one name in `shapes`"
                )
        shapes: dict[str, Shape] = {}
        for name, value in inputs:
            if not isinstance(value, torch.Tensor):
                continue
            dims = [by_symbol.get(symbol_of(size)) for size in value.shape]
            if any(label is not None for label in dims):
                shapes[name] = [None if label is None else label.name for label in dims]
                shapes[name] += [None] * value.dtype.is_complex  # two numbers
        names = {label.name for label in by_symbol.values()}
        ranges = {name: tuple(found) for name, found in self.ranges.items() if name in names}
        return {"shapes": shapes, "ranges": ranges} if shapes else {}

    def _check_names(self, module: torch.nn.Module, names: Mapping[int, str]) -> None:
        parameters = inspect.signature(module.forward).parameters
        for name in self.shapes:
            if name not in parameters and name not in names.values():
                raise InvalidArgument(
                    f"shapes: the module has no argument '{name}'; "
                    + _list("it is called with", sorted(names.values()))
                )

    def _label(self, argument: str, dim: int, wanted: int | str | None) -> Label | None:
        if isinstance(wanted, int):
            return None
        if wanted is not None:
            return Label(wanted, True)
        name = f"{argument}[{dim}]"
        if name in self.ranges:
            return Label(name, True)
        return Label(name, False) if dim == 0 and self.most_of_batch else None

    def _fixed_size(self, label: Label | None, wanted: int | str | None) -> int | None:
        if isinstance(wanted, int):
            return wanted
        known = None if label is None else self.ranges.get(label.name)
        return known.least if known is not None and known.least == known.most else None

    def _samples(
        self,
        flat: Sequence[Any],
        tensors: Mapping[int, torch.Tensor],
        labels: Labels,
    ) -> list[Any]:
        """The arguments, those with an open size below 2 in usual sizes; their elements do not
        matter."""
        small = {label for (place, dim), label in labels.items() if tensors[place].shape[dim] < 2}
        # Where batches are not named, they are as large as the one that is.
        batch = max(self.most_of_batch, 2)
        for (_, dim), label in labels.items():
            if dim == 0 and label.is_given and label in small:
                batch = self._usual(label)
        samples: list[Any] = list(flat)
        for place, value in tensors.items():
            shape = list(value.shape)
            for dim in range(len(shape)):
                label = labels.get((place, dim))
                if label in small:
                    shape[dim] = self._usual(label) if label.is_given else batch
            if shape != list(value.shape):
                samples[place] = torch.zeros(shape, dtype=value.dtype, device=value.device)
        return samples

    def _usual(self, label: Label) -> int:
        known = self.ranges.get(label.name)
        return 2 if known is None else max(known.usual, 2)


def symbol_of(size: Any) -> Any:
    """The symbol that a size is; None for a number, and for what is computed from symbols."""
    if not isinstance(size, torch.SymInt) or size.node.maybe_as_int() is not None:
        return None
    return size.node.expr if size.node.expr.is_Symbol else None


def ranges_of_symbols(samples: Sequence[object]) -> dict[str, tuple[int, int, int]]:
    """The ranges of the symbols among the sizes of a graph's inputs, where PyTorch was told both
    bounds (torch._dynamo.mark_dynamic(x, 0, min=1, max=64)); the usual size is the one that came
    first."""
    ranges = {}
    for sample in samples:
        for size in sample.shape if isinstance(sample, torch.Tensor) else ():
            symbol = symbol_of(size)
            if symbol is None or not str(symbol).isidentifier():
                continue
            bounds = size.node.shape_env.var_to_range[symbol]
            hint = size.node.hint
            if not bounds.upper.is_Integer or hint is None:
                continue
            least, most = max(int(bounds.lower), 1), int(bounds.upper)
            if least <= hint <= most:
                ranges[str(symbol)] = (least, int(hint), most)
    return ranges


def _shape(name: str, given: Any) -> Shape:
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, Sequence):
        raise InvalidArgument(
            f"shapes: '{name}' is {given!r}; a size, a name or None each is wanted"
        )
    shape: Shape = []
    for part in parts:
        text = part.strip() if isinstance(part, str) else part
        if isinstance(text, str) and text.isdigit():
            text = int(text)
        if text in ("?", None):
            shape.append(None)
        elif isinstance(text, bool) or not isinstance(text, int | str) or text in ("", 0):
            raise InvalidArgument(
                f"shapes: a dimension of '{name}' is {part!r}; a size of 1 or more, a name or None "
                "is wanted"
            )
        else:
            shape.append(text)
    return shape


def _range(name: str, given: Any) -> Range:
    parts = given.split(":") if isinstance(given, str) else given
    sizes = [parts] if isinstance(parts, int) else list(parts)
    if all(isinstance(size, str) and size.strip().isdigit() for size in sizes):
        sizes = [int(size) for size in sizes]
    whole = all(isinstance(size, int) and size >= 1 for size in sizes)
    if not whole or not 1 <= len(sizes) <= 3 or sizes != sorted(sizes):
        raise InvalidArgument(
            f"ranges: '{name}' is {given!r}; the least, the usual and the most size are wanted"
        )
    return Range(sizes[0], sizes[1] if len(sizes) == 3 else sizes[-1], sizes[-1])


def _argument_names(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[int, str]:
    """The names of the flat arguments, caches left out, by place."""
    parameters = inspect.signature(module.forward)
    bound = parameters.bind(*args, **kwargs)
    by_position = list(bound.arguments)
    leaves, _ = pytree.tree_flatten_with_path((args, dict(kwargs)), is_leaf=is_cache)
    names: dict[int, str] = {}
    for path, leaf in leaves:
        if is_cache(leaf):
            continue
        (_, first, *rest) = path
        if isinstance(first, pytree.SequenceKey):
            place = min(first.idx, len(by_position) - 1)
            own = by_position[place]
            is_many = parameters.parameters[own].kind is inspect.Parameter.VAR_POSITIONAL
            parts = [own, str(first.idx - place)] if is_many else [own]
        else:
            parts = [str(first.key)]
        parts += [re.sub(r"\W+", "_", pytree.keystr((step,))).strip("_") for step in rest]
        names[len(names)] = "_".join(parts)
    return names


def _list(what: str, names: Sequence[str], end: str = "") -> str:
    return f"{what}: " + ", ".join(f"'{name}{end}'" for name in names[:20])
