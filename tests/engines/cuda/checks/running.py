# SPDX-License-Identifier: Apache-2.0
"""How functions are compiled, kept and run: memory, threads, sizes, sources and the cache."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import openxrt
import pytest
from cuda_models import (
    FLOAT,
    STANDIN,
    load,
    model,
    node,
    small,
    values,
)


def test_tensors_stay_on_the_device(tmp_path: Path) -> None:
    program = small(tmp_path)
    x = np.arange(16, dtype=np.float32).reshape(4, 4) / 10
    want = program(x)
    on_device = program.run({"x": x}, device="cuda")["y"]
    assert isinstance(on_device, openxrt.DeviceArray)
    np.testing.assert_array_equal(on_device.numpy(), want)
    square = load(model([node("Exp", "x", "y")], {"x": (FLOAT, (4, 3))}, ["y"]), tmp_path)
    again = square(on_device)
    assert isinstance(again, openxrt.DeviceArray)
    np.testing.assert_allclose(again.numpy(), np.exp(want), rtol=1e-6)


def test_eight_threads_on_one_program(tmp_path: Path) -> None:
    program = small(tmp_path)
    wrong: list[str] = []

    def work(number: int) -> None:
        x = np.full((4, 4), number, np.float32)
        want = np.maximum(x @ np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3), 0)
        for _ in range(20):
            if not np.allclose(program(x), want, rtol=1e-4, atol=1e-5):
                wrong.append(f"thread {number}")

    # The stand-in runs the threads of a block in one thread of the process.
    count = 1 if STANDIN else 8
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_out_of_memory_is_said_and_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two values of 0.7 of a device's memory each."""
    side = 1500 if STANDIN else 160_000
    if STANDIN:
        monkeypatch.setenv("XRT_STANDIN_MEMORY", str(14 << 20))
    nodes = [
        node("MatMul", "x y", "a"),
        node("Transpose", "a", "b", perm=[1, 0]),
        node("Add", "a b", "c"),
        node("ReduceMax", "c axes", "z"),
    ]
    constants = {"axes": np.array([0, 1], np.int64)}
    inputs = {"x": (FLOAT, (side, 1)), "y": (FLOAT, (1, side))}
    large = model(nodes, inputs, ["z"], constants)
    with pytest.raises(openxrt.Error, match=r"memory of \d+ bytes for .* of function"):
        load(large, tmp_path).run(values(large))
    np.testing.assert_allclose(
        small(tmp_path)(np.ones((4, 4), np.float32))[0, 2], 8 / 11, rtol=1e-5
    )


def test_without_a_gpu_it_is_said(tmp_path: Path) -> None:
    small(tmp_path)
    script = (
        "import openxrt\n"
        f"openxrt.load({str(tmp_path / 'model.onnx')!r}, engine=['cuda', 'native'], "
        "device='cuda', strict=True)\n"
    )
    hidden = {"CUDA_VISIBLE_DEVICES": "", "XRT_STANDIN_NO_DEVICE": "1"}
    run = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | hidden, capture_output=True, text=True
    )
    assert run.returncode != 0
    assert re.search("no GPU|finds no GPU|no device", run.stderr), run.stderr


def test_sources_are_kept_on_demand(tmp_path: Path) -> None:
    made = model([node("Exp", "x", "y")], {"x": (FLOAT, (4, 3))}, ["y"])
    folder = tmp_path / "sources"
    load(made, tmp_path, engine_options={"cuda": {"source_dir": str(folder)}})
    texts = [path.read_text() for path in folder.glob("*.cu")]
    assert len(texts) == 1
    assert "expf(" in texts[0]


