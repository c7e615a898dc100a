# SPDX-License-Identifier: Apache-2.0
"""What bounds a model of strangers: memory, nodes and time, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import openxrt
import pytest
from doubling import OPSETS, doubling_functions
from onnx import TensorProto, helper
from process_growth import PRINT_PEAK
from small_models import make_model, tensor, untyped, usable

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
ENGINES = ("native", "openvino,native", "xla,native", "onnxruntime,native")


def ints(name: str, values: list[int], shape: list[int] | None = None) -> onnx.TensorProto:
    return helper.make_tensor(name, INT64, [len(values)] if shape is None else shape, values)


def constant(name: str, values: list[int]) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=ints(name, values))


def scalar_constant(name: str, value: int) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=ints(name, [value], []))


X = tensor("x", FLOAT, [1])
REDUCED = tensor("y", FLOAT, [])


def summed(nodes: list[onnx.NodeProto], value: str) -> bytes:
    """y = x + the sum of `value`, so that the outcome is small."""
    nodes = [
        *nodes,
        helper.make_node("Cast", [value], ["cast"], to=FLOAT),
        helper.make_node("ReduceSum", ["cast"], ["sum"], keepdims=0, name="sum"),
        helper.make_node("ReduceSum", ["x"], ["own"], keepdims=0),
        helper.make_node("Add", ["sum", "own"], ["y"], name="add"),
    ]
    return make_model(nodes, [X], [REDUCED])


def doubled(count: int) -> list[onnx.NodeProto]:
    nodes = [constant("d0", list(range(2)))]
    for i in range(count):
        nodes.append(helper.make_node("Concat", [f"d{i}", f"d{i}"], [f"d{i + 1}"], axis=0))
    return nodes


# Files of bytes that ask for gigabytes.
BOMBS: dict[str, bytes] = {
    "ConstantOfShape": summed(
        [constant("s", [40000, 40000]), helper.make_node("ConstantOfShape", ["s"], ["v"])], "v"
    ),
    "Expand": summed(
        [
            constant("one", [1]),
            constant("s", [40000, 40000]),
            helper.make_node("Expand", ["one", "s"], ["v"]),
        ],
        "v",
    ),
    "Range": summed(
        [
            scalar_constant("a", 0),
            scalar_constant("b", 2_000_000_000),
            scalar_constant("c", 1),
            helper.make_node("Range", ["a", "b", "c"], ["v"]),
        ],
        "v",
    ),
    "EyeLike": summed(
        [
            constant("s", [40000, 40000]),
            helper.make_node("ConstantOfShape", ["s"], ["z"]),
            helper.make_node("EyeLike", ["z"], ["v"]),
        ],
        "v",
    ),
    "Tile": summed(
        [
            constant("one", [1, 2, 3, 4]),
            constant("s", [500_000_000]),
            helper.make_node("Tile", ["one", "s"], ["v"]),
        ],
        "v",
    ),
    "Pad": summed(
        [
            constant("one", [1]),
            constant("s", [1_000_000_000, 1_000_000_000]),
            helper.make_node("Pad", ["one", "s"], ["v"]),
        ],
        "v",
    ),
    "Concat": summed(doubled(31), f"d{31}"),
}

WORKER = """
import resource, sys
import numpy as np
limit = 4 << 30
import openxrt
openxrt.load  # engines are loaded before the bound
source, engines = open(sys.argv[1], "rb").read(), sys.argv[2].split(",")
resource.setrlimit(resource.RLIMIT_AS, (limit * 4, limit * 4))
try:
    program = openxrt.load(source, engine=engines, cache_dir="", max_memory_bytes=256 << 20,
                           deadline_s=30)
    program(np.zeros(1, np.float32))
    print("ran")
except openxrt.ResourceError as error:
    print("bounded:", error)
