# SPDX-License-Identifier: Apache-2.0
"""Linear algebra on small matrices, written in ops that have lowerings.

Each step of an elimination is a few nodes for a whole batch, so the graph grows with the matrix:
larger ones than `_LARGEST` are left to PyTorch. A singular matrix gives infinities or NaNs and an
`info` that is not 0; nothing is raised while a program runs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..registry import rewriting

_LARGEST = 64


def _is_small(x: Tensor) -> bool:
    return all(isinstance(n, int) and n <= _LARGEST for n in x.shape[-2:]) and not x.is_complex()


def _eye(x: Tensor, n: int) -> Tensor:
    return torch.eye(n, dtype=x.dtype).expand(*x.shape[:-2], n, n)


def _diagonal(x: Tensor) -> Tensor:
    return x.diagonal(dim1=-2, dim2=-1)


def _first(wrong: Tensor) -> Tensor:
    """LAPACK's info: the first place, from 1, at which something is wrong; or 0."""
    if wrong.shape[-1] == 0:
        return torch.zeros(wrong.shape[:-1], dtype=torch.int32)
    place = wrong.to(torch.int32).argmax(-1) + 1
    return torch.where(wrong.any(-1), place, 0).to(torch.int32)


# --- triangular systems ---------------------------------------------------------------------------


def _substitute(a: Tensor, b: Tensor, upper: bool, unit: bool) -> Tensor:
    """X of A·X = B with a triangular A."""
    n = a.shape[-1]
    if n == 0:
        return b.clone()
    rows: list[Tensor] = []
    for step in range(n):
        i = n - 1 - step if upper else step
        row = b[..., i : i + 1, :]
        if rows:
            known = torch.cat(rows[::-1] if upper else rows, -2)
            part = a[..., i : i + 1, i + 1 :] if upper else a[..., i : i + 1, :i]
            row = row - part @ known
        rows.append(row if unit else row / a[..., i : i + 1, i : i + 1])
    return torch.cat(rows[::-1] if upper else rows, -2)


def _broadcast(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])


@rewriting("aten.linalg_solve_triangular.default")
def solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    if not _is_small(a):
        return NotImplemented
    a, b = _broadcast(a, b)
    if left:
        return _substitute(a, b, upper, unitriangular)
    return _substitute(a.mT, b.mT, not upper, unitriangular).mT


@rewriting("aten.triangular_solve.default")
def triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    if not _is_small(a):
        return NotImplemented
    a, b = _broadcast(a, b)
    used = a.mT if transpose else a
    return _substitute(used, b, upper != transpose, unitriangular), a.clone()


# --- Cholesky -------------------------------------------------------------------------------------


def _cholesky(a: Tensor) -> Tensor:
    n = a.shape[-1]
    if n == 0:
        return a.clone()
    below = torch.arange(n)
    columns: list[Tensor] = []
    for j in range(n):
        rest = a[..., :, j : j + 1]
        if columns:
            known = torch.cat(columns, -1)
            rest = rest - known @ known[..., j : j + 1, :].mT
        column = rest / rest[..., j : j + 1, :].sqrt()
        columns.append(torch.where((below >= j).unsqueeze(-1), column, 0))
    return torch.cat(columns, -1)


@rewriting("aten.linalg_cholesky_ex.default")
def cholesky_ex(
    a: Tensor, *, upper: bool = False, check_errors: bool = False
) -> tuple[Tensor, Tensor]:
    if not _is_small(a):
        return NotImplemented
    factor = _cholesky(a.mT if upper else a)
    return (factor.mT if upper else factor), _first(torch.isnan(_diagonal(factor)))


@rewriting("aten.cholesky.default")
def cholesky(a: Tensor, upper: bool = False) -> Tensor:
    if not _is_small(a):
        return NotImplemented
    factor = _cholesky(a.mT if upper else a)
    return factor.mT if upper else factor


