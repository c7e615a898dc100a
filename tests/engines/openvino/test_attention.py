# SPDX-License-Identifier: Apache-2.0
"""OpenVINO makes one kernel of an attention and what is around it, which may write its result over
its queries where both have one shape: as many places as heads.
"""

import numpy as np
import openxrt
import pytest
from on_engine import load_on
from onnx import NodeProto, TensorProto, helper, numpy_helper
from small_models import make_model, tensor, untyped

HEADS, SIZE, KEYS = 3, 4, 5
WIDTH = HEADS * SIZE
SWAP = {"perm": [0, 2, 1, 3]}
CONSTANTS = {
    "heads": np.array([0, 0, HEADS, SIZE]),
    "flat": np.array([0, 0, WIDTH]),
    "row": np.array([-1]),
    "first": np.array([0]),
    "place": np.array(0),
    "second": np.array([1]),
    "scale": np.float32(0.5),
    "weights": np.linspace(-1, 1, WIDTH * 2, dtype=np.float32).reshape(WIDTH, 2),
}


def node(op: str, inputs: str, output: str, **attributes: object) -> NodeProto:
    return helper.make_node(op, inputs.split(), [output], **attributes)


def split_into_heads(name: str) -> list[NodeProto]:
    return [
        node("Reshape", f"{name} heads", f"{name}4"),
        node("Transpose", f"{name}4", f"{name}t", **SWAP),
    ]


# What gives "o", of [batch, places, width].
ATTENTIONS = {
    "written out": [
        *(part for name in "qkv" for part in split_into_heads(name)),
        node("Transpose", "kt", "keys", perm=[0, 1, 3, 2]),
        node("MatMul", "qt keys", "products"),
        node("Mul", "products scale", "scores"),
        node("Softmax", "scores", "shares", axis=-1),
        node("MatMul", "shares vt", "o1"),
        node("Transpose", "o1", "o4", **SWAP),
        node("Reshape", "o4 flat", "o"),
    ],
    "Attention of three axes": [
        node("Attention", "q k v", "o", q_num_heads=HEADS, kv_num_heads=HEADS)
    ],
    "Attention of four axes": [
        *(part for name in "qkv" for part in split_into_heads(name)),
        node("Attention", "qt kt vt", "o1"),
        node("Transpose", "o1", "o4", **SWAP),
        node("Reshape", "o4 flat", "o"),
    ],
    "MultiHeadAttention": [
        node("MultiHeadAttention", "q k v", "o", domain="com.microsoft", num_heads=HEADS)
    ],
}
TAILS = {
    "another shape": (["o", "y"], [node("Unsqueeze", "o first", "y")]),
    "two shapes": (["y", "z"], [node("Unsqueeze", "o first", "y"), node("Reshape", "o row", "z")]),
    "shapes of a shape": (
        ["y", "z"],
        [
            node("Unsqueeze", "o first", "x"),
            node("Concat", "x x", "y", axis=0),
            node("Transpose", "x", "z", perm=[1, 0, 3, 2]),
        ],
    ),
    "a function": (["y"], [node("Neg", "o", "y")]),
    "a function of a part": (
        ["y"],
        [node("Gather", "o place", "part", axis=1), node("Neg", "part", "y")],
    ),
    "a sum": (["y"], [node("ReduceSum", "o second", "y")]),
    "a product": (["y"], [node("MatMul", "o weights", "y")]),
    "a product and more": (["o", "y"], [node("MatMul", "o weights", "y")]),
}


def check(nodes: list[NodeProto], outputs: list[str], opened: bool, **feeds: np.ndarray) -> None:
    read = {name for n in nodes for name in n.input}
    model = make_model(
        nodes,
        [
            tensor(n, TensorProto.FLOAT, [f"{n}{i}" for i in range(x.ndim)] if opened else x.shape)
            for n, x in feeds.items()
        ],
        [untyped(name) for name in outputs],
        [numpy_helper.from_array(a, n) for n, a in CONSTANTS.items() if n in read],
        opset=23,
    )
    wanted = openxrt.load(model, engine="native", cache_dir="").run(feeds)
    found = load_on(model, "openvino").run(feeds)
    for name in outputs:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-4, atol=1e-5)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_readers_of_as_many_places_as_heads(attention: str, tail: str, opened: bool) -> None:
    outputs, behind = TAILS[tail]
    q, k, v = random(2, HEADS, WIDTH), random(2, KEYS, WIDTH), random(2, KEYS, WIDTH)
    check([*ATTENTIONS[attention], *behind], outputs, opened, q=q, k=k, v=v)


