# SPDX-License-Identifier: Apache-2.0
"""flex_attention: attention whose scores and mask functions of the user change.

It is computed whole, as PyTorch does without a compiler of kernels: the functions are applied to
all scores at once, and blocks that the mask leaves out are computed like the others.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from .._core import Unsupported
from .aten.decompositions import decompositions
from .builder import Builder, Value
from .importer import inline
from .registry import lowering


def _sample(x: Any) -> Any:
    return x.meta["val"] if isinstance(x, torch.fx.Node) else x


@lowering("ops.higher_order.flex_attention")
def flex_attention(
    b: Builder,
    query: Value,
    key: Value,
    value: Value,
    score_mod: torch.fx.GraphModule,
    block_mask: Sequence[Any],
    scale: float,
    kernel_options: dict[str, Any],
    score_buffers: Sequence[Any] = (),
    mask_buffers: Sequence[Any] = (),
) -> list[object]:
    """Results that nobody reads are left out."""
    assert b.node is not None
    arguments = [query, key, value, *score_buffers, *mask_buffers]
    nodes = [*b.node.args[:3], *b.node.args[7], *b.node.args[8]]  # type: ignore[misc]
    samples = [_sample(node) for node in nodes]
    used = b.used

    def dense(q: Any, k: Any, v: Any, *buffers: Any) -> tuple[Any, ...]:
        ours, masks = buffers[: len(score_buffers)], buffers[len(score_buffers) :]
        mask_mod = block_mask[-1]
        results = math_attention(q, k, v, score_mod, (mask_mod,), scale, {}, ours, masks)
        return tuple(r if i in used else None for i, r in enumerate(results))

    math_attention = dense_attention()
    mode = torch._guards.detect_fake_mode(samples)
    if mode is None:
        raise Unsupported("flex_attention of tensors whose types tracing did not record")
    with mode, torch.no_grad():
        graph = make_fx(dense, decomposition_table=decompositions())(*samples)
    graph.graph.eliminate_dead_code()
    return inline(b, graph, arguments)


def dense_attention() -> Any:
    """PyTorch's own function, which is not public.

    Raises:
        Unsupported: this release of PyTorch has none of that name.
    """
    # The package has a function by the module's name.
    module = importlib.import_module("torch._higher_order_ops.flex_attention")
    found = getattr(module, "math_attention", None)
    if found is None:
        raise Unsupported(
            "flex_attention of this release of PyTorch; use "
            "torch.nn.functional.scaled_dot_product_attention with a mask"
        )
    return found
