# SPDX-License-Identifier: Apache-2.0
"""What a request to Triton may cost, and who is served first."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving import free_ports, linear_model, slow_model

http = pytest.importorskip("tritonclient.http")
grpc = pytest.importorskip("tritonclient.grpc")
pytest.importorskip("pytriton")

from openxrt.serve.triton_server import TritonServer, _size_limit  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

LARGE = 1536
MAX_BYTES = 4096


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    models = tmp_path_factory.mktemp("limits") / "models"
    native = {"engine": "native"}
    for name, settings in {
        "slow": {"max_queue_size": 1},
        "levels": {"priority_levels": 3, "default_priority_level": 2},
        "last": {"priority_levels": 2},
        "free": {},
    }.items():
        slow_model(models / name / "1" / "model.onnx")
        (models / name / "xrt.json").write_text(json.dumps({"options": native, **settings}))
    linear_model(models / "plain.onnx")
    linear_model(models / "batched" / "1" / "model.onnx")
    (models / "batched" / "xrt.json").write_text('{"max_batch_size": 1024}')
    with TritonServer(
        models, port=free_ports(3), drain_s=2, max_request_bytes=MAX_BYTES
    ) as running:
        yield running


def ask(server: TritonServer, model: str, n: int, **options: Any) -> float:
    with http.InferenceServerClient(
        f"127.0.0.1:{server.port}", network_timeout=60, connection_timeout=60
    ) as client:
        given = http.InferInput("n", [2], "INT64")
        given.set_data_from_numpy(np.array([n, n]))
        return float(client.infer(model, [given], **options).as_numpy("y")[0])


@pytest.mark.parametrize("model", ["plain", "batched"])
def test_a_request_that_is_too_large_is_refused(server: TritonServer, model: str) -> None:
    for client_of, port in ((http, server.port), (grpc, server.port + 1)):
        with client_of.InferenceServerClient(f"127.0.0.1:{port}") as client:
            for rows, fits in ((256, True), (257, False)):
                given = client_of.InferInput("x", [rows, 4], "FP32")
                given.set_data_from_numpy(np.zeros((rows, 4), np.float32))
                if fits:
                    assert client.infer(model, [given]).as_numpy("y").shape == (rows, 3)
                    continue
                with pytest.raises(InferenceServerException, match="4096 at most") as caught:
                    client.infer(model, [given])
                assert caught.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")


def test_a_server_that_has_a_limit_gets_it(tmp_path: Path) -> None:
    for name, told in (("newer", "--http-max-input-size <integer>"), ("older", "--http-port")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho '{told}' >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    assert _size_limit(tmp_path / "newer", 77) == ["--http-max-input-size=77"]
    assert _size_limit(tmp_path / "older", 77) == []


def test_a_full_queue_without_batches_refuses(server: TritonServer) -> None:
    def call() -> str:
        try:
            ask(server, "slow", LARGE)
        except InferenceServerException as error:
            assert "maximum queue size" in str(error)
            return error.status()
        return "200"

    with ThreadPoolExecutor(8) as pool:
        assert {task.result() for task in [pool.submit(call) for _ in range(8)]} == {"200", "503"}


def test_models_have_no_queue_policy_unless_they_ask_for_it(server: TritonServer) -> None:
    """With one, Triton 2.51 leaves requests that wait behind others for half a second."""
    with http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        assert "dynamic_batching" not in client.get_model_config("plain")
        queue = client.get_model_config("batched")["dynamic_batching"].get("default_queue_policy")
        assert not queue or not queue["max_queue_size"]
    begin = time.monotonic()
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda _: ask(server, "free", 8), range(64)))
    assert time.monotonic() - begin < 5


def test_a_timeout_holds_in_the_queue(server: TritonServer) -> None:
    busy = threading.Thread(target=ask, args=(server, "slow", LARGE))
    busy.start()
    time.sleep(0.1)
    with pytest.raises(InferenceServerException, match="timeout expired"):
        ask(server, "slow", 8, timeout=1000)
    busy.join()
    assert ask(server, "slow", 8, timeout=60_000_000) == pytest.approx(8)


def runs(server: TritonServer, model: str) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port + 2}/metrics") as page:
        text = page.read().decode()
    found = re.search(rf'^xrt_runs_total{{.*model="{model}".*}} (.*)$', text, re.MULTILINE)
    return int(float(found[1])) if found else 0


@pytest.mark.parametrize("how", ["cancelled", "late"])
def test_an_rpc_that_is_cancelled_or_late_is_never_run(server: TritonServer, how: str) -> None:
    before = runs(server, "free")
    busy = threading.Thread(target=ask, args=(server, "free", LARGE))
    busy.start()
    time.sleep(0.1)
    with grpc.InferenceServerClient(f"127.0.0.1:{server.port + 1}") as client:
        given = grpc.InferInput("n", [2], "INT64")
        given.set_data_from_numpy(np.array([8, 8]))
        if how == "late":
            with pytest.raises(InferenceServerException, match="Deadline"):
                client.infer("free", [given], client_timeout=0.05)
        else:
            call = client.async_infer("free", [given], lambda **_: None)
            time.sleep(0.05)
            call.cancel()
    assert busy.is_alive()
    busy.join()
    ask(server, "free", 8)
    assert runs(server, "free") == before + 2


@pytest.mark.parametrize(
    ("model", "urgent", "patient"), [("levels", 1, 0), ("levels", 2, 3), ("last", 1, 0)]
)
def test_urgent_requests_are_served_first(
    server: TritonServer, model: str, urgent: int, patient: int
) -> None:
    """0: the level that the model has for requests that ask for none."""
    order: list[str] = []

    def call(name: str, priority: int) -> None:
        ask(server, model, LARGE, priority=priority)  # none ends before "urgent" comes
        order.append(name)

    with ThreadPoolExecutor(8) as pool:
        tasks = [pool.submit(call, f"patient {i}", patient) for i in range(6)]
        time.sleep(0.1)
        tasks.append(pool.submit(call, "urgent", urgent))
        for task in tasks:
            task.result()
    # One or two were on their way when it came.
    assert order.index("urgent") <= 3, order
