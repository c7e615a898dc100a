# SPDX-License-Identifier: Apache-2.0
"""The examples of examples/torch2trt run, with or without a GPU."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "torch2trt"
for package in ("torchvision", "tensorrt_rtx_bindings", "tvm"):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is missing", allow_module_level=True)


def run(script: str, *arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, EXAMPLES / script, *arguments],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def differences(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"difference.*? ([0-9.e+-]+)$", text, re.M)]


def test_a_handler_of_ones_own() -> None:
    text = run("node_handler.py")
    pytorch, tvm, tensorrt = text.splitlines()[-3:]
    assert pytorch.removeprefix("PyTorch:").split() == tvm.removeprefix("TVM:").split()
    assert "(REDUCE)" in tensorrt


def test_layers_of_a_network() -> None:
    text = run("basic_tensorrt.py", "--network", "squeezenet1_1")
    assert differences(text)[0] < 1e-5
    assert int(re.search(r"engine.bin: (\d+) bytes", text)[1]) > 1 << 20


def test_relax() -> None:
    found = differences(run("basic_tvm.py"))
    assert len(found) == 3 and max(found) < 1e-4


def test_modules_that_change_sides() -> None:
    found = differences(run("tensorrt_module.py", "--network", "squeezenet1_1"))
    assert len(found) == 3 and max(found) < 1e-3


def test_the_benchmark() -> None:
    row = run("benchmark.py", "squeezenet1_1", "--repeat", "1").splitlines()[-1]
    assert row.startswith("| squeezenet1_1 |") and row.count("|") == 5


@pytest.mark.skipif(importlib.util.find_spec("tvm") is None, reason="TVM is missing")
def test_the_names_of_torch2trt() -> None:
    """Code written for torch2trt, with its import changed."""
    torch = pytest.importorskip("torch")
    import openxrt.torch as torch2trt

    max_batchsize = 1
    max_trt_workspace = 1 << 30

    class TensorRTExample(torch2trt.TensorRTModule):
        def __init__(self) -> None:
            super().__init__(max_batchsize, max_trt_workspace)
            self.net = torch.nn.Linear(3, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x)

    example = TensorRTExample().train()
    assert (example.max_batchsize, example.workspace) == (1, 1 << 30)
    inputs = torch.randn(1, 3)
    wrapper = torch2trt.TensorRTModuleWrapper(example.net, max_batchsize, max_trt_workspace)
    torch.testing.assert_close(wrapper.train()(inputs), example(inputs))

    def toy_example(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.softmax(x, 1), torch.sigmoid(x)

    graph_pth_toy = torch2trt.GraphModule(toy_example, inputs)
    probs, sigmoid = graph_pth_toy(inputs, verbose=True)
    torch.testing.assert_close((probs, sigmoid), toy_example(inputs))

    net = example.net.eval()
    with torch2trt.core.tvm_network():
        trace, graph_pth = torch2trt.core.torch2tvm(
            net, inputs, input_names=["image"], verbose=True
        )
    output = torch2trt.TVMInference(trace).inference(image=inputs)["output_0"]
    torch.testing.assert_close(torch.from_numpy(output), net(inputs), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(graph_pth(inputs), net(inputs))
