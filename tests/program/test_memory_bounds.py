# SPDX-License-Identifier: Apache-2.0
"""`max_memory_bytes` of values that only a run knows, on every engine; of strings; of memory that
workers share; and `deadline_s` of loops that an engine could take whole."""

from __future__ import annotations

import functools
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from process_growth import peak_kib
from small_models import make_model, tensor, untyped, usable

FLOAT, INT64, BOOL, STRING = (
    TensorProto.FLOAT,
    TensorProto.INT64,
    TensorProto.BOOL,
    TensorProto.STRING,
)
MIB = 1 << 20
ENGINES = ("native", "openvino", "xla", "tvm")
ISOLATED = ("openvino", "xla")

# How a run's input makes a value of 2^28 bytes: the node called "grow", what it reads, the input.
Growth = tuple[list[onnx.NodeProto], list[onnx.TensorProto], np.ndarray]


def ints(name: str, *values: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def grown_by(op: str, inputs: list[str], sizes: list[int], **attributes: object) -> Growth:
    node = helper.make_node(op, inputs, ["v"], name="grow", **attributes)
    constants = [
        numpy_helper.from_array(np.ones((1, 1, 2, 2), np.float32), "c4"),
        numpy_helper.from_array(np.ones((1, 1), np.float32), "c2"),
    ]
    return [node], [c for c in constants if c.name in inputs], np.array(sizes, np.int64)


GROWN: dict[str, Callable[[], Growth]] = {
    "ConstantOfShape": lambda: grown_by("ConstantOfShape", ["s"], [8192, 8192]),
    "Expand": lambda: grown_by("Expand", ["c2", "s"], [8192, 8192]),
    "Tile": lambda: grown_by("Tile", ["c2", "s"], [8192, 8192]),
    "Pad": lambda: grown_by("Pad", ["c2", "s"], [0, 0, 8191, 8191]),
    "Resize": lambda: grown_by("Resize", ["c4", "", "", "s"], [1, 1, 8192, 8192]),
}


def model_of(growth: Growth) -> bytes:
    """y = the sum of x and of all elements of what grows."""
    nodes, constants, sizes = growth
    nodes = [
        *nodes,
        helper.make_node("ReduceSum", ["v"], ["sum"], keepdims=0),
        helper.make_node("Add", ["sum", "x"], ["y"]),
    ]
    inputs = [tensor("s", INT64, [len(sizes)]), tensor("x", FLOAT, [1])]
    return make_model(nodes, inputs, [tensor("y", FLOAT, [1])], constants)


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", sorted(GROWN))
def test_sizes_of_a_run_are_bounded(kind: str, engine: str, isolated: bool) -> None:
    if not usable(engine) or (isolated and engine not in ISOLATED):
        pytest.skip(f"{engine} is not to be had so")
    growth = GROWN[kind]()
    program = openxrt.load(
        model_of(growth),
        engine=list(dict.fromkeys([engine, "native"])),
        isolation=[engine] if isolated else [],
        max_memory_bytes=64 * MIB,
        cache_dir="",
    )
    x = np.ones(1, np.float32)
    before = peak_kib()
    with pytest.raises(openxrt.ResourceError, match=r"'grow'.*max_memory_bytes"):
        program.run({"s": growth[2], "x": x})
    assert peak_kib() - before < 128 << 10
    small = np.where(growth[2] > 1000, 4, growth[2])
    assert np.isfinite(program.run({"s": small, "x": x})["y"]).all()


@pytest.mark.parametrize("op", ["Add", "MatMul", "Concat"])
@pytest.mark.parametrize("engine", [*ENGINES, "onnxruntime"])
def test_what_open_sizes_make_is_bounded(engine: str, op: str) -> None:
    """No operand gives the size: it follows from those of the inputs."""
    if not usable(engine):
        pytest.skip(f"{engine} is not usable here")
    nodes = [helper.make_node(op, ["x", "w"], ["v0"], name="grow")]
    if op == "Concat":
        nodes = [
            helper.make_node(op, [name, name], [f"v{k}"], name="grow" * (k > 10), axis=0)
            for k, name in enumerate(["x", *(f"v{k}" for k in range(24))])
        ]
    nodes.append(helper.make_node("ReduceMax", [nodes[-1].output[0]], ["y"], keepdims=0))
    program = openxrt.load(
        make_model(
            nodes,
            [tensor("x", FLOAT, ["a", 1]), tensor("w", FLOAT, [1, "b"])],
            [tensor("y", FLOAT, [])],
        ),
        engine=list(dict.fromkeys([engine, "native"])),
        max_memory_bytes=64 * MIB,
        cache_dir="",
    )
    before = peak_kib()
    row = np.ones(8192, np.float32)
    with pytest.raises(openxrt.ResourceError, match=r"'grow.*max_memory_bytes"):
        program.run({"x": row[:, None], "w": row[None, :]})
    assert peak_kib() - before < 128 << 10
    if op != "Concat":
        assert program.run({"x": row[:4, None], "w": row[None, :4]})["y"] == (
            2 if op == "Add" else 1
        )


@pytest.mark.parametrize("size", ["n", 1024])
@pytest.mark.parametrize("engine", [*ENGINES, "onnxruntime"])
def test_values_alive_at_once_are_bounded(engine: str, size: str | int) -> None:
    """Each has a sixteenth of the bound; forty are read by the last node."""
    if not usable(engine):
        pytest.skip(f"{engine} is not usable here")
    nodes = [helper.make_node("MatMul", ["x", "x"], ["v0"])]
    nodes += [helper.make_node("MatMul", ["x", f"v{k}"], [f"v{k + 1}"]) for k in range(40)]
    values = [f"v{k}" for k in range(41)]
    nodes.append(helper.make_node("Max", values, ["all"], name="last"))
    nodes.append(helper.make_node("ReduceMax", ["all"], ["y"], keepdims=0))
    model = make_model(nodes, [tensor("x", FLOAT, [size, size])], [tensor("y", FLOAT, [])])
    load = functools.partial(
        openxrt.load, engine=list(dict.fromkeys([engine, "native"])), cache_dir=""
    )
    x = np.eye(1024, dtype=np.float32)
    before = peak_kib()
    with pytest.raises(openxrt.ResourceError, match=r"max_memory_bytes"):
        load(model, max_memory_bytes=64 * MIB).run({"x": x})
    assert peak_kib() - before < 160 << 10
    assert load(model, max_memory_bytes=1024 * MIB).run({"x": x})["y"] == 1


def test_what_a_library_compiles_is_bounded_before() -> None:
    """OpenVINO takes 2 GiB while it compiles the nine windows of these 50 MB."""
    if not usable("openvino"):
        pytest.skip("openvino is not usable here")
    pads = {"pads": [1, 2**20, 1, 1], "strides": [2, 2]}
    model = make_model(
        [
            helper.make_node(
                "MaxpoolWithMask",
                ["x", "m"],
                ["y"],
                domain="com.microsoft",
                kernel_shape=[3, 3],
                **pads,
            )
        ],
        [tensor("x", FLOAT, [2, 3, 8, 8]), tensor("m", TensorProto.INT32, [1, 1, 8, 8])],
        [untyped("y")],
        domains={"com.microsoft": 1},
    )
    before = peak_kib()
    with pytest.raises(openxrt.ResourceError, match=r"openvino.*max_memory_bytes"):
        openxrt.load(model, engine=["openvino", "native"], cache_dir="", max_memory_bytes=256 * MIB)
    assert peak_kib() - before < 256 << 10


@pytest.mark.parametrize("engine", ["openvino", "xla", "onnxruntime"])
def test_products_within_einsum_are_bounded(engine: str) -> None:
    """Two of the three operands have a product of 400 MB, and the result 40 KB."""
    if not usable(engine):
        pytest.skip(f"{engine} is not usable here")
    model = make_model(
        [helper.make_node("Einsum", ["a", "b", "b"], ["y"], equation="i,j,j->i")],
        [tensor("a", FLOAT, ["i"]), tensor("b", FLOAT, ["j"])],
        [untyped("y")],
    )
    program = openxrt.load(
        model, engine=[engine, "native"], cache_dir="", max_memory_bytes=64 * MIB
    )
    ones = np.ones(10_000, np.float32)
    before = peak_kib()
    try:
        y = program.run({"a": ones, "b": ones})["y"]
    except openxrt.ResourceError as error:
        assert engine == "xla"  # which tells of it before
        assert "max_memory_bytes" in str(error)
    else:
        np.testing.assert_array_equal(y, np.full(10_000, 10_000, np.float32))
    assert peak_kib() - before < 128 << 10


@pytest.mark.parametrize("shape", [(8_000_000,), (8_000_000, 1), (2, 4_000_000)])
def test_the_greatest_of_a_long_axis_takes_little(shape: tuple[int, ...]) -> None:
    """OpenVINO makes sixteen rows of one, and takes 9 s for a column."""
    if not usable("openvino"):
        pytest.skip("openvino is not usable here")
    axis = int(np.argmax(shape))
    model = make_model(
        [helper.make_node("ArgMax", ["x"], ["y"], axis=axis)],
        [tensor("x", FLOAT, [f"n{i}" for i in range(len(shape))])],
        [tensor("y", INT64, None)],
    )
    program = openxrt.load(model, engine=["openvino", "native"], cache_dir="", deadline_s=5)
    x = np.random.default_rng(0).random(shape, np.float32)
    before = peak_kib()
    y = program.run({"x": x})["y"]
    assert peak_kib() - before < 128 << 10
    np.testing.assert_array_equal(y, np.argmax(x, axis, keepdims=True))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int16", "float32", "int64"])
@pytest.mark.parametrize("engine", ENGINES)
def test_ranges_of_a_run_are_bounded(engine: str, dtype: str) -> None:
    """Their ends are numbers of the dtype, and the difference may be none."""
    if not usable(engine):
        pytest.skip(f"{engine} is not usable here")
    number = TensorProto.DataType.Value(dtype.upper() if dtype != "float32" else "FLOAT")
    kind = helper.tensor_dtype_to_np_dtype(number)
    step = kind.type(1 if dtype.startswith("int") else 2**-10)
    nodes = [
        helper.make_node("Range", ["a", "b", "c"], ["v"], name="grow"),
        helper.make_node("Size", ["v"], ["y"]),
    ]
    inputs = [tensor(name, number, []) for name in "abc"]
    program = openxrt.load(
        make_model(nodes, inputs, [tensor("y", INT64, [])], opset=27),
        engine=list(dict.fromkeys([engine, "native"])),
        max_memory_bytes=32 << 10,
        cache_dir="",
    )
    feeds = {"a": kind.type(-30000), "b": kind.type(30000), "c": step}
    with pytest.raises(openxrt.ResourceError, match=r"'grow'.*max_memory_bytes"):
        program.run({name: np.array(value) for name, value in feeds.items()})
    feeds = {"a": kind.type(1), "b": kind.type(5), "c": kind.type(2)}
    small = program.run({name: np.array(value) for name, value in feeds.items()})
    assert small["y"] == 2


def test_sparse_constants_are_bounded() -> None:
    values = helper.make_tensor("v", FLOAT, [1], [1.0])
    places = helper.make_tensor("i", INT64, [1], [5])
    sparse = helper.make_sparse_tensor(values, places, [40000, 40000])
    graph = helper.make_graph(
        [helper.make_node("ReduceSum", ["v"], ["y"], keepdims=0)],
        "g",
        [],
        [tensor("y", FLOAT, [])],
        sparse_initializer=[sparse],
    )
    opsets = [helper.make_opsetid("", 21)]
    content = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    with pytest.raises(openxrt.ResourceError, match=r"'v'.*\[40000,40000\]"):
        openxrt.load(content, engine="native", max_memory_bytes=64 * MIB)


# --- strings ---


def doubled_texts(count: int) -> bytes:
    """x, concatenated with itself again and again."""
    nodes = [
        helper.make_node(
            "StringConcat", [f"t{i}" if i else "x"] * 2, [f"t{i + 1}"], name=f"double{i}"
        )
        for i in range(count)
    ]
    ports = [tensor("x", STRING, [1])], [tensor(f"t{count}", STRING, [1])]
    return make_model(nodes, *ports)


def test_characters_are_bounded() -> None:
    x = np.array(["x" * 1000], object)
    program = openxrt.load(doubled_texts(20), engine="native", max_memory_bytes=16 * MIB)
    with pytest.raises(openxrt.ResourceError, match=r"'double1\d' .*a string.*max_memory_bytes"):
        program(x)
    program = openxrt.load(doubled_texts(10), engine="native", max_memory_bytes=4 * MIB)
    kept = [program(x) for _ in range(50)]  # what was handed out is the caller's
    assert all(len(result[0]) == 1000 << 10 for result in kept)


TEXT_OPS: dict[str, tuple[list[onnx.NodeProto], list[onnx.TensorProto]]] = {
    "Expand": ([helper.make_node("Expand", ["x", "n"], ["y"], name="grow")], [ints("n", 1000)]),
    "Tile": ([helper.make_node("Tile", ["x", "n"], ["y"], name="grow")], [ints("n", 1000)]),
    "Gather": (
        [helper.make_node("Gather", ["x", "n"], ["y"], name="grow")],
        [ints("n", *[0] * 1000)],
    ),
    "GatherElements": (
        [helper.make_node("GatherElements", ["x", "n"], ["y"], name="grow")],
        [ints("n", *[0] * 1000)],
    ),
    "Where": (
        [helper.make_node("Where", ["n", "x", "x"], ["y"], name="grow")],
        [numpy_helper.from_array(np.ones(1000, bool), "n")],
    ),
    "Concat": ([helper.make_node("Concat", ["x"] * 1000, ["y"], axis=0, name="grow")], []),
    "StringConcat": (
        [
            helper.make_node("Tile", ["short", "n"], ["many"]),
            helper.make_node("StringConcat", ["x", "many"], ["y"], name="grow"),
        ],
        [ints("n", 1000), helper.make_tensor("short", STRING, [1], [b"a"])],
    ),
    "Slice and Transpose": (
        [
            helper.make_node("Unsqueeze", ["x", "zero"], ["u"]),
            helper.make_node("Expand", ["u", "n"], ["y"], name="grow"),
        ],
        [ints("zero", 0), ints("n", 10, 100)],
    ),
}


@pytest.mark.parametrize("op", sorted(TEXT_OPS))
def test_texts_that_are_repeated_are_bounded(op: str) -> None:
    nodes, constants = TEXT_OPS[op]
    model = make_model(
        nodes, [tensor("x", STRING, [1])], [tensor("y", STRING, None)], constants, opset=21
    )
    program = openxrt.load(model, engine="native", max_memory_bytes=16 * MIB)
    assert np.asarray(program(np.array(["short"], object))).size == 1000
    with pytest.raises(openxrt.ResourceError, match=r"'grow' .*a string.*max_memory_bytes"):
        program(np.array(["x" * 100_000], object))
    assert np.asarray(program(np.array(["short"], object))).size == 1000


# --- memory that workers share ---


def test_shared_memory_is_bounded() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Elu", ["a"], ["b"], name="second"),
        helper.make_node("Sin", ["b"], ["y"], name="third"),
    ]
    model = make_model(
        nodes, [tensor("x", FLOAT, [MIB])], [tensor("y", FLOAT, [MIB])]
    )  # values of 4 MiB
    x = np.ones(MIB, np.float32)

    def load(bound: int) -> openxrt.Program:
        return openxrt.load(
            model,
            engine=["native@process", "native"],
            node_engines={"second": "native"},
            max_memory_bytes=bound,
            cache_dir="",
        )

    wide = load(64 * MIB)
    kept = [wide(x) for _ in range(20)]  # 80 MiB, the caller's
    assert all(np.allclose(result, np.sin(1), atol=1e-5) for result in kept)
    with pytest.raises(openxrt.ResourceError, match="max_memory_bytes"):
        load(6 * MIB)(x)


