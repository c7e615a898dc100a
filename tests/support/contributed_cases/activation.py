# SPDX-License-Identifier: Apache-2.0
"""Activations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .case import Case, Source


def activation(s: Source) -> Iterator[Case]:
    x = s.f(3, 4, 8)
    yield Case("Gelu", [x])
    yield Case("BiasGelu", [x, s.f(8)])
    yield Case("FastGelu", [x], name="plain")
    yield Case("FastGelu", [x, s.f(8)], name="bias")
    yield Case("QuickGelu", [x], name="default")
    yield Case("QuickGelu", [x], {"alpha": 1.0}, "alpha")
    yield Case("ScaledSiLU", [x], {"alpha": 0.7}, "alpha")
    yield Case("ScaledSiLU", [x, np.array(0.3, np.float32)], {}, "scale")
    half = {"rtol": 1e-2, "atol": 1e-2}
    yield Case("ScaledSiLU", [x.astype(np.float16)], {"alpha": 0.7}, "half", **half)
    standard: dict[str, Any] = {"domain": "", "opset": 9}
    yield Case("Affine", [x], {"alpha": 2.0, "beta": 0.5}, **standard)
    yield Case("Scale", [x], {"scale": 2.0}, **standard)
    yield Case("ParametricSoftplus", [x], {"alpha": 0.5, "beta": 1.5}, **standard)
    yield Case("ScaledTanh", [x], {"alpha": 0.5, "beta": 1.5}, **standard)
    yield Case(
        "ImageScaler", [s.f(1, 3, 4, 4)], {"scale": 2.0, "bias": [0.1, 0.2, 0.3]}, **standard
    )
    yield Case("Crop", [s.f(1, 3, 8, 8)], {"border": [1, 2, 1, 1]}, "border", **standard)
    yield Case(
        "Crop", [s.f(1, 3, 8, 8)], {"border": [1, 2, 0, 0], "scale": [3, 4]}, "scale", **standard
    )
