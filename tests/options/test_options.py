# SPDX-License-Identifier: Apache-2.0
"""Options do what their names say, and what cannot be honoured is said."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import openxrt
import pytest
from small_models import usable

X = np.ones((2, 8), np.float32)


@pytest.mark.parametrize("engine", ["native", "openvino", "xla", "onnxruntime"])
def test_a_workspace_bound_holds_or_is_said_not_to(engine: str, mlp_model: bytes) -> None:
    """One byte is never enough: an engine that knows what it takes fails, others are named."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    if engine in ("native", "xla"):
        with pytest.raises(openxrt.ResourceError, match="max_workspace_size is 1"):
            openxrt.load(mlp_model, engine=engine, max_workspace_size=1).run({"x": X})
        return
    program = openxrt.load(mlp_model, engine=engine, max_workspace_size=1)
    program.run({"x": X})
    said = f"max_workspace_size does not bind engine '{engine}'"
    assert [note for note in program.explain()["notes"] if note.startswith(said)]
    unbounded = openxrt.load(mlp_model, engine=engine)
    unbounded.run({"x": X})
    assert not [note for note in unbounded.explain()["notes"] if note.startswith(said)]


def test_an_engine_that_tells_its_workspace_is_held_to_it(mlp_model: bytes) -> None:
    class Half:
        def __init__(self, size: int) -> None:
            self.workspace_bytes = size

        def run(self, inputs: list, outputs: list) -> None:
            outputs[0][...] = np.maximum(inputs[0], 0)

    class Engine:
        def supports(self, node: openxrt.NodeView) -> bool | str:
            return True if node.op == "Relu" else "not Relu"

        def compile(self, function: openxrt.FunctionView) -> object:
            return Half(512)

    openxrt.engine("tells_workspace", version="1")(Engine)
    fits = openxrt.load(mlp_model, engine="tells_workspace", max_workspace_size=4096)
    fits.run({"x": X})
    assert not [note for note in fits.explain()["notes"] if "max_workspace" in note]
    with pytest.raises(openxrt.ResourceError, match="needs 512 bytes"):
        openxrt.load(mlp_model, engine="tells_workspace", max_workspace_size=511).run({"x": X})


def test_small_clusters_say_why_they_moved(mlp_model: bytes) -> None:
    program = openxrt.load(mlp_model, engine=["xla", "native"], cluster_minimum_nodes=10)
    program.run({"x": X})
    explanation = program.explain()
    assert explanation["nodes_per_engine"] == {"native": 5}
    assert explanation["notes"] == [
        "cluster_minimum_nodes: 5 nodes went to the next engine",
        "this plan serves one set of sizes: x float32[2,8]",
    ]
    for node in explanation["nodes"]:
        assert node["refusals"] == {
            "xla": "cluster_minimum_nodes: the node would be in a cluster of 5"
        }


def test_misspelt_variables_are_named(tmp_path: Path, mlp_model: bytes) -> None:
    path = tmp_path / "mlp.onnx"
    path.write_bytes(mlp_model)

    def stderr(**variables: str) -> str:
        script = (
            "import openxrt, sys, numpy as np;"
            "openxrt.load(sys.argv[1], engine='native')(np.ones((2, 8), np.float32))"
        )
        environment = {k: v for k, v in os.environ.items() if not k.startswith("XRT_")}
        result = subprocess.run(
            [sys.executable, "-c", script, str(path)],
            env={**environment, **variables},
            capture_output=True,
            text=True,
            check=True,
        )
        return result.stderr

    said = stderr(XRT_CLUSTER_MINIMUM_NODE="3")
    assert "XRT_CLUSTER_MINIMUM_NODE is not known; is XRT_CLUSTER_MINIMUM_NODES meant?" in said
    assert stderr(XRT_CLUSTER_MAXIMUM_NODES="3", XRT_TOOLS="x") == ""
    assert "XRT_LOG is 'loud'" in stderr(XRT_LOG="loud")
    assert "debug" in stderr(XRT_LOG="DEBUG")
