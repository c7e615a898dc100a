# SPDX-License-Identifier: Apache-2.0
"""Small modules, each for one op of OneFlow or a few, with arguments that show what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import oneflow as flow
from oneflow import nn
from oneflow.nn import functional

_C = flow._C  # functions behind OneFlow's Python layer, for ops that few of its modules use


class Lambda(nn.Module):
    """A module of one function."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: flow.Tensor) -> object:
        """The function's results."""
        return self.function(*args)


@dataclass
class Case:
    """A module, its arguments, and whether gradients are compared as well."""

    module: Callable[[], nn.Module]
    inputs: list[np.ndarray]
    gradients: bool = True


CASES: dict[str, Case] = {}
_random = np.random.default_rng(11)


def floats(*shape: int, low: float = -1.0, high: float = 1.0) -> np.ndarray:
    """Random numbers."""
    return _random.uniform(low, high, shape).astype(np.float32)


def integers(*shape: int, below: int = 5) -> np.ndarray:
    """Random whole numbers from 0."""
    return _random.integers(0, below, shape).astype(np.int64)


def case(name: str, what: Callable, *inputs: np.ndarray, gradients: bool = True) -> None:
    """`what` is a function of tensors, or makes a module without arguments (a class or lambda)."""
    made = (lambda: what()) if not inputs or isinstance(what, type) else (lambda: Lambda(what))
    CASES[name] = Case(made, list(inputs) or [floats(3, 4)], gradients)


def layer(name: str, make: Callable[[], nn.Module], *inputs: np.ndarray, gradients: bool = True):
    """A module with its parameters."""
    CASES[name] = Case(make, list(inputs), gradients)


X = floats(3, 4)
WIDE = floats(3, 4, low=-6, high=6)
ABOVE = floats(3, 4, low=1.2, high=3)  # above 1
INSIDE = floats(3, 4, low=-0.8, high=0.8)
Y = floats(3, 4, low=0.3, high=2)
IMAGE = floats(2, 4, 6, 6)
ROW, CUBE = floats(2, 4, 9), floats(2, 2, 5, 6, 4)

# --- one tensor -----------------------------------------------------------------------------------

for _name in ["asin", "acos", "atanh", "sinh", "cosh", "asinh", "erfc", "negative"]:
    case(_name, getattr(flow, _name), INSIDE)
case("acosh", flow.acosh, ABOVE)
case("log2", flow.log2, ABOVE)
for _name in ["ceil", "floor", "round", "sign"]:
    case(_name, getattr(flow, _name), WIDE, gradients=False)
case("trunc", lambda x: _C.trunc(x), WIDE, gradients=False)
case("rint", lambda x: _C.rint(x), WIDE, gradients=False)
case("isnan", lambda x: flow.isnan(x / (x - x.max())), X, gradients=False)
case("isinf", lambda x: flow.isinf(x / (x - x.max())), X, gradients=False)
case("logical_not", lambda x: flow.logical_not(x > 0), X, gradients=False)
case("softshrink", nn.Softshrink(0.3), X)
case("hardshrink", nn.Hardshrink(0.3), X)
case("threshold", nn.Threshold(0.2, 7.0), X)
case("quick_gelu", lambda x: _C.quick_gelu(x), X)
layer("prelu", lambda: nn.PReLU(4), IMAGE)
layer("prelu of one slope", lambda: nn.PReLU(), X)
case("clip_by_scalar_min", lambda x: flow.clamp(x, min=-0.3), X)
case("clip_by_scalar_max", lambda x: flow.clamp(x, max=0.3), X)
case("clip of integers", lambda x: flow.clamp(x, 1, 3), integers(3, 4), gradients=False)
case("dropout of none", nn.Dropout(0.0), X)
case("copy", lambda x: x.to("cpu") * 1, X)
case("cast", lambda x: x.to(flow.int32).to(flow.float64), WIDE, gradients=False)

# --- two tensors, a tensor and a number -----------------------------------------------------------

for _name in ["eq", "ne", "gt", "ge", "lt", "le"]:
    _two = getattr(flow, _name)
    case(_name, _two, integers(3, 4), integers(3, 1), gradients=False)
    case(f"{_name} a number", lambda x, f=_two: f(x, 2), integers(3, 4), gradients=False)
    case(f"{_name} a fraction", lambda x, f=_two: f(x, 1.5), integers(3, 4), gradients=False)
for _name in ["logical_and", "logical_or", "logical_xor"]:
    _two = getattr(flow, _name)
    case(_name, lambda x, y, f=_two: f(x > 0, y > 1), X, Y, gradients=False)
    case(f"{_name} a number", lambda x, f=_two: f(x > 0, 1), X, gradients=False)
