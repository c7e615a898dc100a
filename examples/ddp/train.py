# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's digits over several processes: DistributedDataParallel around an XRTModule.

    ./dev run torchrun --nproc-per-node 2 examples/ddp/train.py --engine native

With --checkpoint FILE, and --max-restarts N before the script, training goes on after a process
ended. Set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 then (docs/guides/cluster.md says why).

Each process has its part of every batch; DDP averages the gradients (Gloo on processors, NCCL on
GPUs): the weights are those of one process with whole batches. Rank 0 writes the checkpoint, all of
them go on from it: where a process ends, torchrun starts all anew.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from openxrt.torch import XRTModule
from sklearn.datasets import load_digits
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel


def network() -> torch.nn.Module:
    """Without batch normalisation, whose statistics would be those of a process's part."""
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """1,797 pictures, float32[n,1,8,8] of 0 to 1, and what they show."""
    images, labels = load_digits(return_X_y=True)
    return torch.tensor(images / 16, dtype=torch.float32).view(-1, 1, 8, 8), torch.tensor(labels)


def save(path: Path, epoch: int, module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Writes a checkpoint beside and renames it: a crash half-way leaves the old one whole."""
    part = path.with_suffix(".part")
    state = {"epoch": epoch, "module": module.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, part)
    part.replace(path)


def train(engine: str, epochs: int, batch: int, checkpoint: Path | None) -> None:
    """Trains in the process group that there is; `batch` is that of all processes together."""
    rank, processes = dist.get_rank(), dist.get_world_size()
    images, labels = digits()
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    first = 0
    if checkpoint and checkpoint.exists():
        state = torch.load(checkpoint)
        module.load_state_dict(state["module"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
    model = DistributedDataParallel(XRTModule(module, engine=engine))
    part = batch // processes
    steps = len(images) // batch
    for epoch in range(first, epochs):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        total = torch.zeros(())
        for step in range(steps):
            places = order[step * batch : (step + 1) * batch]
            own = places[rank * part : (rank + 1) * part]
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images[own]), labels[own])
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch}: loss {total.item() / processes / steps:.4f}", flush=True)
            if checkpoint:
                save(checkpoint, epoch, module, optimizer)
        dist.barrier()
    if rank == 0:
        model.eval()
        with torch.no_grad():
            right = (model.module(images).argmax(1) == labels).float().mean().item()
        print(f"{processes} processes, engine {engine}: {right:.1%} right (pid {os.getpid()})")


def options(description: str | None) -> argparse.ArgumentParser:
    """Those of the ways to start it."""
    words = argparse.ArgumentParser(description=description)
    words.add_argument("--engine", default="native")
    words.add_argument("--epochs", type=int, default=3)
    words.add_argument("--batch", type=int, default=64, help="of all processes together")
    words.add_argument("--checkpoint", type=Path)
    return words


def main() -> None:
    given = options(__doc__).parse_args()
    dist.init_process_group("gloo")
    train(given.engine, given.epochs, given.batch, given.checkpoint)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
