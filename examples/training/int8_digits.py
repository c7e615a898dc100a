# SPDX-License-Identifier: Apache-2.0
"""Quantisation-aware training: a CNN for scikit-learn's digits is trained in float32, quantised by
samples, and trained on with its rounding in place.

    ./dev run python examples/training/int8_digits.py --engine native --engine openvino

Prints the accuracy of each of the three on each engine.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import openxrt
import openxrt.quantize
from digits import batches, data, trainer_of
from openxrt import optim


def train(trainer: openxrt.Trainer, images: np.ndarray, labels: np.ndarray, steps: int) -> None:
    for rows in batches(steps, len(images)):
        trainer.step(images[rows], target=labels[rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", action="append", help="one list of engines per column")
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    engines = arguments.engine or ["native"]
    images, labels, test_images, test_labels = data()

    with tempfile.TemporaryDirectory() as folder:
        plain, small, trained = (Path(folder) / f"{name}.onnx" for name in ("f32", "int8", "qat"))
        trainer = trainer_of(images, "native")
        train(trainer, images, labels, arguments.steps)
        plain.write_bytes(trainer.model().to_onnx())
        samples = [{trainer.input_names[0]: images[i : i + 32]} for i in range(0, 256, 32)]
        openxrt.quantize.quantize(plain, small, calibration=samples)

        again = openxrt.Trainer(
            openxrt.quantize.trainable(small),
            optimizer=optim.SGD(learning_rate=0.002, momentum=0.9),
            engine="native",
        )
        train(again, images, labels, arguments.steps // 2)
        openxrt.quantize.export_trained(again.model(), trained)

        print(f"{'':10}" + "".join(f"{engine:>16}" for engine in engines))
        for name, path in (("float32", plain), ("int8", small), ("int8 QAT", trained)):
            right = [
                (openxrt.load(path, engine=engine)(test_images).argmax(1) == test_labels).mean()
                for engine in engines
            ]
            print(f"{name:10}" + "".join(f"{share:16.4f}" for share in right))


if __name__ == "__main__":
    main()
