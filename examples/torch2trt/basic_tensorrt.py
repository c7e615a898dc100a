# SPDX-License-Identifier: Apache-2.0
"""Modules and functions as layers of one's own TensorRT network, and its plan run by hand.

    ./dev run python examples/torch2trt/basic_tensorrt.py --network squeezenet1_1

The plan is built without a GPU (TensorRT-RTX, for compute capability 8.9); it runs where there is
one.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from networks import network
from openxrt.torch import GraphModule, InferenceContext, TorchInferenceContext, trt_network

try:
    import tensorrt as trt
except ImportError:
    import tensorrt_rtx_bindings as trt


def toy_example(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """No nn.Module is needed."""
    return torch.softmax(x, 1), torch.sigmoid(x)


def build(logger: Any, graph: GraphModule, graph_toy: GraphModule) -> bytes:
    """A network of two traced graphs with a layer of our own between them, as a plan."""
    builder = trt.Builder(logger)
    flags = 0
    if hasattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED"):
        flags = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    net = builder.create_network(flags)
    (spec,) = graph.inputs
    with trt_network(net):  # here GraphModules take ITensors and add layers
        image = net.add_input(name="image", shape=spec.shape, dtype=trt.float32)
        scores = graph(image, verbose=True)
        # Any layer, a plugin too (net.add_plugin_v3), may follow:
        scores = net.add_identity(scores).get_output(0)
        softmax, sigmoid = graph_toy(scores)
    softmax.name, sigmoid.name = "output_softmax", "output_sigmoid"
    net.mark_output(softmax)
    net.mark_output(sigmoid)
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
    if not torch.cuda.is_available():
        config.num_compute_capabilities = 1
        config.set_compute_capability(trt.ComputeCapability.SM89, 0)
    plan = builder.build_serialized_network(net, config)
    if plan is None:
        raise SystemExit("TensorRT gives no plan")
    return bytes(plan)


def run(logger: Any, plan: bytes, inputs: torch.Tensor, expected: tuple[np.ndarray, ...]) -> None:
    """The plan with NumPy arrays, then with CUDA tensors."""
    engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
    names = ("output_softmax", "output_sigmoid")

    context = InferenceContext(engine.create_execution_context())
    for outputs in (
        context.inference_async(inputs.numpy()),  # by position
        context.inference(image=inputs.numpy()),  # by name, waiting after each step: to profile
    ):
        for name, wanted in zip(names, expected, strict=True):
            print(f"NumPy, {name}: difference {np.linalg.norm(outputs[name] - wanted):.3g}")

    on_gpu = TorchInferenceContext(engine.create_execution_context(), "cuda:0")
    outputs = on_gpu.inference_async(inputs.cuda())  # on PyTorch's current stream
    for name, wanted in zip(names, expected, strict=True):
        difference = np.linalg.norm(outputs[name].cpu().numpy() - wanted)
        print(f"CUDA tensors, {name}: difference {difference:.3g}")


def main() -> None:
    """Traces, runs in PyTorch, builds, and runs the plan if there is a GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="inception_v3")
    options = parser.parse_args()
    net, inputs = network(options.network)

    graph = GraphModule(net, inputs)
    with torch.no_grad():
        scores = graph(inputs)  # PyTorch's mode, node by node, like net(inputs)
        print("PyTorch's mode, difference:", (scores - net(inputs)).norm().item())
        graph_toy = GraphModule(toy_example, scores)
        softmax, sigmoid = graph_toy(scores, verbose=True)

    logger = trt.Logger(trt.Logger.WARNING)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "engine.bin"
        path.write_bytes(build(logger, graph, graph_toy))
        print(f"{path.name}: {path.stat().st_size} bytes")
        if torch.cuda.is_available():
            run(logger, path.read_bytes(), inputs, (softmax.numpy(), sigmoid.numpy()))
        else:
            print("no GPU: the plan is not run")


if __name__ == "__main__":
    main()
