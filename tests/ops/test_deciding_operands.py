# SPDX-License-Identifier: Apache-2.0
"""Each row of the table of operands that decide shapes or addresses, on engines with a check of
their own and without: values that fit give results, others an error that names the node."""

from typing import Any

import numpy as np
import openxrt
import pytest
from onnx import helper
from openxrt._core import deciding_operands
from openxrt.conformance.models import make_model, value_info
from small_models import usable

HUGE = 2**62
ENGINES = ["native", "openvino", "xla", "onnxruntime"]
X = np.arange(12, dtype=np.float32).reshape(3, 4)
PICTURE = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
SIGNAL = np.arange(16, dtype=np.float32).reshape(1, 16, 1)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def one(value: int) -> np.ndarray:
    return np.array(value, np.int64)


def f32(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def recurrent(gates: int) -> list[np.ndarray | None]:
    lengths = np.array([3, 2], np.int32)
    return [f32(3, 2, 4), f32(1, gates * 2, 4), f32(1, gates * 2, 2), None, lengths]


# Inputs that fit, and attributes.
NODES: dict[str, tuple[list[np.ndarray | None], dict[str, Any]]] = {
    "AffineGrid": ([f32(1, 2, 3), ints(1, 1, 4, 4)], {}),
    "ArrayFeatureExtractor": ([X, ints(1, 3)], {}),
    "Attention": ([f32(1, 2, 4, 8)] * 3 + [None, None, None, ints(3)], {}),
    "BlackmanWindow": ([one(5)], {}),
    "CenterCropPad": ([X, ints(2, 6)], {}),
    "Col2Im": ([f32(1, 4, 9), ints(4, 4), ints(2, 2)], {}),
    "Compress": ([X, np.array([True, False, True])], {"axis": 0}),
    "ConstantOfShape": ([ints(2, 3)], {}),
    "CumProd": ([X, one(1)], {}),
    "CumSum": ([X, one(1)], {}),
    "DFT": ([SIGNAL, one(16), one(1)], {}),
    "Expand": ([X, ints(2, 3, 4)], {}),
    "GRU": (recurrent(3), {"hidden_size": 2}),
    "Gather": ([X, ints(0, -3)], {}),
    "GatherElements": ([X, ints(0, -3).reshape(1, 2)], {}),
    "GatherND": ([X, ints(0, -4).reshape(1, 2)], {}),
    "HammingWindow": ([one(5)], {}),
    "HannWindow": ([one(5)], {}),
    "LSTM": (recurrent(4), {"hidden_size": 2}),
    "MaxUnpool": (
        [f32(1, 1, 2, 2), ints(0, 2, 8, 10).reshape(1, 1, 2, 2), ints(1, 1, 4, 4)],
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    "NegativeLogLikelihoodLoss": ([X, ints(0, 3, 1)], {}),
    "OneHot": ([ints(0, 2), one(3), np.array([0, 1], np.float32)], {}),
    "Pad": ([X, ints(1, -1), np.float32(0), ints(0)], {}),
    "RNN": (recurrent(1), {"hidden_size": 2}),
    "Range": ([np.array(v, np.float32) for v in (0, 3, 1)], {}),
    "Reshape": ([X, ints(2, -1)], {}),
    "Resize": ([PICTURE, None, np.array([1, 1, 2, 2], np.float32), None], {}),
    "ReverseSequence": ([X, ints(3, 1, 2, 0)], {}),
    "RoiAlign": ([PICTURE, np.array([[0, 0, 3, 3]], np.float32), ints(0)], {}),
    "RotaryEmbedding": ([f32(1, 2, 3, 4), f32(5, 2), f32(5, 2), ints(0, 4, 2).reshape(1, 3)], {}),
    "STFT": ([SIGNAL, one(4), f32(8), one(8)], {}),
    "ScatterElements": ([X, ints(0, -3).reshape(1, 2), f32(1, 2)], {}),
    "ScatterND": ([X, ints(0, -4).reshape(1, 2), f32(1)], {}),
    "Slice": ([X, ints(0), ints(9), ints(-1), ints(2)], {}),
    "SoftmaxCrossEntropyLoss": ([X, ints(0, 3, 1)], {}),
    "Split": ([X, ints(1, 2)], {"axis": 0}),
    "Squeeze": ([f32(1, 3), ints(-2)], {}),
    "TensorScatter": ([f32(1, 4, 3), f32(1, 1, 3), ints(2)], {}),
    "Tile": ([X, ints(2, 1)], {}),
    "TopK": ([X, ints(2)], {}),
    "Trilu": ([X, one(1)], {}),
    "Unsqueeze": ([X, ints(-3)], {}),
    "Upsample": ([PICTURE, np.array([1, 1, 2, 2], np.float32)], {}),
}
KINDS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
NODES |= {f"Reduce{kind}": ([X, ints(-1)], {}) for kind in KINDS}
NODES_OF_SIZES = {"Resize": ([PICTURE, None, None, ints(1, 1, 8, 8)], {})}
OPSETS = {"Upsample": 9, "Attention": 24}
# Of these native makes something of some values: an empty window, one frame, no triangle.
LENIENT = {"BlackmanWindow", "HammingWindow", "HannWindow", "CenterCropPad", "STFT", "Trilu"}
OUTPUTS = {"Split": 2, "TopK": 2}

# What must not be accepted, by what the table asks for.
WRONG: dict[str, list[float]] = {
    "from -n to n - 1, of an axis with n elements": [7, -8, HUGE, -HUGE],
    "in each row an index per axis, from -n to n - 1": [7, -8, HUGE],
    "from -n to n - 1, of n classes, or `ignore_index`": [7, -8, HUGE],
    "from 0 to n - 1, of an axis with n elements": [7, -1, HUGE],
    "from 0 to n - 1, of a result with n elements": [16, -1, HUGE],
    "from 0 to n, of an axis with n elements": [7, -1, HUGE],
    "true for elements of the axis only": [],
    "from 0 to 2³¹ - 1": [-3, HUGE, -HUGE],
    "from 0 to 2³¹ - 1, or -1 for what is left over": [-3, HUGE, -HUGE],
    "from -(2³¹ - 1) to 2³¹ - 1": [HUGE, -HUGE],
    "any number: beyond the axis means its end": [],
    "any finite number but 0": [0, np.nan, np.inf],
    "from -rank to rank - 1": [7, -8, HUGE],
    "finite and larger than 0": [0, -1, np.nan, np.inf],
    "finite": [np.nan, np.inf],
}
# Bodies are tested with control flow (tests/exec).
ROWS = [row for row in deciding_operands() if row[1] not in ("If", "Loop")]


def node_of(op: str, at: int) -> tuple[list[np.ndarray | None], dict[str, Any]]:
    table = NODES_OF_SIZES if (op, at) == ("Resize", 3) else NODES
    return table[op]


def load(domain: str, op: str, at: int, engine: str) -> openxrt.Program:
    """The op as a node whose inputs are the model's, with open sizes where the sizes allow it."""
    inputs, attributes = node_of(op, at)
    names = ["" if array is None else f"x{i}" for i, array in enumerate(inputs)]
    results = [f"y{i}" for i in range(OUTPUTS.get(op, 1))]
    node = helper.make_node(op, names, results, name="it", domain=domain, **attributes)
    infos = [value_info(f"x{i}", array) for i, array in enumerate(inputs) if array is not None]
    engines = list(dict.fromkeys((engine, "native")))
    if op in OPSETS:
        graph = helper.make_graph([node], "g", infos, [helper.make_empty_tensor_value_info("y0")])
        opsets = [helper.make_opsetid("", OPSETS[op])]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    else:
        model = make_model([node], infos, results)
    return openxrt.load(model, engine=engines, cache_dir="")


def with_value(array: np.ndarray, value: float) -> np.ndarray | None:
    """The array with this as its last element; nothing where its type has no such number."""
    if array.dtype.kind == "f":
        changed = array.copy()
    elif not np.isfinite(value) or abs(value) > np.iinfo(array.dtype).max:
        return None
    else:
        changed = array.copy()
    changed.reshape(-1)[-1] = value
    return changed


def test_each_row_has_a_node() -> None:
    assert {op for _, op, *_ in ROWS} == set(NODES)
    assert {wanted for *_, wanted in ROWS} == set(WRONG)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("domain", "op", "at", "wanted"), [(d, o, a, w) for d, o, a, _, w in ROWS])
def test_row(domain: str, op: str, at: int, wanted: str, engine: str) -> None:
    if not usable(engine):
        pytest.skip(f"{engine} is not installed")
    program = load(domain, op, at, engine)
    inputs, _ = node_of(op, at)
    feeds = {f"x{i}": array for i, array in enumerate(inputs) if array is not None}
    program.run(feeds)
    for value in WRONG[wanted]:
        changed = with_value(feeds[f"x{at}"], value)
        if changed is None:
            continue
        given = feeds | {f"x{at}": changed}
        try:
            found = program.run(given)
        except openxrt.EngineError:
            raise
        except (openxrt.InvalidArgument, openxrt.ResourceError) as error:
            assert "'it" in str(error)
            continue
        assert op in LENIENT, value
        for name, array in load(domain, op, at, "native").run(given).items():
            np.testing.assert_array_equal(found[name], array)
    program.run(feeds)
