# SPDX-License-Identifier: Apache-2.0
"""PyTorch modules on OpenXRT's engines.

>>> import openxrt.torch
>>> fast = openxrt.torch.XRTModule(model, engine=["openvino", "native"])    # inference, training
>>> fast = torch.compile(model, backend="openxrt")                          # PyTorch's own way
>>> graph = openxrt.torch.import_exported(torch.export.export(model, inputs)).graph
"""

from __future__ import annotations

from torch._dynamo import list_backends as _list_backends
from torch._dynamo import register_backend as _register_backend

from .._int8 import ptq_calibration_mode
from . import (  # noqa: F401  four register lowerings
    control_flow,
    core,
    flex_attention,
    iterated,
    spectral,
)
from .backend import openxrt_backend
from .convert import torch2trt, torch2tvm
from .graph_module import GraphModule
from .handlers import (
    current_context,
    handled_ops,
    has_trt_tensor,
    has_tvm_tensor,
    register_node_handler,
    registered_handlers,
    remove_node_handler,
    torch_network,
    trt_network,
    tvm_network,
)
from .importer import Imported, Result, import_exported, import_fx
from .inference import InferenceContext, TorchInferenceContext, TVMInference
from .module import EngineModule, XRTModule
from .registry import lowered_ops, lowering
from .tensorrt_module import TensorRTModule, TensorRTModuleWrapper
from .tvm_module import TVMModule, TVMModuleWrapper

__all__ = [
    "EngineModule",
    "GraphModule",
    "Imported",
    "InferenceContext",
    "Result",
    "TVMInference",
    "TVMModule",
    "TVMModuleWrapper",
    "TensorRTModule",
    "TensorRTModuleWrapper",
    "TorchInferenceContext",
    "XRTModule",
    "current_context",
    "handled_ops",
    "has_trt_tensor",
    "has_tvm_tensor",
    "import_exported",
    "import_fx",
    "lowered_ops",
    "lowering",
    "openxrt_backend",
    "ptq_calibration_mode",
    "register_node_handler",
    "registered_handlers",
    "remove_node_handler",
    "torch2trt",
    "torch2tvm",
    "torch_network",
    "trt_network",
    "tvm_network",
]

# An installed package is found by its entry point; this is for one that is not installed.
if "openxrt" not in _list_backends(exclude_tags=()):
    _register_backend(openxrt_backend, name="openxrt")
