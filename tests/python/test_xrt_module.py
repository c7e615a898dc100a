# SPDX-License-Identifier: Apache-2.0
"""What the XRTModules of PyTorch and OneFlow share: their arguments, and explain()."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openxrt
import pytest
from openxrt._int8 import Calibration
from openxrt._xrt_module import XRTModuleCore

# Arguments of OneFlow-XRT's modules, each at a value that is not its default there.
ONEFLOW_XRT = {
    "max_batch_size": 8,
    "max_workspace_size": 1 << 20,
    "strict_types": True,
    "force_precision_constraints": False,
    "force_compile": True,
    "cluster_minimum_nodes": 3,
    "cluster_maximum_nodes": 9,
    "cluster_ignore_pipeline": False,
    "cluster_max_iteration": 5,
    "cluster_strict_sbp_policy": False,
    "dump_subgraph_dir": Path("dumps"),
    "verbose": True,
}


class Module(XRTModuleCore):
    """A module that runs a graph by itself."""

    def _wrap(self, module: Any, options: dict[str, Any], calibration: Calibration | None) -> None:
        self.graph, self.options, self.calibration = module, options, calibration
        self.made: list[openxrt.Program] = []

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if not self.made:
            self.made.append(openxrt.load(self.graph, **self.options))
        return self.made[0](x)

    def programs(self) -> Iterator[openxrt.Program]:
        yield from self.made


def relu() -> openxrt.Graph:
    graph = openxrt.Graph("tiny")
    (y,) = graph.add_node("Relu", [graph.add_input("x", "float32", [2])], ["y"])
    graph.add_output(y)
    return graph


@pytest.mark.parametrize("argument", ONEFLOW_XRT)
def test_an_argument_is_an_option_that_load_takes(argument: str, tmp_path: Path) -> None:
    value = tmp_path if argument == "dump_subgraph_dir" else ONEFLOW_XRT[argument]
    module = Module(relu(), "native", **{argument: value})
    assert module.options == {"engine": "native", argument: value}
    assert module(np.array([-1.0, 1.0], np.float32)).tolist() == [0.0, 1.0]


def test_defaults_add_nothing() -> None:
    module = Module(
        relu(), use_fp16=False, use_int8=False, cluster_maximum_nodes=None, strict=False
    )
    assert module.options == {"engine": "auto"}
    assert module.calibration is None


def test_the_signature_is_the_table() -> None:
    parameters = inspect.signature(Module).parameters
    options = {option.keyword: option for option in openxrt.options.table() if not option.retired}
    own = {"module", "use_fp16", "use_bf16", "use_int8", "int8_calibration", "other_names"}
    assert set(parameters) - own == {name for name, option in options.items() if option.module}
    for name in set(parameters) - own:
        assert parameters[name].default is None, name
        assert f"            {name}: " in (Module.__init__.__doc__ or ""), name


def test_precision() -> None:
    assert Module(relu(), use_fp16=True).options["precision"] == "f16"
    assert Module(relu(), use_fp16=True, precision="f16").options["precision"] == "f16"
    # "f32" is the table's default, and an explicit choice here.
    for other in ("f32", "bf16", "auto"):
        with pytest.raises(openxrt.InvalidArgument, match=f"use_fp16 and precision='{other}'"):
            Module(relu(), use_fp16=True, precision=other)
    assert Module(relu(), use_bf16=True).options["precision"] == "bf16"
    with pytest.raises(openxrt.InvalidArgument, match="use_bf16 and precision='f16'"):
        Module(relu(), use_bf16=True, precision="f16")
    with pytest.raises(openxrt.InvalidArgument, match="use_fp16 and use_bf16"):
        Module(relu(), use_fp16=True, use_bf16=True)


def test_int8() -> None:
    assert Module(relu(), use_int8=True, int8_calibration=4).calibration.first_calls == 4
    with pytest.raises(openxrt.InvalidArgument, match="int8_calibration without use_int8"):
        Module(relu(), int8_calibration=4)


def test_explanation() -> None:
    module = Module(relu(), engine="native")
    with pytest.raises(openxrt.InvalidArgument, match="call the module first"):
        module.explain()
    module(np.array([-1.0, 1.0], np.float32))
    assert module.explain()["nodes_per_engine"] == {"native": 1}
