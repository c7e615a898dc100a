# SPDX-License-Identifier: Apache-2.0
"""CUDA tensors and modules on a real GPU, judged by PyTorch; skipped where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openxrt
import openxrt.torch as xt
import pytest
import torch
from torch.nn import functional

if not torch.cuda.is_available():
    pytest.skip("there is no GPU that PyTorch can use", allow_module_level=True)
if "xla" not in {report.name for report in openxrt.doctor() if "cuda" in report.devices}:
    pytest.skip("XLA's CUDA plugin is not installed", allow_module_level=True)

GPU = torch.device("cuda:0")
SIZE = 256


@pytest.fixture(autouse=True)
def exact() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


@pytest.fixture(scope="module")
def weight() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).standard_normal((SIZE, SIZE), np.float32))


@pytest.fixture(scope="module")
def program(weight: torch.Tensor) -> openxrt.Program:
    graph = openxrt.Graph("product")
    x = graph.add_input("x", "float32", ["n", SIZE])
    w = graph.add_constant(weight.numpy(), "float32", "w")
    (product,) = graph.add_node("MatMul", [x, w], ["product"])
    (y,) = graph.add_node("Relu", [product], ["y"])
    graph.add_output(y)
    graph.finish()
    return openxrt.load(graph, engine=["xla", "native"], device="cuda")


def near(found: torch.Tensor, wanted: torch.Tensor, tolerance: float = 1e-5) -> None:
    error = ((found - wanted).abs().max() / wanted.abs().max()).item()
    assert error <= tolerance


def expected(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return functional.relu(x @ weight.to(GPU))


def test_in_and_out(program: openxrt.Program, weight: torch.Tensor) -> None:
    x = torch.randn(64, SIZE, device=GPU)
    y = torch.from_dlpack(program(x))
    assert y.device == GPU
    near(y, expected(x, weight))
    out = torch.empty_like(y)
    assert program(x, out=out) is out
    near(out, y)


def test_a_producer_on_another_stream_is_waited_for(
    program: openxrt.Program, weight: torch.Tensor
) -> None:
    side = torch.cuda.Stream()
    for _ in range(5):
        x = torch.zeros(64, SIZE, device=GPU)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(100_000_000)
            x += 3
            y = torch.from_dlpack(program(x)) + 0
        side.synchronize()
        near(y, expected(torch.full_like(x, 3), weight))


def test_memory_is_kept_while_it_is_read(program: openxrt.Program, weight: torch.Tensor) -> None:
    side = torch.cuda.Stream()
    x = torch.randn(4096, SIZE, device=GPU)
    wanted = expected(x, weight)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        y = torch.from_dlpack(program(x))
        torch.cuda._sleep(400_000_000)
        read = y + 0
        del y  # the kernel that reads it has not begun
    for _ in range(6):
        torch.from_dlpack(program(-x))  # on another stream, into memory that is free
    side.synchronize()
    near(read, wanted)


class Small(torch.nn.Module):
    """Convolution, normalisation, attention and products."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 16, 3, 2, 1)
        self.norm = torch.nn.BatchNorm2d(16)
        self.qkv = torch.nn.Linear(16, 48)
        self.head = torch.nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norm(self.conv(x))).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(y).view(len(x), -1, 3, 4, 4).permute(2, 0, 3, 1, 4)
        y = y + functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(y.shape)
        return self.head(y.mean(1))


def test_inference_sees_weights_that_changed() -> None:
    torch.manual_seed(0)
    module = Small().to(GPU).eval()
    fast = xt.XRTModule(module, engine="xla", device="cuda")
    x = torch.randn(4, 3, 32, 32, device=GPU)
    with torch.no_grad():
        for factor in (1.0, 2.0, 0.25):
            module.head.weight.mul_(factor)
            y = fast(x)
            assert y.device == GPU
            near(y, module(x), 1e-4)
        # PyTorch's own words for a convolution.
        with pytest.raises(RuntimeError, match=r"device|weight type"):
            fast(x.cpu())


