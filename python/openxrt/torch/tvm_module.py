# SPDX-License-Identifier: Apache-2.0
"""PyTorch in training mode, TVM in evaluation mode."""

from __future__ import annotations

from typing import Any

import torch

from ._evaluation import EvaluationModule, Forward
from .module import EngineModule


class TVMModule(EvaluationModule):
    """To derive from: forward() runs in PyTorch in training mode and through TVM in eval mode.

    >>> class Net(TVMModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.net = torchvision.models.resnet18()
    ...     def forward(self, x):
    ...         return self.net(x)

    It is compiled by OpenXRT's engine "tvm": its schedules, its tuning and its disk cache apply.
    Weights that training has changed are seen by the next call in eval mode; that compiles once
    more, later changes compile nothing.

    Args:
        target: TVM's target, a name or JSON; by default that of the device.
        opt_level: TVM's optimisation level.
        verbose: prints which engine runs which node when something is compiled.
        fallback: PyTorch runs what TVM cannot, instead of an error.
        options: further arguments of openxrt.load(), for example engine_options, cache_dir.
    """

    def __init__(
        self,
        target: str | None = None,
        opt_level: int = 3,
        verbose: bool = False,
        *,
        fallback: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        engine_options = dict(options.pop("engine_options", None) or {})
        for_tvm = {"tvm_opt_level": opt_level, **engine_options.get("tvm", {})}
        if target is not None:
            for_tvm["tvm_target"] = target
        engine_options["tvm"] = for_tvm
        self.verbose = verbose
        self.fallback = fallback
        self.options = {"engine": "tvm", **options, "engine_options": engine_options}

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """forward() through TVM."""
        with self.__dict__["_engine_lock"]:
            engine = self.__dict__.get("_engine_module")
            if engine is None:
                engine = EngineModule(Forward(self), fallback=self.fallback, **self.options).eval()
                self.__dict__["_engine_module"] = engine
        known = set(map(id, engine.programs())) if self.verbose else set()
        result = engine(*args, **kwargs)
        if self.verbose:
            for program in engine.programs():
                if id(program) not in known:
                    print(program.explain())
        return result


class TVMModuleWrapper(TVMModule):
    """A module that runs in PyTorch in training mode and through TVM in eval mode."""

    def __init__(self, net: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.net = net
        self.train(net.training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's results."""
        return self.net(*args, **kwargs)
