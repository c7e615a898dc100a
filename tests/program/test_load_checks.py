# SPDX-License-Identifier: Apache-2.0
"""What stands in a program's way is an error of load(), with open dimensions too; nothing that was
named falls to another engine in silence."""

import shutil
from collections.abc import Callable, Sequence

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import make_model, tensor, usable

FLOAT = TensorProto.FLOAT
Support = Callable[[openxrt.NodeView], bool | str]


def chain(
    ops: Sequence[str | tuple[str, str]], shape: Sequence[int | str] = ("N", 3), dtype: int = FLOAT
) -> bytes:
    """x through one node after the other, each named n0, n1, …; (op, domain) of other domains."""
    nodes = []
    for i, op in enumerate(ops):
        name, domain = op if isinstance(op, tuple) else (op, "")
        inputs = [f"v{i}" if i else "x"]
        inputs = inputs * 2 if name in ("StringConcat", "Add") else inputs
        nodes.append(helper.make_node(name, inputs, [f"v{i + 1}"], name=f"n{i}", domain=domain))
    nodes[-1].output[0] = "y"
    domains = {domain: 1 for op in ops if isinstance(op, tuple) for domain in [op[1]]}
    return make_model(
        nodes, [tensor("x", dtype, shape)], [tensor("y", dtype, None)], domains=domains
    )


def make_engine(name: str, supports: Support, devices: Sequence[str] = ("cpu",)) -> None:
    """An engine of Relu and Neg that answers as told."""

    class Picky:
        def supports(self, node: openxrt.NodeView) -> bool | str:
            return supports(node)

        def compile(self, function: openxrt.FunctionView) -> Callable[..., object]:
            ops = [node.op for node in function.nodes]

            def run(x: np.ndarray) -> np.ndarray:
                for op in ops:
                    x = np.maximum(x, 0) if op == "Relu" else -x
                return x

            return run

    openxrt.engine(name, version="1", devices=devices, dynamic_shapes=True)(Picky)


make_engine("checks_relu", lambda node: node.op == "Relu" or f"{node.op} is not written")
make_engine("checks_nothing", lambda node: "it is on strike")
make_engine("checks_far", lambda node: node.op == "Relu" or "no", devices=["far:8"])
make_engine("checks_idle_far", lambda node: "there is no far device", devices=["far:9"])


