# SPDX-License-Identifier: Apache-2.0
"""Compiles functions with TVM's Python package for the engine "tvm".

Runs as a process of its own: one JSON object per line comes in (see compile_model), one per line
goes out: {"progress": text, "part": 0…1} now and then, then {"ok": true} or {"error": text}.
Whatever TVM prints goes to standard error. Ends when its input does, or after a while without work.
"""

from __future__ import annotations

import json
import math
import os
import select
import sys
import time
from pathlib import Path
from statistics import mean
from typing import Any

from schedules import apply_schedules, schedule_function
from user_code import CodeError, user_ops

IDLE_SECONDS = 60
# Every task is given this many trials before any is given more.
TRIALS_PER_ROUND = 8
# Tasks with a smaller part of the function's arithmetic keep TVM's default schedule.
SMALLEST_PART = 0.005
# On a busy machine MetaSchedule's 30 s end builds whose process has hardly started.
LONGEST_BUILD_SECONDS = 120


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
    import tvm_ffi

    wanted = (
        json.loads(request["target"])
        if request["target"].startswith("{")
        else {"kind": request["target"]}
    )
    if wanted["kind"] == "llvm":
        wanted.setdefault("mcpu", tvm_ffi.get_global_func("target.llvm_get_system_cpu")())
        wanted.setdefault("num-cores", request["threads"])
    return tvm.target.Target(wanted)


def small_search(ms: Any) -> Any:
    """Mutations of the best schedules so far, and new ones at random.

    Without a learned cost model a large population is time that measuring would use better.
    """
    return ms.search_strategy.EvolutionarySearch(
        population_size=32,
        init_measured_ratio=0.5,
        init_min_unmeasured=16,
        genetic_num_iters=1,
        eps_greedy=0.25,
    )


def untuned_seconds(
    tvm: Any, ms: Any, module: Any, target: Any, builder: Any, runner: Any
) -> float:
    """What a task takes with the schedule that it has without tuning."""
    if target.kind.name != "llvm":
        return math.inf
    scheduled = tvm.IRModule({"main": schedule_function(tvm, module["main"])})
    built = builder.build([ms.builder.BuilderInput(scheduled, target)])[0]
    if built.error_msg:
        raise RuntimeError(built.error_msg)
    arguments = ms.arg_info.ArgInfo.from_entry_func(scheduled, remove_preproc=True)
    run = runner.run([ms.runner.RunnerInput(built.artifact_path, "cpu", arguments)])[0].result()
    if run.error_msg:
        raise RuntimeError(run.error_msg)
    return mean(float(s) for s in run.run_secs)


def tune(
    tvm: Any, relax: Any, module: Any, target: Any, request: dict[str, Any], replies: Replies
) -> Any:
    """Schedules found by MetaSchedule, within a number of trials and a time budget.

    Records are kept in the folder `records`: a later compilation continues where this one ended.
    """
    from tvm.s_tir import meta_schedule as ms

    records = request["records"]
    Path(records).mkdir(parents=True, exist_ok=True)
    extracted = ms.relax_integration.extract_tasks(module, target, params={})
    contexts, weights = ms.relax_integration.extracted_tasks_to_tune_contexts(
        extracted_tasks=extracted, work_dir=records, strategy=small_search(ms)
    )
    costs = [
        weight * tvm.s_tir.analysis.estimate_tir_flops(context.mod)
        for context, weight in zip(contexts, weights, strict=True)
    ]
    parts = [cost / (sum(costs) or 1.0) for cost in costs]
    order = sorted(range(len(parts)), key=lambda i: -parts[i])
    tasks = [contexts[i] for i in order if parts[i] >= SMALLEST_PART]
    # Their worker processes import TVM, which takes seconds: once for all tasks.
    builder = ms.builder.LocalBuilder(
        max_workers=request["threads"], timeout_sec=LONGEST_BUILD_SECONDS
    )
    runner = ms.runner.LocalRunner(
        evaluator_config=ms.runner.EvaluatorConfig(number=1, repeat=3, min_repeat_ms=10)
    )
    database = ms.database.JSONDatabase(work_dir=records)
    total = request["trials"]
    each = max(1, total // max(1, len(tasks)))
    deadline = time.monotonic() + request["time_budget"]
    done = 0
    slowest = 0.0  # seconds of a trial, seen so far: what is begun is to end before the deadline
    wanted = min(TRIALS_PER_ROUND, each)
    while wanted <= each and time.monotonic() < deadline:
        for task in tasks:
            known = 0
            if database.has_workload(task.mod):
                workload = database.commit_workload(task.mod)
                known = len(database.get_top_k(workload, each))
            begin = time.monotonic()
            trials = wanted - known
            if slowest > 0.0:
                trials = min(trials, int((deadline - begin) / slowest))
            if trials <= 0 or begin >= deadline:
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
            slowest = max(slowest, (time.monotonic() - begin) / trials)
        wanted += TRIALS_PER_ROUND
    replies.send(progress=f"tuned with {done} new trials", part=1.0)
    kept = ms.database.MemoryDatabase()
    for task in tasks:
        if not database.has_workload(task.mod):
            continue
        best = database.get_top_k(database.commit_workload(task.mod), 1)
        untuned = untuned_seconds(tvm, ms, task.mod, target, builder, runner)
        if best and mean(float(s) for s in best[0].run_secs) < untuned:
            kept.commit_workload(task.mod)
            kept.commit_tuning_record(best[0])
    with target, kept, tvm.transform.PassContext(opt_level=3):
        return relax.transform.MetaScheduleApplyDatabase(records)(module)


def compile_model(request: dict[str, Any], replies: Replies) -> None:
    """{"model": path of an ONNX file, "library": path to write, "target", "threads",
    "opt_level", "trials", "time_budget" (seconds), "records": folder, "code" of users' ops}."""
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    model = onnx.load(request["model"])
    with user_ops(tvm, model, request["code"]):
        module = from_onnx(model, keep_params_in_input=False)
    target = target_of(tvm, request)
    if target.kind.name == "llvm":
        with target:
            module = tvm.transform.Sequential(
                [
                    relax.transform.DecomposeOpsForInference(),
                    *relax.pipeline.library_dispatch_passes(target),
                    *relax.pipeline.legalize_passes(target),
                ]
            )(module)
    elif request["trials"] > 0:
        with target:
            module = relax.get_pipeline("zero")(relax.transform.DecomposeOpsForInference()(module))
    if request["trials"] > 0:
        module = tune(tvm, relax, module, target, request, replies)
    if target.kind.name == "llvm":
        module = apply_schedules(tvm, module)
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
        except CodeError as error:
            replies.send(error=str(error))
        except Exception as error:  # whatever it is, the engine reports it
            replies.send(error=f"{type(error).__name__}: {error}")
        else:
            replies.send(ok=True)


main()
