# SPDX-License-Identifier: Apache-2.0
"""Hostile sequences, optionals, texts, trees, attributes, old opsets and declared types."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
from hostile_parts import I64, LIST, ONE, B, F, Made, S, constant, node
from hostile_values import FLOATS, TEXTS, integer
from onnx import helper
from small_models import model_proto, tensor, untyped

NUMBERS = ["", "1", "-0", "1e999", "nan", "-inf", "0x10", " 7 ", "9" * 400, "1_000", "é", "1e-400"]


def lists(rng: random.Random) -> Made:
    """Sequences of unequal tensors: positions, joins and splits that do not fit."""
    nodes = [node("SequenceConstruct", ["x", "w", "x"], ["l0"])]
    for at in range(rng.choice([1, 3, 8])):
        way = rng.randrange(6)
        before, after = f"l{at}", f"l{at + 1}"
        if way == 0:
            nodes.append(node("SequenceInsert", [before, rng.choice("xw"), "p"], [after]))
        elif way == 1:
            nodes.append(node("SequenceErase", [before, rng.choice(["p", ""])], [after]))
        elif way == 2:
            nodes.append(
                node("ConcatFromSequence", [before], [f"c{at}"], axis=rng.choice([0, 1, -1, 7]))
            )
            extra = {"axis": rng.choice([0, 1, -3]), "keepdims": rng.choice([0, 1])}
            nodes.append(
                node("SplitToSequence", [f"c{at}", rng.choice(["p", ""])], [after], **extra)
            )
        elif way == 3:
            body = helper.make_graph(
                [node(rng.choice(["Neg", "Shape", "Transpose"]), ["e"], ["r"])],
                "each",
                [tensor("e", F, None)],
                [untyped("r")],
            )
            nodes.append(node("SequenceMap", [before], [after], body=body))
        elif way == 4:
            nodes.append(node("Identity", [before], [after]))
        else:
            nodes.append(node("SequenceAt", [before, "p"], [f"e{at}"]))
            nodes.append(node("SequenceConstruct", [f"e{at}"] * 2, [after]))
    last = nodes[-1].output[0]
    end = rng.choice(["SequenceLength", "SequenceAt", "ConcatFromSequence"])
    operands = [last, "p"] if end == "SequenceAt" else [last]
    extra = {"axis": 0, "new_axis": rng.choice([0, 1])} if end == "ConcatFromSequence" else {}
    nodes.append(node(end, operands, ["y"], **extra))
    model = model_proto(
        nodes,
        [tensor("x", F, None), tensor("w", F, None), tensor("p", I64, rng.choice([[], None]))],
        [untyped("y")],
    )
    shapes = [(2, 3), (2, 3), (0, 3), (1, 3), (2,), (), (2, 3, 1)]
    return model, [
        {
            "x": np.ones(rng.choice(shapes), np.float32),
            "w": np.ones(rng.choice(shapes), np.float32),
            "p": np.array(rng.choice([0, 1, -1, integer(rng)])),
        }
        for _ in range(4)
    ]


def optionals(rng: random.Random) -> Made:
    """Optionals that hold nothing, asked for what they hold; in branches and loops too."""
    inner = rng.choice([helper.make_tensor_type_proto(F, None), LIST])
    kind = helper.make_optional_type_proto(inner)
    is_list = inner is LIST
    ask = rng.choice(["OptionalGetElement", "OptionalHasElement"])
    way = rng.randrange(4)
    if way == 0:
        nodes = [node(ask, ["o"], ["y"])]
    elif way == 1:
        nodes = [node("Optional", [], ["e"], type=inner), node(ask, ["e"], ["y"])]
    elif way == 2:
        then = helper.make_graph(
            [node("Optional", [], ["te"], type=inner)], "then", [], [untyped("te")]
        )
        other = helper.make_graph([node("Identity", ["o"], ["oe"])], "else", [], [untyped("oe")])
        nodes = [
            node("OptionalHasElement", ["o"], ["has"]),
            node(rng.choice(["Not", "Identity"]), ["has"], ["choice"]),
            node("If", ["choice"], ["e"], then_branch=then, else_branch=other),
            node(ask, ["e"], ["y"]),
        ]
    else:
        body = helper.make_graph(
            [
                node("Identity", ["c"], ["co"]),
                node("Optional", [], ["so"], type=inner),
            ],
            "body",
            [tensor("i", I64, []), tensor("c", B, []), helper.make_value_info("s", kind)],
            [tensor("co", B, []), untyped("so")],
        )
        nodes = [
            node("Loop", ["turns", "", "o"], ["e"], body=body),
            node(ask, ["e"], ["y"]),
        ]
    if rng.random() < 0.3:
        nodes += [node("SequenceLength" if is_list else "Shape", ["y"], ["z"])]
    fixed = [constant("turns", rng.choice([0, 1, 2]))]
    model = model_proto(
        nodes, [helper.make_value_info("o", kind)], [untyped(nodes[-1].output[0])], fixed
    )
    holds: Any = [ONE, ONE] if is_list else ONE
    return model, [{"o": value} for value in [holds, None, [] if is_list else ONE[:0]]]


def texts(rng: random.Random) -> Made:
    """Strings that are split, joined, normalised, counted, matched or read as numbers."""
    ops: list[tuple[str, dict[str, Any], list[str], int]] = [
        ("StringSplit", {"delimiter": rng.choice(["", " ", "a", "aa", "é"])}, ["t"], 2),
        ("StringSplit", {"maxsplit": integer(rng)}, ["t"], 2),
        ("StringConcat", {}, ["t", "u"], 1),
        (
            "StringNormalizer",
            {
                "case_change_action": rng.choice(["LOWER", "UPPER", "NONE"]),
                "is_case_sensitive": rng.choice([0, 1, integer(rng)]),
                "locale": rng.choice(["en_US", "", "no_SUCH", "C", "x" * 5000, "tr_TR"]),
                "stopwords": rng.choice([["a"], [""], ["é"] * 1000]),
            },
            ["t"],
            1,
        ),
        (
            "RegexFullMatch",
            {"pattern": rng.choice([*TEXTS, "\\C", "(?P<n>a)\\1", "\\x{110000}"])},
            ["t"],
            1,
        ),
        ("Cast", {"to": rng.choice([1, 6, 7, 9, 10, 11, 16, 17])}, ["t"], 1),
        ("CastLike", {}, ["t", "n"], 1),
        ("Equal", {}, ["t", "u"], 1),
        ("Unique", {"sorted": rng.choice([0, 1])}, ["t"], 1),
        ("Where", {}, ["q", "t", "u"], 1),
        ("Concat", {"axis": rng.choice([0, 1, -1])}, ["t", "u"], 1),
        ("Gather", {"axis": 0}, ["t", "n"], 1),
        ("Expand", {}, ["t", "n"], 1),
        ("Tile", {}, ["t", "n"], 1),
        ("Pad", {}, ["t", "n"], 1),
        ("ScatterElements", {}, ["t", "n", "u"], 1),
        ("OneHot", {}, ["n", "n", "t"], 1),
    ]
    op, attributes, operands, count = rng.choice(ops)
    outputs = ["y", "z"][:count]
    made = [node(op, operands, outputs, **attributes)]
    if rng.random() < 0.3:
        made.append(node("Cast", ["y"], ["after"], to=S))
        outputs = ["after"]
    kinds = {"t": S, "u": S, "n": I64, "q": B}
    model = model_proto(
        made,
        [tensor(name, kinds[name], None) for name in sorted(set(operands))],
        [untyped(name) for name in outputs],
        opset=rng.choice([20, 22]),
    )

    def some(count: int) -> np.ndarray:
        return np.array([rng.choice([*TEXTS, *NUMBERS]) for _ in range(count)], object)

    runs = []
    for _ in range(4):
        sizes = rng.choice([(2,), (2, 2), (0,), (), (1, 3), (2, 0)])
        feeds = {
            "t": some(int(np.prod(sizes))).reshape(sizes),
            "u": some(2),
            "n": np.array([rng.choice([0, 1, integer(rng)]) for _ in range(rng.choice([1, 2, 4]))]),
            "q": np.array([True, False]),
        }
        runs.append({name: feeds[name] for name in set(operands)})
    return model, runs


def trees(rng: random.Random) -> Made:
    """Trees, vectors and tables of ai.onnx.ml whose numbers lead elsewhere."""
    count = rng.choice([1, 3, 5])

    def numbers(sound: list[int], chance: float = 0.3) -> list[int]:
        if rng.random() < 0.15:
            sound = sound[: rng.randrange(len(sound) + 1)]
        return [integer(rng) if rng.random() < chance / 3 else value for value in sound]

    nodes_of_tree = {
        "nodes_treeids": numbers([0] * count),
        "nodes_nodeids": numbers(list(range(count))),
        "nodes_featureids": numbers([0] * count),
        "nodes_values": [rng.choice([0.5, *FLOATS]) for _ in range(count)],
        "nodes_modes": [
            rng.choice(["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LT", "garbage"]) for _ in range(count)
        ],
        "nodes_truenodeids": numbers([min(at + 1, count - 1) for at in range(count)]),
        "nodes_falsenodeids": numbers([min(at + 2, count - 1) for at in range(count)]),
    }
    ops: list[tuple[str, dict[str, Any], int, int]] = [
        (
            "TreeEnsembleRegressor",
            {
                **nodes_of_tree,
                "n_targets": rng.choice([1, 1, 0, integer(rng)]),
                "target_treeids": numbers([0]),
                "target_nodeids": numbers([count - 1]),
                "target_ids": numbers([0]),
                "target_weights": [rng.choice(FLOATS)],
            },
            F,
            1,
        ),
        (
            "TreeEnsembleClassifier",
            {
                **nodes_of_tree,
                "class_treeids": numbers([0]),
                "class_nodeids": numbers([count - 1]),
                "class_ids": numbers([0]),
                "class_weights": [rng.choice(FLOATS)],
                "classlabels_int64s": numbers([0, 1]),
                "post_transform": rng.choice(["NONE", "SOFTMAX", "PROBIT", "garbage"]),
            },
            F,
            2,
        ),
        (
            "SVMRegressor",
            {
                "coefficients": [0.5] * rng.choice([0, 2, 3]),
                "kernel_params": [rng.choice(FLOATS)] * rng.choice([0, 2, 3]),
                "kernel_type": rng.choice(["LINEAR", "RBF", "POLY", "SIGMOID"]),
                "n_supports": rng.choice([0, 1, 2, integer(rng)]),
                "rho": [rng.choice(FLOATS)] * rng.choice([0, 1]),
                "support_vectors": [0.5] * rng.choice([0, 3, 6, 7]),
            },
            F,
            1,
        ),
        (
            "SVMClassifier",
            {
                "classlabels_ints": numbers([0, 1]),
                "coefficients": [0.5] * rng.choice([0, 2, 3]),
                "prob_a": [rng.choice(FLOATS)] * rng.choice([0, 1, 3]),
                "prob_b": [0.5] * rng.choice([0, 1]),
                "rho": [0.5] * rng.choice([0, 1, 3]),
                "support_vectors": [0.5] * rng.choice([0, 3, 6, 7]),
                "vectors_per_class": numbers([1, 1]),
            },
            F,
            2,
        ),
        (
            "LinearClassifier",
            {
                "classlabels_ints": numbers([0, 1]),
                "coefficients": [0.5] * rng.choice([0, 3, 6, 7]),
                "intercepts": [0.5] * rng.choice([0, 1, 2]),
                "multi_class": integer(rng),
            },
            F,
            2,
        ),
        (
            "LinearRegressor",
            {"coefficients": [0.5] * rng.choice([0, 3, 7]), "targets": integer(rng)},
            F,
            1,
        ),
        (
            "LabelEncoder",
            {
                "keys_int64s": numbers([0, 1]),
                "values_strings": ["a", "b", "c"][: rng.choice([0, 2, 3])],
                "default_string": "x" * rng.choice([0, 1, 10_000]),
            },
            I64,
            1,
        ),
        ("OneHotEncoder", {"cats_int64s": numbers([0, 1, 2]), "zeros": integer(rng)}, I64, 1),
        (
            "Scaler",
            {
                "offset": [rng.choice(FLOATS)] * rng.choice([0, 1, 3, 4]),
                "scale": [0.5] * rng.choice([1, 3]),
            },
            F,
            1,
        ),
        ("Normalizer", {"norm": rng.choice(["MAX", "L1", "L2", "garbage"])}, F, 1),
        (
            "Imputer",
            {
                "imputed_value_floats": [0.5] * rng.choice([0, 1, 3, 4]),
                "replaced_value_float": rng.choice(FLOATS),
            },
            F,
            1,
        ),
        ("Binarizer", {"threshold": rng.choice(FLOATS)}, F, 1),
        ("FeatureVectorizer", {"inputdimensions": numbers([3])}, F, 1),
        ("ArrayFeatureExtractor", {}, F, 1),
    ]
    op, attributes, kind, outputs = rng.choice(ops)
    made = {key: value for key, value in attributes.items() if value != []}
    names = ["y", "z"][:outputs]
    operands = ["x", "i"] if op == "ArrayFeatureExtractor" else ["x"]
    inputs = [tensor("x", kind, None), tensor("i", I64, None)][: len(operands)]
    model = model_proto(
        [node(op, operands, names, domain="ai.onnx.ml", **made)],
        inputs,
        [untyped(name) for name in names],
        domains={"ai.onnx.ml": 3},
    )
    runs = []
    for _ in range(3):
        shape = rng.choice([(2, 3), (2, 3), (1, 3), (3,), (0, 3), (2, 0), (), (2, 3, 1)])
        x = np.array([rng.choice([0.0, 1.0, 2.0, *FLOATS]) for _ in range(int(np.prod(shape)))])
        with np.errstate(all="ignore"):
            x = x.astype(np.float32 if kind == F else np.int64).reshape(shape)
        feeds = {"x": x}
        if len(operands) == 2:
            feeds["i"] = np.array([rng.choice([0, 2, integer(rng)])])
        runs.append(feeds)
    return model, runs


def mixed_opsets(rng: random.Random) -> Made:
    """Functions of one version of the standard in models of another, nodes of either form."""
    forms: list[tuple[str, list[str], dict[str, Any]]] = [
        ("Squeeze", ["a"], {"axes": [0]}),
        ("Squeeze", ["a", "n"], {}),
        ("Slice", ["a"], {"starts": [0], "ends": [1]}),
        ("Slice", ["a", "n", "n1"], {}),
        ("Pad", ["a"], {"pads": [0, 1, 0, 1], "value": 1.0}),
        ("Clip", ["a"], {"min": -1.0, "max": rng.choice(FLOATS)}),
        ("TopK", ["a"], {"k": 2}),
        ("Dropout", ["a"], {"ratio": rng.choice(FLOATS)}),
        ("Upsample", ["a"], {"scales": [1.0, rng.choice(FLOATS)]}),
        ("ReduceSum", ["a"], {"axes": [integer(rng)]}),
        ("ReduceMean", ["a", "n"], {}),
        ("Split", ["a"], {"split": [1, 2], "axis": 1}),
        ("Unsqueeze", ["a"], {"axes": [0, integer(rng)]}),
        ("Softmax", ["a"], {"axis": rng.choice([0, 1, 2, integer(rng)])}),
        ("Cast", ["a"], {"to": "INT64"}),
        ("Reshape", ["a"], {"shape": [3, 2]}),
        ("Tile", ["a", "n1", "n"], {}),
        ("Add", ["a", "row"], {"broadcast": 1, "axis": integer(rng)}),
        ("BatchNormalization", ["a", "row", "row", "row", "row"], {"spatial": 0}),
        ("Gemm", ["a", "a", "row"], {"transB": 1, "broadcast": 1}),
        ("Scan", ["", "a", "a"], {}),
        ("Resize", ["a", "row"], {}),
        ("DFT", ["a"], {"axis": integer(rng)}),
        ("GroupNormalization", ["a", "row", "row"], {"num_groups": integer(rng)}),
        ("RandomUniform", [], {"shape": [2, 3], "dtype": rng.choice([1, 7, 99])}),
        ("Hardmax", ["a"], {"axis": integer(rng)}),
        ("Flatten", ["a"], {"axis": integer(rng)}),
    ]
    op, operands, attributes = rng.choice(forms)
    inner = helper.make_opsetid("", rng.choice([1, 5, 7, 9, 10, 11, 12, 13, 17, 18, 20, 22, 24]))
    count = 2 if op in ("Split", "TopK") else 1
    nodes = [
        node("Constant", [], ["n"], value=constant("n", [0])),
        node("Constant", [], ["n1"], value=constant("n1", [1])),
        node("Constant", [], ["row"], value=constant("row", [1, 1, 1], np.float32)),
        node(op, operands, ["b", "b1"][:count], **attributes),
    ]
    if rng.random() < 0.5:
        function = helper.make_function("own", "F", ["a"], ["b"], nodes, [inner])
        nodes = [node("F", ["a"], ["b"], domain="own")]
        functions = [function]
    else:
        functions = []
    outer = rng.choice([7, 8, 9, 11, 13, 18, 21, 24])
    model = model_proto(
        nodes,
        [tensor("a", F, rng.choice([[2, 3], ["p", "q"], None]))],
        [untyped("b")],
        opset=outer,
        domains={"own": 1},
        functions=functions,
    )
    return model, [{"a": ONE}, {"a": np.ones((0, 3), np.float32)}]


def declared(rng: random.Random) -> Made:
    """Types of values within the graph that say something else than the nodes."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node(rng.choice(["Relu", "Softmax", "Exp"]), ["a"], ["b"]),
        node("Reshape", ["b", "flat"], ["c"]),
        node(rng.choice(["Concat", "Sum", "Max"]), ["c", "c"], ["d"]),
        node("Shape", ["d"], ["e"]),
        node("Expand", ["one", "e"], ["y"]),
    ]
    if nodes[3].op_type == "Concat":
        nodes[3].attribute.append(helper.make_attribute("axis", 0))
    fixed = [
        constant("w", np.ones((3, 4)), np.float32),
        constant("flat", rng.choice([[-1], [0, -1], [1, -1, 1]])),
        constant("one", [1.0], np.float32),
    ]
    model = model_proto(
        nodes, [tensor("x", F, rng.choice([["n", 3], None]))], [untyped("y")], fixed
    )
    for name in rng.sample(["a", "b", "c", "d", "e", "w", "x"], rng.choice([1, 2, 4])):
        sizes: Any = [
            rng.choice([1, 2, 3, 4, 8, "n", "m", "", integer(rng)])
            for _ in range(rng.choice([0, 1, 2, 3, 9]))
        ]
        value = tensor(name, rng.choice([F, F, F, I64, S, 0]), sizes)
        if rng.random() < 0.15:
            value = helper.make_value_info(name, LIST)
        model.graph.value_info.append(value)
    if rng.random() < 0.4:
        model.graph.output[0].CopyFrom(tensor("y", rng.choice([F, I64]), ["n", rng.choice([2, 7])]))
    shapes = [(2, 3), (1, 3), (5, 3), (0, 3), (3,), (2, 2, 3)]
    return model, [{"x": np.ones(shape, np.float32)} for shape in rng.sample(shapes, 4)]


