# SPDX-License-Identifier: Apache-2.0
"""`precision` on engines with and without an option of their own for it, judged by NumPy."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper, numpy_helper

ENGINES = ["native", "openvino", "xla", "onnxruntime", "tvm"]
# Their libraries have no product of that type on a CPU.
REFUSED = {("tvm", "bf16"), ("tvm", "f16"), ("onnxruntime", "bf16")}
HALF = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
RNG = np.random.default_rng(0)
# Of what is multiplied: oneDNN uses AMX, and bfloat16 with it, from 16 rows on.
ROWS = {"bf16": 16, "f16": 3}


def product(weights: np.ndarray, rows: int = 3) -> openxrt.Graph:
    """x·W, Relu, Softmax, ·W."""
    graph = openxrt.Graph("network")
    x = graph.add_input("x", "float32", [rows, 64])
    w = graph.add_constant(weights, "float32")
    (first,) = graph.add_node("MatMul", [x, w], ["first"])
    (relu,) = graph.add_node("Relu", [first], ["relu"])
    (softmax,) = graph.add_node("Softmax", [relu], ["softmax"])
    (last,) = graph.add_node("MatMul", [softmax, w], ["last"])
    graph.add_output(relu)
    graph.add_output(last)
    return graph


def expected(x: np.ndarray, weights: np.ndarray, half: type) -> dict[str, np.ndarray]:
    """Rounded factors, sums in float32, rounded results."""
    wide, w = np.float32, weights.astype(half).astype(np.float32)
    relu = np.maximum((x.astype(half).astype(wide) @ w).astype(half).astype(wide), 0)
    powers = np.exp(relu - relu.max(-1, keepdims=True))
    softmax = (powers / powers.sum(-1, keepdims=True)).astype(half).astype(wide)
    return {"relu": relu, "last": (softmax @ w).astype(half).astype(wide)}


@pytest.mark.parametrize("precision", HALF)
@pytest.mark.parametrize("engine", ENGINES)
def test_half_precision_is_computed_or_refused(engine: str, precision: str) -> None:
    if engine not in openxrt.engines():
        pytest.skip(f"{engine} is not installed")
    # Softmax makes a relative error of what it is given absolutely: so that is about 1.
    weights = (RNG.normal(size=(64, 64)) / 8).astype(np.float32)
    x = RNG.normal(size=(ROWS[precision], 64)).astype(np.float32)
    options = {"engine": engine, "precision": precision, "strict": True, "cache_dir": ""}
    try:
        program = openxrt.load(product(weights, ROWS[precision]), **options)
    except openxrt.Unsupported as error:
        assert (engine, precision) in REFUSED
        assert f"precision {precision}: no engine of the program has it on cpu" in str(error)
        return
    given = program.run({"x": x})
    exact = expected(x, weights, np.float32)
    step = float(ml_dtypes.finfo(HALF[precision]).eps)
    for name, wanted in expected(x, weights, HALF[precision]).items():
        assert given[name].dtype == np.float32
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(given[name], wanted, atol=2 * step * scale, err_msg=name)
        # It is not float32 under another name.
        assert np.abs(given[name] - exact[name]).max() > step / 64 * scale
    assert program.explain()["precision"] == precision


def test_an_engine_that_has_it_not_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    if "tvm" not in openxrt.engines():
        pytest.skip("tvm is not installed")
    weights = np.eye(64, dtype=np.float32)
    program = openxrt.load(product(weights), engine="tvm", precision="bf16", cache_dir="")
    program.run({"x": np.ones((3, 64), np.float32)})
    said = capfd.readouterr().err
    assert "precision bf16: no engine of the program has it on cpu ('tvm')" in said
    assert "engine 'tvm' computes in float32: it has no bf16" in program.explain()["notes"]


@pytest.mark.parametrize("engine", ["native", "xla", "onnxruntime"])
def test_weights_outside_the_range_are_named(
    engine: str, capfd: pytest.CaptureFixture[str]
) -> None:
    if engine not in openxrt.engines():
        pytest.skip(f"{engine} is not installed")
    weights = np.full((64, 64), 1e6, np.float32)
    weights[3, 4] = -3e6
    options = {"engine": engine, "precision": "f16", "cache_dir": ""}
    program = openxrt.load(product(weights), **options)
    x = RNG.normal(size=(3, 64)).astype(np.float32)
    said = capfd.readouterr().err
    assert "the constants of 2 products are outside the range of f16" in said
    assert "holds -3000000; they stay in float32" in said
    np.testing.assert_allclose(
        program.run({"x": x})["relu"], np.maximum(x @ weights, 0), rtol=1e-3, atol=50
    )
    with pytest.raises(
        openxrt.Unsupported, match=r"outside the range of f16: node .* holds -3000000"
    ):
        openxrt.load(product(weights), strict=True, **options)
    openxrt.load(product(weights), strict=True, **{**options, "precision": "f32"})


def test_a_warning_is_one_of_the_program(capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever sizes come, and however often."""
    graph = openxrt.Graph("network")
    x = graph.add_input("x", "float32", ["n", 64])
    w = graph.add_constant(np.full((64, 64), 1e6, np.float32), "float32")
    graph.add_output(graph.add_node("MatMul", [x, w], ["y"])[0])
    program = openxrt.load(graph, engine="native", precision="f16", cache_dir="")
    for n in (1, 2, 3, 4, 1):
        program.run({"x": np.ones((n, 64), np.float32)})
    assert capfd.readouterr().err.count("outside the range of f16") == 1
    if "tvm" not in openxrt.engines():
        return
    program = openxrt.load(graph, engine="tvm", precision="bf16", cache_dir="")
    for n in (1, 2, 3):
        program.run({"x": np.ones((n, 64), np.float32)})
    assert capfd.readouterr().err.count("no engine of the program has it") == 1


