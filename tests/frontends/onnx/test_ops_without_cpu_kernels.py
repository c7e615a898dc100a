# SPDX-License-Identifier: Apache-2.0
"""Contributed ops that ONNX Runtime runs on accelerators alone, against what its documents say of
them, written with PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import openxrt
import pytest
from contributed_cases import Case, Const, Source

torch = pytest.importorskip("torch")
functional = torch.nn.functional

S = Source(100)


def t(array: Any) -> Any:
    return torch.from_numpy(np.asarray(array))


def first(x: Any) -> Any:
    return torch.movedim(t(x), -1, 1)


def last(x: Any) -> Any:
    return torch.movedim(x, 1, -1)


def group_norm(x: Any, gamma: Any, beta: Any, groups: int, silu: bool) -> Any:
    """Of channels that come second."""
    y = functional.group_norm(x, groups, t(gamma), t(beta), 1e-5)
    return functional.silu(y) if silu else y


def normalised() -> dict[str, tuple[Case, list[Any]]]:
    cases = {}
    x, skip = S.f(2, 3, 5, 8), S.f(2, 3, 5, 8)
    gamma, beta, bias = S.f(8), S.f(8), S.f(8)
    for silu in (0, 1):
        how = {"groups": 4, "activation": silu, "epsilon": 1e-5}
        y = last(group_norm(first(x), gamma, beta, 4, bool(silu)))
        cases[f"GroupNorm-last-{silu}"] = Case("GroupNorm", [x, gamma, beta], how), [y]
        y = group_norm(t(x), gamma[:3], beta[:3], 3, bool(silu))
        how = {**how, "groups": 3, "channels_last": 0}
        cases[f"GroupNorm-first-{silu}"] = (
            Case("GroupNorm", [x, gamma[:3].copy(), beta[:3].copy()], how),
            [y],
        )
        how = {"groups": 2, "activation": silu, "epsilon": 1e-5}
        for name, added, given in (
            ("whole", skip, None),
            ("bias", skip, bias),
            ("broadcast", S.f(2, 1, 1, 8), bias),
            ("pairs", S.f(2, 8), None),
        ):
            wide = added[:, None, None] if added.ndim == 2 else added
            total = t(x + wide + (0 if given is None else given))
            y = last(group_norm(first(total), gamma, beta, 2, bool(silu)))
            operands = [x, gamma, beta, added, *([] if given is None else [given])]
            cases[f"SkipGroupNorm-{name}-{silu}"] = (
                Case("SkipGroupNorm", operands, how, outputs=2),
                [y, total],
            )
    return cases


def added() -> dict[str, tuple[Case, list[Any]]]:
    x, bias, skip = S.f(2, 5, 8), S.f(8), S.f(2, 5, 8)
    left, right = t(x + bias).chunk(2, -1)
    return {
        "BiasAdd": (Case("BiasAdd", [x, bias, skip]), [t(x + bias + skip)]),
        "BiasSplitGelu": (
            Case("BiasSplitGelu", [x, bias]),
            [left * functional.gelu(right)],
        ),
    }


def convolved() -> dict[str, tuple[Case, list[Any]]]:
    x, w, b = S.f(2, 9, 7, 6), S.f(8, 6, 3, 3, scale=0.2), S.f(8)
    parts, deep = S.f(8, 3, 3, 3, scale=0.2), S.f(6, 1, 3, 3)
    cases: dict[str, tuple[Any, Any, dict[str, Any], dict[str, Any]]] = {
        "plain": (w, None, {}, {}),
        "bias": (w, b, {"pads": [1, 1, 1, 1]}, {"padding": 1}),
        "strides": (w, b, {"strides": [2, 1]}, {"stride": (2, 1)}),
        "dilations": (w, b, {"dilations": [2, 2]}, {"dilation": 2}),
        "groups": (parts, b, {"group": 2}, {"groups": 2}),
        "depthwise": (deep, None, {"group": 6}, {"groups": 6}),
    }
    made = {}
    for name, (weights, bias, attributes, options) in cases.items():
        operands = [x, Const(weights), *([] if bias is None else [Const(bias)])]
        y = functional.conv2d(first(x), t(weights), None if bias is None else t(bias), **options)
        made[f"NhwcConv-{name}"] = Case("NhwcConv", operands, attributes), [last(y)]
    return made


CASES = {**normalised(), **added(), **convolved()}


@pytest.mark.parametrize("open_dimensions", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_as_documented(name: str, open_dimensions: bool) -> None:
    case, expected = CASES[name]
    data, feeds = case.model(open_dimensions)
    found = list(openxrt.load(data, engine="native", cache_dir="").run(feeds).values())
    assert len(found) == len(expected)
    for ours, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, right.numpy(), rtol=1e-4, atol=1e-5)
