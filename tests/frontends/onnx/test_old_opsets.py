# SPDX-License-Identifier: Apache-2.0
"""Ops as opsets 1 to 6 defined them, brought to today's.

Each case is computed by NumPy or PyTorch as ONNX's changelog says, or by ONNX's reference evaluator
where it knows the old op, and by that evaluator after OpenXRT has rewritten the model; no engine of
OpenXRT takes part. The first operand is an input of known shape, the result of a node, or of a rank
that only the run tells.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx.version_converter
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from small_models import model_proto, tensor, untyped

RNG = np.random.default_rng(6)
Array = np.ndarray


def random(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def old_model(
    opset: int, node: onnx.NodeProto, feeds: dict[str, Array], constants: dict[str, Array], how: str
) -> onnx.ModelProto:
    """One node; `how` the shape of x is known: "declared", "inferred" or "unknown"."""
    inputs = [
        tensor(
            name,
            helper.np_dtype_to_tensor_dtype(value.dtype),
            None if how == "unknown" else value.shape,
        )
        for name, value in feeds.items()
    ]
    nodes = [node]
    if how == "inferred":
        nodes = [helper.make_node("Identity", ["x"], ["x_1"]), *nodes]
        node.input[0] = "x_1"
    return model_proto(
        nodes,
        inputs,
        [untyped(name) for name in node.output if name],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
        opset=opset,
    )


def rewritten(model: onnx.ModelProto) -> onnx.ModelProto:
    result = onnx.load_from_string(openxrt.rewrite_onnx(model.SerializeToString(), simplify=False))
    if all(value.type.tensor_type.HasField("shape") for value in result.graph.input):
        onnx.checker.check_model(result, full_check=True)
    return result


class GlobalLpPool(OpRun):
    """Which the reference evaluator lacks."""

    op_domain = ""

    def _run(self, x: Array, p: int = 2) -> tuple[Array]:
        axes = tuple(range(2, x.ndim))
        return ((np.abs(x) ** p).sum(axes, keepdims=True) ** np.float32(1 / p),)


def check(
    opset: int,
    node: onnx.NodeProto,
    feeds: dict[str, Array],
    wanted: list[Array],
    constants: dict[str, Array] | None = None,
    how: str = "declared",
) -> None:
    model = rewritten(old_model(opset, node, feeds, constants or {}, how))
    found = ReferenceEvaluator(model, new_ops=[GlobalLpPool]).run(None, feeds)
    for a, b in zip(wanted, found, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def aligned(a: Array, b: Array, axis: int | None) -> Array:
    """The old rule: b's shape is part of a's, from `axis` on, or at the end."""
    if b.size == 1:
        return b.reshape(())
    start = a.ndim - b.ndim if axis is None else axis
    assert a.shape[start : start + b.ndim] == b.shape
    return b.reshape((1,) * start + b.shape + (1,) * (a.ndim - start - b.ndim))


BINARY: dict[str, tuple[Callable[[Array, Array], Array], type]] = {
    "Add": (np.add, np.float32),
    "Sub": (np.subtract, np.float32),
    "Mul": (np.multiply, np.float32),
    "Div": (np.divide, np.float32),
    "Pow": (np.power, np.float32),
    "Equal": (np.equal, np.int32),
    "Greater": (np.greater, np.float32),
    "Less": (np.less, np.float32),
    "And": (np.logical_and, np.bool_),
    "Or": (np.logical_or, np.bool_),
    "Xor": (np.logical_xor, np.bool_),
}
# The examples of the changelog.
PLACES = [((), None), ((1, 1), None), ((5,), None), ((4, 5), None), ((3, 4), 1), ((2,), 0)]


@pytest.mark.parametrize("how", ["declared", "inferred", "unknown"])
@pytest.mark.parametrize(("shape", "axis"), PLACES)
@pytest.mark.parametrize("op", BINARY)
def test_broadcast_at_an_axis(op: str, shape: tuple[int, ...], axis: int | None, how: str) -> None:
    function, dtype = BINARY[op]
    values = [RNG.integers(1, 3, s).astype(dtype) for s in ((2, 3, 4, 5), shape)]
    if dtype == np.bool_:
        values = [RNG.integers(0, 2, v.shape).astype(bool) for v in values]
    a, b = (np.asarray(v) for v in values)
    attributes = {"broadcast": 1} | ({} if axis is None else {"axis": axis})
    opsets = [6] + ([1] if op in ("Add", "Sub", "Mul", "Div") else [])
    for opset in opsets:
        if opset == 1:
            attributes["consumed_inputs"] = [0, 0]
        node = helper.make_node(op, ["x", "b"], ["y"], **attributes)
        wanted = function(a, aligned(a, b, axis))
        check(opset, node, {"x": a, "b": b}, [wanted], how=how)


@pytest.mark.parametrize("how", ["declared", "inferred", "unknown"])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5)])
@pytest.mark.parametrize("slopes", [1, 3])
def test_prelu_has_a_slope_per_channel(shape: tuple[int, ...], slopes: int, how: str) -> None:
    torch = pytest.importorskip("torch")
    x, slope = random(*shape), random(slopes)
    wanted = torch.nn.functional.prelu(torch.from_numpy(x), torch.from_numpy(slope)).numpy()
    node = helper.make_node("PRelu", ["x", "s"], ["y"])
    check(6, node, {"x": x}, [wanted], {"s": slope}, how)


N = helper.make_node
NORM = {"s": random(3), "b": random(3), "m": random(3), "v": np.abs(random(3)) + 0.1}
# (opset, node, shape of x, constants): ops that the reference evaluator knows as they were
EVALUATED: dict[str, tuple] = {
    "gemm_6": (
        6,
        N("Gemm", ["x", "b", "c"], ["y"], broadcast=1, alpha=0.5, beta=2.0, transB=1),
        (2, 3),
        {"b": random(4, 3), "c": random(4)},
    ),
    "gemm_6_whole_c": (
        6,
        N("Gemm", ["x", "b", "c"], ["y"]),
        (2, 3),
        {"b": random(3, 4), "c": random(2, 4)},
    ),
    "batch_norm_6": (
        6,
        N("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], is_test=1, epsilon=1e-3),
        (2, 3, 4),
        NORM,
    ),
    "pad_1": (1, N("Pad", ["x"], ["y"], paddings=[0, 1, 2, 0], value=1.5), (2, 3)),
    "pad_1_edge": (1, N("Pad", ["x"], ["y"], paddings=[0, 1, 2, 0], mode="edge"), (2, 3)),
    "pad_2": (2, N("Pad", ["x"], ["y"], pads=[0, 1, 2, 0], value=1.5), (2, 3)),
    "split_2": (2, N("Split", ["x"], ["a", "b"], axis=1, split=[1, 3]), (2, 4)),
}


@pytest.mark.parametrize("how", ["declared", "inferred"])
@pytest.mark.parametrize("name", EVALUATED)
def test_as_the_reference_evaluator_has_it(name: str, how: str) -> None:
    opset, node, shape, *rest = EVALUATED[name]
    constants = rest[0] if rest else {}
    x = random(*shape)
    wanted = ReferenceEvaluator(old_model(opset, copied(node), {"x": x}, constants, how)).run(
        None, {"x": x}
    )
    check(opset, copied(node), {"x": x}, wanted, constants, how)


def copied(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy


def batch_norm(x: Array) -> Array:
    s, b, m, v = (NORM[k].reshape(1, -1, 1) for k in "sbmv")
    return (x - m) / np.sqrt(v + np.float32(1e-5)) * s + b


def selu(x: Array) -> Array:
    """With the constants of opset 1."""
    return (1.0507 * np.where(x > 0, x, 1.6732 * np.expm1(x))).astype(np.float32)


def nearest(x: Array) -> Array:
    """Height twice, width three times."""
    return x.repeat(2, 2).repeat(3, 3)


def bilinear(x: Array) -> Array:
    """Height twice: samples lie at x / scale, the last one at the border."""
    at = np.minimum(np.arange(2 * x.shape[2]) / 2, x.shape[2] - 1)
    low = np.floor(at).astype(int)
    high = np.minimum(low + 1, x.shape[2] - 1)
    part = (at - low).astype(np.float32)[:, None]
    return x[:, :, low] * (1 - part) + x[:, :, high] * part


# (opset, node, shape of x, what it computes, constants)
DEFINED: dict[str, tuple] = {
    "batch_norm_1": (
        1,
        N(
            "BatchNormalization",
            ["x", "s", "b", "m", "v"],
            ["y"],
            is_test=1,
            consumed_inputs=[0, 0, 0, 1, 1],
        ),
        (2, 3, 4),
        batch_norm,
        NORM,
    ),
    "cast_1": (1, N("Cast", ["x"], ["y"], to="INT32"), (2, 3), lambda x: x.astype(np.int32)),
    "cast_1_double": (1, N("Cast", ["x"], ["y"], to="DOUBLE"), (2,), lambda x: x.astype(np.double)),
    "concat_1": (1, N("Concat", ["x", "x"], ["y"]), (2, 3), lambda x: np.concatenate([x, x], 1)),
    "dropout_1": (
        1,
        N("Dropout", ["x"], ["y"], is_test=1, ratio=0.9, consumed_inputs=[0]),
        (2, 3),
        lambda x: x,
    ),
    "dropout_6": (6, N("Dropout", ["x"], ["y"], is_test=1), (2, 3), lambda x: x),
    "global_lp_pool_1": (
        1,
        N("GlobalLpPool", ["x"], ["y"], p=1.0),
        (2, 3, 4),
        lambda x: np.abs(x).sum(2, keepdims=True),
    ),
    "global_lp_pool_1_default": (
        1,
        N("GlobalLpPool", ["x"], ["y"]),
        (2, 3, 4),
        lambda x: np.sqrt((x * x).sum(2, keepdims=True)),
    ),
    "lp_pool_1": (
        1,
        N("LpPool", ["x"], ["y"], p=1.0, kernel_shape=[2], strides=[2]),
        (1, 2, 4),
        lambda x: np.abs(x).reshape(1, 2, 2, 2).sum(3),
    ),
    "max_1": (1, N("Max", ["x", "x"], ["y"], consumed_inputs=[0, 0]), (2,), lambda x: x),
    "relu_1": (1, N("Relu", ["x"], ["y"], consumed_inputs=[0]), (5,), lambda x: np.maximum(x, 0)),
    "reshape_1": (
        1,
        N("Reshape", ["x"], ["y"], shape=[0, -1], consumed_inputs=[0]),
        (2, 3, 4),
        lambda x: x.reshape(2, 12),
    ),
    "selu_1": (1, N("Selu", ["x"], ["y"]), (20,), selu),
    "selu_1_given": (
        1,
        N("Selu", ["x"], ["y"], alpha=2.0, gamma=3.0),
        (20,),
        lambda x: (3 * np.where(x > 0, x, 2 * np.expm1(x))).astype(np.float32),
    ),
    "split_1_by_input": (
        1,
        N("Split", ["x", "n"], ["a", "b"], axis=0),
        (5, 2),
        lambda x: [x[:2], x[2:]],
        {"n": np.array([2, 3], np.float32)},
    ),
    "tile_1": (
        1,
        N("Tile", ["x", "n", "a"], ["y"]),
        (2, 3),
        lambda x: np.tile(x, (1, 3)),
        {"n": np.array([3], np.float32), "a": np.array([1], np.float32)},
    ),
    "upsample_1_bilinear": (
        1,
        N("Upsample", ["x"], ["y"], height_scale=2.0, width_scale=1.0, mode="bilinear"),
        (1, 1, 3, 2),
        bilinear,
    ),
    "upsample_1": (
        1,
        N("Upsample", ["x"], ["y"], height_scale=2.0, width_scale=3.0),
        (1, 1, 2, 2),
        nearest,
    ),
}


@pytest.mark.parametrize("how", ["declared", "inferred", "unknown"])
@pytest.mark.parametrize("name", DEFINED)
def test_as_the_changelog_has_it(name: str, how: str) -> None:
    opset, node, shape, compute, *rest = DEFINED[name]
    x = random(*shape)
    wanted = compute(x)
    wanted = wanted if isinstance(wanted, list) else [wanted]
    check(opset, copied(node), {"x": x}, wanted, rest[0] if rest else {}, how)


@pytest.mark.parametrize("how", ["declared", "inferred", "unknown"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_axis_is_repeated_as_a_run_says(axis: int, how: str) -> None:
    node = N("Tile", ["x", "n", "a"], ["y"])
    feeds = {"x": random(2, 3, 2), "n": np.float32(3), "a": np.float32(axis)}
    copies = [3 if i == axis else 1 for i in range(3)]
    check(1, node, feeds, [np.tile(feeds["x"], copies)], how=how)


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_recurrent_ops_lose_what_says_nothing(op: str) -> None:
    """`output_sequence` only allowed to leave an output out."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    constants = {"w": random(1, gates * 3, 4), "r": random(1, gates * 3, 3)}
    x = random(5, 2, 4)
    new = N(op, ["x", "w", "r"], ["y", "h"], hidden_size=3)
    wanted = ReferenceEvaluator(old_model(7, copied(new), {"x": x}, constants, "declared")).run(
        None, {"x": x}
    )
    old = N(op, ["x", "w", "r"], ["y", "h"], hidden_size=3, output_sequence=1)
    check(1, old, {"x": x}, wanted, constants)


@pytest.mark.parametrize(
    ("op", "shapes"),
    [("Add", [(2, 3), (2, 3)]), ("Gemm", [(2, 3), (3, 4), (4,)]), ("PRelu", [(2, 3), (3,)])],
)
def test_as_the_version_converter_has_it(op: str, shapes: list[tuple[int, ...]]) -> None:
    """ONNX's own converter, for those nodes that it brings from opset 6 to 7."""
    names = ["x", "b", "c"][: len(shapes)]
    feeds = {name: random(*shape) for name, shape in zip(names, shapes, strict=True)}
    node = N(op, names, ["y"], **({"broadcast": 1} if op != "PRelu" else {}))
    model = old_model(6, copied(node), feeds, {}, "declared")
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    converted = onnx.version_converter.convert_version(model, 7)
    wanted = ReferenceEvaluator(converted).run(None, feeds)
    check(6, copied(node), feeds, wanted)
