# SPDX-License-Identifier: Apache-2.0
"""What training graphs hold beside what inference does, beside PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import openxrt.torch  # noqa: F401, whose backend torch.compile finds
import pytest
import torch
from cuda_models import (
    FLOAT,
    HAS_CUDNN,
    INT,
    LONG,
    STANDIN,
    load,
    model,
    node,
    remarks,
    values,
)
from onnx import TensorProto, helper
from torch.nn import functional

CONVOLUTIONS = {
    "plain": {"x": (2, 3, 7, 8), "w": (4, 3, 3, 3)},
    "strides and pads": {"x": (2, 4, 9, 8), "w": (6, 4, 3, 2), "stride": (2, 1), "padding": (1, 1)},
    "groups": {"x": (1, 6, 6, 6), "w": (4, 3, 3, 3), "groups": 2, "dilation": 2, "padding": 1},
    "lines": {"x": (2, 4, 11), "w": (3, 4, 5), "stride": 3, "padding": 2},
}


def own_model(nodes: list[onnx.NodeProto], inputs: dict[str, Any], outputs: dict[str, Any]) -> Any:
    """Of ops of this project, whose shapes nobody infers."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, FLOAT, s) for n, s in outputs.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("xrt", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_gradients_of_convolutions(case: str, tmp_path: Path) -> None:
    """That of the operand is ConvTranspose, that of the factor xrt.ConvWeightGradient."""
    facts = dict(CONVOLUTIONS[case])
    torch.manual_seed(0)
    x = torch.randn(facts.pop("x"), requires_grad=True)
    w = torch.randn(facts.pop("w"), requires_grad=True)
    n = x.dim() - 2
    run = functional.conv1d if n == 1 else functional.conv2d
    y = run(x, w, **facts)
    dy = torch.randn_like(y)
    y.backward(dy)

    def numbers(name: str, otherwise: int) -> list[int]:
        given = facts.get(name, otherwise)
        return list(given) if isinstance(given, tuple) else [given] * n

    strides, dilations, pads = numbers("stride", 1), numbers("dilation", 1), numbers("padding", 0)
    sizes = zip(x.shape[2:], y.shape[2:], w.shape[2:], strides, dilations, pads, strict=True)
    extra = [i - ((o - 1) * s + (k - 1) * d + 1 - 2 * p) for i, o, k, s, d, p in sizes]
    attributes = {
        "kernel_shape": list(w.shape[2:]),
        "strides": strides,
        "dilations": dilations,
        "pads": pads * 2,
        "group": facts.get("groups", 1),
    }
    nodes = [
        node("ConvTranspose", "dy w", "dx", output_padding=extra, **attributes),
        node("ConvWeightGradient", "x dy", "dw db", domain="xrt", **attributes),
    ]
    shapes = {"x": x.shape, "w": w.shape, "dy": dy.shape}
    made = own_model(nodes, shapes, {"dx": x.shape, "dw": w.shape, "db": w.shape[:1]})
    program = load(made, tmp_path)
    assert set(program.explain()["nodes_per_engine"]) == {"cuda"}
    feed = {n: v.detach().numpy() for n, v in (("x", x), ("w", w), ("dy", dy))}
    given = program.run(feed)
    wanted = {"dx": x.grad, "dw": w.grad, "db": dy.sum([0, *range(2, n + 2)])}
    for name, want in wanted.items():
        np.testing.assert_allclose(given[name], want.numpy(), 1e-4, 1e-4, err_msg=name)


