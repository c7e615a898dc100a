# SPDX-License-Identifier: Apache-2.0
"""Time of planning over the size of the graph: import, passes, queries of engines, compilation.

    python benchmarks/planning.py                            # all kinds on native
    python benchmarks/planning.py --kinds chain --sizes 10000 100000 --engines openvino,native

Each load takes place in a process of its own. A line gives the seconds of processor time per size,
which other work on the machine hardly changes, and the exponent between the two largest: 1 is
linear.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from doubling import OPSETS, doubling_functions

Nodes = list[onnx.NodeProto]
FLOAT = TensorProto.FLOAT


def value(name: str, shape: list[int], dtype: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: Nodes,
    outputs: list[onnx.ValueInfoProto],
    inputs: list[onnx.ValueInfoProto] | None = None,
    functions: list[onnx.FunctionProto] | None = None,
    constants: list[onnx.TensorProto] | None = None,
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs or [value("x", [4])], outputs, constants or [])
    return helper.make_model(graph, opset_imports=OPSETS, functions=functions or [], ir_version=10)


def chain(n: int) -> onnx.ModelProto:
    """Nodes one after the other."""
    ops = ("Relu", "Neg", "Abs", "Exp")
    nodes = [helper.make_node(ops[i % 4], [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(n)]
    return model(nodes, [value(f"v{n}", [4])])


def integers(n: int) -> onnx.ModelProto:
    """As chain, of ops that an engine may compute in floats or in fewer bits."""
    bound = helper.make_tensor("k", TensorProto.INT64, [], [3])
    nodes = [
        helper.make_node(("Max", "Mod")[i % 2], [f"v{i}" if i else "x", "k"], [f"v{i + 1}"])
        for i in range(n)
    ]
    x, y = (value(name, [4], TensorProto.INT64) for name in ("x", f"v{n}"))
    return model(nodes, [y], [x], constants=[bound])


def fan_out(n: int) -> onnx.ModelProto:
    """One value that n nodes read, each with an output of its own."""
    nodes = [helper.make_node("Add", ["x", "x"], ["r"])]
    nodes += [helper.make_node("Elu", ["r"], [f"y{i}"], alpha=float(i)) for i in range(n)]
    return model(nodes, [value(f"y{i}", [4]) for i in range(n)])


def diamonds(n: int) -> onnx.ModelProto:
    """Two ways from each value to the next."""
    nodes: Nodes = []
    for i in range(n // 3):
        source = f"v{i}" if i else "x"
        nodes.append(helper.make_node("Neg", [source], [f"a{i}"]))
        nodes.append(helper.make_node("Abs", [source], [f"b{i}"]))
        nodes.append(helper.make_node("Add", [f"a{i}", f"b{i}"], [f"v{i + 1}"]))
    return model(nodes, [value(f"v{n // 3}", [4])])


def concat(n: int) -> onnx.ModelProto:
    """One node of n operands."""
    return model([helper.make_node("Concat", ["x"] * n, ["y"], axis=0)], [value("y", [4 * n])])


def maximum(n: int) -> onnx.ModelProto:
    """One node of n operands, each made by a node."""
    nodes = [helper.make_node("Elu", ["x"], [f"e{i}"], alpha=float(i)) for i in range(n)]
    nodes.append(helper.make_node("Max", [f"e{i}" for i in range(n)], ["y"]))
    return model(nodes, [value("y", [4])])


def sums(n: int) -> onnx.ModelProto:
    """One node of n operands."""
    return model([helper.make_node("Sum", ["x"] * n, ["y"])], [value("y", [4])])


def results(n: int) -> onnx.ModelProto:
    """n nodes of one operand, each of which makes an output."""
    names = [f"y{i}" for i in range(n)]
    nodes = [helper.make_node("Neg", ["x"], [name]) for name in names]
    return model(nodes, [value(name, [4]) for name in names])


def nested(n: int) -> onnx.ModelProto:
    """n / 1000 branches in one another."""
    nodes = [helper.make_node("Neg", ["x"], ["z0"])]
    for level in range(n):
        otherwise = [helper.make_node("Identity", ["x"], ["e"])]
        branches = {
            "then_branch": helper.make_graph(nodes, "then", [], [value(f"z{level}", [4])]),
            "else_branch": helper.make_graph(otherwise, "else", [], [value("e", [4])]),
        }
        nodes = [helper.make_node("If", ["c"], [f"z{level + 1}"], **branches)]
    given = [value("x", [4]), value("c", [], onnx.TensorProto.BOOL)]
    return model(nodes, [value(f"z{n}", [4])], given)


def split(n: int) -> onnx.ModelProto:
    """One node of n outputs, and one that joins them."""
    parts = [f"p{i}" for i in range(n)]
    nodes = [
        helper.make_node("Split", ["x"], parts, axis=0, num_outputs=n),
        helper.make_node("Concat", parts[::-1], ["y"], axis=0),
    ]
    return model(nodes, [value("y", [n])], [value("x", [n])])


def ifs(n: int) -> onnx.ModelProto:
    """Sub-graphs, one after the other, that capture what goes before."""
    nodes: Nodes = []
    for i in range(n):
        source = f"v{i}" if i else "x"
        branches = {
            name: helper.make_graph(
                [helper.make_node(op, [source], ["r"])], name, [], [value("r", [4])]
            )
            for name, op in (("then_branch", "Neg"), ("else_branch", "Abs"))
        }
        nodes.append(helper.make_node("If", ["c"], [f"v{i + 1}"], **branches))
    inputs = [value("x", [4]), value("c", [], TensorProto.BOOL)]
    return model(nodes, [value(f"v{n}", [4])], inputs)


def loops(n: int) -> onnx.ModelProto:
    """Loops, one after the other."""
    nodes: Nodes = []
    for i in range(n):
        body = helper.make_graph(
            [
                helper.make_node("Identity", ["c"], ["go"]),
                helper.make_node("Neg", ["s"], ["t"]),
            ],
            "body",
            [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("s", [4])],
            [value("go", [], TensorProto.BOOL), value("t", [4])],
        )
        source = f"v{i}" if i else "x"
        nodes.append(helper.make_node("Loop", ["m", "", source], [f"v{i + 1}"], body=body))
    inputs = [value("x", [4]), value("m", [], TensorProto.INT64)]
    return model(nodes, [value(f"v{n}", [4])], inputs)


def functions(n: int) -> onnx.ModelProto:
    """Functions, each of which calls the one before twice: about n nodes."""
    depth = max(int(math.log2(n)), 1)
    nodes = [helper.make_node(f"F{depth - 1}", ["x"], ["y"], domain="f")]
    return model(nodes, [value("y", [4])], functions=doubling_functions(depth))


def constants(n: int) -> onnx.ModelProto:
    """Constants that are folded one after the other."""
    tensor = helper.make_tensor("k", FLOAT, [4], np.ones(4, np.float32).tolist())
    nodes = [helper.make_node("Elu", ["k"], [f"e{i}"], alpha=float(i)) for i in range(n)]
    nodes += [
        helper.make_node("Add", [f"s{i}" if i else "x", f"e{i}"], [f"s{i + 1}"]) for i in range(n)
    ]
    return model(nodes, [value(f"s{n}", [4])], constants=[tensor])


KINDS: dict[str, tuple[Callable[[int], onnx.ModelProto], int]] = {
    # How to make it, and by how much it is smaller than the sizes asked for.
    "chain": (chain, 1),
    "integers": (integers, 1),
    "fan_out": (fan_out, 1),
    "diamonds": (diamonds, 1),
    "concat": (concat, 1),
    "maximum": (maximum, 1),
    "sums": (sums, 1),
    "split": (split, 1),
    "results": (results, 1),
    "nested": (nested, 1000),
    "ifs": (ifs, 10),
    "loops": (loops, 100),
    "functions": (functions, 1),
    "constants": (constants, 10),
}


def worker(kind: str, size: int, engines: str) -> None:
    data = KINDS[kind][0](size).SerializeToString()
    import openxrt

    start = time.process_time()
    openxrt.load(data, engine=engines.split(","), cache_dir="", check_results=False)
    print(f"seconds {time.process_time() - start:.3f}")


def measure(kind: str, size: int, engines: str, limit: float) -> float | str:
    command = [sys.executable, __file__, "--worker", kind, str(size), "--engines", engines]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, check=False, env=os.environ
        )
    except subprocess.TimeoutExpired:
        return f"> {limit:.0f} s"
    for line in done.stdout.splitlines():
        if line.startswith("seconds "):
            return float(line.split()[1])
    return (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1][:100]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[3_000, 10_000, 30_000])
    parser.add_argument("--engines", default="native")
    parser.add_argument(
        "--limit", type=float, default=120, help="seconds that one process may take"
    )
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker(given.worker[0], int(given.worker[1]), given.engines)
        return
    for kind in given.kinds:
        sizes = [max(size // KINDS[kind][1], 1) for size in given.sizes]
        times: list[tuple[int, float]] = []
        texts = []
        for size in sizes:
            took = measure(kind, size, given.engines, given.limit)
            texts.append(f"{size}: {took}" if isinstance(took, str) else f"{size}: {took:.2f} s")
            if isinstance(took, str):
                break
            times.append((size, took))
        exponent = ""
        if len(times) > 1:
            (small, first), (large, last) = times[-2:]
            exponent = f"  exponent {math.log(last / first) / math.log(large / small):.2f}"
        print(f"{kind:10} {given.engines:16} {', '.join(texts)}{exponent}", flush=True)


if __name__ == "__main__":
    main()
