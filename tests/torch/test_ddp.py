# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel around an XRTModule over several processes, as examples/ddp has it: the
weights are those of one process with whole batches, also after a process was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ddp" / "train.py"


def start(processes: int, checkpoint: Path, engine: str, *options: str) -> subprocess.Popen[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    launcher += ["--nproc-per-node", str(processes), *options]
    script = [str(EXAMPLE), "--engine", engine, "--epochs", "3", "--checkpoint", str(checkpoint)]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": "1",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # as docs/guides/cluster.md has it
    }
    return subprocess.Popen(
        [*launcher, *script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def weights(process: subprocess.Popen[str], checkpoint: Path) -> dict[str, torch.Tensor]:
    told, errors = process.communicate(timeout=240)
    assert process.returncode == 0, told + errors
    state = torch.load(checkpoint)
    assert state["epoch"] == 2
    return state["module"]


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """The weights that one process comes to."""
    checkpoint = tmp_path_factory.mktemp("alone") / "digits.pt"
    return weights(start(1, checkpoint, "native"), checkpoint)


@pytest.mark.parametrize("engine", ["native", "openvino,native"])
def test_two_processes_come_to_the_weights_of_one(
    alone: dict[str, torch.Tensor], tmp_path: Path, engine: str
) -> None:
    checkpoint = tmp_path / "digits.pt"
    both = weights(start(2, checkpoint, engine), checkpoint)
    for name, value in alone.items():
        torch.testing.assert_close(both[name], value, rtol=1e-3, atol=1e-4)


def test_training_goes_on_after_a_process_was_killed(
    alone: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    checkpoint = tmp_path / "digits.pt"
    process = start(2, checkpoint, "native", "--max-restarts", "2")
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("epoch 0"):
            break
    os.kill(children(process.pid)[-1], signal.SIGKILL)
    both = weights(process, checkpoint)
    for name, value in alone.items():
        torch.testing.assert_close(both[name], value, rtol=1e-3, atol=1e-4)
