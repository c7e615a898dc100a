# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime as an engine, against ONNX Runtime by itself and the native engine."""

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor

onnxruntime = pytest.importorskip("onnxruntime")

from openxrt.engines.onnxruntime import OnnxRuntimeEngine  # noqa: E402 needs the package


def load(model: bytes, **options: object) -> openxrt.Program:
    return openxrt.load(model, engine="onnxruntime", strict=True, cache_dir="", **options)


def test_it_is_found_by_name() -> None:
    assert "onnxruntime" in openxrt.engines()
    report = next(r for r in openxrt.doctor() if r.name == "onnxruntime")
    assert report.available, report.error
    assert report.version == onnxruntime.__version__
    assert {"Conv", "MatMul", "ai.onnx.ml.Scaler"} <= set(openxrt.engine_ops("onnxruntime"))


def test_it_computes_what_onnx_runtime_computes(mlp_model: bytes) -> None:
    program = load(mlp_model)
    session = onnxruntime.InferenceSession(mlp_model, providers=["CPUExecutionProvider"])
    for rows in (1, 4):
        x = np.random.default_rng(rows).standard_normal((rows, 8)).astype(np.float32)
        np.testing.assert_allclose(program(x), session.run(None, {"x": x})[0], rtol=1e-6)


def big_model(dtype: int, array: np.ndarray) -> bytes:
    """y = x @ w with a large constant."""
    weight = numpy_helper.from_array(array, "w")
    return make_model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [tensor("x", dtype, [2, array.shape[0]])],
        [tensor("y", dtype, [2, array.shape[1]])],
        [weight],
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_large_constants_are_lent(dtype: type) -> None:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((80, 70)).astype(dtype)
    x = rng.standard_normal((2, 80)).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    result = load(big_model(kind, weight))(x)
    expected = x.astype(np.float64) @ weight.astype(np.float64)
    tolerance = {2: 1e-2, 4: 1e-5, 8: 1e-12}[np.dtype(dtype).itemsize]
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=20 * tolerance)


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_the_least_integer_by_minus_one(op: str) -> None:
    """ONNX Runtime divides as the processor does, which ends the process."""

    def model(divisor: int | None) -> bytes:
        constants = [] if divisor is None else [numpy_helper.from_array(np.array([divisor]), "d")]
        inputs = [tensor("x", TensorProto.INT64, [1])]
        inputs += [tensor("d", TensorProto.INT64, [1])] if divisor is None else []
        outputs = [tensor("y", TensorProto.INT64, [1])]
        return make_model([helper.make_node(op, ["x", "d"], ["y"])], inputs, outputs, constants)

    least = np.array([np.iinfo(np.int64).min])
    for divisor in (None, -1):
        program = openxrt.load(model(divisor), engine="onnxruntime", cache_dir="")
        assert program.explain()["nodes_per_engine"] == {"native": 1}
        assert "end the process" in program.explain()["nodes"][0]["refusals"]["onnxruntime"]
        program(least, *([] if divisor else [np.array([-1])]))
    assert load(model(2))(least) == (least // 2 if op == "Div" else 0)


@pytest.mark.parametrize("op", ["Max", "Min", "Sum", "Mean"])
def test_an_operand_of_a_list_that_is_left_out(op: str) -> None:
    """ONNX Runtime ends the process."""
    model = make_model(
        [helper.make_node(op, ["x", ""], ["y"])],
        [tensor("x", TensorProto.FLOAT, [2])],
        [tensor("y", TensorProto.FLOAT, [2])],
    )
    with pytest.raises(openxrt.Error, match="input 1 is left out"):
        openxrt.load(model, engine="onnxruntime", cache_dir="")(np.ones(2, np.float32))


@pytest.mark.parametrize("new_axis", [0, 1])
def test_elements_whose_ranks_disagree(new_axis: int) -> None:
    """ONNX Runtime takes those of one element for those of all, which ends the process."""
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    model = make_model(
        [helper.make_node("ConcatFromSequence", ["x"], ["y"], axis=0, new_axis=new_axis)],
        [helper.make_value_info("x", kind)],
        [tensor("y", TensorProto.FLOAT, None)],
    )
    program = openxrt.load(model, engine="onnxruntime", cache_dir="")
    for shape in ((2, 3, 1), (1, 2, 3, 1)):
        with pytest.raises(openxrt.InvalidArgument, match="ConcatFromSequence"):
            program.run({"x": [np.zeros((0, 3), np.float32), np.ones(shape, np.float32)]})


@pytest.mark.parametrize("where", ["graph", "body"])
def test_ranks_that_only_a_run_tells(where: str) -> None:
    """ONNX Runtime joins what it never compared, which ends the process."""
    picks = [
        helper.make_node("SequenceConstruct", ["a", "b"], ["s"]),
        helper.make_node("SequenceAt", ["s", "zero"], ["p"]),
        helper.make_node("SequenceAt", ["s", "one"], ["q"]),
    ]
    joins = [helper.make_node("Concat", ["p", "q"], ["y"], axis=0)]
    constants = [
        numpy_helper.from_array(np.array(n), name) for name, n in (("zero", 0), ("one", 1))
    ]
    inputs = [tensor("a", TensorProto.FLOAT, ["n", 3]), tensor("b", TensorProto.FLOAT, ["k"])]
    if where == "body":
        inputs.append(tensor("c", TensorProto.BOOL, []))
        branch = helper.make_graph(joins, "branch", [], [tensor("y", TensorProto.FLOAT, None)])
        joins = [helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch)]
    model = make_model(
        picks + joins, inputs, [tensor(joins[0].output[0], TensorProto.FLOAT, None)], constants
    )
    program = openxrt.load(model, engine="onnxruntime", cache_dir="")
    feeds = {"a": np.ones((2, 3), np.float32), "b": np.zeros(0, np.float32)}
    with pytest.raises(openxrt.Error, match="Concat"):
        program.run(feeds | ({"c": np.array(True)} if where == "body" else {}))


