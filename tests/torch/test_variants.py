# SPDX-License-Identifier: Apache-2.0
"""Overloads that op_db does not reach, called by their own names, against PyTorch's kernels."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import openxrt.torch  # noqa: E402, F401  registers the backend

aten = torch.ops.aten


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


INTS = torch.tensor([[3, 0, 12], [7, 1, 5]])
IMAGE = drawn(1, 2, 4, 5)
CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "and": (lambda x: aten.bitwise_and.Scalar_Tensor(6, x), (INTS,)),
    "or": (lambda x: aten.bitwise_or.Scalar_Tensor(6, x), (INTS,)),
    "xor": (lambda x: aten.bitwise_xor.Scalar_Tensor(6, x), (INTS,)),
    "shift": (lambda x: aten.__lshift__.Scalar(x, 2), (INTS,)),
    "shift by tensor": (aten.__rshift__.Tensor, (INTS, INTS % 3)),
    "int mm": (aten._int_mm.default, (INTS.to(torch.int8), INTS.t().to(torch.int8))),
    "add relu": (
        lambda x, y: aten._add_relu.Tensor(x, y, alpha=2), (drawn(3, 4), drawn(3, 4, seed=1))
    ),
    "addmm activation": (
        lambda *a: aten._addmm_activation(*a, use_gelu=True),
        (drawn(5), drawn(3, 4), drawn(4, 5, seed=1)),
    ),
    "convolution": (
        lambda x, w: aten._convolution(
            x, w, None, [1, 1], [1, 0], [1, 1], False, [0, 0], 1, False, False, False, False
        ),
        (IMAGE, drawn(3, 2, 2, 2)),
    ),
    "bilinear": (lambda x: aten.upsample_bilinear2d(x, [7, 9], False), (IMAGE,)),
    "bilinear by scales": (
        lambda x: aten.upsample_bilinear2d(x, [6, 8], False, 1.6, 1.7), (IMAGE,)
    ),
    "bicubic": (lambda x: aten.upsample_bicubic2d(x, [7, 9], True), (IMAGE,)),
    "zeta": (lambda x: aten.special_zeta.other_scalar(x, 1.5), (drawn(4).abs() + 1.5,)),
    "zeta of a number": (lambda x: aten.special_zeta.self_scalar(2.5, x), (drawn(4).abs() + 0.5,)),
    "bits": (lambda x: aten.view_copy.dtype(x, torch.int32), (drawn(4),)),
    "take one": (torch.take, (drawn(3, 4), torch.tensor(5))),
    "index put": (
        lambda x, i, v: aten._index_put_impl(x, [i], v, True),
        (drawn(4), torch.tensor([1, 1, 3]), drawn(3)),
    ),
    "covariance": (
        lambda x, f, a: torch.cov(x, fweights=f, aweights=a),
        (drawn(3, 5), torch.tensor([1, 2, 1, 3, 1]), drawn(5).abs()),
    ),
    "combinations": (lambda x: torch.combinations(x, 3, True), (drawn(4),)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_pytorch(name: str) -> None:
    function, inputs = CASES[name]
    fast = torch.compile(
        function, backend="openxrt", options={"engine": "native"}, fullgraph=True, dynamic=False
    )
    expected = function(*inputs)
    torch.testing.assert_close(fast(*inputs), expected, rtol=1e-4, atol=1e-5)
