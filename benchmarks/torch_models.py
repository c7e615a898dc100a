# SPDX-License-Identifier: Apache-2.0
"""PyTorch models through openxrt.torch: that the engines compute what PyTorch computes.

    ./dev run python benchmarks/torch_models.py --write      # the table in docs/guides/pytorch.md

Each network (random weights of a fixed seed) is exported, imported and run; a cell is the largest
difference from PyTorch in float32, as a part of the output's range.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
import openxrt
import openxrt.torch as xt
import torch
from export_models import import_torchvision

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "guides" / "pytorch.md"
BEGIN, END = "<!-- models: begin -->", "<!-- models: end -->"

TORCHVISION = [
    "alexnet",
    "convnext_tiny",
    "densenet121",
    "efficientnet_b0",
    "googlenet",
    "inception_v3",
    "maxvit_t",
    "mnasnet0_5",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "regnet_y_400mf",
    "resnet18",
    "resnet50",
    "resnext50_32x4d",
    "shufflenet_v2_x0_5",
    "squeezenet1_1",
    "swin_t",
    "swin_v2_t",
    "vgg11",
    "vit_b_16",
]


# Of transformers, from configs smaller than the published ones in depth and width alone.
TRANSFORMERS = ["BERT", "GPT-2", "ViT"]


class Plain(torch.nn.Module):
    """A network of transformers with one tensor in and one out."""

    def __init__(self, module: torch.nn.Module, result: str, **options: object) -> None:
        super().__init__()
        self.module, self.result, self.options = module, result, options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(self.module(x, **self.options), self.result)


def transformer(name: str) -> tuple[torch.nn.Module, torch.Tensor]:
    import_torchvision()  # transformers imports it, and needs its operators to exist
    import transformers

    tokens = torch.randint(0, 1000, (1, 64))
    sizes = {"num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 8}
    if name == "BERT":
        config = transformers.BertConfig(**sizes, intermediate_size=1024, vocab_size=1000)
        return Plain(transformers.BertModel(config), "last_hidden_state").eval(), tokens
    if name == "GPT-2":
        config = transformers.GPT2Config(
            n_layer=4, n_embd=256, n_head=8, vocab_size=1000, bos_token_id=0, eos_token_id=0
        )
        return Plain(transformers.GPT2LMHeadModel(config), "logits", use_cache=False).eval(), tokens
    config = transformers.ViTConfig(**sizes, intermediate_size=1024)
    return Plain(transformers.ViTModel(config), "last_hidden_state").eval(), torch.randn(
        1, 3, 224, 224
    )


def network(name: str) -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    if name in TRANSFORMERS:
        return transformer(name)
    models = import_torchvision().models
    options = {"init_weights": False} if name in ("inception_v3", "googlenet") else {}
    module = models.get_model(name, weights=None, **options).eval()
    if name.startswith("vit"):  # its head begins as zeros, which would hide every fault
        torch.nn.init.normal_(module.heads.head.weight)
    size = 299 if name == "inception_v3" else 224
    return module, torch.randn(1, 3, size, size)


def difference(actual: np.ndarray, expected: np.ndarray) -> float:
    reach = float(expected.max() - expected.min())
    return float(np.abs(actual - expected).max()) / (reach or 1.0)


def measure(name: str, engines: list[str]) -> list[str]:
    module, x = network(name)
    with torch.no_grad():
        expected = module(x).numpy()
    imported = xt.import_exported(torch.export.export(module, (x,)))
    cells = [name, str(imported.graph.node_count)]
    for engine in engines:
        names = engine if engine in ("native", "auto") else [engine, "native"]
        program = openxrt.load(imported.graph, engine=names)
        counts = program.explain().nodes_per_engine
        own, total = counts.get(engine, 0), sum(counts.values())
        part = "" if own == total or engine == "auto" else f" ({own} of {total} nodes)"
        cells.append(f"{difference(program(x), expected):.1e}{part}")
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=[*TORCHVISION, *TRANSFORMERS])
    parser.add_argument("--engines", default="native,openvino,xla,auto")
    parser.add_argument("--write", action="store_true", help="into docs/guides/pytorch.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    engines = options.engines.split(",")
    rows = [["network", "nodes", *engines], ["---"] * (2 + len(engines))]
    for name in options.models:
        rows.append(measure(name, engines))
        print("| " + " | ".join(rows[-1]) + " |", flush=True)
    if options.write and rows[2:]:
        table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
        text = DOCUMENT.read_text()
        before, rest = text.split(BEGIN)
        after = rest.split(END)[1]
        DOCUMENT.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
