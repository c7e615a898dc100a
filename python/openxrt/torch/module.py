# SPDX-License-Identifier: Apache-2.0
"""Modules that run through the engines and otherwise behave as the modules they wrap."""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from .._core import CalibrationTable, Error, InternalError, InvalidModel, Unsupported
from .._int8 import Calibration, Call, Quantiser
from .._xrt_module import XRTModuleCore
from .backend import openxrt_backend
from .builder import NeedsStaticShape
from .containers import Kind, flatten, unflatten
from .exported import (
    Exported,
    Signature,
    State,
    Wide,
    has_substitutes,
    united,
    watch_hooks,
    without_ones,
)
from .int8 import QuantisedWhileUnchanged, own_tensor, ranges_of
from .methods import method_through
from .runner import FrozenWhileUnchanged, Runners
from .sizes import BY_NAME, GivenSizes, Labels
from .tracing import cannot_be_traced

# Programs kept for distinct signatures of the arguments; the oldest makes room.
_MAX_PROGRAMS = 16
# The same for torch.compile, which keeps the first ones and runs what comes later by itself.
_MAX_TRAINING_PROGRAMS = 64


class _Inference(Exported):
    """One exported form of a module with its programs."""

    def __init__(
        self,
        module: torch.nn.Module,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        wide: Wide | None,
        options: Mapping[str, Any],
        runners: Runners,
        quantiser: Quantiser | None = None,
        lengths_open: bool = False,
        labels: Labels | None = None,
        sizes: GivenSizes | None = None,
    ) -> None:
        super().__init__(module, args, kwargs, wide, lengths_open)
        if sizes is not None and labels:
            options = {**options, **sizes.load_options(labels, self.inputs)}
        make = functools.partial(runners.make, options=options)
        self.choice: FrozenWhileUnchanged | QuantisedWhileUnchanged
        if quantiser is None:
            self.choice = FrozenWhileUnchanged(
                lambda: make(self.imported(False, draws_outside=True)),
                lambda: make(self.imported(True, draws_outside=True)),
            )
        else:
            self.choice = QuantisedWhileUnchanged(self, quantiser, options, make)
        self.unchanged = self.watch()
        self._lock = threading.Lock()

    def run(self, flat: list[object], caches: list[object]) -> object:
        """The results for flat arguments that the signature fits, and the caches among them."""
        if self.written_arguments and (names := self.shared(flat)) is not None:
            raise Unsupported(
                f"{type(self.module).__name__} writes its argument '{names[0]}', which shares "
                f"memory with '{names[1]}': in a program each argument has memory of its own; pass "
                "a copy"
            )
        with self._lock:
            runner, frozen = self.choice.runner(self.unchanged)
        state = None
        if not frozen or self.written:
            state = self.values()
        return self.results.give(runner(flat, state), flat, caches)


class _LeftToPyTorch:
    """Arguments of a kind with which the module has something that no program can hold."""

    def __init__(self, module: torch.nn.Module, flat: list[object], kind: Kind) -> None:
        self.signature = Signature(flat, kind)
        self.state = State(module)