# --- loops ---


def loop_in_a_branch() -> bytes:
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["go"]), helper.make_node("Sin", ["s"], ["t"])],
        "body",
        [tensor("i", INT64, []), tensor("c", BOOL, []), tensor("s", FLOAT, [4])],
        [tensor("go", BOOL, []), tensor("t", FLOAT, [4])],
    )
    loop = helper.make_node("Loop", ["n", "", "x"], ["r"], body=body, name="spin")
    branches = {
        "then_branch": helper.make_graph([loop], "then", [], [tensor("r", FLOAT, [4])]),
        "else_branch": helper.make_graph(
            [helper.make_node("Neg", ["x"], ["e"])], "else", [], [tensor("e", FLOAT, [4])]
        ),
    }
    return make_model(
        [helper.make_node("If", ["b"], ["y"], name="choose", **branches)],
        [tensor("b", BOOL, []), tensor("n", INT64, []), tensor("x", FLOAT, [4])],
        [tensor("y", FLOAT, [4])],
    )


@pytest.mark.parametrize("engine", ["native", "openvino", "xla", "onnxruntime"])
def test_loops_end_at_their_deadline_on_every_engine(engine: str, tmp_path: Path) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    path = tmp_path / "model.onnx"
    path.write_bytes(loop_in_a_branch())
    engines = list(dict.fromkeys([engine, "native"]))
    cache = str(tmp_path / "cache")
    x = np.zeros(4, np.float32)
    few = {"b": np.array(True), "n": np.array(3), "x": x}
    free = openxrt.load(path, engine=engines, cache_dir=cache)
    assert free.run(few)["y"].shape == (4,)
    del free
    # A plan that was kept without a deadline has loops that nobody can end.
    program = openxrt.load(path, engine=engines, cache_dir=cache, deadline_s=1)
    assert program.run(few)["y"].shape == (4,)
    start = time.monotonic()
    with pytest.raises(openxrt.ResourceError, match="longer than its limit of 1 s"):
        program.run({**few, "n": np.array(2**31 - 1)})
    assert time.monotonic() - start < 20
    assert program.run(few)["y"].shape == (4,)


