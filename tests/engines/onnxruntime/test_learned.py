# SPDX-License-Identifier: Apache-2.0
"""Ops of learned models and of words whose lists do not fit each other: ONNX Runtime ends the
process, or looks at each of very many distances. What has no meaning is an error of native.
"""

import numpy as np
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import make_model, tensor, untyped

pytest.importorskip("onnxruntime")


def load(node: object, dtype: int, outputs: list[str]) -> openxrt.Program:
    model = make_model(
        [node],
        [tensor("x", dtype, [1, 4])],
        [untyped(name) for name in outputs],
        domains={"ai.onnx.ml": 3},
    )
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
            load(node, TensorProto.INT32, ["y"])
        return
    program = load(node, TensorProto.INT32, ["y"])
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
    assert load(node, TensorProto.FLOAT, ["y"]).explain().nodes_per_engine == {engine: 1}


@pytest.mark.parametrize(
    ("names", "ids", "is_right"),
    [
        (["a", "b"], [0, 1], True),
        (["a", "b"], [0, 0], True),
        (["a"], [0, 0], False),
        (["a", "b"], [0, 2], False),
    ],
)
def test_classes_of_trees(names: list[str], ids: list[int], is_right: bool) -> None:
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
    if not is_right:
        with pytest.raises(openxrt.Error, match=r"one class alone|out of range"):
            load(node, TensorProto.FLOAT, ["y", "z"])
        return
    program = load(node, TensorProto.FLOAT, ["y", "z"])
    assert program.explain().nodes_per_engine == {"onnxruntime": 1}
    if ids == [0, 1]:
        assert program(np.ones((1, 4), np.float32))[0].tolist() == ["b"]
