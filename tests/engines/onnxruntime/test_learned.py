# SPDX-License-Identifier: Apache-2.0
"""Ops of learned models and of words whose lists do not fit each other: ONNX Runtime ends the
process, or looks at each of very many distances. What has no meaning is an error of native.
"""

import functools

import numpy as np
import openxrt
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from small_models import make_model, tensor, untyped

pytest.importorskip("onnxruntime")


def onnx_model(node: NodeProto, dtype: int) -> ModelProto:
    return ModelProto.FromString(
        make_model(
            [node],
            [tensor("x", dtype, [1, 4])],
            [untyped(name) for name in node.output],
            domains={"ai.onnx.ml": 3},
        )
    )


def load(node: NodeProto, dtype: int) -> openxrt.Program:
    model = onnx_model(node, dtype).SerializeToString()
    return openxrt.load(
        model, engine=["onnxruntime", "native"], cache_dir="", check_results=False, deadline_s=60
    )


@pytest.mark.parametrize(
    ("indexes", "skip", "engine"), [(5, 0, "onnxruntime"), (4, 0, "native"), (5, 2**62, "native")]
)
def test_ngrams(indexes: int, skip: int, engine: str) -> None:
    node = helper.make_node(
        "TfIdfVectorizer",
        ["x"],
        ["y"],
        mode="TF",
        min_gram_length=2,
        max_gram_length=2,
        max_skip_count=skip,
        ngram_counts=[0, 2],
        ngram_indexes=list(range(indexes)),
        pool_int64s=[1, 2, 5, 6, 7, 8, 6, 7],
    )
    if indexes == 4:
        with pytest.raises(openxrt.InvalidArgument, match="ngram_indexes"):
            load(node, TensorProto.INT32)
        return
    program = load(node, TensorProto.INT32)
    assert program.explain().nodes_per_engine == {engine: 1}
    if not skip:
        result = program(np.array([[5, 6, 7, 8]], np.int32))
        assert result.tolist() == [[0, 0, 1, 1, 1]]


@pytest.mark.parametrize(
    ("dimensions", "engine"), [([4], "onnxruntime"), ([-1], "native"), ([4, 4], "native")]
)
def test_dimensions_of_features(dimensions: list[int], engine: str) -> None:
    node = helper.make_node(
        "FeatureVectorizer", ["x"], ["y"], domain="ai.onnx.ml", inputdimensions=dimensions
    )
    assert load(node, TensorProto.FLOAT).explain().nodes_per_engine == {engine: 1}


@pytest.mark.parametrize(
    ("names", "ids", "engine"),
    [
        (["a", "b"], [0, 1], "native"),
        (["a", "b"], [0, 0], "onnxruntime"),
        (["a", "b", "c"], [0, 1], "native"),
        (["a"], [0, 0], None),
        (["a", "b"], [0, 2], None),
    ],
)
def test_classes_of_trees(names: list[str], ids: list[int], engine: str | None) -> None:
    node = helper.make_node(
        "TreeEnsembleClassifier",
        ["x"],
        ["y", "z"],
        domain="ai.onnx.ml",
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_values=[0.5, 0.0, 0.0],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        class_treeids=[0, 0],
        class_nodeids=[1, 2],
        class_ids=ids,
        class_weights=[0.75, 0.25],
        classlabels_strings=names,
    )
    if engine is None:
        with pytest.raises(openxrt.Error, match=r"one class alone|out of range"):
            load(node, TensorProto.FLOAT)
        return
    program = load(node, TensorProto.FLOAT)
    assert program.explain().nodes_per_engine == {engine: 1}
    if ids == [0, 1]:
        assert program(np.ones((1, 4), np.float32))[0].tolist() == ["b"]


@pytest.mark.parametrize("is_double", [False, True])
@pytest.mark.parametrize(
    ("transform", "weights", "bases", "engine"),
    [
        ("NONE", [0.25, 0.75], [], "onnxruntime"),
        ("NONE", [-0.25, 0.75], [], "native"),
        ("NONE", [0.25, 0.75], [0.5], "native"),
        ("SOFTMAX", [-0.25, 0.75], [], "native"),
        ("LOGISTIC", [-0.25, 0.75], [], "onnxruntime"),
        ("LOGISTIC", [-0.25, 0.75], [-2.0], "onnxruntime"),
        ("LOGISTIC", [-0.25, 0.75], [0.0, 0.0], "native"),
        ("LOGISTIC", [0.25, 0.75], [], "native"),
    ],
)
def test_one_score_for_two_classes(
    transform: str, weights: list[float], bases: list[float], engine: str, is_double: bool
) -> None:
    """The reference does not know weights of float64: they are those of float32."""
    numbers = {"nodes_values": [0.5, 0.0, 0.0], "class_weights": weights}
    if bases:
        numbers["base_values"] = bases
    doubles = {
        f"{name}_as_tensor": numpy_helper.from_array(np.array(values), name)
        for name, values in numbers.items()
    }
    make = functools.partial(
        helper.make_node,
        "TreeEnsembleClassifier",
        ["x"],
        ["y", "z"],
        domain="ai.onnx.ml",
        nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0],
        nodes_falsenodeids=[2, 0, 0],
        class_treeids=[0, 0],
        class_nodeids=[1, 2],
        class_ids=[0, 0],
        classlabels_int64s=[3, 4],
        post_transform=transform,
    )
    program = load(
        make(**(doubles if is_double else numbers)),
        TensorProto.DOUBLE if is_double else TensorProto.FLOAT,
    )
    assert program.explain().nodes_per_engine == {engine: 1}
    reference = ReferenceEvaluator(onnx_model(make(**numbers), TensorProto.FLOAT))
    for x in (-1, 1):
        row = np.full((1, 4), x, np.float32)
        names, scores = program(row.astype(np.float64) if is_double else row)
        expected = reference.run(None, {"x": row})
        assert names.tolist() == expected[0].tolist()
        np.testing.assert_allclose(scores, expected[1], rtol=1e-6)


@pytest.mark.parametrize(
    ("classes", "transform", "more", "engine"),
    [
        (2, "SOFTMAX", {}, "native"),
        (2, "SOFTMAX_ZERO", {}, "native"),
        (2, "SOFTMAX", {"prob_a": [1.5], "prob_b": [0.5]}, "onnxruntime"),
        (2, "LOGISTIC", {}, "onnxruntime"),
        (3, "SOFTMAX", {}, "onnxruntime"),
    ],
)
def test_scores_of_support_vectors(
    classes: int, transform: str, more: dict[str, list[float]], engine: str
) -> None:
    node = helper.make_node(
        "SVMClassifier",
        ["x"],
        ["y", "z"],
        domain="ai.onnx.ml",
        kernel_type="LINEAR",
        kernel_params=[0.0, 0.0, 0.0],
        support_vectors=np.linspace(-1, 1, 4 * classes).tolist(),
        vectors_per_class=[1] * classes,
        coefficients=np.linspace(0.75, -0.5, classes * (classes - 1)).tolist(),
        rho=[0.25] * (classes * (classes - 1) // 2),
        post_transform=transform,
        classlabels_ints=list(range(classes)),
        **more,
    )
    program = load(node, TensorProto.FLOAT)
    assert program.explain().nodes_per_engine == {engine: 1}
    row = np.array([[1, 0.5, -2, 0.25]], np.float32)
    expected = ReferenceEvaluator(onnx_model(node, TensorProto.FLOAT)).run(None, {"x": row})
    names, scores = program(row)
    assert names.tolist() == expected[0].tolist()
    np.testing.assert_allclose(scores, expected[1], rtol=1e-5)
