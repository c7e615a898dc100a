# SPDX-License-Identifier: Apache-2.0
"""Program.submit(): futures as concurrent.futures and asyncio know them."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from concurrent.futures import CancelledError, as_completed, wait
from pathlib import Path

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import make_model, tensor, usable

SIZE = 96
ENGINES = [e for e in ("native", "openvino", "xla", "onnxruntime") if usable(e)]


@pytest.fixture(scope="module")
def product() -> bytes:
    """y = relu(x · w) and z = x + x."""
    return make_model(
        [
            helper.make_node("MatMul", ["x", "w"], ["p"]),
            helper.make_node("Relu", ["p"], ["y"]),
            helper.make_node("Add", ["x", "x"], ["z"]),
        ],
        [tensor("x", TensorProto.FLOAT, ["n", SIZE]), tensor("w", TensorProto.FLOAT, [SIZE, SIZE])],
        [tensor("y", TensorProto.FLOAT, ["n", SIZE]), tensor("z", TensorProto.FLOAT, ["n", SIZE])],
    )


@pytest.fixture(scope="module")
def identity() -> bytes:
    return make_model(
        [helper.make_node("Neg", ["x"], ["y"])],
        [tensor("x", TensorProto.FLOAT, ["n"])],
        [tensor("y", TensorProto.FLOAT, ["n"])],
    )


class Door:
    """A user's engine whose runs wait until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.began: list[float] = []
        self.some = threading.Condition()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        with self.some:
            self.began.append(float(x[0]))
            self.some.notify_all()
        self.opened.wait(60)
        return -x

    def wait_for(self, runs: int) -> None:
        with self.some:
            assert self.some.wait_for(lambda: len(self.began) >= runs, 60)


@pytest.fixture
def door(request: pytest.FixtureRequest) -> tuple[str, Door]:
    """The name of the engine, and its door."""
    held = Door()
    name = f"door_{abs(hash(request.node.name))}"

    @openxrt.engine(name, version="1", ops=["Neg"], dynamic_shapes=True)
    class DoorEngine:
        def supports(self, _node: openxrt.NodeView) -> bool:
            return True

        def compile(self, _function: openxrt.FunctionView) -> Door:
            return held

    yield name, held
    held.opened.set()


def load(model: bytes, engine: str, **options: object) -> openxrt.Program:
    return openxrt.load(model, engine=[engine], cache_dir="", check_results=False, **options)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("streams", [0, 1, 2, 5])