def test_sizes_within_a_range_share_few_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of a range are padded to sizes of which each is compiled once."""
    batches = (3, 4, 7, 8, 5, 1, 13, 16)
    copies = {
        batch: given_like(np.full((batch, 4), batch, np.float32), tmp_path) for batch in batches
    }
    calls = tmp_path / "calls"
    monkeypatch.setenv("XRT_STANDIN_LOG", str(calls))
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "y")]
    weights = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    made = model(nodes, {"x": (FLOAT, (8, 4))}, ["y"], {"w": weights})
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    program = load(made, tmp_path, ranges={"batch": (1, 4, 16)}, cache_dir=None)
    for batch in batches:
        x = np.random.default_rng(batch).standard_normal((batch, 4)).astype(np.float32)
        want = np.maximum(x @ weights, 0)
        np.testing.assert_allclose(program.run({"x": x})["y"], want, rtol=1e-4, atol=1e-5)
        given = program.run({"x": x}, device="cuda")["y"]
        assert isinstance(given, openxrt.DeviceArray)
        np.testing.assert_allclose(given.numpy(), want, rtol=1e-4, atol=1e-5)
        given = program.run({"x": copies[batch]}, device="cuda")["y"]
        want = np.maximum(np.full((batch, 4), batch, np.float32) @ weights, 0)
        np.testing.assert_allclose(given.numpy(), want, rtol=1e-4, atol=1e-4)
        assert program.explain()["nodes_per_engine"].keys() == {"cuda"}
    if STANDIN:  # for 4, 8, 16 and 1; all have the same weights
        lines = calls.read_text().split("\n")
        assert lines.count("module") <= 4
        assert lines.count(f"write {weights.nbytes}") == 1


@pytest.mark.parametrize("on_device", [False, True])
def test_large_tensors_are_used_where_they_lie(on_device: bool, tmp_path: Path) -> None:
    """Also those that a run writes over: whoever reads them is done before."""
    rows = 3 << 18
    nodes = [node("Sub", "w g", "v"), node("ReduceSum", "w axes", "s"), node("Mul", "v two", "u")]
    constants = {"axes": np.array([1], np.int64), "two": np.array(2, np.float32)}
    inputs = {"w": (FLOAT, (rows, 4)), "g": (FLOAT, (rows, 4))}
    made = model(nodes, inputs, ["v", "s", "u"], constants)
    program = load(made, tmp_path, aliases={"w": "v"})
    feed = values(made)
    w, g = feed["w"].copy(), feed["g"]
    if on_device:
        feed = {name: given_like(value, tmp_path) for name, value in feed.items()}
    for _ in range(2):
        given = program.run(feed)
        wanted = {"v": w - g, "s": w.sum(1, keepdims=True), "u": (w - g) * 2}
        for name, want in wanted.items():
            got = given[name].numpy() if on_device else given[name]
            np.testing.assert_allclose(got, want, 1e-5, 1e-5, err_msg=name)
        w = wanted["v"]


def test_steps_over_places_that_come_again_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the turns of a training loop; tensors at other places are used all the same."""
    calls = tmp_path / "calls"
    monkeypatch.setenv("XRT_STANDIN_LOG", str(calls))
    count, size = 16, 512  # as many MiB cross the border as there are steps
    nodes = [
        node("MatMul", f"{f'v{i}' if i else 'x'} w{i}", f"v{i + 1}" if i + 1 < count else "y")
        for i in range(count)
    ]
    inputs = {f"w{i}": (FLOAT, (size, size)) for i in range(count)}
    program = load(model(nodes, {"x": (FLOAT, (2, size))} | inputs, ["y"]), tmp_path)
    copy = load(model([node("Identity", "x", "y")], {"x": (FLOAT, (size, size))}, ["y"]), tmp_path)
    rng = np.random.default_rng(0)
    for _ in range(2):
        x = rng.standard_normal((2, size), np.float32)
        weights = [rng.standard_normal((size, size), np.float32) / 22 for _ in range(count)]
        lying = {f"w{i}": copy.run({"x": w}, device="cuda")["y"] for i, w in enumerate(weights)}
        lying["x"] = given_like(x, tmp_path)
        want = np.linalg.multi_dot([x, *weights])
        for _ in range(6):
            given = program.run(lying, device="cuda")["y"]
            np.testing.assert_allclose(given.numpy(), want, rtol=1e-3, atol=1e-4)
    if STANDIN:
        assert f"graph {count}" in calls.read_text()


def given_like(x: np.ndarray, tmp_path: Path) -> openxrt.DeviceArray:
    """The same values in the device's memory."""
    copied = load(model([node("Identity", "x", "y")], {"x": (FLOAT, x.shape)}, ["y"]), tmp_path)
    return copied.run({"x": x}, device="cuda")["y"]


def test_compiled_functions_come_from_the_cache(tmp_path: Path) -> None:
    """With code and choices of ways; another program finds them."""
    nodes = [
        node("Conv", "p w", "a", kernel_shape=[3, 3]),
        node("Relu", "a", "b"),
        node("Flatten", "b", "c"),
        node("MatMul", "c m", "d"),
        node("Softmax", "d", "y"),
    ]
    rng = np.random.default_rng(1)
    constants = {
        "w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32) / 5,
        "m": rng.standard_normal((4 * 36, 10)).astype(np.float32) / 12,
    }
    made = model(nodes, {"p": (FLOAT, (2, 3, 8, 8))}, ["y"], constants)
    feed = values(made)
    cache = tmp_path / "cache"
    script = (
        "import sys, json, numpy as np, openxrt\n"
        "p = openxrt.load(sys.argv[1], engine=['cuda', 'native'], device='cuda', strict=True,"
        " cache_dir=sys.argv[2])\n"
        "y = p.run(dict(np.load(sys.argv[3])))['y']\n"
        "np.save(sys.argv[4], y)\n"
        "print(json.dumps([f['from_cache'] for f in p.explain()['launches']]))\n"
    )
    path, inputs = tmp_path / "model.onnx", tmp_path / "inputs.npz"
    onnx.save(made, path)
    np.savez(inputs, **feed)
    told = []
    for run in ("first", "second"):
        result = tmp_path / f"{run}.npy"
        command = [sys.executable, "-c", script, path, cache, inputs, result]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        assert "does not take it" not in done.stderr, done.stderr[-2000:]
        told.append(done.stdout.strip().split("\n")[-1])
    assert "true" not in told[0]
    assert "false" not in told[1], told
    np.testing.assert_array_equal(np.load(tmp_path / "first.npy"), np.load(tmp_path / "second.npy"))
