# SPDX-License-Identifier: Apache-2.0
"""Views by windows and by strides, of what lies in memory in several ways, at changing sizes."""

from __future__ import annotations

from collections.abc import Callable

import openxrt
import pytest

torch = pytest.importorskip("torch")
import openxrt.torch as xt  # noqa: E402


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> object:
        return self.function(x)


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(shape[-1]))


def written(x: torch.Tensor, view: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    y = x * 1
    view(y).add_(9)
    return y


VIEWS = {
    "windows of windows": lambda x: x.unfold(1, 4, 2).unfold(1, 2, 1),
    "windows of a transposed": lambda x: x.transpose(0, 1).unfold(0, 3, 2),
    "windows of a slice": lambda x: x[:, 1:].unfold(-1, 3, 1) * 2,
    "windows side by side": lambda x: x.unfold(1, 3, 3),
    "windows of one element": lambda x: x.unfold(1, 1, 2),
    "windows of complex numbers": lambda x: torch.complex(x, -x).unfold(1, 3, 2).imag,
    "windows that are written": lambda x: written(x, lambda y: y[:, :8].unfold(1, 2, 2)),
    "strides of a transposed": lambda x: (x * 2).transpose(0, 1).as_strided((2, 3), (2, 1), 1),
    "strides of a product of a transposed": lambda x: (x.mT * 2).as_strided((2, 3), (1, 2)),
    "strides of a slice": lambda x: (x + 1)[1:, 1].as_strided((2, 2), (3, 1)),
    "strides of every other": lambda x: (x + 1)[:, ::2].as_strided((2, 2), (2, 1), 3),
    "strides of its own": lambda x: (x + 1).as_strided(x.shape, x.stride()),
    "strides of sizes": lambda x: (x + 1).as_strided((x.shape[0], 2, 3), (x.shape[1], 2, 1)),
    "strides of columns": lambda x: (x + 1).as_strided((x.shape[1], 2), (1, x.shape[1])),
    "strides that are written": lambda x: written(x.mT, lambda y: y.as_strided((2, 2), (2, 1))),
    "strides as numbers": lambda x: (x + 1) + x.stride(0) + x.mT.stride(0) + x[1:].storage_offset(),
}
SIZES = ((4, 9), (6, 12), (5, 17))


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_at_changing_sizes(name: str) -> None:
    module = Function(VIEWS[name]).eval()
    ways = {
        "module": xt.XRTModule(module, engine="native"),
        "compiled": torch.compile(
            module, backend="openxrt", dynamic=True, options={"engine": "native"}
        ),
    }
    for size in SIZES:
        x = drawn(*size)
        expected = module(x)
        for way, function in ways.items():
            with torch.no_grad():
                torch.testing.assert_close(function(x), expected, msg=lambda m, w=way: f"{w}: {m}")


def test_windows_of_windows_are_exported() -> None:
    x = drawn(3, 20)
    module = Function(lambda x: x.unfold(1, 8, 4).unfold(1, 2, 1))
    graph = xt.import_exported(torch.export.export(module, (x,))).graph
    found = openxrt.load(graph, engine="native")(x.numpy())
    torch.testing.assert_close(torch.from_numpy(found), module(x))


def test_windows_have_a_gradient() -> None:
    x, y = (drawn(3, 20).requires_grad_() for _ in range(2))
    module = Function(lambda x: x.unfold(1, 8, 4).unfold(1, 2, 1).square().sum())
    xt.XRTModule(module, engine="native")(x).backward()
    module(y).backward()
    torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.parametrize("lengths", [(400, 500, 333)])
def test_a_fourier_transform_of_windows_at_changing_lengths(lengths: tuple[int, ...]) -> None:
    window = torch.hann_window(64)
    module = Function(lambda x: torch.stft(x, 64, 16, window=window, return_complex=True).abs())
    fast = xt.XRTModule(module.eval(), engine="native")
    for length in lengths:
        x = drawn(2, length)
        torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-4)
    assert len(list(fast.programs())) == 2  # one of the first length and one of any


def test_an_argument_that_lies_otherwise_in_memory_has_a_program_of_its_own() -> None:
    module = Function(lambda x: x.as_strided((3, 4), (1, 3)) * 2).eval()
    fast = xt.XRTModule(module, engine="native")
    x = drawn(4, 6)
    for argument in (x, x.mT.contiguous().mT, x):
        torch.testing.assert_close(fast(argument), module(argument))


def test_strides_of_an_argument_that_is_not_dense_are_refused() -> None:
    fast = xt.XRTModule(Function(lambda x: x.as_strided((2, 2), (1, 2)) * 2).eval())
    with pytest.raises(openxrt.Unsupported, match=r"strides \(6, 2\).*contiguous\(\)"):
        fast(drawn(4, 6)[:, ::2])


@pytest.mark.parametrize("step", [2, 3])
def test_writes_to_windows_that_pytorch_traces_wrong_are_refused(step: int) -> None:
    fast = xt.XRTModule(Function(lambda x: written(x, lambda y: y.unfold(1, 2, step))).eval())
    with pytest.raises(openxrt.Unsupported, match="windows"):
        fast(drawn(4, 9))