def large_and_small_again() -> tuple[Callable[[], openxrt.Graph], np.ndarray, np.ndarray]:
    """Two products, of which the first is too large for float16; its input and result."""
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(2, 64, 64)).astype(np.float32)

    def network() -> openxrt.Graph:
        graph = openxrt.Graph("network")
        x = graph.add_input("x", "float32", [3, 64])
        first = graph.add_constant(weights[0], "float32")
        second = graph.add_constant(weights[1] * 1e-4, "float32")
        (large,) = graph.add_node("MatMul", [x, first], ["large"], name="grows")
        (small,) = graph.add_node("MatMul", [large, second], ["small"], name="shrinks")
        graph.add_output(graph.add_node("Relu", [small], ["y"])[0])
        return graph

    x = 2e4 * rng.normal(size=(3, 64)).astype(np.float32)
    return network, x, np.maximum(x @ weights[0] @ (weights[1] * np.float32(1e-4)), 0)


# They round where the graph has casts, and compute in float32 what lies between.
@pytest.mark.parametrize("engine", ["native", "onnxruntime"])
def test_nothing_overflows_between_casts(engine: str) -> None:
    if engine not in openxrt.engines():
        pytest.skip(f"{engine} is not installed")
    network, x, exact = large_and_small_again()
    found = openxrt.load(network(), engine=engine, precision="f16", cache_dir="").run({"x": x})["y"]
    np.testing.assert_allclose(found, exact, atol=2e-3 * np.abs(exact).max())


@pytest.mark.parametrize("engine", ["xla"])
def test_values_outside_the_range_are_named_and_mended(
    engine: str, capfd: pytest.CaptureFixture[str]
) -> None:
    if engine not in openxrt.engines():
        pytest.skip(f"{engine} is not installed")
    network, x, exact = large_and_small_again()
    options = {"engine": engine, "precision": "f16", "cache_dir": ""}
    program = openxrt.load(network(), **options)
    assert not np.isfinite(program.run({"x": x})["y"]).all()
    said = ""
    for _ in range(200):
        found = program.run({"x": x})["y"]
        said += capfd.readouterr().err
        if np.isfinite(found).all():
            break
        time.sleep(0.05)
    np.testing.assert_allclose(found, exact, atol=2e-3 * np.abs(exact).max())
    assert said.count("makes values outside the range of f16: node 'grows': 'large' reaches") == 1
    assert "these nodes are computed in float32 from now on" in said
    # A strict program stays as it is.
    program = openxrt.load(network(), strict=True, **options)
    said = ""
    for _ in range(200):
        found = program.run({"x": x})["y"]
        said += capfd.readouterr().err
        if "outside the range" in said:
            break
        time.sleep(0.05)
    assert "node 'grows': 'large' reaches" in said
    assert "results may be infinite" in said
    assert not np.isfinite(program.run({"x": x})["y"]).all()


