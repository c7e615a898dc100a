# SPDX-License-Identifier: Apache-2.0
"""Engines written in Python: registered, asked, compiled, run, and their errors."""

import threading
from collections.abc import Callable

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import make_model, tensor

asked: list[openxrt.NodeView] = []


@openxrt.engine("python_relu", version="1.0", ops=["Relu"])
class ReluEngine:
    """Takes Relu of float32 alone."""

    def supports(self, node: openxrt.NodeView) -> bool | str:
        asked.append(node)
        if node.op != "Relu":
            return f"{node.op} is not written"
        return True if node.input_types[0].dtype == "float32" else "float32 only"

    def compile(self, function: openxrt.FunctionView) -> Callable[..., object]:
        assert len(function.inputs) == len(function.outputs) == 1
        self.kept = function
        return lambda x: np.maximum(x, 0)


@openxrt.engine("python_onnxruntime", version="1.0", dynamic_shapes=True)
class OnnxRuntimeEngine:
    """Takes everything, whole functions as ONNX bytes."""

    def supports(self, node: openxrt.NodeView) -> bool:
        return True

    def compile(self, function: openxrt.FunctionView) -> Callable[..., object]:
        onnxruntime = pytest.importorskip("onnxruntime")
        session = onnxruntime.InferenceSession(function.to_onnx())
        names = [port.name for port in function.inputs]
        return lambda *arrays: tuple(session.run(None, dict(zip(names, arrays, strict=True))))


@openxrt.engine("python_broken", version="1.0")
class BrokenEngine:
    """Goes wrong in the way that `mode` names."""

    mode = ""

    def supports(self, node: openxrt.NodeView) -> object:
        if self.mode == "supports raises":
            raise KeyError("a mistake in supports")
        return None if self.mode == "supports says nothing" else True

    def compile(self, function: openxrt.FunctionView) -> object:
        if self.mode == "compile raises":
            raise KeyError("a mistake in compile")
        if self.mode == "compile gives nothing":
            return None
        return self.run

    def run(self, x: np.ndarray) -> object:
        if self.mode == "run raises":
            raise KeyError("a mistake in run")
        if self.mode == "too many results":
            return x, x
        return x.astype(np.float64) if self.mode == "wrong dtype" else x[:1]


@pytest.fixture(scope="module")
def model() -> bytes:
    """y = Neg(Relu(x)), float32[2,3]."""
    return make_model(
        [
            helper.make_node("Relu", ["x"], ["r"], name="relu"),
            helper.make_node("Neg", ["r"], ["y"], name="neg"),
        ],
        [tensor("x", TensorProto.FLOAT, [2, 3])],
        [tensor("y", TensorProto.FLOAT, [2, 3])],
    )


X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)


def run_relu(name: str, executable: object) -> object:
    """Relu of X by a new engine whose compile() returns `executable`."""

    class Engine:
        def supports(self, node: openxrt.NodeView) -> bool:
            return True

        def compile(self, function: openxrt.FunctionView) -> object:
            return executable

    openxrt.engine(name, version="1")(Engine)
    model = make_model(
        [helper.make_node("Relu", ["x"], ["y"], name="only")],
        [tensor("x", TensorProto.FLOAT, [2, 3])],
        [tensor("y", TensorProto.FLOAT, [2, 3])],
    )
    return openxrt.load(model, engine=name)(X)


def test_it_runs_what_it_supports(model: bytes) -> None:
    program = openxrt.load(model, engine=["python_relu", "native"])
    np.testing.assert_array_equal(program(X), -np.maximum(X, 0))
    explanation = program.explain()
    assert explanation.nodes_per_engine == {"native": 1, "python_relu": 1}
    neg = next(node for node in explanation["nodes"] if node["op"] == "Neg")
    assert neg["refusals"]["python_relu"] == "Neg is not written"
    assert "python_relu" in openxrt.engines()
    report = next(r for r in openxrt.doctor() if r.name == "python_relu")
    assert (report.version, report.op_count) == ("1.0", 1)


