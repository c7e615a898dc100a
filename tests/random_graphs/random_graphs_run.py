# SPDX-License-Identifier: Apache-2.0
"""Runs random graphs (openxrt.conformance.random_graphs and random_control_flow) on engines and
compares with ONNX Runtime.

./dev fuzz graphs --engines native,openvino --seed 100000 --count 5000
./dev fuzz graphs --kind flow --engines native,openvino --count 1000
./dev fuzz graphs --engines xla --only 169 --save graph.onnx

ONNX Runtime computes each graph node by node, without its optimisers, and a second time on inputs
that differ by a hundred-thousandth: what the graph makes of that is added to the tolerance. Each
engine works in processes of its own, so that a crash is one outcome among others.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openxrt
from openxrt.conformance.judge import most_wrong
from openxrt.conformance.random_control_flow import make_random_control_flow
from openxrt.conformance.random_graphs import RandomGraph, make_random_graph, nearby
from small_models import usable

KINDS = {"layers": make_random_graph, "flow": make_random_control_flow}
ENGINES = ("native", "openvino", "xla", "onnxruntime", "tvm")
NODES = 24  # of a graph, at most, about
BATCH = 100  # graphs of one process
SECONDS = 600  # for such a batch
Outcome = tuple[
    str, str
]  # "right", "wrong", "error", "unjudged" or "crash", and what is to be said


def name_results(nodes: Iterable[onnx.NodeProto], number: Iterator[int]) -> None:
    """Gives names to results that are left out: ONNX Runtime ends the process for those of a Loop,
    and takes no If or Scan of which one is missing."""
    for node in nodes:
        for i, result in enumerate(node.output):
            node.output[i] = result or f"unread{next(number)}"
        for attribute in node.attribute:
            name_results(attribute.g.node, number)


def reference(graph: RandomGraph) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
    """What ONNX Runtime computes in each run, and for inputs nearby."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    model = onnx.load_model_from_string(graph.model)
    name_results(model.graph.node, itertools.count())
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return [(session.run(None, feeds), session.run(None, nearby(feeds))) for feeds in graph.runs]


def check(kind: str, number: int, engine: str, nodes: int) -> Outcome:
    """How the graph of this number, of up to about so many nodes, ends on the engine, with "native"
    for what it does not take."""
    graph = KINDS[kind](number, nodes)
    try:
        wanted = reference(graph)
    except Exception as error:  # ONNX Runtime's are of classes without a base
        return "unjudged", str(error)
    parts: list[float | str] = []
    try:
        program = openxrt.load(
            graph.model,
            engine=list(dict.fromkeys((engine, "native"))),
            cache_dir="",
            num_threads=1,
            check_results=False,
        )
        for feeds, (results, near) in zip(graph.runs, wanted, strict=True):
            found = program.run(feeds).values()
            parts.append(most_wrong(found, results, near, graph.tolerance))
    except openxrt.Error as error:
        return "error", f"{type(error).__name__}: {error}"
    if graph.is_wrong([part != 0 for part in parts]):
        return "wrong", f"{parts} of {', '.join(graph.ops)}"
    return "right", ""


def check_apart(
    kind: str, engine: str, first: int, count: int, nodes: int = NODES
) -> Iterator[tuple[int, Outcome]]:
    """The outcomes of graphs that processes of their own run, one after a crash of another."""
    end = first + count
    while first < end:
        process = subprocess.Popen(
            [
                *(sys.executable, __file__, "--batch", kind, engine),
                *map(str, (first, end - first, nodes)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # as in a test
        )
        try:
            answers, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            answers, errors = process.communicate()
        if process.returncode == 1:  # an exception of Python's: what went wrong is here
            raise RuntimeError(errors[-2000:])
        for line in answers.splitlines():
            outcome, text = json.loads(line)
            yield first, (outcome, text)
            first += 1
        if first < end:
            yield first, ("crash", f"the process ended with status {process.returncode}")
            first += 1


def run_batch(kind: str, engine: str, first: int, count: int, nodes: int) -> None:
    """What a process of its own does: a line for each graph."""
    for number in range(first, first + count):
        print(json.dumps(check(kind, number, engine, nodes)), flush=True)


def main(arguments: list[str]) -> int:
    """Exit status 1 where a graph is wrong, an error or a crash."""
    parser = argparse.ArgumentParser(
        description="Random graphs on engines, compared with ONNX Runtime."
    )
    parser.add_argument("--engines", default=",".join(ENGINES), help="default: %(default)s")
    parser.add_argument("--kind", choices=KINDS, default="layers", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first graph")
    parser.add_argument("--count", type=int, default=1000, help="how many graphs (%(default)s)")
    parser.add_argument(
        "--nodes",
        type=int,
        default=NODES,
        help="of a graph, at most, about (%(default)s); graphs of few find what goes wrong between "
        "two ops soonest",
    )
    parser.add_argument("--only", type=int, help="this graph, in this process")
    parser.add_argument("--save", help="with --only: a file to write the graph to")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    options = parser.parse_args(arguments)
    engines = options.engines.split(",")
    if options.only is not None:
        if options.save:
            graph = KINDS[options.kind](options.only, options.nodes)
            Path(options.save).write_bytes(graph.model)
        for engine in engines:
            print(engine, *check(options.kind, options.only, engine, options.nodes))
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
            count = min(BATCH, end - first)
            return list(check_apart(options.kind, engine, first, count, options.nodes))

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
        run_batch(*sys.argv[2:4], *map(int, sys.argv[4:]))
        sys.exit()
    sys.exit(main(sys.argv[1:]))
