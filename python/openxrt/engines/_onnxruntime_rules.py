# SPDX-License-Identifier: Apache-2.0
"""Nodes that ONNX Runtime would take and that are left to other engines, with the reasons.

Found by the tests of the onnx package (ONNX Runtime 1.31.1). Everything else is asked of ONNX
Runtime itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import numpy as np

from .._core import NodeView, Type
from ._onnxruntime_learned import LEARNED
from ._onnxruntime_sizes import SEEN_SIZES

# Elements narrower than a byte: packed in tensors, one per byte in NumPy.
PACKED = frozenset({"uint4", "int4", "float4_e2m1fn", "uint2", "int2"})

RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)


MOST_OF_A_WINDOW = 4096  # elements, of a convolution
# As src/ops/sizes/wide_window.h has them for the other engines.
USUAL_WINDOW = 1024  # elements, of a pool
ABOUT_A_SECOND = 10**9  # elements of windows that are pooled

# Bits of the largest magnitude of an integer.
BITS = {"bool": 0, "int8": 7, "uint8": 8, "int16": 15, "uint16": 16, "int32": 31, "uint32": 32}
EXACT_BITS = 53  # of the integers that float64 holds
SIZE_BITS = 47  # of sizes and positions: what processors address
MOST_READ = 1024  # elements of a constant whose magnitude is looked up

# The time in which it makes a session, and runs it, grows with the square of a node's operands.
MOST_OPERANDS = 4096

# What is known of values: by name, bits of their largest magnitude.
Bits = Mapping[str, int]


def _dtype(node: NodeView) -> str:
    """The element type of the first input."""
    first = node.input_types[0]
    return first.dtype or "" if first is not None else ""


def _shape(node: NodeView, i: int = 0) -> tuple[int | str | None, ...] | None:
    """The dimensions of an input."""
    kind = node.input_types[i]
    return None if kind is None else kind.shape


def _element(kind: Type) -> Type:
    """The type at the bottom of sequences and optionals."""
    return kind if kind.element is None else _element(kind.element)


def _bits(node: NodeView, i: int, known: Bits) -> int | None:
    """Bits of the largest magnitude of an operand of integers; None where nothing tells."""
    if i >= len(node.inputs) or not node.inputs[i]:
        return None
    values = node.constants.get(i)
    if values is not None and values.dtype.kind in "bui" and 0 < values.size <= MOST_READ:
        return max(abs(int(values.min())), abs(int(values.max()))).bit_length()
    kind = node.input_types[i]
    by_type = BITS.get(kind.dtype or "") if kind is not None else None
    return known.get(node.inputs[i], by_type)


# Results that hold what the first operand holds, or a part of it.
OF_THE_FIRST = frozenset(
    {
        "Abs",
        "Cast",
        "Div",
        "Expand",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "Identity",
        "Neg",
        "ReduceMax",
        "ReduceMin",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)
OF_SIZES = frozenset({"ArgMax", "ArgMin", "NonZero", "Shape", "Size"})
OF_TWO = frozenset({"Add", "Mul", "Range", "Sub"})


def _result_bits(node: NodeView, known: Bits) -> int | None:
    """Bits of the largest magnitude of the results."""
    if node.op in OF_SIZES:
        return SIZE_BITS
    if node.op in OF_THE_FIRST:
        return _bits(node, 0, known)
    if node.op in OF_TWO:
        operands = [0, 1]
    elif node.op in ("Concat", "Max", "Min"):
        operands = list(range(len(node.inputs)))
    elif node.op == "Where":
        operands = [1, 2]
    else:
        return None
    bits = []
    for i in operands:
        one = _bits(node, i, known)
        if one is None:
            return None
        bits.append(one)
    if node.op == "Mul":
        return sum(bits)
    return max(bits) + (node.op in ("Add", "Sub"))


def known_bits(nodes: Iterable[NodeView]) -> dict[str, int]:
    """What follows for int64 from sizes, narrow types and small constants, in the nodes' order."""
    known: dict[str, int] = {}
    for node in nodes:
        result = node.output_types[0] if node.output_types else None
        if node.domain or result is None or result.dtype != "int64":
            continue
        bits = _result_bits(node, known)
        if bits is not None and bits < 63:  # more may have wrapped
            known.update((name, bits) for name in node.outputs)
    return known


