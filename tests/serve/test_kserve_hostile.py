# SPDX-License-Identifier: Apache-2.0
"""KServe's server asked by KServe's own clients and by curl, rightly and wrongly: each gets the
status that the protocol has for it, and others are answered as before."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import openxrt
import pytest
from serving import WEIGHTS, KServeProcess, linear_model

if find_spec("kserve") is None:
    pytest.skip("kserve is not installed", allow_module_level=True)

CALLS = Path(__file__).resolve().parents[1] / "support" / "kserve_calls.py"
SLOW_CLIENTS = 10_000
X = [1.0] * 4
Y = WEIGHTS.sum(0).tolist()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KServeProcess]:
    models = tmp_path_factory.mktemp("hostile") / "models"
    linear_model(models / "plain.onnx")
    graph = openxrt.Graph("echo")
    x = graph.add_input("x", "string", ["n"])
    (y,) = graph.add_node("Identity", [x], ["y"])
    graph.add_output(y)
    graph.finish()
    (models / "echo.onnx").write_bytes(graph.to_onnx())
    running = KServeProcess(models)
    yield running
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(60) == 0


@pytest.fixture(autouse=True)
def others_are_unharmed(served: KServeProcess) -> Iterator[None]:
    yield
    status, answer = served.infer("plain", shape=[1, 4], data=X)
    assert status == 200
    np.testing.assert_allclose(answer["outputs"][0]["data"], Y)


def tensor(**changed: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": X} | changed


def calls(served: KServeProcess, protocol: str, asked: list[dict[str, Any]]) -> list[Any]:
    """What KServe's client got for each."""
    port = served.port + (protocol == "grpc")
    done = subprocess.run(
        [sys.executable, CALLS, protocol, str(port)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    health, *answers = json.loads(done.stdout.splitlines()[-1])
    assert health == {"live": True, "ready": True}
    return answers


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_kserves_own_clients(served: KServeProcess, protocol: str) -> None:
    text = tensor(datatype="BYTES", shape=[2], data=["a", "ü"])
    answers = calls(
        served,
        protocol,
        [
            {"model": "plain", "inputs": [tensor()]},
            {"model": "plain", "inputs": [tensor(binary=True)]},
            {"model": "echo", "inputs": [text | {"binary": True}]},
        ],
    )
    for answer in answers[:2]:
        np.testing.assert_allclose(answer["y"], [Y])
    assert answers[2] == {"y": ["a", "ü"]}


WRONG = {
    "no model": ({"model": "missing", "inputs": [tensor()]}, 404, "NOT_FOUND"),
    "name": ({"model": "plain", "inputs": [tensor(name="z")]}, 400, "INVALID_ARGUMENT"),
    "none": ({"model": "plain", "inputs": []}, 400, "INVALID_ARGUMENT"),
    "twice": ({"model": "plain", "inputs": [tensor(), tensor()]}, 400, "INVALID_ARGUMENT"),
    "dtype": ({"model": "plain", "inputs": [tensor(datatype="FP64")]}, 400, "INVALID_ARGUMENT"),
    "no dtype": ({"model": "plain", "inputs": [tensor(datatype="FP1")]}, 400, "INVALID_ARGUMENT"),
    "rank": ({"model": "plain", "inputs": [tensor(shape=[4])]}, 400, "INVALID_ARGUMENT"),
    "dimension": (
        {"model": "plain", "inputs": [tensor(shape=[1, 5], data=[1.0] * 5)]},
        400,
        "INVALID_ARGUMENT",
    ),
    "count": ({"model": "plain", "inputs": [tensor(shape=[2, 4])]}, 400, "INVALID_ARGUMENT"),
    "negative": ({"model": "plain", "inputs": [tensor(shape=[-1, 4])]}, 400, "INVALID_ARGUMENT"),
    "overflow": (
        {"model": "plain", "inputs": [tensor(shape=[1 << 62, 4])]},
        400,
        "INVALID_ARGUMENT",
    ),
}


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_kserves_own_clients_with_wrong_requests(served: KServeProcess, protocol: str) -> None:
    # The client itself knows no such datatype over gRPC.
    asked = {n: v for n, v in WRONG.items() if (protocol, n) != ("grpc", "no dtype")}
    answers = calls(served, protocol, [call for call, _, _ in asked.values()])
    for answer, (name, (_, http, code)) in zip(answers, asked.items(), strict=True):
        assert answer.get("status") == (http if protocol == "rest" else code), (name, answer)
        assert answer["error"], name


def curl(served: KServeProcess, path: str, body: bytes, *options: str) -> tuple[int, Any]:
    """Status and answer of a request by curl."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    command = ["curl", "-s", "-m", "30", "-w", "\n%{http_code}", "--data-binary", "@-", *options]
    done = subprocess.run(
        [*command, f"http://127.0.0.1:{served.port}{path}"],
        input=body,
        capture_output=True,
        check=True,
    )
    text, _, status = done.stdout.rpartition(b"\n")
    return int(status), json.loads(text)


def json_body(*inputs: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"inputs": list(inputs), **more}).encode()


INFER = "/v2/models/plain/infer"
JSON = ("-H", "Content-Type: application/json")


def test_curl(served: KServeProcess) -> None:
    status, answer = curl(served, INFER, json_body(tensor()), *JSON)
    assert status == 200
    np.testing.assert_allclose(answer["outputs"][0]["data"], Y)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        json_body(tensor())[:40],
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b"3",
        b'{"inputs": {}}',
        json_body(tensor(data=["a"] * 4)),
        json_body(tensor(data=[[1, 1, 1], [1]])),
        json_body(tensor(shape=[10**30, 4])),
        json_body(tensor(shape="1,4")),
        json_body({"name": "x", "datatype": "FP32", "shape": [1, 4]}),
        json_body(tensor(), outputs=[{"name": "z"}]),
        json_body(tensor(datatype="FP16")),
        json_body(tensor(), parameters={"timeout": -1}),
    ],
)
def test_curl_with_bodies_that_are_no_requests(served: KServeProcess, body: bytes) -> None:
    status, answer = curl(served, INFER, body, *JSON)
    assert status == 400
    assert answer["error"]


def binary(length: object, sent: int, size: object = 16) -> tuple[bytes, str]:
    """A body whose JSON part says `size`, with `sent` bytes behind it, and its header; `length`
    None is the right one."""
    given = {"name": "x", "datatype": "FP32", "shape": [1, 4]}
    if size is not None:
        given["parameters"] = {"binary_data_size": size}
    head = json_body(given)
    told = len(head) if length is None else length
    return head + bytes(sent), f"Inference-Header-Content-Length: {told}"


@pytest.mark.parametrize(
    "data", [b"\x01\0\0\0\xff", b"\x05\0\0\0a", b"\xff\xff\xff\xffa", b"\x01", b"\0\0\0\0" * 2]
)
def test_curl_with_text_that_is_none(served: KServeProcess, data: bytes) -> None:
    given = {"name": "x", "datatype": "BYTES", "shape": [1]}
    head = json_body(given | {"parameters": {"binary_data_size": len(data)}})
    header = f"Inference-Header-Content-Length: {len(head)}"
    status, answer = curl(
        served, "/v2/models/echo/infer", head + data, "-H", header, "-H", "Content-Type: x/binary"
    )
    assert status == 400
    assert answer["error"]


def test_curl_with_a_binary_tensor(served: KServeProcess) -> None:
    body, header = binary(None, 16)
    status, answer = curl(served, INFER, body, "-H", header, "-H", "Content-Type: x/binary")
    assert status == 200
    assert answer["outputs"][0]["data"] == [0.0] * 3


@pytest.mark.parametrize(
    ("length", "sent", "size"),
    [
        (None, 8, 16),
        (None, 32, 16),
        (None, 16, None),
        (None, 16, -16),
        (None, 16, "a"),
        (None, 15, 15),
        (None, 16, True),
        (-1, 16, 16),
        (4, 16, 16),
        (10**6, 16, 16),
        (10**30, 16, 16),
        ("abc", 16, 16),
        ("1" * 5000, 16, 16),
        ("", 16, 16),
    ],
)
def test_curl_with_binary_parts_that_do_not_fit(
    served: KServeProcess, length: object, sent: int, size: object
) -> None:
    body, header = binary(length, sent, size)
    status, answer = curl(served, INFER, body, "-H", header, "-H", "Content-Type: x/binary")
    assert status == 400
    assert answer["error"]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/v2/models/..%2f..%2fetc/infer", 404),
        ("/v2/models/%00/infer", 404),
        (f"/v2/models/{'a' * 5000}/infer", 404),
        ("/v2/models/plain/versions/7/infer", 501),
        ("/v2/models/plain/nothing", 404),
        ("/v1/models/plain:predict", 400),
    ],
)
def test_curl_with_names_that_are_none(served: KServeProcess, path: str, wanted: int) -> None:
    status, answer = curl(served, path, json_body(tensor()), *JSON)
    assert status == wanted
    assert answer["error"]


def test_curl_that_ends_in_the_middle(served: KServeProcess) -> None:
    """A client that promises more than it sends is not waited for by others."""
    with subprocess.Popen(
        ["curl", "-s", "-m", "30", "-T", "-", f"http://127.0.0.1:{served.port}{INFER}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json_body(tensor())[:40])
        process.stdin.flush()
        assert served.infer("plain", shape=[1, 4], data=X)[0] == 200
        process.kill()


def test_slow_clients(served: KServeProcess) -> None:
    """Many who begin a request and do not go on."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{{"
    waiting = []
    try:
        for _ in range(min(SLOW_CLIENTS, most - 500)):
            client = socket.create_connection(("127.0.0.1", served.port), timeout=10)
            client.sendall(head.encode())
            waiting.append(client)
        begin = time.monotonic()
        assert served.infer("plain", shape=[1, 4], data=X)[0] == 200
        assert time.monotonic() - begin < 5
    finally:
        for client in waiting:
            client.close()
