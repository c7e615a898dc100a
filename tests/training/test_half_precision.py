# SPDX-License-Identifier: Apache-2.0
"""Training in half precision against PyTorch's autocast and GradScaler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import openxrt
import pytest
from openxrt import optim

torch = pytest.importorskip("torch")
from torch_nets import cnn, graph_of, mlp  # noqa: E402 (they need torch)

functional = torch.nn.functional
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
# Of the loss, per step: rounding errors of the two that add up over thirty steps.
BOUNDS = {"bf16": 0.06, "f16": 0.015}
# OpenVINO keeps gradients in float16, too, where the processor multiplies it: the scaled ones may
# be out of its range once, and a step is skipped.
MAY_SKIP = {("openvino", "f16")} if "avx512_fp16" in Path("/proc/cpuinfo").read_text() else set()
ENGINES = [name for name in ("native", "xla", "openvino") if name in openxrt.engines()]


class Reference:
    """One network, trained by PyTorch."""

    def __init__(
        self,
        net: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        precision: str,
        loss: Callable[..., torch.Tensor],
        **scaling: float,
    ) -> None:
        self.net, self.optimizer, self.loss = net, optimizer, loss
        self.dtype = DTYPES[precision]
        self.scaler = torch.amp.GradScaler("cpu", enabled=precision == "f16", **scaling)

    def step(self, x: np.ndarray, y: np.ndarray, *, skip: bool = False) -> float:
        self.optimizer.zero_grad()
        with torch.autocast("cpu", self.dtype):
            loss = self.loss(self.net(torch.from_numpy(x)), torch.from_numpy(y))
        if skip:
            return loss.item()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()


def pictures(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = rng.standard_normal((16, 1, 8, 8)).astype(np.float32)
    return x, (np.abs(x.mean((1, 2, 3))) * 50).astype(np.int64) % 10


@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_cnn_learns_as_under_autocast(engine: str, precision: str) -> None:
    net = cnn()
    trainer = openxrt.Trainer(
        graph_of(net, ["n", 1, 8, 8], "float32"),
        optimizer=optim.SGD(learning_rate=0.1, momentum=0.9),
        engine=engine,
        precision=precision,
    )
    reference = Reference(
        net,
        torch.optim.SGD(net.parameters(), 0.1, momentum=0.9),
        precision,
        functional.cross_entropy,
    )
    rng = np.random.default_rng(0)
    skipped = 0
    for step in range(30):
        x, y = pictures(rng)
        loss = trainer.step(x, target=y)
        skips = trainer.skipped_steps > skipped
        skipped = trainer.skipped_steps
        wanted = reference.step(x, y, skip=skips)
        assert loss == pytest.approx(wanted, abs=BOUNDS[precision]), f"step {step}"
    assert skipped <= ((engine, precision) in MAY_SKIP)
    scale = 65536 >> skipped
    assert trainer.loss_scale == (scale if precision == "f16" else 1)
    notes = " ".join(trainer.explain()["notes"])
    assert f"nodes in {precision}" in notes or "computes in float32" not in notes
    told = f"loss scale {scale}: {skipped} of 30 steps were skipped"
    assert (told in notes) == (precision == "f16")
    # Weights and moments stay in float32, more exact than the gradients.
    assert {value.dtype for value in trainer.state_dict().values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("engine", ENGINES)
def test_adam_keeps_its_moments_in_float32(engine: str, precision: str) -> None:
    """Squares of gradients as small as 1e-5 are nothing in float16."""
    net = mlp(torch.float32)
    trainer = openxrt.Trainer(
        graph_of(net, [8, 6], "float32"),
        loss="mse",
        optimizer=optim.Adam(learning_rate=0.01),
        engine=engine,
        precision=precision,
    )
    reference = Reference(
        net,
        torch.optim.Adam(net.parameters(), 0.01),
        precision,
        lambda y, target: functional.mse_loss(y.float(), target),
    )
    rng = np.random.default_rng(1)
    for _ in range(30):
        x = rng.standard_normal((8, 6)).astype(np.float32)
        y = 1e-3 * x[:, :4]
        trainer.step(x, target=y)
        reference.step(x, y)
    state = reference.optimizer.state_dict()["state"]
    for i, name in enumerate(trainer.parameter_names):
        wanted = state[i]["exp_avg_sq"].numpy()
        assert wanted.max() < 1e-2
        assert np.abs(trainer.state_dict()[f"{name}:exp_avg_sq"] - wanted).max() <= (
            0.15 * wanted.max()
        )


@pytest.mark.parametrize("engine", ENGINES)
def test_steps_are_skipped_as_by_a_grad_scaler(engine: str) -> None:
    """By gradients that are not finite at any scale; what overflows at one is the engine's own."""
    net = mlp(torch.float32)
    scaling = {"initial": 16.0, "growth": 2.0, "backoff": 0.25, "growth_interval": 5}
    trainer = openxrt.Trainer(
        graph_of(net, [8, 6], "float32"),
        loss="mse",
        optimizer=optim.Adam(learning_rate=0.01),
        engine=engine,
        precision="f16",
        loss_scale=optim.LossScale(**scaling),
    )
    reference = Reference(
        net,
        torch.optim.Adam(net.parameters(), 0.01),
        "f16",
        lambda y, target: functional.mse_loss(y.float(), target),
        init_scale=16.0,
        growth_factor=2.0,
        backoff_factor=0.25,
        growth_interval=5,
    )
    rng = np.random.default_rng(2)
    skipped = 0
    for step in range(40):
        x = rng.standard_normal((8, 6)).astype(np.float32)
        if step in (0, 13, 14, 29, 31):
            x[3, 2] = np.inf
        y = rng.standard_normal((8, 4)).astype(np.float32)
        before = trainer.state_dict()
        scale = reference.scaler.get_scale()
        trainer.step(x, target=y)
        reference.step(x, y)
        assert trainer.loss_scale == reference.scaler.get_scale(), f"step {step}"
        if reference.scaler.get_scale() < scale:
            skipped += 1
            for name, value in trainer.state_dict().items():
                np.testing.assert_array_equal(value, before[name], err_msg=name)
    assert skipped == 5
    assert trainer.skipped_steps == skipped
    assert trainer.step_count == 40
    # Adam's corrections count the updates, not the steps.
    for key, value in net.state_dict().items():
        np.testing.assert_allclose(trainer.state_dict()[key], value.numpy(), atol=5e-3)