"""


def outcome(model: bytes, engines: str, folder: Path) -> list[str]:
    path = folder / "model.onnx"
    path.write_bytes(model)
    done = subprocess.run(
        [sys.executable, "-c", WORKER + PRINT_PEAK, str(path), engines],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("engines", ENGINES)
@pytest.mark.parametrize("kind", sorted(BOMBS))
def test_small_files_take_no_gigabytes(kind: str, engines: str, tmp_path: Path) -> None:
    first, *rest = outcome(BOMBS[kind], engines, tmp_path)
    assert first == "ran" or (first.startswith("bounded:") and "max_memory_bytes" in first)
    assert len(first) < 1000
    assert int(rest[-1]) < 2048 << 10  # KiB, of which the engines' libraries take most


def test_the_error_names_the_node_and_both_figures() -> None:
    model = make_model(
        [helper.make_node("Expand", ["x", "s"], ["y"], name="grow")],
        [tensor("x", FLOAT, [1]), tensor("s", INT64, [2])],
        [tensor("y", FLOAT, ["a", "b"])],
    )
    program = openxrt.load(model, engine="native", max_memory_bytes=1 << 20)
    x = np.ones(1, np.float32)
    assert program(x, np.array([10, 10])).shape == (10, 10)
    with pytest.raises(openxrt.ResourceError, match=r"'grow' \(Expand\).* 40000000 bytes.*1048576"):
        program(x, np.array([1000, 10000]))
    assert program(x, np.array([10, 10])).shape == (10, 10)


def test_memory_of_kept_results_is_the_callers() -> None:
    model = make_model(
        [helper.make_node("Neg", ["x"], ["y"])],
        [tensor("x", FLOAT, ["n"])],
        [tensor("y", FLOAT, ["n"])],
    )
    program = openxrt.load(model, engine="native", max_memory_bytes=1 << 20)
    x = np.ones(200_000, np.float32)
    results = [program(x) for _ in range(20)]
    assert all((result == -1).all() for result in results)


def test_values_between_steps_count() -> None:
    """Every value is within the bound, all that live at once are not."""
    nodes = [helper.make_node("Elu", ["x"], [f"v{i}"], alpha=float(i)) for i in range(8)]
    nodes.append(helper.make_node("Concat", [f"v{i}" for i in range(8)], ["c"], axis=0))
    nodes.append(helper.make_node("ReduceSum", ["c"], ["y"], keepdims=0))
    model = make_model(nodes, [tensor("x", FLOAT, [100_000])], [tensor("y", FLOAT, [])])
    x = np.zeros(100_000, np.float32)
    assert openxrt.load(model, engine="native", max_memory_bytes=8 << 20)(x) == 0
    with pytest.raises(openxrt.ResourceError, match="max_memory_bytes"):
        openxrt.load(model, engine="native", max_memory_bytes=2 << 20)(x)


def doubling_model(depth: int) -> bytes:
    graph = helper.make_graph(
        [helper.make_node(f"F{depth - 1}", ["x"], ["y"], domain="f")],
        "g",
        [tensor("x", FLOAT, [1])],
        [tensor("y", FLOAT, [1])],
    )
    model = helper.make_model(
        graph, opset_imports=OPSETS, functions=doubling_functions(depth), ir_version=10
    )
    return model.SerializeToString()


def test_functions_that_double_are_bounded() -> None:
    start = time.monotonic()
    with pytest.raises(openxrt.ResourceError, match="nodes"):
        openxrt.load(doubling_model(30), engine="native")
    assert time.monotonic() - start < 20


def test_max_nodes_counts_functions_and_sub_graphs() -> None:
    openxrt.load(doubling_model(4), engine="native", max_nodes=100)
    with pytest.raises(openxrt.ResourceError, match="more than 10 nodes"):
        openxrt.load(doubling_model(5), engine="native", max_nodes=10)
    body = [helper.make_node("Neg", ["x" if i == 0 else f"r{i}"], [f"r{i + 1}"]) for i in range(9)]
    branch = helper.make_graph(body, "b", [], [tensor("r9", FLOAT, [1])])
    model = make_model(
        [helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)],
        [tensor("c", BOOL, []), tensor("x", FLOAT, [1])],
        [tensor("y", FLOAT, [1])],
    )
    openxrt.load(model, engine="native", max_nodes=19)
    with pytest.raises(openxrt.ResourceError, match="more than 18 nodes"):
        openxrt.load(model, engine="native", max_nodes=18)


def endless_loop() -> bytes:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["c"], ["go"]),
            helper.make_node("Sin", ["s"], ["t"]),
        ],
        "body",
        [tensor("i", INT64, []), tensor("c", BOOL, []), tensor("s", FLOAT, [4])],
        [tensor("go", BOOL, []), tensor("t", FLOAT, [4])],
    )
    return make_model(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body, name="spin")],
        [tensor("n", INT64, []), tensor("x", FLOAT, [4])],
        [tensor("y", FLOAT, [4])],
    )


@pytest.mark.parametrize("engines", ["native", "openvino,native"])
def test_a_run_ends_at_its_time(engines: str) -> None:
    program = openxrt.load(endless_loop(), engine=engines.split(","), deadline_s=120)
    x = np.zeros(4, np.float32)
    few, many = np.array(3), np.array(2**31 - 1)
    assert program.run({"n": few, "x": x})["y"].shape == (4,)
    start = time.monotonic()
    with pytest.raises(openxrt.ResourceError, match=r"spin.*longer than its limit of 0\.5 s"):
        program.run({"n": many, "x": x}, timeout=0.5)
    with pytest.raises(openxrt.ResourceError, match=r"0\.25 s"):
        program(many, x, timeout=0.25)
    assert time.monotonic() - start < 10
    assert program.run({"n": few, "x": x}, timeout=60)["y"].shape == (4,)


def pool(window: int, side: int) -> bytes:
    pads = [window - 1] * 4
    node = helper.make_node(
        "AveragePool", ["x"], ["y"], kernel_shape=[window] * 2, pads=pads, name="wide"
    )
    return make_model([node], [tensor("x", FLOAT, [1, 1, side, side])], [untyped("y")])


def triangles() -> bytes:
    node = helper.make_node("Einsum", ["a", "a", "a"], ["y"], equation="ij,jk,ki->", name="sums")
    return make_model([node], [tensor("a", FLOAT, [4000, 4000])], [untyped("y")])


@pytest.mark.parametrize(
    ("model", "name"), [(pool(1800, 1900), "wide"), (triangles(), "sums")], ids=["pool", "einsum"]
)
def test_a_long_kernel_ends_at_its_time_on_one_thread(model: bytes, name: str) -> None:
    program = openxrt.load(model, engine="native", num_threads=1)
    (given,) = program.inputs
    x = np.ones([int(n) for n in given.shape], np.float32)
    start = time.monotonic()
    with pytest.raises(openxrt.ResourceError, match=rf"{name}.*longer than its limit of 1\.5 s"):
        program.run({given.name: x}, timeout=1.5)
    assert time.monotonic() - start < 8


@pytest.mark.parametrize("engine", ["native", "openvino", "onnxruntime"])
def test_what_cannot_end_in_time_is_not_begun(engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    program = openxrt.load(
        pool(3000, 6000), engine=list(dict.fromkeys([engine, "native"])), num_threads=1
    )
    start = time.monotonic()
    with pytest.raises(openxrt.ResourceError, match=r"'wide' \(AveragePool\), takes .* s at least"):
        program.run({"x": np.ones((1, 1, 6000, 6000), np.float32)}, timeout=5)
    assert time.monotonic() - start < 4


def test_deadline_of_the_program_holds_for_runs() -> None:
    program = openxrt.load(endless_loop(), engine="native", deadline_s=0.5)
    with pytest.raises(openxrt.ResourceError, match=r"0\.5 s"):
        program(np.array(2**31 - 1), np.zeros(4, np.float32))


def test_long_steps_look_at_the_clock() -> None:
    """One elementwise step of seconds."""
    nodes = [helper.make_node("Elu", ["x"], ["e"])]
    for i in range(400):
        nodes.append(helper.make_node("Erf", ["e" if i == 0 else f"v{i}"], [f"v{i + 1}"]))
    model = make_model(
        nodes, [tensor("x", FLOAT, [20_000_000])], [tensor("v400", FLOAT, [20_000_000])]
    )
    program = openxrt.load(model, engine="native")
    start = time.monotonic()
    with pytest.raises(openxrt.ResourceError, match=r"0\.2 s"):
        program(np.ones(20_000_000, np.float32), timeout=0.2)
    assert time.monotonic() - start < 5


def test_loading_ends_at_its_time() -> None:
    nodes = [
        helper.make_node("Elu", ["x" if i == 0 else f"v{i}"], [f"v{i + 1}"], alpha=float(i))
        for i in range(100_000)
    ]
    model = make_model(nodes, [tensor("x", FLOAT, [4])], [tensor("v100000", FLOAT, [4])])
    start = time.monotonic()
    with pytest.raises(openxrt.ResourceError, match="loading takes longer than its limit"):
        openxrt.load(model, engine="native", deadline_s=0.2)
    assert time.monotonic() - start < 10


# --- files of many small messages ---


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, content: bytes) -> bytes:
    """A field of the wire format that has a length."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def with_graph(graph: bytes, beside: bytes = b"") -> bytes:
    return b"\x08\x0a" + field(7, graph) + field(8, b"\x10\x15") + beside


