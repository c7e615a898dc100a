# SPDX-License-Identifier: Apache-2.0
"""Products of matrices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .case import Case, Source


def linear(s: Source) -> Iterator[Case]:
    for ta in (0, 1):
        for tb in (0, 1):
            a = s.f(2, 3, 5, 4) if ta else s.f(2, 3, 4, 5)
            b = s.f(2, 3, 6, 5) if tb else s.f(2, 3, 5, 6)
            attributes = {"transA": ta, "transB": tb, "alpha": 0.5}
            yield Case("FusedMatMul", [a, b], attributes, f"{ta}{tb}")
    yield Case("FusedMatMul", [s.f(4, 5), s.f(5)], {"transA": 0}, "vector")
    yield Case(
        "FusedMatMul",
        [s.f(4, 2, 3, 5), s.f(2, 3, 5, 6)],
        {"transBatchA": 1},
        "batch",
    )
    yield Case(
        "FusedMatMul",
        [s.f(4, 5, dtype=np.float64), s.f(5, 3, dtype=np.float64)],
        {"alpha": 2.0},
        "double",
    )
    yield Case("TransposeMatMul", [s.f(5, 4), s.f(5, 6)], {"transA": 1, "alpha": 0.25})
    for activation, extra in (
        ("Relu", {}),
        ("LeakyRelu", {"activation_alpha": 0.1}),
        ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}),
        ("Tanh", {}),
    ):
        yield Case(
            "FusedGemm",
            [s.f(4, 5), s.f(6, 5), s.f(6)],
            {"activation": activation, "transB": 1, "alpha": 0.5, "beta": 2.0, **extra},
            activation,
        )
    yield Case(
        "MatMulInteger16",
        [s.i(-300, 300, 4, 8, dtype=np.int16), s.i(-300, 300, 8, 3, dtype=np.int16)],
    )
