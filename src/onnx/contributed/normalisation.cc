// SPDX-License-Identifier: Apache-2.0
// Normalisations, alone and with sums, embeddings and gates in front of or behind them.
#include <array>
#include <cmath>

#include "onnx/contributed/rewriting.h"

namespace xrt::contributed {
namespace {

// The epsilon that the fused normalisations of transformers have where none is given.
constexpr float kFusedEpsilon = 1e-12F;

ValueId sum_of(Rewriting& r, ValueId a, ValueId b, ValueId c) {
  const ValueId sum = r.add(a, b);
  return c.valid() ? r.add(sum, c) : sum;
}

// 1 / sqrt(mean(x²) + epsilon) over the last axis, in float32.
ValueId inverse_rms(Rewriting& r, ValueId x, float epsilon) {
  const ValueId mean = r.reduce("ReduceMean", r.mul(x, x), {-1});
  return r.op("Reciprocal", {r.op("Sqrt", {r.add(mean, r.number(epsilon, x))})});
}

ValueId rms_normalised(Rewriting& r, ValueId x, float epsilon) {
  return r.mul(x, inverse_rms(r, x, epsilon));
}

void rewrite_skip_layer_norm(Rewriting& r) {
  const float epsilon = r.float_attr("epsilon", kFusedEpsilon);
  const ValueId sum = sum_of(r, r.need(0), r.need(1), r.input(4));
  const std::size_t count = r.wants(2) ? 3 : r.wants(1) ? 2 : 1;
  Values outputs = r.ops("LayerNormalization", {sum, r.need(2), r.input(3)}, count,
                         {{"axis", std::int64_t{-1}}, {"epsilon", epsilon}});
  outputs.resize(3);
  outputs.push_back(sum);
  r.finish(outputs);
}

void rewrite_skip_simplified_layer_norm(Rewriting& r) {
  const float epsilon = r.float_attr("epsilon", kFusedEpsilon);
  const ValueId sum = sum_of(r, r.need(0), r.need(1), r.input(3));
  const ValueId y = r.op("RMSNormalization", {sum, r.need(2)},
                         {{"axis", std::int64_t{-1}}, {"epsilon", epsilon}});
  ValueId inverse;
  if (r.wants(2)) inverse = inverse_rms(r, r.cast(sum, DType::kFloat32), epsilon);
  r.finish({y, {}, inverse, sum});
}

void rewrite_simplified_layer_norm(Rewriting& r) {
  const auto axis = r.int_attr("axis", -1, kAxis);
  const float epsilon = r.float_attr("epsilon", 1e-5F);
  const auto stash = r.int_attr("stash_type", 1, kInt32);
  const ValueId x = r.need(0);
  const ValueId y = r.op("RMSNormalization", {x, r.need(1)},
                         {{"axis", axis}, {"epsilon", epsilon}, {"stash_type", stash}});
  ValueId inverse;
  if (r.wants(1)) {
    if (axis != -1 && axis + 1 != static_cast<std::int64_t>(r.need_rank(0))) {
      r.refuse("its second output over several axes");
    }
    inverse = inverse_rms(r, r.cast(x, DType::kFloat32), epsilon);
  }
  r.finish({y, inverse});
}

// As the standard has it since opset 17.
void rewrite_layer_norm(Rewriting& r) {
  const ValueId x = r.need(0);
  const ValueId bias = r.input(2).valid() ? r.cast_like(r.input(2), x) : ValueId{};
  r.become("LayerNormalization", {x, r.cast_like(r.need(1), x), bias}, std::move(r.attributes()));
}

// Up to opset 8 the axes were those of a picture, and the division could be left out.
void rewrite_mean_variance_norm(Rewriting& r) {
  Ints axes{0, 2, 3};
  if (r.flag("across_channels")) axes = {0, 1, 2, 3};
  const ValueId x = r.need(0);
  if (r.flag("normalize_variance", true)) {
    r.become("MeanVarianceNormalization", {x}, {{"axes", axes}});
  } else {
    r.finish({r.sub(x, r.reduce("ReduceMean", x, axes))});
  }
}

struct Embeddings {
  ValueId words, positions, segments, gamma, beta;
};

// Sum of embeddings, its normalisation, and how many words of each sentence the mask keeps.
void embed_and_normalise(Rewriting& r, const Embeddings& e, ValueId segment_ids, ValueId mask,
                         ValueId position_ids, float epsilon) {
  const ValueId ids = r.need(0);
  const ValueId words = r.gather(e.words, ids);
  const ValueId positions = position_ids.valid()
                                ? r.gather(e.positions, position_ids)
                                : r.slice_axis(e.positions, {}, r.shape(ids, 1, 2), 0);
  ValueId sum = r.add(words, positions);
  if (segment_ids.valid() && e.segments.valid()) {
    sum = r.add(sum, r.gather(e.segments, segment_ids));
  }
  const ValueId y = r.op("LayerNormalization", {sum, e.gamma, e.beta},
                         {{"axis", std::int64_t{-1}}, {"epsilon", epsilon}});
  ValueId count;
  if (r.wants(1) && mask.valid()) {
    const ValueId one = r.constant(Tensor::scalar(std::int64_t{1}));
    const ValueId kept = r.cast(r.op("Equal", {mask, r.cast_like(one, mask)}), DType::kInt32);
    count = r.reduce("ReduceSum", kept, {1}, /*keep=*/false);
  } else if (r.wants(1)) {
    const ValueId zero = r.cast(r.ints({0}), DType::kInt32);
    count = r.op("Expand", {zero, r.shape(ids, 0, 1)});
  }
  r.finish({y, count, r.wants(2) ? sum : ValueId{}});
}

void rewrite_embed_layer_norm(Rewriting& r) {
  const float epsilon = r.float_attr("epsilon", kFusedEpsilon);
  embed_and_normalise(r, {r.need(2), r.need(3), r.input(4), r.need(5), r.need(6)}, r.input(1),
                      r.input(7), r.input(8), epsilon);
}

void rewrite_quantised_embed_layer_norm(Rewriting& r) {
  const float epsilon = r.float_attr("epsilon", kFusedEpsilon);
  const auto table = [&](std::size_t i, std::size_t scale, std::size_t zero) -> ValueId {
    if (!r.input(i).valid()) return {};
    return r.op("DequantizeLinear", {r.need(i), r.single(r.need(scale)), r.single(r.need(zero))});
  };
  const Embeddings embeddings{table(2, 8, 13), table(3, 9, 14), table(4, 10, 15), table(5, 11, 16),
                              table(6, 12, 17)};
  embed_and_normalise(r, embeddings, r.input(1), r.input(7), {}, epsilon);
}

// Splits the last axis into branches: (…, C * H) to (…, C, H).
ValueId into_branches(Rewriting& r, ValueId v, ValueId shape_in_front, std::int64_t branches) {
  return r.reshape_to(v, r.concat({shape_in_front, r.ints({branches, -1})}));
}

void rewrite_branchwise_rms_norm(Rewriting& r) {
  const auto branches = r.int_attr("num_branches", 0, kLengthOrNone);
  const float epsilon = r.float_attr("epsilon", 1e-5F);
  const ValueId x = r.need(0);
  ValueId y = r.cast(x, DType::kFloat32);
  if (branches != 0) y = into_branches(r, y, r.shape(x, 0, -1), branches);
  y = rms_normalised(r, y, epsilon);
  if (r.input(1).valid()) {
    // (C * H), (C, H) or (H): rows of H.
    const ValueId rows = r.concat({r.ints({-1}), r.shape(y, -1)});
    y = r.mul(y, r.reshape_to(r.cast(r.input(1), DType::kFloat32), rows));
  }
  r.finish({r.cast_like(r.reshape_to(y, r.shape(x)), x)});
}

void rewrite_gated_rms_norm(Rewriting& r) {
  const std::string activation = r.string_attr("activation", "silu");
  const float epsilon = r.float_attr("epsilon", 1e-5F);
  const ValueId x = r.need(0);
  const ValueId scale = r.cast(r.need(1), DType::kFloat32);
  const ValueId rows = r.concat({r.ints({-1}), r.shape(scale)});
  const ValueId normal = rms_normalised(r, r.reshape_to(r.cast(x, DType::kFloat32), rows), epsilon);
  const ValueId whole = r.reshape_to(r.mul(normal, scale), r.shape(x));
  const ValueId gate = r.cast(r.need(2), DType::kFloat32);
  ValueId factor = r.op("Sigmoid", {gate});
  if (activation == "silu" || activation == "swish") {
    factor = r.mul(gate, factor);
  } else if (activation != "sigmoid") {
    r.refuse("the activation '" + activation + "' is not known");
  }
  r.finish({r.cast_like(r.mul(whole, factor), x)});
}

void rewrite_engram_gate(Rewriting& r) {
  const float epsilon = r.float_attr("epsilon", 1e-5F);
  const auto normal = [&](ValueId x, std::size_t scale) {
    return r.mul(rms_normalised(r, x, epsilon), r.cast(r.need(scale), DType::kFloat32));
  };
  const ValueId key = r.cast(r.need(0), DType::kFloat32);
  const ValueId query = r.cast(r.need(1), DType::kFloat32);
  const ValueId products = r.mul(normal(key, 3), normal(query, 4));
  const ValueId hidden = r.cast(r.shape(key, -1), DType::kFloat32);
  const ValueId dot = r.div(r.reduce("ReduceSum", products, {-1}), r.op("Sqrt", {hidden}));
  const ValueId size = r.op("Max", {r.op("Abs", {dot}), r.float_number(1e-6F)});
  const ValueId gate = r.op("Sigmoid", {r.mul(r.op("Sign", {dot}), r.op("Sqrt", {size}))});
  const ValueId value = r.unsqueeze(r.cast(r.need(2), DType::kFloat32), {2});
  const ValueId y = r.mul(gate, value);
  ValueId normed;
  if (r.wants(1)) normed = r.cast_like(normal(y, 5), r.need(0));
  r.finish({r.cast_like(y, r.need(0)), normed});
}

void rewrite_gated_add(Rewriting& r) { r.finish({r.add(r.need(0), r.mul(r.need(1), r.need(2)))}); }

// Factors of branches as (…, C, 1) or (…, C, H). `rank`: of the streams with branches as an axis.
ValueId branch_factors(Rewriting& r, std::size_t i, std::size_t rank, std::int64_t branches) {
  const ValueId v = r.cast(r.need(i), DType::kFloat32);
  if (r.need_rank(i) == rank) return v;
  if (branches == 0) return r.unsqueeze(v, {-1});
  return into_branches(r, v, r.shape(v, 0, -1), branches);
}

void rewrite_hyper_connection_pre_mix(Rewriting& r) {
  const float scale = r.float_attr("reduction_scale", 1.0F);
  const auto branches = r.int_attr("num_branches", 0, kLengthOrNone);
  const std::size_t rank = r.need_rank(0) + (branches != 0 ? 1 : 0);
  ValueId x = r.cast(r.need(0), DType::kFloat32);
  if (branches != 0) x = into_branches(r, x, r.shape(x, 0, -1), branches);
  const ValueId sum =
      r.reduce("ReduceSum", r.mul(x, branch_factors(r, 1, rank, branches)), {-2}, false);
  r.finish({r.cast_like(r.mul(sum, r.float_number(scale)), r.need(0))});
}

void rewrite_hyper_connection_post_mix(Rewriting& r) {
  const auto branches = r.int_attr("num_branches", 0, kLengthOrNone);
  const std::size_t rank = r.need_rank(0) + (branches != 0 ? 1 : 0);
  ValueId x = r.cast(r.need(0), DType::kFloat32);
  if (branches != 0) x = into_branches(r, x, r.shape(x, 0, -1), branches);
  if (r.input(3).valid()) {
    x = r.matmul(r.swapped(r.cast(r.input(3), DType::kFloat32), rank), x);
  }
  const ValueId block = r.unsqueeze(r.cast(r.need(1), DType::kFloat32), {-2});
  const ValueId y = r.add(x, r.mul(branch_factors(r, 2, rank, branches), block));
  r.finish({r.cast_like(r.reshape_to(y, r.shape(r.need(0))), r.need(0))});
}

// Channels in the last place unless it says otherwise; then SiLU where `activation` is 1.
ValueId group_normalised(Rewriting& r, ValueId x, ValueId gamma, ValueId beta) {
  const bool last = r.flag("channels_last", true);
  const auto groups = r.required_int("groups", kLength);
  const float epsilon = r.float_attr("epsilon", 1e-5F);
  const bool silu = r.int_attr("activation", 0, kAny) == 1;
  const ValueId first = last ? r.channels_first(x) : x;
  ValueId y = r.op("GroupNormalization", {first, r.cast_like(gamma, x), r.cast_like(beta, x)},
                   {{"num_groups", groups}, {"epsilon", epsilon}});
  if (silu) y = r.mul(y, r.op("Sigmoid", {y}));
  return last ? r.channels_last(y) : y;
}

void rewrite_group_norm(Rewriting& r) {
  r.finish({group_normalised(r, r.need(0), r.need(1), r.need(2))});
}

void rewrite_skip_group_norm(Rewriting& r) {
  ValueId skip = r.need(3);
  // One number per channel of each sample: (N, C) stands for (N, 1, 1, C).
  if (r.need_rank(3) == 2) skip = r.unsqueeze(skip, {1, 2});
  const ValueId sum = sum_of(r, r.need(0), skip, r.input(4));
  r.finish({group_normalised(r, sum, r.need(1), r.need(2)), sum});
}

constexpr auto kNormalisations = std::to_array<Entry>({
    {"", "LayerNormalization", rewrite_layer_norm},
    {"", "MeanVarianceNormalization", rewrite_mean_variance_norm},
    {"", "SimplifiedLayerNormalization", rewrite_simplified_layer_norm},
    {kMicrosoft, "BranchwiseRMSNorm", rewrite_branchwise_rms_norm},
    {kMicrosoft, "EmbedLayerNormalization", rewrite_embed_layer_norm},
    {kMicrosoft, "EngramGate", rewrite_engram_gate},
    {kMicrosoft, "GatedAdd", rewrite_gated_add},
    {kMicrosoft, "GatedRMSNorm", rewrite_gated_rms_norm},
    {kMicrosoft, "GroupNorm", rewrite_group_norm},
    {kMicrosoft, "HyperConnectionPostMix", rewrite_hyper_connection_post_mix},
    {kMicrosoft, "HyperConnectionPreMix", rewrite_hyper_connection_pre_mix},
    {kMicrosoft, "QEmbedLayerNormalization", rewrite_quantised_embed_layer_norm},
    {kMicrosoft, "SimplifiedLayerNormalization", rewrite_simplified_layer_norm},
    {kMicrosoft, "SkipGroupNorm", rewrite_skip_group_norm},
    {kMicrosoft, "SkipLayerNormalization", rewrite_skip_layer_norm},
    {kMicrosoft, "SkipSimplifiedLayerNormalization", rewrite_skip_simplified_layer_norm},
});

}  // namespace

std::span<const Entry> normalisation_ops() { return kNormalisations; }

}  // namespace xrt::contributed
