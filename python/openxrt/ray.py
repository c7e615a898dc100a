# SPDX-License-Identifier: Apache-2.0
"""Programs on a Ray cluster: batches of Ray Data, deployments of Ray Serve.

    import ray
    import openxrt.ray

    pictures = ray.data.read_images("pictures", size=(224, 224), mode="RGB")
    scores = openxrt.ray.map_batches(
        pictures, "model.onnx", inputs={"x": "image"}, outputs={"scores": "scores"},
        prepare=scale, batch_size=16, workers=(1, 8), options={"engine": "openvino,native"})
    scores.write_parquet("scores")

Ray starts the processes, hands batches to them, and hands a batch to another one where one ended.
Each process holds the program; a folder that all of them see, as `cache_dir` of `options`, is
filled by the first.

Needs the package's extra: pip install 'openxrt[ray]'.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import InvalidArgument, Program, load

if TYPE_CHECKING:
    from ray.data import Dataset
    from ray.serve import Application

Batch = dict[str, np.ndarray]


class BatchProgram:
    """A program that maps batches of rows: an actor class for Ray Data's map_batches.

    Args:
        model: path that every machine of the cluster has, or the bytes of an ONNX model.
        inputs: input of the model to the column that it is fed from. An input that is not named is
            fed from the column of its name.
        outputs: output of the model to the column that it becomes; all outputs, by their names,
            where it is None.
        keep: columns of the batch that are handed on; None: all that the model is not fed from.
        prepare: called with each batch first; its result is what the model is fed from. A function
            that Ray can send.
        options: keyword arguments of :func:`openxrt.load`.

    A model whose first dimension is a number gets so many rows at once: the last rows of a batch
    are filled up with copies of the last one, whose results are dropped.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        inputs: Mapping[str, str] | None = None,
        outputs: Mapping[str, str] | None = None,
        keep: list[str] | None = None,
        prepare: Callable[[Batch], Batch] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._program: Program = load(model, **dict(options or {}))
        named = dict(inputs or {})
        known = [port.name for port in self._program.inputs]
        _check_names("input", named, known)
        self._inputs = {
            port.name: named.get(port.name, port.name)
            for port in self._program.inputs
            if port.name in named or not port.has_default
        }
        results = [port.name for port in self._program.outputs]
        self._outputs = dict(outputs) if outputs is not None else {name: name for name in results}
        _check_names("output", self._outputs, results)
        self._keep = keep
        self._prepare = prepare
        sizes = {
            port.shape[0]
            for port in self._program.inputs
            if port.name in self._inputs and port.shape and isinstance(port.shape[0], int)
        }
        if len(sizes) > 1:
            raise InvalidArgument(f"the inputs have different first dimensions: {sorted(sizes)}")
        self._rows = sizes.pop() if sizes else 0

    def __call__(self, batch: Batch) -> Batch:
        """The columns that are kept, and those of the outputs."""
        kept = self._kept(batch)
        fed = batch if self._prepare is None else self._prepare(batch)
        missing = [column for column in self._inputs.values() if column not in fed]
        if missing:
            raise InvalidArgument(
                f"there is no column '{missing[0]}'; columns: {', '.join(sorted(fed))}"
            )
        feeds = {name: fed[column] for name, column in self._inputs.items()}
        results = self._run(feeds)
        clash = sorted(set(kept) & set(self._outputs.values()))
        if clash:
            raise InvalidArgument(f"column '{clash[0]}' would be kept and is an output, too")
        return {**kept, **{column: results[name] for name, column in self._outputs.items()}}

    def _kept(self, batch: Batch) -> Batch:
        if self._keep is None:
            return {name: v for name, v in batch.items() if name not in self._inputs.values()}
        missing = [name for name in self._keep if name not in batch]
        if missing:
            raise InvalidArgument(f"there is no column '{missing[0]}' to keep")
        return {name: batch[name] for name in self._keep}

    def _run(self, feeds: Batch) -> Batch:
        count = len(next(iter(feeds.values())))
        if self._rows == 0 or self._rows == count:
            return self._checked(self._program.run(feeds), count)
        parts = []
        for begin in range(0, count, self._rows):
            part = {name: array[begin : begin + self._rows] for name, array in feeds.items()}
            rows = min(self._rows, count - begin)
            if rows < self._rows:
                part = {
                    name: np.concatenate([a, np.repeat(a[-1:], self._rows - rows, axis=0)])
                    for name, a in part.items()
                }
            results = self._checked(self._program.run(part), self._rows)
            parts.append({name: array[:rows] for name, array in results.items()})
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _checked(self, results: Mapping[str, Any], count: int) -> Batch:
        arrays = {name: np.asarray(results[name]) for name in self._outputs}
        for name, array in arrays.items():
            if array.ndim == 0 or len(array) != count:
                raise InvalidArgument(
                    f"output '{name}' has the shape {array.shape} for {count} rows: it has no row "
                    "for each"
                )
        return arrays


