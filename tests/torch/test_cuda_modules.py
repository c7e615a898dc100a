# SPDX-License-Identifier: Apache-2.0
"""Modules on CUDA, as far as they go without a GPU: traced with fake tensors, and told apart."""

from __future__ import annotations

import openxrt
import pytest
import torch
from openxrt.torch.containers import flatten
from openxrt.torch.exported import Signature
from openxrt.torch.importer import Imported, Result, import_fx
from openxrt.torch.runner import Runner, _device_for
from openxrt.torch.tracing import attention_as_products
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

GPU = torch.device("cuda:0")


def test_a_graph_on_cuda_is_imported() -> None:
    def layer(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(x @ w), torch.zeros(2)

    with FakeTensorMode():
        samples = torch.empty(4, 8, device="cuda"), torch.empty(8, 2, device="cuda")
        module = make_fx(layer)(*samples)
        imported = import_fx(module, samples)
    assert imported.devices == {GPU, torch.device("cpu")}
    assert imported.input_devices == [GPU, GPU]
    assert [result.device for result in imported.results] == [GPU, torch.device("cpu")]


def test_attention_on_a_gpu_is_traced_as_products() -> None:
    with FakeTensorMode():
        on_gpu, on_cpu = torch.empty(1, device="cuda"), torch.empty(1)
    before = torch.backends.cuda.flash_sdp_enabled()
    with attention_as_products([on_cpu, None]):
        assert torch.backends.cuda.flash_sdp_enabled() == before
    with attention_as_products([on_cpu, on_gpu]):
        assert not torch.backends.cuda.flash_sdp_enabled()
        assert torch.backends.cuda.math_sdp_enabled()


def imported_on(*devices: str) -> Imported:
    return Imported(openxrt.Graph("g"), devices={torch.device(device) for device in devices})


def test_the_device_is_that_of_the_tensors() -> None:
    assert _device_for(imported_on("cpu"), None) is None
    assert _device_for(imported_on("cpu"), "cuda") == "cuda", "from the host and back"
    assert _device_for(imported_on("cpu", "cuda:1"), None) == "cuda:1"
    assert _device_for(imported_on("cuda:0"), "cuda") == "cuda:0"


@pytest.mark.parametrize(
    ("devices", "given", "message"),
    [
        (["cuda:0"], "cpu", "on the same device.* cuda:0 and cpu"),
        (["cuda:1"], "cuda", "on the same device.* cuda:1 and cuda"),
        (["cuda:0", "cuda:1"], None, "on the same device.* cuda:0 and cuda:1"),
        (["mps"], None, "tensors on mps"),
    ],
)
def test_two_devices_are_an_error(devices: list[str], given: str | None, message: str) -> None:
    with pytest.raises(openxrt.InvalidArgument, match=message):
        _device_for(imported_on(*devices), given)


def test_arguments_on_another_device_are_of_another_kind() -> None:
    here, there = [torch.empty(2)], [torch.empty(2, device="meta")]
    _, kind, _ = flatten((here[0],), {})
    assert Signature(here, kind).fits(here, kind)
    assert not Signature(here, kind).fits(there, kind)
    assert Signature(here, kind).widened(there, kind) is None


def test_a_runner_of_gpu_tensors_refuses_others() -> None:
    # All but the program is as on a GPU: arguments are looked at before it is called.
    graph = openxrt.Graph("g")
    (y,) = graph.add_node("Neg", [graph.add_input("x", "float32", [2])], ["y"])
    graph.add_output(y)
    graph.finish()
    imported = Imported(graph, [0], [Result(0)], input_devices=[torch.device("cpu")])
    runner = Runner(imported, {"engine": "native"})
    runner.on_gpu, runner.input_devices = True, [GPU]
    with pytest.raises(openxrt.InvalidArgument, match=r"on the same device.*cuda:0 and cpu!"):
        runner([torch.zeros(2)])
    runner.input_devices = [torch.device("cpu")]
    assert runner([torch.ones(2)])[0].tolist() == [-1, -1]
    runner.output_devices = {0: torch.device("meta")}
    assert runner([torch.ones(2)])[0].device == torch.device("meta"), "where PyTorch has it"
