# SPDX-License-Identifier: Apache-2.0
"""What the XRTModules of PyTorch and of OneFlow share: their arguments and what they report."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ._core import InvalidArgument, Program
from ._int8 import Calibration, calibration_of
from ._module_options import ModuleOptions
from ._option_table import TABLE

if TYPE_CHECKING:
    from .explanation import Explanation


DEFAULTS = {option.keyword: option.default for option in TABLE}


class XRTModuleCore(ModuleOptions):
    """To derive from, before the framework's module class."""

    programs: Callable[[], Iterator[Program]]  # those in use, the newest first

    def _set_up(
        self,
        module: Any,
        options: dict[str, Any],
        use_fp16: bool,
        use_bf16: bool,
        use_int8: bool,
        int8_calibration: object,
    ) -> None:
        calibration = calibration_of(use_int8, int8_calibration)
        given = {name: value for name, value in options.items() if value is not None}
        if use_fp16 and use_bf16:
            raise InvalidArgument("use_fp16 and use_bf16 contradict each other: leave one out")
        for name, asked, precision in (
            ("use_fp16", use_fp16, "f16"),
            ("use_bf16", use_bf16, "bf16"),
        ):
            if asked and given.setdefault("precision", precision) != precision:
                raise InvalidArgument(
                    f"{name} and precision={given['precision']!r} contradict each other: leave one "
                    "of them out"
                )
        changed = {name: value for name, value in given.items() if value != DEFAULTS.get(name)}
        self._wrap(module, {"engine": DEFAULTS["engine"], **changed}, calibration)

    @abstractmethod
    def _wrap(self, module: Any, options: dict[str, Any], calibration: Calibration | None) -> None:
        """Begins the framework's module. `options` are arguments of openxrt.load() that are not
        at their default, and the framework's own; `calibration` is None where nothing is
        quantised."""

    def explain(self) -> Explanation:
        """Which engine runs what, and why, of the newest program: `programs()` has the others.

        Raises:
            InvalidArgument: the module has not been called.
        """
        program = next(self.programs(), None)
        if program is None:
            raise InvalidArgument("there is no program yet: call the module first")
        return program.explain()
