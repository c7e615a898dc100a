# SPDX-License-Identifier: Apache-2.0
"""What goes wrong on a machine while Triton serves: processes that are killed, a disk and a memory
that are full, a clock that jumps. Others are served on, and nothing is left behind."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import openxrt
import pytest
from serving import WEIGHTS, free_ports, linear_model

http = pytest.importorskip("tritonclient.http")
pytest.importorskip("pytriton")

from geventhttpclient.response import HTTPConnectionClosed  # noqa: E402
from openxrt.serve.triton_server import TritonServer  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

SERVE = (sys.executable, "-m", "openxrt.serve")
ONES = np.ones((1, 4), np.float32)


def ask(port: int, model: str, x: np.ndarray = ONES) -> np.ndarray:
    with http.InferenceServerClient(f"127.0.0.1:{port}") as client:
        given = http.InferInput("x", list(x.shape), "FP32")
        given.set_data_from_numpy(x)
        return client.infer(model, [given]).as_numpy("y")


def factor(port: int, model: str) -> float:
    """What the model's weights are multiplied by."""
    return float(ask(port, model)[0, 0] / WEIGHTS[:, 0].sum())


def until(what: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.1)


def children(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(word) for word in (task / "children").read_text().split()]
    return found


def descendants(pid: int) -> list[int]:
    below = children(pid)
    return below + [found for child in below for found in descendants(child)]


def lives(pid: int) -> bool:
    """Also not where it ended and nobody has asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Command:
    """`xrt serve` as a process, ready."""

    def __init__(self, models: Path, *arguments: str) -> None:
        self.port = free_ports(3)
        self.process = subprocess.Popen(
            [*SERVE, models, "--port", str(self.port), "--drain", "2", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(self.is_ready, 60)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, "the server ended"
        with contextlib.suppress(OSError, InferenceServerException):
            ask(self.port, "plain")
            return True
        return False


@pytest.fixture
def command(models: Path) -> Iterator[Command]:
    running = Command(models)
    yield running
    running.process.kill()
    running.process.wait()


def test_the_server_is_killed(command: Command) -> None:
    """The command ends with exit code 1, for whoever restarts it; no process is left."""
    below = descendants(command.process.pid)
    (server,) = children(command.process.pid)
    os.kill(server, signal.SIGKILL)
    assert command.process.wait(30) == 1
    until(lambda: not any(map(lives, below)))


def test_the_command_is_killed(command: Command) -> None:
    below = descendants(command.process.pid)
    assert len(below) >= 3  # tritonserver, and a process of each model
    command.process.kill()
    until(lambda: not any(map(lives, below)))


def test_a_killed_command_starts_again_on_its_port(command: Command, models: Path) -> None:
    command.process.kill()
    command.process.wait()
    again = subprocess.Popen(
        [*SERVE, models, "--port", str(command.port), "--drain", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:

        def answers() -> bool:
            with contextlib.suppress(OSError, InferenceServerException):
                return factor(command.port, "plain") == 2
            return False

        until(answers, 60)
    finally:
        again.terminate()
        assert again.wait(30) == 0


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files go, and caches."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", os.fspath(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("a file system of a fixed size cannot be mounted here")
    monkeypatch.setenv("TMPDIR", os.fspath(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    subprocess.run(["umount", "--lazy", os.fspath(folder)], check=True)


def test_the_disk_is_full(models: Path, small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The old model serves on; the new one is taken over when there is room."""
    settings = {"options": {"engine": "native", "cache_dir": os.fspath(small_disk / "cache")}}
    (models / "batched" / "xrt.json").write_text(json.dumps(settings))
    with TritonServer(models, port=free_ports(3), drain_s=2) as server:
        filler = small_disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        assert shutil.disk_usage(small_disk).free == 0
        linear_model(models / "plain.onnx", 7.0)
        linear_model(models / "batched" / "1" / "model.onnx", 9.0)
        with caplog.at_level(logging.WARNING):
            server.follow()
        assert "No space left" in caplog.text
        assert (factor(server.port, "plain"), factor(server.port, "batched")) == (2, 1)
        filler.unlink()
        server.follow()
        assert (factor(server.port, "plain"), factor(server.port, "batched")) == (7, 9)