@pytest.mark.parametrize("before", ["one", "two", "two that make one", "read elsewhere"])
@pytest.mark.parametrize("behind", ["one", "two", "back", "other", "none", "a sum"])
@pytest.mark.parametrize("attention", ["Attention", "written out"])
def test_transposes_of_as_many_places_as_heads(attention: str, before: str, behind: str) -> None:
    """The kernel takes in one that swaps places and heads, also where it is made of two."""
    nodes = {
        "one": [node("Transpose", "n", "qt", **SWAP)],
        "two": [
            node("Transpose", "n", "q1", perm=[0, 1, 3, 2]),
            node("Transpose", "q1", "qt", perm=[0, 3, 2, 1]),
            node("Transpose", "qt", "q2", **SWAP),
        ],
        "two that make one": [
            node("Transpose", "n", "q1", perm=[0, 1, 3, 2]),
            node("Transpose", "q1", "qt", perm=[0, 3, 1, 2]),
        ],
        "read elsewhere": [
            node("Transpose", "n", "q1", **SWAP),
            node("Mul", "q1 scale", "qt"),
            node("Reshape", "q1 row", "w"),
        ],
    }[before]
    nodes.insert(0, node("Neg", "q", "n"))  # over what the caller gives nothing is written
    outputs = ["y"] + [name for n in nodes for name in n.output if name in ("w", "q2")]
    if attention == "Attention":
        nodes.append(node("Attention", "qt k v", "o"))
    else:
        nodes += [
            node("Transpose", "k", "keys", perm=[0, 1, 3, 2]),
            node("MatMul", "qt keys", "scores"),
            node("Softmax", "scores", "shares", axis=-1),
            node("MatMul", "shares v", "o"),
        ]
    nodes += {
        "one": [node("Transpose", "o", "y", **SWAP)],
        "two": [
            node("Transpose", "o", "t", **SWAP),
            node("Transpose", "t", "y", perm=[0, 1, 3, 2]),
        ],
        "back": [node("Transpose", "o", "t", **SWAP), node("Transpose", "t", "y", **SWAP)],
        "other": [node("Transpose", "o", "y", perm=[0, 2, 3, 1])],
        "none": [node("Reshape", "o row", "y")],
        "a sum": [node("Transpose", "o", "t", **SWAP), node("ReduceSum", "t second", "y")],
    }[behind]
    size = HEADS if before == "two" else SIZE  # of which the axes change places
    q = random(2, HEADS, HEADS, size)
    k, v = random(2, HEADS, KEYS, size), random(2, HEADS, KEYS, size)
    check(nodes, outputs, opened=False, q=q, k=k, v=v)


@pytest.mark.parametrize("scale", [0.0, -0.0, -1.0, 1e-30, float("inf")])
@pytest.mark.parametrize("axes", [3, 4])
def test_scales(scale: float, axes: int) -> None:
    """The standard multiplies both factors by the root."""
    heads = {"q_num_heads": HEADS, "kv_num_heads": HEADS} if axes == 3 else {}
    sizes = [[2, n, WIDTH] if axes == 3 else [2, HEADS, n, SIZE] for n in (2, KEYS, KEYS)]
    q, k, v = (random(*size) for size in sizes)
    check(
        [node("Attention", "q k v", "y", scale=scale, **heads)], ["y"], opened=False, q=q, k=k, v=v
    )


def test_a_causal_mask_of_many_places() -> None:
    """OpenVINO by itself computes the mask while it compiles, which takes minutes."""
    for places, engine in ((1024, "openvino"), (4096, "native")):
        model = make_model(
            [node("Attention", "q k v", "y", is_causal=1)],
            [tensor(name, TensorProto.FLOAT, [1, 1, places, 8]) for name in "qkv"],
            [tensor("y", TensorProto.FLOAT, None)],
            opset=23,
        )
        program = openxrt.load(model, engine=["openvino", "native"], cache_dir="")
        assert [node["engine"] for node in program.explain()["nodes"]] == [engine]
