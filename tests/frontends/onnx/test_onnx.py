# SPDX-License-Identifier: Apache-2.0
"""ONNX in and out: what is written is accepted by ONNX's checker and computes the same.

Models of old opsets are run by ONNX's reference evaluator as they are (or, where it does not know
an old op, computed by NumPy as that opset defined it), and by the evaluator again after OpenXRT
has brought them to today's ops; no engine of OpenXRT takes part.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from small_models import model_proto, tensor, untyped

FLOAT = TensorProto.FLOAT
RNG = np.random.default_rng(5)


def model_of(
    opset: int,
    node: onnx.NodeProto,
    shape: list[int | str],
    constants: Mapping[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    """One node from x (and constants) to its outputs."""
    return model_proto(
        [node],
        [tensor("x", FLOAT, shape)],
        [untyped(name) for name in node.output],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
        opset=opset,
    )


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


N = helper.make_node
XY = (["x"], ["y"])
NORM = {"s": random(3), "b": random(3), "m": random(3), "v": np.abs(random(3))}

CASES: dict[str, tuple] = {
    "slice_9": (9, N("Slice", *XY, starts=[1, 0], ends=[5, -1], axes=[1, 2]), [2, 3, 4]),
    "topk_9": (9, N("TopK", ["x"], ["v", "i"], k=2, axis=1), [2, 5]),
    "clip_9": (9, N("Clip", *XY, min=-0.5, max=0.3), [4, 5]),
    "pad_8": (8, N("Pad", *XY, pads=[0, 1, 2, 0], value=1.5), [2, 3]),
    "pad_reflect_8": (8, N("Pad", *XY, pads=[0, 1, 1, 0], mode="reflect"), [2, 3]),
    "upsample_9": (9, N("Upsample", ["x", "s"], ["y"]), [1, 1, 2, 2], {"s": f32(1, 1, 2, 3)}),
    "resize_10_linear": (
        10,
        N("Resize", ["x", "s"], ["y"], mode="linear"),
        [1, 1, 2, 4],
        {"s": f32(1, 1, 2, 2)},
    ),
    "resize_10_smaller": (
        10,
        N("Resize", ["x", "s"], ["y"]),
        [1, 1, 2, 4],
        {"s": f32(1, 1, 0.6, 0.6)},
    ),
    "resize_10_larger_and_smaller": (
        10,
        N("Resize", ["x", "s"], ["y"]),
        [1, 1, 3, 5],
        {"s": f32(1, 1, 2, 0.6)},
    ),
    "scatter_9": (
        9,
        N("Scatter", ["x", "i", "u"], ["y"], axis=1),
        [1, 5],
        {"i": np.array([[1, 3]]), "u": random(1, 2)},
    ),
    "dropout_10": (10, N("Dropout", *XY, ratio=0.3), [2, 3]),
    "reduce_mean_11": (11, N("ReduceMean", *XY, axes=[1], keepdims=0), [2, 3, 4]),
    "reduce_sum_12": (12, N("ReduceSum", *XY, axes=[0, 2]), [2, 3, 4]),
    "unsqueeze_11": (11, N("Unsqueeze", *XY, axes=[0, 2]), [2, 3]),
    "split_11": (11, N("Split", ["x"], ["a", "b"], split=[1, 3], axis=1), [2, 4]),
    "split_17": (17, N("Split", ["x"], ["a", "b"], axis=1), [2, 4]),
    "batch_norm_9": (
        9,
        N("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], epsilon=1e-3),
        [2, 3, 4],
        NORM,
    ),
    "batch_norm_8_of_places": (
        8,
        N("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], epsilon=1e-3, spatial=0),
        [2, 3, 4],
        {"s": random(3, 4), "b": random(3, 4), "m": random(3, 4), "v": np.abs(random(3, 4))},
    ),
    "grid_sample_16": (
        16,
        N("GridSample", ["x", "g"], ["y"], mode="bilinear"),
        [1, 1, 4, 4],
        {"g": random(1, 2, 2, 2)},
    ),
    "group_norm_18": (
        18,
        N("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2),
        [2, 4, 3],
        {"s": random(2), "b": random(2)},
    ),
    "dft_17": (17, N("DFT", *XY, axis=1), [2, 4, 1]),
    "lstm_12": (
        12,
        N("LSTM", ["x", "w", "r"], ["y"], hidden_size=3),
        [5, 2, 4],
        {"w": random(1, 12, 4), "r": random(1, 12, 3)},
    ),
} | {
    f"{op.lower()}_axis_{axis}_{shape[0]}": (11, N(op, *XY, axis=axis), shape)
    for op in ("Softmax", "LogSoftmax", "Hardmax")
    for axis in (0, 1, 2, -1)
    for shape in ([2, 3, 4], ["N", 3, 4])
}


Attributes = dict[str, object]
Constants = Mapping[str, np.ndarray]


def old_resize(x: np.ndarray, attributes: Attributes, constants: Constants) -> np.ndarray:
    """Upsample, and Resize of opset 10: samples lie at x / scale."""
    out = x
    for axis, scale in enumerate(constants["s"]):
        count = int(np.floor(x.shape[axis] * scale))
        at = np.arange(count) / np.float64(scale)
        last = x.shape[axis] - 1
        if attributes.get("mode", b"nearest") == b"nearest":
            rounded = np.ceil(at) if scale < 1 else np.floor(at)
            out = np.take(out, np.clip(rounded.astype(int), 0, last), axis)
            continue
        low = np.clip(np.floor(at).astype(int), 0, last)
        high = np.clip(low + 1, 0, last)
        weight = (at - low).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        out = np.take(out, low, axis) * (1 - weight) + np.take(out, high, axis) * weight
    return out.astype(np.float32)


def old_softmax(function: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    """Up to opset 12: all axes from `axis` on are one."""

    def compute(x: np.ndarray, attributes: Attributes, _: Constants) -> np.ndarray:
        axis = attributes["axis"] % x.ndim
        return function(x.reshape(int(np.prod(x.shape[:axis])), -1)).reshape(x.shape)

    return compute


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def hardmax(x: np.ndarray) -> np.ndarray:
    return (np.arange(x.shape[1]) == x.argmax(1)[:, None]).astype(x.dtype)


def scatter(x: np.ndarray, attributes: Attributes, constants: Constants) -> np.ndarray:
    out = x.copy()
    np.put_along_axis(out, constants["i"], constants["u"], attributes["axis"])
    return out


def batch_norm(x: np.ndarray, attributes: Attributes, constants: Constants) -> np.ndarray:
    places = (1, -1, 1) if attributes.get("spatial", 1) else x.shape[1:]
    s, b, m, v = (constants[k].reshape(places) for k in "sbmv")
    return ((x - m) / np.sqrt(v + attributes["epsilon"]) * s + b).astype(np.float32)


def group_norm(x: np.ndarray, attributes: Attributes, constants: Constants) -> np.ndarray:
    """Opset 18: scale and bias are per group."""
    groups = x.reshape(x.shape[0], attributes["num_groups"], -1)
    mean, variance = groups.mean(2, keepdims=True), groups.var(2, keepdims=True)
    normal = (groups - mean) / np.sqrt(variance + 1e-5)
    scale, bias = (constants[k].reshape(1, -1, 1) for k in "sb")
    return (normal * scale + bias).reshape(x.shape)


def bilinear(x: np.ndarray, _: Attributes, constants: Constants) -> np.ndarray:
    """GridSample, borders of zeros, align_corners = 0."""
    height, width = x.shape[2:]
    grid = constants["g"][0]
    out = np.zeros((1, 1, *grid.shape[:2]), np.float32)
    for i, j in np.ndindex(*grid.shape[:2]):
        u = ((grid[i, j, 0] + 1) * width - 1) / 2
        v = ((grid[i, j, 1] + 1) * height - 1) / 2
        for row in (int(np.floor(v)), int(np.floor(v)) + 1):
            for column in (int(np.floor(u)), int(np.floor(u)) + 1):
                if 0 <= row < height and 0 <= column < width:
                    weight = (1 - abs(v - row)) * (1 - abs(u - column))
                    out[0, 0, i, j] += weight * x[0, 0, row, column]
    return out


AS_DEFINED: dict[str, Callable[..., np.ndarray]] = {
    "Upsample": old_resize,
    "Resize": old_resize,
    "Softmax": old_softmax(softmax),
    "LogSoftmax": old_softmax(lambda x: np.log(softmax(x))),
    "Hardmax": old_softmax(hardmax),
    "Scatter": scatter,
    "BatchNormalization": batch_norm,
    "GroupNormalization": group_norm,
    "GridSample": bilinear,
}


@pytest.mark.parametrize("simplify", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_old_opsets_compute_the_same(name: str, simplify: bool) -> None:
    opset, node, shape, *rest = CASES[name]
    constants = rest[0] if rest else {}
    model = model_of(opset, node, shape, constants)
    x = random(*(2 if isinstance(d, str) else d for d in shape))
    if compute := AS_DEFINED.get(node.op_type):
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        wanted = [compute(x, attributes, constants)]
    else:
        wanted = ReferenceEvaluator(model).run(None, {"x": x})
    rewritten = onnx.load_from_string(
        openxrt.rewrite_onnx(model.SerializeToString(), simplify=simplify)
    )
    onnx.checker.check_model(rewritten, full_check=True)
    assert [o.name for o in rewritten.graph.output] == list(node.output)
    found = ReferenceEvaluator(rewritten).run(None, {"x": x})
    for a, b in zip(wanted, found, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_scan_of_opset_8_keeps_its_batch_axis() -> None:
    """The running sum over the second axis, for each element of the first."""
    body = helper.make_graph(
        [N("Add", ["sum", "x"], ["s"]), N("Mul", ["s", "two"], ["t"]), N("Identity", ["s"], ["u"])],
        "body",
        [tensor(name, FLOAT, [2]) for name in ("sum", "x")],
        [tensor(name, FLOAT, [2]) for name in ("u", "t")],
    )
    model = model_proto(
        [N("Scan", ["", "start", "xs"], ["end", "sums"], body=body, num_scan_inputs=1)],
        [
            tensor("start", FLOAT, [3, 2]),
            tensor("xs", FLOAT, [3, 4, 2]),
        ],
        [
            tensor("end", FLOAT, [3, 2]),
            tensor("sums", FLOAT, [3, 4, 2]),
        ],
        [numpy_helper.from_array(f32(2), "two")],
        opset=8,
    )
    rewritten = onnx.load_from_string(openxrt.rewrite_onnx(model.SerializeToString()))
    onnx.checker.check_model(rewritten, full_check=True)
    start, xs = random(3, 2), random(3, 4, 2)
    end, sums = ReferenceEvaluator(rewritten).run(None, {"start": start, "xs": xs})
    running = start[:, None] + np.cumsum(xs, 1)
    np.testing.assert_allclose(end, running[:, -1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sums, 2 * running, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backwards", [0, 1])
def test_scan_of_opset_8_stops_at_the_lengths(backwards: int) -> None:
    """What is made in steps that are left out is zero, as ONNX Runtime has it."""
    onnxruntime = pytest.importorskip("onnxruntime")
    body = helper.make_graph(
        [N("Add", ["sum", "x"], ["s"]), N("Mul", ["s", "x"], ["t"])],
        "body",
        [tensor(name, FLOAT, [2]) for name in ("sum", "x")],
        [tensor(name, FLOAT, [2]) for name in ("s", "t")],
    )
    scan = N(
        "Scan",
        ["lengths", "start", "xs"],
        ["end", "products"],
        body=body,
        num_scan_inputs=1,
        directions=[backwards],
    )
    model = model_proto(
        [scan],
        [
            tensor("lengths", TensorProto.INT64, [3]),
            tensor("start", FLOAT, [3, 2]),
            tensor("xs", FLOAT, [3, 4, 2]),
        ],
        [untyped("end"), untyped("products")],
        opset=8,
    ).SerializeToString()
    feeds = {
        "lengths": np.array([4, 1, 2]),
        "start": random(3, 2),
        "xs": random(3, 4, 2),
    }
    wanted = onnxruntime.InferenceSession(model).run(None, feeds)
    found = openxrt.load(model, engine="native").run(feeds).values()
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("computed", [False, True])
def test_nearest_elements_of_opset_10_by_scales_of_a_run(computed: bool) -> None:
    """Which axes grow and which shrink shows only then."""
    onnxruntime = pytest.importorskip("onnxruntime")
    nodes = [N("Resize", ["x", "s_1" if computed else "s"], ["y"], mode="nearest")]
    if computed:
        nodes.insert(0, N("Mul", ["s", "s"], ["s_1"]))
    model = model_proto(
        nodes,
        [tensor("x", FLOAT, [1, 1, 5, 7]), tensor("s", FLOAT, [4])],
        [untyped("y")],
        opset=10,
    ).SerializeToString()
    session = onnxruntime.InferenceSession(model)
    program = openxrt.load(model, engine="native")
    x = random(1, 1, 5, 7)
    for scales in ([1, 1, 2, 0.5], [1, 1, 0.6, 0.7], [1, 1, 1.5, 1.3], [1, 1, 1, 1]):
        feeds = {"x": x, "s": f32(*scales)}
        (wanted,) = session.run(None, feeds)
        np.testing.assert_array_equal(program.run(feeds)["y"], wanted)


@pytest.mark.parametrize("opset", [11, 12])
@pytest.mark.parametrize("declared", [[0], ["k"], None], ids=str)
def test_resize_by_sizes_with_scales_that_are_empty_in_a_run(
    opset: int, declared: list | None
) -> None:
    """The scales had to be there."""
    onnxruntime = pytest.importorskip("onnxruntime")
    model = model_proto(
        [
            N(
                "Resize",
                ["x", "roi", "scales", "sizes"],
                ["y"],
                coordinate_transformation_mode="asymmetric",
                nearest_mode="floor",
            )
        ],
        [tensor("x", FLOAT, [1, 1, 4, 3]), tensor("scales", FLOAT, declared)],
        [untyped("y")],
        [
            numpy_helper.from_array(np.zeros(0, np.float32), "roi"),
            numpy_helper.from_array(np.array([1, 1, 8, 3]), "sizes"),
        ],
        opset=opset,
    ).SerializeToString()
    feeds = {"x": random(1, 1, 4, 3), "scales": np.zeros(0, np.float32)}
    (wanted,) = onnxruntime.InferenceSession(model).run(None, feeds)
    found = openxrt.load(model, engine="native").run(feeds)["y"]
    np.testing.assert_array_equal(found, wanted)


def one_of_integers(opset: int, op: str, dtype: type, **attributes: object) -> onnx.ModelProto:
    """The op on integers that another op makes, and what follows of the same type."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return model_proto(
        [
            N("Identity", ["x"], ["same"]),
            N(op, ["same"], ["r"], **attributes),
            N("Identity", ["r"], ["y"]),
        ],
        [tensor("x", kind, [2, 3])],
        [tensor("y", kind, None)],
        opset=opset,
    )


