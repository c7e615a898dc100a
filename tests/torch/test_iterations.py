# SPDX-License-Identifier: Apache-2.0
"""Ops that become loops, and special functions, against PyTorch's own."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import openxrt.torch  # noqa: E402, F401  registers the backend

ENGINES = ("native", "xla")
F64 = torch.float64


def compiled(function, engine="native"):
    return torch.compile(function, backend="openxrt", options={"engine": engine}, fullgraph=True)


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (2, 3, 5, 5), (70, 70), (0, 3, 3)])
def test_eigenvalues_of_symmetric_matrices(shape: tuple[int, ...], engine: str) -> None:
    a = drawn(*shape)
    a = a + a.mT
    values, vectors = compiled(torch.linalg.eigh, engine)(a)
    torch.testing.assert_close(values, torch.linalg.eigh(a)[0])
    torch.testing.assert_close(vectors @ (values.unsqueeze(-1) * vectors.mT), a)
    unit = torch.eye(shape[-1], dtype=a.dtype).expand(a.shape)
    torch.testing.assert_close(vectors.mT @ vectors, unit)


def test_equal_eigenvalues_have_orthogonal_vectors() -> None:
    rotation = torch.linalg.qr(drawn(6, 6))[0]
    a = rotation @ torch.diag(torch.tensor([2.0, 2, 2, -1, 0, 0], dtype=F64)) @ rotation.mT
    values, vectors = compiled(torch.linalg.eigh)(a)
    torch.testing.assert_close(values, torch.tensor([-1.0, 0, 0, 2, 2, 2], dtype=F64))
    torch.testing.assert_close(vectors.mT @ vectors, torch.eye(6, dtype=F64))
    torch.testing.assert_close(vectors @ torch.diag(values) @ vectors.mT, a)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (2, 3, 5), (70, 9), (0, 3)])
def test_singular_values(shape: tuple[int, ...], full: bool) -> None:
    a = drawn(*shape)
    if a.dim() == 2 and a.shape[0] > 3:
        a[:, 1] = a[:, 0]  # of a lower rank
    u, s, vt = compiled(lambda x: torch.linalg.svd(x, full_matrices=full))(a)
    expected = torch.linalg.svd(a, full_matrices=full)
    assert [t.shape for t in (u, s, vt)] == [t.shape for t in expected]
    torch.testing.assert_close(s, expected[1], atol=1e-12, rtol=1e-7)
    k = s.shape[-1]
    torch.testing.assert_close(u[..., :k] @ (s.unsqueeze(-1) * vt[..., :k, :]), a)
    for q in (u, vt.mT):
        unit = torch.eye(q.shape[-1], dtype=q.dtype).expand(*q.shape[:-2], -1, -1)
        torch.testing.assert_close(q.mT @ q, unit)


def test_the_gradient_of_a_nuclear_norm() -> None:
    a, b = (drawn(4, 6).requires_grad_() for _ in range(2))
    compiled(lambda x: torch.linalg.matrix_norm(x, "nuc"))(a).backward()
    torch.linalg.matrix_norm(b, "nuc").backward()
    torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_incomplete_gamma_functions(upper: bool, engine: str) -> None:
    inf, nan = torch.inf, torch.nan
    a = torch.tensor(
        [0.1, 0.5, 1, 2, 10, 100, 1e4, 1e4, 0, 0, -1, inf, 2, 2, nan, 1e3, 5], dtype=F64
    )
    x = torch.tensor([1e-8, 0.5, 2, 0, 30, 99, 1e4, 9800, 1, 0, 1, 1, inf, -1, 1, 1e-3, 1e3],
                     dtype=F64)  # fmt: skip
    function = torch.special.gammaincc if upper else torch.special.gammainc
    torch.testing.assert_close(compiled(function, engine)(a, x), function(a, x), equal_nan=True)


SCIPY = {
    "airy_ai": "airy",
    "bessel_j0": "j0",
    "bessel_j1": "j1",
    "bessel_y0": "y0",
    "bessel_y1": "y1",
    "i0": "i0",
    "i0e": "i0e",
    "i1": "i1",
    "i1e": "i1e",
    "modified_bessel_k0": "k0",
    "modified_bessel_k1": "k1",
    "scaled_modified_bessel_k0": "k0e",
    "scaled_modified_bessel_k1": "k1e",
}


@pytest.mark.parametrize("name", SCIPY)
def test_bessel_and_airy_functions_in_float64(name: str) -> None:
    """Against SciPy: PyTorch's own J, Y and Ai are 1e-7 to 3e-6 from it."""
    scipy = pytest.importorskip("scipy.special")
    points = [0, 8, -8, 2, 100.0]
    x = torch.cat([torch.linspace(-30, 30, 4001, dtype=F64), torch.tensor(points, dtype=F64)])
    expected = getattr(scipy, SCIPY[name])(x.numpy())
    expected = torch.from_numpy(expected[0] if name == "airy_ai" else expected)
    found = compiled(getattr(torch.special, name))(x)
    torch.testing.assert_close(found, expected, equal_nan=True, rtol=1e-10, atol=3e-14)


KINDS = ["hermite_polynomial_h", "legendre_polynomial_p", "laguerre_polynomial_l",
         "shifted_chebyshev_polynomial_w"]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_polynomials_of_any_degree(kind: str) -> None:
    function = getattr(torch.special, kind)
    x = torch.linspace(-1, 1, 9, dtype=F64).unsqueeze(-1)
    n = torch.tensor([-1, 0, 1, 2, 3, 7, 20])
    torch.testing.assert_close(compiled(function)(x, n), function(x, n))
    torch.testing.assert_close(compiled(lambda t: function(t, 4))(x), function(x, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_next_number(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, -0.0, 1, -1, 1e-40, torch.inf, 2, torch.nan], dtype=dtype)
    y = torch.tensor([1.0, -1, 2, 2, -1, 0, 2, 1], dtype=dtype)
    found, expected = compiled(torch.nextafter)(x, y), torch.nextafter(x, y)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("spatial", [2, 3])
def test_pooling_over_windows_that_were_drawn(spatial: int) -> None:
    x = drawn(2, 3, *[9, 8, 7][:spatial])
    samples = torch.rand(2, 3, spatial, generator=torch.Generator().manual_seed(1), dtype=F64)
    pool = getattr(torch.nn.functional, f"fractional_max_pool{spatial}d")

    def run(t: torch.Tensor, drawn_samples: torch.Tensor):
        return pool(t, 3, [4, 3, 2][:spatial], return_indices=True, _random_samples=drawn_samples)

    for found, expected in zip(compiled(run)(x, samples), run(x, samples), strict=True):
        torch.testing.assert_close(found, expected)
