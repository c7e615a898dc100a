# SPDX-License-Identifier: Apache-2.0
"""use_int8 of OneFlow's XRTModule, and weights that are built in again: ./dev test oneflow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import openxrt
import pytest

flow = pytest.importorskip("oneflow")

from openxrt.oneflow import XRTModule, ptq_calibration_mode  # noqa: E402
from test_live import Net, network  # noqa: E402

from oneflow import nn  # noqa: E402  isort: skip


def samples(count: int = 4, size: int = 4) -> list[flow.Tensor]:
    generator = np.random.default_rng(5)
    return [
        flow.tensor(generator.normal(size=(size, 1, 8, 8)).astype(np.float32)) for _ in range(count)
    ]


def decibels(found: flow.Tensor, wanted: flow.Tensor) -> float:
    a, b = found.numpy(), wanted.numpy()
    return float(10 * np.log10(np.square(b).sum() / max(np.square(a - b).sum(), 1e-30)))


class Evaluation(nn.Graph):
    """A module as it is."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = net

    def build(self, x: flow.Tensor) -> flow.Tensor:
        return self.net(x)


@pytest.mark.parametrize("engine", ["native", "openvino", "xla"])
def test_a_module_in_int8(engine: str) -> None:
    net, xs = network().eval(), samples()
    fast = XRTModule(net, engine=engine, use_int8=True, int8_calibration=xs)
    with flow.no_grad():
        assert 30 < decibels(fast(xs[0]), net(xs[0])) < 60
        # Another batch size is calibrated by the same samples.
        assert 30 < decibels(fast(flow.cat(xs)), net(flow.cat(xs))) < 60
    for program in fast.programs():
        assert any(row["op"] == "QuantizeLinear" for row in program.explain()["nodes"])


def test_a_graph_in_int8() -> None:
    net, xs = network().eval(), samples()
    fast = XRTModule(Evaluation(net), engine="native", use_int8=True, int8_calibration=xs)
    with flow.no_grad():
        assert 30 < decibels(fast(xs[1]), net(xs[1])) < 60
        for p in net.parameters():
            p.mul_(1.5)
        assert 30 < decibels(fast(xs[1]), net(xs[1])) < 60


def test_a_graph_that_trains_is_refused() -> None:
    class Step(Evaluation):
        def __init__(self, net: Net) -> None:
            super().__init__(net)
            self.add_optimizer(flow.optim.SGD(net.parameters(), lr=0.1))

        def build(self, x: flow.Tensor) -> flow.Tensor:
            loss = self.net(x).sum()
            loss.backward()
            return loss

    fast = XRTModule(Step(network()), use_int8=True, int8_calibration=samples())
    with pytest.raises(openxrt.InvalidArgument, match="has an optimizer"):
        fast(samples()[0])


def test_calibration_mode_and_its_table(tmp_path: Path) -> None:
    net, xs = network().eval(), samples()
    fast = XRTModule(net, engine="native", use_int8=True)
    with flow.no_grad():
        with pytest.raises(openxrt.InvalidArgument, match="needs calibration"):
            fast(xs[0])
        with ptq_calibration_mode(tmp_path):
            for x in xs:
                assert np.array_equal(fast(x).numpy(), net(x).numpy())
        again = XRTModule(net, engine="native", use_int8=True, int8_calibration=tmp_path)
        assert np.array_equal(again(xs[0]).numpy(), fast(xs[0]).numpy())
        assert decibels(again(flow.cat(xs)), net(flow.cat(xs))) > 30
        first = XRTModule(net, engine="native", use_int8=True, int8_calibration=4)
        for x in xs:
            assert np.array_equal(first(x).numpy(), net(x).numpy())
        assert np.array_equal(first(xs[0]).numpy(), fast(xs[0]).numpy())


def test_samples_of_several_sizes_and_what_is_no_sample() -> None:
    net, xs = network().eval(), samples()
    both = [xs[0], samples(1, 7)[0], {"x": xs[1]}]
    with flow.no_grad():
        fast = XRTModule(net, engine="native", use_int8=True, int8_calibration=both)
        assert decibels(fast(both[1]), net(both[1])) > 30
        wrong = XRTModule(net, use_int8=True, int8_calibration=[(xs[0], xs[0])])
        with pytest.raises(openxrt.InvalidArgument, match="leave labels out"):
            wrong(xs[0])


@pytest.mark.parametrize("watch", [True, False])
def test_changed_weights_are_quantised_anew(watch: bool) -> None:
    net, xs = network().eval(), samples()
    fast = XRTModule(net, engine="native", use_int8=True, int8_calibration=xs, watch_weights=watch)
    with flow.no_grad():
        assert decibels(fast(xs[0]), net(xs[0])) > 30
    fast.train()
    flow.manual_seed(0)
    loss = fast(xs[0]).square().mean()
    loss.backward()  # in floating point
    flow.optim.SGD(fast.parameters(), lr=0.1).step()
    fast.eval()
    net.eval()
    with flow.no_grad():
        assert decibels(fast(xs[0]), net(xs[0])) > 30
        fast.load_state_dict({k: v * 0.5 for k, v in net.state_dict().items()})
        assert decibels(fast(xs[0]), net(xs[0])) > 30


@pytest.mark.parametrize("watch", [True, False])
def test_weights_that_rest_are_built_in_again(watch: bool) -> None:
    net, (x, *_) = network(), samples()
    fast = XRTModule(net, engine="native", watch_weights=watch)
    optimizer = flow.optim.SGD(fast.parameters(), lr=0.1)
    for _ in range(2):
        fast.train()
        fast(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        fast.eval()
        net.eval()
        with flow.no_grad():
            wanted = net(x).numpy()
            runs = 0
            # At first they are inputs; a program of which they are constants takes over in time.
            while fast._made([x], False).frozen is None:
                assert runs < 20000
                runs += 1
                np.testing.assert_allclose(fast(x).numpy(), wanted, rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(fast(x).numpy(), wanted, rtol=1e-3, atol=1e-4)


def test_the_example() -> None:
    example = Path(__file__).resolve().parents[2] / "examples" / "oneflow" / "int8_digits.py"
    pytest.importorskip("sklearn")
    result = subprocess.run(
        [sys.executable, str(example), "--engine", "native"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    rows = {line[:18].strip(): line[18:].split() for line in result.stdout.splitlines()[1:]}
    assert len(rows) == 4
    for name, (accuracy, agreement, ratio) in rows.items():
        assert float(accuracy) > 0.9, name
        assert float(agreement) > 0.98, name
        assert (float(ratio) > 60) == (name == "float32"), name
