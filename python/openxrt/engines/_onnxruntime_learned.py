# SPDX-License-Identifier: Apache-2.0
"""Rules for ops of learned models and of words (ONNX Runtime 1.31.1): attributes that do not fit
each other end the process, some are left out, and some results are not the standard's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from .._core import NodeView

MOST_SKIPPED = 4096  # words between those of an n-gram


def _feature_vectorizer(node: NodeView) -> str:
    counts = node.attributes.get("inputdimensions", ())
    if len(counts) == len(node.inputs) and all(count >= 0 for count in counts):
        return ""
    return "dimensions that are not one for each operand fail in the run, or end the process"


def _linear_regressor(node: NodeView) -> str:
    if node.attributes.get("post_transform", "NONE") == "NONE":
        return ""
    return "it leaves out post_transform"


def _linear_classifier(node: NodeView) -> str:
    a = node.attributes
    names = a.get("classlabels_strings") or a.get("classlabels_ints") or ()
    of_one_score = len(names) == 2 and len(a.get("intercepts", ())) == 1
    if not of_one_score or a.get("post_transform", "NONE") != "NONE":
        return ""
    return "of one score for two classes it takes 1 less this for the other's, not its negative"


def _normalizer(node: NodeView) -> str:
    """The standard's text says max(X), as it says sum(X) for L1; its reference takes magnitudes for
    both, as ONNX Runtime does for L1 alone.
    """
    if node.attributes.get("norm", "MAX") != "MAX":
        return ""
    return "with norm MAX it divides by the largest number, not by the largest magnitude"


def _svm_classifier(node: NodeView) -> str:
    a = node.attributes
    names = a.get("classlabels_strings") or a.get("classlabels_ints") or ()
    softmax = a.get("post_transform", "NONE") in ("SOFTMAX", "SOFTMAX_ZERO")
    if not softmax or len(names) > 2 or a.get("prob_a"):
        return ""
    return "of one score for two classes it takes 1 less this for the other's, and no SOFTMAX"


def _tree_ensemble(node: NodeView) -> str:
    """It counts the transforms in another order."""
    if node.attributes.get("post_transform", 0) not in (1, 2):
        return ""
    return "it takes post_transform 1, SOFTMAX, for LOGISTIC, and 2 the other way round"


def _numbers(a: Mapping[str, Any], name: str) -> list[float]:
    """Numbers of an attribute, which are float64 in another one."""
    return np.ravel(a.get(name) or a.get(f"{name}_as_tensor", ())).tolist()


def _always_met(a: Mapping[str, Any], kind: str) -> set[int]:
    """The targets or classes of which all leaves of a tree have a weight."""
    trees = zip(a.get("nodes_treeids", ()), a.get("nodes_modes", ()), strict=False)
    leaves = Counter(tree for tree, mode in trees if mode == "LEAF")
    names = (f"{kind}_ids", f"{kind}_treeids", f"{kind}_nodeids")
    weights = set(zip(*(a.get(name, ()) for name in names), strict=False))
    met = Counter((target, tree) for target, tree, _ in weights)
    return {target for (target, tree), count in met.items() if count >= leaves[tree]}


def _tree_regressor(node: NodeView) -> str:
    """It begins with the base of a target at the first weight that a row meets."""
    a = node.attributes
    bases = _numbers(a, "base_values")
    if a.get("n_targets", 1) == 1 or not any(bases):
        return ""
    met = _always_met(a, "target")
    if all(target in met for target, base in enumerate(bases) if base):
        return ""
    return "it leaves out base_values of targets of which the leaves met have no weight"


def _tree_classifier(node: NodeView) -> str:
    a = node.attributes
    names = a.get("classlabels_strings") or a.get("classlabels_int64s") or ()
    if len(names) <= max(1, *a.get("class_ids", ())):
        return "a class without a name ends the process"
    if len(names) == 2:
        return _two_classes(a)
    met = _always_met(a, "class")
    if len(met) == len(names) or (met and min(_numbers(a, "class_weights"), default=0) > 0):
        return ""
    return "a class without a weight at the leaves met is never the best, or fails if all are so"


def _two_classes(a: Mapping[str, Any]) -> str:
    """It is right of one score, which is a probability, or above or below 0."""
    transform = a.get("post_transform", "NONE")
    bases = _numbers(a, "base_values")
    if any(a.get("class_ids", ())) or len(bases) > 1:
        return "of two classes with a score each it looks at the second one alone"
    has_negative = any(weight < 0 for weight in _numbers(a, "class_weights"))
    if transform == "NONE" and not has_negative and not bases:
        return ""
    if transform == "LOGISTIC" and has_negative:
        return ""
    return "of one score for two classes it makes other scores or names with this post_transform"


def _ngrams(node: NodeView) -> str:
    """It notes a column for each n-gram of the pool, and steps through distances one by one."""
    if node.attributes.get("max_skip_count", 0) > MOST_SKIPPED:
        return f"of distances beyond {MOST_SKIPPED} it looks at each without looking at the time"
    pool = node.attributes.get("pool_int64s") or node.attributes.get("pool_strings") or ()
    begins = [*node.attributes.get("ngram_counts", ()), len(pool)]
    count = sum((end - begin) // n for n, (begin, end) in enumerate(pairwise(begins), 1))
    if count == len(node.attributes.get("ngram_indexes", ())):
        return ""
    return "n-grams without an index of their own end the process"


LEARNED: dict[str, Callable[[NodeView], str]] = {
    "Binarizer": lambda node: "it fails in the run where there is a NaN",
    "FeatureVectorizer": _feature_vectorizer,
    "LinearClassifier": _linear_classifier,
    "LinearRegressor": _linear_regressor,
    "Normalizer": _normalizer,
    "SVMClassifier": _svm_classifier,
    "TfIdfVectorizer": _ngrams,
    "TreeEnsemble": _tree_ensemble,
    "TreeEnsembleClassifier": _tree_classifier,
    "TreeEnsembleRegressor": _tree_regressor,
}
