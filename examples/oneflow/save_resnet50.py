# SPDX-License-Identifier: Apache-2.0
"""Saves ResNet-50 with OneFlow; xrt then runs it without OneFlow.

tools/extra_env.sh oneflow python examples/oneflow/save_resnet50.py ./resnet50_model
xrt run ./resnet50_model --engine openvino,native
"""

from __future__ import annotations

import sys

import oneflow as flow
from oneflow import jit, nn

# flowvision uses a helper of TorchScript's that OneFlow 0.9.0 has no working form of.
jit._script_if_tracing = lambda function: function

from flowvision.models import ModelCreator  # noqa: E402


class MyGraph(nn.Graph):
    """The model, to be traced."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def build(self, *inputs: flow.Tensor) -> flow.Tensor:
        """The model's output."""
        return self.model(*inputs)


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else "./resnet50_model"
    # pretrained=True fetches weights from the network.
    model = ModelCreator.create_model("resnet50", pretrained=False)
    model.eval()
    graph = MyGraph(model)
    graph(flow.rand(1, 3, 224, 224))
    flow.save(graph, folder)
    print(f"saved to {folder}; now: xrt run {folder}")
