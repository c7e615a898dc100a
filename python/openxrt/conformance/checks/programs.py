# SPDX-License-Identifier: Apache-2.0
"""Checks of programs while they live: graphs, state in place, threads, memory, speed, the cache."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import NodeProto, helper, numpy_helper

import openxrt

from ..judge import most_wrong
from ..models import Sample, make_model, value_info
from ..random_graphs import make_random_graph, nearby
from ..samples import ROWS, uniform
from ..subject import NATIVE, Failed, Skipped
from .registry import Case, Run, check, per_row, rows_of

# Elementwise ops whose results may go into them again without growing out of hand.
UNARY = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Softsign", "Sin", "Cos", "Erf", "LeakyRelu")
BINARY = ("Add", "Sub", "Mul", "Min", "Max")


def _node(op: str, inputs: Sequence[str], output: str) -> NodeProto:
    return helper.make_node(op, inputs, [output], name=f"make_{output}", **ROWS[op].attributes)


# --- graphs of several nodes ----------------------------------------------------------------------


def _graph_cases(ops: Sequence[str]) -> Iterator[Case]:
    for i in range(12):
        yield Case("graphs", f"graphs/{i}", "graph", {"ops": list(ops), "number": i})


@check("graphs", "random graphs of several nodes with shared values", _graph_cases)
def graphs(run: Run) -> None:
    """Values with several readers, inputs that are read late, inner values that are outputs."""
    known = run.values["ops"]
    ops = [op for op in UNARY + BINARY if not known or op in known]
    if not ops:
        raise Skipped("none of the elementwise ops that graphs are made of is listed")
    rng = np.random.default_rng([run.seed, run.values["number"]])
    shape = (int(rng.integers(1, 6)), int(rng.integers(1, 40)))
    feeds = {"a": uniform(rng, *shape), "b": uniform(rng, *shape)}
    weight = numpy_helper.from_array(uniform(rng, *shape), "w")
    values = ["a", "b", "w"]
    nodes = []
    for i in range(int(rng.integers(3, 12))):
        op = str(rng.choice(ops))
        reads = [str(rng.choice(values)) for _ in range(2 if op in BINARY else 1)]
        if reads == ["w"] * len(reads):
            reads[0] = "a"  # constants alone never reach an engine
        nodes.append(_node(op, reads, f"v{i}"))
        values.append(f"v{i}")
    outputs = {nodes[-1].output[0], *(str(v) for v in rng.choice(values[3:], 2))}
    inputs = [value_info(name, array) for name, array in feeds.items()]
    model = make_model(nodes, inputs, sorted(outputs), [weight])
    run.types = f"{len(nodes)} nodes ({' '.join(n.op_type for n in nodes)}) on float32{list(shape)}"
    program = run.subject.load(model)
    run.subject.require_nodes(program)
    results = run.subject.run(program, feeds)
    run.expect(run.subject.expected(model, feeds), results)


NETWORKS = 40


def _network_cases(ops: Sequence[str]) -> Iterator[Case]:
    for i in range(NETWORKS):
        yield Case("networks", f"networks/{i}", "graph", {"number": i})


@check("networks", "random graphs of layers, views and Q/DQ, in part on native", _network_cases)
def networks(run: Run) -> None:
    """What optimisers make of nodes that stand side by side, over several sizes."""
    graph = make_random_graph(NETWORKS * run.seed + run.values["number"])
    run.types = " ".join(graph.ops)
    program = run.subject.load(graph.model, strict=False)
    if not run.subject.nodes(program):
        raise Skipped("refused: it leaves all nodes to others")
    parts = []
    for feeds in graph.runs:
        want = run.subject.expected(graph.model, feeds)
        near = run.subject.expected(graph.model, nearby(feeds))
        got = run.subject.run(program, feeds)
        parts.append(most_wrong(got, want, near, graph.tolerance))
    if graph.is_wrong([part != 0 for part in parts]):
        raise Failed(f"the part of elements that are wrong, by runs: {parts}")


# --- state in place -------------------------------------------------------------------------------


def _alias_cases(ops: Sequence[str]) -> Iterator[Case]:
    for op in UNARY + BINARY:
        if not ops or op in ops:
            yield Case("aliases", f"aliases/{op}", op, {"ops": list(ops)})


@check("aliases", "state that an output updates in place; others read its old value", _alias_cases)
def aliases(run: Run) -> None:
    """s2 = op(s), written into the memory of s, and z, which is computed from both after it."""
    op, known = run.case.op, run.values["ops"]
    other = next((o for o in BINARY if o != op and (not known or o in known)), "Mul")
    reads = ["s", "x"] if op in BINARY else ["s"]
    nodes = [_node(op, reads, "s2"), _node(other, ["s2", "s"], "z")]
    rng = np.random.default_rng(run.seed)
    state, x = uniform(rng, 5, 33), uniform(rng, 5, 33)
    run.types = "float32[5,33]"
    feeds = {"s": state, "x": x} if op in BINARY else {"s": state}
    inputs = [value_info(name, array) for name, array in feeds.items()]
    model = make_model(nodes, inputs, [node.output[0] for node in nodes])
    program = run.subject.load(model, strict=False, aliases={"s": "s2"})
    if not run.subject.nodes(program):
        raise Skipped("refused: it leaves nodes that update state to others")
    own = {name: array.copy() for name, array in feeds.items()}
    for step in range(3):
        expected = run.subject.expected(model, feeds)
        results = run.subject.run(program, own)
        run.expect(expected, results, f"step {step}")
        run.expect([expected[0]], [own["s"]], f"step {step}: the memory of the state")
        feeds["s"] = expected[0]


# --- the same again -------------------------------------------------------------------------------


@check(
    "determinism", "equal inputs give equal bytes, in a second program too", per_row("determinism")
)
def determinism(run: Run) -> None:
    """Sizes for which work is split between threads."""
    row = ROWS[run.case.op]
    sample = run.sample(min(row.large, 2000))
    model, feeds = sample.model(), sample.feeds()
    program = run.subject.load(model, num_threads=0)
    run.subject.require_nodes(program)
    first = run.subject.run(program, feeds)
    for again in range(3):
        _same_bytes(first, run.subject.run(program, feeds), f"run {again + 2}")
    other = run.subject.load(model, num_threads=0, force_compile=True)
    _same_bytes(first, run.subject.run(other, feeds), "a second program")


def _same_bytes(first: list[np.ndarray], second: list[np.ndarray], what: str) -> None:
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        if a.tobytes() != b.tobytes():
            raise Failed(f"{what} differs from the first: output {i} has other bytes")


THREADS, RUNS_PER_THREAD = 4, 10


@check("threads", "one program run by several threads at once", per_row("threads"))
def threads(run: Run) -> None:
    """Each thread has inputs of its own; what it gets has to be what one thread alone gets."""
    row = ROWS[run.case.op]
    n = min(row.large, 4000)
    samples = [row.sample(n, run.seed + i) for i in range(THREADS)]
    run.types = samples[0].types()
    model = samples[0].model()
    program = run.subject.load(model)
    run.subject.require_nodes(program)
    # Constants are those of the first sample.
    feeds = [sample.feeds() for sample in samples]
    alone = [run.subject.run(program, values) for values in feeds]
    found: list[Exception] = []
    start = threading.Barrier(THREADS)

    def work(i: int) -> None:
        try:
            start.wait()
            for _ in range(RUNS_PER_THREAD):
                results = run.subject.run(program, feeds[i])
                run.expect(alone[i], results, f"with {THREADS} threads at once")
        except (Failed, Skipped) as error:
            found.append(error)

    interval, budget = sys.getswitchinterval(), openxrt.thread_budget()
    sys.setswitchinterval(1e-5)  # engines written in Python take turns often
    openxrt.set_num_threads(max(THREADS, budget))  # runs of one thread each go side by side
    try:
        workers = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
        openxrt.set_num_threads(budget)
    if found:
        raise found[0]


# --- memory ---------------------------------------------------------------------------------------

WARM_UP, RUNS = 50, 250
GROWTH_BYTES = 12 << 20  # what an allocator may keep


def resident_bytes() -> int:
    """Memory of this process that lies in RAM."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _leak_cases(ops: Sequence[str]) -> Iterator[Case]:
    for row in rows_of(ops):
        yield Case("leaks", f"leaks/{row.op}/runs", row.op, {"what": "runs"})
    for op in [op for op in BINARY if not ops or op in ops][:1]:
        yield Case("leaks", f"leaks/{op}/programs", op, {"what": "programs"})


