# SPDX-License-Identifier: Apache-2.0
"""How often a model is right on labelled data, and how fast: what ``xrt eval`` does."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from . import _core
from ._core import InvalidArgument, LabelledSet, Program
from ._int8 import int8_options
from ._load import load

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._load import LoadOptions

Metric = Callable[[np.ndarray | dict[str, np.ndarray], np.ndarray], float | np.ndarray]
"""Outputs of a batch (an array, or a dict where there are several) and its labels; a number for the
batch, or one for each sample."""


@dataclass(frozen=True)
class Evaluation:
    """What :func:`openxrt.evaluate` found. Parts are of 1."""

    samples: int
    top_1: float
    top_k: float
    """Of the largest k."""
    top: dict[int, float]
    """k to the part of the samples whose label is among the best k."""
    samples_per_s: float
    busy: float
    """Part of the time in which the programs ran, over their streams."""
    seconds: float
    batch: int
    classes: int
    skipped: int = 0
    skipped_because: list[str] = field(default_factory=list)
    confusion: dict[tuple[int, int], int] = field(default_factory=dict, repr=False)
    """Label and answer to samples."""
    class_names: list[str] = field(default_factory=list, repr=False)
    metric: float | None = None
    """The mean of the caller's metric over the samples."""
    agreement: float | None = None
    """Part of the samples for which the model to compare with has the same answer."""
    cosine: float | None = None
    """Mean cosine of its scores and the model's."""
    reference_top: dict[int, float] = field(default_factory=dict)
    char_error_rate: float | None = None
    """Characters inserted, left out and replaced, over those of the right texts."""
    token_error_rate: float | None = None
    """The same for the words between white space."""
    exact: int | None = None
    """Samples whose text is right."""

    def confusion_matrix(self) -> np.ndarray:
        """int64[classes, classes]: samples by label (rows) and answer (columns)."""
        matrix = np.zeros((self.classes, self.classes), np.int64)
        for pair, count in self.confusion.items():
            matrix[pair] = count
        return matrix

    def __str__(self) -> str:
        parts = [f"{self.samples} samples"]
        parts += [f"top_{k} {part:.4f}" for k, part in self.top.items()]
        if self.char_error_rate is not None:
            parts.append(f"char_error_rate {self.char_error_rate:.4f}")
            parts.append(f"token_error_rate {self.token_error_rate:.4f}")
        if self.metric is not None:
            parts.append(f"metric {self.metric:.4f}")
        if self.agreement is not None:
            parts.append(f"agreement {self.agreement:.4f}")
        parts += [f"{self.samples_per_s:.1f} samples/s", f"engines busy {self.busy:.0%}"]
        if self.skipped:
            parts.append(f"{self.skipped} skipped")
        return ", ".join(parts)


