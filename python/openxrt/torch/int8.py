# SPDX-License-Identifier: Apache-2.0
"""Modules of PyTorch in int8: what their quantiser (openxrt/_int8.py) needs to know of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .._core import CalibrationTable, InvalidArgument
from .._int8 import Call, Quantiser
from .containers import flatten
from .exported import Exported, Signature
from .importer import Imported
from .runner import Runner


class QuantisedWhileUnchanged:
    """The int8 program of a module; weights that changed are quantised, and their effect on the
    ranges is looked at, before the next run."""

    live = None

    def __init__(
        self,
        exported: Exported,
        quantiser: Quantiser,
        options: Mapping[str, Any],
        make: Callable[[Imported], Runner],
    ) -> None:
        self._exported = exported
        self._quantiser = quantiser
        self._cache_dir = options.get("cache_dir")
        self._make = make
        self._unchanged: Callable[[], bool] | None = None
        self.frozen: Runner | None = None

    def runner(self, unchanged: Callable[[], bool]) -> tuple[Runner, bool]:
        """The program, and that weights are built into it."""
        if self.frozen is None or self._unchanged is None or not self._unchanged():
            self.frozen = None
            self._unchanged = self._exported.watch()
            imported = self._exported.imported_anew()
            ranges = self._quantiser.calibration.table() or self._calibrated(imported)
            imported.graph = self._quantiser.quantised(imported.graph, ranges)
            self.frozen = self._make(imported)
        return self.frozen, True

    def _calibrated(self, imported: Imported) -> CalibrationTable:
        calls = self._quantiser.calls()
        flat = [flatten(*call)[:2] for call in calls]
        cache_dir = self._cache_dir
        if not all(self._exported.signature.fits(*kind) for kind in flat):
            # A graph of other sizes: its values are those of this one, in the same order.
            return ranges_of(self._exported.module, self._quantiser, calls, cache_dir)
        state = self._exported.values()
        feeds = [_feeds(imported, arguments, state) for arguments, _ in flat]
        return self._quantiser.calibrate(imported.graph, feeds, cache_dir)


def _for_calls(module: torch.nn.Module, calls: Sequence[Call]) -> tuple[Exported, list[list[Any]]]:
    """A form of the module that fits all calls, and the calls' flat arguments."""
    kinds = []
    for i, (args, kwargs) in enumerate(calls):
        try:
            inspect.signature(module.forward).bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidArgument(
                f"calibration sample {i + 1} is not what {type(module).__name__} is called with: "
                f"{error} (a tuple has one entry per argument: leave labels out)"
            ) from error
        kinds.append(flatten(args, kwargs)[:2])
    first, kind = kinds[0]
    signature = Signature(first, kind)
    wide = None
    for i, (flat, other) in enumerate(kinds):
        if signature.fits(flat, other):
            continue
        wide = signature.widened(flat, other)
        if wide is None:
            raise InvalidArgument(
                f"calibration sample {i + 1} differs from the first one in more than sizes"
            )
        signature.allow(wide)
    if wide is not None:
        wide = signature.widened(first, kind)
    # Export takes a size of 1 for a constant: the largest sample is the example.
    example = max(
        range(len(calls)),
        key=lambda i: sum(a.numel() for a in kinds[i][0] if isinstance(a, torch.Tensor)),
    )
    return Exported(module, *calls[example], wide), [flat for flat, _ in kinds]


def _feeds(
    imported: Imported, flat: Sequence[object], state: Mapping[str, torch.Tensor]
) -> list[object]:
    values = [flat[s] if isinstance(s, int) else state[s].detach() for s in imported.inputs]
    # Ranges are found on the host.
    values = [v.cpu() if isinstance(v, torch.Tensor) else v for v in values]
    for place in imported.complex_inputs:
        values[place] = torch.view_as_real(values[place].resolve_conj())  # type: ignore[attr-defined]
    return values


def ranges_of(
    module: torch.nn.Module, quantiser: Quantiser, calls: Sequence[Call], cache_dir: Any
) -> CalibrationTable:
    """The ranges of the values of the module's graph, by what it is called with."""
    exported, samples = _for_calls(module, calls)
    imported = exported.imported_anew()
    state = exported.values()
    feeds = [_feeds(imported, flat, state) for flat in samples]
    return quantiser.calibrate(imported.graph, feeds, cache_dir)


def own_tensor(value: Any) -> Any:
    """A tensor with memory of its own; what is no tensor stays."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return torch.tensor(value) if isinstance(value, np.ndarray) else value
