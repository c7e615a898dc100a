# SPDX-License-Identifier: Apache-2.0
"""What torch2trt's module of this name held, so that code which names it needs its import changed
and nothing else."""

from __future__ import annotations

from .convert import torch2trt, torch2tvm
from .graph_module import GraphModule
from .handlers.context import current_context, torch_network, trt_network, tvm_network

__all__ = [
    "GraphModule",
    "current_context",
    "torch2trt",
    "torch2tvm",
    "torch_network",
    "trt_network",
    "tvm_network",
]
