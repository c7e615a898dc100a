# SPDX-License-Identifier: Apache-2.0
"""Ops of users: schema, kernel in NumPy, statements for other engines (docs/guides/op.md)."""

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openxrt
import pytest
import torch
from build_tree import build_outside, call, xrt
from onnx import TensorProto, helper
from small_models import make_model, model_proto, tensor, untyped

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "custom_op"
DOMAIN = "test.ops"
X = np.array([-3, -0.25, 0.5, 2], np.float32)
names = (f"Op{n}" for n in itertools.count())  # an op cannot be registered twice in a process


def model(
    op: str,
    attributes: dict | None = None,
    *,
    inputs: tuple = ("x",),
    outputs: tuple = ("y",),
    shape: tuple = (4,),
    dtype: int = TensorProto.FLOAT,
    version: int = 1,
) -> bytes:
    """One node named "node" of an op of DOMAIN."""
    return make_model(
        [helper.make_node(op, inputs, outputs, "node", domain=DOMAIN, **(attributes or {}))],
        [tensor(name, dtype, shape) for name in dict.fromkeys(inputs) if name],
        [untyped(name) for name in outputs],
        domains={DOMAIN: version},
    )


def engines(program: openxrt.Program) -> dict[str, str]:
    return {node["op"]: node["engine"] for node in program.explain()["nodes"]}


def test_a_kernel_runs_on_native() -> None:
    name = next(names)

    @openxrt.op(DOMAIN, name)
    def scale(x: np.ndarray, *, by: float = 2.0) -> np.ndarray:
        assert not x.flags.writeable
        return x * np.float32(by)

    assert f"{DOMAIN}.{name}" in openxrt.registered_ops()
    program = openxrt.load(model(name), engine=["xla", "native"])
    np.testing.assert_array_equal(program(X), X * 2)
    assert engines(program) == {f"{DOMAIN}.{name}": "native"}
    assert (
        str(program.outputs[0].type) == "float32[4]"
    )  # without a shape function: as the first input
    refusal = program.explain()["nodes"][0]["refusals"]["xla"]
    assert name in refusal
    tripled = openxrt.load(model(name, {"by": 3.0}, shape=("N",)), engine="native")
    for size in (1, 3):
        np.testing.assert_array_equal(tripled(X[:size]), X[:size] * 3)


def test_kernels_of_strings() -> None:
    name = next(names)

    @openxrt.op(DOMAIN, name)
    def shout(x: np.ndarray) -> np.ndarray:
        return np.array([text.upper() + "!" for text in x], dtype=object)

    program = openxrt.load(model(name, shape=("N",), dtype=TensorProto.STRING), engine="native")
    assert program(["a", "é"]).tolist() == ["A!", "É!"]


