# SPDX-License-Identifier: Apache-2.0
"""openxrt.oneflow beside a running OneFlow: ./dev test oneflow."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openxrt
import pytest

flow = pytest.importorskip("oneflow")

from oneflow import nn  # noqa: E402
from openxrt._folding import Refolding  # noqa: E402
from openxrt.oneflow import XRTModule  # noqa: E402

ENGINES = ["native", "openvino", "xla"]


def close(found: flow.Tensor, wanted: flow.Tensor, tolerance: float = 1e-3) -> None:
    a, b = found.numpy(), wanted.numpy()
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    reach = float(b.max() - b.min()) or max(1.0, abs(float(b.max())))
    assert float(np.abs(a - b).max()) / reach <= tolerance


class Net(nn.Module):
    """A small CNN for pictures of 8 by 8."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(64, 10)

    def forward(self, x: flow.Tensor) -> flow.Tensor:
        x = self.pool(flow.relu(self.conv2(flow.relu(self.norm(self.conv1(x))))))
        return self.head(self.drop(flow.flatten(x, 1)))


def network(seed: int = 3, **options: float) -> Net:
    flow.manual_seed(seed)
    return Net(**options)


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Pictures that can be told apart: a bar whose place is the class, with noise."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 10, 640)
    pictures = generator.normal(0, 0.3, (640, 1, 8, 8)).astype(np.float32)
    for i, label in enumerate(labels):
        if label < 8:
            pictures[i, 0, label] += 1
        else:
            pictures[i, 0, :, label - 8] += 1
    return pictures, labels.astype(np.int64)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_readme_program(engine: str) -> None:
    m = nn.Linear(3, 4)
    x = flow.randn(4, 3)
    wanted = m(x)
    found = XRTModule(m, engine=[engine])(x)
    close(found, wanted)


@pytest.mark.parametrize("engine", ENGINES)
def test_evaluation_and_nested_results(engine: str) -> None:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(6, 5)
            self.places = flow.tensor([0, 2])

        def forward(self, x, y):
            z = self.fc(x)
            return {"sum": z + y, "parts": [z[self.places], (z * 2, y)]}

    net = Nested().eval()
    x, y = flow.randn(3, 6), flow.randn(3, 5)
    wanted = net(x, y)
    found = XRTModule(net, engine=engine)(x, y)
    close(found["sum"], wanted["sum"])
    close(found["parts"][0], wanted["parts"][0])
    close(found["parts"][1][0], wanted["parts"][1][0])
    close(found["parts"][1][1], wanted["parts"][1][1])


def test_changed_weights_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network().eval()
    wrapped = XRTModule(net, engine="native")
    x = flow.randn(2, 1, 8, 8)
    close(wrapped(x), net(x))
    (program,) = wrapped.programs()
    assert len(program.inputs) == 1  # the weights are built in
    # Whether they are built in again depends on how long runs take.
    monkeypatch.setattr(Refolding, "is_due", lambda _: False)
    with flow.no_grad():
        net.head.weight.mul_(2.0)
    close(wrapped(x), net(x))
    (program,) = wrapped.programs()
    assert len(program.inputs) > 1
    other = network(seed=9)
    wrapped.load_state_dict(other.state_dict())
    close(wrapped(x), other.eval()(x))
    assert next(wrapped.programs()) is program  # no change compiles anything


def weight_of_one_element(net: Net) -> None:
    with flow.no_grad():
        net.conv2.weight[3, 5, 1, 2] = 7.0


def weight_through_numpy(net: Net) -> None:
    net.conv2.weight.numpy()[3, 5, 1, 2] = 7.0


def memory_exchanged(net: Net) -> None:
    net.head.weight.data = net.head.weight.detach() * 3.0


def parameter_replaced(net: Net) -> None:
    net.head.weight = nn.Parameter(net.head.weight.detach() * 3.0)


def module_replaced(net: Net) -> None:
    net.head = nn.Linear(64, 10)


