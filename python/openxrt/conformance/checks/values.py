# SPDX-License-Identifier: Apache-2.0
"""Checks of what an engine computes: ops, dtypes, sizes, constants, shapes that are not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx

import openxrt

from ..judge import difference, loosest_tolerance, mismatch
from ..models import (
    Sample,
    dtypes_of,
    is_floating,
    numpy_dtype,
    retyped,
    type_variables,
)
from ..samples import ROWS
from ..subject import Failed, Skipped, reference
from .registry import (
    RANDOM,
    Case,
    Run,
    check,
    onnx_node_tests,
    per_row,
    rows_of,
    sample_of_test,
    smallest_tests,
)

# Empty, one, odd, a vector's width, one more, and past several of them.
SIZES = (0, 1, 3, 7, 16, 17, 33, 65, 130, 257)
# What two roundings of one value differ by, over the range: where a test of the onnx package allows
# less than its dtype holds.
ROUNDING = 1e-6
ROUNDING_OF_HALVES = {"float16": 2e-3, "bfloat16": 1.6e-2}


def _onnx_cases(ops: Sequence[str]) -> Iterator[Case]:
    for name, entry in onnx_node_tests().items():
        if not ops or set(ops) & set(entry.ops):
            yield Case("ops", f"ops/{name}", "+".join(entry.ops), {"test": name})


def first_refusal(program: openxrt.Program, engine: str) -> str:
    """Why the engine runs nothing of the program."""
    for node in program.explain()["nodes"]:
        if engine in node["refusals"]:
            return f"refused: {node['op']}: {node['refusals'][engine]}"
    return "no node reaches an engine: the passes compute it"


@check("ops", "the onnx package's node tests, with the attributes that they try", _onnx_cases)
def ops(run: Run) -> None:
    """Nodes that the engine refuses run on native; a test of which it runs nothing is skipped."""
    entry = onnx_node_tests()[run.values["test"]]
    if RANDOM & set(entry.ops):
        raise Skipped("random numbers, of which the standard names no generator")
    content = entry.test.model_bytes()
    model = onnx.load_from_string(content)
    sets = entry.test.data_sets(model)
    run.types = ", ".join(
        f"{v.dtype.name}{list(v.shape)}" if isinstance(v, np.ndarray) else type(v).__name__
        for v in sets[0][0].values()
    )
    program = run.subject.load(content, strict=False)
    outputs = [run.subject.run(program, feeds) for feeds, _ in sets]
    if not run.subject.nodes(program):
        raise Skipped(first_refusal(program, run.subject.name))
    for (_, expected), actual in zip(sets, outputs, strict=True):
        reason = mismatch(expected, actual, entry.test.rtol, entry.test.atol)
        if reason and "values differ" in reason:
            halves = [
                ROUNDING_OF_HALVES.get(v.dtype.name, 0) for v in actual if hasattr(v, "dtype")
            ]
            if difference(expected, actual, max([ROUNDING, *halves])) is None:
                reason = None
        if reason:
            raise Failed(reason)


def _dtype_cases(ops: Sequence[str]) -> Iterator[Case]:
    for row in rows_of(ops):
        sample = row.sample(5, 0)
        for variable, positions in type_variables(sample).items():
            own = sample.inputs[positions[0]].dtype.name
            for dtype in dtypes_of(sample, variable):
                if dtype != own:
                    values = {"variable": variable, "dtype": dtype}
                    yield Case("dtypes", f"dtypes/{row.op}/{variable}={dtype}", row.op, values)
    for op, test in smallest_tests().items():
        if ops and op not in ops:
            continue
        try:
            sample = sample_of_test(test)
        except Skipped:
            continue
        for variable, positions in type_variables(sample).items():
            own = sample.inputs[positions[0]].dtype
            for dtype in dtypes_of(sample, variable) if is_floating(own) else ():
                if dtype != own.name and is_floating(numpy_dtype(dtype)):
                    values = {"variable": variable, "dtype": dtype, "test": test}
                    yield Case("dtypes", f"dtypes/{op}/{variable}={dtype}", op, values)


@check("dtypes", "each op in each dtype that the engine claims", _dtype_cases)
def dtypes(run: Run) -> None:
    """One sample per op, type parameter and dtype."""
    test = run.values.get("test")
    base = sample_of_test(test) if test else ROWS[run.case.op].sample(5, run.seed)
    sample = retyped(base, run.values["variable"], run.values["dtype"])
    compare(run, sample)


def compare(run: Run, sample: Sample, **options: Any) -> None:
    """Raises Failed where the engine's outputs are not those expected of the sample."""
    run.types = sample.types()
    model, feeds = sample.model(), sample.feeds()
    program = run.subject.load(model, **options)
    run.subject.require_nodes(program)
    outputs = run.subject.run(program, feeds)
    expected = run.subject.expected(model, feeds)
    run.expect(expected, outputs, tolerance=loosest_tolerance([*sample.inputs, *expected]))


