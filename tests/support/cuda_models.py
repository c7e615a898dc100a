# SPDX-License-Identifier: Apache-2.0
"""Models for the CUDA engine, on a card or on stand-ins for the driver and NVIDIA's libraries."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import openxrt
from onnx import TensorProto, helper, numpy_helper

STANDIN = "CUDA_STANDIN" in os.environ
# A card has it, and stand-ins tell.
HAS_CUDNN = not STANDIN or Path(os.environ.get("XRT_CUDNN", "/none")).exists()
FLOAT, HALF, LONG, INT = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.INT64,
    TensorProto.INT32,
)
DTYPES = {FLOAT: np.float32, HALF: np.float16, LONG: np.int64, INT: np.int32}
ENGINES = {"engine": ["cuda", "native"], "device": "cuda", "strict": True}


def model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, tuple[int, ...]]],
    outputs: list[str],
    constants: dict[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    """A model whose inputs have these types and shapes; those of its outputs are inferred."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(v, n) for n, v in (constants or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


def load(made: onnx.ModelProto, tmp_path: Path, **options: Any) -> openxrt.Program:
    """The model on the engine."""
    path = tmp_path / "model.onnx"
    onnx.save(made, path)
    return openxrt.load(path, **(ENGINES | options))


def values(made: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    """Random values for the model's inputs."""
    rng = np.random.default_rng(seed)
    feed = {}
    for value in made.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        dtype = DTYPES[value.type.tensor_type.elem_type]
        if np.issubdtype(dtype, np.integer):
            feed[value.name] = rng.integers(-9, 9, shape).astype(dtype)
        else:
            feed[value.name] = rng.standard_normal(shape).astype(dtype)
    return feed


def check(made: onnx.ModelProto, tmp_path: Path, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """Two runs, the second of which is the recorded one, give what ONNX Runtime gives."""
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    program = load(made, tmp_path)
    assert set(program.explain()["nodes_per_engine"]) <= {"cuda"}
    for seed in (0, 1):
        feed = values(made, seed)
        wanted = session.run(None, feed)
        given = program.run(feed)
        for (name, got), want in zip(given.items(), wanted, strict=True):
            np.testing.assert_allclose(
                np.asarray(got, np.float64), want.astype(np.float64), rtol, atol, err_msg=name
            )


def check_half(build: Callable[[int], onnx.ModelProto], tmp_path: Path) -> openxrt.Program:
    """Half precision is within 2⁻⁸ of the largest value that ONNX Runtime gives in float32.

    `build` makes the model of HALF or of FLOAT. Returns that of HALF.
    """
    made = build(HALF)
    session = onnxruntime.InferenceSession(
        build(FLOAT).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    program = load(made, tmp_path)
    for seed in (0, 1):
        feed = values(made, seed)
        wide = {n: v.astype(np.float32) for n, v in feed.items()}
        given = program.run(feed)
        for (name, got), want in zip(given.items(), session.run(None, wide), strict=True):
            off = np.abs(np.asarray(got, np.float32) - want).max()
            assert off <= 2**-8 * np.abs(want).max(), name
    return program


def shape_of(made: onnx.ModelProto) -> tuple[int, ...]:
    """Of the model's only result."""
    return tuple(d.dim_value for d in made.graph.output[0].type.tensor_type.shape.dim)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """A node from names with spaces between them; "_" is an operand that is left out."""
    names = ["" if n == "_" else n for n in inputs.split()]
    return helper.make_node(op, names, outputs.split(), **attributes)


def small(tmp_path: Path, rows: int = 4) -> openxrt.Program:
    """y = relu(x w)."""
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "y")]
    weights = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    return load(model(nodes, {"x": (FLOAT, (rows, 4))}, ["y"], {"w": weights}), tmp_path)


def remarks(program: openxrt.Program) -> str:
    """What the engine says of its functions."""
    return str(program.explain())


def attentions(program: openxrt.Program) -> int:
    """How many attentions the library computes as a whole."""
    found = re.findall(r"convolutions and (\d+) attentions", remarks(program))
    return sum(int(count) for count in found)
