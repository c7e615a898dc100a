# SPDX-License-Identifier: Apache-2.0
"""Graphs of which PyTorch runs what cannot be imported."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Mapping, Sequence

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from .._core import Unsupported
from .builder import NeedsStaticShape
from .importer import Imported, import_fx, missing_nodes, where
from .runner import Runner

_log = logging.getLogger(__name__)


def refused_nodes(module: torch.fx.GraphModule, samples: Sequence[object]) -> set[str]:
    """Names of the nodes that no lowering takes, found by importing the rest."""
    refused = missing_nodes(module.graph)
    if refused:
        return refused
    try:
        import_fx(module, samples)
    except NeedsStaticShape:
        raise
    except Unsupported as error:
        name = getattr(error, "node", None)
        if name is None:
            raise
        return {name}
    return set()


class _Imported(OperatorSupportBase):
    def __init__(self, refused: set[str]) -> None:
        self.refused = refused

    def is_node_supported(
        self, submodules: Mapping[str, torch.nn.Module], node: torch.fx.Node
    ) -> bool:
        if node.op == "get_attr":  # a body goes with the op that it belongs to
            value = operator.attrgetter(str(node.target))(node.graph.owning_module)
            return isinstance(value, torch.nn.Module) and not any(
                user.name in self.refused for user in node.users
            )
        return node.op == "call_function" and node.name not in self.refused


def split(
    module: torch.fx.GraphModule, refused: set[str], make: Callable[[Imported], Runner]
) -> torch.fx.GraphModule:
    """The graph with everything but the refused nodes in parts that the engines run; what a part
    turns out to refuse is refused, too."""
    refused = set(refused)
    while True:
        copy = torch.fx.GraphModule(module, _copied(module.graph))
        whole = CapabilityBasedPartitioner(
            copy, _Imported(refused), allows_single_node_partition=True
        ).partition_and_fuse(prefix="openxrt_part")
        calls = [node for node in whole.graph.nodes if node.op == "call_module"]
        found: set[str] = set()
        for call in calls:
            part = whole.get_submodule(str(call.target))
            samples = [argument.meta["val"] for argument in call.args]
            try:
                imported = import_fx(part, samples, draws_outside=True)
            except Unsupported as error:
                name = getattr(error, "node", None)
                if name is None:
                    raise
                found.add(name)
                continue
            setattr(whole, str(call.target), _Part(make(imported), _is_single(part)))
        if not found:
            break
        refused |= found
    for node in module.graph.nodes:
        if node.name in refused:
            _log.warning("%s runs in PyTorch%s", node.target, where(node))
    whole.recompile()
    return whole


def _copied(graph: torch.fx.Graph) -> torch.fx.Graph:
    """A copy whose nodes have the names and annotations of the first."""
    fresh = torch.fx.Graph()
    fresh.output(fresh.graph_copy(graph, {}))
    return fresh


def _is_single(part: torch.nn.Module) -> bool:
    output = next(node for node in part.graph.nodes if node.op == "output")  # type: ignore[attr-defined]
    return not isinstance(output.args[0], (list, tuple))


class _Part(torch.nn.Module):
    def __init__(self, runner: Runner, single: bool) -> None:
        super().__init__()
        self.runner = runner
        self.single = single

    def forward(self, *arguments: object) -> object:
        results = self.runner(arguments)
        return results[0] if self.single else results