def huge_attributes(rng: random.Random) -> Made:
    """Lists and texts of attributes of a million entries, and tensors that claim as many."""
    count = rng.choice([1000, 10**5, 10**6])
    way = rng.randrange(9)
    if way == 0:
        made = node("Transpose", ["x"], ["y"], perm=list(range(count)))
    elif way == 1:
        made = node("Constant", [], ["y"], value_ints=[integer(rng)] * count)
    elif way == 2:
        made = node("Constant", [], ["y"], value_string="é" * count)
    elif way == 3:
        made = node("Einsum", ["x", "x"], ["y"], equation=("ab," * count)[: 3 * count - 1])
    elif way == 4:
        made = node("Split", ["x"], [f"y{at or ''}" for at in range(min(count, 20_000))], axis=1)
        made.output[0] = "y"
    elif way == 5:
        made = node("MaxPool", ["x"], ["y"], kernel_shape=[1] * count)
    elif way == 6:
        tensor_value = onnx.TensorProto(data_type=rng.choice([F, I64, S]), dims=[count, count])
        made = node("Constant", [], ["y"], value=tensor_value)
    elif way == 7:
        made = node("LeakyRelu", ["x"], ["y"], alpha=0.5)
        for at in range(min(count, 100_000)):
            made.attribute.add(name=f"more{at}", type=2, i=1)
    else:
        made = node("TfIdfVectorizer", ["n"], ["y"], max_gram_length=3, min_gram_length=1)
        attributes = {
            "max_skip_count": rng.choice([0, 2**31]),
            "mode": "TFIDF",
            "ngram_counts": [0] * rng.choice([1, 1000]),
            "ngram_indexes": list(range(min(count, 10**5))),
            "pool_int64s": [1] * min(count, 10**5),
        }
        made.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
    used = [tensor("x", F, [2, 3])] if "x" in made.input else []
    used += [tensor("n", I64, [3])] if "n" in made.input else []
    feeds = {"x": ONE, "n": np.array([1, 2, 3])}
    model = model_proto([made], used, [untyped("y")])
    return model, [{value.name: feeds[value.name] for value in used}]
