# SPDX-License-Identifier: Apache-2.0
"""Triton's server over a folder of models, asked by Triton's own clients."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openxrt
import pytest
from serving import WEIGHTS, free_ports, linear_model

http = pytest.importorskip("tritonclient.http")
grpc = pytest.importorskip("tritonclient.grpc")
pytest.importorskip("pytriton")

from openxrt.serve.triton_server import TritonServer  # noqa: E402
from tritonclient.utils import InferenceServerException  # noqa: E402

RNG = np.random.default_rng(0)


@pytest.fixture
def server(models: Path) -> Iterator[TritonServer]:
    with TritonServer(models, port=free_ports(3), drain_s=2) as running:
        yield running


def http_input(array: np.ndarray, name: str = "x") -> http.InferInput:
    given = http.InferInput(name, list(array.shape), "FP32")
    given.set_data_from_numpy(array)
    return given


def metrics(server: TritonServer) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port + 2}/metrics") as page:
        return page.read().decode()


def test_answers_over_http_and_grpc(server: TritonServer) -> None:
    x = RNG.normal(size=(3, 4)).astype(np.float32)
    with http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        assert client.is_server_ready()
        assert client.get_model_metadata("batched")["inputs"] == [
            {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
        ]
        parameters = client.get_model_config("batched")["parameters"]
        assert parameters["engines"]["string_value"] == "native"
        for name, factor in (("batched", 1), ("plain", 2)):
            y = client.infer(name, [http_input(x)]).as_numpy("y")
            np.testing.assert_allclose(y, x @ WEIGHTS * factor, rtol=1e-5)
    with grpc.InferenceServerClient(f"127.0.0.1:{server.port + 1}") as client:
        given = grpc.InferInput("x", [3, 4], "FP32")
        given.set_data_from_numpy(x)
        y = client.infer("batched", [given]).as_numpy("y")
        np.testing.assert_allclose(y, x @ WEIGHTS, rtol=1e-5)
    assert 'xrt_runs_total{engines="native",model="batched",version="1"} 2' in metrics(server)


def test_requests_share_runs_and_keep_their_rows(server: TritonServer) -> None:
    wrong = []

    def ask(seed: int) -> None:
        rng = np.random.default_rng(seed)
        with http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
            for _ in range(40):
                x = rng.normal(size=(rng.integers(1, 4), 4)).astype(np.float32)
                y = client.infer("batched", [http_input(x)]).as_numpy("y")
                if not np.allclose(y, x @ WEIGHTS, rtol=1e-4, atol=1e-5):
                    wrong.append((x, y))

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    counts = {
        line.split("{")[0]: float(line.split()[-1])
        for line in metrics(server).splitlines()
        if 'model="batched"' in line and line.startswith("nv_inference")
    }
    assert counts["nv_inference_request_success"] == 320
    assert counts["nv_inference_exec_count"] < 320


def test_wrong_requests_get_their_status_and_harm_nobody(server: TritonServer) -> None:
    x = np.ones((1, 4), np.float32)
    with http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        for model, given, status in (
            ("missing", http_input(x), "404"),
            ("batched", http_input(x, "z"), "400"),
            ("batched", http_input(np.ones((1, 5), np.float32)), "400"),
            ("batched", http_input(np.ones((9, 4), np.float32)), "400"),
            ("plain", http_input(np.ones(4, np.float32)), "400"),
        ):
            with pytest.raises(InferenceServerException) as caught:
                client.infer(model, [given])
            assert caught.value.status() == status
        whole = np.ones((1, 4), np.float64)
        given = http.InferInput("x", [1, 4], "FP64")
        given.set_data_from_numpy(whole)
        with pytest.raises(InferenceServerException):
            client.infer("plain", [given])
        np.testing.assert_allclose(
            client.infer("plain", [http_input(x)]).as_numpy("y")[0],
            2 * WEIGHTS.sum(0),
            rtol=1e-5,
        )
    truncated = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/v2/models/plain/infer", data=b'{"inputs": [', method="POST"
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(truncated)
    assert refused.value.code >= 400
    with http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        assert client.is_server_ready()


def test_a_model_is_replaced_while_it_is_asked(server: TritonServer, models: Path) -> None:
    ended = threading.Event()
    factors: list[float] = []
    failures: list[Exception] = []

    def ask() -> None:
        with http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
            while not ended.is_set():
                try:
                    y = client.infer("batched", [http_input(np.ones((1, 4), np.float32))])
                    factors.append(float(y.as_numpy("y")[0, 0] / WEIGHTS[:, 0].sum()))
                except InferenceServerException as error:
                    failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    (models / "batched" / "2").mkdir()
    (models / "batched" / "2" / "model.onnx").write_bytes(b"broken")
    server.follow()
    broken_at = len(factors)
    linear_model(models / "batched" / "2" / "model.onnx", 3.0)
    server.follow()
    time.sleep(0.5)
    ended.set()
    thread.join()
    assert not failures
    assert factors[:broken_at] == [1.0] * broken_at
    assert factors[-1] == 3.0
    assert set(factors) == {1.0, 3.0}


def test_models_come_and_go(server: TritonServer, models: Path) -> None:
    linear_model(models / "late.onnx", 5.0)
    (models / "plain.onnx").unlink()
    server.follow()
    with http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        y = client.infer("late", [http_input(np.ones((1, 4), np.float32))]).as_numpy("y")
        np.testing.assert_allclose(y[0], 5 * WEIGHTS.sum(0))
        for _ in range(50):  # unloading is not waited for
            if not client.is_model_ready("plain"):
                break
            time.sleep(0.1)
        assert not client.is_model_ready("plain")


def failures(server: TritonServer) -> dict[str, str]:
    """Names of the models that are not ready, and why."""
    return {
        entry["name"]: entry.get("reason", "")
        for entry in server.index()
        if entry.get("state") != "READY"
    }


def test_a_model_that_fails_at_the_start_is_not_ready_and_others_are(models: Path) -> None:
    (models / "batched" / "xrt.json").write_text('{"options": {"engine": "banana"}}')
    (models / "junk.onnx").write_bytes(b'"\n\\junk')
    (models / "twice.onnx").write_bytes(b"")
    linear_model(models / "twice" / "1" / "model.onnx")
    ones = np.ones((1, 4), np.float32)
    with (
        TritonServer(models, port=free_ports(3), drain_s=2) as server,
        http.InferenceServerClient(f"127.0.0.1:{server.port}") as client,
    ):
        assert client.is_server_ready()
        assert client.is_model_ready("plain")
        told = failures(server)
        assert sorted(told) == ["batched", "junk", "twice"]
        assert "banana" in told["batched"]
        assert "junk.onnx" in told["junk"]
        assert "two models" in told["twice"]
        for name in told:
            assert not client.is_model_ready(name)
            with pytest.raises(InferenceServerException, match="no available versions"):
                client.infer(name, [http_input(ones)])
        np.testing.assert_allclose(
            client.infer("plain", [http_input(ones)]).as_numpy("y")[0], 2 * WEIGHTS.sum(0)
        )
        (models / "batched" / "xrt.json").write_text('{"options": {"engine": "native"}}')
        (models / "late.onnx").write_bytes(b"junk")
        (models / "junk.onnx").unlink()
        (models / "twice.onnx").unlink()
        server.follow()
        assert sorted(failures(server)) == ["late"]
        for name in ("batched", "twice"):
            np.testing.assert_allclose(
                client.infer(name, [http_input(ones)]).as_numpy("y")[0], WEIGHTS.sum(0)
            )


def test_where_asked_for_a_model_that_fails_ends_the_start(models: Path) -> None:
    (models / "batched" / "xrt.json").write_text('{"options": {"engine": "banana"}}')
    with pytest.raises(openxrt.InvalidModel, match="banana"):
        TritonServer(models, port=free_ports(3), exit_on_error=True).start()
    done = subprocess.run(
        [sys.executable, "-m", "openxrt.serve", os.fspath(models), "--exit-on-error"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "banana" in done.stderr


def test_a_folder_that_is_away_takes_nothing_away(server: TritonServer, models: Path) -> None:
    models.rename(models.with_name("elsewhere"))
    server.follow()
    with http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        assert client.is_model_ready("plain")
        models.with_name("elsewhere").rename(models)
        server.follow()
        assert client.is_model_ready("plain")


def test_the_command_serves_and_ends(models: Path) -> None:
    port = free_ports(3)
    command = [sys.executable, "-m", "openxrt.serve", os.fspath(models), "--port", str(port)]
    process = subprocess.Popen([*command, "--drain", "2"], stderr=subprocess.PIPE, text=True)
    with http.InferenceServerClient(f"127.0.0.1:{port}") as client:
        for _ in range(300):
            try:
                if client.is_server_ready():
                    break
            except OSError:
                pass
            time.sleep(0.1)
        y = client.infer("plain", [http_input(np.ones((2, 4), np.float32))]).as_numpy("y")
        np.testing.assert_allclose(y[1], 2 * WEIGHTS.sum(0))
    process.send_signal(signal.SIGTERM)
    _, text = process.communicate(timeout=60)
    assert process.returncode == 0, text


def test_a_killed_worker_is_replaced(server: TritonServer) -> None:
    with http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        given = [http_input(np.ones((1, 4), np.float32))]
        client.infer("plain", given)
        stubs = subprocess.run(
            ["pgrep", "-f", "triton_python_backend_stub.*models/plain"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for stub in stubs:
            os.kill(int(stub), signal.SIGKILL)
        with pytest.raises(InferenceServerException):
            client.infer("plain", given)
        assert client.infer("batched", given).as_numpy("y").shape == (1, 3)
        server.follow()
        np.testing.assert_allclose(
            client.infer("plain", given).as_numpy("y")[0], 2 * WEIGHTS.sum(0)
        )


def test_scalars_have_one_element(tmp_path: Path) -> None:
    """Triton has no tensors of rank 0: clients see one of one element."""
    graph = openxrt.Graph("mean")
    x = graph.add_input("x", "float32", [4])
    factor = graph.add_input("factor", "float32", [])
    (scaled,) = graph.add_node("Mul", [x, factor], ["scaled"])
    (y,) = graph.add_node("ReduceMean", [scaled], ["y"], {"keepdims": 0})
    graph.add_output(y)
    graph.finish()
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mean.onnx").write_bytes(graph.to_onnx())
    with (
        TritonServer(tmp_path / "models", port=free_ports(3), drain_s=2) as server,
        http.InferenceServerClient(f"127.0.0.1:{server.port}") as client,
    ):
        given = [
            http_input(np.arange(4, dtype=np.float32)),
            http_input(np.full(1, 3, np.float32), "factor"),
        ]
        np.testing.assert_allclose(client.infer("mean", given).as_numpy("y"), [4.5])