case("maximum", flow.maximum, X, floats(1, 4))
case("minimum", flow.minimum, X, floats(1, 4))
case("pow", flow.pow, Y, floats(1, 4))
case("fmod", flow.fmod, WIDE, Y, gradients=False)
case("fmod a number", lambda x: flow.fmod(x, 1.7), WIDE, gradients=False)
case("floordiv", flow.floor_divide, WIDE, Y, gradients=False)
case("integers by a number", lambda x: (x - 2) // 3, integers(3, 4, below=9), gradients=False)
case("floordiv a number", lambda x: flow.floor_divide(x, 1.7), WIDE, gradients=False)
case(
    "floordiv of integers",
    lambda x, y: flow.floor_divide(x - 7, y + 1),
    integers(3, 4, below=15),
    integers(3, 4),
    gradients=False,
)
case("a number to a power", lambda x: 2.5**x, X)
case("minus a number", lambda x: x - 2, X)
case("a number minus", lambda x: 2 - x, X)
case("by a tensor of one element", lambda x, y: (x + y) * y / (y - x), X, floats(1, low=2, high=3))
case("multiply", lambda x, y: _C.mul(x, y), X, Y)
case("where, a number for x", lambda x: flow.where(x > 0, 2.0, x), X)
case("where, a number for y", lambda x: flow.where(x > 0, x, 2.0), X)

# --- shapes ---------------------------------------------------------------------------------------

case("constant pad 1d", nn.ConstantPad1d((1, 2), 0.5), ROW)
case("constant pad 2d", nn.ConstantPad2d((1, 2, 0, 1), 0.5), IMAGE)
case("constant pad 3d", nn.ConstantPad3d((1, 2, 0, 1, 1, 1), 0.5), CUBE)
case("reflection pad 2d", nn.ReflectionPad2d((1, 2, 3, 1)), IMAGE)
case("replication pad 2d", nn.ReplicationPad2d((1, 2, 3, 1)), IMAGE)
case("zeros and ones like", lambda x: x + flow.zeros_like(x) + flow.ones_like(x), X)
case("constant", lambda x: x + flow.full((3, 4), 2.5) + flow.arange(4), X)
case("triu", lambda x: flow.triu(x, 1), X)
case("tril", lambda x: flow.tril(x, -1), X)
case("repeat", lambda x: x.repeat(2, 1, 3), X)
case("repeat_interleave", lambda x: flow.repeat_interleave(x, 2, 1), X, gradients=False)
case("squeeze", lambda x: x.unsqueeze(1).squeeze(1), X)
case("contiguous", lambda x: x.t().contiguous() * 2, X)
case("slice backwards", lambda x: flow.flip(x, [0, 1])[:, 1:3], X)
case("slice with steps", lambda x: x[::2, 1:4:2], X)


def _assigned(x: flow.Tensor, y: flow.Tensor) -> flow.Tensor:
    z = x * 1
    z[1:, :2] = y[1:, :2]
    return z


case("slice_update", _assigned, X, Y, gradients=False)
case("split", lambda x: flow.split(x, [1, 3], dim=1), X)
case("unbind", lambda x: flow.unbind(x, 1), X, gradients=False)
case("one_hot", lambda x: functional.one_hot(x, 6), integers(3, 4), gradients=False)

# --- index ----------------------------------------------------------------------------------------

case("gather", lambda x, i: flow.gather(x, 1, i), X, integers(3, 2, below=4))
case("index_select", lambda x, i: flow.index_select(x, 1, i), X, integers(5, below=4))
case("gather_nd", lambda x, i: flow.gather_nd(x, i), X, integers(5, 1, below=3))
case("batch_gather", lambda x, i: flow.batch_gather(x, i), X, integers(3, below=3))
case("index of a tensor", lambda x, i: x[i], X, integers(5, below=3))
layer("embedding", lambda: nn.Embedding(7, 3), integers(2, 5, below=7))
layer("embedding with padding", lambda: nn.Embedding(7, 3, padding_idx=2), integers(2, 5, below=7))
_UNIQUE = np.array([[0], [2]], np.int64)
case("scatter_nd", lambda i, u: flow.scatter_nd(i, u, [4, 3]), _UNIQUE, floats(2, 3))
case(
    "tensor_scatter_nd_update", flow.tensor_scatter_nd_update, X, _UNIQUE, floats(2, 4)
)  # fmt: skip
case("scatter", lambda x, i, u: flow.scatter(x, 1, i, u), X, integers(3, 1, below=4), floats(3, 1))
case(
    "scatter_add",
    lambda x, i, u: flow.scatter_add(x, 1, i, u),
    X,
    integers(3, 2, below=4),
    floats(3, 2),
)
case("argmax", lambda x: flow.argmax(x, 1), X, gradients=False)
case("argmin", lambda x: flow.argmin(x, 0), X, gradients=False)
case("sort", lambda x: flow.sort(x, 1, True), X, gradients=False)
case("topk", lambda x: flow.topk(x, 2), X)

# --- reductions -----------------------------------------------------------------------------------

case("mean", lambda x: flow.mean(x, dim=(0, 1)), X)
case("min", lambda x: flow.min(x), X)
case("amin", lambda x: flow.amin(x, 1), X)
case("prod", lambda x: flow.prod(x, 1), Y, gradients=False)
case("all", lambda x: flow.all(x > -0.5, 1), X, gradients=False)
case("any", lambda x: flow.any(x > 0.9, 1), X, gradients=False)
case("std", lambda x: flow.std(x, 1), X)
case("norm", lambda x: flow.linalg.norm(x, dim=1), X)
case("sum of integers", lambda x: flow.sum(x, 1), integers(3, 4), gradients=False)

# --- layers ---------------------------------------------------------------------------------------

layer("conv1d", lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1), ROW)
layer("conv2d", lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), IMAGE)
layer("conv3d", lambda: nn.Conv3d(2, 3, 2, stride=2), CUBE)
layer("deconv1d", lambda: nn.ConvTranspose1d(4, 3, 3, stride=2), ROW)
layer("deconv2d", lambda: nn.ConvTranspose2d(4, 3, 3, 2, 1, output_padding=1), IMAGE)
layer("deconv3d", lambda: nn.ConvTranspose3d(2, 3, 2, stride=2), CUBE)
layer("linear", lambda: nn.Linear(4, 5), X)
layer(
    "bilinear form", lambda: Lambda(lambda x, y: flow.bmm(x, y)), floats(2, 3, 4), floats(2, 4, 5)
)
layer("layer_norm", lambda: nn.LayerNorm([6, 6]), IMAGE)
layer("layer_norm, plain", lambda: nn.LayerNorm(6, elementwise_affine=False), IMAGE)
layer("group_norm", lambda: nn.GroupNorm(2, 4), IMAGE, gradients=False)
layer("instance_norm", lambda: nn.InstanceNorm2d(4, affine=True), IMAGE, gradients=False)
layer("batch norm 1d", lambda: nn.BatchNorm1d(4), ROW)
for _dims, _of in [("1d", ROW), ("2d", IMAGE), ("3d", CUBE)]:
    _layer = {kind: getattr(nn, kind + _dims) for kind in ["MaxPool", "AvgPool"]}
    layer(f"max pool {_dims}", lambda m=_layer["MaxPool"]: m(2, 2), _of)
    layer(f"average pool {_dims}", lambda m=_layer["AvgPool"]: m(2, 2), _of)
    _adaptive = getattr(nn, "AdaptiveAvgPool" + _dims)
    layer(f"adaptive average pool {_dims}", lambda m=_adaptive: m(3), _of)
    layer(f"global average pool {_dims}", lambda m=_adaptive: m(1), _of)