def _is_some(size: int | str | None) -> bool:
    """Whether it is known that a size is not 0."""
    return isinstance(size, int) and size > 0


def _attention(node: NodeView) -> str:
    shapes = [_shape(node, i) or () for i in range(3)]
    if any(len(shape) == 4 and not _is_some(shape[1]) for shape in shapes):
        return "an Attention of no heads ends the process"
    width = _shape(node, 2)
    if width is not None and len(width) == 3 and not isinstance(width[2], int):
        return "where the width of the values is open, it takes the result's for 0"
    if _dtype(node) == "float16":
        return "its float16 sums are less exact than the standard's"
    if len(node.inputs) > 6 and node.inputs[6]:
        return "it checks the mask against nonpad_kv_seqlen more narrowly than the standard"
    caches = len(node.outputs) > 2 and all(node.outputs[1:3])
    if len(node.inputs) > 4 and node.inputs[4] and not caches:
        return "it takes old keys only where the new ones are results"
    if len(node.outputs) > 3 and node.outputs[3] and node.attributes.get("is_causal", 0):
        return "its fourth output leaves out the causal mask"
    return ""


def _same(node: NodeView) -> str:
    """Padding that is left to the run: where sizes are known, `pads` says it."""
    if not node.attributes.get("auto_pad", "NOTSET").startswith("SAME"):
        return ""
    if any(dilation != 1 for dilation in node.attributes.get("dilations", ())):
        return "of open sizes it pads for windows without dilations alone"
    if node.op not in ("AveragePool", "MaxPool"):
        return ""
    window = node.attributes.get("kernel_shape", ())
    if all(a >= b for a, b in zip(window, node.attributes.get("strides", window), strict=True)):
        return ""
    return "of open sizes it pads less than nothing for strides beyond the window"


def _conv(node: NodeView) -> str:
    """It makes columns of all windows, whatever they take."""
    if no := _same(node):
        return no
    channels = [(_shape(node, i) or (0, 0))[1] for i in (0, 1)]
    if node.op == "Conv" and not any(_is_some(count) for count in channels):
        return "of no channels it computes without end"
    dims = _shape(node, 1)
    window = [dim for dim in dims[2:] if isinstance(dim, int)] if dims is not None else []
    elements = math.prod(window)
    if elements <= MOST_OF_A_WINDOW:
        return ""
    return f"the columns of windows of {elements} elements take gigabytes"


def _conv_integer(node: NodeView) -> str:
    if len(node.inputs) < 4 or not node.inputs[3]:
        return _same(node)
    one = _shape(node, 3) in ((), (1,))
    return _same(node) if one else "it takes one zero point for all kernels"


def _matmul_integer(node: NodeView) -> str:
    if len(node.inputs) < 3 or not node.inputs[2]:
        return ""
    # Of a length that only a run tells it is one in all models that tools write.
    one = _shape(node, 2) in ((), (1,))
    return "" if one else "it takes one zero point for all rows of the first matrix"


def _dropout(node: NodeView) -> str:
    if len(node.inputs) < 3 or not node.inputs[2]:
        return ""
    mode = node.constants.get(2)
    return "" if mode is not None and not mode.any() else "its random numbers are others"


# Its kernels count on ranks that type inference has seen: a span that is too short ends it all.
LATE_RANK = "where a rank that only a run tells is wrong, it ends the process"
UNKNOWN_RANK = "[*]"  # as a graph is printed

# Operands of which it reads one element, however many there are; none ends the process.
ONE_ELEMENT = {"If": [0], "Loop": [0, 1], "SequenceAt": [1], "SequenceErase": [1]}
ONE_ELEMENT["SequenceInsert"] = [2]


