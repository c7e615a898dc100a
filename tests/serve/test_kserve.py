# SPDX-License-Identifier: Apache-2.0
"""KServe's server over a folder of models, over REST and gRPC."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from serving import WEIGHTS, KServeProcess, linear_model, slow_model

# Its messages of gRPC have the names of tritonclient's: one process cannot import both.
if find_spec("kserve") is None:
    pytest.skip("kserve is not installed", allow_module_level=True)
grpc = pytest.importorskip("tritonclient.grpc")
from tritonclient.utils import InferenceServerException  # noqa: E402


@pytest.fixture
def served(models: Path) -> Iterator[KServeProcess]:
    running = KServeProcess(models)
    yield running
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(60) == 0


def test_answers_over_rest_and_grpc(served: KServeProcess) -> None:
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


def test_wrong_requests_get_their_status(served: KServeProcess) -> None:
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


def test_a_model_that_fails_is_not_ready_and_others_are(models: Path) -> None:
    (models / "batched" / "xrt.json").write_text('{"options": {"engine": "banana"}}')
    (models / "junk.onnx").write_bytes(b"junk")
    running = KServeProcess(models)
    try:
        for path in ("", "/ready"):
            for name, why in (("batched", "banana"), ("junk", "junk.onnx")):
                with pytest.raises(urllib.error.HTTPError) as refused:
                    running.get(f"/v2/models/{name}{path}")
                assert refused.value.code == 503
                assert why in json.load(refused.value)["error"]
        status, answer = running.infer("batched", shape=[1, 4], data=[1.0] * 4)
        assert status == 503
        assert "banana" in answer["error"]
        assert running.infer("plain", shape=[1, 4], data=[1.0] * 4)[0] == 200
        with grpc.InferenceServerClient(f"127.0.0.1:{running.port + 1}") as client:
            assert client.is_server_ready()
            assert client.is_model_ready("plain")
            assert not client.is_model_ready("batched")
            given = grpc.InferInput("x", [1, 4], "FP32")
            given.set_data_from_numpy(np.ones((1, 4), np.float32))
            for call in (
                lambda: client.get_model_metadata("batched"),
                lambda: client.infer("batched", [given]),
            ):
                with pytest.raises(InferenceServerException, match="banana") as told:
                    call()
                assert told.value.status() == "StatusCode.UNAVAILABLE"
            with pytest.raises(InferenceServerException) as told:
                client.is_model_ready("missing")
            assert told.value.status() == "StatusCode.NOT_FOUND"
        (models / "late.onnx").write_bytes(b"junk")
        (models / "batched" / "xrt.json").write_text("{}")
        for _ in range(100):
            status, answer = running.infer("batched", shape=[1, 4], data=[1.0] * 4)
            if status == 200:
                break
            time.sleep(0.1)
        assert status == 200, answer
        status, answer = running.infer("late", shape=[1, 4], data=[1.0] * 4)
        assert status == 503
        assert "late.onnx" in answer["error"]
        assert running.post("/v2/repository/models/plain/load")[0] == 200
        assert running.post("/v2/repository/models/late/load")[0] == 503
    finally:
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(60) == 0


def test_where_asked_for_a_model_that_fails_ends_the_start(models: Path) -> None:
    (models / "batched" / "xrt.json").write_text('{"options": {"engine": "banana"}}')
    done = subprocess.run(
        f"{sys.executable} -m openxrt.serve {models} --server kserve --exit-on-error".split(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "banana" in done.stderr


def test_a_model_is_replaced(served: KServeProcess, models: Path) -> None:
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


def test_requests_under_way_finish_and_new_ones_are_refused(tmp_path: Path) -> None:
    slow_model(tmp_path / "models" / "slow.onnx")
    running = KServeProcess(tmp_path / "models")
    address = f"127.0.0.1:{running.port + 1}"
    n = [2560, 2560]  # seconds
    try:
        with grpc.InferenceServerClient(address) as client, ThreadPoolExecutor(2) as threads:
            given = grpc.InferInput("n", [2], "INT64")
            given.set_data_from_numpy(np.array(n))
            over_grpc = threads.submit(client.infer, "slow", [given])
            over_http = threads.submit(
                running.infer, "slow", name="n", datatype="INT64", shape=[2], data=n
            )
            time.sleep(0.3)
            assert not over_grpc.done()
            assert not over_http.done()
            running.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            assert not over_grpc.done()
            for port in (running.port, running.port + 1):
                with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port)):
                    pass
            np.testing.assert_allclose(over_grpc.result().as_numpy("y"), n[0], rtol=1e-3)
            status, answer = over_http.result()
            assert status == 200
            np.testing.assert_allclose(answer["outputs"][0]["data"], n[0], rtol=1e-3)
        assert running.process.wait(60) == 0
    finally:
        running.process.kill()


def test_a_stop_takes_no_longer_than_it_may(tmp_path: Path) -> None:
    """HTTP and gRPC end in the same time, not one after the other."""
    slow_model(tmp_path / "models" / "slow.onnx")
    running = KServeProcess(tmp_path / "models", "--drain", "2")
    try:
        # A client that sends no more of its request than this keeps HTTP for the whole time.
        head = b"POST /v2/models/slow/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
        with socket.create_connection(("127.0.0.1", running.port)) as waiting:
            waiting.sendall(head)
            time.sleep(0.3)
            running.process.send_signal(signal.SIGTERM)
            begin = time.monotonic()
            time.sleep(1)
            with pytest.raises(OSError), socket.create_connection(("127.0.0.1", running.port + 1)):
                pass
            assert running.process.wait(60) == 0
            assert time.monotonic() - begin < 4
    finally:
        running.process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_a_signal(models: Path, number: signal.Signals) -> None:
    running = KServeProcess(models)
    running.process.send_signal(number)
    assert running.process.wait(60) == 0
