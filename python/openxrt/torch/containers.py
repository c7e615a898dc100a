# SPDX-License-Identifier: Apache-2.0
"""Arguments and results in their parts: tensors, and what else there is.

PyTorch's pytree takes tuples, lists, dicts and registered classes apart. Key-value caches of
transformers are objects that a model changes while it runs: their tensors become arguments and
results of a program, and afterwards the caller's object is in the state in which the model would
have left it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

# What a part of a cache is, first in its tuple.
_TENSOR, _OBJECT, _SEQUENCE, _MAPPING, _PLAIN = range(5)
# A tensor comes from the arguments of a program or from its results.
_ARGUMENT, _RESULT = range(2)


class Kind(NamedTuple):
    """How flat arguments or results are put together; equal for those that one program serves."""

    spec: pytree.TreeSpec
    places: tuple[int, ...]  # of the caches among the leaves of `spec`
    caches: tuple[Any, ...]  # their parts

    @property
    def plain(self) -> int:
        """How many flat values come before those of caches."""
        return self.spec.num_leaves - len(self.places)


_is_cache_class: dict[type, bool] = {}


def is_cache(value: object) -> bool:
    """Whether it is a cache of transformers: an object of which pytree need not know."""
    kind = type(value)
    known = _is_cache_class.get(kind)
    if known is None:
        known = _is_cache_class[kind] = not isinstance(value, type) and any(
            base.__name__.endswith("Cache") and base.__module__.startswith("transformers.")
            for base in kind.__mro__
        )
    return known


class _Parts:
    """Takes caches apart. `places` has the place of every tensor that was met before."""

    def __init__(self, places: dict[int, tuple[int, int]], tensors: list[Any], source: int) -> None:
        self.places = places
        self.tensors = tensors
        self.source = source

    def tensor(self, value: Any) -> tuple[Any, ...]:
        place = self.places.get(id(value))
        if place is None:
            place = self.places[id(value)] = (self.source, len(self.tensors))
            self.tensors.append(value)
        return (_TENSOR, place)

    def of(self, value: Any) -> tuple[Any, ...]:
        """The parts of a value, which compare equal where only tensors and integers differ."""
        if isinstance(value, (torch.Tensor, torch.SymInt)):
            return self.tensor(value)
        kind = type(value)
        if kind is int and self.source == _ARGUMENT:
            self.tensors.append(value)
            return (_TENSOR, (_ARGUMENT, len(self.tensors) - 1))
        if kind is list or kind is tuple or kind is torch.Size:
            return (_SEQUENCE, kind, *map(self.of, value))
        if kind is dict:
            return (_MAPPING, tuple(value), *map(self.of, value.values()))
        if kind.__module__.startswith("transformers.") and hasattr(value, "__dict__"):
            state = vars(value)
            return (_OBJECT, kind, tuple(state), *map(self.of, state.values()))
        return (_PLAIN, value)


def _made(part: tuple[Any, ...], tensors: Mapping[int, Sequence[Any]]) -> Any:
    """The value that these parts are of."""
    what = part[0]
    if what == _TENSOR:
        source, place = part[1]
        return tensors[source][place]
    if what == _SEQUENCE:
        return part[1](_made(p, tensors) for p in part[2:])
    if what == _MAPPING:
        return dict(zip(part[1], (_made(p, tensors) for p in part[2:]), strict=True))
    if what == _OBJECT:
        value = object.__new__(part[1])
        names = part[2]
        vars(value).update(zip(names, (_made(p, tensors) for p in part[3:]), strict=True))
        return value
    return part[1]


# A place within a cache: how to get from an object to one that it holds.
_Step = tuple[Callable[[Any], Any], Callable[[Any, Any], None]]


def _attribute(name: str) -> _Step:
    return (lambda o: vars(o)[name], lambda o, value: vars(o).__setitem__(name, value))


def _item(key: Any) -> _Step:
    return (lambda o: o[key], lambda o, value: o.__setitem__(key, value))


def _changes(
    before: tuple[Any, ...],
    after: tuple[Any, ...],
    flat: Sequence[Any],
    path: tuple[_Step, ...] = (),
) -> Iterator[tuple[tuple[_Step, ...], tuple[Any, ...]]]:
    """The places where two states differ, and what the second one has there; `flat` has the
    tensors and integers of the first one."""
    if before == after:
        return
    if before[0] == _TENSOR and after[0] == _PLAIN:
        was = flat[before[1][1]]
        if type(was) is type(after[1]) is int and was == after[1]:
            return
    what = after[0]
    steps: list[_Step] | None = None
    if what == before[0] and len(before) == len(after):
        if what == _OBJECT and before[1:3] == after[1:3]:
            steps = [_attribute(name) for name in after[2]]
        elif what == _SEQUENCE and before[1] is after[1] is list:
            steps = [_item(place) for place in range(len(after) - 2)]
        elif what == _MAPPING and before[1] == after[1]:
            steps = [_item(key) for key in after[1]]
    if steps is None and what == _OBJECT and before[0] == _OBJECT and before[1] is after[1]:
        known = dict(zip(before[2], before[3:], strict=True))
        for name, part in zip(after[2], after[3:], strict=True):
            yield from _changes(known.get(name, (None,)), part, flat, (*path, _attribute(name)))
    elif steps is None:
        yield path, after
    else:
        count = len(steps)
        for step, old, new in zip(steps, before[-count:], after[-count:], strict=True):
            yield from _changes(old, new, flat, (*path, step))


def flatten(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[list[object], Kind, list[object]]:
    """Flat arguments: the leaves, and behind them the tensors of the caches. Their kind, and the
    caches."""
    leaves, spec = pytree.tree_flatten((args, kwargs), is_leaf=is_cache)
    places = tuple(place for place, leaf in enumerate(leaves) if is_cache(leaf))
    if not places:
        return leaves, Kind(spec, (), ()), []
    caches = [leaves[place] for place in places]
    flat = [leaf for leaf in leaves if not is_cache(leaf)]
    parts = _Parts({}, flat, _ARGUMENT)
    return flat, Kind(spec, places, tuple(map(parts.of, caches))), caches


def unflatten(kind: Kind, flat: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any], list[Any]]:
    """Positional and keyword arguments, and the caches among them, which are made anew."""
    caches = [_made(part, {_ARGUMENT: flat}) for part in kind.caches]
    given, made = iter(flat[: kind.plain]), iter(caches)
    held = set(kind.places)
    leaves = [next(made) if place in held else next(given) for place in range(kind.spec.num_leaves)]
    args, kwargs = pytree.tree_unflatten(leaves, kind.spec)
    return args, kwargs, caches


def _is_opened(value: object) -> bool:
    """Whether a result is taken apart here: pytree makes a tuple of a torch.Size."""
    return type(value) is torch.Size or is_cache(value)


class Results:
    """How the flat results of a program are put together, as a run of the module showed."""

    def __init__(self, result: Any, kind: Kind, flat: Sequence[Any], caches: Sequence[Any]) -> None:
        leaves, self._spec = pytree.tree_flatten(result, is_leaf=_is_opened)
        # What the program is to give.
        self._flat: list[Any] = []
        arguments = {
            id(leaf): (_ARGUMENT, place)
            for place, leaf in enumerate(flat)
            if place >= kind.plain and isinstance(leaf, torch.Tensor)
        }
        parts = _Parts(arguments, self._flat, _RESULT)
        given = {id(cache): place for place, cache in enumerate(caches)}
        # Per leaf of the result: the place of a flat result, or of a given cache, or the parts of a
        # new one.
        self._leaves: list[tuple[int | None, int | None, Any]] = []
        for leaf in leaves:
            if not _is_opened(leaf):
                self._leaves.append((len(self._flat), None, None))
                self._flat.append(leaf)
            elif id(leaf) in given:
                self._leaves.append((None, given[id(leaf)], None))
            else:
                self._leaves.append((None, None, parts.of(leaf)))
        self._changes = [
            list(_changes(before, parts.of(cache), flat))
            for before, cache in zip(kind.caches, caches, strict=True)
        ]
        self._is_plain = all(place is not None for place, _, _ in self._leaves)
        self._is_one = self._is_plain and len(leaves) == 1 and leaves[0] is result

    def taken_flat(self) -> list[Any]:
        """The flat results of the run, which are kept no longer."""
        flat, self._flat = self._flat, []
        return flat

    def give(
        self, values: Sequence[object], flat: Sequence[object], caches: Sequence[object]
    ) -> Any:
        """The module's result; the caches that were given are brought to their new state."""
        if self._is_plain and not caches:
            # The usual case: a tensor by itself, around which no structure is made.
            return values[0] if self._is_one else pytree.tree_unflatten(values, self._spec)
        tensors = {_ARGUMENT: flat, _RESULT: values}
        for cache, changes in zip(caches, self._changes, strict=True):
            for path, part in changes:
                owner = cache
                for step, _ in path[:-1]:
                    owner = step(owner)
                path[-1][1](owner, _made(part, tensors))
        leaves = [
            values[place]
            if place is not None
            else (caches[given] if given is not None else _made(part, tensors))
            for place, given, part in self._leaves
        ]
        return pytree.tree_unflatten(leaves, self._spec)