def test_inputs_and_attributes_are_read_only(model: bytes) -> None:
    """What an engine is lent belongs to the caller, or to other launches."""

    def scribble(x: np.ndarray) -> np.ndarray:
        assert not x.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            x.flags.writeable = True
        with pytest.raises(BufferError, match="readonly"):
            x.__dlpack__()  # of before DLPack 1.0, which had no flag for it
        return np.maximum(x, 0, out=x)

    class Scribbler:
        def supports(self, node: openxrt.NodeView) -> bool:
            return True if node.op == "Relu" else "not Relu"

        def compile(self, function: openxrt.FunctionView) -> Callable[..., object]:
            return scribble

    openxrt.engine("python_scribbler", version="1")(Scribbler)
    x = np.full((2, 3), -1, np.float32)
    with pytest.raises(openxrt.EngineError, match="read-only"):
        openxrt.load(model, engine="python_scribbler").run({"x": x})
    np.testing.assert_array_equal(x, -1)


def test_strict_says_why(model: bytes) -> None:
    with pytest.raises(openxrt.Unsupported, match="Neg is not written"):
        openxrt.load(model, engine="python_relu", strict=True)


def test_inputs_that_a_run_refuses(model: bytes) -> None:
    """The native engine computes them, and explain() says so."""

    def relu(x: np.ndarray) -> np.ndarray:
        if (x < 0).any():
            raise openxrt.Unsupported("no negative numbers")
        return x

    class Unsigned:
        def supports(self, node: openxrt.NodeView) -> bool:
            return True if node.op == "Relu" else "not Relu"

        def compile(self, function: openxrt.FunctionView) -> Callable[..., object]:
            return relu

    openxrt.engine("python_unsigned", version="1")(Unsigned)
    program = openxrt.load(model, engine="python_unsigned")
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    expected = openxrt.load(model, engine="native").run({"x": x})
    negative = openxrt.load(model, engine="native").run({"x": -x})
    for _ in range(2):
        for feed, right in ((x, expected), (-x, negative)):
            found = program.run({"x": feed})
            for name, value in right.items():
                np.testing.assert_array_equal(found[name], value)
    assert "ran 2 times on 'native'" in str(program.explain())
    assert "no negative numbers" in str(program.explain())


def test_nodes_show_types_and_attributes() -> None:
    asked.clear()
    model = make_model(
        [helper.make_node("Softmax", ["x"], ["y"], name="soft", axis=1)],
        [tensor("x", TensorProto.FLOAT, [2, 3])],
        [tensor("y", TensorProto.FLOAT, [2, 3])],
    )
    openxrt.load(model, engine=["python_relu", "native"])
    node = next(node for node in asked if node.op == "Softmax")
    assert (node.name, node.domain) == ("soft", "")
    assert node.input_types == node.output_types
    (kind,) = node.input_types
    assert (kind.kind, kind.dtype, kind.shape) == ("tensor", "float32", (2, 3))
    assert node.attributes["axis"] == 1


