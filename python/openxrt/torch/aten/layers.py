# SPDX-License-Identifier: Apache-2.0
"""Layers, poolings and distances, and their gradients, written in PyTorch's own ops that have
lowerings."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..registry import rewriting

aten = torch.ops.aten


@rewriting("aten._trilinear.default")
def trilinear(
    first: Tensor,
    second: Tensor,
    third: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    wide = []
    for tensor, dims in ((first, expand1), (second, expand2), (third, expand3)):
        for dim in sorted(dims):
            tensor = tensor.unsqueeze(dim)
        wide.append(tensor)
    product = wide[0] * wide[1] * wide[2]
    return product.sum(list(sumdim)) if sumdim else product


@rewriting("aten.rrelu_with_noise_functional.default")
def rrelu(
    x: Tensor,
    noise: Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: object = None,
) -> tuple[Tensor, Tensor]:
    if not training:
        return torch.where(x > 0, x, x * ((lower + upper) / 2)), noise.clone()
    slopes = torch.where(x > 0, 1.0, torch.rand_like(x) * (upper - lower) + lower)
    return x * slopes, slopes


@rewriting("aten.rrelu_with_noise_backward.default")
def rrelu_backward(
    gradient: Tensor,
    x: Tensor,
    noise: Tensor,
    lower: float,
    upper: float,
    training: bool,
    self_is_result: bool,
) -> Tensor:
    if training and upper - lower > 1e-6:
        return gradient * noise
    return torch.where(x > 0, gradient, gradient * ((lower + upper) / 2))


def _valid(indices: Tensor, padding_idx: int) -> Tensor | None:
    return None if padding_idx < 0 else (indices != padding_idx).unsqueeze(-1)


@rewriting("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The results, each row's bag, the sizes of the bags, and what won where the mode is max."""
    indices = indices.to(torch.int64)
    begins = (offsets[:-1] if include_last_offset else offsets).to(torch.int64)
    count, bags = indices.shape[0], begins.shape[0]
    places = torch.arange(count)
    # How many bags begin at or before a row, less one.
    bag = (places.unsqueeze(-1) >= begins).to(torch.int64).sum(-1) - 1
    rows = weight[indices]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    valid = _valid(indices, padding_idx)
    ones = torch.ones(count, dtype=torch.int64)
    if valid is not None:
        ones = valid.squeeze(-1).to(torch.int64)
    sizes = torch.zeros(bags, dtype=torch.int64).index_add(0, bag, ones)
    wide = bag.unsqueeze(-1).expand(rows.shape)
    if mode != 2:
        rows = rows if valid is None else torch.where(valid, rows, 0)
        total = rows.new_zeros(bags, rows.shape[1]).scatter_add(0, wide, rows)
        if mode == 1:
            total = total / sizes.clamp(min=1).unsqueeze(-1).to(total.dtype)
        return total, bag, sizes, sizes
    rows = rows if valid is None else torch.where(valid, rows, -math.inf)
    largest = rows.new_full((bags, rows.shape[1]), -math.inf)
    largest = largest.scatter_reduce(0, wide, rows, "amax")
    is_first = torch.where(rows == torch.gather(largest, 0, wide), places.unsqueeze(-1), count)
    first = torch.full((bags, rows.shape[1]), count, dtype=torch.int64)
    first = first.scatter_reduce(0, wide, is_first, "amin")
    some = (sizes > 0).unsqueeze(-1)
    won = torch.where(some, indices[first.clamp(max=max(count - 1, 0))], -1)
    return torch.where(some, largest, 0), bag, sizes, won


