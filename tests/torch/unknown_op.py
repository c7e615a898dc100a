# SPDX-License-Identifier: Apache-2.0
"""An op that nobody but PyTorch can know: torch.ops.openxrt_tests.unheard, the cosine."""

from __future__ import annotations

from typing import Any

import torch


@torch.library.custom_op("openxrt_tests::unheard", mutates_args=())
def unheard(x: torch.Tensor) -> torch.Tensor:
    return x.cos()


@unheard.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def _setup(ctx: Any, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
    (x,) = ctx.saved_tensors
    return -gradient * x.sin()


unheard.register_autograd(_backward, setup_context=_setup)
