# SPDX-License-Identifier: Apache-2.0
"""Results larger than the bound are refused before the plugin, which folds them, is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from process_growth import PRINT_PEAK
from small_models import make_model, tensor, usable

pytestmark = pytest.mark.skipif(not usable("openvino"), reason="openvino is not there")

LOAD = """
import sys
import openxrt
options = {"engine": sys.argv[2].split(","), "max_memory_bytes": 1 << 28, "cache_dir": ""}
try:
    openxrt.load(sys.argv[1], **options).explain()
except openxrt.ResourceError as error:
    print(error)
"""


@pytest.mark.parametrize("engines", ["openvino,native", "auto"])
def test_a_constant_result_beyond_the_bound(engines: str, tmp_path: Path) -> None:
    model = make_model(
        [helper.make_node("AffineGrid", ["x", "s"], ["y"])],
        [tensor("x", TensorProto.FLOAT, [1, 2, 3])],
        [tensor("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([1, 1, 1 << 24, 8]), "s")],
        opset=20,
    )
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    command = [sys.executable, "-c", LOAD + PRINT_PEAK, path, engines]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told, kib = done.stdout.strip().rsplit("\n", 1)
    assert "(AffineGrid)" in told
    assert "max_memory_bytes" in told
    assert int(kib) < 600 << 10, "the result has 1 GiB"
