# SPDX-License-Identifier: Apache-2.0
"""Ops of users that bring code for TVM (docs/guides/op.md), against NumPy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from small_models import make_model, tensor, untyped

pytestmark = pytest.mark.skipif(
    "tvm" not in openxrt.engines(), reason="apache-tvm is not installed"
)

DOMAIN = "test.tvm"
X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)
HALF = 0.5
names = (f"Op{n}" for n in itertools.count())  # an op cannot be registered twice in a process


def model(nodes: list, inputs: dict[str, tuple], outputs: list[str]) -> bytes:
    return make_model(
        nodes,
        [tensor(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [untyped(name) for name in outputs],
        domains={DOMAIN: 1},
    )


def single(op: str, **attributes: Any) -> bytes:
    node = helper.make_node(op, ["x"], ["y"], "node", domain=DOMAIN, **attributes)
    return model([node], {"x": X.shape}, ["y"])


def halved(value: float) -> float:
    """Used by build_soft_shrink, whose process has not this module."""
    return value * HALF


def build_soft_shrink(bb: Any, x: Any, *, lambd: float) -> Any:
    from tvm import relax

    bound = relax.const(2 * halved(lambd), "float32")
    shrunk = relax.op.nn.relu(relax.op.subtract(relax.op.abs(x), bound))
    return bb.emit(relax.op.multiply(relax.op.sign(x), shrunk))


def test_relax_between_ops_of_the_standard() -> None:
    name = "Relu"  # told from the standard's
    openxrt.register_op(
        DOMAIN,
        name,
        inputs=["x"],
        attributes={"lambd": 0.5},
        kernel=lambda x, *, lambd: np.sign(x) * np.maximum(np.abs(x) - np.float32(lambd), 0),
        code={"tvm": lambda _x, **_: build_soft_shrink},
    )
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node(name, ["e"], ["a"], "first", domain=DOMAIN),
        helper.make_node(name, ["a"], ["b"], "second", domain=DOMAIN, lambd=1.25),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    program = openxrt.load(model(nodes, {"x": X.shape}, ["y"]), engine="tvm", strict=True)
    expected = np.maximum(np.exp(X) - np.float32(0.5), 0)
    expected = np.maximum(expected - np.float32(1.25), 0)
    np.testing.assert_allclose(program(X), expected, rtol=1e-5, atol=1e-6)
    assert program.explain().nodes_per_engine == {"tvm": 4}
    assert len(program.explain()["launches"]) == 1


def build_sum_and_count(
    bb: Any,
    x: Any,
    bias: Any = None,
    *,
    axis: int,
    factors: list[float],
    label: str,
    table: np.ndarray,
) -> Any:
    from tvm import te

    assert label == "größe"
    axis = axis % len(x.ty.shape)
    shape = [int(dim) for dim in x.ty.shape]
    kept = shape[:axis] + shape[axis + 1 :]

    def total(data: te.Tensor) -> te.Tensor:
        over = te.reduce_axis((0, shape[axis]), "over")

        def at(*index: Any) -> Any:
            full = (*index[:axis], over, *index[axis:])
            return te.sum(data[full] * factors[1] + float(table[0, 1]), over)

        return te.compute(kept, at, "total")

    result = bb.emit_te(total, x)
    if bias is not None:
        result = bb.emit_te(lambda a, b: te.compute(kept, lambda *i: a[i] + b[i]), result, bias)
    count = bb.emit_te(lambda: te.compute(kept, lambda *_: te.const(shape[axis], "int64")))
    return result, count


@pytest.mark.parametrize("with_bias", [False, True])
def test_tensor_expressions_several_outputs_and_all_kinds_of_attributes(with_bias: bool) -> None:
    name = next(names)

    def types(x: openxrt.Port, _bias: openxrt.Port | None, *, axis: int, **_: Any) -> tuple:
        kept = [dim for i, dim in enumerate(x.shape) if i != axis % len(x.shape)]
        return (x.dtype, kept), ("int64", kept)

    openxrt.register_op(
        DOMAIN,
        name,
        inputs=["x", "bias?"],
        outputs=["total", "count"],
        attributes={
            "axis": int,
            "factors": [1.0, math.inf],
            "label": "größe",
            "table": np.float64([[1, 0.25]]),
        },
        kernel=lambda *_, **__: None,
        infer=types,
        code={"tvm": lambda *_, **__: build_sum_and_count},
    )
    inputs = {"x": X.shape} | ({"bias": (2, 4)} if with_bias else {})
    node = helper.make_node(
        name, list(inputs), ["t", "c"], "n", domain=DOMAIN, axis=-2, factors=[1.0, 2.0]
    )
    program = openxrt.load(model([node], inputs, ["t", "c"]), engine="tvm", strict=True)
    bias = np.arange(8, dtype=np.float32).reshape(2, 4)
    total, count = program(*([X, bias] if with_bias else [X]))
    expected = (X * 2 + 0.25).sum(1) + (bias if with_bias else 0)
    np.testing.assert_allclose(total, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(count, np.full((2, 4), 3))


TIR = """
from tvm import relax
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def wave(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (2, 3, 4), "float32")
    B = T.match_buffer(b, (2, 3, 4), "float32")
    for i, j, k in T.grid(2, 3, 4):
        with T.sblock("wave"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = T.sin(A[vi, vj, vk]) + T.float32(1)

def build(bb, x):
    return bb.emit(relax.call_tir(bb.add_func(wave, "wave"), [x], x.ty))
"""


def test_a_function_in_tir_given_as_text() -> None:
    name = next(names)
    openxrt.register_op(
        DOMAIN, name, inputs=["x"], kernel=lambda x: np.sin(x) + 1, code={"tvm": lambda _x: TIR}
    )
    program = openxrt.load(single(name), engine="tvm", strict=True)
    np.testing.assert_allclose(program(X), np.sin(X) + 1, rtol=1e-5, atol=1e-6)


def test_code_for_each_shape() -> None:
    name = next(names)
    source = "def build(bb, x):\n    from tvm import relax\n"
    source += "    return relax.op.add(x, relax.const({}, 'float32'))\n"
    openxrt.register_op(
        DOMAIN,
        name,
        inputs=["x"],
        kernel=lambda x: x + x.shape[0],
        code={"tvm": lambda x: source.format(float(x.shape[0]))},
    )
    node = helper.make_node(name, ["x"], ["y"], domain=DOMAIN)
    program = openxrt.load(model([node], {"x": ("N",)}, ["y"]), engine="tvm", strict=True)
    for size in (2, 5):
        np.testing.assert_array_equal(program(X.ravel()[:size]), X.ravel()[:size] + size)


def test_code_that_changed_is_compiled_anew(tmp_path: Path) -> None:
    """Also where the op's definition has no revision."""
    name = next(names)
    added = [1.0]
    source = "def build(bb, x):\n    from tvm import relax\n"
    source += "    return relax.op.add(x, relax.const({}, 'float32'))\n"
    openxrt.register_op(
        DOMAIN,
        name,
        inputs=["x"],
        kernel=lambda x: x,
        code={"tvm": lambda _x: source.format(added[0])},
    )
    for value, from_cache in ((1.0, False), (1.0, True), (4.0, False)):
        added[0] = value
        program = openxrt.load(single(name), engine="tvm", strict=True, cache_dir=tmp_path)
        np.testing.assert_array_equal(program(X), X + np.float32(value))
        assert program.explain()["launches"][0]["from_cache"] is from_cache
        del program


def test_a_convolution_beside_it_keeps_its_schedule_and_its_numbers() -> None:
    name = next(names)
    openxrt.register_op(
        DOMAIN,
        name,
        inputs=["x"],
        attributes={"lambd": 0.5},
        body="y = Shrink <lambd: float = @lambd, bias: float = @lambd> (x)",
        code={"tvm": lambda _x, **_: build_soft_shrink},
    )
    rng = np.random.default_rng(3)
    weights = rng.standard_normal((16, 8, 3, 3), dtype=np.float32)
    data = rng.standard_normal((1, 8, 20, 20), dtype=np.float32)

    def graph(op: str, domain: str, **attributes: float) -> bytes:
        nodes = [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node(op, ["c"], ["y"], domain=domain, **attributes),
        ]
        return make_model(
            nodes,
            [tensor("x", TensorProto.FLOAT, data.shape)],
            [tensor("y", TensorProto.FLOAT, (1, 16, 20, 20))],
            [helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.ravel())],
            domains={DOMAIN: 1},
        )

    program = openxrt.load(graph(name, DOMAIN), engine="tvm", strict=True)
    standard = graph("Shrink", "", lambd=0.5, bias=0.5)
    (expected,) = ReferenceEvaluator(standard).run(None, {"x": data})
    np.testing.assert_allclose(program(data), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def make(bb, x):\n    return x\n", "it defines no function 'build'"),
        ("def build(bb, x:\n", "SyntaxError"),
        ("def build(bb, x):\n    return x.warp\n", r"build\n    return x.warp"),
        ("def build(bb, x):\n    return [x, x]\n", "it returned 2 results, the node has 1"),
        (
            "from tvm import relax\ndef build(bb, x):\n    return relax.op.sum(x)\n",
            r"result 0 is .*, the node has float32\[2, 3, 4\]",
        ),
        (
            "from tvm import relax\ndef build(bb, x):\n    return relax.op.astype(x, 'float64')\n",
            "float64",
        ),
        ("import os\nos._exit(3)\n", "exited with status 3"),
    ],
)
def test_code_that_fails_names_node_and_cause(source: str, message: str) -> None:
    name = next(names)
    openxrt.register_op(
        DOMAIN, name, inputs=["x"], kernel=lambda x: x, code={"tvm": lambda _x: source}
    )
    with pytest.raises(openxrt.EngineError, match=message) as caught:
        openxrt.load(single(name), engine="tvm", strict=True)
    if "_exit" not in source:
        assert f"node 'node' ({DOMAIN}.{name})" in str(caught.value)


