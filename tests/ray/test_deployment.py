# SPDX-License-Identifier: Apache-2.0
"""A folder of models behind Ray Serve: over HTTP, and from other code in the cluster."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from serving import WEIGHTS, free_ports, linear_model

ray_serve = pytest.importorskip("ray.serve")

import openxrt.ray  # noqa: E402


class Served:
    """A running application and how to ask it over HTTP."""

    def __init__(self, port: int, handle: Any) -> None:
        self.port, self.handle = port, handle

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON of an answer."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/models/v2/{path}", data)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def infer(self, model: str, x: np.ndarray, **more: Any) -> tuple[int, Any]:
        """Status and JSON of a run."""
        given = {
            "name": "x",
            "datatype": "FP32",
            "shape": list(x.shape),
            "data": x.tolist(),
            **more,
        }
        return self.ask(f"models/{model}/infer", {"id": "7", "inputs": [given]})


@pytest.fixture(scope="module")
def served(cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("models")
    for i in range(1, 5):
        linear_model(folder / f"m{i}.onnx", i)
    port = free_ports(1)
    ray_serve.start(http_options={"host": "127.0.0.1", "port": port})
    application = openxrt.ray.deployment(folder, models_per_replica=2, num_replicas=1)
    handle = ray_serve.run(application, name="models", route_prefix="/models")
    yield Served(port, handle)
    ray_serve.shutdown()


def test_the_protocol_over_http(served: Served) -> None:
    assert served.ask("health/ready") == (200, {})
    assert served.ask("models/m1")[1]["inputs"] == [
        {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
    ]
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    # More models than a replica holds at once, each asked twice.
    for i in (1, 2, 3, 4, 1, 2, 3, 4):
        status, answer = served.infer(f"m{i}", x)
        assert (status, answer["id"], answer["model_name"]) == (200, "7", f"m{i}")
        (output,) = answer["outputs"]
        assert (output["name"], output["datatype"], output["shape"]) == ("y", "FP32", [3, 3])
        np.testing.assert_allclose(output["data"], (x @ WEIGHTS * i).ravel(), rtol=1e-5)


def test_wrong_requests_get_their_status(served: Served) -> None:
    x = np.ones((1, 4), np.float32)
    for status, (code, answer), text in (
        (404, served.infer("missing", x), "there is no model 'missing'"),
        (404, served.ask("models/missing/ready"), "there is no model 'missing'"),
        (404, served.ask("nothing"), "no such endpoint"),
        (400, served.infer("m1", np.ones((1, 5), np.float32)), "x"),
        (400, served.infer("m1", x, name="z"), "there is no input 'z'"),
        (400, served.infer("m1", x, datatype="FP33"), "Open Inference Protocol"),
        (400, served.infer("m1", x, shape=[2, 4]), "Open Inference Protocol"),
        (400, served.ask("models/m1/infer", b'{"inputs": ['), "Open Inference Protocol"),
        (400, served.ask("models/m1/infer", b"[]"), "Open Inference Protocol"),
    ):
        assert code == status, answer
        assert text in answer["error"]
    assert served.infer("m1", x)[0] == 200


def test_from_other_code_of_the_cluster(served: Served) -> None:
    x = np.ones((2, 4), np.float32)
    found = [served.handle.infer.remote(f"m{i}", {"x": x}) for i in (1, 2, 3)]
    for i, answer in enumerate(found, 1):
        np.testing.assert_allclose(answer.result()["y"], x @ WEIGHTS * i)
