# SPDX-License-Identifier: Apache-2.0
"""Programs with PyTorch tensors in and out."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .. import load
from .._core import DeviceArray, InvalidArgument, Program
from .importer import Imported

# NumPy has no bfloat16 of its own: the bits travel as integers.
_VIEWED = {
    name: getattr(torch, name)
    for name in (
        "bfloat16",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    )
}


def to_torch(array: np.ndarray | DeviceArray) -> torch.Tensor:
    """The same memory as a tensor."""
    if isinstance(array, DeviceArray):
        return torch.from_dlpack(array)
    if array.dtype.num < 24:  # NumPy's own; the name of a dtype is made anew each time
        return torch.from_numpy(array)
    dtype = _VIEWED.get(array.dtype.name)
    if dtype is None:
        return torch.from_numpy(array)
    bits = np.uint8 if array.dtype.itemsize == 1 else np.uint16
    return torch.from_numpy(array.view(bits)).view(dtype)


def _device_for(imported: Imported, given: str | None) -> str | None:
    """The device to load a program for: that of the graph's tensors where they lie on a GPU."""
    gpus = sorted(str(device) for device in imported.devices if device.type == "cuda")
    others = [device.type for device in imported.devices if device.type not in ("cpu", "cuda")]
    if others:
        raise InvalidArgument(f"tensors on {others[0]}: programs take tensors on the CPU and CUDA")
    if len(gpus) > 1:
        raise InvalidArgument(
            "expected all tensors to be on the same device, but found at least two devices, "
            f"{gpus[0]} and {gpus[1]}!"
        )
    if not gpus:
        return given
    if given not in (None, gpus[0]) and not (given == "cuda" and gpus[0] == "cuda:0"):
        raise InvalidArgument(
            "expected all tensors to be on the same device, but found at least two devices, "
            f"{gpus[0]} and {given}! The program's device is '{given}'; it is {gpus[0]} by default"
        )
    return gpus[0]