@pytest.mark.parametrize("where", ["graph", "body"])
def test_a_choice_between_values_of_a_given_zero_point(where: str) -> None:
    """ONNX Runtime reads zero points as constants, which ends the process."""
    u8 = TensorProto.UINT8
    chooses = [
        helper.make_node("DequantizeLinear", ["a", "scale", "zero"], ["da"]),
        helper.make_node("DequantizeLinear", ["b", "scale", "seven"], ["db"]),
        helper.make_node("Where", ["c", "da", "db"], ["w"]),
        helper.make_node("QuantizeLinear", ["w", "scale", "seven"], ["y"]),
    ]
    boolean = tensor("c", TensorProto.BOOL, [3])
    inputs = [boolean, tensor("a", u8, [3]), tensor("b", u8, [3]), tensor("zero", u8, [])]
    if where == "body":
        inputs.append(tensor("d", TensorProto.BOOL, []))
        branch = helper.make_graph(chooses, "branch", [], [tensor("y", u8, [3])])
        chooses = [helper.make_node("If", ["d"], ["z"], then_branch=branch, else_branch=branch)]
    model = make_model(
        chooses,
        inputs,
        [tensor(chooses[0].output[0] if where == "body" else "y", u8, [3])],
        [
            numpy_helper.from_array(np.float32(0.5), "scale"),
            numpy_helper.from_array(np.uint8(7), "seven"),
        ],
    )
    feeds = {
        "c": np.array([True, False, True]),
        "a": np.array([1, 2, 3], np.uint8),
        "b": np.array([4, 5, 6], np.uint8),
        "zero": np.array(1, np.uint8),
    }
    feeds |= {"d": np.array(True)} if where == "body" else {}
    (result,) = openxrt.load(model, engine="onnxruntime", cache_dir="").run(feeds).values()
    assert result.tolist() == [7, 5, 9]