HELD = """
import ctypes, gc, re, sys
from pathlib import Path
import numpy as np
import openxrt

def held():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(re.search(r"RssAnon:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

def run(path):
    options = {"engine": sys.argv[1], "precision": sys.argv[2], "cache_dir": ""}
    program = openxrt.load(path, strict=True, check_results=False, **options)
    for _ in range(3):
        program.run({"x": np.ones((1, 1024), np.float32)})
    return program

run(sys.argv[3])  # what the engine keeps for all programs
before = held()
program = run(sys.argv[4])
print(held() - before)
"""


def chain(folder: Path, length: int) -> tuple[Path, int]:
    """Products one behind the other, their weights in a file beside the model; and their bytes."""
    weights = [
        numpy_helper.from_array(RNG.normal(size=(1024, 1024)).astype(np.float32), f"w{i}")
        for i in range(length)
    ]
    nodes = [
        helper.make_node("MatMul", [f"y{i}" if i else "x", f"w{i}"], [f"y{i + 1}"])
        for i in range(length)
    ]
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1024])
        for name in ("x", f"y{length}")
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "chain", ports[:1], ports[1:], weights),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    path = folder / f"chain{length}.onnx"
    onnx.save(model, path, save_as_external_data=True, location=f"{path.stem}.bin")
    return path, length * 4 * 1024**2


@pytest.mark.parametrize("precision", HALF)
def test_weights_take_half_the_memory(precision: str, tmp_path: Path) -> None:
    """On an engine that keeps them in the type that it is given, on any processor."""
    if "xla" not in openxrt.engines():
        pytest.skip("xla is not installed")
    (small, _), (large, size) = chain(tmp_path, 1), chain(tmp_path, 16)
    done = subprocess.run(
        [sys.executable, "-c", HELD, "xla", precision, small, large],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert 0.4 * size < int(done.stdout) < 0.6 * size


def test_engine_options_are_judged_with_open_dimensions() -> None:
    graph = openxrt.Graph("network")
    x = graph.add_input("x", "float32", ["n", 4])
    graph.add_output(graph.add_node("Relu", [x], ["y"])[0])
    with pytest.raises(openxrt.InvalidArgument, match="engine 'native' has no option 'speed'"):
        openxrt.load(graph, engine="native", engine_options={"native": {"speed": 3}})


@pytest.mark.parametrize("engine", ["native", "openvino", "xla", "onnxruntime"])
def test_one_engine_has_another_precision(engine: str, capfd: pytest.CaptureFixture[str]) -> None:
    """`engine_options` go before the precision of the program, in both directions."""
    if engine not in openxrt.engines():
        pytest.skip(f"{engine} is not installed")
    weights = RNG.normal(size=(64, 64)).astype(np.float32)
    x = RNG.normal(size=(3, 64)).astype(np.float32)

    def run(precision: str, own: str | None) -> np.ndarray:
        options = {} if own is None else {"engine_options": {engine: {"precision": own}}}
        program = openxrt.load(
            product(weights),
            engine=engine,
            precision=precision,
            strict=True,
            cache_dir="",
            **options,
        )
        results = [program.run({"x": x})["last"] for _ in range(3)]  # the results are checked, too
        assert all(np.array_equal(results[0], each) for each in results)
        return results[0]

    exact = run("f32", None)
    np.testing.assert_array_equal(run("f16", "f32"), exact)
    try:
        rounded = run("f16", None)
    except openxrt.Unsupported:  # openvino on a processor without such arithmetic
        with pytest.raises(openxrt.Unsupported, match="precision f16: no engine"):
            run("f32", "f16")
    else:
        assert not np.array_equal(rounded, exact)
        np.testing.assert_array_equal(run("f32", "f16"), rounded)
    assert "differs" not in capfd.readouterr().err


def test_a_precision_of_an_engine_that_is_none() -> None:
    graph = product(np.eye(64, dtype=np.float32))
    with pytest.raises(openxrt.InvalidArgument, match="the precision is 'f8'; f32, bf16 or f16"):
        openxrt.load(graph, engine="native", engine_options={"native": {"precision": "f8"}})
