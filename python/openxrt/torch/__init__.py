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

from .backend import openxrt_backend
from .importer import Imported, Result, import_exported, import_fx
from .module import EngineModule, TensorRTModule, TVMModule, XRTModule
from .registry import lowered_ops, lowering

__all__ = [
    "EngineModule",
    "Imported",
    "Result",
    "TVMModule",
    "TensorRTModule",
    "XRTModule",
    "import_exported",
    "import_fx",
    "lowered_ops",
    "lowering",
    "openxrt_backend",
]

# An installed package is found by its entry point; this is for one that is not installed.
if "openxrt" not in _list_backends(exclude_tags=()):
    _register_backend(openxrt_backend, name="openxrt")
