# SPDX-License-Identifier: Apache-2.0
"""Post-training quantisation: an ONNX model in int8 (Q/DQ) that every engine runs.

>>> samples = [{"x": image} for image in images]
>>> openxrt.quantize.quantize("resnet50.onnx", "resnet50_int8.onnx", calibration=samples)
>>> program = openxrt.load("resnet50_int8.onnx")

Ranges may be found once and used again:

>>> table = openxrt.quantize.calibrate("resnet50.onnx", samples)
>>> table.save("resnet50.table")
>>> program = openxrt.load("resnet50.onnx", use_int8=True, int8_calibration="resnet50.table")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np

from . import _core
from ._core import CalibrationTable
from ._int8 import Calibration, Clipping, ptq_calibration_mode

__all__ = [
    "Calibration",
    "CalibrationTable",
    "Clipping",
    "Samples",
    "calibrate",
    "ptq_calibration_mode",
    "quantize",
    "sample_folder",
]

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


def calibrate(
    model: str | PathLike[str],
    samples: Samples,
    *,
    clipping: Clipping = "minmax",
    percentile: float = 99.99,
    average_factor: float = 0.01,
    keep_float: Sequence[str] = (),
    round_sums: bool = False,
    batch: int = 0,
    shapes: Mapping[str, str | Sequence[int | str | None]] | None = None,
    ranges: Mapping[str, str | int | Sequence[int]] | None = None,
    max_batch_size: int = 0,
    format: Literal["auto", "ofrecord", "folders", "arrays", "csv"] = "auto",  # noqa: A002
    preset: Literal["", "imagenet", "oneflow"] = "",
    resize_shorter: int | None = None,
    crop: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    scale: Literal[1, 255] | None = None,
    layout: Literal["auto", "nchw", "nhwc"] = "auto",
    channels: Literal["rgb", "bgr"] = "rgb",
    limit: int = 0,
    skip_bad: bool = False,
    workers: int = 0,
    report: Callable[[int], object] | None = None,
) -> CalibrationTable:
    """Runs a model in floating point on samples and returns the ranges of its values.

    Samples are read one after the other, and none is kept: a generator may give any number.

    Args:
        model: an ONNX file, or a folder that OneFlow saved.
        samples: mappings from the names of inputs to arrays, which have the input's shape or hold
            several samples along the first dimension; or the path of a folder or file, as for
            ``xrt calibrate --data``.
        clipping: which part of what a value was seen to hold gets the steps: "minmax", all of it;
            "moving_average", the average of each sample's least and largest; "percentile";
            "entropy" (least Kullback-Leibler divergence); "mse" (least squared error).
        percentile: of the elements that "percentile" keeps, in percent.
        average_factor: how far a sample moves the ends of "moving_average".
        keep_float: names of nodes that stay in floating point.
        round_sums: what a residual is added to has a range, too: for the engine onnxruntime.
        batch: samples of a run where the model leaves the first dimension open.
        shapes: as in :func:`openxrt.load`.
        ranges: as in :func:`openxrt.load`.
        max_batch_size: as in :func:`openxrt.load`.
        format: of a path, and so are the arguments behind it: see :func:`openxrt.evaluate`.
        preset: resize_shorter, crop, mean, std and scale at once.
        resize_shorter: pixels that the shorter side of a picture gets.
        crop: width and height that are cut out of the middle.
        mean: value = (value - mean) / std, for red, green and blue.
        std: see `mean`.
        scale: values before `mean` go from 0 to 1, or to 255.
        layout: of the model's input.
        channels: of the model's input.
        limit: take the first samples of the path only; 0: all.
        skip_bad: leave damaged samples of the path out, instead of raising.
        workers: threads that read and decode; 0: the thread budget.
        report: called with the number of runs after each of them, for a path.

    Raises:
        InvalidArgument: samples do not fit, or hold numbers that are not finite; the message names
            the sample.
        NotFound: there are no samples.
        TypeError: a sample is no mapping.
    """
    sizes = {"shapes": shapes, "ranges": ranges, "max_batch_size": max_batch_size}
    calibrator = _core.Calibrator(
        model,
        clipping=clipping,
        percentile=percentile,
        average_factor=average_factor,
        keep_float=set(keep_float),
        round_sums=round_sums,
        sizes=sizes,
        batch=batch,
    )
    if isinstance(samples, str | PathLike):
        calibrator.add_files(
            samples,
            format=format,
            preset=preset,
            resize_shorter=resize_shorter,
            crop=crop,
            mean=None if mean is None else tuple(mean),
            std=None if std is None else tuple(std),
            scale=scale,
            layout=layout,
            channels=channels,
            limit=limit,
            skip_bad=skip_bad,
            workers=workers,
            report=report,
        )
        return calibrator.table()
    for i, sample in enumerate(samples):
        if not isinstance(sample, Mapping):
            raise TypeError(f"sample {i} is {type(sample).__name__}, not a mapping")
        calibrator.add(dict(sample))
    return calibrator.table()


def quantize(
    model: str | PathLike[str],
    output: str | PathLike[str],
    *,
    calibration: Samples | CalibrationTable,
    clipping: Clipping = "minmax",
    keep_float: Sequence[str] = (),
    round_sums: bool = False,
    accuracy: float | None = None,
) -> str:
    """Writes the model (an ONNX file or a OneFlow folder) in int8; returns what was done.

    `calibration` is samples, a folder of them, or a CalibrationTable; `clipping` is as in
    calibrate(); nodes named in `keep_float` stay in floating point; `round_sums` quantises also
    what a residual is added to, which ONNX Runtime needs. With `accuracy`, in decibels of signal
    over noise of the outputs on the samples, nodes that cost most stay in floating point, as few as
    will do. Raises openxrt.Error with a message that names file and input where samples do not fit,
    and TypeError for a sample that is no mapping.
    """
    if isinstance(calibration, CalibrationTable):
        if accuracy is not None:
            raise _core.InvalidArgument("accuracy is measured on samples: give them, not a table")
        done = _core.quantize_by_table(
            model, output, calibration, keep_float=set(keep_float), round_sums=round_sums
        )
    else:
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
