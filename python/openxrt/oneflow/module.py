# SPDX-License-Identifier: Apache-2.0
"""Modules and graphs of OneFlow that run through the engines."""

from __future__ import annotations

import copy
import functools
import inspect
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import oneflow as flow
from oneflow import nn

from .. import load
from .._core import (
    CalibrationTable,
    Contents,
    InvalidArgument,
    Program,
    Unsupported,
    Watch,
    import_oneflow_job,
)
from .._folding import Refolding
from .._int8 import Calibration, Call, Quantiser
from .._xrt_module import XRTModuleCore
from .job import STEP, Job, capture, flatten, rebuild
from .memory import Weights, shared, structure


class _Whole(nn.Graph):
    """A module as it is, as a graph."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def build(self, *args: Any) -> Any:
        """The module's results."""
        return self.module(*args)


class _Probed(nn.Module):
    """A module whose inputs have zeros added: the gradients of these are those of the inputs."""

    def __init__(self, module: nn.Module, args: list[flow.Tensor]) -> None:
        super().__init__()
        self.module = module
        self.wanted = [i for i, arg in enumerate(args) if arg.requires_grad]
        for i in self.wanted:
            self.register_parameter(f"probe_{i}", nn.Parameter(flow.zeros(args[i].shape)))

    def forward(self, *args: Any) -> Any:
        """The module's results."""
        given = list(args)
        for i in self.wanted:
            given[i] = given[i] + getattr(self, f"probe_{i}")
        return self.module(*given)


class _Differentiated(nn.Graph):
    """A module and its gradients, for gradients of its results that come as further inputs."""

    def __init__(self, module: _Probed, count: int) -> None:
        super().__init__()
        self.module = module
        self.count = count  # of the module's own inputs
        parameters = [p for p in module.parameters() if p.requires_grad]
        # Its rule is not used; each parameter that it updates gets a gradient.
        self.add_optimizer(flow.optim.SGD(parameters, lr=1.0))

    def build(self, *args: Any) -> Any:
        """The module's results; marks the loss whose gradients these are."""
        results = self.module(*args[: self.count])
        parts = [y for y in flatten(results, []) if y.is_floating_point()]
        loss = sum((y * g).sum() for y, g in zip(parts, args[self.count :], strict=True))
        loss.backward()
        return results


class _Compiled:
    """A program of a job, with the memory of what it reads."""

    def __init__(
        self,
        imported: dict[str, Any],
        job: Job,
        weights: Weights,
        own: dict[str, np.ndarray],
        options: dict[str, Any],
    ) -> None:
        self.program: Program = load(imported["graph"], aliases=imported["aliases"], **options)
        self.inputs: list[str] = imported["inputs"]
        self.variables: list[str] = imported["variables"]
        self.saved: list[str] = imported["saved"]
        self.gradients: dict[str, str] = dict(imported["gradients"])
        self.rates = {name: job.rates[name] for name in imported["schedules"]}
        self.weights = weights
        self.own = own
        shapes = {port.name: (port.shape, port.dtype) for port in self.program.inputs}
        for name in self.variables:
            if name in weights.tensors or name in own:
                continue
            shape, dtype = shapes[name]
            own[name] = np.full([int(n) for n in shape or ()], job.initial[name], dtype)

    def feeds(self, args: list[flow.Tensor]) -> dict[str, np.ndarray]:
        """What the program is to be called with."""
        feeds = {name: shared(arg) for name, arg in zip(self.inputs, args, strict=True)}
        views = self.weights.views()
        for name in self.variables:
            view = views.get(name)
            feeds[name] = self.own[name] if view is None else view
        if self.rates:
            step = int(self.own[STEP][0]) if STEP in self.own else 0
            for name, rate in self.rates.items():
                feeds[name] = np.array([rate(step)], np.float32)
        return feeds


def _counters(module: nn.Module) -> list[flow.Tensor]:
    """What layers of OneFlow count up in Python in each call, which no graph of OneFlow keeps."""
    return [
        owner.num_batches_tracked
        for owner in module.modules()
        if isinstance(owner, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d)
        and owner.training
        and owner.track_running_stats
        and owner.num_batches_tracked is not None
    ]


