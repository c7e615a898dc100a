# SPDX-License-Identifier: Apache-2.0
"""Concatenations and slices without copies, judged by ONNX Runtime."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openxrt.lite
import pytest
from onnx import TensorProto, helper, numpy_helper
from openxrt import _command
from small_models import model_proto, tensor

sys.path.insert(0, str(Path(__file__).resolve().parent))
from networks import run

TARGETS = ("generic", "x86", "cortex-m")


class Builder:
    """A network, node by node."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(value, f"c{len(self.constants)}"))
        return self.constants[-1].name

    def node(self, op: str, inputs: list[str], outputs: int = 1, **attributes: object) -> list[str]:
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names

    def conv(self, x: str, *shape: int, **attributes: object) -> str:
        scale = np.float32(1 / np.sqrt(np.prod(shape[1:])))
        w = self.constant(self.rng.standard_normal(shape, np.float32) * scale)
        bias = self.constant(self.rng.standard_normal(shape[0], np.float32))
        pads = [shape[2] // 2, shape[3] // 2] * 2
        (y,) = self.node("Conv", [x, w, bias], pads=pads, **attributes)
        return self.node("Relu", [y])[0]

    def slice(self, x: str, axis: int, start: int, end: int) -> str:
        ends = [self.constant(np.array([v], np.int64)) for v in (start, end, axis)]
        return self.node("Slice", [x, *ends])[0]

    def check(self, outputs: list[str], folder: Path, targets: str) -> int:
        """Compares with ONNX Runtime; returns how many copies there are, but for the change of the
        order of the input and of outputs that are images.
        """
        shape = (2, 3, 12, 10)
        file, compiled = folder / "model.onnx", folder / f"{targets}.bin"
        onnx.save(
            model_proto(
                self.nodes,
                [tensor("x", TensorProto.FLOAT, shape)],
                [tensor(name, TensorProto.FLOAT, None) for name in outputs],
                self.constants,
                opset=17,
            ),
            file,
        )
        x = self.rng.standard_normal(shape, np.float32)
        expected = onnxruntime.InferenceSession(file).run(None, {"x": x})
        openxrt.lite.compile(file, compiled, targets=targets)
        actual = openxrt.lite.Model(compiled, threads=2).run({"x": x})
        for want, got in zip(expected, actual.values(), strict=True):
            assert want.shape == got.shape
            assert np.abs(want - got).max() < 1e-5 * np.ptp(want)
        program = next(path for path in _command.programs() if path.is_file())
        inspect = program.with_name("xrt-lite-inspect")
        ops = [line.split() for line in run([inspect, compiled, "--ops"]).splitlines()]
        return sum("copy" in words and not any("reorder" in w for w in words) for words in ops)


@pytest.mark.parametrize("targets", TARGETS)
def test_concatenations_of_concatenations(targets: str, tmp_path: Path) -> None:
    """Convolutions, pools and a depthwise one; a whole is read, its parts are, parts are outputs of
    the model.
    """
    b = Builder()
    a = b.conv("x", 16, 3, 3, 3)
    c = b.conv(a, 40, 16, 1, 1)
    (p,) = b.node("MaxPool", [a], kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])
    (whole,) = b.node("Concat", [a, c, p], axis=1)
    d = b.conv(whole, 72, 1, 3, 3, group=72)
    (more,) = b.node("Concat", [whole, d], axis=1)
    e = b.conv(c, 16, 40, 3, 3)  # reads a part; the residual is another one
    (f,) = b.node("Add", [b.conv(e, 40, 16, 1, 1), c])
    (mean,) = b.node("GlobalAveragePool", [more])
    (flat,) = b.node("Flatten", [mean])
    (sums,) = b.node("ReduceMean", [c], axes=[2, 3])
    last = b.conv(more, 5, 144, 3, 3, strides=[2, 2])
    assert b.check([flat, f, sums, last], tmp_path, targets) == 0


@pytest.mark.parametrize("targets", TARGETS)
def test_parts_that_must_be_copied(targets: str, tmp_path: Path) -> None:
    """A value in two concatenations, twice in one, one that is an output, and the input itself."""
    b = Builder()
    a, c = b.conv("x", 8, 3, 3, 3), b.conv("x", 8, 3, 1, 1)
    (twice,) = b.node("Concat", [a, a, c], axis=1)
    (other,) = b.node("Concat", [c, a], axis=1)
    (given,) = b.node("Concat", ["x", b.conv(other, 5, 16, 1, 1)], axis=1)
    (soft,) = b.node("Softmax", [c], axis=1)
    outputs = [b.conv(v, 4, n, 3, 3) for v, n in ((twice, 24), (given, 8), (soft, 8))]
    assert b.check([*outputs, a], tmp_path, targets) > 0


@pytest.mark.parametrize("targets", TARGETS)
def test_slices(targets: str, tmp_path: Path) -> None:
    """Halves of channels, rows and columns, of the second image; a slice of a slice."""
    b = Builder()
    a = b.conv("x", 72, 3, 3, 3)
    left, right = b.node("Split", [a], 2, axis=1)
    rows = b.slice(left, 2, 2, 9)
    columns = b.slice(rows, 3, 1, 8)
    one = b.slice(a, 0, 1, 2)
    (product,) = b.node("Mul", [left, right])
    outputs = [
        b.conv(rows, 4, 36, 3, 3),
        b.conv(b.slice(right, 1, 1, 34), 33, 1, 3, 3, group=33),
        b.conv(columns, 4, 36, 1, 1),
        b.conv(one, 4, 72, 3, 3),
        b.node("MaxPool", [right], kernel_shape=[2, 2])[0],
        b.node("ReduceMax", [left], axes=[1])[0],
        product,
    ]
    # Parts of the rows of two images, and of columns, do not lie evenly.
    assert b.check(outputs, tmp_path, targets) == 2


@pytest.mark.parametrize("targets", TARGETS)
def test_shuffled_channels(targets: str, tmp_path: Path) -> None:
    b = Builder()
    a = b.conv("x", 24, 3, 3, 3)
    left, right = b.node("Split", [a], 2, axis=1)
    (joined,) = b.node("Concat", [b.conv(left, 12, 12, 1, 1), right], axis=1)
    shape = b.constant(np.array([2, 2, 12, 12, 10], np.int64))
    (wide,) = b.node("Reshape", [joined, shape])
    (turned,) = b.node("Transpose", [wide], perm=[0, 2, 1, 3, 4])
    (back,) = b.node("Reshape", [turned, b.constant(np.array([2, 24, 12, 10], np.int64))])
    b.check([b.conv(back, 7, 24, 3, 3)], tmp_path, targets)
