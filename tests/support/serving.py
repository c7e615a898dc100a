# SPDX-License-Identifier: Apache-2.0
"""Models and ports for the tests of openxrt.serve."""

from __future__ import annotations

import socket
from pathlib import Path

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
