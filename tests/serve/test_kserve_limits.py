# SPDX-License-Identifier: Apache-2.0
"""What a request to KServe's server may cost: its size, the queue in front of a model, its time."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from serving import KServeProcess, slow_model

if find_spec("kserve") is None:
    pytest.skip("kserve is not installed", allow_module_level=True)
grpc = pytest.importorskip("tritonclient.grpc")
from tritonclient.utils import InferenceServerException  # noqa: E402

LARGE = 1536
MAX_BYTES = 4096


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KServeProcess]:
    models = tmp_path_factory.mktemp("limits") / "models"
    slow_model(models / "slow" / "1" / "model.onnx")
    # A run has one thread: as many as there are processors run at once.
    settings = {"options": {"engine": "native", "num_threads": 1}, "max_queue_size": 1}
    (models / "slow" / "xrt.json").write_text(json.dumps(settings))
    slow_model(models / "other.onnx")
    running = KServeProcess(models, "--max-request-bytes", str(MAX_BYTES))
    yield running
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(60) == 0


def body(n: int, **parameters: object) -> bytes:
    given = {"name": "n", "datatype": "INT64", "shape": [2], "data": [n, n]}
    return json.dumps({"inputs": [given], "parameters": parameters}).encode()


def ask(
    served: KServeProcess, n: int, model: str = "slow", **parameters: object
) -> tuple[int, dict[str, str], Any]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    try:
        path = f"/v2/models/{model}/infer"
        connection.request(
            "POST", path, body(n, **parameters), {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), json.load(answer)
    finally:
        connection.close()


def at_once(count: int, call: Callable[[], Any]) -> list[Any]:
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(call())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == count
    return found


def runs(served: KServeProcess, model: str = "slow") -> int:
    """How many were begun and ended."""
    with urllib.request.urlopen(f"http://127.0.0.1:{served.port}/metrics") as page:
        found = re.search(
            rf'^xrt_runs_total{{.*model="{model}".*}} (.*)$', page.read().decode(), re.M
        )
    return int(float(found[1])) if found else 0


def wait_for_runs(served: KServeProcess, count: int) -> None:
    for _ in range(100):
        if runs(served) >= count:
            return
        time.sleep(0.1)
    raise AssertionError("the runs did not end")


def grpc_input(n: int) -> Any:
    given = grpc.InferInput("n", [2], "INT64")
    given.set_data_from_numpy(np.array([n, n]))
    return given


def test_a_full_queue_refuses_and_tells_when_to_come_back(served: KServeProcess) -> None:
    answers = at_once(12, lambda: ask(served, LARGE))
    assert {status for status, _, _ in answers} == {200, 429}
    for status, headers, answer in answers:
        if status == 429:
            assert headers["retry-after"] == "1"
            assert "requests wait" in answer["error"]
    assert ask(served, 8)[0] == 200


def test_a_full_queue_refuses_over_grpc(served: KServeProcess) -> None:
    def call() -> str:
        with grpc.InferenceServerClient(f"127.0.0.1:{served.port + 1}") as client:
            try:
                client.infer("slow", [grpc_input(LARGE)])
            except InferenceServerException as error:
                return error.status()
            return "OK"

    assert set(at_once(12, call)) == {"OK", "StatusCode.RESOURCE_EXHAUSTED"}


def test_others_are_answered_while_a_queue_is_full(served: KServeProcess) -> None:
    busy = threading.Thread(target=at_once, args=(12, lambda: ask(served, LARGE)))
    busy.start()
    assert ask(served, 8, "other")[0] == 200
    assert busy.is_alive()
    busy.join()


def test_a_request_that_is_late_ends_with_its_status(served: KServeProcess) -> None:
    before = runs(served)
    begin = time.monotonic()
    ask(served, LARGE)
    whole = time.monotonic() - begin
    begin = time.monotonic()
    status, _, answer = ask(served, LARGE, timeout=10_000)
    assert status == 504, answer
    assert time.monotonic() - begin < 0.5 * whole
    assert ask(served, 8, timeout=60_000_000)[0] == 200
    assert ask(served, 8, timeout=-1)[0] == 400
    assert ask(served, 8, timeout="soon")[0] == 400
    # An engine's call ends before anybody looks at the time.
    wait_for_runs(served, before + 3)


def while_all_threads_run(served: KServeProcess, act: Callable[[], None]) -> int:
    """Runs that took place while `act` was called in front of busy threads, without theirs."""
    count = len(os.sched_getaffinity(0))
    before = runs(served)
    busy = threading.Thread(target=at_once, args=(count, lambda: ask(served, LARGE)))
    busy.start()
    time.sleep(0.1)
    act()
    assert busy.is_alive()
    busy.join()
    wait_for_runs(served, before + count)
    time.sleep(0.2)
    return runs(served) - before - count


def test_a_request_that_waited_too_long_is_never_run(served: KServeProcess) -> None:
    def act() -> None:
        status, _, _ = ask(served, 8, timeout=20_000)
        assert status == 504

    assert while_all_threads_run(served, act) == 0


def test_an_rpc_that_waited_too_long_is_never_run(served: KServeProcess) -> None:
    def act() -> None:
        with (
            grpc.InferenceServerClient(f"127.0.0.1:{served.port + 1}") as client,
            pytest.raises(InferenceServerException, match=r"(?i)deadline"),
        ):
            client.infer("slow", [grpc_input(8)], client_timeout=0.05)

    assert while_all_threads_run(served, act) == 0


def test_a_cancelled_rpc_is_never_run(served: KServeProcess) -> None:
    def act() -> None:
        with grpc.InferenceServerClient(f"127.0.0.1:{served.port + 1}") as client:
            call = client.async_infer("slow", [grpc_input(8)], lambda **_: None)
            time.sleep(0.05)
            call.cancel()

    assert while_all_threads_run(served, act) == 0


def test_a_request_whose_client_left_is_never_run(served: KServeProcess) -> None:
    def act() -> None:
        with socket.create_connection(("127.0.0.1", served.port)) as client:
            text = body(8)
            head = f"POST /v2/models/slow/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}"
            client.sendall(head.encode() + b"\r\nContent-Type: application/json\r\n\r\n" + text)
            time.sleep(0.05)

    assert while_all_threads_run(served, act) == 0


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_refused(served: KServeProcess, chunked: bool) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    text = body(8) + b" " * MAX_BYTES
    connection.request("POST", "/v2/models/other/infer", iter([text]) if chunked else text)
    answer = connection.getresponse()
    assert answer.status == 413
    assert str(MAX_BYTES) in json.load(answer)["error"]
    connection.close()
    assert ask(served, 8, "other")[0] == 200


def test_a_message_that_is_too_large_is_refused(served: KServeProcess) -> None:
    with grpc.InferenceServerClient(f"127.0.0.1:{served.port + 1}") as client:
        given = grpc.InferInput("n", [MAX_BYTES], "INT64")
        given.set_data_from_numpy(np.zeros(MAX_BYTES, np.int64))
        with pytest.raises(InferenceServerException, match="larger than max") as caught:
            client.infer("other", [given])
        assert caught.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
        assert client.infer("other", [grpc_input(8)]).as_numpy("y") is not None
