# SPDX-License-Identifier: Apache-2.0
"""GraphModule in its three modes. PyTorch judges TVM's results, and the types that TensorRT gives;
TensorRT's networks are built for a GPU of compute capability 8.9 that need not be there."""

from __future__ import annotations

import functools
import importlib.util
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import openxrt
import pytest

torch = pytest.importorskip("torch")

import openxrt.torch as xt  # noqa: E402
import unknown_op  # noqa: E402, F401
from aten_samples import FAMILIES, Sample  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

F = torch.nn.functional
needs_tvm = pytest.mark.skipif(importlib.util.find_spec("tvm") is None, reason="TVM is missing")
needs_tensorrt = pytest.mark.skipif(
    importlib.util.find_spec("tensorrt_rtx_bindings") is None, reason="TensorRT-RTX is missing"
)


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 4 * 4, 5),
        torch.nn.Softmax(1),
    ).eval()


def images(n: int = 2, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


class TensorRT:
    """A network of one's own, and its build for compute capability 8.9."""

    def __init__(self) -> None:
        from openxrt.torch.handlers.tensorrt import library_of, trt_package

        self.library = library_of(trt_package())
        self.trt = self.library.trt
        flags = 1 << int(self.trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
        self.network = self.library.builder.create_network(flags)

    def add_input(self, name: str, tensor: torch.Tensor, shape: list[int] | None = None) -> Any:
        from openxrt.torch.handlers.constants import trt_dtype

        dtype = trt_dtype(self.trt, tensor.dtype)
        return self.network.add_input(name, dtype, shape or list(tensor.shape))

    def type_of(self, tensor: Any) -> tuple[torch.dtype, list[int]]:
        from openxrt.torch.handlers.constants import torch_dtype

        return torch_dtype(self.trt, tensor.dtype), list(tensor.shape)

    def build(self, profile: dict[str, tuple] | None = None) -> bytes:
        config = self.library.config([(8, 9)])
        if profile:
            bounds = self.library.builder.create_optimization_profile()
            for name, shapes in profile.items():
                bounds.set_shape(name, *shapes)
            config.add_optimization_profile(bounds)
        plan = self.library.builder.build_serialized_network(self.network, config)
        assert plan is not None, list(self.library.messages)
        return bytes(plan)


@pytest.fixture
def tensorrt() -> TensorRT:
    return TensorRT()


# --- all ops --------------------------------------------------------------------------------------


def joined(samples: list[Sample]) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """One function of all the samples: tracing and compiling once costs a part of the time."""

    def function(*inputs: torch.Tensor) -> list[Any]:
        rest = iter(inputs)
        return [f(*[next(rest) for _ in arguments]) for f, arguments in samples]

    return function, [x for _, arguments in samples for x in arguments]


@functools.cache
def traced(name: str) -> tuple[xt.GraphModule, list, list]:
    """A family's graph, its inputs and PyTorch's results."""
    function, inputs = joined(list(FAMILIES[name].values()))
    with torch.no_grad():
        return xt.GraphModule(function, *inputs), inputs, function(*inputs)


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> tuple[str, xt.GraphModule, list, list]:
    return request.param, *traced(request.param)


def test_pytorch_mode_is_pytorch(family: tuple) -> None:
    _, graph, inputs, expected = family
    with torch.no_grad():
        torch.testing.assert_close(graph(*inputs), expected, equal_nan=True)


@needs_tvm
def test_tvm_agrees_with_pytorch(family: tuple) -> None:
    name, graph, inputs, expected = family
    module, _ = xt.torch2tvm(graph)
    outputs = iter(xt.TVMInference(module).inference(*inputs).values())
    for sample, wanted in zip(FAMILIES[name], expected, strict=True):
        for tensor in pytree.tree_leaves(wanted):
            actual = torch.from_numpy(next(outputs))
            torch.testing.assert_close(
                actual, tensor, rtol=1e-4, atol=1e-5, msg=lambda m, s=sample: f"{s}: {m}"
            )


def attributes_of(layer: Any) -> dict[str, Any]:
    """Everything that TensorRT's API says about a layer, and the types of what it reads."""
    found = {}
    for name in dir(layer):
        if name.startswith("_") or name in ("name", "metadata"):
            continue
        value = getattr(layer, name)
        if isinstance(value, np.ndarray):
            value = [repr(x) for x in value.ravel()]  # NaN is NaN
        elif callable(value):
            continue
        found[name] = tuple(value) if hasattr(value, "__len__") else repr(value)
    for i in range(layer.num_inputs):
        tensor = layer.get_input(i)
        found[f"input {i}"] = None if tensor is None else (tensor.dtype, tuple(tensor.shape))
    return found


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Compares each layer that is added with the one that TensorRT's parser made."""
    from openxrt.torch.handlers import tensorrt as handlers

    seen: list[str] = []
    copy = handlers.copy_layer

    def checked(context: Any, layer: Any, tensors: dict, name: str) -> None:
        copy(context, layer, tensors, name)
        added = context.network.get_layer(context.network.num_layers - 1)
        added.__class__ = type(layer)
        assert attributes_of(added) == attributes_of(layer), name
        seen.append(type(layer).__name__)

    monkeypatch.setattr(handlers, "copy_layer", checked)
    return seen


@needs_tensorrt
def test_tensorrt_builds_with_pytorchs_types(
    family: tuple, tensorrt: TensorRT, copies: list[str]
) -> None:
    name, graph, _, expected = family
    if name == "bits":
        with pytest.raises(openxrt.Unsupported, match=r"bitwise_and.*BitwiseAnd"):
            xt.torch2trt(graph, network=tensorrt.network)
        return
    xt.torch2trt(graph, network=tensorrt.network)
    leaves = pytree.tree_leaves(expected)
    assert tensorrt.network.num_outputs == len(leaves)
    for i, tensor in enumerate(leaves):
        found = tensorrt.type_of(tensorrt.network.get_output(i))
        assert found == (tensor.dtype, list(tensor.shape))
    assert len(tensorrt.build()) > 1000
    assert len(copies) >= len(leaves)


TORCH2TRT = """
relu relu_ sigmoid leaky_relu leaky_relu_ tanh elu softsign softplus hardtanh hardtanh_ size
view flatten reshape _convolution batch_norm addmm matmul max_pool2d avg_pool2d
adaptive_avg_pool2d dropout dropout_ cat slice unsqueeze select mul mul_ add add_ div sub sum
max min mean prod permute transpose chunk contiguous constant_pad_nd softmax clone topk
index_select repeat floor log ceil sqrt exp neg cos acos cosh sin asin sinh tan atan abs
reciprocal constants lists tuples Int to detach t
"""


def test_what_torch2trt_handled_is_in_the_samples() -> None:
    samples = {word for family in FAMILIES.values() for name in family for word in name.split()}
    assert not set(TORCH2TRT.split()) - samples


def test_at_least_120_aten_ops_are_in_the_samples() -> None:
    ops = set()
    for name in FAMILIES:
        if name != "bits":  # which TensorRT does not take
            graph = traced(name)[0].graph
            ops |= {str(n.target) for n in graph.nodes if str(n.target).startswith("aten.")}
    for mode in ("tensorrt", "tvm"):
        assert len(ops & {name.replace("::", ".") for name in xt.handled_ops(mode)}) >= 120


REFUSED = {
    "cumprod": (lambda x: torch.cumprod(x, 0), torch.ones(3), "CumProd|Plugin"),
    "col2im": (lambda x: F.fold(x, (6, 6), 3), torch.ones(1, 18, 16), "Col2Im"),
    "nonzero": (torch.nonzero, torch.ones(3), "NonZero|no tensor"),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2, return_indices=True), images(), "MaxPool"),
}


