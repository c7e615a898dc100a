# SPDX-License-Identifier: Apache-2.0
"""What models of hostile control flow and types are put together from."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Made = tuple[onnx.ModelProto, list[dict[str, Any]]]
F, I64, B, S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
ONE = np.ones((2, 3), np.float32)
LIST = helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, None))


def node(op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, **attributes)


def constant(name: str, value: Any, dtype: Any = np.int64) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value, dtype), name)