def test_results_are_those_of_numpy(engine: str, streams: int, product: bytes) -> None:
    program = openxrt.load(product, engine=[engine], streams=streams, cache_dir="")
    rng = np.random.default_rng(0)
    w = rng.standard_normal((SIZE, SIZE)).astype(np.float32)
    pairs = [(x, program.submit(x, w)) for x in rng.standard_normal((12, 4, SIZE), np.float32)]
    for x, request in pairs:
        y, z = request.result()
        np.testing.assert_allclose(y, np.maximum(x @ w, 0), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(z, x + x)


def test_arguments(product: bytes) -> None:
    program = load(product, "native")
    x, w = np.ones((2, SIZE), np.float32), np.eye(SIZE, dtype=np.float32)
    named = program.submit({"x": x, "w": w}).result()
    assert sorted(named) == ["y", "z"]
    np.testing.assert_array_equal(named["y"], x)
    np.testing.assert_array_equal(program.submit(x, w=w).result()[1], x + x)
    y, z = np.empty((2, SIZE), np.float32), np.empty((2, SIZE), np.float32)
    results = program.submit(x, w, out=[y, z], timeout=60, wait=False, device="cpu").result()
    assert results[0] is y
    assert results[1] is z
    np.testing.assert_array_equal(z, x + x)
    with pytest.raises(openxrt.InvalidArgument, match="was not given"):
        program.submit(x)
    with pytest.raises(openxrt.InvalidArgument, match="has no input 'q'"):
        program.submit(x, w, q=x)
    with pytest.raises(openxrt.InvalidArgument, match="timeout"):
        program.submit(x, w, timeout=-1)


def test_an_error_belongs_to_its_request(product: bytes) -> None:
    program = load(product, "native", streams=2)
    good, w = np.ones((2, SIZE), np.float32), np.eye(SIZE, dtype=np.float32)
    requests = [program.submit(good, w), program.submit(good[:, :5], w), program.submit(good, w)]
    wait(requests)
    error = requests[1].exception()
    assert isinstance(error, openxrt.InvalidArgument)
    assert "input 'x'" in str(error)
    with pytest.raises(openxrt.InvalidArgument):
        requests[1].result()
    for request in (requests[0], requests[2]):
        assert request.exception() is None
        np.testing.assert_array_equal(request.result()[0], good)


def test_the_queue_and_cancel(identity: bytes, door: tuple[str, Door]) -> None:
    name, held = door
    program = load(identity, name, streams=1, max_queue=3)
    assert program.streams == 1
    values = [np.full(2, n, np.float32) for n in range(4)]
    requests = [program.submit(values[0])]
    held.wait_for(1)
    requests += [program.submit(value) for value in values[1:]]
    with pytest.raises(openxrt.ResourceError, match="3 requests wait"):
        program.submit(values[0], wait=False)
    assert requests[0].running()
    assert not requests[1].running()
    assert not requests[0].cancel()
    called: list[bool] = []
    requests[2].add_done_callback(lambda request: called.append(request.cancelled()))
    assert requests[2].cancel()
    assert requests[2].cancel()
    assert requests[2].cancelled()
    assert requests[2].done()
    assert called == [True]
    with pytest.raises(CancelledError):
        requests[2].result()
    with pytest.raises(TimeoutError):
        requests[1].result(timeout=0.01)
    ended = threading.Timer(0.05, held.opened.set)
    ended.start()
    for endless in (float("inf"), 10**400, 1e300):
        np.testing.assert_array_equal(requests[1].result(timeout=endless), -values[1])
        assert requests[1].exception(timeout=endless) is None
        held.wait_for(2)
    done = {requests.index(r) for r in as_completed(requests, timeout=60)}
    assert done == {0, 1, 2, 3}
    assert held.began == [0, 1, 3]
    np.testing.assert_array_equal(requests[3].result(), -values[3])


def test_a_full_queue_lets_others_work(identity: bytes, door: tuple[str, Door]) -> None:
    name, held = door
    program = load(identity, name, streams=1, max_queue=1)
    x = np.ones(1, np.float32)
    program.submit(x)
    held.wait_for(1)
    program.submit(x)
    submitted = threading.Event()
    last: list[openxrt.Request] = []

    def submit() -> None:
        last.append(program.submit(x))
        submitted.set()

    thread = threading.Thread(target=submit)
    thread.start()
    assert not submitted.wait(0.2)
    held.opened.set()
    thread.join(60)
    np.testing.assert_array_equal(last[0].result(60), -x)


def test_streams_run_at_once(identity: bytes, door: tuple[str, Door]) -> None:
    name, held = door
    budget = openxrt.thread_budget()
    openxrt.set_num_threads(3)
    try:
        program = load(identity, name, streams=3)
        requests = [program.submit(np.full(1, n, np.float32)) for n in range(6)]
        held.wait_for(3)
        assert sorted(held.began) == [0, 1, 2]
        held.opened.set()
        assert [float(r.result(60)[0]) for r in requests] == [-n for n in range(6)]
    finally:
        openxrt.set_num_threads(budget)


def test_asyncio(product: bytes) -> None:
    program = load(product, "native", streams=2)
    w = np.eye(SIZE, dtype=np.float32)

    async def serve() -> list[np.ndarray]:
        async def one(n: int) -> np.ndarray:
            y, _ = await program.submit(np.full((1, SIZE), n, np.float32), w)
            return y

        return await asyncio.gather(*(one(n) for n in range(40)))

    for n, y in enumerate(asyncio.run(serve())):
        np.testing.assert_array_equal(y, np.full((1, SIZE), n))


def test_asyncio_takes_back(identity: bytes, door: tuple[str, Door]) -> None:
    name, held = door
    program = load(identity, name, streams=1)
    x = np.ones(1, np.float32)

    async def serve() -> None:
        first = program.submit(x)
        await asyncio.to_thread(held.wait_for, 1)
        second = program.submit(x)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(second, 0.05)
        await asyncio.sleep(0)
        assert second.cancelled()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(first)), 0.05)
        assert not first.cancelled()
        held.opened.set()
        np.testing.assert_array_equal(await first, -x)

    asyncio.run(serve())
    assert held.began == [1]


def test_a_request_outlives_its_program(identity: bytes, door: tuple[str, Door]) -> None:
    name, held = door
    program = load(identity, name, streams=1)
    x = np.arange(3, dtype=np.float32)
    requests = [program.submit(x), program.submit(x + 1)]
    del program
    gc.collect()
    held.opened.set()
    np.testing.assert_array_equal(requests[0].result(60), -x)
    np.testing.assert_array_equal(requests[1].result(60), -x - 1)