def broken(trainer: openxrt.Trainer) -> None:
    """One step whose gradients are not finite."""
    x = np.ones((8, 6), np.float32)
    x[0, 0] = np.inf
    trainer.step(x, target=np.zeros((8, 4), np.float32))


def test_a_static_scale_stays() -> None:
    trainer = openxrt.Trainer(
        graph_of(mlp(torch.float32), [8, 6], "float32"), loss="mse", loss_scale=1024
    )
    before = trainer.state_dict()
    broken(trainer)
    assert (trainer.loss_scale, trainer.skipped_steps) == (1024, 1)
    for name, value in trainer.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_scaling_changes_nothing_in_float32() -> None:
    x, y = np.ones((8, 6), np.float32), np.zeros((8, 4), np.float32)
    states = []
    for scale in ("none", "dynamic", 8.0):
        trainer = openxrt.Trainer(
            graph_of(mlp(torch.float32), [8, 6], "float32"),
            loss="mse",
            optimizer=optim.SGD(learning_rate=0.1, momentum=0.9, clip_norm=0.5),
            loss_scale=scale,
        )
        losses = [trainer.step(x, target=y) for _ in range(5)]
        states.append((losses, trainer.state_dict()))
    for losses, state in states[1:]:
        np.testing.assert_allclose(losses, states[0][0], rtol=1e-6)
        for name, value in state.items():
            np.testing.assert_allclose(value, states[0][1][name], rtol=1e-5, atol=1e-7)


def test_checkpoints_keep_the_scale(tmp_path: Path) -> None:
    def make(**options: object) -> openxrt.Trainer:
        return openxrt.Trainer(
            graph_of(mlp(torch.float32), [8, 6], "float32"), loss="mse", **options
        )

    scaled = {"loss_scale": optim.LossScale(growth_interval=3)}
    x, y = np.ones((8, 6), np.float32), np.zeros((8, 4), np.float32)
    first = make(**scaled)
    broken(first)
    first.step(x, target=y)
    first.step(x, target=y)
    first.save(tmp_path / "run.state")
    second = make(**scaled)
    second.load(tmp_path / "run.state")
    assert (second.loss_scale, second.skipped_steps, second.step_count) == (32768, 1, 3)
    second.step(x, target=y)  # the third in a row
    assert second.loss_scale == 65536
    plain = make()
    plain.load(tmp_path / "run.state")
    assert (plain.loss_scale, plain.skipped_steps) == (1, 1)
    plain.save(tmp_path / "plain.state")
    third = make(**scaled)
    third.load(tmp_path / "plain.state")
    assert third.loss_scale == 65536  # that of a run without scaling is none


def test_a_scale_that_falls_below_one_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    trainer = openxrt.Trainer(
        graph_of(mlp(torch.float32), [8, 6], "float32"),
        loss="mse",
        loss_scale=optim.LossScale(initial=4),
    )
    for _ in range(6):
        broken(trainer)
    said = capfd.readouterr().err
    assert said.count("gradients are not finite at a loss scale of 1 either") == 1
    assert trainer.skipped_steps == 6


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("often", "loss_scale 'often' is not known"),
        (0, "initial must be a positive float32"),
        (float("nan"), "initial must be a positive float32"),
        (optim.LossScale(backoff=1.5), "backoff must be between 0 and 1"),
        (optim.LossScale(growth=0.5), "growth must be at least 1"),
        (optim.LossScale(growth_interval=0), "growth_interval must be at least 1"),
    ],
)
def test_scales_that_make_no_sense(given: object, said: str) -> None:
    with pytest.raises(openxrt.InvalidArgument, match=said):
        openxrt.Trainer(
            graph_of(mlp(torch.float32), [8, 6], "float32"), loss="mse", loss_scale=given
        )
