# SPDX-License-Identifier: Apache-2.0
"""Runs random graphs (random_graphs.py) on engines and compares with ONNX Runtime.

./dev fuzz graphs --engines native,openvino --seed 100000 --count 5000
./dev fuzz graphs --engines xla --only 169 --save graph.onnx

ONNX Runtime computes each graph node by node, without its optimisers, and a second time on inputs
that differ by a hundred-thousandth: what the graph makes of that is added to the tolerance. Each
engine works in processes of its own, so that a crash is one outcome among others.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import onnxruntime
import openxrt
from random_graphs import RandomGraph, make_random_graph
from small_models import usable

ENGINES = ("native", "openvino", "xla", "onnxruntime", "tvm")
BATCH = 100  # graphs of one process
SECONDS = 600  # for such a batch
# Of the largest number of a result.
TOLERANCE, TOLERANCE_OF_HALF = 1e-4, 1e-2
# Results beyond lose their digits on the way.
MOST = 1e4
# Where a rounding decides which of two numbers comes out. A graph with one of them is wrong where
# every run is.
STEPS = {"Floor", "Sign", "ThresholdedRelu", "QuantizeLinear", "Equal"}
STEPS |= {"Less", "LessOrEqual", "Greater", "GreaterOrEqual"}
Outcome = tuple[
    str, str
]  # "right", "wrong", "error", "unjudged" or "crash", and what is to be said


def reference(graph: RandomGraph) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
    """What ONNX Runtime computes in each run, and for inputs nearby."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(graph.model.SerializeToString(), options)
    numbers = np.random.default_rng(0)

    def nearby(x: np.ndarray) -> np.ndarray:
        if x.dtype.kind != "f":
            return x
        return (x * (1 + 1e-5 * numbers.standard_normal(x.shape))).astype(x.dtype)

    return [
        (session.run(None, feeds), session.run(None, {n: nearby(x) for n, x in feeds.items()}))
        for feeds in graph.runs
    ]


def wrong_part(
    found: np.ndarray, wanted: np.ndarray, near: np.ndarray, tolerance: float
) -> float | str:
    """The part of the elements that are wrong, or why none is comparable."""
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        return f"{found.dtype}{found.shape} for {wanted.dtype}{wanted.shape}"
    if wanted.size == 0:
        return 0.0
    if wanted.dtype.kind != "f":
        return float(((found != wanted) & (wanted == near)).mean())
    f, w, n = (array.astype(np.float64) for array in (found, wanted, near))
    if not np.isfinite([w, n]).all() or np.abs(w).max() > MOST:
        return 0.0
    moved = np.abs(w - n)
    # Of results near zero, what is left of larger numbers is no digit.
    bound = tolerance * max(np.abs(w).max(), 0.5) + 50 * moved + 20 * moved.max()
    return float((~(np.abs(f - w) <= bound)).mean())


def check(number: int, engine: str) -> Outcome:
    """How the graph of this number ends on the engine, with "native" for what it does not take."""
    graph = make_random_graph(number)
    ops = {node.op_type for node in graph.model.graph.node}
    is_half = any(i.type.tensor_type.elem_type == 10 for i in graph.model.graph.input) or any(
        attribute.i == 10
        for node in graph.model.graph.node
        if node.op_type == "Cast"
        for attribute in node.attribute
    )
    tolerance = TOLERANCE_OF_HALF if is_half else TOLERANCE
    try:
        wanted = reference(graph)
    except Exception as error:  # ONNX Runtime's are of classes without a base
        return "unjudged", str(error)
    parts: list[float | str] = []
    try:
        program = openxrt.load(
            graph.model.SerializeToString(),
            engine=list(dict.fromkeys((engine, "native"))),
            cache_dir="",
            num_threads=1,
            check_results=False,
        )
        for feeds, (results, near) in zip(graph.runs, wanted, strict=True):
            found = program.run(feeds).values()
            each = [
                wrong_part(*arrays, tolerance) for arrays in zip(found, results, near, strict=True)
            ]
            parts.append(next((p for p in each if isinstance(p, str)), None) or max(each))
    except openxrt.Error as error:
        return "error", f"{type(error).__name__}: {error}"
    is_wrong = [isinstance(part, str) or part > 0 for part in parts]
    if all(is_wrong) or (any(is_wrong) and not ops & STEPS):
        return "wrong", f"{parts} of {', '.join(sorted(ops))}"
    return "right", ""


def check_apart(engine: str, first: int, count: int) -> Iterator[tuple[int, Outcome]]:
    """The outcomes of graphs that processes of their own run, one after a crash of another."""
    end = first + count
    while first < end:
        process = subprocess.Popen(
            [sys.executable, __file__, "--batch", engine, str(first), str(end - first)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            answers, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            answers, _ = process.communicate()
        for line in answers.splitlines():
            outcome, text = json.loads(line)
            yield first, (outcome, text)
            first += 1
        if first < end:
            yield first, ("crash", f"the process ended with status {process.returncode}")
            first += 1


def run_batch(engine: str, first: int, count: int) -> None:
    """What a process of its own does: a line for each graph."""
    for number in range(first, first + count):
        print(json.dumps(check(number, engine)), flush=True)


def main(arguments: list[str]) -> int:
    """Exit status 1 where a graph is wrong, an error or a crash."""
    parser = argparse.ArgumentParser(
        description="Random graphs on engines, compared with ONNX Runtime."
    )
    parser.add_argument("--engines", default=",".join(ENGINES), help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first graph")
    parser.add_argument("--count", type=int, default=1000, help="how many graphs (%(default)s)")
    parser.add_argument("--only", type=int, help="this graph, in this process")
    parser.add_argument("--save", help="with --only: a file to write the graph to")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    options = parser.parse_args(arguments)
    engines = options.engines.split(",")
    if options.only is not None:
        if options.save:
            onnx.save(make_random_graph(options.only).model, options.save)
        for engine in engines:
            print(engine, *check(options.only, engine))
        return 0
    failed = 0
    for engine in engines:
        if not usable(engine):
            print(f"{engine} is not there")
            continue
        counts: collections.Counter[str] = collections.Counter()
        firsts = range(options.seed, options.seed + options.count, BATCH)
        end = options.seed + options.count

        def batch(first: int, engine: str = engine, end: int = end) -> list[tuple[int, Outcome]]:
            return list(check_apart(engine, first, min(BATCH, end - first)))

        with ThreadPoolExecutor(options.jobs) as pool:
            for outcomes in pool.map(batch, firsts):
                for number, (outcome, text) in outcomes:
                    counts[outcome] += 1
                    if outcome not in ("right", "unjudged"):
                        print(f"{engine} {number}: {outcome}: {text}", flush=True)
        failed += counts["wrong"] + counts["error"] + counts["crash"]
        print(engine, ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())))
    return int(failed > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--batch"]:
        run_batch(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        sys.exit()
    sys.exit(main(sys.argv[1:]))
