# SPDX-License-Identifier: Apache-2.0
"""What functions for NVIDIA GPUs need beyond TVM's own pipeline: names that CUDA's compiler takes,
schedules that hold, and machine code at compile time.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import Any


def rename_values(model: Any) -> None:
    """Makes C identifiers of the names in an ONNX model, in place: TVM writes them into CUDA code
    as they are, `gpu_0/data_0` too.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()

    def identifier(name: str) -> str:
        if name and name not in names:
            stem = unique = "v_" + re.sub(r"\W", "_", name, flags=re.ASCII)
            while unique in taken:
                unique = f"{stem}_{len(taken)}"
            taken.add(unique)
            names[name] = unique
        return names.get(name, name)

    def rename(graph: Any) -> None:
        for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
            value.name = identifier(value.name)
        for tensor in graph.sparse_initializer:
            tensor.values.name = identifier(tensor.values.name)
        for node in graph.node:
            node.input[:] = [identifier(name) for name in node.input]
            node.output[:] = [identifier(name) for name in node.output]
            for attribute in node.attribute:
                for body in (attribute.g, *attribute.graphs):
                    rename(body)

    rename(model.graph)


def lower(tvm: Any, relax: Any, module: Any, target: Any) -> Any:
    """From operators to scheduled loops."""
    with target:
        module = tvm.transform.Sequential(
            [
                relax.transform.DecomposeOpsForInference(),
                *relax.pipeline.library_dispatch_passes(target),
                relax.transform.LegalizeOps(),
                relax.transform.AnnotateTIROpPattern(),
                relax.transform.FoldConstant(),
                relax.transform.FuseOps(),
                relax.transform.FuseTIR(),
            ]
        )(module)
    for variable, function in module.functions_items():
        if not isinstance(function, tvm.tirx.PrimFunc):
            continue
        if function.attrs is not None and function.attrs.get("tirx.is_scheduled", 0):
            continue
        module.update_func(variable, schedule_for_gpu(tvm, function, target))
    return module


def schedule_for_gpu(tvm: Any, function: Any, target: Any) -> Any:
    """The function over a GPU's threads; as it is where TVM finds no blocks in it.

    Of TVM's default schedules the one for products of a matrix and a vector (GEMV) is left out: it
    takes grouped convolutions and batches of products for such, and what it makes of them is
    wrong. So is its last resort, in whose place is one_thread_per_element. The one for products of
    matrices reads vectors, and TVM's code for vectors of bool reads two bytes for one. Where a rule
    gives up with an exception, or makes what TVM then cannot lower, the next one is asked.
    """
    from tvm.s_tir.dlight import gpu

    rules = (gpu.Reduction(), gpu.GeneralReduction())
    if not any(str(getattr(array.ty, "dtype", "")) == "bool" for array in function.params):
        rules = (gpu.Matmul(), *rules)
    with target:
        schedule = first_schedule(tvm, rules, function, target)
        if schedule is None:
            schedule = one_thread_per_element(tvm, function, target)
    if schedule is None:
        return function
    return schedule.mod["main"].with_attr("tirx.is_scheduled", True)


def rest_of_pipeline(tvm: Any, target: Any) -> Any:
    """What is left to do with a lowered module. TVM's whole pipeline would fuse functions again and
    schedule what comes out by its own rules.
    """
    from tvm.relax.backend.cuda import pipeline

    return tvm.transform.Sequential(
        [*pipeline.dataflow_lower_passes(target), *pipeline.finalize_passes(target)]
    )


def first_schedule(tvm: Any, rules: tuple[Any, ...], function: Any, target: Any) -> Any:
    """What the first rule that takes the function makes of it; None: none does."""
    for rule in rules:
        try:
            schedule = rule.apply(function, target, False)
            if schedule is not None:
                schedule = schedule[0] if isinstance(schedule, list) else schedule
                tvm.s_tir.transform.LowerCrossThreadReduction()(schedule.mod)
        except Exception as error:  # an assertion or TVM's own, by the function's shape
            print(f"{type(rule).__name__}: {type(error).__name__}", file=sys.stderr)
            continue
        if schedule is not None:
            return schedule
    return None


def one_thread_per_element(tvm: Any, function: Any, target: Any) -> Any:
    """Each block's elements over all threads, sums within a thread; None where TVM finds no blocks.

    Blocks are inlined where they are read, never into the block that they read: of a sum over one
    element TVM takes what follows it for a part of the sum, and adds it twice.
    """
    from tvm.s_tir.dlight import analysis, base

    schedule = tvm.s_tir.Schedule(function)
    blocks = analysis.normalize_prim_func(schedule)
    if blocks is None:
        return None
    kept = []
    for block in blocks:
        try:
            schedule.compute_inline(block.block_rv)
        except tvm.s_tir.ScheduleError:  # a sum, or what the function returns
            kept.append(block)
    sums = []
    for block in kept:
        loops = schedule.get_loops(block.block_rv)
        if any(schedule.get(loop).thread_binding is not None for loop in loops):
            continue
        if not loops and launches_threads(tvm, schedule.get(block.block_rv).body):
            continue
        kinds: dict[str, list[Any]] = {"S": [], "R": [], "O": []}
        for loop, kind in zip(loops, block.dom_kind(), strict=True):
            kinds[kind].append(loop)
        elements = kinds["S"] or [schedule.add_unit_loop(block.block_rv)]
        schedule.reorder(*elements, *kinds["R"], *kinds["O"])
        grid, threads = schedule.split(
            schedule.fuse(*elements), factors=[None, base.max_threads_per_block(target)]
        )
        schedule.bind(grid, "blockIdx.x")
        schedule.bind(threads, "threadIdx.x")
        if kinds["R"]:
            sums.append((block.block_rv, kinds["R"][0]))
    for block, loop in sums:
        schedule.decompose_reduction(block, loop)
    return schedule


def launches_threads(tvm: Any, body: Any) -> bool:
    """Whether a block has threads of its own, as TVM's sort has."""
    import tvm_ffi

    found = []

    def visit(node: Any) -> None:
        if node.attr_key == "thread_extent":
            found.append(node)

    tvm_ffi.structural_walk(body, [(tvm.tirx.AttrStmt, visit)], order="post")
    return bool(found)


def emit_machine_code(target: Any) -> None:
    """Has code for a GPU compiled by nvcc, into the library.

    TVM would use NVRTC through a package of its own, with approximate exp, sine and division; and
    without any compiler it keeps the source, which its runtime cannot run without Python.
    """
    import tvm_ffi
    from tvm.support.nvcc import compile_cuda

    if shutil.which("nvcc") is None:
        toolkit = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
        folder = f"{toolkit}/bin"
        if shutil.which("nvcc", path=folder) is None:
            raise RuntimeError(f"CUDA's compiler nvcc is neither on PATH nor in {folder}")
        os.environ["PATH"] = folder + os.pathsep + os.environ.get("PATH", os.defpath)
    # For tuning's processes too.
    os.environ["TVM_CUDA_COMPILE_MODE"] = "nvcc"
    os.environ["TVM_CUDA_NVCC_NO_FAST_MATH"] = "1"

    def compile_source(source: str) -> bytes:
        with target:
            return compile_cuda(
                source, target_format="cubin", arch=target.attrs["arch"], compiler="nvcc"
            )

    tvm_ffi.register_global_func("tvm_callback_cuda_compile", compile_source, override=True)
