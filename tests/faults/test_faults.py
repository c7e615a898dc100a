# SPDX-License-Identifier: Apache-2.0
"""Faults of the machine: ends at random moments, full disks, limits, clocks, many threads.

Each case is a process of its own: what is asked for is a right result or an error of ours, and
never an end by a signal.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from small_models import usable

SIZE = 64
LAYERS = 8

# What every program below begins with.
BEGINNING = """
    import os, resource, sys, threading, time
    import numpy as np
    import openxrt
    model, cache = sys.argv[1:]
    wanted = np.load(model + ".npy")
    x = np.ones((4, 64), np.float32)
    def load(engine="native", **options):
        return openxrt.load(model, engine=[engine], **{"cache_dir": cache} | options)
    def is_right(program):
        return np.allclose(program(x), wanted, rtol=1e-3, atol=1e-3)
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    nodes, value, weights = [], "x", {}
    result = np.ones((4, SIZE), np.float32)
    for i in range(LAYERS):
        weights[f"w{i}"] = rng.standard_normal((SIZE, SIZE), dtype=np.float32) / 8
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Tanh", [f"m{i}"], [f"t{i}"]))
        value = f"t{i}"
        result = np.tanh(result @ weights[f"w{i}"])
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", kind, ["n", SIZE])],
        [helper.make_tensor_value_info(value, kind, ["n", SIZE])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    np.save(f"{path}.npy", result)
    return path


def start(code: str, model: Path) -> subprocess.Popen[str]:
    program = textwrap.dedent(BEGINNING) + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", program, str(model), str(model.parent / "cache")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"XRT_LOG": "error"},
    )


def run(code: str, model: Path, seconds: float = 120) -> str:
    """Standard output of a program that must succeed."""
    process = start(code, model)
    try:
        out, errors = process.communicate(timeout=seconds)
    finally:
        process.kill()
    assert process.returncode == 0, out + errors
    return out.strip()


def test_daemon_threads_run_when_the_interpreter_ends(model: Path) -> None:
    code = """
        program = load()
        def forever():
            while True:
                program(x)
        for _ in range(8):
            threading.Thread(target=forever, daemon=True).start()
        time.sleep(0.2)
        print("ends")
    """
    assert run(code, model) == "ends"


def test_a_start_that_is_killed_leaves_a_folder_of_use(model: Path) -> None:
    code = """
        print("begins", flush=True)
        while True:
            load(force_compile=True)(x)
            openxrt._core.finish_writing()
    """
    chance = random.Random(0)
    for _ in range(6):
        process = start(code, model)
        process.stdout.readline()
        time.sleep(chance.uniform(0, 0.3))
        process.kill()
        process.communicate()
        assert run("print(is_right(load()))", model) == "True"


@pytest.mark.parametrize("engine", ["native", "onnxruntime", "openvino", "xla"])
def test_a_file_may_not_grow(engine: str, model: Path) -> None:
    """What a full disk is: writing fails in the middle of a file."""
    if not usable(engine):
        pytest.skip(f"engine {engine} is not usable here")
    code = f"""
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        print(is_right(load("{engine}")))
    """
    assert run(code, model) == "True"
    assert run(f'print(is_right(load("{engine}")))', model) == "True"


def test_the_clock_jumps(model: Path) -> None:
    run("load()(x)", model)
    for seconds in (time.time() + 1e8, 1e6):
        for path in [model, *(model.parent / "cache").rglob("*")]:
            os.utime(path, (seconds, seconds))
        assert run("print(is_right(load()))", model) == "True"


@pytest.mark.parametrize("kind", ["NOFILE", "AS"])
def test_limits_are_errors(kind: str, model: Path) -> None:
    code = f"""
        kind = resource.RLIMIT_{kind}
        hard = resource.getrlimit(kind)[1]
        load(cache_dir="")(x)
        used = len(os.listdir("/proc/self/fd"))
        if kind == resource.RLIMIT_AS:
            used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        step = 1 if kind == resource.RLIMIT_NOFILE else 8 << 20
        outcomes = set()
        for more in range(6):
            resource.setrlimit(kind, (used + more * step, hard))
            try:
                outcomes.add(is_right(load()))
            except (openxrt.Error, MemoryError, OSError):
                outcomes.add("refused")
            finally:
                resource.setrlimit(kind, (hard, hard))
        outcomes.discard("refused")
        print(outcomes <= {{True}}, is_right(load()))
    """
    assert run(code, model) == "True True"


def test_many_threads_load_run_and_drop(model: Path) -> None:
    code = """
        alone = load()
        inputs = {n: np.full((n, 64), 1 / n, np.float32) for n in range(1, 9)}
        results = {n: np.array(alone(value)) for n, value in inputs.items()}
        wrong = []
        def work(seed):
            order = np.random.default_rng(seed)
            for _ in range(6):
                program = load()
                for n in order.integers(1, 9, 20):
                    if not np.allclose(program(inputs[n]), results[n], rtol=1e-3, atol=1e-3):
                        wrong.append(n)
        def turn():
            threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        turn()
        before, after = turn(), turn()
        print(wrong, after[0] <= before[0] + 4, after[1] <= before[1] + 4)
    """
    assert run(code, model) == "[] True True"


def test_a_child_of_fork_runs_what_it_loads(model: Path) -> None:
    code = """
        child = os.fork()
        if child == 0:
            os._exit(0 if is_right(load()) else 1)
        print(os.waitpid(child, 0)[1], is_right(load()))
    """
    assert run(code, model) == "0 True"
