# SPDX-License-Identifier: Apache-2.0
"""Files as odd as exporters write them, judged by ONNX Runtime: what it loads and runs gives the
same numbers here; what it refuses is refused here, or gives what the standard says."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openxrt
import pytest
from odd_files import CASES, X

onnxruntime = pytest.importorskip("onnxruntime")

RELU = np.maximum(X, 0)
# What ONNX Runtime refuses and OpenXRT runs: the output.
RIGHT: dict[str, np.ndarray] = {
    # Newer than this ONNX Runtime.
    "opset_26": RELU,
    "opset_27": RELU,
    "opset_28": RELU,
    "unused_import_of_a_future_ml": RELU,
    # ONNX Runtime takes nodes in any order, but not around bodies and in functions.
    "nodes_in_the_wrong_order_around_a_body": -(RELU + X),
    "function_with_nodes_in_the_wrong_order": X * 4,
    # Nothing depends on these.
    "nodes_of_one_name": -RELU,
    "ir_version_missing": RELU,
    "output_without_an_element_type": -RELU,
}


@pytest.fixture(scope="module")
def outcomes() -> Iterator[None]:
    onnxruntime.set_default_logger_severity(4)
    yield
    onnxruntime.set_default_logger_severity(2)


@pytest.mark.usefixtures("outcomes")
@pytest.mark.parametrize("name", sorted(CASES))
def test_as_onnx_runtime_has_it(name: str, tmp_path: Path) -> None:
    odd = CASES[name]()
    path = tmp_path / "model.onnx"
    path.write_bytes(odd.model.SerializeToString())
    for file, content in odd.files.items():
        (tmp_path / file).write_bytes(content)
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        taken = {i.name for i in session.get_inputs()}
        taken |= {i.name for i in session.get_overridable_initializers()}
        feed = {key: value for key, value in odd.feed.items() if key in taken}
        expected = session.run(None, feed)
        refusal = None
    except Exception as error:  # of many kinds
        expected, refusal = None, error
    try:
        program = openxrt.load(path, engine="native", cache_dir="")
        found = list(program.run(odd.feed).values())
    except openxrt.Error as error:
        assert not isinstance(error, openxrt.InternalError), error
        assert refusal is not None, f"ONNX Runtime runs it, OpenXRT says: {error}"
        return
    if expected is None:
        assert name in RIGHT, f"OpenXRT runs it, ONNX Runtime says: {refusal}"
        expected = [RIGHT[name]]
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