def mode_of_a_part(net: Net) -> None:
    net.norm.train()


def running_statistics(net: Net) -> None:
    net.norm.running_mean.add_(1.0)


CHANGES = [
    weight_of_one_element,
    weight_through_numpy,
    memory_exchanged,
    parameter_replaced,
    module_replaced,
    mode_of_a_part,
    running_statistics,
]


@pytest.mark.parametrize("change", CHANGES)
def test_no_change_goes_unnoticed(change: Callable[[Net], None]) -> None:
    net = network().eval()
    wrapped = XRTModule(net, engine="native")
    x = flow.randn(2, 1, 8, 8)
    before = wrapped(x)
    for _ in range(2):  # the second time the weights are inputs
        change(net)
        found = wrapped(x).numpy()
        close(flow.from_numpy(found), net(x))
    assert np.abs(found - before.numpy()).max() > 1e-3


def test_weights_that_are_not_watched_change_when_told() -> None:
    net = nn.Linear(4, 4).eval()
    wrapped = XRTModule(net, engine="native", watch_weights=False)
    x = flow.ones(1, 4)
    before = wrapped(x).numpy()
    with flow.no_grad():
        net.weight.mul_(2.0)
    np.testing.assert_array_equal(wrapped(x).numpy(), before)
    wrapped.refresh()
    close(wrapped(x), net(x))


def test_a_part_in_evaluation_mode_stays_so_in_training() -> None:
    plain, inner = network(), network()
    wrapped = XRTModule(inner, engine="native")
    x = flow.randn(4, 1, 8, 8)
    for module, net in ((plain, plain), (wrapped, inner)):
        module.train()
        net.norm.eval()
        module(x).sum().backward()
        assert net.training
        assert not net.norm.training
    close(inner.conv1.weight.grad, plain.conv1.weight.grad)
    np.testing.assert_array_equal(inner.norm.running_mean.numpy(), plain.norm.running_mean.numpy())


def test_statistics_of_a_part_in_training_mode_are_kept() -> None:
    plain, inner = network().eval(), network().eval()
    wrapped = XRTModule(inner, engine="native")
    x = flow.randn(4, 1, 8, 8)
    for net in (plain, inner):
        net.norm.train()
    for _ in range(2):
        with flow.no_grad():
            close(wrapped(x), plain(x))
    for a, b in zip(inner.buffers(), plain.buffers(), strict=True):
        close(a, b)


def test_training_mode_without_gradients() -> None:
    plain, inner = network(), network()
    wrapped = XRTModule(inner, engine="native")
    x = flow.randn(4, 1, 8, 8)
    with flow.no_grad():
        close(wrapped(x), plain(x))
    for a, b in zip(inner.buffers(), plain.buffers(), strict=True):
        close(a, b)
    norm = XRTModule(nn.BatchNorm2d(1, affine=False), engine="native")
    close(norm(x), nn.BatchNorm2d(1, affine=False)(x))
    assert norm.running_mean.numpy()[0] != 0


def test_modes_take_turns_without_compiling_again() -> None:
    net = network()
    wrapped = XRTModule(net, engine="native")
    x = flow.randn(4, 1, 8, 8)
    made = []
    for _ in range(2):
        wrapped.train()
        wrapped(x).sum().backward()
        wrapped.eval()
        with flow.no_grad():
            wrapped(x)
        made.append(list(wrapped.programs()))
    assert len(made[0]) == 3
    # In training the running statistics changed: the weights became inputs, nothing else.
    assert made[1][-2:] == made[0][-2:]


def test_the_wrapped_module_is_shared() -> None:
    net = network()
    wrapped = XRTModule(net, engine="native")
    assert list(wrapped.state_dict()) == list(net.state_dict())
    assert [id(p) for p in wrapped.parameters()] == [id(p) for p in net.parameters()]
    wrapped.eval()
    assert not net.training
    assert not net.norm.training


