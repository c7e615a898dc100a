# SPDX-License-Identifier: Apache-2.0
"""Operands without elements on which ONNX Runtime ends the process, where sizes are open."""

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import make_model, tensor, untyped

pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


# Operands, the first of which comes without elements, and attributes.
CASES = {
    "ConvTranspose": ([random(1, 1, 3, 4, 5), random(1, 2, 3, 3, 3)], (1, 1, 0, 4, 5), {}),
    "GRU": ([random(1, 3, 2), random(1, 15, 2), random(1, 15, 5)], (0, 3, 2), {"hidden_size": 5}),
    "LSTM": ([random(1, 3, 2), random(1, 12, 2), random(1, 12, 3)], (1, 0, 2), {"hidden_size": 3}),
    "RNN": ([random(1, 3, 2), random(1, 4, 2), random(1, 4, 4)], (1, 0, 2), {"hidden_size": 4}),
}


@pytest.mark.parametrize("op", sorted(CASES))
def test_no_elements(op: str) -> None:
    operands, empty, attributes = CASES[op]
    feeds = dict(zip("abc", operands, strict=False))
    model = make_model(
        [helper.make_node(op, list(feeds), ["y"], **attributes)],
        [
            tensor(name, TensorProto.FLOAT, [f"{name}{i}" for i in range(value.ndim)])
            for name, value in feeds.items()
        ],
        [untyped("y")],
    )
    program = openxrt.load(model, engine=["onnxruntime"], cache_dir="", max_specializations=1)
    right = program.run(feeds)["y"]
    assert program.explain().nodes_per_engine == {"onnxruntime": 1}
    with pytest.raises(openxrt.Error):
        program.run({**feeds, "a": np.zeros(empty, np.float32)})
    np.testing.assert_array_equal(program.run(feeds)["y"], right)