def test_the_kernel_may_use_dlpack() -> None:
    name = next(names)

    @openxrt.op(DOMAIN, name)
    def gelu(x: np.ndarray) -> torch.Tensor:
        return torch.nn.functional.gelu(torch.from_dlpack(x.copy()))

    expected = torch.nn.functional.gelu(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(openxrt.load(model(name), engine="native")(X), expected)


@pytest.mark.parametrize("engine", ["native", "openvino", "xla", "onnxruntime"])
def test_a_body_is_what_other_engines_compile(engine: str) -> None:
    if engine not in {"native", "xla"}:
        pytest.importorskip(engine)
    name = next(names)
    openxrt.register_op(
        DOMAIN,
        name,
        inputs=["x"],
        attributes={"lambd": 0.5},
        body="y = Shrink <lambd: float = @lambd, bias: float = @lambd> (x)",
    )
    program = openxrt.load(model(name, {"lambd": 1.0}), engine=engine, strict=True)
    expected = torch.nn.functional.softshrink(torch.from_numpy(X), 1.0).numpy()
    np.testing.assert_allclose(program(X), expected)
    assert engines(program) == {f"{DOMAIN}.{name}": engine}
    default = openxrt.load(model(name), engine=engine, strict=True)
    expected = torch.nn.functional.softshrink(torch.from_numpy(X), 0.5).numpy()
    np.testing.assert_allclose(default(X), expected)


def test_an_engine_may_have_statements_of_its_own(tmp_path: Path) -> None:
    name = next(names)
    openxrt.register_op(DOMAIN, name, inputs=["x"], body="y = Mul (x, x)")
    openxrt.register_lowering(DOMAIN, name, "xla", "a = Abs (x)  b = Abs (x)  y = Mul (a, b)")
    with pytest.raises(openxrt.InvalidArgument, match="has a lowering for 'xla' already"):
        openxrt.register_lowering(DOMAIN, name, "xla", "y = Identity (x)")
    for engine, mark in (("xla", "Abs"), ("native", name)):
        folder = tmp_path / engine
        program = openxrt.load(model(name), engine=engine, strict=True, dump_dir=folder)
        np.testing.assert_array_equal(program(X), X * X)
        dump = next(folder.glob(f"{engine}_*.txt")).read_text()
        assert mark in dump
        assert program.explain()["nodes"][0]["op"] == f"{DOMAIN}.{name}"
    # Statements that the engine refuses are no promise: the reason is told.
    other = next(names)
    openxrt.register_op(
        DOMAIN,
        other,
        lambda x: np.unique(x),
        inputs=["x"],
        infer=lambda _x: ("float32", [None]),
        lowerings={"xla": "y = Unique (x)"},
    )
    program = openxrt.load(model(other), engine=["xla", "native"])
    assert "in its lowering, Unique" in program.explain()["nodes"][0]["refusals"]["xla"]
    np.testing.assert_array_equal(program(X), np.unique(X))


# As JAX writes a lowered function: a module with attributes, and a helper beside @main.
STABLEHLO = """module @jit_f attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main(%arg0: {type} {{mhlo.sharding = "{{replicated}}"}}) -> ({type} {{jax.result_info = "[0]"}}, {type}) {{
    %cst = stablehlo.constant dense<{by:e}> : {type} // @scale (tensor<9xf32>
    %0 = call @scale(%arg0, %cst) : ({type}, {type}) -> {type}
    %1 = stablehlo.negate %0 : {type}
    return %0, %1 : {type}, {type}
  }}
  func.func private @scale(%arg0: {type}, %arg1: {type}) -> {type} {{
    %0 = stablehlo.multiply %arg0, %arg1 : {type}
    return %0 : {type}
  }}
}}
"""  # noqa: E501


def test_an_op_may_bring_stablehlo() -> None:
    name = next(names)
    seen: list[tuple] = []

    def stablehlo(x: openxrt.Port, *, by: float) -> str:
        seen.append((x.dtype, tuple(x.shape), by))
        return STABLEHLO.format(type="tensor<4xf32>", by=by)

    openxrt.register_op(
        DOMAIN,
        name,
        lambda x, *, by: (x * np.float32(by), -x * np.float32(by)),
        inputs=["x"],
        outputs=["y", "z"],
        attributes={"by": 2.0},
        infer=lambda x, **_: (x, x),
        code={"xla": stablehlo},
    )
    nodes = [
        helper.make_node(name, ["x"], ["y", "z"], "first", domain=DOMAIN),
        helper.make_node(name, ["z"], ["v", "w"], "second", domain=DOMAIN, by=3.0),
    ]
    both = make_model(
        nodes,
        [tensor("x", TensorProto.FLOAT, [4])],
        [untyped(name) for name in ("y", "v", "w")],
        domains={DOMAIN: 1},
    )
    program = openxrt.load(both, engine="xla", strict=True)
    results = program.run({"x": X})
    for output, factor in (("y", 2), ("v", -6), ("w", 6)):
        np.testing.assert_array_equal(results[output], X * factor)
    assert {("float32", (4,), 2.0), ("float32", (4,), 3.0)} == set(seen)
    native = openxrt.load(both, engine="native").run({"x": X})
    np.testing.assert_array_equal(native["w"], results["w"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("module {}", "has no function @main"),
        ("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32>", "@main without a body"),
        ("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x", "ends before a '{'"),
        (
            "func.func @main(%x: tensor<5xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }",
            "takes (tensor<5xf32>), the node has (tensor<4xf32>)",
        ),
        (
            "func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {}",
            "returns (tensor<4xf32>, tensor<4xf32>), the node has (tensor<4xf32>)",
        ),
        ("#loc = loc(unknown) func.func @main() { return }", "aliases of attributes"),
    ],
)
def test_stablehlo_that_does_not_fit_is_refused(text: str, reason: str) -> None:
    name = next(names)
    openxrt.register_op(DOMAIN, name, lambda x: x, code={"xla": lambda _x: text})
    program = openxrt.load(model(name), engine=["xla", "native"])
    assert reason in program.explain()["nodes"][0]["refusals"]["xla"]
    np.testing.assert_array_equal(program(X), X)


def test_stablehlo_that_xla_cannot_read_names_the_node() -> None:
    name = next(names)
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %y : tensor<4xf32> }"
    openxrt.register_op(DOMAIN, name, lambda x: x, code={"xla": lambda _x: text})
    with pytest.raises(openxrt.EngineError, match=r"claimed node 'node'.*failed to compile"):
        openxrt.load(model(name), engine="xla", strict=True)
    for bad, message in (
        (lambda _x: 7, "must return str"),
        (lambda _x: 1 / 0, "ZeroDivisionError"),
    ):
        other = next(names)
        openxrt.register_op(DOMAIN, other, lambda x: x, code={"xla": bad})
        with pytest.raises(openxrt.EngineError, match=message):
            openxrt.load(model(other), engine="xla", strict=True)


