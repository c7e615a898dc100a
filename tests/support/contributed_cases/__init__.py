# SPDX-License-Identifier: Apache-2.0
"""Cases of ONNX Runtime's contributed ops."""

from __future__ import annotations

from .activation import activation
from .attention import attention
from .case import MICROSOFT, NCHWC, Case, Const, Source
from .convolution import convolution, nchwc
from .experts import experts
from .generation import generation
from .linear import linear
from .normalisation import normalisation
from .other import other
from .quantised import quantised
from .sequence import sequence
from .weights import weights

__all__ = ["MICROSOFT", "NCHWC", "Case", "Const", "Source", "all_cases"]


def all_cases() -> list[Case]:
    cases: list[Case] = []
    groups = (
        linear,
        convolution,
        nchwc,
        activation,
        normalisation,
        attention,
        weights,
        quantised,
        sequence,
        experts,
        other,
        generation,
    )
    for seed, group in enumerate(groups):
        cases += group(Source(seed))
    return cases
