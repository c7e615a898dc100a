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
from pathlib import Path
from typing import Any

from gpu import emit_machine_code, lower, rename_values, rest_of_pipeline
from schedules import apply_schedules
from tuning import tune
from user_code import CodeError, user_ops

IDLE_SECONDS = 60


class Replies:
    """The pipe to the engine, apart from what TVM writes to standard output."""

    def __init__(self) -> None:
        self.pipe = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
        os.dup2(2, 1)

    def send(self, **message: object) -> None:
        """One line for the engine."""
        self.pipe.write(json.dumps(message) + "\n")
        self.pipe.flush()


def missing_extensions(tvm: Any, cpu: str) -> list[str]:
    """What LLVM takes a processor of this name to have, and the system says it lacks.

    A virtual machine may hide instructions of its processor, whose name LLVM goes by.
    """
    import tvm_ffi

    def plain(name: str) -> str:
        return name.replace("_", "").replace("-", "")

    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return []
    lines = [line for line in text.splitlines() if line.startswith("flags")]
    if not lines:
        return []  # not an x86 processor
    present = {plain(flag) for flag in lines[0].split(":", 1)[1].split()}
    vectors = ("avx", "amx", "fma", "f16c", "vaes", "vpclmulqdq", "gfni")
    taken = tvm_ffi.get_global_func("target.llvm_get_cpu_features")(
        tvm.target.Target({"kind": "llvm", "mcpu": cpu})
    )
    names = sorted(str(name) for name in taken)
    return [f"-{name}" for name in names if name.startswith(vectors) and plain(name) not in present]


def target_of(tvm: Any, request: dict[str, Any]) -> Any:
    """The target asked for; on the CPU with this machine's instructions."""
    import tvm_ffi

    wanted = (
        json.loads(request["target"])
        if request["target"].startswith("{")
        else {"kind": request["target"]}
    )
    if wanted["kind"] == "llvm":
        if "mcpu" not in wanted:
            wanted["mcpu"] = tvm_ffi.get_global_func("target.llvm_get_system_cpu")()
            wanted.setdefault("mattr", missing_extensions(tvm, wanted["mcpu"]))
        wanted.setdefault("num-cores", request["threads"])
    return tvm.target.Target(wanted)


def compile_model(request: dict[str, Any], replies: Replies) -> None:
    """{"model": path of an ONNX file, "library": path to write, "target", "threads",
    "opt_level", "trials", "time_budget" (seconds), "records": folder, "code" of users' ops}."""
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    model = onnx.load(request["model"])
    target = target_of(tvm, request)
    if target.kind.name == "cuda":
        rename_values(model)
        if tvm.cuda().exist:
            emit_machine_code(target)
    with user_ops(tvm, model, request["code"]):
        module = from_onnx(model, keep_params_in_input=False)
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
    pipeline = "default"
    if target.kind.name == "cuda":
        module = lower(tvm, relax, module, target)
        pipeline = rest_of_pipeline(tvm, target)
    with tvm.transform.PassContext(opt_level=request["opt_level"]):
        executable = tvm.compile(module, target=target, relax_pipeline=pipeline)
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
