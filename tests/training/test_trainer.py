# SPDX-License-Identifier: Apache-2.0
"""openxrt.Trainer against PyTorch: optimizers, losses, networks, checkpoints, bad input."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openxrt
import pytest
from openxrt import optim

torch = pytest.importorskip("torch")
from torch_nets import cnn, graph_of, mlp  # noqa: E402 (they need torch)

functional = torch.nn.functional

Net = Callable[[], "torch.nn.Module"]


OPTIMIZERS = {
    "sgd": (optim.SGD(learning_rate=0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "momentum": (
        optim.SGD(learning_rate=0.05, momentum=0.9, dampening=0.3, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, dampening=0.3, weight_decay=0.01),
    ),
    "nesterov": (
        optim.SGD(learning_rate=0.05, momentum=0.8, nesterov=True),
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.8, nesterov=True),
    ),
    "adagrad": (
        optim.Adagrad(learning_rate=0.05, learning_rate_decay=0.1, initial_accumulator=0.2),
        lambda p: torch.optim.Adagrad(p, 0.05, lr_decay=0.1, initial_accumulator_value=0.2),
    ),
    "rmsprop": (
        optim.RMSprop(learning_rate=0.01, alpha=0.9, weight_decay=0.02),
        lambda p: torch.optim.RMSprop(p, 0.01, alpha=0.9, weight_decay=0.02),
    ),
    "rmsprop centered": (
        optim.RMSprop(learning_rate=0.01, centered=True, momentum=0.7),
        lambda p: torch.optim.RMSprop(p, 0.01, centered=True, momentum=0.7),
    ),
    "adam": (
        optim.Adam(learning_rate=0.02, weight_decay=0.01, beta1=0.8, beta2=0.9),
        lambda p: torch.optim.Adam(p, 0.02, weight_decay=0.01, betas=(0.8, 0.9)),
    ),
    "amsgrad": (
        optim.Adam(learning_rate=0.02, amsgrad=True, beta2=0.9),
        lambda p: torch.optim.Adam(p, 0.02, amsgrad=True, betas=(0.9, 0.9)),
    ),
    "adamw": (
        optim.AdamW(learning_rate=0.02, weight_decay=0.1),
        lambda p: torch.optim.AdamW(p, 0.02, weight_decay=0.1),
    ),
}


def regression(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((8, 6)), rng.standard_normal((8, 4))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_are_those_of_torch_in_float64(name: str) -> None:
    ours, theirs = OPTIMIZERS[name]
    net = mlp()
    trainer = openxrt.Trainer(graph_of(net, [8, 6], "float64"), loss="mse", optimizer=ours)
    optimizer = theirs(net.parameters())
    for step in range(12):
        x, y = regression(step)
        optimizer.zero_grad()
        loss = functional.mse_loss(net(torch.from_numpy(x)), torch.from_numpy(y))
        loss.backward()
        optimizer.step()
        assert trainer.step(x, target=y) == pytest.approx(loss.item(), rel=1e-9)
    for key, value in net.state_dict().items():
        np.testing.assert_allclose(trainer.state_dict()[key], value.numpy(), rtol=1e-8, atol=1e-10)


def test_lamb_follows_its_paper_in_float64() -> None:
    net = mlp()
    settings = optim.LAMB(learning_rate=0.02, weight_decay=0.05)
    trainer = openxrt.Trainer(graph_of(net, [8, 6], "float64"), loss="mse", optimizer=settings)
    moments = {p: (torch.zeros_like(p), torch.zeros_like(p)) for p in net.parameters()}
    for t in range(1, 9):
        x, y = regression(t)
        net.zero_grad()
        functional.mse_loss(net(torch.from_numpy(x)), torch.from_numpy(y)).backward()
        with torch.no_grad():
            for p, (m, v) in moments.items():
                m.mul_(0.9).add_(p.grad, alpha=0.1)
                v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                r = (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-6) + 0.05 * p
                trust = p.norm() / r.norm() if p.norm() > 0 and r.norm() > 0 else 1.0
                p.sub_(0.02 * trust * r)
        trainer.step(x, target=y)
    for key, value in net.state_dict().items():
        np.testing.assert_allclose(trainer.state_dict()[key], value.numpy(), rtol=1e-8)


@pytest.mark.parametrize("kind", ["value", "norm"])
def test_clipping_is_that_of_torch(kind: str) -> None:
    net = mlp()
    bounds = {"clip_value": 0.05} if kind == "value" else {"clip_norm": 0.3}
    settings = optim.SGD(learning_rate=0.5, **bounds)
    trainer = openxrt.Trainer(graph_of(net, [8, 6], "float64"), loss="mse", optimizer=settings)
    optimizer = torch.optim.SGD(net.parameters(), 0.5)
    for step in range(5):
        x, y = regression(step)
        optimizer.zero_grad()
        functional.mse_loss(net(torch.from_numpy(x)), torch.from_numpy(y)).backward()
        if kind == "value":
            torch.nn.utils.clip_grad_value_(net.parameters(), 0.05)
        else:
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.3)
        optimizer.step()
        trainer.step(x, target=y)
    for key, value in net.state_dict().items():
        np.testing.assert_allclose(trainer.state_dict()[key], value.numpy(), rtol=1e-9)


def losses() -> dict[str, tuple[optim.Loss, np.ndarray, np.ndarray, Callable[..., object]]]:
    rng = np.random.default_rng(9)
    logits = rng.standard_normal((5, 4))
    classes = np.array([0, 3, -100, 1, 2])
    reals = rng.standard_normal((5, 4)) * 2
    shares = rng.uniform(0.05, 0.95, (5, 4))
    log_p = np.log(shares / shares.sum(1, keepdims=True))
    odds = rng.dirichlet(np.ones(4), 5)
    f = functional
    return {
        "cross_entropy": (optim.Loss(), logits, classes, f.cross_entropy),
        "cross_entropy smooth": (
            optim.Loss(label_smoothing=0.2),
            logits,
            classes,
            lambda x, t: f.cross_entropy(x, t, label_smoothing=0.2),
        ),
        "cross_entropy probabilities": (
            optim.Loss(class_probabilities=True),
            logits,
            odds,
            f.cross_entropy,
        ),
        "cross_entropy images": (
            optim.Loss(reduction="sum"),
            rng.standard_normal((2, 4, 3)),
            np.array([[0, 1, 3], [2, 2, 0]]),
            lambda x, t: f.cross_entropy(x, t, reduction="sum"),
        ),
        "nll": (optim.Loss("nll"), log_p, classes, f.nll_loss),
        "mse": (optim.Loss("mse"), logits, reals, f.mse_loss),
        "l1": (
            optim.Loss("l1", "sum"),
            logits,
            reals,
            lambda x, t: f.l1_loss(x, t, reduction="sum"),
        ),
        "smooth_l1": (
            optim.Loss("smooth_l1", delta=0.7),
            logits,
            reals,
            lambda x, t: f.smooth_l1_loss(x, t, beta=0.7),
        ),
        "huber": (
            optim.Loss("huber", delta=0.7),
            logits,
            reals,
            lambda x, t: f.huber_loss(x, t, delta=0.7),
        ),
        "bce": (optim.Loss("bce"), shares, odds, f.binary_cross_entropy),
        "bce_with_logits": (
            optim.Loss("bce_with_logits"),
            reals * 5,
            odds,
            f.binary_cross_entropy_with_logits,
        ),
        "kl_div": (
            optim.Loss("kl_div", "batchmean"),
            log_p,
            odds * (odds > 0.1),
            lambda x, t: f.kl_div(x, t, reduction="batchmean"),
        ),
    }


@pytest.mark.parametrize("name", losses())
def test_losses_and_their_gradients_are_those_of_torch(name: str) -> None:
    loss, x, target, theirs = losses()[name]
    graph = openxrt.Graph("table")
    rows = graph.add_constant(x.copy(), "float64", "table")
    shift = graph.add_input("shift", "float64", [])
    (y,) = graph.add_node("Add", [rows, shift], ["y"])
    graph.add_output(y)
    trainer = openxrt.Trainer(graph, loss=loss, optimizer=optim.SGD(learning_rate=1.0))
    value = trainer.step(np.array(0.0), target=target)
    leaf = torch.from_numpy(x.copy()).requires_grad_()
    expected = theirs(leaf, torch.from_numpy(target))
    expected.backward()
    assert value == pytest.approx(expected.item(), rel=1e-10)
    gradient = x - trainer.state_dict()["table"]
    np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-9, atol=1e-12)


def engines(*names: str) -> list[object]:
    known = {report.name for report in openxrt.doctor() if report.available}
    return [
        pytest.param(
            name, marks=pytest.mark.skipif(not set(name.split(",")) <= known, reason="no engine")
        )
        for name in names
    ]


@pytest.mark.parametrize("engine", engines("native", "xla", "openvino,xla", "openvino,native"))
def test_a_cnn_learns_as_in_torch(engine: str) -> None:
    net = cnn()
    trainer = openxrt.Trainer(
        graph_of(net, ["n", 1, 8, 8], "float32"),
        optimizer=optim.SGD(learning_rate=0.1, momentum=0.9),
        engine=engine,
    )
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    rng = np.random.default_rng(0)
    for step in range(30):
        x = rng.standard_normal((16, 1, 8, 8)).astype(np.float32)
        y = (np.abs(x.mean((1, 2, 3))) * 50).astype(np.int64) % 10
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(torch.from_numpy(x)), torch.from_numpy(y))
        loss.backward()
        optimizer.step()
        ours = trainer.step(x, target=y)
        assert ours == pytest.approx(loss.item(), abs=1e-3), f"step {step}"
    net.eval()
    with torch.no_grad():
        expected = net(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(trainer.evaluate(x)[0], expected, atol=5e-3)
    for key in ("1.running_mean", "1.running_var", "5.running_var"):
        np.testing.assert_allclose(
            trainer.state_dict()[key], net.state_dict()[key].numpy(), rtol=1e-3, atol=1e-4
        )
    fixed = openxrt.load(trainer.model(), engine="native")(x)
    np.testing.assert_allclose(fixed, expected, atol=5e-3)


def dropping(p: float) -> torch.nn.Sequential:
    torch.manual_seed(1)
    nn = torch.nn
    return nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Dropout(p), nn.Linear(64, 4))


@pytest.mark.parametrize("engine", engines("native", "xla", "openvino,xla", "openvino,native"))
@pytest.mark.parametrize("name", ["sgd", "adam", "lamb"])
def test_weights_are_updated_where_they_lie(engine: str, name: str) -> None:
    """The function that updates is one that writes in place, and needs less memory than the new
    values would take."""
    torch.manual_seed(0)
    nn = torch.nn
    width = 160
    layers = [layer for _ in range(4) for layer in (nn.Linear(width, width), nn.ReLU())]
    graph = graph_of(nn.Sequential(*layers, nn.Linear(width, 10)), [4, width], "float32")
    optimizer = {
        "sgd": optim.SGD(learning_rate=0.01, momentum=0.9),
        "adam": optim.Adam(learning_rate=1e-3),
        "lamb": optim.LAMB(learning_rate=1e-3),
    }[name]
    trainer = openxrt.Trainer(graph, optimizer=optimizer, engine=engine)
    beside = openxrt.Trainer(graph, optimizer=optimizer, engine=engine, detect_anomaly=True)
    live = trainer.state_dict(copy=False)
    places = {key: value.ctypes.data for key, value in live.items()}
    x = np.random.default_rng(0).normal(size=(4, width)).astype(np.float32)
    for _ in range(3):
        loss = trainer.step(x, target=np.arange(4))
        assert loss == pytest.approx(beside.step(x, target=np.arange(4)), abs=1e-5)
    for key, value in trainer.state_dict(copy=False).items():
        assert value.ctypes.data == places[key]
        np.testing.assert_array_equal(value, live[key])
        np.testing.assert_allclose(value, beside.state_dict()[key], atol=1e-5)
    explanation = trainer.explain()
    updating = {
        node["engine"]
        for node in explanation["nodes"]
        if any(output.endswith("/next") for output in node["outputs"])
    }
    assert updating == {engine.split(",")[-1]}
    states = sum(value.nbytes for value in live.values())
    needed = explanation["arena_bytes"]
    needed += sum(
        launch["workspace_bytes"]
        for launch in explanation["launches"]
        if launch["engine"] in updating
    )
    assert needed < states * (0.75 if name != "lamb" else 1.5)


def deep_cnn() -> torch.nn.Sequential:
    torch.manual_seed(0)
    nn = torch.nn
    layers: list[torch.nn.Module] = []
    for i in range(6):
        layers += [nn.Conv2d(3 if i == 0 else 16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


@pytest.mark.parametrize("engine", engines("native", "xla"))
def test_recomputation_trains_the_same_in_less_memory(engine: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 3, 24, 24)).astype(np.float32)
    batch = {"x": x, "target": np.arange(8)}
    graph = graph_of(deep_cnn(), list(x.shape), "float32")
    needed: dict[str | int, int] = {}
    for recompute in ("none", "cheap", 3):
        trainer = openxrt.Trainer(
            graph,
            optimizer=optim.SGD(learning_rate=0.05, momentum=0.9),
            engine=engine,
            recompute=recompute,
        )
        losses = [trainer.step(**batch) for _ in range(3)]
        launches = trainer.explain()["launches"]
        needed[recompute] = sum(launch["workspace_bytes"] for launch in launches)
        again = sum(node["name"].endswith("/again") for node in trainer.explain()["nodes"])
        assert (again > 0) == (recompute != "none")
        if recompute == "none":
            expected, state = losses, trainer.state_dict()
            continue
        np.testing.assert_allclose(losses, expected, rtol=1e-6)
        for key, value in trainer.state_dict().items():
            np.testing.assert_allclose(value, state[key], atol=1e-6)
    if engine == "native":  # XLA's compiler orders the nodes itself
        assert needed["cheap"] < 0.75 * needed["none"]
        assert needed[3] < 0.75 * needed["none"]


@pytest.mark.parametrize("recompute", ["most", 1, -2])
def test_recomputation_of_no_kind_is_refused(recompute: str | int) -> None:
    with pytest.raises(openxrt.InvalidArgument, match="recompute"):
        openxrt.Trainer(graph_of(mlp(), [4, 6], "float64"), recompute=recompute)


def test_dropout_depends_on_the_seed_and_the_step_alone() -> None:
    x = np.random.default_rng(0).standard_normal((32, 6)).astype(np.float32)
    y = np.zeros(32, np.int64)

    def run(seed: int) -> list[float]:
        still = optim.SGD(learning_rate=0.0)
        graph = graph_of(dropping(0.5), [32, 6], "float32")
        trainer = openxrt.Trainer(graph, optimizer=still, seed=seed)
        return [trainer.step(x, target=y) for _ in range(4)]

    assert run(1) == run(1)
    assert len(set(run(1))) == 4
    assert set(run(1)).isdisjoint(run(2))


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    graph = openxrt.Graph("drop")
    x = graph.add_input("x", "float32", [1000, 100])
    w = graph.add_constant(np.ones(100, np.float32), "float32", "w")
    (h,) = graph.add_node("Mul", [x, w], ["h"])
    (d,) = graph.add_node("Dropout", [h, graph.add_constant(np.float32(0.3), "float32")], ["d"])
    graph.add_output(d)
    ones = np.ones((1000, 100), np.float32)
    trainer = openxrt.Trainer(
        graph, loss=optim.Loss("l1", "sum"), optimizer=optim.SGD(learning_rate=1.0)
    )
    # The loss is the sum of what was kept, each 1 / 0.7; so are the gradients.
    loss = trainer.step(ones, target=np.zeros_like(ones))
    assert loss / ones.size == pytest.approx(1.0, abs=0.01)
    kept = (1 - trainer.state_dict()["w"]) * 0.7
    assert np.all(np.abs(kept - np.round(kept)) < 0.01)
    assert np.mean(kept) == pytest.approx(700, abs=5)
    assert np.std(kept) == pytest.approx(np.sqrt(1000 * 0.21), rel=0.3)


def small_trainer(**options: object) -> openxrt.Trainer:
    return openxrt.Trainer(
        graph_of(mlp(torch.float32), ["n", 6], "float32"),
        loss="mse",
        optimizer=options.pop("optimizer", optim.Adam(learning_rate=0.01)),
        **options,
    )


def batch(seed: int, rows: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    shape = (rows, 6), (rows, 4)
    return tuple(rng.standard_normal(s).astype(np.float32) for s in shape)  # type: ignore[return-value]


def test_training_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    first = small_trainer()
    for step in range(3):
        x, y = batch(step)
        first.step(x, target=y)
    first.save(tmp_path / "state")
    rest = [first.step(batch(s)[0], target=batch(s)[1]) for s in range(3, 6)]
    second = small_trainer()
    second.load(tmp_path / "state")
    assert second.step_count == 3
    assert [second.step(batch(s)[0], target=batch(s)[1]) for s in range(3, 6)] == rest


@pytest.mark.parametrize("damage", ["truncated", "flipped", "header", "empty"])
def test_a_damaged_checkpoint_is_refused_and_changes_nothing(tmp_path: Path, damage: str) -> None:
    trainer = small_trainer()
    path = tmp_path / "state"
    trainer.save(path)
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        del content[-5:]
    elif damage == "flipped":
        content[-9] ^= 1
    elif damage == "header":
        content[3] ^= 1
    else:
        content.clear()
    path.write_bytes(content)
    x, y = batch(0)
    trainer.step(x, target=y)
    before = trainer.state_dict()
    with pytest.raises(openxrt.InvalidModel, match="checkpoint"):
        trainer.load(path)
    for name, value in trainer.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_a_checkpoint_of_another_optimizer_is_refused(tmp_path: Path) -> None:
    small_trainer(optimizer=optim.SGD()).save(tmp_path / "state")
    with pytest.raises(openxrt.InvalidModel, match=r"'.*:exp_avg.*' is missing"):
        small_trainer().load(tmp_path / "state")


def test_a_kill_while_saving_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "state"
    small_trainer().save(path)
    script = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "import test_trainer as t\n"
        "trainer = t.small_trainer()\n"
        "print('ready', flush=True)\n"
        "while True: trainer.save(sys.argv[1])\n"
    )
    here = str(Path(__file__).parent)
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(path), here], stdout=subprocess.PIPE, env=os.environ
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    small_trainer().load(path)


def test_the_learning_rate_needs_no_name() -> None:
    for kind in (optim.SGD, optim.Adagrad, optim.RMSprop, optim.Adam, optim.AdamW, optim.LAMB):
        assert kind(0.5) == kind(learning_rate=0.5)
        assert kind(0.5).options()["learning_rate"] == 0.5
    assert optim.AdamW().learning_rate == 1e-3
    with pytest.raises(TypeError):
        optim.SGD(0.5, 0.9)


def test_rates_follow_the_schedule() -> None:
    trainer = small_trainer(schedule=optim.cosine(0.1, total=10, warmup=2))
    rates = []
    for step in range(4):
        x, y = batch(step)
        trainer.step(x, target=y)
        rates.append(trainer.learning_rate)
    late = [0.05 * (1 + np.cos(np.pi * part / 8)) for part in (0, 1)]
    np.testing.assert_allclose(rates, [0.05, 0.1, *late])


def test_batches_of_another_size_are_trained_too() -> None:
    trainer = small_trainer()
    for rows in (8, 5, 8):
        x, y = batch(rows, rows)
        trainer.step(x, target=y)
    assert trainer.step_count == 3


@openxrt.engine("inference_only_relu", version="1", ops=["Relu"], training=False)
class InferenceOnlyRelu:
    """Takes Relu, outside training."""

    def supports(self, node: openxrt.NodeView) -> bool | str:
        return node.op == "Relu" or "no lowering"

    def compile(self, _function: openxrt.FunctionView) -> Callable[[np.ndarray], np.ndarray]:
        return lambda x: np.maximum(x, 0)


def test_engines_are_asked_for_a_training_step() -> None:
    """One that is for inference alone gets no node of a step, and the explanation says why."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    graph = graph_of(net, [5, 3], "float32")
    engines = ["inference_only_relu", "native"]
    program = openxrt.load(graph, engine=engines, cache_dir="")
    assert program.explain().nodes_per_engine["inference_only_relu"] == 1
    trainer = openxrt.Trainer(graph, loss="mse", optimizer=optim.SGD(0.1), engine=engines)
    trainer.step(np.ones([5, 3], np.float32), target=np.zeros([5, 2], np.float32))
    told = trainer.explain()
    assert "inference_only_relu" not in told.nodes_per_engine
    relu = next(node for node in told["nodes"] if node["op"] == "Relu")
    assert relu["refusals"]["inference_only_relu"] == "Relu runs in inference only"