# In a body nobody looks at their indices, of which it tells less when they are outside.
SEEN_INDICES = frozenset({"Gather"})


def _one_element(node: NodeView) -> str:
    for i in ONE_ELEMENT[node.op]:
        shape = _shape(node, i) if i < len(node.inputs) and node.inputs[i] else ()
        if shape is None or any(dim != 1 for dim in shape):
            return "it reads one element of a count, condition or position, however many there are"
    return _bodies(node)


def _bodies(node: NodeView) -> str:
    """Nodes of a body are judged by themselves where the body is a program of its own."""
    for name, text in node.attributes.items():
        if name not in ("body", "then_branch", "else_branch"):
            continue
        ops = set(re.findall(r"= (?:[\w.]+::)?(\w+)\(", text))
        if found := sorted(
            ops & ((RULES.keys() - REDUCTIONS) | RANDOM | SEEN_SIZES | SEEN_INDICES)
        ):
            return f"'{name}' holds {', '.join(found)}, which it does not always take"
        if found := sorted(PACKED.intersection(re.findall(r"\w+", text))):
            return (
                f"'{name}' holds values of type {found[0]}, which do not pass its Python interface"
            )
        if found := sorted(set(INTEGERS_IN_BODIES.findall(text))):
            return f"'{name}' holds {', '.join(found)} of int64, which it does not always take"
        if re.search(r"\bstring\b", text):
            return f"'{name}' holds texts: the memory that they take is bounded by nothing"
        if UNKNOWN_RANK in text:
            return f"'{name}' holds values of unknown rank: {LATE_RANK}"
    return ""


def _join(node: NodeView) -> str:
    """It takes the sizes of one element for those of all."""
    kind = node.input_types[0]
    element = kind.element if kind is not None else None
    dims = element.shape if element is not None else None
    if dims is not None and all(isinstance(dim, int) and dim > 0 for dim in dims):
        return ""
    return "elements whose ranks or sizes disagree end the process"


def _pool(node: NodeView) -> str:
    """One call for all windows, which nobody can end."""
    if no := _same(node):
        return no
    window = math.prod(node.attributes.get("kernel_shape", ()))
    if window <= USUAL_WINDOW:
        return ""
    result = node.output_types[0]
    dims = result.shape if result is not None else None
    sizes = [dim for dim in dims or () if isinstance(dim, int)]
    if dims and len(sizes) == len(dims) and window * math.prod(sizes) <= ABOUT_A_SECOND:
        return ""
    return f"it pools windows of {window} elements without looking at the time"


def _recurrence(node: NodeView) -> str:
    dims = _shape(node)
    if dims is not None and all(dim != 0 for dim in dims):
        return ""
    return "a batch of 0 ends the process"


def _gated_recurrence(node: NodeView) -> str:
    if _dtype(node) == "float64":
        return "it has a kernel for float64 that only says that there is none"
    return _recurrence(node)


def _scatter(node: NodeView) -> str:
    reduces = node.attributes.get("reduction", "none") != "none"
    if not reduces or _dtype(node) not in ("float16", "bool"):
        return ""
    return f"not all of its reductions know {_dtype(node)}"


def _slice(node: NodeView) -> str:
    """A last number that means "to the end" forwards means so backwards, too."""
    last, steps = (node.constants.get(i) for i in (2, 4))
    if len(node.inputs) < 5 or not node.inputs[4]:
        return ""
    if steps is not None and (steps > 0).all():
        return ""
    if last is not None and (last < np.iinfo(last.dtype).max).all():
        return ""
    return "backwards, it takes the largest integer for the first element"


def _squeeze(node: NodeView) -> str:
    if len(node.inputs) < 2 or not node.inputs[1]:
        return ""
    if _shape(node, 1) not in ((0,), None) and isinstance(_shape(node, 1)[0], int):
        return ""
    return "it takes an empty list of axes for all that have one element"


# They give names of classes, one for each row.
CLASSIFIERS = frozenset({"LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"})
LONGEST_NAME = 256  # characters, of a class


