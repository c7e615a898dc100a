# SPDX-License-Identifier: Apache-2.0
"""What an engine written in Python may have beyond supports() and compile()."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import make_model, model_proto, tensor

# What a process of its own needs to import this file.
BESIDE = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]
X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)


class Relu:
    """An executable that writes in place and counts its contexts."""

    workspace_bytes = 48
    contexts = 0

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    def create_context(self) -> dict:
        Relu.contexts += 1
        return {"runs": 0}

    def run(self, inputs: list, outputs: list, context: dict) -> None:
        context["runs"] += 1
        seen.append((outputs[0] is None, context["runs"]))
        if outputs[0] is None:
            outputs[0] = np.maximum(inputs[0], 0) * np.float32(self.scale)
        else:
            np.maximum(inputs[0], 0, out=outputs[0])
            outputs[0] *= self.scale

    def serialize(self) -> bytes:
        return str(self.scale).encode()


seen: list[tuple[bool, int]] = []
functions: list[dict] = []
loaded: list[bytes] = []


@openxrt.engine("python_full", version="2.0", ops=["Relu"], dynamic_shapes=True)
class FullEngine:
    """Has everything."""

    def supports(self, node: openxrt.NodeView) -> bool | str:
        raise AssertionError("supports_all() goes before supports()")

    def supports_all(self, graph: openxrt.GraphView) -> list[bool | str]:
        return [node.op == "Relu" or f"{node.op} is not written" for node in graph.nodes]

    def compile(self, function: openxrt.FunctionView) -> Relu:
        functions.append(
            {
                "options": function.options,
                "device": function.device,
                "threads": function.num_threads,
                "batch": function.max_batch_size,
                "ranges": function.ranges,
                "workspace": function.max_workspace_bytes,
                "nodes": [node.op for node in function.nodes],
                "opsets": function.opsets,
            }
        )
        function.progress("building", 0.5)
        return Relu(float(function.options.get("scale", 1)))

    def load(self, blob: memoryview, function: openxrt.FunctionView) -> Relu:
        assert blob.readonly
        loaded.append(bytes(blob))
        return Relu(float(bytes(blob)))


def relu_model(shape: list) -> bytes:
    """y = Neg(Relu(x))."""
    return make_model(
        [
            helper.make_node("Relu", ["x"], ["r"], name="relu"),
            helper.make_node("Neg", ["r"], ["y"], name="neg"),
        ],
        [tensor("x", TensorProto.FLOAT, shape)],
        [tensor("y", TensorProto.FLOAT, shape)],
    )


def one_relu(shape: list) -> bytes:
    """y = Relu(x)."""
    return make_model(
        [helper.make_node("Relu", ["x"], ["y"], name="relu")],
        [tensor("x", TensorProto.FLOAT, shape)],
        [tensor("y", TensorProto.FLOAT, shape)],
    )


def test_results_are_written_in_place() -> None:
    seen.clear()
    out = np.zeros((2, 3), np.float32)
    program = openxrt.load(one_relu([2, 3]), engine="python_full", strict=True, cache_dir="")
    program.run({"x": X}, out={"y": out})
    np.testing.assert_array_equal(out, np.maximum(X, 0))
    first = program(X)
    program(-X)
    np.testing.assert_array_equal(first, np.maximum(X, 0))
    assert [is_none for is_none, _ in seen] == [False, False, False]
    assert [runs for _, runs in seen] == [1, 2, 3], "one context serves runs one after the other"


def test_results_of_unknown_shape_are_given_away() -> None:
    model = model_proto(
        [
            helper.make_node("NonZero", ["x"], ["i"], name="find"),
            helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT, name="cast"),
            helper.make_node("Relu", ["f"], ["y"], name="relu"),
        ],
        [tensor("x", TensorProto.FLOAT, [2, 3])],
        [tensor("y", TensorProto.FLOAT, [2, None])],
    )
    seen.clear()
    program = openxrt.load(model.SerializeToString(), engine=["python_full", "native"])
    np.testing.assert_array_equal(program(X), np.array(np.nonzero(X), np.float32))
    assert seen[-1][0], "the shape is not known: the engine gets None"


def test_supports_all_gives_reasons() -> None:
    program = openxrt.load(relu_model([2, 3]), engine=["python_full", "native"])
    neg = next(node for node in program.explain()["nodes"] if node["op"] == "Neg")
    assert neg["refusals"]["python_full"] == "Neg is not written"
    launch = next(row for row in program.explain()["launches"] if row["engine"] == "python_full")
    assert launch["workspace_bytes"] == 48


def test_compile_sees_options_and_nodes() -> None:
    functions.clear()
    options = {"python_full": {"scale": 2}}
    program = openxrt.load(
        one_relu([2, 3]),
        engine="python_full",
        engine_options=options,
        num_threads=1,
        cache_dir="",
        max_batch_size=8,
        max_workspace_bytes=1 << 20,
    )
    np.testing.assert_array_equal(program(X), 2 * np.maximum(X, 0))
    (function,) = functions
    assert function == {
        "options": {"scale": "2"},
        "device": "cpu",
        "threads": 1,
        "batch": 8,
        "ranges": {},
        "workspace": 1 << 20,
        "nodes": ["Relu"],
        "opsets": {"": 18},
    }


def test_executables_come_back_from_the_disk_cache(tmp_path: Path) -> None:
    """What serialize() gave reaches load() in another process."""
    code = f"""
        import sys; sys.path[:0] = {BESIDE}
        import numpy as np, openxrt, test_python_engine_extras as t
        p = openxrt.load(t.one_relu([2, 3]), engine="python_full", cache_dir={str(tmp_path)!r},
                         engine_options={{"python_full": {{"scale": 3}}}})
        assert np.array_equal(p(t.X), 3 * np.maximum(t.X, 0))
        print(len(t.functions), t.loaded)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    results = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        for _ in range(2)
    ]
    assert results == ["1 []", "0 [b'3.0']"]


