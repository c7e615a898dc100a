# SPDX-License-Identifier: Apache-2.0
# Made of include/xrt/options.inc by tools/make_options.py; do not edit.
"""The arguments of every XRTModule."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal


class ModuleOptions(ABC):
    """Takes the arguments of an XRTModule, and hands them to _set_up()."""

    def __init__(
        self,
        module: Any,
        engine: str | Sequence[str] | None = None,
        device: str | None = None,
        *,
        use_fp16: bool = False,
        use_bf16: bool = False,
        use_int8: bool = False,
        int8_calibration: object = None,
        strict: bool | None = None,
        num_threads: int | None = None,
        cluster_minimum_nodes: int | None = None,
        cluster_maximum_nodes: int | None = None,
        node_engines: Mapping[str, str] | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        engine_options: Mapping[str, Mapping[str, object]] | None = None,
        dump_dir: str | os.PathLike[str] | None = None,
        max_specializations: int | None = None,
        auto_mode: Literal["", "fast", "full", "background"] | None = None,
        auto_budget_s: float | None = None,
        precision: Literal["f32", "bf16", "f16", "auto"] | None = None,
        tolerance: float | None = None,
        fallback: bool | None = None,
        check_results: bool | None = None,
        force_compile: bool | None = None,
        max_batch_size: int | None = None,
        shapes: Mapping[str, str | Sequence[int | str | None]] | None = None,
        ranges: Mapping[str, str | int | Sequence[int]] | None = None,
        max_workspace_bytes: int | None = None,
        max_memory_bytes: int | None = None,
        max_nodes: int | None = None,
        deadline_s: float | None = None,
        isolation: str | Sequence[str] | None = None,
        verbose: bool | None = None,
        **other_names: object,
    ) -> None:
        """Wraps a module. None stands for the default of an option.

        Args:
            module: what is wrapped; it stays usable by itself.
            engine: Engines in order of priority. "auto" lets the runtime choose, among the engines
                behind it where there are any. What no listed engine takes runs on "native", unless
                `strict` is set. Default: "auto".
            device: "cpu", or a device that the engines name, such as "cuda:0". Inputs may then lie
                there, and results stay there if an input does. Default: "cpu".
            use_fp16: engines that can do so compute float32 in float16: precision="f16".
            use_bf16: engines that can do so compute float32 in bfloat16: precision="bf16".
            use_int8: evaluation computes convolutions and products by constants in int8. What is
                quantised is made at the first call, and anew at the next call after weights have
                changed.
            int8_calibration: samples, a function, a number of calls, or the path of samples or of
                a table: see openxrt.quantize.Calibration, which may be given itself.
            strict: Only the listed engines may run nodes: a node that they refuse is an error with
                every reason. Default: False.
            num_threads: Threads of all engines together, at most the process's budget; 0: the
                budget. Default: 0.
            cluster_minimum_nodes: Smaller clusters of nodes go to the next engine that takes them;
                -1: no limit. Default: 1.
            cluster_maximum_nodes: Larger clusters of nodes are split; -1: no limit. Default: -1.
            node_engines: Node name to engine: overrides placement for that node. A node of a body
                is LOOP/body/NODE.
            cache_dir: Folder of the compile cache on disk; without it only what engine "auto"
                measured is kept, in the user's cache folder. An empty text turns both off,
                whatever the environment says.
            engine_options: Engine to its own options; each value is passed as text.
            dump_dir: Folder to write the graph to before and after each pass, and every function,
                as text.
            max_specializations: Compiled plans kept for distinct shapes of the inputs; the one
                used longest ago makes room. Default: 16.
            auto_mode: How engine "auto" decides: "fast", by estimates; "full", by measuring before
                the first results; "background", by measuring beside the runs. Empty: background;
                full where `precision` is to be chosen; fast for training and on accelerators.
            auto_budget_s: Seconds after which measuring starts nothing new, summed over all input
                shapes. Time in which measuring makes way for runs does not count. Default: 10.
            precision: What engines that can do so compute float32 in: "f32", "bf16", "f16"; or
                "auto": the fastest one measured whose outputs stay within `tolerance` of float32.
                Default: "f32".
            tolerance: For `precision` "auto": the largest difference from float32, over the range
                of each output. Default: 0.01.
            fallback: Nodes of a function that its engine fails to compile go to the next engine
                that takes them. Otherwise such a failure is an error. Default: False.
            check_results: What the functions of other engines computed in the first run is
                compared with "native", behind the second run. One that is wrong goes to the next
                engine, with a warning. Default: True.
            force_compile: Compile anew whatever the caches hold; the results are cached. Default:
                False.
            max_batch_size: The largest first dimension of inputs to build for, for engines that
                build for a range of sizes; 0: as the model declares it. A larger batch is built
                for when it comes, with one warning. Default: 0.
            shapes: Input name to its dimensions, "batch,3,224,224": a number, a name, or ? each.
                They refine what the model declares, and name dimensions for `ranges`.
            ranges: Dimension name to its sizes, "1:8:64": the least, the usual and the most.
                Engines that build for a range are given it. A size outside is built for when it
                comes, with one warning.
            max_workspace_bytes: Bytes of scratch memory that one run of a function may use; 0: no
                limit. An engine that needs more has failed to compile. Default: 0.
            max_memory_bytes: Bytes that a program may allocate for values, weights aside: of one
                run, and of constants that are folded when it is loaded. More is an error that
                names the node. 0: nine tenths of the machine's memory, or of the control group's.
                Default: 0.
            max_nodes: The most nodes that a model may have, functions expanded and sub-graphs
                included. Default: 10000000.
            deadline_s: Seconds that loading may take, and seconds that one run may take; then it
                is an error. 0: no limit. Default: 0.
            isolation: Engines that run in a process of their own, so that a crash there is an
                error here; "process": all but "native".
            verbose: Print every line of the log, as XRT_LOG=debug does. Default: False.
            other_names: other names of options: auto, dump_subgraph_dir, engines,
                max_workspace_size, cluster_max_iteration, cluster_ignore_pipeline,
                cluster_strict_sbp_policy, strict_types, force_precision_constraints; and arguments
                of the framework's XRTModule.

        Raises:
            InvalidArgument: arguments contradict each other.
        """
        self._set_up(
            module,
            {
                "engine": engine,
                "device": device,
                "strict": strict,
                "num_threads": num_threads,
                "cluster_minimum_nodes": cluster_minimum_nodes,
                "cluster_maximum_nodes": cluster_maximum_nodes,
                "node_engines": node_engines,
                "cache_dir": cache_dir,
                "engine_options": engine_options,
                "dump_dir": dump_dir,
                "max_specializations": max_specializations,
                "auto_mode": auto_mode,
                "auto_budget_s": auto_budget_s,
                "precision": precision,
                "tolerance": tolerance,
                "fallback": fallback,
                "check_results": check_results,
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
            use_fp16,
            use_bf16,
            use_int8,
            int8_calibration,
        )

    @abstractmethod
    def _set_up(
        self,
        module: Any,
        options: dict[str, Any],
        use_fp16: bool,
        use_bf16: bool,
        use_int8: bool,
        int8_calibration: object,
    ) -> None:
        """Begins the module. `options` holds every option, those not given as None."""
