# SPDX-License-Identifier: Apache-2.0
"""What the models that packages ship must compute, kept in expected.npz.

    python tests/models/expected.py              # compute all that are installed, minutes
    python tests/models/expected.py magika       # some

The values are those of ONNX's reference evaluator in double precision (reference.py), checked here
against ONNX Runtime before they are written. Of a large output 1,024 elements spread over it are
kept, and the minimum, maximum and mean of all. The digest of the model's file says to which file
they belong.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "benchmarks"))
import zoo  # noqa: E402

FILE = HERE / "expected.npz"
KEPT = 1024
# Largest difference, as a part of the output's range: fp32 sums differ by their order.
TOLERANCE = 1e-3
# The 1,000 logits of this model of made-up weights are one number, 9.4756872e9, where neighbouring
# float32 numbers are 1,024 apart. Sums in another order differ by 2e-7 of it, which softmax makes
# a factor of exp(3,072): only before it can results be compared.
ILL_CONDITIONED = {"light_squeezenet": "r65"}


def digest(path: Path) -> str:
    """Of a model's file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def places(size: int) -> np.ndarray:
    """Which elements are kept: all, or some at distances of the golden ratio."""
    if size <= KEPT:
        return np.arange(size)
    return np.unique((np.arange(KEPT) * 0.6180339887498949 % 1.0 * size).astype(np.int64))


@dataclass
class Output:
    """What is kept of one output."""

    shape: tuple[int, ...]
    span: float  # maximum - minimum, or the largest magnitude where all are equal
    summary: np.ndarray  # minimum, maximum, mean
    values: np.ndarray  # at places()

    @staticmethod
    def of(full: np.ndarray) -> Output:
        flat = full.astype(np.float64).ravel()
        span = float(np.ptp(flat)) or float(np.abs(flat).max()) or 1.0
        summary = np.array([flat.min(), flat.max(), flat.mean()])
        return Output(full.shape, span, summary, flat[places(flat.size)])

    def worst(self, got: np.ndarray) -> float:
        """Largest difference of what is kept, as a part of the range."""
        other = Output.of(got)
        return (
            max(
                float(np.abs(other.values - self.values).max()),
                float(np.abs(other.summary - self.summary).max()),
            )
            / self.span
        )


def load() -> dict[str, dict[str, Output]]:
    """Outputs by model and name; the model's digest is `stored_digest`'s."""
    models: dict[str, dict[str, Output]] = {}
    with np.load(FILE) as file:
        for key in file.files:
            model, output, what = key.split("|")
            if what != "values":
                continue
            shape = tuple(int(d) for d in file[f"{model}|{output}|shape"])
            numbers = file[f"{model}|{output}|numbers"]
            models.setdefault(model, {})[output] = Output(
                shape, float(numbers[0]), numbers[1:], file[key].astype(np.float64)
            )
    return models


def stored_digest(model: str) -> str:
    with np.load(FILE) as file:
        return str(file[f"{model}||digest"])


def cut_at(path: Path, value: str) -> bytes:
    """The model with an inner value as its only output."""
    import onnx

    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(value))
    return model.SerializeToString()


def compute(model: zoo.ZooModel) -> dict[str, Output]:
    """By the reference evaluator; an error where ONNX Runtime has something else."""
    import onnx
    import onnxruntime
    from reference import evaluate

    onnxruntime.set_default_logger_severity(4)
    feeds = model.feeds()
    content = model.path().read_bytes()
    outputs = {k: Output.of(v) for k, v in evaluate(onnx.load_from_string(content), feeds).items()}
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    peer = dict(zip(outputs, session.run(list(outputs), feeds), strict=True))
    for name, output in outputs.items():
        if (worst := output.worst(peer[name])) > TOLERANCE:
            raise ValueError(f"{model.name}: ONNX Runtime's {name} differs by {worst:.1e}")
    if inner := ILL_CONDITIONED.get(model.name):
        cut = onnx.load_from_string(cut_at(model.path(), inner))
        outputs[inner] = Output.of(evaluate(cut, feeds)[inner])
    return outputs


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="MODEL", help="default: all that are shipped")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    kept: dict[str, np.ndarray] = {}
    if FILE.exists():
        with np.load(FILE) as file:
            kept = {key: file[key] for key in file.files}
    for name, model in zoo.ZOO.items():
        if model.export or (options.names and name not in options.names):
            continue
        if reason := model.why_missing():
            print(f"  {reason}")
            continue
        kept = {key: value for key, value in kept.items() if not key.startswith(f"{name}|")}
        kept[f"{name}||digest"] = np.array(digest(model.path()))
        for output, what in compute(model).items():
            kept[f"{name}|{output}|shape"] = np.array(what.shape, np.int64)
            kept[f"{name}|{output}|numbers"] = np.array([what.span, *what.summary])
            kept[f"{name}|{output}|values"] = what.values.astype(np.float32)
        print(f"  {name}", flush=True)
    np.savez_compressed(FILE, **kept)
    print(f"{FILE}: {FILE.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
