# SPDX-License-Identifier: Apache-2.0
"""What strangers send to Triton's server: each gets an error, and others are answered as before.

Triton answers 500 to what its own parser refuses.
"""

from __future__ import annotations

import http.client
import json
import resource
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from serving import WEIGHTS, free_ports, linear_model

triton = pytest.importorskip("tritonclient.http")
shared_memory = pytest.importorskip("tritonclient.utils.shared_memory")
pytest.importorskip("pytriton")

from openxrt.serve.triton_server import TritonServer  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

X = np.arange(8, dtype=np.float32).reshape(2, 4)
SLOW_CLIENTS = 10_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    folder = tmp_path_factory.mktemp("hostile") / "models"
    linear_model(folder / "plain.onnx")
    linear_model(folder / "batched" / "1" / "model.onnx")
    settings = {"options": {"engine": "native"}, "max_batch_size": 8, "max_queue_size": 4}
    (folder / "batched" / "xrt.json").write_text(json.dumps(settings))
    with TritonServer(folder, port=free_ports(3), drain_s=2) as running:
        yield running


@pytest.fixture(autouse=True)
def others_are_unharmed(server: TritonServer) -> Iterator[None]:
    yield
    with triton.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        given = triton.InferInput("x", [2, 4], "FP32")
        given.set_data_from_numpy(X)
        for name in ("plain", "batched"):
            y = client.infer(name, [given]).as_numpy("y")
            np.testing.assert_allclose(y, X @ WEIGHTS, rtol=1e-5)


def post(server: TritonServer, path: str, body: bytes, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()


def request(shape: list[int], data: object, **more: object) -> bytes:
    given = {"name": "x", "datatype": "FP32", "shape": shape, "data": data, **more}
    return json.dumps({"inputs": [given]}).encode()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"\xff\xfe\x00", "parse"),
        (b"[" * 100_000, ""),
        (b'{"inputs": {}}', ""),
        (request([2, 4], [1.0] * 7), ""),
        (request([2, 4], ["a"] * 8), ""),
        (request([2, 4], [1.0] * 8, datatype="INT8"), ""),
        (request([-1, 4], [1.0] * 8), ""),
        (request([0, 0, 0, 0], []), ""),
        (request([2, 4], [1.0] * 8, name="../x"), ""),
    ],
)
def test_bodies_that_are_no_requests(server: TritonServer, body: bytes, text: str) -> None:
    for model in ("plain", "batched"):
        status, told = post(server, f"/v2/models/{model}/infer", body)
        assert 400 <= status <= 500, told
        assert text in told
        assert "not healthy" not in told


def test_sizes_that_end_the_process_of_a_model(server: TritonServer) -> None:
    """Triton's Python backend does not survive a shape whose product overflows, where the
    dimensions are open. The process is replaced; a model with batches is checked before."""
    body = request([1 << 62, 4], [1.0] * 8)
    assert post(server, "/v2/models/batched/infer", body)[0] == 400
    assert post(server, "/v2/models/plain/infer", body)[0] == 500
    for _ in range(50):
        server.follow()
        if post(server, "/v2/models/plain/infer", request([2, 4], [1.0] * 8))[0] == 200:
            return
        time.sleep(0.1)
    raise AssertionError("the process was not replaced")


@pytest.mark.parametrize(
    "path",
    [
        "/v2/models/..%2f..%2fetc/infer",
        "/v2/models/../../etc/passwd/infer",
        "/v2/models/%00/infer",
        f"/v2/models/{'a' * 5000}/infer",
        "/v2/models/plain/versions/999/infer",
        "/v2/models/plain/versions/-1/infer",
    ],
)
def test_names_of_models_that_are_none(server: TritonServer, path: str) -> None:
    status, _ = post(server, path, request([2, 4], X.ravel().tolist()))
    assert 400 <= status <= 500


@pytest.mark.parametrize("length", ["1000000", "4", "-1"])
def test_binary_parts_that_are_cut_short(server: TritonServer, length: str) -> None:
    header = request([2, 4], None, parameters={"binary_data_size": 32}).replace(
        b', "data": null', b""
    )
    status, _ = post(
        server,
        "/v2/models/plain/infer",
        header + b"\0" * 8,
        **{"Inference-Header-Content-Length": length},
    )
    assert 400 <= status <= 500


def test_slow_clients(server: TritonServer) -> None:
    """Many who begin a request and do not go on."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    waiting = []
    try:
        for _ in range(min(SLOW_CLIENTS, most - 500)):
            client = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            client.sendall(b"POST /v2/models/plain/infer HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{")
            waiting.append(client)
        with triton.InferenceServerClient(f"127.0.0.1:{server.port}") as others:
            given = triton.InferInput("x", [2, 4], "FP32")
            given.set_data_from_numpy(X)
            begin = time.monotonic()
            y = others.infer("plain", [given]).as_numpy("y")
            assert time.monotonic() - begin < 5
            np.testing.assert_allclose(y, X @ WEIGHTS, rtol=1e-5)
    finally:
        for client in waiting:
            client.close()


def test_a_full_queue_refuses(server: TritonServer) -> None:
    """More at once than may wait: refused with a status, or answered; never lost."""
    answered, refused = [], []

    def ask() -> None:
        with triton.InferenceServerClient(
            f"127.0.0.1:{server.port}", network_timeout=60, connection_timeout=60
        ) as client:
            given = triton.InferInput("x", [8, 4], "FP32")
            given.set_data_from_numpy(np.tile(X, (4, 1)))
            for _ in range(20):
                try:
                    answered.append(client.infer("batched", [given]).as_numpy("y"))
                except InferenceServerException as error:
                    refused.append(error)

    threads = [threading.Thread(target=ask) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answered) + len(refused) == 24 * 20
    assert answered
    assert all("maximum queue size" in str(error) for error in refused)


def test_shared_memory(server: TritonServer, tmp_path: Path) -> None:
    """Inputs and outputs lie in memory that both see; a region that is too small is refused."""
    region = shared_memory.create_shared_memory_region("xrt_in", f"/xrt_in_{server.port}", X.nbytes)
    results = shared_memory.create_shared_memory_region("xrt_out", f"/xrt_out_{server.port}", 24)
    try:
        shared_memory.set_shared_memory_region(region, [X])
        with triton.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
            client.register_system_shared_memory("in", f"/xrt_in_{server.port}", X.nbytes)
            client.register_system_shared_memory("out", f"/xrt_out_{server.port}", 24)
            given = triton.InferInput("x", [2, 4], "FP32")
            given.set_shared_memory("in", X.nbytes)
            wanted = triton.InferRequestedOutput("y", binary_data=True)
            wanted.set_shared_memory("out", 24)
            client.infer("plain", [given], outputs=[wanted])
            y = shared_memory.get_contents_as_numpy(results, np.float32, [2, 3])
            np.testing.assert_allclose(y, X @ WEIGHTS, rtol=1e-5)
            given = triton.InferInput("x", [4, 4], "FP32")
            given.set_shared_memory("in", 2 * X.nbytes)
            with pytest.raises(InferenceServerException):
                client.infer("plain", [given], outputs=[wanted])
            client.unregister_system_shared_memory()
    finally:
        shared_memory.destroy_shared_memory_region(region)
        shared_memory.destroy_shared_memory_region(results)