def nested(offset: int) -> Callable[..., Any]:
    def build(_bb: Any, x: Any) -> Any:
        return x + offset

    return build


NOISE = np.random.default_rng(0)


def reads_an_object(_bb: Any, x: Any) -> Any:
    return x + NOISE.random()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (nested(1), "'offset' belongs to the function around 'build'"),
        (lambda _bb, x: x, "must be a function made by `def"),
        (reads_an_object, "its global 'NOISE' is a Generator"),
    ],
)
def test_functions_that_cannot_go_to_the_compiler(function: Callable, message: str) -> None:
    name = next(names)
    openxrt.register_op(
        DOMAIN, name, inputs=["x"], kernel=lambda x: x, code={"tvm": lambda _x: function}
    )
    with pytest.raises(openxrt.Error, match=message):
        openxrt.load(single(name), engine="tvm", strict=True)


def test_types_that_tvm_cannot_hold_go_elsewhere() -> None:
    name = next(names)
    openxrt.register_op(
        DOMAIN,
        name,
        inputs=["x"],
        kernel=lambda x: np.unique(x),
        infer=lambda x: (x.dtype, [None]),
        code={"tvm": lambda _x: build_soft_shrink},
    )
    program = openxrt.load(single(name), engine=["tvm", "native"])
    assert "no static shape" in program.explain()["nodes"][0]["refusals"]["tvm"]
    np.testing.assert_array_equal(program(X), np.unique(X))