@pytest.mark.parametrize("shape", [("N", 3), (2, 3)])
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"engine": "native", "device": "banana"},
            openxrt.Unsupported,
            "'native' cannot be used: it does not drive the device 'banana', but cpu",
        ),
        (
            {"engine": "auto", "device": "banana"},
            openxrt.Unsupported,
            "no engine for the device 'banana'",
        ),
        (
            {"engine": ["checks_relu", "native", "checks_relu"]},
            openxrt.InvalidArgument,
            "'checks_relu' is listed twice",
        ),
        (
            {"engine": ["auto", "native", "native"]},
            openxrt.InvalidArgument,
            "'native' is listed twice",
        ),
        ({"engine": ["native", "warp"]}, openxrt.NotFound, "no engine 'warp'"),
        ({"engine": "warp", "fallback": True}, openxrt.NotFound, "no engine 'warp'"),
        (
            {"engine": "checks_far"},
            openxrt.Unsupported,
            "does not drive the device 'cpu', but far:8",
        ),
        (
            {"engine": ["native", "checks_far"]},
            openxrt.Unsupported,
            "does not drive the device 'cpu', but far:8; leave it out, or set `fallback`",
        ),
        (
            {"engine": ["checks_idle_far", "native"], "device": "far:9"},
            openxrt.Unsupported,
            r"(?s)nothing of the model can run on the device 'far:9'.*there is no far device",
        ),
        (
            {"engine": "checks_relu", "strict": True},
            openxrt.Unsupported,
            r"(?s)no engine takes 2 nodes.*'n1' \(Neg\), the first of 2 nodes.*Neg is not written",
        ),
        (
            {"engine": "native", "node_engines": {"n0": "checks_relu"}},
            openxrt.InvalidArgument,
            "'checks_relu', which is not among the program's engines",
        ),
        (
            {"engine": ["checks_relu", "native"], "node_engines": {"n1": "checks_relu"}},
            openxrt.InvalidArgument,
            "'checks_relu', which refuses it: Neg is not written",
        ),
    ],
)
def test_load_says_it(
    shape: tuple[int | str, ...], options: dict, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        openxrt.load(chain(["Relu", "Neg", "Relu", "Neg"], shape), **options, cache_dir="")


@pytest.mark.parametrize("shape", [("N", 3), (2, 3)])
def test_all_unknown_ops_are_listed(shape: tuple[int | str, ...]) -> None:
    wrong = ["Frobnicate", "Relu", "Frobnicate", "Gyrate", ("Gizmo", "nobody"), "Frobnicate"]
    with pytest.raises(openxrt.Unsupported) as caught:
        openxrt.load(chain(wrong, shape), engine="native")
    text = str(caught.value)
    assert "2 ops cannot be read" in text
    assert "node 'n0' (Frobnicate): no such op in opset 21 of the ONNX standard (3 nodes" in text
    assert "node 'n3' (Gyrate): no such op" in text
    assert "nobody.Gizmo (1 node)" in text
    wrong = [("Gizmo", "nobody"), "Relu", ("Gizmo", "nobody"), ("Widget", "nobody")]
    for engine in ("native", "auto", ["checks_relu", "native"]):
        with pytest.raises(openxrt.Unsupported) as caught:
            openxrt.load(chain(wrong, shape), engine=engine)
        text = str(caught.value)
        assert "no engine takes 3 nodes" in text
        assert "node 'n0' (nobody.Gizmo), the first of 2 nodes of this op" in text
        assert "node 'n3' (nobody.Widget)" in text


@pytest.mark.parametrize("engine", ["native", "auto", ["checks_relu", "checks_nothing", "native"]])
def test_long_lists_of_unknown_ops_are_cut(engine: str | list[str]) -> None:
    """Also names, which engines repeat in their reasons."""
    for wrong in (
        [("Gizmo", "nobody")] * 2000,
        [(f"Gizmo{i}", "nobody") for i in range(2000)],
        [("Gizmo", "n" * 50000), ("Widget", "n" * 50000)],
    ):
        with pytest.raises(openxrt.Unsupported) as caught:
            openxrt.load(chain(wrong), engine=engine)
        text = str(caught.value)
        assert f"no engine takes {len(wrong)} nodes" in text
        assert len(text) < 1500
    assert "Gizmo)" in text
    both = [f"Frobnicate{i}" for i in range(2000)] + [(f"Gizmo{i}", "nobody") for i in range(9)]
    with pytest.raises(openxrt.Unsupported) as caught:
        openxrt.load(chain(both), engine=engine)
    text = str(caught.value)
    assert "2000 ops cannot be read" in text
    assert "and 1992 more ops" in text
    assert "and 1 more ops" in text
    assert len(text) < 1500


def test_unknown_ops_of_bodies_are_listed() -> None:
    def body(op: str, name: str) -> onnx.GraphProto:
        node = helper.make_node(op, ["x"], [f"{name}_y"], name=name, domain="nobody")
        return helper.make_graph([node], name, [], [tensor(f"{name}_y", FLOAT, None)])

    choice = helper.make_node(
        "If", ["c"], ["y"], "choice", then_branch=body("A", "a"), else_branch=body("B", "b")
    )
    model = make_model(
        [choice],
        [tensor("c", TensorProto.BOOL, []), tensor("x", FLOAT, ["N"])],
        [tensor("y", FLOAT, None)],
        domains={"nobody": 1},
    )
    with pytest.raises(openxrt.Unsupported) as caught:
        openxrt.load(model)
    assert "no engine takes 2 nodes" in str(caught.value)
    assert "node 'choice/then_branch/a' (nobody.A)" in str(caught.value)
    assert "node 'choice/else_branch/b' (nobody.B)" in str(caught.value)


@pytest.mark.parametrize("engine", ["native", "openvino", "xla"])
@pytest.mark.parametrize("sizes", [[None] * 4, [1, 1, 4, 4]], ids=str)
def test_an_op_that_no_engine_knows_is_refused_at_load(engine: str, sizes: list) -> None:
    """Also by an engine that needs to know the sizes of those that it does."""
    if not usable(engine):
        pytest.skip(f"{engine} is not there")
    model = make_model(
        [helper.make_node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=[2, 2])],
        [tensor("x", FLOAT, sizes), tensor("r", FLOAT, [None, 5])],
        [tensor("y", FLOAT, None)],
    )
    with pytest.raises(openxrt.Unsupported, match="no engine takes node 'MaxRoiPool'"):
        openxrt.load(model, engine=list(dict.fromkeys([engine, "native"])))