def test_bfloat16_passes() -> None:
    model = make_model(
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)],
        [tensor("x", TensorProto.BFLOAT16, [5])],
        [tensor("y", TensorProto.FLOAT, [5])],
    )
    x = np.array([0, 1, -2.5, 1e30, 3], ml_dtypes.bfloat16)
    np.testing.assert_array_equal(load(model)(x), x.astype(np.float32))


def test_shapes_that_the_data_decide() -> None:
    model = make_model(
        [helper.make_node("NonZero", ["x"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [2, 3])],
        [tensor("y", TensorProto.INT64, [2, None])],
    )
    program = load(model)
    for x in (np.eye(2, 3), np.zeros((2, 3)), np.ones((2, 3))):
        result = program(x.astype(np.float32))
        np.testing.assert_array_equal(result, np.nonzero(x))


def test_results_given_away_are_not_used_again() -> None:
    model = make_model(
        [helper.make_node("NonZero", ["x"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [64])],
        [tensor("y", TensorProto.INT64, [1, None])],
    )
    program = load(model)
    first = program(np.ones(64, np.float32))
    for _ in range(20):
        program(np.arange(64, dtype=np.float32) % 2)
    np.testing.assert_array_equal(first, [np.arange(64)])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.bool_])
def test_sizes_that_change_from_run_to_run(dtype: type) -> None:
    """Each run's results are its own, whether NumPy or ml_dtypes has the type."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    node = helper.make_node("Concat", ["x", "x"], ["y"], axis=0)
    model = make_model([node], [tensor("x", kind, ["n", 3])], [tensor("y", kind, ["m", 3])])
    program = load(model)
    kept = []
    for rows in (2, 5, 1, 5, 2, 0):
        x = (np.arange(rows * 3).reshape(rows, 3) % 7).astype(dtype)
        kept.append((x, program(x)))
    for x, y in kept:
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y, np.concatenate([x, x]))


def test_memory_that_is_where_it_was_with_another_shape_or_content() -> None:
    """What lies where it lay at the last run stays bound to the session."""
    model = make_model(
        [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("NonZero", ["x"], ["i"])],
        [tensor("x", TensorProto.FLOAT, ["a", "b"])],
        [
            tensor("y", TensorProto.FLOAT, ["a", "b"]),
            tensor("i", TensorProto.INT64, [2, "n"]),
        ],
    )
    program = load(model)
    memory = np.arange(12, dtype=np.float32)
    other = np.ones((3, 4), np.float32)
    given = np.zeros(12, np.float32)
    for x in (memory.reshape(3, 4), memory.reshape(4, 3), memory.reshape(3, 4), other):
        for _ in range(2):
            memory += 1
            y = given.reshape(x.shape)
            result = program.run({"x": x}, out={"y": y})
            np.testing.assert_array_equal(y, -x)
            np.testing.assert_array_equal(result["i"], np.array(np.nonzero(x)))


def test_strings_and_sequences() -> None:
    model = make_model(
        [
            helper.make_node("Equal", ["a", "b"], ["c"]),
            helper.make_node("SequenceConstruct", ["c", "d"], ["s"]),
        ],
        [
            *[tensor(name, TensorProto.STRING, [2]) for name in "ab"],
            tensor("d", TensorProto.BOOL, [1]),
        ],
        [helper.make_tensor_sequence_value_info("s", TensorProto.BOOL, None)],
    )
    same, last = load(model)(
        np.array(["x", "y"], object), np.array(["x", "2"], object), np.array([True])
    )
    assert same.tolist() == [True, False]
    assert last.tolist() == [True]


def classifier(name: str) -> bytes:
    """Names a row of one number by its sign."""
    node = helper.make_node(
        "LinearClassifier",
        ["x"],
        ["y", "z"],
        domain="ai.onnx.ml",
        classlabels_strings=["less", name],
        coefficients=[-1.0, 1.0],
        intercepts=[0.0, 0.0],
    )
    return make_model(
        [node],
        [tensor("x", TensorProto.FLOAT, ["n", 1])],
        [tensor("y", TensorProto.STRING, ["n"]), tensor("z", TensorProto.FLOAT, ["n", 2])],
        domains={"ai.onnx.ml": 3},
    )


def test_classes_have_names() -> None:
    x = np.array([[2], [-3]], np.float32)
    assert load(classifier("more"))(x)[0].tolist() == ["more", "less"]
    program = openxrt.load(classifier("m" * 257), engine=["onnxruntime", "native"], cache_dir="")
    assert program.explain().nodes_per_engine == {"native": 1}
    assert program(x)[0].tolist() == ["m" * 257, "less"]


def test_strings_that_have_no_room() -> None:
    feeds = {"x": np.ones((100, 1), np.float32)}
    with pytest.raises(openxrt.ResourceError, match=r"'y'.*string.*max_memory_bytes"):
        load(classifier("more"), max_memory_bytes=1024).run(feeds)
    # There is room for the result, but not for the copy that the engine hands over.
    with pytest.raises(openxrt.ResourceError, match=r"string\[100\] needs .*max_memory_bytes"):
        load(classifier("more"), max_memory_bytes=6000).run(feeds)


def test_texts_that_are_not_utf_8() -> None:
    """They come as surrogates. Other engines may take them."""
    node = helper.make_node("Equal", ["x", "x"], ["y"])
    model = make_model(
        [node], [tensor("x", TensorProto.STRING, [2])], [tensor("y", TensorProto.BOOL, [2])]
    )
    texts = np.array(["\udcff\udcfe", "a"], object)
    assert openxrt.load(model, engine=["onnxruntime", "native"], cache_dir="")(texts).all()
    program = openxrt.load(model, engine="onnxruntime", strict=True, cache_dir="")
    with pytest.raises(openxrt.Unsupported, match="not UTF-8") as raised:
        program(texts)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    ("dtype", "mode", "engine"),
    [
        ("int8", "linear", "native"),
        ("uint8", "linear", "onnxruntime"),
        ("uint8", "cubic", "native"),
        ("int32", "cubic", "onnxruntime"),
    ],
)
def test_images_of_integers_that_are_smoothed(dtype: str, mode: str, engine: str) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = make_model(
        [helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode=mode, antialias=1)],
        [tensor("x", kind, [1, 1, 4, 4])],
        [tensor("y", kind, [1, 1, 8, 8])],
        [numpy_helper.from_array(np.array([1, 1, 8, 8]), "s")],
    )
    program = openxrt.load(model, engine=["onnxruntime", "native"], cache_dir="")
    assert program.explain().nodes_per_engine == {engine: 1}
    x = np.diag([100] * 4).astype(dtype)[None, None]
    exact = openxrt.load(model, engine="native", cache_dir="")(x)
    np.testing.assert_allclose(program(x).astype(int), exact, atol=1)


@pytest.mark.parametrize(
    ("region", "sizes", "engine"),
    [
        ([0, 0, 1, 1], [1, 8], "onnxruntime"),
        ([0, 0.5, 1, 1], [1, 8], "onnxruntime"),
        ([0, 0.5, 1, 1], [1, 4], "native"),
        ([0, 0, 1, 1], [1, 4], "onnxruntime"),
        (None, [1, 8], "native"),
    ],
)
def test_axes_that_are_cropped(region: list[float] | None, sizes: list[int], engine: str) -> None:
    weights = {"s": np.array(sizes)}
    inputs = {"x": np.arange(4, dtype=np.float32).reshape(1, 4)}
    if region is None:
        inputs["r"] = np.array([0, 0, 1, 1], np.float32)
    else:
        weights["r"] = np.array(region, np.float32)
    node = helper.make_node(
        "Resize",
        ["x", "r", "", "s"],
        ["y"],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
    )
    model = make_model(
        [node],
        [tensor(name, TensorProto.FLOAT, array.shape) for name, array in inputs.items()],
        [tensor("y", TensorProto.FLOAT, sizes)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    program = openxrt.load(model, engine=["onnxruntime", "native"], cache_dir="")
    assert program.explain().nodes_per_engine == {engine: 1}
    exact = openxrt.load(model, engine="native", cache_dir="").run(inputs)["y"]
    np.testing.assert_allclose(program.run(inputs)["y"], exact, rtol=1e-6)


def test_a_result_that_no_array_holds() -> None:
    node = helper.make_node("Expand", ["x", "s"], ["y"])
    model = make_model(
        [node],
        [tensor("x", TensorProto.FLOAT, ["n", 1, 1]), tensor("s", TensorProto.INT64, [3])],
        [tensor("y", TensorProto.FLOAT, ["a", "b", "c"])],
    )
    with pytest.raises(openxrt.Unsupported, match="array is too big") as raised:
        load(model)(np.zeros((0, 1, 1), np.float32), np.array([0, 2**31 - 1, 2**31 - 1]))
    assert len(str(raised.value)) < 300


def test_what_it_leaves_to_others_has_reasons() -> None:
    model = make_model(
        [
            helper.make_node("RandomNormalLike", ["x"], ["r"], name="random"),
            helper.make_node("Mod", ["r", "x"], ["y"], name="mod", fmod=1),
        ],
        [tensor("x", TensorProto.FLOAT, [3])],
        [tensor("y", TensorProto.FLOAT, [3])],
    )
    program = openxrt.load(model, engine=["onnxruntime", "native"])
    nodes = {node["op"]: node for node in program.explain()["nodes"]}
    assert nodes["Mod"]["engine"] == "onnxruntime"
    assert "seed" in nodes["RandomNormalLike"]["refusals"]["onnxruntime"]


def test_integers_that_are_known_to_be_small() -> None:
    """What ONNX Runtime computes as float64, or from 32 of 64 bits, is exact of these."""
    model = make_model(
        [
            helper.make_node("Shape", ["x"], ["sizes"]),
            helper.make_node("Gather", ["sizes", "zero"], ["rows"]),
            helper.make_node("Add", ["rows", "one"], ["end"]),
            helper.make_node("Range", ["zero", "end", "one"], ["positions"]),
            helper.make_node("Cast", ["x"], ["whole"], to=TensorProto.INT64),
            helper.make_node("ReduceSum", ["whole"], ["total"], keepdims=0),
            helper.make_node("Clip", ["whole", "zero", "one"], ["cut"]),
            helper.make_node("Pow", ["whole", "five"], ["power"]),
            helper.make_node("Range", ["zero", "total", "one"], ["others"]),
        ],
        [tensor("x", TensorProto.INT8, ["rows", 2])],
        [
            tensor(name, TensorProto.INT64, None)
            for name in ("positions", "total", "cut", "power", "others")
        ],
        [
            numpy_helper.from_array(np.array(number), name)
            for name, number in (("zero", 0), ("one", 1), ("five", 5))
        ],
    )
    program = openxrt.load(
        model, engine="onnxruntime", cache_dir="", check_results=False, max_specializations=1
    )
    nodes = program.explain()["nodes"]
    # Of open sizes the sum may be of so many that it is no small one, nor what follows.
    others = {node["outputs"][0] for node in nodes if node["engine"] == "native"}
    assert others == {"total", "others"}
    results = program.run({"x": np.array([[3, -2], [127, -128]], np.int8)})
    assert results["positions"].tolist() == [0, 1, 2]
    assert results["total"] == 0
    assert results["cut"].tolist() == [[1, 0], [1, 0]]
    assert results["power"].tolist() == [[243, -32], [127**5, -(128**5)]]


def test_large_integers_in_bodies() -> None:
    """A body is a program of its own where its nodes are not all taken."""
    body = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "body",
        [],
        [tensor("y", TensorProto.INT64, [2])],
    )
    model = make_model(
        [helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)],
        [tensor("x", TensorProto.INT64, [2]), tensor("c", TensorProto.BOOL, [])],
        [tensor("y", TensorProto.INT64, [2])],
    )
    program = openxrt.load(model, engine="onnxruntime", cache_dir="", check_results=False)
    result = program.run({"x": np.array([2**31, -(2**32)]), "c": np.array(True)})["y"]
    assert result.tolist() == [2**31, 0]


def test_its_own_words_are_the_reason() -> None:
    # ONNX Runtime 1.31.1 has no kernel for the Acosh of float64.
    model = make_model(
        [
            helper.make_node("BitwiseAnd", ["x", "x"], ["a"], name="fine"),
            helper.make_node("Acosh", ["h"], ["b"], name="no_kernel"),
        ],
        [tensor("x", TensorProto.INT8, [3]), tensor("h", TensorProto.DOUBLE, [3])],
        [tensor("a", TensorProto.INT8, [3]), tensor("b", TensorProto.DOUBLE, [3])],
    )
    nodes = {
        node["op"]: node
        for node in openxrt.load(model, engine=["onnxruntime", "native"]).explain()["nodes"]
    }
    assert nodes["BitwiseAnd"]["engine"] == "onnxruntime"
    assert "Acosh" in nodes["Acosh"]["refusals"]["onnxruntime"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graph_optimisation_level": "all"}, "did you mean 'graph_optimization_level'"),
        ({"graph_optimization_level": "most"}, "'most' is none of"),
        ({"enable_mem_pattern": "maybe"}, "neither 1 nor 0"),
    ],
)
def test_wrong_options_are_errors(mlp_model: bytes, options: dict, message: str) -> None:
    with pytest.raises(openxrt.InvalidArgument, match=message):
        openxrt.load(
            mlp_model, engine="onnxruntime", engine_options={"onnxruntime": options}, cache_dir=""
        )(np.zeros((1, 8), np.float32))


@pytest.mark.parametrize(("activations", "least", "most"), [("float", 0, 1e-6), ("int8", 1e-4, 1)])
def test_products_with_weights_in_blocks(activations: str, least: float, most: float) -> None:
    """ONNX Runtime by itself rounds the other factor to int8."""
    rng = np.random.default_rng(0)
    weights = rng.integers(-8, 8, (64, 32))
    scales = rng.uniform(0.5, 1, (2, 32)).astype(np.float32)
    packed = helper.make_tensor("w", TensorProto.INT4, weights.shape, weights.ravel())
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["f"], axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "f"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "blocks",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (5, 64))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (5, 32))],
        [packed, numpy_helper.from_array(scales, "s")],
    )
    domains = [helper.make_opsetid("", 21)]
    made = helper.make_model(graph, opset_imports=domains, ir_version=10)
    x = rng.standard_normal((5, 64)).astype(np.float32)
    want = x.astype(np.float64) @ (weights * np.repeat(scales, 32, 0).astype(np.float64))
    program = load(
        made.SerializeToString(),
        engine_options={"onnxruntime": {"activations": activations}},
        check_results=False,
    )
    assert least <= np.abs(program(x) - want).max() / np.abs(want).max() <= most


def test_options_are_heard(mlp_model: bytes) -> None:
    x = np.ones((3, 8), np.float32)
    options = {"onnxruntime": {"graph_optimization_level": "disable", "enable_mem_pattern": 0}}
    np.testing.assert_allclose(
        load(mlp_model, engine_options=options)(x), load(mlp_model)(x), rtol=1e-5
    )


def test_the_optimised_model_comes_back_from_the_disk_cache(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    model = big_model(TensorProto.FLOAT, rng.standard_normal((80, 70)).astype(np.float32))
    x = rng.standard_normal((2, 80)).astype(np.float32)
    results = []
    for from_cache in (False, True):
        program = openxrt.load(model, engine="onnxruntime", strict=True, cache_dir=tmp_path)
        assert program.explain()["launches"][0]["from_cache"] is from_cache
        results.append(program(x))
        del program
        openxrt._core.finish_writing()
    np.testing.assert_array_equal(*results)
    assert not list((tmp_path / "records" / "onnxruntime").iterdir())


def test_many_threads(mlp_model: bytes) -> None:
    program = load(mlp_model)
    rng = np.random.default_rng(5)
    inputs = [rng.standard_normal((2, 8)).astype(np.float32) for _ in range(4)]
    expected = [program(x) for x in inputs]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(100):
            if not np.array_equal(program(inputs[i]), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.fixture
def cores() -> Iterator[int]:
    """How many there are; the thread budget is as large."""
    before, count = openxrt.thread_budget(), len(os.sched_getaffinity(0))
    openxrt.set_num_threads(count)
    yield count
    openxrt.set_num_threads(before)


def test_threads_of_one_session_wait_for_work_in_a_loop(cores: int) -> None:
    """Those of several would, beside one another, use more processors than the budget."""
    engine = OnnxRuntimeEngine()
    function = SimpleNamespace(num_threads=2, streams=1, options={})

    class Compiled:
        """Stands for a session."""

    options, spins = engine.settings(function)
    assert spins
    assert int(options.get_session_config_entry("session.intra_op.spin_duration_us")) > 0
    first = engine.keep(Compiled(), spins)
    options, spins = engine.settings(function)
    assert not spins
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    second = engine.keep(Compiled(), spins)
    del first
    gc.collect()
    assert engine.settings(function)[1]
    del second
    # With cores to spare they would do so beside other engines' threads.
    if cores > 1:
        openxrt.set_num_threads(cores - 1)
        options, spins = engine.settings(function)
        assert not spins
        assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


@pytest.mark.parametrize("written", [{}, {"output_dtype": TensorProto.INT8}])
@pytest.mark.parametrize("is_in_branch", [False, True])
def test_roundings_to_int8_that_are_moved(written: dict[str, int], is_in_branch: bool) -> None:
    """They get the element type that they had before another optimiser made uint8 of it."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["first"], perm=[1, 0]),
        helper.make_node("QuantizeLinear", ["first", "s", "n"], ["q"], **written),
        helper.make_node("DequantizeLinear", ["q", "s", "n"], ["d"]),
        helper.make_node("Reshape", ["d", "shape"], ["flat"]),
        helper.make_node("Unsqueeze", ["flat", "axes"], ["wide"]),
        helper.make_node("DequantizeLinear", ["w", "s"], ["weights"]),  # int16: of opset 21
        helper.make_node("MatMul", ["wide", "weights"], ["y"]),
    ]
    inputs = [tensor("x", TensorProto.FLOAT, ["rows", 2])]
    outputs = [tensor("y", TensorProto.FLOAT, None)]
    if is_in_branch:
        branches = (
            helper.make_graph(nodes, "then", [], outputs),
            helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "else", [], outputs),
        )
        names = ("then_branch", "else_branch")
        nodes = [helper.make_node("If", ["c"], ["y"], **dict(zip(names, branches, strict=True)))]
        inputs.append(tensor("c", TensorProto.BOOL, []))
    model = make_model(
        nodes,
        inputs,
        outputs,
        [
            numpy_helper.from_array(np.float32(0.5), "s"),
            numpy_helper.from_array(np.int8(3), "n"),
            numpy_helper.from_array(np.array([-1]), "shape"),
            numpy_helper.from_array(np.array([0]), "axes"),
            numpy_helper.from_array(np.full((4, 1), 2, np.int16), "w"),
        ],
        opset=21,
    )
    x = np.array([[-1, 2.1], [-90, 90]], np.float32)
    feeds = {"x": x, **({"c": np.array(True)} if is_in_branch else {})}
    wanted = [[-1 - 65.5 + 2 + 62]]  # to int8 less 3, in halves
    np.testing.assert_array_equal(load(model).run(feeds)["y"], wanted)
