# SPDX-License-Identifier: Apache-2.0
"""Post-training quantisation: an ONNX model in int8 (Q/DQ) that every engine runs.

>>> samples = [{"x": image} for image in images]
>>> openxrt.quantize.quantize("resnet50.onnx", "resnet50_int8.onnx", calibration=samples)
>>> program = openxrt.load("resnet50_int8.onnx")
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from . import _core
from ._int8 import Calibration, ptq_calibration_mode

__all__ = ["Calibration", "Samples", "ptq_calibration_mode", "quantize", "sample_folder"]

# A folder (docs/guides/quantization.md), or samples: arrays by the inputs' names.
Samples = Iterable[Mapping[str, np.ndarray]] | str | PathLike[str]


@contextmanager
def sample_folder(samples: Samples) -> Iterator[str]:
    """The folder, or a temporary one with the samples as files.

    Raises TypeError for a sample that is no mapping.
    """
    if isinstance(samples, str | PathLike):
        yield fspath(samples)
        return
    with TemporaryDirectory(prefix="openxrt-samples-") as folder:
        for i, sample in enumerate(samples):
            if not isinstance(sample, Mapping):
                raise TypeError(f"sample {i} is {type(sample).__name__}, not a mapping")
            np.savez(Path(folder) / f"{i:06}.npz", **sample)
        yield folder


def quantize(
    model: str | PathLike[str],
    output: str | PathLike[str],
    *,
    calibration: Samples,
    clipping: str = "minmax",
    keep_float: Sequence[str] = (),
    round_sums: bool = False,
    accuracy: float | None = None,
) -> str:
    """Writes the model (an ONNX file or a OneFlow folder) in int8; returns what was done.

    `clipping` is "minmax", "percentile", "entropy" or "mse"; nodes named in `keep_float` stay in
    floating point; `round_sums` quantises also what a residual is added to, which ONNX Runtime
    needs. With `accuracy`, in decibels of signal over noise of the outputs on the samples, nodes
    that cost most stay in floating point, as few as will do. Raises openxrt.Error with a message
    that names file and input where samples do
    not fit, and TypeError for a sample that is no mapping.
    """
    with sample_folder(calibration) as folder:
        done = _core.quantize_model(
            model,
            output,
            folder,
            clipping=clipping,
            keep_float=set(keep_float),
            round_sums=round_sums,
            accuracy=accuracy or 0.0,
        )
    samples = "1 sample" if done["samples"] == 1 else f"{done['samples']} samples"
    said = (
        f"{fspath(output)}: {done['sums']} of {done['sums'] + done['kept']} Conv, Gemm and MatMul "
        f"nodes in int8, {done['values']} values with a scale, {samples}"
    )
    if accuracy is not None:
        said += f"\n{done['decibels']:.1f} dB"
    if done["kept_for_accuracy"]:
        said += f"; kept in floating point: {', '.join(done['kept_for_accuracy'])}"
    return said
