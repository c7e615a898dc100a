# SPDX-License-Identifier: Apache-2.0
"""Which ops flowvision's networks are made of, evaluated and trained, and which ops
tests/oneflow/test_ops.py compares with OneFlow's.

    PYTHONPATH=build/release/python tools/extra_env.sh oneflow python tests/oneflow/record.py

Writes docs/conformance/oneflow.json, of which tools/make_oneflow_ops.py makes
docs/reference/oneflow-ops.md.
Every network's job is imported; one that cannot be ends the program, as does a difference from
OneFlow.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import oneflow as flow
from oneflow import jit, nn

# flowvision decorates with a helper of TorchScript's that OneFlow 0.9.0 has no working form of.
jit._script_if_tracing = lambda function: function

from flowvision.models import ModelCreator  # noqa: E402
from op_cases import CASES  # noqa: E402
from openxrt._core import import_oneflow_job  # noqa: E402
from openxrt.oneflow.job import capture, flatten  # noqa: E402
from test_ops import compare  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from make_oneflow_ops import RECORD, kinds_of  # noqa: E402

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


def networks() -> dict[str, dict[str, list[str]]]:
    """By network: the ops of its evaluation and of a training step."""
    record = {}
    for name in NETWORKS:
        size = 299 if name == "inception_v3" else 224
        module = ModelCreator.create_model(name, pretrained=False)
        x, labels = flow.zeros(2, 3, size, size), flow.zeros(2, dtype=flow.int64)
        jobs = {
            "evaluation": capture(Evaluated(module.eval()), x).text,
            "training": capture(Trained(module.train()), x, labels).text,
        }
        for text in jobs.values():
            import_oneflow_job(text)
        record[name] = {kind: sorted(kinds_of(text)) for kind, text in jobs.items()}
        print(name, *(len(ops) for ops in record[name].values()), flush=True)
    return record


def compared() -> list[str]:
    """The ops of the cases, each of which is as OneFlow has it."""
    kinds: set[str] = set()
    for case in CASES.values():
        for made in compare(case)._programs.values():
            kinds |= kinds_of(made.job.text)
    return sorted(kinds)


def main() -> None:
    """Command line."""
    record = {"networks": networks(), "compared": compared()}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