def test_gradient_of_a_pool(tmp_path: Path) -> None:
    """Of equal largest elements the first one gets it."""
    torch.manual_seed(1)
    x = torch.randint(0, 5, (2, 3, 8, 7)).float().requires_grad_()
    y = functional.max_pool2d(x, 3, (2, 1), 1)
    dy = torch.randn_like(y)
    y.backward(dy)
    attributes = {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1] * 4, "dilations": [1, 1]}
    made = own_model(
        [node("MaxPoolGradient", "x dy", "dx", domain="xrt", **attributes)],
        {"x": x.shape, "dy": dy.shape},
        {"dx": x.shape},
    )
    program = load(made, tmp_path)
    assert set(program.explain()["nodes_per_engine"]) == {"cuda"}
    given = program.run({"x": x.detach().numpy(), "dy": dy.numpy()})["dx"]
    np.testing.assert_allclose(given, x.grad.numpy(), 1e-5, 1e-5)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_gradient_of_a_pool_of_halves(kind: int, tmp_path: Path) -> None:
    """What windows share is summed in float32, and what is widened for it is not copied."""
    torch.manual_seed(2)
    dtype = torch.float16 if kind == TensorProto.FLOAT16 else torch.bfloat16
    x = torch.randint(0, 5, (2, 3, 8, 7)).float()
    dy = torch.randn(2, 3, 6, 5).to(dtype).float()
    wide = x.clone().requires_grad_()
    functional.max_pool2d(wide, 3, 1).backward(dy)
    attributes = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1]}
    nodes = [
        node("Cast", "x", "n", to=kind),
        node("Cast", "dy", "m", to=kind),
        node("Cast", "n", "a", to=FLOAT),
        node("Cast", "m", "b", to=FLOAT),
        node("MaxPoolGradient", "a b", "c", domain="xrt", **attributes),
        node("Cast", "c", "d", to=kind),
        node("Cast", "d", "dx", to=FLOAT),
    ]
    made = own_model(nodes, {"x": x.shape, "dy": dy.shape}, {"dx": x.shape})
    options = {"source_dir": str(tmp_path / "src")}
    program = load(made, tmp_path, engine_options={"cuda": options})
    given = program.run({"x": x.numpy(), "dy": dy.numpy()})["dx"]
    want = wide.grad.to(dtype).float().numpy()
    np.testing.assert_allclose(given, want, 1e-2, 1e-2)
    (source,) = (tmp_path / "src").glob("*.cu")
    loads = [line for line in source.read_text().splitlines() if "is_first) sum +=" in line]
    assert loads and "float* __restrict__ p1" not in source.read_text().split(loads[0])[0][-3000:]


@pytest.mark.parametrize("window", [(1, 0, 1), (3, 1, 2), (2, 0, 2)])
def test_weight_gradients_of_halves(window: tuple[int, int, int], tmp_path: Path) -> None:
    """Written between casts, as PyTorch's graphs have them."""
    torch.manual_seed(3)
    size, pad, stride = window
    x = torch.randn(2, 16, 6, 6).half().float()
    w = torch.randn(8, 16, size, size, requires_grad=True)
    y = functional.conv2d(x, w, stride=stride, padding=pad)
    dy = torch.randn_like(y).half().float()
    y.backward(dy)
    attributes = {
        "kernel_shape": [size] * 2,
        "strides": [stride] * 2,
        "pads": [pad] * 4,
        "dilations": [1, 1],
        "group": 1,
    }
    nodes = [
        *(node("Cast", n, f"{n}_h", to=TensorProto.FLOAT16) for n in ("x", "dy")),
        *(node("Cast", f"{n}_h", f"{n}_f", to=FLOAT) for n in ("x", "dy")),
        node("ConvWeightGradient", "x_f dy_f", "dw_f", domain="xrt", **attributes),
        node("Cast", "dw_f", "dw_h", to=TensorProto.FLOAT16),
        node("Cast", "dw_h", "dw", to=FLOAT),
    ]
    made = own_model(nodes, {"x": x.shape, "dy": dy.shape}, {"dw": w.shape})
    program = load(made, tmp_path)
    given = program.run({"x": x.numpy(), "dy": dy.numpy()})["dw"]
    np.testing.assert_allclose(given, w.grad.numpy(), 5e-3, 3e-2)


def test_places_of_a_pools_largest(tmp_path: Path) -> None:
    nodes = [
        node("MaxPool", "x", "a i", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]),
        node("MaxPool", "x", "b j", kernel_shape=[2, 2], dilations=[2, 1], storage_order=1),
    ]
    made = model(nodes, {"x": (FLOAT, (2, 3, 7, 6))}, list("aibj"))
    feed = {"x": np.random.default_rng(5).integers(0, 6, (2, 3, 7, 6)).astype(np.float32)}
    program = load(made, tmp_path)
    assert set(program.explain()["nodes_per_engine"]) == {"cuda"}
    given = program.run(feed)
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for name, want in zip("aibj", session.run(None, feed), strict=True):
        np.testing.assert_array_equal(given[name], want, err_msg=name)


