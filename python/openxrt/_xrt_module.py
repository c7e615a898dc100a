# SPDX-License-Identifier: Apache-2.0
"""What the XRTModules of PyTorch and of OneFlow share: their arguments and what they report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ._core import InvalidArgument, Program
from ._int8 import Calibration, calibration_of

if TYPE_CHECKING:
    from .explanation import Explanation


class XRTModuleCore(ABC):
    """To derive from, before the framework's module class."""

    programs: Callable[[], Iterator[Program]]  # those in use, the newest first

    def __init__(
        self,
        module: Any,
        engine: str | list[str] = "auto",
        *,
        use_fp16: bool = False,
        use_int8: bool = False,
        int8_calibration: object = None,
        **options: Any,
    ) -> None:
        """Wraps a module.

        Args:
            module: what is wrapped; it stays usable by itself.
            engine: as in openxrt.load().
            use_fp16: engines that can do so compute float32 in float16: precision="f16".
            use_int8: evaluation computes convolutions and products by constants in int8. What is
                quantised is made at the first call, and anew at the next call after weights have
                changed.
            int8_calibration: samples, a function, a number of calls, or the path of samples or of a
                table: see openxrt.quantize.Calibration, which may be given itself.
            options: further arguments of openxrt.load(), such as max_batch_size; None stands for an
                argument's default. Those of OneFlow-XRT that change nothing are accepted.

        Raises:
            InvalidArgument: arguments contradict each other.
        """
        calibration = calibration_of(use_int8, int8_calibration)
        options = {name: value for name, value in options.items() if value is not None}
        if use_fp16 and options.setdefault("precision", "f16") != "f16":
            raise InvalidArgument(f"use_fp16 and precision={options['precision']!r}")
        self._wrap(module, {"engine": engine, **options}, calibration)

    @abstractmethod
    def _wrap(self, module: Any, options: dict[str, Any], calibration: Calibration | None) -> None:
        """Begins the framework's module. `options` are arguments of openxrt.load(), and the
        framework's own; `calibration` is None where nothing is quantised."""

    def explain(self) -> Explanation:
        """Which engine runs what, and why, of the newest program: `programs()` has the others.

        Raises:
            InvalidArgument: the module has not been called.
        """
        program = next(self.programs(), None)
        if program is None:
            raise InvalidArgument("there is no program yet: call the module first")
        return program.explain()
