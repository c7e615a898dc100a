# SPDX-License-Identifier: Apache-2.0
"""Operands that the standard says little of: the same numbers on every engine, those of ONNX
Runtime or NumPy."""

import numpy as np
import onnxruntime
import openxrt
import pytest
from on_engine import load_on
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from small_models import make_model, tensor

ENGINES = ["native", "openvino", "onnxruntime", "xla", "tvm"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("pads", [(-2, 1), (1, -3), (-1, 3), (3, -2), (-2, -2)])
def test_pads_that_cut(engine: str, mode: str, pads: tuple[int, int]) -> None:
    """What is cut off is not there to be repeated."""
    left = 5 + min(pads[0], 0) + min(pads[1], 0)
    if mode == "reflect" and max(pads) >= left:
        pytest.skip("ONNX Runtime reflects no more than there is")
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    model = make_model(
        [helper.make_node("Pad", ["x", "p"], ["y"], mode=mode)],
        [tensor("x", TensorProto.FLOAT, [2, 5])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([0, pads[0], 0, pads[1]]), "p")],
        opset=19,
    )
    expected = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
    np.testing.assert_array_equal(load_on(model, engine)(x), expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("pads", [(-5, 3), (6, -6), (-4, 9)])
def test_pads_that_cut_all(engine: str, pads: tuple[int, int], constant: bool) -> None:
    """OpenVINO would end the process."""
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    values = np.array([0, pads[0], 0, pads[1]])
    feeds = {"x": x} if constant else {"x": x, "p": values}
    model = make_model(
        [helper.make_node("Pad", ["x", "p"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [2, 4])]
        + ([] if constant else [tensor("p", TensorProto.INT64, [4])]),
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(values, "p")] if constant else [],
        opset=19,
    )
    program = load_on(model, engine)
    try:
        found = program.run(feeds)["y"]
    except openxrt.Error as error:
        assert pads == (-5, 3)  # fewer than none are left
        assert "negative" in str(error) or "Pad" in str(error)
        return
    whole = np.pad(x, [(0, 0), (max(pads[0], 0), max(pads[1], 0))])
    end = whole.shape[1] + min(pads[1], 0)
    np.testing.assert_array_equal(found, whole[:, max(-pads[0], 0) : end])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", ["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"])
def test_nothing_compares_with_nan(engine: str, op: str) -> None:
    model = make_model(
        [helper.make_node(op, ["a", "b"], ["y"])],
        [tensor(n, TensorProto.FLOAT, [2, 20]) for n in "ab"],
        [tensor("y", TensorProto.BOOL, None)],
    )
    nan, one = np.full((2, 20), np.nan, np.float32), np.ones((2, 20), np.float32)
    program = load_on(model, engine)
    for a, b in ((nan, one), (one, nan), (nan, nan)):
        assert not program.run({"a": a, "b": b})["y"].any()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("equation", ["ij->ij", "...->...", "i...->i...", "ij", "ij->ji"])
def test_an_einsum_that_moves_nothing(engine: str, equation: str) -> None:
    model = make_model(
        [helper.make_node("Einsum", ["x"], ["y"], equation=equation)],
        [tensor("x", TensorProto.FLOAT, [4, 3])],
        [tensor("y", TensorProto.FLOAT, None)],
    )
    program = load_on(model, engine)
    for x in (np.arange(12, dtype=np.float32).reshape(4, 3), np.ones((4, 3), np.float32)):
        np.testing.assert_array_equal(program.run({"x": x})["y"], np.einsum(equation, x))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("start", [3, 4, 2**62 + 2, 2**63 - 1])
def test_a_cache_that_turns_round(engine: str, start: int) -> None:
    """The position is taken modulo the axis, however large it is."""
    model = make_model(
        [helper.make_node("TensorScatter", ["x", "u", "i"], ["y"], axis=1, mode="circular")],
        [
            tensor("x", TensorProto.FLOAT, [1, 5, 2]),
            tensor("u", TensorProto.FLOAT, [1, 3, 2]),
            tensor("i", TensorProto.INT64, [1]),
        ],
        [tensor("y", TensorProto.FLOAT, None)],
        opset=24,
    )
    x, u = np.zeros((1, 5, 2), np.float32), np.ones((1, 3, 2), np.float32)
    program = load_on(model, engine)
    try:
        found = program.run({"x": x, "u": u, "i": np.array([start])})["y"]
    except openxrt.InvalidArgument:
        assert start > 5  # engines whose values the runtime looks at take no more than the axis has
        return
    wanted = x.copy()
    wanted[0, [(start + k) % 5 for k in range(3)]] = 1
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("sorts", [0, 1])
def test_unique_of_nan(sorts: int) -> None:
    """NaN is behind all others, and one element; ONNX Runtime takes all elements for NaN."""
    x = np.array([np.nan, 4, 2, np.nan, 1, 1, 2, 0], np.float32)
    names = ["y", "first", "places", "counts"]
    model = make_model(
        [helper.make_node("Unique", ["x"], names, sorted=sorts)],
        [tensor("x", TensorProto.FLOAT, [8])],
        [
            tensor(name, TensorProto.INT64 if i else TensorProto.FLOAT, None)
            for i, name in enumerate(names)
        ],
    )
    y, first, places, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    if not sorts:
        order = np.argsort(first)
        y, first, counts = y[order], first[order], counts[order]
        places = np.argsort(order)[places]
    found = load_on(model, "native").run({"x": x}).values()
    for ours, numpys in zip(found, (y, first, places, counts), strict=True):
        np.testing.assert_array_equal(ours, numpys)


FLAGS = {
    "keepdims of a sum": ("ReduceSum", "keepdims", {}),
    "keepdims of a norm": ("ReduceL2", "keepdims", {"noop_with_empty_axes": 5}),
    "keepdims of a position": ("ArgMax", "keepdims", {"axis": 1}),
    "select_last_index": ("ArgMax", "select_last_index", {"axis": 1}),
    "ceil_mode of a maximum": ("MaxPool", "ceil_mode", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "ceil_mode of a mean": (
        "AveragePool",
        "ceil_mode",
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    "count_include_pad": (
        "AveragePool",
        "count_include_pad",
        {"kernel_shape": [2, 2], "pads": [1] * 4},
    ),
    "upper": ("Trilu", "upper", {}),
    "detect_negative": ("IsInf", "detect_negative", {}),
    "is_causal": ("Attention", "is_causal", {}),
    "align_corners": ("GridSample", "align_corners", {}),
    "transA": ("Gemm", "transA", {}),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", [2, -7])
def test_flags_that_are_neither_0_nor_1(engine: str, name: str, value: int) -> None:
    op, flag, others = FLAGS[name]
    rng = np.random.default_rng(0)
    shape = (3, 3) if op == "Gemm" else (1, 2, 5, 5)
    first = np.round(rng.standard_normal(shape), 1).astype(np.float32)
    if op == "IsInf":
        first[..., :2] = np.inf, -np.inf
    feeds = {"x": first}
    for other in {"Attention": "kv", "Gemm": "b", "GridSample": "g"}.get(op, ""):
        size = (1, 4, 4, 2) if other == "g" else shape
        feeds[other] = rng.uniform(-1, 1, size).astype(np.float32)
    kinds = {"ArgMax": TensorProto.INT64, "IsInf": TensorProto.BOOL}
    model = make_model(
        [helper.make_node(op, list(feeds), ["y"], **{flag: value, **others})],
        [tensor(key, TensorProto.FLOAT, value.shape) for key, value in feeds.items()],
        [tensor("y", kinds.get(op, TensorProto.FLOAT), None)],
        opset=23,
    )
    expected = onnxruntime.InferenceSession(model).run(None, feeds)[0]
    found = load_on(model, engine).run(feeds)["y"]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", [2, 3, 4])
def test_windows_of_channels(engine: str, size: int) -> None:
    """Of an even number one more lies after the channel than before it."""
    model = make_model(
        [helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.5)],
        [tensor("x", TensorProto.FLOAT, [1, 5, 2, 2])],
        [tensor("y", TensorProto.FLOAT, None)],
    )
    x = np.random.default_rng(0).standard_normal((1, 5, 2, 2)).astype(np.float32)
    squares = np.pad(x * x, [(0, 0), ((size - 1) // 2, size // 2), (0, 0), (0, 0)])
    sums = sum(squares[:, i : i + 5] for i in range(size))
    expected = x / (1 + 0.5 / size * sums) ** 0.75
    np.testing.assert_allclose(load_on(model, engine)(x), expected, rtol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", ["Squeeze", "Unsqueeze"])
@pytest.mark.parametrize("is_constant", [True, False])
def test_no_axes(engine: str, op: str, is_constant: bool) -> None:
    """An empty list of them names none, where none at all means all that have one element."""
    axes = np.zeros(0, np.int64)
    given = [] if is_constant else [tensor("a", TensorProto.INT64, [0])]
    model = make_model(
        [helper.make_node(op, ["x", "a"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [1, 4, 1]), *given],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(axes, "a")] if is_constant else [],
        opset=13,
    )
    feeds = {"x": np.ones((1, 4, 1), np.float32)}
    if not is_constant:
        feeds["a"] = axes
    assert load_on(model, engine).run(feeds)["y"].shape == (1, 4, 1)


def slice_of_four(start: int, end: int, step: int) -> bytes:
    """Of a tensor of four elements."""
    numbers = {"a": [start], "b": [end], "axes": [0], "steps": [step]}
    return make_model(
        [helper.make_node("Slice", ["x", *numbers], ["y"])],
        [tensor("x", TensorProto.FLOAT, [4])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(value), name) for name, value in numbers.items()],
        opset=13,
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("end", [np.iinfo(np.int64).max, np.iinfo(np.int64).min])
@pytest.mark.parametrize("step", [1, -1, -2])
def test_slices_to_the_largest_integer(engine: str, end: int, step: int) -> None:
    """As NumPy has them: backwards, nothing lies before the first and after the last."""
    x = np.arange(4, dtype=np.float32)
    found = load_on(slice_of_four(2, end, step), engine)(x)
    np.testing.assert_array_equal(found, x[2:end:step])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("start", [-9, -5, -4, 0, 3, 9])
@pytest.mark.parametrize("end", [-9, -5, -2, 2, 9])
@pytest.mark.parametrize("step", [1, -1, -3])
def test_slices_that_begin_before_the_first(engine: str, start: int, end: int, step: int) -> None:
    """They begin at the first, backwards too, where NumPy has an empty slice."""
    model = slice_of_four(start, end, step)
    x = np.arange(4, dtype=np.float32)
    expected = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
    np.testing.assert_array_equal(load_on(model, engine)(x), expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", ["Erf", "Gelu"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_from_zero(engine: str, op: str, dtype: type) -> None:
    """Erf is 1 there, to the last bit: Gelu multiplies what is missing by its operand."""
    x = np.array([-1e30, -1e6, -30, -6.5, 6.5, 30, 1e6, 1e30], dtype)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    model = make_model(
        [helper.make_node(op, ["x"], ["y"])],
        [tensor("x", kind, [8])],
        [tensor("y", kind, [8])],
        opset=20,
    )
    expected = np.sign(x) if op == "Erf" else np.maximum(x, 0)
    np.testing.assert_allclose(load_on(model, engine)(x), expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("size", [2048, "N"])
def test_shifts_of_bytes(engine: str, direction: str, size: int | str) -> None:
    """What leaves a byte is lost: nothing saturates, nothing is rounded."""
    model = make_model(
        [helper.make_node("BitShift", ["x", "s"], ["y"], direction=direction)],
        [tensor("x", TensorProto.UINT8, [size]), tensor("s", TensorProto.UINT8, [size])],
        [tensor("y", TensorProto.UINT8, None)],
        opset=11,
    )
    x, s = (a.ravel() for a in np.meshgrid(*(np.arange(n, dtype=np.uint8) for n in (256, 8))))
    expected = np.left_shift(x, s) if direction == "LEFT" else np.right_shift(x, s)
    np.testing.assert_array_equal(load_on(model, engine).run({"x": x, "s": s})["y"], expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_signs_of_unsigned_integers(engine: str, dtype: type) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = make_model(
        [helper.make_node("Sign", ["x"], ["y"])],
        [tensor("x", kind, [3])],
        [tensor("y", kind, None)],
    )
    found = load_on(model, engine)(np.array([0, 1, 100], dtype))
    np.testing.assert_array_equal(found, np.array([0, 1, 1], dtype))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_the_mean_of_no_integers_is_zero(engine: str, dtype: type) -> None:
    """A compiler that divides by their number ends the process."""
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = make_model(
        [helper.make_node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)],
        [tensor("x", number, [2, 0])],
        [tensor("y", number, [2])],
        [numpy_helper.from_array(np.array([1]), "axes")],
        opset=18,
    )
    np.testing.assert_array_equal(load_on(model, engine)(np.zeros((2, 0), dtype)), [0, 0])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", ["ConstantOfShape", "Expand", "Reshape", "Tile", "Unsqueeze"])
def test_a_list_per_axis_is_no_longer_than_a_rank(engine: str, op: str) -> None:
    """Some libraries make as many dimensions as the list is declared to have entries."""
    names = ["n"] if op == "ConstantOfShape" else ["x", "n"]
    model = make_model(
        [helper.make_node(op, names, ["y"])],
        [tensor("x", TensorProto.FLOAT, [1]), tensor("n", TensorProto.INT64, [2**31])],
        [tensor("y", TensorProto.FLOAT, None)],
        opset=18,
    )
    with pytest.raises(openxrt.InvalidModel, match="2147483648 entries, but a tensor has at most"):
        load_on(model, engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize(
    ("axis", "scale", "bias"),
    [
        (-1, [3], [3]),
        (-1, [3, 1], [3]),
        (-1, [1], [1, 1, 1]),
        (-1, [3, 3], [1]),
        (-1, [2, 1, 3], [2, 3, 3]),
        (1, [3], [3, 1]),
        (1, [2, 1, 1], [3, 3]),
    ],
)
def test_scales_of_rows_broadcast(
    engine: str, op: str, axis: int, scale: list[int], bias: list[int]
) -> None:
    """To the whole input, not to the normalised axes alone."""
    random = np.random.default_rng(0)
    shapes = {"x": [2, 3, 3], "s": scale}
    if op == "LayerNormalization":
        shapes["b"] = bias
    feeds = {n: random.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}
    model = make_model(
        [helper.make_node(op, list(feeds), ["y"], axis=axis)],
        [tensor(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [tensor("y", TensorProto.FLOAT, [2, 3, 3])],
        opset=23,
    )
    expected = onnxruntime.InferenceSession(model).run(None, feeds)[0]
    np.testing.assert_allclose(load_on(model, engine).run(feeds)["y"], expected, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_normalisation_over_no_axes_is_over_all(engine: str) -> None:
    """The function body of the op hands them to ReduceMean, to which none are all."""
    node = helper.make_node("MeanVarianceNormalization", ["x"], ["y"])
    node.attribute.add(name="axes", type=AttributeProto.INTS)
    model = make_model(
        [node],
        [tensor("x", TensorProto.FLOAT, [2, 3])],
        [tensor("y", TensorProto.FLOAT, [2, 3])],
    )
    x = np.array([[3, -1, 2], [0, 5, 3]], np.float32)
    wanted = (x - x.mean()) / x.std()
    program = load_on(model, engine)
    np.testing.assert_allclose(program(x), wanted, rtol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_statistics_of_float64_are_float32(engine: str) -> None:
    """As `stash_type` says, which is float32 where it is not given."""
    model = make_model(
        [helper.make_node("LayerNormalization", ["x", "s"], ["y", "mean", "inverse"])],
        [tensor("x", TensorProto.DOUBLE, [2, 3]), tensor("s", TensorProto.DOUBLE, [3])],
        [tensor("y", TensorProto.DOUBLE, [2, 3]), tensor("mean", TensorProto.FLOAT, [2, 1])],
        opset=17,
    )
    feeds = {"x": np.array([[1.0, 2, 4], [3, -1, 0]]), "s": np.array([1.0, 2, 3])}
    expected = onnxruntime.InferenceSession(model).run(None, feeds)
    results = list(load_on(model, engine).run(feeds).values())
    assert results[1].dtype == np.float32
    np.testing.assert_allclose(results[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(results[1], feeds["x"].mean(1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64, np.int32])
def test_shrinking_of_integers(engine: str, dtype: type) -> None:
    """Of unsigned ones nothing is below a limit that is less than 0."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = make_model(
        [helper.make_node("Shrink", ["x"], ["y"], lambd=2.0, bias=1.0)],
        [tensor("x", kind, [5])],
        [tensor("y", kind, [5])],
    )
    x = np.array([0, 2, 3, 100, 255], dtype)
    expected = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
    np.testing.assert_array_equal(load_on(model, engine)(x), expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_normalisation_of_each_type(engine: str, dtype: type) -> None:
    """ONNX Runtime has no kernel for float16, in which the least deviation would be none."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = make_model(
        [helper.make_node("MeanVarianceNormalization", ["x"], ["y"], axes=[1])],
        [tensor("x", kind, [3, 64])],
        [tensor("y", kind, [3, 64])],
    )
    x = np.random.default_rng(0).normal(3, 2, (3, 64)).astype(dtype)
    if dtype == np.float16:
        x[1] = 2
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    expected = centred / (wide.std(1, keepdims=True) + 1e-9)
    found = load_on(model, engine)(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("is_constant", [True, False])
def test_axes_of_a_pad_in_32_bits(engine: str, is_constant: bool) -> None:
    """They are known in a run at the latest; as a constant, ONNX Runtime does not take them."""
    operands = {"p": np.array([1, 2]), "a": np.array([-1], np.int32)}
    kinds = {"p": TensorProto.INT64, "a": TensorProto.INT32}
    model = make_model(
        [helper.make_node("Pad", ["x", "p", "", "a"], ["y"])],
        [tensor("x", TensorProto.FLOAT, ["n", 3])]
        + ([] if is_constant else [tensor(n, kinds[n], v.shape) for n, v in operands.items()]),
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, n) for n, v in operands.items()] if is_constant else [],
    )
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    feeds |= {} if is_constant else operands
    expected = np.pad(feeds["x"], ((0, 0), (1, 2)))
    np.testing.assert_array_equal(load_on(model, engine).run(feeds)["y"], expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("is_open", [False, True])
def test_attention_scores_of_old_and_new_keys(engine: str, is_open: bool) -> None:
    """Also where nobody asks for the keys themselves, which ONNX Runtime does not take."""
    rng = np.random.default_rng(0)
    sizes = {"q": 3, "k": 5, "v": 5, "old_k": 6, "old_v": 6}
    feeds = {n: rng.standard_normal((1, 2, s, 4)).astype(np.float32) for n, s in sizes.items()}
    model = make_model(
        [helper.make_node("Attention", ["q", "k", "v", "", "old_k", "old_v"], ["y", "", "", "s"])],
        [
            tensor(n, TensorProto.FLOAT, [1, 2, f"{n}_size" if is_open else v.shape[2], 4])
            for n, v in feeds.items()
        ],
        [tensor(n, TensorProto.FLOAT, None) for n in ("y", "s")],
        opset=24,
    )
    keys, values = (np.concatenate([feeds[f"old_{n}"], feeds[n]], 2) for n in "kv")
    scores = feeds["q"] @ keys.swapaxes(2, 3) / 2
    shares = np.exp(scores - scores.max(3, keepdims=True))
    found = load_on(model, engine).run(feeds)
    np.testing.assert_allclose(found["s"], scores, rtol=1e-4, atol=1e-5)
    expected = shares / shares.sum(3, keepdims=True) @ values
    np.testing.assert_allclose(found["y"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("has_past", [False, True])
def test_attention_of_open_sizes(engine: str, rank: int, has_past: bool) -> None:
    """A size that nobody knows yet is not 0, and neither is what is made of it."""
    rng = np.random.default_rng(0)
    heads = {"q_num_heads": 2, "kv_num_heads": 2} if rank == 3 else {}
    dims = {"q": 3, "k": 5, "v": 5}
    feeds = {
        name: rng.standard_normal((2, n, 8) if rank == 3 else (2, 2, n, 4)).astype(np.float32)
        for name, n in dims.items()
    }
    inputs, outputs = ["q", "k", "v"], ["y"]
    if has_past:
        inputs += ["", "old_k", "old_v"]
        outputs += ["new_k", "new_v"]
        feeds |= {n: rng.standard_normal((2, 2, 6, 4)).astype(np.float32) for n in inputs[-2:]}
    else:
        outputs += ["", ""]
    model = make_model(
        [helper.make_node("Attention", inputs, [*outputs, "s"], **heads)],
        [
            tensor(n, TensorProto.FLOAT, [f"{n}{i}" for i in range(v.ndim)])
            for n, v in feeds.items()
        ],
        [tensor(n, TensorProto.FLOAT, None) for n in [*filter(None, outputs), "s"]],
        opset=24,
    )
    expected = onnxruntime.InferenceSession(model).run(None, feeds)
    found = load_on(model, engine).run(feeds).values()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kept", ["true", "false"])
def test_what_a_choice_leaves_out_may_be_anything(kept: str, engine: str) -> None:
    """It is the gradient of Relu, and no product by 0 or 1."""
    x = np.array([np.nan, -np.inf, np.inf, 1, -2, 0.5, 0], np.float32)
    y = np.array([np.inf, np.nan, 1, 2, -np.inf, 3, np.nan], np.float32)
    if kept == "true":
        nodes = [helper.make_node("Greater", ["x", "zero"], ["mask"])]
        nodes.append(helper.make_node("Where", ["mask", "y", "zero"], ["z"]))
        expected = np.where(x > 0, y, np.float32(0))
    else:
        nodes = [helper.make_node("LessOrEqual", ["x", "zero"], ["mask"])]
        nodes.append(helper.make_node("Where", ["mask", "zero", "y"], ["z"]))
        expected = np.where(x <= 0, np.float32(0), y)
    model = make_model(
        nodes,
        [tensor(name, TensorProto.FLOAT, [7]) for name in "xy"],
        [tensor("z", TensorProto.FLOAT, [7])],
        [numpy_helper.from_array(np.float32(0), "zero")],
    )
    np.testing.assert_array_equal(load_on(model, engine)(x, y), expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64"])
def test_attention_masks_of_integers(engine: str, dtype: str) -> None:
    """They are added; what is_causal hides stays hidden."""
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal((1, 2, 3, 4)).astype(np.float32) for name in "qkv"}
    mask = rng.integers(0, 3, (3, 3)).astype(dtype)
    kind = TensorProto.DataType.Value(dtype.upper())
    model = make_model(
        [helper.make_node("Attention", ["q", "k", "v", "m"], ["y"], is_causal=1)],
        [tensor(name, TensorProto.FLOAT, [1, 2, 3, 4]) for name in "qkv"]
        + [tensor("m", kind, [3, 3])],
        [tensor("y", TensorProto.FLOAT, [1, 2, 3, 4])],
        opset=23,
    )
    bias = np.where(np.tri(3, dtype=bool), mask.astype(np.float32), -np.inf)
    weights = np.exp(feeds["q"] @ feeds["k"].swapaxes(2, 3) / 2 + bias)
    expected = weights / weights.sum(-1, keepdims=True) @ feeds["v"]
    found = load_on(model, engine).run({**feeds, "m": mask})["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_variance_of_equal_elements(engine: str) -> None:
    """The mean of the squares less the square of the mean may come out below 0."""
    x = np.full((1, 3, 7, 5), 0.7137, np.float32)
    model = make_model(
        [helper.make_node("MeanVarianceNormalization", ["x"], ["y"], axes=[0, 2, 3])],
        [tensor("x", TensorProto.FLOAT, x.shape)],
        [tensor("y", TensorProto.FLOAT, x.shape)],
    )
    assert np.isfinite(load_on(model, engine)(x)).all()
