# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network learns scikit-learn's digits: PyTorch and openxrt.Trainer, from the
same weights on the same batches.

    ./dev run python examples/training/digits.py --engine native --engine xla --engine openvino,xla

--export writes the network and the batches for cpp/replay.cc, which trains the same in C++; --cpp
runs that program and draws its curve, too.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import openxrt
import torch
from loss_picture import write_svg
from openxrt import optim
from sklearn.datasets import load_digits
from torch.nn import functional

BATCH = 64


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images float32 [n,1,8,8] and classes, for training and for the test."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None]
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order], digits.target.astype(np.int64)[order]
    return images[:1500], labels[:1500], images[1500:], labels[1500:]


def batches(steps: int, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.choice(count, BATCH, replace=False) for _ in range(steps)]


def trainer_of(images: np.ndarray, engine: str) -> openxrt.Trainer:
    return openxrt.Trainer.from_torch(
        network(),
        (torch.from_numpy(images[:2]),),
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        optimizer=optim.SGD(learning_rate=0.01, momentum=0.9),
        engine=engine,
    )


def export(folder: Path, images: np.ndarray, labels: np.ndarray, order: list[np.ndarray]) -> None:
    """network.onnx, images.bin (float32) and labels.bin (int64), batch after batch."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "network.onnx").write_bytes(trainer_of(images, "native").model().to_onnx())
    (folder / "images.bin").write_bytes(b"".join(images[rows].tobytes() for rows in order))
    (folder / "labels.bin").write_bytes(b"".join(labels[rows].tobytes() for rows in order))


def cpp_curve(program: Path, folder: Path, engine: str) -> list[float]:
    ran = subprocess.run([program, folder, engine], check=True, capture_output=True, text=True)
    return [float(line) for line in ran.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", action="append", help="one list of engines per run")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--svg", type=Path, help="where to draw the curves")
    parser.add_argument("--export", type=Path, help="writes this folder and ends")
    parser.add_argument("--cpp", type=Path, help="cpp/replay.cc, compiled")
    arguments = parser.parse_args()
    images, labels, test_images, test_labels = data()
    order = batches(arguments.steps, len(images))
    if arguments.export:
        export(arguments.export, images, labels, order)
        return

    net = network()
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    curves: dict[str, list[float]] = {"PyTorch": []}
    begin = time.perf_counter()
    for rows in order:
        optimizer.zero_grad()
        loss = functional.cross_entropy(
            net(torch.from_numpy(images[rows])), torch.from_numpy(labels[rows])
        )
        loss.backward()
        optimizer.step()
        curves["PyTorch"].append(loss.item())
    took = time.perf_counter() - begin
    net.eval()
    with torch.no_grad():
        right = net(torch.from_numpy(test_images)).argmax(1).numpy() == test_labels
    print(f"{'PyTorch':16} {took:6.2f} s  accuracy {right.mean():.4f}")

    for engine in arguments.engine or ["native"]:
        trainer = trainer_of(images, engine)
        begin = time.perf_counter()
        curve = [trainer.step(images[rows], target=labels[rows]) for rows in order]
        took = time.perf_counter() - begin
        right = trainer.evaluate(test_images)[0].argmax(1) == test_labels
        apart = max(abs(a - b) for a, b in zip(curve, curves["PyTorch"], strict=True))
        curves[engine] = curve
        print(
            f"{engine:16} {took:6.2f} s  accuracy {right.mean():.4f}  "
            f"largest difference of the loss {apart:.1e}"
        )
    if arguments.cpp:
        with tempfile.TemporaryDirectory() as folder:
            export(Path(folder), images, labels, order)
            curve = cpp_curve(arguments.cpp, Path(folder), (arguments.engine or ["native"])[0])
        apart = max(abs(a - b) for a, b in zip(curve, curves["PyTorch"], strict=True))
        curves["C++"] = curve
        print(f"{'C++':16} largest difference of the loss {apart:.1e}")
    if arguments.svg:
        write_svg(arguments.svg, "Loss of a CNN on digits: PyTorch and openxrt.Trainer", curves)


if __name__ == "__main__":
    main()
