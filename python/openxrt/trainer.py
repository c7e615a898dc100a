# SPDX-License-Identifier: Apache-2.0
"""Training: a model, a loss and an optimizer as one graph, run by any list of engines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _distributed, optim
from ._core import FALLBACK_ENGINE, Graph, InvalidArgument
from ._core import Trainer as _Trainer

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import Unpack

    from ._load import LoadOptions
    from .explanation import Explanation

_OPTIMIZERS: dict[str, type[optim.Optimizer]] = {
    "sgd": optim.SGD,
    "adagrad": optim.Adagrad,
    "rmsprop": optim.RMSprop,
    "adam": optim.Adam,
    "adamw": optim.AdamW,
    "lamb": optim.LAMB,
}


def _loss_scale_options(given: str | float | optim.LossScale | None) -> dict[str, Any]:
    """As the C++ trainer takes them."""
    if given is None:
        return {}
    if isinstance(given, optim.LossScale):
        return {"kind": "dynamic", **asdict(given)}
    if isinstance(given, str):
        return {"kind": given}
    return {"kind": "static", "initial": float(given)}


class Trainer:
    """Trains a model.

    >>> trainer = openxrt.Trainer("model.onnx", loss="cross_entropy",
    ...                           optimizer=openxrt.optim.Adam(learning_rate=1e-3))
    >>> loss = trainer.step(images, target=labels)
    >>> (logits,) = trainer.evaluate(images)
    >>> trainer.save("run.state")

    Args:
        model: an ONNX model (path or bytes) or a Graph. Its floating-point constants from which a
            gradient leads to the loss are trained, unless `parameters` names others.
        loss: an openxrt.optim.Loss or its kind; "output": the model's first output is the loss.
        optimizer: one of openxrt.optim, or its name.
        engine: engines in order of priority; what none of them takes runs natively.
        loss_scale: what the loss is multiplied by, so that small gradients do not vanish in half
            precision. "dynamic" or an openxrt.optim.LossScale: it falls where a gradient is not
            finite, and grows again; a number: it stays. Either way a step with such a gradient
            changes nothing but running statistics. "none": no scale, and no such test. None:
            "dynamic" with precision="f16" and "auto", else "none".
        schedule: learning rate of step 0, 1, …, e.g. openxrt.optim.cosine(0.1, total=1000).
        parameters: names of the constants to train; `frozen`: names that are not trained.
        prediction: which output of the model the loss compares with the target.
        train_mode: batch normalisation uses the batch's statistics and updates the running ones,
            Dropout drops. False: as in evaluation.
        seed: of dropout. Masks are the same on every engine.
        recompute: memory for time. "cheap": elementwise ops and normalisations are computed again
            for the backward pass; a number: the network is cut into so many segments, and
            everything within a segment is computed again. Gradients are the same.
        detect_anomaly: a step whose loss or weights are not finite raises InvalidArgument that
            names the node that made the first such value, and changes nothing.
        process_group: of torch.distributed with the backend gloo, e.g. `dist.group.WORLD`:
            processes train together. Each gives step() its part of every batch; gradients and the
            loss are means over the group (sums for a loss of reduction "sum"), so that with parts
            of one size weights and loss are those of one process with the whole batch. The first
            process's weights are where all begin. Batch normalisation has the statistics of a
            process's part, dropout the seed `seed` + rank. All call step() equally often.
        options: further options of a program (openxrt.options): strict, device, precision,
            num_threads, engine_options, cache_dir, dump_dir, ... With precision="bf16" or "f16"
            weights, optimizer states and updates stay float32.

    Raises:
        InvalidArgument: names, shapes or options that do not fit.
        Unsupported: a node between weights and loss has no gradient; names it.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | Graph,
        *,
        loss: str | optim.Loss = "cross_entropy",
        optimizer: str | optim.Optimizer = "sgd",
        engine: str | Sequence[str] = FALLBACK_ENGINE,
        loss_scale: str | float | optim.LossScale | None = None,
        schedule: optim.Schedule | None = None,
        parameters: Sequence[str] = (),
        frozen: Sequence[str] = (),
        prediction: int = 0,
        train_mode: bool = True,
        seed: int = 0,
        recompute: str | int = "none",
        detect_anomaly: bool = False,
        process_group: Any = None,
        **options: Unpack[LoadOptions],
    ) -> None:
        if isinstance(optimizer, str):
            if optimizer not in _OPTIMIZERS:
                raise InvalidArgument(
                    f'optimizer "{optimizer}" is not known; there are {", ".join(_OPTIMIZERS)}'
                )
            optimizer = _OPTIMIZERS[optimizer]()
        if isinstance(loss, str):
            loss = optim.Loss(loss)
        reduction = ""
        if process_group is not None:
            if engine == "auto" or "auto" in engine:
                raise InvalidArgument(
                    'process_group and engine "auto": each process would choose engines by times '
                    "of its own; name the engines"
                )
            seed += _distributed.rank(process_group)
            reduction = _distributed.reduction_op(process_group, loss.reduction != "sum")
        self.schedule = schedule
        self._core = _Trainer(
            model if isinstance(model, (bytes, Graph)) else Path(model),
            {
                "loss": asdict(loss),
                "optimizer": optimizer.options(),
                "loss_scale": _loss_scale_options(loss_scale),
                "parameters": list(parameters),
                "frozen": list(frozen),
                "prediction": prediction,
                "train_mode": train_mode,
                "seed": seed,
                "recompute": {"kind": recompute}
                if isinstance(recompute, str)
                else {"kind": "segments", "segments": recompute},
                "detect_anomaly": detect_anomaly,
                "reduction": reduction,
                "program": {"engine": engine, **options},
            },
        )
        if process_group is not None:
            _distributed.broadcast(process_group, list(self._core.state(False).values()))

    @classmethod
    def from_torch(
        cls,
        module: Any,
        inputs: Sequence[Any],
        *,
        dynamic_shapes: Any = None,
        **options: Any,
    ) -> Trainer:
        """Trains the parameters of an nn.Module, which is traced by torch.export with these example
        inputs. Weights are copied; copy_to() brings them back. Tracing is in evaluation mode: batch
        normalisation trains all the same, dropout of the module is not seen."""
        import torch

        from .torch import import_exported

        was_training = module.training
        module.eval()
        try:
            exported = torch.export.export(module, tuple(inputs), dynamic_shapes=dynamic_shapes)
        finally:
            module.train(was_training)
        names = [name for name, value in module.named_parameters() if value.requires_grad]
        return cls(import_exported(exported).graph, parameters=names, **options)

    def copy_to(self, module: Any) -> None:
        """Copies parameters and running statistics into the nn.Module that they came from."""
        import torch

        state = self.state_dict()
        with torch.no_grad():
            for name, value in module.state_dict().items():
                if name in state:
                    value.copy_(torch.from_numpy(state[name]))

    def step(self, *inputs: Any, **named: Any) -> float:
        """One update on one batch: the model's inputs in order or by name, and `target=`. Returns
        the loss before the update. The first step of each set of shapes compiles."""
        if self.schedule is not None:
            self._core.learning_rate = self.schedule(self._core.step_count)
        return self._core.step(self._named(inputs, named))

    def loss(self, *inputs: Any, **named: Any) -> float:
        """The loss of a batch in evaluation mode, without an update."""
        return self._core.loss(self._named(inputs, named))

    def evaluate(self, *inputs: Any, **named: Any) -> list[np.ndarray]:
        """The model's outputs in evaluation mode, with the weights as they are."""
        return self._core.evaluate(self._named(inputs, named))

    def state_dict(self, copy: bool = True) -> dict[str, np.ndarray]:
        """The parameters, running statistics and optimizer states ("<parameter>:momentum" and the
        like), by name. `copy=False`: arrays on the trainer's own memory, which the next step
        changes (with detect_anomaly, every second one); what is written into them is trained on."""
        return self._core.state(copy)

    def load_state_dict(self, values: Mapping[str, Any]) -> None:
        """Copies values in. Names may be a part of state_dict()'s; InvalidArgument names what does
        not fit, and then nothing is changed."""
        self._core.set_state(dict(values))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all that training needs to go on. A crash half-way leaves the old file whole."""
        self._core.save(Path(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Goes on from a checkpoint. InvalidModel where it is damaged or of another model."""
        self._core.load(Path(path))

    def model(self) -> Graph:
        """The model with the weights as they are now, for openxrt.load() or .to_onnx()."""
        return self._core.model()

    def explain(self) -> Explanation:
        """Which engine runs what of the newest training program."""
        return self._core.explain()

    def graph_text(self) -> str:
        """The newest training program's graph."""
        return self._core.graph_text()

    @property
    def learning_rate(self) -> float:
        """Of the next step; setting it ends a schedule."""
        return self._core.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self.schedule = None
        self._core.learning_rate = rate

    @property
    def step_count(self) -> int:
        """Calls of step(), those before a checkpoint and those that were skipped included."""
        return self._core.step_count

    @property
    def loss_scale(self) -> float:
        """What the next step's loss is multiplied by; 1.0 without loss scaling."""
        return self._core.loss_scale

    @property
    def skipped_steps(self) -> int:
        """Steps that changed no weight, because a gradient was not finite. The optimizer does not
        count them."""
        return self._core.skipped_steps

    @property
    def input_names(self) -> list[str]:
        """The inputs of step(), "target" last."""
        return self._core.input_names

    @property
    def parameter_names(self) -> list[str]:
        """What is trained."""
        return self._core.parameter_names

    def _named(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        names = self._core.input_names
        if len(inputs) > len(names):
            raise InvalidArgument(f"{len(inputs)} arrays were given for the inputs {names}")
        values = dict(zip(names, inputs, strict=False))
        for name, value in named.items():
            if name in values:
                raise InvalidArgument(f"input '{name}' was given twice")
            values[name] = value
        return values