COUNT = 3_000_000
# What there is too many of, and the model. Numbers are those of onnx.proto.
SWARMS = {
    "GraphProto.node": with_graph(field(1, b"") * COUNT),
    "GraphProto.initializer": with_graph(field(5, b"") * COUNT),
    "GraphProto.sparse_initializer": with_graph(field(15, b"") * COUNT * 2),
    "GraphProto.input": with_graph(field(11, b"") * COUNT * 2),
    "GraphProto.value_info": with_graph(field(13, b"") * COUNT * 2),
    "GraphProto.metadata_props": with_graph(field(16, b"") * COUNT * 2),
    "ModelProto.metadata_props": with_graph(b"", field(14, b"") * COUNT * 2),
    "ModelProto.functions": with_graph(b"", field(25, b"") * COUNT),
    "ModelProto.training_info": with_graph(b"", field(20, b"") * COUNT * 2),
    "NodeProto.input": with_graph(field(1, field(1, b"") * COUNT * 4)),
    "NodeProto.attribute": with_graph(field(1, field(5, b"") * COUNT)),
    "AttributeProto.tensors": with_graph(field(1, field(5, field(10, b"") * COUNT))),
    "AttributeProto.strings": with_graph(field(1, field(5, field(9, b"") * COUNT * 4))),
    "TensorProto.string_data": with_graph(field(5, field(6, b"") * COUNT * 4)),
    "TensorShapeProto.dim": with_graph(
        field(11, field(2, field(1, field(2, field(1, b"") * COUNT * 2))))
    ),
    "fields that ONNX does not know": with_graph(field(1, field(15, b"") * COUNT * 4)),
}