@pytest.mark.parametrize("engine", [["native"], ["xla"], ["openvino", "xla"]])
def test_gradients_of_a_module_in_training(engine: list[str]) -> None:
    plain, inner = network(), network()
    wrapped = XRTModule(inner, engine=engine)
    x = np.random.default_rng(1).normal(size=(4, 1, 8, 8)).astype(np.float32)
    inputs = [flow.tensor(x, requires_grad=True) for _ in range(2)]
    labels = flow.tensor([1, 2, 3, 4], dtype=flow.int64)
    loss = nn.CrossEntropyLoss()
    for module, given in ((plain, inputs[0]), (wrapped, inputs[1])):
        loss(module(given), labels).backward()
    close(inputs[1].grad, inputs[0].grad)
    for (name, a), b in zip(plain.named_parameters(), inner.parameters(), strict=True):
        assert b.grad is not None, name
        close(b.grad, a.grad)
    for a, b in zip(plain.buffers(), inner.buffers(), strict=True):
        close(b, a)


def test_dropout_masks_are_those_of_the_forward_pass() -> None:
    net = nn.Sequential(nn.Dropout(0.5))
    wrapped = XRTModule(net, engine="native")
    x = flow.ones(8, 16, requires_grad=True)
    y = wrapped(x)
    y.sum().backward()
    kept = y.numpy() != 0
    assert 20 < kept.sum() < 108
    np.testing.assert_allclose(x.grad.numpy(), np.where(kept, 2.0, 0.0))


