# SPDX-License-Identifier: Apache-2.0
"""Processors that programs on several engines use under one thread budget.

    ./dev bench thread_budget                       # every engine, every pair, all together
    ./dev bench thread_budget --engines native,xla  # these together

Each row is a process of its own: eight programs of some 0.2 ms on two threads, called by one thread
in turn and by eight threads at once. The processors used are processor time over wall time; what is
above the budget are threads that look for work after a run. Only a machine with more processors
than the budget can show it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import openxrt

SIZE, LAYERS, CALLERS, SECONDS = 192, 4, 8, 2.0


def model(seed: int) -> bytes:
    """A few products, each worth several threads."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(seed).uniform(-0.1, 0.1, (SIZE, SIZE)).astype(np.float32)
    nodes, name = [], "x"
    for i in range(LAYERS):
        nodes += [
            helper.make_node("MatMul", [name, "w"], [f"p{i}"]),
            helper.make_node("Relu", [f"p{i}"], [f"y{i}"]),
        ]
        name = f"y{i}"
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [SIZE, SIZE])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [SIZE, SIZE])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    ).SerializeToString()


def serve(programs: list[openxrt.Program], callers: int) -> dict[str, float]:
    """So many callers, for SECONDS: one serves all programs in turn, eight have one each."""
    import numpy as np

    x = np.random.default_rng(0).uniform(-1, 1, (SIZE, SIZE)).astype(np.float32)
    longest, runs = [0.0] * callers, [0] * callers
    begin, used = time.perf_counter(), time.process_time()

    def call(caller: int) -> None:
        last = time.perf_counter()
        while last - begin < SECONDS:
            n = runs[caller]
            programs[(caller if callers > 1 else n) % len(programs)].run({"x": x})
            now = time.perf_counter()
            longest[caller] = max(longest[caller], now - last)
            runs[caller], last = n + 1, now

    threads = [threading.Thread(target=call, args=(i,)) for i in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall = time.perf_counter() - begin
    return {
        "processors": (time.process_time() - used) / wall,
        "runs_per_second": sum(runs) / wall,
        "least_runs": min(runs),
        "longest_ms": 1e3 * max(longest),
    }


def measure_here(engines: list[str]) -> None:
    """Prints what this process, whose budget is in its environment, measures."""
    import numpy as np
    import openxrt

    programs = [openxrt.load(model(i), engine=engines[i % len(engines)]) for i in range(CALLERS)]
    for program in programs:
        program.run({"x": np.zeros((SIZE, SIZE), np.float32)})
    print(json.dumps({"one": serve(programs, 1), "eight": serve(programs, CALLERS)}))


def measure(engines: list[str], budget: int) -> dict[str, Any]:
    """The same in a process of its own."""
    environment = os.environ | {
        "XRT_NUM_THREADS": str(budget),
        "OPENBLAS_NUM_THREADS": "1",  # NumPy's own threads are none of ours
    }
    done = subprocess.run(
        [sys.executable, __file__, "--here", ",".join(engines)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if done.returncode != 0:
        sys.exit(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def available() -> list[str]:
    """Engines that compute the model by themselves on the CPU here."""
    import openxrt

    found = []
    for report in openxrt.doctor():
        if report.available and "cpu" in report.devices:
            both = list(dict.fromkeys([report.name, "native"]))
            program = openxrt.load(model(0), engine=both)
            if list(program.explain()["nodes_per_engine"]) == [report.name]:
                found.append(report.name)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", help="measure these together, and nothing else: a,b,c")
    parser.add_argument("--budget", type=int, default=2)
    parser.add_argument("--here", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        measure_here(arguments.here.split(","))
        return
    if arguments.engines:
        rows = [arguments.engines.split(",")]
    else:
        engines = available()
        rows = [[name] for name in engines]
        rows += [list(pair) for pair in itertools.combinations(engines, 2)]
        rows += [engines] if len(engines) > 2 else []
    print(f"{len(os.sched_getaffinity(0))} processors, a budget of {arguments.budget}\n")
    print("| engines | one caller, in turn | eight callers | runs/s | longest run |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for row in rows:
        found = measure(row, arguments.budget)
        one, eight = found["one"], found["eight"]
        print(
            f"| {', '.join(row)} | {one['processors']:.1f} | {eight['processors']:.1f} "
            f"| {eight['runs_per_second']:.0f} | {eight['longest_ms']:.1f} ms |",
            flush=True,
        )


if __name__ == "__main__":
    main()
