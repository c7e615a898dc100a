# SPDX-License-Identifier: Apache-2.0
"""One thread budget for all engines of a process: threads at once, results, and what is said."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor

SIZE, LAYERS, CALLERS = 192, 4, 8
ENGINES = ("native", "openvino", "xla", "onnxruntime")


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
    return make_model(
        nodes,
        [tensor("x", TensorProto.FLOAT, shape)],
        [tensor(name, TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(weights(seed), "w")],
    )


def expected(x: np.ndarray, seed: int) -> np.ndarray:
    for _ in range(LAYERS):
        x = np.maximum(x.astype(np.float64) @ weights(seed), 0)
    return x


class Counter:
    """How many threads computed at once, at most."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        self.now = self.peak = self.runs = 0

    def begin(self, threads: int) -> None:
        with self.lock:
            self.now += threads
            self.peak = max(self.peak, self.now)
            self.runs += 1

    def end(self, threads: int) -> None:
        with self.lock:
            self.now -= threads


COUNTER = Counter()


class Counted:
    """A function of Relu nodes that counts its runs with the threads it was given."""

    def __init__(self, threads: int) -> None:
        self.num_threads = threads

    def __call__(self, x: np.ndarray) -> np.ndarray:
        COUNTER.begin(self.num_threads)
        y = np.maximum(x, 0)
        COUNTER.end(self.num_threads)
        return y


class Counting:
    """An engine whose functions are Counted."""

    def supports(self, node: openxrt.NodeView) -> bool | str:
        return node.op == "Relu" or "Relu only"

    def compile(self, function: openxrt.FunctionView) -> Counted:
        return Counted(function.num_threads)


for _name in ("budget_a", "budget_b"):
    openxrt.engine(_name, version="1", ops=["Relu"])(type(_name, (Counting,), {}))


@pytest.fixture
def budget() -> Iterator[Callable[[int], None]]:
    """Sets the budget of the process for a test."""
    before = openxrt.thread_budget()
    yield openxrt.set_num_threads
    openxrt.set_num_threads(before)


def in_callers(programs: list[openxrt.Program], runs: int) -> list[np.ndarray]:
    """So many runs of each program in a thread of its own: what the last ones gave."""
    x = np.random.default_rng(0).uniform(-1, 1, (SIZE, SIZE)).astype(np.float32)
    found: list[np.ndarray] = [x] * len(programs)

    def call(i: int) -> None:
        for _ in range(runs):
            found[i] = programs[i].run({"x": x})[programs[i].outputs[0].name]

    callers = [threading.Thread(target=call, args=(i,)) for i in range(len(programs))]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return found


@pytest.mark.parametrize(("threads", "each"), [(1, 1), (2, 1), (2, 2), (3, 2)])
def test_what_engines_compute_at_once_stays_within_the_budget(
    budget: Callable[[int], None], threads: int, each: int
) -> None:
    budget(threads)
    programs = [
        openxrt.load(model(i), engine=[f"budget_{'ab'[i % 2]}", "native"], num_threads=each)
        for i in range(CALLERS)
    ]
    COUNTER.reset()
    found = in_callers(programs, 25)
    assert COUNTER.runs == CALLERS * LAYERS * 25
    assert each <= COUNTER.peak <= threads
    x = np.random.default_rng(0).uniform(-1, 1, (SIZE, SIZE)).astype(np.float32)
    for i, y in enumerate(found):
        np.testing.assert_allclose(y, expected(x, i), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
def test_programs_on_different_engines_share_the_budget(
    budget: Callable[[int], None], threads: int
) -> None:
    budget(threads)
    programs = [openxrt.load(model(i), engine=ENGINES[i % len(ENGINES)]) for i in range(CALLERS)]
    x = np.random.default_rng(0).uniform(-1, 1, (SIZE, SIZE)).astype(np.float32)
    for i, y in enumerate(in_callers(programs, 50)):
        np.testing.assert_allclose(y, expected(x, i), rtol=1e-3, atol=1e-4)


def test_a_program_gets_no_more_than_the_budget(budget: Callable[[int], None]) -> None:
    budget(2)
    assert openxrt.thread_budget() == 2
    program = openxrt.load(model(0), engine="native", num_threads=5)
    notes = " ".join(program.explain()["notes"])
    assert "num_threads is 5" in notes and "budget of 2" in notes
    within = openxrt.load(model(0), engine="native", num_threads=2)
    assert "num_threads" not in " ".join(within.explain()["notes"])
    # Smaller than what the program was compiled for: it runs, alone.
    budget(1)
    x = np.ones((SIZE, SIZE), np.float32)
    y = program.run({"x": x})[program.outputs[0].name]
    np.testing.assert_allclose(y, expected(x, 0), rtol=1e-3, atol=1e-4)
    with pytest.raises(openxrt.InvalidArgument, match="from 1 to"):
        budget(0)
    assert openxrt.thread_budget() == 1


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
    y = program.run({"x": x})[program.outputs[0].name]
    np.testing.assert_allclose(y, expected(x, 0), rtol=1e-3, atol=1e-4)


def test_an_interrupt_ends_the_wait_for_the_budget(budget: Callable[[int], None]) -> None:
    budget(1)
    began, ended = threading.Event(), threading.Event()

    @openxrt.engine("budget_held", version="1", ops=["Relu"])
    class Held(Counting):
        def compile(self, function: openxrt.FunctionView) -> Callable[[np.ndarray], np.ndarray]:
            def run(x: np.ndarray) -> np.ndarray:
                began.set()
                ended.wait()
                return np.maximum(x, 0)

            return run

    held = openxrt.load(model(0), engine=["budget_held", "native"])
    other = openxrt.load(model(0), engine="native")
    x = np.ones((SIZE, SIZE), np.float32)
    holder = threading.Thread(target=held.run, args=({"x": x},))
    holder.start()
    began.wait()
    sender = threading.Timer(0.3, signal.raise_signal, [signal.SIGUSR1])

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with pytest.raises(TimeoutError):
            sender.start()  # before the run or while it waits
            other.run({"x": x})
    finally:
        signal.signal(signal.SIGUSR1, before)
        ended.set()
        holder.join()
        sender.join()
    np.testing.assert_allclose(
        other.run({"x": x})[other.outputs[0].name], expected(x, 0), rtol=1e-3, atol=1e-4
    )
