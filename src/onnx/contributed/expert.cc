// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts. Every expert is computed for every token and what the router did not choose
// counts nothing: right for any routing, at the price of the experts that are not chosen.
#include <fmt/format.h>

#include <array>
#include <limits>

#include "onnx/contributed/weights.h"
#include "xrt/error.h"

namespace xrt::contributed {
namespace {

struct ExpertOptions {
  std::string activation;
  std::int64_t fusion = 0;
  float alpha = 1.0F;
  float beta = 0.0F;
  float limit = std::numeric_limits<float>::infinity();
};

ExpertOptions read_expert_options(Rewriting& r) {
  ExpertOptions o;
  o.activation = r.string_attr("activation_type", "relu");
  o.fusion = r.int_attr("swiglu_fusion", 0, {0, 2});
  o.alpha = r.float_attr("activation_alpha", 1.0F);
  o.beta = r.float_attr("activation_beta", 0.0F);
  o.limit = r.float_attr("swiglu_limit", o.limit);
  if (r.flag("use_sparse_mixer")) r.refuse("use_sparse_mixer");
  return o;
}

// Weights of the chosen experts, (tokens, E), zero for all others.
ValueId routed(Rewriting& r, std::int64_t chosen, bool normalise, ValueId weights_given) {
  const ValueId logits = r.need(1);
  const ValueId wide = r.cast(logits, DType::kFloat32);
  const ValueId probabilities = r.op("Softmax", {wide}, {{"axis", std::int64_t{-1}}});
  const Values top =
      r.ops("TopK", {probabilities, r.ints({chosen})}, 2, {{"axis", std::int64_t{-1}}});
  ValueId values = top[0];
  if (weights_given.valid()) {
    values = r.op("GatherElements", {r.cast(weights_given, DType::kFloat32), top[1]},
                  {{"axis", std::int64_t{1}}});
  }
  if (normalise) values = r.div(values, r.reduce("ReduceSum", values, {-1}));
  const ValueId zeros = r.mul(probabilities, r.float_number(0.0F));
  return r.op("ScatterElements", {zeros, top[1], values}, {{"axis", std::int64_t{1}}});
}

// x (E or 1, tokens, in) times weights (E, in, out), plus a bias (E, out).
ValueId expert_product(Rewriting& r, ValueId x, ValueId weights, ValueId bias) {
  const ValueId y = r.matmul(x, weights);
  return bias.valid() ? r.add(y, r.unsqueeze(bias, {1})) : y;
}

ValueId gated_linear(Rewriting& r, const ExpertOptions& o, ValueId gate, ValueId linear) {
  if (o.limit < std::numeric_limits<float>::infinity()) {
    const ValueId high = r.number(o.limit, gate);
    gate = r.op("Clip", {gate, {}, high});
    linear = r.op("Clip", {linear, r.number(-o.limit, linear), high});
  }
  const ValueId swish = r.mul(gate, r.op("Sigmoid", {r.mul(gate, r.number(o.alpha, gate))}));
  return r.mul(swish, r.add(linear, r.number(o.beta, linear)));
}

ValueId expert_activation(Rewriting& r, const ExpertOptions& o, ValueId x) {
  if (o.activation == "relu") return r.op("Relu", {x});
  if (o.activation == "gelu") return r.op("Gelu", {x}, {{"approximate", std::string("tanh")}});
  if (o.activation == "silu") return r.mul(x, r.op("Sigmoid", {x}));
  if (o.activation == "identity") return x;
  if (o.activation != "swiglu") {
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("its activation_type '{}' is not known", o.activation));
  }
  if (o.fusion == 2) {
    const Values halves =
        r.ops("Split", {x}, 2, {{"axis", std::int64_t{-1}}, {"num_outputs", std::int64_t{2}}});
    return gated_linear(r, o, halves[0], halves[1]);
  }
  const ValueId pairs = r.reshape(x, {0, 0, -1, 2});
  return gated_linear(r, o, r.gather(pairs, r.whole(0), 3), r.gather(pairs, r.whole(1), 3));
}

struct Experts {
  ValueId w1, b1, w2, b2, w3, b3;
};

void finish_experts(Rewriting& r, const ExpertOptions& o, const Experts& e, ValueId weights) {
  const ValueId x = r.need(0);
  const ValueId tokens =
      r.unsqueeze(r.reshape_to(x, r.concat({r.ints({-1}), r.shape(x, -1)})), {0});
  ValueId hidden = expert_product(r, tokens, e.w1, e.b1);
  if (e.w3.valid()) {
    const ValueId linear = expert_product(r, tokens, e.w3, e.b3);
    hidden = o.activation == "swiglu" ? gated_linear(r, o, hidden, linear)
                                      : r.mul(expert_activation(r, o, hidden), linear);
  } else {
    hidden = expert_activation(r, o, hidden);
  }
  const ValueId answers = expert_product(r, hidden, e.w2, e.b2);  // (E, tokens, H)
  const ValueId shares = r.unsqueeze(r.transpose(r.cast_like(weights, x), {1, 0}), {2});
  const ValueId y = r.reduce("ReduceSum", r.mul(answers, shares), {0}, /*keep=*/false);
  r.finish({r.reshape_to(y, r.shape(x))});
}

void rewrite_moe(Rewriting& r) {
  const ExpertOptions o = read_expert_options(r);
  const auto k = r.int_attr("k", 1, kLength);
  const bool normalise = r.flag("normalize_routing_weights");
  const auto weights = [&](std::size_t i) -> ValueId {
    return r.input(i).valid() ? r.transpose(r.input(i), {0, 2, 1}) : ValueId{};
  };
  r.need(2);
  r.need(4);
  finish_experts(r, o, {weights(2), r.input(3), weights(4), r.input(5), weights(6), r.input(7)},
                 routed(r, k, normalise, {}));
}

// The same of weights whose shape is not known. They fill whole blocks.
ValueId open_expert_weights(Rewriting& r, ValueId packed, ValueId scales, ValueId zeros,
                            std::int64_t bits, std::int64_t block) {
  ValueId numbers = r.cast_like(unpacked_bits(r, packed, bits), scales);
  if (block > 0) numbers = r.reshape(numbers, {0, 0, -1, block});
  // Of a block, or of a row; zero points of those fill whole bytes.
  const std::int64_t axis = block > 0 ? 2 : 1;
  ValueId points = r.number(static_cast<double>(1 << (bits - 1)), scales);
  if (zeros.valid()) {
    points = r.slice_axis(unpacked_bits(r, zeros, bits), {}, r.shape(scales, axis, axis + 1), axis);
    points = r.unsqueeze(r.cast_like(points, scales), {axis + 1});
  }
  numbers = r.mul(r.sub(numbers, points), r.unsqueeze(scales, {axis + 1}));
  return r.transpose(block > 0 ? r.reshape(numbers, {0, 0, -1}) : numbers, {0, 2, 1});
}

// Experts' weights (E, rows, bytes) as numbers (E, columns, rows).
ValueId expert_weights(Rewriting& r, std::size_t i, std::size_t scale, std::size_t zero,
                       std::int64_t bits, std::int64_t block) {
  const ValueId packed = r.need(i);
  const auto experts = r.dim(packed, 0);
  const auto rows = r.dim(packed, 1);
  const auto bytes = r.dim(packed, 2);
  if (!experts || !rows || !bytes) {
    return open_expert_weights(r, packed, r.need(scale), r.input(zero), bits, block);
  }
  BlockWeights w;
  w.bits = bits;
  w.rows = product({*experts, *rows});
  w.columns = product({*bytes, 8}) / bits;
  w.block = block > 0 ? block : w.columns;
  w.packed = packed;
  w.scales = r.need(scale);
  w.zeros = r.input(zero);
  if (block <= 0 && w.zeros.valid()) {
    // One zero point a row, rows packed one behind the other.
    w.zeros = r.reshape(unpacked_bits(r, w.zeros, bits), {*experts, -1});
    w.zeros = r.cast_like(r.slice(w.zeros, {0}, {*rows}, {1}), w.scales);
  }
  const ValueId lines = r.reshape(block_dequantised(r, w), {w.columns, *experts, *rows});
  return r.transpose(lines, {1, 0, 2});
}

void rewrite_qmoe(Rewriting& r) {
  const ExpertOptions o = read_expert_options(r);
  const auto k = r.int_attr("k", 1, kLength);
  // Without weights of their own, those of the chosen experts always add up to one.
  const bool normalise = r.flag("normalize_routing_weights") || !r.input(14).valid();
  const auto bits = r.int_attr("expert_weight_bits", 4, kBits);
  const auto block = r.int_attr("block_size", 0, {-1, kLength.most});
  const std::string type = r.string_attr("quant_type", "int");
  if (type != "int") r.refuse(fmt::format("quant_type '{}'", type));
  if (r.int_attr("weights_prepacked", -1, kAny) == 1) {
    r.refuse("weights in the layout of one engine (weights_prepacked)");
  }
  const auto bits_of = [&](const char* name) { return r.int_attr(name, bits, kBits); };
  Experts e;
  e.w1 = expert_weights(r, 2, 3, 11, bits_of("fc1_expert_weight_bits"), block);
  e.b1 = r.input(4);
  e.w2 = expert_weights(r, 5, 6, 12, bits_of("fc2_expert_weight_bits"), block);
  e.b2 = r.input(7);
  if (r.input(8).valid()) {
    e.w3 = expert_weights(r, 8, 9, 13, bits_of("fc3_expert_weight_bits"), block);
    e.b3 = r.input(10);
  }
  finish_experts(r, o, e, routed(r, k, normalise, r.input(14)));
}

constexpr auto kExperts = std::to_array<Entry>({
    {kMicrosoft, "MoE", rewrite_moe},
    {kMicrosoft, "QMoE", rewrite_qmoe},
});

}  // namespace

std::span<const Entry> expert_ops() { return kExperts; }

}  // namespace xrt::contributed
