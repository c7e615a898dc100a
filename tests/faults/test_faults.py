# SPDX-License-Identifier: Apache-2.0
"""Faults of the machine: ends at random moments, full disks, permissions, limits, clocks, signals,
many threads.

Each case is a process of its own: what is asked for is a right result or an error of ours, and
never an end by a signal.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from faulty_process import ENGINES, run, start, without_rights_of_root, write_model
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, usable


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model.onnx")


def skip_without(engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"engine {engine} is not usable here")


@pytest.mark.parametrize("engine", ENGINES)
def test_the_interpreter_ends_while_threads_load_and_run(engine: str, model: Path) -> None:
    skip_without(engine)
    code = f"""
        program = load("{engine}")
        is_right(program)
        def run_forever():
            while True:
                program(x)
        def load_forever():
            while True:
                load("{engine}")(x)
        for work in [run_forever] * 4 + [load_forever] * 2:
            threading.Thread(target=work, daemon=True).start()
        time.sleep(0.3)
        print("ends")
    """
    assert run(code, model) == "ends"


def test_the_process_ends_after_openvino_without_pinning(tmp_path: Path) -> None:
    """Its threads let go of a library that is taken down before statics of ours are."""
    skip_without("openvino")
    path = tmp_path / "convolution.onnx"
    weights = np.ones((8, 3, 4, 4), np.float32)
    path.write_bytes(
        make_model(
            [helper.make_node("Conv", ["x", "w"], ["y"])],
            [tensor("x", TensorProto.FLOAT, [1, 3, 224, 224])],
            [tensor("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(weights, "w")],
        )
    )
    code = f"""
