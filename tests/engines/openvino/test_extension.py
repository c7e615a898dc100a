# SPDX-License-Identifier: Apache-2.0
"""A user's library of OpenVINO extensions (tests/engines/openvino/extension)."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import openxrt
import pytest

LIBRARY = Path(openxrt._core.__file__).parents[2] / "tests" / "libopenvino_test_extension.so"
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built")

SCRIPT = """
import json, sys
import numpy as np, openxrt
from onnx import TensorProto, helper

DOMAIN = "test.extension"
for name in ("Scale", "Twice", "Unknown"):
    openxrt.register_op(
        DOMAIN, name, lambda x, **_: np.full_like(x, 7), inputs=["x"], revision="1",
        attributes={"by": 1.0} if name == "Scale" else {})
nodes = [
    helper.make_node("Scale", ["x"], ["s"], "scale", domain=DOMAIN, by=3.0),
    helper.make_node("Twice", ["s"], ["t"], "twice", domain=DOMAIN),
    helper.make_node("Abs", ["t"], ["y"], "abs"),
    helper.make_node("Unknown", ["y"], ["z"], "unknown", domain=DOMAIN),
]
graph = helper.make_graph(
    nodes, "test", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
    [helper.make_empty_tensor_value_info(name) for name in ("y", "z")])
opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
program = openxrt.load(model, engine=["openvino", "native"], cache_dir=sys.argv[1])
results = program.run({"x": np.array([-1, 0, 2], np.float32)})
explanation = program.explain()
print(json.dumps({
    "y": results["y"].tolist(), "z": results["z"].tolist(),
    "engines": {node["name"]: node["engine"] for node in explanation["nodes"]},
    "refusals": {node["name"]: node["refusals"].get("openvino") for node in explanation["nodes"]},
    "from_cache": {row["engine"]: row["from_cache"] for row in explanation["launches"]}}))
"""


def run(cache: Path, extensions: Path | str) -> dict:
    """What a process with these extensions computes, and where."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(cache)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"XRT_OPENVINO_EXTENSIONS": str(extensions)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_ops_of_an_extension_run_on_openvino(tmp_path: Path) -> None:
    library = tmp_path / LIBRARY.name
    shutil.copy2(LIBRARY, library)
    cache = tmp_path / "cache"
    found = run(cache, library)
    assert found["y"] == [6, 0, 12]
    assert found["z"] == [7, 7, 7]
    on_openvino = {"scale": "openvino", "twice": "openvino", "abs": "openvino"}
    assert found["engines"] == on_openvino | {"unknown": "native"}
    assert found["refusals"]["unknown"]
    again = run(cache, library)
    assert again["y"] == [6, 0, 12]
    assert again["from_cache"]["openvino"]
    os.utime(library)  # it may compute something else now
    assert not run(cache, library)["from_cache"]["openvino"]


def test_without_the_extension_the_kernels_run(tmp_path: Path) -> None:
    found = run(tmp_path, "")
    assert found["y"] == [7, 7, 7]
    assert "no ops of domain 'test.extension'" in found["refusals"]["scale"]


def test_a_missing_extension_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"XRT_OPENVINO_EXTENSIONS.*No such file"):
        run(tmp_path, tmp_path / "gone.so")
