# SPDX-License-Identifier: Apache-2.0
"""Where a GraphModule's nodes go: PyTorch, a TensorRT network, or a Relax block builder.

The current context is a context variable: each thread and each asyncio task has its own, `with`
blocks nest, and one that an exception leaves is left like any other.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any

import torch

from ..._core import InvalidArgument
from ...engines._tensorrt_library import MODULES
from .constants import constant_tensor


class Context:
    """PyTorch's mode, and what the other modes have in common."""

    is_torch = True
    is_tensorrt = False
    is_tvm = False
    # TensorRT's INetworkDefinition or the Relax BlockBuilder; None in PyTorch's mode.
    network: Any = None

    def __init__(self) -> None:
        self._names: dict[str, int] = {}

    def is_tensor(self, value: object) -> bool:
        """Whether a value is a tensor of the network, and not one of PyTorch."""
        return False

    def constant(self, value: torch.Tensor | float | bool, dtype: torch.dtype | None = None) -> Any:
        """A value that is known, as a tensor of the network."""
        return torch.as_tensor(value, dtype=dtype)

    def unique_name(self, wanted: str) -> str:
        """`wanted`, numbered if the network has that name already."""
        count = self._names.get(wanted, 0)
        self._names[wanted] = count + 1
        return wanted if count == 0 else f"{wanted}_{count}"


class _NetworkState:
    """What must live as long as a user's network: its weights, and the names in use."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.names: dict[str, int] = {}


_states: weakref.WeakKeyDictionary[Any, _NetworkState] = weakref.WeakKeyDictionary()


def trt_module_of(value: object, kind: str) -> ModuleType | None:
    """The TensorRT package, of those that are imported, whose class `kind` the value is of."""
    for name in MODULES:
        module = sys.modules.get(name)
        if module is not None and isinstance(value, getattr(module, kind, ())):
            return module
    return None


class TensorRTContext(Context):
    """Nodes become layers of a user's network."""

    is_torch = False
    is_tensorrt = True

    def __init__(self, network: Any) -> None:
        super().__init__()
        trt = trt_module_of(network, "INetworkDefinition")
        if trt is None:
            raise InvalidArgument(
                f"trt_network() takes TensorRT's INetworkDefinition, not {type(network).__name__}"
            )
        self.trt = trt
        self.network = network
        state = _states.get(network)
        if state is None:
            state = _states[network] = _NetworkState()
        self._names = state.names
        self._state = state

    def is_tensor(self, value: object) -> bool:
        """Whether a value is an ITensor."""
        return isinstance(value, self.trt.ITensor)

    def keep(self, value: object) -> None:
        """Keeps memory that layers refer to alive as long as the network is."""
        self._state.kept.append(value)

    def constant(self, value: torch.Tensor | float | bool, dtype: torch.dtype | None = None) -> Any:
        """A constant layer's output; a tensor of the network as it is."""
        if self.is_tensor(value):
            return value
        return constant_tensor(self, torch.as_tensor(value, dtype=dtype), "constant")


class TVMContext(Context):
    """Nodes become bindings of a Relax function that is being built."""

    is_torch = False
    is_tvm = True

    def __init__(self, builder: Any) -> None:
        super().__init__()
        from tvm import relax

        self.relax = relax
        self._builder = builder

    @property
    def network(self) -> Any:
        """The block builder: the one given, else the one whose function is open."""
        builder = self._builder or self.relax.BlockBuilder.current()
        if builder is None:
            raise InvalidArgument(
                "no Relax function is open: call the GraphModule inside of "
                "BlockBuilder().function(...), or use torch2tvm()"
            )
        return builder

    def is_tensor(self, value: object) -> bool:
        """Whether a value is an expression of Relax."""
        return is_relax(value)

    def constant(self, value: torch.Tensor | float | bool, dtype: torch.dtype | None = None) -> Any:
        """A Relax constant; an expression as it is."""
        if self.is_tensor(value):
            return value
        tensor = torch.as_tensor(value, dtype=dtype)
        return self.relax.const(tensor.detach().cpu().contiguous().numpy())

    def emit(self, expression: Any, name: str = "") -> Any:
        """Binds an expression to a variable of the function that is open."""
        return self.network.emit(expression, name)


_FRAMEWORK = Context()
_current: ContextVar[Context] = ContextVar("openxrt_torch_context", default=_FRAMEWORK)


def current_context() -> Context:
    """The context of this thread; PyTorch's, with `network` None, outside of any."""
    return _current.get()


@contextmanager
def _entered(context: Context) -> Iterator[Any]:
    token = _current.set(context)
    try:
        yield context
    finally:
        _current.reset(token)


def trt_network(network: Any) -> Any:
    """TensorRT's mode: inside of the `with` block a GraphModule that is called with ITensors adds
    its layers to `network`. The block is given a TensorRTContext."""
    return _entered(TensorRTContext(network))


def tvm_network(builder: Any = None) -> Any:
    """TVM's mode: inside of the `with` block a GraphModule that is called with Relax expressions
    emits bindings to `builder`, or to the BlockBuilder whose function is open. The block is given a
    TVMContext."""
    return _entered(TVMContext(builder))


def torch_network() -> Any:
    """PyTorch's mode again, inside of one of the others."""
    return _entered(Context())


def is_relax(value: object) -> bool:
    """Whether a value is an expression of Relax; false while TVM is not even imported."""
    tvm = sys.modules.get("tvm")
    relax = getattr(tvm, "relax", None)
    return relax is not None and isinstance(value, relax.Expr)


def _any(values: object, test: Any) -> bool:
    if isinstance(values, (list, tuple)):
        return any(_any(value, test) for value in values)
    if isinstance(values, dict):
        return any(_any(value, test) for value in values.values())
    return test(values)


def has_trt_tensor(values: object) -> bool:
    """Whether an ITensor is among the values, in lists too."""
    return _any(values, lambda value: trt_module_of(value, "ITensor") is not None)


def has_tvm_tensor(values: object) -> bool:
    """Whether a Relax expression is among the values, in lists too."""
    return _any(values, is_relax)
