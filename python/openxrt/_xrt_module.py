# SPDX-License-Identifier: Apache-2.0
"""What the XRTModules of PyTorch and of OneFlow share: their arguments as program options."""

from __future__ import annotations

import os
from typing import Any

from ._core import InvalidArgument


def program_options(
    options: dict[str, Any],
    *,
    use_fp16: bool = False,
    max_batch_size: int | None = None,
    max_workspace_size: int | None = None,
    strict_types: bool = False,
    force_precision_constraints: bool = True,
    force_compile: bool = False,
    cluster_minimum_nodes: int = 1,
    cluster_maximum_nodes: int | None = None,
    cluster_ignore_pipeline: bool = True,
    cluster_max_iteration: int = 20,
    cluster_strict_sbp_policy: bool = True,
    dump_subgraph_dir: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> dict[str, Any]:
    """An XRTModule's arguments as keyword arguments of openxrt.load().

    Returns `options`, keyword arguments of openxrt.load() that were given as such, with those that
    the named arguments stand for. What is left at its default adds nothing, so that the
    environment's XRT_… still counts.

    Raises:
        InvalidArgument: arguments contradict each other.
    """
    if use_fp16 and options.get("precision", "f16") != "f16":
        raise InvalidArgument(f"use_fp16 and precision={options['precision']!r}")
    given = {
        "precision": "f16" if use_fp16 else None,
        "max_batch_size": max_batch_size,
        "max_workspace_size": max_workspace_size,
        "force_compile": force_compile or None,
        "cluster_minimum_nodes": None if cluster_minimum_nodes == 1 else cluster_minimum_nodes,
        "cluster_maximum_nodes": cluster_maximum_nodes,
        "dump_subgraph_dir": None if dump_subgraph_dir is None else os.fspath(dump_subgraph_dir),
        "verbose": verbose or None,
        # Those below change nothing, which the log says where they are not left at rest.
        "strict_types": strict_types or None,
        "force_precision_constraints": None if force_precision_constraints else False,
        "cluster_ignore_pipeline": None if cluster_ignore_pipeline else False,
        "cluster_max_iteration": None if cluster_max_iteration == 20 else cluster_max_iteration,
        "cluster_strict_sbp_policy": None if cluster_strict_sbp_policy else False,
    }
    return {**options, **{name: value for name, value in given.items() if value is not None}}
