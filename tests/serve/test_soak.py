# SPDX-License-Identifier: Apache-2.0
"""A server under 80 % of the load that it can take: every answer is right, and memory, descriptors
and threads of its processes stay flat. XRT_SOAK_SECONDS is the time of each server: 30 unless it is
set, 600 at night, 3600 on demand.

    XRT_SOAK_SECONDS=3600 ./dev test serve -k soak
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from process_growth import rise, sample
from serving import WEIGHTS, free_ports, linear_model

grpc = pytest.importorskip("tritonclient.grpc")

SECONDS = float(os.environ.get("XRT_SOAK_SECONDS", "30"))
CLIENTS = 4
# By what all processes of the server together may grow after the first third: a part, or a number.
GROWTH = {"memory": (0.05, 16 << 20), "threads": (0.0, 4), "descriptors": (0.0, 8)}


class Load:
    """Clients that ask for so long, at a rate of all together or as fast as they are answered."""

    def __init__(self, port: int, seconds: float, rate: float | None = None) -> None:
        self.counts = [0] * CLIENTS
        self.failures: list[str] = []
        self._port, self._seconds, self._rate = port, seconds, rate
        self._threads = [
            threading.Thread(target=self._work, args=(number,)) for number in range(CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> float:
        """Requests per second."""
        for thread in self._threads:
            thread.join()
        assert not self.failures, self.failures[0]
        return sum(self.counts) / self._seconds

    def _work(self, number: int) -> None:
        generator = np.random.default_rng(number)
        begin = time.monotonic()
        due = begin
        try:
            with grpc.InferenceServerClient(f"127.0.0.1:{self._port}") as client:
                while time.monotonic() < begin + self._seconds:
                    x = generator.normal(size=(generator.integers(1, 9), 4)).astype(np.float32)
                    given = grpc.InferInput("x", list(x.shape), "FP32")
                    given.set_data_from_numpy(x)
                    y = client.infer("batched", [given]).as_numpy("y")
                    if not np.allclose(y, x @ WEIGHTS, rtol=1e-4, atol=1e-4):
                        raise AssertionError(f"{x} gave {y}")
                    self.counts[number] += 1
                    if self._rate is not None:
                        due += CLIENTS / self._rate
                        time.sleep(max(0.0, due - time.monotonic()))
        except Exception as error:  # told by join()
            self.failures.append(repr(error))


def processes(root: int) -> list[int]:
    found = [root]
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{root}/task").iterdir():
            for word in (task / "children").read_text().split():
                found += processes(int(word))
    return found


@contextlib.contextmanager
def serving(models: Path, server: str) -> Iterator[tuple[int, int]]:
    """`xrt serve`: its process and the port of gRPC, when it answers."""
    port = free_ports(3)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "openxrt.serve",
            models,
            "--server",
            server,
            *f"--port {port} --drain 2".split(),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with grpc.InferenceServerClient(f"127.0.0.1:{port + 1}") as client:
            for _ in range(600):
                assert process.poll() is None, "the server ended"
                with contextlib.suppress(Exception):
                    if client.is_model_ready("batched"):
                        break
                time.sleep(0.1)
        yield process.pid, port + 1
    finally:
        process.terminate()
        assert process.wait(60) == 0


@pytest.mark.parametrize("server", ["triton", "kserve"])
def test_soak(models: Path, server: str) -> None:
    if find_spec("pytriton" if server == "triton" else "kserve") is None:
        pytest.skip(f"{server} is not installed")
    linear_model(models / "batched" / "1" / "model.onnx")
    with serving(models, server) as (root, port):
        Load(port, 1).join()
        most = Load(port, 3).join()
        load = Load(port, SECONDS, 0.8 * most)
        rows = []
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(max(0.25, SECONDS / 300))
            held = [sample(pid) for pid in processes(root)]
            rows.append({name: sum(row[name] for row in held) for name in GROWTH})
        rate = load.join()
    told = f"{server}: {rate:.0f} of {most:.0f} requests/s"
    later = rows[len(rows) // 3 :]
    for name, (part, number) in GROWTH.items():
        values = [float(row[name]) for row in later]
        allowed = max(part * float(np.median(values)), number)
        told += f", {name} {np.median(values):.0f} {rise(values):+.0f}"
        assert rise(values) <= allowed, f"{told}: allowed {allowed:.0f}"
    print(told)
    # The load was really there: the clients kept up with most of it.
    assert rate > 0.5 * most, told
