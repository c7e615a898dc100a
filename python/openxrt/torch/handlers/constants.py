# SPDX-License-Identifier: Apache-2.0
"""Constant layers of a TensorRT network, and dtypes by their names there and in PyTorch."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from ..._core import Unsupported

if TYPE_CHECKING:
    from .context import TensorRTContext

_DTYPES = {
    "FLOAT": torch.float32,
    "HALF": torch.float16,
    "BF16": torch.bfloat16,
    "INT64": torch.int64,
    "INT32": torch.int32,
    "INT8": torch.int8,
    "UINT8": torch.uint8,
    "BOOL": torch.bool,
}


def torch_dtype(trt: ModuleType, dtype: Any) -> torch.dtype:
    """PyTorch's name of a TensorRT dtype."""
    for name, known in _DTYPES.items():
        if getattr(trt.DataType, name, None) == dtype:
            return known
    raise Unsupported(f"TensorRT's {dtype} has no counterpart in PyTorch")


def trt_dtype(trt: ModuleType, dtype: torch.dtype) -> Any:
    """TensorRT's name of a PyTorch dtype."""
    for name, known in _DTYPES.items():
        if known == dtype and hasattr(trt.DataType, name):
            return getattr(trt.DataType, name)
    raise Unsupported(f"TensorRT has no tensors of {dtype}")


def constant_tensor(context: TensorRTContext, tensor: torch.Tensor, name: str) -> Any:
    """The output of a constant layer that holds the tensor's values."""
    trt = context.trt
    dense = tensor.detach().cpu().contiguous()
    context.keep(dense)
    weights = trt.Weights(trt_dtype(trt, dense.dtype), dense.data_ptr(), dense.numel())
    layer = context.network.add_constant(tuple(dense.shape), weights)
    layer.name = context.unique_name(name)
    output = layer.get_output(0)
    output.name = layer.name
    return output
