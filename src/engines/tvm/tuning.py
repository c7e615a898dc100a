# SPDX-License-Identifier: Apache-2.0
"""Schedules found by TVM's MetaSchedule, within a number of trials and a time budget.

A trial is a program that is built and timed, each in a worker process. The budget holds on a
machine that others use too: a batch has as many trials as fit by what trials took so far, and what
is not done by the end is not waited for.
"""

from __future__ import annotations

import concurrent.futures
import functools
import importlib
import inspect
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from gpu import schedule_for_gpu
from schedules import schedule_function

# Every task is given this many trials before any is given more.
TRIALS_PER_ROUND = 8
# Tasks with a smaller part of the function's arithmetic keep the engine's schedule.
SMALLEST_PART = 0.005
LONGEST_BUILD_SECONDS = 120
LONGEST_RUN_SECONDS = 30
# Worker processes grow: after so many builds another one takes over.
BUILDS_PER_WORKER = 64
# The engine's own schedules are measured first, in at most this part of the budget; where not one
# could be, as the workers had hardly started, in this part of what is left.
PARTS_OF_DEFAULTS = (0.25, 0.5)


class Clock:
    """When what is under way has to end."""

    deadline = math.inf

    def left(self) -> float:
        """Seconds; negative after the end."""
        return self.deadline - time.monotonic()


def import_intrinsics() -> None:
    """What MetaSchedule imports. It is hundreds of functions in TVMScript, and for each of them TVM
    asks for the stack, where Python looks for the module and source of every frame: 48 s of
    processor time, 3 s without. No function there is part of a class, for which TVM looks."""

    def stack(_context: int = 1) -> list[inspect.FrameInfo]:
        frames, frame = [], sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            info = (frame, code.co_filename, frame.f_lineno, code.co_name, None, None)
            frames.append(inspect.FrameInfo(*info))
            frame = frame.f_back
        return frames

    original, inspect.stack = inspect.stack, stack
    try:
        importlib.import_module("tvm.s_tir.tensor_intrin")
    finally:
        inspect.stack = original


@functools.cache
def build_pool(workers: int) -> Any:
    """Processes that build. They import TVM, which takes seconds: once for all functions. Closing
    the pool would wait for what is still being built: it is left open."""
    from tvm.support.popen_pool import PopenPoolExecutor

    return PopenPoolExecutor(
        max_workers=workers, timeout=LONGEST_BUILD_SECONDS, maximum_process_uses=BUILDS_PER_WORKER
    )


def make_builder(ms: Any, workers: int, clock: Clock) -> Any:
    """A builder whose workers stay from batch to batch; MetaSchedule's own starts them anew."""
    from tvm.ir.utils import derived_object

    def build_one(module: Any, target: Any) -> str:  # in a worker: a closure goes there by value
        from tvm.driver import build
        from tvm.s_tir.meta_schedule.builder.local_builder import default_export
        from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

        # As default_build() there, which imports intrinsics that a schedule has already used.
        module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module)
        return default_export(build(module, target=target))

    @derived_object
    class Builder(ms.builder.PyBuilder):
        def build(self, build_inputs: Sequence[Any]) -> list[Any]:
            pool = build_pool(workers)
            started = [pool.submit(build_one, one.mod, one.target) for one in build_inputs]
            results = []
            for future in started:
                try:
                    path = future.result(timeout=max(0.0, clock.left()))
                    results.append(ms.builder.BuilderResult(path, None))
                except concurrent.futures.CancelledError:
                    results.append(ms.builder.BuilderResult(None, "cancelled"))
                except Exception as error:  # a schedule that does not build is no reason to stop
                    future.cancel()
                    text = f"{type(error).__name__}: {error}"
                    results.append(ms.builder.BuilderResult(None, text))
            return results

    return Builder()


