# SPDX-License-Identifier: Apache-2.0
"""Hostile nodes of ONNX Runtime's contributed ops, each a valid one with a single thing changed.

What is changed: an integer of an attribute, given or left to its default; an operand's rank, a
size, its type, its elements (also as a constant of the file), or what the file declares of its
sizes; an operand that is left out; a graph in an attribute. Rewritings compute with all of them
while a file is loaded.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import onnx
from contributed_cases import Case, Const, all_cases

Feeds = dict[str, Any]
INTEGERS = [-1, 0, 1, 3, 2**20, 2**31 - 1, 2**40, -(2**63), 2**63 - 1]
REALS = [0.0, float("inf"), float("-inf"), float("nan"), 3.4e38]
DECLARED = [2**31, 2**62, 2**63 - 1]
NUMBERS, TEXTS = np.dtype(np.float64), np.dtype(object)
SHAPES: dict[int, tuple[int, ...]] = {0: (), 1: (3,), 5: (1, 2, 1, 3, 2)}


class Variant(NamedTuple):
    """A changed case."""

    name: str
    case: Case
    declared: tuple[str, int, int] | None = None  # an input, its axis, and the size


@cache
def known_attributes() -> dict[tuple[str, str], list[str]]:
    """The integers that ONNX Runtime knows of each op, those with defaults, too."""
    try:
        from onnxruntime.capi import onnxruntime_pybind11_state as state
    except ImportError:
        return {}
    return {
        (schema.domain, schema.name): sorted(
            name for name, value in schema.attributes.items() if int(value.type) == 2
        )
        for schema in state.get_all_operator_schema()
    }


def integers_of(case: Case) -> Iterator[tuple[str, Any]]:
    """Names of attributes, and what they may become."""
    names = set(known_attributes().get((case.domain, case.op), []))
    names |= {name for name, value in case.attributes.items() if isinstance(value, int)}
    for name in sorted(names):
        yield from ((name, value) for value in INTEGERS)
    for name, given in sorted(case.attributes.items()):
        if not isinstance(given, (list, tuple)) or not all(isinstance(v, int) for v in given):
            continue
        for value in INTEGERS:
            yield name, [value] * max(len(given), 1)
            yield from ((name, [*given[:i], value, *given[i + 1 :]]) for i in range(len(given)))
        yield name, [1] * 64


def of_shape(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Its elements, again and again or as many as there is room for."""
    flat = array.ravel()
    if not flat.size:
        flat = np.zeros(1, array.dtype)
    return np.resize(flat, shape)


def filled(array: np.ndarray) -> Iterator[np.ndarray]:
    """The same with an extreme element, or nothing else."""
    if array.dtype.kind in "iu":
        least, most = int(np.iinfo(array.dtype).min), int(np.iinfo(array.dtype).max)
        values: list[Any] = [least, most, min(most, 2**40), max(least, -1), 0]
    elif array.dtype.kind == "f":
        values = REALS
    else:
        return
    for value in values:
        with np.errstate(all="ignore"):
            whole = np.full_like(array, value)
        yield whole
        if array.size > 1:
            one = array.copy()
            one.flat[0] = whole.flat[0]
            yield one


def operands(array: np.ndarray) -> Iterator[tuple[str, Any]]:
    """What an operand may become."""
    for rank, shape in SHAPES.items():
        yield f"rank {rank}", of_shape(array, shape)
    for axis in range(array.ndim):
        yield f"size {axis}", np.take(array, [], axis)
    for whole in filled(array):
        yield "elements", whole
    yield "numbers", np.zeros(array.shape, NUMBERS)
    yield "texts", np.full(array.shape, "x", TEXTS)


def graphs(case: Case) -> Iterator[tuple[str, str, onnx.GraphProto]]:
    """What graphs of attributes may become: one without an input or output, with one of another
    type or shape, or another graph.
    """
    given = {k: v for k, v in case.attributes.items() if isinstance(v, onnx.GraphProto)}
    for name, graph in given.items():
        for other in given:
            yield f"{other} is {name}", other, graph
        yield f"{name} at first", "init_decoder", graph
        for field in ("input", "output"):
            for at in range(len(getattr(graph, field))):
                without = copy.deepcopy(graph)
                del getattr(without, field)[at]
                yield f"{name} without {field} {at}", name, without
                yield f"{name} at first without {field} {at}", "init_decoder", without
                for kind in (0, 1, 7, 8):
                    typed = copy.deepcopy(graph)
                    getattr(typed, field)[at].type.tensor_type.elem_type = kind
                    yield f"{name}: {field} {at} of type {kind}", name, typed
        for at in range(len(graph.input)):
            for rank in (0, 1, 4, 5, 7):
                shaped = copy.deepcopy(graph)
                shape = shaped.input[at].type.tensor_type.shape
                del shape.dim[:]
                for _ in range(rank):
                    shape.dim.add(dim_value=2)
                yield f"{name}: input {at} of rank {rank}", name, shaped


@cache
def variants() -> list[Variant]:
    """All of them, in an order that mixes ops and changes."""
    found: list[Variant] = []
    for case in all_cases():
        for name, value in integers_of(case):
            attributes = {**case.attributes, name: value}
            found.append(Variant(f"{name} {value}", replace(case, attributes=attributes)))
        for name, attribute, graph in graphs(case):
            attributes = {**case.attributes, attribute: graph}
            found.append(Variant(name, replace(case, attributes=attributes)))
        for at, operand in enumerate(case.operands):
            if operand is None:
                continue
            with_operand = partial(changed, case, at)
            array = np.asarray(operand.array if isinstance(operand, Const) else operand)
            kind = operand.dtype if isinstance(operand, Const) else None
            found.append(Variant(f"no operand {at}", with_operand(None)))
            for what, new in operands(array):
                of_kind = kind if what.startswith(("rank", "size")) else None
                made = with_operand(Const(new, of_kind))
                found.append(Variant(f"constant {at}: {what}", made))
                if kind is None:
                    found.append(Variant(f"operand {at}: {what}", with_operand(new)))
            if isinstance(operand, Const):
                continue
            for axis in range(array.ndim):
                for size in DECLARED:
                    name = f"declared {at}: axis {axis}"
                    found.append(Variant(name, case, (f"x{at}", axis, size)))
    random.Random(0).shuffle(found)
    return found


def changed(case: Case, at: int, operand: Any) -> Case:
    """With another operand."""
    return replace(case, operands=[*case.operands[:at], operand, *case.operands[at + 1 :]])


def make(index: int) -> tuple[str, bytes, list[Feeds]]:
    """The variant of that number: the model, and what it is run with."""
    variant = variants()[index % len(variants())]
    name = f"{variant.case.label}, {variant.name}"
    content, feeds = variant.case.model()
    if variant.declared is not None:
        declared, axis, size = variant.declared
        model = onnx.load_from_string(content)
        for value in model.graph.input:
            if value.name == declared:
                value.type.tensor_type.shape.dim[axis].dim_value = size
        content = model.SerializeToString()
    return name, content, [feeds]
