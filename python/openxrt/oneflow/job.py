# SPDX-License-Identifier: Apache-2.0
"""The job of an nn.Graph: its text, its variables, its learning rates."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import oneflow as flow
from oneflow import nn
from oneflow.nn.graph.proxy import GraphTensor  # where 0.9 keeps the names of variables

from .._core import Unsupported

STEP = "System-Train-TrainStep"


# Ops that OneFlow 0.9.0 cannot write: its converter ends the process where it finds one, for the
# dialect and the op's definition name the operands differently.
_UNWRITABLE = frozenset({"softplus"})


def _text_of(job: Any) -> str:
    """A job proto in MLIR's text, as oneflow.save writes it."""
    for op in job.net.op:
        if op.HasField("user_conf") and op.user_conf.op_type_name in _UNWRITABLE:
            raise Unsupported(
                f"'{op.name}' ({op.user_conf.op_type_name}): OneFlow {flow.__version__} cannot "
                "write this op into a job's text"
            )
    with tempfile.TemporaryDirectory(prefix="openxrt-oneflow-") as folder:
        flow._oneflow_internal.nn.graph.SaveJobToIR(job.SerializeToString(), folder)
        return (Path(folder) / "model.mlir").read_text()


@dataclass
class Job:
    """What an nn.Graph has after it was built."""

    text: str
    variables: dict[str, flow.Tensor]  # by the name they have in the job
    initial: dict[str, float]  # of the variables that the job has besides: optimizers' state
    rates: dict[str, Callable[[int], float]] = field(default_factory=dict)  # by input, of the step
    trains: bool = False  # the job has gradients and updates


def capture(graph: nn.Graph, *args: object) -> Job:
    """Builds the graph for arguments like these, where that was not done, and takes its job.

    Nothing is compiled by OneFlow. A graph with an optimizer gives the whole job, updates
    included.
    """
    if graph._full_job_proto is None:
        graph.build_graph(*args)
    trains = bool(graph._opts)
    job = graph._full_job_proto if trains else graph._forward_job_proto
    variables = {}
    for block in graph._state():
        lazy = block.to(GraphTensor)
        variables[lazy.name_prefix + lazy.name] = block.to(flow.Tensor)
    if any("FreeEagerTensor" in op.name for op in job.net.op if op.HasField("variable_conf")):
        # Tensors that the module uses without owning them: OneFlow gives them out once compiled.
        if not graph._is_compiled:
            graph.finish_complie_and_init_runtime()
        state = graph._c_nn_graph
        variables.update(zip(state.additional_var_names, state.additional_var_tensors, strict=True))
    initial = {}
    for op in job.net.op:
        if op.HasField("variable_conf") and op.name not in variables:
            initializer = op.variable_conf.initializer
            value = 0.0
            if initializer.HasField("constant_conf"):
                value = initializer.constant_conf.value
            elif initializer.HasField("constant_int_conf"):
                value = float(initializer.constant_int_conf.value)
            initial[op.name] = value
    return Job(_text_of(job), variables, initial, _rates(graph, job) if trains else {}, trains)


def _rates(graph: nn.Graph, job: Any) -> dict[str, Callable[[int], float]]:
    """The rate of each scheduled group of parameters, as a function of the step."""
    groups: list[tuple[float, Any]] = []
    for entry in graph._opts:
        optimizer, schedule = entry["optim"], entry.get("lr_sch")
        groups += [(group, schedule) for group in optimizer.param_groups]
    rates: dict[str, Callable[[int], float]] = {}
    for conf, (group, schedule) in zip(job.job_conf.train_conf.optimizer_conf, groups, strict=True):
        if conf.learning_rate_lbn:
            name = conf.learning_rate_lbn.rsplit("/", 1)[0]
            rates[name] = _rate(group, schedule, conf.base_learning_rate)
    return rates


def _rate(group: Any, schedule: Any, base: float) -> Callable[[int], float]:
    if schedule is None:
        return lambda step: float(group["lr"])
    return lambda step: float(schedule.get_lr(base, step))


def flatten(value: object, into: list[Any]) -> list[Any]:
    """The tensors of nested lists, tuples and dicts, in OneFlow's order."""
    if isinstance(value, flow.Tensor):
        into.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            flatten(item, into)
    elif isinstance(value, dict):
        for item in value.values():
            flatten(item, into)
    return into


def rebuild(like: object, tensors: Sequence[flow.Tensor]) -> object:
    """The structure of `like` with these tensors."""
    rest = iter(tensors)

    def walk(value: object) -> object:
        if isinstance(value, flow.Tensor):
            return next(rest)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(walk(item) for item in value))
        if isinstance(value, (list, tuple)):
            return type(value)(walk(item) for item in value)
        if isinstance(value, dict):
            return type(value)((key, walk(item)) for key, item in value.items())
        return value

    return walk(like)