def test_modules_are_queued_between_what_the_stream_holds() -> None:
    torch.manual_seed(0)
    module = Small().to(GPU).eval()
    fast = xt.XRTModule(module, engine="xla", device="cuda")
    given = torch.randn(4, 3, 32, 32, device=GPU)
    side = torch.cuda.Stream()
    with torch.no_grad():
        wanted = [module(given + i) for i in range(8)]
        fast(given)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            x = given.clone()
            torch.cuda._sleep(200_000_000)
            before = torch.cuda.Event()
            before.record()
            found = []
            for _ in range(3):
                found.append(fast(x) + 0)
                x += 1  # what the module read, while it may not have begun
            assert not before.query(), "the host is ahead of the stream"
            for _ in range(5):
                y = fast(x)
                x = x + 1  # the old one's memory is free, by PyTorch's account
                found.append(y * 1)
        side.synchronize()
    for i in range(8):
        near(found[i], wanted[i], 1e-4)


def test_a_run_is_no_part_of_a_graph_that_is_captured() -> None:
    module = torch.nn.Linear(8, 8).to(GPU).eval()
    fast = xt.XRTModule(module, engine="xla", device="cuda")
    x = torch.randn(2, 8, device=GPU)
    with torch.no_grad():
        wanted = fast(x) + 0
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            with pytest.raises(openxrt.InvalidArgument, match="is being captured"):
                fast(x)
            y = x * 2
        graph.replay()
        near(y, x * 2)
        near(fast(x), wanted)


def test_gradients_are_as_near_to_float64_as_pytorchs() -> None:
    x = torch.randn(8, 3, 32, 32, device=GPU)
    labels = torch.arange(8, device=GPU)

    def gradients(dtype: torch.dtype, compiled: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        torch._dynamo.reset()
        module = Small().to(GPU, dtype).train()
        run: Any = module
        if compiled:
            run = torch.compile(module, backend="openxrt", options={"engine": ["xla"]})
        functional.cross_entropy(run(x.to(dtype)), labels).backward()
        return [weight.grad.double() for weight in module.parameters()]  # type: ignore[union-attr]

    exact = gradients(torch.float64, False)
    # The convolution's bias has none before a normalisation: what is computed there is noise.
    size = max(g.abs().max() for g in exact)
    for ours, pytorchs, g in zip(
        gradients(torch.float32, True), gradients(torch.float32, False), exact, strict=True
    ):
        assert (ours - g).abs().max() <= 4 * (pytorchs - g).abs().max() + 1e-6 * size


def trained(wrap: Callable[[torch.nn.Module], Any]) -> list[float]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    module = Small().to(GPU).train()
    run = wrap(module)
    x = torch.randn(8, 3, 32, 32, device=GPU)
    labels = torch.arange(8, device=GPU)
    optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = functional.cross_entropy(run(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_training_without_looking_at_the_loss() -> None:
    """The host gets ahead of the GPU: the weights are those of steps that are waited for."""

    def weights(compiled: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        torch._dynamo.reset()
        module = Small().to(GPU).train()
        run: Any = module
        if compiled:
            run = torch.compile(module, backend="openxrt", options={"engine": ["xla"]})
        x = torch.randn(64, 3, 64, 64, device=GPU)
        labels = torch.arange(64, device=GPU) % 10
        optimizer = torch.optim.SGD(module.parameters(), 1e-3, momentum=0.9)
        for _ in range(20):
            optimizer.zero_grad()
            functional.cross_entropy(run(x), labels).backward()
            optimizer.step()
        return [weight.detach() for weight in module.parameters()]

    for ours, wanted in zip(weights(True), weights(False), strict=True):
        near(ours, wanted, 1e-4)


def test_training() -> None:
    wanted = trained(lambda module: module)
    options = {"engine": ["xla"]}
    compiled = trained(lambda m: torch.compile(m, backend="openxrt", options=options))
    np.testing.assert_allclose(compiled, wanted, rtol=1e-3)
    wrapped = trained(lambda m: xt.XRTModule(m, engine="xla", device="cuda").train())
    np.testing.assert_allclose(wrapped, wanted, rtol=1e-3)