@pytest.mark.parametrize("engine", ["native", "xla"])
def test_training_a_module_as_oneflow_does(engine: str) -> None:
    pictures, labels = digits()
    curves = []
    for wrap in (False, True):
        net = network()
        model = XRTModule(net, engine=engine) if wrap else net
        optimizer = flow.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        loss_of = nn.CrossEntropyLoss()
        curve = []
        for step in range(200):
            at = step * 32 % 640
            x, y = flow.tensor(pictures[at : at + 32]), flow.tensor(labels[at : at + 32])
            loss = loss_of(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            curve.append(float(loss.numpy()))
        curves.append(curve)
    assert curves[0][-1] < 0.1 < curves[0][0]
    assert np.abs(np.array(curves[0]) - curves[1]).max() <= 1e-3


OPTIMIZERS = {
    "sgd": lambda p: flow.optim.SGD(p, lr=0.05),
    "momentum": lambda p: flow.optim.SGD(p, lr=0.02, momentum=0.9),
    "adam": lambda p: flow.optim.Adam(p, lr=0.002),
}


class Step(nn.Graph):
    """A training step."""

    def __init__(self, net: nn.Module, optimizer: object, schedule: object) -> None:
        super().__init__()
        self.net = net
        self.loss = nn.CrossEntropyLoss()
        self.add_optimizer(optimizer, lr_sch=schedule)

    def build(self, x: flow.Tensor, y: flow.Tensor) -> flow.Tensor:
        loss = self.loss(self.net(x), y)
        loss.backward()
        return loss


@pytest.mark.parametrize("engine", ["native", "xla"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_a_graph_whole(name: str, engine: str) -> None:
    # The judge is OneFlow step by step, not OneFlow running the graph: 0.9.0 takes a job off its
    # queue before it puts it there when the job ends early, which ends the process now and then.
    pictures, labels = digits()
    curves, weights = [], []
    for wrap in (False, True):
        net = network()
        optimizer = OPTIMIZERS[name](net.parameters())
        schedule = flow.optim.lr_scheduler.CosineAnnealingLR(optimizer, 400)
        loss_of = nn.CrossEntropyLoss()
        graph = XRTModule(Step(net, optimizer, schedule), engine=engine)
        curve = []
        for step in range(200):
            at = step * 32 % 640
            x, y = flow.tensor(pictures[at : at + 32]), flow.tensor(labels[at : at + 32])
            if wrap:
                loss = graph(x, y)
            else:
                loss = loss_of(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
            curve.append(float(loss.numpy()))
        curves.append(curve)
        weights.append(net.head.weight.numpy().copy())
    assert curves[0][-1] < 0.5 * curves[0][0]
    assert np.abs(np.array(curves[0]) - curves[1]).max() <= 1e-3
    # In OneFlow's own memory.
    assert np.abs(weights[0] - weights[1]).max() <= 1e-2


def test_results_that_nobody_asks_a_gradient_for() -> None:
    class Several(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 3)

        def forward(self, x):
            y = self.fc(x)
            return y.mean(), y * 2, y.argmax(1)

    plain = Several()
    inner = Several()
    inner.load_state_dict(plain.state_dict())
    x = flow.randn(5, 4)
    for module in (plain, XRTModule(inner, engine="native")):
        loss, _, found = module(x)
        assert loss.shape == ()
        assert found.dtype == flow.int64
        loss.backward()
    close(inner.fc.weight.grad, plain.fc.weight.grad)
    labels = nn.Sequential(nn.Linear(4, 3))
    labels.forward = lambda x: x.argmax(1)
    with pytest.raises(openxrt.InvalidArgument, match="no floating-point result"):
        XRTModule(labels, engine="native")(x)


def test_an_op_that_oneflow_cannot_write_is_named() -> None:
    with pytest.raises(openxrt.Unsupported, match=r"\(softplus\): OneFlow 0\.9\.0 cannot write"):
        XRTModule(nn.Softplus().eval(), engine="native")(flow.ones(2))


def test_stochastic_depth_drops_whole_samples() -> None:
    class Depth(nn.Module):
        def forward(self, x):
            return x * flow.bernoulli(flow.ones(x.shape[0], 1) * 0.5)

    wrapped = XRTModule(Depth(), engine="native")
    rows = wrapped(flow.ones(64, 3)).numpy()
    assert set(np.unique(rows)) == {0.0, 1.0}
    assert (rows == rows[:, :1]).all()
    assert 10 < rows[:, 0].sum() < 54


def test_wrong_arguments_are_told() -> None:
    with pytest.raises(openxrt.InvalidArgument, match=r"nn\.Module or nn\.Graph"):
        XRTModule(flow.relu)
    with pytest.raises(openxrt.InvalidArgument, match="int8_calibration without use_int8"):
        XRTModule(nn.Linear(2, 2), int8_calibration=3)
    with pytest.raises(openxrt.InvalidArgument, match="argument 0 is a ndarray"):
        XRTModule(nn.Linear(2, 2))(np.zeros((1, 2), np.float32))
    with pytest.raises(openxrt.NotFound, match="warp"):
        XRTModule(nn.Linear(2, 2).eval(), engine="warp")(flow.zeros(1, 2))


def test_the_training_example(tmp_path: Path) -> None:
    picture = tmp_path / "curves.svg"
    example = Path(__file__).resolve().parents[2] / "examples" / "oneflow" / "train_digits.py"
    ways = ["--engine", "native", "--engine", "native, whole job"]
    done = subprocess.run(
        [sys.executable, example, "--steps", "20", "--svg", picture, *ways],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 4
    assert picture.read_text().count("<polyline") == 3


def test_the_toy_example() -> None:
    example = Path(__file__).resolve().parents[2] / "examples" / "oneflow" / "toy.py"
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    difference = done.stdout.splitlines()[-1]
    assert difference.startswith("largest difference from OneFlow: ")
    assert float(difference.split(": ")[1]) < 1e-6


def test_the_example_that_saves_resnet50(tmp_path: Path) -> None:
    example = Path(__file__).resolve().parents[2] / "examples" / "oneflow" / "save_resnet50.py"
    folder = tmp_path / "model"
    done = subprocess.run(
        [sys.executable, example, folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    program = openxrt.load(folder, engine="native")
    (output,) = program.outputs
    assert output.name == "output_0"
    found = program(np.zeros((1, 3, 224, 224), np.float32))
    assert found.shape == (1, 1000)
    assert np.isfinite(found).all()
