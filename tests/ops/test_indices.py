# SPDX-License-Identifier: Apache-2.0
"""Indices out of range are errors on every engine, in range they count from either end."""

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, tensor, untyped, usable

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)
ENGINES = ["native", "openvino", "xla", "onnxruntime"]


def with_native(engine: str) -> list[str]:
    """For models of which the engine takes a part."""
    return [engine] if engine == "native" else [engine, "native"]


def embedding(*, cast: bool = False, op: str = "Gather") -> bytes:
    """y = table[ids], int64[2] or, for GatherElements, int64[2,3]; int32 where it is cast."""
    ids = "wide" if cast else "ids"
    nodes: list[onnx.NodeProto] = []
    if cast:
        nodes.append(helper.make_node("Cast", ["ids"], ["wide"], to=TensorProto.INT64))
    nodes.append(helper.make_node(op, ["table", ids], ["y"], name="embed"))
    dtype = TensorProto.INT32 if cast else TensorProto.INT64
    shape = [2] if op == "Gather" else [2, 3]
    return make_model(
        nodes,
        [tensor("ids", dtype, shape)],
        [tensor("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(TABLE, "table")],
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cast", [False, True])
def test_indices_out_of_range(engine: str, cast: bool) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    program = openxrt.load(embedding(cast=cast), engine=engine, strict=True)
    dtype = np.int32 if cast else np.int64
    for ids in ([0, 3], [-4, -1]):
        np.testing.assert_array_equal(program(np.array(ids, dtype)), TABLE[ids])
    for wrong in (4, -5):
        with pytest.raises(openxrt.Error, match=rf"'embed'.*{wrong} is outside an axis of size 4"):
            program(np.array([1, wrong], dtype))


@pytest.mark.parametrize("engine", ENGINES)
def test_elements_out_of_range(engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    program = openxrt.load(embedding(op="GatherElements"), engine=engine, strict=True)
    ids = np.array([[0, -4, 3], [1, 1, 1]])
    np.testing.assert_array_equal(program(ids), np.take_along_axis(TABLE, ids, 0))
    ids[1, 2] = 4
    with pytest.raises(openxrt.Error, match=r"'embed'.*4 is outside an axis of size 4"):
        program(ids)


def by_coordinates(op: str, indices: np.ndarray | None) -> bytes:
    """y = op(table, ids, ...): ids are an input unless `indices` are given, updates are ones."""
    shape = {"GatherND": [2, 2], "ScatterND": [2, 2], "ScatterElements": [2, 3]}[op]
    inputs = ["table", "ids"] + ["updates"] * (op != "GatherND")
    constants = [] if indices is None else [numpy_helper.from_array(indices, "ids")]
    if op != "GatherND":
        ones = np.ones([2] if op == "ScatterND" else shape, np.float32)
        constants.append(numpy_helper.from_array(ones, "updates"))
    return make_model(
        [helper.make_node(op, inputs, ["y"], name="embed")],
        [tensor("table", TensorProto.FLOAT, [4, 3])]
        + ([tensor("ids", TensorProto.INT64, shape)] if indices is None else []),
        [tensor("y", TensorProto.FLOAT, [2] if op == "GatherND" else [4, 3])],
        constants,
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", ["GatherND", "ScatterElements", "ScatterND"])
def test_coordinates_out_of_range(engine: str, op: str) -> None:
    """Of two axes, each coordinate is held to the size of its own."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    right = np.array([[0, -4, 3], [1, 1, 1]] if op == "ScatterElements" else [[3, 2], [-4, -3]])
    program = openxrt.load(by_coordinates(op, None), engine=engine, strict=True)
    expected = np.copy(TABLE)
    if op == "GatherND":
        expected = TABLE[tuple(right.T)]
    elif op == "ScatterND":
        expected[tuple(right.T)] = 1
    else:
        np.put_along_axis(expected, right, 1, 0)
    np.testing.assert_array_equal(program(TABLE, right), expected)
    wrongs = (4, -5, 10**8, -(10**8)) if op == "ScatterElements" else (3, -4, 10**8, -(10**8))
    size = 4 if op == "ScatterElements" else 3
    for wrong in wrongs:
        hostile = right.copy()
        hostile[1, 1] = wrong
        message = rf"(?s)'embed'.*{wrong} is outside an axis of size {size}"
        with pytest.raises(openxrt.Error, match=message):
            program(TABLE, hostile)
        with pytest.raises(openxrt.Error, match=message):
            openxrt.load(by_coordinates(op, hostile), engine=engine, strict=True)(TABLE)


def computed(op: str, *, sizes: list[int | str]) -> bytes:
    """y = op(x, p * 1): what decides an address or a shape is computed within the model."""
    operands = ["x", "v"]
    shape = {"GatherND": [2, 1], "GatherElements": [1, 3]}.get(op, [2])
    constants = [numpy_helper.from_array(np.array(1), "one")]
    if op == "ScatterND":
        shape, operands = [2, 1], ["x", "v", "u"]
        constants.append(numpy_helper.from_array(np.ones((2, 3), np.float32), "u"))
    nodes = [
        helper.make_node("Mul", ["p", "one"], ["v"], name="times"),
        helper.make_node(op, operands, ["y"], name="reader"),
    ]
    inputs = [tensor("x", TensorProto.FLOAT, sizes), tensor("p", TensorProto.INT64, shape)]
    return make_model(nodes, inputs, [untyped("y")], constants)


@pytest.mark.parametrize("sizes", [[4, 3], ["n", "m"]])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", ["Gather", "GatherND", "GatherElements", "ScatterND"])
def test_computed_indices(engine: str, op: str, sizes: list[int | str]) -> None:
    """A function is cut where it computes indices, so that they are looked at."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    program = openxrt.load(computed(op, sizes=sizes), engines=with_native(engine))
    right = {"Gather": [3, -4], "GatherElements": [[0, 3, -1]]}.get(op, [[3], [-4]])
    program(TABLE, np.array(right))
    for wrong in (4, -5, 10**6, -(10**6)):
        spoiled = np.array(right)
        spoiled.flat[0] = wrong
        with pytest.raises(openxrt.Error, match=r"outside an axis of size 4|[Oo]ut of|invalid"):
            program(TABLE, spoiled)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("op", "right", "wrongs"),
    [
        ("Expand", [4, 3], ([-1, 3], [2**40, 3], [5, 3])),
        ("Tile", [2, 2], ([-1, 1], [2**40, 2**40])),
        ("Reshape", [3, 4], ([5, 5], [-2, 3], [7, 0])),
    ],
)
def test_computed_sizes(engine: str, op: str, right: list[int], wrongs: list[list[int]]) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    program = openxrt.load(computed(op, sizes=["n", "m"]), engines=with_native(engine))
    program(TABLE, np.array(right))
    for wrong in wrongs:
        with pytest.raises(openxrt.Error):
            program(TABLE, np.array(wrong))
    program(TABLE, np.array(right))


def test_a_function_that_needs_no_cut_stays_whole() -> None:
    """What follows from sizes, and what is in range by its nature, is no reason to cut."""
    if not usable("openvino"):
        pytest.skip("openvino is not installed")
    constants = [
        numpy_helper.from_array(np.array([1]), "one"),
        numpy_helper.from_array(np.array(0), "zero"),
    ]
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "at"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["flat"]),
        helper.make_node("TopK", ["flat", "one"], ["v", "i"]),
        helper.make_node("GatherElements", ["flat", "i"], ["y"], axis=1),
    ]
    constants.append(numpy_helper.from_array(np.array([0]), "at"))
    constants.append(numpy_helper.from_array(np.array([-1]), "rest"))
    model = make_model(nodes, [tensor("x", TensorProto.FLOAT, ["n", 3])], [untyped("y")], constants)
    program = openxrt.load(model, engine="openvino", strict=True)
    np.testing.assert_array_equal(program(TABLE), TABLE.max(1, keepdims=True))
    assert len(program.explain()["launches"]) == 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("op", ["Concat", "Add", "MatMul"])
def test_sizes_that_disagree(engine: str, op: str) -> None:
    """Two ways that halve a size in different manners agree for even sizes only."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    extra = {"axis": 1} if op == "Concat" else {}
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], **window),
        helper.make_node("AveragePool", ["x"], ["b"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node(op, ["a", "b"], ["y"], name="join", **extra),
    ]
    model = make_model(nodes, [tensor("x", TensorProto.FLOAT, [1, 2, "h", "w"])], [untyped("y")])
    program = openxrt.load(model, engines=with_native(engine))
    for size in (8, 12, 16):
        program(np.ones((1, 2, size, size), np.float32))
    with pytest.raises(openxrt.Error, match=r"join|MatMul"):
        program(np.ones((1, 2, 9, 9), np.float32))
    program(np.ones((1, 2, 10, 10), np.float32))


def positions(*, table: int) -> bytes:
    """y = table[0 … n - 1 of x's n rows], as models with learned positions have it."""
    return make_model(
        [
            helper.make_node("Shape", ["x"], ["n"], start=0, end=1),
            helper.make_node("Squeeze", ["n"], ["rows"]),
            helper.make_node("Range", ["zero", "rows", "one"], ["at"]),
            helper.make_node("Gather", ["table", "at"], ["y"], name="embed"),
        ],
        [tensor("x", TensorProto.FLOAT, ["n", 3])],
        [tensor("y", TensorProto.FLOAT, ["n", 3])],
        [
            numpy_helper.from_array(np.ones((table, 3), np.float32), "table"),
            numpy_helper.from_array(np.array(0), "zero"),
            numpy_helper.from_array(np.array(1), "one"),
        ],
    )


@pytest.mark.parametrize("table", [4, 5000])
@pytest.mark.parametrize("engine", ENGINES)
def test_indices_that_follow_from_sizes(engine: str, table: int) -> None:
    """One row more than the table has is an error, at whatever sizes a program ran before."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    program = openxrt.load(positions(table=table), engine=engine, strict=True)
    for rows in (table, 1, table):
        x = np.zeros((rows, 3), np.float32)
        np.testing.assert_array_equal(program(x), np.ones((rows, 3), np.float32))
        with pytest.raises(openxrt.Error, match=rf"(?s)'embed'.*\b{table}\b"):
            program(np.zeros((table + 1, 3), np.float32))


@pytest.mark.parametrize("engine", ENGINES)
def test_features_count_from_the_first(engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    model = make_model(
        [helper.make_node("ArrayFeatureExtractor", ["x", "i"], ["y"], "pick", domain="ai.onnx.ml")],
        [tensor("x", TensorProto.FLOAT, [4, 3]), tensor("i", TensorProto.INT64, [1, 2])],
        [untyped("y")],
        domains={"ai.onnx.ml": 5},
    )
    program = openxrt.load(model, engine=with_native(engine))
    np.testing.assert_array_equal(program(TABLE, np.array([[2, 0]])), TABLE[:, [2, 0]])
    for wrong in (3, -1):
        with pytest.raises(openxrt.Error, match=rf"'pick'.*index {wrong}"):
            program(TABLE, np.array([[0, wrong]]))


@pytest.mark.parametrize("engine", ENGINES)
def test_positions_count_from_the_first(engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    model = make_model(
        [helper.make_node("RotaryEmbedding", ["x", "cos", "sin", "at"], ["y"], "turn")],
        [tensor("x", TensorProto.FLOAT, [1, 1, 2, 4]), tensor("at", TensorProto.INT64, [1, 2])],
        [tensor("y", TensorProto.FLOAT, [1, 1, 2, 4])],
        [numpy_helper.from_array(np.ones((5, 2), np.float32), name) for name in ("cos", "sin")],
        opset=23,
    )
    program = openxrt.load(model, engine=with_native(engine))
    x = np.ones((1, 1, 2, 4), np.float32)
    np.testing.assert_array_equal(program(x, np.array([[4, 0]])), [[[[0, 0, 2, 2]] * 2]])
    for wrong in (5, -1):
        with pytest.raises(openxrt.Error, match=rf"'turn'.*{wrong}"):
            program(x, np.array([[0, wrong]]))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("open_sizes", [False, True])
def test_rows_that_are_written_fit(engine: str, open_sizes: bool) -> None:
    """A row to begin at is inside of the cache, and so is where the last one ends."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    n, m = ("n", "m") if open_sizes else (4, 2)
    model = make_model(
        [helper.make_node("TensorScatter", ["cache", "new", "at"], ["y"], "write")],
        [
            tensor("cache", TensorProto.FLOAT, [1, n, 1]),
            tensor("new", TensorProto.FLOAT, [1, m, 1]),
            tensor("at", TensorProto.INT64, [1]),
        ],
        [tensor("y", TensorProto.FLOAT, [1, n, 1])],
        opset=24,
    )
    program = openxrt.load(model, engine=with_native(engine))
    cache, new = np.zeros((1, 4, 1), np.float32), np.ones((1, 2, 1), np.float32)
    written = program(cache, new, np.array([2]))
    np.testing.assert_array_equal(written.ravel(), [0, 0, 1, 1])
    for wrong in (3, -1):
        with pytest.raises(openxrt.Error, match=rf"'write'.*{wrong}"):
            program(cache, new, np.array([wrong]))


@pytest.mark.parametrize("engine", ENGINES)
def test_indices_out_of_range_in_a_branch(engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    branches = {}
    for name, op in {"then_branch": "Neg", "else_branch": "Identity"}.items():
        nodes = [
            helper.make_node("Gather", ["table", "ids"], ["rows"], "embed"),
            helper.make_node(op, ["rows"], [name]),
        ]
        branches[name] = helper.make_graph(nodes, name, [], [untyped(name)])
    model = make_model(
        [helper.make_node("If", ["c"], ["y"], **branches)],
        [tensor("c", TensorProto.BOOL, []), tensor("ids", TensorProto.INT64, [2])],
        [tensor("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(TABLE, "table")],
    )
    program = openxrt.load(model, engine=with_native(engine))
    np.testing.assert_array_equal(program(np.array(True), np.array([0, 3])), -TABLE[[0, 3]])
    with pytest.raises(openxrt.Error, match=r"4 is outside an axis of size 4"):
        program(np.array(False), np.array([1, 4]))


@pytest.mark.parametrize("engine", ENGINES)
def test_wrong_constants_in_a_branch(engine: str) -> None:
    """They are an error where the branch runs, and no other."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    branches = {}
    for name, index in {"then_branch": 3, "else_branch": 4}.items():
        constant = numpy_helper.from_array(np.array([[index]]), "at")
        nodes = [helper.make_node("GatherND", ["table", "at"], [name], "embed")]
        branches[name] = helper.make_graph(nodes, name, [], [untyped(name)], [constant])
    model = make_model(
        [helper.make_node("If", ["c"], ["y"], **branches)],
        [tensor("c", TensorProto.BOOL, []), tensor("table", TensorProto.FLOAT, [4, 3])],
        [tensor("y", TensorProto.FLOAT, [1, 3])],
    )
    program = openxrt.load(model, engine=with_native(engine))
    np.testing.assert_array_equal(program(np.array(True), TABLE), TABLE[[3]])
    with pytest.raises(openxrt.Error, match=r"4 is outside an axis of size 4|index = 4"):
        program(np.array(False), TABLE)


def picking_loop(turns: int | None) -> bytes:
    """y: the sum of table[i] over the turns, i the turn, or where their count is an input, the
    state of the loop, which begins at `first` and is doubled."""
    at = "turn" if turns is not None else "at"
    nodes = [
        helper.make_node("Gather", ["table", at], ["row"], "embed"),
        helper.make_node("Add", ["sum", "row"], ["sum_after"]),
        helper.make_node("Add", ["at", "at"], ["at_after"]),
        helper.make_node("Identity", ["go"], ["go_after"]),
    ]
    state = [tensor("at", TensorProto.INT64, []), tensor("sum", TensorProto.FLOAT, [3])]
    given = [tensor("turn", TensorProto.INT64, []), tensor("go", TensorProto.BOOL, []), *state]
    after = [tensor("go_after", TensorProto.BOOL, []), tensor("at_after", TensorProto.INT64, [])]
    after.append(tensor("sum_after", TensorProto.FLOAT, [3]))
    body = helper.make_graph(nodes, "body", given, after)
    constants = [numpy_helper.from_array(np.zeros(3, np.float32), "zeros")]
    inputs = [tensor("table", TensorProto.FLOAT, [4, 3]), tensor("first", TensorProto.INT64, [])]
    if turns is None:
        inputs.append(tensor("turns", TensorProto.INT64, []))
    else:
        constants.append(numpy_helper.from_array(np.array(turns), "turns"))
    loop = helper.make_node("Loop", ["turns", "", "first", "zeros"], ["", "y"], body=body)
    results = [tensor("y", TensorProto.FLOAT, [3])]
    return make_model([loop], inputs, results, constants)


@pytest.mark.parametrize("engine", ENGINES)
def test_indices_that_a_loop_computes(engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    program = openxrt.load(picking_loop(None), engine=with_native(engine))
    found = program(TABLE, np.array(1), np.array(2))
    np.testing.assert_array_equal(found, TABLE[1] + TABLE[2])
    with pytest.raises(openxrt.Error, match=r"4 is outside an axis of size 4"):
        program(TABLE, np.array(1), np.array(3))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_loop_over_rows(engine: str) -> None:
    """Turns that are within the axis are no reason to refuse the loop; those beyond are seen."""
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    program = openxrt.load(picking_loop(4), engine=with_native(engine))
    np.testing.assert_array_equal(program(TABLE, np.array(0)), TABLE.sum(0))
    if engine in ("native", "xla"):
        assert {launch["engine"] for launch in program.explain()["launches"]} == {engine}
    with pytest.raises(openxrt.Error, match=r"4 is outside an axis of size 4"):
        openxrt.load(picking_loop(5), engine=with_native(engine))(TABLE, np.array(0))
