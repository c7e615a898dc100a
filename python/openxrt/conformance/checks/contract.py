# SPDX-License-Identifier: Apache-2.0
"""Checks of what an engine promises: what it says of itself, its yes and its no, its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx

import openxrt

from ..samples import ROWS, indices
from ..subject import Failed, Skipped
from .registry import (
    RANDOM,
    Case,
    Run,
    check,
    onnx_node_tests,
    per_row,
    rows_of,
    smallest_tests,
)
from .values import compare

# --- the engine -----------------------------------------------------------------------------------


def _engine_report(run: Run) -> openxrt.EngineReport:
    (report,) = openxrt.doctor([run.subject.name])
    return report


def _says_version(run: Run) -> None:
    if not _engine_report(run).version:
        raise Failed("its version is empty: it is part of every cache key")


def _drives_device(run: Run) -> None:
    devices = _engine_report(run).devices
    if run.subject.device not in devices:
        raise Failed(f"it does not drive {run.subject.device!r}, but {', '.join(devices)}")


def _doctor_runs_it(run: Run) -> None:
    report = _engine_report(run)
    if not report.available:
        raise Failed(f"doctor calls it unavailable: {report.error}")


def _lists_ops(run: Run) -> None:
    ops = openxrt.engine_ops(run.subject.name)
    if not ops:
        raise Failed("it lists no ops: tables and this driver read them")
    unsorted = [(a, b) for a, b in pairwise(ops) if a >= b]
    if unsorted:
        raise Failed(f"its ops are not sorted, or named twice: {unsorted[0]}")


def _refuses_unknown_option(run: Run) -> None:
    options = {run.subject.name: run.subject.options | {"no_such_option": "1"}}
    ops = openxrt.engine_ops(run.subject.name)
    for row in rows_of(ops):
        sample = row.sample(5, run.seed)
        try:
            run.subject.load(sample.model())
        except (Failed, Skipped):
            continue
        try:
            openxrt.load(
                sample.model(), engine=[run.subject.name], strict=True, engine_options=options
            )
        except openxrt.Error as error:
            if "no_such_option" not in str(error):
                raise Failed(f"the error does not name the option: {error}") from error
            return
        raise Failed("an option that it does not have is taken without a word")
    raise Skipped("it compiles none of the generated samples")


ENGINE_CASES: dict[str, Callable[[Run], None]] = {
    "version": _says_version,
    "device": _drives_device,
    "doctor": _doctor_runs_it,
    "ops": _lists_ops,
    "unknown-option": _refuses_unknown_option,
}


def _engine_cases(_: Sequence[str]) -> Iterator[Case]:
    for what in ENGINE_CASES:
        yield Case("engine", f"engine/{what}", what, {"what": what})


@check("engine", "what it says of itself: version, devices, ops, options", _engine_cases)
def engine(run: Run) -> None:
    """One case per thing that is said."""
    ENGINE_CASES[run.values["what"]](run)


# --- support --------------------------------------------------------------------------------------

# What the runtime says where an engine gave an empty reason.
NO_REASON = ("", "no, and it gave no reason")


def _support_cases(_: Sequence[str]) -> Iterator[Case]:
    """Ops that the engine does not list too: it is asked about every node of a model."""
    for op in sorted(ROWS):
        yield Case("support", f"support/{op}", op)
    for op, test in smallest_tests().items():
        yield Case("support", f"support/{op}", op, {"test": test})


@check("support", "a claimed node compiles and runs; a no says why", _support_cases)
def support(run: Run) -> None:
    """Also holds what other checks find: a node that is claimed and cannot be compiled."""
    if "test" in run.values:
        test = onnx_node_tests()[run.values["test"]].test
        model = test.model_bytes()
        feeds = test.data_sets(onnx.load_from_string(model))[0][0]
    else:
        sample = run.sample(5)
        model, feeds = sample.model(), sample.feeds()
    program = run.subject.load(model, strict=False)
    for node in program.explain()["nodes"]:
        reason = node["refusals"].get(run.subject.name)
        if reason is not None and reason.strip() in NO_REASON:
            raise Failed(f"it refuses {node['op']} and gives no reason")
    if not run.subject.nodes(program):
        raise Skipped("refused, with a reason")
    try:
        program.run(feeds)
    except openxrt.Error as error:
        raise Failed(f"it claims the node and cannot run it: {error}") from error


@check("training", "nodes claimed for training steps are right there", per_row("training"))
def training(run: Run) -> None:
    """Asked and compiled with the training phase; values are those of inference for these ops."""
    if run.case.op in RANDOM:
        raise Skipped("random numbers")
    compare(run, run.sample(9), training=True)


# --- errors ---------------------------------------------------------------------------------------


def _wrong_feeds(feeds: dict[str, np.ndarray]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, array in feeds.items():
        other = np.float64 if array.dtype != np.float64 else np.float32
        yield f"{name} as {np.dtype(other).name}", feeds | {name: array.astype(other)}
        yield f"{name} with a dimension more", feeds | {name: array[None]}
        if array.ndim:
            yield f"{name} with a dimension less", feeds | {name: array.reshape(-1)[:1].reshape(())}
            longer = np.concatenate([array, array], axis=array.ndim - 1)
            yield f"{name} with a longer axis", feeds | {name: longer}
        yield f"{name} as None", feeds | {name: None}
        yield f"{name} left out", {key: value for key, value in feeds.items() if key != name}
    yield "an input that is not there", feeds | {"no_such_input": np.zeros(1, np.float32)}


def _wrong_cases(ops: Sequence[str]) -> Iterator[Case]:
    for row in rows_of(ops):
        yield Case("wrong_inputs", f"wrong_inputs/{row.op}/types", row.op, {"what": "types"})
        if row.sample(5, 0).inputs[0].dtype == np.float32:
            name = f"wrong_inputs/{row.op}/not-finite"
            yield Case("wrong_inputs", name, row.op, {"what": "not finite"})
    for op in WRONG_VALUES:
        if not ops or op in ops:
            yield Case("wrong_inputs", f"wrong_inputs/{op}/values", op, {"what": "values"})


@check(
    "wrong_inputs",
    "wrong dtypes, ranks, sizes, indices and NaN: errors of OpenXRT, and the next run is right",
    _wrong_cases,
)
def wrong_inputs(run: Run) -> None:
    """What runs are given that they must refuse, or at least survive."""
    if run.values["what"] == "values":
        _wrong_values(run)
        return
    if run.values["what"] == "not finite":
        _not_finite(run)
        return
    sample = run.sample(9)
    model, feeds = sample.model(), sample.feeds()
    program = run.subject.load(model)
    run.subject.require_nodes(program)
    expected = run.subject.expected(model, feeds)
    for what, wrong in _wrong_feeds(feeds):
        try:
            program.run(wrong)
        except openxrt.Error:
            continue
        except Exception as error:  # whatever it is, it is not one of ours
            raise Failed(
                f"{what}: {type(error).__name__} instead of an error of OpenXRT: {error}"
            ) from error
        raise Failed(f"{what}: the run succeeds")
    run.expect(expected, run.subject.run(program, feeds), "a right run after wrong ones")


def _not_finite(run: Run) -> None:
    """NaN, infinities and the largest numbers: results are not judged, the process lives."""
    sample = run.sample(17)
    model, feeds = sample.model(), sample.feeds()
    program = run.subject.load(model)
    run.subject.require_nodes(program)
    for value in (np.nan, np.inf, -np.inf, np.finfo(np.float32).max):
        odd = {n: np.full_like(a, value) if a.dtype.kind == "f" else a for n, a in feeds.items()}
        try:
            program.run(odd)
        except openxrt.Error:
            continue
    expected = run.subject.expected(model, feeds)
    run.expect(expected, run.subject.run(program, feeds), "a right run after wrong ones")


def _foreign(what: str, error: Exception) -> Failed:
    return Failed(f"{what}: {type(error).__name__} instead of an error of OpenXRT: {error}")


HUGE = 2**40
# Inputs whose values say where to read and write, or how large a result is: each with values that
# no run can mean. A run may refuse them or give something; it may not end the process.
WRONG_VALUES: dict[str, tuple[int, list[np.ndarray]]] = {
    "Gather": (1, [np.full((2, 3), v, np.int64) for v in (5, -6, HUGE, -HUGE)]),
    "GatherElements": (1, [np.full((2, 9), v, np.int64) for v in (4, -5, HUGE, -HUGE)]),
    "GatherND": (1, [np.full((3, 1), v, np.int64) for v in (4, -5, HUGE, -HUGE)]),
    "ScatterElements": (1, [np.full((1, 9), v, np.int64) for v in (4, -5, HUGE, -HUGE)]),
    "ScatterND": (1, [np.full((2, 1), v, np.int64) for v in (4, -5, HUGE, -HUGE)]),
    "OneHot": (1, [np.array(v, np.int64) for v in (-3, 0)]),
    "Reshape": (1, [indices(5, 5), indices(-1, -1), indices(-7, 3), indices(HUGE, 3)]),
    "Expand": (1, [indices(-3, 9), indices(3, 8)]),
    "Tile": (1, [indices(-1, 2), indices(0, 0)]),
    "Pad": (1, [indices(-9, 0, 0, 0), indices(0, -50, 0, 0)]),
    "Slice": (1, [indices(HUGE), indices(-HUGE)]),
    "TopK": (1, [indices(-1), indices(100)]),
    "Squeeze": (1, [indices(5), indices(1)]),
    "Unsqueeze": (1, [indices(9), indices(-9)]),
    "CumSum": (1, [np.array(v, np.int64) for v in (7, -7)]),
    "ReduceSum": (1, [indices(7), indices(-7)]),
}


def _wrong_values(run: Run) -> None:
    position, values = WRONG_VALUES[run.case.op]
    sample = run.sample(9)
    held = sample.fixed - {position}
    program = run.subject.load(sample.model(held))
    feeds = sample.feeds(held)
    run.subject.run(program, feeds)
    run.subject.require_nodes(program)
    for value in values:
        what = f"x{position} = {value.reshape(-1)[:4].tolist()}"
        try:
            program.run(feeds | {f"x{position}": value})
        except openxrt.Error:
            continue
        except Exception as error:  # whatever it is, it is not one of ours
            raise Failed(
                f"{what}: {type(error).__name__} instead of an error of OpenXRT: {error}"
            ) from error
    run.expect(
        run.subject.expected(sample.model(), sample.feeds()),
        run.subject.run(program, feeds),
        "a right run after wrong ones",
    )