def _texts(node: NodeView) -> str:
    """A text that is copied, or put together, may be of any length."""
    results = [_element(kind) for kind in node.output_types if kind is not None]
    if not any(kind.dtype == "string" for kind in results):
        return ""
    names = node.attributes.get("classlabels_strings", ())
    if node.op in CLASSIFIERS and all(len(name) <= LONGEST_NAME for name in names):
        return ""
    return "the memory that its texts take is bounded by nothing"


def _pattern(node: NodeView) -> str:
    """Groups within groups end the process."""
    pattern = node.attributes.get("pattern", "")
    return "" if pattern.count("(") < 100 else "the pattern has too many groups"


def _max_unpool(node: NodeView) -> str:
    given = len(node.inputs) > 2 and node.inputs[2]
    return "it reads the indices as of output_shape" if given else ""


def _division(node: NodeView) -> str:
    """The least integer divided by -1 is a trap of the processor, which ends the process."""
    if _dtype(node) not in ("int32", "int64"):
        return ""
    divisor = node.constants.get(1)
    if divisor is not None and not (divisor == -1).any():
        return ""
    return "of integers it divides by constants other than -1 alone: by -1 it may end the process"


def _mod(node: NodeView) -> str:
    if _dtype(node) in ("int64", "uint64") and node.attributes.get("fmod", 0):
        return "with fmod=1 it divides integers of 64 bits as float64"
    floating = _dtype(node).startswith(("float", "bfloat"))
    if floating and not node.attributes.get("fmod", 0):
        return "of floating-point numbers it knows fmod=1 alone"
    return _division(node)


def _lower_half(node: NodeView, known: Bits) -> str:
    """All operands are compared, Relu's with 0."""
    if _dtype(node) != "int64":
        return ""
    operands = [_bits(node, i, known) for i, name in enumerate(node.inputs) if name]
    if all(bits is not None and bits < 31 for bits in operands):
        return ""
    return "of int64 it compares the lower 32 bits"


def _pow(node: NodeView, known: Bits) -> str:
    """Of several elements squares and cubes are products; all others are powers of float64."""
    if _dtype(node) != "int64":
        return ""
    exponent = node.constants.get(1)
    if exponent is not None and exponent.size == 1:
        power = exponent.item()
        if power in (2, 3) and any(isinstance(dim, int) and dim > 1 for dim in _shape(node) or ()):
            return ""
        bits = _bits(node, 0, known)
        if bits is not None and 0 <= power == int(power) and power * bits <= EXACT_BITS:
            return ""
    return "it computes powers of int64 as float64, except squares and cubes of several elements"


def _range(node: NodeView, known: Bits) -> str:
    """Exact where the difference of the ends is."""
    if _dtype(node) != "int64":
        return ""
    operands = [_bits(node, i, known) for i in range(3)]
    if all(bits is not None and bits < EXACT_BITS for bits in operands):
        return ""
    return "it counts int64 as float64, and nothing says that these are small"


def _sum(node: NodeView, known: Bits) -> str:
    """Kernels that add or multiply integers as float64."""
    if _dtype(node) != "int64":
        return ""
    dims = _shape(node)
    sizes = [dim for dim in dims or () if isinstance(dim, int)]
    count = math.prod(sizes) if dims is not None and len(sizes) == len(dims) else 2**SIZE_BITS
    bits = _bits(node, 0, known)
    if bits is not None:
        if node.op == "ReduceSumSquare":
            bits *= 2
        bits = bits * count if node.op == "ReduceProd" else bits + count.bit_length()
        if bits <= EXACT_BITS:
            return ""
    return "it reduces int64 as float64, and nothing says that these are small"


def _shrink(node: NodeView) -> str:
    if _dtype(node) not in ("int32", "int64", "uint32", "uint64"):
        return ""
    return "of integers it adds the bias as float32"


def _one_hot(node: NodeView) -> str:
    if not _dtype(node).startswith(("float", "bfloat")):
        return ""
    return "it compares positions that are no integers instead of cutting their fractions"


