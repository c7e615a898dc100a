# SPDX-License-Identifier: Apache-2.0
"""Models and ports for the tests of openxrt.serve."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import openxrt

WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)


def linear_model(path: Path, factor: float = 1.0, rows: str | int = "batch") -> None:
    """y = x @ WEIGHTS * factor, float32[rows,4] to float32[rows,3]."""
    graph = openxrt.Graph("linear")
    x = graph.add_input("x", "float32", [rows, 4])
    weights = graph.add_constant(WEIGHTS * np.float32(factor), "float32")
    (y,) = graph.add_node("MatMul", [x, weights], ["y"])
    graph.add_output(y)
    graph.finish()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(graph.to_onnx())


def slow_model(path: Path) -> None:
    """The sum of products of n x n matrices, int64[2] n to float32[], which is n: 1024 takes some
    tenths of a second."""
    graph = openxrt.Graph("slow")
    n = graph.add_input("n", "int64", [2])
    (x,) = graph.add_node("ConstantOfShape", [n], ["zeros"])
    (x,) = graph.add_node("Softmax", [x], ["parts"])
    for i in range(8):
        (x,) = graph.add_node("MatMul", [x, x], [f"product{i}"])
    (y,) = graph.add_node("ReduceSum", [x], ["y"], {"keepdims": 0})
    graph.add_output(y)
    graph.finish()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(graph.to_onnx())


def free_ports(count: int) -> int:
    """The first of `count` neighbouring ports of the loopback address that nobody listens on."""
    for first in range(21000, 29000, count):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise AssertionError("no free port")


class KServeProcess:
    """`xrt serve --server kserve` over a folder, ready, and how to ask it."""

    def __init__(self, models: Path, *arguments: str) -> None:
        self.port = free_ports(2)
        self.process = subprocess.Popen(
            f"{sys.executable} -m openxrt.serve {models} --server kserve".split()
            + f"--port {self.port}".split()
            + list(arguments),
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
        return self.post(f"/v2/models/{model}/infer", json.dumps(body).encode())

    def post(self, path: str, body: bytes = b"") -> tuple[int, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=body,
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