class _Inference:
    """A module in evaluation mode, or a graph that trains nothing, for arguments of one kind."""

    def __init__(
        self,
        wrapped: nn.Module | nn.Graph,
        args: list[flow.Tensor],
        state: dict[str, np.ndarray],
        options: dict[str, Any],
        watch: bool,
        quantiser: Quantiser | None,
    ) -> None:
        # OneFlow keeps the variables of a graph that was built, whatever becomes of its modules.
        is_graph = isinstance(wrapped, nn.Graph)
        self.structure = Watch([], [], False) if is_graph else structure(wrapped)
        graph = wrapped if is_graph else _Whole(wrapped)
        self.job = capture(graph, *args)
        (self.results,) = graph._eager_outputs
        self.result_count = len(flatten(self.results, []))
        self.state = state
        self.options = options
        self.weights = Weights(self.job.variables)
        self.watch = watch
        self.quantiser = quantiser
        self.imported = import_oneflow_job(self.job.text)
        # Running statistics of a part in training mode: they are written, so they are inputs.
        self.may_fold = not self.imported["aliases"]
        if quantiser is not None and not self.may_fold:
            raise Unsupported(
                "use_int8: a part of the module is in training mode and writes its statistics; "
                "call eval()"
            )
        self.counters = [] if is_graph else _counters(wrapped)
        self.refolding = Refolding()
        self.contents: Contents | None = None  # of the weights that are built in
        self.version = -1
        self.frozen: _Compiled | None = None
        self.live: _Compiled | None = None

    def run(self, args: list[flow.Tensor], version: int) -> Any:
        """The results. `version` counts what was said about changes of the weights."""
        for counter in self.counters:
            counter.add_(1)
        compiled = self._program(version)
        start = time.perf_counter()
        outputs = compiled.program.run(compiled.feeds(args))
        self.refolding.ran(time.perf_counter() - start, compiled is self.frozen)
        return rebuild(self.results, _tensors(outputs, self.result_count))

    def _program(self, version: int) -> _Compiled:
        if self.frozen is not None:
            if self._is_current(version):
                return self.frozen
            self.frozen = None
            self.refolding.changed()
        if self.may_fold and (self.quantiser is not None or self.refolding.is_due()):
            start = time.perf_counter()
            views = self.weights.views()
            if self.watch:
                self.contents = Contents(list(views.values()))
            self.version = version
            self.frozen = _Compiled(
                self._folded(), self.job, self.weights, self.state, self.options
            )
            self.refolding.folded(time.perf_counter() - start)
            return self.frozen
        if self.live is None:
            self.live = _Compiled(self.imported, self.job, self.weights, self.state, self.options)
        return self.live

    def _is_current(self, version: int) -> bool:
        if not self.watch or self.contents is None:
            return self.version == version
        return self.contents.equal(list(self.weights.views().values()))

    def _folded(self) -> dict[str, Any]:
        imported = import_oneflow_job(self.job.text, self.weights.views())
        if self.quantiser is not None:
            imported["graph"].finish(simplify=True)
            ranges = self.quantiser.ranges()
            imported["graph"] = self.quantiser.quantised(imported["graph"], ranges)
        return imported

    def calibrated(self, quantiser: Quantiser, samples: list[tuple[Any, ...]]) -> CalibrationTable:
        """The ranges of the graph's values, by samples of the program's shapes."""
        graph = import_oneflow_job(self.job.text, self.weights.views())["graph"]
        graph.finish(simplify=True)
        feeds = [[shared(arg) for arg in args] for args in samples]
        return quantiser.calibrate(graph, feeds, self.options.get("cache_dir"))