def map_batches(
    dataset: Dataset,
    model: str | os.PathLike[str] | bytes,
    *,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    keep: list[str] | None = None,
    prepare: Callable[[Batch], Batch] | None = None,
    options: Mapping[str, Any] | None = None,
    batch_size: int = 16,
    workers: int | tuple[int, int] = 1,
    cpus: float = 1,
) -> Dataset:
    """A dataset of Ray Data with the outputs of a model as columns.

    Args:
        dataset: read by Ray Data from pictures, Parquet or other files.
        model: as of :class:`BatchProgram`.
        inputs: likewise.
        outputs: likewise.
        keep: likewise.
        prepare: likewise.
        options: likewise.
        batch_size: rows of a batch.
        workers: processes that hold the program, or least and most of them.
        cpus: processors of each; the program's threads are as many, unless `options` has
            `num_threads`.
    """
    from ray.data import ActorPoolStrategy

    given = dict(options or {})
    given.setdefault("num_threads", max(1, int(cpus)))
    least, most = workers if isinstance(workers, tuple) else (workers, workers)
    return dataset.map_batches(
        BatchProgram,
        fn_constructor_kwargs={
            "model": model if isinstance(model, bytes) else os.fspath(model),
            "inputs": inputs,
            "outputs": outputs,
            "keep": keep,
            "prepare": prepare,
            "options": given,
        },
        batch_size=batch_size,
        batch_format="numpy",
        compute=ActorPoolStrategy(min_size=least, max_size=most),
        num_cpus=cpus,
    )


def deployment(
    folder: str | os.PathLike[str],
    *,
    models_per_replica: int = 3,
    cpus: float = 1,
    **options: Any,
) -> Application:
    """An application of Ray Serve over a folder of models (docs/guides/serve.md), for serve.run().

    Over HTTP it answers the JSON form of the Open Inference Protocol below its route:
    v2/health/ready, v2/models/NAME, v2/models/NAME/ready, v2/models/NAME/infer. In the cluster,
    handle.infer.remote(name, {input: array}). Ray Serve multiplexes the models: a request goes to a
    replica that holds its model, where there is one.

    Args:
        folder: that every machine of the cluster has.
        models_per_replica: programs that a replica holds at most.
        cpus: processors of a replica; a program's threads are as many, unless the settings of the
            model name `num_threads`.
        options: of Ray Serve's deployment of the replicas: autoscaling_config, num_replicas,
            max_ongoing_requests, max_queued_requests, ...
    """
    from ._ray_serve import application

    return application(Path(folder).absolute(), models_per_replica, cpus, options)


def _check_names(what: str, named: Mapping[str, str], known: list[str]) -> None:
    for name in named:
        if name not in known:
            raise InvalidArgument(f"there is no {what} '{name}'; {what}s: {', '.join(known)}")
