# SPDX-License-Identifier: Apache-2.0
"""JAX's runtime as a peer: the StableHLO of the XLA engine, compiled and run by jaxlib's client.

No converter from ONNX to JAX takes these models: jaxonnxruntime (0.3.0, the last one, of 2023)
takes 2 of 12, and torchax 0.0.13 does not load with PyTorch 2.13. So the figures are of JAX's
compiler and runtime, with our lowering. Needs pip install --no-deps -r tools/requirements-jax.txt.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def set_threads(threads: int) -> None:
    """Before jax is imported: its client reads these once."""
    os.environ["PJRT_NPROC"] = str(threads)
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["JAX_ENABLE_X64"] = "1"


def write_stablehlo(model: str, feeds: dict[str, np.ndarray], folder: Path) -> None:
    """The whole model as StableHLO into a folder: main.mlir, weights, names of inputs in order."""
    import openxrt

    program = openxrt.load(
        model,
        engine="xla",
        strict=True,
        cache_dir="",
        engine_options={"xla": {"stablehlo_dir": str(folder)}},
    )
    program.run(feeds)  # symbolic shapes are known now
    launches = program.explain()["launches"]
    if len(launches) != 1:
        raise RuntimeError(f"the model is {len(launches)} functions, not one")
    (folder / "function").write_text(json.dumps([launches[0]["function"], launches[0]["reads"]]))


def prepare(model: str, feeds_file: str, folder: str) -> None:
    """write_stablehlo() in a process of its own: JAX's is to hold nothing of this project."""
    command = [sys.executable, __file__, model, feeds_file, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it died without a word"])[-1])


def jax_runner(folder: Path, feeds: dict[str, np.ndarray]) -> Callable[[], Any]:
    """Compiles what prepare() wrote; what is returned runs it, from NumPy's memory to NumPy's."""
    import jax
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir

    device = jax.devices("cpu")[0]
    name, inputs = json.loads((folder / "function").read_text())
    text = (folder / f"{name}.mlir").read_text()
    with mlir.make_ir_context():
        main = ir.Module.parse(text).body.operations[0]
        types = [ir.RankedTensorType(t) for t in main.type.inputs]
        shapes = [(t.shape, mlir_dtype(str(t.element_type))) for t in types]
    weights = [
        jax.device_put(np.fromfile(folder / f"{name}.weight{i}.bin", dtype).reshape(shape), device)
        for i, (shape, dtype) in enumerate(shapes[len(inputs) :])
    ]
    devices = xla_client.DeviceList((device,))
    executable = device.client.compile_and_load(text, devices, xla_client.CompileOptions())
    arrays = [feeds[name] for name in inputs]

    def run() -> list[np.ndarray]:
        given = [jax.device_put(array, device) for array in arrays]
        results = executable.execute([*given, *weights])
        return [np.asarray(result) for result in results]

    return run


def mlir_dtype(text: str) -> np.dtype:
    """NumPy's dtype of an element type as MLIR writes it."""
    kinds = {"f": "float", "ui": "uint", "i": "int"}
    if text == "i1":
        return np.dtype(bool)
    prefix = text.rstrip("0123456789")
    return np.dtype(kinds[prefix] + text.removeprefix(prefix))


if __name__ == "__main__":
    with np.load(sys.argv[2]) as stored:
        write_stablehlo(sys.argv[1], dict(stored), Path(sys.argv[3]))
