# SPDX-License-Identifier: Apache-2.0
"""A test or two of each family from ONNX's own node tests, all nodes on the engine. On a card
``./dev test cuda`` runs all of them."""

from __future__ import annotations

import onnx
import openxrt
import pytest
from cuda_models import ENGINES
from openxrt.conformance.judge import mismatch
from openxrt.conformance.onnx_tests import Case, load_cases

NAMES = [
    "cast_FLOAT_to_FLOAT8E4M3FN",
    "cast_FLOAT16_to_FLOAT8E5M2",
    "cast_no_saturate_FLOAT_to_FLOAT8E5M2FNUZ",
    "cast_FLOAT8E4M3FNUZ_to_FLOAT16",
    "cast_FLOAT_to_INT4",
    "cast_UINT4_to_FLOAT",
    "cast_FLOAT_to_FLOAT4E2M1",
    "cast_INT2_to_INT8",
    "cast_e8m0_FLOAT_to_FLOAT8E8M0",
    "cast_DOUBLE_to_FLOAT16",
    "castlike_FLOAT_to_UINT2",
    "quantizelinear_e5m2",
    "quantizelinear_int4",
    "quantizelinear_float4e2m1",
    "dequantizelinear_e4m3fn_zero_point",
    "dequantizelinear_uint2",
    "reduce_sum_do_not_keepdims_random",
    "reduce_l2_negative_axes_keep_dims_random",
    "reduce_log_sum_exp_keepdims_random",
    "reduce_max_bool_inputs",
    "reduce_min_empty_set",
    "reduce_sum_default_axes_keepdims_random",
    "reduce_sum_empty_axes_input_noop",
    "attention_3d_with_past_and_present_qk_matmul_bias",
    "attention_24_fullymasked_qk_matmul_output_mode3_zero",
    "attention_4d_causal_nonpad_attn_mask_composition",
    "attention_4d_diff_heads_mask4d_padded_kv",
    "resize_downsample_scales_cubic_A_n0p5_exclude_outside",
    "resize_downsample_sizes_linear_antialias",
    "resize_tf_crop_and_resize_extrapolation_value",
    "resize_upsample_scales_linear_half_pixel_symmetric",
    "resize_upsample_sizes_nearest_not_smaller",
    "resize_upsample_scales_nearest_axes_3_2",
    "gridsample_bicubic",
    "gridsample_reflection_padding",
    "gridsample_volumetric_bilinear_align_corners_1",
    "linear_attention_gated_delta_gqa",
    "linear_attention_fp16",
    "causal_conv_with_state_silu_with_past_state",
    "rotary_embedding_3d_input",
    "rotary_embedding_with_interleaved_rotary_dim",
    "tensorscatter_circular",
    "top_k_smallest",
    "onehot_with_negative_axis",
]


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {case.name: case for case in load_cases(["node"])}


@pytest.mark.parametrize("name", NAMES)
def test_node_test(name: str, cases: dict[str, Case]) -> None:
    case = cases[f"test_{name}"]
    program = openxrt.load(case.model_bytes(), **ENGINES)
    assert set(program.explain()["nodes_per_engine"]) == {"cuda"}
    for inputs, expected in case.data_sets(onnx.load_from_string(case.model_bytes())):
        outputs = list(program.run(inputs).values())
        assert mismatch(expected, outputs, case.rtol, case.atol) is None