@needs_tvm
@needs_tensorrt
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_frontend_does_not_take_is_refused(name: str, tensorrt: TensorRT) -> None:
    function, x, cause = REFUSED[name]
    graph = xt.GraphModule(function, x)
    for convert in (
        lambda: xt.torch2trt(graph, network=tensorrt.network),
        lambda: xt.torch2tvm(graph),
    ):
        with pytest.raises(openxrt.Unsupported, match=rf"aten.({name}|sym_size).*({cause})"):
            convert()
    assert tensorrt.network.num_layers == 0
    handled = xt.handled_ops("tensorrt")
    assert not [op for op in handled if op.startswith(("aten::cumprod", "aten::col2im"))]


@needs_tensorrt
def test_types_that_tensorrt_has_not(tensorrt: TensorRT) -> None:
    graph = xt.GraphModule(lambda x: x.double().exp(), torch.ones(3))
    with pytest.raises(openxrt.Unsupported, match=r"float64"):
        xt.torch2trt(graph, network=tensorrt.network)


# --- PyTorch's mode -------------------------------------------------------------------------------


def test_verbose_prints_each_node_with_its_source_line(capsys: pytest.CaptureFixture) -> None:
    def toy(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.softmax(x, 1), torch.sigmoid(x)

    x = torch.randn(2, 3)
    graph = xt.GraphModule(toy, x)
    torch.testing.assert_close(graph(x, verbose=True), toy(x))
    softmax, sigmoid = capsys.readouterr().out.splitlines()
    assert "aten::_softmax" in softmax and "float32[2, 3]" in softmax
    assert "aten::sigmoid" in sigmoid and "test_graph_module.py:" in sigmoid


def test_parameters_are_shared_and_gradients_flow() -> None:
    net = network()
    graph = xt.GraphModule(net, images())
    graph(images()).square().sum().backward()
    expected = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net(images()).square().sum().backward()
    for actual, parameter in zip(expected, net.parameters(), strict=True):
        torch.testing.assert_close(actual, parameter.grad)
    with torch.no_grad():
        net[5].weight.mul_(2)
        torch.testing.assert_close(graph(images()), net(images()))
        net[5].weight = torch.nn.Parameter(torch.zeros_like(net[5].weight))
        torch.testing.assert_close(graph(images()), net(images()))


def test_nested_arguments_and_results() -> None:
    def function(pair: tuple, *, scale: dict) -> dict:
        return {"sum": pair[0] + pair[1] * scale["by"], "both": list(pair)}

    x, y = torch.randn(3), torch.randn(3)
    graph = xt.GraphModule(function, (x, y), keywords={"scale": {"by": x}})
    result = graph((y, x), scale={"by": y})
    torch.testing.assert_close(result, function((y, x), scale={"by": y}))
    with pytest.raises(openxrt.InvalidArgument, match="structure"):
        graph(x, y)


def test_training_mode_moves_the_running_statistics() -> None:
    net, twin = network().train(), network().train()
    graph = xt.GraphModule(net, images())
    torch.testing.assert_close(graph(images(2, 1)), twin(images(2, 1)))
    torch.testing.assert_close(net[1].running_mean, twin[1].running_mean)


def test_wrong_arguments_are_named() -> None:
    graph = xt.GraphModule(network(), images())
    with pytest.raises(openxrt.InvalidArgument, match=r"float32\[3, 3, 8, 8\].*\[2, 3, 8, 8\]"):
        graph(images(3))
    with pytest.raises(openxrt.InvalidArgument, match="float64"):
        graph(images().double())


def test_control_flow_that_depends_on_data_is_refused() -> None:
    with pytest.raises(openxrt.Unsupported, match="cannot be traced whole"):
        xt.GraphModule(lambda x: x + 1 if x.sum() > 0 else x, torch.ones(3))


# --- contexts -------------------------------------------------------------------------------------


@needs_tvm
def test_contexts_nest_and_survive_exceptions() -> None:
    assert xt.current_context().is_torch and xt.current_context().network is None
    with pytest.raises(KeyError), xt.tvm_network():
        assert xt.current_context().is_tvm
        with xt.torch_network():
            assert xt.current_context().is_torch
        assert xt.current_context().is_tvm
        raise KeyError
    assert xt.current_context().is_torch


@needs_tvm
def test_each_thread_has_its_own_context() -> None:
    seen = []
    with xt.tvm_network():
        thread = threading.Thread(target=lambda: seen.append(xt.current_context().is_torch))
        thread.start()
        thread.join()
    assert seen == [True]


@needs_tensorrt
def test_tensors_of_a_network_need_its_context(tensorrt: TensorRT) -> None:
    graph = xt.GraphModule(network(), images())
    with pytest.raises(openxrt.InvalidArgument, match="trt_network"):
        graph(tensorrt.add_input("x", images()))
    with pytest.raises(openxrt.InvalidArgument, match="INetworkDefinition"):
        xt.trt_network(object())


# --- TensorRT's mode ------------------------------------------------------------------------------


@needs_tensorrt
def test_users_mix_in_layers_of_their_own(tensorrt: TensorRT) -> None:
    trt, net = tensorrt.trt, tensorrt.network
    first, second = (
        xt.GraphModule(network(), images()),
        xt.GraphModule(torch.sigmoid, torch.ones(2, 5)),
    )
    with xt.trt_network(net):
        probabilities = first(tensorrt.add_input("images", images()))
        mine = net.add_activation(probabilities, trt.ActivationType.TANH).get_output(0)
        one, two = second(mine), second(mine)  # twice in one network
        constant = second(torch.zeros(2, 5))
    torch.testing.assert_close(constant, torch.full((2, 5), 0.5))
    names = [net.get_layer(i).name for i in range(net.num_layers)]
    assert len(set(names)) == len(names)
    for tensor in (one, two):
        assert tensorrt.type_of(tensor) == (torch.float32, [2, 5])
        net.mark_output(tensor)
    assert len(tensorrt.build()) > 1000


@needs_tensorrt
def test_open_batch_in_tensorrt(tensorrt: TensorRT) -> None:
    batch = torch.export.Dim("batch")
    graph = xt.GraphModule(network(), images(), dynamic_shapes=({0: batch},))
    x = tensorrt.add_input("images", images(), [-1, 3, 8, 8])
    with xt.trt_network(tensorrt.network):
        y = graph(x)
    assert tensorrt.type_of(y) == (torch.float32, [-1, 5])
    tensorrt.network.mark_output(y)
    shapes = [(n, 3, 8, 8) for n in (1, 4, 16)]
    assert len(tensorrt.build({"images": tuple(shapes)})) > 1000
    fixed = xt.GraphModule(network(), images())
    refused = pytest.raises(openxrt.InvalidArgument, match="dynamic_shapes")
    with xt.trt_network(tensorrt.network), refused:
        fixed(x)


@needs_tensorrt
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_in_tensorrt(tensorrt: TensorRT, dtype: torch.dtype) -> None:
    xt.torch2trt(network().to(dtype), images().to(dtype), network=tensorrt.network)
    assert tensorrt.type_of(tensorrt.network.get_output(0)) == (dtype, [2, 5])
    assert len(tensorrt.build()) > 1000


@needs_tensorrt
def test_an_op_without_handler_leaves_the_network_as_it_was(tensorrt: TensorRT) -> None:
    graph = xt.GraphModule(lambda x: torch.ops.openxrt_tests.unheard(torch.relu(x)), torch.ones(3))
    refused = pytest.raises(openxrt.Unsupported, match=r"unheard.*test_graph_module.py:\d+")
    with xt.trt_network(tensorrt.network), refused as error:
        graph(tensorrt.add_input("x", torch.ones(3)))
    assert "register_node_handler" in str(error.value)
    assert tensorrt.network.num_layers == 0


@needs_tensorrt
def test_random_numbers_are_no_constants(tensorrt: TensorRT) -> None:
    graph = xt.GraphModule(lambda x: x + torch.rand(3), torch.ones(3))
    with xt.trt_network(tensorrt.network), pytest.raises(openxrt.Unsupported, match="random"):
        graph(tensorrt.add_input("x", torch.ones(3)))


CUTS = {
    "slice": lambda x: x[1:, 2:-1:2],
    "slice beyond": lambda x: x[-9:2, 1:99],
    "select": lambda x: x[1, -2],
    "flip": lambda x: torch.flip(x, [0, -1]),
    "roll": lambda x: torch.roll(x, (2, -3), (0, -1)),
    "roll twice": lambda x: torch.roll(x, (1, 1), (2, 2)),
    "slice_scatter": lambda x: torch.slice_scatter(x, x[:, :2] * 2, 1, 1, 3),
    "slice_scatter at the end": lambda x: torch.slice_scatter(x, x[:2] * 2, 0, 1),
}


def evaluated(network: Any, x: np.ndarray) -> np.ndarray:
    """What slices, reshapes and concatenations of a network do, read back from it, in NumPy."""
    values = {network.get_input(0).name: x}
    for i in range(network.num_layers):
        layer = network.get_layer(i)
        a, *rest = [values[layer.get_input(k).name] for k in range(layer.num_inputs)] or [None]
        kind = layer.type.name
        if kind == "SLICE":
            layer.__class__ = xt.handlers.tensorrt.trt_package().ISliceLayer
            wraps = layer.mode.name == "WRAP"
            for axis, (first, size, step) in enumerate(
                zip(layer.start, layer.shape, layer.stride, strict=True)
            ):
                places = first + step * np.arange(size)
                assert wraps or (places.min() >= 0 and places.max() < a.shape[axis])
                a = np.take(a, places, axis, mode="wrap" if wraps else "raise")
        elif kind == "SHUFFLE":
            layer.__class__ = xt.handlers.tensorrt.trt_package().IShuffleLayer
            a = a.reshape(tuple(layer.reshape_dims))
        elif kind == "CONCATENATION":
            layer.__class__ = xt.handlers.tensorrt.trt_package().IConcatenationLayer
            a = np.concatenate([a, *rest], layer.axis)
        elif kind == "CONSTANT":
            a = np.float32(2).reshape(tuple(layer.get_output(0).shape))
        else:
            assert kind == "ELEMENTWISE"  # the product of the test's functions
            a = a * rest[0]
        values[layer.get_output(0).name] = a
    return values[network.get_output(0).name]


@needs_tensorrt
@pytest.mark.parametrize("name", CUTS)
def test_cuts_are_single_layers_that_cut_as_pytorch(name: str, tensorrt: TensorRT) -> None:
    x = torch.arange(60.0).reshape(3, 4, 5)
    function = CUTS[name]
    xt.torch2trt(function, x, network=tensorrt.network)
    np.testing.assert_array_equal(evaluated(tensorrt.network, x.numpy()), function(x).numpy())
    assert tensorrt.network.num_layers <= 7
    assert len(tensorrt.build()) > 1000


# --- handlers of users ----------------------------------------------------------------------------


@pytest.fixture
def forget() -> Any:
    before = set(xt.registered_handlers())
    yield
    for name in set(xt.registered_handlers()) - before:
        xt.remove_node_handler(name)


def axes_of(dims: list[int], rank: int) -> int:
    return sum(1 << (d % rank) for d in dims)


@needs_tensorrt
@needs_tvm
def test_a_handler_for_all_modes(tensorrt: TensorRT, forget: None) -> None:
    trt = tensorrt.trt
    calls = []

    @xt.register_node_handler("aten::sum")
    def aten_sum(inputs: list, attributes: dict, scope: str) -> list:
        inp, dim, keepdim = inputs
        context = xt.current_context()
        calls.append(scope)
        if context.is_tensorrt and xt.has_trt_tensor(inputs):
            axes = axes_of(dim, len(inp.shape))
            layer = context.network.add_reduce(inp, trt.ReduceOperation.SUM, axes, bool(keepdim))
            layer.name = scope
            return [layer.get_output(0)]
        if context.is_tvm and xt.has_tvm_tensor(inputs):
            from tvm import relax

            return [context.emit(relax.op.sum(inp, dim, bool(keepdim)))]
        return [inp.sum(dim, keepdim=bool(keepdim)) + 1]  # to be seen

    x = torch.randn(2, 3)
    graph = xt.GraphModule(lambda x: x.sum(1) * 2, x)
    torch.testing.assert_close(graph(x), (x.sum(1) + 1) * 2)
    with xt.trt_network(tensorrt.network):
        y = graph(tensorrt.add_input("x", x))
    assert tensorrt.type_of(y) == (torch.float32, [2])
    assert tensorrt.network.get_layer(0).name == calls[-1]
    module, _ = xt.torch2tvm(graph)
    (result,) = xt.TVMInference(module).inference(x).values()
    torch.testing.assert_close(torch.from_numpy(result), x.sum(1) * 2)
    xt.remove_node_handler("aten::sum")
    torch.testing.assert_close(graph(x), x.sum(1) * 2)


@needs_tensorrt
def test_a_handler_of_a_composite_op_and_of_a_custom_op(tensorrt: TensorRT, forget: None) -> None:
    @torch.library.custom_op("graphmodule_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    x = torch.randn(2, 4)
    graph = xt.GraphModule(lambda x: F.linear(twice(x), x), x)
    assert graph(x).shape == (2, 2)
    seen = []

    # Registered after tracing.
    @xt.register_node_handler("graphmodule_test::twice")
    def handler(inputs: list, attributes: dict, scope: str) -> Any:
        context = xt.current_context()
        seen.append(scope)
        if not context.is_tensorrt:
            return NotImplemented
        layer = context.network.add_elementwise(
            inputs[0], inputs[0], tensorrt.trt.ElementWiseOperation.SUM
        )
        return [layer.get_output(0)]

    torch.testing.assert_close(graph(x), F.linear(x * 2, x))
    with xt.trt_network(tensorrt.network):
        y = graph(tensorrt.add_input("x", x))
    assert tensorrt.type_of(y) == (torch.float32, [2, 2])
    assert len(seen) == 2


def test_handlers_that_break_the_contract(forget: None) -> None:
    with pytest.raises(openxrt.InvalidArgument, match="aten::sum"):
        xt.register_node_handler("sum")
    xt.register_node_handler("aten::relu_")(lambda inputs, attributes, scope: inputs[0])
    with pytest.raises(openxrt.InvalidArgument, match=r"aten::relu.*list of 1"):
        xt.GraphModule(torch.relu, torch.ones(2))(torch.ones(2))
    with pytest.raises(openxrt.InvalidArgument, match="no handler"):
        xt.remove_node_handler("aten::tanh")


# --- TVM's mode -----------------------------------------------------------------------------------


@needs_tvm
def test_relax_in_a_function_of_ones_own() -> None:
    from tvm import relax

    net = network()
    graph = xt.GraphModule(net, images())
    x = relax.Var("image", relax.TensorType((2, 3, 8, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow(), xt.tvm_network():
            mine = builder.emit(relax.op.multiply(x, relax.const(0.5)))
            y = builder.emit_output(graph(mine))
        builder.emit_func_output(y)
    inference = xt.TVMInference(builder.get())
    x = images(2, 3)
    with torch.no_grad():
        torch.testing.assert_close(
            torch.from_numpy(inference.inference(image=x)["output_0"]), net(x * 0.5)
        )
    with pytest.raises(openxrt.InvalidArgument, match=r"'images'.*image"):
        inference.inference(images=x)
