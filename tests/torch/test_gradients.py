# SPDX-License-Identifier: Apache-2.0
"""Gradients that have kernels of their own, judged by PyTorch: convolutions, pooling, attention."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import openxrt.torch as xt  # noqa: E402

CONVOLUTIONS = {
    "plain": (torch.nn.Conv2d(3, 4, 3), (2, 3, 8, 9)),
    "padded": (torch.nn.Conv2d(3, 4, 3, padding=1), (2, 3, 8, 9)),
    "a stride that leaves a row": (torch.nn.Conv2d(3, 4, 3, stride=2, padding=1), (2, 3, 8, 9)),
    "a stride wider than the kernel": (torch.nn.Conv2d(3, 4, 1, stride=2), (2, 3, 8, 8)),
    "large and strided": (torch.nn.Conv2d(3, 4, 7, stride=2, padding=3), (2, 3, 16, 16)),
    "dilated": (torch.nn.Conv2d(3, 4, 3, padding=2, dilation=2), (2, 3, 8, 9)),
    "grouped": (torch.nn.Conv2d(4, 6, 3, groups=2, stride=2), (2, 4, 8, 9)),
    "per channel": (torch.nn.Conv2d(4, 4, 3, groups=4, padding=1), (2, 4, 8, 9)),
    "uneven": (torch.nn.Conv2d(3, 4, (3, 1), stride=(1, 2), padding=(0, 1)), (2, 3, 8, 9)),
    "1-d": (torch.nn.Conv1d(3, 4, 3, stride=2), (2, 3, 10)),
    "3-d": (torch.nn.Conv3d(2, 3, 3, stride=2, padding=1), (2, 2, 6, 6, 6)),
    "weight norm": (
        torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(3, 4, 3), dim=2),
        (2, 3, 8),
    ),
    "transposed": (torch.nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), (2, 3, 5, 6)),
    "transposed, without bias": (
        torch.nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1, bias=False),
        (2, 3, 5, 6),
    ),
    "transposed, with rows that no window reaches": (
        torch.nn.ConvTranspose2d(3, 4, 3, stride=(1, 2), output_padding=(1, 0), dilation=2),
        (2, 3, 5, 6),
    ),
}


def gradients(module: torch.nn.Module, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """The result, and what its weighted sum has as gradients of inputs and parameters."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    result = module(*leaves)
    seed = torch.randn(result.shape, generator=torch.Generator().manual_seed(5))
    wanted = [*leaves, *module.parameters()]
    return [result.detach(), *torch.autograd.grad(result, wanted, seed)]


def compare(module: torch.nn.Module, *inputs: torch.Tensor, engine: object = "native") -> None:
    expected = gradients(copy.deepcopy(module), *inputs)
    found = gradients(xt.XRTModule(module, engine=engine).train(), *inputs)
    for actual, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str) -> None:
    module, shape = CONVOLUTIONS[name]
    compare(copy.deepcopy(module), torch.randn(shape))


@pytest.mark.parametrize("arguments", [(2,), (3, 2, 1), (2, 2, 0, 2), (3, 2, 1, 1, False, True)])
def test_max_pool(arguments: tuple[object, ...]) -> None:
    compare(torch.nn.MaxPool2d(*arguments), torch.randn(2, 3, 9, 11))