def grown_in_a_loop(
    nodes: list[onnx.NodeProto], first: list[onnx.NodeProto], state: onnx.ValueInfoProto, last: str
) -> bytes:
    """`nodes` make t of s in each turn; `first` makes s0; y is the size that `last` tells of r."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["go"]), *nodes],
        "body",
        [tensor("i", INT64, []), tensor("c", BOOL, []), renamed(state, "s")],
        [tensor("go", BOOL, []), renamed(state, "t")],
    )
    loop = helper.make_node("Loop", ["n", "", "s0"], ["r"], body=body, name="grow")
    count = helper.make_node(last, ["r"], ["y"])
    return make_model(
        [*first, loop, count], [tensor("n", INT64, []), X4], [tensor("y", INT64, [])], opset=21
    )


def renamed(value: onnx.ValueInfoProto, name: str) -> onnx.ValueInfoProto:
    copy = onnx.ValueInfoProto()
    copy.CopyFrom(value)
    copy.name = name
    return copy


X4 = tensor("x", FLOAT, [4])
FLOATS = helper.make_tensor_sequence_value_info("s", FLOAT, None)
STRINGS = helper.make_tensor_sequence_value_info("s", STRING, None)
NO_FLOATS = [helper.make_node("SequenceEmpty", [], ["s0"])]
NO_STRINGS = [helper.make_node("SequenceEmpty", [], ["s0"], dtype=STRING)]


def scanned_loop() -> bytes:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["go"]),
            helper.make_node("Sin", ["s"], ["t"]),
            helper.make_node("Identity", ["s"], ["part"]),
        ],
        "body",
        [tensor("i", INT64, []), tensor("c", BOOL, []), tensor("s", FLOAT, [4])],
        [tensor("go", BOOL, []), tensor("t", FLOAT, [4]), tensor("part", FLOAT, [4])],
    )
    nodes = [
        helper.make_node("Loop", ["n", "", "x"], ["r", "parts"], body=body, name="grow"),
        helper.make_node("Size", ["parts"], ["y"]),
    ]
    return make_model(nodes, [tensor("n", INT64, []), X4], [tensor("y", INT64, [])])


def text_of(characters: int) -> onnx.NodeProto:
    text = helper.make_tensor("text", STRING, [1], [b"x" * characters])
    return helper.make_node("Constant", [], ["text"], value=text)


# Small values without end: what each takes beside its elements is most of it.
SMALL_VALUES: dict[str, Callable[[], bytes]] = {
    "parts of a scanned output": scanned_loop,
    "tensors of a sequence": lambda: grown_in_a_loop(
        [
            helper.make_node("Sin", ["x"], ["v"]),
            helper.make_node("SequenceInsert", ["s", "v"], ["t"]),
        ],
        NO_FLOATS,
        FLOATS,
        "SequenceLength",
    ),
    "one tensor again and again": lambda: grown_in_a_loop(
        [helper.make_node("SequenceInsert", ["s", "e"], ["t"])],
        [*NO_FLOATS, helper.make_node("Elu", ["x"], ["e"])],
        FLOATS,
        "SequenceLength",
    ),
    "strings of a sequence": lambda: grown_in_a_loop(
        [
            text_of(24),
            helper.make_node("StringConcat", ["text", "text"], ["v"]),
            helper.make_node("SequenceInsert", ["s", "v"], ["t"]),
        ],
        NO_STRINGS,
        STRINGS,
        "SequenceLength",
    ),
    "a list of strings": lambda: grown_in_a_loop(
        [helper.make_node("Concat", ["s", "s"], ["t"], axis=0)],
        [text_of(24), helper.make_node("Identity", ["text"], ["s0"])],
        tensor("s", STRING, None),
        "Size",
    ),
    "a string": lambda: grown_in_a_loop(
        [helper.make_node("StringConcat", ["s", "s"], ["t"])],
        [text_of(24), helper.make_node("Identity", ["text"], ["s0"])],
        tensor("s", STRING, [1]),
        "Size",
    ),
}

SMALL_WORKER = """
import re, sys
import numpy as np
import openxrt
def status(key):
    return int(re.search(key + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1])
