# SPDX-License-Identifier: Apache-2.0
"""Ops of OneFlow that OneFlow 0.9.0 writes on other devices than CPUs, or that only older versions
write: single ops in jobs by hand, with PyTorch as the judge. tools/make_oneflow_ops.py reads which
ops these are."""

from __future__ import annotations

import numpy as np
import openxrt
import pytest
from openxrt import _core

torch = pytest.importorskip("torch")
F = torch.nn.functional

DTYPES = {"float32": "f32", "int64": "si64", "int32": "si32", "bool": "si8"}
CASES = []
OPS = {"dropout", "dropout_grad"}  # all that are tested here


def floats(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def formula(
    op: str,
    operands: list[torch.Tensor],
    results: list[torch.Tensor],
    attributes: str = "",
    segments: tuple[list[int], list[int]] | None = None,
) -> None:
    """`results` are what PyTorch says."""
    OPS.add(op)
    CASES.append(pytest.param(op, operands, results, attributes, segments, id=op))


def type_of(x: torch.Tensor) -> str:
    array = x.numpy()
    return f"tensor<{''.join(f'{n}x' for n in array.shape)}{DTYPES[array.dtype.name]}>"


def job(
    op: str, operands: list, results: list, attributes: str, segments: tuple | None = None
) -> str:
    """The text of a job with this one op."""
    inputs = ", ".join(f"%a{i}" for i in range(len(operands)))
    types = ", ".join(type_of(x) for x in operands)
    outputs = ", ".join(f"%y{i}" for i in range(len(results)))
    made = ", ".join(type_of(y) for y in results)
    given = ['op_name = "it"', *([attributes] if attributes else [])]
    for name, sizes in zip(("operand", "result"), segments or (), strict=False):
        given.append(
            f"{name}_segment_sizes = dense<{sizes}> : vector<{len(sizes)}xi32>" if sizes else ""
        )
    arguments = ", ".join(f"%a{i}: {type_of(x)}" for i, x in enumerate(operands))
    attributes = ", ".join(text for text in given if text)
    return f"""oneflow.job @J({arguments}) -> ({made}) {{
        {outputs} = "oneflow.{op}"({inputs}) {{{attributes}}} : ({types}) -> ({made})
        oneflow.return {outputs} : {made}
    }}"""


def gradient(function, *inputs: torch.Tensor, of: int = 0, dy: torch.Tensor) -> torch.Tensor:
    """By PyTorch's autograd, for the input numbered `of`."""
    given = [x.clone().requires_grad_(i == of) for i, x in enumerate(inputs)]
    return torch.autograd.grad(function(*given), given[of], dy)[0]


X, Y, DY = floats(3, 4), floats(3, 4, seed=1), floats(3, 4, seed=2)
IMAGE, CUBE, ROW = floats(2, 4, 6, 6), floats(2, 2, 4, 4, 4), floats(2, 3, 8)
ONE = floats(1, seed=3) + 2
LABELS = torch.tensor([1, 3, 0])

for name in [
    "amp_black_identity", "amp_white_identity", "copy", "hierarchical_parallel_cast",
    "identity_buffer", "parallel_cast", "pinned_identity", "to_contiguous",
]:  # fmt: skip
    formula(name, [X], [X])

# --- element by element ---------------------------------------------------------------------------

formula("broadcast_max", [X, Y[:1]], [torch.maximum(X, Y[:1])])
formula("broadcast_min", [X, Y[:1]], [torch.minimum(X, Y[:1])])
formula("broadcast_floor_mod", [X, Y], [torch.remainder(X, Y)])
formula("multiply", [X, Y], [X * Y])
NUMBER = "has_int_operand = false, float_operand = 1.5 : f64"
formula("scalar_sub", [X], [X - 1.5], NUMBER)
formula("scalar_add_by_tensor", [X, ONE], [X + ONE])
formula("scalar_sub_by_tensor", [X, ONE], [X - ONE])
formula("scalar_div_by_tensor", [X, ONE], [X / ONE])
formula("exp2", [X], [torch.exp2(X)])
formula("exp2_grad", [X, DY], [gradient(torch.exp2, X, dy=DY)])
formula("negative_grad", [X, DY], [-DY])
formula("sigmoid_v2", [X], [torch.sigmoid(X)])
formula(
    "sigmoid_v2_grad", [X, DY], [gradient(torch.sigmoid, X, dy=DY)]
)  # fmt: skip
SOFTPLUS = "beta = 2.0 : f64, threshold = 1.0 : f64"
formula("softplus", [X], [F.softplus(X, 2, 1)], SOFTPLUS)
formula("softplus_grad", [X, DY], [gradient(lambda x: F.softplus(x, 2, 1), X, dy=DY)], SOFTPLUS)
SPARSE = torch.where(X > 0, X, torch.zeros(()))
formula("reciprocal_no_nan", [SPARSE], [torch.where(SPARSE == 0, SPARSE, 1 / SPARSE)])
formula("not_equal_zero", [SPARSE], [SPARSE != 0])
formula("zeros_like", [X], [torch.zeros_like(X)])
EMPTY = "is_floating_value = true, floating_value = 2.5 : f64"
formula("fill_", [X], [torch.full_like(X, 2.5)], EMPTY)

# --- sums -----------------------------------------------------------------------------------------

formula(
    "reduce_mean", [IMAGE], [IMAGE.mean((1, 3))], "axis = [1 : si32, 3 : si32], keepdims = false"
)
formula("square_sum", [X], [(X * X).sum()[None]])
formula("sqrt_square_sum", [X], [X.norm()[None]])
formula("multi_square_sum", [X, ROW], [((X * X).sum() + (ROW * ROW).sum())[None]])

# --- products -------------------------------------------------------------------------------------

WEIGHT, BIAS = floats(5, 4, seed=4), floats(5, seed=5)
for name in ["fully_connected", "fused_matmul_bias"]:
    formula(name, [X, WEIGHT, BIAS], [F.linear(X, WEIGHT, BIAS)])
CHANNELS = floats(4, seed=6)
formula(
    "fused_bias_add_gelu",
    [IMAGE, CHANNELS],
    [F.gelu(IMAGE + CHANNELS[:, None, None])],
    "axis = 1 : si32",
)
formula("conv_bias_grad", [IMAGE], [IMAGE.sum((0, 2, 3))])

# --- shapes and indices ---------------------------------------------------------------------------

formula("cat", [X, Y], [torch.cat([X, Y], 1)], "axis = 1 : si64")
PADS = "padding_before = [0 : si64, {0}1 : si64], padding_after = [0 : si64, {0}2 : si64]"
for name, of, middle in [
    ("constant_pad1d", X, ""),
    ("constant_pad2d", floats(2, 3, 4), "0 : si64, "),
    ("constant_pad3d", IMAGE, "0 : si64, 0 : si64, "),
]:
    VALUE = ", floating_constant_value = 0.5 : f64"
    formula(name, [of], [F.pad(of, (1, 2), value=0.5)], PADS.format(middle) + VALUE)
formula("pad_grad", [F.pad(X, (1, 2))], [X], PADS.format(""))
SIDES = "padding = [1 : si64, 2 : si64]"
for name, mode in [("reflection_pad1d", "reflect"), ("replication_pad1d", "replicate")]:
    WIDE = F.pad(ROW, (1, 2), mode=mode)
    formula(name, [ROW], [WIDE], SIDES)
    BACK = gradient(lambda x, mode=mode: F.pad(x, (1, 2), mode=mode), ROW, dy=WIDE)
    formula(name + "_grad", [WIDE], [BACK], SIDES)
formula("sort", [X], [X.sort(1, descending=True)[0]], 'direction = "DESCENDING"')
PLACES = torch.tensor([[2], [0], [2]])
formula(
    "tensor_scatter_nd_add", [X, Y, PLACES], [X.index_add(0, PLACES[:, 0], Y)]
)  # fmt: skip
formula(
    "unsorted_segment_sum",
    [X, PLACES[:, 0]],
    [torch.zeros(4, 4).index_add(0, PLACES[:, 0], X)],
    "axis = 0 : si64, num_segments = 4 : si64",
)
formula(
    "dim_scatter_add_scalar",
    [X, PLACES],
    [X.scatter_add(1, PLACES, torch.full((3, 1), 1.5))],
    "dim = 1 : si32, src_scalar = 1.5 : f32",
)
formula(
    "upsample_nearest",
    [IMAGE],
    [F.interpolate(IMAGE, scale_factor=2)],
    "height_scale = 2.0 : f64, width_scale = 2.0 : f64",
)

# --- pooling --------------------------------------------------------------------------------------

for rank, of in [(1, ROW), (2, IMAGE), (3, CUBE)]:
    sizes = ", ".join(["2 : si32"] * rank)
    none = ", ".join(["0 : si32"] * rank)
    window = f"""pool_size = [{sizes}], strides = [{sizes}], padding = "valid",
        padding_before = [{none}], padding_after = [{none}], data_format = "channels_first" """
    maximum = getattr(F, f"max_pool{rank}d")(of, 2)
    formula(f"tf_max_pool_{rank}d", [of], [maximum], window)
    formula(f"tf_avg_pool_{rank}d", [of], [getattr(F, f"avg_pool{rank}d")(of, 2)], window)
    adaptive = getattr(F, f"adaptive_max_pool{rank}d")
    half, index = adaptive(of, of.shape[-1] // 2, return_indices=True)
    size = "output_size = []"
    formula(f"adaptive_max_pool{rank}d", [of], [half, index], size)
    back = gradient(lambda x, f=adaptive: f(x, x.shape[-1] // 2), of, dy=half)
    formula(f"adaptive_max_pool{rank}d_grad", [half, of, index], [back], size)

# --- normalisation --------------------------------------------------------------------------------

GAMMA, BETA = floats(6, seed=7) + 2, floats(6, seed=8)
EPSILON = 1e-5
MEAN = IMAGE.mean(-1)
INVERSE = (IMAGE.var(-1, unbiased=False) + EPSILON).rsqrt()
LAYER = f"begin_norm_axis = 3 : si64, begin_params_axis = 3 : si64, epsilon = {EPSILON} : f64, "
formula(
    "layer_norm",
    [IMAGE, BETA, GAMMA],
    [F.layer_norm(IMAGE, (6,), GAMMA, BETA, EPSILON), MEAN, INVERSE],
    LAYER + "center = true, scale = true",
)
DIMAGE = floats(2, 4, 6, 6, seed=9)


def layer_norm(x, gamma, beta):
    return F.layer_norm(x, (6,), gamma, beta, EPSILON)


formula(
    "layer_norm_grad",
    [DIMAGE, IMAGE, MEAN, INVERSE, GAMMA],
    [gradient(layer_norm, IMAGE, GAMMA, BETA, dy=DIMAGE)],
    LAYER[:-2],
    ([1, 1, 1, 1, 1, 0], []),
)
formula(
    "layer_norm_param_grad",
    [DIMAGE, IMAGE, MEAN, INVERSE],
    [
        gradient(layer_norm, IMAGE, GAMMA, BETA, of=2, dy=DIMAGE),
        gradient(layer_norm, IMAGE, GAMMA, BETA, of=1, dy=DIMAGE),
    ],
    LAYER[:-2],
    ([], [1, 1]),
)
SCALE, SHIFT = floats(4, seed=10) + 2, floats(4, seed=11)
GROUPS = IMAGE.reshape(2, 2, -1)
formula(
    "group_norm",
    [IMAGE, SHIFT, SCALE],
    [
        F.group_norm(IMAGE, 2, SCALE, SHIFT, EPSILON),
        GROUPS.mean(-1),
        (GROUPS.var(-1, unbiased=False) + EPSILON).rsqrt(),
    ],
    f'num_groups = 2 : si32, affine = true, epsilon = {EPSILON} : f64, activation = "none"',
)
RUNNING, SPREAD = floats(4, seed=12), floats(4, seed=13) + 2
ADDEND = floats(2, 4, 6, 6, seed=14)
BATCH = f"axis = 1 : si32, epsilon = {EPSILON} : f32, momentum = 0.9 : f32, training = "
NORMAL = F.batch_norm(IMAGE, RUNNING, SPREAD, SCALE, SHIFT, eps=EPSILON)
formula(
    "normalization_add_relu",
    [IMAGE, ADDEND, RUNNING, SPREAD, SCALE, SHIFT],
    [torch.relu(NORMAL + ADDEND)],
    BATCH + "false",
    ([1, 1, 1, 1, 1, 1], [1, 0, 0, 0]),
)


def add_relu(x, addend, gamma, beta):
    return torch.relu(F.batch_norm(x, None, None, gamma, beta, True, eps=EPSILON) + addend)


ADDED = [IMAGE, ADDEND, SCALE, SHIFT]
SUM = add_relu(*ADDED)
formula(
    "normalization_add_relu_grad",
    [
        IMAGE,
        DIMAGE,
        IMAGE.mean((0, 2, 3)),
        (IMAGE.var((0, 2, 3), unbiased=False) + EPSILON).rsqrt(),
        SCALE,
        SHIFT,
        torch.zeros(1, dtype=torch.int32),
        SUM,
    ],
    [gradient(add_relu, *ADDED, of=i, dy=DIMAGE) for i in (2, 3, 0, 1)],
    BATCH.removesuffix(", training = "),
)

# --- losses ---------------------------------------------------------------------------------------

SHARES = torch.softmax(Y, 1)
EACH = floats(3, seed=15)


def entropy(x, shares):
    return F.cross_entropy(x, shares, reduction="none")


formula(
    "softmax_cross_entropy_grad",
    [EACH, SHARES, torch.softmax(X, 1)],
    [gradient(entropy, X, SHARES, dy=EACH)],
)
formula(
    "sparse_softmax_cross_entropy_ms",
    [X, LABELS],
    [torch.softmax(X, 1), entropy(X, LABELS)],
    "depth = 4 : si64",
)
formula(
    "sparse_softmax_cross_entropy_ms_grad",
    [LABELS, EACH, torch.softmax(X, 1)],
    [gradient(entropy, X, LABELS, dy=EACH)],
    "depth = 4 : si64",
)
formula(
    "sparse_cross_entropy",
    [SHARES, LABELS],
    [-torch.log(SHARES[torch.arange(3), LABELS])],
    "depth = 4 : si64",
)
TARGET = torch.sigmoid(Y)


def logits(x, target):
    return F.binary_cross_entropy_with_logits(x, target, reduction="none")


formula(
    "binary_cross_entropy_with_logits_grad",
    [X, TARGET, DY],
    [gradient(logits, X, TARGET, dy=DY)],
    "has_pos_weight = false",
)


@pytest.mark.parametrize("engine", ["native", "xla"])
@pytest.mark.parametrize(("op", "operands", "results", "attributes", "segments"), CASES)
def test_an_op_is_what_pytorch_says(
    op: str, operands: list, results: list, attributes: str, segments: tuple | None, engine: str
) -> None:
    made = _core.import_oneflow_job(job(op, operands, results, attributes, segments))
    program = openxrt.load(made["graph"], engine=list(dict.fromkeys([engine, "native"])))
    found = program.run({f"input_{i}": x.numpy() for i, x in enumerate(operands)})
    for i, wanted in enumerate(results):
        assert found[f"output_{i}"].dtype == wanted.numpy().dtype
        np.testing.assert_allclose(found[f"output_{i}"], wanted.numpy(), rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("engine", ["native", "xla"])
def test_dropout_and_its_gradient(engine: str) -> None:
    x = torch.ones(64, 64)
    mask = torch.zeros(64, 64, dtype=torch.bool)
    made = _core.import_oneflow_job(
        job("dropout", [x], [x, mask], "rate = 0.25 : f32", ([1, 0], []))
    )
    out = openxrt.load(made["graph"], engine=list(dict.fromkeys([engine, "native"]))).run(
        {"input_0": x.numpy()}
    )
    kept = out["output_1"]
    assert 0.7 < kept.mean() < 0.8
    np.testing.assert_allclose(out["output_0"], kept / 0.75, rtol=1e-6)
    scale = f"scale = {1 / 0.75} : f32"
    made = _core.import_oneflow_job(job("dropout_grad", [x, mask], [x], scale))
    program = openxrt.load(made["graph"], engine=list(dict.fromkeys([engine, "native"])))
    np.testing.assert_allclose(program(x.numpy(), kept), kept / 0.75, rtol=1e-6)