def test_nothing_is_held_afterwards(identity: bytes) -> None:
    program = load(identity, "native", streams=2)

    class Input(np.ndarray):
        pass

    x = np.ones(4, np.float32).view(Input)
    gone = weakref.ref(x)
    request = program.submit(x)
    request.result()
    del x
    gc.collect()
    assert gone() is None
    last = weakref.ref(request)
    del request
    gc.collect()
    assert last() is None


def test_callbacks_submit(identity: bytes) -> None:
    program = load(identity, "native", streams=1, max_queue=1)
    finished = threading.Event()
    seen: list[float] = []

    def again(request: openxrt.Request) -> None:
        value = request.result()
        seen.append(float(value[0]))
        if len(seen) == 20:
            finished.set()
        else:
            program.submit(value - 1).add_done_callback(again)

    program.submit(np.zeros(1, np.float32)).add_done_callback(again)
    assert finished.wait(60)
    wanted = [0.0]
    while len(wanted) < 20:
        wanted.append(-(wanted[-1] - 1))
    assert seen == wanted


def run_script(script: str, folder: Path, model: bytes, *arguments: str) -> subprocess.Popen:
    (folder / "model.onnx").write_bytes(model)
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


ENDS = """
import numpy as np, openxrt, sys, threading
program = openxrt.load("model.onnx", engine=["native"], streams=2, max_queue=5000, cache_dir="")
x, w = np.ones((256, 96), np.float32), np.ones((96, 96), np.float32)
requests = [program.submit(x, w) for _ in range(2000)]
print("submitted", flush=True)
if "daemon" in sys.argv:
    def go():
        while True:
            try:
                program.submit(x, w)
            except openxrt.EngineError:
                return
    threading.Thread(target=go, daemon=True).start()
"""


@pytest.mark.parametrize("others", ["", "daemon"])
def test_the_interpreter_ends_while_requests_run(
    others: str, product: bytes, tmp_path: Path
) -> None:
    process = run_script(ENDS, tmp_path, product, others)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out, errors) == (0, "submitted\n", "")


def test_ctrl_c_while_waiting(identity: bytes, tmp_path: Path) -> None:
    script = """
import numpy as np, openxrt, threading
closed = threading.Event()
@openxrt.engine("slow", version="1", ops=["Neg"], dynamic_shapes=True)
class Slow:
    def supports(self, node): return True
    def compile(self, function):
        def run(x):
            closed.wait(2)
            return -x
        return run
program = openxrt.load("model.onnx", engine=["slow"], streams=1, check_results=False, cache_dir="")
requests = [program.submit(np.ones(1, np.float32)) for _ in range(30)]
try:
    print("submitted", flush=True)
    requests[-1].result()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    process = run_script(script, tmp_path, identity)
    assert process.stdout.readline() == "submitted\n"
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, out, errors) == (0, "interrupted\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_submits_for_itself(identity: bytes, tmp_path: Path) -> None:
    script = """
import numpy as np, openxrt, os
program = openxrt.load("model.onnx", engine=["native"], streams=2, cache_dir="")
x = np.ones(1, np.float32)
program.submit(x).result()
pending = openxrt.Request()  # as one that the parent carries out
child = os.fork()
if child == 0:
    try:
        pending.result()
    except openxrt.EngineError as error:
        assert "forked" in str(error)
        ok = program.submit(x).result()[0] == -1
        os._exit(0 if ok else 3)
    os._exit(4)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
pending.set_result(None)
print(program.submit(x).result())
"""
    process = run_script(script, tmp_path, identity)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out, errors) == (0, "[-1.]\n", "")


def test_callbacks_that_end_the_interpreter(product: bytes, tmp_path: Path) -> None:
    """They end nothing: on the program's threads nobody has called them."""
    script = """
import numpy as np, openxrt
program = openxrt.load("model.onnx", engine=["native"], streams=1, max_queue=100, cache_dir="")
x, w = np.ones((16384, 96), np.float32), np.ones((96, 96), np.float32)
def leave(request): raise SystemExit(3)
requests = [program.submit(x, w) for _ in range(100)]
requests[-1].add_done_callback(leave)
for request in requests:
    request.result()
print(program.submit(x, w).result()[0].shape)
"""
    process = run_script(script, tmp_path, product)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "(16384, 96)\n")
    assert "SystemExit: 3" in errors
