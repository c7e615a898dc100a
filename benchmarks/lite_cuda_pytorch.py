# SPDX-License-Identifier: Apache-2.0
"""PyTorch's times on a GPU beside lite's (figures.json, lite_cuda): ResNet-50 and MobileNet-v2 with
batch normalisation already in the convolutions, batch 1, as the compiled files hold them. Ours are
printed by ``xrt-lite-run FILE --repeat 200``.

python benchmarks/lite_cuda_pytorch.py
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional


def convolution(
    channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Conv2d:
    """A convolution whose padding keeps the size."""
    return nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups)


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions."""

    def __init__(self, channels: int, middle: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            convolution(channels, middle, 1),
            nn.ReLU(True),
            convolution(middle, middle, 3, stride),
            nn.ReLU(True),
            convolution(middle, 4 * middle, 1),
        )
        changes = stride != 1 or channels != 4 * middle
        self.skip = convolution(channels, 4 * middle, 1, stride) if changes else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.body(x) + self.skip(x))


class InvertedResidual(nn.Module):
    """MobileNet-v2's block around a depthwise convolution."""

    def __init__(self, channels: int, out: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = channels * expansion
        expand = [] if expansion == 1 else [convolution(channels, hidden, 1), nn.ReLU(True)]
        self.body = nn.Sequential(
            *expand,
            convolution(hidden, hidden, 3, stride, hidden),
            nn.ReLU(True),
            convolution(hidden, out, 1),
        )
        self.adds = stride == 1 and channels == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.adds else self.body(x)


def head(channels: int) -> list[nn.Module]:
    """From the last image to 1,000 classes."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)]


def resnet50() -> nn.Module:
    """ResNet-50."""
    layers: list[nn.Module] = [convolution(3, 64, 7, 2), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for middle, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(count):
            layers.append(Bottleneck(channels, middle, stride if block == 0 else 1))
            channels = 4 * middle
    return nn.Sequential(*layers, *head(channels))


def mobilenet_v2() -> nn.Module:
    """MobileNet-v2."""
    layers: list[nn.Module] = [convolution(3, 32, 3, 2), nn.ReLU(True)]
    channels = 32
    stages = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for expansion, out, count, stride in stages:
        for block in range(count):
            layers.append(InvertedResidual(channels, out, stride if block == 0 else 1, expansion))
            channels = out
    return nn.Sequential(*layers, convolution(channels, 1280, 1), nn.ReLU(True), *head(1280))


def median_ms(call: Callable[[], object], runs: int = 100) -> float:
    """The median time of a call until the GPU is done."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return sorted(times)[runs // 2]


def measure(
    network: nn.Module, memory_format: torch.memory_format, dtype: torch.dtype
) -> tuple[float, float, float]:
    """Milliseconds of eager with both copies, of a CUDA graph without and with them."""
    host = torch.randn(1, 3, 224, 224)
    network = network.to(memory_format=memory_format, dtype=dtype)
    x = host.cuda().to(memory_format=memory_format, dtype=dtype)
    scores = torch.empty(1, 1000)
    with torch.inference_mode():
        eager = median_ms(
            lambda: network(host.cuda().to(memory_format=memory_format, dtype=dtype)).cpu()
        )
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(3):
                network(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = network(x)

        def with_copies() -> None:
            x.copy_(host)
            graph.replay()
            scores.copy_(y)

        return eager, median_ms(graph.replay), median_ms(with_copies)


def main() -> None:
    print("PyTorch", torch.__version__, torch.cuda.get_device_name())
    torch.backends.cudnn.benchmark = True  # the fastest of its convolutions
    networks = {"resnet50": resnet50, "mobilenet_v2": mobilenet_v2}
    formats = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}
    kinds = ("fp32", "tf32", "fp16")
    for (name, make), kind in itertools.product(networks.items(), kinds):
        tf32 = kind == "tf32"
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
        network = make().eval().cuda()
        for layout, memory_format in formats.items():
            dtype = torch.float16 if kind == "fp16" else torch.float32
            eager, graph, copies = measure(network, memory_format, dtype)
            print(
                f"{name} {layout} {kind}: eager with copies {eager:.3f} ms, CUDA graph "
                f"{graph:.3f} ms, with copies {copies:.3f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
