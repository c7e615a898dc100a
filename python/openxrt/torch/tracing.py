# SPDX-License-Identifier: Apache-2.0
"""nn.Modules to ExportedPrograms of Core ATen ops, whatever containers their tensors lie in."""

from __future__ import annotations

import contextlib
import functools
import gc
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
from .containers import Kind, Results, flatten, unflatten
from .importer import one_at_a_time, place_in

# What torch.export raises where data decide the way.
CANNOT_TRACE = (torch._dynamo.exc.TorchDynamoException, GuardOnDataDependentSymNode)


def attention_as_products(samples: Iterable[object]) -> contextlib.AbstractContextManager[Any]:
    """While it is open, what PyTorch traces writes attention on a GPU as products and a softmax,
    which engines fuse as they see fit, and not as the kernels that PyTorch has there."""
    if any(isinstance(a, torch.Tensor) and a.device.type == "cuda" for a in samples):
        return sdpa_kernel(SDPBackend.MATH)
    return contextlib.nullcontext()


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Python looks for no cycles meanwhile: of the millions of objects that tracing makes few are
    garbage, and going through them takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@one_at_a_time
def trace(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    wide: list[Any] | None = None,
) -> tuple[ExportedProgram, Results]:
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
    flat, kind, caches = flatten(args, kwargs)
    # Putting such a container together may make tensors, which only torch.export itself, and not
    # the decomposition after it, can take up.
    by_leaves = bool(caches) or any(_is_foreign(part.type) for part in _parts(kind.spec))
    # Arguments that no parameter is named for have no place in dynamic_shapes.
    by_leaves |= wide is not None and not _are_named(module, args, kwargs)
    noted: list[Results] = []
    callee = _Opened(module, kind, by_leaves, noted)
    shapes: Any = None
    if by_leaves:
        args, kwargs = tuple(flat), {}
        shapes = {"leaves": tuple(wide)} if wide is not None else None
    elif wide is not None:
        shapes = _by_parameter(module, *pytree.tree_unflatten(wide, kind.spec))
    try:
        products = attention_as_products([*flat, *module.parameters()])
        with torch.no_grad(), products, _without_collections():
            exported = torch.export.export(
                callee, args, dict(kwargs), dynamic_shapes=shapes, strict=False
            )
            return exported.run_decompositions(export_decompositions()), noted[0]
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
            "tuples, lists and dicts"
        ) from error


def cannot_be_traced(module: torch.nn.Module, error: Exception) -> Unsupported:
    """What to raise in place of torch.export's error."""
    cause = str(error).strip().splitlines() or [type(error).__name__]
    return Unsupported(
        f"{type(module).__name__} cannot be traced whole{place_in(str(error))}: {cause[0]}; "
        "torch.cond and while_loop are for control flow that depends on data, and with "
        "fallback=True PyTorch runs the parts that cannot be traced"
    )


def _parts(spec: pytree.TreeSpec) -> Iterator[pytree.TreeSpec]:
    yield spec
    for child in spec.children():
        yield from _parts(child)


def _is_foreign(container: Any) -> bool:
    return container is not None and container.__module__ not in ("builtins", "collections")


class _Opened(torch.nn.Module):
    """A module under its own names that gives its results flat, and notes what they are of.

    torch.export may run a copy, and takes back what is assigned to attributes.
    """

    def __init__(
        self, module: torch.nn.Module, kind: Kind, by_leaves: bool, noted: list[Results]
    ) -> None:
        super().__init__()
        self.__dict__["_module"] = module
        self._parameters = module._parameters
        self._buffers = module._buffers
        self._modules = module._modules
        self._non_persistent_buffers_set = module._non_persistent_buffers_set
        self.training = module.training

        def opened(result: Any, flat: tuple[Any, ...], caches: list[Any]) -> list[Any]:
            results = Results(result, kind, flat, caches)
            noted[:] = [results]
            return results.taken_flat()

        def with_leaves(*leaves: Any) -> list[Any]:
            args, kwargs, caches = unflatten(kind, leaves)
            return opened(module(*args, **kwargs), leaves, caches)

        @functools.wraps(module.forward)  # torch.export names inputs as its parameters are named
        def as_it_is(*args: Any, **kwargs: Any) -> list[Any]:
            return opened(module(*args, **kwargs), (), [])

        self.forward = with_leaves if by_leaves else as_it_is


def _are_named(
    module: torch.nn.Module, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> bool:
    """Whether forward has a parameter for each argument, beside *args and **kwargs."""
    signature = inspect.signature(module.forward)
    bound = signature.bind(*arguments, **keywords).arguments
    various = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return not any(signature.parameters[name].kind in various for name in bound)


def _by_parameter(
    module: torch.nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> dict[str, Any]:
    """By the names of forward's parameters, which is how torch.export matches them."""
    return dict(inspect.signature(module.forward).bind(*arguments, **keywords).arguments)