class _Judge:
    """Sums a metric over the samples that count."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.total = 0.0
        self.samples = 0

    def __call__(self, outputs: dict[str, object], labels: list[int], counts: list[bool]) -> None:
        mask = np.asarray(counts, bool)
        rows = {}
        for name, values in outputs.items():
            if not isinstance(values, np.ndarray) or values.ndim == 0 or len(values) < len(mask):
                raise InvalidArgument(f"output '{name}' has no row for each sample")
            rows[name] = values[: len(mask)][mask]
        given = rows if len(rows) > 1 else next(iter(rows.values()))
        count = int(mask.sum())
        if count == 0:
            return
        result = np.asarray(self.metric(given, np.asarray(labels, np.int64)[mask]), np.float64)
        if result.shape not in ((), (count,)):
            raise InvalidArgument(
                f"the metric gave an array of shape {result.shape} for {count} samples: a number, "
                "or one for each sample, is wanted"
            )
        self.total += float(result.sum()) if result.shape else float(result) * count
        self.samples += count

    def mean(self) -> float:
        return self.total / max(self.samples, 1)


class DataOptions(TypedDict, total=False):
    """Arguments of :func:`evaluate` about its data, for functions that hand them on."""

    format: Literal["auto", "ofrecord", "folders", "arrays", "csv"]
    classes: str | os.PathLike[str] | None
    picture_field: str
    label_field: str
    label_offset: int
    preset: Literal["", "imagenet", "oneflow"]
    resize_shorter: int | None
    crop: int | None
    mean: Sequence[float] | None
    std: Sequence[float] | None
    scale: Literal[1, 255] | None
    layout: Literal["auto", "nchw", "nhwc"]
    channels: Literal["rgb", "bgr"]
    limit: int
    skip_bad: bool
    workers: int


def labelled_set(data: str | os.PathLike[str], **options: Unpack[DataOptions]) -> LabelledSet:
    """Opens labelled samples; raises what :func:`evaluate` does."""
    classes, mean, std = options.get("classes"), options.get("mean"), options.get("std")
    return LabelledSet(
        Path(data),
        format=options.get("format", "auto"),
        classes=None if classes is None else Path(classes),
        picture_field=options.get("picture_field", ""),
        label_field=options.get("label_field", ""),
        preset=options.get("preset", ""),
        resize_shorter=options.get("resize_shorter"),
        crop=options.get("crop"),
        mean=None if mean is None else tuple(mean),
        std=None if std is None else tuple(std),
        scale=options.get("scale"),
        layout=options.get("layout", "auto"),
        channels=options.get("channels", "rgb"),
        limit=options.get("limit", 0),
        label_offset=options.get("label_offset", 0),
        skip_bad=options.get("skip_bad", False),
        workers=options.get("workers", 0),
    )


def evaluate(
    model: str | os.PathLike[str] | Program,
    data: str | os.PathLike[str],
    *,
    format: Literal["auto", "ofrecord", "folders", "arrays", "csv"] = "auto",  # noqa: A002
    classes: str | os.PathLike[str] | None = None,
    picture_field: str = "",
    label_field: str = "",
    label_offset: int = 0,
    preset: Literal["", "imagenet", "oneflow"] = "",
    resize_shorter: int | None = None,
    crop: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    scale: Literal[1, 255] | None = None,
    layout: Literal["auto", "nchw", "nhwc"] = "auto",
    channels: Literal["rgb", "bgr"] = "rgb",
    top: Sequence[int] = (1,),
    scores: str = "",
    text: str | os.PathLike[str] | None = None,
    batch: int | Literal["max"] = 0,
    devices: Sequence[str] = (),
    limit: int = 0,
    skip_bad: bool = False,
    workers: int = 0,
    int8: bool = False,
    calibrate_samples: int = 100,
    table: str | os.PathLike[str] | None = None,
    compare: str | os.PathLike[str] | Program | None = None,
    metric: Metric | None = None,
    report: Callable[[int, int, float, float, float], object] | None = None,
    **options: Unpack[LoadOptions],
) -> Evaluation:
    """Runs a model on labelled samples and counts how often it is right.

    >>> openxrt.evaluate("resnet50.onnx", "imagenet/val", preset="imagenet", top=(1, 5), batch=64)

    Args:
        model: path of an ONNX model or of a folder that OneFlow saved, or a program.
        data: part files of OFRecord, a folder of pictures per class, .npz files with an array
            'labels', or a .csv of paths and labels: a folder or one file.
        format: which of these; "auto": by what is there.
        classes: file with the names of the classes, one a line, class 0 first.
        picture_field: of an OFRecord; else "encoded", "image" or "images".
        label_field: of an OFRecord; else "class/label", "label" or "labels".
        label_offset: added to each label.
        preset: "imagenet" or "oneflow": resize_shorter, crop, mean, std and scale at once.
        resize_shorter: pixels that the shorter side of a picture gets.
        crop: width and height that are cut out of the middle.
        mean: value = (value - mean) / std, for red, green and blue.
        std: see `mean`.
        scale: values before `mean` go from 0 to 1, or to 255.
        layout: of the model's input.
        channels: of the model's input.
        top: a label among the k best answers is right; (): outputs are no scores of classes, and
            `metric` judges.
        scores: the output with a score per class, where there are several.
        text: file with the symbols of a model of text lines, one a line: outputs are [batch, steps,
            classes], class 0 the blank of CTC, then the symbols, then a space where there is one
            class more. The right text is the name of a sample's class, of a .csv its column
            "text". `top` does not count then.
        batch: samples of one run; 0: what the model declares, or 1; "max": the largest power of 2
            that fits.
        devices: devices that share the batches, ("cuda:0", "cuda:1"); each loads the model. (): the
            option `device` alone. The option `streams` has each compute several batches at once.
        limit: take the first samples only; 0: all.
        skip_bad: leave out and count samples that are damaged, instead of raising.
        workers: threads that read and decode; 0: the thread budget.
        int8: quantise the model first, calibrated with the first samples.
        calibrate_samples: how many, for `int8`.
        table: for `int8`, a calibration table or a cache of TensorRT instead of samples.
        compare: "f32" for the same model in float32, or another model or program.
        metric: called with the outputs and labels of each batch; Evaluation.metric is its mean.
        report: called after each batch with iteration, samples, top_1, top_k and samples per
            second.
        options: those of :func:`openxrt.load`.

    Raises:
        InvalidArgument: samples, labels or outputs do not fit; the message names the sample.
        NotFound: there are no labelled samples.
    """
    if isinstance(model, Program) and (options or int8):
        raise InvalidArgument("a program is loaded already: int8 and options of load() come late")
    if table is not None and not int8:
        raise InvalidArgument("table without int8")
    if devices and ("device" in options or isinstance(model, Program)):
        raise InvalidArgument("devices: the model is loaded on each; give its path and no device")
    if len(set(devices)) < len(devices):
        raise InvalidArgument(
            f"devices {tuple(devices)}: one is there twice; streams has a device do more at once"
        )
    if isinstance(model, Program) and compare == "f32":
        raise InvalidArgument('compare="f32" loads the model a second time: pass its path')
    if batch != "max" and batch < 0:
        raise InvalidArgument(f"batch is {batch}: a number from 0 on, or 'max', is wanted")
    labelled = labelled_set(
        data,
        format=format,
        classes=classes,
        picture_field=picture_field,
        label_field=label_field,
        preset=preset,
        resize_shorter=resize_shorter,
        crop=crop,
        mean=mean,
        std=std,
        scale=scale,
        layout=layout,
        channels=channels,
        limit=limit,
        label_offset=label_offset,
        skip_bad=skip_bad,
        workers=workers,
    )
    judge = None if metric is None else _Judge(metric)
    first = {**options, "device": devices[0]} if devices else options
    with ExitStack() as stack:
        program = model
        if int8:
            folder = stack.enter_context(TemporaryDirectory(prefix="openxrt-eval-"))
            program = Path(folder) / "int8.onnx"
            _write_int8(Path(model), program, labelled, calibrate_samples, table, first)
        if isinstance(program, Program):
            programs = [program]
        elif devices:
            programs = [load(program, **{**options, "device": device}) for device in devices]
        else:
            programs = [load(program, **options)]
        done = _core.evaluate(
            programs,
            labelled,
            batch=-1 if batch == "max" else batch,
            top=[] if text is not None else list(top),
            scores=scores,
            text=None if text is None else os.fspath(text),
            reference=_reference(model, compare, first),
            judge=judge,
            report=report,
        )
    if compare is None:
        done["agreement"] = done["cosine"] = None
    return Evaluation(
        **done,
        class_names=labelled.classes,
        metric=None if judge is None else judge.mean(),
    )


def _write_int8(
    model: Path,
    output: Path,
    labelled: LabelledSet,
    calibrate_samples: int,
    table: str | os.PathLike[str] | None,
    options: Mapping[str, Any],
) -> None:
    """As openxrt.quantize.quantize() does it, for the engines of a program with these options."""
    engine, device = options.get("engine", "auto"), options.get("device", "cpu")
    how = int8_options(engine=engine, device=device)
    if table is not None:
        _core.quantize_by_table(model, output, Path(table), how=how)
        return
    _core.quantize_model(
        model,
        output,
        samples=None,
        data=labelled,
        calibrate_samples=calibrate_samples,
        top_1_loss=None,
        how=how,
    )


def _reference(
    model: str | os.PathLike[str] | Program,
    compare: str | os.PathLike[str] | Program | None,
    options: Mapping[str, object],
) -> Program | None:
    if compare is None or isinstance(compare, Program):
        return compare
    if compare == "f32":
        return load(model, **{**options, "precision": "f32"})
    return load(compare, **options)
