# SPDX-License-Identifier: Apache-2.0
"""examples/ddp/ray_train.py: the weights are PyTorch's of one process, also where a worker was
killed half-way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("ray")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "ddp"
EPOCHS = 3
# PyTorch and scikit-learn are not of Ray's environment: those of .venv come last.
PACKAGES = next((ROOT / ".venv" / "lib").glob("python3*")) / "site-packages"
sys.path.append(os.fspath(PACKAGES))
sys.path.append(os.fspath(EXAMPLES))
torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")


def reference(batch: int = 64) -> dict[str, torch.Tensor]:
    """Weights by PyTorch alone, in this process."""
    import train

    module = train.network()
    images, labels = train.digits()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(EPOCHS):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        for step in range(len(images) // batch):
            places = order[step * batch : (step + 1) * batch]
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(module(images[places]), labels[places])
            loss.backward()
            optimizer.step()
    return module.state_dict()


def workers(leader: int) -> list[int]:
    """Processes of the session `leader` that train."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "cmdline").read_bytes()
            session = int((folder / "stat").read_text().rpartition(")")[2].split()[3])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        if session == leader and name.startswith(b"ray::RayTrainWorker"):
            found.append(int(folder.name))
    return found


@pytest.mark.parametrize("killed", [False, True])
def test_weights_are_those_of_one_process(tmp_path: Path, killed: bool) -> None:
    checkpoint = tmp_path / "digits.pt"
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, EXAMPLES / "ray_train.py", "--workers", "2"),
                *("--epochs", str(EPOCHS), "--checkpoint", checkpoint, "--storage", tmp_path),
            ],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
                "RAY_USAGE_STATS_ENABLED": "0",
            },
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 120
        while killed and process.poll() is None:
            if checkpoint.exists() and (pids := workers(process.pid)):
                os.kill(pids[0], signal.SIGKILL)
                break
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.01)
        assert process.wait(180) == 0, (tmp_path / "log").read_text()
    finally:
        process.kill()
    report = (tmp_path / "log").read_text()
    assert report.count("Started training worker group of size 2") >= (2 if killed else 1)
    state = torch.load(checkpoint)
    assert state["epoch"] == EPOCHS - 1
    for name, wanted in reference().items():
        torch.testing.assert_close(state["module"][name], wanted, rtol=1e-3, atol=1e-4)
