# SPDX-License-Identifier: Apache-2.0
"""Gradient rules, op by op, against finite differences in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import openxrt
import pytest

Array = np.ndarray


@dataclass
class Case:
    """One node; `wrt` are the inputs that are differentiated, the other ones are constants."""

    op: str
    inputs: Sequence[Array | None]
    attributes: Mapping[str, object] = field(default_factory=dict)
    outputs: int = 1
    used: int = 0  # the output that leads to the loss
    wrt: Sequence[int] | None = None  # inputs, default: all of float64
    name: str = ""
    step: float = 1e-6  # of the finite differences
    tolerance: float = 2e-6

    def __str__(self) -> str:
        return self.name or self.op


RNG = np.random.default_rng(5)


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape)


def spread(*shape: int) -> Array:
    """Different numbers, none near another or near zero."""
    count = int(np.prod(shape))
    values = (np.arange(count) - count / 2 + 0.37) * 0.21
    return RNG.permutation(values).reshape(shape)


def positive(*shape: int) -> Array:
    return RNG.uniform(0.5, 2.0, shape)


def unit(*shape: int) -> Array:
    return RNG.uniform(-0.8, 0.8, shape)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def elementwise() -> list[Case]:
    cases = [Case(op, [normal(2, 3)]) for op in ("Neg", "Exp", "Sin", "Cos", "Atan", "Sinh")]
    cases += [Case(op, [normal(2, 3)]) for op in ("Cosh", "Tanh", "Asinh", "Erf", "Identity")]
    cases += [Case(op, [unit(2, 3)]) for op in ("Tan", "Asin", "Acos", "Atanh")]
    cases += [Case(op, [positive(2, 3)]) for op in ("Log", "Sqrt", "Reciprocal")]
    cases += [Case("Abs", [spread(2, 3)]), Case("Acosh", [positive(2, 3) + 1])]
    for op in ("Add", "Sub", "Mul", "Div"):
        cases.append(Case(op, [normal(2, 3), positive(2, 3)]))
        cases.append(Case(op, [normal(2, 1, 3), positive(4, 1)], name=f"{op} broadcast"))
    cases += [
        Case("Pow", [positive(2, 3), normal(3)]),
        Case("Pow", [normal(2, 3), np.array(2.0)], wrt=[0], name="Pow square"),
        Case("Mod", [spread(2, 3), positive(2, 3)], {"fmod": 1}),
        Case("Max", [spread(2, 3), spread(3) + 0.05, spread(2, 1) + 0.11]),
        Case("Min", [spread(2, 3), spread(3) + 0.05]),
        Case("Sum", [normal(2, 3), normal(3), normal(2, 1)]),
        Case("Mean", [normal(2, 3), normal(3), normal(2, 1)]),
        Case("Where", [np.array([[True, False, True]]), normal(2, 3), normal(2, 1)]),
        Case("Clip", [spread(3, 4), np.array(-0.5), np.array(0.6)]),
    ]
    return cases


def activations() -> list[Case]:
    names = ("Relu", "LeakyRelu", "Elu", "Celu", "Selu", "Sigmoid", "Softplus", "Softsign")
    cases = [Case(op, [spread(3, 4)]) for op in names]
    cases += [Case(op, [spread(3, 4)]) for op in ("HardSigmoid", "HardSwish", "Mish", "Swish")]
    cases += [
        Case("Celu", [spread(3, 4)], {"alpha": 0.7}, name="Celu alpha"),
        Case("Swish", [spread(3, 4)], {"alpha": 1.3}, name="Swish alpha"),
        Case("ThresholdedRelu", [spread(3, 4)], {"alpha": 0.5}),
        Case("PRelu", [spread(3, 4), normal(4)]),
        Case("Shrink", [spread(3, 4)], {"lambd": 0.3, "bias": 0.1}),
        Case("Gelu", [normal(3, 4)]),
        Case("Gelu", [normal(3, 4)], {"approximate": "tanh"}, name="Gelu tanh"),
        Case("Softmax", [normal(2, 3, 4)], {"axis": 1}),
        Case("LogSoftmax", [normal(2, 3, 4)]),
    ]
    return cases


def matrices() -> list[Case]:
    return [
        Case("MatMul", [normal(3, 4), normal(4, 2)]),
        Case("MatMul", [normal(2, 3, 4), normal(4, 5)], name="MatMul batch by matrix"),
        Case("MatMul", [normal(2, 1, 3, 4), normal(5, 4, 2)], name="MatMul broadcast"),
        Case("MatMul", [normal(4), normal(4, 2)], name="MatMul vector matrix"),
        Case("MatMul", [normal(2, 3, 4), normal(4)], name="MatMul batch vector"),
        Case("MatMul", [normal(4), normal(4)], name="MatMul vectors"),
        Case("Gemm", [normal(3, 4), normal(4, 2), normal(2)], {"alpha": 0.5, "beta": 2.0}),
        Case("Gemm", [normal(4, 3), normal(2, 4), normal(3, 1)], {"transA": 1, "transB": 1}),
        Case("Gemm", [normal(3, 4), normal(2, 4)], {"transB": 1}),
        Case("Einsum", [normal(2, 3, 4), normal(4, 3, 5)], {"equation": "bij,jik->bk"}),
        Case("Einsum", [normal(2, 3, 4), normal(2, 4, 5)], {"equation": "...ij,...jk->...ik"}),
        Case("Einsum", [normal(3, 4), normal(4)], {"equation": "ij,j"}),
        Case("Einsum", [normal(2, 3, 4)], {"equation": "bij->b"}),
        Case("Det", [normal(2, 2, 2)]),
        Case("Det", [normal(2, 3, 3)]),
    ]


def convolutions() -> list[Case]:
    x, w, b = normal(2, 4, 7, 6), normal(6, 4, 3, 3), normal(6)
    return [
        Case("Conv", [x, w, b]),
        Case("Conv", [x, w], {"strides": [2, 2], "pads": [1, 1, 1, 1]}, name="Conv stride"),
        Case("Conv", [x, normal(6, 2, 3, 2), b], {"group": 2, "dilations": [2, 1]}),
        Case("Conv", [x, normal(4, 1, 3, 3)], {"group": 4, "pads": [0, 1, 2, 0]}),
        Case("Conv", [x, w], {"auto_pad": "SAME_UPPER", "strides": [2, 3]}, name="Conv same"),
        Case("Conv", [normal(2, 3, 9), normal(4, 3, 4)], {"strides": [3]}, name="Conv 1d"),
        Case("Conv", [normal(1, 2, 4, 5, 4), normal(3, 2, 2, 3, 2)], {"strides": [1, 2, 1]}),
        Case("ConvTranspose", [x, normal(4, 3, 3, 3), normal(3)], {"strides": [2, 1]}),
        Case(
            "ConvTranspose",
            [x, normal(4, 3, 3, 2)],
            {"group": 2, "strides": [2, 2], "output_padding": [1, 0], "pads": [1, 0, 1, 0]},
        ),
    ]


def pools() -> list[Case]:
    x = spread(2, 3, 6, 7)
    return [
        Case("MaxPool", [x], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        Case("MaxPool", [x], {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 1, 1, 1]}),
        Case("MaxPool", [x], {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
        Case("MaxPool", [spread(1, 2, 9)], {"kernel_shape": [3], "dilations": [2]}),
        Case("AveragePool", [x], {"kernel_shape": [2, 3], "strides": [2, 2]}),
        Case("AveragePool", [x], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        Case(
            "AveragePool",
            [x],
            {
                "kernel_shape": [3, 3],
                "pads": [1, 1, 1, 1],
                "count_include_pad": 1,
                "strides": [2, 2],
            },
        ),
        Case("AveragePool", [x], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
        Case(
            "AveragePool", [x], {"kernel_shape": [2, 2], "strides": [4, 4]}, name="AveragePool gaps"
        ),
        Case("GlobalAveragePool", [x]),
        Case("GlobalMaxPool", [x]),
        Case("GlobalLpPool", [x], {"p": 3}),
    ]


def normalizations() -> list[Case]:
    x, s, b = normal(3, 4, 5), positive(4), normal(4)
    return [
        Case("BatchNormalization", [x, s, b, normal(4), positive(4)]),
        Case(
            "BatchNormalization",
            [x, s, b, normal(4), positive(4)],
            {"training_mode": 1},
            outputs=3,
            wrt=[0, 1, 2],
            name="BatchNormalization training",
        ),
        Case(
            "BatchNormalization",
            [x, s, b, normal(4), positive(4)],
            {"training_mode": 1, "momentum": 0.0},
            outputs=3,
            wrt=[0, 1, 2],
            name="BatchNormalization batch statistics",
        ),
        Case("LayerNormalization", [x, positive(5), normal(5)]),
        Case("LayerNormalization", [x, positive(4, 5)], {"axis": 1}, name="LayerNormalization 2"),
        Case("InstanceNormalization", [x, s, b]),
        Case("GroupNormalization", [x, s, b], {"num_groups": 2}),
        Case("RMSNormalization", [x, positive(5)], {"stash_type": 11}),
        Case("LRN", [normal(2, 5, 3)], {"size": 3, "alpha": 0.5}),
        Case("LRN", [normal(2, 5, 3)], {"size": 4, "alpha": 0.5, "bias": 2.0}, name="LRN even"),
        Case("LpNormalization", [normal(3, 4)], {"axis": 1, "p": 2}),
        Case("LpNormalization", [spread(3, 4)], {"axis": 0, "p": 1}, name="LpNormalization 1"),
    ]


def reductions() -> list[Case]:
    cases = []
    for op in ("Sum", "Mean", "SumSquare", "L1", "L2", "LogSumExp", "Max", "Min", "Prod"):
        cases.append(Case(f"Reduce{op}", [spread(2, 3, 4), ints(0, 2)], name=f"Reduce{op} kept"))
        cases.append(Case(f"Reduce{op}", [spread(2, 3, 4), ints(-2)], {"keepdims": 0}))
    cases += [
        Case("ReduceLogSum", [positive(2, 3, 4), ints(1)]),
        Case("ReduceMean", [normal(2, 3)], name="ReduceMean all"),
        Case("CumSum", [normal(2, 3), np.array(1)]),
        Case("CumSum", [normal(2, 3), np.array(0)], {"reverse": 1, "exclusive": 1}),
    ]
    return cases


def shapes() -> list[Case]:
    x = normal(2, 3, 4)
    return [
        Case("Reshape", [x, ints(6, -1)]),
        Case("Flatten", [x], {"axis": 2}),
        Case("Squeeze", [normal(2, 1, 3), ints(1)]),
        Case("Unsqueeze", [x, ints(0, -1)]),
        Case("Transpose", [x], {"perm": [2, 0, 1]}),
        Case("Transpose", [x]),
        Case("Expand", [normal(3, 1), ints(2, 3, 4)]),
        Case("Concat", [x, normal(2, 2, 4)], {"axis": 1}),
        Case("Split", [normal(6, 2)], {"axis": 0, "num_outputs": 3}, outputs=3, used=1),
        Case("Slice", [x, ints(1, 0), ints(3, 3), ints(1, 2)]),
        Case("Slice", [normal(7, 5), ints(-1, 1), ints(-8, 5), ints(0, 1), ints(-2, 3)]),
        Case("Pad", [x, ints(0, 1, 2, 1, 0, 0), np.array(0.5)]),
        Case("Pad", [x, ints(0, 1, 1, 0, 2, 2)], {"mode": "reflect"}, name="Pad reflect"),
        Case("Pad", [x, ints(0, 1, 1, 0, 2, 2)], {"mode": "edge"}, name="Pad edge"),
        Case("Pad", [x, ints(0, 1, 1, 0, 2, 2)], {"mode": "wrap"}, name="Pad wrap"),
        Case("Pad", [x, ints(0, -1, 1, 0, 2, -1)], {"mode": "wrap"}, name="Pad wrap, cut"),
        Case("Tile", [x, ints(1, 2, 3)]),
        Case("DepthToSpace", [normal(1, 8, 2, 3)], {"blocksize": 2}),
        Case("DepthToSpace", [normal(1, 8, 2, 3)], {"blocksize": 2, "mode": "CRD"}),
        Case("SpaceToDepth", [normal(1, 2, 4, 6)], {"blocksize": 2}),
        Case("Trilu", [normal(3, 4)], {"upper": 0}),
    ]


def indexing() -> list[Case]:
    x = spread(3, 4)
    return [
        Case("Gather", [x, np.array([[0, 2], [-1, 0]])], {"axis": 0}),
        Case("Gather", [normal(2, 3, 4), np.array([1, 1, -2])], {"axis": 1}),
        Case("Gather", [x, np.array(1)], {"axis": 1}, name="Gather scalar"),
        Case("GatherElements", [x, np.array([[0, 1], [2, 2], [1, 1]])], {"axis": 1}),
        Case("GatherND", [x, np.array([[0, 1], [2, 2], [0, 1]])]),
        Case("GatherND", [normal(2, 3, 4), np.array([[1], [2]])], {"batch_dims": 1}),
        Case("ScatterElements", [x, np.array([[0, 1, 2, 0]]), spread(1, 4)], {"axis": 0}),
        Case("ScatterND", [x, np.array([[2], [0]]), normal(2, 4)]),
        Case("ScatterND", [x, np.array([[2], [2]]), normal(2, 4)], {"reduction": "add"}),
        Case("TopK", [x, ints(2)], {"axis": 1}, outputs=2),
    ]


def resizing() -> list[Case]:
    x = spread(1, 2, 4, 5)
    sizes = ints(1, 2, 7, 3)
    scales = np.array([1, 1, 2, 1.6], np.float32)
    cases = []
    for mode in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
        settings = {"mode": "linear", "coordinate_transformation_mode": mode}
        cases.append(Case("Resize", [x, None, None, sizes], settings, name=f"Resize {mode}"))
        cases.append(Case("Resize", [x, None, scales], settings, name=f"Resize scales {mode}"))
    cases += [
        Case("Resize", [x, None, scales], {"mode": "nearest"}, name="Resize nearest"),
        Case("Resize", [x, None, None, sizes], {"mode": "cubic"}, name="Resize cubic"),
        Case("Resize", [x, None, None, sizes], {"mode": "cubic", "exclude_outside": 1}),
    ]
    # Linear in x, so that any step will do; the engine computes in float32.
    for case in cases:
        case.step, case.tolerance = 1.0, 2e-5
    return cases


def recurrent() -> list[Case]:
    cases = []
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        for used in range(3 if op == "LSTM" else 2):
            outputs = 3 if op == "LSTM" else 2
            states = [normal(2, 2, 4) for _ in range(outputs - 1)]
            operands = [normal(3, 2, 5), normal(2, gates * 4, 5), normal(2, gates * 4, 4)]
            operands += [normal(2, 8 * gates), None, *states]
            cases.append(
                Case(
                    op,
                    operands,
                    {"hidden_size": 4, "direction": "bidirectional"},
                    outputs=outputs,
                    used=used,
                    name=f"{op} output {used}",
                )
            )
    weights = [normal(1, 12, 5), normal(1, 12, 4), normal(1, 24)]
    cases.append(
        Case("GRU", [normal(3, 2, 5), *weights], {"hidden_size": 4, "linear_before_reset": 1}, 2)
    )
    return cases


def sampling() -> list[Case]:
    image, grid = normal(2, 3, 5, 6), unit(2, 4, 3, 2) * 1.6
    cases = []
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for align in (0, 1):
                attributes = {"mode": mode, "padding_mode": padding, "align_corners": align}
                name = f"GridSample {mode} {padding} {align}"
                wrt = [0] if mode == "nearest" else [0, 1]  # the nearest element stays the same
                cases.append(Case("GridSample", [image, grid], attributes, wrt=wrt, name=name))
    places = np.array([[[[0, 7], [9, 22]]]], np.int64)
    flags = np.array([True, False, True, True])
    return [
        *cases,
        Case("GridSample", [normal(2, 2, 3, 4, 5), unit(2, 2, 3, 2, 3)], name="GridSample volume"),
        Case("LpPool", [spread(1, 2, 6, 6)], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        Case("LpPool", [spread(1, 2, 5)], {"kernel_shape": [3], "p": 3, "pads": [1, 1]}),
        Case(
            "MaxUnpool", [normal(1, 1, 2, 2), places], {"kernel_shape": [2, 2], "strides": [3, 3]}
        ),
        Case(
            "ReverseSequence", [normal(4, 3, 2), ints(1, 4, 2)], {"time_axis": 0, "batch_axis": 1}
        ),
        Case("Compress", [normal(3, 4, 2), flags], {"axis": 1}),
        Case("Compress", [normal(2, 2), flags], name="Compress flat"),
    ]


def signals() -> list[Case]:
    zeros = normal(3, 4)
    zeros[0, 1] = zeros[1, 0] = zeros[1, 3] = 0
    window, frames = positive(4), normal(2, 9, 1)
    cases = [
        Case("CumProd", [zeros, np.array(axis)], {"reverse": reverse, "exclusive": exclusive},
             name=f"CumProd {axis} {reverse} {exclusive}")
        for axis, reverse, exclusive in ((1, 0, 0), (0, 0, 1), (-1, 1, 0), (0, 1, 1))
    ]  # fmt: skip
    cases += [
        Case("CumProd", [normal(2, 3, 2), np.array(1)], name="CumProd between"),
        Case("DFT", [normal(2, 5, 2)], name="DFT"),
        Case("DFT", [normal(2, 5, 1)], {"onesided": 1}, name="DFT onesided"),
        Case("DFT", [normal(2, 6, 1), None, np.array(1)], {"onesided": 1}, name="DFT even"),
        Case("DFT", [normal(2, 5, 1)], name="DFT of reals"),
        Case("DFT", [normal(2, 5, 2)], {"inverse": 1}, name="DFT inverse"),
        Case("DFT", [normal(3, 5, 2), np.array(8), np.array(0)], name="DFT longer"),
        Case("DFT", [normal(2, 7, 2), np.array(4)], {"inverse": 1}, name="DFT shorter"),
        Case("STFT", [frames, np.array(2), window], {"onesided": 1}, name="STFT"),
        Case("STFT", [normal(2, 9, 2), np.array(3), None, np.array(4)], {"onesided": 0},
             name="STFT complex"),
        Case("Col2Im", [normal(2, 12, 9), ints(4, 4), ints(2, 2)]),
        Case("Col2Im", [normal(1, 12, 6), ints(5, 6), ints(2, 3)],
             {"strides": [2, 1], "pads": [0, 1, 1, 0], "dilations": [2, 2]}, name="Col2Im all"),
        Case("Col2Im", [normal(1, 8, 4), ints(5), ints(2)], name="Col2Im line"),
    ]  # fmt: skip
    return cases


def regions() -> list[Case]:
    image = normal(2, 4, 5, 6)
    rois = np.array([[0.3, 0.2, 4.1, 3.7], [1.0, 1.5, 2.2, 5.5], [-1.0, -2.0, 9.0, 8.0]])
    batch = ints(1, 0, 1)
    cases = []
    for mode in ("half_pixel", "output_half_pixel"):
        attributes = {"coordinate_transformation_mode": mode, "output_height": 3,
                      "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.8}  # fmt: skip
        # The op is linear in the image, and its kernel computes places in float32.
        name = f"RoiAlign {mode}"
        case = Case("RoiAlign", [image, rois, batch], attributes, wrt=[0], name=name, step=1.0)
        cases.append(case)
    offsets = unit(2, 2 * 2 * 4, 4, 5) * 1.3
    mask = positive(2, 2 * 4, 4, 5)
    return [
        *cases,
        Case("DeformConv", [image, normal(3, 4, 2, 2), unit(2, 8, 4, 5)]),
        Case(
            "DeformConv",
            [image, normal(4, 2, 2, 2), offsets, normal(4), mask],
            {"group": 2, "offset_group": 2},
            name="DeformConv groups",
        ),
        Case(
            "DeformConv",
            [image, normal(3, 4, 3, 2), unit(2, 12, 2, 4)],
            {"strides": [2, 2], "pads": [1, 1, 1, 1], "dilations": [2, 1], "kernel_shape": [3, 2]},
            name="DeformConv strided",
        ),
    ]


def all_cases() -> list[Case]:
    groups = (elementwise, activations, matrices, convolutions, pools, normalizations)
    groups += (reductions, shapes, indexing, resizing, recurrent, sampling, signals, regions)
    return [case for group in groups for case in group()]


def is_real(array: Array | None) -> bool:
    return array is not None and array.dtype == np.float64


def check(case: Case, engine: str = "native") -> None:
    """The gradient along random directions is what finite differences say."""
    wrt = [i for i in range(len(case.inputs)) if is_real(case.inputs[i])]
    wrt = wrt if case.wrt is None else list(case.wrt)
    forward = openxrt.Graph("forward")
    ids = add_node(forward, case, wrt)[0]
    forward.finish()
    run = openxrt.load(forward, engine=engine)
    values = [np.array(case.inputs[i]) for i in wrt]
    weights = np.random.default_rng(1).standard_normal(np.shape(run(*values)))

    graph = openxrt.Graph("gradient")
    ids, y = add_node(graph, case, wrt)
    graph.finish()
    seed = graph.add_constant(weights, "float64", "seed")
    for gradient in graph.gradients(y, ids, seed):
        (out,) = graph.add_node("Identity", [gradient], ["g"])
        graph.add_output(out)
    results = openxrt.load(graph, engine=engine)(*values)
    results = results[1:]  # after the node's own output

    def loss(at: Sequence[Array]) -> float:
        return float(np.sum(weights * run(*at)))

    directions = np.random.default_rng(2)
    step = case.step
    for i, gradient in enumerate(results):
        assert gradient.shape == values[i].shape
        for _ in range(3):
            d = directions.standard_normal(values[i].shape)
            up, down = list(values), list(values)
            up[i], down[i] = values[i] + step * d, values[i] - step * d
            expected = (loss(up) - loss(down)) / (2 * step)
            assert np.sum(gradient * d) == pytest.approx(
                expected, rel=case.tolerance, abs=case.tolerance / 10
            )


def add_node(graph: openxrt.Graph, case: Case, wrt: Sequence[int]) -> tuple[list[int], int]:
    ids: list[int] = []
    operands: list[int | None] = []
    for i, array in enumerate(case.inputs):
        if array is None:
            operands.append(None)
        elif i in wrt:
            ids.append(graph.add_input(f"x{i}", "float64", list(array.shape)))
            operands.append(ids[-1])
        else:
            operands.append(graph.add_constant(array, str(array.dtype), f"c{i}"))
    names = [f"y{k}" for k in range(case.outputs)]
    outputs = graph.add_node(case.op, operands, names, dict(case.attributes))
    graph.add_output(outputs[case.used])
    return ids, outputs[case.used]


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_gradient(case: Case) -> None:
    check(case)


def test_gradient_of_a_gradient() -> None:
    """d²/dx² of sum(tanh(x)³) by differentiating twice."""
    x = normal(4)
    graph = openxrt.Graph("twice")
    a = graph.add_input("x", "float64", [4])
    (t,) = graph.add_node("Tanh", [a], ["t"])
    (c,) = graph.add_node("Mul", [t, t], ["c"])
    (c,) = graph.add_node("Mul", [c, t], ["c"])
    (y,) = graph.add_node("ReduceSum", [c], ["y"], {"keepdims": 0})
    graph.finish()
    (first,) = graph.gradients(y, [a])
    (total,) = graph.add_node("ReduceSum", [first], ["total"], {"keepdims": 0})
    (second,) = graph.gradients(total, [a])
    graph.add_output(second)
    result = openxrt.load(graph, engine="native")(x)
    t = np.tanh(x)
    expected = (1 - t**2) * (6 * t - 12 * t**3)
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_a_node_without_a_gradient_is_named() -> None:
    graph = openxrt.Graph("sorted")
    x = graph.add_input("x", "float32", [4])
    (y,) = graph.add_node("Unique", [x], ["y"], name="distinct")
    (z,) = graph.add_node("ReduceSum", [y], ["z"], {"keepdims": 0})
    graph.finish()
    with pytest.raises(openxrt.Unsupported, match=r"'distinct' \(Unique\).*'x'"):
        graph.gradients(z, [x])


def test_a_way_without_a_derivative_is_named() -> None:
    graph = openxrt.Graph("rounded")
    x = graph.add_input("x", "float32", [4])
    (y,) = graph.add_node("Round", [x], ["y"], name="to_whole")
    (z,) = graph.add_node("ReduceSum", [y], ["z"], {"keepdims": 0})
    graph.finish()
    with pytest.raises(openxrt.InvalidArgument, match=r"'x' .*'to_whole' \(Round\)"):
        graph.gradients(z, [x])
    (zeros,) = graph.gradients(z, [x], allow_unused=True)
    graph.add_output(zeros)
    np.testing.assert_array_equal(
        openxrt.load(graph, engine="native")(np.ones(4, np.float32)), np.zeros(4)
    )


def test_a_loss_of_many_elements_is_refused() -> None:
    graph = openxrt.Graph("wide")
    x = graph.add_input("x", "float32", [4])
    (y,) = graph.add_node("Relu", [x], ["y"])
    with pytest.raises(openxrt.InvalidArgument, match=r"'y' is float32\[4\].*one element"):
        graph.gradients(y, [x])


@pytest.mark.parametrize("shapes", [((2, 3), (2, 3)), ((2, 3), (1, 3)), ((1, 1), (4, 3))])
@pytest.mark.parametrize("rank", [1, 2])
def test_what_was_broadcast_is_found_at_run_time(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], rank: int
) -> None:
    graph = openxrt.Graph("broadcast")
    a = graph.add_input("a", "float64", [None, None])
    b = graph.add_input("b", "float64", [None] * rank)
    (product,) = graph.add_node("Mul", [a, b], ["product"])
    (y,) = graph.add_node("ReduceSumSquare", [product], ["y"], {"keepdims": 0})
    graph.finish()
    for gradient in graph.gradients(y, [a, b]):
        graph.add_output(gradient)
    x, z = normal(*shapes[0]), normal(*shapes[1][2 - rank :])
    da, db = openxrt.load(graph, engine="native")(x, z)
    expected_a, expected_b = 2 * x * z * z, 2 * x * x * z  # before they are summed
    for found, full, like in ((da, expected_a, x), (db, expected_b, z)):
        while full.ndim > like.ndim:
            full = full.sum(0)
        for axis, (wide, own) in enumerate(zip(full.shape, like.shape, strict=True)):
            full = full.sum(axis, keepdims=True) if own != wide else full
        np.testing.assert_allclose(found, full, rtol=1e-12)
