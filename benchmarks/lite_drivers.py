#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares lite's CPU drivers with the native engine and with one another, model by model.

    ./dev bench lite_drivers [NAME...]                 # docs/reference/lite.md, "Checked models"
    ./dev bench lite_drivers --int8 mobilenet_v2

In float32: the largest difference from the native engine over the output's range, the worst of all
outputs. With --int8 the model is quantised from its own feeds, and the number of elements of all
outputs is shown that differ from the driver generic. The driver arm runs in QEMU (examples/
lite_aarch64; needs gcc-aarch64-linux-gnu and qemu-user-static), the others here, cortex-m
as plain C. No times: an emulator's say nothing.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import openxrt
import openxrt.lite
from zoo import ZOO

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lite"))
from networks import build_aarch64, fixed, run_aarch64  # noqa: E402

NETWORKS = (
    "squeezenet1_1",
    "mobilenet_v2",
    "efficientnet_lite0",
    "resnet50",
    "minilm",
    "ppocr_v6_rec",
    "silero_vad_16k_op15",
    "silero_vad_16k_sequence",
)
HERE = ("generic", "x86", "cortex-m")


def outputs_of(
    target: str, model: Path, feeds: dict[str, np.ndarray], folder: Path, int8: bool
) -> dict[str, np.ndarray]:
    """What a model computes on one driver."""
    file = folder / f"{target}.bin"
    options = {"precision": "int8", "calibration": [feeds]} if int8 else {}
    openxrt.lite.compile(model, file, targets=target, **options)
    if target == "arm":
        return run_aarch64(folder / "aarch64", "max", file, folder / "generic.bin", feeds)
    return openxrt.lite.Model(file, threads=2).run(feeds)


def row(name: str, targets: list[str], folder: Path, int8: bool) -> list[str]:
    """One line of the table."""
    model = folder / "model.onnx"
    feeds = fixed(ZOO[name].path(), ZOO[name].feeds(), model)
    results = {t: outputs_of(t, model, feeds, folder, int8) for t in targets}
    if int8:
        expected = results["generic"]
        count = sum(v.size for v in expected.values())
        different = [sum(int((r[k] != expected[k]).sum()) for k in r) for r in results.values()]
        return [name, *(f"{d} of {count}" for d in different)]
    expected = openxrt.load(model, ["native"]).run(feeds)
    worst = [
        max(float(np.abs(r[k] - expected[k]).max() / (np.ptp(expected[k]) or 1)) for k in r)
        for r in results.values()
    ]
    return [name, *(f"{w:.1e}" for w in worst)]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NETWORKS, help="models of zoo.py")
    parser.add_argument("--int8", action="store_true", help="quantised; equality with generic")
    arguments = parser.parse_args()
    targets = list(HERE)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if shutil.which("aarch64-linux-gnu-gcc") and shutil.which("qemu-aarch64-static"):
            build_aarch64(folder / "aarch64")
            targets.append("arm")
        print(f"| model | {' | '.join(targets)} |\n| --- |{' --- |' * len(targets)}", flush=True)
        for name in arguments.names:
            if reason := ZOO[name].why_missing():
                print(f"| {name} | {reason} |")
                continue
            try:
                print(f"| {' | '.join(row(name, targets, folder, arguments.int8))} |", flush=True)
            except (RuntimeError, subprocess.CalledProcessError) as error:
                print(f"| {name} | {error} |", flush=True)


if __name__ == "__main__":
    main()
