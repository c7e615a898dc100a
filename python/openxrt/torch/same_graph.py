# SPDX-License-Identifier: Apache-2.0
"""Whether a graph with symbolic sizes computes what a graph of certain sizes does.

torch.export takes sizes of 0 and 1 for constants: a symbol stands for two and more. A module may do
something else with a single row (squeeze() does). Where the graph that was traced with a size of 1
has the same nodes, with that size in the place of the symbol, one graph serves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram


class _Comparison:
    def __init__(self, sizes: Mapping[Any, int], renamed: Mapping[Any, Any]) -> None:
        self.sizes = sizes
        self.renamed = renamed
        self.nodes: dict[torch.fx.Node, torch.fx.Node] = {}  # of the general graph, to the other's

    def size(self, value: Any, names: Mapping[Any, Any]) -> Any:
        """A number or an expression of the general graph's symbols; None for no size."""
        if isinstance(value, torch.fx.Node):
            value = value.meta.get("val")
        if isinstance(value, torch.SymInt):
            return value.node.expr.subs(names)
        return value if type(value) is int else None

    def same_sizes(self, general: Any, exact: Any) -> bool:
        one, other = self.size(general, self.sizes), self.size(exact, self.renamed)
        return one is not None and other is not None and one == other

    def same(self, general: Any, exact: Any) -> bool:
        """Of arguments of nodes."""
        if isinstance(general, torch.fx.Node) and general in self.nodes:
            return self.nodes[general] is exact
        if isinstance(general, list | tuple):
            return (
                isinstance(exact, list | tuple)
                and len(general) == len(exact)
                and all(map(self.same, general, exact))
            )
        if self.size(general, self.sizes) is not None:
            return self.same_sizes(general, exact)
        if isinstance(general, torch.fx.Node | dict):
            return False
        return type(general) is type(exact) and general == exact

    def same_values(self, general: Any, exact: Any) -> bool:
        """Of what nodes give in the trace."""
        if isinstance(general, list | tuple):
            return (
                isinstance(exact, list | tuple)
                and len(general) == len(exact)
                and all(map(self.same_values, general, exact))
            )
        if not isinstance(general, torch.Tensor) or not isinstance(exact, torch.Tensor):
            return general is None and exact is None
        return (
            general.dtype == exact.dtype
            and general.dim() == exact.dim()
            and all(map(self.same_sizes, general.shape, exact.shape))
        )


def _is_size(node: torch.fx.Node) -> bool:
    """Whether the node computes with sizes and nothing else."""
    value = node.meta.get("val")
    return node.op == "call_function" and isinstance(
        value, int | torch.SymInt | torch.SymBool | torch.SymFloat
    )


def same_graph(
    general: ExportedProgram,
    exact: ExportedProgram,
    sizes: Mapping[Any, int],
    renamed: Mapping[Any, Any],
) -> bool:
    """Whether both have the same nodes in the same order.

    Args:
        general: the graph with symbols.
        exact: the other one.
        sizes: what certain symbols of `general` are in `exact`.
        renamed: symbols of `exact` to those of `general`.
    """
    graphs = [
        [node for node in program.graph.nodes if not _is_size(node)] for program in (general, exact)
    ]
    if len(graphs[0]) != len(graphs[1]):
        return False
    comparison = _Comparison(sizes, renamed)
    for one, other in zip(*graphs, strict=True):
        if one.op != other.op or one.op == "get_attr":  # a graph within
            return False
        if one.op == "call_function" and one.target != other.target:
            return False
        if one.kwargs.keys() != other.kwargs.keys():
            return False
        given = [one.args, *one.kwargs.values()], [other.args, *other.kwargs.values()]
        if not all(map(comparison.same, *given)):
            return False
        if one.op != "output" and not comparison.same_values(
            one.meta.get("val"), other.meta.get("val")
        ):
            return False
        comparison.nodes[one] = other
    return True
