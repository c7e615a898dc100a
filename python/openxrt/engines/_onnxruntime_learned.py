# SPDX-License-Identifier: Apache-2.0
"""Rules for ops of learned models and of words (ONNX Runtime 1.31.1): attributes that do not fit
each other end the process, and some are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

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


def _tree_regressor(node: NodeView) -> str:
    """It begins with the base of a target at the first weight that a row meets."""
    a = node.attributes
    bases = a.get("base_values", ())
    if a.get("n_targets", 1) == 1 or not any(bases):
        return ""
    trees = zip(a.get("nodes_treeids", ()), a.get("nodes_modes", ()), strict=False)
    leaves = Counter(tree for tree, mode in trees if mode == "LEAF")
    weights = Counter(zip(a.get("target_ids", ()), a.get("target_treeids", ()), strict=False))
    met = {target for (target, tree), count in weights.items() if count >= leaves[tree]}
    if all(target in met for target, base in enumerate(bases) if base):
        return ""
    return "it leaves out base_values of targets of which the leaves met have no weight"


def _tree_classifier(node: NodeView) -> str:
    a = node.attributes
    names = a.get("classlabels_strings") or a.get("classlabels_int64s") or ()
    if len(names) > max(1, *a.get("class_ids", ())):
        return ""
    return "a class without a name ends the process"


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
    "FeatureVectorizer": _feature_vectorizer,
    "LinearClassifier": _linear_classifier,
    "LinearRegressor": _linear_regressor,
    "TfIdfVectorizer": _ngrams,
    "TreeEnsembleClassifier": _tree_classifier,
    "TreeEnsembleRegressor": _tree_regressor,
}
