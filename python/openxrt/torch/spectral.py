# SPDX-License-Identifier: Apache-2.0
"""Eigenvalues of symmetric matrices and singular values, by Jacobi's rotations.

One iteration of a Loop turns n/2 disjoint pairs of columns at once, in the order of a round-robin
tournament, so that after n − 1 of them every pair has met (Brent and Luk 1985). The loop ends when
no pair of a whole round needed a rotation. Singular values come from rotations of the columns alone
(Hestenes 1958), which gives small ones with high relative accuracy. The graph does not grow with
the matrix.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .._core import Unsupported
from .builder import Builder, Value
from .registry import lowering, rewriting
from .traced import repeated, traced

_SWEEPS = 30  # 6 to 10 are usual; only numbers that are not finite need more


def _pairings(n: int) -> list[int]:
    """Where each column comes from so that the pairs (0, 1), (2, 3), … are new ones."""
    half = n // 2
    order = [0] * n
    for i in range(1, half):
        order[2 * i] = 1 if i == 1 else 2 * (i - 1)
    for i in range(half - 1):
        order[2 * i + 1] = 2 * (i + 1) + 1
    order[n - 1] = n - 2 if half > 1 else 1
    return order


def _turned(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Neighbouring columns p and q as c·p − s·q and s·p + c·q."""
    pairs = x.unflatten(-1, (-1, 2))
    p, q = pairs[..., 0], pairs[..., 1]
    c, s = cosine.unsqueeze(-2), sine.unsqueeze(-2)
    return torch.stack([c * p - s * q, s * p + c * q], -1).flatten(-2)