def _function_of(training: _Training) -> type[flow.autograd.Function]:
    """Forward and backward programs as one function of OneFlow's autograd."""

    class Function(flow.autograd.Function):
        # Only saved tensors are kept in the context: OneFlow 0.9.0 frees its attributes early.
        @staticmethod
        def forward(ctx: Any, *tensors: flow.Tensor) -> Any:
            args = list(tensors[: training.count])
            outputs = training.forward.program.run(training.forward.feeds(args))
            saved = [flow.from_numpy(outputs[name]) for name in training.forward.saved]
            ctx.save_for_backward(*args, *saved)
            made = _tensors(outputs, training.result_count)
            return made[0] if len(made) == 1 else tuple(made)

        @staticmethod
        def backward(ctx: Any, *gradients: flow.Tensor) -> Any:
            program = training.backward
            args = list(ctx.saved_tensors[: training.count])
            feeds = program.feeds([*args, *training.given(gradients)])
            saved = ctx.saved_tensors[training.count :]
            feeds.update((k, shared(v)) for k, v in zip(program.saved, saved, strict=True))
            outputs = program.program.run(feeds)
            found = {name: flow.from_numpy(outputs[key]) for name, key in program.gradients.items()}
            results: list[Any] = [found.get(f"module.probe_{i}") for i in range(training.count)]
            results += [found.get(name) for name in training.parameter_names]
            return tuple(results)

    Function.__name__ = f"XRTFunction{id(training)}"
    return Function


def _tensors(outputs: dict[str, np.ndarray], count: int) -> list[flow.Tensor]:
    return [flow.from_numpy(outputs[f"output_{i}"]) for i in range(count)]


class _Training:
    """A module in training mode, for arguments of one kind."""

    def __init__(self, module: nn.Module, args: list[flow.Tensor], options: dict[str, Any]) -> None:
        modes = [(owner, owner.training) for owner in module.modules()]
        with flow.no_grad():
            # The shapes of the results, without touching running statistics.
            module.eval()
            like = flatten(module(*args), [])
        for owner, mode in modes:
            owner.training = mode
        self.structure = structure(module)
        # OneFlow's autograd no longer takes parameters that a graph with an optimizer was built on:
        # the graph gets a copy.
        probed = _Probed(copy.deepcopy(module), args)
        # Of results that have gradients; nothing comes back where nobody asked for one.
        self.nothing = [
            flow.zeros(y.shape, dtype=y.dtype) if y.is_floating_point() else None for y in like
        ]
        gradients = [zeros for zeros in self.nothing if zeros is not None]
        if not gradients:
            raise InvalidArgument(
                f"{type(module).__name__} has no floating-point result to train for"
            )
        graph = _Differentiated(probed, len(args))
        self.job = capture(graph, *[a.detach() for a in args], *gradients)
        (self.results,) = graph._eager_outputs
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            if f"module.module.{name}" in self.job.variables:
                self.job.variables[f"module.module.{name}"] = tensor
        self.count = len(args)
        self.result_count = len(like)
        weights = Weights(self.job.variables)
        own: dict[str, np.ndarray] = {}
        options = {**options, "training": True}

        def part(phase: str) -> _Compiled:
            imported = import_oneflow_job(
                self.job.text, phase=phase, gradient_inputs=len(gradients)
            )
            return _Compiled(imported, self.job, weights, own, options)

        self.forward, self.backward = part("forward"), part("backward")
        trained = {
            name: tensor
            for name, tensor in self.job.variables.items()
            if not name.startswith("module.probe_") and tensor.requires_grad
        }
        self.parameter_names = list(trained)
        self.parameters = list(trained.values())
        self.counters = _counters(module)
        self.function = _function_of(self)

    def given(self, gradients: tuple[flow.Tensor | None, ...]) -> list[flow.Tensor]:
        """The gradients that the backward part reads, of those that OneFlow hands over."""
        pairs = zip(gradients, self.nothing, strict=True)
        return [
            zeros if gradient is None else gradient.contiguous()
            for gradient, zeros in pairs
            if zeros is not None
        ]

    def run(self, args: list[flow.Tensor]) -> Any:
        for counter in self.counters:
            counter.add_(1)
        made = self.function.apply(*args, *self.parameters)
        return rebuild(self.results, [made] if isinstance(made, flow.Tensor) else list(made))


