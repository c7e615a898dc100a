# SPDX-License-Identifier: Apache-2.0
"""torch.compile with symbolic sizes: views, and ops that need known sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")
import openxrt.torch as xt  # noqa: E402
from openxrt.torch import backend  # noqa: E402


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(shape[0]))


def compiled(function: Callable[..., object]) -> Callable[..., object]:
    return torch.compile(
        function, backend="openxrt", dynamic=True, fullgraph=True, options={"engine": "native"}
    )


VIEWS = {
    "chunk": lambda x: torch.chunk(x, 2),
    "split": lambda x: torch.split(x, 2, -1),
    "as strided": lambda x: (x.as_strided((2, 3), (1, 4), 1), x + 1),
    "as strided alone": lambda x: [x.as_strided((2, 3), (1, 4))],
    "expand": lambda x: torch.broadcast_tensors(x, x[:1, None]),
    "beside a result": lambda x: (x[1:].t(), x * 2, x[:, 1]),
    "view and sum": lambda x: (x.view(-1)[3:], x.sum()),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_one_of_the_argument(name: str) -> None:
    fast = compiled(VIEWS[name])
    for shape in ((4, 6), (7, 5)):
        x, y = drawn(*shape), drawn(*shape)
        found, expected = fast(x), VIEWS[name](y)
        for actual, wanted in zip(found, expected, strict=True):
            torch.testing.assert_close(actual, wanted)
            assert actual.stride() == wanted.stride()
            shares = actual.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
            assert shares == (wanted.untyped_storage().data_ptr() == y.untyped_storage().data_ptr())


NEED_NUMBERS = {
    "fft": lambda x: torch.fft.fft(x).real,
    "adaptive pooling": lambda x: torch.nn.functional.adaptive_avg_pool1d(x, 3),
    "diagonal": lambda x: torch.diagonal(x * 2, 1),
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.mT + 10 * torch.eye(x.shape[0])),
    "singular values": lambda x: torch.linalg.svdvals(x),
    "groups of a convolution": lambda x: torch.nn.functional.conv1d(
        x.reshape(1, -1, 1), x[:, :, None], groups=x.shape[0]
    ),
}


@pytest.mark.parametrize("name", NEED_NUMBERS)
def test_an_op_that_needs_numbers_has_a_program_for_each_shape(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    original = backend.PerShape

    class Counted(original):
        def _make(self, arguments: list[object]) -> object:
            made.append(1)
            return super()._make(arguments)

    monkeypatch.setattr(backend, "PerShape", Counted)
    function = NEED_NUMBERS[name]
    fast = compiled(function)
    for shape in ((4, 6), (7, 8), (4, 6), (7, 8), (5, 9)):
        x = drawn(*shape)
        torch.testing.assert_close(fast(x), function(x), rtol=1e-4, atol=1e-4)
    assert 3 <= len(made) <= 4  # one when it is compiled


def test_a_gradient_through_symbolic_sizes() -> None:
    fast = compiled(lambda x, w: torch.fft.rfft(x @ w).abs().sum())
    for rows in (3, 6):
        x, w = drawn(rows, 4), drawn(4, 8)
        a, b = w.clone().requires_grad_(), w.clone().requires_grad_()
        fast(x, a).backward()
        torch.fft.rfft(x @ b).abs().sum().backward()
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)


def test_factors_of_a_product_may_be_symbols() -> None:
    fast = compiled(lambda x, y, z, s: torch.addmm(x, y, z, beta=s, alpha=2 * s))
    x, y, z = drawn(3, 5), drawn(3, 4), drawn(4, 5)
    for factor in (2, 3):
        expected = torch.addmm(x, y, z, beta=factor, alpha=2 * factor)
        torch.testing.assert_close(fast(x, y, z, factor), expected, rtol=1e-4, atol=1e-4)


NUMBERS = {
    "not": lambda x: x + torch.sym_not(x.shape[0] > 4),
    "sum": lambda x: x + torch.sym_sum([x.shape[0], x.shape[1], 3]),
    "square root": lambda x: x + torch.sym_sqrt(x.shape[0]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_pytorch_s_functions_of_sizes(name: str) -> None:
    """They are written into the graph by torch.export, which compiles one program for all."""

    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return NUMBERS[name](x)

    fast = xt.XRTModule(Module().eval(), engine="native")
    for shape in ((6, 5), (7, 5), (8, 5), (9, 5), (3, 5)):
        x = drawn(*shape)
        torch.testing.assert_close(fast(x), Module()(x))
