# SPDX-License-Identifier: Apache-2.0
"""A network that PyTorch trains and TensorRT evaluates, also as a part of a larger one.

    ./dev run python examples/torch2trt/tensorrt_module.py --network resnet18

Where there is no GPU the plan is built for compute capability 8.9 and PyTorch evaluates.
"""

from __future__ import annotations

import argparse

import torch
from networks import network
from openxrt.torch import TensorRTModule, TensorRTModuleWrapper
from torch import nn

# An engine for this GPU if there is one, else for one of compute capability 8.9.
CAPABILITY = None if torch.cuda.is_available() else (8, 9)


class TensorRTExample(TensorRTModule):
    """TensorRT in eval mode, PyTorch in train mode."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__(
            max_batchsize=8, workspace=1 << 30, fallback=True, compute_capability=CAPABILITY
        )
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class SubTensorRTExample(nn.Module):
    """In eval mode self.net uses TensorRT, self.tail PyTorch."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = TensorRTExample(net)
        self.tail = nn.Linear(1000, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tail(self.net(x))


def main() -> None:
    """Wraps, evaluates, trains one step, evaluates again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="resnet18")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net, inputs = network(options.network)
    net, inputs = net.to(device), inputs.to(device)

    wrapped = TensorRTModuleWrapper(
        net, max_batchsize=1, workspace=1 << 30, fallback=True, compute_capability=CAPABILITY
    ).eval()
    plan = wrapped.build(inputs)
    print(f"plan: {len(plan.data)} bytes, inputs {', '.join(map(str, plan.graph.inputs))}")
    with torch.no_grad():
        print("difference from PyTorch:", (wrapped(inputs) - net(inputs)).norm().item())

    module = SubTensorRTExample(net).to(device)
    optimizer = torch.optim.SGD(module.parameters(), 0.01)
    for step in range(2):
        module.train()
        optimizer.zero_grad()
        loss = module(inputs.repeat(2, 1, 1, 1)).square().mean()
        loss.backward()
        optimizer.step()
        module.eval()
        with torch.no_grad():
            expected = module.tail(module.net.forward(inputs))
            difference = (module(inputs) - expected).norm().item()
        print(f"step {step}: loss {loss.item():.4f}, difference from PyTorch: {difference}")


if __name__ == "__main__":
    main()