@rewriting("aten._embedding_bag_dense_backward.default")
def embedding_bag_backward(
    gradient: Tensor,
    indices: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    if scale_grad_by_freq:
        return NotImplemented
    none = gradient.new_zeros(num_weights, gradient.shape[1])
    if mode == 2:
        won = maximum_indices
        return none.scatter_add(0, won.clamp(min=0), torch.where(won >= 0, gradient, 0))
    if mode == 1:
        gradient = gradient / bag_size.clamp(min=1).unsqueeze(-1).to(gradient.dtype)
    rows = gradient[offset2bag]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    valid = _valid(indices, padding_idx)
    rows = rows if valid is None else torch.where(valid, rows, 0)
    return none.scatter_add(0, indices.to(torch.int64).unsqueeze(-1).expand(rows.shape), rows)


@rewriting("aten._embedding_bag_backward.default")
def embedding_bag_backward_of_either_kind(
    gradient: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    if sparse:
        return NotImplemented
    return embedding_bag_backward(
        gradient, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq,
        mode, per_sample_weights, padding_idx,
    )  # fmt: skip


@rewriting("aten._embedding_bag_per_sample_weights_backward.default")
def embedding_bag_weights_backward(
    gradient: Tensor,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    mode: int,
    padding_idx: int = -1,
) -> Tensor:
    products = (gradient[offset2bag] * weight[indices.to(torch.int64)]).sum(-1)
    valid = _valid(indices, padding_idx)
    return products if valid is None else torch.where(valid.squeeze(-1), products, 0)


def _each(numbers: Sequence[int] | int, spatial: int) -> list[int]:
    """One number stands for every spatial dimension."""
    values = [numbers] if isinstance(numbers, int) else list(numbers)
    return values * (spatial // len(values))


def _average_pool(spatial: int) -> None:
    name = f"avg_pool{spatial}d"

    def rewrite(
        x: Tensor,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] | int = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        """Sums over windows that stick out, which ONNX divides by what is inside: the picture is
        made larger by zeros."""
        if not ceil_mode or divisor_override is None:
            return NotImplemented
        kernel, pads = _each(kernel_size, spatial), _each(padding, spatial)
        steps = _each(stride, spatial) if stride else kernel
        margins: list[int] = []
        for size, k, step, pad in zip(x.shape[-spatial:], kernel, steps, pads, strict=True):
            out = -(-(size + 2 * pad - k) // step) + 1
            out -= int((out - 1) * step >= size + pad)  # no window begins in the padding behind
            margins = [pad, max((out - 1) * step + k - size - pad, 0), *margins]
        wide = torch.nn.functional.pad(x, margins)
        pool = getattr(aten, name)
        return pool(wide, kernel, steps, [0] * spatial, False, True, divisor_override)

    rewriting(f"aten.{name}.default")(rewrite)


_average_pool(2)
_average_pool(3)


def _adaptive_max_pool(x: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Windows of unequal size: each is padded with its own last row or column."""
    spatial = len(output_size)
    sizes = x.shape[-spatial:]
    positions = torch.zeros([1] * (2 * spatial), dtype=torch.int64)
    for i, (size, out) in enumerate(zip(sizes, output_size, strict=True)):
        reach = max(-(-(o + 1) * size // out) - o * size // out for o in range(out))
        along = torch.arange(out)
        begins = torch.div(along * size, out, rounding_mode="floor")
        ends = torch.div(along * size + size + out - 1, out, rounding_mode="floor")
        windows = begins.unsqueeze(-1) + torch.arange(reach)
        table = torch.minimum(windows, ends.unsqueeze(-1) - 1)
        shape = [1] * (2 * spatial)
        shape[i], shape[spatial + i] = out, reach
        positions = positions * size + table.reshape(shape)
    positions = positions.reshape(*output_size, -1)
    windows = x.flatten(-spatial)[..., positions]
    value, place = windows.max(-1)
    wide = positions.expand(*windows.shape)
    return value, torch.gather(wide, -1, place.unsqueeze(-1)).squeeze(-1)


def _divides(x: Tensor, output_size: Sequence[int]) -> bool:
    sizes = x.shape[-len(output_size) :]
    return all(size % out == 0 for size, out in zip(sizes, output_size, strict=True))


@rewriting("aten.adaptive_max_pool2d.default")
def adaptive_max_pool2d(x: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
    return NotImplemented if _divides(x, output_size) else _adaptive_max_pool(x, output_size)


@rewriting("aten.adaptive_max_pool3d.default")
def adaptive_max_pool3d(x: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
    if not _divides(x, output_size):
        return _adaptive_max_pool(x, output_size)
    kernel = [size // out for size, out in zip(x.shape[-3:], output_size, strict=True)]
    return aten.max_pool3d_with_indices(x, kernel)


def _scattered(gradient: Tensor, x: Tensor, indices: Tensor, spatial: int) -> Tensor:
    """What each window took goes back to its place."""
    zeros = torch.zeros_like(x).flatten(-spatial)
    return zeros.scatter_add(-1, indices.flatten(-spatial), gradient.flatten(-spatial)).reshape(
        x.shape
    )


@rewriting("aten.adaptive_max_pool2d_backward.default")
def adaptive_max_pool2d_backward(gradient: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    return _scattered(gradient, x, indices, 2)


@rewriting("aten.adaptive_max_pool3d_backward.default")
def adaptive_max_pool3d_backward(gradient: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    return _scattered(gradient, x, indices, 3)


@rewriting("aten.max_pool3d_with_indices_backward.default")
def max_pool3d_backward(
    gradient: Tensor,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    return _scattered(gradient, x, indices, 3)


@rewriting("aten.avg_pool3d_backward.default")
def avg_pool3d_backward(
    gradient: Tensor,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    """A transposed convolution of what each window has for one element."""
    kernel, pads = _each(kernel_size, 3), _each(padding, 3)
    steps = _each(stride, 3) if stride else kernel
    sizes, outs = x.shape[-3:], gradient.shape[-3:]
    for dim, (size, out, k, step, pad) in enumerate(
        zip(sizes, outs, kernel, steps, pads, strict=True)
    ):
        if divisor_override is not None:
            break
        begins = torch.arange(out) * step - pad
        ends = (begins + k).clamp(max=size + pad)
        if not count_include_pad:
            begins, ends = begins.clamp(min=0), ends.clamp(max=size)
        gradient = gradient / (ends - begins).to(x.dtype).reshape([-1] + [1] * (2 - dim))
    weight = torch.full((1, 1, *kernel), 1 / (divisor_override or 1), dtype=x.dtype)
    planes = gradient.reshape(-1, 1, *outs)
    spread = aten.convolution(planes, weight, None, steps, [0] * 3, [1] * 3, True, [0] * 3, 1)
    # Without the padding, and with what no window reaches.
    margins: list[int] = []
    for size, reached, pad in zip(sizes, spread.shape[-3:], pads, strict=True):
        margins = [-pad, size + pad - reached, *margins]
    return torch.nn.functional.pad(spread, margins).reshape(x.shape)


@rewriting("aten._adaptive_avg_pool3d_backward.default")
def adaptive_avg_pool3d_backward(gradient: Tensor, x: Tensor) -> Tensor:
    """Along each dimension a product with a matrix of each window's 1/size."""
    for dim in range(x.dim() - 3, x.dim()):
        size, out = x.shape[dim], gradient.shape[dim]
        window, place = torch.arange(out).unsqueeze(-1), torch.arange(size)
        begins = torch.div(window * size, out, rounding_mode="floor")
        ends = torch.div(window * size + size + out - 1, out, rounding_mode="floor")
        inside = (place >= begins) & (place < ends)
        weights = inside.to(x.dtype) / (ends - begins).to(x.dtype)
        gradient = (gradient.movedim(dim, -1) @ weights).movedim(-1, dim)
    return gradient


@rewriting(
    "aten.replication_pad1d_backward.default",
    "aten.replication_pad2d_backward.default",
    "aten.replication_pad3d_backward.default",
)
def replication_pad_backward(gradient: Tensor, x: Tensor, padding: Sequence[int]) -> Tensor:
    for i in range(len(padding) // 2):
        dim = x.dim() - 1 - i
        source = (torch.arange(gradient.shape[dim]) - padding[2 * i]).clamp(0, x.shape[dim] - 1)
        shape = list(gradient.shape)
        shape[dim] = x.shape[dim]
        gradient = gradient.new_zeros(shape).index_add(dim, source, gradient)
    return gradient


@rewriting("aten.masked_scatter_backward.default")
def masked_scatter_backward(gradient: Tensor, mask: Tensor, sizes: Sequence[int]) -> Tensor:
    count = math.prod(sizes)
    flat = mask.expand(gradient.shape).reshape(-1)
    place = torch.where(flat, torch.cumsum(flat.to(torch.int64), 0) - 1, count)
    taken = gradient.new_zeros(count + 1).scatter(0, place, gradient.reshape(-1))
    return taken[:count].reshape(sizes)


def _slopes(difference: Tensor, p: float, distance: Tensor) -> Tensor:
    """Of a distance in each coordinate's difference."""
    size = difference.abs()
    if p == 0:
        return torch.zeros_like(difference)
    if p == 1:
        return torch.sign(difference)
    if math.isinf(p):
        return torch.sign(difference) * (size == distance)
    slopes = torch.sign(difference) * (size / distance) ** (p - 1)
    slopes = torch.where(distance == 0, 0, slopes)
    return torch.where(size == 0, 0, slopes) if p < 1 else slopes


@rewriting("aten._cdist_backward.default")
def cdist_backward(
    gradient: Tensor, first: Tensor, second: Tensor, p: float, distance: Tensor
) -> Tensor:
    difference = first.unsqueeze(-2) - second.unsqueeze(-3)
    return (gradient.unsqueeze(-1) * _slopes(difference, p, distance.unsqueeze(-1))).sum(-2)


@rewriting("aten._pdist_backward.default")
def pdist_backward(gradient: Tensor, x: Tensor, p: float, distance: Tensor) -> Tensor:
    rows = torch.arange(x.shape[0])
    square = rows.unsqueeze(-1) - rows  # > 0 below the diagonal
    pairs = math.comb(x.shape[0], 2)
    if pairs == 0:
        return torch.zeros_like(x)
    # The number of a pair counts through the rows of the upper triangle.
    count = x.shape[0]
    low, high = torch.minimum(rows.unsqueeze(-1), rows), torch.maximum(rows.unsqueeze(-1), rows)
    number = low * (2 * count - low - 1) // 2 + high - low - 1
    number = number.clamp(0, pairs - 1)
    off = (square != 0).to(x.dtype)
    wide, length = gradient[number] * off, distance[number]
    difference = x.unsqueeze(-2) - x.unsqueeze(-3)
    return (wide.unsqueeze(-1) * _slopes(difference, p, length.unsqueeze(-1))).sum(-2)


@rewriting("aten.batch_norm_backward.default")
def batch_norm_backward(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_var: Tensor | None,
    update: bool,
    eps: float,
    output_mask: Sequence[bool],
    reserve: Tensor,
) -> tuple[Tensor, ...]:
    statistics = (running_mean, running_var, save_mean, save_var)
    return aten.native_batch_norm_backward(
        gradient, x, weight, *statistics, update, eps, output_mask
    )


def _upsample(name: str) -> None:
    def rewrite(
        x: Tensor, output_size: Sequence[int], align_corners: bool, *scales: float | None
    ) -> Tensor:
        known = [s for s in scales if s is not None]
        if len(known) == len(output_size):
            return getattr(aten, name).vec(x, None, align_corners, known)
        return getattr(aten, name).vec(x, output_size, align_corners, None)

    rewriting(f"aten.{name}.default")(rewrite)


for _name in ("upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d"):
    _upsample(_name)


# --- a loss ---------------------------------------------------------------------------------------


@rewriting("aten.multilabel_margin_loss.default")
def multilabel_margin_loss(x: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    """PyTorch's own rewrite counts class 0 for each place from a row's first −1 on."""
    wide, classes = torch.atleast_2d(x), torch.atleast_2d(target)
    count = wide.shape[1]
    before_end = (classes == -1).to(torch.int64).cumsum(1) == 0
    chosen = torch.where(before_end, classes, 0)
    places = torch.arange(count, device=target.device)
    is_target = ((chosen.unsqueeze(2) == places) & before_end.unsqueeze(2)).any(1)
    margins = 1 - wide.gather(1, chosen).unsqueeze(2) + wide.unsqueeze(1)
    counts = before_end.unsqueeze(2) & ~is_target.unsqueeze(1)
    losses = torch.where(counts, margins.clamp(min=0), 0).sum((1, 2)) / count
    if reduction == 1:
        return losses.mean()
    return losses.sum() if reduction == 2 else losses.reshape(x.shape[:-1])


# --- a signal from its spectrum -------------------------------------------------------------------


@rewriting("aten.istft.default")
def istft(
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """By F.fold(): PyTorch's own way goes through the gradient of Tensor.unfold(), which stands for
    writes to windows where torch.export has it. It has judged the arguments by now."""
    if return_complex:
        return NotImplemented  # fold() has no complex numbers
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    frames = x.shape[-1]
    real = torch.float64 if x.dtype == torch.complex128 else torch.float32
    shape = torch.ones(width, dtype=real, device=x.device) if window is None else window
    left = (n_fft - width) // 2
    shape = torch.nn.functional.pad(shape, (left, n_fft - width - left)).unsqueeze(1)
    spectrum = x if x.dim() == 3 else x.unsqueeze(0)
    spectrum = spectrum[:, : n_fft // 2 + 1]
    pieces = torch.fft.irfft(spectrum, n_fft, dim=1, norm="ortho" if normalized else None)
    whole = n_fft + hop * (frames - 1)

    def overlapped(windows: Tensor) -> Tensor:
        folded = torch.nn.functional.fold(windows, (1, whole), (1, n_fft), stride=(1, hop))
        return folded.reshape(windows.shape[0], whole)

    start = n_fft // 2 if center else 0
    end = whole - start if length is None else start + length
    signal = overlapped(pieces * shape) / overlapped((shape * shape).expand(1, n_fft, frames))
    signal = torch.nn.functional.pad(signal[:, start:end], (0, max(end - whole, 0)))
    return signal if x.dim() == 3 else signal.squeeze(0)


# --- PyTorch's fast paths of attention ------------------------------------------------------------


def _heads(x: Tensor, weight: Tensor, bias: Tensor, heads: int) -> Tensor:
    return torch.nn.functional.linear(x, weight, bias).unflatten(-1, (heads, -1)).transpose(1, 2)


def _scores(query: Tensor, key: Tensor, mask: Tensor | None, mask_type: int | None) -> Tensor:
    scores = query / math.sqrt(query.shape[-1]) @ key.transpose(-1, -2)
    if mask is not None:
        hidden = mask.to(torch.bool)
        if mask_type == 1:  # of keys, per row of the batch
            hidden = hidden.view(hidden.shape[0], 1, 1, hidden.shape[-1])
        scores = scores.masked_fill(hidden, -math.inf)
    return torch.softmax(scores, -1)


@rewriting("aten._native_multi_head_attention.default")
def native_multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor]:
    weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
    q, k, v = (
        _heads(x, weight, bias, num_head)
        for x, weight, bias in zip((query, key, value), weights, biases, strict=True)
    )
    scores = _scores(q, k, mask, mask_type)
    attended = (scores @ v).transpose(1, 2).flatten(2)
    result = torch.nn.functional.linear(attended, proj_weight, proj_bias)
    if not need_weights:
        return result, query.new_empty(0)
    return result, scores.mean(1) if average_attn_weights else scores


@rewriting("aten._transformer_encoder_layer_fwd.default")
def transformer_encoder_layer(
    x: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    functions = torch.nn.functional
    products = (qkv_weight, qkv_bias, proj_weight, proj_bias)

    def attended(y: Tensor) -> Tensor:
        return native_multi_head_attention(
            y, y, y, embed_dim, num_heads, *products, mask, False, mask_type=mask_type
        )[0]

    def fed_forward(y: Tensor) -> Tensor:
        wide = functions.linear(y, ffn_weight_1, ffn_bias_1)
        active = functions.gelu(wide) if use_gelu else functions.relu(wide)
        return functions.linear(active, ffn_weight_2, ffn_bias_2)

    def first(y: Tensor) -> Tensor:
        return functions.layer_norm(y, [embed_dim], norm_weight_1, norm_bias_1, eps)

    def second(y: Tensor) -> Tensor:
        return functions.layer_norm(y, [embed_dim], norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = x + attended(first(x))
        return x + fed_forward(second(x))
    x = first(x + attended(x))
    return second(x + fed_forward(x))
