# SPDX-License-Identifier: Apache-2.0
"""Programs of the tests of faults, each in a process of its own, with a model and a cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

SIZE = 64
LAYERS = 8
ENGINES = ["native", "onnxruntime", "openvino", "xla"]

# What every program begins with.
BEGINNING = """
    import os, resource, signal, sys, threading, time
    import numpy as np
    import openxrt
    model, cache = sys.argv[1:]
    wanted = np.load(model + ".npy")
    x = np.ones((4, 64), np.float32)
    def load(engine="native", **options):
        return openxrt.load(model, engine=[engine], **{"cache_dir": cache} | options)
    def is_right(program):
        return np.allclose(program(x), wanted, rtol=1e-3, atol=1e-3)
"""


def write_model(path: Path) -> Path:
    """Layers of products; PATH.npy holds what comes of ones."""
    rng = np.random.default_rng(0)
    nodes, value, weights = [], "x", {}
    result = np.ones((4, SIZE), np.float32)
    for i in range(LAYERS):
        weights[f"w{i}"] = rng.standard_normal((SIZE, SIZE), dtype=np.float32) / 8
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Tanh", [f"m{i}"], [f"t{i}"]))
        value = f"t{i}"
        result = np.tanh(result @ weights[f"w{i}"])
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", kind, ["n", SIZE])],
        [helper.make_tensor_value_info(value, kind, ["n", SIZE])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    np.save(f"{path}.npy", result)
    return path


def start(code: str, model: Path, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """A program under way; `prefix` is a command that begins it."""
    program = textwrap.dedent(BEGINNING) + textwrap.dedent(code)
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", program, str(model), str(model.parent / "cache")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"XRT_LOG": "error"},
    )


def run(code: str, model: Path, seconds: float = 120, prefix: tuple[str, ...] = ()) -> str:
    """Standard output of a program that must succeed."""
    process = start(code, model, prefix)
    try:
        out, errors = process.communicate(timeout=seconds)
    finally:
        process.kill()
    assert process.returncode == 0, (process.returncode, out + errors)
    return out.strip()


def without_rights_of_root() -> tuple[str, ...]:
    """A command's beginning: permissions hold for it, whoever runs it."""
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("the command setpriv is missing")
    return ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