def test_only_named_parameters_change() -> None:
    trainer = small_trainer(frozen=["0.weight", "0.bias"])
    assert trainer.parameter_names == ["2.weight", "2.bias"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "rmse"}, "rmse.*not known"),
        ({"loss": "output"}, "one element"),
        ({"parameters": ["nothing"]}, "'nothing'"),
        ({"frozen": ["0.weight", "0.bias", "2.weight", "2.bias"]}, "no parameters"),
        ({"prediction": 1}, "1 outputs.*no output 1"),
        ({"optimizer": optim.SGD(nesterov=True)}, "Nesterov"),
        ({"optimizer": "newton"}, "newton.*not known"),
        ({"loss": optim.Loss("mse", "median")}, "median"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object], message: str) -> None:
    graph = graph_of(mlp(torch.float32), [8, 6], "float32")
    with pytest.raises(openxrt.InvalidArgument, match=message):
        openxrt.Trainer(graph, **{"loss": "mse", **options})


def test_wrong_inputs_are_named() -> None:
    trainer = small_trainer()
    x, y = batch(0)
    with pytest.raises(openxrt.InvalidArgument, match="'target' was not given"):
        trainer.step(x)
    with pytest.raises(openxrt.InvalidArgument, match=r"'x' is float32.*float64"):
        trainer.step(x.astype(np.float64), target=y)
    with pytest.raises(openxrt.InvalidArgument, match=r"\[n,6\].*\[8,5\]"):
        trainer.step(x[:, :5].copy(), target=y)
    with pytest.raises(openxrt.InvalidArgument, match="no input 'z'"):
        trainer.step(x, target=y, z=y)
    with pytest.raises(openxrt.InvalidArgument, match="no 'nothing'"):
        trainer.load_state_dict({"nothing": x})
    with pytest.raises(openxrt.InvalidArgument, match=r"'0.bias' is float32\[9\]"):
        trainer.load_state_dict({"0.bias": np.zeros(3, np.float32)})


