# SPDX-License-Identifier: Apache-2.0
"""Other results than native's, and results where native refuses, that are no faults: which ops, on
which engines, under which circumstances, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

LARGE = 1e9
TINY = 1e-25
WIDE = 1 << 24
LEAST = float(np.finfo(np.float32).tiny)  # of the normal numbers
FEW = 4
# What a row may ask for: see circumstances(), levels() and ways().
FACTS = {"", "special", "wide", "zero", "level", "tiny", "shape", "unsorted", "shape is read"}
FACTS |= {"no VNNI", "few", "window of padding"}


def all_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Those of functions and of bodies included."""
    todo: list[Any] = [model.graph, *model.functions]
    while todo:
        for node in todo.pop().node:
            yield node
            todo += [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]


def parsed(content: bytes) -> onnx.ModelProto:
    """What cannot be read is a model without nodes."""
    try:
        return onnx.load_from_string(content)
    except Exception:  # protobuf's own
        return onnx.ModelProto()


def ops_of(content: bytes) -> set[str]:
    """The types of all nodes of a model."""
    return {node.op_type for node in all_nodes(parsed(content))}


def constants(model: onnx.ModelProto) -> Iterator[np.ndarray]:
    """Of the graph and of attributes."""
    tensors = list(model.graph.initializer)
    tensors += [a.t for node in all_nodes(model) for a in node.attribute if a.HasField("t")]
    for one in tensors:
        try:
            yield numpy_helper.to_array(one)
        except Exception:  # spoilt
            continue
    for node in all_nodes(model):
        for a in node.attribute:
            if a.type == onnx.AttributeProto.FLOAT:
                yield np.array([a.f])
            yield np.array(a.floats)


def circumstances(arrays: Iterable[np.ndarray]) -> set[str]:
    """Of special floats, which are not finite, large or tiny, of wide integers, and of zeros among
    so few numbers as scales are.
    """
    found = set()
    for array in arrays:
        if not isinstance(array, np.ndarray) or array.size == 0 or array.dtype == object:
            continue
        if array.dtype.kind in "iu":
            if np.any(array > WIDE) or np.any(array < -WIDE):
                found.add("wide")
        elif array.dtype.kind in "fcV":
            size = np.abs(array.astype(np.complex128))
            strange = ~np.isfinite(size) | (size >= LARGE) | ((size > 0) & (size < TINY))
            if np.any(strange):
                found.add("special")
            if size.size <= FEW and np.any(size == 0):
                found.add("zero")
    return found


@cache
def has_vnni() -> bool:
    """Whether the processor adds products of bytes in 32 bits."""
    return "vnni" in Path("/proc/cpuinfo").read_text(encoding="utf-8")


def ways(model: onnx.ModelProto) -> set[str]:
    """Whether a node leaves an order open, one reads a shape alone, or a window may lie in the
    padding, and what the processor lacks.
    """
    found = set() if has_vnni() else {"no VNNI"}
    for node in all_nodes(model):
        if any(a.name == "sorted" and a.i != 1 for a in node.attribute):
            found.add("unsorted")
        if node.op_type == "Shape":
            found.add("shape is read")
        window = next((a.ints for a in node.attribute if a.name == "kernel_shape"), ())
        pads = next((a.ints for a in node.attribute if a.name == "pads"), ())
        if any(pad >= size for pad, size in zip(pads, [*window, *window], strict=False)):
            found.add("window of padding")
    return found


