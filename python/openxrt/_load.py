# SPDX-License-Identifier: Apache-2.0
# Made of include/xrt/options.inc by tools/make_options.py; do not edit.
"""openxrt.load and the types of its options."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypedDict

from . import _arguments
from ._core import Graph, Program
from ._core import load as _load


class LoadOptions(TypedDict, total=False):
    """Keyword arguments of :func:`openxrt.load`, for functions that hand them on."""

    engine: str | Sequence[str]
    device: str
    strict: bool
    devices: str | Sequence[str]
    num_threads: int
    streams: int
    max_queue: int
    cluster_minimum_nodes: int
    cluster_maximum_nodes: int
    node_engines: Mapping[str, str] | None
    aliases: Mapping[str, str] | Iterable[tuple[str, str]] | None
    cache_dir: str | os.PathLike[str] | None
    engine_options: Mapping[str, Mapping[str, object]] | None
    dump_dir: str | os.PathLike[str] | None
    max_specializations: int
    auto_mode: Literal["", "fast", "full", "background"]
    auto_budget_s: float
    precision: Literal["f32", "bf16", "f16", "auto"]
    tolerance: float
    use_int8: bool
    int8_calibration: str | int | os.PathLike[str]
    fallback: bool
    check_results: bool
    training: bool
    force_compile: bool
    max_batch_size: int
    shapes: Mapping[str, str | Sequence[int | str | None]] | None
    ranges: Mapping[str, str | int | Sequence[int]] | None
    max_workspace_bytes: int
    max_memory_bytes: int
    max_nodes: int
    deadline_s: float
    isolation: str | Sequence[str]
    verbose: bool


def load(
    model: str | os.PathLike[str] | bytes | bytearray | memoryview | Graph,
    engine: str | Sequence[str] = "auto",
    device: str = "cpu",
    *,
    strict: bool = False,
    devices: str | Sequence[str] = (),
    num_threads: int = 0,
    streams: int = 0,
    max_queue: int = 64,
    cluster_minimum_nodes: int = 1,
    cluster_maximum_nodes: int = -1,
    node_engines: Mapping[str, str] | None = None,
    aliases: Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    engine_options: Mapping[str, Mapping[str, object]] | None = None,
    dump_dir: str | os.PathLike[str] | None = None,
    max_specializations: int = 16,
    auto_mode: Literal["", "fast", "full", "background"] = "",
    auto_budget_s: float = 10,
    precision: Literal["f32", "bf16", "f16", "auto"] = "f32",
    tolerance: float = 0.01,
    use_int8: bool = False,
    int8_calibration: str | int | os.PathLike[str] = "",
    fallback: bool = False,
    check_results: bool = True,
    training: bool = False,
    force_compile: bool = False,
    max_batch_size: int = 0,
    shapes: Mapping[str, str | Sequence[int | str | None]] | None = None,
    ranges: Mapping[str, str | int | Sequence[int]] | None = None,
    max_workspace_bytes: int = 0,
    max_memory_bytes: int = 0,
    max_nodes: int = 10000000,
    deadline_s: float = 0,
    isolation: str | Sequence[str] = (),
    verbose: bool = False,
    **other_names: object,
) -> Program:
    """Loads a model, places it on engines and compiles it.

    >>> program = openxrt.load("model.onnx", engine=["openvino", "native"])

    An option left at its default is what its variable ``XRT_<NAME>`` says, if any.

    Args:
        model: path of an ONNX model or of a folder that OneFlow saved, the bytes of an ONNX model
            (which cannot refer to files of external data), or a Graph.
        engine: Engines in order of priority. "auto" lets the runtime choose, among the engines
            behind it where there are any. What no listed engine takes runs on "native", unless
            `strict` is set.
        device: "cpu", or a device that the engines name, such as "cuda:0". Inputs may then lie
            there, and results stay there if an input does.
        strict: Only the listed engines may run nodes: a node that they refuse is an error with
            every reason.
        devices: Devices that share the rows of each run, instead of `device`: "cuda:0,cuda:1".
            Each has the model; inputs and results lie on the host. `xrt eval` gives them whole
            batches in turn.
        num_threads: Threads of all engines together, at most the process's budget; 0: the budget.
        streams: Runs that take place at once, each with its part of the threads; weights are
            shared. 0: each run has all of num_threads, and as many submitted runs take place at
            once as fit into the process's budget.
        max_queue: Submitted runs that may wait for their turn; submit() waits for room.
        cluster_minimum_nodes: Smaller clusters of nodes go to the next engine that takes them; -1:
            no limit.
        cluster_maximum_nodes: Larger clusters of nodes are split; -1: no limit.
        node_engines: Node name to engine: overrides placement for that node. A node of a body is
            LOOP/body/NODE.
        aliases: Input name to output name: the two share memory, and the output is written into
            the buffer passed for the input, which must be writable and dense.
        cache_dir: Folder of the compile cache on disk; without it only what engine "auto" measured
            is kept, in the user's cache folder. An empty text turns both off, whatever the
            environment says.
        engine_options: Engine to its own options; each value is passed as text.
        dump_dir: Folder to write the graph to before and after each pass, and every function, as
            text.
        max_specializations: Compiled plans kept for distinct shapes of the inputs; the one used
            longest ago makes room.
        auto_mode: How engine "auto" decides: "fast", by estimates; "full", by measuring before the
            first results; "background", by measuring beside the runs. Empty: background; full
            where `precision` is to be chosen; fast for training and on accelerators.
        auto_budget_s: Seconds after which measuring starts nothing new, summed over all input
            shapes. Time in which measuring makes way for runs does not count.
        precision: What engines that can do so compute float32 in: "f32", "bf16", "f16"; or "auto":
            the fastest one measured whose outputs stay within `tolerance` of float32.
        tolerance: For `precision` "auto": the largest difference from float32, over the range of
            each output.
        use_int8: Conv, Gemm and MatMul nodes by constant weights are computed in int8, by the
            ranges that `int8_calibration` gives.
        int8_calibration: For `use_int8`: a number of runs, which come first, are in floating point
            and give the ranges; or the file of a calibration table.
        fallback: Nodes of a function that its engine fails to compile go to the next engine that
            takes them. Otherwise such a failure is an error.
        check_results: What the functions of other engines computed in the first run is compared
            with "native", behind the second run. One that is wrong goes to the next engine, with a
            warning.
        training: Engines are asked, and compile, for a training step.
        force_compile: Compile anew whatever the caches hold; the results are cached.
        max_batch_size: The largest first dimension of inputs to build for, for engines that build
            for a range of sizes; 0: as the model declares it. A larger batch is built for when it
            comes, with one warning.
        shapes: Input name to its dimensions, "batch,3,224,224": a number, a name, or ? each. They
            refine what the model declares, and name dimensions for `ranges`.
        ranges: Dimension name to its sizes, "1:8:64": the least, the usual and the most. Engines
            that build for a range are given it. A size outside is built for when it comes, with
            one warning.
        max_workspace_bytes: Bytes of scratch memory that one run of a function may use; 0: no
            limit. An engine that needs more has failed to compile.
        max_memory_bytes: Bytes that a program may allocate for values, weights aside: of one run,
            and of constants that are folded when it is loaded. More is an error that names the
            node. 0: nine tenths of the machine's memory, or of the control group's.
        max_nodes: The most nodes that a model may have, functions expanded and sub-graphs
            included.
        deadline_s: Seconds that loading may take, and seconds that one run may take; then it is an
            error. 0: no limit.
        isolation: Engines that run in a process of their own, so that a crash there is an error
            here; "process": all but "native".
        verbose: Print every line of the log, as XRT_LOG=debug does.
        other_names: other names of options: auto, dump_subgraph_dir, engines, max_workspace_size,
            cluster_max_iteration, cluster_ignore_pipeline, cluster_strict_sbp_policy,
            strict_types, force_precision_constraints.

    Raises:
        InvalidArgument: an option is unknown or has a value that does not fit.
        NotFound: the file or an engine does not exist.
        InvalidModel: the model is damaged or breaks a rule.
        Unsupported: no permitted engine can run a node; the message says why each refused it.
        EngineError: a named engine cannot be loaded, or failed to compile.
    """
    return _load(
        _arguments.source_of(model),
        {
            "engine": engine,
            "device": device,
            "strict": strict,
            "devices": devices,
            "num_threads": num_threads,
            "streams": streams,
            "max_queue": max_queue,
            "cluster_minimum_nodes": cluster_minimum_nodes,
            "cluster_maximum_nodes": cluster_maximum_nodes,
            "node_engines": node_engines,
            "aliases": aliases,
            "cache_dir": cache_dir,
            "engine_options": engine_options,
            "dump_dir": dump_dir,
            "max_specializations": max_specializations,
            "auto_mode": auto_mode,
            "auto_budget_s": auto_budget_s,
            "precision": precision,
            "tolerance": tolerance,
            "use_int8": use_int8,
            "int8_calibration": int8_calibration,
            "fallback": fallback,
            "check_results": check_results,
            "training": training,
            "force_compile": force_compile,
            "max_batch_size": max_batch_size,
            "shapes": shapes,
            "ranges": ranges,
            "max_workspace_bytes": max_workspace_bytes,
            "max_memory_bytes": max_memory_bytes,
            "max_nodes": max_nodes,
            "deadline_s": deadline_s,
            "isolation": isolation,
            "verbose": verbose,
            **other_names,
        },
    )