ENGINE = """
    import pathlib, sys
    import numpy as np, openxrt

    class Doubled:
        def __init__(self, factor):
            self.factor = factor
        def run(self, inputs, outputs):
            np.multiply(inputs[0], self.factor, out=outputs[0])
        def serialize(self):
            return str(self.factor).encode()

    said = []

    @openxrt.engine("kept", version=VERSION, ops=["Relu"], files=FILES)
    class Kept:
        def supports(self, node):
            said.append("asked")
            return True
        def compile(self, function):
            said.append("compiled")
            return Doubled(2.0)
        def load(self, blob, function):
            said.append("loaded")
            if BAD:
                raise openxrt.EngineError("it cannot be read")
            return Doubled(float(bytes(blob)))
"""


class Kept:
    """Starts of a program on the engine above, each in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.module = folder / "kept_engine.py"
        self.model = folder / "model.onnx"
        self.model.write_bytes(one_relu([2, 3]))

    def start(
        self, version: str = "1", files: str = "[__file__]", bad: bool = False
    ) -> tuple[list[str], str, str]:
        """What the engine was asked for, the notes of explain(), and what the log said."""
        text = textwrap.dedent(ENGINE).replace("VERSION", repr(version))
        text = text.replace("FILES", files).replace("BAD", str(bad))
        if not self.module.exists() or self.module.read_text() != text:
            self.module.write_text(text)
        code = f"""
            import sys; sys.path.insert(0, {str(self.folder)!r})
            import numpy as np, openxrt, kept_engine
            p = openxrt.load({str(self.model)!r}, engine="kept", strict=True,
                             cache_dir={str(self.folder / "cache")!r})
            x = np.arange(6, dtype=np.float32).reshape(2, 3)
            assert np.array_equal(p(x), 2 * x)
            print(" ".join(kept_engine.said))
            print(" ".join(p.explain()["notes"]))
        """
        result = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"XRT_LOG": "info"},
        )
        assert result.returncode == 0, result.stderr
        said, notes = result.stdout.splitlines()
        return said.split(), notes, result.stderr


def test_the_plan_of_a_python_engine_comes_back_from_the_disk_cache(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    said, notes, _ = kept.start()
    assert {"asked", "compiled"} <= set(said)
    assert "not kept" not in notes
    assert kept.start()[0] == ["loaded"]  # supports() is not asked again


def test_another_version_or_file_of_a_python_engine_is_stale(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.start()
    said, _, log = kept.start(version="2")
    assert {"asked", "compiled"} <= set(said)
    assert "stale" in log
    assert kept.start(version="2")[0] == ["loaded"]
    os.utime(kept.module)  # the same version, but who knows
    assert {"asked", "compiled"} <= set(kept.start(version="2")[0])


def test_a_blob_that_a_python_engine_refuses_is_made_again(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.start(bad=True)
    said, _, log = kept.start(bad=True)
    assert said[-2:] == ["loaded", "compiled"]
    assert "it cannot be read" in log
    assert "compiling again" in log


def test_a_damaged_entry_of_a_python_engine_is_made_again(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.start()
    (entry,) = (tmp_path / "cache").glob("kept-*.xrtc")
    content = bytearray(entry.read_bytes())
    content[-20] ^= 1  # in the blob or in its checksum
    entry.write_bytes(content)
    said, _, log = kept.start()
    assert said == ["compiled"]
    assert "is corrupt: it is made again" in log
    assert kept.start()[0] == ["loaded"]


def test_a_python_engine_without_files_has_its_plans_made_anew(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for last in ("compiled", "loaded"):
        said, notes, _ = kept.start(files="[]")
        assert said[0] == "asked"
        assert said[-1] == last
        assert "engine 'kept' was made in this process and names no files" in notes


def test_errors_carry_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def a_function_of_the_engine(self: Relu, *arguments: object) -> None:
        raise KeyError("not there")

    monkeypatch.setattr(Relu, "run", a_function_of_the_engine)
    program = openxrt.load(one_relu([2, 4]), engine="python_full", cache_dir="")
    with pytest.raises(openxrt.EngineError) as caught:
        program(np.zeros((2, 4), np.float32))
    first, rest = str(caught.value).split("\n", 1)
    assert first == (
        "engine 'python_full' failed to run function 'python_full_0' of node 'relu' (Relu): "
        "engine python_full (Python): python_full_0: KeyError: 'not there'"
    )
    assert "a_function_of_the_engine" in rest
    assert "test_python_engine_extras.py" in rest


def test_an_error_of_ours_keeps_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_(self: FullEngine, function: openxrt.FunctionView) -> None:
        raise openxrt.ResourceError("too large")

    monkeypatch.setattr(FullEngine, "compile", compile_)
    with pytest.raises(openxrt.ResourceError) as caught:
        openxrt.load(one_relu([2, 5]), engine="python_full", cache_dir="")
    step = "engine python_full (Python): compile() of python_full_0"
    assert str(caught.value).endswith(f"{step}: too large")
    assert "engine 'python_full' claimed node 'relu' (Relu)" in str(caught.value)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda self, i, o, c: o, "returns nothing"),
        (lambda self, i, o, c: o.clear(), "left 0 results, 1 are wanted"),
        (lambda self, i, o, c: o.__setitem__(0, i[0][:1] * 1), r"\[1,6\], float32\[2,6\]"),
        (lambda self, i, o, c: o.__setitem__(0, "text"), "'y'"),
    ],
)
def test_wrong_results_are_errors(
    run: Callable, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Relu, "run", run)
    program = openxrt.load(one_relu([2, 6]), engine="python_full", cache_dir="")
    with pytest.raises(openxrt.Error, match=message):
        program(np.zeros((2, 6), np.float32))


def test_a_short_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FullEngine, "supports_all", lambda self, graph: [True])
    with pytest.raises(openxrt.EngineError, match="an answer for each of the graph's 2 nodes"):
        openxrt.load(relu_model([2, 7]), engine="python_full")


def test_views_make_models() -> None:
    """Nodes alone, parts of graphs, and big constants beside the model."""
    weight = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
    model = make_model(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"], name="first"),
            helper.make_node("Relu", ["h"], ["r"], name="relu"),
            helper.make_node("MatMul", ["r", "w"], ["y"], name="second"),
        ],
        [tensor("x", TensorProto.FLOAT, [2, 64])],
        [tensor("y", TensorProto.FLOAT, [2, 64])],
        [numpy_helper.from_array(weight, "w")],
    )
    found: dict[str, object] = {}

    @openxrt.engine("python_views", version="1")
    class ViewsEngine:
        def supports(self, node: openxrt.NodeView) -> bool:
            return True

        def supports_all(self, graph: openxrt.GraphView) -> list[bool]:
            first, relu, second = graph.nodes
            found["signatures"] = [node.signature() for node in (first, relu, second)]
            found["alone"] = onnx.load_model_from_string(first.to_onnx())
            found["part"] = onnx.load_model_from_string(
                graph.to_onnx([relu, second], large="input")
            )
            found["values"] = (relu.inputs, relu.outputs, first.constants[1])
            return [True] * 3

        def compile(self, function: openxrt.FunctionView) -> Callable[..., object]:
            found["lean"] = onnx.load_model_from_string(function.to_onnx(inline_limit=1024))
            found["whole"] = onnx.load_model_from_string(function.to_onnx())
            found["constants"] = function.constants(1024)
            return lambda x: np.maximum(x @ weight, 0) @ weight

    x = np.ones((2, 64), np.float32)
    program = openxrt.load(model, engine="python_views", strict=True, cache_dir="")
    np.testing.assert_allclose(program(x), np.maximum(x @ weight, 0) @ weight)
    first, relu, second = found["signatures"]
    assert first == second != relu
    assert [i.name for i in found["alone"].graph.input] == ["i0", "i1"]
    onnx.checker.check_model(found["alone"])
    assert [node.name for node in found["part"].graph.node] == ["relu", "second"]
    assert {i.name for i in found["part"].graph.input} == {"h", "w"}
    onnx.checker.check_model(found["part"])
    inputs, outputs, constant = found["values"]
    assert (inputs, outputs) == (["h"], ["r"])
    np.testing.assert_array_equal(constant, weight)
    assert not constant.flags.writeable
    assert found["lean"].graph.initializer[0].external_data[0].value == "openxrt-constants"
    np.testing.assert_array_equal(found["constants"]["w"], weight)
    np.testing.assert_array_equal(
        numpy_helper.to_array(found["whole"].graph.initializer[0]), weight
    )


def opset_of(*nodes: onnx.NodeProto) -> int:
    """The opset that an engine's model of these nodes, on an image, declares."""
    found: list[int] = []

    @openxrt.engine(f"python_opset_{nodes[0].name}", version="1")
    class OpsetEngine:
        def supports(self, node: openxrt.NodeView) -> bool:
            return True

        def compile(self, function: openxrt.FunctionView) -> Callable[..., object]:
            model = onnx.load_model_from_string(function.to_onnx())
            onnx.checker.check_model(model, full_check=True)
            found.extend(entry.version for entry in model.opset_import if entry.domain == "")
            return lambda x: x

    image = [1, 2, 6, 6]
    small = (np.array([0, 0, 1, 1, 0, 0, 1, 1]), np.ones(4, np.float32))
    model = make_model(
        list(nodes),
        [tensor("x", TensorProto.FLOAT, image)],
        [tensor("y", TensorProto.FLOAT, ["n", "c", "h", "w"])],
        [
            numpy_helper.from_array(a, name)
            for a, name in zip(small, ("pads", "scales"), strict=True)
        ],
    )
    openxrt.load(model, engine=f"python_opset_{nodes[0].name}", strict=True, cache_dir="")
    return found[0]


