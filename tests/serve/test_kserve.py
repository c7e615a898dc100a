# SPDX-License-Identifier: Apache-2.0
"""KServe's server over a folder of models, over REST and gRPC."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving import WEIGHTS, free_ports, linear_model

# Its messages of gRPC have the names of tritonclient's: one process cannot import both.
if find_spec("kserve") is None:
    pytest.skip("kserve is not installed", allow_module_level=True)
grpc = pytest.importorskip("tritonclient.grpc")


class Served:
    """A running server and how to ask it."""

    def __init__(self, models: Path) -> None:
        self.port = free_ports(2)
        self.process = subprocess.Popen(
            f"{sys.executable} -m openxrt.serve {models} --server kserve".split()
            + f"--host 0.0.0.0 --port {self.port}".split(),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        for _ in range(300):
            try:
                self.get("/v2/health/ready")
                return
            except OSError:
                assert self.process.poll() is None, "the server ended"
                time.sleep(0.1)
        raise AssertionError("the server is not ready")

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as answer:
            return json.load(answer)

    def infer(self, model: str, **tensor: Any) -> tuple[int, Any]:
        body = {"inputs": [{"name": "x", "datatype": "FP32"} | tensor]}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v2/models/{model}/infer",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


@pytest.fixture
def served(models: Path) -> Iterator[Served]:
    running = Served(models)
    yield running
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(60) == 0


def test_answers_over_rest_and_grpc(served: Served) -> None:
    assert served.get("/v2/models/plain")["inputs"] == [
        {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
    ]
    status, answer = served.infer("plain", shape=[2, 4], data=[1.0] * 8)
    assert status == 200
    np.testing.assert_allclose(
        np.reshape(answer["outputs"][0]["data"], (2, 3)), [2 * WEIGHTS.sum(0)] * 2
    )
    with grpc.InferenceServerClient(f"127.0.0.1:{served.port + 1}") as client:
        given = grpc.InferInput("x", [1, 4], "FP32")
        given.set_data_from_numpy(np.ones((1, 4), np.float32))
        np.testing.assert_allclose(
            client.infer("batched", [given]).as_numpy("y")[0], WEIGHTS.sum(0)
        )


def test_wrong_requests_get_their_status(served: Served) -> None:
    ones = [1.0] * 4
    for model, tensor, status in (
        ("missing", {"shape": [1, 4], "data": ones}, 404),
        ("plain", {"name": "z", "shape": [1, 4], "data": ones}, 400),
        ("plain", {"shape": [1, 3], "data": ones}, 400),
        ("plain", {"shape": [1, 5], "data": [1.0] * 5}, 400),
        ("plain", {"shape": [1, 4], "data": ["a"] * 4}, 400),
        ("plain", {"datatype": "FP64", "shape": [1, 4], "data": ones}, 400),
    ):
        code, answer = served.infer(model, **tensor)
        assert code == status, answer
    assert served.infer("plain", shape=[1, 4], data=ones)[0] == 200


def test_a_model_is_replaced(served: Served, models: Path) -> None:
    (models / "plain.onnx").write_bytes(b"broken")
    time.sleep(3)
    assert served.infer("plain", shape=[1, 4], data=[1.0] * 4)[1]["outputs"][0]["data"][0] == 36
    linear_model(models / "plain.onnx", 3.0)
    for _ in range(100):
        first = served.infer("plain", shape=[1, 4], data=[1.0] * 4)[1]["outputs"][0]["data"][0]
        if first == 54:
            return
        time.sleep(0.1)
    raise AssertionError(f"still {first}")
