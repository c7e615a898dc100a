# SPDX-License-Identifier: Apache-2.0
"""nn.Modules to ExportedPrograms of Core ATen ops, whatever containers their tensors lie in."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from .._core import Unsupported
from .aten.decompositions import export_decompositions
from .importer import one_at_a_time, place_in

# What torch.export raises where data decide the way.
CANNOT_TRACE = (torch._dynamo.exc.TorchDynamoException, GuardOnDataDependentSymNode)


def attention_as_products(samples: Iterable[object]) -> contextlib.AbstractContextManager[Any]:
    """While it is open, what PyTorch traces writes attention on a GPU as products and a softmax,
    which engines fuse as they see fit, and not as the kernels that PyTorch has there."""
    if any(isinstance(a, torch.Tensor) and a.device.type == "cuda" for a in samples):
        return sdpa_kernel(SDPBackend.MATH)
    return contextlib.nullcontext()


@one_at_a_time
def trace(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    wide: list[dict[int, Any] | None] | None = None,
) -> tuple[ExportedProgram, pytree.TreeSpec]:
    """The module for arguments like these, and how its flat results are put together.

    Args:
        module: in the mode that it is to be traced in.
        args: by position in its call.
        kwargs: by keyword in its call.
        wide: per argument, in flat order, the dimensions that may have any size, as torch.export
            takes them.

    Raises:
        Unsupported: control flow depends on data, or the results lie in a container that PyTorch
            knows nothing of.
    """
    flat, spec = pytree.tree_flatten((args, dict(kwargs)))
    callee: torch.nn.Module = module
    shapes: Any = None
    if any(_is_foreign(part.type) for part in _parts(spec)):
        # Putting such a container together may make tensors, which only torch.export itself, and
        # not the decomposition after it, can take up.
        callee, args, kwargs = _Flat(module, spec), tuple(flat), {}
        shapes = {"leaves": tuple(wide)} if wide is not None else None
    elif wide is not None:
        shapes = _by_parameter(module, *pytree.tree_unflatten(wide, spec))
    try:
        with torch.no_grad(), attention_as_products([*flat, *module.parameters()]):
            exported = torch.export.export(
                callee, args, dict(kwargs), dynamic_shapes=shapes, strict=False
            )
            signature = exported.module_call_graph[0].signature
            out_spec = signature.out_spec
            signature.out_spec = pytree.tree_structure([0] * out_spec.num_leaves)
            return exported.run_decompositions(export_decompositions()), out_spec
    except CANNOT_TRACE as error:
        raise cannot_be_traced(module, error) from error
    except RuntimeError as error:
        if "need to register a pytree" not in str(error):
            raise
        cause = str(error).split(", which is")[0].removeprefix("Found ")
        raise Unsupported(
            f"{type(module).__name__} cannot be traced whole: its arguments or results hold a "
            f"{cause}, of which PyTorch does not know what tensors it contains; "
            "torch.export.register_dataclass (of a dataclass) or "
            "torch.utils._pytree.register_pytree_node tells it, or let the module give tensors, "
            "tuples, lists and dicts (for a cache of transformers: use_cache=False)"
        ) from error


def cannot_be_traced(module: torch.nn.Module, error: Exception) -> Unsupported:
    """What to raise in place of torch.export's error."""
    cause = str(error).strip().splitlines() or [type(error).__name__]
    return Unsupported(
        f"{type(module).__name__} cannot be traced whole{place_in(str(error))}: {cause[0]}; "
        "torch.cond and while_loop are for control flow that depends on data, and with "
        "fallback=True PyTorch runs the parts that cannot be traced"
    )


def register_known_containers() -> None:
    """Tells PyTorch's pytree of transformers' key-value caches, which its language models give by
    default; does nothing where the package is not in use, or has done it."""
    import sys

    caches: Any = sys.modules.get("transformers.cache_utils")
    if caches is None:
        return
    if caches.DynamicCache not in pytree.SUPPORTED_NODES:
        from transformers.integrations.executorch import register_dynamic_cache_export_support

        register_dynamic_cache_export_support()
    pair = caches.EncoderDecoderCache
    if pair not in pytree.SUPPORTED_NODES:
        names = ("self_attention_cache", "cross_attention_cache")
        pytree.register_pytree_node(
            pair,
            lambda cache: ([getattr(cache, name) for name in names], None),
            lambda halves, _: pair(*halves),
            serialized_type_name=f"{pair.__module__}.{pair.__name__}",
            flatten_with_keys_fn=lambda cache: (
                [(pytree.GetAttrKey(name), getattr(cache, name)) for name in names],
                None,
            ),
        )


def _parts(spec: pytree.TreeSpec) -> Iterator[pytree.TreeSpec]:
    yield spec
    for child in spec.children():
        yield from _parts(child)


def _is_foreign(container: Any) -> bool:
    return container is not None and container.__module__ not in ("builtins", "collections")


class _Flat(torch.nn.Module):
    """A module under its own names, called with the leaves of its arguments."""

    def __init__(self, module: torch.nn.Module, spec: pytree.TreeSpec) -> None:
        super().__init__()
        self.__dict__["_module"] = module
        self._parameters = module._parameters
        self._buffers = module._buffers
        self._modules = module._modules
        self._non_persistent_buffers_set = module._non_persistent_buffers_set
        self.training = module.training
        self._spec = spec

    def forward(self, *leaves: Any) -> Any:
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        return self.__dict__["_module"](*args, **kwargs)


def _by_parameter(
    module: torch.nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> dict[str, Any]:
    """By the names of forward's parameters, which is how torch.export matches them."""
    return dict(inspect.signature(module.forward).bind(*arguments, **keywords).arguments)
