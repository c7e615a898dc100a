# SPDX-License-Identifier: Apache-2.0
"""Programs with PyTorch tensors in and out."""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .. import load
from .._core import InvalidArgument, Program
from .importer import Imported

# NumPy has no bfloat16 of its own: the bits travel as integers.
_VIEWED = {"bfloat16": torch.bfloat16, "float8_e4m3fn": torch.float8_e4m3fn}


def to_torch(array: np.ndarray) -> torch.Tensor:
    """The same memory as a tensor."""
    if array.dtype.num < 24:  # NumPy's own; the name of a dtype is made anew each time
        return torch.from_numpy(array)
    dtype = _VIEWED.get(array.dtype.name)
    if dtype is None:
        return torch.from_numpy(array)
    bits = np.uint8 if array.dtype.itemsize == 1 else np.uint16
    return torch.from_numpy(array.view(bits)).view(dtype)


_OMP_PAUSE_SOFT = 1
# Of a program's last run, above which threads that spin beside it cost more than new ones.
_LONG_S = 5e-3


@functools.cache
def _pause_openmp() -> Callable[[int], int] | None:
    """omp_pause_resource_all() of the OpenMP library that PyTorch runs on, if it has one."""
    return getattr(ctypes.CDLL(torch._C.__file__), "omp_pause_resource_all", None)


def let_openmp_threads_go() -> None:
    """Ends the threads that PyTorch's last parallel op on this thread left behind.

    GNU's OpenMP has its threads spin for some 15 ms after a parallel region (the optimizer's step,
    say) in wait of the next. While an engine computes they hold the cores that its own threads
    need. PyTorch's next parallel op makes new ones, which takes tens of microseconds.
    """
    pause = _pause_openmp()
    if pause is not None:
        pause(_OMP_PAUSE_SOFT)


class Runner:
    """One imported graph, compiled. Called with flat arguments and the state it reads.

    With `has_cores_alone` a program that runs for long first lets go of PyTorch's idle threads.
    """

    def __init__(
        self, imported: Imported, options: Mapping[str, Any], has_cores_alone: bool = False
    ) -> None:
        self.has_cores_alone = has_cores_alone
        self.seconds = 0.0  # of the last run, kept where threads are let go
        self.program: Program = load(imported.graph, aliases=imported.aliases, **options)
        self.inputs = imported.inputs
        self.results = imported.results
        self.single = len(self.program.outputs) == 1
        # The usual case is told once, not at every call.
        self.one_tensor = self.single and [r.output for r in self.results] == [0]
        self.one_tensor = self.one_tensor and not self.results[0].is_number
        self.one_tensor = self.one_tensor and not self.results[0].is_complex
        self.complex_inputs = imported.complex_inputs

    def __call__(
        self, arguments: Sequence[object], state: Mapping[str, torch.Tensor] | None = None
    ) -> list[object]:
        """One value per result: a tensor, or what was known while tracing."""
        tensors = []
        for source in self.inputs:
            value = arguments[source] if isinstance(source, int) else state[source]  # type: ignore[index]
            if isinstance(value, torch.Tensor):
                if not value.is_cpu:
                    raise InvalidArgument(
                        f"input {source}: a tensor on {value.device}; the program runs on the CPU"
                    )
                if value.requires_grad:
                    value = value.detach()
            tensors.append(value)
        for place in self.complex_inputs:
            tensors[place] = torch.view_as_real(tensors[place].resolve_conj())
        if self.has_cores_alone:
            if self.seconds > _LONG_S:
                let_openmp_threads_go()
            began = time.perf_counter()
            outputs = self.program(*tensors)
            self.seconds = time.perf_counter() - began
        else:
            outputs = self.program(*tensors)
        if self.one_tensor:
            return [to_torch(outputs)]
        if self.single:
            outputs = (outputs,)
        results: list[object] = []
        for result in self.results:
            if result.argument >= 0:
                results.append(arguments[result.argument])
            elif result.output < 0:
                results.append(result.known)
            elif result.is_number:
                results.append(outputs[result.output].item())
            elif result.is_complex:
                results.append(torch.view_as_complex(to_torch(outputs[result.output])))
            else:
                results.append(to_torch(outputs[result.output]))
        return results


class FrozenWhileUnchanged:
    """Chooses between two programs of one function.

    Constant weights are packed once, and engines fold what they can: the fast way. PyTorch counts
    the changes of each tensor, so a weight that an optimizer or load_state_dict has written is
    noticed at the next call; from then on the weights are inputs of a second program, and no later
    change compiles anything.
    """

    def __init__(self, frozen: Callable[[], Runner], live: Callable[[], Runner]) -> None:
        self._make_frozen: Callable[[], Runner] | None = frozen
        self._make_live = live
        self.frozen: Runner | None = None
        self.live: Runner | None = None

    def runner(self, unchanged: Callable[[], bool]) -> tuple[Runner, bool]:
        """The program to run, and whether the weights are built into it, which they are until
        `unchanged` first says no."""
        if self._make_frozen is not None:
            if unchanged():
                if self.frozen is None:
                    self.frozen = self._make_frozen()
                return self.frozen, True
            self._make_frozen = self.frozen = None
        if self.live is None:
            self.live = self._make_live()
        return self.live, False
