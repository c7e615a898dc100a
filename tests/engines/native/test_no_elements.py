# SPDX-License-Identifier: Apache-2.0
"""Tensors without elements of which another dimension is huge: a few bytes from the caller. Neither
time nor memory may follow that dimension; and what a kernel needs for itself is in the bound on
memory, whatever its size comes from."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import openxrt
import pytest
from onnx import helper
from openxrt.conformance.samples import ROWS, Sample
from small_models import make_model, tensor, untyped

MOST = 1 << 28  # max_memory_bytes
MOST_MIB = 768  # of memory that the process takes beside: the heap's own, and what was freed
MOST_SECONDS = 2.0  # of the processor
HUGE = 1 << 40
MILLIONS = 1 << 28

Feeds = dict[str, np.ndarray]


class Case(NamedTuple):
    """A node with the shapes of its operands, or their integers; `fails` where it must say that the
    memory does not suffice."""

    op: str
    operands: tuple[tuple[int, ...] | list[int], ...]
    attributes: dict[str, Any] = {}  # noqa: RUF012 - never written
    outputs: int = 1
    dtype: Any = np.float32
    fails: bool = False


CASES = {
    "EyeLike": Case("EyeLike", ((HUGE, 0),)),
    "EyeLike columns": Case("EyeLike", ((0, HUGE),)),
    "Trilu": Case("Trilu", ((HUGE, 0),)),
    "NonMaxSuppression classes": Case("NonMaxSuppression", ((1, 0, 4), (1, HUGE, 0), [10])),
    "NonMaxSuppression boxes": Case("NonMaxSuppression", ((0, HUGE, 4), (0, 1, HUGE), [10])),
    "MatMulInteger": Case("MatMulInteger", ((HUGE, 0), (0, 0)), dtype=np.uint8),
    "Unique": Case("Unique", ((HUGE, 0),), {"axis": 0}),
    "Unique inverse": Case("Unique", ((HUGE, 0),), {"axis": 0}, 4, fails=True),
    "SplitToSequence": Case("SplitToSequence", ((MILLIONS, 0),), {"axis": 0}, fails=True),
    "SplitToSequence two": Case("SplitToSequence", ((MILLIONS, 0), [MILLIONS // 2] * 2)),
    "Pad": Case("Pad", ((0, 1, 1), [0, 0, 0, 0, MILLIONS, MILLIONS])),
    "Pad too much": Case("Pad", ((1, 1, 1), [0, 0, 0, 0, MILLIONS, 1]), fails=True),
    "CenterCropPad": Case("CenterCropPad", ((1, 1, 0, 2), [MILLIONS, MILLIONS, 0, 2])),
    "CenterCropPad too much": Case("CenterCropPad", ((1, 2), [MILLIONS, 1]), fails=True),
    "Multinomial": Case("Multinomial", ((0, HUGE),)),
    "LSTM": Case("LSTM", ((0, MILLIONS, 1), (1, 4, 1), (1, 4, 1)), {"hidden_size": 1}, fails=True),
    "DFT": Case("DFT", ((1, (1 << 24) + 1, 1),), fails=True),
    "DFT of none": Case("DFT", ((0, (1 << 24) + 1, 1),)),
    "ReverseSequence": Case("ReverseSequence", ((HUGE, 2, 0), [1, 1])),
    "BatchNormalization": Case("BatchNormalization", ((HUGE, 2, 0), (2,), (2,), (2,), (2,))),
    "Concat": Case("Concat", ((HUGE, 2, 0), (HUGE, 2, 0)), {"axis": 1}),
    "Split": Case("Split", ((HUGE, 2, 0),), {"axis": 1, "num_outputs": 2}, 2),
}


def feeds_of(case: Case) -> Feeds:
    """Zeros of the shapes, and the integers."""
    return {
        f"x{i}": np.zeros(given, case.dtype) if isinstance(given, tuple) else np.array(given)
        for i, given in enumerate(case.operands)
    }


def model_of(case: Case) -> bytes:
    """The node; only the ranks of its inputs are known."""
    feeds = feeds_of(case)
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.op, list(feeds), outputs, name="node", **case.attributes)
    inputs = [
        tensor(name, helper.np_dtype_to_tensor_dtype(value.dtype), [None] * value.ndim)
        for name, value in feeds.items()
    ]
    return make_model([node], inputs, [untyped(name) for name in outputs])


def resized(sample: Sample) -> Iterator[Feeds]:
    """One axis of all inputs huge and another one without elements, and one input alone so."""
    feeds = sample.feeds(())
    for rank in sorted({value.ndim for value in feeds.values()}):
        for large in range(rank):
            for none in range(rank):
                if large == none:
                    continue
                changed = {
                    name: without_elements(value, large, none)
                    for name, value in feeds.items()
                    if value.ndim == rank
                }
                yield {**feeds, **changed}
                if len(feeds) > 1:
                    first = next(iter(changed))
                    yield {**feeds, first: changed[first]}


def without_elements(value: np.ndarray, large: int, none: int) -> np.ndarray:
    """One with two other dimensions."""
    dims = list(value.shape)
    dims[large], dims[none] = HUGE, 0
    return np.zeros(dims, value.dtype)


def jobs() -> Iterator[tuple[str, bytes, list[Feeds]]]:
    """What the process runs, case by case: a name, a model, its inputs."""
    for name, case in CASES.items():
        yield name, model_of(case), [feeds_of(case)]
    for op, row in ROWS.items():
        sample = row.sample(3, 0)
        feeds = sample.feeds(())
        shapes = {name: [f"{name}_{i}" for i in range(a.ndim)] for name, a in feeds.items()}
        yield f"all {op}", sample.model((), shapes), list(resized(sample))


def memory(key: str) -> int:
    """MiB of this process."""
    line = next(r for r in Path("/proc/self/status").read_text().splitlines() if r.startswith(key))
    return int(line.split()[1]) >> 10


def work() -> None:
    """In a process of its own: an answer a line."""
    import resource
    import time

    before = memory("VmRSS")
    limit = (memory("VmSize") << 20) + (2 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for name, model, several in jobs():
        errors = []
        started = time.process_time()
        options = {"num_threads": 1, "max_memory_bytes": MOST, "deadline_s": 5, "cache_dir": ""}
        try:
            program = openxrt.load(model, engine="native", **options)
            for feeds in several:
                try:
                    program.run(feeds)
                except openxrt.Error as error:
                    errors.append(f"{type(error).__name__}: {error}"[:300])
        except openxrt.Error as error:
            errors.append(f"not loaded: {error}"[:300])
        seconds = time.process_time() - started
        peak = memory("VmHWM") - before
        print(json.dumps([name, seconds, peak, errors]), flush=True)


@pytest.fixture(scope="module")
def answers() -> dict[str, tuple[float, int, list[str]]]:
    """Seconds, MiB and errors of each case that the process came to."""
    code = "import test_no_elements; test_no_elements.work()"
    path = [str(Path(__file__).parent), *[p for p in sys.path if p]]
    with subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            out, _ = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
    lines = [json.loads(line) for line in out.splitlines() if line.endswith("]")]
    return {name: (seconds, peak, errors) for name, seconds, peak, errors in lines}


@pytest.mark.parametrize("name", CASES)
def test_neither_time_nor_memory_follows_the_dimension(
    name: str, answers: dict[str, tuple[float, int, list[str]]]
) -> None:
    assert name in answers, "it does not end, or ends the process"
    seconds, peak, errors = answers[name]
    assert seconds < MOST_SECONDS
    assert peak < MOST_MIB
    if CASES[name].fails:
        assert len(errors) == 1
        assert errors[0].startswith("ResourceError")
        assert "max_memory_bytes" in errors[0]
    else:
        assert not errors


@pytest.mark.parametrize("op", ROWS)
def test_every_op(op: str, answers: dict[str, tuple[float, int, list[str]]]) -> None:
    assert f"all {op}" in answers, "it does not end, or ends the process"
    seconds, peak, errors = answers[f"all {op}"]
    assert seconds < 2 * MOST_SECONDS  # of dozens of runs
    assert peak < MOST_MIB
    assert not [e for e in errors if e.startswith("InternalError") or "takes longer" in e]
