# SPDX-License-Identifier: Apache-2.0
"""Calls of a module that torch.compile has compiled, without Dynamo's wrapper around them.

Dynamo's own guards are asked, and the code that Dynamo made is called where they hold; everything
else goes torch.compile's way. The wrapper sees to what is not there then: frames that are still to
be compiled, stances, tracers and transforms. In a training step of a small network, whose products
have emptied the caches, it takes as long as one of the products.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch._C._dynamo import eval_frame as frames
from torch._dynamo import eval_frame, external_utils

# Compiled forms of a module that are kept at hand; and calls in a row for which there is none,
# after which no more are looked for.
_MAX_FORMS = 4
_MAX_MISSES = 8


def is_possible(compiled: Any) -> bool:
    """Whether this PyTorch has what is needed here and is not public (2.13 has), and Dynamo is not
    about to compile whatever is called, for a torch.compile around this one."""
    return (
        hasattr(frames, "_get_cache_entries_for_region")
        and hasattr(getattr(compiled, "dynamo_ctx", None), "_isolate_recompiles_id")
        and frames.get_eval_frame_callback() is None
    )


def _is_undisturbed() -> bool:
    """Whether nothing surrounds the call that Dynamo's wrapper would see to."""
    return (
        frames.get_eval_frame_callback() is None
        and eval_frame._stance.stance == "default"
        and not torch.compiler.is_compiling()
        and not torch._C._is_tracing()
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._functorch.get_dynamic_layer_stack_depth() == 0
    )


def _inlined(compiled: Callable[..., Any]) -> Callable[..., Any] | None:
    """What torch.compile has put its wrapper around."""
    names = getattr(getattr(compiled, "__code__", None), "co_freevars", ())
    cells = getattr(compiled, "__closure__", None) or ()
    for name, cell in zip(names, cells, strict=True):
        if name == "fn":
            return cell.cell_contents
    return None


class GuardedCall:
    """The compiled forms of one module, for calls with positional arguments."""

    def __init__(self, module: torch.nn.Module, compiled: Any) -> None:
        """`compiled` is what torch.compile gave for the module."""
        self.module = module
        self.backend = eval_frame.innermost_backend(compiled.dynamo_ctx.callback)
        self.region = compiled.dynamo_ctx._isolate_recompiles_id
        self.misses = 0
        self._forms: list[tuple[Callable[[dict[str, Any]], bool], Callable[..., Any]]] = []
        # The function whose frame Dynamo replaces. Around PyTorch's own modules it puts one that
        # takes (*args, **kwargs); of other modules it is forward(), and hooks run outside of it.
        self._frame: types.FunctionType | None = None
        self._parameters: tuple[str, ...] | None = None
        function = _inlined(compiled.forward)
        around = external_utils.wrap_inline(lambda: None)
        if getattr(function, "__code__", None) is around.__code__:
            self._frame = function  # type: ignore[assignment]
        elif getattr(function, "__self__", None) is module:
            self._take_forward()

    def _take_forward(self) -> None:
        forward = type(self.module).forward
        if not isinstance(forward, types.FunctionType):
            return
        code = forward.__code__
        variable = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
        if code.co_flags & variable or code.co_kwonlyargcount or code.co_freevars:
            return
        if code.co_cellvars or type(self.module).__call__ is not torch.nn.Module.__call__:
            return
        self._frame = forward
        self._parameters = code.co_varnames[: code.co_argcount]

    def _locals(self, args: tuple[Any, ...]) -> dict[str, Any] | None:
        """The frame's variables, as guards read them."""
        if self._parameters is None:
            return {"args": args, "kwargs": {}, "fn": self.module}
        module = self.module
        if (
            len(args) + 1 != len(self._parameters)
            or "forward" in module.__dict__
            or module._forward_hooks
            or module._forward_pre_hooks
            or module._backward_hooks
            or module._backward_pre_hooks
            or torch.nn.modules.module._has_any_global_hook()
        ):
            return None
        return dict(zip(self._parameters, (module, *args), strict=True))

    def find(self, args: tuple[Any, ...]) -> Callable[..., Any] | None:
        """What to call with these arguments; None: torch.compile's way."""
        if not self._forms or not _is_undisturbed():
            return None
        variables = self._locals(args)
        if variables is None:
            return None
        for holds, function in self._forms:
            if holds(variables):
                self.misses = 0
                return function
        return None

    def learn(self, args: tuple[Any, ...]) -> None:
        """After a call that went torch.compile's way: looks for the form that it took."""
        if self._frame is None or self.misses >= _MAX_MISSES or not _is_undisturbed():
            return
        self.misses += 1
        variables = self._locals(args)
        if variables is None:
            return
        frame = self._frame
        for entry in frames._get_cache_entries_for_region(frame.__code__, self.region):
            if entry.backend != self.backend:  # compiled another time, for other engines, say
                continue
            holds = entry.guard_manager.check
            # Code that goes on in a frame of its own after a graph break needs the wrapper.
            whole = not any(name.startswith("__resume_at") for name in entry.code.co_names)
            if whole and holds(variables):
                function = types.FunctionType(
                    entry.code, frame.__globals__, argdefs=None, closure=frame.__closure__
                )
                called = function if self._parameters is None else partial(function, self.module)
                self._forms = [(holds, called), *self._forms[: _MAX_FORMS - 1]]
                return