class EngineModule(torch.nn.Module):
    """PyTorch in training mode, the engines in evaluation mode.

    Parameters, buffers and sub-modules are those of the wrapped module, under the same names:
    state_dict(), parameters(), .to() and optimizers see no difference. In evaluation mode no
    gradients are recorded, unless an argument requires them. Other methods are the wrapped
    module's; where they call `self(...)`, as generate() of transformers does, they call this one.

    Args:
        module: the module to wrap; it stays usable by itself.
        engine: as in openxrt.load().
        fallback: where an op has no lowering or tracing fails, let PyTorch run what the engines
            cannot (a graph break) instead of raising.
        options: further arguments of openxrt.load().

    Raises (at the first call with arguments of a new kind):
        Unsupported: an op has no lowering, or the control flow depends on data; names the source
            line.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        engine: str | list[str] = "auto",
        *,
        fallback: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"the module is {type(module).__name__}: a torch.nn.Module is wanted")
        # Shared, not copied: what changes in one is changed in the other.
        self._parameters = module._parameters
        self._buffers = module._buffers
        self._modules = module._modules
        self._non_persistent_buffers_set = module._non_persistent_buffers_set
        self.training = module.training
        self.options = {"engine": engine, **options}
        self.fallback = fallback
        self._programs: list[_Inference] = []
        self._left: list[_LeftToPyTorch] = []
        self._one_program_per_size = False
        self._is_part = False
        self._programs_lock = threading.Lock()
        # Past __setattr__: what torch.compile gives is a module, and must not become a sub-module.
        self.__dict__["_compiled"] = None
        self.__dict__["_runners"] = Runners()
        self.__dict__["_quantiser"] = None
        self.__dict__["_sizes"] = GivenSizes(self.options)
        self.__dict__["_parts"] = weakref.WeakKeyDictionary()
        self.__dict__["_module"] = module  # from now on attributes may be the module's

    @property
    def wrapped(self) -> torch.nn.Module:
        """The module that was wrapped."""
        return self.__dict__["_module"]

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            module = self.__dict__.get("_module")
            if module is None:
                raise
            return method_through(module, name, getattr(module, name), self, self._part)

    def _part(self, part: torch.nn.Module) -> Callable[..., Any]:
        """What calls a sub-module that the wrapped module's methods call by itself."""
        found = self._parts.get(part)
        if found is None:
            found = EngineModule(part, fallback=self.fallback, **self._load_options())
            found._is_part = True
            self._parts[part] = found

        def call(*args: Any, **kwargs: Any) -> Any:
            found.training = part.training
            return found(*args, **kwargs)

        return call

    def _load_options(self) -> dict[str, Any]:
        """Of openxrt.load(), for any graph: what names sizes is for one."""
        return {name: value for name, value in self.options.items() if name not in BY_NAME}

    def train(self, mode: bool = True) -> EngineModule:
        """Sets the mode of this module and of the wrapped one."""
        super().train(mode)
        self.wrapped.training = mode
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        """Attributes of the wrapped module are set there, where its forward() reads them."""
        module = self.__dict__.get("_module")
        if module is None or name in self.__dict__ or name not in module.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(module, name, value)
            self.recompile()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """forward() with its hooks."""
        # Not by nn.Module.__call__, in whose place torch.export puts one of its own while any
        # thread is tracing.
        return self._wrapped_call_impl(*args, **kwargs)

    @staticmethod
    def _is_traced() -> bool:
        """Whether torch.export or TorchScript is tracing, and in this thread."""
        if torch.compiler.is_exporting():
            return torch._C._len_torch_dispatch_stack() > 0
        return torch._C._is_tracing()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The wrapped module's results."""
        if self._is_traced():  # as a part of a larger module, which takes it whole
            return self.wrapped(*args, **kwargs)
        compiling = torch.compiler.is_compiling()  # as a part of something larger
        if not compiling and torch._C._functorch.peek_interpreter_stack() is not None:
            # Within torch.func's vmap(), grad() and their like tensors have no memory of their own.
            return self._forward_training(*args, **kwargs)
        if self.training or (torch.is_grad_enabled() and self._wants_gradient(args, kwargs)):
            return self._forward_training(*args, **kwargs)
        return self._forward_inference(args, kwargs)

    def _forward_training(self, *args: Any, **kwargs: Any) -> Any:
        return self.wrapped(*args, **kwargs)

    def _forward_inference(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        quantiser: Quantiser | None = self._quantiser
        if quantiser is not None and quantiser.takes_call():
            with torch.no_grad():
                quantiser.take_call(args, kwargs)
                return self.wrapped(*args, **kwargs)
        flat: list[object]
        kind: Kind | None
        caches: list[object]
        if not kwargs and all(type(a) is torch.Tensor for a in args):
            flat, kind, caches = list(args), None, []
        else:
            flat, kind, caches = flatten(args, kwargs)
        for program in self._programs:
            if program.signature.fits(flat, kind):
                if program.state.fits():
                    if program.state.is_substituted and torch.is_grad_enabled():
                        return self._forward_training(*args, **kwargs)
                    if self.fallback and program.written_arguments and program.shared(flat):
                        with torch.no_grad():
                            return self._through_dynamo(*args, **kwargs)
                    return program.run(flat, caches)
                self.recompile()  # the module is another one than was traced
                break
        if has_substitutes(self.wrapped):  # which torch.export does not take
            return self._forward_training(*args, **kwargs)
        if not self.fallback:
            return self._first_run(args, kwargs)
        if not any(left.signature.fits(flat, kind) and left.state.fits() for left in self._left):
            try:
                return self._first_run(args, kwargs)
            except Unsupported:
                flat, kind, _ = flatten(args, kwargs)
                with self._programs_lock:
                    self._left.insert(0, _LeftToPyTorch(self.wrapped, flat, kind))
                    del self._left[_MAX_PROGRAMS:]
        with torch.no_grad():
            return self._through_dynamo(*args, **kwargs)

    def _first_run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        """Results by a program that is made for these arguments; one that is refused is dropped."""
        if any(torch.nn.parameter.is_lazy(weight) for weight in self.wrapped.parameters()):
            with torch.no_grad():  # LazyLinear and its like take their sizes from their first call
                self.wrapped(*args, **kwargs)
        flat, kind, caches = flatten(args, kwargs)
        program = None
        try:
            program = self._compile(args, kwargs, flat, kind)
            if program.from_second_call:
                with torch.no_grad():
                    return self.wrapped(*args, **kwargs)
            return program.run(flat, caches)
        except Unsupported as error:
            with self._programs_lock:
                self._programs = [made for made in self._programs if made is not program]
                # Of a module with an op that wants sizes as numbers each size has its program.
                retry = program is not None and program.is_wide
                retry = retry and isinstance(error, NeedsStaticShape)
                retry = retry and not self._sizes.are_named
                self._one_program_per_size |= retry
            if not retry:
                raise
        except (InvalidModel, InternalError) as error:
            with self._programs_lock:
                self._programs = [made for made in self._programs if made is not program]
            self._judge(error, args, kwargs)
            raise
        except Error:
            raise
        except Exception as error:
            self._judge(error, args, kwargs)
            raise cannot_be_traced(self.wrapped, error) from error
        return self._first_run(args, kwargs)

    def _judge(self, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raises PyTorch's own error, if it is the arguments that are at fault: tracing and import
        fail elsewhere, and know less of the cause."""
        try:
            with torch.no_grad():
                self.wrapped(*args, **kwargs)
        except Exception as cause:
            raise cause from error

    def _through_dynamo(self, *args: Any, **kwargs: Any) -> Any:
        """torch.compile's way: guards, graph breaks and gradients are PyTorch's."""
        # As a part of something that PyTorch is tracing, hooks are that one's to look for.
        stays = torch.compiler.is_compiling() or (
            self._compiled is not None and self._hooks.unchanged()
        )
        if self._compiled is None or not stays:
            self._compile_through_dynamo(dynamic=None)
        try:
            # Its forward() is what was compiled; its __call__ would look for hooks of its own.
            return self._compiled.forward(*args, **kwargs)
        except torch._dynamo.exc.TorchRuntimeError as error:
            self._judge(error, args, kwargs)
            raise
        except torch._dynamo.exc.BackendCompilerFailed as error:
            if isinstance(error.inner_exception, (InvalidModel, InternalError)):
                self._judge(error, args, kwargs)
            if isinstance(error.inner_exception, NeedsStaticShape):
                # PyTorch made a size symbolic that an op needs as a number: one program per size.
                self._compile_through_dynamo(dynamic=False)
                return self._compiled.forward(*args, **kwargs)
            if isinstance(error.inner_exception, Error):
                raise error.inner_exception from None
            raise

    def _compile_through_dynamo(self, dynamic: bool | None) -> None:
        options = {**self._load_options(), "fallback": self.fallback}
        # PyTorch counts by code, which modules of one class share, and leaves what is above the
        # limit to itself: each wrapper has a count of its own, where PyTorch can keep one (2.13).
        limits = {"isolate_recompiles": True, "recompile_limit": _MAX_TRAINING_PROGRAMS}
        known = inspect.signature(torch.compile).parameters
        self.__dict__["_hooks"] = watch_hooks(self.wrapped)
        self.__dict__["_compiled"] = torch.compile(
            self.wrapped,
            backend=functools.partial(openxrt_backend, runners=self._runners),
            options=options,
            dynamic=dynamic,
            **{name: value for name, value in limits.items() if name in known},
        )

    def _compile(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], flat: list[object], kind: Kind
    ) -> _Inference:
        with self._programs_lock:
            opened = None
            if self._sizes and not self._one_program_per_size:
                opened = self._sizes.opened(self.wrapped, args, kwargs, flat, kind)
            # The second size of a dimension makes it symbolic: a third compiles nothing.
            wide = None
            for program in self._programs:
                wide = program.signature.widened(flat, kind)
                if self._one_program_per_size:
                    wide = None
                if wide is not None:
                    break
            is_first = wide is None
            labels: Labels = {}
            if opened is not None:
                wide, labels = united(wide, opened.wide), opened.labels
            if opened is not None and is_first and opened.is_resized:
                sampled = unflatten(kind, opened.samples)
                general = self._traced(sampled[0], sampled[1], wide, labels)
                self._keep(general)
                if general.signature.fits(flat, kind):
                    return general
            if opened is not None:
                wide, labels = without_ones(wide, flat), opened.labels_above_one(flat)
            made = self._traced(args, kwargs, wide, labels, bool(kind.caches))
            self._keep(made)
        return made

    def _keep(self, program: _Inference) -> None:
        self._programs.insert(0, program)
        del self._programs[_MAX_PROGRAMS:]

    def _traced(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        wide: Wide | None,
        labels: Labels,
        has_caches: bool = False,
    ) -> _Inference:
        """A program of its own for these arguments."""
        # What generates has prompts of any length: their first program takes them all.
        lengths_open = self._is_part or has_caches
        lengths_open &= wide is None and not self._one_program_per_size
        settings = self._load_options(), self._runners, self._quantiser
        sizes = labels, self._sizes
        try:
            return _Inference(self.wrapped, args, kwargs, wide, *settings, lengths_open, *sizes)
        except (Unsupported, RuntimeError) as error:  # torch.export raises RuntimeErrors
            is_of_trace = isinstance(error, Unsupported) or not isinstance(error, Error)
            is_general = wide is not None or lengths_open
            if not (is_of_trace and is_general) or self._sizes.are_named:
                raise
            made = _Inference(self.wrapped, args, kwargs, None, *settings)
            if wide is not None and not labels:
                # Open sizes cannot be traced: none is tried again.
                self._one_program_per_size = True
            return made

    def recompile(self) -> None:
        """Forgets what was traced, so that the next call traces anew.

        Replaced parameters and sub-modules, sub-modules set to another mode, forward hooks, and
        attributes that are set through this object are noticed without it; a plain attribute of the
        wrapped module that `forward` reads (a flag, a number) is not.
        """
        with self._programs_lock:
            self._programs = []
            self._left = []
            self._one_program_per_size = False
        self.__dict__["_compiled"] = None
        self.__dict__["_runners"] = Runners()
        self.__dict__["_parts"] = weakref.WeakKeyDictionary()

    @staticmethod
    def _wants_gradient(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return any(isinstance(a, torch.Tensor) and a.requires_grad for a in args) or any(
            isinstance(a, torch.Tensor) and a.requires_grad for a in kwargs.values()
        )

    def programs(self) -> Iterator[Any]:
        """The openxrt.Programs in use, the newest first: those of evaluation, and a forward and a
        backward one of each graph that trains."""
        yield from self._runners.programs()
        for part in self._parts.values():
            yield from part.programs()

    def __deepcopy__(self, memo: dict[int, Any]) -> EngineModule:
        import copy

        return type(self)(copy.deepcopy(self.wrapped, memo), **self._arguments())

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.wrapped, self._arguments())

    def _arguments(self) -> dict[str, Any]:
        """All but the module, as this one was made with."""
        return {"fallback": self.fallback, **self.options}


def _rebuild(
    kind: type[EngineModule], module: torch.nn.Module, arguments: dict[str, Any]
) -> EngineModule:
    return kind(module, **arguments)


class XRTModule(XRTModuleCore, EngineModule):
    """The engines in training and in evaluation: forward, backward and inference go through them.

    >>> fast = openxrt.torch.XRTModule(model, engine=["openvino", "native"])

    In training mode PyTorch derives the backward graph and the engines run both (torch.compile's
    backend "openxrt"); optimizers stay PyTorch's. What is quantised (use_int8) is evaluation alone:
    training, calls that want gradients, and what `fallback` leaves to PyTorch stay in floating
    point.

    Its arguments are those of every XRTModule (see __init__), and `fallback`: where an op has no
    lowering or tracing fails, PyTorch runs what the engines cannot (a graph break), instead of an
    error.
    """

    def _wrap(
        self, module: torch.nn.Module, options: dict[str, Any], calibration: Calibration | None
    ) -> None:
        EngineModule.__init__(self, module, **options)
        if calibration is not None:
            self.__dict__["_quantiser"] = Quantiser(calibration, self, own_tensor)

    def _forward_training(self, *args: Any, **kwargs: Any) -> Any:
        return self._through_dynamo(*args, **kwargs)

    def int8_ranges(self, calls: list[Call]) -> CalibrationTable:
        """The ranges of the values of the module's graph, by what it is called with."""
        return ranges_of(self.wrapped, self._quantiser, calls, self.options.get("cache_dir"))

    def _arguments(self) -> dict[str, Any]:
        quantiser: Quantiser | None = self._quantiser
        if quantiser is None:
            return super()._arguments()
        added = {"use_int8": True, "int8_calibration": quantiser.calibration}
        return {**super()._arguments(), **added}
