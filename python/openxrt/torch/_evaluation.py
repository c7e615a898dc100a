# SPDX-License-Identifier: Apache-2.0
"""What TensorRTModule and TVMModule share: PyTorch in training mode, an engine in eval mode."""

from __future__ import annotations

import abc
import threading
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .exported import State


class Forward(torch.nn.Module):
    """A module's own forward(), with its parameters under the same names."""

    def __init__(self, owner: torch.nn.Module) -> None:
        super().__init__()
        self.__dict__["owner"] = owner
        self._parameters = owner._parameters
        self._buffers = owner._buffers
        self._modules = owner._modules
        self._non_persistent_buffers_set = owner._non_persistent_buffers_set
        self.training = owner.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.owner.forward(*args, **kwargs)


class EvaluationModule(torch.nn.Module, abc.ABC):
    """To derive from: a module whose forward() an engine runs in eval mode.

    Training mode, tracing, and calls that want gradients for an argument run forward() in PyTorch,
    also where the module is a part of a larger one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["_engine_lock"] = threading.RLock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = pytree.tree_leaves((args, kwargs))
        if self.training or _is_tracing(leaves) or _wants_gradient(leaves):
            return super().__call__(*args, **kwargs)
        if not (
            self._forward_hooks
            or self._forward_pre_hooks
            or torch.nn.modules.module._has_any_global_hook()
        ):
            return self.evaluate(*args, **kwargs)
        return self._evaluate_with_hooks(args, kwargs)

    def _evaluate_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """evaluate() between the hooks that nn.Module.__call__ puts around forward()."""
        everywhere = torch.nn.modules.module
        before = {**everywhere._global_forward_pre_hooks, **self._forward_pre_hooks}
        for key, hook in before.items():
            if key in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                args, kwargs = (args, kwargs) if changed is None else changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        with_keywords = {
            **everywhere._global_forward_hooks_with_kwargs,
            **self._forward_hooks_with_kwargs,
        }
        after = {**everywhere._global_forward_hooks, **self._forward_hooks}
        always = {**everywhere._global_forward_hooks_always_called}
        always.update(self._forward_hooks_always_called)

        def call(key: int, hook: Any, result: Any) -> Any:
            given = (args, kwargs) if key in with_keywords else (args,)
            changed = hook(self, *given, result)
            return result if changed is None else changed

        left = dict(after)
        try:
            result = self.evaluate(*args, **kwargs)
            for key, hook in after.items():
                del left[key]
                result = call(key, hook, result)
        except BaseException:
            for key in [key for key in left if key in always]:
                call(key, left[key], None)
            raise
        return result

    @abc.abstractmethod
    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """forward() through the engine."""

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in [name for name in state if name.startswith("_engine_")]:
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__["_engine_lock"] = threading.RLock()


def _is_tracing(leaves: list[Any]) -> bool:
    if torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return True
    return any(isinstance(leaf, torch._subclasses.FakeTensor) for leaf in leaves)


def _wants_gradient(leaves: list[Any]) -> bool:
    return torch.is_grad_enabled() and any(
        isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves
    )


class Weights:
    """The parameters, buffers and parts of a module as they were; says whether they have changed.

    PyTorch counts the writes to a tensor (not those through .data, and not those to a tensor that
    was made in torch.inference_mode()).
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.state = State(Forward(module))  # without the module's own hooks, which run outside
        self.tensors = _tensors(module)
        self.versions = _versions(self.tensors)

    def are_current(self, module: torch.nn.Module) -> bool:
        """Whether they are the module's still."""
        tensors = _tensors(module)
        return (
            self.state.fits()
            and len(tensors) == len(self.tensors)
            and all(a is b for a, b in zip(tensors, self.tensors, strict=True))
            and _versions(tensors) == self.versions
        )


def _tensors(module: torch.nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def _versions(tensors: list[torch.Tensor]) -> list[int]:
    return [0 if tensor.is_inference() else tensor._version for tensor in tensors]