def test_models_declare_the_oldest_opset_that_means_the_same() -> None:
    """Kernels of newer ones may be slower: ONNX Runtime's AveragePool of 19 is, five times."""

    def node(name: str, op: str, inputs: list[str], **attributes: object) -> onnx.NodeProto:
        return helper.make_node(op, inputs, ["y"], name=name, **attributes)

    pool = {"kernel_shape": [2, 2]}
    assert opset_of(node("pool", "AveragePool", ["x"], **pool)) == 18
    assert opset_of(node("dilated", "AveragePool", ["x"], **pool, dilations=[2, 2])) == 19
    assert opset_of(node("rounded", "AveragePool", ["x"], **pool, ceil_mode=1)) == 22
    # What an attribute may say came later than the attribute.
    assert opset_of(node("reflect", "Pad", ["x", "pads"], mode="reflect")) == 18
    assert opset_of(node("wrap", "Pad", ["x", "pads"], mode="wrap")) == 19
    resize = ["x", "", "scales"]
    mode = "coordinate_transformation_mode"
    assert opset_of(node("half", "Resize", resize, **{mode: "half_pixel"})) == 18
    assert opset_of(node("symmetric", "Resize", resize, **{mode: "half_pixel_symmetric"})) == 19
    assert opset_of(node("gelu", "Gelu", ["x"])) == 20