def test_classes_that_there_are_not_are_named() -> None:
    """PyTorch raises, too; -1 was taken for the last class."""
    trainer = openxrt.Trainer(graph_of(mlp(torch.float32), ["n", 6], "float32"))
    x, _ = batch(0)
    before = trainer.state_dict()
    good = np.array([0, 1, 2, 3, -100, 0, 1, 2])  # the fifth is ignored
    logits = torch.from_numpy(trainer.evaluate(x)[0])
    expected = torch.nn.functional.cross_entropy(logits, torch.from_numpy(good)).item()
    assert abs(trainer.loss(x, target=good) - expected) < 1e-5
    for wrong, text in ((-1, "-1"), (4, "4"), (2**40, "1099511627776"), (0.5, "0.5")):
        target = good.astype(np.float32 if wrong == 0.5 else np.int64)
        target[2] = wrong
        message = rf"target holds {text} at element 2: the prediction has classes 0 to 3"
        for call in (trainer.step, trainer.loss):
            with pytest.raises(openxrt.InvalidArgument, match=message):
                call(x, target=target)
    for name, value in trainer.state_dict().items():
        np.testing.assert_array_equal(value, before[name])
    trainer.step(x, target=good.astype(np.int32))


def test_a_setting_of_a_wrong_type_is_named() -> None:
    for settings, message in (
        ({"learning_rate": "a"}, "learning_rate is 'a'"),
        ({"weight_decay": None}, "weight_decay is None"),
    ):
        with pytest.raises(TypeError, match=message):
            small_trainer(optimizer=optim.SGD(**settings))