program = openxrt.load(sys.argv[1], engine="native", cache_dir="", max_memory_bytes=128 << 20)
feeds = {"n": np.array(3), "x": np.ones(4, np.float32)}
print(int(program.run(feeds)["y"]) > 0)
before = status("VmRSS")
try:
    program.run({**feeds, "n": np.array(2**31 - 1)})
except openxrt.ResourceError as error:
    print("bounded:", error)
print(status("VmHWM") - before)
print(int(program.run(feeds)["y"]) > 0)
"""


@pytest.mark.parametrize("kind", sorted(SMALL_VALUES))
def test_many_small_values_are_bounded(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(SMALL_VALUES[kind]())
    printed = subprocess.run(
        [sys.executable, "-c", SMALL_WORKER, path],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    ).stdout
    before, error, grown, after = printed.splitlines()
    assert before == after == "True"
    assert error.startswith("bounded:")
    assert "'grow' (Loop)" in error
    assert "max_memory_bytes" in error
    assert int(grown) < 144 << 10, f"{grown} KiB of a bound of 128 MiB"


RESIDENT = """
import re, sys
import numpy as np
import openxrt
def mapped():
    (found,) = re.findall(r"RssFile:\\s+(\\d+) kB", open("/proc/self/status").read())
    return int(found) >> 10
openxrt.load(sys.argv[2], engine="native", cache_dir="")  # the libraries are there
before = mapped()
program = openxrt.load(sys.argv[1], engine="native", cache_dir="")
y = program.run({"x": np.ones((2, 2048), np.float32)})["y"]
print(mapped() - before, float(y.sum()))
"""


def test_weights_of_other_files_are_not_held_beside_packed_ones(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    small, large = (rng.standard_normal((2048, n), np.float32) for n in (1, 8192))
    for name, weights in (("small", small), ("large", large)):
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            name,
            [tensor("x", FLOAT, ["rows", 2048])],
            [tensor("y", FLOAT, ["rows", weights.shape[1]])],
            [numpy_helper.from_array(weights, "w")],
        )
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]),
            tmp_path / f"{name}.onnx",
            save_as_external_data=True,
            location=f"{name}.data",
        )
    printed = subprocess.check_output(
        [sys.executable, "-c", RESIDENT, tmp_path / "large.onnx", tmp_path / "small.onnx"],
        text=True,
    )
    mapped, total = printed.split()
    assert int(mapped) < 16, f"{mapped} MiB of the file with 64 MiB of weights"
    assert float(total) == pytest.approx(2 * large.sum(dtype=np.float64), rel=1e-4)