def test_shapes_optional_and_variadic_inputs_and_several_outputs() -> None:
    first, second = next(names), next(names)

    def types(a: openxrt.Port, b: openxrt.Port | None, *, axis: int) -> tuple:
        assert (a.name, a.dtype, a.shape) == ("a", "float32", (4,))
        assert b is None
        return a, ("int64", [axis, 2])

    @openxrt.op(DOMAIN, first, outputs=["y", "z"], infer=types)
    def both(
        a: np.ndarray, b: np.ndarray | None = None, *, axis: int
    ) -> tuple[np.ndarray, np.ndarray]:
        assert b is None
        return a, np.full((axis, 2), 7, np.int64)

    program = openxrt.load(model(first, {"axis": 3}, outputs=("y", "z")), engine="native")
    assert [str(port.type) for port in program.outputs] == ["float32[4]", "int64[3,2]"]
    y, z = program(X)
    np.testing.assert_array_equal(y, X)
    assert z.tolist() == [[7, 7]] * 3
    with pytest.raises(openxrt.InvalidModel, match=r"'node'.*axis"):
        openxrt.load(model(first, outputs=("y", "z")), engine="native")

    @openxrt.op(DOMAIN, second)
    def total(*xs: np.ndarray) -> np.ndarray:
        return sum(xs[1:], xs[0])

    program = openxrt.load(model(second, inputs=("a", "b", "a")), engine="native")
    np.testing.assert_array_equal(program(X, X * 2), X * 4)


def test_attributes_of_all_kinds() -> None:
    name = next(names)
    seen: list[dict] = []

    @openxrt.op(DOMAIN, name)
    def look(
        x: np.ndarray,
        *,
        number: int = 1,
        text: str = "a",
        ints: list[int] = (1, 2),
        floats: list[float] = (0.5,),
        texts: list[str] = ("a", "b"),
        array: np.ndarray = np.eye(2),  # noqa: B008
    ) -> np.ndarray:
        seen.append(
            {
                "number": number,
                "text": text,
                "ints": ints,
                "floats": floats,
                "texts": texts,
                "array": array,
            }
        )
        return x

    openxrt.load(model(name, {"number": 5, "ints": [4]}), engine="native")(X)
    array = seen[-1].pop("array")
    np.testing.assert_array_equal(array, np.eye(2))
    assert seen[-1] == {"number": 5, "text": "a", "ints": [4], "floats": [0.5], "texts": ["a", "b"]}


def test_constants_fold_and_random_ops_do_not() -> None:
    for deterministic, left in ((True, 0), (False, 1)):
        name = next(names)
        openxrt.register_op(
            DOMAIN, name, lambda x: x + 1, inputs=["x"], deterministic=deterministic
        )
        proto = model_proto(
            [
                helper.make_node("Constant", [], ["c"], value_floats=[1.0, 2.0]),
                helper.make_node(name, ["c"], ["d"], domain=DOMAIN),
                helper.make_node("Add", ["x", "d"], ["y"]),
            ],
            [tensor("x", TensorProto.FLOAT, [2])],
            [tensor("y", TensorProto.FLOAT, [2])],
            domains={DOMAIN: 1},
        )
        program = openxrt.load(proto.SerializeToString(), engine="native")
        assert program(np.zeros(2, np.float32)).tolist() == [2, 3]
        assert len(program.explain()["nodes"]) == 1 + left


