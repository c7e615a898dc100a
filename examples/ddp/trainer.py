# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's digits over several processes with openxrt.Trainer: one graph a step, with the
means of the gradients over all processes between the backward pass and the update.

    ./dev run torchrun --nproc-per-node 2 examples/ddp/trainer.py --engine native

With --checkpoint FILE, and --max-restarts N before the script, training goes on after a process
ended: rank 0 writes the checkpoint after each epoch, all of them go on from it. Set
TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 then (docs/guides/cluster.md says why).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import openxrt
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits

OPTIMIZERS = {
    "sgd": openxrt.optim.SGD(0.1, momentum=0.9, weight_decay=1e-4),
    "adam": openxrt.optim.Adam(1e-2, clip_norm=1.0),
}


def network() -> torch.nn.Module:
    """Without batch normalisation, whose statistics would be those of a process's part."""
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--engine", default="native")
    words.add_argument("--optimizer", choices=sorted(OPTIMIZERS), default="sgd")
    words.add_argument("--epochs", type=int, default=3)
    words.add_argument("--batch", type=int, default=64, help="of all processes together")
    words.add_argument("--checkpoint", type=Path)
    given = words.parse_args()

    dist.init_process_group("gloo")
    rank, processes = dist.get_rank(), dist.get_world_size()
    images, labels = load_digits(return_X_y=True)
    images, labels = (images / 16).astype(np.float32), labels.astype(np.int64)
    trainer = openxrt.Trainer.from_torch(
        network(),
        (torch.zeros(2, 64),),
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        optimizer=OPTIMIZERS[given.optimizer],
        engine=given.engine.split(","),
        process_group=dist.group.WORLD,
    )
    steps = len(images) // given.batch
    if given.checkpoint and given.checkpoint.exists():
        trainer.load(given.checkpoint)
    part = given.batch // processes
    for epoch in range(trainer.step_count // steps, given.epochs):
        order = np.random.default_rng(epoch).permutation(len(images))
        losses = []
        for step in range(steps):
            batch = order[step * given.batch : (step + 1) * given.batch]
            own = batch[rank * part : (rank + 1) * part]
            losses.append(trainer.step(images[own], target=labels[own]))
        if rank == 0:
            print(f"epoch {epoch}: loss {np.mean(losses):.4f}", flush=True)
            if given.checkpoint:
                trainer.save(given.checkpoint)
        dist.barrier()
    if rank == 0:
        (scores,) = trainer.evaluate(images)
        right = (scores.argmax(1) == labels).mean()
        print(f"{processes} processes, engine {given.engine}: {right:.1%} right")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