SWARM_WORKER = """
import sys, time
import openxrt
source = open(sys.argv[1], "rb").read()
start = time.monotonic()
try:
    openxrt.load(source, engine="native", cache_dir="", max_memory_bytes=64 << 20)
    print("loaded")
except openxrt.ResourceError as error:
    print("bounded:", error)
print(time.monotonic() - start)
"""


@pytest.mark.parametrize("what", sorted(SWARMS))
def test_messages_of_a_file_are_bounded(what: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(SWARMS[what])
    done = subprocess.run(
        [sys.executable, "-c", SWARM_WORKER + PRINT_PEAK, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    first, seconds, *rest = done.stdout.splitlines()
    assert first.startswith("bounded: ONNX model: its messages take more than ")
    assert "24 times the file's size and max_memory_bytes" in first
    assert f" or more {what}" in first
    assert float(seconds) < 3
    assert int(rest[-1]) < 300 << 10  # KiB, with Python and the file


def test_nodes_of_a_file_are_counted_before_it_is_parsed() -> None:
    start = time.monotonic()
    with pytest.raises(openxrt.ResourceError, match="more than 1000 nodes"):
        openxrt.load(SWARMS["GraphProto.node"], engine="native", max_nodes=1000)
    assert time.monotonic() - start < 1


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), "soon"])
def test_wrong_timeouts(wrong: object) -> None:
    program = openxrt.load(endless_loop(), engine="native")
    with pytest.raises(openxrt.InvalidArgument, match="timeout"):
        program.run({"n": np.array(1), "x": np.zeros(4, np.float32)}, timeout=wrong)


def test_an_input_may_be_called_timeout() -> None:
    model = make_model(
        [helper.make_node("Neg", ["timeout"], ["y"])],
        [tensor("timeout", FLOAT, [2])],
        [tensor("y", FLOAT, [2])],
    )
    program = openxrt.load(model, engine="native")
    assert (program(timeout=np.ones(2, np.float32)) == -1).all()


def test_others_run_on_while_one_is_given_up() -> None:
    program = openxrt.load(endless_loop(), engine="native")
    x = np.linspace(0, 1, 4, dtype=np.float32)
    wanted = program(np.array(2), x)
    right: list[bool] = []

    def serve() -> None:
        for _ in range(200):
            right.append(bool((program(np.array(2), x) == wanted).all()))

    threads = [threading.Thread(target=serve) for _ in range(2)]
    for thread in threads:
        thread.start()
    with pytest.raises(openxrt.ResourceError):
        program(np.array(2**31 - 1), x, timeout=0.5)
    for thread in threads:
        thread.join()
    assert len(right) == 400
    assert all(right)