def make_runner(ms: Any, clock: Clock) -> Any:
    """MetaSchedule's runner, which begins nothing after the end."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.runner.local_runner import LocalRunnerFuture

    @derived_object
    class Runner(ms.runner.PyRunner):
        def __init__(self) -> None:
            super().__init__()
            self.inner = ms.runner.LocalRunner(
                timeout_sec=LONGEST_RUN_SECONDS,
                evaluator_config=ms.runner.EvaluatorConfig(number=1, repeat=3, min_repeat_ms=10),
            )

        def run(self, runner_inputs: Sequence[Any]) -> list[Any]:
            results = []
            for one in runner_inputs:
                if clock.left() > 0:
                    results += self.inner.run([one])
                else:
                    results.append(LocalRunnerFuture(error_message="no time was left"))
            return results

    return Runner()


class Tuning:
    """The tasks of one function, their trials and records."""

    def __init__(self, tvm: Any, module: Any, target: Any, request: dict[str, Any]) -> None:
        from tvm.s_tir import meta_schedule as ms

        self.deadline = time.monotonic() + request["time_budget"]
        import_intrinsics()
        self.clock = Clock()
        self.tvm, self.ms, self.target, self.request = tvm, ms, target, request
        # Records stay in the folder: a later compilation continues where this one ended.
        self.records = request["records"]
        Path(self.records).mkdir(parents=True, exist_ok=True)
        self.tasks = self._tasks(module)
        self.builder = make_builder(ms, request["threads"], self.clock)
        self.runner = make_runner(ms, self.clock)
        self.database = ms.database.JSONDatabase(work_dir=self.records)
        self.each = max(1, request["trials"] // max(1, len(self.tasks)))
        self.done = 0
        self.trial_seconds = 0.0  # of a trial, the slower ones of those seen

    def _tasks(self, module: Any) -> list[Any]:
        """Those that matter, the largest first."""
        integration = self.ms.relax_integration
        extracted = integration.extract_tasks(module, self.target, params={})
        # Without a learned cost model a large population is time that measuring would use better.
        strategy = self.ms.search_strategy.EvolutionarySearch(
            population_size=32,
            init_measured_ratio=0.5,
            init_min_unmeasured=16,
            genetic_num_iters=1,
            eps_greedy=0.25,
        )
        contexts, weights = integration.extracted_tasks_to_tune_contexts(
            extracted_tasks=extracted, work_dir=self.records, strategy=strategy
        )
        costs = [
            weight * self.tvm.s_tir.analysis.estimate_tir_flops(context.mod)
            for context, weight in zip(contexts, weights, strict=True)
        ]
        whole = sum(costs) or 1.0
        order = sorted(range(len(costs)), key=lambda i: -costs[i])
        return [contexts[i] for i in order if costs[i] / whole >= SMALLEST_PART]

    def left(self) -> float:
        """Seconds of the budget."""
        return self.deadline - time.monotonic()

    def defaults(self) -> list[float | None]:
        """What each task takes with the schedule that it has without tuning, in seconds; None where
        that could not be measured in time."""
        for part in PARTS_OF_DEFAULTS:
            seconds = self._time_defaults(part * self.left())
            if any(one is not None for one in seconds):
                break
        return seconds

    def _time_defaults(self, limit: float) -> list[float | None]:
        ms, inputs, programs = self.ms, [], []
        on_gpu = self.target.kind.name != "llvm"
        for task in self.tasks:
            if on_gpu:
                scheduled = schedule_for_gpu(self.tvm, task.mod["main"], self.target)
            else:
                scheduled = schedule_function(self.tvm, task.mod["main"])
            programs.append(self.tvm.IRModule({"main": scheduled}))
            inputs.append(ms.builder.BuilderInput(programs[-1], self.target))
        self.clock.deadline = time.monotonic() + limit
        device = "cuda" if on_gpu else "cpu"
        seconds: list[float | None] = []
        for program, built in zip(programs, self.builder.build(inputs), strict=True):
            run = None
            if not built.error_msg:
                arguments = ms.arg_info.ArgInfo.from_entry_func(program, remove_preproc=True)
                runs = self.runner.run(
                    [ms.runner.RunnerInput(built.artifact_path, device, arguments)]
                )
                run = runs[0].result()
            measured = run is not None and not run.error_msg
            seconds.append(mean(float(s) for s in run.run_secs) if measured else None)
        return seconds

    def _known(self, task: Any) -> int:
        if not self.database.has_workload(task.mod):
            return 0
        return len(self.database.get_top_k(self.database.commit_workload(task.mod), self.each))

    def try_some(self, task: Any, wanted: int) -> bool:
        """Trials of one task until it has as many as are wanted; False once time is over."""
        missing = wanted - self._known(task)
        while missing > 0:
            left = self.left()
            # Nobody knows how long the first ones take: one for each worker.
            fitting = int(left / self.trial_seconds) if self.done else self.request["threads"]
            trials = min(missing, fitting)
            if left <= 0 or trials <= 0:
                return False
            self.clock.deadline = self.deadline
            begin = time.monotonic()
            self.ms.tune.tune_tasks(
                tasks=[task.clone()],
                task_weights=[1.0],
                work_dir=self.records,
                max_trials_global=trials,
                max_trials_per_task=trials,
                num_trials_per_iter=trials,
                builder=self.builder,
                runner=self.runner,
                database=self.database,
                cost_model="random",
            )
            took = (time.monotonic() - begin) / trials
            self.trial_seconds = max(took, 0.7 * self.trial_seconds)
            self.done += trials
            missing -= trials
        return True

    def search(self, tasks: list[Any], replies: Any) -> None:
        """Rounds over these tasks, while there is time."""
        wanted = min(TRIALS_PER_ROUND, self.each)
        while wanted <= self.each:
            for task in tasks:
                replies.send(
                    progress=f"tuning {task.task_name} ({self.done} trials)",
                    part=min(1.0, self.done / self.request["trials"]),
                )
                if not self.try_some(task, wanted):
                    return
            wanted += TRIALS_PER_ROUND

    def best(self, defaults: list[float | None]) -> tuple[Any, int]:
        """The records that were faster than the engine's own schedules, and how many they are."""
        kept, count = self.ms.database.MemoryDatabase(), 0
        for task, default in zip(self.tasks, defaults, strict=True):
            if default is None or not self.database.has_workload(task.mod):
                continue
            best = self.database.get_top_k(self.database.commit_workload(task.mod), 1)
            if best and mean(float(s) for s in best[0].run_secs) < default:
                kept.commit_workload(task.mod)
                kept.commit_tuning_record(best[0])
                count += 1
        return kept, count


def tune(
    tvm: Any, relax: Any, module: Any, target: Any, request: dict[str, Any], replies: Any
) -> Any:
    """The module with the schedules that tuning found to be faster than the engine's own."""
    tuning = Tuning(tvm, module, target, request)
    replies.send(progress=f"timing {len(tuning.tasks)} schedules", part=0.0)
    defaults = tuning.defaults()
    timed = [t for t, seconds in zip(tuning.tasks, defaults, strict=True) if seconds is not None]
    tuning.search(timed, replies)
    kept, count = tuning.best(defaults)
    replies.send(
        progress=f"tuned with {tuning.done} new trials: {count} of {len(defaults)} schedules are "
        f"faster; {tuning.left():.0f} s of the budget were left",
        part=1.0,
    )
    with target, kept, tvm.transform.PassContext(opt_level=3):
        return relax.transform.MetaScheduleApplyDatabase(request["records"])(module)
