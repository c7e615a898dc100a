# SPDX-License-Identifier: Apache-2.0
"""Functions of PyTorch, by family, that between them call the ATen ops that GraphModule handles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

F = torch.nn.functional
Sample = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X, Y, P = rand(3, 4), rand(3, 4, seed=1), rand(3, 4).abs() + 0.1
IMAGE, IMAGE2 = rand(2, 3, 8, 10), rand(2, 6, 5, 5)
SEQUENCE, VOLUME = rand(2, 3, 12), rand(1, 2, 5, 6, 7)
INTS = torch.tensor([[-7, -3, 0], [2, 5, 7]])
DIVISORS = torch.tensor([[2, -2, 3], [-3, 4, -4]])
W2, W1 = rand(6, 3, 3, 3, seed=2), rand(5, 3, 3, seed=3)
BIAS6 = rand(6, seed=4)
DEPTHWISE, CUBE, DECONV = rand(6, 1, 3, 3), rand(4, 2, 3, 3, 3), rand(3, 4, 3, 3)
BIAS4, BIAS5, TABLE, DENSE = rand(4), rand(5), rand(10, 4), rand(5, 4, seed=5)
GRID = rand(2, 4, 4, 2).clamp(-1, 1)
WITH_NAN = torch.tensor([[1.0, float("nan"), 3.0], [float("nan"), -float("inf"), 2.0]])
GRID3, BILINEAR, SLOPES = rand(1, 3, 3, 3, 3).clamp(-1, 1), rand(2, 4, 4), rand(3).abs()
PROJECTION, OUTPUT_PROJECTION = rand(24, 8), rand(8, 8)
INDEX = torch.tensor([[0, 2, 1, 0], [1, 1, 2, 2]])


def in_place(function: Callable[..., Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    def run(x: torch.Tensor) -> torch.Tensor:
        y = x * 1.5
        function(y)
        return y

    return run


POINTWISE: dict[str, Sample] = {
    name: (getattr(torch, name), (X,))
    for name in [
        "abs",
        "ceil",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "neg",
        "reciprocal",
        "relu",
        "round",
        "sigmoid",
        "sign",
        "sin",
        "sinh",
        "square",
        "tan",
        "tanh",
        "atan",
        "asinh",
        "trunc",
    ]
}
POINTWISE |= {
    name: (getattr(torch, name), (P,))
    for name in ["log", "log1p", "log2", "log10", "sqrt", "rsqrt"]
}
POINTWISE |= {
    "acos": (torch.acos, (X.clamp(-0.9, 0.9),)),
    "acosh": (torch.acosh, (P + 1,)),
    "asin": (torch.asin, (X.clamp(-0.9, 0.9),)),
    "atanh": (torch.atanh, (X.clamp(-0.9, 0.9),)),
    "atan2": (torch.atan2, (X, Y)),
    "isnan isinf isfinite": (
        lambda x: (torch.isnan(x), torch.isinf(x), torch.isfinite(x)),
        (torch.tensor([0.0, float("inf"), float("nan"), -1.0]),),
    ),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), (X,)),
    "clamp_min": (lambda x: x.clamp_min(0.1), (X,)),
    "clamp_max": (lambda x: x.clamp_max(0.1), (X,)),
    "celu": (F.celu, (X,)),
    "elu": (lambda x: F.elu(x, 0.7), (X,)),
    "gelu": (F.gelu, (X,)),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), (X,)),
    "glu": (F.glu, (X,)),
    "hardshrink": (F.hardshrink, (X,)),
    "hardsigmoid": (F.hardsigmoid, (X * 4,)),
    "hardswish": (F.hardswish, (X * 4,)),
    "hardtanh": (F.hardtanh, (X * 2,)),
    "hardtanh_": (in_place(lambda y: F.hardtanh(y, inplace=True)), (X,)),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), (X,)),
    "leaky_relu_": (in_place(lambda y: F.leaky_relu_(y, 0.2)), (X,)),
    "log_sigmoid": (F.logsigmoid, (X,)),
    "mish": (F.mish, (X,)),
    "prelu": (lambda x: F.prelu(x, torch.tensor([0.3])), (X,)),
    "relu6": (F.relu6, (X * 4,)),
    "relu_": (in_place(torch.relu_), (X,)),
    "selu": (F.selu, (X,)),
    "silu": (F.silu, (X,)),
    "softplus": (F.softplus, (X,)),
    "softsign": (F.softsign, (X,)),
    "threshold": (lambda x: F.threshold(x, 0.1, 20.0), (X,)),
}

BINARY: dict[str, Sample] = {
    "add": (lambda x, y: torch.add(x, y, alpha=2) + 1, (X, Y)),
    "add_": (in_place(lambda y: y.add_(2)), (X,)),
    "addcdiv": (lambda x, y, p: torch.addcdiv(x, y, p, value=0.5), (X, Y, P)),
    "addcmul": (lambda x, y, p: torch.addcmul(x, y, p, value=0.5), (X, Y, P)),
    "div": (lambda x, p: x / p / 3, (X, P)),
    "div floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), (X, P)),
    "div trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), (X, P)),
    "eq ne": (lambda x, y: (x == y, x != y), (INTS, INTS.flip(1))),
    "floor_divide": (lambda x: x // 3, (INTS,)),
    "fmod": (lambda x, y: torch.fmod(x, y), (X, P)),
    "ge gt le lt": (lambda x, y: (x >= y, x > y, x <= y, x < 0.5), (X, Y)),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3), (X, Y)),
    "logical": (
        lambda x, y: (
            torch.logical_and(x > 0, y > 0),
            torch.logical_or(x > 0, y > 0),
            torch.logical_xor(x > 0, y > 0),
            torch.logical_not(x > 0),
            (x > 0) & (y > 0) | ~(x > 1) ^ (y > 1),
        ),
        (X, Y),
    ),
    "masked_fill": (lambda x, y: x.masked_fill(y > 0, -1.0), (X, Y)),
    "maximum minimum": (lambda x, y: (torch.maximum(x, y), torch.minimum(x, y)), (X, Y)),
    "mul": (lambda x, y: x * y * 2, (X, Y)),
    "mul_": (in_place(lambda y: y.mul_(2)), (X,)),
    "pow": (lambda x: (x**2, x**2.5, 2**x), (P,)),
    "pow tensors": (torch.pow, (P, Y)),
    "remainder": (lambda x, y: torch.remainder(x, y), (X, P)),
    "rsub": (lambda x: 1 - x, (X,)),
    "sub": (lambda x, y: torch.sub(x, y, alpha=2) - 1, (X, Y)),
    "to": (lambda x: (x.to(torch.int32), x.to(torch.int64), (x > 0).float()), (X * 3,)),
    "where": (lambda x, y: torch.where(x > y, x, y), (X, Y)),
    "detach": (lambda x: x.detach() + 1, (X,)),
    "clone contiguous": (lambda x: x.t().contiguous().clone(), (X,)),
    "dropout_": (in_place(lambda y: F.dropout(y, 0.5, training=False, inplace=True)), (X,)),
    "lists tuples": (lambda x, y: ([x + 1, (x, y * 2)], torch.cat([x, y])), (X, Y)),
    "dropout": (lambda x: F.dropout(x, 0.5, training=False) * 2, (X,)),
}

SHAPES: dict[str, Sample] = {
    "cat": (lambda x, y: torch.cat([x, y, x], 1), (X, Y)),
    "chunk": (lambda x: torch.chunk(x, 2, 1), (X,)),
    "constant_pad_nd": (lambda x: F.pad(x, (1, 2, 0, 1), value=0.5), (X,)),
    "diagonal": (lambda x: torch.diagonal(x), (X,)),
    "expand": (lambda x: x[:1].expand(3, 4), (X,)),
    "flatten": (lambda x: x.flatten(1), (IMAGE,)),
    "flip": (lambda x: torch.flip(x, [1]), (X,)),
    "gather": (lambda x: torch.gather(x, 0, INDEX), (X,)),
    "index": (lambda x: x[torch.tensor([2, 0])], (X,)),
    "index_select": (lambda x: torch.index_select(x, 1, torch.tensor([3, 1])), (X,)),
    "narrow": (lambda x: x.narrow(1, 1, 2), (X,)),
    "permute": (lambda x: x.permute(0, 2, 3, 1), (IMAGE,)),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (rand(1, 8, 3, 3),)),
    "reflection_pad": (lambda x: F.pad(x, (1, 2), mode="reflect"), (SEQUENCE,)),
    "repeat": (lambda x: x.repeat(2, 3), (X,)),
    "replication_pad": (lambda x: F.pad(x, (1, 2, 1, 0), mode="replicate"), (IMAGE,)),
    "reshape": (lambda x: x.reshape(2, -1), (X,)),
    "roll": (lambda x: torch.roll(x, 1, 1), (X,)),
    "scatter": (lambda x, y: torch.scatter(x, 0, INDEX, y[:2]), (X, Y)),
    "select": (lambda x: x[1], (X,)),
    "size": (lambda x: x.view(x.size(0) * x.size(1)), (X,)),
    "slice": (lambda x: x[:, 1:-1:2], (rand(3, 9),)),
    "slice_scatter": (lambda x, y: torch.slice_scatter(x, y[:, :2], 1, 1, 3), (X, Y)),
    "split": (lambda x: torch.split(x, [1, 3], 1), (X,)),
    "squeeze": (lambda x: x.unsqueeze(0).squeeze(0) + 1, (X,)),
    "stack": (lambda x, y: torch.stack([x, y], 1), (X, Y)),
    "t": (lambda x: x.t(), (X,)),
    "transpose": (lambda x: x.transpose(1, 2), (IMAGE,)),
    "tril triu": (lambda x: (x.tril(), x.triu(1)), (X,)),
    "unbind": (lambda x: torch.unbind(x, 0), (X,)),
    "unsqueeze": (lambda x: x.unsqueeze(1), (X,)),
    "view": (lambda x: x.view(4, 3), (X,)),
    "Int": (lambda x: x.view(int(x.shape[0]), -1), (IMAGE,)),
    "constants": (lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]) + torch.ones(4), (X,)),
}

REDUCTIONS: dict[str, Sample] = {
    "all any": (lambda x: ((x > 0).all(1), (x > 0).any(1)), (X,)),
    "amax amin": (lambda x: (x.amax(1), x.amin(0, keepdim=True)), (X,)),
    "argmax argmin": (lambda x: (x.argmax(1), x.argmin(0)), (X,)),
    "cumsum": (lambda x: torch.cumsum(x, 1), (X,)),
    "logsumexp": (lambda x: torch.logsumexp(x, 1), (X,)),
    "max": (lambda x: (x.max(), *x.max(1)), (X,)),
    "mean": (lambda x: (x.mean(), x.mean([2, 3], keepdim=True).sum()), (IMAGE,)),
    "min": (lambda x: (x.min(), *x.min(0)), (X,)),
    "norm": (lambda x: torch.linalg.vector_norm(x, dim=1), (X,)),
    "prod": (lambda x: (x.prod(), x.prod(1)), (X,)),
    "softmax": (lambda x: (x.softmax(1), x.log_softmax(0)), (X,)),
    "std var": (lambda x: (x.std(1), x.var(1)), (X,)),
    "sum": (lambda x: (x.sum(), x.sum(1, keepdim=True)), (X,)),
    "topk": (lambda x: torch.topk(x, 2, 1), (X,)),
    "sort": (lambda x: torch.sort(x, 1)[0], (X,)),
    "var_mean": (lambda x: torch.var_mean(x, 1), (X,)),
}

NETWORKS: dict[str, Sample] = {
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 4), (SEQUENCE,)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (2, 5)), (IMAGE,)),
    "adaptive_avg_pool2d 1": (lambda x: F.adaptive_avg_pool2d(x, 1), (IMAGE,)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (2, 5)), (IMAGE,)),
    "addmm": (lambda x, y, z: torch.addmm(z, x, y.t()), (X, Y, rand(3, 3))),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 3, 2), (SEQUENCE,)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), (IMAGE,)),
    "baddbmm bmm": (
        lambda x, y, z: (torch.bmm(x, y), torch.baddbmm(z, x, y)),
        (rand(2, 3, 4), rand(2, 4, 5), rand(2, 3, 5)),
    ),
    "batch_norm": (
        lambda x: F.batch_norm(x, BIAS6[:3], BIAS6[3:].abs(), BIAS6[:3], BIAS6[3:]),
        (IMAGE,),
    ),
    "_convolution": (lambda x: F.conv2d(x, W2, BIAS6, stride=2, padding=1), (IMAGE,)),
    "convolution groups": (
        lambda x: F.conv2d(x, DEPTHWISE, None, padding=1, groups=3, dilation=2),
        (IMAGE,),
    ),
    "conv1d": (lambda x: F.conv1d(x, W1, padding=1), (SEQUENCE,)),
    "conv3d": (lambda x: F.conv3d(x, CUBE, BIAS4), (VOLUME,)),
    "conv_transpose2d": (
        lambda x: F.conv_transpose2d(x, DECONV, BIAS4, stride=2, padding=1),
        (IMAGE,),
    ),
    "embedding": (lambda i: F.embedding(i, TABLE), (INDEX,)),
    "grid_sampler": (
        lambda x: F.grid_sample(x, GRID, align_corners=False),
        (IMAGE,),
    ),
    "group_norm": (lambda x: F.group_norm(x, 3, BIAS6, BIAS6), (IMAGE2,)),
    "instance_norm": (F.instance_norm, (IMAGE,)),
    "layer_norm": (lambda x: F.layer_norm(x, (4,), BIAS4, BIAS5[:4]), (X,)),
    "linear": (lambda x: F.linear(x, DENSE, BIAS5), (X,)),
    "matmul": (lambda x, y: (x @ y.t(), torch.matmul(x, y[0])), (X, Y)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), (IMAGE,)),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), (SEQUENCE,)),
    "scaled_dot_product_attention": (
        F.scaled_dot_product_attention,
        (rand(1, 2, 5, 8), rand(1, 2, 5, 8, seed=1), rand(1, 2, 5, 8, seed=2)),
    ),
    "upsample nearest": (lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), (IMAGE,)),
    "upsample bilinear": (
        lambda x: F.interpolate(x, size=(16, 20), mode="bilinear", align_corners=False),
        (IMAGE,),
    ),
}

# TensorRT has no layers for the bits of integers.
BITS: dict[str, Sample] = {
    "bitwise_and": (lambda x, y: x & y, (INTS, DIVISORS)),
    "bitwise_or": (lambda x, y: x | y, (INTS, DIVISORS)),
    "bitwise_xor": (lambda x, y: x ^ y, (INTS, DIVISORS)),
    "bitwise_not": (lambda x: ~x, (INTS,)),
}

MORE: dict[str, Sample] = {
    "max_pool2d ceil": (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), (IMAGE,)),
    "avg_pool2d ceil": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (IMAGE,)),
    "avg_pool2d nocount": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (IMAGE,)),
    "avg_pool2d div": (lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5), (IMAGE,)),
    "pad neg": (lambda x: F.pad(x, (-1, 2)), (X,)),
    "pad circular": (lambda x: F.pad(x, (1, 2, 1, 1), mode="circular"), (IMAGE,)),
    "bicubic": (lambda x: F.interpolate(x, size=(16, 20), mode="bicubic"), (IMAGE,)),
    "bilinear ac": (
        lambda x: F.interpolate(x, size=(16, 20), mode="bilinear", align_corners=True),
        (IMAGE,),
    ),
    "linear1d": (lambda x: F.interpolate(x, size=24, mode="linear"), (SEQUENCE,)),
    "trilinear": (lambda x: F.interpolate(x, size=(10, 12, 14), mode="trilinear"), (VOLUME,)),
    "nearest odd": (lambda x: F.interpolate(x, size=(13, 7), mode="nearest"), (IMAGE,)),
    "nearest-exact": (lambda x: F.interpolate(x, size=(13, 7), mode="nearest-exact"), (IMAGE,)),
    "nearest1d": (lambda x: F.interpolate(x, size=24), (SEQUENCE,)),
    "fmod": (torch.fmod, (X * 3, Y)),
    "remainder": (torch.remainder, (X * 3, Y)),
    "remainder ints": (torch.remainder, (INTS, DIVISORS)),
    "floordiv ints": (lambda x, y: torch.div(x, y, rounding_mode="floor"), (INTS, DIVISORS)),
    "truncdiv ints": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), (INTS, DIVISORS)),
    "cumsum ints": (lambda x: torch.cumsum(x, 1), (INTS,)),
    "index_put": (lambda x, y: x.index_put((torch.tensor([0, 2]),), y[:2]), (X, Y)),
    "index two": (lambda x: x[torch.tensor([0, 2]), torch.tensor([1, 3])], (X,)),
    "index neg": (lambda x: x[torch.tensor([-1, 0])], (X,)),
    "index none": (lambda x: x[:, :, torch.tensor([1, 0]), torch.tensor([1, 0])], (IMAGE,)),
    "assign": (in_place(lambda y: y[:, 1].fill_(3)), (X,)),
    "cdist": (torch.cdist, (X, Y)),
    "unfold": (lambda x: F.unfold(x, 3), (IMAGE,)),
    "einsum": (lambda x, y: torch.einsum("ij,kj->ik", x, y), (X, Y)),
    "argsort": (lambda x: torch.argsort(x, 1, descending=True), (X,)),
    "sort": (lambda x: torch.sort(x, 0), (X,)),
    "topk smallest": (lambda x: torch.topk(x, 2, 1, largest=False), (X,)),
    "lstm": (torch.nn.LSTM(4, 5, batch_first=True).eval(), (rand(2, 3, 4),)),
    "gru": (torch.nn.GRU(4, 5, batch_first=True).eval(), (rand(2, 3, 4),)),
    "mha": (
        torch.nn.MultiheadAttention(8, 2, batch_first=True).eval(),
        (rand(2, 3, 8), rand(2, 3, 8), rand(2, 3, 8)),
    ),
    "transformer": (
        torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(),
        (rand(2, 3, 8),),
    ),
    "sdpa causal": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (rand(1, 2, 5, 8), rand(1, 2, 5, 8, seed=1), rand(1, 2, 5, 8, seed=2)),
    ),
    "as_strided": (lambda x: x.as_strided((2, 2), (1, 2)), (X,)),
    "arange": (lambda x: (x + torch.arange(1, 5), x + torch.arange(0, 8, 2)), (X,)),
    "logical ints": (lambda x: torch.logical_and(x, x > 1), (INTS,)),
    "where scalar": (lambda x: torch.where(x > 0, x, 0.0), (X,)),
    "pow neg int": (lambda x: torch.pow(x, 3), (X,)),
    "grid reflect": (
        lambda x: F.grid_sample(x, GRID * 1.5, padding_mode="reflection", align_corners=True),
        (IMAGE,),
    ),
    "grid bicubic": (
        lambda x: F.grid_sample(x, GRID * 1.5, mode="bicubic", align_corners=True),
        (IMAGE,),
    ),
    "grid nearest": (
        lambda x: F.grid_sample(
            x, GRID * 1.5, mode="nearest", padding_mode="border", align_corners=False
        ),
        (IMAGE,),
    ),
    "hstack": (lambda x: torch.hstack([x, x]), (X,)),
    "conv_tr1d": (lambda x: F.conv_transpose1d(x, W1.transpose(0, 1), None, 2), (SEQUENCE,)),
    "rms_norm": (lambda x: F.rms_norm(x, (4,)), (X,)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (IMAGE,)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 3), (IMAGE2,)),
    "local_response_norm": (lambda x: F.local_response_norm(x, 3), (IMAGE2,)),
    "cross_entropy": (lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2])), (X,)),
    "one_hot": (lambda x: F.one_hot(x, 5), (INDEX,)),
    "trace": (lambda x: torch.trace(x @ x.t()), (X,)),
    "nan_to_num": (torch.nan_to_num, (WITH_NAN,)),
    "round dec": (lambda x: torch.round(x, decimals=1), (X,)),
    "sinc": (torch.sinc, (X,)),
    "frac": (torch.frac, (X,)),
    "logit": (torch.logit, (X.sigmoid(),)),
    "isclose": (torch.isclose, (X, Y)),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 2)), (VOLUME,)),
    "adaptive_avg_pool3d 1": (lambda x: F.adaptive_avg_pool3d(x, 1), (VOLUME,)),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), (VOLUME,)),
    "batch_norm train": (lambda x: F.batch_norm(x, None, None, training=True), (IMAGE,)),
    "pdist": (torch.pdist, (X,)),
    "addmv mv dot": (
        lambda x, y: (torch.mv(x, y[0]), torch.addmv(x[:, 0], x, y[0]), torch.dot(x[0], y[0])),
        (X, Y),
    ),
    "any all": (lambda x: ((x > 0).any(), (x > 9).any((0, 1)), (x > -9).all()), (X,)),
    "bitwise scalar bool": (lambda x: ((x > 0) & True, (x > 0) | False), (X,)),
    "clamp tensors": (lambda x, y: torch.clamp(x, y, y + 1), (X, Y)),
    "div scalar": (
        lambda x: (torch.div(x, 2, rounding_mode="floor"), torch.floor_divide(x, 2)),
        (X,),
    ),
    "creation": (
        lambda x: (
            x + torch.eye(3, 4),
            x + torch.full((4,), 2.0),
            torch.full_like(x, 3) + x,
            torch.zeros_like(x) + x,
            torch.ones_like(x) * x,
            x.new_ones(4) + x,
            x.new_zeros(4) + x,
            x.new_full((4,), 2.0) + x,
            x + torch.linspace(0, 1, 4),
            torch.empty_like(x).fill_(2) + x,
        ),
        (X,),
    ),
    "fmod scalar": (
        lambda x: (torch.fmod(x, 0.7), torch.remainder(x, 0.7), torch.remainder(2.0, x)),
        (X,),
    ),
    "grid 3d": (lambda x: F.grid_sample(x, GRID3, align_corners=False), (VOLUME,)),
    "lerp tensor": (lambda x, y: torch.lerp(x, y, y), (X, Y)),
    "masked_fill tensor": (lambda x: x.masked_fill(x > 0, torch.tensor(2.0)), (X,)),
    "masked_scatter": (lambda x, y: x.masked_scatter(x > 0, y), (X, Y)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), (VOLUME,)),
    "reflection2d": (lambda x: F.pad(x, (1, 2, 1, 0), mode="reflect"), (IMAGE,)),
    "reflection3d": (lambda x: F.pad(x, (1, 2, 1, 0, 1, 1), mode="reflect"), (VOLUME,)),
    "replication13": (lambda x: F.pad(x, (1, 2), mode="replicate"), (SEQUENCE,)),
    "replication3d": (lambda x: F.pad(x, (1, 2, 1, 0, 1, 1), mode="replicate"), (VOLUME,)),
    "rsub": (lambda x, y: torch.rsub(x, y), (X, Y)),
    "scatter value": (lambda x: torch.scatter(x, 0, INDEX, 2.0), (X,)),
    "sort stable": (lambda x: torch.sort(x, dim=1, stable=True), (X,)),
    "squeeze all": (
        lambda x: (x[None, :, None].squeeze() + 1, x[None, :, None].squeeze((0, 2)) + 1),
        (X,),
    ),
    "up3d": (lambda x: F.interpolate(x, scale_factor=2), (VOLUME,)),
    "var corr": (lambda x: (torch.var(x, 1, correction=0), torch.std(x, correction=0)), (X,)),
    "index_copy": (lambda x, y: x.index_copy(0, torch.tensor([2, 0]), y[:2]), (X, Y)),
    "index_fill": (lambda x: x.index_fill(0, torch.tensor([2, 0]), 5.0), (X,)),
    "take_along": (lambda x: torch.take_along_dim(x, INDEX, 0), (X,)),
    "tile": (lambda x: x.tile(2, 2), (X,)),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), (X,)),
    "movedim": (lambda x: x.movedim(1, 2), (IMAGE,)),
    "meshgrid": (lambda x: torch.meshgrid(x[0], x[1], indexing="ij"), (X,)),
    "outer kron": (lambda x, y: (torch.outer(x[0], y[0]),), (X, Y)),
    "tensordot": (lambda x, y: torch.tensordot(x, y, dims=([1], [1])), (X, Y)),
    "cosine": (lambda x, y: F.cosine_similarity(x, y), (X, Y)),
    "normalize": (F.normalize, (X,)),
    "pairwise": (F.pairwise_distance, (X, Y)),
    "mse l1 smooth": (
        lambda x, y: (
            F.mse_loss(x, y),
            F.l1_loss(x, y),
            F.smooth_l1_loss(x, y),
            F.huber_loss(x, y),
        ),
        (X, Y),
    ),
    "bce": (
        lambda x, y: (F.binary_cross_entropy_with_logits(x, y.sigmoid()), F.kl_div(x, y.sigmoid())),
        (X, Y),
    ),
    "softmin": (lambda x: F.softmin(x, 1), (X,)),
    "tanhshrink softshrink": (lambda x: (F.tanhshrink(x), F.softshrink(x)), (X,)),
    "lp_pool": (lambda x: F.lp_pool2d(x, 2, 2), (IMAGE,)),
    "aminmax": (lambda x: torch.aminmax(x, dim=1), (X,)),
    "logaddexp": (torch.logaddexp, (X, Y)),
    "xlogy": (torch.xlogy, (P, P)),
    "heaviside": (lambda x: torch.heaviside(x, torch.tensor(0.5)), (X,)),
    "diff": (lambda x: torch.diff(x), (X,)),
    "count_nonzero": (lambda x: torch.count_nonzero(x > 0), (X,)),
    "nansum": (lambda x: torch.nansum(x, 1), (X,)),
    "deg2rad": (lambda x: (torch.deg2rad(x), torch.rad2deg(x)), (X,)),
    "std_mean": (lambda x: torch.std_mean(x, 1), (X,)),
    "unflatten": (lambda x: x.unflatten(1, (2, 2)), (X,)),
    "rot90": (lambda x: torch.rot90(x), (X,)),
    "select_scatter": (lambda x, y: torch.select_scatter(x, y[0], 0, 1), (X, Y)),
    "diag_embed": (lambda x: torch.diag_embed(x), (X,)),
    "block": (lambda x: torch.block_diag(x, x), (X,)),
    "tril_indices": (lambda x: x[tuple(torch.tril_indices(3, 3))], (X,)),
    "alpha_dropout": (lambda x: F.alpha_dropout(x, 0.5, False) + 1, (X,)),
    "upsample bicubic ac": (
        lambda x: F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=True),
        (IMAGE,),
    ),
    "affine_grid": (
        lambda x: F.affine_grid(x, (2, 3, 4, 4), align_corners=False),
        (rand(2, 2, 3),),
    ),
    "ctc prelu": (lambda x: F.prelu(x, SLOPES), (IMAGE,)),
    "multi_head": (
        lambda x: F.multi_head_attention_forward(
            x,
            x,
            x,
            8,
            2,
            PROJECTION,
            None,
            None,
            None,
            False,
            0.0,
            OUTPUT_PROJECTION,
            None,
            training=False,
        )[0],
        (rand(3, 2, 8),),
    ),
}

FAMILIES: dict[str, dict[str, Sample]] = {
    "pointwise": POINTWISE,
    "binary": BINARY,
    "shapes": SHAPES,
    "reductions": REDUCTIONS,
    "networks": NETWORKS,
    "more": MORE,
    "bits": BITS,
}