def test_a_later_version_of_the_domain_has_another_definition() -> None:
    name = next(names)
    openxrt.register_op(DOMAIN, name, lambda x: x + 1, inputs=["x"])
    openxrt.register_op(DOMAIN, name, lambda x: x + 3, inputs=["x"], opset_version=3)
    for version, added in ((1, 1), (2, 1), (3, 3), (4, 3)):
        program = openxrt.load(model(name, version=version), engine="native")
        np.testing.assert_array_equal(program(X), X + added)


def test_a_body_of_an_if_may_use_it() -> None:
    name = next(names)
    openxrt.register_op(DOMAIN, name, lambda x: x * x, inputs=["x"], body="y = Mul (x, x)")

    def branch(op: str, domain: str) -> object:
        nodes = [helper.make_node(op, ["x"], [f"{op}_y"], domain=domain)]
        outputs = [tensor(f"{op}_y", TensorProto.FLOAT, [4])]
        return helper.make_graph(nodes, op, [], outputs)

    node = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch(name, DOMAIN), else_branch=branch("Neg", "")
    )
    proto = make_model(
        [node],
        [
            tensor("c", TensorProto.BOOL, []),
            tensor("x", TensorProto.FLOAT, [4]),
        ],
        [tensor("y", TensorProto.FLOAT, [4])],
        domains={DOMAIN: 1},
    )
    for chosen in ("native", "xla"):
        program = openxrt.load(proto, engine=chosen)
        np.testing.assert_array_equal(program(np.array(True), X), X * X)
        np.testing.assert_array_equal(program(np.array(False), X), -X)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda x: x.astype(np.float64), r"inferred to be float32\[4\], the kernel wants float64"),
        (lambda x: x[:2], r"inferred to be float32\[4\], the kernel wants float32\[2\]"),
        (lambda _x: (), "returned 0 results, 1 are wanted"),
        (lambda x: (x, x), "returned 2 results, 1 are wanted"),
        (lambda x: x / "a", "TypeError"),
    ],
)
def test_kernels_that_fail_name_node_and_op(kernel: Callable, message: str) -> None:
    name = next(names)
    openxrt.register_op(DOMAIN, name, kernel, inputs=["x"])
    program = openxrt.load(model(name), engine="native")
    with pytest.raises(openxrt.EngineError, match=message) as caught:
        program(X)
    assert "'node'" in str(caught.value)
    assert f"{DOMAIN}.{name}" in str(caught.value)