def test_a_request_takes_too_much_memory(models: Path) -> None:
    settings = {"options": {"engine": "native", "max_memory_bytes": 1 << 20}}
    (models / "batched" / "xrt.json").write_text(json.dumps(settings))
    with TritonServer(models, port=free_ports(3), drain_s=2) as server:
        with pytest.raises(InferenceServerException, match="max_memory_bytes") as caught:
            ask(server.port, "batched", np.ones((1 << 18, 4), np.float32))
        assert caught.value.status() == "503"
        assert (factor(server.port, "plain"), factor(server.port, "batched")) == (2, 1)


def bound_memory(pid: int, more: int) -> None:
    """The address space of a process may grow by so many bytes."""
    size = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
    resource.prlimit(pid, resource.RLIMIT_AS, (size + more, resource.RLIM_INFINITY))


def test_a_run_exhausts_the_memory_of_its_process(models: Path) -> None:
    graph = openxrt.Graph("large")
    n = graph.add_input("n", "int64", [1])
    (zeros,) = graph.add_node("ConstantOfShape", [n], ["zeros"])
    (ones,) = graph.add_node("Exp", [zeros], ["ones"])
    (y,) = graph.add_node("ReduceSum", [ones], ["y"], {"keepdims": 0})
    graph.add_output(y)
    graph.finish()
    (models / "large.onnx").write_bytes(graph.to_onnx())
    with TritonServer(models, port=free_ports(3), drain_s=2) as server:

        def count(size: int) -> float:
            with http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
                given = http.InferInput("n", [1], "INT64")
                given.set_data_from_numpy(np.array([size]))
                return float(client.infer("large", [given]).as_numpy("y")[0])

        assert count(1000) == 1000
        (worker,) = (pid for pid, name in server._workers().items() if name == "large")
        bound_memory(worker, 256 << 20)
        with pytest.raises(InferenceServerException) as caught:
            count(1 << 28)
        assert caught.value.status() == "503"
        assert factor(server.port, "plain") == 2
        assert count(1000) == 1000


@pytest.mark.parametrize("whose", ["server", "model"])
def test_memory_that_is_shared_cannot_be_mapped(models: Path, whose: str) -> None:
    """What the guide says: the server ends, for whoever restarts it, or answers nobody any more. No
    process and no shared memory is left then, and it starts again."""
    before = set(Path("/dev/shm").iterdir())
    large = np.ones((4 << 20, 4), np.float32)
    command = Command(models, "--max-request-bytes", str(2 * large.nbytes))
    regions = set(Path("/dev/shm").iterdir()) - before
    assert regions
    try:
        below = descendants(command.process.pid)
        (pid,) = children(command.process.pid)
        if whose == "model":
            pid = next(
                found
                for found in below
                if "/plain/" in Path(f"/proc/{found}/cmdline").read_text()
                and "stub" in Path(f"/proc/{found}/cmdline").read_text().split("\0")[0]
            )
        bound_memory(pid, 32 << 20)
        with pytest.raises((OSError, InferenceServerException, HTTPConnectionClosed)):
            ask(command.port, "plain", large)
        with contextlib.suppress(subprocess.TimeoutExpired):
            assert command.process.wait(20) == 1
    finally:
        command.process.terminate()
        command.process.wait(30)
    until(lambda: not any(map(lives, below)))
    assert not any(region.exists() for region in regions)
    again = Command(models)
    try:
        assert factor(again.port, "plain") == 2
    finally:
        again.process.terminate()
        assert again.process.wait(30) == 0


@pytest.mark.parametrize("seconds", [1e6, 4e9])
def test_the_clock_jumps(models: Path, seconds: float) -> None:
    """What a folder shows of it: files from 1970 or from the next century are new all the same."""
    with TritonServer(models, port=free_ports(3), drain_s=2) as server:
        linear_model(models / "plain.onnx", 5.0)
        os.utime(models / "plain.onnx", (seconds, seconds))
        server.follow()
        assert factor(server.port, "plain") == 5
        linear_model(models / "plain.onnx", 6.0)
        os.utime(models / "plain.onnx", (seconds - 100, seconds - 100))
        server.follow()
        assert factor(server.port, "plain") == 6
