# SPDX-License-Identifier: Apache-2.0
"""nn.Modules to ExportedPrograms of Core ATen ops, whatever containers their tensors lie in."""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import inspect
import linecache
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree

from .._core import Unsupported
from .aten.decompositions import export_decompositions
from .attributes import PlainAttributes
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


@contextlib.contextmanager
def _without_warnings_of_itself() -> Iterator[None]:
    """torch.export uses names of PyTorch's that PyTorch calls deprecated: nothing that a caller
    could change, and an error where warnings are errors."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*LeafSpec.*is deprecated", FutureWarning)
        yield


class Trace(NamedTuple):
    """What a module computes for arguments like some."""

    program: ExportedProgram
    results: Results  # how its flat results are put together
    # Whether it is so from the second call on only: the first one, which has not been made, writes
    # attributes that forward reads.
    from_second_call: bool


def _are_same(one: ExportedProgram, other: ExportedProgram) -> bool:
    """Whether two traces compute the same."""

    def code(program: ExportedProgram) -> list[str]:
        parts = program.graph_module.modules()
        return [part.code for part in parts if isinstance(part, torch.fx.GraphModule)]

    if code(one) != code(other) or one.constants.keys() != other.constants.keys():
        return False
    pairs = ((value, other.constants[name]) for name, value in one.constants.items())
    return all(
        x is y
        or (isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor) and torch.equal(x, y))
        for x, y in pairs
    )


@one_at_a_time
def trace(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    wide: list[Any] | None = None,
) -> Trace:
    """The module for arguments like these.

    A plain attribute that forward writes has one value in a program. A trace writes it too, so that
    a second one shows whether results depend on it, and whether it is written anew by every call.

    Args:
        module: in the mode that it is to be traced in.
        args: by position in its call.
        kwargs: by keyword in its call.
        wide: per argument, in flat order, the dimensions that may have any size, as torch.export
            takes them.

    Raises:
        Unsupported: control flow depends on data, the results lie in a container that PyTorch
            knows nothing of, or every call writes attributes that the results depend on.
    """
    before = PlainAttributes(module)
    try:
        found = _traced(module, args, kwargs, wide)
        if not before.changed():
            return Trace(*found, False)
        after_one = PlainAttributes(module)
        again = _traced(module, args, kwargs, wide)
    except BaseException:
        before.restore()
        raise
    if _are_same(found[0], again[0]):
        after_one.restore()
        return Trace(*found, False)
    written = after_one.changed()
    before.restore()
    if written:
        names = ", ".join(f"'{name}'" for name in written)
        raise Unsupported(
            f"every call of {type(module).__name__} writes {names}, which its results depend on: a "
            "program would have one value of it; let it be a buffer (register_buffer), or with "
            "fallback=True PyTorch keeps it"
        )
    return Trace(*again, True)


def _traced(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    wide: list[Any] | None,
) -> tuple[ExportedProgram, Results]:
    flat, kind, caches = flatten(args, kwargs)
    flat = _each_by_itself(flat, afresh=wide is not None)
    if not caches:
        args, kwargs = pytree.tree_unflatten(flat, kind.spec)
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
        quiet = _without_warnings_of_itself()
        with torch.no_grad(), products, quiet, _without_collections():
            exported = torch.export.export(
                callee, args, dict(kwargs), dynamic_shapes=shapes, strict=False
            )
            _refuse_gradients(module, exported)
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


def _refuse_gradients(module: torch.nn.Module, exported: ExportedProgram) -> None:
    """Of torch.func.grad() and its like torch.export makes constants without values."""
    if any(
        isinstance(value, FakeTensor)
        or (
            isinstance(value, torch.Tensor)
            and torch._C._functorch.is_functorch_wrapped_tensor(value)
        )
        for value in exported.constants.values()
    ):
        raise _gradients_refused(module)


def _gradients_refused(module: torch.nn.Module) -> Unsupported:
    return Unsupported(
        f"{type(module).__name__} cannot be traced whole: its forward takes gradients "
        "(torch.func.grad, jacrev, …), which torch.export does not trace; torch.compile with "
        "backend 'openxrt' does, as do training mode and fallback=True"
    )


def _each_by_itself(flat: list[Any], afresh: bool) -> list[Any]:
    """Arguments to trace with, none of which is a view or shares its memory with another.

    PyTorch's trace would hold for arguments alone that share it in the same way. With `afresh` none
    is the caller's own tensor: torch.export marks those whose sizes are open, and the marks stay
    where it fails.
    """

    def is_usual(x: Any) -> bool:
        return (
            type(x) is torch.Tensor
            and x.layout == torch.strided
            and not (x.requires_grad or x.is_quantized or x.is_conj() or x.is_neg())
        )

    def storage(x: torch.Tensor) -> int:
        return x.untyped_storage().data_ptr()

    usual = [x for x in flat if is_usual(x)]
    counts = collections.Counter(map(storage, usual))

    def alone(x: Any) -> Any:
        is_alone = not is_usual(x) or (x._base is None and counts[storage(x)] == 1)
        if is_alone and not (afresh and is_usual(x)):
            return x
        memory = x.untyped_storage()
        if counts[storage(x)] > 1:
            memory = torch.UntypedStorage(memory.nbytes(), device=x.device)
        empty = torch.empty(0, dtype=x.dtype, device=x.device)
        return empty.set_(memory, x.storage_offset(), x.shape, x.stride())

    with torch.no_grad():
        return [alone(x) for x in flat]


# Modules of PyTorch in which frames are of the module that is traced, and not of the tracing.
_LAYERS = "torch.nn.modules."
# Where torch.func's gradients are computed.
_GRADIENTS = torch.func.jacrev.__globals__["__name__"]


def cannot_be_traced(module: torch.nn.Module, error: Exception) -> Unsupported:
    """What to raise in place of torch.export's error."""
    frames = list(traceback.walk_tb(error.__traceback__))
    names = [str(frame.f_globals.get("__name__")) for frame, _ in frames]
    if _GRADIENTS in names:
        return _gradients_refused(module)
    own = [
        (frame.f_code.co_filename, line, name)
        for (frame, line), name in zip(frames, names, strict=True)
        if name.startswith(_LAYERS) or not name.startswith(("torch.", "openxrt."))
    ]
    place = place_in(str(error))
    advice = (
        "torch.cond and while_loop are for control flow that depends on data, and with "
        "fallback=True PyTorch runs the parts that cannot be traced"
    )
    if own and isinstance(error, GuardOnDataDependentSymNode):
        file, line, name = own[-1]
        code = linecache.getline(file, line).strip()
        place = f" ({file}:{line}: {code})"
        if name == torch.nn.TransformerDecoder.__module__:
            advice = (
                "it looks whether a mask is causal: say so in the call (is_causal, tgt_is_causal, "
                "src_is_causal and memory_is_causal are True or False); with fallback=True PyTorch "
                "runs this part"
            )
    cause = str(error).strip().splitlines() or [type(error).__name__]
    if any(isinstance(v, PackedSequence) for frame, _ in frames for v in frame.f_locals.values()):
        cause = ["a packed sequence has sizes that depend on data"]
        advice = "give it padded sequences; with fallback=True PyTorch runs this part"
    return Unsupported(
        f"{type(module).__name__} cannot be traced whole{place}: {cause[0]}; {advice}"
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
