# SPDX-License-Identifier: Apache-2.0
"""Operands for which the order of what a lowering asks shows."""

from itertools import pairwise

import numpy as np
import onnxruntime
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, usable

pytestmark = pytest.mark.skipif(not usable("xla"), reason="xla is not there")


@pytest.mark.parametrize("lambd", [0.5, 0.0, -1.0])
def test_shrink_asks_first_whether_a_number_is_small(lambd: float) -> None:
    model = make_model(
        [helper.make_node("Shrink", ["x"], ["y"], lambd=lambd, bias=0.25)],
        [tensor("x", TensorProto.FLOAT, [5])],
        [tensor("y", TensorProto.FLOAT, [5])],
    )
    x = np.array([-2, -0.5, 0, 0.5, 2], np.float32)
    wanted = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
    program = openxrt.load(model, engine="xla", strict=True, check_results=False, cache_dir="")
    np.testing.assert_array_equal(program(x), wanted)


def test_norms_of_other_orders_are_refused() -> None:
    model = make_model(
        [helper.make_node("LpNormalization", ["x"], ["y"], p=3)],
        [tensor("x", TensorProto.FLOAT, [2, 2])],
        [tensor("y", TensorProto.FLOAT, [2, 2])],
    )
    with pytest.raises(openxrt.Error, match="LpNormalization"):
        openxrt.load(model, engine=["xla", "native"], cache_dir="")(np.ones((2, 2), np.float32))


def test_scales_of_quantisation_are_exact() -> None:
    """The zero point of a range around zero is half way between two levels."""
    model = make_model(
        [helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])],
        [tensor("x", TensorProto.FLOAT, [7])],
        [
            tensor("y", TensorProto.UINT8, [7]),
            tensor("scale", TensorProto.FLOAT, []),
            tensor("zero", TensorProto.UINT8, []),
        ],
    )
    x = np.array([-1.5, -1, -0.5, 0, 0.5, 1, 1.5], np.float32)
    wanted = onnxruntime.InferenceSession(model).run(None, {"x": x})
    program = openxrt.load(model, engine="xla", strict=True, check_results=False, cache_dir="")
    for given, expected in zip(program.run({"x": x}).values(), wanted, strict=True):
        np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize("exponents", [np.int32, np.int64])
@pytest.mark.parametrize("bases", [np.int32, np.int64])
def test_powers_of_integers(bases: type, exponents: type) -> None:
    """XLA's own looks at six bits of the exponent."""
    x = np.array([0, 1, -1, -1, 2, 2, 3, 3, -5, 7, 7, 2], bases)
    y = np.array([-1, -3, -3, -2, -1, 64, 64, 65, 67, 2**31 - 1, 0, 5], exponents)
    types = [helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) for dtype in (bases, exponents)]
    model = make_model(
        [helper.make_node("Pow", ["x", "y"], ["z"])],
        [tensor("x", types[0], [12]), tensor("y", types[1], [12])],
        [tensor("z", types[0], [12])],
    )
    # 1 over it where the exponent is negative: of 1 and -1 alone that is no fraction.
    exact = [
        base**power if power >= 0 else base**-power if abs(base) == 1 else 0
        for base, power in zip(x.tolist(), np.minimum(y, 67).tolist(), strict=True)
    ]
    exact[9] = pow(7, 2**31 - 1, 2**64)
    bits = np.iinfo(bases).bits
    wanted = [(value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for value in exact]
    program = openxrt.load(model, engine="xla", strict=True, check_results=False, cache_dir="")
    assert program.run({"x": x, "y": y})["z"].tolist() == wanted


def test_nested_concatenations_compile_in_time() -> None:
    """XLA made a copy of the code for each operand: twice the time for each further one."""
    names = ["x", *(f"v{k}" for k in range(20))]
    nodes = [
        helper.make_node("Concat", [name, name], [joined], axis=0)
        for name, joined in pairwise(names)
    ]
    model = make_model(
        [*nodes, helper.make_node("ReduceSum", [names[-1]], ["y"], keepdims=0)],
        [tensor("x", TensorProto.FLOAT, [2])],
        [tensor("y", TensorProto.FLOAT, [])],
    )
    program = openxrt.load(model, engine="xla", strict=True, deadline_s=60, cache_dir="")
    assert program(np.ones(2, np.float32)) == 2**21


@pytest.mark.parametrize("node", ["Concat", "InstanceNormalization"])
def test_ranks_that_only_a_run_tells(node: str) -> None:
    """In a branch: nothing before the lowering has seen them."""
    if node == "Concat":
        inside = helper.make_node("Concat", ["a", "a"], ["z"], axis=-3)
    else:
        inside = helper.make_node("InstanceNormalization", ["a", "a", "a"], ["z"])
    branch = helper.make_graph([inside], "branch", [], [tensor("z", TensorProto.FLOAT, None)])
    model = make_model(
        [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)],
        [tensor("a", TensorProto.FLOAT, None), tensor("c", TensorProto.BOOL, [])],
        [tensor("y", TensorProto.FLOAT, None)],
    )
    a = np.zeros((2, 3) if node == "Concat" else (), np.float32)
    program = openxrt.load(model, engine=["xla", "native"], cache_dir="")
    with pytest.raises(openxrt.InvalidArgument, match=node):
        program.run({"a": a, "c": np.array(True)})


@pytest.mark.parametrize(
    "pads",
    [[2**63 - 1, 0, -(2**63) + 2, 0], [-(2**63) + 1, 0, 2**63 - 1, 0], [2**62, 0, -(2**62), 0]],
)
def test_pads_whose_sum_is_small(pads: list[int]) -> None:
    """XLA by itself adds them one after the other, and ends the process."""
    model = make_model(
        [helper.make_node("Pad", ["x", "pads"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [2, 2])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(pads), "pads")],
    )
    with pytest.raises(openxrt.Error, match="Pad"):
        openxrt.load(model, engine=["xla", "native"], cache_dir="")(np.ones((2, 2), np.float32))