def test_normalisation_of_a_batch_and_its_gradient(tmp_path: Path) -> None:
    torch.manual_seed(2)
    x = (torch.randn(4, 5, 6, 3) * 2 + 1).requires_grad_()
    scale, bias = torch.rand(5).requires_grad_(), torch.randn(5).requires_grad_()
    mean, variance = torch.randn(5), torch.rand(5)
    y = functional.batch_norm(x, None, None, scale, bias, training=True, eps=1e-3)
    dy = torch.randn_like(y)
    y.backward(dy)
    nodes = [
        node(
            "BatchNormalization",
            "x s b m v",
            "y now_m now_v",
            training_mode=1,
            epsilon=1e-3,
            momentum=0.0,
        ),
        node(
            "BatchNormalizationGradient",
            "x s now_m now_v dy",
            "dx ds db",
            domain="xrt",
            epsilon=1e-3,
        ),
    ]
    vectors = dict.fromkeys(("s", "b", "m", "v"), (5,))
    results = dict.fromkeys(("now_m", "now_v", "ds", "db"), (5,))
    shape = tuple(x.shape)
    made = own_model(
        nodes, {"x": shape, "dy": shape, **vectors}, {"y": shape, "dx": shape, **results}
    )
    program = load(made, tmp_path)
    assert set(program.explain()["nodes_per_engine"]) == {"cuda"}
    feed = {"x": x, "dy": dy, "s": scale, "b": bias, "m": mean, "v": variance}
    given = program.run({n: v.detach().numpy() for n, v in feed.items()})
    wanted = {"y": y, "dx": x.grad, "ds": scale.grad, "db": bias.grad}
    wanted |= {"now_m": x.mean((0, 2, 3)), "now_v": x.var((0, 2, 3), unbiased=False)}
    for name, want in wanted.items():
        np.testing.assert_allclose(given[name], want.detach(), 1e-4, 1e-4, err_msg=name)