@check(
    "leaks",
    f"memory over {RUNS} runs and 40 programs; arrays that outlive the run they were lent for",
    _leak_cases,
)
def leaks(run: Run) -> None:
    """Resident memory, after some runs that fill caches."""
    if run.values["what"] == "programs":
        _programs_leak(run)
        return
    row = ROWS[run.case.op]
    sample = run.sample(row.large)
    feeds = sample.feeds()
    program = run.subject.load(sample.model())
    run.subject.require_nodes(program)
    own = {name: array.copy() for name, array in feeds.items()}
    run.subject.run(program, own)
    lent = {name: weakref.ref(array) for name, array in own.items()}
    own.clear()
    gc.collect()
    kept = [name for name, array in lent.items() if array() is not None]
    if kept:
        raise Failed(f"the array passed for input {kept[0]} is kept after the run")
    for _ in range(WARM_UP):
        run.subject.run(program, feeds)
    before = resident_bytes()
    started = time.monotonic()
    runs = 0
    while runs < RUNS and time.monotonic() - started < 20:
        run.subject.run(program, feeds)
        runs += 1
    grown = resident_bytes() - before
    if grown > GROWTH_BYTES:
        raise Failed(f"resident memory grows by {grown / 2**20:.1f} MiB over {runs} runs")


