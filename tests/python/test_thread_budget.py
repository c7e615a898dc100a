# SPDX-License-Identifier: Apache-2.0
"""One thread budget for all engines of a process: cores used, results, and what is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper

SIZE, LAYERS, CALLERS = 192, 4, 8
ENGINES = ("native", "openvino", "xla", "onnxruntime", "tvm", "template")


def weights(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.1, 0.1, (SIZE, SIZE)).astype(np.float32)


def model(seed: int) -> bytes:
    """A few products, each worth several threads."""
    nodes, name = [], "x"
    for i in range(LAYERS):
        nodes += [
            helper.make_node("MatMul", [name, "w"], [f"p{i}"]),
            helper.make_node("Relu", [f"p{i}"], [f"y{i}"]),
        ]
        name = f"y{i}"
    shape = [SIZE, SIZE]
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(weights(seed), "w")],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    ).SerializeToString()


def expected(x: np.ndarray, seed: int) -> np.ndarray:
    for _ in range(LAYERS):
        x = np.maximum(x.astype(np.float64) @ weights(seed), 0)
    return x


def rate(programs: list[openxrt.Program], callers: int, seconds: float) -> dict[str, float]:
    """Runs per second of processor time, cores used and wrong results, of so many callers."""
    runs, wrong = [0] * callers, [0] * callers
    xs = [
        np.random.default_rng(i).uniform(-1, 1, (SIZE, SIZE)).astype(np.float32) for i in range(3)
    ]
    wanted = [[expected(x, seed) for x in xs] for seed in range(len(programs))]
    output = programs[0].outputs[0].name
    begin, begin_cpu = time.perf_counter(), time.process_time()

    def call(caller: int) -> None:
        n = 0
        while time.perf_counter() - begin < seconds:
            # One caller serves all programs in turn, eight have one each.
            i = (caller if callers > 1 else n) % len(programs)
            y = programs[i].run({"x": xs[n % 3]})[output]
            # Comparing is the callers' own work, outside of the budget: now and then is enough.
            if n % 16 == 0:
                wrong[caller] += not np.allclose(y, wanted[i][n % 3], rtol=1e-3, atol=1e-4)
            n += 1
        runs[caller] = n

    threads = [threading.Thread(target=call, args=(i,)) for i in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used, wall = time.process_time() - begin_cpu, time.perf_counter() - begin
    return {
        "per_cpu": sum(runs) / used,
        "cores": used / wall,
        "wrong": sum(wrong),
        "least": min(runs),
    }


def available() -> list[str]:
    """Engines that this installation has, each with a library behind it or not."""
    found = []
    for name in ENGINES:
        try:
            openxrt.engine_ops(name)
        except openxrt.Error:
            continue
        found.append(name)
    return found


def child(without: tuple[str, ...] = ()) -> None:
    """In a process of its own, whose budget is in the environment."""
    engines = [name for name in available() if name not in without]
    programs = [openxrt.load(model(i), engine=engines[i % len(engines)]) for i in range(CALLERS)]
    for program in programs:
        program.run({"x": np.zeros((SIZE, SIZE), np.float32)})
    serial = rate(programs, 1, 1.0)
    print(json.dumps({"engines": engines, "serial": serial, "all": rate(programs, CALLERS, 2.0)}))


def measure(budget: int, call: str) -> dict[str, Any]:
    """What `call` of this module printed in a process with that budget."""
    template = Path(openxrt.__file__).parents[2] / "lib" / "xrt" / "template"
    environment = os.environ | {
        "XRT_NUM_THREADS": str(budget),
        "XRT_ENGINE_PATH": str(template),
        "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)]),
        # NumPy's own threads are none of ours.
        "OPENBLAS_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", f"import test_thread_budget; test_thread_budget.{call}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    measured = json.loads(done.stdout.splitlines()[-1])
    assert len(measured["engines"]) >= 2
    return measured


@pytest.mark.parametrize("budget", [1, 2])
def test_programs_on_different_engines_share_the_budget(budget: int) -> None:
    measured = measure(budget, "child()")
    # Another load on the machine only lowers the cores.
    assert measured["all"]["cores"] <= budget + 0.2, measured
    assert measured["all"]["wrong"] == measured["serial"]["wrong"] == 0
    assert measured["all"]["least"] >= 1, "a caller starved"
    assert measured["all"]["per_cpu"] > 0.6 * measured["serial"]["per_cpu"], measured


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 3, reason="no core beside the budget's two")
def test_an_engine_s_threads_rest_while_the_next_computes() -> None:
    # OpenVINO's are TBB's, in an arena that nobody else reaches: they look for work for 1 ms.
    measured = measure(2, "child(without=('openvino',))")
    assert measured["serial"]["cores"] <= 2.2, measured
    assert measured["all"]["cores"] <= 2.2, measured
    assert measured["all"]["wrong"] == measured["serial"]["wrong"] == 0


def test_a_program_gets_no_more_than_the_budget() -> None:
    before = openxrt.thread_budget()
    try:
        openxrt.set_num_threads(2)
        assert openxrt.thread_budget() == 2
        program = openxrt.load(model(0), engine="native", num_threads=5)
        notes = " ".join(program.explain()["notes"])
        assert "num_threads is 5" in notes and "budget of 2" in notes
        within = openxrt.load(model(0), engine="native", num_threads=2)
        assert "num_threads" not in " ".join(within.explain()["notes"])
        # Smaller than what the program was compiled for: it runs, alone.
        openxrt.set_num_threads(1)
        x = np.ones((SIZE, SIZE), np.float32)
        y = program.run({"x": x})[program.outputs[0].name]
        np.testing.assert_allclose(y, expected(x, 0), rtol=1e-3, atol=1e-4)
        with pytest.raises(openxrt.InvalidArgument, match="from 1 to"):
            openxrt.set_num_threads(0)
        assert openxrt.thread_budget() == 1
    finally:
        openxrt.set_num_threads(before)


@openxrt.engine("budget_nested", version="1", ops=["Relu"])
class Nested:
    """Its runs call another program, once in their own thread."""

    inner: openxrt.Program | None = None

    def supports(self, node: openxrt.NodeView) -> bool | str:
        return node.op == "Relu" or "Relu only"

    def compile(self, function: openxrt.FunctionView):
        def run(x: np.ndarray) -> np.ndarray:
            if Nested.inner is not None:
                Nested.inner.run({"x": x})
            return np.maximum(x, 0)

        return run


def test_an_engine_may_run_a_program() -> None:
    Nested.inner = openxrt.load(model(1), engine="native")
    program = openxrt.load(model(0), engine=["budget_nested", "native"])
    assert program.explain()["nodes_per_engine"]["budget_nested"] == LAYERS
    x = np.ones((SIZE, SIZE), np.float32)
    begin = time.perf_counter()
    y = program.run({"x": x})[program.outputs[0].name]
    assert time.perf_counter() - begin < 5
    np.testing.assert_allclose(y, expected(x, 0), rtol=1e-3, atol=1e-4)
