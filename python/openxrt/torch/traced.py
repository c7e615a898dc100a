# SPDX-License-Identifier: Apache-2.0
"""Lowerings that are written as functions of PyTorch, which are traced for the shapes at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from .aten.decompositions import decompositions
from .builder import Builder, Value
from .control_flow import while_loop
from .importer import inline

TensorFunction: TypeAlias = Callable[..., object]


def _sample(x: Value) -> torch.Tensor:
    shape = x.static_shape("a lowering that is traced")
    return torch.zeros(shape, dtype=x.dtype)  # which is a place in whatever there is


def _graph(function: TensorFunction, values: Sequence[Value]) -> torch.fx.GraphModule:
    samples = [_sample(x) for x in values]
    return make_fx(function, decomposition_table=decompositions())(*samples)


def traced(b: Builder, function: TensorFunction, *values: Value) -> list[Value]:
    """The results of a function of tensors, as nodes of the graph. Needs static shapes."""
    results = inline(b, _graph(function, values), values)
    assert all(isinstance(x, Value) for x in results)
    return results  # type: ignore[return-value]


def repeated(
    b: Builder,
    condition: TensorFunction,
    step: TensorFunction,
    carried: Sequence[Value],
    fixed: Sequence[Value] = (),
) -> list[Value]:
    """A Loop: `carried` becomes step(*carried, *fixed) while condition(*carried, *fixed) holds.

    Dtypes and shapes stay what they are.
    """
    graphs = [_graph(function, [*carried, *fixed]) for function in (condition, step)]
    results = while_loop(b, *graphs, list(carried), list(fixed))
    return [Value(r.id, x.dtype, x.shape, x.rank) for r, x in zip(results, carried, strict=True)]
