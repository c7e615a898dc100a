# SPDX-License-Identifier: Apache-2.0
"""Sizes that ONNX Runtime is not given (ONNX Runtime 1.31.1): operands of no elements, on which it
ends the process, makes up results or fails, and so many boxes that its one call takes minutes.

Sizes that are known, or that no input of a function tells, are judged before: the node is left to
others. Those that have the name of a size of an input are judged in each run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from .._core import FunctionView, GraphView, NodeView

Dim = int | str | None

MOST_COMPARISONS = 3 * 10**8  # of boxes: some seconds


def dims(node: NodeView, i: int = 0) -> tuple[Dim, ...]:
    """The sizes of an operand; none where it is left out."""
    kind = node.input_types[i] if i < len(node.inputs) and node.inputs[i] else None
    return () if kind is None or kind.shape is None else kind.shape


def _all(node: NodeView) -> list[Dim]:
    """The sizes of all operands."""
    return [dim for i in range(len(node.inputs)) for dim in dims(node, i)]


def _queries(node: NodeView) -> list[Dim]:
    """Those of queries, keys and values. Masks and what was kept of earlier runs may be empty."""
    return [dim for i in range(3) for dim in dims(node, i)]


def _behind_batch(node: NodeView) -> list[Dim]:
    return list(dims(node)[1:])


def _transposed(node: NodeView) -> list[Dim]:
    """Of three axes it divides work by the sizes of two."""
    shape = dims(node)
    if "output_shape" in node.attributes:
        return list(shape[1:])
    return list(shape[2:4]) if len(shape) == 5 else []


def _batch(node: NodeView) -> list[Dim]:
    at = 0 if node.attributes.get("layout", 0) else 1
    return list(dims(node)[at : at + 1])


def _long_memory(node: NodeView) -> list[Dim]:
    """Without turns, the last state of the cells is left unwritten."""
    states = len(node.outputs) > 2 and node.outputs[2]
    return list(dims(node)[:2]) if states else _batch(node)


def _weights(at: int) -> Callable[[NodeView], list[Dim]]:
    return lambda node: list(dims(node, at))


def _normalised(node: NodeView) -> list[Dim]:
    return list(dims(node)[node.attributes.get("axis", -1) :])


def _split(node: NodeView) -> list[Dim]:
    """Of parts whose sizes are not given."""
    axis = node.attributes.get("axis", 0)
    shape = dims(node)
    given = len(node.inputs) > 1 and node.inputs[1]
    return [shape[axis]] if not given and -len(shape) <= axis < len(shape) else []


def _pad(node: NodeView) -> list[Dim]:
    return list(dims(node)) if node.attributes.get("mode") == "wrap" else []


def _blocks(node: NodeView) -> list[Dim]:
    return _all(node) if node.attributes.get("block_size", 0) else []


def _inner(left: int, right: int) -> Callable[[NodeView], list[Dim]]:
    """What both factors of a product tell."""

    def rule(node: NodeView) -> list[Dim]:
        a, b = dims(node, left), dims(node, right)
        both = [*a[-1:], *(b[-2:-1] or b[-1:])]
        numbers = [dim for dim in both if isinstance(dim, int)]
        names = [dim for dim in both if isinstance(dim, str)]
        return [*numbers, *names, None][:1] if both else []

    return rule


def _gemm(node: NodeView) -> list[Dim]:
    """To a sum without terms the third operand is added as it is."""
    return [] if node.attributes.get("beta", 1.0) == 1 else _factor(node)


def _factor(node: NodeView) -> list[Dim]:
    if not dims(node, 0) or not dims(node, 1):
        return []
    a = dims(node, 0)[0 if node.attributes.get("transA", 0) else -1]
    b = dims(node, 1)[-1 if node.attributes.get("transB", 0) else 0]
    return [a if isinstance(a, int) or not isinstance(b, int) else b]


class _Empty(NamedTuple):
    """What it does of no elements, and the sizes of which none may be 0."""

    what: str
    sizes: Callable[[NodeView], list[Dim]]


ENDS = "may end the process"
INVENTS = "gives what lies in memory"
EITHER = f"{ENDS}, or {INVENTS}"
FAILS = "fails in the run"
EMPTIES: dict[str, _Empty] = {
    "ArrayFeatureExtractor": _Empty(FAILS, _all),
    "Attention": _Empty(FAILS, _queries),
    "AveragePool": _Empty(FAILS, _behind_batch),
    "Col2Im": _Empty(FAILS, _behind_batch),
    "Conv": _Empty(FAILS, _weights(1)),
    "ConvInteger": _Empty(INVENTS, _weights(1)),
    "ConvTranspose": _Empty(ENDS, _transposed),
    "DeformConv": _Empty(FAILS, _all),
    "Einsum": _Empty(ENDS, _all),  # what turns operands over divides by their numbers of elements
    "FeatureVectorizer": _Empty(ENDS, _all),
    "Gemm": _Empty("forgets beta", _gemm),
    "GRU": _Empty(ENDS, lambda node: list(dims(node)[:2])),
    "GlobalAveragePool": _Empty(FAILS, _behind_batch),
    "GlobalMaxPool": _Empty(FAILS, _behind_batch),
    "GridSample": _Empty(FAILS, _all),
    "InstanceNormalization": _Empty(ENDS, lambda node: list(dims(node)[2:])),
    "LSTM": _Empty(EITHER, _long_memory),
    "LayerNormalization": _Empty(FAILS, _normalised),
    "LpPool": _Empty(FAILS, _behind_batch),
    "MatMulInteger": _Empty(INVENTS, _inner(0, 1)),
    "MaxPool": _Empty(FAILS, _behind_batch),
    "MaxUnpool": _Empty(FAILS, _all),
    "Pad": _Empty(FAILS, _pad),
    "Pow": _Empty(FAILS, lambda node: list(dims(node)[-1:])),  # of a layer norm that is written out
    "QLinearConv": _Empty(INVENTS, _weights(3)),
    "QLinearMatMul": _Empty(INVENTS, _inner(0, 3)),
    "QuantizeLinear": _Empty(ENDS, _blocks),
    "RNN": _Empty(ENDS, _batch),
    "RMSNormalization": _Empty(FAILS, _normalised),
    "RoiAlign": _Empty(ENDS, _weights(0)),  # or samples what lies behind the image
    "RotaryEmbedding": _Empty(FAILS, _all),
    "Split": _Empty(FAILS, _split),
    "TfIdfVectorizer": _Empty(FAILS, _all),
}

# Ops whose sizes are looked at wherever they stand: in a body nothing tells them.
SEEN_SIZES = frozenset(
    {"NonMaxSuppression"}
    | {
        op
        for op, empty in EMPTIES.items()
        if empty.what in (ENDS, INVENTS, EITHER) and op != "QuantizeLinear"
    }
)


def _comparisons(node: NodeView, size_of: Callable[[Dim], int | None]) -> int | None:
    """How many pairs of boxes may be compared; None where a size is not known."""
    boxes, scores = dims(node, 0), dims(node, 1)
    if len(boxes) != 3 or len(scores) != 3:
        return 0  # it fails

    def first(*choices: Dim) -> int | None:
        return next((size for size in map(size_of, choices) if size is not None), None)

    batch, classes = first(boxes[0], scores[0]), first(scores[1])
    count = first(boxes[1], scores[2])
    if batch is None or classes is None or count is None:
        return None
    most = node.constants.get(2)
    kept = count if most is None or most.size != 1 else min(max(most.item(), 0), count)
    return batch * classes * count * kept


def _known(dim: Dim) -> int | None:
    return dim if isinstance(dim, int) else None


def size_refusal(node: NodeView, sizes: Collection[str]) -> str:
    """Why a node is not taken where a run looks at these sizes alone, or ""."""
    empty = EMPTIES.get(node.op)
    if empty is not None:
        found = empty.sizes(node)
        if 0 in found:
            return f"of no elements it {empty.what}"
        if empty.what != FAILS and any(
            not isinstance(dim, int) and dim not in sizes for dim in found
        ):
            return f"a size that is computed may be 0, and of no elements it {empty.what}"
    if node.op == "NonMaxSuppression":
        count = _comparisons(node, _known)
        if count is None:  # so that 1 stands for sizes that a run looks at
            count = _comparisons(node, lambda dim: 1 if dim in sizes else _known(dim))
        if count is None:
            return "nothing tells of how many boxes it compares each with each"
        if count > MOST_COMPARISONS:
            return TOO_MANY_BOXES.format(count)
    return ""


TOO_MANY_BOXES = "it may compare {} pairs of boxes, without looking at the time"


def open_sizes(graph: GraphView) -> dict[str, tuple[int, int]]:
    """Where a run reads sizes with a name: an input and its axis."""
    return {
        dim: (i, axis)
        for i, port in enumerate(graph.inputs)
        for axis, dim in enumerate(port.type.shape or ())
        if isinstance(dim, str)
    }


def product_of_quantised(node: NodeView, makers: Mapping[str, str]) -> Dim:
    """The length of the sums of a product of dequantised operands, which an optimiser makes one of
    integers; 1 for other nodes. Of no terms, it would be what lies in memory.
    """
    if node.op not in ("MatMul", "Gemm"):
        return 1
    if not any(makers.get(name) == "DequantizeLinear" for name in node.inputs[:2]):
        return 1
    found = _factor(node) if node.op == "Gemm" else _inner(0, 1)(node)
    return found[0] if found else None


class SizeChecks:
    """What a run of a function looks at."""

    def __init__(self, function: FunctionView) -> None:
        self.places = open_sizes(function)
        # Inputs and axes that may not be of size 0: these sizes' names, and why.
        self.not_empty: dict[tuple[int, int], str] = {}
        self.compared = [node for node in function.nodes if node.op == "NonMaxSuppression"]
        self.compared = [node for node in self.compared if _comparisons(node, _known) is None]
        # The whole graph's inputs have sizes that those of this part of it may not have.
        self.has_unseen = False
        makers = {name: node.op for node in function.nodes for name in node.outputs}
        for node in function.nodes:
            length = product_of_quantised(node, makers)
            if length in self.places:
                text = f"the size '{length}' is 0; of no terms quantised {node.op} {INVENTS}"
                self.not_empty.setdefault(self.places[length], text)
            empty = EMPTIES.get(node.op)
            if empty is None:
                continue
            for dim in empty.sizes(node):
                if dim in self.places:
                    text = f"the size '{dim}' is 0; of no elements {node.op} {empty.what}"
                    self.not_empty.setdefault(self.places[dim], text)
                elif not isinstance(dim, int) and empty.what != FAILS:
                    self.has_unseen = True

    def refusal(self, inputs: list[Any]) -> str:
        """Why a run is not ONNX Runtime's, or ""."""
        for (i, axis), text in self.not_empty.items():
            if inputs[i].shape[axis] == 0:
                return text
        if self.has_unseen and any(getattr(array, "size", 1) == 0 for array in inputs):
            return "an input has no elements; on what follows, ONNX Runtime may end the process"
        for node in self.compared:
            count = _comparisons(node, lambda dim: self._size(dim, inputs))
            if count is None:
                return "nothing tells of how many boxes NonMaxSuppression compares each with each"
            if count > MOST_COMPARISONS:
                return f"NonMaxSuppression: {TOO_MANY_BOXES.format(count)}"
        return ""

    def _size(self, dim: Dim, inputs: list[Any]) -> int | None:
        if not isinstance(dim, str):
            return dim
        place = self.places.get(dim)
        return None if place is None else inputs[place[0]].shape[place[1]]
