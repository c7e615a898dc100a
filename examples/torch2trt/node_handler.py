# SPDX-License-Identifier: Apache-2.0
"""A handler of one's own for an ATen op, in all three modes.

./dev run python examples/torch2trt/node_handler.py
"""

from __future__ import annotations

from typing import Any

import torch
from openxrt.torch import (
    GraphModule,
    TVMInference,
    current_context,
    has_trt_tensor,
    has_tvm_tensor,
    register_node_handler,
    torch2trt,
    torch2tvm,
)
from tvm import relax

try:
    import tensorrt as trt
except ImportError:
    import tensorrt_rtx_bindings as trt


# `inputs` are the positional arguments of the overload in native_functions.yaml, `attributes` the
# keyword-only ones, `scope` a name that is unique in the network.
@register_node_handler("aten::sum.dim_IntList")
def aten_sum(inputs: list[Any], attributes: dict[str, Any], scope: str) -> list[Any]:
    inp, dim, keepdim = inputs
    ctx = current_context()
    if ctx.is_tensorrt and has_trt_tensor(inputs):
        axes = sum(1 << (d % len(inp.shape)) for d in dim)
        layer = ctx.network.add_reduce(inp, trt.ReduceOperation.SUM, axes, bool(keepdim))
        layer.name = scope
        return [layer.get_output(0)]
    if ctx.is_tvm and has_tvm_tensor(inputs):
        return [ctx.emit(relax.op.sum(inp, dim, keepdims=bool(keepdim)), scope)]
    return [inp.sum(dim, keepdim=bool(keepdim))]  # nothing of a network: PyTorch


def main() -> None:
    """One function in the three modes."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).sum(1, keepdim=True)

    x = torch.randn(2, 3)
    graph = GraphModule(function, x)
    print("PyTorch:", graph(x, verbose=True).flatten().tolist())

    module, _ = torch2tvm(graph)
    print("TVM:    ", TVMInference(module).inference(x)["output_0"].flatten().tolist())

    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    network = builder.create_network(0)
    torch2trt(graph, network=network)
    layers = [network.get_layer(i) for i in range(network.num_layers)]
    print("TensorRT:", ", ".join(f"{layer.name} ({layer.type.name})" for layer in layers))


if __name__ == "__main__":
    main()
