# SPDX-License-Identifier: Apache-2.0
"""Products of matrices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .case import Case, Const, Source


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
    for activation, extra in (
        ("Elu", {"activation_alpha": 0.6, "activation_beta": 0.3}),
        ("Celu", {"activation_alpha": 0.6}),
        ("Selu", {"activation_alpha": 1.5, "activation_beta": 9.0, "activation_gamma": 1.1}),
        ("ScaledTanh", {"activation_alpha": 0.3, "activation_beta": 0.7}),
        ("ParametricSoftplus", {"activation_alpha": 0.3, "activation_beta": 0.7}),
        ("ParametricSoftplus", {f"activation_{p}": 0.5 for p in ("alpha", "beta", "gamma")}),
    ):
        yield Case(
            "FusedGemm",
            [s.f(4, 5), s.f(5, 6), s.f(6)],
            {"activation": activation, **extra},
            f"{activation}-{len(extra)}",
            everywhere=True,
        )
    for op in ("FusedMatMul", "TransposeMatMul"):
        for shape in ((4, 5), (2, 4, 5), (2, 3, 4, 5)):
            vector = [s.f(*shape), Const(s.f(5))]
            name = f"vector{len(shape)}"
            yield Case(op, vector, {"alpha": 0.5}, name, everywhere=True)
        yield Case(op, [s.f(5), Const(s.f(5))], {"alpha": 0.5}, "vector1", everywhere=True)
        yield Case(op, [s.f(5), s.f(3, 5)], {"transB": 1, "alpha": 0.5}, "row", everywhere=True)
    yield Case(
        "MatMulInteger16",
        [s.i(-300, 300, 4, 8, dtype=np.int16), s.i(-300, 300, 8, 3, dtype=np.int16)],
    )