def test_types_are_data() -> None:
    """Symbols, unknown dimensions and ranks, sequences, optionals, what is left out."""

    class Engine:
        def supports(self, node: openxrt.NodeView) -> bool | str:
            seen[node.name] = node
            return "it only looks"

        def compile(self, function: openxrt.FunctionView) -> None:
            raise AssertionError

    seen: dict[str, openxrt.NodeView] = {}
    openxrt.engine("python_reader", version="1", dynamic_shapes=True)(Engine)
    item = helper.make_tensor_type_proto(TensorProto.FLOAT, ["N", 3])
    model = make_model(
        [
            helper.make_node("Resize", ["x", "", "scales"], ["c"], name="resize"),
            helper.make_node("NonZero", ["c"], ["where"], name="where"),
            helper.make_node("SequenceConstruct", ["c", "c"], ["s"], name="sequence"),
            helper.make_node("Optional", [], ["o"], name="optional", type=item),
            helper.make_node("OptionalHasElement", ["o"], ["has"], name="has"),
            helper.make_node("SequenceLength", ["s"], ["length"], name="length"),
        ],
        [tensor("x", TensorProto.FLOAT, ["N", 3]), tensor("scales", TensorProto.FLOAT, [2])],
        [
            tensor("where", TensorProto.INT64, None),
            tensor("has", TensorProto.BOOL, []),
            tensor("length", TensorProto.INT64, []),
        ],
    )
    program = openxrt.load(model, engine=["python_reader", "native"])
    declared = program.inputs[0].type
    assert (declared.kind, declared.dtype, declared.shape) == ("tensor", "float32", ("N", 3))
    assert not declared.is_static
    program(X, np.ones(2, np.float32))

    x, left_out, scales = seen["resize"].input_types
    assert (x.shape, x.is_static, x.element) == ((2, 3), True, None)
    assert left_out is None
    assert scales.shape == (2,)
    assert seen["where"].output_types[0].shape == (2, None)
    (c,) = seen["resize"].output_types
    (sequence,) = seen["sequence"].output_types
    assert (sequence.kind, sequence.dtype, sequence.shape) == ("sequence", None, None)
    assert sequence.element == c and hash(sequence.element) == hash(c) and sequence != c
    (optional,) = seen["has"].input_types
    assert (optional.kind, optional.element) == ("optional", declared)
    assert seen["optional"].attributes["type"] == declared
    assert (str(declared), repr(declared)) == ("float32[N,3]", "<float32[N,3]>")
    assert str(sequence) == f"seq({c})"
    assert declared != "float32[N,3]" and declared != x
    with pytest.raises(AttributeError):
        x.dtype = "float64"


def test_a_function_becomes_onnx(mlp_model: bytes) -> None:
    program = openxrt.load(mlp_model, engine="python_onnxruntime", strict=True)
    native = openxrt.load(mlp_model, engine="native")
    for rows in (1, 4):
        x = np.random.default_rng(rows).standard_normal((rows, 8)).astype(np.float32)
        np.testing.assert_allclose(program(x), native(x), rtol=1e-5, atol=1e-6)


