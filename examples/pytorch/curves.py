# SPDX-License-Identifier: Apache-2.0
"""What the training examples share: one network trained by PyTorch and by the engines from the same
weights, the table of how it went, and the picture of the losses."""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import openxrt.torch
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "training"))
from loss_picture import write_svg


@dataclass
class Course:
    """How one training went."""

    name: str
    losses: list[float]
    ms_per_step: float
    accuracy: float


def train(
    name: str,
    module: torch.nn.Module,
    steps: int,
    make_optimizer: Callable[[torch.nn.Module], torch.optim.Optimizer],
    loss_of: Callable[[torch.nn.Module, int], torch.Tensor],
    accuracy_of: Callable[[torch.nn.Module], float],
) -> Course:
    """`loss_of(module, step)` is the loss on the data of a step."""
    optimizer = make_optimizer(module)
    module.train()
    losses, taken = [], []
    for step in range(steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of(module, step)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        taken.append(time.perf_counter() - began)
    module.eval()
    with torch.no_grad():
        accuracy = accuracy_of(module)
    return Course(name, losses, sorted(taken)[len(taken) // 2] * 1e3, accuracy)


def compare(
    title: str,
    module: torch.nn.Module,
    options: argparse.Namespace,
    make_optimizer: Callable[[torch.nn.Module], torch.optim.Optimizer],
    loss_of: Callable[[torch.nn.Module, int], torch.Tensor],
    accuracy_of: Callable[[torch.nn.Module], float],
) -> list[Course]:
    """PyTorch first, then PyTorch from weights changed by a millionth, which shows how far rounding
    alone leads, then every engine list of the options; prints a line for each."""
    print(f"{'':16} last loss  accuracy  ms a step  largest difference of a loss")
    courses: list[Course] = []
    nudged = "PyTorch + 1e-6"
    for name in ["PyTorch", nudged, *(options.engine or ["native", "xla", "openvino,xla"])]:
        copied = copy.deepcopy(module)
        if name == nudged:
            generator = torch.Generator().manual_seed(1)
            with torch.no_grad():
                for weight in copied.parameters():
                    weight.mul_(1 + 1e-6 * torch.randn(weight.shape, generator=generator))
        elif name != "PyTorch":
            engines = [*name.split(","), "native"]  # what the named ones do not take
            copied = openxrt.torch.XRTModule(copied, engine=list(dict.fromkeys(engines)))
        course = train(name, copied, options.steps, make_optimizer, loss_of, accuracy_of)
        courses.append(course)
        first = courses[0]
        difference = max(abs(a - b) for a, b in zip(course.losses, first.losses, strict=True))
        print(
            f"{name:16} {course.losses[-1]:9.5f} {course.accuracy:9.4f} "
            f"{course.ms_per_step:10.2f}  {difference:.2e}",
            flush=True,
        )
    if options.svg:
        write_svg(options.svg, title, {course.name: course.losses for course in courses})
    return courses


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options that the examples share."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--engine", action="append", help="engines in order of priority: a,b")
    made.add_argument("--steps", type=int, default=200)
    made.add_argument("--svg", type=Path, help="where to draw the losses")
    return made