def _rotation(difference: Tensor, product: Tensor, is_small: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the smaller angle that makes `product` vanish."""
    tau = difference / (2 * torch.where(is_small, 1, product))
    tangent = torch.where(tau < 0, -1.0, 1.0).to(tau.dtype) / (
        tau.abs() + torch.sqrt(1 + tau * tau)
    )
    tangent = torch.where(is_small, 0, tangent)
    cosine = torch.rsqrt(1 + tangent * tangent)
    return cosine, tangent * cosine


def _scale(x: Tensor) -> Tensor:
    """Of the largest element, or 1."""
    largest = x.abs().amax((-2, -1), keepdim=True)
    return torch.where(largest == 0, 1, largest)


def _eye(x: Tensor, n: int) -> Tensor:
    return torch.eye(n, dtype=x.dtype).expand(*x.shape[:-2], n, n).clone()


def _counters() -> tuple[Tensor, Tensor]:
    """Rotations so far, and how many since the last that did anything."""
    return torch.zeros([], dtype=torch.int64), torch.zeros([], dtype=torch.int64)


def _goes_on(n: int, done: Tensor, idle: Tensor) -> Tensor:
    return (idle < n - 1) & (done < _SWEEPS * (n - 1))


def _sizes(a: Value, what: str) -> tuple[int, int]:
    if a.dtype.is_complex:
        raise Unsupported(f"{what} of complex matrices")
    m, n = a.static_shape(what)[-2:]
    return m, n


# --- eigenvalues ----------------------------------------------------------------------------------


@lowering("aten._linalg_eigh.default")
def eigh(b: Builder, a: Value, uplo: str = "L", compute_v: bool = True) -> list[Value]:
    """Eigenvalues in ascending order, and vectors."""
    _, n = _sizes(a, "eigenvalues")
    shape = a.static_shape("eigenvalues")
    if 0 in shape:
        vectors = shape if compute_v else [0]
        return traced(b, lambda x: (x.new_zeros(shape[:-1]), x.new_zeros(vectors)), a)
    width = max(2, n + n % 2)
    order = _pairings(width)
    eps = torch.finfo(a.dtype).eps

    def start(x: Tensor) -> tuple[Tensor, ...]:
        part = torch.triu(x) if uplo.upper() == "U" else torch.tril(x)
        whole = part + part.mT - torch.diag_embed(x.diagonal(dim1=-2, dim2=-1))
        scale = _scale(whole)
        whole = torch.nn.functional.pad(whole / scale, (0, width - n, 0, width - n))
        size = whole.square().sum((-2, -1)).sqrt().unsqueeze(-1)
        return *_counters(), whole, _eye(x, width), size, scale

    def goes_on(done: Tensor, idle: Tensor, *_: Tensor) -> Tensor:
        return _goes_on(width, done, idle)

    def step(
        done: Tensor, idle: Tensor, x: Tensor, vectors: Tensor, size: Tensor
    ) -> tuple[Tensor, ...]:
        ends = x.diagonal(dim1=-2, dim2=-1).unflatten(-1, (-1, 2))
        beside = x.diagonal(1, dim1=-2, dim2=-1)[..., ::2]
        is_small = ~(beside.abs() > eps * size)
        cosine, sine = _rotation(ends[..., 1] - ends[..., 0], beside, is_small)
        x = _turned(_turned(x, cosine, sine).mT, cosine, sine).mT
        places = torch.tensor(order)
        x = x.index_select(-1, places).index_select(-2, places)
        vectors = _turned(vectors, cosine, sine).index_select(-1, places)
        idle = torch.where(is_small.all(), idle + 1, 0)
        return done + 1, idle, x, vectors

    def finish(x: Tensor, vectors: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        values = x.diagonal(dim1=-2, dim2=-1)
        # The column that was added is last.
        key = values if width == n else torch.where(vectors[..., n, :] != 0, torch.inf, values)
        places = key.argsort(-1)[..., :n]
        values = values.gather(-1, places) * scale.squeeze(-1)
        columns = places.unsqueeze(-2).expand(*vectors.shape[:-2], n, n)
        return values, vectors[..., :n, :].gather(-1, columns)

    *carried, size, scale = traced(b, start, a)
    _, _, x, vectors = repeated(b, goes_on, step, carried, [size])
    values, vectors = traced(b, finish, x, vectors, scale)
    return [values, vectors if compute_v else traced(b, lambda t: t.new_empty(0), a)[0]]


# --- singular values ------------------------------------------------------------------------------


def _orthonormal(b: Builder, a: Value, width: int) -> Value:
    """`width` columns of Q of A = Q·R by Householder's reflections, with R's diagonal positive."""
    m, n = a.static_shape("a QR factorisation")[-2:]

    def start(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return torch.zeros([], dtype=torch.int64), _eye(x, m), x.clone()

    def goes_on(j: Tensor, *_: Tensor) -> Tensor:
        return j < min(m - 1, n)

    def step(j: Tensor, q: Tensor, r: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows = torch.arange(m).unsqueeze(-1)
        column = torch.where(rows >= j, r.index_select(-1, j.reshape(1)), 0)
        head = column.index_select(-2, j.reshape(1))
        norm = column.square().sum(-2, keepdim=True).sqrt()
        vector = column - torch.where(rows == j, torch.where(head < 0, norm, -norm), 0)
        length = vector.square().sum(-2, keepdim=True)
        factor = torch.where(length == 0, 0, 2 / torch.where(length == 0, 1, length))
        r = r - factor * (vector @ (vector.mT @ r))
        q = q - factor * ((q @ vector) @ vector.mT)
        return j + 1, q, r

    def finish(q: Tensor, r: Tensor) -> Tensor:
        signs = torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).to(r.dtype)
        rest = torch.ones(*signs.shape[:-1], m - signs.shape[-1], dtype=r.dtype)
        return (q * torch.cat([signs, rest], -1).unsqueeze(-2))[..., :width]

    carried = traced(b, start, a)
    _, q, r = repeated(b, goes_on, step, carried)
    return traced(b, finish, q, r)[0]


def _svd_of_nothing(b: Builder, a: Value, full_matrices: bool, compute_uv: bool) -> list[Value]:
    *batch, rows, columns = a.static_shape("singular values")
    n = min(rows, columns)

    def whole(x: Tensor) -> tuple[Tensor, ...]:
        values = x.new_zeros([*batch, n])
        if not compute_uv:
            return x.new_empty(0), values, x.new_empty(0)
        u = torch.eye(rows, rows if full_matrices else n, dtype=x.dtype)
        vt = torch.eye(columns if full_matrices else n, columns, dtype=x.dtype)
        return u.expand(*batch, *u.shape).clone(), values, vt.expand(*batch, *vt.shape).clone()

    return traced(b, whole, a)


@lowering("aten._linalg_svd.default")
def svd(
    b: Builder,
    a: Value,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> list[Value]:
    """U, the singular values in descending order, and Vᵀ."""
    rows, columns = _sizes(a, "singular values")
    m, n = max(rows, columns), min(rows, columns)
    if 0 in a.static_shape("singular values"):
        return _svd_of_nothing(b, a, full_matrices, compute_uv)
    is_wide = rows < columns
    width = max(2, n + n % 2)
    order = _pairings(width)
    enough = 2 * torch.finfo(a.dtype).eps * m**0.5

    def start(x: Tensor) -> tuple[Tensor, ...]:
        scale = _scale(x)
        tall = (x.mT if is_wide else x) / scale
        tall = torch.nn.functional.pad(tall, (0, width - n))
        return *_counters(), tall, _eye(x, width), scale

    def goes_on(done: Tensor, idle: Tensor, *_: Tensor) -> Tensor:
        return _goes_on(width, done, idle)

    def step(done: Tensor, idle: Tensor, x: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        pairs = x.unflatten(-1, (-1, 2))
        p, q = pairs[..., 0], pairs[..., 1]
        product = (p * q).sum(-2)
        p2, q2 = p.square().sum(-2), q.square().sum(-2)
        is_small = ~(product.abs() > enough * (p2.sqrt() * q2.sqrt()))
        cosine, sine = _rotation(q2 - p2, product, is_small)
        places = torch.tensor(order)
        x = _turned(x, cosine, sine).index_select(-1, places)
        v = _turned(v, cosine, sine).index_select(-1, places)
        return done + 1, torch.where(is_small.all(), idle + 1, 0), x, v

    def finish(x: Tensor, v: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        norms = x.square().sum(-2).sqrt()
        # The column that was added is last.
        key = norms if width == n else torch.where(v[..., n, :] != 0, -1, norms)
        places = key.argsort(-1, descending=True)[..., :n]
        at = places.unsqueeze(-2)
        x = x.gather(-1, at.expand(*x.shape[:-1], n))
        v = v[..., :n, :].gather(-1, at.expand(*v.shape[:-2], n, n))
        return x, norms.gather(-1, places) * scale.squeeze(-1), v

    *carried, scale = traced(b, start, a)
    _, _, x, v = repeated(b, goes_on, step, carried)
    x, values, v = traced(b, finish, x, v, scale)
    if not compute_uv:
        nothing = traced(b, lambda t: t.new_empty(0), a)[0]
        return [nothing, values, nothing]
    # Columns that belong to singular values of 0 are whatever completes the others.
    u = _orthonormal(b, x, m if full_matrices else n)
    left, right = (v, u) if is_wide else (u, v)
    return [left, values, traced(b, lambda t: t.mT.contiguous(), right)[0]]


@rewriting("aten.linalg_pinv.atol_rtol_tensor")
def pinv(
    a: Tensor,
    *,
    atol: Tensor | None = None,
    rtol: Tensor | None = None,
    hermitian: bool = False,
) -> Tensor:
    """The pseudo-inverse, without values below the larger one of two limits."""
    if a.is_complex():
        return NotImplemented
    if a.numel() == 0:
        return a.new_empty((*a.shape[:-2], a.shape[-1], a.shape[-2]))
    usual = torch.finfo(a.dtype).eps * max(a.shape[-2:])
    absolute = torch.zeros([]) if atol is None else atol
    if rtol is not None:
        relative = rtol
    elif atol is None:
        relative = torch.full([], usual)
    else:
        relative = torch.where(atol > 0, 0.0, usual)

    def inverted(values: Tensor) -> Tensor:
        largest = values.abs().amax(-1, keepdim=True)
        limit = torch.maximum(absolute.unsqueeze(-1), relative.unsqueeze(-1) * largest)
        kept = values.abs() > limit
        return torch.where(kept, 1 / torch.where(kept, values, 1), 0).to(a.dtype)

    if hermitian:
        values, vectors = torch.linalg.eigh(a)
        return vectors @ (inverted(values).unsqueeze(-1) * vectors.mT)
    u, values, vt = torch.linalg.svd(a, full_matrices=False)
    return vt.mT @ (inverted(values).unsqueeze(-1) * u.mT)