@pytest.mark.parametrize("engine", ["openvino", "xla", "onnxruntime"])
def test_strict_refuses_at_load_what_no_size_can_mend(engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not available")
    model = make_model(
        [helper.make_node("StringConcat", ["x", "x"], ["y"], name="joined")],
        [tensor("x", TensorProto.STRING, ["N"])],
        [tensor("y", TensorProto.STRING, ["N"])],
    )
    with pytest.raises(openxrt.Unsupported, match=f"(?s)StringConcat.*{engine}"):
        openxrt.load(model, engine=engine, strict=True, cache_dir="")


@pytest.mark.parametrize("engine", ["native", "openvino", "xla", "tvm"])
def test_strict_waits_for_the_sizes_where_they_matter(engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not available")
    program = openxrt.load(chain(["Relu", "Neg"]), engine=engine, strict=True, cache_dir="")
    x = np.array([[1, -2, 3]], np.float32)
    np.testing.assert_array_equal(program(x), -np.maximum(x, 0))


def test_a_refusal_by_size_comes_with_the_size() -> None:
    def supports(node: openxrt.NodeView) -> bool | str:
        output = node.output_types[0]
        rows = output.shape[0] if output is not None and output.shape else None
        return not isinstance(rows, int) or rows < 100 or f"{rows} rows are too many"

    make_engine("checks_small", supports)
    program = openxrt.load(chain(["Relu"]), engine="checks_small", strict=True, cache_dir="")
    assert program(np.ones((99, 3), np.float32)).shape == (99, 3)
    with pytest.raises(openxrt.Unsupported, match="100 rows are too many"):
        program(np.ones((100, 3), np.float32))


def test_fallback_goes_without_engines_that_cannot_serve(capfd: pytest.CaptureFixture) -> None:
    program = openxrt.load(
        chain(["Relu"]), engine=["checks_far", "native"], fallback=True, cache_dir=""
    )
    told = capfd.readouterr().err
    assert told.count("the program goes without engine 'checks_far': it does not drive") == 1
    np.testing.assert_array_equal(program(-np.ones((2, 3), np.float32)), np.zeros((2, 3)))
    assert program.explain().nodes_per_engine == {"native": 1}
    with pytest.raises(openxrt.EngineError, match="none of the engines 'checks_far' can be had"):
        openxrt.load(chain(["Relu"]), engine="checks_far", fallback=True, strict=True)


@pytest.mark.parametrize("shape", [("N", 3), (2, 3)])
def test_what_runs_elsewhere_is_told_once(
    shape: tuple[int | str, ...], capfd: pytest.CaptureFixture
) -> None:
    def told(engines: Sequence[str]) -> str:
        model = chain(["Relu", "Neg", "Neg"], shape)
        program = openxrt.load(model, engine=engines, cache_dir="")
        for _ in range(3):
            program(np.ones((2, 3), np.float32))
        return capfd.readouterr().err

    text = told(["checks_relu"])
    assert text.count("2 of 3 nodes run on 'native', which is not among the engines named") == 1
    assert "checks_relu does not take 'n1' (Neg): Neg is not written" in text
    assert told(["checks_relu", "native"]) == ""
    text = told(["checks_nothing", "native"])
    assert text.count("engine 'checks_nothing' runs none of the 3 nodes; not 'n0' (Relu)") == 1
    assert "it is on strike" in text
    assert told(["native", "checks_nothing"]) == ""


def test_a_device_is_idle_where_only_folding_takes_nodes() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"], name="sizes"),
        helper.make_node("Relu", ["x"], ["r"], name="positive"),
        helper.make_node("Reshape", ["r", "sizes"], ["y"], name="same"),
    ]
    x, y = tensor("x", FLOAT, ["N", 3]), tensor("y", FLOAT, ["N", 3])
    with pytest.raises(openxrt.Unsupported, match=r"(?s)nothing of the model.*no far device"):
        openxrt.load(make_model(nodes, [x], [y]), engine="checks_idle_far", device="far:9")


@pytest.mark.parametrize("shape", [("N", 3), (2, 3)])
@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
@pytest.mark.parametrize("engine", ["cuda", "tvm", "tensorrt", "auto"])
def test_a_gpu_that_is_not_there_is_an_error(
    engine: str, device: str, shape: tuple[int | str, ...]
) -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has a GPU")
    if engine != "auto" and not usable(engine):
        pytest.skip(f"{engine} is not available")
    named = [engine] if engine == "auto" else [engine, "native"]
    with pytest.raises(openxrt.Unsupported, match="this machine has no GPU that CUDA's driver"):
        openxrt.load(chain(["Relu"], shape), engine=named, device=device, cache_dir="")
