# SPDX-License-Identifier: Apache-2.0
"""Runs conformance tests one by one in a process of its own, for run.py.

Started with the runner's name and the engines as arguments; requests and answers are those of
openxrt.conformance.pool.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
from openxrt.conformance.judge import mismatch
from openxrt.conformance.onnx_tests import Case, op_names
from openxrt.conformance.pool import first_lines, serve
from runners import RUNNERS, NotSupportedError


def make_runner(name: str, engines: list[str]) -> Any:
    """A runner by name, or from `FILE.py:CLASS`."""
    if name in RUNNERS:
        return RUNNERS[name](engines)
    file, _, class_name = name.rpartition(":")
    spec = importlib.util.spec_from_file_location("conformance_runner", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"no runner {name!r}: neither {', '.join(RUNNERS)} nor FILE.py:CLASS")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, class_name)(engines)


def run_case(runner: Any, case: Case) -> dict[str, Any]:
    """The answer for one test: status, reason, operators, nodes per engine, seconds."""
    content = case.model_bytes()
    model = onnx.load_from_string(content)
    data_sets = case.data_sets(model)
    answer: dict[str, Any] = {"ops": op_names(model)}
    start = time.perf_counter()
    try:
        outcome = runner(model, content, [feeds for feeds, _ in data_sets])
        reason = None
        for (_, expected), outputs in zip(data_sets, outcome.outputs, strict=True):
            reason = reason or mismatch(expected, outputs, case.rtol, case.atol)
        answer |= {"status": "fail" if reason else "pass", "reason": reason, "nodes": outcome.nodes}
    except NotSupportedError as error:
        answer |= {"status": "unsupported", "reason": first_lines(str(error))}
    except (
        Exception
    ) as error:  # every error of a test is that test's result, reported with its type
        answer |= {"status": "fail", "reason": first_lines(f"{type(error).__name__}: {error}")}
    answer["seconds"] = round(time.perf_counter() - start, 4)
    return answer


def start() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Makes the runner; what answers a request."""
    runner = make_runner(sys.argv[1], sys.argv[2:])
    return lambda request: run_case(runner, Case(**(request | {"folder": Path(request["folder"])})))


if __name__ == "__main__":
    serve(start)
