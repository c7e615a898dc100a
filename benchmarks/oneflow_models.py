# SPDX-License-Identifier: Apache-2.0
"""OneFlow's networks through the engines: that they compute what OneFlow computes.

    ./dev run python benchmarks/oneflow_models.py --write      # the table in docs/guides/oneflow.md

flowvision's networks (random weights of a fixed seed) are run and saved by OneFlow 0.9.0
(tools/extra_env.sh oneflow installs it) and read by openxrt without it; a cell is the largest
difference from OneFlow in float32, as a part of the output's range.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import openxrt

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "guides" / "oneflow.md"
BEGIN, END = "<!-- oneflow models: begin -->", "<!-- oneflow models: end -->"

NETWORKS = [
    "densenet121",
    "efficientnet_b0",
    "inception_v3",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "resnet18",
    "resnet50",
    "squeezenet1_1",
    "swin_tiny_patch4_window7_224",
    "vgg11",
    "vgg16_bn",
    "vit_tiny_patch16_224",
    "wide_resnet50_2",
]


def make(folder: Path, name: str) -> None:
    """Lets OneFlow run and save the network."""
    script = str(ROOT / "benchmarks" / "oneflow_save.py")
    command = [str(ROOT / "tools" / "extra_env.sh"), "oneflow", "python", script]
    command += [str(folder), name]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference over the range of what is expected."""
    reach = float(expected.max() - expected.min())
    return float(np.abs(found - expected).max()) / (reach or 1.0)


def measure(folder: Path, name: str, engines: list[str]) -> list[str]:
    """One row of the table."""
    with np.load(folder / name / "cases.npz") as cases:
        x, expected = cases["input_0"], cases["output_0"]
    row = []
    nodes = 0
    for engine in engines:
        names = [engine] if engine in ("native", "auto") else [engine, "native"]
        program = openxrt.load(folder / name, engine=names)
        found = difference(program(x), expected)
        counts = program.explain().nodes_per_engine
        nodes = max(nodes, sum(counts.values()))
        own = counts.get(engine, 0)
        part = "" if engine == "auto" or own == sum(counts.values()) else f" ({own} nodes)"
        row.append(f"{found:.1e}{part}")
    return [name, str(nodes), *row]


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=NETWORKS)
    parser.add_argument("--engines", default="native,openvino,xla,auto")
    parser.add_argument("--folder", type=Path, help="keep and reuse what OneFlow saved here")
    parser.add_argument("--write", action="store_true", help="into docs/guides/oneflow.md")
    options = parser.parse_args()
    engines = options.engines.split(",")
    rows = [["network", "nodes", *engines], ["---"] * (2 + len(engines))]
    with tempfile.TemporaryDirectory(prefix="openxrt-oneflow-") as temporary:
        folder = options.folder or Path(temporary)
        for name in options.models:
            if not (folder / name / "cases.npz").exists():
                make(folder, name)
            rows.append(measure(folder, name, engines))
            print("| " + " | ".join(rows[-1]) + " |", flush=True)
    if options.write:
        table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
        before, rest = DOCUMENT.read_text().split(BEGIN)
        DOCUMENT.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