class Attention(torch.nn.Module):
    """Scaled dot product attention."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, **self.options)


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"attn_mask": torch.randn(5, 5)}, {"scale": 0.3}]
)
def test_attention(options: dict[str, object]) -> None:
    compare(Attention(**options), *(torch.randn(2, 2, 5, 8) for _ in range(3)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_attention_of_halves(dtype: torch.dtype) -> None:
    inputs = [torch.randn(2, 2, 5, 8).to(dtype) for _ in range(3)]
    expected = gradients(Attention(is_causal=True), *inputs)
    found = gradients(xt.XRTModule(Attention(is_causal=True), engine="native").train(), *inputs)
    for actual, wanted in zip(found, expected, strict=True):
        assert actual.dtype == dtype
        torch.testing.assert_close(actual, wanted, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("causal", [False, True])
def test_heads_that_share_keys(causal: bool) -> None:
    shared = [torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8)]
    module = Attention(enable_gqa=True, is_causal=causal)
    compare(module, torch.randn(2, 6, 5, 8), *shared)
    with torch.no_grad():
        query = torch.randn(2, 6, 5, 8)
        found = xt.XRTModule(module.eval(), engine="native")(query, *shared)
        torch.testing.assert_close(found, module(query, *shared), rtol=1e-4, atol=1e-4)


def test_linear_layers_need_no_transposes_of_their_own() -> None:
    """Products take the transposes of weights."""
    module = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    compare(module, torch.randn(4, 6))


def test_pictures_of_many_sizes_train() -> None:
    """PyTorch makes the sizes symbolic."""
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)
    )
    fast = xt.XRTModule(copy.deepcopy(module), engine="native").train()
    for height, width in ((8, 9), (10, 12), (7, 15), (9, 8)):
        x = torch.randn(2, 3, height, width)
        for actual, wanted in zip(gradients(fast, x), gradients(module, x), strict=True):
            torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-4)


def convolutional() -> torch.nn.Module:
    """Convolutions, normalisation, pools and a branch that joins again."""

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
            self.norm = torch.nn.BatchNorm2d(8)
            self.second = torch.nn.Conv2d(8, 8, 3, padding=1, bias=False)
            self.bare = torch.nn.BatchNorm2d(8, affine=False, track_running_stats=False)
            self.last = torch.nn.Linear(8 * 3 * 4, 5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
            x = F.relu(x + self.bare(self.second(x)))
            return self.last(F.avg_pool2d(x, (2, 3)).flatten(1))

    return Network()


@pytest.mark.parametrize("engine", ["native", ["xla", "native"]])
def test_convolutional_network(engine: object) -> None:
    compare(convolutional(), torch.randn(4, 3, 12, 24), engine=engine)


def test_running_statistics_follow() -> None:
    module = convolutional()
    fast = xt.XRTModule(copy.deepcopy(module), engine="native").train()
    for _ in range(2):
        x = torch.randn(4, 3, 12, 24)
        gradients(module, x)
        gradients(fast, x)
    for (name, wanted), (_, actual) in zip(
        module.named_buffers(), fast.named_buffers(), strict=True
    ):
        torch.testing.assert_close(actual, wanted, rtol=1e-5, atol=1e-5, msg=name)


def graphs_of(module: torch.nn.Module, x: torch.Tensor) -> dict[str, object]:
    """What the backend is given for a training step: "forward" and "backward"."""
    from openxrt.torch.aten.decompositions import decompositions
    from openxrt.torch.joint_graph import partition
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func

    seen: dict[str, object] = {}

    def keep(name: str):
        def compiler(graph: torch.fx.GraphModule, samples: list[object]):
            seen[name] = graph, samples
            return make_boxed_func(graph.forward)

        return compiler

    backend = aot_autograd(
        fw_compiler=keep("forward"),
        bw_compiler=keep("backward"),
        decompositions=decompositions(),
        partition_fn=partition,
    )
    torch.compile(module, backend=backend)(x).sum().backward()
    return seen


def ops_of(graph: torch.fx.GraphModule) -> list[str]:
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


def test_nothing_dear_is_computed_twice_and_no_weight_is_copied() -> None:
    from openxrt.torch.importer import import_fx

    seen = graphs_of(convolutional().train(), torch.randn(4, 3, 12, 24))
    forward, samples = seen["forward"]
    backward, _ = seen["backward"]
    made = ops_of(backward)
    assert not [op for op in made if "relu" in op or "legit" in op or op.startswith("aten.conv.")]
    assert made.count("aten.native_batch_norm_backward.default") == 2
    assert made.count("openxrt.max_pool2d_backward.default") == 1
    assert made.count("aten.threshold_backward.default") == 2
    # Weights that the backward graph reads are handed on as they are.
    imported = import_fx(forward, samples)
    (output,) = forward.graph.find_nodes(op="output")
    handed = [place for place, node in enumerate(output.args[0]) if node.op == "placeholder"]
    assert handed
    assert all(imported.results[place].argument >= 0 for place in handed)


def test_saved_images_are_not_moved_in_memory() -> None:
    """The native engine keeps images with the channels last on both sides."""
    module = torch.nn.Sequential(
        torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
        torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.ReLU(),
    )  # fmt: skip
    seen = graphs_of(module.train(), torch.randn(2, 8, 10, 10))
    forward, _ = seen["forward"]
    (output,) = forward.graph.find_nodes(op="output")
    saved = [node.meta["val"].shape for node in output.args[0][1:] if node.meta["val"].dim() == 4]
    assert saved.count((2, 10, 10, 8)) == 3  # before and after the normalisation, and the result
    compare(module, torch.randn(2, 8, 10, 10))
