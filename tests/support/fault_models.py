# SPDX-License-Identifier: Apache-2.0
"""A fault of a vendor's library: the least model that shows it, and the right result, worked out by
hand or with NumPy. `title` is a row of the table in the README of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto, helper, numpy_helper
from small_models import make_model, tensor

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Fault:
    """A model, what goes in, and what the standard says comes out."""

    title: str
    model: bytes
    feeds: Arrays
    expected: list[np.ndarray]
    # What a program on the engine does: "right", or "same" where the documents say so.
    program: str = "right"
    runs: int = 1  # the last of them shows it
    before: Arrays | None = None  # what goes in before, once
    processor: str = ""  # instructions without which the library has it not
    by_chance: bool = False  # it takes what lies in memory, which may be right

    def rounds(self) -> list[Arrays]:
        """What goes in, run by run."""
        return [*([self.before] if self.before else []), *[self.feeds] * self.runs]


def fault(
    title: str,
    nodes: list[NodeProto],
    feeds: Arrays,
    expected: list[Any],
    *,
    constants: dict[str, Any] | None = None,
    opset: int = 21,
    domains: dict[str, int] | None = None,
    open_sizes: bool = False,
    program: str = "right",
    runs: int = 1,
    before: Arrays | None = None,
    processor: str = "",
    by_chance: bool = False,
) -> Fault:
    """The outputs are named y, z, …; each constant is an initializer."""
    kind = lambda array: helper.np_dtype_to_tensor_dtype(array.dtype)  # noqa: E731
    results = [np.asarray(array) for array in expected]
    return Fault(
        title,
        make_model(
            nodes,
            [
                tensor(name, kind(a), [f"n{i}" for i in range(a.ndim)] if open_sizes else a.shape)
                for name, a in feeds.items()
            ],
            [
                tensor(n, kind(a), [f"{n}{i}" for i in range(a.ndim)] if open_sizes else a.shape)
                for n, a in zip("yz", results, strict=False)
            ],
            [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
            opset=opset,
            domains=domains,
        ),
        feeds,
        results,
        program,
        runs,
        before,
        processor,
        by_chance,
    )


def f32(*values: Any) -> np.ndarray:
    """An array of float32."""
    return np.array(values, np.float32)


def aligned_corners(title: str) -> Fault:
    """A line from 1 to 5 over one step, 3 elements of a length of 2 * 1.75 = 3.5."""
    at = np.arange(3) / (3.5 - 1)
    return fault(
        title,
        [
            helper.make_node(
                "Resize",
                ["x", "", "scales"],
                ["y"],
                mode="linear",
                coordinate_transformation_mode="align_corners",
            )
        ],
        {"x": f32(1, 5).reshape(1, 1, 2)},
        [f32(*(1 + 4 * at)).reshape(1, 1, 3)],
        constants={"scales": f32(1, 1, 1.75)},
    )
