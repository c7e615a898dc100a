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

FAMILIES: dict[str, dict[str, Sample]] = {
    "pointwise": POINTWISE,
    "binary": BINARY,
    "shapes": SHAPES,
    "reductions": REDUCTIONS,
    "networks": NETWORKS,
    "bits": BITS,
}