@pytest.mark.parametrize(
    ("infer", "message"),
    [
        (lambda _x: 1 // 0, "ZeroDivisionError"),
        (lambda _x: 5, "must return"),
        (lambda _x: ("warp", [1]), "'warp' is no dtype"),
        (lambda _x: ("float32", [1.5]), "no int, str or None"),
        (lambda _x: [], "gave 0 types, the node has 1"),
        (lambda x: [x, x], "gave 2 types, the node has 1"),
    ],
)
def test_shape_functions_that_fail_name_node_and_op(infer: Callable, message: str) -> None:
    name = next(names)
    openxrt.register_op(DOMAIN, name, lambda x: x, inputs=["x"], infer=infer)
    with pytest.raises(openxrt.InvalidModel, match=message) as caught:
        openxrt.load(model(name), engine="native")
    assert "'node'" in str(caught.value)
    assert f"{DOMAIN}.{name}" in str(caught.value)


def test_models_that_break_the_schema() -> None:
    name = next(names)
    openxrt.register_op(
        DOMAIN, name, lambda x, *, by=1.0: x * by, dtypes={"x": ["float32", "float16"]}
    )
    with pytest.raises(openxrt.InvalidModel, match=r"'node'.*input size 2"):
        openxrt.load(model(name, inputs=("a", "b")), engine="native")
    with pytest.raises(openxrt.InvalidModel, match=r"'node'.*times"):
        openxrt.load(model(name, {"times": 2}), engine="native")
    with pytest.raises(openxrt.InvalidModel, match=r"'node'.*by"):
        openxrt.load(model(name, {"by": "two"}), engine="native")
    with pytest.raises(openxrt.InvalidModel, match=r"'node'.*int32"):
        openxrt.load(model(name, dtype=TensorProto.INT32), engine="native")
    with pytest.raises(openxrt.Unsupported, match=r"node.*test.ops.NeverHeardOf"):
        openxrt.load(model("NeverHeardOf"), engine="native")


def test_what_cannot_be_registered() -> None:
    name = next(names)

    def register(domain: str = DOMAIN, op: str = name, **details: object) -> None:
        details = {"kernel": lambda x: x, "inputs": ["x"], **details}
        openxrt.register_op(domain, op, **details)

    for details, message in (
        ({"domain": ""}, "reserved"),
        ({"domain": "ai.onnx.ml"}, "reserved"),
        ({"op": "two words"}, "no identifier"),
        ({"inputs": ["x", "x"]}, "'x' is there twice"),
        ({"inputs": ["x", "y"]}, "'y' is there twice"),
        ({"inputs": ["xs*", "z"]}, "variadic, but not the last"),
        ({"outputs": []}, "no outputs"),
        ({"kernel": None}, "neither a kernel nor a body"),
        ({"body": "y = Mul (x, x"}, "cannot be read"),
        ({"body": "y = Mul (x, z)"}, "reads 'z', which nothing"),
        ({"body": "z = Mul (x, x)"}, "does not make 'y'"),
        ({"lowerings": {"xla": "z = Mul (x, x)"}}, "does not make 'y'"),
        ({"attributes": {"by": object()}}, "attribute 'by'"),
        ({"attributes": {"by": dict}}, "attribute 'by' cannot be"),
        ({"dtypes": {"q": ["float32"]}}, "no parameter 'q'"),
        ({"dtypes": {"x": ["float33"]}}, "no dtype 'float33'"),
        ({"dtypes": {"x": "float32"}}, "is 'float32'; give a list"),
        ({"inputs": "xs*"}, "inputs is 'xs.'; give a list"),
        ({"outputs": "yz"}, "outputs is 'yz'; give a list"),
        ({"kernel": 5}, "kernel is 5, which is no function"),
        ({"infer": "y"}, "infer is 'y', which is no function"),
    ):
        with pytest.raises(openxrt.InvalidArgument, match=message):
            register(**details)
    register()
    with pytest.raises(openxrt.InvalidArgument, match="registered already"):
        register()


def test_the_cache_tells_revisions_apart(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        "import sys, numpy as np, openxrt\n"
        "added, revision, model, cache = float(sys.argv[1]), *sys.argv[2:]\n"
        "openxrt.register_op('test.ops', 'Cached', inputs=['x'], revision=revision,\n"
        "    body=f'c = Constant <value_float = {added}> ()  y = Add (x, c)')\n"
        "program = openxrt.load(model, engine='xla', cache_dir=cache, strict=True)\n"
        "print(program(np.zeros(4, np.float32))[0])\n"
        "print(program.explain()['launches'][0]['from_cache'])\n"
    )
    path = tmp_path / "model.onnx"
    path.write_bytes(model("Cached"))

    def run(added: float, revision: str = "1") -> list[str]:
        command = [sys.executable, script, str(added), revision, path, tmp_path / "cache"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout.split()

    assert run(1.0) == ["1.0", "False"]
    assert run(1.0) == ["1.0", "True"]
    assert run(2.0) == ["2.0", "False"]
    assert run(1.0, "2") == ["1.0", "False"]


def test_plans_are_kept_where_ops_say_a_revision(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        "import json, sys, numpy as np, openxrt\n"
        "added, revision, default, engine, model, cache = float(sys.argv[1]), *sys.argv[2:]\n"
        "inferred = []\n"
        "def infer(x, *, by):\n"
        "    inferred.append(x)\n"
        "    return x\n"
        "openxrt.register_op('test.ops', 'Kept', lambda x, *, by: x + np.float32(added + by),\n"
        "    inputs=['x'], attributes={'by': float(default)}, infer=infer, revision=revision,\n"
        "    body='b = Constant <value_float: float = @by> ()  c = Constant <value_float = '\n"
        "         f'{added}> ()  z = Add (x, b)  y = Add (z, c)')\n"
        "program = openxrt.load(model, engine=engine, cache_dir=cache, strict=True)\n"
        "result = float(program(np.zeros(4, np.float32))[0])\n"
        "print(json.dumps([result, bool(inferred), program.explain()['notes']]))\n"
    )
    path = tmp_path / "model.onnx"
    path.write_bytes(model("Kept"))

    def run(
        added: float, revision: str, default: float = 0, engine: str = "native"
    ) -> tuple[float, bool, str]:
        arguments = [added, revision, default, engine, path, tmp_path / "cache"]
        result, built, notes = json.loads(call(sys.executable, script, *arguments))
        return result, built, " ".join(notes)

    for engine in ("native", "xla"):
        if engine in openxrt.engines():
            assert run(1, "a", engine=engine)[:2] == (1, True)
            assert run(1, "a", engine=engine)[:2] == (1, False)
    assert run(2, "b")[:2] == (2, True)
    assert run(2, "b")[:2] == (2, False)
    assert run(2, "b", default=5)[:2] == (7, True)
    for _ in range(2):
        result, built, notes = run(3, "")
        assert (result, built) == (3, True)
        assert "op 'test.ops.Kept' was registered without a revision" in notes


WITH_TVM = ("tvm",) if "tvm" in openxrt.engines() else ()
EXPECTED = ["values = [0, 1, 3, 0]", "lengths = [2, 2, 1, 1]"]


def test_the_example_in_python() -> None:
    output = call(sys.executable, EXAMPLE / "python" / "example_ops.py")
    for engine in ("native", "xla", *WITH_TVM):
        part = output[output.index(f"{engine}: ") :]
        assert f"'example.SoftShrink': '{engine}'" in part
        assert "'example.RunLengths': 'native'" in part
        for text in EXPECTED:
            assert text in part


@pytest.fixture(scope="module")
def example_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built against an installed OpenXRT."""
    folder = build_outside(EXAMPLE / "cpp", tmp_path_factory.mktemp("example_ops"))
    return folder / "libxrt_op_example.so"


def test_the_example_in_cpp(example_library: Path, tmp_path: Path) -> None:
    sys.path.insert(0, str(EXAMPLE / "python"))
    script = (
        "import runpy, sys, openxrt\n"
        "register, openxrt.op = openxrt.op, lambda *a, **b: lambda f: f\n"  # the model alone
        f"example = runpy.run_path({str(EXAMPLE / 'python' / 'example_ops.py')!r})\n"
        f"open({str(tmp_path / 'model.onnx')!r}, 'wb').write(example['example_model']())\n"
    )
    call(sys.executable, "-c", script)
    inputs = ["-i", "x=[-3,0.25,2.5,2.75,4,0]"]
    flags = ["--op-library", example_library]
    path = {"XRT_OP_PATH": str(example_library.parent)}
    for engine, (more, environment) in itertools.product(
        ("native", "xla,native", *(f"{e},native" for e in WITH_TVM)), ((flags, {}), ([], path))
    ):
        arguments = ["run", tmp_path / "model.onnx", "-e", engine, *inputs, *more]
        output = call(xrt(), *arguments, **environment)
        assert "values: int64[4] 0, 1, 3, 0" in output
        assert "lengths: int64[4] 2, 2, 1, 1" in output
    arguments = ["inspect", tmp_path / "model.onnx", "-e", "xla,native", "--json", *flags]
    explanation = json.loads(call(xrt(), *arguments))
    ran = {node["op"]: node["engine"] for node in explanation["nodes"]}
    assert ran["example.SoftShrink"] == "xla"
    assert ran["example.RunLengths"] == "native"


def test_libraries_that_cannot_be_loaded(example_library: Path, tmp_path: Path) -> None:
    with pytest.raises(openxrt.NotFound, match=r"nowhere\.so"):
        openxrt.load_op_library(tmp_path / "nowhere.so")
    text = tmp_path / "libxrt_op_text.so"
    text.write_text("no library")
    with pytest.raises(openxrt.EngineError, match=r"libxrt_op_text\.so"):
        openxrt.load_op_library(text)
    loaded = openxrt.load_op_library(example_library)
    assert loaded == ["example.SoftShrink", "example.RunLengths"]
    assert openxrt.load_op_library(example_library) == loaded  # once
    # The same ops from another file are another definition.
    again = tmp_path / "libxrt_op_again.so"
    again.write_bytes(example_library.read_bytes())
    with pytest.raises(openxrt.InvalidArgument, match="registered already"):
        openxrt.load_op_library(again)


def test_a_gradient_given_as_statements() -> None:
    """Against PyTorch, which knows the op as hardshrink."""
    name = next(names)
    openxrt.register_op(
        DOMAIN,
        name,
        lambda x, *, lambd=0.5: np.where(np.abs(x) > lambd, x, np.float32(0)),
        attributes={"lambd": 0.5},
        gradient="""
            size = Abs (x)
            bound = Constant <value_float: float = @lambd> ()
            passes = Greater (size, bound)
            zero = CastLike (bound, d_y)
            nothing = Sub (zero, zero)
            d_x = Where (passes, d_y, nothing)
        """,
    )
    assert openxrt._core.gradient_kind(DOMAIN, name) == "rule"
    graph = openxrt.Graph()
    x = graph.add_input("x", "float32", [4])
    (y,) = graph.add_node(name, [x], ["y"], {"lambd": 1.0}, DOMAIN)
    (square,) = graph.add_node("Mul", [y, y], ["square"])
    (loss,) = graph.add_node("ReduceSum", [square], ["loss"], {"keepdims": 0})
    graph.finish()
    (gradient,) = graph.gradients(loss, [x])
    graph.add_output(gradient)
    value = torch.tensor(X, requires_grad=True)
    torch.nn.functional.hardshrink(value, 1.0).square().sum().backward()
    program = openxrt.load(graph, engine=["openvino", "native"])
    np.testing.assert_allclose(program(X), value.grad.numpy())


def test_a_gradient_of_several_inputs_leaves_out_those_without_one() -> None:
    name = next(names)
    openxrt.register_op(
        DOMAIN,
        name,
        inputs=["x", "w", "bias?"],
        outputs=["y", "sign"],
        body="s = Sign (x) sign = Identity (s) y = Mul (x, w)",
        gradient="d_x = Mul (d_y, w)",
    )
    graph = openxrt.Graph()
    x, w = (graph.add_input(n, "float32", [4]) for n in "xw")
    y, _ = graph.add_node(name, [x, w], ["y", "sign"], {}, DOMAIN)
    (loss,) = graph.add_node("ReduceSum", [y], ["loss"], {"keepdims": 0})
    graph.finish()
    for value in graph.gradients(loss, [x, w], allow_unused=True):
        graph.add_output(value)
    weight = X[::-1].copy()
    by_x, by_w = openxrt.load(graph, engine="native")(X, weight)
    np.testing.assert_array_equal(by_x, weight)
    np.testing.assert_array_equal(by_w, np.zeros_like(X))


@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        ("d_x = Nonsense", "its gradient cannot be read"),
        ("d_x = Mul (d_z, x)", "its gradient reads 'd_z', which nothing before it makes"),
        ("dx = Neg (d_y)", "its gradient makes none of its inputs'"),
    ],
)
def test_gradients_that_cannot_be_registered(gradient: str, message: str) -> None:
    with pytest.raises(openxrt.InvalidArgument, match=re.escape(message)):
        openxrt.register_op(DOMAIN, next(names), lambda x: x, gradient=gradient)


def test_a_graph_built_by_hand_gets_types() -> None:
    name = next(names)

    @openxrt.op(DOMAIN, name, infer=lambda x: ("float32", [*x.shape, 2]))
    def doubled(x: np.ndarray) -> np.ndarray:
        return np.stack([x, x], -1)

    graph = openxrt.Graph()
    x = graph.add_input("x", "float32", [4])
    (y,) = graph.add_node(name, [x], ["y"], {}, DOMAIN)
    (z,) = graph.add_node("Neg", [y], ["z"])
    graph.add_output(z)
    graph.finish()
    assert str(graph.type_of(z)) == "float32[4,2]"
    program = openxrt.load(graph, engine="native")
    np.testing.assert_array_equal(program(X), -np.stack([X, X], -1))
    again = openxrt.load(graph.to_onnx(), engine="native")
    np.testing.assert_array_equal(again(X), -np.stack([X, X], -1))