def _programs_leak(run: Run) -> None:
    rng = np.random.default_rng(run.seed)
    inputs = (uniform(rng, 3, 1), uniform(rng, 1, 250000))
    sample = Sample(run.case.op, inputs, fixed=frozenset([1]))
    run.types = sample.types()
    model, feeds = sample.model(), sample.feeds()
    before = 0
    for i in range(50):
        program = run.subject.load(model, force_compile=True)
        run.subject.run(program, feeds)
        del program
        if i == 9:
            before = resident_bytes()
    grown = resident_bytes() - before
    if grown > 2 * GROWTH_BYTES:
        raise Failed(f"resident memory grows by {grown / 2**20:.1f} MiB over 40 programs")


# --- speed ----------------------------------------------------------------------------------------

SLOWER_THAN_NATIVE = 100  # times
SLOWER_THAN_DECLARED = 10
WORTH_SAYING_S = 5e-3  # faster runs are not called slow, whatever the factor


@check(
    "slow",
    f"no run takes over {WORTH_SAYING_S * 1e3:g} ms and {SLOWER_THAN_NATIVE} times what native "
    f"takes, or {SLOWER_THAN_DECLARED} times what the engine itself declares",
    per_row("slow"),
)
def slow(run: Run) -> None:
    """The best of several runs, the engine's and native's in turn."""
    sample = run.sample(ROWS[run.case.op].large)
    model, feeds = sample.model(), sample.feeds()
    program = run.subject.load(model)
    run.subject.require_nodes(program)
    bars = []
    if declared := _declared_seconds(run, model):
        bars.append((declared, SLOWER_THAN_DECLARED, "that it declares for placement"))
    own = [_seconds(program, feeds) for _ in range(3)]
    if run.subject.name != NATIVE:
        try:
            native = openxrt.load(model, engine=[NATIVE], strict=True, num_threads=1, cache_dir="")
        except openxrt.Unsupported:
            pass
        else:
            measured = []
            while len(measured) < 7 and sum(own) < 2:
                own.append(_seconds(program, feeds))
                measured.append(_seconds(native, feeds))
            bars.append((min(measured, default=0.0), SLOWER_THAN_NATIVE, "of native"))
    if not bars:
        raise Skipped("it declares no estimates, and native refuses the model")
    best = min(own)
    for seconds, factor, whose in bars:
        if best > WORTH_SAYING_S and best > factor * seconds:
            raise Failed(
                f"a run takes {best * 1e3:.3g} ms, {best / seconds:.0f} times the "
                f"{seconds * 1e3:.3g} ms {whose}"
            )