@pytest.mark.parametrize("opset", [1, 11, 13, 18])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("op", ["ReduceLogSum", "ReduceLogSumExp"])
def test_reductions_of_integers(op: str, dtype: type, opset: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model = one_of_integers(opset, op, dtype, keepdims=0).SerializeToString()
    x = np.array([[1, 2, 3], [4, 9, 60]], dtype)
    if op == "ReduceLogSumExp":
        x = np.array([[1, 1, 1], [3, 3, 3]], dtype)
    (wanted,) = onnxruntime.InferenceSession(model).run(None, {"x": x})
    found = openxrt.load(model, engine="native").run({"x": x})["y"]
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint64])
def test_the_error_function_of_integers(dtype: type) -> None:
    model = one_of_integers(9, "Erf", dtype)
    x = np.array([[0, 1, 2], [3, 40, 90]], dtype)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    found = openxrt.load(model.SerializeToString(), engine="native").run({"x": x})["y"]
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("opset", "kind"), [(7, FLOAT), (9, FLOAT), (10, TensorProto.BOOL)])
@pytest.mark.parametrize("declared", [False, True])
def test_the_mask_of_an_old_dropout(opset: int, kind: int, declared: bool) -> None:
    """Everything is kept. Up to opset 9 the mask is of the data's type, as the schema says, and can
    be computed with."""
    model = model_proto(
        [N("Dropout", ["x"], ["y", "mask"])],
        [tensor("x", FLOAT, [2, 3])],
        [untyped("y"), tensor("mask", kind, [2, 3]) if declared else untyped("mask")],
        opset=opset,
    )
    x = random(2, 3)
    (wanted, mask) = ReferenceEvaluator(model).run(None, {"x": x})
    if kind == FLOAT:
        model.graph.node.append(N("Mul", ["y", "mask"], ["z"]))
        model.graph.output.append(untyped("z"))
    found = openxrt.load(model.SerializeToString(), engine="native").run({"x": x})
    np.testing.assert_array_equal(found["y"], wanted)
    np.testing.assert_array_equal(found["mask"], mask)  # bool there, whatever the opset
    assert found["mask"].dtype == helper.tensor_dtype_to_np_dtype(kind)
    np.testing.assert_array_equal(found.get("z", x), x)