def test_an_anomaly_names_the_node_and_changes_nothing() -> None:
    graph = openxrt.Graph("logs")
    x = graph.add_input("x", "float32", [4])
    w = graph.add_constant(np.array([1, 2, -1, 1], np.float32), "float32", "w")
    (p,) = graph.add_node("Mul", [x, w], ["p"], name="product")
    (y,) = graph.add_node("Log", [p], ["y"], name="logarithm")
    graph.add_output(y)
    trainer = openxrt.Trainer(graph, loss="mse", detect_anomaly=True)
    with pytest.raises(openxrt.InvalidArgument, match=r"'logarithm' \(Log\) made nan at element 2"):
        trainer.step(np.ones(4, np.float32), target=np.zeros(4, np.float32))
    np.testing.assert_array_equal(trainer.state_dict()["w"], [1, 2, -1, 1])
    with pytest.raises(openxrt.InvalidArgument, match="input 'x' holds inf at element 1"):
        trainer.step(np.array([1, np.inf, 1, 1], np.float32), target=np.zeros(4, np.float32))


def test_steps_of_several_threads() -> None:
    """More sizes than programs are kept: each step is its own, and none is lost."""
    program = """
        import threading
        import numpy as np, onnx.parser, openxrt
        text = '''<ir_version: 10, opset_import: ["" : 21]> g (float[N,1] x) => (float[N,1] y)
            <float[1,1] w = {0}> { y = MatMul(x, w) }'''
        model = onnx.parser.parse_model(text).SerializeToString()
        trainer = openxrt.Trainer(
            model, loss="mse", optimizer=openxrt.optim.SGD(learning_rate=0.0), engine="native"
        )
        wrong = []
        def work(first):
            for turn in range(120):
                rows = 1 + (first + turn) % 20
                z = np.ones((rows, 1), np.float32)
                if turn % 10 == 0:
                    wrong.extend(trainer.evaluate(z)[0].ravel())
                    trainer.learning_rate, trainer.state_dict()
                loss = trainer.step(z, target=rows * z)
                if abs(loss - rows * rows) > 1e-3 * rows * rows:
                    wrong.append((rows, loss))
        threads = [threading.Thread(target=work, args=[7 * i]) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print([value for value in wrong if value != 0], trainer.step_count)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.strip() == "[] 360", (done.returncode, done.stderr)
