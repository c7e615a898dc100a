# SPDX-License-Identifier: Apache-2.0
"""Equal elements have one order on every engine: that of their indices."""

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, usable

ENGINES = ["native", "openvino", "onnxruntime", "xla", "tvm"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("largest", [1, 0])
@pytest.mark.parametrize(
    ("count", "k"), [(12, 12), (900, 100), (900, 300), (20000, 6000), (9000, 9000)]
)
def test_top_k(engine: str, largest: int, count: int, k: int) -> None:
    """Scores of a detector come in steps, and two boxes of one score are told apart by place."""
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    model = make_model(
        [helper.make_node("TopK", ["x", "k"], ["values", "indices"], largest=largest)],
        [tensor("x", TensorProto.FLOAT, [2, count])],
        [tensor("values", TensorProto.FLOAT, [2, k]), tensor("indices", TensorProto.INT64, [2, k])],
        [numpy_helper.from_array(np.array([k]), "k")],
    )
    x = np.random.default_rng(3).integers(-4, 4, (2, count)).astype(np.float32)
    engines = list(dict.fromkeys([engine, "native"]))
    program = openxrt.load(model, engine=engines, check_results=False, cache_dir="")
    values, indices = program.run({"x": x}).values()
    wanted = np.argsort(-x if largest else x, axis=-1, kind="stable")[:, :k]
    np.testing.assert_array_equal(indices, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, -1))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("op", "last"), [("ArgMax", 0), ("ArgMax", 1), ("ArgMin", 0)])
def test_first_or_last(engine: str, op: str, last: int) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    model = make_model(
        [helper.make_node(op, ["x"], ["y"], axis=-1, keepdims=0, select_last_index=last)],
        [tensor("x", TensorProto.FLOAT, [3, 50])],
        [tensor("y", TensorProto.INT64, [3])],
    )
    x = np.random.default_rng(3).integers(-2, 2, (3, 50)).astype(np.float32)
    engines = list(dict.fromkeys([engine, "native"]))
    program = openxrt.load(model, engine=engines, check_results=False, cache_dir="")
    pick = np.argmax if op == "ArgMax" else np.argmin
    wanted = 49 - pick(x[:, ::-1], axis=-1) if last else pick(x, axis=-1)
    np.testing.assert_array_equal(program.run({"x": x})["y"], wanted)
