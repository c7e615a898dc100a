# SPDX-License-Identifier: Apache-2.0
"""XRTModule's shapes, ranges and max_batch_size, judged by PyTorch."""

from __future__ import annotations

from typing import Any

import openxrt
import pytest

torch = pytest.importorskip("torch")
import openxrt.torch as xt  # noqa: E402
from small_models import usable  # noqa: E402


class Net(torch.nn.Module):
    """Convolutions over pictures, and a mask of each."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x: Any, mask: Any = None) -> Any:
        """Scores."""
        y = torch.relu(self.conv(x)).mean((2, 3))
        if mask is not None:
            y = y * mask[:, None]
        return self.head(y)


class Squeezed(torch.nn.Module):
    """One row loses its dimension."""

    def forward(self, x: Any) -> Any:
        """x + 1, without dimensions of one element."""
        return (x + 1).squeeze(0)


class Fixed(torch.nn.Module):
    """Its code knows the batch."""

    def forward(self, x: Any) -> Any:
        """x + 1."""
        return x + torch.ones(4, 2)


def drawn(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("engine", ["native", "openvino", "onnxruntime", "auto", "xla"])
@pytest.mark.parametrize("first", [1, 4])
def test_one_program_serves_a_range(engine: str, first: int) -> None:
    if engine != "auto" and not usable(engine):
        pytest.skip(f"{engine} is not there")
    net = Net().eval()
    fast = xt.XRTModule(
        net, engine=engine, shapes={"x": ("batch", 3, 16, 16)}, ranges={"batch": (1, 4, 8)}
    )
    for batch in (first, 1, 3, 8, 4, 5):
        x = drawn(batch, 3, 16, 16)
        torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-4)
    program = next(p for p in fast.programs() if p.inputs[0].shape[0] != 1)
    assert len(list(fast.programs())) <= 2  # PyTorch takes a size of 1 for a constant
    assert program.inputs[0].shape[0] == "batch"
    if engine != "xla":
        assert any("batch from 1 to 8" in note for note in program.explain()["notes"])


def test_a_dimension_without_a_name_and_two_arguments() -> None:
    net = Net().eval()
    fast = xt.XRTModule(
        net, engine="native", ranges={"x[0]": (1, 8), "x[2]": (4, 16, 32), "mask[0]": (1, 8)}
    )
    with pytest.raises(openxrt.InvalidArgument, match="'x\\[0\\]' and 'mask\\[0\\]' as one size"):
        fast(drawn(2, 3, 16, 16), drawn(2))
    fast = xt.XRTModule(
        net,
        engine="native",
        shapes={"x": ("n", 3, "height", "?"), "mask": "n"},
        ranges={"n": (1, 8), "height": "4:16:32"},
    )
    for batch, height in ((1, 16), (2, 8), (5, 32)):
        x, mask = drawn(batch, 3, height, 16), drawn(batch)
        torch.testing.assert_close(fast(x, mask=mask), net(x, mask), rtol=1e-4, atol=1e-4)
    assert len(list(fast.programs())) <= 2  # one of a single row


def test_a_size_outside_of_the_range_is_built_for(capfd: pytest.CaptureFixture[str]) -> None:
    net = Net().eval()
    fast = xt.XRTModule(net, engine="native", ranges={"x[0]": (2, 4)})
    for batch in (2, 9, 10):
        x = drawn(batch, 3, 16, 16)
        torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-4)
    assert len(list(fast.programs())) == 1
    assert "maximum batch size 4 is less than the input batch size 9" in capfd.readouterr().err


def test_max_batch_size_opens_the_first_dimensions() -> None:
    net = Net().eval()
    fast = xt.XRTModule(
        net, engine="openvino" if usable("openvino") else "native", max_batch_size=8
    )
    for batch in (1, 3, 8, 2):
        x, mask = drawn(batch, 3, 16, 16), drawn(batch)
        torch.testing.assert_close(fast(x, mask), net(x, mask), rtol=1e-4, atol=1e-4)
    program = next(p for p in fast.programs() if p.inputs[0].shape[0] != 1)
    assert len(list(fast.programs())) <= 2  # PyTorch takes a size of 1 for a constant
    assert any("from 1 to 8" in note for note in program.explain()["notes"])


def test_one_row_that_is_computed_otherwise_has_a_program() -> None:
    fast = xt.XRTModule(Squeezed(), engine="native", ranges={"x[0]": (1, 8)})
    for rows in (3, 1, 5, 1):
        x = drawn(rows, 4)
        torch.testing.assert_close(fast.eval()(x), Squeezed()(x))
    assert len(list(fast.programs())) == 2


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"ranges": {"x[0]": (1, 8)}}, "computes with 4 only"),
        ({"ranges": {"y[0]": (1, 8)}}, r"no argument has a dimension 'y\[0\]'.*'x\[0\]'"),
        ({"shapes": {"y": ("n", 2)}}, "no argument 'y'.*'x'"),
        ({"shapes": {"x": ("n",)}}, "'x' has 1 dimensions there, the argument has 2"),
        ({"shapes": {"x": (3, 2)}}, "dimension 0 of 'x' is 4; .* it is 3"),
        ({"shapes": {"x": ("n", 2)}, "ranges": {"n": 3}}, "dimension 0 of 'x' is 4; .* it is 3"),
        ({"ranges": {"x[0]": (8, 1)}}, "the least, the usual and the most"),
        ({"shapes": {"x": (0, 2)}}, "a size of 1 or more"),
    ],
)
def test_what_contradicts_the_module_is_named(options: dict[str, Any], match: str) -> None:
    with pytest.raises(openxrt.InvalidArgument, match=match):
        xt.XRTModule(Fixed().eval(), engine="native", **options)(drawn(4, 2))


def test_a_container_of_tensors() -> None:
    class Two(torch.nn.Module):
        def forward(self, pair: Any, *, named: Any) -> Any:
            return pair[0] * 2 + pair[1].sum(), named["a"] + pair[0]

    fast = xt.XRTModule(
        Two().eval(),
        engine="native",
        shapes={"pair_0": ("rows", 3), "named_a": ("rows", 3)},
        ranges={"rows": (1, 8)},
    )
    for rows in (1, 2, 5):
        pair, named = (drawn(rows, 3), drawn(4)), {"a": drawn(rows, 3)}
        for actual, expected in zip(fast(pair, named=named), Two()(pair, named=named), strict=True):
            torch.testing.assert_close(actual, expected)
    assert len(list(fast.programs())) <= 2  # one of a single row


def test_bounds_of_torch_compile_are_ranges() -> None:
    net = Net().eval()
    runners = xt.backend.Runners()
    fast = torch.compile(
        net,
        backend=lambda module, samples: xt.backend.openxrt_backend(
            module, samples, options={"engine": "native"}, runners=runners
        ),
    )
    with torch.no_grad():
        for batch in (4, 7, 2, 12):
            x = drawn(batch, 3, 16, 16)
            torch._dynamo.mark_dynamic(x, 0, min=2, max=12)
            torch.testing.assert_close(fast(x), net(x), rtol=1e-4, atol=1e-4)
    (program,) = runners.programs()
    assert any("from 2 to 12" in note for note in program.explain()["notes"])