def test_what_is_left_on_another_device_runs_on_the_host() -> None:
    @openxrt.engine("python_far_device", version="1", devices=["far:7"])
    class FarEngine:
        def supports(self, node: openxrt.NodeView) -> bool | str:
            assert node.device == "far:7"
            return node.op == "Relu" or f"{node.op} is not written"

        def compile(self, function: openxrt.FunctionView) -> Callable[..., object]:
            assert function.device == "far:7"
            return lambda x: np.maximum(x, 0)

    program = openxrt.load(
        relu_model([2, 3]), engine="python_far_device", device="far:7", cache_dir=""
    )
    np.testing.assert_array_equal(program(X), -np.maximum(X, 0))
    assert program.explain().nodes_per_engine == {"native": 1, "python_far_device": 1}
    with pytest.raises(openxrt.Unsupported, match="does not drive the device 'far:7', but cpu"):
        openxrt.load(relu_model([2, 3]), engine="native", device="far:7", cache_dir="")


def test_engines_of_other_packages_are_found(tmp_path: Path) -> None:
    """By an entry point of the group openxrt.engines, imported when asked for."""
    (tmp_path / "far_engine.py").write_text(
        textwrap.dedent("""
        import numpy as np, openxrt
        @openxrt.engine("far", version="7")
        class FarEngine:
            def supports(self, node):
                return node.op == "Relu" or "no"
            def compile(self, function):
                return lambda x: np.maximum(x, 0)
        """)
    )
    info = tmp_path / "far_engine-7.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: far-engine\nVersion: 7\n")
    (info / "entry_points.txt").write_text(
        "[openxrt.engines]\nfar = far_engine:FarEngine\nlost = no_such_module:Engine\n"
    )
    code = f"""
        import sys; sys.path[:0] = {BESIDE}
        import numpy as np, openxrt
        from test_python_engine_extras import one_relu, X
        assert {{"far", "lost"}} <= set(openxrt.engines())
        assert "far_engine" not in sys.modules
        p = openxrt.load(one_relu([2, 3]), engine="far", strict=True)
        assert np.array_equal(p(X), np.maximum(X, 0))
        try:
            openxrt.load(one_relu([2, 3]), engine="lost")
        except openxrt.EngineError as error:
            print(error)
    """
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert result.returncode == 0, result.stderr
    assert "engine lost" in result.stdout
    assert "no_such_module" in result.stdout
