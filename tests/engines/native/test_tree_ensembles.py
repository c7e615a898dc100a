# SPDX-License-Identifier: Apache-2.0
"""Tree ensembles of the native engine against ONNX Runtime: every mode of a node, missing values,
one row and many, few trees and many, one thread and two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import openxrt
import pytest
from onnx import TensorProto, helper
from small_models import model_proto, tensor, untyped

onnxruntime = pytest.importorskip("onnxruntime", reason="pip install onnxruntime: the peer")

ML = "ai.onnx.ml"
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


class Ensemble:
    """Random trees; a node's threshold is one of few values, which features often equal."""

    def __init__(
        self, trees: int, depth: int, features: int, modes: list[str], votes: int, seed: int = 0
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.depth, self.features, self.modes, self.votes = depth, features, modes, votes
        names = ["treeids", "nodeids", "featureids", "modes", "values", "truenodeids"]
        names += ["falsenodeids", "missing_value_tracks_true"]
        self.nodes: dict[str, list] = {f"nodes_{name}": [] for name in names}
        self.leaves: dict[str, list] = {n: [] for n in ("treeids", "nodeids", "ids", "weights")}
        for tree in range(trees):
            self.grow(tree, 0, 0)

    def grow(self, tree: int, number: int, depth: int) -> int:
        """Adds the node `number` and what is below it; returns the next free number."""
        ends = depth == self.depth or (depth > 0 and self.rng.random() < 0.1)
        row = [
            tree,
            number,
            0 if ends else int(self.rng.integers(self.features)),
            "LEAF" if ends else str(self.rng.choice(self.modes)),
            0.0 if ends else float(self.rng.integers(-3, 4)) / 2,
            0,
            0,
            int(self.rng.integers(2)),
        ]
        for column, value in zip(self.nodes.values(), row, strict=True):
            column.append(value)
        at = len(self.nodes["nodes_treeids"]) - 1
        if ends:
            for target in range(self.votes):
                weight = float(np.float32(self.rng.standard_normal()))
                for column, value in zip(
                    self.leaves.values(), (tree, number, target, weight), strict=True
                ):
                    column.append(value)
            return number + 1
        self.nodes["nodes_truenodeids"][at] = number + 1
        following = self.grow(tree, number + 1, depth + 1)
        self.nodes["nodes_falsenodeids"][at] = following
        return self.grow(tree, following, depth + 1)

    def attributes(self, kind: str) -> dict[str, list]:
        """Of TreeEnsembleRegressor ("target") or TreeEnsembleClassifier ("class")."""
        return self.nodes | {f"{kind}_{name}": column for name, column in self.leaves.items()}


def features(rows: int, columns: int, dtype: str = "float32", missing: bool = True) -> np.ndarray:
    rng = np.random.default_rng(rows)
    x = (rng.integers(-4, 5, (rows, columns)) / 2).astype(dtype)
    if missing and x.dtype.kind == "f":
        x[rng.random(x.shape) < 0.1] = np.nan
    return x


def compare(model: onnx.ModelProto, x: np.ndarray) -> None:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = session.run(None, {"x": x})
    for threads in (1, 2):
        program = openxrt.load(
            model.SerializeToString(), engine="native", num_threads=threads, cache_dir=""
        )
        for a, b in zip(wanted, program.run({"x": x}).values(), strict=True):
            if a.dtype.kind == "f":
                np.testing.assert_allclose(b, a, rtol=1e-5, atol=2e-5)
            else:
                np.testing.assert_array_equal(b, a)


def model_of(op: str, x: np.ndarray, outputs: int, **attributes: Any) -> onnx.ModelProto:
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, ["x"], names, domain=ML, **attributes)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    return model_proto(
        [node],
        [tensor("x", kind, [None, x.shape[1]])],
        [untyped(name) for name in names],
        domains={ML: 3},
        opset=18,
    )


@pytest.mark.parametrize("rows", [1, 3, 8, 65, 700])
@pytest.mark.parametrize("mode", [*MODES, "mixed"])
def test_every_mode_of_a_node(mode: str, rows: int) -> None:
    trees = Ensemble(21, 6, 9, MODES if mode == "mixed" else [mode], 1)
    x = features(rows, 9)
    model = model_of("TreeEnsembleRegressor", x, 1, n_targets=1, **trees.attributes("target"))
    compare(model, x)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize(("rows", "trees"), [(1, 1), (1, 2000), (9, 400), (40, 3), (3000, 5)])
def test_rows_and_trees_on_threads(rows: int, trees: int, aggregate: str) -> None:
    ensemble = Ensemble(trees, 5, 6, ["BRANCH_LEQ"], 3)
    x = features(rows, 6)
    attributes = ensemble.attributes("target")
    model = model_of(
        "TreeEnsembleRegressor",
        x,
        1,
        n_targets=3,
        aggregate_function=aggregate,
        base_values=[0.5, -1.0, 2.0],
        **attributes,
    )
    compare(model, x)


@pytest.mark.parametrize("depth", [1, 9, 14])
def test_a_classifier_of_deep_trees(depth: int) -> None:
    x = features(50, 12)
    ensemble = Ensemble(7, depth, 12, ["BRANCH_LT"], 4)
    model = model_of(
        "TreeEnsembleClassifier",
        x,
        2,
        classlabels_int64s=[3, 1, 4, 5],
        post_transform="SOFTMAX",
        **ensemble.attributes("class"),
    )
    compare(model, x)


@pytest.mark.parametrize("dtype", ["float64", "int64", "int32"])
def test_features_of_other_types(dtype: str) -> None:
    x = features(33, 5, dtype, missing=False)
    ensemble = Ensemble(11, 4, 5, MODES[:4], 3)
    model = model_of(
        "TreeEnsembleClassifier",
        x,
        2,
        classlabels_strings=["a", "b", "c"],
        **ensemble.attributes("class"),
    )
    compare(model, x)


def test_members_of_sets() -> None:
    """TreeEnsemble: x0 in {1, 3} ? 10 : (x1 <= 0 ? 20 : 30)."""
    attributes = {
        "n_targets": 1,
        "aggregate_function": 1,
        "post_transform": 0,
        "tree_roots": [0],
        "nodes_featureids": [0, 1],
        "nodes_modes": helper.make_tensor("m", TensorProto.UINT8, [2], [6, 0]),
        "nodes_splits": helper.make_tensor("s", TensorProto.FLOAT, [2], [0.0, 0.0]),
        "nodes_truenodeids": [0, 1],
        "nodes_trueleafs": [1, 1],
        "nodes_falsenodeids": [1, 2],
        "nodes_falseleafs": [0, 1],
        "leaf_targetids": [0, 0, 0],
        "leaf_weights": helper.make_tensor("w", TensorProto.FLOAT, [3], [10.0, 20.0, 30.0]),
        "membership_values": helper.make_tensor("v", TensorProto.FLOAT, [3], [1.0, 3.0, np.nan]),
    }
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain=ML, **attributes)
    model = model_proto(
        [node], [tensor("x", TensorProto.FLOAT, [None, 2])], [untyped("y")], domains={ML: 5}
    )
    compare(model, np.array([[1, 0], [2, 0], [3, 5], [4, 5]], np.float32))
