# SPDX-License-Identifier: Apache-2.0
"""openxrt.Trainer over the processes of a torch.distributed group, as examples/ddp has it: losses
and weights are those of one process without a group and whole batches, also after a kill."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import openxrt
import pytest

torch = pytest.importorskip("torch")
datasets = pytest.importorskip("sklearn.datasets")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ddp" / "trainer.py"
sys.path.append(os.fspath(EXAMPLE.parent))

import trainer as example  # noqa: E402

BATCH, EPOCHS = 64, 3


def fresh(optimizer: str) -> openxrt.Trainer:
    """Without a group."""
    return openxrt.Trainer.from_torch(
        example.network(),
        (torch.zeros(2, 64),),
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        optimizer=example.OPTIMIZERS[optimizer],
        engine="native",
    )


def alone(optimizer: str) -> tuple[list[float], dict[str, np.ndarray]]:
    """The mean loss of each epoch, and the state that one process comes to."""
    images, labels = datasets.load_digits(return_X_y=True)
    images, labels = (images / 16).astype(np.float32), labels.astype(np.int64)
    trainer = fresh(optimizer)
    means = []
    for epoch in range(EPOCHS):
        order = np.random.default_rng(epoch).permutation(len(images))
        losses = []
        for step in range(len(images) // BATCH):
            batch = order[step * BATCH : (step + 1) * BATCH]
            losses.append(trainer.step(images[batch], target=labels[batch]))
        means.append(float(np.mean(losses)))
    return means, trainer.state_dict()


def start(checkpoint: Path, *options: str, launcher: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", *launcher, str(EXAMPLE), "--checkpoint", str(checkpoint)]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(
        [*command, "--epochs", str(EPOCHS), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": path,
            "OMP_NUM_THREADS": "1",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # as docs/guides/cluster.md has it
        },
    )


def judge(process: subprocess.Popen[str], checkpoint: Path, optimizer: str) -> str:
    """Ends where the processes have come to the state of one; what they printed."""
    told, errors = process.communicate(timeout=240)
    assert process.returncode == 0, told + errors
    _, state = alone(optimizer)
    trainer = fresh(optimizer)
    trainer.load(checkpoint)
    found = trainer.state_dict()
    assert set(found) == set(state)
    for name, value in state.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-5, err_msg=name)
    return told


@pytest.mark.parametrize(
    ("optimizer", "engine"),
    [("sgd", "native"), ("adam", "native"), ("adam", "openvino,native")],
)
def test_two_processes_come_to_the_state_of_one(
    tmp_path: Path, optimizer: str, engine: str
) -> None:
    checkpoint = tmp_path / "state"
    process = start(checkpoint, "--optimizer", optimizer, "--engine", engine)
    told = judge(process, checkpoint, optimizer)
    losses = [float(text) for text in re.findall(r"epoch \d+: loss ([\d.]+)", told)]
    np.testing.assert_allclose(losses, alone(optimizer)[0], atol=2e-4)


def test_training_goes_on_after_a_process_was_killed(tmp_path: Path) -> None:
    checkpoint = tmp_path / "state"
    process = start(checkpoint, launcher=("--max-restarts", "2"))
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("epoch 0"):
            break
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    judge(process, checkpoint, "sgd")


def test_engine_auto_is_refused() -> None:
    with pytest.raises(openxrt.InvalidArgument, match="name the engines"):
        openxrt.Trainer("model.onnx", engine="auto", process_group=object())
