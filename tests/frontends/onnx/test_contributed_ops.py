# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's contributed ops in ops of the standard, against ONNX Runtime itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openxrt
import pytest
from contributed_cases import MICROSOFT, NCHWC, Case, Const, all_cases
from onnx import TensorProto, helper
from small_models import make_model, tensor, untyped, usable

onnxruntime = pytest.importorskip("onnxruntime")
Fail = onnxruntime.capi.onnxruntime_pybind11_state.Fail

Array = np.ndarray
CASES = all_cases()
ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src" / "onnx" / "contributed"


def wanted(data: bytes, feeds: dict[str, Array]) -> dict[str, Array]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Fail as error:
        if "not yet supported on this hardware platform" not in str(error):
            raise
        pytest.skip("ONNX Runtime has no kernel of it for this processor")
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


def compare(case: Case, found: dict[str, Array], expected: dict[str, Array]) -> None:
    for name, right in expected.items():
        left = np.asarray(found[name])
        assert left.dtype == right.dtype, name
        assert left.shape == right.shape, name
        if right.dtype.kind in "iub":
            off = np.abs(left.astype(np.int64) - right.astype(np.int64))
            assert off.max(initial=0) <= case.atol, name
        else:
            np.testing.assert_allclose(
                left.astype(np.float64),
                right.astype(np.float64),
                rtol=case.rtol,
                atol=case.atol,
                err_msg=name,
            )


def check(case: Case, engine: str, open_dimensions: bool = False) -> None:
    data, feeds = case.model(open_dimensions)
    expected = wanted(data, feeds)
    program = openxrt.load(data, engine=engine)
    compare(case, program.run(feeds), expected)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_native(case: Case) -> None:
    check(case, "native")


# A rewriting asks for no size. These ask for the number of channels.
SIZED = {"Conv"}


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.op not in SIZED], ids=lambda case: case.label
)
def test_open_dimensions(case: Case) -> None:
    check(case, "native", open_dimensions=True)


def some_of_each() -> Iterator[Case]:
    seen: set[tuple[str, str]] = set()
    for case in CASES:
        if case.everywhere or (case.domain, case.op) not in seen:
            seen.add((case.domain, case.op))
            yield case


def beside_native(engine: str) -> str:
    """What the engine does not take, the native one does."""
    return engine if engine == "native" else f"{engine},native"


@pytest.mark.parametrize("engine", ["openvino", "xla"])
@pytest.mark.parametrize("case", list(some_of_each()), ids=lambda case: case.label)
def test_other_engines(engine: str, case: Case) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not here")
    if engine == "openvino" and case.op == "MurmurHash3":
        pytest.skip("its CPU plugin has no whole numbers of 32 bits without a sign")
    check(case, beside_native(engine))


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3), (4, 1, 4, 2)], ids=len)
@pytest.mark.parametrize("engine", ["native", "openvino", "xla"])
def test_transposed_matrix_times_vector(engine: str, shape: tuple[int, ...]) -> None:
    """Against NumPy: ONNX Runtime does not turn the matrix there."""
    if not usable(engine):
        pytest.skip(f"{engine} is not here")
    rng = np.random.default_rng(0)
    a = rng.normal(size=shape).astype(np.float32)
    b = rng.normal(size=shape[-2]).astype(np.float32)
    for op in ("FusedMatMul", "TransposeMatMul"):
        for right in (b, Const(b)):
            data, feeds = Case(op, [a, right], {"transA": 1, "alpha": 0.5}).model()
            found = openxrt.load(data, engine=beside_native(engine)).run(feeds)["y0"]
            expected = 0.5 * (a.swapaxes(-1, -2) @ b)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("engine", ["native", "openvino", "xla"])
def test_quantised_average_beyond_the_padding(engine: str) -> None:
    """Against ONNX Runtime's pool of floats: its QLinearAveragePool counts what is beyond."""
    if not usable(engine):
        pytest.skip(f"{engine} is not here")
    x = np.random.default_rng(0).integers(0, 200, (1, 2, 7, 8)).astype(np.uint8)
    attributes = {
        "kernel_shape": [2, 3],
        "strides": [2, 3],
        "pads": [0, 1, 0, 1],
        "ceil_mode": 1,
        "count_include_pad": 1,
    }
    step = [Const(np.array(1, np.float32)), Const(np.array(0, np.uint8))]
    data, feeds = Case("QLinearAveragePool", [x, *step, *step], attributes).model()
    pool = Case("AveragePool", [x.astype(np.float32)], attributes, domain="")
    expected = wanted(*pool.model())["y0"]
    found = openxrt.load(data, engine=beside_native(engine)).run(feeds)["y0"]
    np.testing.assert_allclose(found.astype(np.float32), expected, rtol=0, atol=0.51)


def test_strings_are_not_hashed() -> None:
    words = np.array(["a", "b"], object)
    data, _ = Case("MurmurHash3", [words]).model()
    with pytest.raises(openxrt.Error, match="no op of the standard reads"):
        openxrt.load(data, engine="native")


def tables() -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """The ops that have a rewriting, and those that have a reason, as the sources list them."""
    domains = {"kMicrosoft": MICROSOFT, "kNchwc": NCHWC, '""': ""}
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(SOURCES.glob("*.cc")))
    rewritten = re.findall(r'\{(kMicrosoft|kNchwc|""), "(\w+)", rewrite_\w+\}', text)
    reasons = re.findall(r'\{(kMicrosoft|kNchwc|""), "(\w+)",\s+(?!rewrite_)', text)
    return {(domains[d], op) for d, op in rewritten}, {(domains[d], op) for d, op in reasons}


def cpu_ops() -> set[tuple[str, str]]:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return {
        (kernel.domain, kernel.op_name)
        for kernel in state.get_all_opkernel_def()
        if kernel.provider == "CPUExecutionProvider" and kernel.domain in (MICROSOFT, NCHWC)
    }


def test_every_op_of_onnx_runtime_is_tested_or_has_its_reason() -> None:
    rewritten, reasons = tables()
    assert not rewritten & reasons
    tested = {(case.domain, case.op) for case in CASES}
    ops = cpu_ops()
    assert ops <= tested | reasons
    assert tested <= rewritten
    assert len(ops & tested) >= 0.9 * len(ops)


def test_the_formats_page_names_every_op() -> None:
    page = (ROOT / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")
    rewritten, reasons = tables()
    missing = [op for _, op in sorted(rewritten | reasons) if op not in page]
    assert not missing


def test_reason() -> None:
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain=MICROSOFT, name="cut")
    data = make_model(
        [node],
        [tensor("x", TensorProto.STRING, [2])],
        [untyped("y")],
        domains={MICROSOFT: 1},
    )
    with pytest.raises(openxrt.Error, match=r"'cut'.*Tokenizer is not supported.*regular"):
        openxrt.load(data, engine="native")