def _size_cases(ops: Sequence[str]) -> Iterator[Case]:
    for row in rows_of(ops):
        for n in SIZES:
            if n <= row.most and (n > 0 or row.empty):
                yield Case("sizes", f"sizes/{row.op}/{n}", row.op, {"n": n})


@check("sizes", "generated inputs of odd, tiny, empty and large sizes", _size_cases)
def sizes(run: Run) -> None:
    """With two threads where the process may have them: work is split where sizes allow it."""
    threads = min(2, openxrt.thread_budget())
    compare(run, run.sample(run.values["n"]), num_threads=threads)


def _constant_cases(ops: Sequence[str]) -> Iterator[Case]:
    for row in rows_of(ops):
        sample = row.sample(17, 0)
        given = [i for i, value in enumerate(sample.inputs) if value is not None]
        variable = [i for i in given if i not in row.fixed]
        if len(variable) > 1:
            for i in variable:
                name = f"constants/{row.op}/x{i}-constant"
                yield Case("constants", name, row.op, {"constants": [*sorted(row.fixed), i]})
        for i in sorted(row.fixed):
            name = f"constants/{row.op}/x{i}-variable"
            yield Case("constants", name, row.op, {"constants": sorted(row.fixed - {i})})


@check("constants", "each operand as a constant of the model and as an input", _constant_cases)
def constants(run: Run) -> None:
    """What an engine packs ahead has to give what it computes of inputs."""
    sample = run.sample(17)
    held = run.values["constants"]
    model = sample.model(held)
    program = run.subject.load(model)
    run.subject.require_nodes(program)
    outputs = run.subject.run(program, sample.feeds(held))
    run.expect(run.subject.expected(sample.model(), sample.feeds()), outputs)


def symbolic_shapes(samples: list[Sample]) -> dict[str, list[int | str]]:
    """Declared shapes that hold for all samples: sizes that differ are symbols, equal ones the
    same symbol. Raises Skipped where the samples differ in more than sizes, or in none.
    """
    first = samples[0]
    for i in first.fixed:
        if any(not np.array_equal(first.inputs[i], other.inputs[i]) for other in samples):
            raise Skipped("its constants depend on the size")
    symbols: dict[tuple[int, ...], str] = {}
    shapes: dict[str, list[int | str]] = {}
    for name, array in first.feeds().items():
        dims: list[int | str] = []
        for axis in range(array.ndim):
            key = tuple(sample.feeds()[name].shape[axis] for sample in samples)
            same = len(set(key)) == 1
            dims.append(key[0] if same else symbols.setdefault(key, f"n{len(symbols)}"))
        shapes[name] = dims
    if not symbols:
        raise Skipped("no dimension depends on the size")
    return shapes


