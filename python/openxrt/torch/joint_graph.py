# SPDX-License-Identifier: Apache-2.0
"""How PyTorch's joint graph of a training step becomes a forward and a backward graph.

PyTorch's partitioner takes it that a compiler fuses elementwise ops into whatever reads them, so
that computing them again costs nothing. Engines here run one kernel per op or per few: what the
backward graph needs of the forward graph's results is kept, as PyTorch's own autograd keeps it,
and only what costs nothing (views, constants, conversions) is made again.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils.checkpoint import CheckpointPolicy

aten = torch.ops.aten

# Pooling's gradient by the input of the pool: its indices, eight bytes for each result, need not be
# made, and which element won is found again.
_LIBRARY = torch.library.Library("openxrt", "DEF")
_LIBRARY.define(
    "max_pool2d_backward(Tensor grad, Tensor input, int[2] kernel_size, int[2] stride, "
    "int[2] padding, int[2] dilation, bool ceil_mode) -> Tensor"
)


@torch.library.impl("openxrt::max_pool2d_backward", "CompositeExplicitAutograd", lib=_LIBRARY)
def _max_pool2d_backward(grad: torch.Tensor, x: torch.Tensor, *window: Any) -> torch.Tensor:
    indices = aten.max_pool2d_with_indices(x, *window)[1]
    return aten.max_pool2d_with_indices_backward(grad, x, *window, indices)


_FREE = {
    aten._to_copy.default,
    aten.alias.default,
    aten.as_strided.default,
    aten.clone.default,
    aten.detach.default,
    aten.expand.default,
    aten.permute.default,
    aten.select.int,
    aten.slice.Tensor,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.t.default,
    aten.transpose.int,
    aten.unsqueeze.default,
    aten.view.default,
}
# Ops whose first result lies in memory as their first operand does.
_KEEP_LAYOUT = {
    aten._native_batch_norm_legit_functional.default,
    aten._native_batch_norm_legit.no_stats,
    aten.avg_pool2d.default,
    aten.max_pool2d_with_indices.default,
}


def _is_free(node: torch.fx.Node) -> bool:
    if node.op != "call_function" or node.target is operator.getitem:
        return True
    return node.target in _FREE or not node.all_input_nodes


def _use_inputs_of_pools(graph: torch.fx.Graph) -> None:
    whole = aten.max_pool2d_with_indices_backward.default
    for node in graph.find_nodes(op="call_function", target=whole):
        grad, x, kernel, stride, padding, dilation, ceil_mode, _ = node.args
        node.target = torch.ops.openxrt.max_pool2d_backward.default
        node.args = (grad, x, kernel, stride, padding, dilation, ceil_mode)


def _use_batch_statistics(graph: torch.fx.Graph) -> None:
    """The gradient of a batch normalisation in training mode reads the batch's statistics alone,
    and not the running ones, which PyTorch hands to it all the same."""
    for node in graph.find_nodes(
        op="call_function", target=aten.native_batch_norm_backward.default
    ):
        is_training = node.args[7]
        if is_training:
            node.args = (*node.args[:3], None, None, *node.args[5:])


def _forget_running_statistics(
    forward: torch.fx.GraphModule, backward: torch.fx.GraphModule, outputs: int
) -> None:
    """A batch normalisation that the backward graph computes again (under torch.utils.checkpoint)
    leaves the running statistics alone: the forward graph has updated them, in PyTorch's memory,
    so that what they were cannot be kept."""
    functional = aten._native_batch_norm_legit_functional.default
    for node in backward.graph.find_nodes(op="call_function", target=functional):
        x, weight, bias, _, _, is_training, momentum, eps = node.args
        if not is_training or any(user.args[1] > 2 and user.users for user in node.users):
            continue
        node.target = aten._native_batch_norm_legit.no_stats
        node.args = (x, weight, bias, is_training, momentum, eps)
        node.meta["val"] = node.meta["val"][:3]
        for user in [user for user in node.users if user.args[1] > 2]:
            backward.graph.erase_node(user)
    (output,) = forward.graph.find_nodes(op="output")
    results = list(output.args[0])
    saved = {node.name for node in results[outputs:]}
    unread = {
        node
        for node in backward.graph.find_nodes(op="placeholder")
        if not node.users and node.name in saved
    }
    for node in unread:
        backward.graph.erase_node(node)
    names = {node.name for node in unread}
    kept = [node for node in results[outputs:] if node.name not in names]
    output.args = ((*results[:outputs], *kept),)
    forward.recompile()
    backward.recompile()


def _is_static_image(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return (
        isinstance(value, torch.Tensor)
        and value.dtype in (torch.float32, torch.float16, torch.bfloat16)
        and 3 <= value.dim() <= 5
        and all(isinstance(size, int) for size in value.shape)
    )


def _images(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """Results of convolutions, and what elementwise ops, normalisation and pools make of them:
    engines keep these with the channels last."""
    found: set[torch.fx.Node] = set()

    def follows(node: torch.fx.Node) -> bool:
        if node.target is operator.getitem:
            source, index = node.args
            return index == 0 and source.target in _KEEP_LAYOUT and source.args[0] in found
        tags = getattr(node.target, "tags", ())
        shape = node.meta["val"].shape
        return torch.Tag.pointwise in tags and any(
            source in found and source.meta["val"].shape == shape for source in node.all_input_nodes
        )

    for node in graph.nodes:
        if node.op != "call_function" or not _is_static_image(node):
            continue
        if node.target is aten.convolution.default or follows(node):
            found.add(node)
    return found


def _keep_channels_last(
    forward: torch.fx.GraphModule, backward: torch.fx.GraphModule, saved: Iterable[object]
) -> None:
    """What is saved travels in the memory layout that both sides compute in.

    The forward graph's result is the image with its channels last, and the backward graph begins
    by giving that its usual shape; engines find nothing to move on either side.
    """
    images = _images(forward.graph)
    kept = {node for node in saved if isinstance(node, torch.fx.Node) and node in images}
    places = {node.name: node for node in backward.graph.nodes if node.op == "placeholder"}
    (output,) = forward.graph.find_nodes(op="output")
    results = list(output.args[0])
    count = len(results) - len(list(saved))
    for node in kept:
        place = places.get(node.name)
        if place is None:
            continue
        rank = node.meta["val"].dim()
        last = [0, *range(2, rank), 1]
        first = [0, rank - 1, *range(1, rank - 1)]
        with forward.graph.inserting_before(output):
            stored = forward.graph.call_function(aten.permute.default, (node, last))
        stored.meta["val"] = node.meta["val"].permute(last)
        for position in range(count, len(results)):
            if results[position] is node:
                results[position] = stored
        with backward.graph.inserting_after(place):
            image = backward.graph.call_function(aten.permute.default, (place, first))
        image.meta["val"] = place.meta["val"]
        place.replace_all_uses_with(image, delete_user_cb=lambda user, new=image: user is not new)
        place.meta["val"] = stored.meta["val"]
    output.args = (tuple(results),)
    forward.recompile()
    backward.recompile()


def _keep_random_numbers(graph: torch.fx.Graph) -> None:
    """What torch.utils.checkpoint would draw again is kept: the same numbers come once only."""
    for node in graph.nodes:
        source = node.args[0] if node.target is operator.getitem else node
        tags = getattr(source.target, "tags", ()) if isinstance(source, torch.fx.Node) else ()
        if torch.Tag.nondeterministic_seeded in tags and "recompute" in node.meta:
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def partition(
    joint: torch.fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **options: Any
) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """A partition function for aot_autograd."""
    _use_inputs_of_pools(joint.graph)
    _use_batch_statistics(joint.graph)
    _keep_random_numbers(joint.graph)
    for node in joint.graph.nodes:
        if not _is_free(node):
            node.meta.setdefault("recompute", CheckpointPolicy.MUST_SAVE)
    forward, backward = min_cut_rematerialization_partition(
        joint, inputs, num_fwd_outputs=num_fwd_outputs, **options
    )
    _forget_running_statistics(forward, backward, num_fwd_outputs)
    (output,) = forward.graph.find_nodes(op="output")
    _keep_channels_last(forward, backward, output.args[0][num_fwd_outputs:])
    return forward, backward
