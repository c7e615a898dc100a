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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from . import _core
from ._core import CalibrationTable, Graph, InvalidArgument, IoError, write_output_file
from ._int8 import Calibration, Clipping, int8_options, ptq_calibration_mode
from ._weights import quantize_dynamic, quantize_weights
from .evaluation import DataOptions, labelled_set

__all__ = [
    "Calibration",
    "CalibrationTable",
    "Clipping",
    "NodeNoise",
    "Samples",
    "calibrate",
    "export_trained",
    "ptq_calibration_mode",
    "quantize",
    "rank_nodes",
    "sample_folder",
    "trainable",
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
            try:
                np.savez(Path(folder) / f"{i:06}.npz", **sample)
            except OSError as error:  # a full disk: NumPy's message has no place
                raise IoError(f"cannot write sample {i} to '{folder}': {error.strerror}") from error
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


@dataclass(frozen=True)
class NodeNoise:
    """What one node costs in int8: a row of :func:`rank_nodes`. Decibels are signal over noise."""

    name: str
    op: str
    kept: bool
    """It stays in floating point; what follows says nothing then."""
    alone_db: float
    """Of the worst output with all other nodes in floating point."""
    weights_db: float
    """Of its weights; infinity where it has none or they are exact."""
    reached_db: float
    """Of what it makes with all nodes in int8, noise from before it included."""
    input: tuple[float, float]
    """Range of what it reads."""
    output: tuple[float, float]


def _top_1_loss(accuracy: float | str | None) -> float | None:
    """Percentage points of "top1:0.5"; None for decibels."""
    if not isinstance(accuracy, str):
        return None
    prefix, _, points = accuracy.partition(":")
    try:
        loss = float(points)
    except ValueError:
        loss = -1.0
    if prefix != "top1" or not 0 <= loss <= 100:
        raise InvalidArgument(
            f"accuracy {accuracy!r}: decibels above 0, or 'top1:P' with P percentage points"
        )
    return loss


def _quantize(
    model: str | PathLike[str],
    output: str | PathLike[str],
    calibration: Samples | CalibrationTable | None,
    data: str | PathLike[str] | None,
    data_options: DataOptions | None,
    calibrate_samples: int,
    top_1_loss: float | None,
    how: dict[str, object],
) -> dict[str, Any]:
    if calibration is None and data is None:
        raise InvalidArgument("samples are missing: calibration= or data=")
    if top_1_loss is not None and data is None:
        raise InvalidArgument("accuracy='top1:…' needs labelled data: data=")
    with ExitStack() as stack:
        folder = None
        if isinstance(calibration, CalibrationTable):
            return _core.quantize_by_table(Path(model), Path(output), calibration, how=how)
        if calibration is not None:
            folder = stack.enter_context(sample_folder(calibration))
        labelled = None if data is None else labelled_set(data, **(data_options or {}))
        return _core.quantize_model(
            Path(model),
            Path(output),
            samples=folder,
            data=labelled,
            calibrate_samples=calibrate_samples,
            top_1_loss=top_1_loss,
            how=how,
        )


def quantize(
    model: str | PathLike[str],
    output: str | PathLike[str],
    *,
    calibration: Samples | CalibrationTable | None = None,
    clipping: Clipping | Literal["auto"] = "auto",
    percentile: float = 99.99,
    keep_float: Sequence[str] = (),
    round_sums: bool = False,
    accuracy: float | str | None = None,
    engine: str | Sequence[str] | None = None,
    device: str = "cpu",
    activations: str = "auto",
    ops: Sequence[str] = (),
    smooth: float = 0.5,
    equalize: bool = False,
    correct_bias: bool = True,
    data: str | PathLike[str] | None = None,
    data_options: DataOptions | None = None,
    calibrate_samples: int = 100,
    report: str | PathLike[str] | None = None,
    weights: Literal["int4", "int8"] | None = None,
    block: int | None = None,
    symmetric: bool | None = None,
    dynamic: bool = False,
) -> str:
    """Writes the model (an ONNX file or a OneFlow folder) in int8; returns what was done.

    Args:
        model: what is read.
        output: the ONNX file that is written.
        calibration: samples, a folder of them, or a CalibrationTable; left out, the first of
            `data`. A table knows nothing of channels: nothing is smoothed and no bias corrected.
        clipping: as in :func:`calibrate`; "auto": "mse", or "minmax" or "moving_average" where the
            outputs for the first 16 samples are at least one decibel more exact with it.
        percentile: of the elements, in percent, that clipping="percentile" keeps.
        keep_float: names of nodes that stay in floating point.
        round_sums: quantise also what a residual is added to, which ONNX Runtime needs.
        accuracy: nodes that cost most stay in floating point, as few as will do, until the result
            reaches it: decibels of signal over noise of the outputs on the samples, or "top1:P",
            at most P percentage points of top-1 lost on `data`.
        engine: engines that the model is for, which decide the form of activations.
        device: that the engines are for.
        activations: "asymmetric" (uint8), "symmetric" (int8, zero point 0) or "auto": as the
            engines take them, asymmetric where `engine` is left out.
        ops: rules "PATTERN=WORD,WORD": PATTERN is an op type or a node's name with * and ?; words
            are float or int8, asymmetric or symmetric, and a clipping. The last that fits counts.
        smooth: how much of the differences between channels goes from what products read into
            their weights, where the noise gets less: 0 nothing, 1 all.
        equalize: do so between two convolutions, too: cross-layer equalisation.
        correct_bias: take off biases what rounding the weights adds in the mean.
        data: labelled samples, as for :func:`openxrt.evaluate`.
        data_options: arguments of :func:`openxrt.evaluate` about its data.
        calibrate_samples: how many of `data` calibrate where `calibration` is left out.
        report: a file .html or .json for what each node costs: see :func:`rank_nodes`.
        weights: nothing but the weights of MatMul, Gemm and Gather is quantised, without samples.
        block: how many weights share a scale, a power of two from 16 on; 0: all of an output
            channel. 32 for "int4" and 0 for "int8" unless given.
        symmetric: leave zero points of weights out; the default for "int8".
        dynamic: each run finds the ranges; without samples.

    Of samples, `weights` and `dynamic` one is wanted.

    Raises:
        InvalidArgument: two of them, or none, are given; samples do not fit, naming file and
            input; a rule or a name fits no node.
        TypeError: a sample is no mapping.
    """
    if weights is not None or dynamic:
        if calibration is not None or data is not None or (dynamic and weights is not None):
            raise InvalidArgument("one of samples, weights= and dynamic=True is wanted")
        if dynamic:
            _refuse_block(block, symmetric)
            return quantize_dynamic(model, output, set(keep_float))
        return quantize_weights(model, output, weights, block, symmetric, set(keep_float))
    _refuse_block(block, symmetric)
    loss = _top_1_loss(accuracy)
    target = None if report is None else Path(report)
    if target is not None and target.suffix not in (".html", ".json"):
        raise InvalidArgument(f"report '{target}': a file .html or .json is wanted")
    how = int8_options(
        clipping, percentile, keep_float, round_sums, engine, device, activations, ops, smooth,
        equalize, correct_bias,
    )  # fmt: skip
    if isinstance(calibration, CalibrationTable) and (accuracy is not None or target is not None):
        raise InvalidArgument("accuracy and report are measured on samples: give them, not a table")
    decibels = 0.0 if accuracy is None or loss is not None else float(accuracy)
    how |= {"decibels": decibels, "rank": target is not None}
    done = _quantize(model, output, calibration, data, data_options, calibrate_samples, loss, how)
    if target is not None:
        text = done["html" if target.suffix == ".html" else "json"]
        write_output_file(target, text.encode())
    samples = "1 sample" if done["samples"] == 1 else f"{done['samples']} samples"
    said = (
        f"{fspath(output)}: {done['sums']} of {done['sums'] + done['kept']} Conv, Gemm and MatMul "
        f"nodes in int8, {done['values']} values with a scale, {samples}"
    )
    if clipping == "auto" and not isinstance(calibration, CalibrationTable):
        said += f"\nclipping: {done['clipping']}"
    if done.get("float_results"):
        said += "\nresults of convolutions are float32 where float ops read them"
    said += "".join(f"\n{note}" for note in done["notes"])
    if loss is not None:
        said += f"\ntop_1 {done['reached']:.4f}, in floating point {done['plain']:.4f}"
    elif accuracy is not None:
        said += f"\n{done['reached']:.1f} dB"
    if done["kept_for_accuracy"]:
        said += f"; kept in floating point: {', '.join(done['kept_for_accuracy'])}"
    return said


def _refuse_block(block: int | None, symmetric: bool | None) -> None:
    if block is not None or symmetric is not None:
        raise InvalidArgument("block= and symmetric= are of weights=")


def rank_nodes(
    model: str | PathLike[str],
    *,
    calibration: Samples,
    clipping: Clipping | Literal["auto"] = "auto",
    percentile: float = 99.99,
    keep_float: Sequence[str] = (),
    round_sums: bool = False,
    engine: str | Sequence[str] | None = None,
    device: str = "cpu",
    activations: str = "auto",
    ops: Sequence[str] = (),
    smooth: float = 0.5,
    equalize: bool = False,
    correct_bias: bool = True,
) -> list[NodeNoise]:
    """What each node costs in int8, the noisiest first; behind them those that stay in floating
    point. The arguments are those of :func:`quantize`. Noise is measured on the first eight
    samples; it takes about as many compilations as there are nodes.
    """
    how = int8_options(
        clipping, percentile, keep_float, round_sums, engine, device, activations, ops, smooth,
        equalize, correct_bias,
    )  # fmt: skip
    how |= {"decibels": 0.0, "rank": True}
    with TemporaryDirectory(prefix="openxrt-rank-") as folder:
        done = _quantize(model, Path(folder) / "int8.onnx", calibration, None, None, 1, None, how)
    return [NodeNoise(**row) for row in done["nodes"]]


def trainable(model: str | PathLike[str]) -> Graph:
    """A quantised model (Q/DQ, as quantize() writes with samples) to train on with its rounding in
    place.

    >>> trainer = openxrt.Trainer(openxrt.quantize.trainable("int8.onnx"), loss="cross_entropy")
    >>> loss = trainer.step(images, target=labels)
    >>> openxrt.quantize.export_trained(trainer.model(), "better.onnx")

    Weights are float32 behind QuantizeLinear and DequantizeLinear, with scales that follow their
    largest number; scales of activations stay. Raises InvalidArgument where nothing is quantised.
    """
    return _core.trainable_quantised(model)


def export_trained(graph: Graph, output: str | PathLike[str]) -> None:
    """Writes what trainable() made, and a Trainer trained, as an ONNX file with int8 weights."""
    _core.export_trained(graph, output)
