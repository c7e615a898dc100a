# SPDX-License-Identifier: Apache-2.0
"""Cast of the native engine from floats to integers that they do not fit, against ONNX Runtime."""

from __future__ import annotations

import platform

import numpy as np
import onnxruntime
import openxrt
import pytest
from onnx import helper
from small_models import make_model, tensor

INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
# fmt: off
NUMBERS = [
    np.nan, np.inf, -np.inf, 1e38, -1e38, 3e9, -3e9, 5e9, 300, -300, 70000, 1e19, 1.9e19, -1e19,
    -1, 255.7, -0.5, 2147483648, -2147483648, -2147483904, 9223372036854775808,
    -9223372036854775808, 18446744073709551616,
]
# fmt: on


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors convert otherwise")
@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("of", [np.float32, np.float64, np.float16])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_against_onnx_runtime(of: type, to: type) -> None:
    """What the standard leaves open follows the others on the same processor."""
    # ONNX Runtime converts what is left over behind whole vectors in another way.
    x = np.resize(np.array(NUMBERS), 64).astype(of)
    if of is np.float16 and to is np.uint32:
        pytest.skip("ONNX Runtime makes something else of it than of float32")
    kinds = [helper.np_dtype_to_tensor_dtype(np.dtype(kind)) for kind in (of, to)]
    model = make_model(
        [helper.make_node("Cast", ["x"], ["y"], to=kinds[1])],
        [tensor("x", kinds[0], [x.size])],
        [tensor("y", kinds[1], [x.size])],
    )
    expected = onnxruntime.InferenceSession(model).run(None, {"x": x})[0]
    np.testing.assert_array_equal(openxrt.load(model, engine="native")(x), expected)