layer("max pool, padded", lambda: nn.MaxPool2d(3, 2, padding=1), IMAGE)
layer("max pool, ceil", lambda: nn.MaxPool2d(3, 2, ceil_mode=True), floats(1, 2, 7, 8))
layer("average pool, padded", lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGE)
layer("average pool, divisor", lambda: nn.AvgPool2d(3, 2, 1, divisor_override=5), IMAGE)
layer("adaptive max pool", lambda: nn.AdaptiveMaxPool2d(3), IMAGE)
for _mode, _of in [("nearest", ROW), ("nearest", IMAGE), ("nearest", CUBE)]:
    layer(
        f"upsample {_mode} {_of.ndim - 2}d",
        lambda m=_mode: nn.Upsample(scale_factor=2, mode=m),
        _of,
    )
for _mode, _of in [("linear", ROW), ("bilinear", IMAGE), ("bicubic", IMAGE), ("trilinear", CUBE)]:
    for _corners in [False, True]:
        layer(
            f"upsample {_mode}{', corners' if _corners else ''}",
            lambda m=_mode, c=_corners: nn.Upsample(scale_factor=2, mode=m, align_corners=c),
            _of,
            gradients=_mode != "bicubic",
        )
layer("upsample nearest by 1.5", lambda: nn.Upsample(scale_factor=1.5), floats(1, 2, 5, 7))
layer(
    "upsample bilinear by 1.5",
    lambda: nn.Upsample(scale_factor=1.5, mode="bilinear"),
    floats(1, 2, 5, 7),
)
layer("upsample to a size", lambda: nn.Upsample(size=(7, 9), mode="bilinear"), IMAGE)

# --- losses ---------------------------------------------------------------------------------------

_LABELS = integers(3, below=4)
case("cross entropy", lambda x, y: nn.CrossEntropyLoss()(x, y), X, _LABELS)
case(
    "cross entropy, ignoring",
    lambda x, y: nn.CrossEntropyLoss(ignore_index=1)(x, y),
    X,
    np.array([1, 0, 3], np.int64),
)
case("nll", lambda x, y: nn.NLLLoss()(functional.log_softmax(x, 1), y), X, _LABELS)
case("sparse softmax", lambda x, y: _C.sparse_softmax_cross_entropy(x, y), X, _LABELS)
case(
    "softmax cross entropy",
    lambda x, y: _C.softmax_cross_entropy(x, functional.softmax(y, 1)),
    X,
    Y,
    gradients=False,
)
case(
    "binary cross entropy with logits, weighted",
    lambda x, y, w: nn.BCEWithLogitsLoss(weight=w)(x, y),
    X,
    floats(3, 4, low=0),
    floats(3, 4, low=0),
    gradients=False,
)
