# SPDX-License-Identifier: Apache-2.0
"""PyTorch in training mode, TVM or TensorRT in eval mode: changed weights, batches, parts of larger
networks. TVM really runs; of TensorRT plans are really built, and PyTorch stands in for the GPU."""

from __future__ import annotations

import copy
import gc
import importlib.util
import logging
import pickle
import weakref
from collections.abc import Sequence
from typing import Any

import openxrt
import pytest

torch = pytest.importorskip("torch")

import openxrt.torch as xt  # noqa: E402
import unknown_op  # noqa: E402, F401
from openxrt.torch._evaluation import Weights  # noqa: E402
from openxrt.torch.tensorrt_module import Plan  # noqa: E402

needs_tvm = pytest.mark.skipif(importlib.util.find_spec("tvm") is None, reason="TVM is missing")
needs_tensorrt = pytest.mark.skipif(
    importlib.util.find_spec("tensorrt_rtx_bindings") is None, reason="TensorRT-RTX is missing"
)


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, stride=2),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(36, 5),
    )


def images(n: int = 2, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


def step(module: torch.nn.Module) -> None:
    """One step of training, which changes weights and running statistics."""
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    module.train()
    module(images()).square().sum().backward()
    optimizer.step()
    module.eval()


def check(module: torch.nn.Module, net: torch.nn.Module, n: int = 2) -> None:
    with torch.no_grad():
        torch.testing.assert_close(module(images(n, n)), net(images(n, n)), rtol=1e-4, atol=1e-5)


class Frozen:
    """Stands in for a GPU: PyTorch with the weights that the plan was built with."""

    def __init__(self, plan: Plan, made: list[Plan]) -> None:
        assert len(plan.data) > 1000
        made.append(plan)
        self.net = copy.deepcopy(plan.graph.net).train()  # of an EvaluationModule: PyTorch
        for part in self.net.owner.children():
            part.eval()

    def inference_async(self, *tensors: torch.Tensor) -> dict[str, torch.Tensor]:
        with torch.no_grad():
            return {"output_0": self.net(*tensors)}


class OnPyTorch(xt.TensorRTModuleWrapper):
    """Real plans, run by the stand-in."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, compute_capability=(8, 9), **kwargs)
        self.__dict__["_engine_plans"] = []  # not copied with the module

    @property
    def plans(self) -> list[Plan]:
        return self.__dict__["_engine_plans"]

    def make_context(self, plan: Plan, tensors: Sequence[torch.Tensor]) -> Any:
        return Frozen(plan, self.plans)


# --- TVM ------------------------------------------------------------------------------------------


class TVMNet(xt.TVMModule):
    """Through TVM in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class Larger(torch.nn.Module):
    """A part of it runs through TVM."""

    def __init__(self) -> None:
        super().__init__()
        self.net = TVMNet()
        self.tail = torch.nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tail(self.net(x))


@needs_tvm
def test_tvm_trains_and_evaluates_in_turn_as_a_part() -> None:
    module = Larger()
    for _ in range(2):
        step(module)
        reference = torch.nn.Sequential(copy.deepcopy(module.net.net), module.tail).eval()
        check(module, reference)
    check(module, reference, n=3)  # another batch: the batch axis is kept
    assert next(iter(module.net.__dict__["_engine_module"].programs())) is not None


@needs_tvm
def test_a_tvm_wrapper_is_a_module() -> None:
    net = network().eval()
    module = xt.TVMModuleWrapper(net)
    assert not module.training
    assert set(module.state_dict()) == {f"net.{name}" for name in net.state_dict()}
    check(module, net)
    check(pickle.loads(pickle.dumps(module)), net)
    exported = torch.export.export(module, (images(),))  # traced through: PyTorch's ops
    assert any("conv2d" in str(node.target) for node in exported.graph.nodes)
    x = images().requires_grad_()
    module(x).sum().backward()  # wants a gradient: PyTorch
    assert x.grad is not None


@needs_tvm
def test_tvm_falls_back_when_asked() -> None:
    class Strange(xt.TVMModule):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.openxrt_tests.unheard(x)

    x = torch.ones(3)
    with pytest.raises(openxrt.Unsupported, match="unheard"):
        Strange().eval()(x)
    torch.testing.assert_close(Strange(fallback=True).eval()(x), torch.ops.openxrt_tests.unheard(x))


# --- TensorRT -------------------------------------------------------------------------------------


@needs_tensorrt
def test_tensorrt_trains_and_evaluates_in_turn() -> None:
    module = OnPyTorch(network())
    for _ in range(2):
        step(module)
        check(module, module.net)
        check(module, module.net)
    assert len(module.plans) == 2, "one plan for each state of the weights"
    module.train()
    module.eval()
    check(module, module.net)
    assert len(module.plans) == 2, "weights that did not change build nothing"


@needs_tensorrt
def test_batches_up_to_the_largest_need_one_plan(caplog: pytest.LogCaptureFixture) -> None:
    module = OnPyTorch(network().eval(), max_batchsize=4)
    for n in (1, 3, 4):
        check(module, module.net, n)
    assert [plan.max_batch for plan in module.plans] == [4]
    with caplog.at_level(logging.WARNING, "openxrt.torch"):
        check(module, module.net, 6)
    assert "batches of 6" in caplog.text and "max_batchsize is 4" in caplog.text
    check(module, module.net, 5)
    check(module, module.net, 6)
    assert [plan.max_batch for plan in module.plans] == [4, 6]


@needs_tensorrt
def test_a_module_for_one_batch_only(caplog: pytest.LogCaptureFixture) -> None:
    class Fixed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(2, 3, 64).sum(2)

    module = OnPyTorch(Fixed().eval(), max_batchsize=4)
    with caplog.at_level(logging.WARNING, "openxrt.torch"):
        check(module, module.net, 2)
    assert "cannot vary" in caplog.text
    assert [plan.max_batch for plan in module.plans] == [0]


@needs_tensorrt
@pytest.mark.parametrize("dtype", [torch.float16, "HALF"])
def test_half_precision_keeps_the_types_at_the_border(dtype: Any) -> None:
    from openxrt.torch.handlers.tensorrt import trt_package

    trt = trt_package()
    seen: list[Any] = []

    def look(net: Any) -> None:
        kinds = {net.get_layer(i).get_output(0).dtype for i in range(net.num_layers)}
        seen.append((net.get_input(0).name, net.get_input(0).dtype, net.get_output(0).dtype))
        assert trt.DataType.HALF in kinds

    module = xt.TensorRTModuleWrapper(
        network().eval(),
        dtype=trt.DataType.HALF if dtype == "HALF" else dtype,
        net_post_fn=look,
        input_names=["image"],
        compute_capability=(8, 9),
    )
    assert len(module.build(images()).data) > 1000
    assert seen == [("image", trt.DataType.FLOAT, trt.DataType.FLOAT)]
    with pytest.raises(openxrt.InvalidArgument, match="int8"):
        xt.TensorRTModule(dtype=torch.int8)


@needs_tensorrt
def test_users_set_the_builder_and_add_outputs() -> None:
    levels = []

    def configure(builder: Any, config: Any) -> None:
        config.builder_optimization_level = 1
        levels.append(config.builder_optimization_level)

    def add_output(net: Any) -> None:
        net.mark_output(net.add_identity(net.get_input(0)).get_output(0))

    module = xt.TensorRTModuleWrapper(
        network().eval(),
        builder_config_fn=configure,
        net_post_fn=add_output,
        compute_capability=(8, 9),
    )
    plan = module.build(images())
    assert levels == [1] and len(plan.data) > 1000


@needs_tensorrt
def test_plans_are_found_again(tmp_path: Any) -> None:
    net = network().eval()
    options = {"compute_capability": (8, 9), "cache_dir": tmp_path}
    first = xt.TensorRTModuleWrapper(net, **options).build(images())
    (path,) = tmp_path.iterdir()
    written = path.stat().st_mtime_ns
    assert xt.TensorRTModuleWrapper(net, **options).build(images()).data == first.data
    assert path.stat().st_mtime_ns == written
    with torch.no_grad():
        net[4].bias.add_(1)
    xt.TensorRTModuleWrapper(net, **options).build(images())
    assert len(list(tmp_path.iterdir())) == 2, "other weights are another plan"


@needs_tensorrt
def test_without_a_gpu_it_says_so_or_falls_back(caplog: pytest.LogCaptureFixture) -> None:
    from openxrt.engines import _cuda

    try:
        _cuda.driver()
    except openxrt.EngineError:
        pass
    else:
        pytest.skip("there is a GPU")
    net = network().eval()
    with pytest.raises(openxrt.EngineError, match="runs on a GPU"):
        xt.TensorRTModuleWrapper(net, compute_capability=(8, 9))(images())
    module = xt.TensorRTModuleWrapper(net, compute_capability=(8, 9), fallback=True)
    with caplog.at_level(logging.WARNING, "openxrt.torch"):
        check(module, net)
        check(module, net)
    assert caplog.text.count("runs in PyTorch") == 1


class _Parts(torch.nn.Module):
    """Results that are no tensors beside some that are."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)
        )

    def forward(self, x: torch.Tensor, *, scale: float = 2.0) -> dict[str, object]:
        y = self.parts(x)
        return {"y": y * scale, "rest": (None, 3, y)}


@needs_tvm
def test_hooks_run_in_eval_mode_too() -> None:
    wrapped = xt.TVMModuleWrapper(
        torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())
    ).eval()
    x = torch.randn(2, 3)
    seen: list[str] = []
    wrapped.register_forward_pre_hook(lambda module, args: (seen.append("pre"), (args[0] + 1,))[1])
    wrapped.register_forward_hook(lambda module, args, result: (seen.append("post"), result * 2)[1])
    wrapped.register_forward_hook(
        lambda module, args, keywords, result: seen.append(type(module).__name__),
        with_kwargs=True,
    )
    with torch.no_grad():
        torch.testing.assert_close(wrapped(x), wrapped.net(x + 1) * 2, rtol=1e-5, atol=1e-5)
    assert seen == ["pre", "post", "TVMModuleWrapper"]
    wrapped.register_forward_hook(lambda *_: seen.append("always"), always_call=True)
    with pytest.raises(Exception, match=r"2 and 5|mat1|shapes"):
        wrapped(torch.randn(2, 5))
    assert seen[-2:] == ["pre", "always"]


@needs_tvm
def test_modules_end_with_their_last_reference() -> None:
    wrapped = xt.TVMModuleWrapper(torch.nn.Linear(3, 4)).eval()
    wrapped(torch.randn(2, 3))
    gone = weakref.ref(wrapped.net)
    del wrapped
    gc.collect()
    assert gone() is None


@needs_tvm
@needs_tensorrt
def test_results_that_are_no_tensors() -> None:
    wrapped = xt.TensorRTModuleWrapper(_Parts(), compute_capability=(8, 9)).eval()
    x = torch.randn(2, 3)
    plan = wrapped.build(x, scale=3.0)
    assert plan.graph.results == [(True, None), (False, None), (False, 3), (True, None)]
    module, _ = xt.torch2tvm(_Parts().eval(), x)
    assert len(xt.TVMInference(module).inference(x)) == 2


def test_parts_that_were_replaced_are_noticed() -> None:
    wrapped = xt.TensorRTModuleWrapper(
        torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    ).eval()
    weights = Weights(wrapped)
    assert weights.are_current(wrapped)
    wrapped.net[1] = torch.nn.Tanh()
    assert not weights.are_current(wrapped)
