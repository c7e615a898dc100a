# SPDX-License-Identifier: Apache-2.0
"""Compiles functions with TVM's Python package for the engine "tvm".

Runs as a process of its own: one JSON object per line comes in (see compile_model), one per line
goes out: {"progress": text, "part": 0…1} now and then, then {"ok": true} or {"error": text}.
Whatever TVM prints goes to standard error. Ends when its input does, or after a while without work.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from pathlib import Path
from typing import Any

IDLE_SECONDS = 60
# Every task is given this many trials before any is given more.
TRIALS_PER_ROUND = 8
# Tasks with a smaller part of the function's arithmetic keep TVM's default schedule.
SMALLEST_PART = 0.005


class Replies:
    """The pipe to the engine, apart from what TVM writes to standard output."""

    def __init__(self) -> None:
        self.pipe = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
        os.dup2(2, 1)

    def send(self, **message: object) -> None:
        """One line for the engine."""
        self.pipe.write(json.dumps(message) + "\n")
        self.pipe.flush()


def target_of(tvm: Any, request: dict[str, Any]) -> Any:
    """The target asked for; on the CPU with this machine's instructions."""
    wanted = (
        json.loads(request["target"])
        if request["target"].startswith("{")
        else {"kind": request["target"]}
    )
    if wanted["kind"] == "llvm":
        wanted.setdefault("mcpu", request["cpu"])
        wanted.setdefault("num-cores", request["threads"])
    return tvm.target.Target(wanted)


def tune(
    tvm: Any, relax: Any, module: Any, target: Any, request: dict[str, Any], replies: Replies
) -> Any:
    """Schedules found by MetaSchedule, within a number of trials and a time budget.

    Records are kept in the folder `records`: a later compilation continues where this one ended.
    """
    from tvm.s_tir import meta_schedule as ms

    with target:
        module = tvm.transform.Sequential(
            [
                relax.transform.DecomposeOpsForInference(),
                relax.transform.CanonicalizeBindings(),
                relax.get_pipeline("zero"),
            ]
        )(module)
    records = request["records"]
    Path(records).mkdir(parents=True, exist_ok=True)
    extracted = ms.relax_integration.extract_tasks(module, target, params={})
    contexts, weights = ms.relax_integration.extracted_tasks_to_tune_contexts(
        extracted_tasks=extracted, work_dir=records, strategy="evolutionary"
    )
    costs = [
        weight * tvm.s_tir.analysis.estimate_tir_flops(context.mod)
        for context, weight in zip(contexts, weights, strict=True)
    ]
    parts = [cost / (sum(costs) or 1.0) for cost in costs]
    order = sorted(range(len(parts)), key=lambda i: -parts[i])
    tasks = [contexts[i] for i in order if parts[i] >= SMALLEST_PART]
    # Their worker processes import TVM, which takes seconds: once for all tasks.
    builder = ms.builder.LocalBuilder(max_workers=request["threads"])
    runner = ms.runner.LocalRunner()
    database = ms.database.JSONDatabase(work_dir=records)
    total = request["trials"]
    each = max(1, total // max(1, len(tasks)))
    deadline = time.monotonic() + request["time_budget"]
    done = 0
    wanted = min(TRIALS_PER_ROUND, each)
    while wanted <= each and time.monotonic() < deadline:
        for task in tasks:
            known = 0
            if database.has_workload(task.mod):
                workload = database.commit_workload(task.mod)
                known = len(database.get_top_k(workload, each))
            trials = wanted - known
            if trials <= 0 or time.monotonic() >= deadline:
                continue
            replies.send(progress=f"tuning {task.task_name} ({done} trials)", part=done / total)
            ms.tune.tune_tasks(
                tasks=[task.clone()],
                task_weights=[1.0],
                work_dir=records,
                max_trials_global=trials,
                max_trials_per_task=trials,
                num_trials_per_iter=trials,
                builder=builder,
                runner=runner,
                database=database,
                cost_model="random",
            )
            done += trials
        wanted += TRIALS_PER_ROUND
    replies.send(progress=f"tuned with {done} new trials", part=1.0)
    with target, database, tvm.transform.PassContext(opt_level=3):
        return relax.transform.MetaScheduleApplyDatabase(records)(module)


def compile_model(request: dict[str, Any], replies: Replies) -> None:
    """{"model": path of an ONNX file, "library": path to write, "target", "cpu", "threads",
    "opt_level", "trials", "time_budget" (seconds), "records": folder}."""
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    module = from_onnx(onnx.load(request["model"]), keep_params_in_input=False)
    target = target_of(tvm, request)
    if request["trials"] > 0:
        module = tune(tvm, relax, module, target, request, replies)
    with tvm.transform.PassContext(opt_level=request["opt_level"]):
        executable = tvm.compile(module, target=target)
    executable.export_library(request["library"])


def main() -> None:
    """Serves requests until there are none."""
    replies = Replies()
    while True:
        ready, _, _ = select.select([sys.stdin], [], [], IDLE_SECONDS)
        if not ready:
            return
        line = sys.stdin.readline()
        if not line:
            return
        try:
            compile_model(json.loads(line), replies)
        except Exception as error:  # whatever it is, the engine reports it
            replies.send(error=f"{type(error).__name__}: {error}")
        else:
            replies.send(ok=True)


main()