def test_many_threads(model: bytes) -> None:
    program = openxrt.load(model, engine=["python_relu", "native"])
    wrong = []

    def work() -> None:
        for _ in range(30):
            if not np.array_equal(program(X), -np.maximum(X, 0)):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("supports raises", r"python_broken.*supports.*KeyError.*a mistake in supports"),
        ("supports says nothing", r"python_broken.*supports\(\) must return True.*None"),
        ("compile raises", r"python_broken.*compile.*a mistake in compile"),
        ("compile gives nothing", r"python_broken.*callable"),
        ("run raises", r"python_broken.*KeyError.*a mistake in run"),
        ("too many results", r"python_broken.*2 results, 1 are wanted"),
        ("wrong dtype", r"python_broken.*float64.*float32"),
        ("wrong shape", r"python_broken.*\[1,3\].*\[2,3\]"),
    ],
)
def test_mistakes_of_an_engine_are_named(
    model: bytes, mode: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BrokenEngine, "mode", mode)
    one_node = make_model(
        [helper.make_node("Relu", ["x"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [2, 3])],
        [tensor("y", TensorProto.FLOAT, [2, 3])],
    )
    with pytest.raises(openxrt.EngineError, match=message):
        openxrt.load(one_node, engine="python_broken")(X)


class Unprintable(Exception):
    """Raises when it is printed."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda x: None, "None was given"),
        (lambda x: {"y": x}, "a dict was given"),
        (lambda x: "text", "a str does not become"),
        (lambda x: np.zeros((2, 3), "datetime64[s]"), "datetime64"),
        (lambda x: np.full((2, 3), object()), "Python objects"),
    ],
)
def test_results_that_are_no_tensors_are_the_engines_fault(made: object, message: str) -> None:
    """EngineError, not the InvalidArgument that would tell the caller to change the inputs."""
    name = f"python_result_{abs(hash(message))}"
    with pytest.raises(openxrt.EngineError, match=rf"{name}.*'only' \(Relu\).*{message}"):
        run_relu(name, made)


@pytest.mark.parametrize("error", [ValueError("\udcff is no character"), Unprintable()])
def test_exceptions_with_odd_texts(error: Exception) -> None:
    def run(x: np.ndarray) -> np.ndarray:
        raise error

    with pytest.raises(openxrt.EngineError, match=type(error).__name__):
        run_relu(f"python_odd_{type(error).__name__.lower()}", run)


def test_an_interrupt_stays_one() -> None:
    """Ctrl-C while an engine works ends the program, and is no failure of the engine."""
    pressed = [True]  # once: other tests probe all engines that there are

    def run(x: np.ndarray) -> np.ndarray:
        if pressed:
            pressed.clear()
            raise KeyboardInterrupt
        return np.maximum(x, 0)

    with pytest.raises(KeyboardInterrupt):
        run_relu("python_interrupted", run)


def test_size_attributes_that_raise() -> None:
    class Executable:
        @property
        def workspace_bytes(self) -> int:
            raise RuntimeError("not counted")

        def run(self, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None: ...

    with pytest.raises(openxrt.EngineError, match="not counted"):
        run_relu("python_sizes", Executable())


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("python_args", {"devices": "cpu"}, "devices is 'cpu'; give a list"),
        ("python_args", {"ops": "Relu"}, "ops is 'Relu'; give a list"),
        ("python_args", {"ops": [3]}, "3 in ops is no str"),
        ("python_args", {"options": "a"}, "options is 'a'; give a list"),
        ("python_args", {"files": __file__}, "files is .*; give a list"),
        ("python_args", {"version": 3}, "version is 3; give a str"),
        ("python_args", {"training": "yes"}, "training is 'yes'; give a list of them"),
        ("python_args", {"training": [3]}, "3 in training is no str"),
        (5, {}, "name is 5; give a str"),
        ("a,b", {}, "'a,b'.*names are made of"),
        ("a/b", {}, "names are made of"),
        ("", {}, "reserved"),
    ],
)
def test_what_is_wrong_with_a_registration(name: object, arguments: dict, message: str) -> None:
    with pytest.raises(openxrt.InvalidArgument, match=message):
        openxrt.engine(name, **{"version": "1", **arguments})(ReluEngine)


def test_a_class_without_its_methods() -> None:
    class Empty:
        def supports(self, node: openxrt.NodeView) -> bool:
            return True

    with pytest.raises(openxrt.InvalidArgument, match=r"no class with a method compile\(\)"):
        openxrt.engine("python_empty", version="1")(Empty)
    with pytest.raises(openxrt.InvalidArgument, match=r"python_bare.*no class"):
        openxrt.engine("python_bare", version="1")(lambda x: x)


def test_names_are_taken_once() -> None:
    for name in ("native", "python_relu"):
        with pytest.raises(openxrt.Error, match=name):
            openxrt.engine(name, version="1.0")(ReluEngine)


def test_a_function_expires(model: bytes) -> None:
    kept: list[openxrt.FunctionView] = []

    class Keeper(ReluEngine):
        def compile(self, function: openxrt.FunctionView) -> Callable[..., object]:
            kept.append(function)
            return lambda x: np.maximum(x, 0)

    openxrt.engine("python_keeper", version="1.0")(Keeper)
    openxrt.load(model, engine=["python_keeper", "native"])(X)
    with pytest.raises(openxrt.InvalidArgument, match="only while"):
        kept[0].to_onnx()
