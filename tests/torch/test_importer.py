# SPDX-License-Identifier: Apache-2.0
"""ATen ops through the importer, judged by PyTorch itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import openxrt
import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import unknown_op  # noqa: E402, F401
from openxrt import torch as xt  # noqa: E402


class Function(torch.nn.Module):
    """A function as a module, which is what torch.export takes."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> object:
        return self.function(*inputs)


class FirstOf(torch.nn.Module):
    """The first result of a module."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)[0]


def run(function: Callable[..., object], *inputs: torch.Tensor, **options: object) -> list:
    module = function if isinstance(function, torch.nn.Module) else Function(function)
    exported = torch.export.export(module.eval(), inputs, **options)
    imported = xt.import_exported(exported)
    program = openxrt.load(imported.graph, engine="native")
    outputs = list(program.run(dict(zip(names_of(program), inputs, strict=True))).values())
    return [outputs[r.output] if r.output >= 0 else r.known for r in imported.results]


def names_of(program: openxrt.Program) -> list[str]:
    return [port.name for port in program.inputs]


def check(function: Callable[..., object], *inputs: torch.Tensor, tolerance: float = 1e-5) -> None:
    expected = function(*inputs)
    if not isinstance(expected, (list, tuple)):
        expected = [expected]
    for actual, wanted in zip(run(function, *inputs), expected, strict=True):
        wanted = wanted.detach()
        assert actual.shape == tuple(wanted.shape)
        if wanted.dtype == torch.bfloat16:
            wanted = wanted.float()
        assert str(actual.dtype) in (str(wanted.numpy().dtype), "bfloat16")
        np.testing.assert_allclose(
            actual.astype(wanted.numpy().dtype), wanted.numpy(), rtol=tolerance, atol=tolerance
        )


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X, Y, P = rand(3, 4), rand(3, 4, seed=1), rand(3, 4).abs() + 0.1
IMAGE = rand(2, 3, 8, 10)
INTS = torch.tensor([[-7, -3, 0], [2, 5, 7]])
DIVISORS = torch.tensor([[2, -2, 3], [-3, 4, -4]])

POINTWISE = {
    "abs": (torch.abs, X),
    "acos": (torch.acos, X.clamp(-1, 1)),
    "acosh": (torch.acosh, P + 1),
    "add alpha": (lambda x, y: torch.add(x, y, alpha=2), X, Y),
    "add int float": (lambda x, y: x + y, INTS, rand(2, 3)),
    "add number": (lambda x: x + 1.5, INTS),
    "and": (torch.logical_and, INTS, DIVISORS),
    "atan2": (torch.atan2, X, Y),
    "atan2 axes": (torch.atan2, torch.tensor([1.0, -1, 0, 0]), torch.tensor([0.0, 0, 1, -1])),
    "atanh": (torch.atanh, X / 10),
    "bitwise": (lambda x, y: (x & y) | (x ^ 3) | ~y, INTS, DIVISORS),
    "ceil": (torch.ceil, X * 3),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), X),
    "clamp tensors": (lambda x, y: torch.clamp(x, y, y + 1), X, Y),
    "compare": (lambda x, y: ((x < y) | (x >= 0), x != y), X, Y),
    "div floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), INTS, DIVISORS),
    "div floor floats": (lambda x, y: torch.div(x, y, rounding_mode="floor"), X, Y),
    "div ints": (lambda x, y: x / y, INTS, DIVISORS),
    "div trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), INTS, DIVISORS),
    "elu": (lambda x: F.elu(x, 0.7), X),
    "erf": (torch.erf, X),
    "expm1": (torch.expm1, X * 1e-3),
    "floor": (torch.floor, X * 3),
    "fmod": (torch.fmod, INTS, DIVISORS),
    "gelu": (F.gelu, X),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), X),
    "hardsigmoid": (F.hardsigmoid, X * 4),
    "hardswish": (F.hardswish, X * 4),
    "hardtanh": (F.hardtanh, X),
    "isinf isnan": (
        lambda x: (torch.isinf(x), torch.isnan(x), torch.isfinite(x)),
        torch.tensor([0.0, float("inf"), float("nan"), -float("inf")]),
    ),
    "leaky relu": (lambda x: F.leaky_relu(x, 0.2), X),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3), X, Y),
    "log": (torch.log, P),
    "log10 log2": (lambda x: (torch.log10(x), torch.log2(x)), P),
    "log1p": (torch.log1p, X * 1e-4),
    "logical not": (torch.logical_not, INTS),
    "mish": (F.mish, X),
    "pow": (lambda x: (x**2, x**0.5, x**-1, x**2.5, 2**x), P),
    "pow tensors": (torch.pow, P, Y),
    "reciprocal ints": (torch.reciprocal, DIVISORS),
    "relu6": (F.relu6, X * 5),
    "remainder": (torch.remainder, INTS, DIVISORS),
    "remainder floats": (torch.remainder, X, Y),
    "round": (torch.round, torch.tensor([0.5, 1.5, 2.5, -0.5])),
    "rsqrt": (torch.rsqrt, P),
    "rsub": (lambda x: 3 - x, X),
    "selu": (F.selu, X),
    "sigmoid": (torch.sigmoid, X),
    "sign": (torch.sign, X),
    "silu": (F.silu, X),
    "softplus": (lambda x: F.softplus(x, 2.0, 5.0), X * 4),
    "sqrt of ints": (torch.sqrt, INTS.abs()),
    "tan sinh cosh": (lambda x: (torch.tan(x), torch.sinh(x), torch.cosh(x)), X),
    "to": (lambda x: (x.to(torch.int32), x.to(torch.float64), x.bool()), X),
    "trunc": (torch.trunc, X * 3),
    "where": (lambda x, y: torch.where(x > 0, x, y), X, Y),
    "bfloat16": (lambda x: (x.bfloat16() * 2).float(), X),
}

REDUCTIONS = {
    "amax": (lambda x: (x.amax(1), x.amin((0, 1), keepdim=True)), X),
    "any all": (lambda x: ((x > 1).any(), (x > 1).any(1), (x > -9).all(0)), X),
    "argmax": (lambda x: (x.argmax(), x.argmax(1), x.argmin(0, keepdim=True)), X),
    "cumsum": (lambda x: (x.cumsum(1), x.cumsum(0)), X),
    "cumprod": (lambda x: x.cumprod(1), X),
    "logsumexp": (lambda x: torch.logsumexp(x, 1), X),
    "max dim": (lambda x: (*x.max(1), *x.min(0, keepdim=True)), X),
    "mean": (lambda x: (x.mean(), x.mean((0, 2)), x.mean(-1, keepdim=True)), IMAGE),
    "norm": (lambda x: (x.norm(dim=1), x.norm(p=1), x.norm(p=3, dim=0)), X),
    "prod": (lambda x: (x.prod(), x.prod(1)), X),
    "softmax": (lambda x: (x.softmax(-1), x.log_softmax(0)), X),
    "sort": (lambda x: (*x.sort(), *x.sort(0, descending=True)), X),
    "std var": (lambda x: (x.std(), x.var(1), x.var(0, correction=0)), X),
    "sum": (lambda x: (x.sum(), x.sum(1), x.sum((0, 1), keepdim=True)), X),
    "sum of ints": (lambda x: (x.sum(), (x > 0).sum(1)), INTS),
    "topk": (lambda x: (*x.topk(2), *x.topk(1, 0, largest=False)), X),
    "cdist": (lambda x, y: torch.cdist(x, y, p=1.0), X, Y),
}

SHAPES = {
    "cat stack": (lambda x, y: (torch.cat([x, y], 1), torch.stack([x, y], 1)), X, Y),
    "chunk split": (lambda x: (*x.chunk(2, 1), *x.split([1, 3], 1), *x.unbind(0)), X),
    "diagonal": (lambda x: (x.diagonal(), x.diagonal(1, 1, 2)), rand(4, 5, 6)),
    "expand": (lambda x: x[:, None].expand(-1, 5, 4), X),
    "flip roll": (lambda x: (x.flip(0, 1), x.roll(1, 0), x.roll((1, -1), (0, 1))), X),
    "interpolate": (
        lambda x: (
            F.interpolate(x, scale_factor=2.0, mode="bilinear"),
            F.interpolate(x, size=(5, 7), mode="nearest"),
            F.interpolate(x, size=(16, 20), mode="bilinear", align_corners=True),
            F.interpolate(x, size=(16, 20), mode="bicubic"),
        ),
        IMAGE,
    ),
    "narrow select": (lambda x: (x.narrow(1, 1, 2), x.select(0, -1), x[..., 1:3], x[1]), X),
    "pad": (
        lambda x: (
            F.pad(x, (1, 2, 0, 3), value=7.0),
            F.pad(x, (1, 2, 3, 1), mode="reflect"),
            F.pad(x, (1, 2, 3, 1), mode="replicate"),
            F.pad(x, (-1, 2)),
        ),
        IMAGE,
    ),
    "pixel shuffle": (lambda x: F.pixel_shuffle(x, 2), rand(1, 8, 3, 3)),
    "repeat": (lambda x: x.repeat(2, 1, 3), X),
    "squeeze": (lambda x: (x.unsqueeze(1).squeeze(), x.unsqueeze(0).squeeze(0)), X),
    "transpose": (lambda x: (x.t(), x.permute(1, 0)), X),
    "tril triu": (lambda x: (x.tril(1), x.triu(-1)), X),
    "unfold fold": (
        lambda x: (
            F.unfold(x, 3, padding=1, stride=2),
            F.fold(F.unfold(x, 2), (8, 10), 2),
        ),
        IMAGE,
    ),
    "view": (lambda x: (x.view(-1), x.reshape(2, 6), x.flatten()), X),
    "step slice": (lambda x: x[:, ::2], X),
    "grid sample": (
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        IMAGE,
        rand(2, 4, 5, 2).tanh(),
    ),
}

INDICES = torch.tensor([2, 0, 1, 2])


def _written(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, i] = torch.arange(8.0).reshape(2, 4)[:, None]
    return y


INDEXING = {
    "embedding": (lambda w, i: F.embedding(i, w), X, INDICES),
    "gather": (lambda x, i: x.gather(1, i), X, torch.tensor([[0, 3], [1, 1], [2, 0]])),
    "index": (lambda x, i: (x[i], x[i, i], x[:, i], x[i, None, i]), X, INDICES),
    "index adjacent": (lambda x, i: x[:, i, i - 1], rand(2, 3, 4), torch.tensor([[1, 2], [0, 1]])),
    "index apart": (lambda x, i: x[i, :, i], rand(3, 2, 4), torch.tensor([0, 2])),
    "index mask": (lambda x: x[x > 0], X),
    "index put": (lambda x, i: torch.index_put(x, (i,), torch.ones(4)), X, torch.tensor([0, 2])),
    "index put accumulate": (
        lambda x, i: torch.index_put(x, (i, i), torch.ones(4), accumulate=True),
        X,
        INDICES,
    ),
    "index put middle": (
        lambda x, i: _written(x, i),
        rand(2, 3, 4),
        torch.tensor([0, 2]),
    ),
    "index select": (lambda x, i: x.index_select(0, i), X, INDICES),
    "masked fill": (lambda x: x.masked_fill(x > 0, -1.0), X),
    "masked scatter": (lambda x, y: x.masked_scatter(x > 0, y), X, Y),
    "masked scatter of nothing": (lambda x, y: x.masked_scatter(x > 9, y), X, torch.zeros(0, 4)),
    "nonzero": (torch.nonzero, INTS),
    "scatter": (
        lambda x, i, y: (x.scatter(1, i, y), x.scatter(1, i, 5.0), x.scatter_add(1, i, y)),
        X,
        torch.tensor([[0, 3], [1, 1], [2, 0]]),
        Y,
    ),
    "scatter reduce": (
        lambda x, i, y: (
            x.scatter_reduce(1, i, y, "amax"),
            x.scatter_reduce(1, i, y, "sum", include_self=False),
            x.scatter_reduce(1, i, y, "prod"),
        ),
        X,
        torch.tensor([[0, 3], [1, 2], [2, 0]]),
        Y,
    ),
    "select scatter": (lambda x, y: torch.select_scatter(x, y[0], 0, -1), X, Y),
    "slice scatter": (lambda x, y: torch.slice_scatter(x, y[:, :2], 1, 0, 4, 2), X, Y),
    "take along": (lambda x: torch.take_along_dim(x, x.argsort(1), 1), X),
}

LAYERS = {
    "linear": (torch.nn.Linear(4, 5), X),
    "addmm": (lambda x, y: torch.addmm(x[:, :3], x, y.t(), beta=0.5, alpha=2.0), X, Y),
    "bmm": (torch.bmm, rand(2, 3, 4), rand(2, 4, 5)),
    "matmul ranks": (lambda x, y: (x @ y, x[0, 0] @ y, x @ y[:, 0]), rand(2, 3, 4), rand(4, 5)),
    "einsum": (lambda x, y: torch.einsum("bij,jk->bik", x, y), rand(2, 3, 4), rand(4, 5)),
    "conv1d": (torch.nn.Conv1d(3, 4, 3, stride=2), rand(2, 3, 9)),
    "conv2d": (torch.nn.Conv2d(3, 6, 3, padding=(1, 2), dilation=2, groups=3), IMAGE),
    "conv2d unbatched": (torch.nn.Conv2d(3, 6, 3, bias=False), IMAGE[0]),
    "conv3d": (torch.nn.Conv3d(2, 4, 2), rand(1, 2, 4, 4, 4)),
    "conv transpose": (
        torch.nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1),
        IMAGE,
    ),
    "batch norm": (torch.nn.BatchNorm2d(3), IMAGE),
    "layer norm": (torch.nn.LayerNorm([8, 10]), IMAGE),
    "layer norm plain": (torch.nn.LayerNorm(10, elementwise_affine=False), IMAGE),
    "rms norm": (torch.nn.RMSNorm(10), IMAGE),
    "group norm": (torch.nn.GroupNorm(3, 6), rand(2, 6, 5, 5)),
    "instance norm": (torch.nn.InstanceNorm2d(3), IMAGE),
    "prelu": (torch.nn.PReLU(3), IMAGE),
    "max pool": (
        lambda x: (F.max_pool2d(x, 3, 2, 1), *F.max_pool2d(x, 2, return_indices=True)),
        IMAGE,
    ),
    "max pool ceil": (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), IMAGE),
    "average pool": (
        lambda x: (
            F.avg_pool2d(x, 2),
            F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            F.avg_pool2d(x, 3, 2, 1, divisor_override=4),
        ),
        IMAGE,
    ),
    "adaptive": (
        lambda x: (
            F.adaptive_avg_pool2d(x, 1),
            F.adaptive_avg_pool2d(x, (4, 5)),
            F.adaptive_avg_pool2d(x, (3, 7)),
        ),
        IMAGE,
    ),
    "adaptive max": (lambda x: F.adaptive_max_pool2d(x, (4, 5)), IMAGE),
    "attention": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True),
        rand(2, 2, 6, 8),
        rand(2, 2, 6, 8, seed=1),
    ),
    "encoder layer": (torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), rand(2, 5, 8)),
    "lstm": (FirstOf(torch.nn.LSTM(4, 6)), rand(5, 2, 4)),
    "gru": (FirstOf(torch.nn.GRU(4, 6)), rand(5, 2, 4)),
    "embedding bag": (
        torch.nn.EmbeddingBag(10, 3, mode="mean"),
        torch.tensor([[1, 2, 4], [4, 3, 9]]),
    ),
    "creation": (
        lambda x: (
            torch.zeros(2, 3),
            torch.full_like(x, 3.0),
            x.new_ones(2),
            torch.arange(0, 5, 2),
            torch.eye(3),
            torch.linspace(0, 1, 5),
        ),
        X,
    ),
}

SQUARE = rand(2, 5, 5) + 3 * torch.eye(5)
POSITIVE = SQUARE @ SQUARE.mT
REPEATED = torch.tensor([3, 1, 1, 2, 3, 3, 0])

# What PyTorch has no Core ATen form of, rewritten in ops that have one.
REWRITTEN = {
    "gamma": (lambda x: (torch.lgamma(x), torch.digamma(x), torch.polygamma(1, x)), P * 4 - 1),
    "erfinv": (lambda x: (torch.erfinv(x), torch.special.ndtri((x + 1) / 2)), X.tanh()),
    "bessel": (lambda x: (torch.i0(x), torch.special.i1e(x)), X * 4),
    "combinations": (
        lambda x: (
            *(torch.combinations(x, r) for r in (1, 2, 3, 6)),
            *(torch.combinations(x, r, with_replacement=True) for r in (1, 2, 3)),
        ),
        rand(5),
    ),
    "median": (lambda x: (x.median(), *x.median(1), *x.nanmedian(0)), X),
    "mode": (lambda x: tuple(x.mode(1)), torch.tensor([[1.0, 2, 2, 1], [5, 4, 3, 3]])),
    "running extrema": (lambda x: (*x.cummax(1), *x.cummin(0), x.logcumsumexp(1)), X),
    "histograms": (lambda x: (torch.histc(x, 5), *torch.histogram(x, 4, range=(-1, 1))), X),
    "index reduce": (
        lambda x, i, y: (
            x.index_reduce(0, i, y, "mean"),
            x.index_reduce(0, i, y, "amax", include_self=False),
        ),
        X,
        torch.tensor([1, 1, 0]),
        Y,
    ),
    "resize antialiased": (
        lambda x: F.interpolate(x, size=(3, 14), mode="bilinear", antialias=True),
        IMAGE,
    ),
    "solve": (lambda a, b: (torch.linalg.solve(a, b), torch.linalg.inv(a)), SQUARE, rand(2, 5, 3)),
    "factors": (lambda a: (*torch.linalg.qr(a), *torch.linalg.lu(a)), SQUARE),
    "matrix exponential": (lambda a: torch.linalg.matrix_exp(a), SQUARE),
    "reflections": (lambda a: torch.linalg.householder_product(*torch.geqrf(a)), SQUARE),
    "divisors": (lambda x, y: (torch.gcd(x, y), torch.lcm(x, y)), INTS, DIVISORS),
    "segments": (
        lambda x, n: torch.segment_reduce(x, "mean", lengths=n),
        X,
        torch.tensor([2, 0, 1]),
    ),
    "average pool of windows that stick out": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=5),
        IMAGE,
    ),
    "adaptive max of unequal windows": (
        lambda x: F.adaptive_max_pool2d(x, (3, 7), return_indices=True),
        IMAGE,
    ),
    "no diagonal": (lambda x: x.diagonal(5).sum(), X),
    "cholesky": (lambda a: torch.linalg.cholesky(a), POSITIVE),
    "determinant": (lambda a: (torch.linalg.det(a), *torch.linalg.slogdet(a)), SQUARE),
    "margins between labels, and what follows the last one": (
        lambda x, y: (
            *(F.multilabel_margin_loss(x, y, reduction=how) for how in ("none", "sum", "mean")),
            F.multilabel_margin_loss(x[0], y[0]),
        ),
        rand(4, 4),
        torch.tensor([[3, 0, -1, 1], [2, -1, -1, -1], [0, 1, 3, 2], [-1, 2, 0, 1]]),
    ),
    "signals from spectra": (
        lambda x, window: (
            torch.istft(torch.view_as_complex(x), 8, 2, window=window),
            torch.istft(torch.view_as_complex(x)[0], 8, 3, 8, window, length=9),
            torch.istft(torch.view_as_complex(x), 8, 2, 6, window[1:7], normalized=True),
            torch.istft(torch.view_as_complex(x), 8, 4, length=40),
            torch.istft(torch.view_as_complex(x), 8, center=False),
            torch.istft(torch.view_as_complex(x)[:, [0, 1, 2, 3, 4, 3, 2, 1]], 8, onesided=False),
        ),
        rand(2, 5, 7, 2),
        torch.hann_window(8) + 0.1,
    ),
}

# The size of the result depends on data.
SIZED_BY_DATA = {
    "unique": (lambda x: torch.unique(x, return_inverse=True, return_counts=True), REPEATED),
    "unique rows": (lambda x: torch.unique(x, dim=0), torch.tensor([[1, 2], [0, 1], [1, 2]])),
    "unique consecutive": (
        lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
        REPEATED,
    ),
    "bincount": (lambda x: torch.bincount(x, minlength=2), REPEATED),
    "bincount of weights": (lambda x: torch.bincount(x, x * 0.5), REPEATED),
    "repeat interleave": (lambda x, n: x.repeat_interleave(n, 0), X, torch.tensor([2, 0, 3])),
    "unique consecutive rows": (
        lambda x: torch.unique_consecutive(x, dim=1, return_counts=True),
        torch.tensor([[1, 1, 2], [0, 0, 0]]),
    ),
    "a number out of a tensor": (lambda x, n: x * n[0].item() + n[1].item(), X, INDICES),
    "masked select": (lambda x: x.masked_select(x > 0), X),
    "argwhere": (lambda x: torch.argwhere(x > 0), X),
    "nonzero static": (lambda x: torch.nonzero_static(x > 0, size=20), X),
}

CASES = {**REWRITTEN, **SIZED_BY_DATA, **POINTWISE, **REDUCTIONS, **SHAPES, **INDEXING, **LAYERS}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_pytorch(name: str) -> None:
    if name == "bincount of weights" and torch.__version__ < "2.13":
        pytest.skip("this PyTorch says int64 of its float result")
    function, *inputs = CASES[name]
    if isinstance(function, torch.nn.Module):
        function = function.eval()
    check(function, *inputs)


@pytest.mark.skipif("xla" not in openxrt.engines(), reason="no engine xla")
def test_a_gather_that_reads_nothing_on_xla() -> None:
    exported = torch.export.export(Function(lambda x: x.diagonal().prod(-1)), (rand(0, 0, 2),))
    program = openxrt.load(xt.import_exported(exported).graph, engine="xla", strict=True)
    np.testing.assert_array_equal(program(rand(0, 0, 2)), np.ones(2, np.float32))


@pytest.mark.parametrize("engine", ["native", "xla"])
def test_the_first_of_equals_is_found_and_a_number_is_no_match_for_nan(engine: str) -> None:
    def places(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pooled = F.max_pool2d(x, 3, 2, return_indices=True)[1]
        return x.argmax(-1), x.argmin(-1), pooled

    x = torch.randint(0, 3, (2, 3, 9, 9), generator=torch.Generator().manual_seed(0)).float()
    x[0, 0, 0, 4] = x[0, 0, 3, 5] = torch.nan
    found = torch.compile(places, backend="openxrt", options={"engine": engine})(x)
    for actual, expected in zip(found, places(x), strict=True):
        torch.testing.assert_close(actual, expected)


def test_symbolic_batch_serves_every_size() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Flatten())
    batch = torch.export.Dim("batch", min=2)
    exported = torch.export.export(module.eval(), (rand(3, 4),), dynamic_shapes=({0: batch},))
    imported = xt.import_exported(exported)
    program = openxrt.load(imported.graph, engine="native")
    assert isinstance(program.inputs[0].shape[0], str)
    for size in (2, 5, 9):
        x = rand(size, 4)
        np.testing.assert_allclose(program(x), module(x).detach().numpy(), atol=1e-6)


def test_sizes_in_arithmetic() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        return x.reshape(n * 2, 2)[: n + 1].sum(0) / n

    exported = torch.export.export(
        Function(function), (rand(3, 4),), dynamic_shapes=(({0: torch.export.Dim("n", min=2)},),)
    )
    program = openxrt.load(xt.import_exported(exported).graph, engine="native")
    for size in (2, 3, 8):
        x = rand(size, 4)
        np.testing.assert_allclose(program(x), function(x).numpy(), rtol=1e-5)


def test_written_buffer_becomes_an_alias() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(x)
            return self.count * 2

    imported = xt.import_exported(torch.export.export(Counter(), (torch.ones(2),)))
    assert imported.inputs == ["count", 0]
    program = openxrt.load(imported.graph, engine="native", aliases=imported.aliases)
    count = torch.zeros(2)
    for step in range(1, 4):
        outputs = program(count, torch.ones(2))
        assert count.tolist() == [step, step]
        assert outputs[imported.results[0].output].tolist() == [2 * step, 2 * step]


def test_state_as_inputs_shares_no_copy() -> None:
    module = torch.nn.Linear(3, 2)
    exported = torch.export.export(module, (torch.ones(1, 3),))
    imported = xt.import_exported(exported, state_as_inputs=True)
    assert imported.inputs == ["weight", "bias", 0]


def test_constants_share_memory() -> None:
    weight = torch.ones(4, 4)
    graph = openxrt.Graph("shared")
    x = graph.add_input("x", "float32", [1, 4])
    w = graph.add_constant(weight, "float32", "w")
    graph.add_output(graph.add_node("MatMul", [x, w], ["y"])[0])
    weight.fill_(2)  # before anything was compiled
    assert openxrt.load(graph, engine="native")(torch.ones(1, 4)).tolist() == [[8, 8, 8, 8]]


def test_unsupported_op_names_the_source_line() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.openxrt_tests.unheard(x)

    exported = torch.export.export(Function(function), (X,))
    with pytest.raises(openxrt.Unsupported, match=r"unheard.*test_importer\.py:\d+"):
        xt.import_exported(exported)


def test_a_second_lowering_is_refused() -> None:
    with pytest.raises(openxrt.InvalidArgument, match=r"aten\.add\.Tensor"):
        xt.lowering("aten.add.Tensor")(lambda b, x: x)


def test_a_lowering_of_ones_own_wins_over_a_rewrite(monkeypatch: pytest.MonkeyPatch) -> None:
    from openxrt.torch import registry

    for table in ("_lowerings", "_rewrites"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))

    @xt.lowering("aten.erfinv.default")
    def erfinv(b, x):
        return b.op("Neg", x, shape=x.shape)

    check_is_negated = run(torch.erfinv, X.tanh())[0]
    np.testing.assert_allclose(check_is_negated, -X.tanh().numpy())


def test_a_lowering_to_an_op_of_ones_own_gets_types(monkeypatch: pytest.MonkeyPatch) -> None:
    from openxrt.torch import registry

    monkeypatch.setattr(registry, "_lowerings", dict(registry._lowerings))

    @openxrt.op("test.importer", "Erfinv")
    def kernel(x: np.ndarray) -> np.ndarray:
        return torch.erfinv(torch.tensor(x)).numpy()

    @xt.lowering("aten.erfinv.default")
    def erfinv(b, x):
        return b.op("Erfinv", x, domain="test.importer")

    x = X.tanh()
    exported = torch.export.export(Function(lambda x: -torch.erfinv(x)), (x,))
    program = openxrt.load(xt.import_exported(exported).graph, engine=["openvino", "native"])
    np.testing.assert_allclose(program(x.numpy()), -torch.erfinv(x).numpy(), rtol=1e-6)
    placed = {node["op"]: node["engine"] for node in program.explain()["nodes"]}
    # Without a type the node behind it would be refused by every engine but native.
    assert placed == {"test.importer.Erfinv": "native", "Neg": "openvino"}


def test_graph_built_by_hand_names_what_is_wrong() -> None:
    graph = openxrt.Graph()
    x = graph.add_input("x", "float32", ["n", 3])
    assert str(graph.type_of(x)) == "float32[n,3]"
    with pytest.raises(openxrt.InvalidArgument, match="no value 99"):
        graph.add_output(99)
    with pytest.raises(openxrt.InvalidArgument, match="float33"):
        graph.add_input("y", "float33", [])
    with pytest.raises(openxrt.InvalidArgument, match="attribute 'a'"):
        graph.add_node("Relu", [x], ["y"], {"a": object()})
