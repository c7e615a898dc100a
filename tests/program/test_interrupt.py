# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, and whatever else a signal handler raises, ends work in C++ that takes long."""

import fcntl
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper
from openxrt._core import finish_writing
from small_models import make_model, tensor


class Alarm(Exception):
    """Raised by the handler."""


@pytest.fixture
def alarm() -> Iterator[None]:
    """After a second SIGALRM raises Alarm, as scripts that limit a call's time have it."""

    def ring(_signal: int, _frame: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 1)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def endless(inner: str) -> bytes:
    """A Loop that never says that it is done; float32[2]."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node(inner, ["v"], ["w"], name="inner"),
        ],
        "body",
        [
            tensor("i", TensorProto.INT64, []),
            tensor("go", TensorProto.BOOL, []),
            tensor("v", TensorProto.FLOAT, [2]),
        ],
        [tensor("go_on", TensorProto.BOOL, []), tensor("w", TensorProto.FLOAT, [2])],
    )
    return make_model(
        [helper.make_node("Loop", ["", "yes", "x"], ["y"], name="loop", body=body)],
        [tensor("x", TensorProto.FLOAT, [2]), tensor("yes", TensorProto.BOOL, [])],
        [tensor("y", TensorProto.FLOAT, [2])],
    )


@pytest.mark.parametrize("engines", [{"loop": "native"}, {"loop": "runtime"}])
def test_an_endless_loop_ends(alarm: None, engines: dict[str, str]) -> None:
    program = openxrt.load(endless("Neg"), engine=["openvino", "native"], node_engines=engines)
    started = time.monotonic()
    with pytest.raises(Alarm):
        program.run({"x": np.ones(2, np.float32), "yes": np.array(True)})
    assert time.monotonic() - started < 10
    assert openxrt.load(
        make_model(
            [helper.make_node("Neg", ["x"], ["y"])],
            [tensor("x", TensorProto.FLOAT, [2])],
            [tensor("y", TensorProto.FLOAT, [2])],
        ),
        engine="native",
    )(np.ones(2, np.float32)).tolist() == [-1, -1]


SERIALISES_FOREVER = """
import os, signal, sys, threading, time
import numpy as np
import openxrt

class Executable:
    def run(self, inputs, outputs):
        outputs[0][...] = inputs[0]

    def serialize(self):
        time.sleep(1000)

@openxrt.engine("slow_to_serialise", version="1")
class Engine:
    def supports(self, node):
        return True

    def compile(self, function):
        return Executable()

    def load(self, blob, function):
        return Executable()

x = np.ones(2, np.float32)
program = openxrt.load(sys.argv[1], engine="slow_to_serialise", cache_dir=sys.argv[2])
assert program(x).tolist() == [1, 1]
threading.Thread(
    target=lambda: (time.sleep(2), os.kill(os.getpid(), signal.SIGINT)), daemon=True
).start()
"""


def test_the_end_of_a_process_is_not_held_up(tmp_path: Path) -> None:
    """An engine that never gives its bytes for the disk cache: Ctrl-C gives that up."""
    model = tmp_path / "model.onnx"
    model.write_bytes(
        make_model(
            [helper.make_node("Identity", ["x"], ["y"])],
            [tensor("x", TensorProto.FLOAT, [2])],
            [tensor("y", TensorProto.FLOAT, [2])],
        )
    )
    result = subprocess.run(
        [sys.executable, "-c", SERIALISES_FOREVER, str(model), str(tmp_path / "cache")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "AssertionError" not in result.stderr
    assert "interrupted, what was still to be kept is not" in result.stderr


def test_waiting_for_another_process_ends(alarm: None, tmp_path: Path, mlp_model: bytes) -> None:
    """Who compiles the same function holds a lock; if that process hangs, others need not."""
    openxrt.load(mlp_model, engine="native", cache_dir=tmp_path)(np.ones((2, 8), np.float32))
    finish_writing()  # the cache is written behind
    locks = [path.open() for path in tmp_path.rglob("*") if path.suffix == ".lock"]
    assert locks
    for file in locks:
        fcntl.flock(file, fcntl.LOCK_EX)
    with pytest.raises(Alarm):
        openxrt.load(mlp_model, engine="native", cache_dir=tmp_path, force_compile=True)(
            np.ones((2, 8), np.float32)
        )


@pytest.mark.parametrize("options", ["strict=True", "fallback=True"])
def test_a_compiler_that_hangs_is_stopped_by_ctrl_c(
    tmp_path: Path, mlp_model: bytes, options: str
) -> None:
    """TVM's compiler, in a process group of its own, which a terminal's Ctrl-C does not reach. With
    `fallback` the program is made without TVM, and the interrupt is raised all the same.
    """
    compiler = tmp_path / "python"
    pid = tmp_path / "pid"
    compiler.write_text(f"#!/bin/sh\necho $$ > {pid}\nread line\nsleep 1000\n")
    compiler.chmod(0o755)
    model = tmp_path / "model.onnx"
    model.write_bytes(mlp_model)
    script = (
        "import os, signal, sys, threading, openxrt, numpy as np\n"
        f"os.environ['XRT_PYTHON'] = {str(compiler)!r}\n"
        "openxrt.engine_ops('tvm')\n"
        "threading.Timer(2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        f"program = openxrt.load({str(model)!r}, engine='tvm', {options})\n"
        "program(np.ones((2, 8), np.float32))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    if "tvm" in result.stderr and not pid.exists():
        pytest.skip("tvm is not installed")
    assert "KeyboardInterrupt" in result.stderr
    assert result.returncode == -signal.SIGINT
    assert not Path("/proc", pid.read_text().strip()).exists()