def test_the_checker_accepts_subgraphs_and_functions(tmp_path: Path) -> None:
    body = helper.make_graph([N("Add", ["x", "x"], ["r"])], "twice", [], [tensor("r", FLOAT, [2])])
    other = helper.make_graph(
        [N("Half", ["x"], ["r"], domain="mine")],
        "half",
        [],
        [tensor("r", FLOAT, [2])],
    )
    half = helper.make_function(
        "mine",
        "Half",
        ["v"],
        ["w"],
        [N("Constant", [], ["c"], value_float=0.5), N("Mul", ["v", "c"], ["w"])],
        [helper.make_opsetid("", 18)],
    )
    model = model_proto(
        [N("If", ["c"], ["y"], then_branch=body, else_branch=other)],
        [
            tensor("c", TensorProto.BOOL, []),
            tensor("x", FLOAT, [2]),
        ],
        [tensor("y", FLOAT, [2])],
        functions=[half],
        opset=18,
        domains={"mine": 1},
    )
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    rewritten = onnx.load_from_string(openxrt.rewrite_onnx(path))
    onnx.checker.check_model(rewritten, full_check=True)
    assert not rewritten.functions
    for flag, factor in ((True, 2.0), (False, 0.5)):
        x = f32(1, 3)
        (y,) = ReferenceEvaluator(rewritten).run(None, {"c": np.array(flag), "x": x})
        np.testing.assert_array_equal(y, x * factor)


def test_simplify_folds_normalisation_into_the_convolution() -> None:
    constants = {"w": random(4, 3, 3, 3), **{k: np.resize(v, 4) for k, v in NORM.items()}}
    model = model_proto(
        [
            N("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            N("BatchNormalization", ["c", "s", "b", "m", "v"], ["y"]),
        ],
        [tensor("x", FLOAT, ["N", 3, 5, 5])],
        [tensor("y", FLOAT, ["N", 4, 5, 5])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
        opset=17,
    )
    rewritten = onnx.load_from_string(
        openxrt.rewrite_onnx(model.SerializeToString(), simplify=True)
    )
    assert [n.op_type for n in rewritten.graph.node] == ["Conv"]
    x = random(2, 3, 5, 5)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    (found,) = ReferenceEvaluator(rewritten).run(None, {"x": x})
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_broken_model_is_an_invalid_model() -> None:
    with pytest.raises(openxrt.InvalidModel, match="ModelProto"):
        openxrt.rewrite_onnx(b"this is no model")
    with pytest.raises(openxrt.NotFound, match="missing"):
        openxrt.rewrite_onnx("missing.onnx")