# What Program.call_tensors() leaves to NumPy.
_AS_ARRAYS = {
    *("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"),
    *("float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "int4", "uint4", "int2", "uint2"),
}


class Runner:
    """One imported graph, compiled. Called with flat arguments and the state it reads."""

    def __init__(self, imported: Imported, options: Mapping[str, Any]) -> None:
        self.on_gpu = any(device.type == "cuda" for device in imported.devices)
        device = _device_for(imported, options.get("device"))
        if device is not None:
            options = {**options, "device": device}
        self.program: Program = load(imported.graph, aliases=imported.aliases, **options)
        self.input_devices = list(imported.input_devices)
        self.output_devices = {r.output: r.device for r in imported.results if r.output >= 0}
        ports = self.program.inputs[: len(imported.inputs)]
        self.written = [port.name in imported.aliases for port in ports]
        self.inputs = imported.inputs
        self.draws = imported.draws
        self.results = imported.results
        self.views = imported.views
        self.complex_inputs = imported.complex_inputs
        # The usual cases are told once, not at every call.
        self.positions = (
            [source for source in self.inputs if isinstance(source, int)]
            if all(isinstance(source, int) for source in self.inputs)
            else None
        )
        # Per result whether it is an argument, and the place among those or the outputs.
        self.places: list[tuple[bool, int]] | None = None
        if all(r.argument >= 0 or r.output >= 0 for r in self.results) and not any(
            r.is_number or r.is_complex or r.view >= 0 or r.order for r in self.results
        ):
            self.places = [(r.argument >= 0, max(r.argument, r.output)) for r in self.results]
        self.comes_as_array = [
            place for place, port in enumerate(self.program.outputs) if port.dtype in _AS_ARRAYS
        ]

    def __call__(
        self, arguments: Sequence[object], state: Mapping[str, torch.Tensor] | None = None
    ) -> list[object]:
        """One value per result: a tensor, or what was known while tracing."""
        if self.on_gpu:
            outputs = self._run_on_gpu(arguments, state)
            return self._results(arguments, outputs)
        if self.positions is not None:
            tensors = [arguments[position] for position in self.positions]
        else:
            tensors = [
                arguments[source] if isinstance(source, int) else state[source]  # type: ignore[index]
                for source in self.inputs
            ]
        for place in self.complex_inputs:
            tensors[place] = torch.view_as_real(tensors[place].detach().resolve_conj())  # type: ignore[attr-defined]
        if self.draws:
            tensors = [*tensors, *self.draws(arguments)]
        outputs = self.program.call_tensors(tensors, torch.Tensor)
        for place in self.comes_as_array:
            outputs[place] = to_torch(outputs[place])
        return self._results(arguments, outputs)

    def _results(self, arguments: Sequence[object], outputs: list[Any]) -> list[object]:
        if self.places is not None:
            return [arguments[i] if given else outputs[i] for given, i in self.places]
        results: list[object] = []
        views = self.views(*arguments) if self.views is not None else ()
        for result in self.results:
            if result.argument >= 0:
                results.append(arguments[result.argument])
            elif result.view >= 0:
                results.append(views[result.view])
            elif result.output < 0:
                results.append(result.known)
            elif result.is_number:
                results.append(outputs[result.output].item())
            elif result.is_complex:
                results.append(torch.view_as_complex(outputs[result.output]))
            elif result.order:
                results.append(outputs[result.output].permute(result.order))
            else:
                results.append(outputs[result.output])
        return results

    def _run_on_gpu(
        self, arguments: Sequence[object], state: Mapping[str, torch.Tensor] | None
    ) -> list[Any]:
        """The program's outputs, each where PyTorch has it; tensors on the GPU stay there."""
        tensors = self._tensors_on_gpu(arguments, state)
        if self.draws:
            tensors = [*tensors, *self.draws(arguments)]
        outputs = self.program.call_tensors(tensors, torch.Tensor)
        for place, output in enumerate(outputs):
            tensor = output if type(output) is torch.Tensor else to_torch(output)
            device = self.output_devices.get(place, tensor.device)
            # No input lay on the GPU, or PyTorch has this result on the host.
            outputs[place] = tensor if tensor.device == device else tensor.to(device)
        return outputs

    def _tensors_on_gpu(
        self, arguments: Sequence[object], state: Mapping[str, torch.Tensor] | None
    ) -> list[Any]:
        """The program's inputs. The GPU may be idle meanwhile: what is usual takes no loop."""
        if not self.complex_inputs:
            if self.positions is not None:
                given = [arguments[position] for position in self.positions]
            else:
                given = [
                    arguments[source] if isinstance(source, int) else state[source]  # type: ignore[index]
                    for source in self.inputs
                ]
            if (
                all(map(torch.is_tensor, given))
                and [t.device for t in given] == self.input_devices  # type: ignore[attr-defined]
                and all(t.is_contiguous() for t in given)  # type: ignore[attr-defined]
            ):
                return given
        tensors = []
        for source, device, written in zip(
            self.inputs, self.input_devices, self.written, strict=True
        ):
            value = arguments[source] if isinstance(source, int) else state[source]  # type: ignore[index]
            if isinstance(value, torch.Tensor):
                if value.device != device:
                    raise InvalidArgument(
                        "expected all tensors to be on the same device, but found at least two "
                        f"devices, {device} and {value.device}! (input {source} was traced on "
                        f"{device})"
                    )
                if not written:
                    value = value.contiguous()
            tensors.append(value)
        for place in self.complex_inputs:
            tensors[place] = torch.view_as_real(tensors[place].detach().resolve_conj())
        return tensors


class Runners:
    """Makes the runners of one module, and lists those in use."""

    def __init__(self) -> None:
        self._made: list[weakref.ref[Runner]] = []

    def make(
        self,
        imported: Imported,
        options: Mapping[str, Any],
        ranges: Mapping[str, tuple[int, int, int]] | None = None,
    ) -> Runner:
        """A runner; `options` are those of openxrt.load(), `ranges` are of this graph's symbols."""
        runner = Runner(imported, {**options, "ranges": ranges} if ranges else options)
        self._made = [known for known in self._made if known() is not None]
        self._made.append(weakref.ref(runner))
        return runner

    def programs(self) -> Iterator[Program]:
        """The programs of runners that still exist, the newest first."""
        for known in reversed(self._made):
            runner = known()
            if runner is not None:
                yield runner.program


class Memory:
    """Notices that tensors have other memory than before: what is assigned to `.data`, as
    vector_to_parameters() and Module.to() do, PyTorch counts as no write."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        usual = (torch.Tensor, torch.nn.Parameter)
        self._tensors = [t for t in tensors if type(t) in usual and t.layout == torch.strided]
        self._addresses = self._places()
        # The memory is kept, for another tensor would be given it, and be at the same place.
        self._kept: list[torch.Tensor] | None = [tensor.detach() for tensor in self._tensors]

    def _places(self) -> list[int]:
        return list(map(torch.Tensor.data_ptr, self._tensors))

    def unchanged(self) -> bool:
        """Whether it has been the same ever since."""
        if self._kept is not None and self._places() != self._addresses:
            self._kept = None
        return self._kept is not None


class FrozenWhileUnchanged:
    """Chooses between two programs of one function.

    Constant weights are packed once, and engines fold what they can: the fast way. PyTorch counts
    the changes of each tensor, so a weight that an optimizer or load_state_dict has written is
    noticed at the next call, as is one with other memory (Memory); from then on the weights are
    inputs of a second program, and no later change compiles anything.
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
