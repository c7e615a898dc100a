# SPDX-License-Identifier: Apache-2.0
"""Signals while programs are loaded and run: Ctrl-C is KeyboardInterrupt soon, and whatever ends
the process leaves no worker behind."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from faulty_process import ENGINES, run, start, write_model
from onnx import helper, numpy_helper
from small_models import usable

SIZE = 1024
PRODUCTS = 400  # of some 20 ms each


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "model.onnx")


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose run takes many seconds."""
    path = tmp_path_factory.mktemp("long") / "long.onnx"
    kind = onnx.TensorProto.FLOAT
    weight = np.random.default_rng(0).standard_normal((SIZE, SIZE), dtype=np.float32) / 32
    nodes, value = [], "x"
    for i in range(PRODUCTS):
        nodes.append(helper.make_node("MatMul", [value, "w"], [f"m{i}"]))
        nodes.append(helper.make_node("Tanh", [f"m{i}"], [f"t{i}"]))
        value = f"t{i}"
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info("x", kind, [SIZE, SIZE])],
        [helper.make_tensor_value_info(value, kind, [SIZE, SIZE])],
        [numpy_helper.from_array(weight, "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    np.save(f"{path}.npy", np.zeros(1, np.float32))
    return path


@pytest.mark.parametrize(
    ("engine", "isolated"),
    [("native", False), *((engine, True) for engine in ENGINES)],
)
def test_ctrl_c_ends_a_long_run(engine: str, isolated: bool, long: Path) -> None:
    """One call of a vendor's library in the process itself ends before anybody looks."""
    if not usable(engine):
        pytest.skip(f"engine {engine} is not usable here")
    isolation = [engine] if isolated else []
    code = f"""
        program = load("{engine}", isolation={isolation}, cache_dir="", check_results=False)
        x = np.ones(({SIZE}, {SIZE}), np.float32)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        rung = []
        def ring():
            rung.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(0.5, ring).start()
        try:
            program(x)
            print("ended by itself")
        except KeyboardInterrupt:
            print(time.monotonic() - rung[0] < 3)
    """
    assert run(code, long) == "True"


def test_ctrl_c_leaves_steps_of_training_whole(model: Path) -> None:
    """What is written over the weights is written by the whole step, or not at all."""
    code = """
        signal.signal(signal.SIGINT, signal.default_int_handler)
        def trainer():
            return openxrt.Trainer(model, loss="mse", num_threads=1)
        interrupted = trainer()
        for _ in range(3):
            threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                while True:
                    interrupted.step(x, target=wanted)
            except KeyboardInterrupt:
                pass
        interrupted.save(model + ".interrupted")
        whole = trainer()
        while whole.step_count < interrupted.step_count:
            whole.step(x, target=wanted)
        whole.save(model + ".whole")
        print(open(model + ".whole", "rb").read() == open(model + ".interrupted", "rb").read())
    """
    assert run(code, model) == "True"


LOADS = """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    is_right(load("{engine}", isolation={isolation}))
    print("begins", flush=True)
    while True:
        load("{engine}", isolation={isolation}, force_compile=True)(x)
"""


def gone(process: int) -> bool:
    """Whether the process ends within some seconds."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def children(process: int) -> list[int]:
    return [
        int(word)
        for task in Path(f"/proc/{process}/task").iterdir()
        for word in (task / "children").read_text().split()
    ]


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_ctrl_c_at_any_moment_of_loading(engine: str, isolated: bool, model: Path) -> None:
    if not usable(engine):
        pytest.skip(f"engine {engine} is not usable here")
    code = LOADS.format(engine=engine, isolation=[engine] if isolated else [])
    chance = random.Random(engine)
    process = start(code, model)
    assert process.stdout.readline() == "begins\n", process.communicate()[1]
    time.sleep(chance.uniform(0, 0.3))
    workers = children(process.pid)
    assert bool(workers) == isolated
    # Python drops what a handler raises in a finaliser, which a folder for temporary files has:
    # where one goes with a session of ONNX Runtime, Ctrl-C may have to be pressed again.
    presses = 4 if engine == "onnxruntime" and not isolated else 1
    for press in range(presses):
        process.send_signal(signal.SIGINT)
        try:
            process.wait(3 if press < presses - 1 else 30)
            break
        except subprocess.TimeoutExpired:
            continue
    _, errors = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors
    assert process.returncode in (1, -signal.SIGINT), errors
    assert all(map(gone, workers))
    assert run(f'print(is_right(load("{engine}")))', model) == "True"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGQUIT])
def test_whatever_ends_the_process_leaves_no_worker(how: signal.Signals, model: Path) -> None:
    """Of several engines, some of which run while others are compiled in."""
    engines = [engine for engine in ENGINES if usable(engine)]
    code = f"""
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal({int(how)}, signal.SIG_DFL)  # what a shell runs behind it ignores SIGQUIT
        engines = {engines}
        programs = [load(engine, isolation=[engine], cache_dir="") for engine in engines]
        assert all(map(is_right, programs))
        def run(program):
            while True:
                program(x)
        def compile(engine):
            while True:
                load(engine, isolation=[engine], cache_dir="", force_compile=True)(x)
        for work, values in ((run, programs), (compile, engines)):
            for value in values:
                threading.Thread(target=work, args=(value,), daemon=True).start()
        time.sleep(0.2)
        print("works", flush=True)
        time.sleep(60)
    """
    process = start(code, model)
    assert process.stdout.readline() == "works\n", process.communicate()[1]
    workers = children(process.pid)
    assert len(workers) >= len(engines)
    process.send_signal(how)
    assert process.wait(60) == -how
    process.communicate(timeout=60)  # its workers hold the other end
    assert all(map(gone, workers))
