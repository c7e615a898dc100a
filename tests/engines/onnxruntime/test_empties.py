# SPDX-License-Identifier: Apache-2.0
"""Operands without elements on which ONNX Runtime ends the process, where sizes are open."""

import contextlib

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import make_model, tensor, untyped

pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


# Operands, the first of which comes without elements, and attributes.
CASES = {
    "ConvTranspose": ([random(1, 1, 3, 4, 5), random(1, 2, 3, 3, 3)], (1, 1, 0, 4, 5), {}),
    "GRU": ([random(1, 3, 2), random(1, 15, 2), random(1, 15, 5)], (0, 3, 2), {"hidden_size": 5}),
    "LSTM": ([random(1, 3, 2), random(1, 12, 2), random(1, 12, 3)], (1, 0, 2), {"hidden_size": 3}),
    "RNN": ([random(1, 3, 2), random(1, 4, 2), random(1, 4, 4)], (1, 0, 2), {"hidden_size": 4}),
}


@pytest.mark.parametrize("op", sorted(CASES))
def test_no_elements(op: str) -> None:
    operands, empty, attributes = CASES[op]
    feeds = dict(zip("abc", operands, strict=False))
    model = make_model(
        [helper.make_node(op, list(feeds), ["y"], **attributes)],
        [
            tensor(name, TensorProto.FLOAT, [f"{name}{i}" for i in range(value.ndim)])
            for name, value in feeds.items()
        ],
        [untyped("y")],
    )
    program = openxrt.load(
        model, engine="onnxruntime", strict=True, cache_dir="", max_specializations=1
    )
    right = program.run(feeds)["y"]
    with pytest.raises(openxrt.Unsupported, match=r"no elements|no other one"):
        program.run({**feeds, "a": np.zeros(empty, np.float32)})
    np.testing.assert_array_equal(program.run(feeds)["y"], right)


@pytest.mark.parametrize("count", [0, "n"])
@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("Attention", {"a": (2, 0, 4, 8), "b": (2, 0, 5, 8), "c": (2, 0, 5, 8)}),
        ("Conv", {"a": (1, 0, 5, 5), "b": (1, 0, 3, 3)}),  # hangs
    ],
)
def test_no_heads_and_no_channels(
    op: str, inputs: dict[str, tuple[int, ...]], count: int | str
) -> None:
    def load(count: int | str) -> openxrt.Program:
        ports = [
            tensor(name, TensorProto.FLOAT, [shape[0], count, *shape[2:]])
            for name, shape in inputs.items()
        ]
        nodes = [helper.make_node(op, list(inputs), ["y"])]
        return openxrt.load(
            make_model(nodes, ports, [untyped("y")], opset=23),
            engine=["onnxruntime", "native"],
            cache_dir="",
            check_results=False,
        )

    assert load(2).explain().nodes_per_engine == {"onnxruntime": 1}
    with contextlib.suppress(openxrt.Error):  # others need not take them
        result = load(count).run({n: np.ones(shape, np.float32) for n, shape in inputs.items()})
        assert not result["y"].any()


def einsum_model(nodes: list[onnx.NodeProto], source: str) -> bytes:
    equation = "bhld,bhsd->bhls"
    return make_model(
        [*nodes, helper.make_node("Einsum", [source, source], ["y"], equation=equation)],
        [
            tensor("x", TensorProto.FLOAT, ["batch", 1, 4, 3]),
            tensor("past", TensorProto.FLOAT, ["p"]),
        ],
        [untyped("y"), untyped("z")],
    )


def test_einsum_of_no_elements() -> None:
    """It looks at the sizes that its operands have: others may be 0."""
    model = einsum_model([helper.make_node("Neg", ["past"], ["z"])], "x")
    program = openxrt.load(model, engine=["onnxruntime"], cache_dir="", check_results=False)
    x = random(2, 1, 4, 3)
    none = np.zeros(0, np.float32)
    right = program.run({"x": x, "past": none})
    assert program.explain().nodes_per_engine == {"onnxruntime": 2}
    np.testing.assert_allclose(right["y"], x @ x.swapaxes(2, 3), rtol=1e-5)
    assert program.run({"x": x[:0], "past": none})["y"].shape == (0, 1, 4, 4)
    assert "on 'native', first because of" in str(program.explain())
    assert "'batch' is 0" in str(program.explain())
    program = openxrt.load(model, engine="onnxruntime", strict=True, cache_dir="")
    with pytest.raises(openxrt.Unsupported, match="'batch' is 0"):
        program.run({"x": x[:0], "past": none})


@pytest.mark.parametrize("is_fixed", [False, True])
def test_einsum_of_sizes_that_are_computed(is_fixed: bool) -> None:
    """The operands turn out to be empty within the model: the node goes to others."""
    nodes = [
        helper.make_node("Neg", ["past"], ["z"]),
        helper.make_node("Cast", ["past"], ["chosen"], to=TensorProto.BOOL),
        helper.make_node("Compress", ["x", "chosen"], ["some"], axis=0),
    ]
    model = einsum_model(nodes, "some")
    program = openxrt.load(
        model,
        engine=["onnxruntime", "native"],
        cache_dir="",
        check_results=False,
        shapes={"x": [2, 1, 4, 3], "past": [2]} if is_fixed else {},
    )
    x = random(2, 1, 4, 3)
    for past, count in (([0, 1], 1), ([0, 0], 0)):
        result = program.run({"x": x, "past": np.array(past, np.float32)})["y"]
        assert result.shape == (count, 1, 4, 4)
    engines = {row["op"]: row["engine"] for row in program.explain()["nodes"]}
    assert engines["Einsum"] == "native"
