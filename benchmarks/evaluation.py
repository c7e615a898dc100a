# SPDX-License-Identifier: Apache-2.0
"""Samples per second of `xrt eval` on a set of JPEGs, and how busy the engines are.

    ./dev bench evaluation                                   # 5,000 pictures, ResNet-50
    ./dev bench evaluation --samples 500 --engines native --streams 1,2 --batches 1,64,max
    ./dev bench evaluation --samples 500 --precisions f32,bf16,int8   # and how often they agree

The pictures are 224 x 224 crops of scikit-learn's two photographs and the page of examples/ocr,
written as part files of OneFlow's OFRecord; a label is the number of the picture. The model is
ResNet-50 of benchmarks/zoo.py with random weights: the figures are about speed, not accuracy.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from openxrt import _command
from PIL import Image
from zoo import ZOO

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tests" / "support"))

from ofrecord_files import write_crops  # noqa: E402


def photographs() -> list[np.ndarray]:
    """Large pictures that packages ship."""
    import sklearn.datasets

    page = np.asarray(Image.open(REPOSITORY / "examples" / "ocr" / "page.png").convert("RGB"))
    return [*sklearn.datasets.load_sample_images().images, page]


def with_open_batch(model: Path, output: Path) -> Path:
    """The model, which was made for one picture at a time, for any number."""
    proto = onnx.load(model)
    for port in (*proto.graph.input, *proto.graph.output):
        port.type.tensor_type.shape.dim[0].dim_param = "batch"
    del proto.graph.value_info[:]  # sizes of one picture
    onnx.save(proto, output)
    return output


def evaluate(model: Path, data: Path, arguments: list[str]) -> dict:
    """What the command wrote."""
    program = next(path for path in _command.programs() if path.is_file())
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [program, "eval", model, "--data", data, "--preset", "imagenet", "--top", "1,5"]
        command += [*arguments, "--print-every", "0", "--json", report]
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
        return json.loads(report.read_text())


def main() -> None:
    """Writes the set, evaluates, prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--engines", default="openvino,native;native", help="lists, by ;")
    parser.add_argument("--precisions", default="f32", help="f32, bf16, f16 or int8")
    parser.add_argument("--streams", default="1,2")
    parser.add_argument("--batches", default="1,16,64")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    model = ZOO[arguments.model]
    if missing := model.why_missing():
        parser.error(missing)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        file = with_open_batch(model.path(), Path(folder) / "model.onnx")
        data = Path(folder) / "set"
        begin = time.perf_counter()
        write_crops(data, photographs(), arguments.samples)
        print(f"{arguments.samples} pictures in {time.perf_counter() - begin:.1f} s")
        print(
            f"{'engines':<20}{'precision':>10}{'streams':>8}{'batch':>7}{'samples/s':>11}"
            f"{'busy':>7}{'agreement':>11}"
        )
        lists = (
            arguments.engines.split(";"),
            arguments.precisions.split(","),
            arguments.streams.split(","),
            arguments.batches.split(","),
        )
        for engines, precision, streams, batch in itertools.product(*lists):
            options = ["-e", engines, "--streams", streams, "--batch", batch]
            if precision == "int8":
                options += ["--int8", "--compare", "f32"]
            elif precision != "f32":
                options += ["--precision", precision, "--compare", "f32"]
            found = evaluate(file, data, options)
            rows.append({**found, "engines": engines})
            agreement = f"{found['compare']['agreement']:.4f}" if "compare" in found else ""
            print(
                f"{engines:<20}{precision:>10}{streams:>8}{found['batch']:>7}"
                f"{found['samples_per_s']:>11.1f}{found['busy']:>7.2f}{agreement:>11}",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