def _split_to_sequence(node: NodeView) -> str:
    """Parts that are asked for keep their axis, whatever `keepdims` says."""
    given = len(node.inputs) > 1 and node.inputs[1]
    if not given or node.attributes.get("keepdims", 1):
        return ""
    return "it drops the axis of parts whose size is given"


def _reduce(node: NodeView) -> str:
    """Axes that are known are counted from the front before it sees them."""
    dims = _shape(node)
    may_be_empty = dims is None or any(not isinstance(dim, int) or dim == 0 for dim in dims)
    if may_be_empty and len(node.inputs) > 1 and node.inputs[1] and 1 not in node.constants:
        return "over no elements it ignores axes that are counted from the end"
    return _reduce_bool(node) if node.op in ("ReduceMax", "ReduceMin") else ""


# In bodies, whose axes are not seen, they are taken all the same: what is wrong takes computed axes
# and no elements.
REDUCTIONS = frozenset(
    {
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMean",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
    }
)


def _reduce_bool(node: NodeView) -> str:
    if _dtype(node) != "bool":
        return ""
    dims = _shape(node)
    if dims is not None and all(isinstance(dim, int) and dim > 0 for dim in dims):
        return ""
    return "it fails on an empty set of bool"


def _resize(node: NodeView) -> str:
    cubic = node.attributes.get("mode") == "cubic"
    smooth = node.attributes.get("antialias", 0)
    if smooth and (_dtype(node) == "int8" or (cubic and _dtype(node) == "uint8")):
        return "it smooths bytes as if none were negative, and cuts off what passes their range"
    if cubic and not smooth and not _dtype(node).startswith("float"):
        return "its cubic kernel knows floating-point numbers alone"
    return _aligned(node) or _cropped(node)


def _cropped(node: NodeView) -> str:
    """Axes whose size stays are copied."""
    if node.attributes.get("coordinate_transformation_mode") != "tf_crop_and_resize":
        return ""
    shape = _shape(node)
    axes = node.attributes.get("axes") or range(len(shape or ()))
    region, scales, sizes = (node.constants.get(i) for i in (1, 2, 3))
    if region is not None and region.size == 2 * len(axes):
        for i, axis in enumerate(axes):
            begin, end = region[i], region[i + len(axes)]
            stays = True  # or nothing tells
            if scales is not None and scales.size == len(axes):
                stays = scales[i] == 1
            elif sizes is not None and sizes.size == len(axes) and isinstance(shape[axis], int):
                stays = sizes[i] == shape[axis]
            if stays and (begin, end) != (0, 1):
                break
        else:
            return ""
    return "it does not crop along axes whose size stays"


def _aligned(node: NodeView) -> str:
    if node.attributes.get("coordinate_transformation_mode") != "align_corners":
        return ""
    if len(node.inputs) < 3 or not node.inputs[2]:
        return ""  # by sizes
    scales = node.constants.get(2)
    dims = _shape(node)
    axes = node.attributes.get("axes")
    if scales is not None and dims is not None:
        chosen = [dims[axis] for axis in axes] if axes else dims
        if all(isinstance(dim, int) for dim in chosen):
            sizes = np.asarray(chosen, np.float64) * scales
            if np.array_equal(sizes, np.round(sizes)):
                return ""
    return "it aligns corners by the rounded size where the scale gives a fraction"


def _roi_align(node: NodeView) -> str:
    """Samples of a region are counted in 64 bits and kept in a list: the process ends."""
    ratio = node.attributes.get("sampling_ratio", 0)
    return "" if 1 <= ratio <= 64 else "its samples follow the size of a region, or are too many"


# Lists of operands, of which one that is left out ends the process.
LISTS = frozenset({"Concat", "Einsum", "Max", "Mean", "Min", "Sum"})


def _split(node: NodeView) -> str:
    if node.attributes.get("num_outputs", 0) > len(node.outputs):
        return "it makes as many parts as there are outputs, whatever 'num_outputs' says"
    return ""


