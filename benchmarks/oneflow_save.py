# SPDX-License-Identifier: Apache-2.0
"""Runs and saves flowvision's networks with OneFlow itself, for benchmarks/oneflow_models.py.

tools/extra_env.sh oneflow python benchmarks/oneflow_save.py FOLDER NETWORK...
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import oneflow as flow

# flowvision decorates with a helper of TorchScript's that OneFlow 0.9.0 has no working form of.
from oneflow import jit, nn

jit._script_if_tracing = lambda function: function

from flowvision.models import ModelCreator  # noqa: E402


def network(name: str) -> tuple[nn.Module, np.ndarray]:
    """The network with random weights, and an input."""
    flow.manual_seed(0)
    module = ModelCreator.create_model(name, pretrained=False).eval()
    generator = np.random.default_rng(0)
    with flow.no_grad():
        for parameter in module.parameters():
            # Some begin as zeros, which would hide every fault.
            if parameter.dim() > 1 and not parameter.numpy().any():
                values = generator.normal(0, 0.02, parameter.shape).astype(np.float32)
                parameter.copy_(flow.tensor(values))
    size = 299 if name == "inception_v3" else 224
    return module, generator.normal(size=(1, 3, size, size)).astype(np.float32)


def save(folder: Path, name: str) -> None:
    """One network, what it was given and what it made of it."""
    module, x = network(name)

    class Graph(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def build(self, image: flow.Tensor) -> flow.Tensor:
            y = self.module(image)
            return y if isinstance(y, flow.Tensor) else y[0]

    graph = Graph()
    y = graph(flow.tensor(x))
    shutil.rmtree(folder / name, ignore_errors=True)
    flow.save(graph, str(folder / name))
    np.savez(folder / name / "cases.npz", input_0=x, output_0=y.numpy())


if __name__ == "__main__":
    for wanted in sys.argv[2:]:
        save(Path(sys.argv[1]), wanted)
        print(wanted, flush=True)
