# SPDX-License-Identifier: Apache-2.0
"""The arguments that the XRTModules of PyTorch and OneFlow share, as options of a program."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import openxrt
import pytest
from openxrt._xrt_module import program_options

# Each argument at a value that is not its default, and the option it becomes.
TRANSLATED = [
    ("use_fp16", True, "precision", "f16"),
    ("max_batch_size", 8, "max_batch_size", 8),
    ("max_workspace_size", 1 << 20, "max_workspace_size", 1 << 20),
    ("strict_types", True, "strict_types", True),
    ("force_precision_constraints", False, "force_precision_constraints", False),
    ("force_compile", True, "force_compile", True),
    ("cluster_minimum_nodes", 3, "cluster_minimum_nodes", 3),
    ("cluster_maximum_nodes", 9, "cluster_maximum_nodes", 9),
    ("cluster_ignore_pipeline", False, "cluster_ignore_pipeline", False),
    ("cluster_max_iteration", 5, "cluster_max_iteration", 5),
    ("cluster_strict_sbp_policy", False, "cluster_strict_sbp_policy", False),
    ("dump_subgraph_dir", Path("dumps"), "dump_subgraph_dir", "dumps"),
    ("verbose", True, "verbose", True),
]


def identity() -> openxrt.Graph:
    graph = openxrt.Graph("tiny")
    (y,) = graph.add_node("Relu", [graph.add_input("x", "float32", [2])], ["y"])
    graph.add_output(y)
    return graph


@pytest.mark.parametrize(("argument", "value", "option", "expected"), TRANSLATED)
def test_an_argument_becomes_an_option_that_load_takes(
    argument: str, value: Any, option: str, expected: Any, tmp_path: Path
) -> None:
    given = program_options({"strict": True}, **{argument: value})
    assert given == {"strict": True, option: expected}
    if argument == "dump_subgraph_dir":
        given[option] = str(tmp_path)
    program = openxrt.load(identity(), engine="native", **given)
    assert program(np.array([-1.0, 1.0], np.float32)).tolist() == [0.0, 1.0]


def test_defaults_add_nothing() -> None:
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(program_options).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert program_options({}, **defaults) == {}
    assert set(defaults) == {row[0] for row in TRANSLATED}


def test_contradictions_are_told() -> None:
    assert program_options({"precision": "f16"}, use_fp16=True) == {"precision": "f16"}
    with pytest.raises(openxrt.InvalidArgument, match="use_fp16 and precision='bf16'"):
        program_options({"precision": "bf16"}, use_fp16=True)