@check(
    "dynamic_shapes",
    "one program with symbolic dimensions, run with several sizes in turn",
    per_row("dynamic_shapes"),
)
def dynamic_shapes(run: Run) -> None:
    """Sizes come back, so that what was made for one of them has to stay right."""
    row = ROWS[run.case.op]
    samples = {n: row.sample(n, run.seed) for n in (7, 33, 1)}
    shapes = symbolic_shapes(list(samples.values()))
    program = run.subject.load(samples[7].model(shapes=shapes))
    for n in (7, 33, 7, 1, 33):
        sample = samples[n]
        run.types = sample.types()
        outputs = run.subject.run(program, sample.feeds())
        expected = run.subject.expected(sample.model(), sample.feeds())
        run.expect(expected, outputs, f"at n = {n}")
    run.subject.require_nodes(program)


def _filled(like: np.ndarray, pattern: int) -> np.ndarray:
    """An array of bytes that are no result: NaN where there is one."""
    buffer = np.empty(like.shape, like.dtype)
    if like.dtype.kind == "b":
        buffer[...] = bool(pattern % 2)
    else:
        buffer.reshape(-1).view(np.uint8)[...] = pattern
    return buffer


@check("outputs", "every element of an output is written, over NaN too", per_row("outputs"))
def outputs(run: Run) -> None:
    """Results go into memory of the caller that is filled with NaN, and then with other bytes."""
    sample = run.sample(33)
    model, feeds = sample.model(), sample.feeds()
    program = run.subject.load(model)
    run.subject.require_nodes(program)
    expected = run.subject.expected(model, feeds)
    for pattern in (0xFF, 0x2A):
        buffers = {f"y{i}": _filled(value, pattern) for i, value in enumerate(expected)}
        results = run.subject.run(program, feeds, out=buffers)
        what = f"outputs filled with bytes {pattern:#x}"
        run.expect(expected, list(buffers.values()), what)
        run.expect(expected, results, what)


@check("inputs", "inputs are read and never written", per_row("inputs"))
def inputs(run: Run) -> None:
    """Byte for byte, after several runs."""
    sample = run.sample(33)
    program = run.subject.load(sample.model())
    run.subject.require_nodes(program)
    feeds = sample.feeds()
    copies = {name: array.copy() for name, array in feeds.items()}
    for _ in range(3):
        run.subject.run(program, feeds)
    for name, array in feeds.items():
        if array.tobytes() != copies[name].tobytes():
            raise Failed(f"the run writes over its input {name}")


# The largest error over the range that each precision may have against float64.
PRECISIONS = {"f32": 2e-5, "bf16": 0.03, "f16": 0.01}
PRECISION_OPS = ("MatMul", "Gemm", "Conv", "Softmax", "LayerNormalization", "Add", "Exp")


def _precision_cases(ops: Sequence[str]) -> Iterator[Case]:
    for op in PRECISION_OPS:
        if not ops or op in ops:
            for precision in PRECISIONS:
                yield Case(
                    "precisions", f"precisions/{op}/{precision}", op, {"precision": precision}
                )


@check(
    "precisions",
    f"float32 computed in {', '.join(f'{p} (within {t:g})' for p, t in PRECISIONS.items())}",
    _precision_cases,
)
def precisions(run: Run) -> None:
    """Judged by the reference evaluator in float64."""
    precision = run.values["precision"]
    sample = run.sample(60)
    wide = sample
    for variable, positions in type_variables(sample).items():
        if sample.inputs[positions[0]].dtype == np.float32:
            wide = retyped(wide, variable, "float64")
    expected = [v.astype(np.float32) for v in reference(wide.model(), wide.feeds())]
    plain = run.subject.load(sample.model())
    run.subject.require_nodes(plain)
    results = run.subject.run(plain, sample.feeds())
    if precision != "f32":
        try:
            program = openxrt.load(
                sample.model(),
                engine=[run.subject.name],
                device=run.subject.device,
                precision=precision,
                num_threads=1,
                cache_dir="",
                engine_options={run.subject.name: run.subject.options},
            )
        except openxrt.Unsupported as error:
            raise Skipped(f"refused: {error}") from error
        lower = run.subject.run(program, sample.feeds())
        if all(np.array_equal(a, b) for a, b in zip(lower, results, strict=True)):
            raise Skipped(f"it does not compute float32 in {precision}")
        results = lower
    run.expect(expected, results, precision, PRECISIONS[precision])
