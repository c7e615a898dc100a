# SPDX-License-Identifier: Apache-2.0
"""The networks of these examples: torchvision's, with random weights of a fixed seed."""

from __future__ import annotations

from typing import Any

import torch

_operators: list[Any] = []  # the declarations live as long as this list


def torchvision_models() -> Any:
    """torchvision.models. Beside a CPU build of PyTorch its compiled operators cannot be loaded;
    its Python part wants them declared, and no network used here calls them."""
    if not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _operators.append(library)
    import torchvision

    return torchvision.models


def network(name: str) -> tuple[torch.nn.Module, torch.Tensor]:
    """A network in eval mode, and one input for it."""
    torch.manual_seed(0)
    options = {"init_weights": False} if name == "inception_v3" else {}
    module = torchvision_models().get_model(name, weights=None, **options).eval()
    size = 299 if name == "inception_v3" else 224
    return module, torch.rand(1, 3, size, size)