def _declared_seconds(run: Run, model: bytes) -> float:
    """The engine's estimate, by which placement ranks it; 0 where it declares none."""
    engine = [run.subject.name] if run.subject.name == NATIVE else [run.subject.name, NATIVE]
    program = run.subject.load(model, strict=False, engine=["auto", *engine], auto_mode="fast")
    rows = [row for row in program.explain()["candidates"] if row["chosen"]]
    if not rows or not run.subject.nodes(program):
        return 0.0
    return rows[0]["estimated_us"] / 1e6


def _seconds(program: openxrt.Program, feeds: dict[str, np.ndarray]) -> float:
    start = time.perf_counter()
    program.run(feeds)
    return time.perf_counter() - start


# --- the compile cache ----------------------------------------------------------------------------

STEPS = {
    "store": "compiled into an empty cache",
    "load": "loaded from the cache by another process",
    "force": "compiled anew with force_compile",
}


def _cached_sample(case: Case, seed: int) -> tuple[bytes, dict[str, np.ndarray]]:
    """With all but the first operand as constants: these are what a cache may lose."""
    row = ROWS[case.op]
    sample = row.sample(9, seed)
    held = [i for i, value in enumerate(sample.inputs) if value is not None and i > 0]
    return sample.model(held), sample.feeds(held)


def cache(run: Run) -> None:
    """One case of the batch."""
    (error,) = cache_batch([run])
    if error is not None:
        raise error


def cache_batch(runs: list[Run]) -> list[Exception | None]:
    """Three processes: each loads and runs every case with one cache folder."""
    found: list[Exception | None] = [None] * len(runs)
    subject = runs[0].subject
    expected: list[list[np.ndarray]] = []
    for i, run in enumerate(runs):
        model, feeds = _cached_sample(run.case, run.seed)
        run.types = ", ".join(f"{v.dtype.name}{list(v.shape)}" for v in feeds.values())
        try:
            program = subject.load(model)
            subject.require_nodes(program)
            subject.run(program, feeds)  # sizes that it refuses
            expected.append(subject.expected(model, feeds))
        except (Failed, Skipped) as error:
            found[i] = error
            expected.append([])
    with tempfile.TemporaryDirectory(prefix="xrt-cache-") as folder:
        for step, what in STEPS.items():
            wanted = [i for i, error in enumerate(found) if error is None]
            if not wanted:
                break
            request = {
                "step": step,
                "folder": folder,
                "engine": subject.description(),
                "cases": [[runs[i].case.op, runs[i].case.name] for i in wanted],
                "seed": runs[0].seed,
            }
            for i, outcome in zip(wanted, _in_new_process(request), strict=True):
                if isinstance(outcome, str):
                    found[i] = Failed(f"{what}: {outcome}")
                    continue
                try:
                    runs[i].expect(expected[i], outcome, what)
                except Failed as error:
                    found[i] = error
    return found


def _in_new_process(request: dict[str, Any]) -> list[list[np.ndarray] | str]:
    """Per case its outputs, or what went wrong."""
    command = [sys.executable, "-m", "openxrt.conformance.checks.cached"]
    names = request["cases"]
    with tempfile.TemporaryDirectory(prefix="xrt-outputs-") as outputs:
        done = subprocess.run(
            command,
            input=json.dumps({**request, "outputs": outputs}),
            capture_output=True,
            text=True,
            check=False,
        )
        results: list[list[np.ndarray] | str] = []
        for i in range(len(names)):
            file = Path(outputs) / f"{i}.npz"
            problem = Path(outputs) / f"{i}.txt"
            if file.exists():
                with np.load(file) as archive:
                    results.append([archive[f"y{k}"] for k in range(len(archive.files))])
            elif problem.exists():
                results.append(problem.read_text(encoding="utf-8"))
            else:
                last = (done.stderr.strip().splitlines() or ["no word"])[-1]
                results.append(f"crash: exit status {done.returncode}: {last}")
        return results


check(
    "cache",
    "equal results from the disk cache in a new process, and with force_compile",
    per_row("cache"),
    run_batch=cache_batch,
)(cache)