import openxrt
options = {{"openvino": {{"ENABLE_CPU_PINNING": "NO"}}}}
program = openxrt.load({str(path)!r}, engine="openvino", cache_dir="", engine_options=options)
"""
    for _ in range(4):
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# What threads are in the midst of when the interpreter ends.
MIDST = {
    "quantise": 'openxrt.quantize.quantize(model, f"{model}.{number}", weights="int8")',
    "train": 'openxrt.Trainer(model, loss="mse").step(x, target=wanted)',
    "submit": "[program.submit(x) for _ in range(20)][-1].result()",
    "convert": "program([[float(n) for n in range(64)]] * 4)",
    "export": "openxrt.load(model, engine=['slow', 'native'], cache_dir='')(x)",
}


@pytest.mark.parametrize("work", MIDST)
def test_the_interpreter_ends_in_the_midst_of(work: str, model: Path) -> None:
    code = f"""
        import openxrt.custom, openxrt.quantize
        @openxrt.custom.engine("slow", version="1")
        class Slow:
            def supports(self, node):
                return "no" if len(node.to_onnx()) > 1 else True
            def compile(self, function):
                raise RuntimeError("nothing is its")
        program = load()
        is_right(program)
        def work(number):
            while True:
                {MIDST[work]}
        for number in range(6):
            threading.Thread(target=work, args=(number,), daemon=True).start()
        time.sleep(0.5)
        print("ends")
    """
    assert run(code, model) == "ends"


# What is done again and again until the process is killed, and a check of what it leaves behind.
# Each prints a line once the first turn is over.
KILLED = {
    "compile": (
        """
        while True:
            load(force_compile=True)(x)
            openxrt._core.finish_writing()
            print("turn", flush=True)
        """,
        "print(is_right(load()))",
    ),
    "quantise weights": (
        """
        import openxrt.quantize
        while True:
            openxrt.quantize.quantize(model, model + ".small", weights="int8")
            print("turn", flush=True)
        """,
        """
        small = openxrt.load(model + ".small", engine="native", cache_dir="")
        print(np.allclose(small(x), wanted, rtol=0.1, atol=0.1))
        """,
    ),
    "quantise by samples": (
        """
        import openxrt.quantize
        samples = [{"x": x * k} for k in (0.5, 1, 1.5)]
        while True:
            openxrt.quantize.quantize(model, model + ".int8", calibration=samples)
            print("turn", flush=True)
        """,
        """
        small = openxrt.load(model + ".int8", engine="native", cache_dir="")
        print(np.allclose(small(x), wanted, rtol=0.2, atol=0.2))
        """,
    ),
    "calibrate": (
        """
        import openxrt.quantize
        samples = [{"x": x * k} for k in (0.5, 1, 1.5)]
        while True:
            openxrt.quantize.calibrate(model, samples).save(model + ".table")
            print("turn", flush=True)
        """,
        """
        import openxrt.quantize
        table = openxrt.quantize.CalibrationTable.load(model + ".table")
        again = openxrt.quantize.calibrate(model, [{"x": x * k} for k in (0.5, 1, 1.5)])
        print(table.text() == again.text())
        """,
    ),
    "checkpoint": (
        """
        trainer = openxrt.Trainer(model, loss="mse")
        while True:
            trainer.step(x, target=wanted)
            trainer.save(model + ".state")
            print("turn", flush=True)
        """,
        """
        trainer = openxrt.Trainer(model, loss="mse")
        trainer.load(model + ".state")
        print(trainer.step_count > 0)
        """,
    ),
}


@pytest.mark.parametrize("work", KILLED)
def test_a_kill_at_any_moment_leaves_files_of_use(work: str, model: Path) -> None:
    code, check = KILLED[work]
    chance = random.Random(work)
    for _ in range(3):
        process = start(code, model)
        line = process.stdout.readline()
        time.sleep(chance.uniform(0, 0.2))
        process.kill()
        _, errors = process.communicate()
        assert line == "turn\n", errors
        assert run(check, model) == "True"


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_a_kill_in_a_compilation_leaves_a_folder_of_use(engine: str, model: Path) -> None:
    skip_without(engine)
    code = f"""
        print("begins", flush=True)
        while True:
            load("{engine}", force_compile=True)(x)
            openxrt._core.finish_writing()
    """
    chance = random.Random(engine)
    for _ in range(3):
        process = start(code, model)
        process.stdout.readline()
        time.sleep(chance.uniform(0.1, 1.5))
        process.kill()
        process.communicate()
        assert run(f'print(is_right(load("{engine}")))', model) == "True"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_may_not_grow(engine: str, model: Path) -> None:
    """What a full disk is: writing fails in the middle of a file."""
    skip_without(engine)
    code = f"""
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        print(is_right(load("{engine}")))
    """
    assert run(code, model) == "True"
    assert run(f'print(is_right(load("{engine}")))', model) == "True"


# What writes a file that was there before, and a check of it.
KEPT = {
    "quantise": (
        'openxrt.quantize.quantize(model, model + ".small", weights="int8")',
        'openxrt.load(model + ".small", engine="native", cache_dir="")(x)',
    ),
    "checkpoint": (
        'openxrt.Trainer(model, loss="mse").save(model + ".state")',
        'openxrt.Trainer(model, loss="mse").load(model + ".state")',
    ),
}


@pytest.mark.parametrize("how", ["full", "read-only", "no descriptors"])
@pytest.mark.parametrize("work", KEPT)
def test_what_cannot_be_written_leaves_the_old_file(work: str, how: str, model: Path) -> None:
    write, check = KEPT[work]
    prefix: tuple[str, ...] = ()
    begin, end = "", ""
    if how == "full":
        begin = "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))"
    elif how == "no descriptors":
        begin = "free = os.dup(0); os.close(free); limit(free)"
        end = "limit(most)"
    else:
        prefix = without_rights_of_root()
        begin = "os.chmod(os.path.dirname(model), 0o500)"
        end = "os.chmod(os.path.dirname(model), 0o700)"
    code = f"""
        import openxrt.quantize
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        def limit(descriptors):
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, most))
        {write}
        before = sorted(os.listdir(os.path.dirname(model)))
        {begin}
        try:
            {write}
            print("was written")
        except openxrt.Error as error:
            print(type(error).__name__)
        {end}
        {check}
        print(sorted(os.listdir(os.path.dirname(model))) == before)
    """
    assert run(code, model, prefix=prefix).split() == ["IoError", "True"]


def test_permissions_that_are_revoked(model: Path) -> None:
    """Of the cache: each load is right, and slower. Of the model: an error that names it."""
    code = """
        program = load()
        print(is_right(program))
        openxrt._core.finish_writing()
        files = [os.path.join(cache, name) for name in os.listdir(cache)]
        def chmod(mode, paths):
            for path in paths:
                os.chmod(path, mode)
        for mode, paths in ((0, files), (0o400, files), (0, [cache]), (0o500, [cache])):
            chmod(mode, paths)
            print(is_right(load()), is_right(load(num_threads=1)))
            chmod(0o700, paths)
        os.chmod(model, 0)
        try:
            load()
        except openxrt.IoError as error:
            print(model in str(error) and "Permission denied" in str(error))
        print(is_right(program))
        os.chmod(model, 0o600)
        print(is_right(load()))
    """
    assert set(run(code, model, prefix=without_rights_of_root()).split()) == {"True"}


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_signals_come_all_the_time(engine: str, isolated: bool, model: Path) -> None:
    """Each system call may end with EINTR."""
    skip_without(engine)
    isolation = [engine] if isolated else []
    code = f"""
        count = 0
        def ring(number, frame):
            global count
            count += 1
        signal.signal(signal.SIGALRM, ring)
        signal.siginterrupt(signal.SIGALRM, True)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        for options in ({{}}, {{"force_compile": True}}, {{"cache_dir": ""}}):
            program = load("{engine}", isolation={isolation}, **options)
            for _ in range(50):
                assert is_right(program)
            openxrt._core.finish_writing()
        signal.setitimer(signal.ITIMER_REAL, 0, 0)
        print(count > 0)
    """
    assert run(code, model) == "True"


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


@pytest.mark.parametrize("engine", ["native", "onnxruntime", "openvino"])
def test_a_worker_without_memory(engine: str, model: Path) -> None:
    """Its library may end the process that it is in; that is the worker."""
    skip_without(engine)
    code = f"""
        kind = resource.RLIMIT_AS
        hard = resource.getrlimit(kind)[1]
        load(cache_dir="")(x)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        outcomes = set()
        for more in (8, 64, 256, 512):
            resource.setrlimit(kind, (used + (more << 20), hard))
            try:
                outcomes.add(is_right(load("{engine}", isolation=["{engine}"], cache_dir="")))
            except (openxrt.Error, MemoryError, OSError):
                outcomes.add("refused")
            finally:
                resource.setrlimit(kind, (hard, hard))
        outcomes.discard("refused")
        print(outcomes <= {{True}}, is_right(load("{engine}")))
    """
    assert run(code, model) == "True True"


def test_a_child_of_fork_runs_what_it_loads(model: Path) -> None:
    code = """
        child = os.fork()
        if child == 0:
            os._exit(0 if is_right(load()) else 1)
        print(os.waitpid(child, 0)[1], is_right(load()))
    """
    assert run(code, model) == "0 True"


def test_a_child_runs_while_the_cache_is_written(model: Path) -> None:
    """The thread that writes is the parent's: the child neither waits for it nor for its locks."""
    code = """
        ends = []
        for turn in range(40):
            program = load(force_compile=True)
            program(x)
            time.sleep(0.002 * (turn % 12))
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                right = is_right(program) and is_right(load(cache_dir="")) and is_right(load())
                os._exit(0 if right else 1)
            ends.append(os.waitpid(child, 0)[1])
        print(ends == [0] * 40, is_right(load()))
    """
    assert run(code, model) == "True True"


def test_a_child_does_not_keep_the_locks_of_its_parent(model: Path) -> None:
    """They would outlive a parent that is killed, for all processes that share the folder."""
    code = """
        for turn in range(8):
            program = load(force_compile=True)
            program(x)
            if os.fork() == 0:
                os.close(1)
                time.sleep(60)
                os._exit(0)
        print(open(f"/proc/self/task/{os.getpid()}/children").read(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    process = start(code, model)
    children = [int(word) for word in process.stdout.readline().split()]
    try:
        assert len(children) == 8
        assert run("print(is_right(load(force_compile=True)))", model, seconds=30) == "True"
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
        process.communicate()