class _Steps:
    """An nn.Graph with an optimizer, updates of its variables included."""

    def __init__(
        self,
        graph: nn.Graph,
        args: list[flow.Tensor],
        state: dict[str, np.ndarray],
        options: dict[str, Any],
    ) -> None:
        # OneFlow keeps the variables of a graph that was built, whatever becomes of its modules.
        self.structure = Watch([], [], False)
        self.job = capture(graph, *args)
        (self.results,) = graph._eager_outputs
        weights = Weights(self.job.variables)
        imported = import_oneflow_job(self.job.text)
        self.compiled = _Compiled(imported, self.job, weights, state, {**options, "training": True})

    def run(self, args: list[flow.Tensor]) -> Any:
        outputs = self.compiled.program.run(self.compiled.feeds(args))
        made = _tensors(outputs, len(flatten(self.results, [])))
        return rebuild(self.results, made)


class XRTModule(XRTModuleCore, nn.Module):
    """A module or graph of OneFlow that runs and trains through the engines.

    Wrapping an nn.Module shares its parameters, buffers and sub-modules under the same names:
    state_dict(), parameters(), train() and optimizers see no difference. In training mode forward
    and backward go through the engines; the optimizer stays OneFlow's. Wrapping an nn.Graph takes
    its job whole: with a loss and an optimizer every call is a training step, weights are updated
    in OneFlow's own memory, and optimizer_state() holds the rest.

    Weights are built into the program of evaluation. Once they have changed they are inputs of a
    second program, in OneFlow's own memory, and no change compiles anything; where evaluation goes
    on for as long as a compilation takes, they are built in again. OneFlow counts no writes, so a
    digest of every byte is compared at each call: see watch_weights.

    Its arguments are those of every XRTModule (see __init__), for an nn.Module, or an nn.Graph that
    OneFlow has not compiled with other arguments; and `watch_weights`: compare all weights with
    those that are built in at each call in evaluation mode. False saves that time; then training
    mode, load_state_dict() and refresh() alone say that weights changed.
    """

    def _wrap(
        self,
        module: nn.Module | nn.Graph,
        options: dict[str, Any],
        calibration: Calibration | None,
    ) -> None:
        nn.Module.__init__(self)
        if not isinstance(module, nn.Module | nn.Graph):
            raise TypeError(
                f"the module is {type(module).__name__}: a oneflow.nn.Module or Graph is wanted"
            )
        named = sorted({"shapes", "ranges"} & options.keys())
        if named:
            raise InvalidArgument(
                f"{' and '.join(named)}: OneFlow builds a graph for the sizes of its arguments; "
                "each size has a program"
            )
        watch_weights = options.pop("watch_weights", True)
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "_wrapped", module)
        object.__setattr__(self, "_programs", {})
        object.__setattr__(self, "_state", {})
        object.__setattr__(self, "watch_weights", watch_weights)
        object.__setattr__(self, "_version", 0)
        quantiser = None if calibration is None else Quantiser(calibration, self, _own_tensor)
        object.__setattr__(self, "_quantiser", quantiser)
        if isinstance(module, nn.Module):
            # Shared, not copied: what changes in one is changed in the other.
            self._parameters = module._parameters
            self._buffers = module._buffers
            self._modules = module._modules
            self._non_persistent_buffers_set = module._non_persistent_buffers_set
            self.training = module.training
        elif not isinstance(module, nn.Graph):
            raise InvalidArgument(
                f"an nn.Module or nn.Graph is wanted, not {type(module).__name__}"
            )

    @property
    def wrapped(self) -> nn.Module | nn.Graph:
        """What was wrapped."""
        return self._wrapped

    def train(self, mode: bool = True) -> XRTModule:
        """Sets the mode of this module and of the wrapped one."""
        super().train(mode)
        if isinstance(self._wrapped, nn.Module):
            self._wrapped.training = mode
        if mode and not self.watch_weights:
            self.refresh()
        return self

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """As the wrapped module's."""
        if not self.watch_weights:
            self.refresh()
        return self._wrapped.load_state_dict(*args, **kwargs)

    def refresh(self) -> None:
        """Says that weights changed: those that programs were built with are forgotten."""
        object.__setattr__(self, "_version", self._version + 1)

    def recompile(self) -> None:
        """Forgets the programs made so far."""
        self._programs.clear()

    def optimizer_state(self) -> dict[str, np.ndarray]:
        """What the job of an nn.Graph keeps besides the module's own variables, by its name in the
        job: moments, the step. It may be written to."""
        return self._state

    def programs(self) -> Iterator[Program]:
        """The openxrt.Programs in use, the newest first."""
        for made in reversed(self._programs.values()):
            for name in ("compiled", "backward", "forward", "live", "frozen"):
                compiled = getattr(made, name, None)
                if compiled is not None:
                    yield compiled.program

    def forward(self, *args: Any) -> Any:
        """The results of the module, or of one step of the graph."""
        tensors = list(args)
        for i, arg in enumerate(tensors):
            if not isinstance(arg, flow.Tensor):
                raise InvalidArgument(
                    f"argument {i} is a {type(arg).__name__}: XRTModule takes tensors"
                )
        trains = isinstance(self._wrapped, nn.Module) and self._differentiates(tensors)
        if not trains and self._quantiser is not None and self._quantiser.takes_call():
            with flow.no_grad():
                self._quantiser.take_call(tuple(tensors), {})
                return self._wrapped(*tensors)
        made = self._made(tensors, trains)
        if isinstance(made, _Inference):
            return made.run(tensors, self._version)
        return made.run(tensors)

    def int8_ranges(self, calls: list[Call]) -> CalibrationTable:
        """The ranges of the values of the module's graph, by what it is called with."""
        called = self._wrapped.build if self._is_graph() else self._wrapped.forward
        groups: dict[object, list[tuple[Any, ...]]] = {}
        for i, (args, kwargs) in enumerate(calls):
            try:
                bound = inspect.signature(called).bind(*args, **kwargs)
            except TypeError as error:
                raise InvalidArgument(
                    f"calibration sample {i + 1} is not what {type(self._wrapped).__name__} is "
                    f"called with: {error} (a tuple has one entry per argument: leave labels out)"
                ) from error
            key = tuple((tuple(a.shape), a.dtype) for a in bound.args)
            groups.setdefault(key, []).append(bound.args)
        with flow.no_grad():
            found = [
                self._made(list(samples[0]), False).calibrated(self._quantiser, samples)
                for samples in groups.values()
            ]
        return functools.reduce(CalibrationTable.merge, found)

    def _is_graph(self) -> bool:
        return isinstance(self._wrapped, nn.Graph)

    def _made(self, args: list[flow.Tensor], trains: bool) -> Any:
        key = (
            trains,
            self.training,
            *((tuple(a.shape), a.dtype, trains and a.requires_grad) for a in args),
        )
        made = self._programs.get(key)
        # Not of a module that has other parameters, sub-modules or modes by now.
        if made is None or not made.structure.unchanged():
            made = self._programs[key] = self._make(args, trains)
        return made

    def _differentiates(self, args: list[flow.Tensor]) -> bool:
        if not flow.is_grad_enabled():
            return False
        if any(a.requires_grad for a in args):
            return True
        return self.training and any(p.requires_grad for p in self._wrapped.parameters())

    def _make(self, args: list[flow.Tensor], trains: bool) -> Any:
        if self._is_graph():
            if self._programs:
                raise InvalidArgument(
                    "an nn.Graph is built for the arguments of its first call; wrap another one "
                    "for other shapes"
                )
            if self._wrapped._opts:
                if self._quantiser is not None:
                    raise InvalidArgument(
                        f"use_int8: {type(self._wrapped).__name__} has an optimizer; int8 is for "
                        "evaluation"
                    )
                return _Steps(self._wrapped, args, self._state, self.options)
        if trains:
            return _Training(self._wrapped, args, self.options)
        return _Inference(
            self._wrapped, args, self._state, self.options, self.watch_weights, self._quantiser
        )


def _own_tensor(value: Any) -> Any:
    if isinstance(value, flow.Tensor):
        return value.detach().clone()
    return flow.tensor(value) if isinstance(value, np.ndarray) else value
