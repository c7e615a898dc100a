# SPDX-License-Identifier: Apache-2.0
"""What runs the nodes of a GraphModule: in PyTorch, as TensorRT layers, as Relax.

Three modes, one for each kind of context; `register_node_handler` adds to all of them.
"""

from __future__ import annotations

from .context import (
    Context,
    TensorRTContext,
    TVMContext,
    current_context,
    has_trt_tensor,
    has_tvm_tensor,
    torch_network,
    trt_network,
    tvm_network,
)
from .registry import (
    Handler,
    handled_ops,
    register_node_handler,
    registered_handlers,
    remove_node_handler,
)

__all__ = [
    "Context",
    "Handler",
    "TVMContext",
    "TensorRTContext",
    "current_context",
    "handled_ops",
    "has_trt_tensor",
    "has_tvm_tensor",
    "register_node_handler",
    "registered_handlers",
    "remove_node_handler",
    "torch_network",
    "trt_network",
    "tvm_network",
]
