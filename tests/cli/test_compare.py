# SPDX-License-Identifier: Apache-2.0
"""Finding the node at which two engines differ."""

import subprocess
from pathlib import Path

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper
from openxrt import _command
from small_models import model_proto, tensor

OPS = {
    "Exp": np.exp,
    "Relu": lambda x: np.maximum(x, 0),
    "Neg": np.negative,
}


def interpreter(graph: onnx.GraphProto, factors: dict[str, float]):
    """Runs a graph of one-input ops; what an op computes is multiplied by its factor."""

    def run(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        values = dict(zip((i.name for i in graph.input), arrays, strict=True))
        for node in graph.node:
            result = OPS[node.op_type](values[node.input[0]])
            values[node.output[0]] = result * np.float32(factors.get(node.op_type, 1))
        return tuple(values[o.name] for o in graph.output)

    return run


@openxrt.engine("compare_bad_exp", version="1", ops=["Exp", "Relu", "Neg"])
class BadExp:
    """Exp is off by a tenth."""

    def supports(self, node: openxrt.NodeView) -> bool | str:
        return True if node.op in OPS else f"{node.op} is not written"

    def compile(self, function: openxrt.FunctionView):
        return interpreter(onnx.load_from_string(function.to_onnx()).graph, {"Exp": 1.1})


@openxrt.engine("compare_bad_pair", version="1", ops=["Relu", "Neg"])
class BadPair:
    """Right for each node, wrong for a Neg beside a Relu."""

    def supports(self, node: openxrt.NodeView) -> bool | str:
        return True if node.op in ("Neg", "Relu") else f"{node.op} is not written"

    def compile(self, function: openxrt.FunctionView):
        graph = onnx.load_from_string(function.to_onnx()).graph
        together = {node.op_type for node in graph.node} == {"Relu", "Neg"}
        return interpreter(graph, {"Neg": 2.0 if together else 1.0})


def model(path: Path, ops: list[str]) -> Path:
    """A chain of the ops on float32[4]."""
    nodes = [
        helper.make_node(op, [f"v{i}" if i else "x"], [f"v{i + 1}"], name=f"n{i}_{op}")
        for i, op in enumerate(ops)
    ]
    made = model_proto(
        nodes,
        [tensor("x", TensorProto.FLOAT, [4])],
        [tensor(f"v{len(ops)}", TensorProto.FLOAT, [4])],
    )
    onnx.save(made, path)
    return path


X = np.array([-1, 0.25, 0.5, 2], np.float32)


def test_finds_the_node(tmp_path: Path) -> None:
    """The first node that is wrong by itself, not those that pass the error on."""
    path = model(tmp_path / "m.onnx", ["Abs", "Relu", "Exp", "Neg", "Tanh", "Exp"])
    found = openxrt.compare(path, ("native", "compare_bad_exp"), {"x": X})
    assert found.differs
    assert found.nodes == ["n2_Exp"]
    np.testing.assert_allclose(found.expected["v3"], np.exp(np.abs(X)), rtol=1e-5)
    np.testing.assert_allclose(found.actual["v3"], np.exp(np.abs(X)) * 1.1, rtol=1e-5)
    np.testing.assert_allclose(found.inputs["v2"], np.abs(X), rtol=1e-6)
    # The piece is a model that shows the same.
    assert [n.op_type for n in onnx.load_from_string(found.piece).graph.node] == ["Exp"]
    again = openxrt.compare(found.piece, ("native", "compare_bad_exp"), found.inputs)
    assert again.nodes == ["n2_Exp"]
    found.write(tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "actual.npz",
        "expected.npz",
        "inputs.npz",
        "piece.onnx",
    ]


def test_finds_the_stretch(tmp_path: Path) -> None:
    """What no node does by itself."""
    path = model(tmp_path / "m.onnx", ["Abs", "Exp", "Relu", "Neg", "Tanh", "Abs"])
    found = openxrt.compare(path, ("native", "compare_bad_pair"), {"x": 0.1 * X})
    assert found.nodes == ["n2_Relu", "n3_Neg"]
    assert found.value == "v4"


def test_agreement_and_mistakes(tmp_path: Path) -> None:
    """Equal engines, random inputs, wrong inputs."""
    path = model(tmp_path / "m.onnx", ["Relu", "Neg"])
    assert not openxrt.compare(path, ("native", "compare_bad_exp")).differs
    assert not openxrt.compare(path, ("native", "native"), every_node=True).differs
    with pytest.raises(openxrt.InvalidArgument, match="was not given"):
        openxrt.compare(path, ("native", "native"), {})
    with pytest.raises(openxrt.NotFound, match="nothing_like_it"):
        openxrt.compare(path, ("native", "nothing_like_it"))


def xrt(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs the command."""
    program = next(path for path in _command.programs() if path.is_file())
    return subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120
    )


def test_command(tmp_path: Path) -> None:
    """Equal, and what is wrong on the command line."""
    path = model(tmp_path / "m.onnx", ["Relu", "Neg"])
    done = xrt("compare", path, "-e", "native", "-e", "native")
    assert done.returncode == 0, done.stderr
    assert "largest difference 0" in done.stdout
    assert xrt("compare", path, "-e", "native").returncode == 2
    assert xrt("compare", path, "-e", "native", "-e", "auto").returncode == 2
    assert xrt("compare", path, "-e", "native", "-e", "nothing_like_it").returncode == 3