@rewriting("aten.cholesky_inverse.default")
def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    if not _is_small(factor):
        return NotImplemented
    inverse = _substitute(factor, _eye(factor, factor.shape[-1]), upper, False)
    return inverse @ inverse.mT if upper else inverse.mT @ inverse


@rewriting("aten.cholesky_solve.default", "aten._cholesky_solve_helper.default")
def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    if not _is_small(factor):
        return NotImplemented
    factor, b = _broadcast(factor, b)
    lower = factor.mT if upper else factor
    return _substitute(lower.mT, _substitute(lower, b, False, False), True, False)


# --- LU -------------------------------------------------------------------------------------------


def _lu(a: Tensor, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """L and U in one matrix, the row that each step swaps with (from 0), and the order of rows."""
    m, n = a.shape[-2:]
    rows, columns = torch.arange(m), torch.arange(n)
    order = rows.expand(*a.shape[:-2], m)
    swaps: list[Tensor] = []
    for k in range(min(m, n)):
        if pivot:
            size = torch.where(rows >= k, a[..., :, k].abs(), -1)
            chosen = size.argmax(-1, keepdim=True)
            swap = torch.where(rows == k, chosen, torch.where(rows == chosen, k, rows))
            a = torch.gather(a, -2, swap.unsqueeze(-1).expand(*a.shape))
            order = torch.gather(order, -1, swap)
            swaps.append(chosen)
        else:
            swaps.append(torch.full((*a.shape[:-2], 1), k, dtype=torch.int64))
        head = a[..., k : k + 1, k : k + 1]
        factor = a[..., :, k : k + 1] / torch.where(head == 0, 1, head)
        factor = torch.where((rows > k).unsqueeze(-1), factor, 0)
        row = torch.where(columns > k, a[..., k : k + 1, :], 0)
        at = (rows > k).unsqueeze(-1) & (columns == k)
        a = torch.where(at, factor, a - factor * row)
    if not swaps:
        return a.clone(), a.new_empty((*a.shape[:-2], 0), dtype=torch.int64), order
    return a, torch.cat(swaps, -1), order


def _info(lu: Tensor) -> Tensor:
    return _first(_diagonal(lu) == 0)


def _order(swaps: Tensor, n: int) -> Tensor:
    """Rows in the order in which the swaps of a factorisation put them."""
    rows = torch.arange(n)
    order = rows.expand(*swaps.shape[:-1], n)
    for k in range(swaps.shape[-1]):
        chosen = swaps[..., k : k + 1]
        swap = torch.where(rows == k, chosen, torch.where(rows == chosen, k, rows))
        order = torch.gather(order, -1, swap)
    return order


def _lu_solve(lu: Tensor, order: Tensor, b: Tensor) -> Tensor:
    lu, b = _broadcast(lu, b)
    places = order.unsqueeze(-1).expand(*b.shape[:-2], order.shape[-1], b.shape[-1])
    return _substitute(lu, _substitute(lu, torch.gather(b, -2, places), False, True), True, False)


def _lu_solve_transposed(lu: Tensor, order: Tensor, b: Tensor) -> Tensor:
    lu, b = _broadcast(lu, b)
    y = _substitute(lu.mT, _substitute(lu.mT, b, False, False), True, True)
    inverse = order.argsort(-1).unsqueeze(-1).expand(*b.shape[:-2], order.shape[-1], b.shape[-1])
    return torch.gather(y, -2, inverse)


@rewriting("aten.linalg_lu_factor_ex.default")
def lu_factor_ex(
    a: Tensor, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    if not _is_small(a):
        return NotImplemented
    lu, swaps, _ = _lu(a, pivot)
    return lu, (swaps + 1).to(torch.int32), _info(lu)


def _parts(lu: Tensor) -> tuple[Tensor, Tensor]:
    m, n = lu.shape[-2:]
    k = min(m, n)
    lower = torch.tril(lu[..., :, :k], -1) + torch.eye(m, k, dtype=lu.dtype)
    return lower, torch.triu(lu[..., :k, :])


def _permutation(order: Tensor, dtype: torch.dtype) -> Tensor:
    """P of A = P·L·U."""
    n = order.shape[-1]
    return (torch.arange(n).unsqueeze(-1) == order.unsqueeze(-2)).to(dtype)


@rewriting("aten.linalg_lu.default")
def lu_parts(a: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    if not _is_small(a):
        return NotImplemented
    lu, _, order = _lu(a, pivot)
    permutation = _permutation(order, a.dtype) if pivot else a.new_empty(0)
    return permutation, *_parts(lu)


@rewriting("aten.lu_unpack.default")
def lu_unpack(
    lu: Tensor, pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    if not _is_small(lu):
        return NotImplemented
    nothing = lu.new_empty(0)
    permutation = nothing
    if unpack_pivots:
        order = _order(pivots.to(torch.int64) - 1, lu.shape[-2])
        permutation = _permutation(order, lu.dtype)
    lower, upper = _parts(lu) if unpack_data else (nothing, nothing)
    return permutation, lower, upper


@rewriting("aten.linalg_lu_solve.default")
def lu_solve(
    lu: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    if not _is_small(lu):
        return NotImplemented
    order = _order(pivots.to(torch.int64) - 1, lu.shape[-1])
    solve = _lu_solve_transposed if adjoint == left else _lu_solve
    return solve(lu, order, b) if left else solve(lu, order, b.mT).mT


@rewriting("aten._linalg_solve_ex.default")
def solve_ex(
    a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if not _is_small(a):
        return NotImplemented
    lu, swaps, order = _lu(a)
    is_vector = b.dim() == 1 or (b.dim() == a.dim() - 1 and b.shape == a.shape[:-1])
    right = b.unsqueeze(-1) if is_vector else b
    if left or is_vector:
        x = _lu_solve(lu, order, right)
    else:  # Xᵀ of Aᵀ·Xᵀ = Bᵀ
        x = _lu_solve_transposed(lu, order, right.mT).mT
    x = x.squeeze(-1) if is_vector else x
    return x, lu, (swaps + 1).to(torch.int32), _info(lu)


@rewriting("aten.linalg_inv_ex.default")
def inv_ex(a: Tensor, *, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    if not _is_small(a):
        return NotImplemented
    lu, _, order = _lu(a)
    return _lu_solve(lu, order, _eye(a, a.shape[-1])), _info(lu)


def _is_turned(a: Tensor) -> bool:
    """Whether PyTorch factorises the transpose, on which the gradients of determinants rely."""
    return a.is_contiguous()


def _sign(swaps: Tensor, dtype: torch.dtype) -> Tensor:
    steps = torch.arange(swaps.shape[-1])
    return torch.where(swaps == steps, 1, -1).to(dtype).prod(-1)


@rewriting("aten._linalg_det.default")
def det(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if not _is_small(a):
        return NotImplemented
    lu, swaps, _ = _lu(a.mT if _is_turned(a) else a)
    result = _diagonal(lu).prod(-1) * _sign(swaps, a.dtype)
    return result, lu, (swaps + 1).to(torch.int32)


@rewriting("aten._linalg_slogdet.default")
def slogdet(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if not _is_small(a):
        return NotImplemented
    lu, swaps, _ = _lu(a.mT if _is_turned(a) else a)
    diagonal = _diagonal(lu)
    sign = torch.sign(diagonal).prod(-1) * _sign(swaps, a.dtype)
    return sign, diagonal.abs().log().sum(-1), lu, (swaps + 1).to(torch.int32)


# --- QR -------------------------------------------------------------------------------------------


@rewriting("aten.linalg_qr.default")
def qr(a: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """Householder's reflections, with LAPACK's signs."""
    if not _is_small(a):
        return NotImplemented
    m, n = a.shape[-2:]
    k = min(m, n)
    rows = torch.arange(m).unsqueeze(-1)
    q, r = _eye(a, m), a
    for j in range(min(m - 1, n)):
        column = torch.where(rows >= j, r[..., :, j : j + 1], 0)
        head = column[..., j : j + 1, :]
        norm = column.square().sum(-2, keepdim=True).sqrt()
        reflected = torch.where(head < 0, norm, -norm)
        vector = column - torch.where(rows == j, reflected, 0)
        length = vector.square().sum(-2, keepdim=True)
        scale = torch.where(length == 0, 0, 2 / torch.where(length == 0, 1, length))
        r = r - scale * (vector @ (vector.mT @ r))
        q = q - scale * ((q @ vector) @ vector.mT)
    if mode == "r":
        return a.new_empty(0), torch.triu(r[..., :k, :])
    if mode == "complete":
        return q, torch.triu(r)
    return q[..., :, :k], torch.triu(r[..., :k, :])


@rewriting("aten._linalg_check_errors.default")
def check_errors(info: Tensor, api_name: str, *, is_matrix: bool) -> None:
    """Nothing is raised while a program runs."""


# --- reflections ----------------------------------------------------------------------------------


def _product(a: Tensor, tau: Tensor) -> Tensor:
    """H₀·H₁·…, whose vectors are the columns of `a` below its diagonal."""
    m = a.shape[-2]
    rows = torch.arange(m).unsqueeze(-1)
    q = _eye(a, m)
    for j in range(tau.shape[-1]):
        vector = torch.where(rows > j, a[..., :, j : j + 1], (rows == j).to(a.dtype))
        q = q - tau[..., j : j + 1].unsqueeze(-1) * ((q @ vector) @ vector.mT)
    return q


@rewriting("aten.linalg_householder_product.default")
def householder_product(a: Tensor, tau: Tensor) -> Tensor:
    return _product(a, tau)[..., :, : a.shape[-1]] if _is_small(a) else NotImplemented


@rewriting("aten.ormqr.default")
def ormqr(
    a: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    if not _is_small(a):
        return NotImplemented
    q = _product(a, tau)
    q = q.mT if transpose else q
    return q @ other if left else other @ q


@rewriting("aten.geqrf.default")
def geqrf(a: Tensor) -> tuple[Tensor, Tensor]:
    if not _is_small(a):
        return NotImplemented
    m, n = a.shape[-2:]
    rows, columns = torch.arange(m).unsqueeze(-1), torch.arange(n)
    factors: list[Tensor] = []
    for j in range(min(m, n)):
        column = torch.where(rows >= j, a[..., :, j : j + 1], 0)
        head = column[..., j : j + 1, :]
        norm = column.square().sum(-2, keepdim=True).sqrt()
        below = torch.where(rows > j, column, 0)
        none = below.square().sum(-2, keepdim=True) == 0
        reflected = torch.where(head < 0, norm, -norm)
        vector = below / torch.where(none, 1, head - reflected)
        vector = vector + (rows == j).to(a.dtype)
        tau = torch.where(none, 0, (reflected - head) / torch.where(none, 1, reflected))
        turned = torch.where(columns >= j, a - tau * (vector @ (vector.mT @ a)), a)
        a = torch.where((rows > j) & (columns == j), vector, turned)
        factors.append(tau.squeeze(-1))
    return a, torch.cat(factors, -1) if factors else a.new_empty((*a.shape[:-2], 0))


# --- the exponential ------------------------------------------------------------------------------


@rewriting("aten.linalg_matrix_exp.default")
def matrix_exp(a: Tensor) -> Tensor:
    """Taylor's series of the matrix over a power of two, then as many squarings as that takes."""
    if not _is_small(a):
        return NotImplemented
    if a.shape[-1] == 0:
        return a.clone()
    norm = a.abs().sum(-2, keepdim=True).amax(-1, keepdim=True)
    halvings = torch.ceil(torch.log2(norm.clamp(min=0.5)) + 1).clamp(max=24)
    small = a / torch.exp2(halvings)
    term = total = _eye(a, a.shape[-1])
    for k in range(1, 14):
        term = term @ small / k
        total = total + term
    for k in range(24):
        total = torch.where(halvings > k, total @ total, total)
    return total
