# SPDX-License-Identifier: Apache-2.0
"""Small networks of PyTorch, and the same as graphs that a Trainer takes."""

from __future__ import annotations

import numpy as np
import openxrt
import torch


def add_layers(graph: openxrt.Graph, net: torch.nn.Sequential, x: int, rank: int) -> int:
    """The layers of a Sequential as ONNX nodes, parameters under PyTorch's names."""

    def constant(name: str, tensor: torch.Tensor) -> int:
        array = tensor.detach().numpy().copy()
        return graph.add_constant(array, str(array.dtype), name)

    for name, layer in net.named_children():
        weights = {
            key: constant(f"{name}.{key}", value)
            for key, value in layer.state_dict().items()
            if key != "num_batches_tracked"
        }
        attributes: dict[str, object] = {}
        operands = list(weights.values())
        if isinstance(layer, torch.nn.Linear):
            op, attributes = "Gemm", {"transB": 1}
        elif isinstance(layer, torch.nn.Conv2d):
            op = "Conv"
            pads = list(layer.padding) * 2
            attributes = {"pads": pads, "strides": list(layer.stride), "group": layer.groups}
        elif isinstance(layer, torch.nn.BatchNorm2d):
            op, attributes = "BatchNormalization", {"epsilon": layer.eps, "momentum": 0.9}
        elif isinstance(layer, torch.nn.MaxPool2d):
            size = layer.kernel_size
            op = "MaxPool"
            attributes = {
                "kernel_shape": [size, size],
                "strides": [layer.stride] * 2,
                "pads": [layer.padding] * 4,
            }
        elif isinstance(layer, torch.nn.AdaptiveAvgPool2d):
            op = "GlobalAveragePool"
        elif isinstance(layer, torch.nn.Dropout):
            op = "Dropout"
            operands = [graph.add_constant(np.float32(layer.p), "float32")]
        else:
            op = {"ReLU": "Relu", "Tanh": "Tanh", "Flatten": "Flatten"}[type(layer).__name__]
        (x,) = graph.add_node(op, [x, *operands], [f"{name}.out"], attributes, name=name)
    return x


def graph_of(net: torch.nn.Sequential, shape: list[int | str], dtype: str) -> openxrt.Graph:
    graph = openxrt.Graph("net")
    x = graph.add_input("x", dtype, shape)
    graph.add_output(add_layers(graph, net, x, len(shape)))
    graph.finish()
    return graph


def mlp(dtype: torch.dtype = torch.float64) -> torch.nn.Sequential:
    torch.manual_seed(3)
    nn = torch.nn
    return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 4)).to(dtype)


def cnn() -> torch.nn.Sequential:
    torch.manual_seed(4)
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2, 2),
        nn.Conv2d(8, 16, 3, padding=1, stride=2, groups=2),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
