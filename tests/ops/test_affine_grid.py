# SPDX-License-Identifier: Apache-2.0
"""AffineGrid, which most engines compute by its function body, against PyTorch."""

from __future__ import annotations

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import model_proto, tensor, untyped, usable


@pytest.mark.parametrize("engine", ["native", "openvino", "xla", "onnxruntime"])
@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("size", [(1, 2, 3, 4), (3, 1, 2, 5), (1, 1, 2, 3, 4), (2, 1, 3, 2, 4)])
def test_against_torch(size: tuple[int, ...], align: int, is_constant: bool, engine: str) -> None:
    """A batch of one is no other case."""
    torch = pytest.importorskip("torch")
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    axes = len(size) - 2
    rng = np.random.default_rng(0)
    theta = rng.standard_normal((size[0], axes, axes + 1)).astype(np.float32)
    sizes = np.array(size)
    node = helper.make_node("AffineGrid", ["theta", "size"], ["grid"], align_corners=align)
    inputs = [tensor("theta", TensorProto.FLOAT, list(theta.shape))]
    constants = []
    if is_constant:
        constants.append(numpy_helper.from_array(sizes, "size"))
    else:
        inputs.append(tensor("size", TensorProto.INT64, ["n"]))
    model = model_proto([node], inputs, [untyped("grid")], constants, opset=20)
    program = openxrt.load(
        model.SerializeToString(), engine=list(dict.fromkeys([engine, "native"]))
    )
    feeds = {"theta": theta} | ({} if is_constant else {"size": sizes})
    expected = torch.nn.functional.affine_grid(torch.tensor(theta), size, align_corners=bool(align))
    np.testing.assert_allclose(program.run(feeds)["grid"], expected.numpy(), atol=1e-5)