@pytest.mark.parametrize("shape", [(4, 24, 9, 7), (2, 5, 40, 3), (3, 520, 2, 2)])
def test_normalisation_of_a_batch_of_halves(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Values far from zero keep their spread."""
    torch.manual_seed(4)
    c = shape[1]
    x = (torch.randn(shape) * 2 + 30 * torch.randn(1, c, 1, 1)).half().float().requires_grad_()
    scale, bias = torch.rand(c).requires_grad_(), torch.randn(c).requires_grad_()
    y = functional.batch_norm(x, None, None, scale, bias, training=True, eps=1e-3)
    dy = torch.randn(shape).half().float()
    y.backward(dy)
    norm = {"training_mode": 1, "epsilon": 1e-3, "momentum": 0.0}
    nodes = [
        *(node("Cast", n, f"{n}_h", to=TensorProto.FLOAT16) for n in ("x", "dy")),
        *(node("Cast", f"{n}_h", f"{n}_f", to=FLOAT) for n in ("x", "dy")),
        node("BatchNormalization", "x_f s b m v", "y now_m now_v", **norm),
        node(
            "BatchNormalizationGradient",
            "x_f s now_m now_v dy_f",
            "dx ds db",
            domain="xrt",
            epsilon=1e-3,
        ),
    ]
    vectors = dict.fromkeys(("s", "b", "m", "v"), (c,))
    results = dict.fromkeys(("now_m", "now_v", "ds", "db"), (c,))
    made = own_model(
        nodes, {"x": shape, "dy": shape, **vectors}, {"y": shape, "dx": shape, **results}
    )
    options = {"source_dir": str(tmp_path / "src")}
    program = load(made, tmp_path, engine_options={"cuda": options})
    (source,) = (tmp_path / "src").glob("*.cu")
    assert source.read_text().count("typedef Vec") == 2
    feed = {"x": x, "dy": dy, "s": scale, "b": bias, "m": torch.zeros(c), "v": torch.ones(c)}
    given = program.run({n: v.detach().numpy() for n, v in feed.items()})
    wanted = {"y": y, "dx": x.grad, "ds": scale.grad, "db": bias.grad}
    wanted |= {"now_m": x.mean((0, 2, 3)), "now_v": x.var((0, 2, 3), unbiased=False)}
    for name, want in wanted.items():
        np.testing.assert_allclose(given[name], want.detach(), 2e-4, 2e-4, err_msg=name)


def test_gradients_of_pointwise_convolutions_are_products(tmp_path: Path) -> None:
    torch.manual_seed(5)
    x = torch.randn(2, 16, 5, 6).half().float().requires_grad_()
    w = torch.randn(8, 16, 1, 1).half().float().requires_grad_()
    y = functional.conv2d(x, w)
    dy = torch.randn_like(y).half().float()
    y.backward(dy)
    window = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1]}
    nodes = [
        *(node("Cast", n, f"{n}_h", to=TensorProto.FLOAT16) for n in ("x", "w", "dy")),
        node("ConvTranspose", "dy_h w_h", "dx_h", group=1, **window),
        node("ConvWeightGradient", "x_h dy_h", "dw_h db_h", domain="xrt", group=1, **window),
        *(node("Cast", f"{n}_h", n, to=FLOAT) for n in ("dx", "dw", "db")),
    ]
    shapes = {"x": x.shape, "w": w.shape, "dy": dy.shape}
    made = own_model(nodes, shapes, {"dx": x.shape, "dw": w.shape, "db": (8,)})
    program = load(made, tmp_path)
    if HAS_CUDNN:
        assert "2 products by cuBLASLt, 0 convolutions" in remarks(program)
    given = program.run({n: v.detach().numpy() for n, v in (("x", x), ("w", w), ("dy", dy))})
    for name, want in {"dx": x.grad, "dw": w.grad, "db": dy.sum((0, 2, 3))}.items():
        np.testing.assert_allclose(given[name], want, 5e-3, 2e-2, err_msg=name)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceProd"])
def test_columns_of_many_rows(op: str, tmp_path: Path) -> None:
    constants = {"axes": np.array([0, 2], np.int64)}
    made = model(
        [node(op, "x axes", "y", keepdims=0)], {"x": (FLOAT, (60, 3, 70, 33))}, ["y"], constants
    )
    rng = np.random.default_rng(6)
    feed = {"x": (1 + rng.standard_normal((60, 3, 70, 33)) / 100).astype(np.float32)}
    given = load(made, tmp_path).run(feed)["y"]
    (want,) = onnx.reference.ReferenceEvaluator(made).run(None, feed)
    np.testing.assert_allclose(given, want, 1e-4, 1e-4)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("kind", [FLOAT, TensorProto.FLOAT16, INT, TensorProto.INT8])
def test_scattered_elements(reduction: str, kind: int, tmp_path: Path) -> None:
    """Into halves and bytes, too, of which several share a word; none twice where nothing is
    reduced."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    rng = np.random.default_rng(3)
    rows = rng.permutation(6)[:4] if reduction == "none" else rng.integers(-6, 6, 4)
    feed = {
        "x": rng.integers(1, 4, (6, 5)).astype(dtype),
        "u": rng.integers(1, 3, (4, 5)).astype(dtype),
        "i": np.repeat(rows[:, None], 5, 1).astype(np.int64),
        "j": rows[:, None].astype(np.int64),
    }
    nodes = [
        node("ScatterElements", "x i u", "a", axis=0, reduction=reduction),
        node("ScatterND", "x j u", "b", reduction=reduction),
    ]
    inputs = {"x": (kind, (6, 5)), "u": (kind, (4, 5)), "i": (LONG, (4, 5)), "j": (LONG, (4, 1))}
    made = model(nodes, inputs, ["a", "b"])
    program = load(made, tmp_path)
    assert set(program.explain()["nodes_per_engine"]) == {"cuda"}
    given = program.run(feed)
    wanted = onnx.reference.ReferenceEvaluator(made).run(None, feed)
    for got, want in zip(given.values(), wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)


def test_a_large_value_of_zeros_is_the_cards(tmp_path: Path) -> None:
    """As the gradient of an embedding begins with."""
    constants = {"zero": np.zeros((), np.float32), "shape": np.array([9000, 300], np.int64)}
    nodes = [
        node("Expand", "zero shape", "z"),
        node("ScatterND", "z i u", "y", reduction="add"),
    ]
    made = model(nodes, {"i": (LONG, (4, 1)), "u": (FLOAT, (4, 300))}, ["y"], constants)
    feed = {"i": np.array([[2], [8999], [2], [0]]), "u": np.ones((4, 300), np.float32)}
    program = load(made, tmp_path)
    assert set(program.explain()["nodes_per_engine"]) == {"cuda"}
    given = program.run(feed)["y"]
    assert given.sum() == 1200 and given[2].tolist() == [2] * 300 and given[8999, 0] == 1


def test_along_an_axis(tmp_path: Path) -> None:
    nodes = [
        node("CumSum", "x one", "a"),
        node("CumSum", "x last", "b", exclusive=1, reverse=1),
        node("Hardmax", "x", "c", axis=1),
        node("LpNormalization", "x", "d", axis=0, p=2),
        node("GatherND", "x where", "e", batch_dims=1),
    ]
    constants = {"one": np.array(1, np.int64), "last": np.array(-1, np.int64)}
    made = model(
        nodes, {"x": (FLOAT, (3, 4, 5)), "where": (LONG, (3, 2, 2))}, list("abcde"), constants
    )
    feed = values(made) | {"where": np.random.default_rng(4).integers(-4, 4, (3, 2, 2))}
    program = load(made, tmp_path)
    assert set(program.explain()["nodes_per_engine"]) == {"cuda"}
    given = program.run(feed)
    wanted = onnx.reference.ReferenceEvaluator(made).run(None, feed)
    for (name, got), want in zip(given.items(), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(got), want, 1e-5, 1e-5, err_msg=name)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("case", ["plain", "weights", "ignored", "all"])
def test_losses(case: str, reduction: str, tmp_path: Path) -> None:
    torch.manual_seed(3)
    x, y = torch.randn(4, 5, 3), torch.randint(0, 5, (4, 3))
    attributes: dict[str, Any] = {"reduction": reduction}
    feed = {"x": x, "y": y}
    weights, ignored = None, -100
    if case in ("weights", "all"):
        weights = feed["w"] = torch.rand(5)
    if case in ("ignored", "all"):
        ignored = attributes["ignore_index"] = 2
    inputs = " ".join(feed)
    nodes = [
        node("SoftmaxCrossEntropyLoss", inputs, "loss p", **attributes),
        node("NegativeLogLikelihoodLoss", inputs, "other", **attributes),
    ]
    types = {"x": (FLOAT, (4, 5, 3)), "y": (LONG, (4, 3)), "w": (FLOAT, (5,))}
    made = model(nodes, {n: types[n] for n in feed}, ["loss", "p", "other"])
    program = load(made, tmp_path)
    assert set(program.explain()["nodes_per_engine"]) == {"cuda"}
    given = program.run({n: v.numpy() for n, v in feed.items()})
    facts = {"weight": weights, "ignore_index": ignored, "reduction": reduction}
    wanted = {
        "loss": functional.cross_entropy(x, y, **facts),
        "p": functional.log_softmax(x, 1),
        "other": functional.nll_loss(x, y, **facts),
    }
    for name, want in wanted.items():
        np.testing.assert_allclose(given[name], want.numpy(), 1e-5, 1e-5, err_msg=name)


def test_statistics_of_layers_and_dropout_of_nothing(tmp_path: Path) -> None:
    nodes = [
        node("LayerNormalization", "x s b", "y m v", axis=1),
        node("Dropout", "x", "z mask"),
        node("LpPool", "p", "q", kernel_shape=[2, 3], pads=[1, 0, 0, 1], p=3),
        node("Trilu", "t k", "u", upper=0),
        node("CumSum", "x k", "c", reverse=1, exclusive=1),
        node("BitCast", "x", "i", to=INT),
    ]
    inputs = {"x": (FLOAT, (3, 4)), "p": (FLOAT, (1, 2, 5, 6)), "t": (FLOAT, (4, 5))}
    inputs |= {"s": (FLOAT, (4,)), "b": (FLOAT, (4,)), "k": (LONG, ())}
    outputs = [*"ymvzquci", "mask"]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
    )
    opset = [helper.make_opsetid("", 26)]
    made = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=opset, ir_version=11)
    )
    feed = values(made) | {"k": np.array(1, np.int64)}
    program = load(made, tmp_path)
    assert set(program.explain()["nodes_per_engine"]) == {"cuda"}
    given = program.run(feed)
    wanted = onnx.reference.ReferenceEvaluator(made).run(None, feed)
    for name, want in zip(outputs, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(given[name]), want, 1e-5, 1e-5, err_msg=name)


class Small(torch.nn.Module):
    """A convolution, a normalisation, a pool and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.words, self.head = torch.nn.Embedding(11, 8), torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        y = functional.max_pool2d(functional.relu(self.norm(self.one(x))), 2).mean((2, 3))
        return self.head(functional.gelu(y + self.words(i)))


@pytest.mark.skipif(STANDIN, reason="PyTorch itself needs the card")
def test_a_training_step_is_pytorchs(tmp_path: Path) -> None:
    gradients = []
    for way in ("eager", "openxrt"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        module = Small().cuda().train()
        x, i = torch.randn(4, 3, 8, 8, device="cuda"), torch.arange(4, device="cuda")
        run = module
        if way == "openxrt":
            options = {"engine": ["cuda", "native"], "strict": True}
            run = torch.compile(module, backend="openxrt", options=options)
        functional.cross_entropy(run(x, i), i).backward()
        gradients.append([p.grad.clone() for p in module.parameters()])
    for got, want in zip(gradients[1], gradients[0], strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)