def _einsum(node: NodeView) -> str:
    if len(node.inputs) > 2:
        return "it multiplies operands in turn, and two of them may be all of the memory"
    return ""


RULES: dict[str, Callable[[NodeView], str]] = {
    **LEARNED,
    "Attention": _attention,
    "AveragePool": _pool,
    "ConcatFromSequence": _join,
    "Conv": _conv,
    "ConvInteger": _conv_integer,
    "ConvTranspose": _conv,
    "Div": _division,
    "DFT": lambda node: "its sums lose digits where results are near zero",
    "Dropout": _dropout,
    "Einsum": _einsum,
    "GRU": _gated_recurrence,
    "If": _one_element,
    "LSTM": _gated_recurrence,
    "Loop": _one_element,
    "LpPool": _pool,
    "MatMulInteger": _matmul_integer,
    "MaxPool": _pool,
    "MaxUnpool": _max_unpool,
    "MeanVarianceNormalization": lambda node: "its variance may be less than nothing by rounding",
    "MelWeightMatrix": lambda node: "it takes what its operands say, whatever memory there is",
    "Mod": _mod,
    "OneHot": _one_hot,
    "QLinearConv": _same,
    "Split": _split,
    "ReduceMax": _reduce,
    "ReduceMin": _reduce,
    **dict.fromkeys(REDUCTIONS, _reduce),
    "RNN": _recurrence,
    "RoiAlign": _roi_align,
    "RegexFullMatch": _pattern,
    "Resize": _resize,
    "Scan": _bodies,
    "ScatterElements": _scatter,
    "ScatterND": _scatter,
    "SequenceAt": _one_element,
    "SequenceErase": _one_element,
    "SequenceInsert": _one_element,
    "SequenceMap": _bodies,
    "Shrink": _shrink,
    "Slice": _slice,
    "SplitToSequence": _split_to_sequence,
    "Squeeze": _squeeze,
    "STFT": lambda node: "its sums lose digits where results are near zero",
    "Unique": lambda node: "it sorts in one call, which nobody can end",
}

# Rules for large integers, which ask what is known of the operands.
RULES_OF_INTEGERS: dict[str, Callable[[NodeView, Bits], str]] = {
    **dict.fromkeys(("Clip", "Max", "Min", "Relu", "Sign"), _lower_half),
    **dict.fromkeys(("ReduceL1", "ReduceMean", "ReduceProd", "ReduceSum", "ReduceSumSquare"), _sum),
    "Pow": _pow,
    "Range": _range,
}
# Nothing is known of what a body has of them. A printed node follows the type of its result.
INTEGERS_IN_BODIES = re.compile(rf": int64\[[^]]*\] = ({'|'.join(RULES_OF_INTEGERS)})\(")


def refusal(node: NodeView, known: Bits = MappingProxyType({})) -> str:
    """Why the node is not ONNX Runtime's, or "", where so much is known of the integers."""
    if node.domain not in ("", "ai.onnx.ml"):
        return f"it is not asked about the domain '{node.domain}'"
    if max(len(set(node.inputs)), len(node.outputs)) > MOST_OPERANDS:
        return f"it takes minutes for a node of more than {MOST_OPERANDS} operands or results"
    constants = node.constants
    for i, kind in enumerate(node.input_types + node.output_types):
        if kind is not None and i not in constants and _element(kind).dtype in PACKED:
            return f"values of type {kind} do not pass its Python interface"
    for i, kind in enumerate(node.input_types):
        if kind is not None and kind.kind == "tensor" and kind.shape is None and i not in constants:
            return LATE_RANK
    if no := _texts(node):
        return no
    if node.op in RANDOM:
        return "its random numbers are others for the same seed"
    if node.op in LISTS and "" in node.inputs:
        return "an operand of a list that is left out ends the process"
    if node.op in RULES_OF_INTEGERS and (no := RULES_OF_INTEGERS[node.op](node, known)):
        return no
    rule = RULES.get(node.op)
    return rule(node) if rule else ""
