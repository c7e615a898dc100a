# SPDX-License-Identifier: Apache-2.0
"""Where two engines begin to differ on a model."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _arguments
from ._core import InvalidArgument, write_output_file
from ._core import compare as _compare

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._load import LoadOptions


@dataclass(frozen=True)
class Comparison:
    """What :func:`openxrt.compare` found. Errors are differences over the range of a value."""

    differs: bool
    outputs_error: float
    """The largest error of an output of the whole model."""
    nodes: list[str] = field(default_factory=list)
    """The first node that differs given the same inputs, or the shortest stretch that does."""
    value: str = ""
    """The first value of these nodes that differs."""
    error: float = 0.0
    text: str = ""
    piece: bytes = b""
    """These nodes as an ONNX model, with the values that they read and that came out."""
    inputs: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)
    actual: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Writes piece.onnx, inputs.npz, expected.npz and actual.npz, as `xrt compare` does."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_output_file(folder / "piece.onnx", self.piece)
        for name, arrays in (
            ("inputs", self.inputs),
            ("expected", self.expected),
            ("actual", self.actual),
        ):
            archive = io.BytesIO()
            np.savez(archive, **arrays)
            write_output_file(folder / f"{name}.npz", archive.getvalue())

    def __str__(self) -> str:
        lines = [f"outputs: largest difference {self.outputs_error:.3g} of the range"]
        if self.nodes:
            last = f" to '{self.nodes[-1]}'" if len(self.nodes) > 1 else ""
            lines.append(
                f"first difference: '{self.nodes[0]}'{last}, value '{self.value}': "
                f"{self.error:.3g} of the range; {self.text}"
            )
        return "\n".join(lines)


def compare(
    model: str | os.PathLike[str] | bytes,
    engines: Sequence[str | Sequence[str]],
    inputs: Mapping[str, Any] | None = None,
    *,
    tolerance: float = 1e-3,
    every_node: bool = False,
    **options: Unpack[LoadOptions],
) -> Comparison:
    """Finds the first node at which two engines differ, as a model of its own.

    Args:
        model: path of an ONNX model, or its bytes.
        engines: two of what ``load(engine=...)`` takes; the first is the one to agree with.
        inputs: values by name; None: random ones, where the model fixes their shapes.
        tolerance: largest difference of floats over the range of a value; all else must be equal.
        every_node: look at each node, also where the outputs of the whole model agree.
        options: as for ``load``; `precision` is not "auto".
    """
    pair = [_arguments.engine_names(engine) for engine in engines]
    if isinstance(engines, str) or len(pair) != 2:
        raise InvalidArgument(f'engines is {engines!r}; two are compared: ("native", "xla") say')
    first, second = pair
    found = _compare(
        bytes(model) if isinstance(model, (bytes, bytearray)) else Path(model),
        None if inputs is None else dict(inputs),
        first=first,
        second=second,
        tolerance=tolerance,
        every_node=every_node,
        options=options,
    )
    return Comparison(**found)
