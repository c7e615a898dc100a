# SPDX-License-Identifier: Apache-2.0
"""What a check is: a name, the cases that it makes of an engine's ops, and how one of them runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import onnx

from .. import onnx_tests
from ..judge import difference
from ..models import Sample
from ..samples import ROWS, Row
from ..subject import Failed, Skipped, Subject

# No generator is named by the standard: only shapes and dtypes of their results can agree.
RANDOM = frozenset(
    (
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"),
        *("RandomUniform", "RandomUniformLike"),
    )
)


@dataclass(frozen=True)
class Case:
    """One thing that is tried. `values` say which, and are plain data."""

    check: str
    name: str  # "sizes/Relu/17": what -k matches
    op: str
    values: dict[str, Any] = field(default_factory=dict)


@dataclass
class Run:
    """A case that runs; `types` tells the report what the inputs were."""

    subject: Subject
    case: Case
    seed: int
    types: str = ""

    @property
    def values(self) -> dict[str, Any]:
        """What tells the case from others of the check."""
        return self.case.values

    def sample(self, n: int) -> Sample:
        """The generated sample of the case's op."""
        sample = ROWS[self.case.op].sample(n, self.seed)
        self.types = sample.types()
        return sample

    def expect(
        self,
        expected: list[Any],
        outputs: list[Any],
        what: str = "",
        tolerance: float | None = None,
    ) -> None:
        """Raises Failed where outputs are not what is expected."""
        reason = difference(expected, outputs, tolerance)
        if reason:
            raise Failed(f"{what}: {reason}" if what else reason)


Cases = Callable[[Sequence[str]], Iterable[Case]]
Runner = Callable[[Run], None]


@dataclass(frozen=True)
class Check:
    """A property that every engine has to have."""

    name: str
    text: str
    cases: Cases  # of the ops that an engine lists
    run: Runner  # returns, or raises Skipped or Failed
    # Runs several cases at once, in the order given, with what each came to: None, or what run()
    # would raise. For checks that start processes.
    run_batch: Callable[[list[Run]], list[Exception | None]] | None = None


CHECKS: dict[str, Check] = {}


def check(
    name: str, text: str, cases: Cases, run_batch: Callable[..., Any] | None = None
) -> Callable[[Runner], Runner]:
    """A decorator: makes the function the check of this name."""

    def decorate(run: Runner) -> Runner:
        if name in CHECKS:
            raise ValueError(f"there is a check {name!r} already")
        CHECKS[name] = Check(name, text, cases, run, run_batch)
        return run

    return decorate


def rows_of(ops: Sequence[str]) -> list[Row]:
    """Rows of the ops that an engine lists; all, where it lists none."""
    return [row for op, row in sorted(ROWS.items()) if not ops or op in ops]


def per_row(name: str) -> Cases:
    """One case for each op that has generated samples."""
    return lambda ops: [Case(name, f"{name}/{row.op}", row.op) for row in rows_of(ops)]


@dataclass(frozen=True)
class OnnxTest:
    """A node test of the onnx package, and the ops of its model."""

    test: onnx_tests.Case
    ops: tuple[str, ...]
    nodes: int


@lru_cache(maxsize=1)
def onnx_node_tests() -> dict[str, OnnxTest]:
    """All node tests, by name."""
    found = {}
    for test in onnx_tests.load_cases(["node"]):
        model = onnx.load_from_string(test.model_bytes())
        ops = tuple(onnx_tests.op_names(model))
        found[test.name] = OnnxTest(test, ops, len(model.graph.node))
    return found


@lru_cache(maxsize=1)
def smallest_tests() -> dict[str, str]:
    """Of each op without a row the node test of that op alone with the fewest bytes."""
    best: dict[str, tuple[int, str]] = {}
    for name, entry in onnx_node_tests().items():
        if entry.nodes != 1 or entry.ops[0] in ROWS or entry.ops[0] in RANDOM:
            continue
        size = sum(file.stat().st_size for file in entry.test.folder.rglob("*.*"))
        op = entry.ops[0]
        best[op] = min(best.get(op, (size, name)), (size, name))
    return {op: name for op, (_, name) in sorted(best.items())}


def sample_of_test(name: str) -> Sample:
    """The node of a test of the onnx package as a sample. Raises Skipped where it has none."""
    test = onnx_node_tests()[name].test
    model = onnx.load_from_string(test.model_bytes())
    node = model.graph.node[0]
    feeds = test.data_sets(model)[0][0]
    if any(
        a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in node.attribute
    ):
        raise Skipped("it has a body")
    values = [feeds.get(name) if name else None for name in node.input]
    if any(
        name and not isinstance(v, np.ndarray) for name, v in zip(node.input, values, strict=True)
    ):
        raise Skipped("its inputs are no tensors")
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    return Sample(node.op_type, tuple(values), attributes, len(node.output), domain=node.domain)