def levels(expected: list[Any], values: list[Any]) -> set[str]:
    """How results differ: in shape, integers by one level at most, floats by less than the least
    normal number, or in few elements.
    """
    found = {"level", "tiny", "few"}
    for want, got in zip(expected, values, strict=False):
        if not isinstance(want, np.ndarray) or not isinstance(got, np.ndarray):
            return set()
        if want.shape != got.shape:
            return {"shape"}
        with np.errstate(invalid="ignore"):
            found -= {"few"} if np.count_nonzero(want != got) > max(1, want.size // 1000) else set()
        if want.dtype.kind in "iu":
            gap = np.abs(want.astype(np.int64) - got.astype(np.int64))
            found -= {"level"} if np.any(gap > 1) else set()
            found -= {"tiny"} if np.any(gap) else set()
        elif want.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                same = (want == got) | (np.isnan(want) & np.isnan(got))
                near = np.abs(want - got) < LEAST
            found -= set() if np.all(same) else {"level"}
            found -= set() if np.all(same | near) else {"tiny"}
        elif not np.array_equal(want, got):
            return set()
    return found


class Known(NamedTuple):
    """A row: for `outcome`, where the model has one of `ops` and `when` holds, or nothing has to;
    on `engines`, or all; with `text` in the message."""

    outcome: str
    reason: str
    ops: str = ""  # words; none means any
    when: str = ""
    engines: str = ""
    text: str = ""


# Judged by ONNX Runtime by itself, with and without its optimiser, by the reference evaluator of
# the onnx package and by NumPy, for the cases of the seed 9117.
KNOWN = [
    Known(
        "differs",
        "Sums, products and powers of numbers that are not finite or near the ends of float32 "
        "differ in what comes out: docs/reference/engines.md",
        ops="Adagrad Adam AffineGrid Attention BatchNormalization BiasGelu CausalConvWithState "
        "CDist Celu Conv ConvTranspose ConvTransposeWithDynamicPads "
        "DecoderMaskedMultiHeadAttention DeformConv DequantizeLinear Det DFT "
        "DynamicQuantizeLSTM DynamicQuantizeMatMul EmbedLayerNormalization Exp FusedConv "
        "FusedGemm FusedMatMul Gelu GlobalAveragePool GroupNormalization GroupQueryAttention "
        "GRU HardSigmoid HyperConnectionPreMix InstanceNormalization Inverse "
        "LayerNormalization LinearClassifier LogSoftmax LpNormalization LpPool LRN LSTM MatMul "
        "MatMulBnb4 MatMulIntegerToFloat MatMulNBits MeanVarianceNormalization MoE Momentum "
        "MRotaryEmbedding MultiHeadAttention NegativeLogLikelihoodLoss NGramRepeatBlock "
        "Normalizer QAttention ReduceLogSum ReduceLogSumExp ReduceSumSquare Resize "
        "RMSNormalization RNN RoiAlign RotaryEmbedding ScaledSiLU Selu SkipLayerNormalization "
        "Softmax SoftmaxCrossEntropyLoss STFT TransposeMatMul Upsample",
        when="special",
    ),
    Known(
        "differs",
        "NaN is larger than, smaller than, or left out of other numbers: docs/reference/engines.md",
        ops="ArgMax ArgMin Clip GlobalMaxPool Greater Hardmax Max MaxPool MaxpoolWithMask Min "
        "NonMaxSuppression ReduceMax ReduceMin Relu "
        "ScatterElements ScatterND Shrink ThresholdedRelu TopK Unique WordConvEmbedding",
        when="special",
    ),
    Known(
        "differs",
        "OpenVINO and XLA have no numbers below the normal ones",
        when="tiny",
        engines="openvino xla",
    ),
    Known(
        "differs",
        "A kernel of OpenVINO or XLA takes a number below the normal ones for 0",
        ops="Ceil Log Reciprocal ReduceMin Sign",
        when="special",
        engines="openvino xla",
    ),
    Known(
        "differs",
        "A float that no integer of the type stands for becomes any",
        ops="Cast CastLike DynamicQuantizeLinear QGemm QLinearAdd QLinearAveragePool QLinearConcat "
        "QLinearConv QLinearGlobalAveragePool QLinearLeakyRelu QLinearMatMul QLinearMul "
        "QLinearSoftmax QLinearWhere QuantizeLinear Range Slice",
        when="special",
    ),
    Known(
        "differs",
        "A number is divided by a scale of 0",
        ops="QLinearSoftmax QuantizeLinear",
        when="zero",
    ),
    Known(
        "differs",
        "A negative number has no unsigned integer and no float8_e8m0",
        ops="Cast",
        engines="onnxruntime openvino",
    ),
    Known(
        "differs",
        "Coordinates that are not finite or beyond 2^31 have no neighbours",
        ops="CropAndResize GridSample",
        when="special",
    ),
    Known(
        "differs",
        "A position half way between two elements, or all but: ONNX Runtime computes in float32",
        ops="GridSample Resize",
        when="few",
        engines="onnxruntime",
    ),
    Known(
        "differs",
        "Half way between two levels, or all but, the last bit of a product decides",
        ops="Div QGemm QLinearAdd QLinearAveragePool QLinearConv QLinearGlobalAveragePool "
        "QLinearLeakyRelu QLinearMul",
        when="level",
    ),
    Known(
        "differs",
        "As the row above, in all that follows from one level",
        ops="DynamicQuantizeLSTM DynamicQuantizeMatMul",
        engines="xla",
    ),
    Known(
        "differs",
        "Without VNNI two products of bytes are added in 16 bits, which saturate: "
        "docs/guides/quantization.md",
        ops="QGemm QLinearConv",
        when="no VNNI",
        engines="onnxruntime",
    ),
    Known(
        "differs",
        "No range of numbers has no scale: ONNX Runtime takes 1",
        ops="DynamicQuantizeLinear QLinearSoftmax",
        engines="onnxruntime",
    ),
    Known("differs", "An integer is divided by 0", ops="Div Mod", engines="openvino xla"),
    Known(
        "differs",
        "A score is divided by a penalty of 0",
        ops="BeamSearch",
        when="zero",
        engines="xla",
    ),
    Known(
        "differs",
        "A window that lies in the padding has no average",
        ops="QLinearAveragePool",
        when="window of padding",
        engines="xla",
    ),
    Known(
        "differs",
        "An integer overflows, in float64, 64 or 32 bits",
        ops="Abs Pow QGemm QLinearConv QuantizeLinear ReduceL1 ReduceL2 ReduceSumSquare ReduceSum",
        when="wide",
    ),
    Known(
        "differs",
        "A shift by more bits than there are",
        ops="BitShift",
        engines="openvino",
    ),
    Known("differs", "A power of 64-bit integers overflows", ops="Pow"),
    Known("differs", "A norm of integers overflows", ops="ReduceL2"),
    Known(
        "differs",
        "OpenVINO has sizes of 32 bits where constants are larger than a tensor can be",
        ops="Shape",
        when="wide",
        engines="openvino",
    ),
    Known(
        "differs",
        "A bias of integers is cast to them by the function body, and is added before a cast by "
        "ONNX Runtime, XLA and the reference evaluator",
        ops="Shrink",
        engines="onnxruntime xla",
    ),
    Known(
        "differs",
        "The greatest element is that of the magnitudes, as in scikit-learn, or of the numbers",
        ops="Normalizer",
        engines="onnxruntime",
    ),
    Known(
        "differs",
        "The mean of nothing is not defined",
        ops="ReduceMean",
        engines="onnxruntime",
    ),
    Known(
        "differs",
        "A result that is 0 but for rounding: the tolerance is relative",
        ops="BlackmanWindow",
        engines="onnxruntime",
    ),
    Known(
        "differs",
        "A loop without turns does not tell the sizes of what it would have collected",
        ops="Loop",
        when="shape",
    ),
    Known(
        "differs",
        "Texts that are no plain integers: ONNX Runtime reads their beginning",
        ops="CastLike",
        engines="onnxruntime",
    ),
    Known(
        "differs",
        "log(exp(x) + 1) becomes Softplus, which does not overflow",
        ops="Exp",
        engines="openvino",
    ),
    Known(
        "differs",
        "Axes without a dimension: an error of ONNX Runtime",
        ops="ReduceSum",
        when="shape",
        engines="openvino",
    ),
    Known(
        "differs",
        "A batch of theta that is not that of the size: an error of ONNX Runtime",
        ops="AffineGrid",
        engines="openvino",
    ),
    Known(
        "differs",
        "A vector is a column to the reference evaluator, a row to ONNX Runtime",
        ops="FeatureVectorizer",
        when="shape",
        engines="onnxruntime",
    ),
    Known(
        "differs",
        "What is not asked to be sorted has any order, and 1 alone asks for it",
        ops="TopK",
        when="unsorted",
        engines="onnxruntime",
    ),
    Known(
        "differs",
        "log(exp(x) + 1) of float64 overflows in ONNX Runtime",
        ops="Softplus",
        when="special",
        engines="onnxruntime",
    ),
    # Results where native refuses. The texts are native's.
    Known(
        "lax",
        "A float that no integer of the type stands for becomes any, which may be a valid one",
        ops="Cast DFT EmbedLayerNormalization Gather GRU SequenceErase STFT Tile",
        when="special",
        engines="xla",
    ),
    Known(
        "lax",
        "A window that lies in the padding has no average",
        ops="AveragePool QLinearAveragePool",
        text="could not create a descriptor",
    ),
    Known(
        "lax",
        "Native's windows move by less than 2^31",
        ops="LpPool MaxPool",
        engines="onnxruntime",
        text="may be 2147483647 at most",
    ),
    Known(
        "lax",
        "A band that ends beyond half the sample rate: ONNX Runtime computes it",
        ops="MelWeightMatrix",
        engines="onnxruntime",
        text="an input is out of range",
    ),
    Known("lax", "Native has no kernel for it", text="no kernel for MaxRoiPool"),
    Known("lax", "Native normalises the last axis alone", text="more than the last axis"),
    Known("lax", "Native has one scale for a tensor, or one per column", text="scales per row"),
    Known("lax", "An attribute that nothing depends on", ops="Cast CastLike", text="attribute"),
    Known(
        "lax",
        "Scale and zero point of different shapes stand for the same numbers where one has one "
        "element",
        text="scale and zero point have different shapes",
    ),
    Known(
        "lax",
        "Scales and blocks that do not fit, where there are no elements or nobody reads them",
        ops="DequantizeLinear QuantizeLinear",
        text="fit",
    ),
    Known(
        "lax", "Sizes of a node whose result nobody reads", ops="Gemm", text="do not go together"
    ),
    Known(
        "lax",
        "Sizes of a node of whose result only the shape is read, which is known before",
        ops="Conv Reshape",
        when="shape is read",
        engines="openvino xla",
    ),
    Known(
        "lax",
        "As the row above",
        ops="DepthToSpace",
        when="shape is read",
        engines="onnxruntime",
    ),
    Known(
        "lax",
        "A list of sizes that nobody reads: the result has the operand's",
        ops="Expand",
        engines="openvino xla",
        text="negative dimension",
    ),
    Known(
        "lax",
        "A picture without elements: ONNX Runtime reads none of it",
        ops="RoiAlign",
        engines="onnxruntime",
        text="an empty image",
    ),
    Known("lax", "Lengths are bounded by what an engine needs", ops="Range", text="too long"),
    Known(
        "lax",
        "Nothing is written to what has no elements",
        ops="ScatterElements ScatterND",
        text="outside an axis of size 0",
    ),
    Known(
        "lax",
        "A sequence whose element nobody reads",
        ops="SequenceAt",
        text="is outside a sequence",
    ),
    Known(
        "lax",
        "An axis that is named twice is one axis to ONNX Runtime and OpenVINO",
        engines="onnxruntime openvino",
        text="is given twice",
    ),
    Known(
        "lax",
        "The body computes the same with other sizes than those it declares",
        ops="Scan",
        text="of the body is declared",
    ),
    Known(
        "lax",
        "A decoder of another rank than the op's, whose steps broadcast by chance",
        ops="BeamSearch GreedySearch",
    ),
    Known(
        "lax",
        "A state or batch that does not fit, which the function body broadcasts",
        ops="AffineGrid CausalConvWithState FlexAttention",
    ),
    Known("lax", "Limits of memory and time are of what an engine needs", text="that it may take"),
    Known(
        "lax",
        "Limits of memory and time are of what an engine needs",
        ops="Resize",
        text="the result is too large",
    ),
    Known("lax", "Limits of memory and time are of what an engine needs", text="than its limit"),
    Known(
        "lax",
        "No parts are one element each to ONNX Runtime",
        ops="SplitToSequence",
        engines="onnxruntime",
    ),
    Known(
        "lax",
        "Lists that do not fit the features: ONNX Runtime takes the beginning of them",
        ops="FeatureVectorizer Imputer LinearClassifier LinearRegressor Normalizer Scaler "
        "TfIdfVectorizer",
        engines="onnxruntime",
    ),
]


def explains(
    row: Known, engine: str, found: tuple[str, str], ops: set[str], facts: set[str]
) -> bool:
    """Whether the row says why."""
    wanted, engines = set(row.ops.split()), set(row.engines.split())
    return (
        row.outcome == found[0]
        and row.text in found[1]
        and (not wanted or not wanted.isdisjoint(ops))
        and (not row.when or row.when in facts)
        and (not engines or engine in engines)
    )


def explanation(
    engine: str, case: Any, run: int, found: tuple[str, str], expected: Any, value: Any
) -> str:
    """The reason of the first row that explains a run's outcome and message, or ""."""
    model = parsed(case.model)
    feeds = case.runs[run][0]
    arrays = [*(feeds.values() if isinstance(feeds, dict) else feeds), *constants(model)]
    facts = circumstances(arrays)
    if found[0] == "differs":
        facts = circumstances([*arrays, *expected]) | levels(expected, value)
    facts |= ways(model)
    ops = {node.op_type for node in all_nodes(model)}
    return next((r.reason for r in KNOWN if explains(r, engine, found, ops, facts)), "")
