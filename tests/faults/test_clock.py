# SPDX-License-Identifier: Apache-2.0
"""A clock that jumps, by days and back, all the time: limits are kept, and the cache is used."""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from faulty_process import run, write_model
from onnx import TensorProto, helper
from small_models import make_model, tensor, usable

# What every program begins with: the clock, and a thread that has it jump.
CLOCK = """
    import ctypes
    library = ctypes.CDLL(None)
    def set_clock(seconds):
        library.set_clock(ctypes.c_long(seconds))
    before = time.time()
    set_clock(1000000)
    assert time.time() > before + 900000
"""
JUMPS = """
    def jump():
        while True:
            for seconds in (1000000, -1000000, 0):
                set_clock(seconds)
                time.sleep(0.003)
    threading.Thread(target=jump, daemon=True).start()
    loop = {"x": np.ones(2, np.float32), "yes": np.array(True)}
"""


def jumping(code: str) -> str:
    return textwrap.dedent(CLOCK) + textwrap.dedent(JUMPS) + textwrap.dedent(code)


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The beginning of a command whose clock set_clock() sets."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("a C compiler is missing")
    library = tmp_path_factory.mktemp("clock") / "clock.so"
    source = Path(__file__).with_name("clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    before = os.environ.get("LD_PRELOAD", "")
    return ("env", f"LD_PRELOAD={library}:{before}" if before else f"LD_PRELOAD={library}")


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A loop that never says that it is done; float32[2]."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Neg", ["v"], ["w"], name="inner"),
        ],
        "body",
        [
            tensor("i", TensorProto.INT64, []),
            tensor("go", TensorProto.BOOL, []),
            tensor("v", TensorProto.FLOAT, [2]),
        ],
        [tensor("go_on", TensorProto.BOOL, []), tensor("w", TensorProto.FLOAT, [2])],
    )
    path = tmp_path / "endless.onnx"
    path.write_bytes(
        make_model(
            [helper.make_node("Loop", ["", "yes", "x"], ["y"], name="loop", body=body)],
            [tensor("x", TensorProto.FLOAT, [2]), tensor("yes", TensorProto.BOOL, [])],
            [tensor("y", TensorProto.FLOAT, [2])],
        )
    )
    np.save(f"{path}.npy", np.zeros(2, np.float32))
    return path


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("engine", ["native", "onnxruntime", "xla"])
def test_limits_of_time_are_kept(
    engine: str, isolated: bool, clock: tuple[str, ...], endless: Path
) -> None:
    if not usable(engine):
        pytest.skip(f"engine {engine} is not usable here")
    isolation = [engine] if isolated else []
    code = f"""
        engines = list(dict.fromkeys(["{engine}", "native"]))
        program = openxrt.load(
            model, engine=engines, isolation={isolation}, cache_dir="", deadline_s=60
        )
        def submit(values, timeout):
            return program.submit(values, timeout=timeout).result(30)
        for start in (program.run, submit):
            begun = time.monotonic()
            try:
                start(loop, timeout=0.3)
            except openxrt.ResourceError as error:
                print("0.3 s" in str(error), 0.2 < time.monotonic() - begun < 10)
    """
    assert run(jumping(code), endless, prefix=clock).split() == ["True"] * 4


def test_a_limit_is_not_over_too_soon(clock: tuple[str, ...], tmp_path: Path) -> None:
    model = write_model(tmp_path / "model.onnx")
    code = """
        for isolation in ([], ["native"]):
            program = load(isolation=isolation, deadline_s=60)
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                given = program.run({"x": x}, timeout=60)["t7"]
                assert np.allclose(given, wanted, rtol=1e-3, atol=1e-3)
            request = program.submit({"x": x}, timeout=60)
            assert np.allclose(request.result(60)["t7"], wanted, rtol=1e-3, atol=1e-3)
        print("right")
    """
    assert run(jumping(code), model, prefix=clock) == "right"


def test_a_worker_that_hangs_is_given_up_in_time(clock: tuple[str, ...], tmp_path: Path) -> None:
    model = write_model(tmp_path / "model.onnx")
    code = """
        program = load(isolation=["native"], cache_dir="")
        assert is_right(program)
        (worker,) = open(f"/proc/self/task/{os.getpid()}/children").read().split()
        os.kill(int(worker), signal.SIGSTOP)
        while open(f"/proc/{worker}/stat").read().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.001)  # all of its threads have to stop
        begun = time.monotonic()
        try:
            program.run({"x": x}, timeout=0.3)
        except openxrt.ResourceError:
            print(0.2 < time.monotonic() - begun < 20, is_right(program))
    """
    assert run(jumping(code), model, prefix=clock) == "True True"


def test_the_cache_is_used_on_both_sides_of_a_jump(clock: tuple[str, ...], tmp_path: Path) -> None:
    model = write_model(tmp_path / "model.onnx")
    code = """
        found = []
        for seconds in (1000000, -1000000, 0):
            set_clock(seconds)
            program = load()
            assert is_right(program)
            found.append(all(row["from_cache"] for row in program.explain()["launches"]))
            openxrt._core.finish_writing()
            del program
            openxrt.load(model, engine="native", cache_dir=cache, num_threads=1)
        print(*found)
    """
    # The first program is still known to the process that made it.
    assert run(textwrap.dedent(CLOCK) + textwrap.dedent(code), model, prefix=clock).split()[1:] == [
        "True",
        "True",
    ]
    assert (
        run(textwrap.dedent(CLOCK) + textwrap.dedent(code), model, prefix=clock).split()
        == ["True"] * 3
    )


def sizes(cache: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in cache.glob("*.xrtc")}


@pytest.mark.parametrize("ahead", [-1e8, 1e8])
def test_old_entries_make_room_whatever_their_times_say(
    ahead: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a clock that was ahead left behind must not outlast what is in use."""
    model = write_model(tmp_path / "model.onnx")
    cache = tmp_path / "cache"
    run("load()(x); load(num_threads=1)(x)", model)
    old = sizes(cache)
    for name in old:
        seconds = time.time() + ahead
        os.utime(cache / name, (seconds, seconds))
    abandoned = cache / "native-0.xrtc.tmp1_0"
    abandoned.write_bytes(bytes(1000))
    os.utime(abandoned, (seconds, seconds))
    monkeypatch.setenv("XRT_CACHE_MAX_BYTES", str(sum(old.values()) + 1000))
    # Two programs of another shape, one after the other: the first is in use, the old ones are not.
    for _ in range(2):
        run("load(shapes={'x': [3, 64]}); load(shapes={'x': [5, 64]})", model)
    code = """
        program = load(shapes={"x": [5, 64]})
        print(all(row["from_cache"] for row in program.explain()["launches"]))
    """
    assert run(code, model) == "True"
    assert not abandoned.exists()
    assert len(old.keys() - sizes(cache).keys()) >= 2
