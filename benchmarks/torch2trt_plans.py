# SPDX-License-Identifier: Apache-2.0
"""Plans of TensorRT from PyTorch's networks: how long they take to make and how large they are.

    ./dev run python benchmarks/torch2trt_plans.py --write   # the table in docs/guides/torch2trt.md

Each network (random weights, one picture) is traced by GraphModule, its layers are added to a
TensorRT network, and a plan for the GPU named by --capability is built, in float32 and in float16.
With TensorRT-RTX that needs no GPU. Nothing is run.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import torch
from openxrt.engines._tensorrt_library import Library
from openxrt.torch import GraphModule, TensorRTModuleWrapper, torch2trt

sys.path.insert(0, str(Path(__file__).resolve().parent))

from torch_models import network

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "guides" / "torch2trt.md"
BEGIN, END = "<!-- plans: begin -->", "<!-- plans: end -->"
NETWORKS = [
    "resnet18",
    "resnet50",
    "vgg11",
    "squeezenet1_1",
    "mobilenet_v2",
    "efficientnet_b0",
    "densenet121",
    "inception_v3",
    "vit_b_16",
    "swin_t",
]


def layers(library: Library, module: torch.nn.Module, x: torch.Tensor) -> tuple[int, int, float]:
    """ATen nodes, TensorRT's layers, and the seconds that tracing and adding layers take."""
    start = time.perf_counter()
    graph = GraphModule(module, x)
    flag = library.trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED
    built = library.builder.create_network(1 << int(flag))
    torch2trt(graph, network=built)
    seconds = time.perf_counter() - start
    nodes = sum(node.op == "call_function" for node in graph.exported.graph.nodes)
    return nodes, built.num_layers, seconds


def build(
    module: torch.nn.Module, x: torch.Tensor, dtype: torch.dtype, capability: tuple[int, int]
) -> tuple[float, float]:
    """Seconds from the module to its plan, and the plan's size in MiB."""
    wrapper = TensorRTModuleWrapper(module, dtype=dtype, compute_capability=capability).eval()
    start = time.perf_counter()
    plan = wrapper.build(x)
    return time.perf_counter() - start, len(plan.data) / 2**20


def main() -> int:
    """Prints the table, and writes it where it is asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=NETWORKS)
    parser.add_argument("--capability", default="89", help="default: %(default)s")
    parser.add_argument("--write", action="store_true", help="into docs/guides/torch2trt.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    capability = (int(options.capability[:-1]), int(options.capability[-1]))
    library = Library()
    rows = [
        "| network | ATen nodes | layers | traced, s | built, s | plan, MiB | fp16: built, s "
        "| plan, MiB |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    print("\n".join(rows), flush=True)
    for name in options.models:
        module, x = network(name)
        nodes, count, traced = layers(library, module, x)
        cells = [name, str(nodes), str(count), f"{traced:.1f}"]
        for dtype in (torch.float32, torch.float16):
            seconds, size = build(module, x, dtype, capability)
            cells += [f"{seconds:.1f}", f"{size:.1f}"]
        rows.append("| " + " | ".join(cells) + " |")
        print(rows[-1], flush=True)
    if options.write:
        text = DOCUMENT.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        after = rest.split(END)[1]
        table = "\n".join(rows)
        DOCUMENT.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
