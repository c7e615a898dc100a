# SPDX-License-Identifier: Apache-2.0
"""Which ops flowvision's networks are made of, evaluated and trained: the jobs that OneFlow builds.

    PYTHONPATH=build/release/python tools/oneflow_env.sh python tests/oneflow/record_networks.py

Writes docs/conformance/oneflow-networks.json, of which tools/make_oneflow_ops.py makes a part of
docs/oneflow-ops.md. Every job is also imported; one that cannot be ends the program.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import oneflow as flow
from oneflow import jit, nn

# flowvision decorates with a helper of TorchScript's that OneFlow 0.9.0 has no working form of.
jit._script_if_tracing = lambda function: function

from flowvision.models import ModelCreator  # noqa: E402
from openxrt._core import import_oneflow_job  # noqa: E402
from openxrt.oneflow.job import capture, flatten  # noqa: E402

RECORD = Path(__file__).resolve().parents[2] / "docs" / "conformance" / "oneflow-networks.json"
NETWORKS = [
    "densenet121",
    "efficientnet_b0",
    "inception_v3",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "mobilenet_v3_small",
    "resnet18",
    "resnet50",
    "resnext50_32x4d",
    "squeezenet1_0",
    "squeezenet1_1",
    "swin_tiny_patch4_window7_224",
    "vgg11",
    "vgg11_bn",
    "vit_tiny_patch16_224",
    "wide_resnet50_2",
]


class Evaluated(nn.Graph):
    """The network as it is."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def build(self, x: flow.Tensor) -> object:
        """The network's results."""
        return self.module(x)


class Trained(Evaluated):
    """A training step with cross entropy."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        self.loss = nn.CrossEntropyLoss()
        self.add_optimizer(flow.optim.SGD(module.parameters(), lr=0.1, momentum=0.9))

    def build(self, x: flow.Tensor, labels: flow.Tensor) -> object:
        """The loss."""
        loss = sum(self.loss(scores, labels) for scores in flatten(self.module(x), []))
        loss.backward()
        return loss


def ops_of(text: str) -> list[str]:
    """The kinds of op of a job."""
    import_oneflow_job(text)
    kinds = set()
    for line in text.splitlines():
        found = re.search(r'"oneflow\.(\w+)"\(', line)
        if found:
            named = re.search(r'op_type_name = "(\w+)"', line)
            kinds.add(named[1] if found[1] == "user" and named else found[1])
    return sorted(kinds)


def main() -> None:
    """Command line."""
    record = {}
    for name in sys.argv[1:] or NETWORKS:
        size = 299 if name == "inception_v3" else 224
        module = ModelCreator.create_model(name, pretrained=False)
        x, labels = flow.zeros(2, 3, size, size), flow.zeros(2, dtype=flow.int64)
        record[name] = {
            "evaluation": ops_of(capture(Evaluated(module.eval()), x).text),
            "training": ops_of(capture(Trained(module.train()), x, labels).text),
        }
        print(name, *(len(ops) for ops in record[name].values()), flush=True)
    if not sys.argv[1:]:
        RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
